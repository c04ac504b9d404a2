# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cold or warm, by the engine's own evidence; an operator's belief is an expectation that it confirms or corrects.

Evidence, best first: the reply's ``usage.prompt_tokens_details.cached_tokens``; the counters' movement around the
request, if it was alone on the engine. Without either the state is ``unproven``: absence of evidence is not cold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..engine.metrics import Exposition

COLD_SHARE = 0.01
WARM_SHARE = 0.95
RULE = (
    "cold: at most 1 % of the prompt came from the cache; warm: at least 95 %, or every whole block that can be "
    "cached; partial: between"
)


@dataclass(frozen=True)
class CacheVerdict:
    """``state`` is cold, warm, partial or unproven. ``computed_tokens`` (None when unproven) is what was prefilled."""

    state: str
    cached_tokens: int | None
    computed_tokens: int | None
    source: str | None
    evidence: dict[str, Any]
    disagreement: str | None = None

    def to_json(self, expected: str | None) -> dict[str, Any]:
        """The ``cache`` object of a summary. ``as_expected`` is None when nothing was expected or nothing is proven."""
        known = expected is not None and self.state != "unproven"
        return {
            "state": self.state,
            "cached_tokens": self.cached_tokens,
            "computed_tokens": self.computed_tokens,
            "evidence": self.evidence,
            "expected": expected,
            "as_expected": (self.state == expected) if known else None,
        }


def judge(
    prompt_tokens: int | None,
    cached_tokens: int | None,
    deltas: Mapping[str, Any] | None = None,
    alone: bool = False,
    block_size: int | None = None,
) -> CacheVerdict:
    """Decide the state of one request.

    ``deltas`` is `engine.metrics.delta` around it, used only when it was ``alone`` on the engine; ``block_size`` in
    tokens is the engine's unit of caching, None when it does not say.
    """
    counted = _counted(prompt_tokens, deltas) if alone else None
    evidence: dict[str, Any] = {
        "source": None,
        "prompt_tokens": prompt_tokens,
        "usage_cached_tokens": cached_tokens,
        "counters": {
            key: deltas.get(key)
            for key in ("prefill_computed_tokens", "prefix_cache_hits", "prefix_cache_queries", "prompt_tokens_cached")
        }
        if deltas
        else None,
        "alone": alone if deltas else None,
        "block_size": block_size,
        "rule": RULE,
    }
    if prompt_tokens is None or prompt_tokens <= 0:
        evidence["why"] = "the prompt's token count is unknown"
        return CacheVerdict("unproven", cached_tokens, None, None, evidence)
    if cached_tokens is not None and 0 <= cached_tokens <= prompt_tokens:
        source, cached = "usage.prompt_tokens_details.cached_tokens", cached_tokens
    elif counted is not None:
        source, cached = counted
    else:
        evidence["why"] = _why_unproven(cached_tokens, deltas, alone)
        return CacheVerdict("unproven", None, None, None, evidence)
    disagreement = None
    if counted is not None and counted[1] != cached:
        disagreement = f"{source} says {cached} cached tokens, {counted[0]} says {counted[1]}"
    state = _state(prompt_tokens, cached, block_size)
    return CacheVerdict(state, cached, prompt_tokens - cached, source, {**evidence, "source": source}, disagreement)


def prefill_rate(verdict: CacheVerdict, ttft_s: float | None) -> tuple[float | None, str | None]:
    """Prompt tokens computed by the engine / ttft_s, only for a cold sample; else None and why."""
    if ttft_s is None or ttft_s <= 0:
        return None, "no first token"
    if verdict.state != "cold" or verdict.computed_tokens is None:
        return None, f"the sample is {verdict.state}, not cold"
    return verdict.computed_tokens / ttft_s, None


def block_size(exposition: Exposition | None) -> int | None:
    """The engine's caching unit in tokens: the larger of its attention and its state block."""
    info = exposition.info("cache_config_info") if exposition is not None else None
    sizes = [(info or {}).get(key, "") for key in ("block_size", "mamba_block_size")]
    return max((int(size) for size in sizes if size.isdigit()), default=None)


def pool_tokens(exposition: Exposition | None) -> int | None:
    """Size of the engine's KV pool in tokens, as it exports it."""
    info = exposition.info("cache_config_info") if exposition is not None else None
    if not info:
        return None
    if info.get("kv_cache_size_tokens", "").isdigit():
        return int(info["kv_cache_size_tokens"])
    blocks, size = info.get("num_gpu_blocks", ""), info.get("block_size", "")
    return int(blocks) * int(size) if blocks.isdigit() and size.isdigit() else None


def was_alone(before: Exposition | None, deltas: Mapping[str, Any] | None) -> bool:
    """Did the counters move for one request only? (None running before it, exactly one finished since.)"""
    if before is None or not deltas or deltas.get("restarted"):
        return False
    busy = (before.value("requests_running") or 0) + (before.value("requests_waiting") or 0)
    finished = deltas.get("requests_finished")
    return not busy and isinstance(finished, Mapping) and sum(finished.values()) == 1


def _counted(prompt_tokens: int | None, deltas: Mapping[str, Any] | None) -> tuple[str, int] | None:
    """(which counter, cached tokens) from the counters around a lone request."""
    if not deltas or not prompt_tokens:
        return None
    computed = deltas.get("prefill_computed_tokens")
    if isinstance(computed, float) and 0 < computed <= prompt_tokens:
        return "request_prefill_kv_computed_tokens", prompt_tokens - int(computed)
    hits, queries = deltas.get("prefix_cache_hits"), deltas.get("prefix_cache_queries")
    # Without a query the cache was not asked (it is off, or the counter lags): no evidence either way.
    if isinstance(hits, float) and isinstance(queries, float) and queries > 0 and hits <= prompt_tokens:
        return "prefix_cache_hits", int(hits)
    return None


def _state(prompt_tokens: int, cached: int, block: int | None) -> str:
    if cached <= prompt_tokens * COLD_SHARE:
        return "cold"
    # The last prompt token is always computed, so the last whole block before it is the most that can be cached.
    whole = (prompt_tokens - 1) // block * block if block else None
    if cached >= prompt_tokens * WARM_SHARE or (whole and cached >= whole):
        return "warm"
    return "partial"


def _why_unproven(cached_tokens: int | None, deltas: Mapping[str, Any] | None, alone: bool) -> str:
    if cached_tokens is not None:
        return "the reply's cached_tokens is impossible"
    if deltas is None:
        return "the reply carries no cached_tokens and the server exports no metrics"
    if not alone:
        return "the reply carries no cached_tokens and the request was not alone on the engine"
    return "the reply carries no cached_tokens and the counters did not show the request"
