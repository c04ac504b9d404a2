# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures from samples: pure functions, each with its definition and the reason when there is none.

A figure that cannot be defended is None with a reason, never a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sample import Sample

MIN_TOKENS = 64
MIN_EVENTS = 8
MIN_P99_SAMPLES = 100
MAX_TOKEN_CHARS = 256  # no vocabulary has longer tokens on average


def decode_rate(sample: Sample, forced_tokens: int | None) -> tuple[float | None, str | None]:
    """Decode speed in tokens per second, or None and why there is none.

    (completion tokens - tokens of the first token event) / (last token event - first token event), only for at least
    64 tokens in at least 8 events that were forced (min_tokens = max_tokens with ignore_eos) and ended by length.
    """
    if sample.status != "ok":
        return None, f"failed: {sample.error_kind}"
    if forced_tokens is None:
        return None, "the number of tokens was not forced"
    if sample.finish_reason != "length":
        return None, f"ended with finish_reason {sample.finish_reason}, not length"
    if sample.completion_tokens is not None and sample.completion_tokens != forced_tokens:
        return None, f"{sample.completion_tokens} tokens came where {forced_tokens} were forced"
    return observed_rate(sample)


def observed_rate(
    sample: Sample, min_tokens: int = MIN_TOKENS, min_events: int = MIN_EVENTS
) -> tuple[float | None, str | None]:
    """The same quotient for a reply whose length the model chose, or None and why there is none.

    Not the decode figure: say so wherever it is shown, and show its token count beside it.
    """
    if sample.status != "ok":
        return None, f"failed: {sample.error_kind}"
    tokens = sample.completion_tokens
    if tokens is None:
        return None, "the server sent no usage: tokens unknown"
    if tokens < min_tokens:
        return None, f"{tokens} tokens are too few (under {min_tokens})"
    if sample.characters > MAX_TOKEN_CHARS * tokens:
        return None, f"{sample.characters} characters are no text of {tokens} tokens"
    events = sample.events
    if len(events) < min_events:
        return None, f"{len(events)} token events are too few (under {min_events})"
    first = sample.first_event_tokens
    if first is None:
        return None, "tokens of the first event unknown: the server sends no running usage"
    last = events[-1][1]
    if last is not None and last != tokens:
        return None, f"running usage ends at {last}, final usage says {tokens}"
    counts = [count for _ignored, count in events if count is not None]
    if counts != sorted(counts):
        return None, "running usage went down"
    span_s = (events[-1][0] - events[0][0]) / 1e9
    if span_s <= 0:
        return None, "all tokens came in one read"
    return (tokens - first) / span_s, None


def percentile(values: Sequence[float], q: float) -> float | None:
    """The ``q``-th percentile (0..100) by linear interpolation between order statistics (Hyndman and Fan's type 7).

    None for no values.
    """
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None for no values."""
    return math.fsum(values) / len(values) if values else None


def window_ns(samples: Sequence[Sample]) -> tuple[int, int] | None:
    """(first t0, last token event) over the ok samples on CLOCK_MONOTONIC, or None without any token."""
    spans = [
        (sample.t0_ns, sample.t0_ns + sample.events[-1][0])
        for sample in samples
        if sample.status == "ok" and sample.t0_ns is not None and sample.events
    ]
    if not spans:
        return None
    return min(start for start, _ignored in spans), max(end for _ignored, end in spans)


def aggregate(samples: Sequence[Sample]) -> dict[str, Any]:
    """One level of a sweep: figures over the ok samples, failures counted.

    {requests, failed, wall_s, tokens, aggregate_tok_s, decode_tok_s_p50, decode_tok_s_min, ttft_s_mean, ttft_s_p50,
    ttft_s_p99, ttft_s_max}. ``wall_s`` runs from the first t0 to the last token; ``aggregate_tok_s`` is the completion
    tokens of the ok samples over it, None as soon as one of them has no count. ``ttft_s_p99`` is None under 100
    samples, where it would be the slowest one under another name.
    """
    good = [sample for sample in samples if sample.status == "ok"]
    window = window_ns(samples)
    wall_s = (window[1] - window[0]) / 1e9 if window else None
    counts = [sample.completion_tokens for sample in good]
    known = [count for count in counts if count is not None]
    tokens = sum(known) if good and len(known) == len(counts) else None
    rates = [rate for rate, _ignored in (decode_rate(s, s.forced_tokens) for s in good) if rate is not None]
    ttfts = [sample.ttft_s for sample in good if sample.ttft_s is not None]
    return {
        "requests": len(samples),
        "failed": len(samples) - len(good),
        "wall_s": wall_s,
        "tokens": tokens,
        "aggregate_tok_s": tokens / wall_s if tokens is not None and wall_s else None,
        "decode_tok_s_p50": percentile(rates, 50),
        "decode_tok_s_min": min(rates, default=None),
        "ttft_s_mean": mean(ttfts),
        "ttft_s_p50": percentile(ttfts, 50),
        "ttft_s_p99": percentile(ttfts, 99) if len(ttfts) >= MIN_P99_SAMPLES else None,
        "ttft_s_max": max(ttfts, default=None),
    }


def ceiling_tok_s(bytes_per_token: float, bandwidth_bytes_s: float, tokens_per_step: float = 1.0) -> float:
    """The decode speed one stream cannot exceed: each step reads ``bytes_per_token`` of weights from memory.

    ``tokens_per_step`` is above 1 under speculation (1 + accepted drafts per step).
    """
    return bandwidth_bytes_s / bytes_per_token * tokens_per_step


def implausible(sample: Sample, *, ceiling: float | None = None, text_tokens: int | None = None) -> list[str]:
    """Why this sample cannot be what it seems, [] when nothing speaks against it.

    ``ceiling`` is ``ceiling_tok_s`` of this box and model; ``text_tokens`` is the engine's own count of the text.
    """
    doubts: list[str] = []
    rate, _ignored = observed_rate(sample)
    if rate is not None and ceiling is not None and rate > ceiling:
        doubts.append(f"{rate:.1f} tok/s is above the {ceiling:.1f} tok/s the memory bandwidth allows")
    tokens = sample.completion_tokens
    if tokens and text_tokens is not None and abs(text_tokens - tokens) > 0.2 * tokens:
        doubts.append(f"the text is {text_tokens} tokens long, usage says {tokens}: degenerate output?")
    if tokens and sample.characters > MAX_TOKEN_CHARS * tokens:
        doubts.append(
            f"the text is {sample.characters} characters long, usage says {tokens} tokens: degenerate output?"
        )
    if sample.last_token_s is not None and sample.end_s is not None and sample.last_token_s > sample.end_s:
        doubts.append("the last token is later than the end")
    return doubts
