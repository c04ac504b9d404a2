# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recorder wrote, read back: numbers by name and time, and what is missing between them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .clocks import Reading
from .tegrastats import Parser
from .thermal import celsius

Numbers = dict[str, float]

MIB, KIB_PER_MIB = 1 << 20, 1024

STOP_ASKED = "stop_asked"
"""The one event that is not the recorder's own: the spike was about to stop it, and found it alive or not."""
STOPPED, DIED, KILLED, UNKNOWN = "stopped", "died", "killed", "unknown"
LIVED, NOT_STARTED = "lived", "not started"


def read_json_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file that may have been cut or torn; a line that is not one is left out."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("t"), int):
            yield row


def reading_of(row: Mapping[str, Any]) -> Reading:
    """Both clocks of a recorded row."""
    return Reading(int(row["t"]), int(row["u"]))


def sysfs_numbers(row: Mapping[str, Any], before: Mapping[str, Any] | None, page_bytes: int) -> Numbers:
    """One sample of sysfs and /proc as numbers: ``temp_c.<zone>``, ``power_w.<rail>``, ``fan_rpm``,
    ``memory_available_mib``, ``swap_used_mib``, ``cpu_slowest_mhz``, and, against the sample before,
    ``swap_in_kib_s``, ``swap_out_kib_s``, ``cpu_busy_pct``. What was not read is left out.
    """
    found: Numbers = {}
    for zone, millidegrees in (row.get("z") or {}).items():
        value = celsius(millidegrees)
        if value is not None:
            found[f"temp_c.{zone.removesuffix('-thermal')}"] = value
    for rail, milliwatts in (row.get("p") or {}).items():
        found[f"power_w.{rail}"] = milliwatts / 1000
    fan, memory = row.get("fan") or {}, row.get("mem") or {}
    for key in ("rpm", "pwm"):
        if fan.get(key) is not None:
            found[f"fan_{key}"] = fan[key]
    if "MemAvailable" in memory:
        found["memory_available_mib"] = memory["MemAvailable"] / KIB_PER_MIB
    if "SwapTotal" in memory and "SwapFree" in memory:
        found["swap_used_mib"] = (memory["SwapTotal"] - memory["SwapFree"]) / KIB_PER_MIB
    if row.get("khz") is not None:
        found["cpu_slowest_mhz"] = row["khz"] / 1000
    if before is not None:
        found.update(_rates(row, before, page_bytes))
    return found


def _rates(row: Mapping[str, Any], before: Mapping[str, Any], page_bytes: int) -> Numbers:
    """What counters say between two samples; a counter that fell (the box started anew) says nothing."""
    seconds = (row["t"] - before["t"]) / 1e9
    if seconds <= 0:
        return {}
    found: Numbers = {}
    now, then = row.get("vm") or {}, before.get("vm") or {}
    for key, name in (("pswpin", "swap_in_kib_s"), ("pswpout", "swap_out_kib_s")):
        if key in now and key in then and now[key] >= then[key]:
            found[name] = (now[key] - then[key]) * page_bytes / 1024 / seconds
    a, b = before.get("cpu") or [], row.get("cpu") or []
    if len(a) == len(b) >= 5:
        # The first eight: guest time is counted in user time already. The fourth and fifth are idle and waiting.
        spent = [y - x for x, y in zip(a[:8], b[:8], strict=True)]
        if min(spent) >= 0 and sum(spent) > 0:
            found["cpu_busy_pct"] = 100 * (sum(spent) - spent[3] - spent[4]) / sum(spent)
    return found


def read_tegrastats(lines: Iterable[str]) -> Iterator[tuple[int, Numbers]]:
    """The recorder's ``tegrastats.log`` -> (monotonic ns, numbers): ``temp_c.<name>``, ``power_w.<rail>``,
    ``ram_used_mib``, ``gpu_load_pct`` where a board prints one. Lines that are not tegrastats' are left out.
    """
    parser = Parser()
    for line in lines:
        stamp, _mark, said = line.partition(" ")
        cut = stamp.endswith("~")
        stamp = stamp.rstrip("~")
        if not stamp.isdigit():
            continue
        kept = parser.kept(said.rstrip("\n") if cut else said)
        if kept is None:
            continue
        temps_c, power_mw, ram_used_mb, load = kept
        found: Numbers = {f"temp_c.{name}": value for name, value in temps_c.items()}
        for rail, milliwatts in power_mw.items():
            found[f"power_w.{rail}"] = milliwatts / 1000
        if ram_used_mb is not None:
            found["ram_used_mib"] = ram_used_mb
        if load is not None:
            found["gpu_load_pct"] = load
        yield int(stamp), found


def slowed_by(row: Mapping[str, Any]) -> dict[str, int | None]:
    """The cooling devices that hold the box back in a sample (fans do not), with their states; None is "not read"."""
    return {name: state for name, state in (row.get("c") or {}).items() if "fan" not in name}


@dataclass
class Life:
    """One recorder from its start to its last line. ``end``: it stopped as asked, it died (or was killed by someone),
    it had to be killed when it was to stop, or how it ended is unknown.
    """

    started: Reading
    last: Reading
    pid: int | None
    end: str
    started_anew: Reading | None = None

    def to_json(self) -> dict[str, Any]:
        """As it lies in the evidence."""
        found = {"pid": self.pid, "end": self.end}
        moments = {"started": self.started, "last_line": self.last, "started_anew": self.started_anew}
        return found | {name: r and {"t": r.monotonic_ns, "u": r.utc_ns} for name, r in moments.items()}


class Lives:
    """The recorders of one folder, one after another, by the events they wrote and by what the spike saw at its end."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.lives: list[Life] = []
        for row in events:
            if not isinstance(row.get("u"), int):
                continue
            at, name = reading_of(row), row.get("event")
            if name == "started":
                if self.lives and self.lives[-1].end in (UNKNOWN, DIED):
                    # Another one is started only where none is at work.
                    self.lives[-1].end, self.lives[-1].started_anew = DIED, at
                pid = row.get("pid")
                self.lives.append(Life(at, at, pid if isinstance(pid, int) else None, UNKNOWN))
            elif self.lives and name == STOP_ASKED:
                if self.lives[-1].end == UNKNOWN:
                    self.lives[-1].end = KILLED if row.get("alive") else DIED
            elif self.lives:
                self.lives[-1].last = at
                if name == "stopped":
                    self.lives[-1].end = STOPPED
        self._starts = [life.started.monotonic_ns for life in self.lives]

    def watch(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The samples as they are; the last one of each recorder is remembered."""
        for row in rows:
            life = self.at(row["t"])
            if life is not None and row["t"] > life.last.monotonic_ns and isinstance(row.get("u"), int):
                life.last = reading_of(row)
            yield row

    def at(self, t_ns: int) -> Life | None:
        """The recorder that was the last to be started at a time."""
        i = bisect_right(self._starts, t_ns) - 1
        return self.lives[i] if i >= 0 else None

    def of_silence(self, from_ns: int | None, to_ns: int | None) -> str:
        """What the recorder was between two samples (None: before the first, after the last): ``lived``, ``died``,
        ``stopped``, ``not started`` or ``unknown``.
        """
        if from_ns is None:
            return NOT_STARTED if self.lives and to_ns is not None else UNKNOWN
        before, after = self.at(from_ns), self.at(to_ns) if to_ns is not None else None
        if before is None:
            return UNKNOWN
        if before is after:
            return LIVED
        return before.end if before.end in (STOPPED, DIED) else UNKNOWN
