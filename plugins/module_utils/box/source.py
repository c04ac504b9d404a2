# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where facts about a box come from: its files and its commands, both of which may be missing or refuse."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Protocol

# A wedged driver makes its tools hang for ever; a look at the box must not hang with them.
COMMAND_TIME_LIMIT_S = 30


class RunCommand(Protocol):
    """``(argv) -> (rc, stdout, stderr)``; rc 127 when the program does not exist."""

    def __call__(self, argv: Sequence[str], /) -> tuple[int, str, str]: ...


class Source:
    """Reads a box's files and runs its read-only commands; remembers what could not be read and why.

    ``root`` is prepended to every path (tests point it at a tree of their own). Absent and unreadable are told
    apart: an absent file is simply ``None``, an unreadable one is ``None`` and named in ``unreadable``.
    """

    def __init__(self, run: RunCommand, root: str = "/") -> None:
        self._run = run
        self.root = root
        self.unreadable: dict[str, str] = {}

    def path(self, path: str) -> str:
        """The path to open for ``path`` (absolute on the box)."""
        return path if self.root == "/" else self.root + path

    def read(self, path: str, limit: int = 4 << 20) -> str | None:
        """The text of a file, at most ``limit`` bytes of it, or None when it is absent or will not be read.

        Thermal zones of a GPU that is switched off answer EAGAIN, for as long as it is off: not an error, no reading.
        """
        try:
            # Unbuffered: a buffered reader turns EAGAIN into a TypeError of its own.
            fd = os.open(self.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                parts = []
                left = limit
                while left > 0:
                    part = os.read(fd, min(left, 1 << 16))
                    if not part:
                        break
                    parts.append(part)
                    left -= len(part)
            finally:
                os.close(fd)
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.unreadable[path] = os.strerror(exc.errno or 0)
            return None
        return b"".join(parts).decode("utf-8", "replace")

    def line(self, path: str) -> str | None:
        """A one-line file without its newline and NULs, or None when absent, unreadable or empty."""
        text = self.read(path, 1 << 16)
        if text is None:
            return None
        return text.replace("\0", " ").strip() or None

    def number(self, path: str) -> int | None:
        """The integer a file holds, or None."""
        return to_int(self.line(path))

    def names(self, path: str) -> list[str]:
        """The names in a directory, numbers in natural order (``cooling_device2`` before ``cooling_device10``)."""
        try:
            found = os.listdir(self.path(path))
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.unreadable[path] = os.strerror(exc.errno or 0)
            return []
        return sorted(found, key=natural)

    def exists(self, path: str) -> bool:
        """Whether the path exists (links are followed)."""
        return os.path.exists(self.path(path))

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """Run a command; see ``RunCommand``."""
        return self._run(argv)


def natural(name: str) -> tuple[str, int, str]:
    """A sort key for names that end in a number."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return (stem, int(digits) if digits else -1, name)


def to_int(text: str | None) -> int | None:
    """``"42"`` -> 42; anything else -> None."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def to_float(text: str | None) -> float | None:
    """``"42.5"`` -> 42.5; anything else, infinities and NaN -> None."""
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < float("inf") else None
