# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of a box and their differences; every join between two clocks is made with these."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

# Slewing corrects at most half a millisecond a second; a difference that changed faster was stepped.
SLEW_LIMIT = 0.0005
STEP_S = 0.2


@dataclass(frozen=True)
class Reading:
    """UTC and the monotonic clock, read together, in nanoseconds."""

    monotonic_ns: int
    utc_ns: int

    @property
    def offset_ns(self) -> int:
        """UTC minus monotonic."""
        return self.utc_ns - self.monotonic_ns


def read_clocks(
    monotonic_ns: Callable[[], int] = time.monotonic_ns, utc_ns: Callable[[], int] = time.time_ns, tries: int = 5
) -> tuple[Reading, int]:
    """(both clocks at one moment, the error in nanoseconds): the tightest of some tries."""
    found = []
    for _try in range(tries):
        before = monotonic_ns()
        utc = utc_ns()
        after = monotonic_ns()
        found.append((after - before, Reading((before + after) // 2, utc)))
    width, reading = min(found, key=lambda pair: pair[0])
    return reading, width // 2 + 1


def controller_offset(sent_s: float, box_s: float, received_s: float) -> dict[str, float]:
    """``{offset_s, error_s}``: the box's UTC minus the controller's, from an exchange around the box's reading."""
    return {"offset_s": box_s - (sent_s + received_s) / 2, "error_s": (received_s - sent_s) / 2}


def drift(start: Reading, end: Reading) -> dict[str, Any]:
    """How UTC moved against the monotonic clock: ``{seconds, ppm, stepped}``."""
    passed = (end.monotonic_ns - start.monotonic_ns) / 1e9
    moved = (end.offset_ns - start.offset_ns) / 1e9
    return {
        "seconds": moved,
        "ppm": moved / passed * 1e6 if passed > 0 else None,
        "stepped": abs(moved) > STEP_S + SLEW_LIMIT * max(passed, 0),
    }


def steps(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """Where UTC was set: ``[{monotonic_ns, step_s}]``, each between one reading and the next."""
    found = []
    for a, b in pairwise(readings):
        moved = (b.offset_ns - a.offset_ns) / 1e9
        if abs(moved) > STEP_S + SLEW_LIMIT * (b.monotonic_ns - a.monotonic_ns) / 1e9:
            found.append({"monotonic_ns": b.monotonic_ns, "step_s": moved})
    return found


def monotonic_of(utc_ns: int, readings: Sequence[Reading]) -> int | None:
    """A UTC time on the monotonic clock, by the reading whose UTC is nearest; None without a reading.

    Where UTC was stepped back the same UTC occurs twice, and the earlier is meant.
    """
    if not readings:
        return None
    nearest = min(readings, key=lambda r: (abs(r.utc_ns - utc_ns), r.monotonic_ns))
    return utc_ns - nearest.offset_ns


def parse_utc(text: str | None) -> int | None:
    """``2026-09-13T22:04:27.123456789Z`` -> nanoseconds since 1970; None for anything else."""
    if not text:
        return None
    body, _mark, fraction = text.removesuffix("Z").partition(".")
    try:
        moment = datetime.fromisoformat(body).replace(tzinfo=timezone.utc)
        return int(moment.timestamp()) * 10**9 + int((fraction[:9] or "0").ljust(9, "0"))
    except ValueError:
        return None


def engine_log_offset(pairs: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """The engine log's clock against UTC, from pairs (when the container engine got a line, its ``MM-DD HH:MM:SS``).

    ``{offset_s, zone_hours, error_s}``: log time minus UTC, whole hours of it being a time zone. The log has no year;
    the one that lies nearest is meant. All None without a pair.
    """
    offsets = []
    for utc_ns, stamp in pairs:
        seconds = utc_ns / 1e9
        year = datetime.fromtimestamp(seconds, timezone.utc).year
        candidates = []
        for guess in (year - 1, year, year + 1):
            try:
                moment = datetime.strptime(f"{guess}-{stamp}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
            except ValueError:
                continue
            candidates.append(moment.timestamp() - seconds)
        if candidates:
            offsets.append(min(candidates, key=abs))
    if not offsets:
        return {"offset_s": None, "zone_hours": None, "error_s": None}
    # A line is written before it is received and its stamp is cut to the second: the largest is the nearest.
    offset = max(offsets) + 0.5
    return {"offset_s": offset, "zone_hours": round(offset / 1800) / 2, "error_s": 0.5}
