# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run-by-run record: one section per arm, its boot, and every phase with what was really answered."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.lobes.spike.plugins.module_utils.engine.anatomy import compare

from ..evidence import ArmEvidence, Boot, Result, flag, mapping, number, numbers, rows, text, texts, value, whole
from . import heat
from .figures import find, needle_state, needle_target
from .model import Document, Figure
from .tables import decode_at_depth, verdict_word
from .words import ABSENT, clean, columns, decimal, fixed, gib, grouped, percent, quote, ratio, wrapped

WITNESSES_SHOWN = 2

CEILING = (
    "^ KV-POOL CAPACITY CEILING (KV cache tokens / max_model_len): not measured concurrency, no throughput multiplier"
)
DULL = frozenset(
    {
        "arguments", "engine_config", "max_model_len", "model_runner", "load_start", "checkpoint", "weights_loaded",
        "compile_cache", "dynamo", "graph_compiled", "jit_warmup_start", "graph_pool", "tasks", "http_start",
        "startup_complete",
    }
)  # fmt: skip
"""Milestones that the boot document has and an excerpt does not need."""

# What follows one of these flags is never printed.
SECRET_FLAGS = frozenset({"--api-key", "--hf-token", "--ssl-keyfile-password"})


def arm_sections(document: Document) -> list[str]:
    """The record of every arm."""
    lines: list[str] = []
    for arm in document.evidence.arms:
        lines += _arm(document, arm)
    return lines


def _arm(document: Document, arm: ArmEvidence) -> list[str]:
    lines = [f"## Run {clean(arm.name, 60)} — {clean(arm.title, 120)}", ""]
    lines += _notes(texts(arm.plan, "notes"))
    lines += [*_boot(document, arm), *heat.arm_line(document, arm), ""]
    for phase, writer in (
        ("calibrate", _calibration),
        ("probe", _probes),
        ("decode", _decode),
        ("needle", _needles),
        ("sweep", _sweep),
        ("agentic", _agentic),
    ):
        results = arm.of(phase)
        if results:
            lines += [*writer(document, arm, results), ""]
    others = [result for result in arm.results if result.phase not in _KNOWN_PHASES]
    return lines + [
        f"{clean(result.name, 80)}: phase {clean(result.phase, 40)!r} is not known here. {document.mark(result.path)}"
        for result in others
    ]


_KNOWN_PHASES = ("calibrate", "probe", "decode", "needle", "sweep", "agentic")


def _notes(notes: Iterable[str], indent: str = "") -> list[str]:
    return [line for note in notes for line in wrapped(clean(note, 1200), 100, indent, indent)]


def _said(document: Document, arm: ArmEvidence, result: Result, indent: str) -> list[str]:
    """A result's notes; of witnesses that disagree the first few, since a slow client disagrees with every request."""
    differ = [note for note in result.notes if note.startswith("witnesses differ")]
    others = [note for note in result.notes if not note.startswith("witnesses differ")]
    kept = _notes([*others, *differ[:WITNESSES_SHOWN]], indent)
    rest = len(differ) - WITNESSES_SHOWN
    kept += [f"{indent}and {rest} more such differences, see {document.mark(result.path)}"] if rest > 0 else []
    told = heat.result_note(document, arm, result)
    return [*kept, *(wrapped(f"heat: {told}", 100, indent, f"{indent}  ") if told else [])]


def _boot(document: Document, arm: ArmEvidence) -> list[str]:
    boot = arm.boot
    if boot is None:
        return ["No boot of this arm is on record."]
    lines = [f"Boot {document.mark(boot.path)}: container {clean(boot.boot_id or 'not recorded', 120)}"]
    lines += _arguments(arm, boot)
    lines += _memory(arm, boot)
    told = [milestone for milestone in boot.milestones if text(milestone, "name") not in DULL]
    if told:
        lines.append("Boot log (excerpts):")
        lines += [_milestone(milestone) for milestone in told]
    lines += _pool(boot)
    if boot.ready:
        lines.append(f"  /health 200 at +{decimal(boot.ready_s, 1)} s from the container's start")
    else:
        failure = boot.failure
        lines.append(
            f"  NOT READY: stage {clean(text(failure, 'stage') or 'unknown', 80)}, "
            f"kind {clean(text(failure, 'kind') or 'unknown', 80)}: {clean(text(failure, 'cause') or 'no cause found')}"
        )
        lines += [f"  {clean(line)}" for line in (text(failure, "detail") or "").splitlines()[:20]]
    lines += _against_baseline(document, arm)
    return [*lines, *_notes(texts(boot.data, "notes"), "  ")]


def _against_baseline(document: Document, arm: ArmEvidence) -> list[str]:
    """This boot beside the baseline arm's: where its time and memory went otherwise."""
    name = text(document.evidence.spike, "baseline_arm")
    base = document.evidence.arm(name) if name else None
    if base is None or base.boot is None or arm.boot is None or base.name == arm.name:
        return []
    try:
        sentences = compare(base.boot.data, arm.boot.data)["sentences"]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []  # a boot document that is not as the module writes it
    if arm.boot.ready_s is not None and base.boot.ready_s is not None:
        sentences = [f"{arm.boot.ready_s - base.boot.ready_s:+.0f} s to /health", *sentences]
    return wrapped(f"Against {clean(base.name, 40)}: {'; '.join(sentences)}", 100, "  ", "    ") if sentences else []


def _arguments(arm: ArmEvidence, boot: Boot) -> list[str]:
    given = texts(boot.data, "args")
    if not given:
        given = tuple(_flags(arm))
    shown, hide = [], False
    for argument in given:
        shown.append("***" if hide else shlex.quote(clean(argument, 400)))
        hide = argument in SECRET_FLAGS
    return wrapped("Args: " + " ".join(shown), 100, "", "  ") if shown else []


def _flags(arm: ArmEvidence) -> Iterator[str]:
    for name, setting in mapping(arm.plan, "args").items():
        yield f"--{name}"
        if isinstance(setting, Mapping):
            yield json.dumps(setting, separators=(",", ":"), sort_keys=True)
        elif setting is not True:
            yield str(setting)


def _memory(arm: ArmEvidence, boot: Boot) -> list[str]:
    parts = []
    dropped = flag(arm.plan, "drop_caches") is True or not mapping(boot.data, "memory_before")
    looks = [("before boot", "memory_before"), *([("after drop_caches", "memory_after_drop")] if dropped else [])]
    for words, member in looks:
        found = mapping(boot.data, member)
        total, available = number(found, "total_bytes"), number(found, "available_bytes")
        if available is not None:
            of = f" of {gib(total)}" if total is not None else ""
            parts.append(f"{words} {gib(available)} available{of}")
    return [f"Memory: {'; '.join(parts)}"] if parts else []


def _milestone(milestone: Mapping[str, Any]) -> str:
    """One line of the log; what the engine says a step took stands in its own words."""
    return f"  {_log_time(milestone)} {clean(milestone.get('text') or milestone.get('name') or '', 180)}"


def _log_time(milestone: Mapping[str, Any]) -> str:
    return clean(milestone.get("log_time") or ABSENT, 40).rpartition(" ")[2]


def _pool(boot: Boot) -> list[str]:
    pool, _place = boot.kv_pool
    tokens, window = number(pool, "tokens"), number(pool, "max_model_len")
    if tokens is None:
        return []
    held = f" = {tokens / window:.2f}x of {grouped(window)}" if window else ""
    return [f"  KV pool {grouped(tokens)} tokens{held}", f"  {' ' * 9}{CEILING}"]


def _calibration(document: Document, arm: ArmEvidence, results: Sequence[Result]) -> list[str]:
    result = results[-1]
    summary = result.summary
    lines = [f"Instrument, against a server of known schedule on this box {document.mark(result.path)}:"]
    table = [
        [str(whole(level, "concurrency")), *(_ms(number(level, name)) for name in _CALIBRATION)]
        for level in rows(summary, "levels")
    ]
    head = ["N", "TTFT error p50 ms", "p99 ms", "inter-token error p50 ms", "p99 ms"]
    lines += columns(head, table) if table else []
    rate, cpu = number(summary, "max_event_rate_hz"), number(summary, "cpu_s_per_100k_tokens")
    reached = f"{grouped(rate)} /s" if rate is not None else "none of those tried"
    return [
        *lines,
        f"  highest event rate with an error under 1 ms: {reached}; client CPU {decimal(cpu)} s per 100k tokens",
        *_said(document, arm, result, "  "),
    ]


_CALIBRATION = ("ttft_error_s_p50", "ttft_error_s_p99", "itl_error_s_p50", "itl_error_s_p99")


def _ms(seconds: float | None) -> str:
    return ABSENT if seconds is None else f"{seconds * 1000:.3f}"


def _probes(document: Document, arm: ArmEvidence, results: Sequence[Result]) -> list[str]:
    verdicts = ", verdicts as transcribed" if any(result.transcribed for result in results) else ""
    lines = [f"Probes (what was really answered{verdicts}):"]
    for probe in document.probes:
        if probe.arm != arm.name:
            continue
        result = next(result for result in arm.results if result.path == probe.ref.path)
        wall = number(result.summary, "wall_s")
        took = f"  {decimal(wall)} s" if wall is not None else ""
        lines.append(
            f"  {clean(probe.name, 40):14} {_answered(probe.reply, result)}  "
            f"{verdict_word(probe.passed)}{took}  {document.mark(probe.ref.path)}"
        )
        if probe.note:
            lines += wrapped(probe.note, 100, " " * 17, " " * 17)
        lines += _said(document, arm, result, " " * 17)
    return lines


def _answered(reply: Mapping[str, Any], result: Result) -> str:
    calls = rows(reply, "tool_calls")
    content = text(reply, "content") or (None if calls else text(result.summary, "answer"))
    parts = [f"{clean(call.get('name'), 80)}({_raw(call.get('arguments'))})" for call in calls]
    if content:
        first = next(iter(rows(result.data, "samples")), {})
        parts.insert(0, quote(content, characters=whole(first, "cut", "text", "characters")))
    finish = text(reply, "finish_reason")
    shown = ", ".join(parts) or "(nothing)"
    return f"-> {shown}{f' finish_reason={clean(finish, 40)}' if finish and finish != 'stop' else ''}"


def _raw(arguments: object) -> str:
    return clean(arguments if isinstance(arguments, str) else str(arguments), 240)


def _decode(document: Document, arm: ArmEvidence, results: Sequence[Result]) -> list[str]:
    lines = ["Decode, one request at a time:"]
    for result in results:
        name = text(result.summary, "prompt_name") or result.name.removeprefix("decode-")
        rates = find(document.figures, arm.name, f"decode {name}", "decode_tok_s")
        ttft = [number_ for number_ in numbers(result.summary, "ttft_s") if number_ is not None]
        tokens = "/".join(grouped(n) for n in numbers(result.summary, "completion_tokens"))
        ttft = ttft or [n for n in numbers(result.summary, "ttft_s_range") if n is not None]
        first = f", TTFT {_span(ttft, 3)} s" if ttft else ""
        lines.append(
            f"  {clean(name, 40):7} {tokens} tokens: {' / '.join(_rate(f) for f in rates)} tok/s{first}"
            f"{_beside(document, arm, f'decode {name}', 'decode_tok_s')}  {document.mark(result.path)}"
        )
        lines += _events(result)
        lines += _said(document, arm, result, "    ")
    return lines


def _events(result: Result) -> list[str]:
    """Where an event carried several tokens (speculation), in how many events the tokens came; nothing elsewhere."""
    counted = []
    for sample in rows(result.data, "samples"):
        carried = [n for n in numbers(mapping(sample, "events"), "tok") if n]
        if carried and max(carried) > 1:
            counted.append((sum(carried), len(carried)))
    if not counted:
        return []
    per_event = fixed(sum(n for n, _events in counted) / sum(events for _n, events in counted), 1)
    events = "/".join(grouped(events) for _n, events in counted)
    return [f"    tokens by usage; they came in {events} events, {per_event} tokens an event"]


def _rate(figure: Figure) -> str:
    return "invalid" if figure.value is None else fixed(figure.value)


def _span(found: Sequence[float], places: int) -> str:
    low, high = fixed(min(found), places), fixed(max(found), places)
    return low if low == high else f"{low}-{high}"


def _base(document: Document, arm: ArmEvidence, workload: str, measure: str) -> tuple[Figure, ...]:
    """The baseline arm's figures, or those of an arm that stands in for it; none for the baseline itself."""
    name = text(document.evidence.spike, "baseline_arm")
    column = next((column for column in document.columns if column.arms[0] == name), None)
    if column is None or arm.name in column.arms:
        return ()
    found = (find(document.figures, one, workload, measure) for one in column.arms)
    return next((figures for figures in found if any(figure.value is not None for figure in figures)), ())


def _beside(document: Document, arm: ArmEvidence, workload: str, measure: str) -> str:
    """The baseline's figures in brackets, as the reader of a trial wants them, and the ratio of the means."""
    values = [figure.value for figure in _base(document, arm, workload, measure) if figure.value is not None]
    own = [f.value for f in find(document.figures, arm.name, workload, measure) if f.value is not None]
    if not values:
        return ""
    times = f" -> {ratio(_mean(own), _mean(values))}" if own else ""
    return f"   [{_base_name(document)} {' / '.join(fixed(v) for v in values)}{times}]"


def _base_name(document: Document) -> str:
    return clean(text(document.evidence.spike, "baseline_arm") or "", 40)


def _mean(found: Sequence[float]) -> float:
    return sum(found) / len(found)


def _needles(document: Document, arm: ArmEvidence, results: Sequence[Result]) -> list[str]:
    lines = ["Needles (cold and warm by the engine's evidence):"]
    for result in results:
        lines += _needle(document, arm, result)
    depths = [depth for depth in dict.fromkeys(needle_target(result) for result in results) if depth is not None]
    base = text(document.evidence.spike, "baseline_arm")
    compared = []
    for depth in sorted(depths):
        own = decode_at_depth(document.figures, arm.name, depth)
        other = decode_at_depth(document.figures, base, depth) if base and base != arm.name else None
        if own is not None and other is not None and own.value is not None and other.value:
            compared.append(
                f"    {depth:>11,}  {fixed(own.value)} vs {fixed(other.value)}  ({percent(own.value, other.value)})"
            )
    if compared:
        lines += [f"  Decode at depth against {clean(base, 40)} (tok/s):", *compared]
    return lines


def _needle(document: Document, arm: ArmEvidence, result: Result) -> list[str]:
    summary, state = result.summary, needle_state(result)
    workload = f"needle {needle_target(result) or result.name}"
    passed = flag(summary, "passed")
    mine = [f for f in document.figures if f.ref.path == result.path and f.workload == workload]
    by_name = {figure.measure: figure for figure in mine}
    ttft, prefill, decode = by_name.get("ttft_s"), by_name.get("prefill_tok_s"), by_name.get("decode_tok_s")
    expected = text(summary, "cache", "expected")
    meant = f", MEANT {expected.upper()}" if expected and expected != state and state != "unproven" else ""
    head = (
        f"  {grouped(whole(summary, 'prompt_tokens') or needle_target(result))} tokens, {state}{meant}"
        f" -> {quote(text(summary, 'answer'), 40)} {verdict_word(passed)}"
    )
    parts = []
    if ttft is not None and ttft.value is not None:
        parts.append(f"TTFT {fixed(ttft.value)} s{_minutes(ttft.value)}")
    wall = number(summary, "wall_s")
    if wall is not None and not parts:
        parts.append(f"wall {fixed(wall, 1)} s")
    if prefill is not None and prefill.value is not None:
        parts.append(f"prefill {grouped(prefill.value)} tok/s")
    if decode is not None and decode.value is not None:
        parts.append(f"decode at depth {fixed(decode.value)} tok/s")
    lines = [f"{head}{''.join(f', {part}' for part in parts)}  {document.mark(result.path)}"]
    if decode is not None and decode.value is None and decode.reason:
        lines += wrapped(f"decode at depth: INVALID, {decode.reason}", 100, "      ", "      ")
    evidence = _cache_evidence(result)
    if evidence:
        lines += wrapped(f"{state} by {evidence}", 100, "      ", "      ")
    if result.status != "complete":
        lines.append(f"      {clean(result.status, 40)}: {clean(result.reason or 'no reason recorded')}")
    return [*lines, *_said(document, arm, result, "      ")]


def _minutes(seconds: float) -> str:
    return f" ({seconds / 60:.1f} min)" if seconds >= 120 else ""


def _cache_evidence(result: Result) -> str:
    said = text(result.summary, "cache", "evidence", "text")
    if said:
        return clean(said)
    source = text(result.summary, "cache", "evidence", "source") or text(result.summary, "cache", "source")
    cached = value(result.summary, "cache", "evidence", "cached_tokens")
    if cached is None:
        cached = value(result.summary, "cache", "cached_tokens")
    if source is None:
        return ""
    return f"{clean(source, 120)}{f' = {cached:,}' if isinstance(cached, int) else ''}"


def _sweep(document: Document, arm: ArmEvidence, results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results:
        size = whole(result.plan, "max_tokens")
        lines.append(f"Concurrency sweep{f', {size} tokens per request' if size else ''} {document.mark(result.path)}:")
        head = ["N", "wall s", "aggregate tok/s", "per-request decode p50 (min)", "TTFT p50 / max s", "failed"]
        table = []
        for level in rows(result.summary, "levels"):
            workload = f"sweep {whole(level, 'concurrency')}"
            other = _base(document, arm, workload, "aggregate_tok_s")
            beside = f" [{fixed(other[0].value, 1)}]" if other and other[0].value is not None else ""
            table.append(
                [
                    str(whole(level, "concurrency")),
                    fixed(number(level, "wall_s")),
                    f"{fixed(number(level, 'aggregate_tok_s'), 1)}{beside}",
                    f"{fixed(number(level, 'decode_tok_s_p50'))} ({fixed(number(level, 'decode_tok_s_min'))})",
                    f"{fixed(number(level, 'ttft_s_p50'), 3)} / {fixed(number(level, 'ttft_s_max'), 3)}",
                    grouped(number(level, "failed")),
                ]
            )
        lines += columns(head, table)
        lines += _scaling(document, arm)
        lines += _said(document, arm, result, "  ")
    return lines


def _scaling(document: Document, arm: ArmEvidence) -> list[str]:
    found = [f for f in document.figures if f.arm == arm.name and f.measure == "aggregate_tok_s" and f.value]
    each = [f for f in document.figures if f.arm == arm.name and f.measure == "decode_tok_s_p50"
            and f.workload.startswith("sweep ") and f.value]  # fmt: skip
    if len(found) < 2 or len(each) < 2 or not found[0].value or not found[-1].value:
        return []
    first, last = found[0].workload.removeprefix("sweep "), found[-1].workload.removeprefix("sweep ")
    share = 100 * (each[-1].value or 0) / (each[0].value or 1)
    return [
        f"  Aggregate scales {found[-1].value / found[0].value:.1f}x from N={first} to N={last}; "
        f"per-request decode falls to {share:.0f}% of N={first}."
    ]


def _agentic(document: Document, arm: ArmEvidence, results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results:
        summary = result.summary
        sessions, turns = whole(summary, "sessions"), whole(summary, "turns")
        lines.append(f"Agentic, {sessions} session(s) x {turns} turns {document.mark(result.path)}:")
        at = _recall_depth(result)
        lines.append(
            f"  tool calls valid {_of(result, 'tool_calls_valid', 'tool_calls_total')}; "
            f"recall {_of(result, 'recall_passed', 'recall_total')}{at}"
        )
        work = f"agentic {sessions}"
        lines.append(
            f"  wall {fixed(number(summary, 'wall_s'), 1)} s{_base_one(document, arm, work, 'wall_s', 1)}; "
            f"TTFT p50 {fixed(number(summary, 'ttft_s_p50'), 3)} s, max {fixed(number(summary, 'ttft_s_max'), 3)} s"
            f"{_base_one(document, arm, work, 'ttft_s_p50', 3)}"
        )
        burst = number(summary, "decode_tokens_per_turn")
        over = f" (bursts of ~{grouped(burst)} tokens, not sustained decode)" if burst is not None else ""
        lines.append(
            f"  per-turn decode p50 {fixed(_burst(result, 'p50'))}, min {fixed(_burst(result, 'min'))} tok/s{over}"
        )
        bad = [clean(turn.get("verdict"), 80) for session in rows(summary, "sessions_detail")
               for turn in rows(session, "turns") if turn.get("verdict") not in ("valid", None)]  # fmt: skip
        lines += [f"  turns that were not valid: {', '.join(bad[:20])}"] if bad else []
        lines += _said(document, arm, result, "  ")
    return lines


def _of(result: Result, good: str, total: str) -> str:
    return f"{grouped(number(result.summary, good))}/{grouped(number(result.summary, total))}"


def _burst(result: Result, end: str) -> float | None:
    sustained = number(result.summary, f"decode_tok_s_{end}")
    return sustained if sustained is not None else number(result.summary, f"burst_tok_s_{end}")


def _recall_depth(result: Result) -> str:
    finals = [number(session, "final", "prompt_tokens") for session in rows(result.summary, "sessions_detail")]
    reached = [tokens for tokens in finals if tokens is not None]
    low = min(reached, default=number(result.summary, "final_prompt_tokens_max"))
    high = max(reached, default=low)
    if low is None:
        return ""
    return f" at {grouped(low)}{f'-{grouped(high)}' if high not in (None, low) else ''} prompt tokens"


def _base_one(document: Document, arm: ArmEvidence, workload: str, measure: str, places: int) -> str:
    own, other = find(document.figures, arm.name, workload, measure), _base(document, arm, workload, measure)
    if not own or not other or own[0].value is None or not other[0].value:
        return ""
    return f" [{_base_name(document)} {fixed(other[0].value, places)}, {percent(own[0].value, other[0].value)}]"
