# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grammar of a vLLM log: bytes to lines, lines to records.

Two generations are read: a prefix ``(EngineCore pid=182) `` put before everything a process writes (0.20 to 0.30), and
the same prefix as part of the log record only (0.31 on), where progress bars and raw prints stand alone. Colours,
carriage returns, progress bars, C++ lines and lines of any length are expected; nothing is an error. File names and
line numbers in the log differ in nearly every release and are thrown away.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

# Longer lines are cut: the engine's longest (its configuration) has some 4,000 characters.
MAX_LINE_CHARS = 1024 * 1024

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_PREFIX = re.compile(r"\(([A-Za-z][^()]{0,60}) pid=([0-9]{1,10})\) ?")
_HEADER = re.compile(
    r"(?:\(([A-Za-z][^()]{0,60}) pid=([0-9]{1,10})\) )?(?:\[[^\]\s]{1,40}\] )?"
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) ([0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}) \[[^\]\s]{1,200}\] ?"
)
_UVICORN = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,8}")
_DOCKER_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z ")

_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_DAYS_IN = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_HALF_YEAR_S = 183 * 86400.0


class Record(NamedTuple):
    """One line of the log.

    ``process`` is the prefix's name without its number ("EngineCore"), or None on a line without a prefix; ``level``
    and ``log_time`` ("MM-DD HH:MM:SS", no year and no zone) are None on a line that is not a log record.
    """

    process: str | None
    pid: int | None
    level: str | None
    log_time: str | None
    message: str


class Lines:
    """Bytes in pieces of any size -> text lines. Cuts a line at ``MAX_LINE_CHARS``; memory is bounded by that."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._cutting = False

    def feed(self, data: bytes) -> list[str]:
        """The lines that ``data`` completes, without their line ends."""
        lines = self._decoder.decode(data).split("\n")
        lines[0] = self._rest + lines[0]
        self._rest = lines.pop()
        if self._cutting and lines:
            del lines[0]
            self._cutting = False
        elif self._cutting:
            self._rest = ""
        if len(self._rest) > MAX_LINE_CHARS:
            lines.append(self._rest[:MAX_LINE_CHARS])
            self._rest = ""
            self._cutting = True
        return lines

    def close(self) -> list[str]:
        """The last line, if the text did not end with a line end."""
        rest = "" if self._cutting else self._rest + self._decoder.decode(b"", True)
        self._rest = ""
        return [rest] if rest else []


def records(line: str) -> Iterator[Record]:
    """The records in one line: one, or several where a progress bar came before on the same line."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\r" in line:
        for part in line.split("\r"):
            if part:
                yield record(part)
        return
    yield record(line)


def record(line: str) -> Record:
    """Read one line that holds no carriage return and no colour."""
    match = _HEADER.match(line)
    if match is None and "%|" in line:
        # A bar without a line end, and a record that another process wrote after it.
        match = _HEADER.search(line, line.index("%|"))
    if match is not None:
        process, pid, level, log_time = match.groups()
        if valid_time(log_time):
            return Record(process, int(pid) if pid else None, level, log_time, line[match.end() :])
    process, pid, message = None, None, line
    if line.startswith("("):
        prefix = _PREFIX.match(line)
        if prefix is not None:
            process, pid, message = prefix.group(1), prefix.group(2), line[prefix.end() :]
    level = None
    uvicorn = _UVICORN.match(message)
    if uvicorn is not None:
        level, message = uvicorn.group(1), message[uvicorn.end() :]
    return Record(process, int(pid) if pid else None, level, None, message)


def split_docker_time(line: bytes) -> tuple[str | None, bytes]:
    """Take off the timestamp that ``docker logs --timestamps`` puts before a line (UTC, RFC 3339), if there is one.

    Docker stores lines of more than 16 KiB in pieces and repeats the timestamp before each piece; those go as well.
    """
    match = _DOCKER_TIME.match(line[:40].decode("ascii", "replace"))
    if match is None:
        return None, line
    stamp = line[: match.end()]
    piece, text = 16384, line[len(stamp) :]
    if len(text) > piece:
        pieces = [text[:piece]]
        rest = text[piece:]
        while rest.startswith(stamp):
            rest = rest[len(stamp) :]
            pieces.append(rest[:piece])
            rest = rest[piece:]
        text = b"".join(pieces) + rest
    return match.group().strip(), text


@functools.lru_cache(maxsize=64)
def valid_time(log_time: str) -> bool:
    """Is "MM-DD HH:MM:SS" a date and time of some year?"""
    month, day = int(log_time[0:2]), int(log_time[3:5])
    hour, minute, second = int(log_time[6:8]), int(log_time[9:11]), int(log_time[12:14])
    return 1 <= month <= 12 and 1 <= day <= _DAYS_IN[month - 1] and hour < 24 and minute < 60 and second <= 60


class LogClock:
    """Seconds since the first log time, from times that have no year.

    A step of more than half a year is the turn of the year (either way: processes interleave). Smaller steps back are
    kept as they are: processes really print a second out of order. ``year`` (of the container's start) decides the
    leap day; without it a year counts as leap once 02-29 is seen.
    """

    def __init__(self, year: int | None = None) -> None:
        self._year = year
        self._leap = year is not None and _is_leap(year)
        self._first: float | None = None
        self._last = 0.0
        self._shift = 0.0

    def seconds(self, log_time: str) -> float:
        """Seconds from the first time given to this one; may be negative by what the processes are out of order."""
        now = self._in_year(log_time)
        if self._first is None:
            self._first = self._last = now
            return 0.0
        year_s = (366.0 if self._leap else 365.0) * 86400
        shift = self._shift
        if now + shift < self._last - _HALF_YEAR_S:
            shift = self._shift = self._shift + year_s
        elif now + shift > self._last + _HALF_YEAR_S and shift > 0:
            shift -= year_s  # a straggler from before the turn of the year
        self._last = max(self._last, now + shift)
        return now + shift - self._first

    def _in_year(self, log_time: str) -> float:
        month, day = int(log_time[0:2]), int(log_time[3:5])
        if (month, day) == (2, 29) and self._year is None:
            self._leap = True
        days = _DAYS_BEFORE[month - 1] + day - 1 + (1 if self._leap and month > 2 else 0)
        clock = int(log_time[6:8]) * 3600 + int(log_time[9:11]) * 60 + int(log_time[12:14])
        return days * 86400.0 + clock


def clean(text: str, limit: int = 500) -> str:
    """Text from the engine made fit to show: no control characters, no secrets, at most ``limit`` characters."""
    text = redact(_CONTROL.sub(" ", text[: limit * 4]).strip())
    return text if len(text) <= limit else text[: limit - 3] + "..."


_SECRET = re.compile(
    r"((?:api[_-]key|hf[_-]token|password|secret)[a-z_-]{0,20}['\"]?\s{0,4}[:=]\s{0,4})"
    r"(?!None\b)(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,})]+)",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Replace what the engine prints of keys and tokens (it lists its arguments at start)."""
    return _SECRET.sub(r"\1(redacted)", text)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
