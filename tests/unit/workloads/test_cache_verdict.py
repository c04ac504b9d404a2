# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine.metrics import parse
from ansible_collections.lobes.spike.plugins.module_utils.workloads import cache


def moved(**values: float) -> dict[str, Any]:
    keys = ("prefill_computed_tokens", "prefix_cache_hits", "prefix_cache_queries", "prompt_tokens_cached")
    return {"restarted": False, "requests_finished": {"stop": 1.0}, **dict.fromkeys(keys), **values}


@pytest.mark.parametrize(
    ("prompt", "cached", "block", "state"),
    [
        (128_073, 0, None, "cold"),
        (128_073, 1_280, None, "cold"),
        (128_073, 1_281, None, "partial"),
        (128_073, 121_668, None, "partial"),
        (128_073, 121_670, None, "warm"),
        # Every whole block that can be cached is: 16,384 x 7 of 128,073.
        (128_073, 114_688, 16_384, "warm"),
        (128_073, 98_304, 16_384, "partial"),
        (31, 16, 16, "warm"),
        (31, 16, None, "partial"),
        (31, 0, 16, "cold"),
        (8, 0, 16, "cold"),
        (None, 0, None, "unproven"),
        (10, 11, None, "unproven"),
    ],
)
def test_the_state_by_usage(prompt: int | None, cached: int, block: int | None, state: str) -> None:
    verdict = cache.judge(prompt, cached, block_size=block)
    assert verdict.state == state
    if state != "unproven":
        assert verdict.computed_tokens == (prompt or 0) - cached


def test_absence_is_never_cold() -> None:
    verdict = cache.judge(1000, None)
    assert (verdict.state, verdict.computed_tokens) == ("unproven", None)
    assert "exports no metrics" in verdict.evidence["why"]
    verdict = cache.judge(1000, None, moved(prefill_computed_tokens=1000.0), alone=False)
    assert verdict.state == "unproven"
    assert "not alone" in verdict.evidence["why"]
    assert cache.judge(1000, None, moved(), alone=True).state == "unproven"


def test_counters_decide_where_usage_is_silent() -> None:
    assert cache.judge(1000, None, moved(prefill_computed_tokens=1000.0), alone=True).state == "cold"
    assert cache.judge(1000, None, moved(prefill_computed_tokens=16.0), alone=True).state == "warm"
    by_hits = cache.judge(1000, None, moved(prefix_cache_hits=0.0, prefix_cache_queries=1000.0), alone=True)
    assert (by_hits.state, by_hits.source) == ("cold", "prefix_cache_hits")
    # No query: the cache is off or was not asked. Zero hits prove nothing then.
    assert (
        cache.judge(1000, None, moved(prefix_cache_hits=0.0, prefix_cache_queries=0.0), alone=True).state == "unproven"
    )


def test_usage_wins_and_the_difference_is_named() -> None:
    verdict = cache.judge(1000, 0, moved(prefill_computed_tokens=400.0), alone=True)
    assert verdict.state == "cold"
    assert "says 600" in str(verdict.disagreement)


def test_the_seeds_warm_that_was_cold_is_corrected() -> None:
    kept = cache.judge(1_040_073, 0).to_json("warm")
    assert (kept["state"], kept["as_expected"]) == ("cold", False)
    assert cache.judge(1_040_073, None).to_json("warm")["as_expected"] is None


def test_prefill_speed_exists_for_cold_samples_only() -> None:
    rate, reason = cache.prefill_rate(cache.judge(1_040_073, 0), 1687.85)
    assert rate == pytest.approx(616.2, abs=0.05)
    assert reason is None
    assert cache.prefill_rate(cache.judge(1000, 990), 1.0) == (None, "the sample is warm, not cold")
    assert cache.prefill_rate(cache.judge(1000, None), 1.0)[0] is None
    assert cache.prefill_rate(cache.judge(1000, 0), None) == (None, "no first token")
    # Only what the engine computed counts.
    assert cache.prefill_rate(cache.judge(1000, 10), 1.0)[0] == 990


def test_alone_needs_an_idle_engine_and_one_finished_request() -> None:
    idle = parse("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")
    busy = parse("vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n")
    assert cache.was_alone(idle, moved())
    assert not cache.was_alone(busy, moved())
    assert not cache.was_alone(idle, {**moved(), "requests_finished": {"stop": 1.0, "length": 1.0}})
    assert not cache.was_alone(idle, {**moved(), "restarted": True})
    assert not cache.was_alone(None, moved())


def test_block_and_pool_from_the_engines_own_words() -> None:
    info = parse('vllm:cache_config_info{block_size="128",mamba_block_size="2048",kv_cache_size_tokens="93184"} 1.0\n')
    assert (cache.block_size(info), cache.pool_tokens(info)) == (2048, 93184)
    info = parse('vllm:cache_config_info{block_size="16",mamba_block_size="None",num_gpu_blocks="10"} 1.0\n')
    assert (cache.block_size(info), cache.pool_tokens(info)) == (16, 160)
    assert cache.block_size(parse("")) is None
    assert cache.pool_tokens(None) is None
