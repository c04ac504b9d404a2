# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the engine double, run as a plain process: a boot as engine_ready waits for it, phases as their modules run.

The code is the product's own, called in this process; of docker only ``inspect`` and ``logs`` are played, from the
process that the double is.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.lobes.spike.plugins.module_utils.client import Endpoint, ask, get_json, post_json
from ansible_collections.lobes.spike.plugins.module_utils.engine.boot import BootPlan, BootWait, Box, failure_message
from ansible_collections.lobes.spike.plugins.module_utils.engine.follow import LogFollower, inspect
from ansible_collections.lobes.spike.plugins.module_utils.engine.processes import read_tree
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results import progress
from ansible_collections.lobes.spike.plugins.module_utils.workloads import agentic, decode, needle, plans, probe, sweep
from ansible_collections.lobes.spike.plugins.plugin_utils import expectations
from ansible_collections.lobes.spike.plugins.plugin_utils.document.words import quote

from .catalogue import DOUBLES, Row

MODEL = "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"
RECIPE = [
    "--max-model-len", "128000", "--kv-cache-dtype", "fp8", "--gpu-memory-utilization", "0.7",
    "--max-num-batched-tokens", "16384", "--reasoning-parser", "nemotron_v3", "--enable-auto-tool-choice",
    "--tool-call-parser", "qwen3_coder", "--mamba-cache-mode", "align", "--enable-prompt-tokens-details",
    "--enable-per-request-metrics",
]  # fmt: skip
ID = "5d0ab1e7" * 8
# A boot is looked at more often than in a product, where it takes minutes.
LOOK_S = 0.3
SECRET = "MAROON-4817"
ASKED = {
    "decode": {"prompt": "Write an essay about the sea.", "max_tokens": 100, "runs": 1},
    "needle": {
        "prompt_tokens": 3000, "secret": SECRET, "statement": "The secret code is {secret}.",
        "question": "What is the secret code? Answer with the code only.", "forced_tokens": 70,
    },
    "sweep": {"prompt": "Write about the sea.", "max_tokens": 64, "concurrency": [4]},
    "agentic": {"system_prompt": "Use your tools.", "turns": 2, "tool_result_tokens": 400},
    "probe": {
        "name": "sum", "prompt": "What is 17 + 25? Answer with the number only.", "thinking": False, "max_tokens": 200,
        "expect": [{"query": "content", "matches": "^\\s*42\\s*$"}],
    },
}  # fmt: skip
PLANS: dict[str, tuple[Any, Any]] = {
    "decode": (plans.DecodePlan, decode), "needle": (plans.NeedlePlan, needle), "sweep": (plans.SweepPlan, sweep),
    "agentic": (plans.AgenticPlan, agentic), "probe": (plans.ProbePlan, probe),
}  # fmt: skip


class Process:
    """The double as a process, and docker's ``inspect`` and ``logs`` of it."""

    def __init__(self, folder: Path, faults: str, env: Mapping[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(DOUBLES / "engine"), "VLLM_CACHE_ROOT": str(folder / "vllm"),
            "HF_HOME": str(folder / "hf"), "SPIKE_SPEEDUP": "1000", "SPIKE_SPEEDUP_BOOT": "20000",
            "SPIKE_SPEEDUP_DECODE": "20", "SPIKE_FAULTS": faults, "VLLM_SERVER_DEV_MODE": "1", **env,
        }  # fmt: skip
        command = [sys.executable, "-m", "spike_engine", "serve", MODEL, "--host", "127.0.0.1"]
        self.endpoint = Endpoint.parse(f"http://127.0.0.1:{self.port}")
        self.started = _stamp()
        self.ended: str | None = None
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), *RECIPE],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: tuple[list[tuple[str, bytes]], ...] = ([], [])
        self.readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in zip((self.process.stdout, self.process.stderr), self.lines, strict=True)
        ]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, lines: list[tuple[str, bytes]]) -> None:
        for line in stream:
            lines.append((_stamp(), line))

    def docker(self, argv: Sequence[str]) -> tuple[int, bytes, bytes]:
        """What docker would answer."""
        code = self.process.poll()
        if argv[1] == "inspect":
            if code is not None:
                for reader in self.readers:
                    reader.join(5)
                self.ended = self.ended or _stamp()
            state = {
                "Status": "running" if code is None else "exited", "ExitCode": code or 0, "OOMKilled": False,
                "Pid": self.process.pid if code is None else 0, "Error": "", "StartedAt": self.started,
                "FinishedAt": self.ended or "0001-01-01T00:00:00Z",
            }  # fmt: skip
            return 0, json.dumps([{"Id": ID, "Name": "/lobes-spike-B", "State": state}]).encode(), b""
        since = argv[argv.index("--since") + 1]
        out, err = (
            b"".join(stamp.encode() + b" " + line for stamp, line in list(lines) if stamp >= since)
            for lines in self.lines
        )
        return 0, out, err

    def ready(self) -> None:
        """Wait until it serves."""
        until = time.monotonic() + 30
        while ask(self.endpoint, "/health")[0] != "ok":
            assert self.process.poll() is None, b"".join(line for _t, line in self.lines[1])[-2000:]
            assert time.monotonic() < until
            time.sleep(0.05)

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join(5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _stamp() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


@contextlib.contextmanager
def serving(folder: Path, faults: str = "", env: Mapping[str, str] | None = None) -> Iterator[Process]:
    """The double, ready, until the block ends."""
    process = Process(folder, faults, env or {})
    try:
        process.ready()
        yield process
    finally:
        process.end()


def look(row: Row, folder: Path, shared: Process | None) -> dict[str, Any]:
    """Play a row; ``shared`` is an engine without faults for the rows that need none of their own."""
    if row.look == "boot":
        return boot(row, folder)
    if row.options.get("again"):
        return again(row, shared, folder)
    if row.options.get("own") or shared is None:
        with serving(folder, row.given, row.env) as own:
            return phase(row, own, folder)
    number = int(get_json(shared.endpoint, "/_double/state")["chats"])
    post_json(shared.endpoint, "/reset_prefix_cache", {})
    post_json(shared.endpoint, "/_double/faults", {"faults": row.given.replace("NEXT", str(number + 1))})
    try:
        return phase(row, shared, folder)
    finally:
        post_json(shared.endpoint, "/_double/faults", {"faults": ""})


def again(row: Row, engine: Process | None, folder: Path) -> dict[str, Any]:
    """The same prompt a second time, after the cache was asked to forget it where the row says so."""
    assert engine is not None
    post_json(engine.endpoint, "/reset_prefix_cache", {})
    post_json(engine.endpoint, "/_double/faults", {"faults": row.given})
    first = replace(row, options={"seed": 7})
    second = replace(row, options={"seed": 7, **{k: v for k, v in row.options.items() if k not in ("again", "reset")}})
    try:
        before = phase(first, engine, folder / "first")
        answer = post_json(engine.endpoint, "/reset_prefix_cache", {}) if row.options.get("reset") else None
        return {**phase(second, engine, folder / "second"), "first": before["cache"], "reset": answer}
    finally:
        post_json(engine.endpoint, "/_double/faults", {"faults": ""})


def boot(row: Row, folder: Path) -> dict[str, Any]:
    """Wait for a boot as engine_ready does: its document, and its message where the boot failed."""
    process = Process(folder, row.given, row.env)
    seen: list[dict[str, Any]] = []
    try:
        first = inspect(process.docker, ID)
        box = Box(
            inspect=lambda: inspect(process.docker, ID),
            follower=LogFollower(process.docker, ID, first.started_at, str(folder / "boot.log")),
            health=lambda: ask(process.endpoint, "/health")[0],
            metrics=lambda: ask(process.endpoint, "/metrics")[1],
            tree=read_tree,
            monotonic=time.monotonic,
            utc=lambda: datetime.now(timezone.utc),
            sleep=lambda seconds: time.sleep(min(seconds, LOOK_S)),
            progress=seen.append,
        )
        limits = {"time_limit_s": 60, "wedge_limit_s": 5, **row.options}
        document = BootWait(BootPlan(arm="B", **limits), box, first).run()
    finally:
        process.end()
    kept = (folder / "boot.log").read_bytes()
    states = [entry["judgement"]["state"] for entry in seen]
    return {
        **document,
        "message": failure_message(document["failure"], "B", "boot.log") if document["failure"] else None,
        "watched": {
            "states": sorted(set(states)),
            "evidence": list(dict.fromkeys(text for entry in seen for text in entry["judgement"]["evidence"])),
            "last": seen[-1]["judgement"]["evidence"] if seen else None,
        },
        "longest_line": max(map(len, kept.split(b"\n"))),
        "notices": [notice["meaning"] for notice in document["facts"]["notices"]],
        "names": [milestone["name"] for milestone in document["milestones"]],
    }


def phase(row: Row, engine: Process, folder: Path) -> dict[str, Any]:
    """Run a phase as its module does; ``watched`` is what its progress file said while it ran."""
    kind, module = PLANS[row.look]
    path = folder / "result.json"
    shared = {key: value for key, value in row.options.items() if key in plans.Common.__dataclass_fields__}
    own = {key: value for key, value in row.options.items() if key not in shared and key != "own"}
    states: list[dict[str, Any]] = []
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(str(path), states, over), daemon=True)
    watcher.start()
    try:
        common = plans.Common.from_options(
            {"endpoint": engine.endpoint.url, "results_path": str(path), "context": {"boot_id": "b@1"}, **shared}
        )
        result = module.run(kind.from_options({**ASKED[row.look], **own}), common)
    except SpikeError as exc:
        return {"refused": str(exc)}
    finally:
        over.set()
        watcher.join()
    kept = json.loads(path.read_text(encoding="utf-8"))
    if row.look == "probe" and result["status"] == "complete":
        verdict = expectations.judge(result["reply"], ASKED["probe"]["expect"])
        result |= {"passed": verdict.passed, "failed_expectation": verdict.failed_expectation}
    sample = kept["samples"][0] if kept["samples"] else {}
    return {
        **result,
        "sample": {key: value for key, value in sample.items() if key != "events"},
        "statuses": [one["status"] for one in kept["samples"]],
        "notes": kept["notes"],
        "metrics": kept["witnesses"]["engine_metrics"],
        "workload": kept["workload"],
        "watched": {
            "states": sorted({one["state"] for one in states}),
            "evidence": list(dict.fromkeys(text for one in states for text in one["evidence"])),
            "last": states[-1]["evidence"] if states else None,
        },
        "result_bytes": path.stat().st_size,
        "shown": quote(sample.get("text"), 120),
    }


def _watch(path: str, states: list[dict[str, Any]], over: threading.Event) -> None:
    while not over.wait(0.1):
        seen = progress.read_progress(path)
        if seen and seen.get("judgement") and seen["judgement"] not in states:
            states.append(seen["judgement"])
