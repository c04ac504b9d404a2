# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every switch of the doubles has a row, every row is right, and the page shows the rows that there are.

``-m "not slow"`` leaves out what waits for long or needs a container engine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .catalogue import Row, listed, outcome, plain, rows
from .page import key
from .play import Player

DOUBLES = ("engine", "box")
ROWS = [row for double in DOUBLES for row in rows(double)]
PAGE = Path(__file__).resolve().parents[2] / "docs/faults.md"


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def player(request: pytest.FixtureRequest) -> Iterator[Player]:
    # Only what this run of pytest will ask for is played ahead.
    chosen = [item.callspec.params.get("row") for item in request.session.items if hasattr(item, "callspec")]
    with Player() as made:
        made.ahead([row for row in chosen if row is not None])
        yield made


@pytest.mark.parametrize("double", DOUBLES)
def test_every_switch_has_a_row_and_every_row_a_switch(double: str) -> None:
    assert [row.fault for row in rows(double)] == listed(double)


@pytest.mark.parametrize("double", DOUBLES)
def test_a_row_switches_its_fault_on_and_demands_and_shows_something(double: str) -> None:
    for row in rows(double):
        assert row.fault in [item.partition(":")[0].partition("@")[0] for item in row.given.split(",")], row.id
        assert row.right, row.id
        assert row.says, row.id


def test_the_page_shows_every_row_and_that_it_is_right() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(shown) == len(ROWS)
    for line, row in zip(shown, ROWS, strict=True):
        assert line.startswith(key(row)), f"{row.id}: write the page anew"
        assert line.endswith("| yes |"), line


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=row.id, marks=[pytest.mark.slow] if row.slow or row.double == "box" else []) for row in ROWS],
)
def test_what_the_product_says_is_right(row: Row, player: Player) -> None:
    if row.double == "box" and not docker_answers():
        pytest.skip("no container engine answers")
    found = player.play(row)
    assert not found.wrong, f"{found.wrong}; said: {found.said}"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"a.b": 1}, None), ({"a.b": True}, "a.b is 1"), ({"a.list.-1": "z"}, None), ({"a.list": ["x", "z"]}, None),
        ({"a.list": "~x.*z"}, None), ({"a.list": "!~z"}, "a.list"), ({"a.b": "> 1"}, "a.b is 1"),
        ({"a.b": "< 2"}, None), ({"a.none": "!~."}, None),
        ({"a.none": None}, None), ({"a.none": "present"}, "a.none is null"), ({"a.none": "> 0"}, "a.none is null"),
        ({"a.missing.deep": None}, None), ({"a.none": "~."}, "a.none is null"), ({"a.list.7": "x"}, "a.list.7 is null"),
    ],
)  # fmt: skip
def test_an_answer_is_held_against_what_it_must_say(right: dict[str, object], wrong: str | None) -> None:
    row = Row("engine", "f", "boot", right, ["a.list"], "f")
    found = outcome(row, {"a": {"b": 1, "none": None, "list": ["x", "z"]}})
    assert (wrong in found.wrong) if wrong else found.wrong == ""
    assert found.said == "list x / z"


def test_what_was_said_is_named_unless_it_is_a_sentence() -> None:
    series = {"n": 8, "min": 1, "p50": 20.9345, "max": 21.5}
    found = {"verdict": {"text": "clean"}, "reason": "it is so", "none": None, "series": {"power_w VIN": series}}
    row = Row("box", "f", "telemetry", {}, ["verdict.text", "reason", "none", "series.power_w VIN"], "f")
    assert outcome(row, found).said == ("verdict clean; it is so; none null; power\\_w VIN n 8, p50 20.934, max 21.5")


def test_what_an_engine_says_cannot_break_the_page() -> None:
    assert plain("\x1b[31ma|b\n<b>{{ x }}_*`" + "z" * 500).startswith("[31ma/b &lt;b>{ { x }}\\_\\*'zz")
    assert len(plain("z" * 500)) <= 220
