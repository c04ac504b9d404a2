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
from itertools import pairwise
from typing import Any

from ..client.figures import percentile
from . import kernel_log
from .kernel_log import ALERTS, KernelLog
from .telemetry import Numbers, slowed_by, sysfs_numbers

SCHEMA = "lobes.spike/attribution/1"
CLEAN, UNDER, UNKNOWN = "clean", "under", "unknown"
BUCKET_NS = 300 * 10**9
# Windows longer than two buckets are shown bucket by bucket.
LONG_NS = 2 * BUCKET_NS
# A silence longer than this many intervals (and this long) is a gap.
GAP_INTERVALS, GAP_NS = 3, 10 * 10**9
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
        self.times: list[dict[str, list[int]]] = [{} for _span in spans]

    def add(self, t_ns: int, source: str, numbers: Numbers) -> None:
        """One sample of a source at a time."""
        for i, span in enumerate(self.spans):
            if span.start_ns <= t_ns <= span.end_ns:
                self.times[i].setdefault(source, []).append(t_ns)
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


def gaps(times: Sequence[int], span: Span, interval_s: float) -> list[Row]:
    """Where a source was silent within a window: ``[{from_s, to_s}]`` from the window's start, its edges included."""
    limit = max(int(GAP_INTERVALS * interval_s * 1e9), GAP_NS)
    marks = [span.start_ns, *sorted(times), span.end_ns]
    return [
        {"from_s": (a - span.start_ns) / 1e9, "to_s": (b - span.start_ns) / 1e9}
        for a, b in pairwise(marks)
        if b - a > limit
    ]


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


def judge(alerts: Row, counters: Row, throttle: Row, witnesses: Mapping[str, bool]) -> Row:
    """``{state: clean|under|unknown, alerts: n, text, why: [...]}``.

    ``witnesses`` says what the box has to see a slow-down with: ``cooling`` devices and ``over_current`` counters.
    """
    why = []
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


def attribute(
    spans: Sequence[Span],
    sysfs: Iterable[Row],
    tegrastats: Iterable[tuple[int, Numbers]],
    log: KernelLog,
    offset_s: float,
    about: Mapping[str, Any],
) -> list[Row]:
    """Every window with its statistics, alerts and verdict. ``about`` is ``recorder.json``.

    Where both sources know a series, tegrastats' is kept: its temperatures and rails are read at one moment.
    """
    collector, own = Collector(spans), Collector(spans)
    rows: list[Row] = []
    before: Row | None = None
    for row in sysfs:
        own.add(row["t"], "sysfs", with_hottest(sysfs_numbers(row, before, int(about.get("page_bytes") or 4096))))
        # Of the rest only what the verdict needs is kept: a night at 100 ms must fit into memory.
        rows.append({key: row.get(key) for key in ("t", "c", "oc")})
        before = row
    for t, numbers in tegrastats:
        collector.add(t, "tegrastats", with_hottest(numbers))
    sampled = about.get("sampled") or {}
    slowing = [name for name in sampled.get("cooling") or [] if "fan" not in name]
    witnesses = {"cooling": bool(slowing), "over_current": bool(sampled.get("over_current"))}
    interval = float(about.get("interval_s") or 5)
    found = []
    for i, span in enumerate(spans):
        values = {**own.values[i], **collector.values[i]}
        alerts, counters = kernel_alerts(log, offset_s, span), counter_moves(rows, span)
        throttle = throttle_states(rows, span)
        found.append(
            {
                **span.about,
                "start_monotonic_ns": span.start_ns,
                "end_monotonic_ns": span.end_ns,
                "duration_s": (span.end_ns - span.start_ns) / 1e9,
                "verdict": judge(alerts, counters, throttle, witnesses),
                "alerts": alerts,
                "over_current": counters if witnesses["over_current"] else None,
                "throttle": throttle,
                "series": {name: summary([v for _t, v in pairs]) for name, pairs in sorted(values.items())},
                "buckets": buckets(values, span),
                "gaps": {
                    "sysfs": gaps(own.times[i].get("sysfs", []), span, interval),
                    "tegrastats": gaps(collector.times[i].get("tegrastats", []), span, interval)
                    if about.get("tegrastats")
                    else None,
                },
            }
        )
    return found
