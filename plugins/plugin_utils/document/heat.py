# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the box's heat and power did inside the windows, as ``telemetry/attribution.json`` has it.

The file, schema ``lobes.spike/attribution/1`` (times UTC, temperatures degrees Celsius, power watts; null is unknown)::

    trip        {name, temp_c, critical_c}                      the trip that throttles
    kernel_log  {covers_from_utc, alert, alerts, first_alert_utc, last_alert_utc, peak_per_minute, reason}
    windows     [{arm, result, verdict, alerts_inside, reason, tj_c: {min, p50, p95, max, mean}, rails_w}]
                result is a result's name, null for all of the arm's; verdict is clean, under_alerts, no_alert_seen
                (nothing was seen by what did watch, but the kernel log does not cover it) or unknown
    spans       [{name, arms, start_utc, end_utc, interval_s, samples, tj_c, samples_over, rails_w, ram_gib, swap_gib}]
    buckets     [{arm, start_utc, seconds, tj_c, rails_w, note}]
    series      [{t_utc, tj_c, rails_w: {rail: W}}]             what the report draws, thinned by whoever wrote it
    alerts_utc  [stamp]                                         when alerts were raised, as far as it is known
    checks      [{utc, text}]                                   single looks at the box

A verdict here is never made better than the file says: no entry is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..evidence import ArmEvidence, Evidence, Result, mapping, number, rows, text, whole
from .model import Document
from .words import ABSENT, clean, clock, columns, decimal, fixed, grouped

PATH: Final = "telemetry/attribution.json"
UNKNOWN: Final = "unknown (heat and power were not recorded)"


@dataclass(frozen=True)
class Heat:
    """One window's verdict: ``words`` for a line, ``alerts`` inside it (None when that is not known)."""

    verdict: str
    words: str
    alerts: int | None = None

    @property
    def throttled(self) -> bool:
        """True when alerts fell inside the window."""
        return self.verdict == "under_alerts"


def of(evidence: Evidence, arm: str, result: str | None) -> Heat:
    """The verdict of a result's window, else of all of its arm, else unknown."""
    attribution = evidence.extra.get(PATH, {})
    found = [row for row in rows(attribution, "windows") if text(row, "arm") == arm]
    for name in (result, None):
        row = next((row for row in found if text(row, "result") == name), None)
        if row is not None:
            return _heat(row, attribution)
    return Heat("unknown", UNKNOWN)


def by_path(evidence: Evidence) -> dict[str, Heat]:
    """The verdict of every boot and result, by its file."""
    found = {arm.boot.path: of(evidence, arm.name, None) for arm in evidence.arms if arm.boot is not None}
    return found | {result.path: of(evidence, arm.name, result.name) for arm in evidence.arms for result in arm.results}


def _heat(row: Mapping[str, Any], attribution: Mapping[str, Any]) -> Heat:
    verdict, alerts = text(row, "verdict") or "unknown", whole(row, "alerts_inside")
    reason = text(row, "reason")
    told = f" ({clean(reason)})" if reason else ""
    bound = _bound(row, attribution)
    if verdict == "under_alerts":
        return Heat(verdict, f"under {grouped(alerts)} alerts{bound}", alerts)
    if verdict == "clean":
        return Heat(verdict, f"clean{told}{bound}", alerts)
    if verdict == "no_alert_seen":
        return Heat(verdict, f"no alert seen; kernel log does not cover{bound}", alerts)
    return Heat("unknown", f"unknown{told}{bound}")


def _bound(row: Mapping[str, Any], attribution: Mapping[str, Any]) -> str:
    """How far the hottest sample stayed from the trip, which bounds what no log covers."""
    hottest, trip = number(row, "tj_c", "max"), number(attribution, "trip", "temp_c")
    if hottest is None:
        return ""
    if trip is None:
        return f"; tj max {fixed(hottest, 1)} C"
    distance = trip - hottest
    where = f"{fixed(distance, 1)} C below" if distance > 0 else f"{fixed(-distance, 1)} C above"
    return f"; tj max {fixed(hottest, 1)} C, {where} the {fixed(trip, 1)} C trip"


def flags(evidence: Evidence) -> tuple[str, ...]:
    """A sentence for every window that alerts fell into: its figures are of a throttled box."""
    found = []
    for arm in evidence.arms:
        for result in arm.results:
            heat = of(evidence, arm.name, result.name)
            if heat.throttled:
                found.append(
                    f"{clean(arm.name, 40)}, {clean(result.name, 80)}: measured under {grouped(heat.alerts)} throttle "
                    "alerts; its figures are of a box that was throttled, and conservative."
                )
    return tuple(found)


def arm_line(evidence: Evidence, arm: ArmEvidence) -> list[str]:
    """One line for an arm all of whose results share a verdict."""
    shared = of(evidence, arm.name, None)
    own = any(
        text(row, "arm") == arm.name and text(row, "result") for row in rows(evidence.extra.get(PATH, {}), "windows")
    )
    return [] if own or shared.words == UNKNOWN else [f"Heat: {shared.words}"]


def result_note(evidence: Evidence, result: Result) -> str:
    """What stands beside a result that has a verdict of its own; empty when its arm's verdict says it all."""
    own = any(
        text(row, "arm") == result.arm and text(row, "result") == result.name
        for row in rows(evidence.extra.get(PATH, {}), "windows")
    )
    return of(evidence, result.arm, result.name).words if own else ""


def section(document: Document) -> list[str]:
    """Heat and power over the spike: spans, buckets, the kernel log, single looks."""
    attribution = document.evidence.extra.get(PATH)
    lines = ["## Heat and power", ""]
    if not attribution:
        return [*lines, f"{UNKNOWN}.", ""]
    trip = mapping(attribution, "trip")
    if number(trip, "temp_c") is not None:
        critical = number(trip, "critical_c")
        lines.append(
            f"{clean(text(trip, 'name') or 'throttling')} trip {fixed(number(trip, 'temp_c'), 1)} C"
            f"{f', critical {fixed(critical, 1)} C' if critical is not None else ''} {document.mark(PATH)}"
        )
    for span in rows(attribution, "spans"):
        lines += _span(span)
    buckets = rows(attribution, "buckets")
    if buckets:
        rails = sorted({rail for bucket in buckets for rail in mapping(bucket, "rails_w")})
        head = ["from", "arm", "tj max C", "tj mean C", *(f"{clean(rail, 20)} mean W" for rail in rails), "what ran"]
        lines += columns(head, [_bucket(bucket, rails) for bucket in buckets])
    lines += _kernel_log(mapping(attribution, "kernel_log"))
    for check in rows(attribution, "checks"):
        lines.append(f"  {clock(text(check, 'utc'))} {clean(text(check, 'text') or '')}")
    return [*lines, ""]


def _span(span: Mapping[str, Any]) -> list[str]:
    begin, end = text(span, "start_utc"), text(span, "end_utc")
    when = f", {clock(begin)} -> {clock(end)}" if begin and end else ""
    samples = whole(span, "samples")
    every = f", {grouped(samples)} samples" if samples is not None else ""
    lines = [f"{clean(text(span, 'name') or 'span')}{when}{every}:"]
    over = [f"{grouped(number(row, 'samples'))} samples >= {decimal(number(row, 'temp_c'), 0)} C"
            for row in rows(span, "samples_over")]  # fmt: skip
    parts = [("tj C", mapping(span, "tj_c"))]
    parts += [(f"{clean(rail, 20)} W", mapping(span, "rails_w", rail)) for rail in sorted(mapping(span, "rails_w"))]
    parts += [("RAM GiB", mapping(span, "ram_gib")), ("swap GiB", mapping(span, "swap_gib"))]
    for words, stats in parts:
        known = [f"{name} {fixed(number(stats, name), 1)}" for name in ("min", "p50", "p95", "max", "mean")
                 if number(stats, name) is not None]  # fmt: skip
        if known:
            told = f" ({', '.join(over)})" if words == "tj C" and over else ""
            lines.append(f"  {words:10} {' | '.join(known)}{told}")
    return lines


def _bucket(bucket: Mapping[str, Any], rails: list[str]) -> list[str]:
    return [
        clock(text(bucket, "start_utc")),
        clean(text(bucket, "arm") or ABSENT, 20),
        fixed(number(bucket, "tj_c", "max"), 1),
        fixed(number(bucket, "tj_c", "mean"), 1),
        *(fixed(number(bucket, "rails_w", rail, "mean"), 1) for rail in rails),
        clean(text(bucket, "note") or "", 80),
    ]


def _kernel_log(log: Mapping[str, Any]) -> list[str]:
    if not log:
        return []
    covers = text(log, "covers_from_utc")
    if covers is None:
        return [f"Kernel log: could not be read ({clean(text(log, 'reason') or 'no reason recorded')})"]
    alerts = whole(log, "alerts")
    if not alerts:
        said = "no alert" if alerts == 0 else "alerts not counted"
    else:
        peak = whole(log, "peak_per_minute")
        said = (
            f"{grouped(alerts)} {clean(text(log, 'alert') or 'throttle')} events, first "
            f"{clock(text(log, 'first_alert_utc'))}, last {clock(text(log, 'last_alert_utc'))} UTC"
            f"{f', at most {peak} a minute' if peak else ''}"
        )
    return [f"Kernel log, from {clean(covers, 40)}: {said}"]


def fan(evidence: Evidence) -> list[str]:
    """The fan's policy as the box told it."""
    found = mapping(evidence.box, "fan")
    fans = rows(found, "query", "fans")
    if not fans:
        return []
    told = "; ".join(
        ", ".join(f"{name} {clean(one.get(name), 40)}" for name in ("profile", "governor", "control") if one.get(name))
        for one in fans
    )
    stale = " (the configuration file was edited later and is not in force)" if found.get("stale_conf") is True else ""
    return [f"fan      {told}{stale}"]
