# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures: the definition, and the reason whenever there is none."""

from __future__ import annotations

import json

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client import Sample, unpack_events
from ansible_collections.lobes.spike.plugins.module_utils.client.figures import (
    aggregate,
    ceiling_tok_s,
    decode_rate,
    implausible,
    observed_rate,
    percentile,
)

MS = 1_000_000


def sample(tokens=128, per_event=1, first=None, itl_ms=50, ttft_ms=150, **changes):
    """A forced, finished sample: its first event at ``ttft_ms``, one event every ``itl_ms``."""
    sizes = [first or per_event]
    while sum(sizes) < tokens:
        sizes.append(min(per_event, tokens - sum(sizes)))
    events, done = [], 0
    for index, size in enumerate(sizes):
        done += size
        events.append(((ttft_ms + index * itl_ms) * MS, done))
    fields = {
        "label": "x",
        "status": "ok",
        "t0_ns": 5_000 * MS,
        "ttft_s": ttft_ms / 1000,
        "events": events,
        "completion_tokens": tokens,
        "forced_tokens": tokens,
        "first_event_tokens": sizes[0],
        "finish_reason": "length",
        **changes,
    }
    return Sample(**fields)


def test_decode_counts_from_the_first_event():
    assert decode_rate(sample(), 128) == (pytest.approx(20.0), None)
    assert decode_rate(sample(per_event=5, tokens=125), 125) == (pytest.approx(100.0), None)


def test_a_first_event_of_six_tokens_is_not_counted_as_one():
    """The fault of five public tools: n - 1 over the span would give 20.8."""
    rate, reason = decode_rate(sample(first=6, tokens=126), 126)
    assert (rate, reason) == (pytest.approx(20.0), None)


@pytest.mark.parametrize(
    ("changes", "forced", "words"),
    [
        ({"status": "failed", "error_kind": "early_close"}, 128, "early_close"),
        ({}, None, "not forced"),
        ({"finish_reason": "stop"}, 128, "finish_reason stop"),
        ({}, 256, "128 tokens came where 256 were forced"),
        ({"completion_tokens": None}, 128, "no usage"),
        ({"first_event_tokens": None}, 128, "first event unknown"),
        ({"events": [(150 * MS, 64), (151 * MS, 128)]}, 128, "2 token events"),
        ({"events": [(150 * MS, i + 1) for i in range(128)]}, 128, "one read"),
        ({"events": [(i * MS, i) for i in range(100)]}, 128, "running usage ends at 99"),
        ({"events": [(i * MS, i if i != 50 else 3) for i in range(129)]}, 128, "went down"),
    ],
)
def test_a_rate_that_cannot_be_defended_is_none_with_its_reason(changes, forced, words):
    rate, reason = decode_rate(sample(**changes), forced)
    assert rate is None
    assert words in reason


def test_nine_tokens_make_no_rate():
    """278.8 tok/s over nine tokens must be impossible."""
    rate, reason = decode_rate(sample(tokens=9), 9)
    assert (rate, reason) == (None, "9 tokens are too few (under 64)")
    assert observed_rate(sample(tokens=9, finish_reason="stop"))[0] is None
    assert observed_rate(sample(finish_reason="stop"))[0] == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([], 50, None),
        ([3.0], 99, 3.0),
        ([1.0, 2.0], 50, 1.5),
        ([4.0, 1.0, 3.0, 2.0], 25, 1.75),
        ([1.0, 2.0, 3.0], 100, 3.0),
    ],
)
def test_percentile_is_type_7(values, q, expected):
    assert percentile(values, q) == expected


def test_aggregate_counts_failures_and_leaves_them_out():
    good = [sample(t0_ns=0), sample(t0_ns=1000 * MS)]
    level = aggregate([*good, sample(status="failed", error_kind="timeout", ttft_s=0.001, completion_tokens=99_999)])
    assert (level["requests"], level["failed"], level["tokens"]) == (3, 1, 256)
    assert level["wall_s"] == pytest.approx(1.0 + 0.15 + 127 * 0.05)
    assert level["aggregate_tok_s"] == pytest.approx(256 / level["wall_s"])
    assert (level["ttft_s_max"], level["ttft_s_p99"]) == (0.15, None)


def test_aggregate_of_nothing_is_absent_not_zero():
    level = aggregate([sample(status="failed", error_kind="stall")])
    assert (level["requests"], level["failed"]) == (1, 1)
    assert all(level[name] is None for name in level if name not in ("requests", "failed"))


def test_one_sample_without_a_count_makes_the_sum_unknown():
    assert aggregate([sample(), sample(completion_tokens=None)])["aggregate_tok_s"] is None


def test_p99_appears_at_a_hundred_samples():
    assert aggregate([sample()] * 99)["ttft_s_p99"] is None
    assert aggregate([sample()] * 100)["ttft_s_p99"] == 0.15


def test_a_rate_above_the_bandwidth_is_named():
    ceiling = ceiling_tok_s(bytes_per_token=3.4e9, bandwidth_bytes_s=273e9)
    assert implausible(sample(), ceiling=ceiling) == []
    assert "above" in implausible(sample(itl_ms=1), ceiling=ceiling)[0]
    assert "degenerate" in implausible(sample(), text_tokens=90)[0]


def test_events_are_compact_and_come_back():
    packed = sample(tokens=512).to_json()["events"]
    assert len(json.dumps(packed)) < 512 * 12
    assert unpack_events(packed) == sample(tokens=512).events
    assert unpack_events({"t_us": [5, 5], "tok": [None, 3]}) == [(5000, None), (10000, 3)]


def test_a_sweep_of_32_by_512_stays_under_a_megabyte():
    one = sample(tokens=512, text="word " * 512)
    assert len(json.dumps([one.to_json()] * 32)) < 1_000_000
