# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting the recorder so that it outlives everything that started it, and ending that one process and no other."""

from __future__ import annotations

import json
import os
import pkgutil
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import SpikeError
from .recorder import give, start_ticks, text_of

PROGRAM = "recorder.py"
ABOUT = "recorder.json"


def read_about(folder: str) -> dict[str, Any] | None:
    """``recorder.json`` of a telemetry folder, or None where no recorder ever ran (or its file was cut)."""
    try:
        with open(f"{folder}/{ABOUT}", encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def alive(about: dict[str, Any] | None) -> bool:
    """Whether the very process that wrote ``recorder.json`` runs: same boot, pid, start time and token."""
    if not about or about.get("boot_id") != text_of("/proc/sys/kernel/random/boot_id"):
        return False
    pid = int(about["pid"])
    return start_ticks(pid) == about["start_ticks"] and f"--token={about['token']}" in command_line(pid)


def died(about: dict[str, Any] | None) -> bool:
    """Whether the recorder of this boot of the box is gone and never said that it stopped."""
    this_boot = about is not None and about.get("boot_id") == text_of("/proc/sys/kernel/random/boot_id")
    return about is not None and this_boot and not about.get("stopped") and not alive(about)


def command_line(pid: int) -> list[str]:
    """The arguments of a process; empty for one that is gone."""
    return text_of(f"/proc/{pid}/cmdline").split("\0")


def detached(argv: Sequence[str], folder: str, output: str) -> None:
    """Run a program in a session of its own, whose parent is init and whose output goes to a file."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir(folder)
        os.umask(0o077)
        null = os.open(os.devnull, os.O_RDWR)
        said = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        for number, fd in ((0, null), (1, said), (2, said)):
            os.dup2(fd, number)
        # The session's pipes must not be held open: ssh would wait for them.
        os.closerange(3, 1024)
        os.execv(argv[0], list(argv))
    finally:
        os._exit(127)


def start(folder: str, interval_s: float, limit_s: float, patience_s: float = 10.0) -> dict[str, Any]:
    """Start a recorder on a folder. Returns its ``recorder.json``; raises SpikeError when it did not come up."""
    source = pkgutil.get_data(__package__, PROGRAM)
    if source is None:
        raise SpikeError("the recorder's program is missing from the collection")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    give(folder)
    program = f"{folder}/{PROGRAM}"
    with open(program, "wb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as handle:
        handle.write(source)
    give(program)
    token = secrets.token_hex(8)
    output = f"{folder}/recorder.out"
    options = [f"--token={token}", f"--folder={folder}", f"--interval-s={interval_s:g}", f"--limit-s={limit_s:g}"]
    detached([sys.executable, "-I", "-S", program, *options], folder, output)
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        about = read_about(folder)
        if about and about.get("token") == token:
            return about
        time.sleep(0.05)
    raise SpikeError(f"the telemetry recorder did not start within {patience_s:g} s: {text_of(output)[-1000:]}")


def stop(
    folder: str, patience_s: float = 10.0, kill: Callable[[int, int], None] = os.kill
) -> tuple[bool, dict[str, Any] | None]:
    """End the folder's recorder, by its pid and only while that pid is it. Returns (whether it ran, its last words).

    Raises SpikeError when it does not end.
    """
    about = read_about(folder)
    if about is None or not alive(about):
        return False, about
    for number, patience in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 2.0)):
        if alive(about):
            kill(int(about["pid"]), number)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if not alive(about):
                return True, read_about(folder)
            time.sleep(0.05)
    raise SpikeError(f"the telemetry recorder (pid {about['pid']}) does not end")
