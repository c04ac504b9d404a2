# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reader must know beside the figures: corrections, incidents, coverage limits, what was not measured.

Each finding is one sentence that ends with the reference mark of the evidence it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..evidence import (
    BASELINE_NAME,
    BASELINE_SCHEMA,
    ArmEvidence,
    Evidence,
    Result,
    flag,
    mapping,
    number,
    rows,
    text,
    texts,
    whole,
)
from . import heat
from .figures import needle_state, needle_target
from .model import Figure, Probe
from .tables import needle_depths
from .words import clean, decimal, grouped, sentence

# spike.json names phases in the words of the plan; results name them in the singular.
PHASE_OF_PLAN = {"probes": "probe"}
MEASURE_ONLY = "measure_only.json"


def corrections(evidence: Evidence, figures: Sequence[Figure], marks: Mapping[str, str]) -> tuple[str, ...]:
    """Where the evidence contradicts the plan, or a recorded number is no figure."""
    found = [sentence for arm in evidence.arms for result in arm.results for sentence in _wrong_state(result, marks)]
    found += [
        f"{figure.arm}, {figure.workload}{f' {figure.state}' if figure.state else ''}"
        f"{f', run {figure.run}' if figure.workload.startswith('decode') else ''}: {figure.measure} is invalid: "
        f"{figure.reason}. {marks.get(figure.ref.path, '')}".rstrip()
        for figure in figures
        if figure.value is None and figure.reason and figure.measure == "decode_tok_s"
    ]
    found += [sentence for arm in evidence.arms for sentence in _other_boot(arm, marks)]
    found += [*heat.flags(evidence), *heat.clock_steps(evidence)]
    found += [clean(line, 600) for line in texts(evidence.spike, "corrections")]
    return tuple(found)


def incidents(evidence: Evidence, marks: Mapping[str, str]) -> tuple[str, ...]:
    """What went wrong on the way and what it cost: failed boots, failed requests, failed tasks, interrupted phases."""
    found = [sentence for arm in evidence.arms for sentence in _failed_boot(arm, marks)]
    for arm in evidence.arms:
        for result in arm.results:
            mark = marks.get(result.path, "")
            if result.status != "complete":
                why = sentence(f"{result.status}: {result.reason}" if result.reason else result.status)
                found.append(f"{arm.name}, {clean(result.name, 80)}: {why} {mark}")
    found += [
        f"{event.utc} task {clean(event.task, 120)!r} {clean(event.data.get('outcome', 'failed'), 40)}: "
        f"{sentence(event.data.get('message', 'no message'))} {marks.get('events.jsonl', '')}"
        for event in evidence.events
        if event.kind == "incident"
    ]
    found += [*_interrupted_runs(evidence, marks), *_in_flight(evidence, marks)]
    found += heat.recorder_incidents(evidence)
    found += _not_as_found(evidence, marks)
    found += [f"{clean(path, 120)}: a measurement was begun and left no result." for path in evidence.unfinished]
    found += [clean(line, 600) for line in texts(evidence.spike, "incidents")]
    return tuple(sentence.rstrip() for sentence in found)


def false_alarms(evidence: Evidence) -> tuple[str, ...]:
    """What looked like trouble and was judged not to be, with the reason."""
    return tuple(clean(line, 600) for line in texts(evidence.spike, "false_alarms"))


def coverage_limits(evidence: Evidence, partial: bool) -> tuple[str, ...]:
    """What the evidence does not cover, so that nobody takes silence for an all-clear."""
    found = [f"{clean(damage.path, 120)}: {clean(damage.reason)}." for damage in evidence.damaged]
    if evidence.manifest.ok is None and not evidence.transcribed and not partial:
        found.append("There is no manifest: that the files are those of the box cannot be shown.")
    found += [f"manifest: {clean(problem)}." for problem in evidence.manifest.problems if evidence.manifest.ok is False]
    if not any(arm.of("calibrate") for arm in evidence.arms) and not evidence.transcribed:
        found.append("The instrument was not calibrated in this spike: its own error is not known.")
    if not partial:
        found += heat.limits(evidence)
    if not evidence.box_after and not partial and not evidence.transcribed:
        found.append("The box was not described again at the end: that it was left as found is not shown here.")
    unproven = [
        f"{arm.name} {result.name}" for arm in evidence.arms for result in arm.of("needle")
        if needle_state(result) == "unproven"
    ]  # fmt: skip
    if unproven:
        found.append(f"The engine gave no evidence whether these were cold or warm: {clean(', '.join(unproven), 400)}.")
    base = evidence.extra.get(BASELINE_NAME)
    if base is not None and text(base, "schema") != BASELINE_SCHEMA:
        found.append(f"{BASELINE_NAME}: it is no baseline of this collection; nothing was compared with it.")
    found += [clean(line, 600) for line in texts(evidence.spike, "coverage_limits")]
    return tuple(found)


def missing(evidence: Evidence) -> tuple[str, ...]:
    """What was planned and left no result, arm by arm."""
    found = []
    for arm in evidence.arms:
        phases = texts(arm.plan, "phases") or evidence.planned_phases
        have = {result.phase for result in arm.results}
        absent = [phase for phase in phases if PHASE_OF_PLAN.get(phase, phase) not in have]
        if absent:
            found.append(
                f"{arm.name}: planned and without a result: {', '.join(clean(phase, 40) for phase in absent)}."
            )
        found += _missing(arm)
    return tuple(found)


def not_measured(evidence: Evidence) -> tuple[str, ...]:
    """What was planned and left no result, and figures that a reader may miss."""
    found = list(missing(evidence))
    if text(evidence.spike, "endpoint"):
        found.append("The server was there already: its boot, its image, its arguments and its memory are not known.")
    singles = [arm.name for arm in evidence.arms if arm.of("needle") and not _repeated(arm)]
    if singles:
        listed = ", ".join(singles)
        found.append(
            f"Needles are single samples per depth and state ({listed}): their spread is not known; indicative."
        )
    found += [clean(line, 600) for line in texts(evidence.spike, "not_measured")]
    return tuple(found)


def undecided(evidence: Evidence) -> tuple[str, ...]:
    """Decisions that are the operator's; the document only lists them."""
    return tuple(clean(line) for line in texts(evidence.spike, "undecided"))


def correctness(evidence: Evidence, probes: Sequence[Probe]) -> tuple[str, ...]:
    """One sentence per kind of check: how many passed, and every one that did not."""
    found = []
    if probes:
        failed = [f"{probe.name} on {probe.arm}" for probe in probes if probe.passed is False]
        silent = [f"{probe.name} on {probe.arm}" for probe in probes if probe.passed is None]
        passed = sum(probe.passed is True for probe in probes)
        found.append(f"probes {passed}/{len(probes)} passed{_listed('FAIL', failed)}{_listed('no verdict', silent)}")
    needles = [(arm.name, result) for arm in evidence.arms for result in arm.of("needle")]
    if needles:
        failed = [f"{result.name} on {name}" for name, result in needles if flag(result.summary, "passed") is False]
        silent = [f"{result.name} on {name}" for name, result in needles if flag(result.summary, "passed") is None]
        passed = sum(flag(result.summary, "passed") is True for _name, result in needles)
        found.append(
            f"needles {passed}/{len(needles)} recalled{_listed('FAIL', failed)}{_listed('no verdict', silent)}"
        )
    for words, good, total, verb in (
        ("agentic tool calls", "tool_calls_valid", "tool_calls_total", "valid"),
        ("cross-context recalls", "recall_passed", "recall_total", "passed"),
    ):
        results = [result for arm in evidence.arms for result in arm.of("agentic")]
        counted = [(whole(r.summary, good), whole(r.summary, total)) for r in results]
        pairs = [(g, t) for g, t in counted if g is not None and t is not None]
        if pairs:
            done, asked = (sum(column) for column in zip(*pairs, strict=True))
            found.append(f"{words} {done}/{asked} {verb}")
    return tuple(clean(line, 600) for line in found)


def verdict(evidence: Evidence, figures: Sequence[Figure]) -> str:
    """SERVES up to N tokens, NO-GO at a stage, or that there is no verdict."""
    recalled = [
        (whole(result.summary, "prompt_tokens") or needle_target(result) or 0, arm)
        for arm in evidence.arms
        for result in arm.of("needle")
        if flag(result.summary, "passed") is True
    ]
    served = [arm for arm in evidence.arms if any(result.status != "failed" for result in arm.results)]
    boots = [arm.boot for arm in evidence.arms if arm.boot is not None]
    if recalled:
        deepest = max(tokens for tokens, _arm in recalled)
        arms = list(dict.fromkeys(arm.name for tokens, arm in recalled if tokens == deepest))
        windows = [number(arm.boot.kv_pool[0], "max_model_len") for tokens, arm in recalled
                   if tokens == deepest and arm.boot is not None]  # fmt: skip
        window = max((found for found in windows if found), default=None)
        share = f", {100 * deepest / window:.1f}% of the window" if window else ""
        lost = [depth for depth in needle_depths(figures) if depth > deepest]
        beyond = f"; a needle of {grouped(lost[0])} tokens was not recalled" if lost else ""
        return f"SERVES up to {grouped(deepest)} prompt tokens (recalled on {', '.join(arms)}{share}){beyond}"
    if served:
        return "SERVES; how far is not known, no needle was recalled"
    failed = [boot for boot in boots if not boot.ready]
    if failed and len(failed) == len(boots):
        stage = clean(text(failed[-1].failure, "stage") or "boot", 80)
        kind = clean(text(failed[-1].failure, "kind") or "unknown", 80)
        return f"NO-GO at stage {stage} ({kind})"
    return "NO VERDICT: nothing was measured"


def _listed(word: str, names: Sequence[str]) -> str:
    return f"; {word}: {', '.join(names)}" if names else ""


def _wrong_state(result: Result, marks: Mapping[str, str]) -> Iterator[str]:
    expected, state = text(result.summary, "cache", "expected"), needle_state(result)
    if result.phase != "needle" or expected in (None, state) or state == "unproven":
        return
    source = text(result.summary, "cache", "evidence", "source") or text(result.summary, "cache", "source")
    cached = whole(result.summary, "cache", "evidence", "cached_tokens")
    if cached is None:
        cached = whole(result.summary, "cache", "cached_tokens")
    because = f"{grouped(cached)} cached tokens of {grouped(whole(result.summary, 'prompt_tokens'))}"
    told = f" by {clean(source, 120)}" if source else ""
    said = text(result.summary, "cache", "evidence", "text")
    yield (
        f"{result.arm}, needle {grouped(needle_target(result))}: meant {expected}, in fact {state} "
        f"({clean(said) if said else because + told}). It is recorded as {state} and used as nothing else. "
        f"{marks.get(result.path, '')}"
    ).rstrip()


def _other_boot(arm: ArmEvidence, marks: Mapping[str, str]) -> Iterator[str]:
    if arm.boot is None or arm.boot.boot_id is None:
        return
    stale: dict[str, list[Result]] = {}
    for result in arm.results:
        if result.boot_id is not None and result.boot_id != arm.boot.boot_id:
            stale.setdefault(result.boot_id, []).append(result)
    for boot_id, results in stale.items():
        listed = ", ".join(f"{clean(result.name, 80)} {marks.get(result.path, '')}".rstrip() for result in results)
        yield (
            f"{arm.name}: measured on boot {clean(boot_id, 80)}, not on the arm's last boot "
            f"{clean(arm.boot.boot_id, 80)}: {listed}."
        )


def _failed_boot(arm: ArmEvidence, marks: Mapping[str, str]) -> Iterator[str]:
    if arm.boot is None or arm.boot.ready:
        return
    failure = arm.boot.failure
    cause = clean(text(failure, "cause") or "no cause was found in the log")
    stage = clean(text(failure, "stage") or "unknown", 80)
    passed_s = number(failure, "after_s")
    after = f" after {decimal(passed_s, 1)} s" if passed_s is not None else ""
    yield f"{arm.name}: the boot failed at stage {stage}{after}: {sentence(cause)} {marks.get(arm.boot.path, '')}"


def _interrupted_runs(evidence: Evidence, marks: Mapping[str, str]) -> Iterator[str]:
    """A run that began and never ended, or was ended by Ctrl-C or a signal, when another one followed it."""
    open_run: str | None = None
    for event in evidence.events:
        if event.kind == "run.begin":
            if open_run is not None:
                mark = marks.get("events.jsonl", "")
                yield f"The run of {open_run} was interrupted; the run of {event.utc} went on. {mark}"
            open_run = event.utc
        elif event.kind == "run.end" and not flag(event.data, "interrupted"):
            open_run = None


def _in_flight(evidence: Evidence, marks: Mapping[str, str]) -> Iterator[str]:
    """A measurement that was begun and had not reported when the run broke off, or when this was written."""
    begun: tuple[str, str] | None = None
    mark = marks.get("events.jsonl", "")
    for event in evidence.events:
        if event.kind == "begin":
            begun = clean(event.data.get("begun", "measurement"), 40), event.utc
        elif event.kind in ("result", "incident"):
            # Whatever it is of: the run has gone on, past a measurement that was skipped or has failed, too.
            begun = None
        elif event.kind in ("run.begin", "evidence") and begun is not None:
            yield f"The {begun[0]} begun at {begun[1]} had not reported when the run broke off. {mark}"
            begun = None
    if begun is not None:
        yield f"The {begun[0]} begun at {begun[1]} has not reported yet. {mark}"


def _not_as_found(evidence: Evidence, marks: Mapping[str, str]) -> Iterator[str]:
    """What is otherwise than it was found and no recorded action explains."""
    found = texts(evidence.extra.get(MEASURE_ONLY, {}), "unexplained")
    if found:
        more = f" (and {len(found) - 1} more, see the measure-only proof)" if len(found) > 1 else ""
        yield f"NOT AS FOUND: {clean(found[0]).rstrip('.')}{more}. {marks.get(MEASURE_ONLY, '')}"


def _missing(arm: ArmEvidence) -> Iterator[str]:
    """What was planned within a phase that has results, and has none itself."""
    work = mapping(arm.plan, "workloads")
    for words, phase, planned, have in (
        (
            "probes",
            "probe",
            [text(probe, "name") for probe in rows(work, "probes")],
            {result.name.removeprefix("probe-") for result in arm.of("probe")},
        ),
        (
            "decode prompts",
            "decode",
            [text(prompt, "name") for prompt in rows(work, "decode")],
            {result.name.removeprefix("decode-") for result in arm.of("decode")},
        ),
        (
            "needles of these tokens",
            "needle",
            [str(whole(needle, "prompt_tokens")) for needle in rows(work, "needles")],
            {str(needle_target(result)) for result in arm.of("needle")},
        ),
        (
            "agentic sessions",
            "agentic",
            [str(whole(sessions, "sessions")) for sessions in rows(work, "agentic")],
            {str(whole(result.summary, "sessions")) for result in arm.of("agentic")},
        ),
    ):
        missing = [clean(name, 60) for name in dict.fromkeys(planned) if name and name not in have]
        if missing and arm.of(phase):
            yield f"{arm.name}: {words} planned and without a result: {', '.join(missing)}."


def _repeated(arm: ArmEvidence) -> bool:
    seen = [(needle_target(result), needle_state(result)) for result in arm.of("needle")]
    return len(seen) != len(set(seen))
