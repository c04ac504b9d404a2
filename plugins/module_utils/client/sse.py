# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Server-sent events read in pieces: body bytes in, whole events out. No JSON, no clock.

Follows the event stream format of the HTML standard (9.2.6), for streams cut anywhere: inside a character, inside a
CRLF, inside a field name. Only ``data`` and ``event`` matter here; ``id`` and ``retry`` are read and dropped.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 64 * 1024 * 1024

LINE_COST = 64  # what a line costs in memory besides its bytes: millions of empty ones are bounded too

Event = tuple[bytes, str]
"""``data`` lines joined by LF, and the name given by an ``event`` field ("" without one)."""

_BOM = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """One event is larger than the stated limit; memory stays bounded."""


class SseParser:
    """``comments`` counts comment lines (servers send them to keep a silent connection alive)."""

    __slots__ = ("_data", "_first", "_name", "_size", "_skip_lf", "_tail", "comments", "ignored", "limit")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self.limit = limit
        self.comments = 0
        self.ignored = 0  # lines that are no field of the format
        self._tail = bytearray()  # the unfinished line
        self._data: list[bytes] = []  # data lines of the unfinished event
        self._size = 0
        self._name = ""
        self._skip_lf = False
        self._first = True

    @property
    def between_events(self) -> bool:
        """The next byte is the first of an event."""
        return not (self._tail or self._data or self._name or self._skip_lf or self._first)

    def feed(self, data: bytes) -> list[Event]:
        """The events completed by ``data``, in order. Raises ``EventTooLarge``."""
        # The everyday read: one whole event of one data line. Everything else takes the general way.
        if (
            data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"\n\n")
            and b"\r" not in data
            and not (self._tail or self._data or self._name or self._skip_lf)
            and len(data) <= self.limit
        ):
            self._first = False
            return [(data[6:-2], "")]
        return self._lines(data)

    def flush(self) -> list[Event]:
        """The event that the end of the body left without its blank line, if any (the standard drops it)."""
        if self._tail:
            self._line(bytes(self._tail), [])
            self._tail.clear()
        events: list[Event] = []
        self._dispatch(events)
        return events

    def _lines(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if not data:
            return events
        if self._skip_lf:
            self._skip_lf = False
            if data.startswith(b"\n"):
                data = data[1:]
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        last = lines.pop()
        for line in lines:
            if self._tail:
                self._tail += line
                line = bytes(self._tail)
                self._tail.clear()
            self._line(line, events)
        self._tail += last
        if len(self._tail) + self._size > self.limit:
            raise EventTooLarge(f"an event is larger than {self.limit} bytes")
        return events

    def _line(self, line: bytes, events: list[Event]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        if line.startswith(b"data: "):  # one copy, not three: events may be large
            self._add(line[6:])
            return
        name, _ignored, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._add(value)
        elif not name:
            self.comments += 1
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name not in (b"id", b"retry"):
            self.ignored += 1

    def _add(self, value: bytes) -> None:
        self._size += len(value) + LINE_COST
        if self._size > self.limit:
            raise EventTooLarge(f"an event is larger than {self.limit} bytes")
        self._data.append(value)

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append((b"\n".join(self._data), self._name))
            self._data = []
            self._size = 0
        self._name = ""
