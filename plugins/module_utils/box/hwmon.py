# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hwmon devices by name (their numbers change from boot to boot): fan, power rails, over-current counters."""

from __future__ import annotations

import re
from typing import Any

from .source import Source

BASE = "/sys/class/hwmon"
_COUNTER = re.compile(r"oc(\d+)_event_cnt")


def read_hwmon(source: Source) -> dict[str, Any]:
    """``{names, fan: {pwm, pwm_enable, rpm}, rails: [{name, power_w}], over_current}``.

    ``over_current`` is ``[{channel, events, enabled}]``, or None where the box has no such counters (which is not the
    same as no event). ``pwm_enable`` 0 means the
    fan is off. Power: INA3221 channels are mV x mA / 1e6, INA238 reports microwatts.
    """
    names: list[str] = []
    fan: dict[str, int | None] = {"pwm": None, "pwm_enable": None, "rpm": None}
    rails: list[dict[str, Any]] = []
    counters: list[dict[str, Any]] | None = None
    for entry in source.names(BASE):
        path = f"{BASE}/{entry}"
        name = source.line(f"{path}/name")
        if name is None:
            continue
        names.append(name)
        if name == "pwmfan":
            fan["pwm"] = source.number(f"{path}/pwm1")
            fan["pwm_enable"] = source.number(f"{path}/pwm1_enable")
        elif name == "pwm_tach":
            rpm = source.number(f"{path}/rpm")
            fan["rpm"] = rpm if rpm is not None else source.number(f"{path}/fan1_input")
        elif name == "ina3221":
            rails += _ina3221(source, path)
        elif name == "ina238":
            microwatts = source.number(f"{path}/power1_input")
            label = source.line(f"{path}/power1_label") or source.line(f"{path}/in1_label") or "VIN"
            rails.append({"name": label, "power_w": None if microwatts is None else microwatts / 1e6})
        elif name == "soctherm_oc":
            counters = (counters or []) + _over_current(source, path)
    return {"names": sorted(names), "fan": fan, "rails": rails, "over_current": counters}


def _ina3221(source: Source, path: str) -> list[dict[str, Any]]:
    rails = []
    for channel in (1, 2, 3):
        label = source.line(f"{path}/in{channel}_label")
        millivolts = source.number(f"{path}/in{channel}_input")
        milliamperes = source.number(f"{path}/curr{channel}_input")
        if label is not None:
            known = millivolts is not None and milliamperes is not None
            power = millivolts * milliamperes / 1e6 if known else None  # type: ignore[operator]
            rails.append({"name": label, "power_w": power})
    return rails


def _over_current(source: Source, path: str) -> list[dict[str, Any]]:
    found = []
    for file in source.names(path):
        match = _COUNTER.fullmatch(file)
        if match:
            enabled = source.number(f"{path}/oc{match[1]}_throt_en")
            found.append(
                {
                    "channel": int(match[1]),
                    "events": source.number(f"{path}/{file}"),
                    "enabled": None if enabled is None else bool(enabled),
                }
            )
    return sorted(found, key=lambda counter: int(counter["channel"]))
