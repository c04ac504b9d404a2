# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the box did inside the window of each phase, and so what a figure of that phase is worth.

A window is clean only when everything that could have slowed the box was seen and did not; what was not seen makes it
unknown, never clean. What happened outside a window never taints it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..client.figures import percentile
from . import kernel_log
from .kernel_log import ALERTS, KernelLog
from .telemetry import DIED, NOT_STARTED, STOPPED, Lives, Numbers, slowed_by, sysfs_numbers

SCHEMA = "lobes.spike/attribution/1"
CLEAN, UNDER, UNKNOWN = "clean", "under", "unknown"
BUCKET_NS = 300 * 10**9
# Windows longer than two buckets are shown bucket by bucket.
LONG_NS = 2 * BUCKET_NS
# tegrastats is taken for silent after this many intervals, and this long: by then the recorder starts it again.
GAP_INTERVALS, GAP_NS = 3, 10 * 10**9
# The recorder samples on a grid of its own, and load makes it late by milliseconds. One that is late by half a second,
# or on long intervals by a tenth, was not late by load: it, or the whole box, stood still.
LATE_NS, LATE_SHARE = 10**9 // 2, 0.1
_BUCKETED = ("temp_c.", "power_w.", "swap_")

Row = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A phase's window on the box's monotonic clock, nanoseconds, with what it is the window of."""

    start_ns: int
    end_ns: int
    about: Mapping[str, Any] = field(default_factory=dict)


class Collector:
    """Numbers by name and time, gathered for some windows from streams that are read once."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self.values: list[dict[str, list[tuple[int, float]]]] = [{} for _span in spans]

    def add(self, t_ns: int, numbers: Numbers) -> None:
        """The numbers of one time."""
        for i, span in enumerate(self.spans):
            if span.start_ns <= t_ns <= span.end_ns:
                values = self.values[i]
                for name, value in numbers.items():
                    values.setdefault(name, []).append((t_ns, value))


def summary(values: Sequence[float]) -> dict[str, float | int]:
    """``{n, min, p50, p95, max, mean}``; percentiles of type 7."""
    return {
        "n": len(values),
        "min": min(values),
        "p50": round(percentile(values, 50) or 0.0, 4),
        "p95": round(percentile(values, 95) or 0.0, 4),
        "max": max(values),
        "mean": round(sum(values) / len(values), 4),
    }


def with_hottest(numbers: Numbers) -> Numbers:
    """The numbers with ``temp_c.hottest``: tj is not always the highest of what is printed."""
    temps = [value for name, value in numbers.items() if name.startswith("temp_c.")]
    return {**numbers, "temp_c.hottest": max(temps)} if temps else numbers


def buckets(values: Mapping[str, Sequence[tuple[int, float]]], span: Span) -> list[Row]:
    """Five-minute buckets of a long window: ``[{from_s, to_s, series: {name: summary}}]``; none for a short one."""
    if span.end_ns - span.start_ns <= LONG_NS:
        return []
    rows = []
    for start in range(span.start_ns, span.end_ns, BUCKET_NS):
        end = min(start + BUCKET_NS, span.end_ns)
        series = {}
        for name, pairs in sorted(values.items()):
            inside = [value for t, value in pairs if start <= t < end or t == end == span.end_ns]
            if inside and name.startswith(_BUCKETED):
                series[name] = summary(inside)
        rows.append({"from_s": (start - span.start_ns) / 1e9, "to_s": (end - span.start_ns) / 1e9, "series": series})
    return rows


class Silence:
    """Where a source said nothing for longer than ``limit_ns``: pairs of times, None for "since ever", "for ever"."""

    def __init__(self, limit_ns: int) -> None:
        self.limit_ns = limit_ns
        self.found: list[tuple[int | None, int | None]] = []
        self.last: int | None = None

    def heard(self, t_ns: int) -> None:
        """The source said something."""
        if self.last is None or t_ns - self.last > self.limit_ns:
            self.found.append((self.last, t_ns))
        self.last = t_ns

    def within(self, span: Span) -> list[tuple[int, int, int | None, int | None]]:
        """The parts of a window that lie in a silence, each with that silence as a whole."""
        parts = []
        for a, b in [*self.found, (self.last, None)]:
            # At the ends of the record it is a silence only when the source is overdue.
            known = a is not None and b is not None
            overdue = span.end_ns - a if a is not None else b - span.start_ns if b is not None else self.limit_ns + 1
            start = span.start_ns if a is None else max(a, span.start_ns)
            end = span.end_ns if b is None else min(b, span.end_ns)
            if end > start and (known or overdue > self.limit_ns):
                parts.append((start, end, a, b))
        return parts


def late_ns(interval_s: float) -> int:
    """Two samples that are further apart than this have a gap between them."""
    interval = int(interval_s * 1e9)
    return interval + max(LATE_NS, int(interval * LATE_SHARE))


def silent_ns(interval_s: float) -> int:
    """Two lines of tegrastats that are further apart than this have a gap between them."""
    return max(int(GAP_INTERVALS * interval_s * 1e9), GAP_NS)


def gaps(silence: Silence, span: Span, lives: Lives | None = None) -> list[Row]:
    """Where a source was silent within a window: ``[{from_s, to_s}]`` from its start; with the recorder's lives also
    ``recorder``, what became of it meanwhile, and ``silent_s``, how long the whole silence was, None when open.
    """
    found = []
    for start, end, a, b in silence.within(span):
        row: Row = {"from_s": (start - span.start_ns) / 1e9, "to_s": (end - span.start_ns) / 1e9}
        if lives is not None:
            row["recorder"] = lives.of_silence(a, b)
            row["silent_s"] = (b - a) / 1e9 if a is not None and b is not None else None
        found.append(row)
    return found


def recorded_share(found: Sequence[Row], span: Span) -> float | None:
    """The part of a window, 0 to 1, that lies in none of its gaps."""
    length = span.end_ns - span.start_ns
    silent_s = sum(gap["to_s"] - gap["from_s"] for gap in found)
    return round(max(0.0, 1 - silent_s * 1e9 / length), 4) if length > 0 else None


def joined(
    told: Mapping[str, list[tuple[int, float]]],
    own: Mapping[str, list[tuple[int, float]]],
    silent: Sequence[Row],
    span: Span,
) -> tuple[dict[str, list[tuple[int, float]]], dict[str, str]]:
    """(series by name, where each comes from): tegrastats' where it knows one, sysfs' where not or it was silent."""
    values, sources = dict(own), dict.fromkeys(own, "sysfs")
    holes = [(span.start_ns + int(g["from_s"] * 1e9), span.start_ns + int(g["to_s"] * 1e9)) for g in silent]
    for name, pairs in told.items():
        filled = [(t, v) for t, v in own.get(name, ()) if any(a < t < b for a, b in holes)]
        values[name] = sorted([*pairs, *filled]) if filled else pairs
        sources[name] = "tegrastats and, where it was silent, sysfs" if filled else "tegrastats"
    return values, sources


def counter_moves(rows: Sequence[Row], span: Span) -> Row:
    """Over-current events by channel: ``{sure: {channel: events}, possible: {channel: events}, known: bool}``.

    Counters are sampled, so events between the last sample before a window and its first sample may lie on either side
    of its start, and alike at its end: ``sure`` counts what surely lies inside, ``possible`` what may.
    """
    times = [row["t"] for row in rows]
    first, last = bisect_left(times, span.start_ns), bisect_right(times, span.end_ns) - 1
    sure, possible = {}, {}
    known = bool(rows)
    channels = sorted({name for row in rows for name in row.get("oc") or {}})
    for name in channels:
        inner = _delta(rows, first, last, name)
        # Without a sample on either side nothing bounds what happened at that edge.
        outer = _delta(rows, first - 1, last + 1, name)
        known = known and outer is not None
        sure[name] = max(inner or 0, 0)
        possible[name] = outer
    return {"sure": sure, "possible": possible, "known": known}


def _delta(rows: Sequence[Row], first: int, last: int, name: str) -> int | None:
    if first < 0 or last >= len(rows) or first > last:
        return None
    a, b = (rows[i].get("oc", {}).get(name) for i in (first, last))
    return None if a is None or b is None or b < a else int(b - a)


def throttle_states(rows: Sequence[Row], span: Span) -> Row:
    """Cooling devices that held the box back: in the samples at the window's start and end, and in how many inside."""
    times = [row["t"] for row in rows]
    first, last = bisect_left(times, span.start_ns), bisect_right(times, span.end_ns) - 1
    inside = rows[first : last + 1]
    states = [slowed_by(row) for row in inside]
    worst: dict[str, int] = {}
    for state in states:
        for name, value in state.items():
            worst[name] = max(worst.get(name, 0), value or 0)
    before, after = rows[max(first - 1, 0) : first], rows[last + 1 : last + 2]
    return {
        "at_start": slowed_by((before or inside or [{}])[-1 if before else 0]),
        "at_end": slowed_by((after or inside[-1:] or [{}])[0]),
        "samples": len(inside),
        "samples_throttled": sum(1 for state in states if any(state.values())),
        "unread": sorted({name for state in states for name, value in state.items() if value is None}),
        "worst": {name: value for name, value in sorted(worst.items()) if value},
    }


def kernel_alerts(log: KernelLog, offset_s: float, span: Span) -> Row:
    """Alerts before, inside and after a window, and whether the log covers it.

    ``{covered, why, before, inside, after, by_kind, first_s, last_s, per_minute_max, other}``; times are seconds from
    the window's start; ``other`` counts telling messages inside that are no alert (OOM kills, NVRM).
    """
    start, end = span.start_ns / 1e9 - offset_s, span.end_ns / 1e9 - offset_s
    alerts = [(e.t_s, kind) for e in log.entries if (kind := kernel_log.classify(e.text)) in ALERTS]
    inside = [(t, kind) for t, kind in alerts if start <= t <= end]
    other = Counter(
        kind
        for e in log.entries
        if start <= e.t_s <= end and (kind := kernel_log.classify(e.text)) and kind not in (*ALERTS, kernel_log.RELEASE)
    )
    covered = kernel_log.covers(log, start, end)
    return {
        "covered": covered,
        "why": None if covered else _uncovered(log, start, end),
        "before": sum(1 for t, _kind in alerts if t < start),
        "inside": len(inside),
        "after": sum(1 for t, _kind in alerts if t > end),
        "by_kind": dict(Counter(kind for _t, kind in inside)),
        "first_s": round(inside[0][0] - start, 3) if inside else None,
        "last_s": round(inside[-1][0] - start, 3) if inside else None,
        "per_minute_max": max(Counter(int((t - start) // 60) for t, _kind in inside).values(), default=0),
        "other": dict(other),
    }


def _uncovered(log: KernelLog, start: float, end: float) -> str:
    if log.covers_from_s is None:
        return f"the kernel log could not be read ({log.reason})"
    if start < log.covers_from_s:
        late = log.covers_from_s - start
        return f"the oldest kernel message known is {late:.0f} s younger than the window's start"
    if log.covers_to_s is not None and end > log.covers_to_s:
        return f"the kernel log was followed until {end - log.covers_to_s:.0f} s before the window's end only"
    return "kernel messages were lost inside the window"


def judge(alerts: Row, counters: Row, throttle: Row, witnesses: Mapping[str, bool], unseen: Sequence[str] = ()) -> Row:
    """``{state: clean|under|unknown, alerts: n, text, why: [...]}``.

    ``witnesses`` says what the box has to see a slow-down with: ``cooling`` devices and ``over_current`` counters;
    ``unseen``, why some of the window cannot be told.
    """
    why = list(unseen)
    if not alerts["covered"]:
        why.append(alerts["why"])
    if not throttle["samples"]:
        why.append("no telemetry was recorded inside the window")
    elif throttle["unread"]:
        why.append(f"cooling states could not be read: {', '.join(throttle['unread'])}")
    over = sum(counters["sure"].values())
    if witnesses["over_current"]:
        at_edge = [name for name, value in counters["possible"].items() if (value or 0) > counters["sure"][name]]
        if not counters["known"]:
            why.append("the over-current counters were not read on both sides of the window")
        elif at_edge and not over:
            why.append(f"over-current events at the edge of the window may lie inside it: {', '.join(at_edge)}")
    if not any(witnesses.values()):
        why.append("this box has neither cooling devices nor over-current counters to see a slow-down by")
    count = alerts["inside"] + over
    if count or throttle["samples_throttled"]:
        text = f"under {count} alert{'' if count == 1 else 's'}"
        if not count:
            text = f"throttled in {throttle['samples_throttled']} of {throttle['samples']} samples"
        elif why:
            text = text.replace("under", "under at least")
        return {"state": UNDER, "alerts": count, "text": text, "why": why}
    if why:
        return {"state": UNKNOWN, "alerts": None, "text": f"unknown: {'; '.join(why)}", "why": why}
    return {"state": CLEAN, "alerts": 0, "text": "clean", "why": []}


def _unseen(found: Sequence[Row], limit_ns: int, samples: int) -> list[str]:
    """Gaps after which a window cannot be clean. What lies between two samples is told by the kernel log and by
    counters; a living recorder may miss a few, one that does not run sees nothing.
    """
    told = []
    for gap in found:
        seconds = gap["to_s"] - gap["from_s"]
        why = {DIED: "the recorder had died: ", STOPPED: "no recorder ran: ", NOT_STARTED: "no recorder ran yet: "}
        fate = why.get(gap["recorder"], "")
        if fate or (samples and seconds * 1e9 > limit_ns):
            told.append(f"{fate}nothing was recorded for {seconds:.1f} s of the window")
    return told


def attribute(
    spans: Sequence[Span],
    sysfs: Iterable[Row],
    tegrastats: Iterable[tuple[int, Numbers]],
    log: KernelLog,
    offset_s: float,
    about: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]] = (),
) -> list[Row]:
    """Every window with its statistics, alerts and verdict. ``about`` is ``recorder.json``, ``events`` its events.

    Where both sources know a series, tegrastats' is kept: its temperatures and rails are read at one moment.
    """
    interval = float(about.get("interval_s") or 5)
    lives, quiet, tool_quiet = Lives(events), Silence(late_ns(interval)), Silence(silent_ns(interval))
    collector, own = Collector(spans), Collector(spans)
    rows: list[Row] = []
    before: Row | None = None
    for row in sysfs:
        quiet.heard(row["t"])
        own.add(row["t"], with_hottest(sysfs_numbers(row, before, int(about.get("page_bytes") or 4096))))
        # Of the rest only what the verdict needs is kept: a night at 100 ms must fit into memory.
        rows.append({key: row.get(key) for key in ("t", "c", "oc")})
        before = row
    for t, numbers in tegrastats:
        tool_quiet.heard(t)
        collector.add(t, with_hottest(numbers))
    sampled = about.get("sampled") or {}
    slowing = [name for name in sampled.get("cooling") or [] if "fan" not in name]
    witnesses = {"cooling": bool(slowing), "over_current": bool(sampled.get("over_current"))}
    found = []
    for i, span in enumerate(spans):
        holes = gaps(quiet, span, lives)
        tool_holes = gaps(tool_quiet, span) if about.get("tegrastats") else None
        values, sources = joined(collector.values[i], own.values[i], tool_holes or [], span)
        alerts, counters = kernel_alerts(log, offset_s, span), counter_moves(rows, span)
        throttle = throttle_states(rows, span)
        found.append(
            {
                **span.about,
                "start_monotonic_ns": span.start_ns,
                "end_monotonic_ns": span.end_ns,
                "duration_s": (span.end_ns - span.start_ns) / 1e9,
                "verdict": judge(
                    alerts, counters, throttle, witnesses, _unseen(holes, silent_ns(interval), throttle["samples"])
                ),
                "alerts": alerts,
                "over_current": counters if witnesses["over_current"] else None,
                "throttle": throttle,
                "series": {name: summary([v for _t, v in pairs]) for name, pairs in sorted(values.items())},
                "buckets": buckets(values, span),
                "sources": sources,
                "gaps": {"sysfs": holes, "tegrastats": tool_holes},
                "recorded_share": recorded_share(holes, span),
                "suspended_s": sum(
                    float(row["suspended_s"])
                    for row in events
                    if row.get("event") == "suspended" and span.start_ns <= row["t"] <= span.end_ns
                ),
            }
        )
    return found
