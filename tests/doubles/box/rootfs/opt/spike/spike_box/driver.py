# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box's physics, ten times a second: the engines' reports in; memory, heat, power and the kernel log out."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any

from . import faults, trees
from .faults import SIM

GIB_KB = 2**20
SYSTEM_GIB = 16.5  # the system and the stack around the lanes
TICK_S = 0.1
NVRM = (
    "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from "
    "_memdescAllocInternal(pMemDesc) @ mem_desc.c:1359"
)
OOM = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,"
    "task=VLLM::EngineCor,pid=4711,uid=0",
    "Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:91234567kB, anon-rss:8123456kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:20000kB oom_score_adj:0",
)
# How fast heat follows load. The real box takes minutes; phases here take seconds.
TAU_S = float(os.environ.get("BOX_HEAT_TAU_S", "3"))


def engines(directory: str) -> list[dict[str, Any]]:
    """The reports of engines that live, told from dead ones' by the lock on their file."""
    out = []
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        try:
            with open(path, encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    out.append({**json.loads(file.read() or "{}"), "name": name.removesuffix(".json")})
                    continue
                if time.time() - os.stat(path).st_mtime > 1:  # a second: the file may be younger than its lock
                    os.unlink(path)
        except (OSError, ValueError):
            continue
    return out


class KernelLog:
    """A ring of kernel messages in the format of /dev/kmsg, kept in a file."""

    def __init__(self, path: str) -> None:
        self.path, self.sequence, self.records = path, 1200, list[tuple[float, str]]()
        trees.put(path, "")

    def say(self, text: str, priority: int = 6) -> None:
        """A message now."""
        now = time.monotonic()
        row = f"{priority},{self.sequence},{round(now * 1e6)},-;{text}\n"
        self.sequence += 1
        self.records.append((now, row))
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(row)

    def forget(self, older_than_s: float) -> None:
        """The ring has wrapped: what is older is gone."""
        horizon = time.monotonic() - older_than_s
        kept = [r for r in self.records if r[0] >= horizon]
        if len(kept) != len(self.records):
            self.records = kept
            trees.put(self.path, "".join(row for _, row in kept))


class Box:
    """The state of the box and how it moves."""

    def __init__(self) -> None:
        self.log = KernelLog(f"{SIM}/kmsg")
        self.cached_gib = 38.0
        self.hidden_gib = 0.0
        self.tj = 45.0
        self.oc3 = 0
        self.pages = {"pswpin": 1833, "pswpout": 41200, "oom_kill": 0}
        self.drop_seen = self._drop_stamp()
        self.since: dict[str, float] = {}
        self.next_alert = self.next_current = 0.0
        self.booting_since: float | None = None
        self.renumbered = False
        self.held: dict[str, float] = {}
        self.nvrm_said: set[str] = set()

    @staticmethod
    def _drop_stamp() -> int:
        return os.stat(f"{SIM}/drop_caches").st_mtime_ns

    def begin(self) -> None:
        """What a booting kernel has said."""
        for text in (
            "Booting Linux on physical CPU 0x0000000000 [0x410fd840]",
            "Linux version 6.8.12-tegra (oe-user@oe-host)",
            f"Machine model: {trees.MODEL}",
            "gpu-throttle-alert cooling device registered.",
            "cpu-throttle-alert cooling device registered.",
            "NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.00",
        ):
            self.log.say(text)

    def tick(self, on: dict[str, str]) -> dict[str, Any]:
        """One step: faults that are on in, state out."""
        now = time.monotonic()
        for name in list(self.since):
            if name not in on:
                del self.since[name]
        for name in on:
            self.since.setdefault(name, now)
        running = engines(f"{SIM}/engines")
        busy = min(max((float(e.get("busy", 0)) for e in running), default=0.0), 1.0)
        self._memory(on, running, now)
        state = self._heat(on, busy, awake=bool(running) and "gpu-asleep" not in on)
        self._kernel(on, busy, running, now)
        state.update(
            oc3=self.oc3,
            engines=running,
            busy=busy,
            ram_used_mb=self.ram_used_mb,
            swap_used_mb=self.swap_used_mb,
            swap_total_mb=0 if "no-swap" in on else trees.SWAP_KB // 1024,
            utilization=round(busy * 97),
        )
        return state

    # --- memory ----------------------------------------------------------------------------------------------------

    def _memory(self, on: dict[str, str], running: list[dict[str, Any]], now: float) -> None:
        if self._drop_stamp() != self.drop_seen:
            self.drop_seen = self._drop_stamp()
            self.cached_gib, self.hidden_gib = 1.2, 0.0
            self.log.say("bash (4242): drop_caches: 3")
        elif "page-cache" not in on:
            self.hidden_gib = 0.0
        elif now - self.since["page-cache"] < 2 * TICK_S:
            self.hidden_gib = 87.0
        used = SYSTEM_GIB + self._engines_gib(on, running, now)
        if "memory-leak" in on:
            used += 87.0
        if "memory-collapse" in on:
            used += 106.0 * min((now - self.since["memory-collapse"]) / faults.number(on, "memory-collapse", 20), 1)
        total = trees.TOTAL_KB / GIB_KB
        used = min(used + self.hidden_gib, total - 0.3)
        cached = min(self.cached_gib, total - used - 0.2)
        free = total - used - cached
        swap_total = 0 if "no-swap" in on else trees.SWAP_KB
        swap_used = min(round(10.5 * GIB_KB), swap_total) if {"swap-used", "swap-storm"} & set(on) else 0
        self.ram_used_mb, self.swap_used_mb = round(used * 1024), swap_used // 1024
        trees.put(
            f"{SIM}/meminfo",
            trees.meminfo(
                round(free * GIB_KB),
                round((free + cached * 0.97) * GIB_KB),
                round(cached * GIB_KB),
                swap_total,
                swap_total - swap_used,
            ),
        )
        if "swap-storm" in on:
            self.pages["pswpin"] += 900
            self.pages["pswpout"] += 1500
        trees.put(
            f"{SIM}/vmstat",
            "".join(f"{k} {v}\n" for k, v in {"nr_free_pages": round(free * 2**18), **self.pages}.items()),
        )

    def _engines_gib(self, on: dict[str, str], running: list[dict[str, Any]], now: float) -> float:
        booting = any(str(e.get("stage", "")).startswith("boot") for e in running)
        self.booting_since = (self.booting_since or now) if booting else None
        freed = (
            "lane-frees-memory" in on
            and self.booting_since is not None
            and now - self.booting_since > faults.number(on, "lane-frees-memory", 2)
        )
        held = {e["name"]: float(e.get("gib") or 0) for e in running}
        if freed and len(held) > 1:
            held[min(held, key=lambda name: held[name])] = 0.0  # the smallest is an embedding or reranking lane
        if booting and any(held.get(name, 0.0) < gib - 1 for name, gib in self.held.items()):
            trees.put(f"{SIM}/freed", "an engine is booting, and another process gave memory back\n")
        self.held = held
        return sum(held.values())

    # --- heat ------------------------------------------------------------------------------------------------------

    def _heat(self, on: dict[str, str], busy: float, awake: bool) -> dict[str, Any]:
        hot = "throttle-always" in on or ("throttle" in on and busy > 0.2)
        target = 109.2 if hot else 45.0 + (12.0 if awake else 0) + 41.5 * busy
        self.tj += (target - self.tj) * min(TICK_S / TAU_S, 1)
        wave = (time.monotonic() * 7 % 1) - 0.5
        tj = self.tj + wave * 0.6
        gpu_mw = 0 if not awake else round(1962 + (84000 if hot else 66000) * busy + 900 * wave)
        temp = {"tj": tj, "gpu": tj if awake else -256.0, "cpu": tj - 3.1, "soc012": tj - 4.2, "soc345": tj - 2.6}
        rails = {
            "VDD_GPU": gpu_mw,
            "VDD_CPU_SOC_MSS": round(5887 + 12000 * busy),
            "VIN_SYS_5V0": round(5635 + 9000 * busy),
        }
        rails["VIN"] = round(sum(rails.values()) * 1.07 + 6500)
        rpm = 0 if "fan-off" in on else round(1750 + max(tj - 60, 0) * 74)
        cooling = {}
        if hot and tj >= 108.5:
            cooling = {"gpu-throttle-alert": 1, "devfreq-gpu-gpc-0": 18}
        return {
            "temp": temp,
            "rails": rails,
            "awake": awake,
            "rpm": rpm,
            "pwm": round(rpm / 55.4),
            "cooling": cooling,
            "hot": hot,
        }

    # --- kernel log ------------------------------------------------------------------------------------------------

    def _kernel(self, on: dict[str, str], busy: float, running: list[dict[str, Any]], now: float) -> None:
        if os.path.exists(f"{SIM}/say"):
            with open(f"{SIM}/say", encoding="utf-8") as file:
                self.log.say(file.read(), 4)
            os.unlink(f"{SIM}/say")
        name = "throttle-always" if "throttle-always" in on else "throttle"
        hot = name in on and (busy > 0.2 or name == "throttle-always")
        if hot and now >= self.next_alert:
            self.log.say("gpu-throttle-alert cooling state: 0 -> 1", 4)
            self.next_alert = now + 60 / faults.number(on, name, 30)
        if "over-current" in on and busy > 0.2 and now >= self.next_current:
            self.oc3 += 1
            self.next_current = now + 1.0
        if "cpu-pinned" in on and now >= self.next_current:
            self.log.say("cpufreq: cpu0,cur:242000,set:2601000,delta:2359000,set ndiv:289", 4)
            self.next_current = now + 1.0
        if "nvrm-noise" in on:
            for engine in running:
                key = f"{engine['name']}:{engine.get('stage')}"
                if engine.get("stage") in ("boot:profiled", "boot:pool") and key not in self.nvrm_said:
                    self.nvrm_said.add(key)
                    self.log.say(NVRM, 3)
        if "oom-kill" in on and now - self.since["oom-kill"] < TICK_S / 2:
            self.pages["oom_kill"] += 1
            for text in OOM:
                self.log.say(text, 4)
        if "dmesg-wrapped" in on:
            self.log.forget(faults.number(on, "dmesg-wrapped", 20))


def main() -> None:
    """Runs for ever."""
    box = Box()
    box.begin()
    while True:
        begin = time.monotonic()
        on = faults.active()
        state = box.tick(on)
        renumbered = "hwmon-renumbered" in on
        if renumbered != box.renumbered:
            box.renumbered = renumbered
            trees.hwmon(f"{SIM}/class/hwmon", renumbered)
        trees.live(SIM, state, renumbered)
        trees.put(f"{SIM}/state.json", json.dumps(state))
        time.sleep(max(0.0, TICK_S - (time.monotonic() - begin)))


if __name__ == "__main__":
    main()
