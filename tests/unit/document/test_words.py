"""Strings and numbers of the document: nothing hostile gets through, nothing depends on a locale."""

from __future__ import annotations

import unicodedata

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document.words import (
    ABSENT,
    clean,
    columns,
    decimal,
    fixed,
    grouped,
    harmless,
    markdown_table,
    percent,
    quote,
    ratio,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "places", "shown"),
    [
        (79.25, 2, "79.25"), (73.7, 2, "73.7"), (75.0, 1, "75.0"), (541, 1, "541.0"), (1687.85, 2, "1687.85"),
        (131.7, 2, "131.7"), (4.9, 3, "4.9"), (3.897, 3, "3.897"), (12, 0, "12"), (-0.001, 2, "0.0"), (None, 2, ABSENT),
    ],
)  # fmt: skip
def test_a_decimal_keeps_what_it_has(value: float | None, places: int, shown: str) -> None:
    assert decimal(value, places) == shown


def test_numbers_are_grouped_and_never_localised() -> None:
    assert fixed(1687.85) == "1,687.85"
    assert grouped(1048576) == "1,048,576"
    assert (fixed(None), grouped(None)) == (ABSENT, ABSENT)
    assert ratio(141.14, 78.68) == "1.79x"
    assert (ratio(1.0, 0), ratio(None, 1)) == (ABSENT, ABSENT)
    assert percent(45.02, 33.41) == "+34.8%"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("a\x00b\x08c\x7f\x9bd", "abcd"),
        ("a\u202eb\u2066c\u200bd", "a\\u202eb\\u2066c\\u200bd"),
        ("lone\ud800", "lone\\ud800"),
        ("one\ntwo\ttab", "one two tab"),
    ],
)
def test_clean_leaves_plain_text(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_quote_escapes_and_cuts_with_a_mark() -> None:
    assert quote('say "hi"\n') == '"say \\"hi\\"\\n"'
    assert quote(None) == "(nothing)"
    assert quote("x" * 10_000_000) == '"' + "x" * 240 + '" ... [cut: 10,000,000 characters in all]'


@given(st.text(st.characters(codec=None)))
def test_no_control_character_survives(raw: str) -> None:
    for shown in (clean(raw), quote(raw)):
        assert harmless(shown) == shown
        assert not [character for character in shown if unicodedata.category(character) == "Cc"]
        shown.encode("utf-8")


def test_columns_are_aligned_and_have_no_trailing_blanks() -> None:
    assert columns(["N", "tok/s", "note"], [["1", "76.2", "x"], ["32", "1,541.0", ""]]) == [
        "  N  | tok/s   | note",
        "   1 |    76.2 | x",
        "  32 | 1,541.0 |",
    ]


def test_a_bar_in_a_cell_cannot_make_a_column() -> None:
    assert markdown_table(["a", "b"], [["x|y", "z"]]) == ["| a | b |", "|---|---|", "| x\\|y | z |"]
