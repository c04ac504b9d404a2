# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays a boot: prints the script at speed, and dies, wedges or drags where a fault says so."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time

from . import checkpoint, texts
from .arm import CONSUMED_GIB, TOTAL_GIB, WEIGHTS_GIB, Arm
from .bootlog import API, CORE, Death, Line, deaths, script
from .console import Console
from .faults import Faults
from .host import Host
from .truth import Truth

FRAMES = {
    CORE: ["v1/engine/core.py", "v1/worker/gpu_worker.py"],
    API: ["entrypoints/cli/serve.py", "v1/engine/utils.py"],
}
MEMORY_AT = {"core": 0.5, "device": 1.5, "loaded": WEIGHTS_GIB, "mamba": WEIGHTS_GIB + 1.5, "profiled": CONSUMED_GIB}


# Busy a quarter of the time, so that four of them leave room for others on a small machine.
COMPILER = """
import time
open("/proc/self/comm", "w").write("cicc")
while True:
    stop = time.monotonic() + 0.025
    while time.monotonic() < stop:
        pass
    time.sleep(0.075)
"""


class BootEnd(Exception):
    """The boot is over before it got ready, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Boot:
    """One boot of one arm. speedup divides the real box's seconds."""

    def __init__(
        self,
        settings: argparse.Namespace,
        arm: Arm,
        faults: Faults,
        console: Console,
        host: Host,
        truth: Truth,
        speedup: float,
    ) -> None:
        self.settings, self.arm, self.faults = settings, arm, faults
        self.console, self.host, self.truth, self.speedup = console, host, truth, speedup
        self.began = time.time()

    async def run(self, port: int) -> None:
        """Returns when the server may listen. Raises BootEnd when the boot fails."""
        compiled, plan = self._caches()
        death = self._foretold()
        seen = set()
        lines = script(
            self.settings,
            self.arm,
            self.faults,
            warm_caches=compiled,
            startup_plan=plan,
            logo=not os.environ.get("VLLM_DISABLE_LOG_LOGO"),
            dev_mode=os.environ.get("VLLM_SERVER_DEV_MODE") == "1",
            port=port,
            api_pid=os.getpid(),
        )
        start = time.monotonic()
        played = 0.0
        for line in lines:
            played += line.after_s
            await asyncio.sleep(max(0.0, start + played / self.speedup - time.monotonic()))
            if line.stage in ("load", "args", "core", "memory") and not death:
                death = self._found_now(line.stage)
            if death and line.stage == death.stage:
                await self._die(death)
            self.console.put(line)
            self._note(line.stage)
            seen.add(line.stage)
            if line.stage == "mamba":
                await self._at_mamba()
            if line.stage == "engine":
                self._keep_caches()
            if line.stage == "tuning" and self.faults.on("never-ready"):
                await self._for_ever()

    def _note(self, stage: str) -> None:
        if stage:
            self.truth.note("boot", stage=stage)
            gib = MEMORY_AT.get(
                stage, self.arm.utilization * TOTAL_GIB if stage in ("pool", "warmup", "ready") else None
            )
            if gib is not None:
                self.host.report(stage=f"boot:{stage}", gib=gib, busy=0.4, running=0)

    def _foretold(self) -> Death | None:
        table = deaths(self.arm, free_gib=self.host.available_gib() or 61.4)
        switched = next((table[name] for name in table if self.faults.on(name)), None)
        if switched:
            return switched
        if self.arm.max_len > 1048576:
            return Death("config", API, texts.beyond_derived(self.arm.max_len))
        if self.settings.per_request_spec_decode_metrics not in (None, "none") and not self.settings.speculative_config:
            return Death("config", API, texts.nothing_speculated())
        return None

    def _found_now(self, stage: str) -> Death | None:
        """Failures that the box itself causes: memory that is not there, files that are not there."""
        arm, free = self.arm, self.host.available_gib()
        table = deaths(arm, free_gib=free or 0.0)
        if stage == "memory":
            return table["die-at-boot-profiling"] if self.host.freed_since(self.began) else None
        if stage == "core":
            return self._missing_model()
        if stage == "load":
            if free is not None and free < arm.utilization * TOTAL_GIB:
                return table["die-at-boot-memory"]
            path = checkpoint.snapshot(arm.model, self.settings.revision)
            wrong = checkpoint.problem(path) if path else None
            if wrong:
                return Death("loaded", CORE, wrong)
            if arm.available_gib <= 0:
                return table["die-at-boot-blocks"]
            if arm.available_gib < arm.need_gib:
                return table["die-at-boot-kv"]
        return None

    def _missing_model(self) -> Death | None:
        offline = os.environ.get("HF_HUB_OFFLINE") == "1" or os.environ.get("TRANSFORMERS_OFFLINE") == "1"
        for model in filter(None, (self.arm.model, self.arm.spec_model)):
            if offline and not checkpoint.snapshot(model, self.settings.revision if model == self.arm.model else None):
                return Death("core", API, texts.not_cached(model))
        return None

    async def _die(self, death: Death) -> None:
        self.truth.note("boot-death", stage=death.stage, error=death.error)
        if death.code == 0:
            raise BootEnd(0)
        if death.process == CORE:
            if death.error:
                self.console.traceback(CORE, "core.py:1374", "EngineCore failed to start.", FRAMES[CORE], death.error)
                self.console.bare_traceback(CORE, FRAMES[CORE], death.error)
            self.console.bare_traceback(API, FRAMES[API], texts.wrapper(death.proc_status))
        else:
            self.console.bare_traceback(API, FRAMES[API], death.error)
        raise BootEnd(death.code)

    async def _at_mamba(self) -> None:
        if self.faults.on("wedge-at-mamba"):
            self.truth.note("wedge")
            stop = time.monotonic() + 120 / self.speedup  # the real one was busy for two minutes before it went still
            while time.monotonic() < stop:
                sum(range(20000))
                await asyncio.sleep(0.002)
            self.host.report(stage="boot:wedged", gib=WEIGHTS_GIB + 1.5, busy=0.0, running=0)
            await asyncio.Event().wait()
        if self.faults.on("compile-storm"):
            await self._storm(self.faults.number("compile-storm", 20))

    async def _storm(self, seconds: float) -> None:
        """Children named cicc that keep their processor busy a quarter of the time each."""
        children = [subprocess.Popen(["cicc", "-c", COMPILER], executable=sys.executable) for _ in range(4)]
        try:
            for i in range(max(int(seconds), 1)):
                self.host.report(stage="boot:jit", gib=min(40.0 + 3.0 * i, 100.0), busy=0.0, running=0)
                await asyncio.sleep(1)
        finally:
            for child in children:
                child.kill()
                child.wait()

    async def _for_ever(self) -> None:
        for i in range(2, 10**9):
            await asyncio.sleep(0.5)
            self.console.put(Line(0, CORE, f"[Autotuner]: Tuning profile {i}/{10**9}", "autotuner.py:262"))

    @staticmethod
    def _marker(name: str) -> str:
        root = os.environ.get("VLLM_CACHE_ROOT") or os.path.expanduser("~/.cache/vllm")
        return os.path.join(root, name)

    def _caches(self) -> tuple[bool, bool]:
        plan = os.environ.get("VLLM_ENABLE_STARTUP_PLAN") == "1" and os.path.exists(
            self._marker("startup_plan/plan.json")
        )
        return os.path.exists(self._marker("torch_compile_cache/2f1cbe60ad")), plan

    def _keep_caches(self) -> None:
        names = ["torch_compile_cache/2f1cbe60ad"]
        if os.environ.get("VLLM_ENABLE_STARTUP_PLAN") == "1":
            names.append("startup_plan/plan.json")
        for name in names:
            try:
                os.makedirs(os.path.dirname(self._marker(name)), exist_ok=True)
                with open(self._marker(name), "w", encoding="ascii") as file:
                    file.write("{}\n")
            except OSError:
                return
