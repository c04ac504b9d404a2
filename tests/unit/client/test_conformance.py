# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conformance set: ours is right on every stream, and the published table is the catalogue's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS))

from conformance.__main__ import run
from conformance.catalogue import CATALOGUE, table
from conformance.judge import judge

sys.path.remove(str(TESTS))


def test_ours_is_right_on_every_stream():
    verdicts = run("ours", list(CATALOGUE))
    assert {name: why for name, (what, why) in verdicts.items() if what != "right"} == {}


def test_the_published_table_is_the_catalogue():
    published = json.loads((TESTS / "conformance" / "expected.json").read_text(encoding="utf-8"))
    assert published == json.loads(json.dumps(table())), "run: python3 -m conformance export (from tests/)"


RIGHT = CATALOGUE["clean"].expect


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, set()),
        ({"ttft_s": 0.05}, {"ttft_s"}),  # the role event taken for the first token
        ({"ttft_s": None}, {"ttft_s"}),
        ({"tokens": 17}, {"tokens"}),
        ({"decode_tok_s": 10.7}, {"decode_tok_s"}),  # n - 1 where the first event had two
        ({"status": "failed"}, {"status"}),
        ({"last_token_s": 2.3}, {"last_token_s"}),  # the usage event taken for a token
    ],
)
def test_the_judge_sees_each_fault(change, wrong):
    assert set(judge(RIGHT, {**RIGHT, **change})) == wrong


def test_the_judge_wants_no_figure_where_there_is_none():
    assert set(judge(CATALOGUE["one"].expect, {"status": "ok", "decode_tok_s": 1.0})) == {"decode_tok_s"}


def test_the_judge_wants_the_message_kept():
    expect = CATALOGUE["error-midstream"].expect
    assert judge(expect, {"status": "failed", "error": "EngineCore encountered an issue. See stack trace."}) == {}
    assert set(judge(expect, {"status": "failed", "error": "500"})) == {"error"}
    assert set(judge(expect, {"status": "ok", "ttft_s": 0.5})) == {"status"}


def test_a_figure_that_a_tool_does_not_report_is_not_judged():
    assert judge(RIGHT, {"status": "ok"}) == {}
