# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Printing as vLLM prints: records with a process prefix, bare lines, standard output and error apart."""

from __future__ import annotations

import os
import sys
import time

from .bootlog import API, CORE, RAW, Line
from .faults import Faults

PREFIXED_DIRS = {"core.py": "v1/engine", "loggers.py": "v1/metrics", "launcher.py": "entrypoints"}


class Console:
    """Writes lines in the format of the chosen release."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.pids = {API: os.getpid(), CORE: os.getpid() + 181}
        self.behind = 0.0  # one process's clock may trail another's by a second
        self.skew = faults.number("clock-skew", 7200) if faults.on("clock-skew") else 0.0

    def stamp(self) -> str:
        """Now, as the log writes it: no year, no zone, UTC as in the image."""
        return time.strftime("%m-%d %H:%M:%S", time.gmtime(time.time() + self.skew - self.behind))

    def put(self, line: Line) -> None:
        """Prints one line; a record's continuation lines repeat its prefix and end with a carriage return."""
        self.behind = 1.0 if line.stage == "early" and self.faults.on("log-noise") else 0.0
        rows = line.text.replace("{stamp}", self.stamp()).split("\n")
        for row in rows:
            tail = "\r" if len(rows) > 1 else ""
            self._write(self._format(line, row) + tail, line.stderr)

    def record(self, process: str, source: str, text: str, level: str = "INFO") -> None:
        """Prints one log record."""
        self.put(Line(0, process, text, source, level))

    def _format(self, line: Line, row: str) -> str:
        body = row
        if line.source:
            name, _, number = line.source.partition(":")
            if self.faults.on("log-debug"):
                name = f"{PREFIXED_DIRS.get(name, 'model_executor/layers')}/{name}"
            stamp, place, level = self.stamp(), f"[{name}:{number}]", line.level
            if self.faults.on("log-ansi"):
                colour = {"INFO": 32, "WARNING": 33, "ERROR": 31}[level]
                level, stamp, place = (
                    f"\x1b[{colour}m{level}\x1b[0m",
                    f"\x1b[90m{stamp}\x1b[0m",
                    f"\x1b[90m{place}\x1b[0m",
                )
            body = f"{level} {stamp} {place} {row}"
        if line.process == RAW or (self.faults.on("log-new") and not line.source):
            return body
        prefix = f"({line.process} pid={self.pids[line.process]}) "
        return f"\x1b[0;36m{prefix.rstrip()}\x1b[0;0m {body}" if self.faults.on("log-ansi") else prefix + body

    @staticmethod
    def _write(text: str, stderr: bool) -> None:
        stream = sys.stderr if stderr else sys.stdout
        stream.write(text + "\n")
        stream.flush()

    def traceback(self, process: str, where: str, head: str, frames: list[str], error: str) -> None:
        """A logged exception: head and traceback, each line a record."""
        rows = [head, "Traceback (most recent call last):"]
        for frame in frames:
            rows += [
                f'  File "/usr/local/lib/python3.12/dist-packages/vllm/{frame}", line 100, in run',
                "    self.step()",
            ]
        for row in (*rows, *error.split("\n")):
            self.put(Line(0, process, row + "\r", where, "ERROR"))

    def bare_traceback(self, process: str, frames: list[str], error: str) -> None:
        """A traceback that Python itself prints on standard error."""
        self.put(Line(0, process, "Traceback (most recent call last):", stderr=True))
        for frame in frames:
            self.put(
                Line(
                    0,
                    process,
                    f'  File "/usr/local/lib/python3.12/dist-packages/vllm/{frame}", line 100, in run',
                    stderr=True,
                )
            )
            self.put(Line(0, process, "    self.start()", stderr=True))
        for row in error.split("\n"):
            self.put(Line(0, process, row, stderr=True))
