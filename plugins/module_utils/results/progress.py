# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a measurement while it runs, and how to tell a running one from one that died."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import store
from .document import for_return

SCHEMA = "lobes.spike/progress/1"


def process_identity(pid: int) -> str | None:
    """The start time of a process in kernel ticks: with it a reused pid is told apart. None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as handle:
            fields = handle.read().rpartition(")")[2].split()
    except OSError:
        return None
    # Field 3 (the state) is the first after the name; a zombie measures nothing any more. Field 22 is the start.
    return None if len(fields) < 20 or fields[0] in ("Z", "X") else fields[19]


def progress_path(path: str) -> str:
    """Where the progress of the measurement that will write ``path`` is kept."""
    return path + ".progress"


def partial_path(path: str) -> str:
    """Where what is finished so far is kept."""
    return path + ".partial"


def read_progress(path: str) -> dict[str, Any] | None:
    """The progress beside ``path``, or None when there is none that can be read."""
    try:
        with open(progress_path(path), "rb") as handle:
            progress = json.loads(handle.read(1 << 20))
    except (OSError, ValueError, RecursionError):
        return None
    return progress if isinstance(progress, dict) and progress.get("schema") == SCHEMA else None


def inspect(path: str) -> dict[str, Any]:
    """State of the measurement whose result belongs at ``path``. Never raises for what is or is not on disk.

    ``state`` is

    - ``running``: its process is alive;
    - ``finished``: the result is there;
    - ``interrupted``: it was begun, its process is gone and left no result (``result`` holds what it had finished);
    - ``broken``: something lies there that is no result (``why`` says what);
    - ``absent``: nothing is there.
    """
    progress = read_progress(path)
    alive = progress is not None and _is_running(progress)
    found = store.read(path)
    out: dict[str, Any] = {
        "state": "absent", "finished": False, "phase": None, "name": None, "progress": progress, "result": None,
        "why": found.why,
    }  # fmt: skip
    if alive:
        out["state"] = "running"
    elif found.kind == "result":
        out["state"] = "finished"
        out["finished"] = True
        # A progress file that outlived its result is of no interest.
        out["progress"] = None
    elif progress is not None:
        out["state"] = "interrupted"
    elif found.kind == "broken":
        out["state"] = "broken"
    document = found.document if out["finished"] else _partial(path)
    source = document or progress or {}
    out["phase"], out["name"] = source.get("phase"), source.get("name")
    if document is not None:
        out["result"] = for_return(document)
    return out


def job_ended(job_file: str) -> bool:
    """Whether a job started with ``async`` has ended: its file holds a result, or its wrapper's process is gone.

    The wrapper has the job's name, the file's without the pid, as its first argument. A file that is not there yet, or
    that is just being written, is a job that runs.
    """
    # Looked for before the file is read: what it wrote before it ended is then surely seen.
    at_work = _has_argument(os.path.basename(job_file).partition(".")[0])
    try:
        with open(job_file, "rb") as handle:
            job = json.load(handle)
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(job, dict):
        return False
    return "started" not in job or bool(job.get("finished")) or not at_work


def _has_argument(word: str) -> bool:
    """Whether some process of this box was started with this word among its arguments."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"{entry.path}/cmdline", "rb") as handle:
                    arguments = handle.read(1 << 16).split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments and process_identity(int(entry.name)) is not None:
                return True
    return False


def _partial(path: str) -> dict[str, Any] | None:
    return store.read(partial_path(path)).document


def _is_running(progress: Mapping[str, Any]) -> bool:
    pid = progress.get("pid")
    if isinstance(pid, bool) or not isinstance(pid, int) or pid <= 0:
        return False
    identity = process_identity(pid)
    return identity is not None and identity == progress.get("pid_start") and progress.get("boot") == boot_of_box()


def boot_of_box() -> str | None:
    """The kernel's id of this boot of the box, None where it has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
            return handle.read(64).strip() or None
    except OSError:
        return None


def own_identity() -> dict[str, Any]:
    """pid, its start and the box's boot, as kept in a progress file."""
    pid = os.getpid()
    return {"pid": pid, "pid_start": process_identity(pid), "boot": boot_of_box()}
