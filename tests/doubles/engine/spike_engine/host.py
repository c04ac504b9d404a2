# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The side of the engine that the box double sees: memory and load out, meminfo in.

The box mounts its directory into every container that runs on the stand-in nvidia runtime. A file there is locked
for as long as the engine lives, so that the box knows a dead engine's file from a live one's.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import time
from typing import Any

DIRECTORY = "/run/spike-sim"


class Host:
    """Reports to the box double, when there is one."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self.directory = directory
        self.present = os.path.isdir(os.path.join(directory, "engines"))
        self.path = os.path.join(directory, "engines", f"{socket.gethostname()}.json")
        self.last: dict[str, Any] = {}
        self.last_t = 0.0
        if self.present:
            self.file = open(self.path, "w", encoding="utf-8")  # noqa: SIM115  # the lock lives as long as the process
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def report(self, **state: Any) -> None:
        """State for the box: stage, gib (memory held), busy (0..1), running. At most ten times a second."""
        now = time.monotonic()
        if (
            not self.present
            or state == self.last
            or (now - self.last_t < 0.1 and state.get("stage") == self.last.get("stage"))
        ):
            return
        self.last, self.last_t = state, now
        text = json.dumps(state)
        self.file.seek(0)
        self.file.write(text)
        self.file.truncate(len(text))
        self.file.flush()

    def freed_since(self, when: float) -> bool:
        """Whether another process gave memory back since this time (UTC seconds)."""
        try:
            return os.stat(os.path.join(self.directory, "freed")).st_mtime > when
        except OSError:
            return False

    def available_gib(self) -> float | None:
        """MemAvailable of the box double; None without one."""
        try:
            with open(os.path.join(self.directory, "meminfo"), encoding="ascii") as file:
                match = re.search(r"MemAvailable:\s+(\d+)", file.read())
        except OSError:
            return None
        return int(match.group(1)) / 2**20 if match else None
