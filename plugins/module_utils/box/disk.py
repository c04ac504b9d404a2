# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room on the file systems that a spike writes to."""

from __future__ import annotations

import os
from typing import Any

from .source import Source


def read_disk(source: Source, path: str) -> dict[str, Any]:
    """``{path, measured_at, device, total_bytes, free_bytes, read_only}`` of the file system of ``path``.

    A path that does not exist yet is measured at its nearest existing parent. ``free_bytes`` is what an ordinary user
    may still write (root's reserve is not counted); None when it cannot be known.
    """
    at = path
    while not os.path.isdir(source.path(at)) and at != "/":
        at = os.path.dirname(at) or "/"
    try:
        found = os.statvfs(source.path(at))
        device = os.stat(source.path(at)).st_dev
    except OSError as exc:
        source.unreadable[at] = os.strerror(exc.errno or 0)
        unknown = dict.fromkeys(("device", "total_bytes", "free_bytes", "read_only"))
        return {"path": path, "measured_at": at, **unknown}
    return {
        "path": path,
        "measured_at": at,
        "device": device,
        "total_bytes": found.f_blocks * found.f_frsize,
        "free_bytes": found.f_bavail * found.f_frsize,
        "read_only": bool(found.f_flag & os.ST_RDONLY),
    }
