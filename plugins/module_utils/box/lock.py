# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One spike per box at a time: a lock that says whose it is, and can be told from one that was left behind.

A box does not see whether the controller that holds a lock still lives. What it sees: its own boot, and whether
anything of that spike runs here (its recorder does from the first to the last task). The controller that wants the lock
adds what it knows, when the holder's process is one of its own machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SpikeError
from ..results.progress import boot_of_box, inspect
from ..results.store import write_atomic
from ..results.window import utc_text
from . import detach

NAME = "spike.lock"
SCHEMA = "lobes.spike/lock/1"
FREE, OURS, STALE, HELD = "free", "ours", "stale", "held"
_HOLDER = ("owner", "controller", "pid_namespace", "pid", "pid_start")


@dataclass(frozen=True)
class Verdict:
    """``state`` is free, ours, stale or held; ``why`` is a sentence about who holds it or why nobody does."""

    state: str
    why: str


def judge(
    found: Mapping[str, Any] | None,
    holder: Mapping[str, Any],
    boot: str | None,
    runs: bool,
    holder_alive: bool | None,
) -> Verdict:
    """Whose a lock is.

    ``found`` is the lock's content, None when there is none, empty when it cannot be read. ``holder`` is who asks.
    ``boot`` is the box's boot id. ``runs``: something of the lock's spike runs on this box. ``holder_alive``: the
    process that took it lives, None when that cannot be known from here.
    """
    if found is None:
        return Verdict(FREE, "there is no lock")
    if found.get("schema") != SCHEMA:
        return Verdict(STALE, "the lock cannot be read (cut when it was written?)")
    who = (
        f"spike {found.get('spike_id')} of {found.get('owner')} from {found.get('controller')} "
        f"(ansible-playbook pid {found.get('pid')}), since {found.get('since_utc')}"
    )
    if all(found.get(member) == holder.get(member) for member in _HOLDER):
        return Verdict(OURS, f"it is held by this very run: {who}")
    if found.get("boot_id") != boot:
        return Verdict(STALE, f"the box was started anew since it was taken: {who}")
    if holder_alive is False:
        return Verdict(STALE, f"the run that took it is gone: {who}")
    if holder_alive is None and not runs:
        return Verdict(STALE, f"nothing of that spike runs on the box any more: {who}")
    return Verdict(HELD, f"it is held by {who}")


def path_of(root: str) -> str:
    """The lock's file in the folder of all spikes."""
    return os.path.join(root, NAME)


def read(root: str) -> dict[str, Any] | None:
    """The lock's content; None when there is none, empty when what lies there is no lock."""
    try:
        with open(path_of(root), "rb") as handle:
            found = json.loads(handle.read(1 << 16))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def acquire(
    root: str, spike_id: str, holder: Mapping[str, Any], holder_alive: bool | None, take_over: bool, now_s: float
) -> dict[str, Any]:
    """Take the lock. Returns ``{changed, lock, was, why}``; ``was`` is what it was found as.

    Raises SpikeError, with ``held`` (the lock's content) in its ``partial``, when another run has it.
    """
    os.makedirs(root, mode=0o700, exist_ok=True)
    with _alone(root):
        found = read(root)
        verdict = judge(found, holder, boot_of_box(), _runs(root, found), holder_alive)
        if verdict.state == HELD and not take_over:
            raise SpikeError(
                f"Another spike is on this box, and nothing was touched: {verdict.why}. Wait for its end. If you know "
                "that it is over, playbooks/cleanup.yml frees the box; spike_take_over=true takes its place as it is.",
                {"held": found},
            )
        lock = {
            "schema": SCHEMA,
            "spike_id": spike_id,
            **{member: holder.get(member) for member in _HOLDER},
            "boot_id": boot_of_box(),
            "since_utc": utc_text(now_s),
        }
        if verdict.state == OURS and found is not None and found.get("spike_id") == spike_id:
            return {"changed": False, "lock": found, "was": verdict.state, "why": verdict.why}
        write_atomic(path_of(root), (json.dumps(lock, indent=1) + "\n").encode())
        return {"changed": True, "lock": lock, "was": verdict.state, "why": verdict.why}


def release(root: str, holder: Mapping[str, Any]) -> dict[str, Any]:
    """Give the lock back, if it is this run's. Returns ``{changed, lock, was, why}``."""
    if not os.path.isdir(root):
        return {"changed": False, "lock": None, "was": FREE, "why": "there is no lock"}
    with _alone(root):
        found = read(root)
        verdict = judge(found, holder, boot_of_box(), True, None)
        if verdict.state == OURS:
            os.unlink(path_of(root))
        return {"changed": verdict.state == OURS, "lock": found or None, "was": verdict.state, "why": verdict.why}


def _runs(root: str, found: Mapping[str, Any] | None) -> bool:
    spike = str((found or {}).get("spike_id") or "")
    if not spike or os.path.basename(spike) != spike:
        return False
    folder = os.path.join(root, spike)
    recorder = detach.alive(detach.read_about(os.path.join(folder, "telemetry")))
    return recorder or any(True for _path in measurements(folder))


def measurements(folder: str) -> Iterator[str]:
    """The results paths in a spike's folder at which a measurement is at work."""
    for progress in sorted(glob.glob(os.path.join(glob.escape(folder), "*", "*.progress"))):
        path = progress.removesuffix(".progress")
        if inspect(path)["state"] == "running":
            yield path


@contextlib.contextmanager
def _alone(root: str) -> Iterator[None]:
    """Two takers at once: one waits for the other."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
