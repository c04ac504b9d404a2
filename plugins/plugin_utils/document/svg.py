# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's pictures, as inline SVG.

Written here rather than with a plotting library because the pictures have to be the same bytes wherever they are
rendered, follow the page's light, dark and print colours (they name CSS variables, never colours), and carry a link to
the evidence at every point; and because what runs wherever Ansible runs should not need one. Libraries that emit SVG
were looked at: their output changes with their version, holds fixed colours, and knows neither bands nor links.

Coordinates are in units of the view box; everything that is text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 480
HEIGHT: Final = 300
LEFT: Final = 56
RIGHT: Final = 14
TOP: Final = 26
BOTTOM: Final = 40
SERIES: Final = 6
"""How many series have a colour and a marker of their own; further ones begin anew."""

_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3", "4 4", "1 3")


@dataclass(frozen=True)
class Point:
    """A point with what a reader is told at it and where its evidence is; ``low`` and ``high`` draw its range."""

    x: float
    y: float
    told: str
    href: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """A named line of points; ``index`` gives its colour, dash and marker, the same for an arm in every picture."""

    name: str
    index: int
    points: tuple[Point, ...]
    joined: bool = True


@dataclass(frozen=True)
class Axis:
    """An axis: what it shows, its labelled ticks, and whether it is logarithmic."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def place(self, value: float, begin: float, end: float) -> float:
        """Where a value lies between two coordinates."""
        if self.log:
            share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low) or 1)
        else:
            share = (value - self.low) / (self.high - self.low or 1)
        return begin + (end - begin) * min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class Band:
    """A span of the x axis with a name: a phase."""

    start: float
    end: float
    name: str
    index: int = 0


@dataclass(frozen=True)
class Backdrop:
    """What stands behind a chart's lines: phases, marks on the floor, a limit."""

    bands: tuple[Band, ...] = ()
    marks: tuple[Point, ...] = ()
    limit: float | None = None
    limit_name: str = ""


@dataclass(frozen=True)
class Bar:
    """A horizontal bar from ``start`` to ``end`` on the line of ``row``."""

    row: str
    start: float
    end: float
    told: str
    index: int
    label: str = ""
    href: str = ""


def linear_axis(title: str, values: Iterable[float], zero: bool = True, unit: str = "") -> Axis:
    """A linear axis over the values with round ticks; from zero unless told otherwise."""
    found = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = (min(0.0, *found) if zero else min(found)), max(found)
    if high <= low:
        high = low + 1.0
    step = _step((high - low) / 5)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = tuple((n * step, f"{_number(n * step, step)}{unit}") for n in range(first, last + 1))
    return Axis(title, first * step, last * step, ticks)


def log_axis(title: str, ticks: Sequence[tuple[float, str]]) -> Axis:
    """A logarithmic axis whose ticks are the measured positions, with a little room on both sides."""
    places = [place for place, _label in ticks]
    low, high = min(places), max(places)
    room = (high / low) ** 0.06 if high > low else 2.0
    return Axis(title, low / room, high * room, tuple(ticks), log=True)


def chart(
    title: str, x: Axis, y: Axis, series: Sequence[Series], backdrop: Backdrop | None = None, width: int = WIDTH
) -> str:
    """Lines, points and ranges over an x axis, in front of what the backdrop holds."""
    behind = backdrop or Backdrop()
    height, floor, right = HEIGHT, HEIGHT - BOTTOM, width - RIGHT
    body = [*_bands(x, behind.bands, height, width), *_frame(x, y, height, width)]
    if behind.limit is not None and y.low <= behind.limit <= y.high:
        level = y.place(behind.limit, floor, TOP)
        body.append(f'<line class="limit" x1="{LEFT}" x2="{right}" y1="{_f(level)}" y2="{_f(level)}"/>')
        told = escape(behind.limit_name)
        body.append(f'<text class="limit" x="{right}" y="{_f(level - 4)}" text-anchor="end">{told}</text>')
    for one in series:
        body += _series(one, x, y, height, width)
    for mark in behind.marks:
        at = _f(x.place(mark.x, LEFT, right))
        body.append(f'<path class="alert" d="M{at} {floor} v-9"><title>{escape(mark.told)}</title></path>')
    return _svg(title, body, height, width)


def gantt(title: str, x: Axis, bars: Sequence[Bar], width: int = 2 * WIDTH) -> str:
    """Bars on named lines: a boot's phases, one line per arm."""
    rows = list(dict.fromkeys(block.row for block in bars))
    height = TOP + BOTTOM + 30 * max(len(rows), 1)
    body = _frame(x, None, height, width)
    for number, row in enumerate(rows):
        top = TOP + 30 * number + 4
        body.append(f'<text x="{LEFT - 6}" y="{top + 15}" text-anchor="end">{escape(row)}</text>')
        for block in (block for block in bars if block.row == row):
            begin, end = x.place(block.start, LEFT, width - RIGHT), x.place(block.end, LEFT, width - RIGHT)
            inside = escape(block.label) if end - begin > 6 * len(block.label) else ""
            size = f'x="{_f(begin)}" y="{top}" width="{_f(max(end - begin, 1))}" height="22"'
            shape = f'<rect class="bar s{block.index % SERIES}" {size}><title>{escape(block.told)}</title></rect>'
            body.append(_linked(shape, block.href))
            if inside:
                body.append(f'<text class="inside" x="{_f(begin + 4)}" y="{top + 15}">{inside}</text>')
    return _svg(title, body, height, width)


def whiskers(title: str, x: Axis, lines: Sequence[tuple[str, int, Point]]) -> str:
    """One line per arm: its runs' range and median on a common axis. Small, to stand beside a sentence."""
    width, left, right, line = 260, 26, 12, 16
    floor = line * max(len(lines), 1) + 4
    body = []
    for (value, label), anchor in ((x.ticks[0], "start"), (x.ticks[-1], "end")):
        tick = _f(x.place(value, left, width - right))
        body.append(f'<line class="grid" x1="{tick}" x2="{tick}" y1="2" y2="{floor}"/>')
        body.append(f'<text x="{tick}" y="{floor + 12}" text-anchor="{anchor}">{escape(label)}</text>')
    body.append(f'<path class="axis" d="M{left} {floor} H{width - right}"/>')
    for number, (name, index, point) in enumerate(lines):
        middle = line * number + 10
        at = x.place(point.x, left, width - right)
        if point.low is not None and point.high is not None and point.high > point.low:
            ends = [_f(x.place(value, left, width - right)) for value in (point.low, point.high)]
            body.append(f'<path class="range s{index % SERIES}" d="M{ends[0]} {middle} H{ends[1]}"/>')
        body.append(f'<text x="{left - 6}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>')
        body.append(_linked(_marker(at, middle, index, point.told), point.href))
    return _svg(title, body, floor + 18, width)


def legend(names: Sequence[tuple[str, int]]) -> str:
    """The arms with their colours, dashes and markers, for all the pictures below it."""
    entries = "".join(
        f'<li><svg class="key" viewBox="0 0 36 14" width="36" height="14" aria-hidden="true">{_line(2, 34, 7, index)}'
        f"{_marker(18, 7, index, '')}</svg> {escape(name)}</li>"
        for name, index in names
    )
    return f'<ul class="legend">{entries}</ul>'


def _svg(title: str, body: Iterable[str], height: int, width: int) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(body)}</svg>"
    )


def _frame(x: Axis, y: Axis | None, height: int, width: int) -> list[str]:
    floor, right = height - BOTTOM, width - RIGHT
    body = []
    for value, label in x.ticks:
        at = _f(x.place(value, LEFT, right))
        body.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{floor}"/>')
        body.append(f'<text x="{at}" y="{floor + 15}" text-anchor="middle">{escape(label)}</text>')
    for value, label in y.ticks if y is not None else ():
        at = _f(y.place(value, floor, TOP)) if y is not None else "0"
        body.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>')
        body.append(f'<text x="{LEFT - 6}" y="{_f(float(at) + 4)}" text-anchor="end">{escape(label)}</text>')
    body.append(f'<path class="axis" d="M{LEFT} {TOP} V{floor} H{right}"/>')
    body.append(
        f'<text class="title" x="{(LEFT + right) / 2:g}" y="{height - 6}" text-anchor="middle">{escape(x.title)}</text>'
    )
    if y is not None:
        body.append(f'<text class="title" x="{LEFT - 44}" y="{TOP - 12}">{escape(y.title)}</text>')
    return body


def _bands(x: Axis, bands: Sequence[Band], height: int, width: int) -> list[str]:
    body = []
    for band in bands:
        begin, end = x.place(band.start, LEFT, width - RIGHT), x.place(band.end, LEFT, width - RIGHT)
        body.append(
            f'<rect class="band b{band.index % 2}" x="{_f(begin)}" y="{TOP}" width="{_f(max(end - begin, 0.5))}" '
            f'height="{height - TOP - BOTTOM}"><title>{escape(band.name)}</title></rect>'
        )
        if end - begin > 6 * len(band.name):
            place = f'x="{_f((begin + end) / 2)}" y="{height - BOTTOM - 13}"'
            body.append(f'<text class="band" {place} text-anchor="middle">{escape(band.name)}</text>')
    return body


def _series(one: Series, x: Axis, y: Axis, height: int, width: int) -> list[str]:
    places = [(x.place(p.x, LEFT, width - RIGHT), y.place(p.y, height - BOTTOM, TOP)) for p in one.points]
    body = []
    if one.joined and len(places) > 1:
        way = " L".join(f"{_f(a)} {_f(b)}" for a, b in places)
        body.append(f'<path class="line s{one.index % SERIES}"{_dash(one.index)} d="M{way}"/>')
    for point, (a, b) in zip(one.points, places, strict=True):
        if point.low is not None and point.high is not None and point.high > point.low:
            ends = [_f(y.place(value, height - BOTTOM, TOP)) for value in (point.low, point.high)]
            body.append(f'<path class="range s{one.index % SERIES}" d="M{_f(a)} {ends[0]} V{ends[1]}"/>')
        if point.told:
            body.append(_linked(_marker(a, b, one.index, point.told), point.href))
    return body


def _line(x1: float, x2: float, y: float, index: int) -> str:
    return f'<path class="line s{index % SERIES}"{_dash(index)} d="M{_f(x1)} {_f(y)} H{_f(x2)}"/>'


def _dash(index: int) -> str:
    dash = _DASHES[index % SERIES]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _marker(x: float, y: float, index: int, told: str) -> str:
    """Six shapes, so that arms are told apart without colours."""
    a, b = _f(x), _f(y)
    shape = (
        f"M{_f(x - 4)} {b} a4 4 0 1 0 8 0 a4 4 0 1 0 -8 0",
        f"M{_f(x - 4)} {_f(y - 4)} h8 v8 h-8 z",
        f"M{a} {_f(y - 5)} l5 9 h-10 z",
        f"M{a} {_f(y - 5)} l5 5 l-5 5 l-5 -5 z",
        f"M{a} {_f(y + 5)} l5 -9 h-10 z",
        f"M{_f(x - 4)} {_f(y - 1.5)} h2.5 v-2.5 h3 v2.5 h2.5 v3 h-2.5 v2.5 h-3 v-2.5 h-2.5 z",
    )[index % SERIES]
    title = f"<title>{escape(told)}</title>" if told else ""
    return f'<path class="dot s{index % SERIES}" d="{shape}">{title}</path>'


def _linked(shape: str, href: str) -> str:
    return f'<a href="{escape(href)}">{shape}</a>' if href else shape


def _step(rough: float) -> float:
    scale = 10.0 ** math.floor(math.log10(rough))
    return next((m * scale for m in (1, 2, 5) if m * scale >= rough * 0.999), 10 * scale)


def _number(value: float, step: float) -> str:
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{places}f}"


def _f(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
