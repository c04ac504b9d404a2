# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results on disk: written whole or not at all, never lost, never a half one taken for a result.

Beside ``<path>`` there may be, while it is being made or after something went wrong:

- ``<path>.progress``   how far a running measurement is (rewritten every two seconds or less);
- ``<path>.partial``    a valid document of what is finished so far, ``status: partial``;
- ``<path>.broken-<time>``   what lay at ``<path>`` and was not a result (a half-written file), set aside;
- ``<path>.earlier-<time>``  the result of an earlier run, set aside before a new one took its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SpikeError
from .document import SCHEMA

MODE = 0o600
_REQUIRED = ("phase", "name", "plan", "plan_sha256", "window", "status", "summary", "samples")


def encode(document: Mapping[str, Any]) -> bytes:
    """Compact UTF-8 JSON with a final newline. Raises ValueError for NaN and infinities: they are no figures."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A lone surrogate (the engine may send one escaped) has no UTF-8 form; it is kept visible as "?".
    return text.encode("utf-8", "replace") + b"\n"


def write_atomic(path: str, data: bytes) -> str:
    """Write ``data`` to ``path`` so that a reader, or a power cut, sees all of it or what was there before.

    Returns the sha256 of what was written. Raises SpikeError with the path and the system's reason.
    """
    temporary = f"{path}.tmp-{os.getpid()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, MODE)
        try:
            with os.fdopen(descriptor, "wb") as handle:
                os.fchmod(handle.fileno(), MODE)
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(os.path.dirname(path) or ".")
    except OSError as exc:
        raise SpikeError(f"the result could not be written to {path}: {exc.strerror or exc}") from exc
    return hashlib.sha256(data).hexdigest()


def write_quick(path: str, document: Mapping[str, Any]) -> None:
    """Write a file that may be lost in a power cut but is never seen half (progress). A full disk is not an error."""
    temporary = f"{path}.tmp-{os.getpid()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, MODE)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(encode(document))
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def remove(path: str) -> None:
    """Remove a file; one that is not there is fine."""
    with contextlib.suppress(OSError):
        os.unlink(path)


@dataclass(frozen=True)
class Found:
    """What lies at a path: ``absent``, ``result`` (``document`` is set) or ``broken`` (``why`` says how)."""

    kind: str
    document: dict[str, Any] | None = None
    why: str | None = None


def read(path: str) -> Found:
    """Read a result document. Total: nothing on disk makes it raise."""
    try:
        with open(path, "rb") as handle:
            raw = handle.read()
    except FileNotFoundError:
        return Found("absent")
    except OSError as exc:
        return Found("broken", why=f"it cannot be read: {exc.strerror or exc}")
    if not raw.strip():
        return Found("broken", why="it is empty")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return Found("broken", why="it is not whole JSON: the writing was cut short")
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return Found("broken", why=f"it is not a {SCHEMA} document")
    missing = [key for key in _REQUIRED if key not in document]
    if missing:
        return Found("broken", why=f"it lacks {', '.join(missing)}")
    return Found("result", document)


def beside(path: str) -> list[dict[str, Any]]:
    """The result documents in the directory of ``path``, by file name; what is none is left out."""
    directory = os.path.dirname(path) or "."
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    except OSError:
        return []
    found = [read(os.path.join(directory, name)).document for name in names]
    return [document for document in found if document is not None]


def sha256_of(path: str) -> str:
    """The sha256 of a file on disk. Raises OSError."""
    with open(path, "rb") as handle:
        return hashlib.sha256(handle.read()).hexdigest()


def prepare(path: str, why: str | None = None) -> list[str]:
    """Make room at ``path``: its directory exists (0700 when made here), nothing there is lost.

    ``why`` says what makes an earlier result there one of the past. Returns notes on what was set aside. Raises
    SpikeError when the place cannot be used.
    """
    if os.path.isdir(path):
        raise SpikeError(f"results_path: {path} is a directory. Give the path of the result file itself.")
    directory = os.path.dirname(path) or "."
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise SpikeError(f"the directory {directory} cannot be made: {exc.strerror or exc}") from exc
    notes = []
    found = read(path)
    if found.kind == "broken":
        notes.append(f"what lay at the results path was set aside as {set_aside(path, 'broken')}: {found.why}")
    elif found.kind == "result":
        because = f": {why}" if why else ""
        notes.append(f"an earlier result was set aside as {set_aside(path, 'earlier')}{because}")
    for name in sorted(os.listdir(directory)):
        # A writer that died between its first byte and the rename leaves this behind.
        if name.startswith(os.path.basename(path) + ".tmp-") and not _alive(name.rpartition("-")[2]):
            left = os.path.join(directory, name)
            notes.append(f"a half-written file was set aside as {set_aside(path, 'broken', left)}")
    return notes


def set_aside(path: str, why: str, source: str | None = None) -> str:
    """Rename ``source`` (``path`` itself by default) to ``<path>.<why>-<time>``; returns the new name."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = f"{path}.{why}-{stamp}"
    number = 1
    while os.path.lexists(target):
        number += 1
        target = f"{path}.{why}-{stamp}-{number}"
    try:
        os.rename(source or path, target)
    except OSError as exc:
        raise SpikeError(f"{source or path} could not be set aside: {exc.strerror or exc}") from exc
    return os.path.basename(target)


def _alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        # Some network file systems refuse to sync a directory; the file itself is synced.
        pass
    finally:
        os.close(descriptor)
