# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line of tegrastats, of any board, release, privilege and power state.

The set of fields varies with all of these, so the line is read field by field: what is not in it is absent (not zero),
and what is not understood is kept by name.
"""

from __future__ import annotations

import re
from typing import Any

_TIME = re.compile(r"^(\d{2})-(\d{2})-(\d{4}) (\d{2}:\d{2}:\d{2})(?=\s|$)")
_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB(?: \(lfb (\d+)x(\d+)([kMG])B\))?")
_SWAP = re.compile(r"\bSWAP (\d+)/(\d+)MB(?: \(cached (\d+)MB\))?")
_CPU = re.compile(r"\bCPU \[([^\]]*)\]")
_TEMP = re.compile(r"(?<![\w@])([A-Za-z][\w.-]*)@(-?\d+(?:\.\d+)?)C(?:/-?\d+(?:\.\d+)?C)*(?=\s|$)")
_RAIL = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) (\d+)(?:mW)?((?:/\d+(?:mW)?)+)(?=\s|$)")
# GR3D_FREQ @[a,b,c] | GR3D_FREQ 4%@[a,b] | EMC_FREQ 0%@665 | NVENC 79%@166 | NVENC0_FREQ @0 | VIC off
_CLOCK = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) (?:(\d+)%)?@(?:\[([\d,]+)\]|(\d+))(?=\s|$)")
_OFF = re.compile(r"(?<!\S)([A-Z][A-Z0-9_]*) off(?=\s|$)")
_CORE = re.compile(r"(\d+)%@(\d+)")

# Below this a sensor that is switched off is talking (-256 is the usual one).
IMPOSSIBLE_C = -40.0


def parse_line(line: str) -> dict[str, Any] | None:
    """A tegrastats line -> its fields, or None when there is nothing of tegrastats in it. Never raises.

    ``{time_local: "2026-05-17T10:00:32"|None (the box's local time, without zone),
    ram: {used_mb, total_mb}|None, swap: {used_mb, total_mb, cached_mb}|None, cpus: [{load_pct, mhz}|None (off)]|None,
    temps_c: {name in lower case: degrees}, power_mw: {rail: present milliwatts}, clocks: {name: {load_pct|None,
    mhz: [..]}|None (off)}}``.

    Of a rail's numbers only the first is now; the others are averages and peaks since tegrastats started, which mix
    phases. A rail that is printed twice keeps its last reading. A last line that was cut loses the field it was cut in.
    """
    cut = not line.endswith("\n")
    line = line.strip("\r\n \0")
    if cut and line and not line.endswith(("W", "C")):
        # A logger that was killed leaves half a number behind, which would read as a whole one.
        line = line[: line.rfind(" ") + 1] if " " in line else ""
    ram, swap, cpu, when = _RAM.search(line), _SWAP.search(line), _CPU.search(line), _TIME.match(line)
    temps = {name.lower(): float(value) for name, value in _TEMP.findall(line)}
    power = {name: int(now) for name, now, _rest in _RAIL.findall(line) if name not in ("RAM", "SWAP")}
    clocks: dict[str, dict[str, Any] | None] = dict.fromkeys(_OFF.findall(line))
    for name, load, several, single in _CLOCK.findall(line):
        mhz = [int(f) for f in several.split(",") if f] if several else [int(single)]
        clocks[name] = {"load_pct": int(load) if load else None, "mhz": mhz}
    if not (ram or cpu or temps or power):
        return None
    return {
        "time_local": f"{when[3]}-{when[1]}-{when[2]}T{when[4]}" if when else None,
        "ram": {"used_mb": int(ram[1]), "total_mb": int(ram[2])} if ram else None,
        "swap": _swap(swap) if swap else None,
        "cpus": [_core(text) for text in cpu[1].split(",")] if cpu else None,
        "temps_c": {name: value for name, value in temps.items() if value > IMPOSSIBLE_C},
        "power_mw": power,
        "clocks": clocks,
    }


def _swap(found: re.Match[str]) -> dict[str, int | None]:
    return {
        "used_mb": int(found[1]),
        "total_mb": int(found[2]),
        "cached_mb": int(found[3]) if found[3] is not None else None,
    }


def _core(text: str) -> dict[str, int] | None:
    found = _CORE.fullmatch(text.strip())
    return {"load_pct": int(found[1]), "mhz": int(found[2])} if found else None
