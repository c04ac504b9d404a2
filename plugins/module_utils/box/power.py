# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power mode (nvpmodel) and the clocks of the CPUs."""

from __future__ import annotations

import re
from typing import Any

from .source import Source, to_int

_MODE = re.compile(r"^NV Power Mode:\s*(.+?)\s*$", re.MULTILINE)


def parse_nvpmodel(text: str) -> dict[str, Any]:
    """``nvpmodel -q`` -> ``{mode: "MAXN"|None, mode_id: int|None, reason: None|str}``; reason says why mode is None."""
    found = _MODE.search(text)
    if found is None:
        complaint = re.search(r"^NVPM (?:ERROR|WARN).*$", text, re.MULTILINE)
        return {"mode": None, "mode_id": None, "reason": complaint[0] if complaint else "no power mode in the answer"}
    after = text[found.end() :].split()
    return {"mode": found[1], "mode_id": to_int(after[0]) if after else None, "reason": None}


def read_power(source: Source) -> dict[str, Any]:
    """The power mode of the box; ``reason`` when it cannot be known."""
    rc, out, err = source.run(["nvpmodel", "-q"])
    if rc == 127:
        return {"mode": None, "mode_id": None, "reason": "there is no nvpmodel on this box"}
    return parse_nvpmodel(f"{out}\n{err}")


def read_cpu(source: Source) -> dict[str, Any]:
    """CPUs that are online and their frequency policies, kHz.

    ``scaling_khz`` is what the governor believes, ``hardware_khz`` (root only) what the clock is: a box that was
    pinned low by an over-current event shows it only there. ``pinned`` is True when every policy has its minimum at
    its maximum (what ``jetson_clocks`` does), None when no policy could be read.
    """
    base = "/sys/devices/system/cpu/cpufreq"
    policies = []
    for name in source.names(base):
        if not name.startswith("policy"):
            continue
        files = {
            "scaling_khz": "scaling_cur_freq",
            "hardware_khz": "cpuinfo_cur_freq",
            "min_khz": "scaling_min_freq",
            "max_khz": "scaling_max_freq",
            "hardware_max_khz": "cpuinfo_max_freq",
        }
        policy: dict[str, Any] = {"name": name, "governor": source.line(f"{base}/{name}/scaling_governor")}
        policy.update({key: source.number(f"{base}/{name}/{file}") for key, file in files.items()})
        policies.append(policy)
    known = [p for p in policies if p["min_khz"] is not None and p["hardware_max_khz"] is not None]
    return {
        "online": source.line("/sys/devices/system/cpu/online"),
        "policies": policies,
        "pinned": all(p["min_khz"] >= p["hardware_max_khz"] for p in known) if known else None,
    }
