# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the box's heat and power did inside the windows, as ``telemetry/attribution.json`` has it.

The verdicts are made where that file is made (``module_utils/box/attribution.py``): clean, under N alerts, unknown.
Nothing here makes one better. A window's row belongs to the result or boot at its ``path``; in a transcribed record a
row without a path stands for all of its arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ansible_collections.lobes.spike.plugins.module_utils.results.window import utc_text

from ..evidence import ArmEvidence, Evidence, Result, flag, mapping, number, rows, text, texts, whole
from .model import Document
from .words import ABSENT, clean, clock, columns, decimal, fixed, grouped, seconds, time_of_day, wrapped

PATH: Final = "telemetry/attribution.json"
UNKNOWN: Final = "unknown: heat and power were not recorded"
TEMPERATURES: Final = ("temp_c.tj", "temp_c.gpu", "temp_c.hottest")
"""Which series stands for the box's temperature, the first that is there."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Heat:
    """One window's verdict in words; ``alerts`` inside it, None when that is not known."""

    state: str
    words: str
    alerts: int | None = None

    @property
    def throttled(self) -> bool:
        """True when something slowed the box inside the window."""
        return self.state == "under"


class Windows:
    """The verdicts of one spike, looked up by file."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.rows = rows(evidence.extra.get(PATH, {}), "windows")
        self.trip = trip(evidence)
        self._by_path = {path: row for row in self.rows if (path := text(row, "path"))}
        self._by_arm = {arm: row for row in self.rows if not text(row, "path") and (arm := text(row, "arm"))}

    def of(self, path: str, arm: str) -> Heat:
        """The verdict of a result or boot, else of all of its arm, else unknown."""
        row = self._by_path.get(path) or self._by_arm.get(arm)
        return Heat("unknown", UNKNOWN) if row is None else self.judged(row)

    def own(self, path: str) -> Row | None:
        """The row of this very file."""
        return self._by_path.get(path)

    def whole_arm(self, arm: str) -> Row | None:
        """The row that stands for all of an arm."""
        return self._by_arm.get(arm)

    def judged(self, row: Row) -> Heat:
        """A row's verdict with how far the hottest sample stayed from the trip, and how much of the window was seen."""
        verdict = mapping(row, "verdict")
        state = text(verdict, "state") or "unknown"
        said = clean(text(verdict, "text") or state, 400)
        seen = recorded(row)
        asleep = number(row, "suspended_s")
        more = (
            self._bound(row, seen is not None),
            f"; {seen} of the window was recorded" if seen else "",
            f"; the box was suspended for {fixed(asleep, 1)} s in it, and its clock stood still" if asleep else "",
        )
        return Heat(state, "".join((said, *more)), whole(verdict, "alerts"))

    def _bound(self, row: Row, partly: bool) -> str:
        found = temperature(row)
        hottest = number(found[1], "max") if found else None
        if found is None or hottest is None:
            return ""
        least = f"{fixed(number(found[1], 'min'), 1)} to" if partly else "max"
        words = f"; {found[0]} {least} {fixed(hottest, 1)} C{_source(row)}"
        if self.trip is None:
            return words
        distance = self.trip - hottest
        side = "below" if distance > 0 else "above"
        return f"{words}, {fixed(abs(distance), 1)} C {side} the {fixed(self.trip, 1)} C trip"


def temperature(row: Row) -> tuple[str, Row] | None:
    """The series that stands for the box's temperature in a row: its name and its summary."""
    name = _temperature_name(row)
    return None if name is None else (name.partition(".")[2], mapping(row, "series", name))


def _temperature_name(row: Row) -> str | None:
    return next((name for name in TEMPERATURES if mapping(row, "series", name)), None)


def _source(row: Row) -> str:
    """Where a temperature comes from, said where it is not from one source throughout."""
    said = mapping(row, "sources").get(_temperature_name(row) or "")
    return f" ({clean(said, 60)})" if isinstance(said, str) and " " in said else ""


def recorded(row: Row) -> str | None:
    """The part of a window that was recorded, ``94.1%``; None when nothing is missing, or that is not known."""
    share = number(row, "recorded_share")
    # Never rounded up to a whole.
    return None if share is None or share >= 1 else f"{fixed(int(max(share, 0.0) * 1000) / 10, 1)}%"


def trip(evidence: Evidence) -> float | None:
    """The temperature at which the GPU is throttled: its zone's passive trip, as the box told it."""
    for zone in rows(evidence.box, "thermal", "zones"):
        if "gpu" in (text(zone, "type") or ""):
            for point in rows(zone, "trips"):
                if text(point, "type") == "passive":
                    return number(point, "temp_c")
    return None


def by_path(evidence: Evidence) -> dict[str, Heat]:
    """The verdict of every boot and result, by its file."""
    windows = Windows(evidence)
    found = {arm.boot.path: windows.of(arm.boot.path, arm.name) for arm in evidence.arms if arm.boot is not None}
    return found | {r.path: windows.of(r.path, arm.name) for arm in evidence.arms for r in arm.results}


def flags(evidence: Evidence) -> tuple[str, ...]:
    """A sentence for every window in which the box was held back: its figures are of a throttled box."""
    windows = Windows(evidence)
    return tuple(
        f"{clean(arm.name, 40)}, {clean(result.name, 80)}: measured {heat.words}; its figures are of a box that was "
        "held back, and conservative."
        for arm in evidence.arms
        for result in arm.results
        if (heat := windows.of(result.path, arm.name)).throttled
    )


def clock_steps(evidence: Evidence) -> tuple[str, ...]:
    """The box's clock was set while it was measured; times of day before and after do not belong together."""
    return tuple(
        f"The box's UTC clock was stepped by {fixed(number(step, 'step_s'), 3)} s during the spike; durations are of "
        "the monotonic clock and stand."
        for step in rows(evidence.extra.get(PATH, {}), "clocks", "steps")
    )


def limits(evidence: Evidence) -> tuple[str, ...]:
    """What the recording does not cover."""
    attribution = evidence.extra.get(PATH)
    if not attribution:
        return ("Heat and power inside the windows were not recorded: whether a figure was throttled is unknown.",)
    found = []
    reason = text(attribution, "kernel", "reason") or text(attribution, "kernel", "clock", "refused")
    if reason:
        found.append(f"Kernel log: {clean(reason)}.")
    if flag(attribution, "recorder", "tegrastats") is False:
        found.append("There was no tegrastats: temperatures and power are those of sysfs.")
    windows_ = rows(attribution, "windows")
    holes = [f"{_what(row)} ({_gaps(found_)})" for row in windows_ if (found_ := rows(row, "gaps", "sysfs"))]
    if holes:
        found.append(f"The recording was silent for a while inside these windows: {clean('; '.join(holes), 600)}.")
    deaf = [
        f"{_what(row)} ({_lengths(rows(row, 'gaps', 'tegrastats'))})"
        for row in windows_
        if rows(row, "gaps", "tegrastats") and not rows(row, "gaps", "sysfs")
    ]
    if deaf:
        found.append(
            f"tegrastats alone was silent for a while inside these windows: {clean('; '.join(deaf), 400)}. "
            "Temperatures and power there are those of sysfs, as far as it has them."
        )
    if (life := _last_life(attribution)) is not None and text(life, "end") == "unknown":
        found.append(f"Whether the recorder ran to the end of the spike is not known; {_last_line(life)}.")
    found += [
        f"{clean(text(row, 'arm') or ABSENT, 40)} {clean(text(row, 'name') or ABSENT, 60)}: measured in another boot "
        "of the box than the one that was recorded; its heat is unknown."
        for row in rows(attribution, "other_boot")
    ]
    return tuple(found)


LIVES: Final = {
    "lived": "the recorder lived",
    "died": "the recorder had died",
    "stopped": "no recorder ran",
    "not started": "no recorder ran yet",
}
"""What became of the recorder in a gap; anything else is not known."""


def _gaps(gaps: Sequence[Row]) -> str:
    """``6.1 s, the recorder lived``: how long nothing was recorded in a window, and what became of the recorder."""
    by_fate: dict[str, list[Row]] = {}
    for gap in gaps:
        fate = LIVES.get(text(gap, "recorder") or "", "whether the recorder lived is not known")
        by_fate.setdefault(fate, []).append(gap)
    return "; ".join(f"{_lengths(found)}, {fate}" for fate, found in by_fate.items())


def _lengths(gaps: Sequence[Row]) -> str:
    lengths = [(number(gap, "to_s") or 0.0) - (number(gap, "from_s") or 0.0) for gap in gaps]
    return f"{fixed(sum(lengths), 1)} s{f' in {len(lengths)} gaps' if len(lengths) > 1 else ''}"


def _last_life(attribution: Row) -> Row | None:
    lives = rows(attribution, "recorder", "lives")
    return lives[-1] if lives else None


def _last_line(life: Row) -> str:
    return f"its last line is of {_utc(life, 'last_line')}"


def _utc(life: Row, moment: str) -> str:
    """A moment of a recorder's life as UTC text."""
    ns = whole(life, moment, "u")
    return utc_text(ns / 1e9) if ns is not None and 0 <= ns < 1 << 62 else ABSENT


def recorder_incidents(evidence: Evidence) -> tuple[str, ...]:
    """What happened to the recorder itself: how it ended where it was not stopped, and what it told of its sources."""
    attribution = evidence.extra.get(PATH, {})
    found = []
    for life in rows(attribution, "recorder", "lives"):
        if text(life, "end") == "died":
            then = "it was not at work when the spike stopped it"
            if mapping(life, "started_anew"):
                then = f"another one was started at {_utc(life, 'started_anew')}"
            found.append(f"The recorder of heat and power died or was killed: {_last_line(life)}, and {then}.")
        elif text(life, "end") == "killed":
            found.append(
                f"The recorder of heat and power did not end when it was to, and was killed; {_last_line(life)}."
            )
    return (*found, *(_incident(row) for row in rows(attribution, "incidents")))


def _incident(row: Row) -> str:
    asleep = number(row, "suspended_s")
    if asleep is not None:
        return f"The box was suspended for {fixed(asleep, 1)} s: its monotonic clock stood still meanwhile."
    source = text(row, "source")
    return f"Recorder: {clean(text(row, 'event') or 'an event', 80)}{f' ({clean(source, 60)})' if source else ''}."


def arm_line(document: Document, arm: ArmEvidence) -> list[str]:
    """What holds for an arm as a whole: a transcribed record's one verdict, or what keeps all of it unknown."""
    windows = Windows(document.evidence)
    row = windows.whole_arm(arm.name)
    if row is not None and mapping(row, "verdict"):
        return [f"Heat: {windows.judged(row).words}"]
    reasons = _unknown_throughout(windows, arm)
    return wrapped(f"Heat: unknown for every figure below: {'; '.join(reasons)}", 100, "", "  ") if reasons else []


def result_note(document: Document, arm: ArmEvidence, result: Result) -> str:
    """What stands beside a result that has a verdict of its own; empty when its arm's line says it all."""
    windows = Windows(document.evidence)
    row = windows.own(result.path)
    if row is None:
        return ""
    told = _unknown_throughout(windows, arm)
    return "; ".join(reason for reason in _reasons(row) if reason not in told) if told else windows.judged(row).words


def _unknown_throughout(windows: Windows, arm: ArmEvidence) -> tuple[str, ...]:
    """The reasons that every result of an arm shares for its heat being unknown; none when one is known."""
    own = [row for result in arm.results if (row := windows.own(result.path)) is not None]
    if not own or any(text(row, "verdict", "state") != "unknown" for row in own):
        return ()
    return tuple(reason for reason in _reasons(own[0]) if all(reason in _reasons(row) for row in own))


def _reasons(row: Row) -> list[str]:
    said = clean(text(row, "verdict", "text") or "", 400)
    return [reason for part in said.removeprefix("unknown").lstrip(": ").split(";") if (reason := part.strip())]


def section(document: Document) -> list[str]:
    """Heat and power over the spike: every window, long ones by five minutes, the kernel log, single looks."""
    attribution = document.evidence.extra.get(PATH)
    lines = ["## Heat and power", ""]
    if not attribution:
        return [*lines, f"{UNKNOWN}.", ""]
    windows = Windows(document.evidence)
    if windows.trip is not None:
        lines.append(f"GPU throttle trip {fixed(windows.trip, 1)} C {document.mark('box.json')}")
    recorder = mapping(attribution, "recorder")
    if number(recorder, "interval_s") is not None:
        source = "tegrastats and sysfs" if flag(recorder, "tegrastats") else "sysfs"
        lines.append(f"Recorded every {decimal(number(recorder, 'interval_s'))} s from {source} {document.mark(PATH)}")
    shown = [row for row in windows.rows if mapping(row, "series")]
    if shown:
        lines += _table(windows, shown)
    for row in windows.rows:
        lines += [*_detail(row), *_buckets(row)]
    lines += _kernel(attribution, windows)
    for check in rows(attribution, "checks"):
        lines.append(f"  {clock(text(check, 'utc'))} {clean(text(check, 'text') or '')}")
    return [*lines, ""]


def _table(windows: Windows, shown: Sequence[Row]) -> list[str]:
    rail = main_rail(shown)
    head = ["window", "from", "to", "tj p50 C", "max C", f"{rail or 'power'} mean W", "max W", "verdict"]
    lines = []
    for row in shown:
        heat, power = temperature(row), mapping(row, "series", f"power_w.{rail}") if rail else {}
        found = heat[1] if heat else {}
        lines.append(
            [
                _what(row),
                clock(text(row, "start_utc")),
                clock(text(row, "end_utc")),
                fixed(number(found, "p50"), 1),
                fixed(number(found, "max"), 1),
                fixed(number(power, "mean"), 1),
                fixed(number(power, "max"), 1),
                _verdict(row),
            ]
        )
    return columns(head, lines)


def _verdict(row: Row) -> str:
    """A verdict for a table; why something is unknown stands with its result."""
    verdict = mapping(row, "verdict")
    said = text(verdict, "text") or ABSENT
    seen = f", {found} recorded" if (found := recorded(row)) else ""
    return f"{clean(text(verdict, 'state') or ABSENT if said.startswith('unknown:') else said, 60)}{seen}"


def main_rail(shown: Sequence[Row]) -> str | None:
    """The GPU's rail where there is one, else the first."""
    names = {name for row in shown for name in mapping(row, "series") if name.startswith("power_w.")}
    rails = sorted(name.partition(".")[2] for name in names)
    return next((rail for rail in rails if "GPU" in rail.upper()), rails[0] if rails else None)


def _detail(row: Row) -> list[str]:
    """All that was recorded of a long window, or of an arm as a whole."""
    if (text(row, "path") and not rows(row, "buckets")) or not mapping(row, "series"):
        return []
    note = text(row, "note")
    lines = [f"{_what(row)}{f': {clean(note, 200)}' if note else ''}"]
    for name in mapping(row, "series"):
        stats = mapping(row, "series", name)
        known = [f"{member} {fixed(number(stats, member), 1)}" for member in ("min", "p50", "p95", "max", "mean")
                 if number(stats, member) is not None]  # fmt: skip
        if known and name.startswith(("temp_c.", "power_w.", "ram_", "memory_", "swap_")):
            lines.append(f"  {clean(name, 40):22} {' | '.join(known)}")
    return lines


def _what(row: Row) -> str:
    return f"{clean(text(row, 'arm') or ABSENT, 20)} {clean(text(row, 'name') or 'as a whole', 60)}"


def _buckets(row: Row) -> list[str]:
    found = rows(row, "buckets")
    if not found:
        return []
    name = next((name for name in TEMPERATURES if mapping(found[0], "series", name)), TEMPERATURES[0])
    rail = main_rail(found)
    start = seconds(text(row, "start_utc"))
    head = ["from", "tj max C", "tj mean C", f"{rail or 'power'} mean W", "what ran"]
    lines = [
        [
            _bucket_start(start, bucket),
            fixed(number(bucket, "series", name, "max"), 1),
            fixed(number(bucket, "series", name, "mean"), 1),
            fixed(number(bucket, "series", f"power_w.{rail}", "mean"), 1),
            clean(text(bucket, "note") or "", 80),
        ]
        for bucket in found
    ]
    return [f"{_what(row)}, by five minutes:", *columns(head, lines)]


def _bucket_start(start: float | None, bucket: Row) -> str:
    after = number(bucket, "from_s")
    return time_of_day(start + after) if start is not None and after is not None and abs(after) < 1e7 else ABSENT


def _kernel(attribution: Row, windows: Windows) -> list[str]:
    log = mapping(attribution, "kernel")
    lines = [f"Kernel log: {clean(line)}" for line in texts(log, "notes")]
    begin, end = number(log, "covers_from_s"), number(log, "covers_to_s")
    if begin is not None and end is not None:
        lines.append(
            f"Kernel log ({clean(text(log, 'source') or 'source not recorded', 60)}): known over "
            f"{fixed(end - begin, 0)} s, {grouped(number(log, 'messages'))} messages"
        )
    for row in windows.rows:
        alerts = mapping(row, "alerts")
        inside = whole(alerts, "inside")
        if inside:
            kinds = ", ".join(f"{grouped(number(mapping(alerts, 'by_kind'), kind))} {clean(kind, 40)}"
                              for kind in mapping(alerts, "by_kind"))  # fmt: skip
            peak = whole(alerts, "per_minute_max")
            lines.append(
                f"Kernel log, {_what(row)}: {grouped(inside)} alerts inside{f' ({kinds})' if kinds else ''}, "
                f"{grouped(whole(alerts, 'before'))} before, {grouped(whole(alerts, 'after'))} after"
                f"{f', at most {peak} a minute' if peak else ''}"
            )
    return lines


def alert_times(evidence: Evidence, seconds: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """First and last alert of every window in seconds of UTC; ``seconds`` has the windows' starts by path."""
    for row in rows(evidence.extra.get(PATH, {}), "windows"):
        start = seconds.get(text(row, "path") or "")
        for words, member in (("first", "first_s"), ("last", "last_s")):
            after = number(row, "alerts", member)
            if start is not None and after is not None:
                yield start + after, f"{words} of {grouped(whole(row, 'alerts', 'inside'))} alerts"


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
