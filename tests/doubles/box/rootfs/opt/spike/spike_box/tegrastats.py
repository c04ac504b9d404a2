# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of tegrastats, in the forms of the releases and rights that are known from real boxes."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from typing import Any

from . import faults, tools, trees

RAILS = ("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0", "VIN")
PIDFILE = "/run/tegrastats.pid"


class Averages:
    """Average and maximum of each rail since tegrastats began, as it prints them."""

    def __init__(self) -> None:
        self.sum: dict[str, int] = defaultdict(int)
        self.top: dict[str, int] = defaultdict(int)
        self.samples = 0

    def take(self, rails: dict[str, int]) -> None:
        """One more sample."""
        self.samples += 1
        for name, mw in rails.items():
            self.sum[name] += mw
            self.top[name] = max(self.top[name], mw)

    def average(self, name: str) -> int:
        """Milliwatts."""
        return self.sum[name] // max(self.samples, 1)


def line(state: dict[str, Any], on: dict[str, str], root: bool, averages: Averages, when: float) -> str:
    """One line for this state, these faults, these rights."""
    if "tegrastats-orin" in on:
        return _orin(state, root, when)
    if "tegrastats-xavier" in on:
        return _xavier(state, when)
    averages.take(state["rails"])
    odd = "tegrastats-odd" in on
    parts = [
        time.strftime("%m-%d-%Y %H:%M:%S", time.localtime(when)),
        f"RAM {state['ram_used_mb']}/{trees.TOTAL_KB // 1024}MB (lfb 31x4MB)",
    ]
    if "no-swap" not in on:
        parts.append(f"SWAP {state['swap_used_mb']}/{state['swap_total_mb']}MB (cached 0MB)")
    load = 3 + round(40 * state["busy"])
    parts.append("CPU [" + ",".join(f"{load if i == 0 else load // 4}%@972" for i in range(trees.CPUS)) + "]")
    if root:
        clock = 1575 if state["busy"] else 314 if state["awake"] else 0
        parts.append(f"EMC_FREQ {round(60 * state['busy'])}%@4266 GR3D_FREQ @[{clock},{clock},{clock}]")
        parts += [
            f"{name} @{314 if state['awake'] else 0}"
            for name in ("NVENC0_FREQ", "NVENC1_FREQ", "NVDEC0_FREQ", "NVDEC1_FREQ", "NVJPG0_FREQ")
        ]
        parts.append("VIC off OFA_FREQ @0 PVA0_FREQ off APE 300")
    temp = dict(state["temp"])
    if odd:
        temp.update(soc012=temp["tj"] + 1.25, soc345=-256.0, cpu=round(temp["cpu"]))
    for zone in ("cpu", "tj", "soc012", "gpu", "soc345"):
        flickered = "gpu-flickers" in on and averages.samples % 2 == 0
        if zone != "gpu" or (state["awake"] and not flickered):
            value = temp[zone]
            parts.append(f"{zone}@{value if isinstance(value, int) else round(value, 3)}C")
    triple = "tegrastats-r39.2" in on
    for rail in RAILS:
        if rail == "VIN" and "no-vin" in on:
            continue
        now = state["rails"][rail]
        text = f"{rail} {now}mW/{averages.average(rail) // (2 if odd else 1)}mW"
        parts.append(text + (f"/{averages.top[rail]}mW" if triple else ""))
        if odd and rail == "VDD_GPU":
            parts.append(text)
    return " ".join(parts)


def _orin(state: dict[str, Any], root: bool, when: float) -> str:
    t = state["temp"]["tj"]
    load = round(99 * state["busy"])
    extra = (
        f"EMC_FREQ 3%@2133 GR3D_FREQ {load}%@[1300,1300] NVENC off NVDEC off NVJPG off VIC off OFA off APE 174 "
        if root
        else ""
    )
    return (
        f"{time.strftime('%m-%d-%Y %H:%M:%S', time.localtime(when))} "
        "RAM 18207/62841MB (lfb 466x4MB) SWAP 86/31420MB (cached 0MB) "
        f"CPU [14%@2188,9%@2188,off,off] {extra}cpu@{t - 1:.3f}C soc2@48.437C soc0@49.093C tj@{t:.3f}C soc1@49C "
        "VDD_GPU_SOC 2412mW/2412mW VDD_CPU_CV 1607mW/1607mW VIN_SYS_5V0 4707mW/4707mW"
    )


def _xavier(state: dict[str, Any], when: float) -> str:
    t = state["temp"]["tj"]
    return (
        f"{time.strftime('%m-%d-%Y %H:%M:%S', time.localtime(when))} "
        "RAM 4722/31920MB (lfb 5903x4MB) SWAP 0/15960MB (cached 0MB) CPU [2%@1190,1%@1190,off,off,off,off,off,off] "
        f"EMC_FREQ 0% GR3D_FREQ {round(99 * state['busy'])}% AO@39C GPU@{t:.1f}C Tdiode@42.75C PMIC@50C "
        f"AUX@38.5C CPU@{t:.1f}C thermal@39.05C GPU 0/0 CPU 311/311 SOC 933/933 CV 0/0 VDDRQ 155/155 SYS5V 1513/1513"
    )


def main(argv: list[str]) -> int:
    """The command, with --interval, --logfile, --start and --stop."""
    on = faults.active()
    interval, logfile = 1000, None
    items = iter(argv)
    for item in items:
        if item == "--interval":
            interval = int(next(items, "1000"))
        elif item == "--logfile":
            logfile = next(items, None)
        elif item == "--stop":
            return _stop()
        elif item == "--start" and os.fork():
            return 0
        elif item == "--start":
            os.setsid()
            with open(PIDFILE, "w", encoding="ascii") as file:
                file.write(str(os.getpid()))
    out = open(logfile, "a", encoding="utf-8") if logfile else sys.stdout  # noqa: SIM115  # open for as long as it runs
    averages, root, number, skew = Averages(), os.geteuid() == 0, 0, 0.0
    due = time.monotonic()
    while True:
        number += 1
        text = line(tools.state(), on, root, averages, time.time() - skew)
        if "tegrastats-dies" in on and number > faults.number(on, "tegrastats-dies", 5):
            out.write(text[: len(text) // 2])
            out.flush()
            return 1
        out.write(text + "\n")
        out.flush()
        on = faults.active()
        if number == 5 and "tegrastats-gap" in on:
            time.sleep(faults.number(on, "tegrastats-gap", 35))
            due = time.monotonic()
        if number == 5 and "clock-jump" in on:
            skew = faults.number(on, "clock-jump", 3600)
        due += interval / 1000
        time.sleep(max(0.0, due - time.monotonic()))


def _stop() -> int:
    try:
        with open(PIDFILE, encoding="ascii") as file:
            os.kill(int(file.read()), 15)
        os.unlink(PIDFILE)
    except (OSError, ValueError):
        return 1
    return 0
