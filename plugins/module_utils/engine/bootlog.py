# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A boot log -> what happened, when, and with which settings. Streaming: memory does not grow with the log.

Feed it bytes (a saved log) or lines with docker's UTC timestamps (a container being followed), at any time ask for
``stage`` or ``to_json()``. A boot ends with the line that says the HTTP server takes requests: text that a model or a
client makes the engine print later is never read as a milestone.
"""

from __future__ import annotations

import re
from collections import deque
from datetime import datetime, timezone
from typing import Any

from .causes import Cause, CauseFinder
from .milestones import AUTOTUNER, BY_FIRST_WORD, Milestone, dull, first_word, notice
from .records import Lines, LogClock, Record, clean, record, records
from .settings import read_settings
from .statslines import StatsLines

MAX_MILESTONES = 400
MAX_OTHER_WARNINGS = 40
TAIL_LINES = 60
CAPACITY_LABEL = "KV-pool capacity ceiling (pool tokens / max_model_len); not measured concurrency, not throughput"

_LOGO = re.compile(r"version (\d+\.\d+\S{0,40})$")
_TAG = re.compile(r"\[[^\]]{1,40}\] ")
_TEXT_FACTS = frozenset(
    (
        "arguments", "engine_version", "config", "model_runner", "moe_backend", "moe_quantization",
        "checkpoint_filesystem", "compile_cache", "compile_range", "ssu_backend", "tasks", "listen",
    )
)  # fmt: skip
_COUNTS = frozenset(("max_model_len", "kv_tokens", "kv_max_model_len"))
_MEMORY = (
    "checkpoint_gib", "available_ram_gib", "model_gib", "graph_estimate_gib", "kv_memory_gib", "graph_actual_gib",
    "graph_estimated_gib", "free_gib", "total_gib", "utilization", "budget_gib", "consumed_gib", "activation_gib",
    "graphs_gib",
)  # fmt: skip


class BootLog:
    """What one boot's log says. ``year`` (of the container's start, UTC) decides leap days; it may be unknown."""

    def __init__(self, year: int | None = None) -> None:
        self._lines = Lines()
        self._clock = LogClock(year)
        self._causes = CauseFinder()
        self._stats = StatsLines()
        self._milestones: list[dict[str, object]] = []
        self._facts: dict[str, object] = {}
        self._lists: dict[str, list[str]] = {"architecture": [], "attention_backend": []}
        self._notices: dict[str, dict[str, object]] = {}
        self._notice_times: dict[str, int] = {}
        self._others: dict[str, int] = {}
        self._primary: dict[str, tuple[str, int | None]] = {}
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._first_utc: datetime | None = None
        self._sync: tuple[datetime, float] | None = None
        self._offset: tuple[float, int] | None = None
        self._last_t = 0.0
        self._now = 0.0
        self._first_time: str | None = None
        self._last_time: str | None = None
        self._last_dull = ""
        self.lines = 0
        self.ready = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log, in pieces of any size."""
        for line in self._lines.feed(data):
            self.feed_line(line)

    def close(self) -> None:
        """The log ended: read a last line without a line end."""
        for line in self._lines.close():
            self.feed_line(line)

    def feed_line(self, line: str, utc: str | None = None) -> None:
        """Take one line, without its line end. ``utc`` is docker's time of it, RFC 3339."""
        self.lines += 1
        if self._first_utc is None and utc is not None:
            self._first_utc = utc_of(utc)
        if line.endswith("\r"):
            line = line[:-1]
        if self.ready:
            # Only what concerns the death of the engine is read on, and cheaply.
            if "rror" in line or "[shutdown]" in line or "fatal" in line:
                for part in records(line):
                    self._causes.feed(part, self.stage)
            elif "throughput: " in line:
                for part in records(line):
                    self._stats.feed(part)
            self._tail.append(line[:2000])
            return
        self._tail.append(line[:2000])
        if "\x1b" in line or "\r" in line:
            for part in records(line):
                self._take(part, utc)
        elif not self._causes.waits and dull(line):
            self._last_dull = line
        else:
            self._take(record(line), utc)

    @property
    def stage(self) -> str:
        """The name of the last milestone, or "none" before the first."""
        return str(self._milestones[-1]["name"]) if self._milestones else "none"

    @property
    def first_utc(self) -> datetime | None:
        """Docker's time of the first line, where lines came with docker's times."""
        return self._first_utc

    @property
    def milestones(self) -> list[dict[str, object]]:
        """The milestones so far; see ``to_json``."""
        return list(self._milestones)

    @property
    def tail(self) -> list[str]:
        """The last lines, cleaned."""
        return [clean(line, 400) for line in self._tail if line.strip()]

    def cause(self) -> Cause | None:
        """The root cause that the log itself gives of a failed boot, if it gives one."""
        return self._causes.found()

    @property
    def core_exit(self) -> int | None:
        """The exit code of the engine core as the server above reported it (negative: a signal), if it did."""
        return self._causes.core_exit

    @property
    def told_to_stop(self) -> bool:
        """Does the log say that the server was asked to end?"""
        return self._causes.told_to_stop

    @property
    def engine_died(self) -> bool:
        """Has the log reported the death of an engine process?"""
        return self._causes.engine_died

    def to_json(self) -> dict[str, Any]:
        """{milestones, facts}: times in seconds since the log's first time, sizes in GiB, counts in tokens.

        milestones: [{name, t_s, log_time, utc, duration_s, since_previous_s, process, text}]; ``duration_s`` is what
        the engine says the step took, ``since_previous_s`` the log clock's difference to the milestone before.
        """
        return {"milestones": list(self._milestones), "facts": self.facts()}

    def stats(self) -> dict[str, Any]:
        """The engine's own account after the boot, from its periodic lines; see ``StatsLines``."""
        return self._stats.to_json()

    def facts(self) -> dict[str, object]:
        """The facts of the boot; what the log does not say is None or missing, never 0."""
        self._time(record(self._last_dull), None)
        known = self._facts
        config = known.get("config")
        return {
            "engine_version": known.get("engine_version"),
            "architectures": list(self._lists["architecture"]),
            "max_model_len": known.get("max_model_len"),
            "settings": read_settings(config) if isinstance(config, str) else {},
            "backends": {
                "model_runner": known.get("model_runner"),
                "moe": known.get("moe_backend"),
                "moe_quantization": known.get("moe_quantization"),
                "attention": list(self._lists["attention_backend"]),
                "mamba_ssu": known.get("ssu_backend"),
            },
            "compile_cache": {"path": known.get("compile_cache"), "hit": self._cache_hit()},
            "kv_pool": self._kv_pool(),
            "memory": {name: known.get(name) for name in _MEMORY}
            | {
                "graphs_profiled_gib": known.get("graphs_profiled_gib"),
                "graphs_captured_gib": known.get("graphs_captured_gib"),
            },
            "compilation_s": known.get("compilation_s"),
            "notices": [found | {"times": self._notice_times[name]} for name, found in self._notices.items()],
            "other_warnings": [{"text": clean(text, 200), "times": times} for text, times in self._others.items()],
            "log": {
                "lines": self.lines,
                "first_time": self._first_time,
                "first_utc": self._first_utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if self._first_utc else None,
                "last_time": self._last_time,
                "seconds": self._last_t if self._first_time else None,
                "complete": self.ready,
            },
            "log_clock": self._log_clock(),
        }

    def _take(self, entry: Record, utc: str | None) -> None:
        t_s = self._time(entry, utc)
        level = entry.level
        if level == "DEBUG":
            return
        self._causes.feed(entry, self.stage)
        message = entry.message
        if message.startswith("["):
            tag = _TAG.match(message)
            if tag is not None:
                message = message[tag.end() :]
        word = first_word(message)
        candidates = BY_FIRST_WORD.get(word)
        if candidates is None and "[Autotuner]" in message:
            candidates = AUTOTUNER
        if (
            candidates is not None
            and len(self._milestones) < MAX_MILESTONES
            and level != "ERROR"
            and level != "CRITICAL"
        ):
            for milestone in candidates:
                match = milestone.pattern.match(message)
                if match is not None:
                    self._reach(milestone, match, entry, t_s, utc)
                    break
        if level is not None:
            self._notice(entry, word, message, t_s)
        if level == "INFO" and self._facts.get("engine_version") is None and "version " in message:
            self._logo(message)

    def _time(self, entry: Record, utc: str | None) -> float | None:
        arrived = utc_of(utc) if utc is not None else None
        if entry.log_time is None:
            if arrived is None or self._sync is None:
                return None
            # Placed on the log's clock by what docker says has passed since the last line that has a time.
            at, seconds = self._sync
            return round(seconds + (arrived - at).total_seconds(), 3)
        if entry.log_time != self._last_time:
            self._first_time = self._first_time or entry.log_time
            self._last_time = entry.log_time
            self._now = self._clock.seconds(entry.log_time)
            self._last_t = max(self._last_t, self._now)
        t_s = self._now
        if arrived is not None:
            self._sync = (arrived, t_s)
            self._see_offset(entry.log_time, arrived)
        return t_s

    def _see_offset(self, log_time: str, arrived: datetime) -> None:
        offset = _nearest_year(log_time, arrived)
        if offset is not None:
            best, samples = self._offset or (offset, 0)
            # The log's clock is cut to the second and docker stamps later: the largest difference is the nearest.
            self._offset = (max(best, offset), samples + 1)

    def _log_clock(self) -> dict[str, object] | None:
        if self._offset is None:
            return None
        return {"minus_utc_s": round(self._offset[0], 3), "resolution_s": 1.0, "samples": self._offset[1]}

    def _reach(
        self, milestone: Milestone, match: re.Match[str], entry: Record, t_s: float | None, utc: str | None
    ) -> None:
        if not self._is_primary(entry):
            return
        name, found = milestone.name, match.groupdict()
        if name == "graphs":
            # The pass before the pool is sized measures memory with graphs that are thrown away.
            sized = any(m["name"] == "kv_pool" for m in self._milestones)
            name = "graphs_captured" if sized else "graphs_profiled"
            self._facts.setdefault(f"{name}_gib", float(found["graph_gib"]))
        before = next((m["t_s"] for m in reversed(self._milestones) if m["t_s"] is not None), None)
        seconds = found.pop("seconds", None)
        self._milestones.append(
            {
                "name": name,
                "t_s": t_s,
                "log_time": entry.log_time,
                "utc": utc,
                "duration_s": float(seconds) if seconds is not None else None,
                "since_previous_s": round(t_s - before, 3) if t_s is not None and isinstance(before, float) else None,
                "process": entry.process,
                "text": clean(entry.message, 300),
            }
        )
        self._learn(found)
        if name == "startup_complete":
            self.ready = True

    def _learn(self, found: dict[str, str | None]) -> None:
        for key, text in found.items():
            if text is None:
                continue
            if key in self._lists:
                if text not in self._lists[key] and len(self._lists[key]) < 20:
                    self._lists[key].append(clean(text, 100))
            elif key in _TEXT_FACTS:
                # The configuration is read as it is; everything shown goes through clean().
                self._facts.setdefault(key, text if key == "config" else clean(text, 300))
            elif key in _COUNTS:
                self._facts.setdefault(key, int(text.replace(",", "")))
            else:
                self._facts.setdefault(key, float(text))

    def _is_primary(self, entry: Record) -> bool:
        """Of several workers or engine cores that print the same steps, the first seen speaks for all."""
        if entry.process is None:
            return True
        family = re.split(r"[_ 0-9]", entry.process, maxsplit=1)[0]
        return self._primary.setdefault(family, (entry.process, entry.pid)) == (entry.process, entry.pid)

    def _notice(self, entry: Record, word: str, message: str, t_s: float | None) -> None:
        found = notice(word, message, anywhere=entry.level == "WARNING")
        if found is not None:
            meaning, says = found
            if meaning not in self._notices:
                self._notices[meaning] = {
                    "meaning": meaning,
                    "level": entry.level,
                    "t_s": t_s,
                    "log_time": entry.log_time,
                    "text": clean(entry.message, 300),
                    "says": says,
                }
                self._notice_times[meaning] = 0
            self._notice_times[meaning] += 1
            return
        if entry.level == "WARNING":
            text = entry.message[:200]
            if text in self._others or len(self._others) < MAX_OTHER_WARNINGS:
                self._others[text] = self._others.get(text, 0) + 1

    def _logo(self, message: str) -> None:
        match = _LOGO.search(message.rstrip())
        if match is not None:
            self._facts.setdefault("engine_version", match.group(1))

    def _kv_pool(self) -> dict[str, object] | None:
        tokens = self._facts.get("kv_tokens")
        if tokens is None:
            return None
        return {
            "label": CAPACITY_LABEL,
            "tokens": tokens,
            "max_model_len": self._facts.get("kv_max_model_len"),
            "capacity_ceiling_requests": self._facts.get("kv_concurrency"),
            "memory_gib": self._facts.get("kv_memory_gib"),
        }

    def _cache_hit(self) -> bool | None:
        names = {m["name"] for m in self._milestones}
        if "compile_cached" in names:
            return "graph_compiled" not in names and "compile_saved" not in names
        return False if names & {"graph_compiled", "compile_saved"} else None


def utc_of(text: str) -> datetime | None:
    """Docker's RFC 3339 time, to the microsecond; None when it is none."""
    try:
        whole = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    fraction = text[20:].rstrip("Z")
    if text[19:20] == "." and fraction.isascii() and fraction.isdigit():
        return whole.replace(microsecond=int((fraction + "000000")[:6]))
    return whole


def _nearest_year(log_time: str, arrived: datetime) -> float | None:
    """Seconds by which the log's time is ahead of ``arrived``, in the year that makes it least."""
    best: float | None = None
    for year in (arrived.year - 1, arrived.year, arrived.year + 1):
        try:
            at = datetime.strptime(f"{year}-{log_time}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
        except ValueError:
            continue
        seconds = (at - arrived).total_seconds()
        if best is None or abs(seconds) < abs(best):
            best = seconds
    return best
