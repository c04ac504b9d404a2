# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event record of a run: one JSON object a line, appended and fsynced, numbered from 1 without a gap.

A line that was cut by a kill is no event; the next run starts a new line after it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

EVENTS_NAME: Final = "events.jsonl"
EVIDENCE_KIND: Final = "evidence"


@dataclass(frozen=True)
class Event:
    """Something that happened on the controller's side of a spike.

    ``kind`` is run.begin, spike, result, incident, evidence or run.end; ``utc`` is when the controller saw it;
    ``task`` is the task's name; ``data`` holds allow-listed parts only. ``line`` is the event as it was written.
    """

    seq: int
    kind: str
    utc: str
    task: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    line: bytes = field(default=b"", compare=False, repr=False)

    def to_line(self) -> bytes:
        """The event as one line of JSON."""
        record = {"seq": self.seq, "kind": self.kind, "utc": self.utc, "task": self.task, "data": self.data}
        return json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


@dataclass(frozen=True)
class EventsRead:
    """Events in order; ``problems`` names lines that are none and numbers that are missing."""

    events: tuple[Event, ...]
    problems: tuple[str, ...]


def read_events(path: Path) -> EventsRead:
    """Read an event record; a cut or foreign line is named and skipped."""
    events: list[Event] = []
    problems: list[str] = []
    for index, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        event = _event(line)
        if event is None:
            problems.append(f"line {index} is no event (cut when the run was killed?)")
            continue
        wanted = events[-1].seq + 1 if events else 1
        if event.seq != wanted:
            problems.append(f"line {index} has number {event.seq}, {wanted} was expected")
        events.append(event)
    return EventsRead(tuple(events), tuple(problems))


def up_to_evidence(events: Sequence[Event]) -> tuple[Event, ...]:
    """The events a final document is made of: up to the last collected evidence, all of them when there is none.

    What happens after it (the check of the document, the end of the run) must not change the document.
    """
    last = max((index for index, event in enumerate(events) if event.kind == EVIDENCE_KIND), default=None)
    return tuple(events) if last is None else tuple(events[: last + 1])


def append_event(path: Path, event: Event) -> None:
    """Append one event and have it on the disk before returning.

    Raises:
        OSError: the record cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        line = event.to_line()
        if _ends_mid_line(path):
            line = b"\n" + line
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ends_mid_line(path: Path) -> bool:
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return False
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"


def _event(line: bytes) -> Event | None:
    try:
        record = json.loads(line)
        if not line.endswith(b"\n"):
            return None
        return Event(
            seq=int(record["seq"]),
            kind=str(record["kind"]),
            utc=str(record["utc"]),
            task=str(record["task"]),
            data=dict(record["data"]),
            line=line,
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
