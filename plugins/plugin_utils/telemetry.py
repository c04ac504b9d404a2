# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorder's raw lines -> one thin curve of temperature and power over the spike, for the report's pictures.

Verdicts are not made here; they are in ``telemetry/attribution.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ansible_collections.lobes.spike.plugins.module_utils.box.telemetry import (
    read_json_lines,
    read_tegrastats,
    sysfs_numbers,
)

BINS: Final = 480
"""A curve has at most this many moments: more cannot be seen."""

HOTTEST: Final = ("temp_c.tj", "temp_c.gpu", "temp_c.hottest")
"""Which temperature stands for the box, the first that is there."""


@dataclass(frozen=True)
class Moment:
    """One bin: its middle in seconds of UTC, the highest temperature in it (C), the mean of each rail (W)."""

    utc_s: float
    tj_c: float | None
    rails_w: Mapping[str, float]


def curve(directory: Path) -> tuple[Moment, ...]:
    """The curve of one spike's ``telemetry`` folder; empty when nothing was recorded there."""
    offset = _utc_offset_ns(directory / "sysfs.jsonl")
    if offset is None:
        return ()
    numbers = list(_numbers(directory / "tegrastats.log", _tegrastats)) or list(
        _numbers(directory / "sysfs.jsonl", _sysfs)
    )
    if not numbers:
        return ()
    begin, end = min(t for t, _found in numbers), max(t for t, _found in numbers)
    width = max((end - begin) // BINS + 1, 1)
    bins: dict[int, list[Mapping[str, float]]] = {}
    for t, found in numbers:
        bins.setdefault((t - begin) // width, []).append(found)
    return tuple(_moment(begin + n * width + width // 2 + offset, bins[n]) for n in sorted(bins))


def _moment(utc_ns: int, found: list[Mapping[str, float]]) -> Moment:
    hottest = [next((one[name] for name in HOTTEST if name in one), None) for one in found]
    known = [value for value in hottest if value is not None]
    rails = sorted({name for one in found for name in one if name.startswith("power_w.")})
    means = {rail.removeprefix("power_w."): [one[rail] for one in found if rail in one] for rail in rails}
    return Moment(
        utc_ns / 1e9, max(known, default=None), {rail: sum(watts) / len(watts) for rail, watts in means.items()}
    )


Reader = Callable[[Iterable[str]], Iterator[tuple[int, Mapping[str, float]]]]


def _numbers(path: Path, read: Reader) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Samples with only the numbers that are drawn."""
    for t, found in read(_lines(path)):
        kept = {name: value for name, value in found.items() if name in HOTTEST or name.startswith("power_w.")}
        if kept:
            yield t, kept


def _tegrastats(lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, float]]]:
    yield from read_tegrastats(lines)


def _sysfs(lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, float]]]:
    for row in read_json_lines(lines):
        try:
            yield row["t"], sysfs_numbers(row, None, 4096)
        except (AttributeError, TypeError, ValueError):
            continue  # a row that is not as the recorder writes it


def _utc_offset_ns(path: Path) -> int | None:
    """UTC minus the monotonic clock, by the first sample that has both."""
    for row in read_json_lines(_lines(path)):
        stamp: Any = row.get("u")
        if isinstance(stamp, int):
            return stamp - int(row["t"])
    return None


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            yield from stream
    except OSError:
        return
