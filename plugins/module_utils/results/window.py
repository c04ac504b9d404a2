# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The window of a phase: the box's monotonic clock, with the box's UTC beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone


@dataclass(frozen=True)
class Clocks:
    """The two clocks of a box. ``monotonic_ns`` orders and measures; ``utc_s`` (seconds since 1970) only names."""

    monotonic_ns: Callable[[], int] = time.monotonic_ns
    utc_s: Callable[[], float] = time.time

    def now(self) -> tuple[int, str]:
        """Both clocks read together: (monotonic nanoseconds, UTC as text)."""
        return self.monotonic_ns(), utc_text(self.utc_s())


def utc_text(seconds: float) -> str:
    """``2026-09-13T22:04:27.123456Z``."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class Window:
    """[start, end] of a phase; both ends carry both clocks, so that a stepped UTC clock shows as a difference."""

    start_monotonic_ns: int
    start_utc: str
    end_monotonic_ns: int
    end_utc: str

    def to_json(self) -> dict[str, int | str]:
        """The ``window`` object of a result document."""
        return {
            "start_monotonic_ns": self.start_monotonic_ns,
            "end_monotonic_ns": self.end_monotonic_ns,
            "start_utc": self.start_utc,
            "end_utc": self.end_utc,
        }
