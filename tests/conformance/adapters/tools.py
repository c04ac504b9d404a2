# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the other tools are found and run: from virtual environments in ``.cache/peers``, or from an engine's image.

    python3 -m venv .cache/peers/guidellm && .cache/peers/guidellm/bin/pip install guidellm==0.8.1

They want a tokenizer: the folder in ``SPIKE_PEERS_TOKENIZER``, else the small model in this project's cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PEERS = Path(os.environ.get("SPIKE_PEERS", ROOT / ".cache" / "peers"))
MODELS = Path.home() / ".cache" / "lobes-spike" / "huggingface" / "hub"
TIME_LIMIT_S = 900

Report = dict[str, Any]

# Runs a command and writes the CPU seconds of its whole process tree beside its results.
CPU = """
import json, resource, subprocess, sys, time
start = time.monotonic()
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cost = {"cpu_s": used.ru_utime + used.ru_stime, "wall_s": time.monotonic() - start, "max_rss_mb": used.ru_maxrss / 1024}
open(sys.argv[1], "w").write(json.dumps(cost))
sys.exit(code)
"""


@dataclass(frozen=True)
class Load:
    """What a tool is to send: ``requests`` of ``tokens`` forced tokens, ``streams`` at a time, results into ``out``."""

    url: str
    model: str
    streams: int
    requests: int
    tokens: int
    out: Path
    forced: bool = True


def program(venv: str, name: str) -> Path:
    return PEERS / venv / "bin" / name


def missing(venv: str, name: str) -> str | None:
    """Why a tool of a virtual environment cannot run."""
    if not program(venv, name).exists():
        return f"not installed in {PEERS / venv}"
    return None if tokenizer() else "no tokenizer: set SPIKE_PEERS_TOKENIZER"


def tokenizer() -> Path | None:
    """A folder with a tokenizer, its files copied out of the cache's links (containers cannot follow those)."""
    given = os.environ.get("SPIKE_PEERS_TOKENIZER")
    if given:
        return Path(given)
    copy = PEERS / "tokenizer"
    if not (copy / "tokenizer.json").exists():
        found = next(iter(sorted(MODELS.glob("*/snapshots/*/tokenizer.json"))), None)
        if found is None:
            return None
        copy.mkdir(parents=True, exist_ok=True)
        for file in found.parent.iterdir():
            if file.suffix in (".json", ".jinja", ".txt") and file.stat().st_size < 50_000_000:
                shutil.copyfile(file, copy / file.name)
    return copy


def execute(command: list[str], out: Path, environment: dict[str, str] | None = None) -> dict[str, float] | None:
    """Run with its CPU counted: {cpu_s, wall_s, max_rss_mb}, or None out of time. Its exit status is not judged."""
    out.mkdir(parents=True, exist_ok=True)
    inside = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    inside.update({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "COLUMNS": "200"}, **(environment or {}))
    inside = {name: value for name, value in inside.items() if value}  # an empty one is taken away
    with (out / "output.txt").open("w") as log:
        try:
            subprocess.run(
                [sys.executable, "-c", CPU, str(out / "cpu.json"), *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=inside,
                timeout=TIME_LIMIT_S,
                start_new_session=True,  # some tools end by signalling their whole process group
            )
        except subprocess.TimeoutExpired:
            return None
    cost: dict[str, float] = json.loads((out / "cpu.json").read_text())
    return cost


def one_by_one(
    command: Callable[[Load], list[str]],
    read: Callable[[Path], list[Report]],
    url: str,
    names: list[str],
    environment: dict[str, str] | None = None,
) -> dict[str, Report | None]:
    """Run the tool once for each stream, two requests each, and take the first request's report."""
    reports: dict[str, Report | None] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            load = Load(f"{url}/s/{name}", name, 1, 2, 16, Path(folder), forced=False)
            execute(command(load), load.out, environment)
            try:
                found = read(load.out)
            except (OSError, ValueError, KeyError, IndexError, TypeError):
                found = []
        reports[name] = found[0] if found else None
    return reports


def seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def rate(interval_s: float | None) -> float | None:
    """Tokens per second of a mean interval between tokens."""
    return 1 / interval_s if interval_s else None
