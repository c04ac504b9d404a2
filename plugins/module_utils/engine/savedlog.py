# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole container log on disk: kept as docker gives it, without keys, and read without holding it in memory."""

from __future__ import annotations

import os

from ..errors import SpikeError
from .bootlog import BootLog
from .follow import RunCommand, without_keys_in_line
from .records import clean

_PIECE = 1 << 20
# Both streams go to one file in docker's order; the names come in as arguments, so nothing is quoted.
_SAVE = 'exec docker logs --since "$1" "$2" >"$3" 2>&1'


def save_log(run: RunCommand, container_id: str, since: str, path: str) -> int:
    """Write the container's log since ``since`` to ``path`` (mode 0600) and return its bytes.

    What lies at ``path`` is replaced only by a log that was read to its end. Raises SpikeError otherwise.
    """
    raw, kept = f"{path}.raw-{os.getpid()}", f"{path}.tmp-{os.getpid()}"
    try:
        _make(raw)
        rc, _out, err = run(["sh", "-c", _SAVE, "sh", since, container_id, raw])
        if rc != 0:
            with open(raw, "rb") as handle:
                said = handle.read(2000)
            reason = clean((said or err).decode("utf-8", "replace")) or f"exit code {rc}"
            raise SpikeError(f"the log of container {container_id[:12]} could not be read: {reason}")
        _make(kept)
        with open(raw, "rb") as source, open(kept, "wb") as target:
            for line in source:
                target.write(without_keys_in_line(line))
            target.flush()
            os.fsync(target.fileno())
            written = target.tell()
        os.replace(kept, path)
    except OSError as exc:
        raise SpikeError(f"the log could not be written to {path}: {exc.strerror or exc}") from exc
    finally:
        for left in (raw, kept):
            if os.path.lexists(left):
                os.unlink(left)
    return written


def read_log(path: str, year: int | None = None) -> BootLog:
    """Read a saved log in pieces. Raises SpikeError when the file cannot be read."""
    log = BootLog(year)
    try:
        with open(path, "rb") as handle:
            while piece := handle.read(_PIECE):
                log.feed(piece)
    except OSError as exc:
        raise SpikeError(f"log_path: {path} cannot be read: {exc.strerror or exc}") from exc
    log.close()
    return log


def _make(path: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
