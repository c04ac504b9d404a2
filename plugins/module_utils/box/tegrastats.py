# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line of tegrastats, of any board, release, privilege and power state.

The set of fields varies with all of these, so the line is read field by field: what is not in it is absent (not zero),
and what is not understood is kept by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_TIME = re.compile(r"(\d{2})-(\d{2})-(\d{4}) (\d{2}:\d{2}:\d{2})(?=\s|$)", re.ASCII)
_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB", re.ASCII)
_SWAP = re.compile(r"\bSWAP (\d+)/(\d+)MB(?: \(cached (\d+)MB\))?", re.ASCII)
_CPU = re.compile(r"\bCPU \[([^\]]*)\]")
_CORE = re.compile(r"(\d+)%@(\d+)", re.ASCII)
_TEMP = re.compile(r"(?<![\w@])([A-Za-z][\w.-]*)@(-?\d+(?:\.\d+)?)C(?:/-?\d+(?:\.\d+)?C)*(?=\s|$)", re.ASCII)
_RAIL = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) (\d+)(?:mW)?(?:/\d+(?:mW)?)+(?=\s|$)", re.ASCII)
# GR3D_FREQ @[a,b,c] | GR3D_FREQ 4%@[a,b] | EMC_FREQ 0%@665 | NVENC 79%@166 | NVENC0_FREQ @0 | VIC off
_CLOCK = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) (?:(\d+)%)?@(\[\d+(?:,\d+)*\]|\d+)(?=\s|$)", re.ASCII)
_OFF = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) off(?=\s|$)")
# A number that is a value: not a part of a name (soc012, NVENC0_FREQ, VIN_SYS_5V0).
_VALUE = re.compile(r"(?<![A-Za-z_0-9.])-?\d+(?:\.\d+)?", re.ASCII)

# Below this a sensor that is switched off is talking (-256 is the usual one).
IMPOSSIBLE_C = -40.0
# A run of tegrastats keeps to a handful of shapes (the GPU sleeps and wakes); garbage must not fill the memory.
_SHAPES_AT_MOST = 32

Parsed = dict[str, Any]
# temps_c, power_mw, ram used_mb, load_pct of GR3D_FREQ, as in ``Parsed``.
Kept = tuple[dict[str, float], dict[str, int], "int | None", "int | None"]


def parse_line(line: str) -> Parsed | None:
    """A tegrastats line -> its fields, or None when there is nothing of tegrastats in it. Never raises.

    ``{time_local: "2026-05-17T10:00:32"|None (the box's local time, without zone),
    ram: {used_mb, total_mb}|None, swap: {used_mb, total_mb, cached_mb}|None, cpus: [{load_pct, mhz}|None (off)]|None,
    temps_c: {name in lower case: degrees}, power_mw: {rail: present milliwatts}, clocks: {name: {load_pct|None,
    mhz: [..]}|None (off)}}``.

    Of a rail's numbers only the first is now; the others are averages and peaks since tegrastats started, which mix
    phases. A rail that is printed twice keeps its last reading. A last line that was cut loses the field it was cut in.
    """
    line = _whole(line)
    layout = _Layout(line)
    return layout.parsed([number[0] for number in layout.numbers], layout.time) if layout.fields else None


def _whole(line: str) -> str:
    """The line without its end; without its last field when it has no end, for that may be half a number."""
    cut = not line.endswith("\n")
    line = line.strip("\r\n \0")
    if cut and line and not line.endswith(("W", "C")):
        line = line[: line.rfind(" ") + 1]
    return line


class _Layout:
    """Which number of a line means what; it serves for every line that differs in its numbers only."""

    def __init__(self, line: str) -> None:
        when = _TIME.match(line)
        self.time = when.groups() if when else None
        self.start = when.end() if when else 0
        self.numbers = list(_VALUE.finditer(line, self.start))
        place = {number.start(): i for i, number in enumerate(self.numbers)}
        ram, swap, cpu = (pattern.search(line, self.start) for pattern in (_RAM, _SWAP, _CPU))
        self.ram = [place[ram.start(i)] for i in (1, 2)] if ram else None
        self.swap = [place[swap.start(i)] if swap[i] else None for i in (1, 2, 3)] if swap else None
        self.cpus: list[tuple[int, int] | None] | None = None
        if cpu:
            self.cpus = []
            at = cpu.start(1)
            for text in cpu[1].split(","):
                core = _CORE.fullmatch(text)
                self.cpus.append((place[at], place[at + core.start(2)]) if core else None)
                at += len(text) + 1
        self.temps = [(m[1].lower(), place[m.start(2)]) for m in _TEMP.finditer(line, self.start)]
        self.rails = [(m[1], place[m.start(2)]) for m in _RAIL.finditer(line, self.start)]
        self.off = [m[1] for m in _OFF.finditer(line, self.start)]
        self.clocks: list[tuple[str, int | None, list[int]]] = []
        for m in _CLOCK.finditer(line, self.start):
            clocks = [place[m.start(3) + number.start()] for number in re.finditer(r"\d+", m[3])]
            self.clocks.append((m[1], place[m.start(2)] if m[2] else None, clocks))
        self.fields = bool(ram or cpu or self.temps or self.rails)

    def parsed(self, numbers: Sequence[str], time: Sequence[str] | None) -> Parsed:
        """The fields of a line of this layout, from its numbers as text."""
        swap = self.swap
        clocks: dict[str, dict[str, Any] | None] = dict.fromkeys(self.off)
        for name, load, mhz in self.clocks:
            clocks[name] = {
                "load_pct": None if load is None else int(numbers[load]),
                "mhz": [int(numbers[i]) for i in mhz],
            }
        return {
            "time_local": f"{time[2]}-{time[0]}-{time[1]}T{time[3]}" if time else None,
            "ram": {"used_mb": int(numbers[self.ram[0]]), "total_mb": int(numbers[self.ram[1]])} if self.ram else None,
            "swap": {
                key: None if i is None else int(numbers[i])
                for key, i in zip(("used_mb", "total_mb", "cached_mb"), swap, strict=True)
            }
            if swap
            else None,
            "cpus": None
            if self.cpus is None
            else [
                None if core is None else {"load_pct": int(numbers[core[0]]), "mhz": int(numbers[core[1]])}
                for core in self.cpus
            ],
            "temps_c": self.temps_c(numbers),
            "power_mw": {name: int(numbers[i]) for name, i in self.rails},
            "clocks": clocks,
        }

    def temps_c(self, numbers: Sequence[str]) -> dict[str, float]:
        """Degrees by zone, without those of sensors that are switched off."""
        temps = {name: float(numbers[i]) for name, i in self.temps}
        if temps and min(temps.values()) <= IMPOSSIBLE_C:
            return {name: value for name, value in temps.items() if value > IMPOSSIBLE_C}
        return temps

    def kept(self, numbers: Sequence[str]) -> Kept:
        """See ``Parser.kept``."""
        load = next((i for name, i, _mhz in self.clocks if name == "GR3D_FREQ"), None)
        return (
            self.temps_c(numbers),
            {name: int(numbers[i]) for name, i in self.rails},
            int(numbers[self.ram[0]]) if self.ram else None,
            None if load is None else int(numbers[load]),
        )

    def pattern(self, line: str) -> re.Pattern[str]:
        """A pattern that any line of this layout matches and no other, its groups being the numbers."""
        parts, at = [], self.start
        for number in self.numbers:
            parts.append(re.escape(line[at : number.start()]))
            # Only a temperature may have a sign or a fraction without the line meaning something else.
            parts.append(r"(-?\d+(?:\.\d+)?)" if line[number.end() : number.end() + 1] == "C" else _exactly(number[0]))
            at = number.end()
        parts.append(re.escape(line[at:]))
        return re.compile("".join(parts), re.ASCII)


def _exactly(number: str) -> str:
    """A group for numbers of the same kind as this one."""
    sign = "-" if number.startswith("-") else ""
    return rf"({sign}\d+\.\d+)" if "." in number else rf"({sign}\d+)"


class Parser:
    """``parse_line`` for many lines of one run: ten times faster, the same answers."""

    def __init__(self) -> None:
        self._known: list[tuple[re.Pattern[str], _Layout]] = []

    def parse(self, line: str) -> Parsed | None:
        """As ``parse_line``."""
        read = self._read(line)
        return read[0].parsed(read[1], read[2]) if read else None

    def kept(self, line: str) -> Kept | None:
        """The part of ``parse`` that a night of telemetry keeps; half of a line is clocks that nobody asks for."""
        read = self._read(line)
        return read[0].kept(read[1]) if read else None

    def _read(self, line: str) -> tuple[_Layout, Sequence[str], Sequence[str] | None] | None:
        """The line's layout, its numbers and its time."""
        line = _whole(line)
        when = _TIME.match(line)
        start, time = (when.end(), when.groups()) if when else (0, None)
        for i, (pattern, layout) in enumerate(self._known):
            found = pattern.fullmatch(line, start)
            if found:
                if i:  # the shape of now comes first
                    self._known.insert(0, self._known.pop(i))
                return layout, found.groups(), time
        layout = _Layout(line)
        if not layout.fields:
            return None
        self._known.insert(0, (layout.pattern(line), layout))
        del self._known[_SHAPES_AT_MOST:]
        return layout, [number[0] for number in layout.numbers], time
