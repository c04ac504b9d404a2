# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pictures the report has and what is in them; a picture that has nothing to show is not there."""

from __future__ import annotations

import datetime
import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..evidence import ArmEvidence, Result, mapping, number, rows, text, whole
from . import heat
from .figures import find
from .model import Document, Figure, Ranking
from .svg import (
    WIDTH,
    Axis,
    Backdrop,
    Band,
    Bar,
    Point,
    Series,
    chart,
    gantt,
    legend,
    linear_axis,
    log_axis,
    whiskers,
)
from .tables import decode_at_depth, needle_depths, session_counts, sweep_levels, thousands
from .words import clean, decimal, fixed, seconds

Href = Callable[[Figure], str]
SAMPLES_DRAWN: Final = 64
"""More samples of one level than this are drawn as their range alone."""


@dataclass(frozen=True)
class Picture:
    """A drawn picture with its caption; ``wide`` ones take the page's whole width."""

    title: str
    svg: str
    caption: str
    wide: bool = False


class Gallery:
    """All pictures of one document. ``href`` leads from a figure to its place in the page."""

    def __init__(self, document: Document, href: Href) -> None:
        self.document = document
        self.href = href
        self.arms = [arm for arm in document.evidence.arms if arm.results or arm.boot]
        self.index = {arm.name: number for number, arm in enumerate(self.arms)}

    def legend(self) -> str:
        """Colours, dashes and markers of the arms."""
        return legend([(f"{clean(arm.name, 20)} {clean(arm.title, 40)}", self.index[arm.name]) for arm in self.arms])

    def all(self) -> tuple[Picture, ...]:
        """Every picture that has something to show, in the order of the page."""
        made = [
            self._by_depth("Cold prefill", "prefill_tok_s", "tok/s", self._prefill),
            self._by_depth("Decode at depth", "decode_tok_s", "tok/s", self._decode),
            self._by_level("Aggregate throughput", "aggregate_tok_s", None),
            self._by_level("Decode per request", "decode_tok_s_p50", "decode_tok_s_min"),
            self._ttft(),
            *(self._turns(sessions) for sessions in session_counts(self.document.figures)),
            self._boots(),
            self._over_time("Temperature", "°C", self._temperature()),
            self._over_time("Power", "W", self._power()),
        ]
        return tuple(picture for picture in made if picture is not None)

    def ranking(self, ranking: Ranking) -> str:
        """One workload's contenders on a common axis, their runs' range behind the median."""
        ends = [end for contender in ranking.contenders for end in (contender.low, contender.high)]
        axis = linear_axis(unit_of(ranking.measure), ends)
        lines = [
            (
                clean(contender.arm, 12),
                self.index.get(contender.arm, 0),
                Point(
                    contender.central,
                    0,
                    f"{contender.arm}: {decimal(contender.central)}",
                    self.href(contender.figures[0]),
                    contender.low,
                    contender.high,
                ),
            )
            for contender in ranking.contenders
        ]
        return whiskers(ranking.workload, axis, lines)

    def _series(self, make: Callable[[ArmEvidence], Iterable[Point]], joined: bool = True) -> list[Series]:
        made = [Series(arm.name, self.index[arm.name], tuple(make(arm)), joined) for arm in self.arms]
        return [series for series in made if series.points]

    def _by_depth(
        self, title: str, measure: str, unit: str, pick: Callable[[ArmEvidence, int], Figure | None]
    ) -> Picture | None:
        depths = needle_depths(self.document.figures)

        def points(arm: ArmEvidence) -> Iterable[Point]:
            for depth in depths:
                figure = pick(arm, depth)
                if figure is not None and figure.value is not None:
                    told = f"{arm.name}, {depth:,} tokens: {fixed(figure.value, 1)} {unit} ({figure.state})"
                    yield Point(depth, figure.value, told, self.href(figure))

        series = self._series(points)
        if not series:
            return None
        reached = sorted({point.x for one in series for point in one.points})
        x = log_axis("prompt tokens", [(depth, thousands(depth)) for depth in reached])
        y = linear_axis(unit, (point.y for one in series for point in one.points))
        return Picture(title, chart(title, x, y, series), f"{unit} against depth; {_NEEDLE_NOTE[measure]}")

    def _prefill(self, arm: ArmEvidence, depth: int) -> Figure | None:
        found = find(self.document.figures, arm.name, f"needle {depth}", "prefill_tok_s", "cold")
        return found[0] if found else None

    def _decode(self, arm: ArmEvidence, depth: int) -> Figure | None:
        return decode_at_depth(self.document.figures, arm.name, depth)

    def _by_level(self, title: str, measure: str, least: str | None) -> Picture | None:
        levels = sweep_levels(self.document.figures)

        def points(arm: ArmEvidence) -> Iterable[Point]:
            for level in levels:
                found = find(self.document.figures, arm.name, f"sweep {level}", measure)
                if found and found[0].value is not None:
                    lowest = find(self.document.figures, arm.name, f"sweep {level}", least) if least else ()
                    low = lowest[0].value if lowest else None
                    told = f"{arm.name}, N={level}: {fixed(found[0].value, 1)} tok/s"
                    high = found[0].value if low is not None else None
                    yield Point(level, found[0].value, told, self.href(found[0]), low, high)

        series = self._series(points)
        if not series:
            return None
        x = log_axis("requests at once", [(level, str(level)) for level in levels])
        y = linear_axis("tok/s", (point.y for one in series for point in one.points))
        what = "all requests of a level together" if least is None else "median, with the slowest request below it"
        return Picture(title, chart(title, x, y, series), what)

    def _ttft(self) -> Picture | None:
        levels = sweep_levels(self.document.figures)
        samples = {arm.name: _sweep_samples(arm) for arm in self.arms}

        def summary(arm: ArmEvidence) -> Iterable[Point]:
            for level in levels:
                middle, most = (
                    find(self.document.figures, arm.name, f"sweep {level}", name)
                    for name in ("ttft_s_p50", "ttft_s_max")
                )
                if middle and middle[0].value is not None:
                    high = most[0].value if most else None
                    told = f"{arm.name}, N={level}: p50 {fixed(middle[0].value, 3)} s, max {fixed(high, 3)} s"
                    low = min(samples[arm.name].get(level, [middle[0].value]))
                    yield Point(level, middle[0].value, told, self.href(middle[0]), low, high)

        def single(arm: ArmEvidence) -> Iterable[Point]:
            for level, found in samples[arm.name].items():
                if len(found) <= SAMPLES_DRAWN:
                    yield from (Point(level, value, "", "", value, value * 1.004) for value in found)

        series = self._series(summary)
        if not series:
            return None
        x = log_axis("requests at once", [(level, str(level)) for level in levels])
        ends = [p.high if p.high is not None else p.y for one in series for p in one.points]
        picture = chart("Time to first token", x, linear_axis("s", ends), [*self._series(single, False), *series])
        return Picture("Time to first token", picture, "in the sweep: median, shortest to longest of a level")

    def _turns(self, sessions: int) -> Picture | None:
        def points(arm: ArmEvidence) -> Iterable[Point]:
            result = next((r for r in arm.of("agentic") if whole(r.summary, "sessions") == sessions), None)
            for turn, values in enumerate(_turn_ttfts(result) if result is not None else [], start=1):
                if values:
                    middle = statistics.median(values)
                    told = f"{arm.name}, turn {turn}: {fixed(middle, 2)} s"
                    yield Point(turn, middle, told, "", min(values), max(values))

        series = self._series(points)
        if not series:
            return None
        last = int(max(point.x for one in series for point in one.points))
        x = Axis("turn", 0.5, last + 0.5, tuple((turn, str(turn)) for turn in range(1, last + 1)))
        y = linear_axis("TTFT s", (p.high or p.y for one in series for p in one.points))
        title = f"Agentic turns, {sessions} session{'s' if sessions > 1 else ''}"
        return Picture(title, chart(title, x, y, series), "time to first token of each turn, over the sessions")

    def _boots(self) -> Picture | None:
        steps = {arm.name: _boot_steps(arm) for arm in self.arms}
        # A phase has one colour on every boot; the order of their first appearance gives it.
        colours = {
            name: n for n, name in enumerate(dict.fromkeys(step[0] for found in steps.values() for step in found))
        }
        bars = [
            Bar(
                clean(arm.name, 8),
                begin,
                end,
                f"{arm.name}: {name}, {end - begin:.0f} s",
                colours[name],
                name,
                f"#r{self.document.references.get(arm.boot.path)}" if arm.boot is not None else "",
            )
            for arm in self.arms
            for name, begin, end in steps[arm.name]
        ]
        if not bars:
            return None
        svg = gantt("Boots", linear_axis("seconds", (block.end for block in bars)), bars)
        return Picture("Boots", svg, "where each boot's time went, from the first line of its log", wide=True)

    def _over_time(self, title: str, unit: str, series: list[Series]) -> Picture | None:
        if not series:
            return None
        times = [point.x for one in series for point in one.points]
        begin, end = min(times), max(times)
        ends = [end for one in series for p in one.points for end in (p.y, p.high) if end is not None]
        trip = heat.trip(self.document.evidence) if unit == "°C" else None
        y = linear_axis(unit, [*ends, *([trip] if trip is not None else [])], zero=unit != "°C")
        marks = tuple(Point(at, 0, told) for at, told in self._alerts() if begin <= at <= end)
        backdrop = Backdrop(tuple(self._phase_bands(begin, end)), marks, trip, f"throttle trip {trip} °C")
        picture = chart(title, _time_axis(begin, end), y, series, backdrop, 2 * WIDTH)
        rails = f"; {', '.join(one.name for one in series)}" if unit == "W" else ""
        return Picture(title, picture, f"{_HEAT_NOTE}{rails}", wide=True)

    def _temperature(self) -> list[Series]:
        fine = [Point(m.utc_s, m.tj_c, "") for m in self.document.evidence.curve if m.tj_c is not None]
        if len(fine) > 1:
            return [Series("tj", 0, tuple(fine))]
        coarse = []
        for at, row in self._bucket_rows():
            found = heat.temperature(row)
            mean, most = (number(found[1], name) for name in ("mean", "max")) if found else (None, None)
            if mean is not None:
                note = clean(text(row, "note") or "five minutes", 80)
                coarse.append(Point(at, mean, f"{note}: tj mean {mean} C, max {decimal(most, 1)} C", "", mean, most))
        return [Series("tj", 0, tuple(coarse))] if len(coarse) > 1 else []

    def _power(self) -> list[Series]:
        fine: dict[str, list[Point]] = {}
        for moment in self.document.evidence.curve:
            for rail, watts in moment.rails_w.items():
                fine.setdefault(rail, []).append(Point(moment.utc_s, watts, ""))
        coarse: dict[str, list[Point]] = {}
        for at, row in self._bucket_rows():
            for name in mapping(row, "series"):
                mean = number(row, "series", name, "mean")
                if name.startswith("power_w.") and mean is not None:
                    rail = clean(name.partition(".")[2], 20)
                    coarse.setdefault(rail, []).append(Point(at, mean, f"{rail} mean {mean} W"))
        made = [
            Series(clean(rail, 20), n, tuple(points))
            for n, (rail, points) in enumerate(sorted((fine or coarse).items()))
        ]
        return [series for series in made if len(series.points) > 1]

    def _bucket_rows(self) -> list[tuple[float, Mapping[str, Any]]]:
        """The five-minute buckets of long windows, at their middle."""
        found = []
        for row in rows(self.document.evidence.extra.get(heat.PATH, {}), "windows"):
            start = seconds(text(row, "start_utc"))
            for bucket in rows(row, "buckets") if start is not None else ():
                begin, end = number(bucket, "from_s"), number(bucket, "to_s")
                if start is not None and begin is not None and end is not None and abs(begin + end) < 1e7:
                    found.append((start + (begin + end) / 2, bucket))
        return sorted(found, key=lambda pair: pair[0])

    def _alerts(self) -> list[tuple[float, str]]:
        starts = {
            row_path: at
            for row in rows(self.document.evidence.extra.get(heat.PATH, {}), "windows")
            if (row_path := text(row, "path")) and (at := seconds(text(row, "start_utc"))) is not None
        }
        return list(heat.alert_times(self.document.evidence, starts))

    def _phase_bands(self, begin: float, end: float) -> Iterable[Band]:
        windows: dict[tuple[float, float], list[str]] = {}
        for arm in self.arms:
            for result in arm.results:
                start = seconds(text(result.window, "start_utc"))
                stop = seconds(text(result.window, "end_utc"))
                if start is not None and stop is not None and stop > begin and start < end:
                    span = max(start, begin), min(stop, end)
                    windows.setdefault(span, []).append(f"{arm.name} {clean(result.name, 40)}")
        for n, ((start, stop), names) in enumerate(sorted(windows.items())):
            yield Band(start, stop, ", ".join(names), n)


_NEEDLE_NOTE: Final = {
    "prefill_tok_s": "single cold samples",
    "decode_tok_s": "the warm sample where there is one, else the cold one",
}
_HEAT_NOTE: Final = "over the spike; phases behind, alerts as marks on the floor"


def unit_of(measure: str) -> str:
    """The unit that a measure's name ends with."""
    return "tok/s" if "tok_s" in measure else "s"


def _time_axis(begin: float, end: float) -> Axis:
    """Ticks at round times of day, UTC."""
    span = max(end - begin, 1.0)
    step = next((s for s in (10, 30, 60, 300, 600, 1800, 3600, 7200, 21600) if span / s <= 10), int(span / 10))
    ticks = []
    for at in range(int(begin // step + 1) * step, int(end) + 1, step):
        minutes, second = divmod(at, 60)
        clock = f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"
        ticks.append((at, clock if step >= 60 else f"{clock}:{second:02d}"))
    return Axis("UTC", begin, end, tuple(ticks))


def _sweep_samples(arm: ArmEvidence) -> dict[int, list[float]]:
    """TTFTs by level, as far as the samples say which level they belong to (``n8-r1-3``)."""
    found: dict[int, list[float]] = {}
    for result in arm.of("sweep"):
        for sample in result.samples:
            label, value = text(sample, "label") or "", number(sample, "ttft_s")
            level = label.split("-", 1)[0].removeprefix("n")
            if label.startswith("n") and level.isdigit() and value is not None:
                found.setdefault(int(level), []).append(value)
    return found


def _turn_ttfts(result: Result) -> list[list[float]]:
    turns: list[list[float]] = []
    for session in rows(result.summary, "sessions_detail"):
        for index, turn in enumerate(rows(session, "turns")):
            if index == len(turns):
                turns.append([])
            value = number(turn, "ttft_s")
            if value is not None:
                turns[index].append(value)
    return turns


def _boot_steps(arm: ArmEvidence) -> Sequence[tuple[str, float, float]]:
    """A boot's phases from its document; else the gaps between milestones by the log's clock."""
    if arm.boot is None:
        return []
    listed = [
        (clean(text(row, "name") or "", 60), begin, end)
        for row in rows(arm.boot.data, "phases")
        if (begin := number(row, "start_s")) is not None and (end := number(row, "end_s")) is not None
    ]
    if listed:
        return listed
    clocked = [
        (clean(text(row, "name") or "", 60), at)
        for row in arm.boot.milestones
        if (at := _log_seconds(text(row, "log_time"))) is not None
    ]
    if len(clocked) < 2:
        return []
    start = clocked[0][1]
    return [
        (f"to {name}", before - start, at - start)
        for (_name, before), (name, at) in itertools.pairwise(clocked)
        if at > before
    ]


def _log_seconds(log_time: str | None) -> float | None:
    """``09-13 21:41:18`` as seconds of a leap year; a log has no year and no zone."""
    try:
        stamp = datetime.datetime.strptime(f"2024-{log_time}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return stamp.replace(tzinfo=datetime.timezone.utc).timestamp()
