# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result documents -> figures, one flat list; and the rules under which a recorded number is a figure at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError

from ..evidence import Boot, Evidence, Result, flag, mapping, number, numbers, rows, text, value, whole
from ..expectations import judge
from .model import Figure, Probe, Ref
from .words import clean, quote

MIN_DECODE_TOKENS: Final = 64
"""A decode rate over fewer forced tokens is no figure."""

DEFINITIONS: Final[tuple[tuple[str, str], ...]] = (
    ("t0", "the first byte of a request is handed to the kernel, on a connection that is already open"),
    ("ttft_s", "t0 to the first event with a non-empty delta: content, reasoning or tool-call text"),
    (
        "decode_tok_s",
        "(completion tokens - tokens of the first event) / (last token - first token), tokens from usage; only for "
        f">= {MIN_DECODE_TOKENS} forced tokens that ended with finish_reason length",
    ),
    ("prefill_tok_s", "prompt tokens the engine computed / ttft_s; cold samples only"),
    ("aggregate_tok_s", "completion tokens of a level / (last token of any request - first t0)"),
    ("cold, warm", "by the engine's own evidence (cached tokens, else metric deltas); else unproven, never assumed"),
    ("p50, p99", "linear interpolation (type 7); p99 is absent under 100 samples"),
    ("wall_s", "t0 of the first request to the end of the last"),
    (
        "KV-pool capacity ceiling",
        "KV cache tokens / max_model_len: how many full-length requests the cache could hold. It is not measured "
        "concurrency and no throughput multiplier, and is not compared across different max_model_len",
    ),
)

SWEEP_MEASURES: Final = (
    "aggregate_tok_s",
    "decode_tok_s_p50",
    "decode_tok_s_min",
    "ttft_s_mean",
    "ttft_s_p50",
    "ttft_s_p99",
    "ttft_s_max",
    "wall_s",
    "failed",
    "client_cpu_s",
)
AGENTIC_MEASURES: Final = (
    "tool_calls_valid",
    "tool_calls_total",
    "recall_passed",
    "recall_total",
    "wall_s",
    "ttft_s_p50",
    "ttft_s_max",
    "decode_tok_s_p50",
    "decode_tok_s_min",
    "burst_tok_s_p50",
    "burst_tok_s_min",
)


def extract(evidence: Evidence) -> tuple[Figure, ...]:
    """Every figure of every arm, in the order of the plan."""
    figures: list[Figure] = []
    for arm in evidence.arms:
        if arm.boot is not None:
            figures += _boot(arm.boot)
        for result in arm.results:
            figures += _EXTRACTORS.get(result.phase, _nothing)(result)
    return tuple(figures)


def probes(evidence: Evidence) -> tuple[Probe, ...]:
    """The verdict of every probe, judged here and now from the reply in the evidence."""
    return tuple(_probe(result) for arm in evidence.arms for result in arm.of("probe"))


def find(
    figures: Iterable[Figure], arm: str, workload: str, measure: str, state: str | None = None
) -> tuple[Figure, ...]:
    """The figures of one arm, workload and measure (and state, when it is given)."""
    return tuple(
        figure
        for figure in figures
        if figure.arm == arm
        and figure.workload == workload
        and figure.measure == measure
        and state in (None, figure.state)
    )


def needle_target(result: Result) -> int | None:
    """How deep a needle was meant to be: the target's tokens, else what the prompt had."""
    known = (
        whole(result.summary, "target_tokens"),
        whole(result.plan, "prompt_tokens"),
        whole(result.summary, "prompt_tokens"),
    )
    return next((tokens for tokens in known if tokens is not None and tokens > 0), None)


def needle_state(result: Result) -> str:
    """cold, warm, partial or unproven, by the evidence in the result."""
    return text(result.summary, "cache", "state") or "unproven"


def _nothing(_result: Result) -> Iterator[Figure]:
    return iter(())


def _boot(boot: Boot) -> Iterator[Figure]:
    yield Figure(boot.arm, "boot", "ready_s", boot.ready_s, Ref(boot.path, "/ready_s"))
    pool, place = boot.kv_pool
    if pool:
        yield Figure(boot.arm, "boot", "kv_pool_tokens", number(pool, "tokens"), Ref(boot.path, f"{place}/tokens"))
        window = number(pool, "max_model_len")
        if window:
            ceiling = (number(pool, "tokens") or 0) / window
            yield Figure(boot.arm, "boot", "capacity_ceiling_requests", ceiling, Ref(boot.path, f"{place}/tokens"))


def _decode(result: Result) -> Iterator[Figure]:
    workload = f"decode {text(result.summary, 'prompt_name') or result.name.removeprefix('decode-')}"
    tokens = numbers(result.summary, "completion_tokens")
    measured = [sample for sample in result.samples if "decode_tok_s" in sample]
    for measure in ("decode_tok_s", "ttft_s", "completion_tokens"):
        for index, found in enumerate(numbers(result.summary, measure)):
            reason = None
            if measure == "decode_tok_s":
                said = text(measured[index], "decode_invalid_reason") if index < len(measured) else None
                produced = tokens[index] if index < len(tokens) else None
                found, reason = valid_rate(found, produced, said)
            yield Figure(
                result.arm,
                workload,
                measure,
                found,
                Ref(result.path, f"/summary/{measure}/{index}"),
                run=index + 1,
                reason=reason,
            )


def _needle(result: Result) -> Iterator[Figure]:
    workload, state = f"needle {needle_target(result) or result.name}", needle_state(result)
    summary = result.summary
    asked = whole(result.plan, "forced_tokens")
    rate, reason = valid_rate(
        number(summary, "decode_tok_s"),
        number(summary, "completion_tokens"),
        text(summary, "decode_invalid_reason"),
    )
    prefill, prefill_reason = number(summary, "prefill_tok_s"), text(summary, "prefill_invalid_reason")
    if prefill is None and result.transcribed and state == "cold":
        # An older record rounds its rates; they follow from what it measured.
        tokens, ttft = number(summary, "prompt_tokens"), number(summary, "ttft_s")
        prefill = tokens / ttft if tokens and ttft else None
    if prefill is not None and state != "cold":
        prefill, prefill_reason = None, f"the sample was {state}, a prefill rate needs a cold one"
    if asked == 0 and number(summary, "decode_tok_s") is None:
        reason = None  # no rate was asked of this sample
    for measure, found, why in (
        ("prompt_tokens", number(summary, "prompt_tokens"), None),
        ("ttft_s", number(summary, "ttft_s"), clean(result.reason) if result.reason else None),
        ("prefill_tok_s", prefill, prefill_reason),
        ("decode_tok_s", rate, reason),
        ("wall_s", number(summary, "wall_s"), None),
    ):
        if found is not None or why is not None:
            ref = Ref(result.path, f"/summary/{measure}")
            yield Figure(result.arm, workload, measure, found, ref, state, reason=None if found is not None else why)


def _sweep(result: Result) -> Iterator[Figure]:
    for index, level in enumerate(rows(result.summary, "levels")):
        concurrency = whole(level, "concurrency")
        if concurrency is None or concurrency < 1:
            continue
        requests = whole(level, "requests")
        for measure in (name for name in SWEEP_MEASURES if name in level):
            yield Figure(
                result.arm,
                f"sweep {concurrency}",
                measure,
                number(level, measure),
                Ref(result.path, f"/summary/levels/{index}/{measure}"),
                n=requests,
            )


def _agentic(result: Result) -> Iterator[Figure]:
    sessions, turns = whole(result.summary, "sessions"), whole(result.summary, "turns")
    if sessions is None or sessions < 1:
        return
    for measure in (name for name in AGENTIC_MEASURES if name in result.summary):
        per_turn = turns and measure.startswith(("ttft", "decode", "burst"))
        yield Figure(
            result.arm,
            f"agentic {sessions}",
            measure,
            number(result.summary, measure),
            Ref(result.path, f"/summary/{measure}"),
            n=sessions * turns if per_turn and turns else sessions,
        )


def _calibrate(result: Result) -> Iterator[Figure]:
    for index, level in enumerate(rows(result.summary, "levels")):
        for measure in ("ttft_error_s_p50", "ttft_error_s_p99", "itl_error_s_p50", "itl_error_s_p99"):
            ref = Ref(result.path, f"/summary/levels/{index}/{measure}")
            workload = f"calibrate {whole(level, 'concurrency')}"
            yield Figure(result.arm, workload, measure, number(level, measure), ref, n=None)
    for measure in ("max_event_rate_hz", "cpu_s_per_100k_tokens"):
        found = number(result.summary, measure)
        yield Figure(result.arm, "calibrate", measure, found, Ref(result.path, f"/summary/{measure}"), n=None)


def valid_rate(rate: float | None, tokens: float | None, reason: str | None) -> tuple[float | None, str | None]:
    """A decode rate and why it is none. A rate over too few tokens is refused here once more, whoever recorded it."""
    if rate is None:
        return None, clean(reason) if reason else None
    if reason:
        return None, f"{clean(reason)} (recorded: {rate:g} tok/s)"
    if tokens is not None and tokens < MIN_DECODE_TOKENS:
        why = f"{tokens:g} completion tokens, at least {MIN_DECODE_TOKENS} forced ones are needed"
        return None, f"{why} (recorded: {rate:g} tok/s)"
    return rate, None


def _probe(result: Result) -> Probe:
    name = text(result.plan, "name") or result.name.removeprefix("probe-")
    reply, ref = mapping(result.summary, "reply"), Ref(result.path, "/summary/reply")
    if result.transcribed:
        passed = flag(result.summary, "passed")
        return Probe(result.arm, name, passed, reply, Ref(result.path, "/summary/passed"))
    if result.status != "complete" or not reply:
        return Probe(result.arm, name, None, reply, ref, f"no reply to judge: {clean(result.reason or result.status)}")
    try:
        verdict = judge(reply, value(result.plan, "expect") or value(result.data, "workload", "expect"))
    except SpikeError as exc:
        return Probe(result.arm, name, None, reply, ref, f"cannot be judged: {clean(exc)}")
    return Probe(result.arm, name, verdict.passed, reply, ref, _expected(verdict.failed_expectation))


def _expected(failed: Mapping[str, Any] | None) -> str:
    if failed is None:
        return ""
    operator, wanted = next((key, failed[key]) for key in ("equals", "matches", "contains") if key in failed)
    note = f"; {clean(failed['note'])}" if "note" in failed else ""
    return f"expected {clean(failed['query'])} {operator} {_shown(wanted)}, found {_shown(failed['found'])}{note}"


def _shown(found: Any) -> str:
    return quote(found, 120) if isinstance(found, str) else clean(found, 120)


_EXTRACTORS: Final = {
    "decode": _decode,
    "needle": _needle,
    "sweep": _sweep,
    "agentic": _agentic,
    "calibrate": _calibrate,
}
