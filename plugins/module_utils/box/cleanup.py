# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What spikes left running on a box, ended by pid and token: measurements, recorders, the lock. No file is removed but
the lock; what was measured stays."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import SpikeError
from ..results.progress import inspect, process_identity, read_progress
from . import detach, lock

# A measurement that is told to end writes down what it has; a batch of long requests takes a moment to be cut.
MEASUREMENT_PATIENCE_S = 20.0
_STEP_S = 0.1


def spikes(root: str) -> list[str]:
    """The folders of spikes below the root, oldest name first."""
    with contextlib.suppress(OSError):
        return sorted(entry.path for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    return []


def left_running(root: str) -> list[dict[str, Any]]:
    """What runs: ``{kind: measurement|recorder, spike_id, path, pid}`` each."""
    found: list[dict[str, Any]] = []
    for folder in spikes(root):
        spike = os.path.basename(folder)
        for path in lock.measurements(folder):
            progress = read_progress(path) or {}
            found.append({"kind": "measurement", "spike_id": spike, "path": path, "pid": progress.get("pid")})
        telemetry = os.path.join(folder, "telemetry")
        about = detach.read_about(telemetry)
        if about is not None and detach.alive(about):
            found.append({"kind": "recorder", "spike_id": spike, "path": telemetry, "pid": about.get("pid")})
    return found


def clean(
    root: str,
    patience_s: float = MEASUREMENT_PATIENCE_S,
    kill: Callable[[int, int], None] = os.kill,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """End all of it and free the lock. Returns ``{ended, problems, lock}``; what would not end is in ``problems``."""
    ended, problems = [], []
    for one in left_running(root):
        try:
            if one["kind"] == "measurement":
                _end_measurement(one["path"], patience_s, kill, sleep)
            else:
                detach.stop(one["path"], kill=kill)
            ended.append(one)
        except SpikeError as exc:
            problems.append(str(exc))
    found = lock.read(root)
    if found is not None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(lock.path_of(root))
    return {"ended": ended, "problems": problems, "lock": found}


def _end_measurement(
    path: str, patience_s: float, kill: Callable[[int, int], None], sleep: Callable[[float], None]
) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for waited in _steps(patience_s):
            progress = read_progress(path)
            if inspect(path)["state"] != "running" or progress is None:
                return
            pid = int(progress["pid"])
            # The start time makes sure that it is that very process and not one that got its number.
            if waited == 0 and process_identity(pid) == progress["pid_start"]:
                kill(pid, number)
            sleep(_STEP_S)
    raise SpikeError(f"the measurement at {path} does not end")


def _steps(patience_s: float) -> Iterator[int]:
    yield from range(max(1, int(patience_s / _STEP_S)))
