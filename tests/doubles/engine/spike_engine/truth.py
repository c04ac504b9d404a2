# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ground-truth log: what was sent when, on CLOCK_MONOTONIC, one JSON object a line."""

from __future__ import annotations

import json
import time
from typing import Any


class Truth:
    """Appends to a file, or does nothing without one."""

    def __init__(self, path: str | None) -> None:
        self.file = open(path, "a", encoding="utf-8", buffering=1) if path else None  # noqa: SIM115  # lives as long as the process

    def note(self, kind: str, **fields: Any) -> None:
        """One line: kind, the time in nanoseconds, and the fields."""
        if self.file:
            self.file.write(
                json.dumps({"kind": kind, "t_ns": time.monotonic_ns(), **fields}, separators=(",", ":")) + "\n"
            )
