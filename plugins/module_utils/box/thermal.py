# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thermal zones with their trips, and cooling devices, from sysfs."""

from __future__ import annotations

import re
from typing import Any

from .source import Source

BASE = "/sys/class/thermal"
# What the drivers report for a sensor that is off.
IMPOSSIBLE_C = -40.0


def celsius(millidegrees: int | None) -> float | None:
    """Millidegrees -> degrees; None for nothing and for the values that mean "sensor off"."""
    if millidegrees is None or millidegrees <= IMPOSSIBLE_C * 1000:
        return None
    return millidegrees / 1000


def read_zones(source: Source) -> list[dict[str, Any]]:
    """``[{zone, type, temp_c, trips: [{type, temp_c}]}]``; temp_c None while a zone will not be read (EAGAIN)."""
    zones = []
    for name in source.names(BASE):
        if not name.startswith("thermal_zone"):
            continue
        path = f"{BASE}/{name}"
        kind = source.line(f"{path}/type")
        if kind is None:
            continue
        trips: list[dict[str, Any]] = []
        for file in source.names(path):
            found = re.fullmatch(r"trip_point_(\d+)_type", file)
            if found:
                temp = celsius(source.number(f"{path}/trip_point_{found[1]}_temp"))
                trips.append({"number": int(found[1]), "type": source.line(f"{path}/{file}"), "temp_c": temp})
        trips.sort(key=lambda trip: trip["number"])
        zones.append({"zone": name, "type": kind, "temp_c": celsius(source.number(f"{path}/temp")), "trips": trips})
    return zones


def read_cooling(source: Source) -> list[dict[str, Any]]:
    """``[{device, type, state, max_state}]``, ordered by type: a device's number is not the same on every boot."""
    devices = []
    for name in source.names(BASE):
        if not name.startswith("cooling_device"):
            continue
        kind = source.line(f"{BASE}/{name}/type")
        if kind is None:
            continue
        state = source.number(f"{BASE}/{name}/cur_state")
        maximum = source.number(f"{BASE}/{name}/max_state")
        devices.append({"device": name, "type": kind, "state": state, "max_state": maximum})
    return sorted(devices, key=lambda device: (str(device["type"]), str(device["device"])))


def throttling(cooling: list[dict[str, Any]]) -> dict[str, Any]:
    """Which devices hold the box back now: ``{active: [{type, state, max_state}], known: bool}``.

    Fans cool without slowing anything, so they do not count. ``known`` is False when there is no such device to ask.
    """
    slowing = [d for d in cooling if "fan" not in str(d["type"])]
    return {
        "active": [{k: d[k] for k in ("type", "state", "max_state")} for d in slowing if d["state"]],
        "known": any(d["state"] is not None for d in slowing),
    }
