# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import yaml
from ansible_collections.lobes.spike.plugins.module_utils.results import document
from ansible_collections.lobes.spike.plugins.module_utils.results.window import Clocks, utc_text

ROOT = Path(__file__).resolve().parents[3]


def test_the_version_in_results_is_that_of_the_collection() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    assert galaxy["version"] == document.COLLECTION_VERSION


def test_the_plan_hash_ignores_order_and_sees_every_value() -> None:
    one = document.plan_sha256("sweep", {"a": 1, "b": [1, 2]})
    assert one == document.plan_sha256("sweep", {"b": [1, 2], "a": 1})
    assert one != document.plan_sha256("sweep", {"b": [2, 1], "a": 1})
    assert one != document.plan_sha256("decode", {"a": 1, "b": [1, 2]})


def test_status_says_what_succeeded() -> None:
    assert [document.status_of(*pair) for pair in ((3, 0), (2, 1), (0, 3), (0, 0))] == [
        "complete", "partial", "failed", "failed",
    ]  # fmt: skip


def test_what_is_returned_has_no_events_and_cut_texts() -> None:
    long = "x" * 5000
    lean = document.for_return({"summary": {"text": long}, "samples": [{"text": long, "events": {"t_us": [1]}}]})
    assert "events" not in lean["samples"][0]
    assert lean["samples"][0]["text"].endswith("[cut: 5000 characters in all]")
    assert len(json.dumps(lean)) < 8300


def test_a_text_that_was_cut_before_says_how_long_it_was_at_first() -> None:
    cut = {"text": {"characters": 10_000_000, "sha256": "0" * 64}, "arguments of call 0": {"characters": 70_000}}
    (sample,) = document.for_return({"samples": [{"text": "x" * 65536, "reasoning": "y", "cut": cut}]})["samples"]
    assert sample["text"].endswith("[cut: 10000000 characters in all]")
    assert len(sample["text"]) < 4100
    assert sample["reasoning"] == "y"


def test_utc_has_microseconds_and_a_z() -> None:
    assert utc_text(0) == "1970-01-01T00:00:00.000000Z"
    assert Clocks(lambda: 5, lambda: 1.5).now() == (5, "1970-01-01T00:00:01.500000Z")
