# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the transcript callback does, without Ansible: task results in, event record and documents out.

Nothing of a result is taken but the parts listed here, by the module that made it; task arguments and variables are
never looked at. Everything is kept per box, so boxes may run side by side in any order.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from . import publish
from .document import PARTIAL_NAME, REPORT_NAME, TRANSCRIPT_NAME
from .document.words import clean
from .events import EVENTS_NAME, EVIDENCE_KIND, Event, append_event, read_events
from .evidence import RESULT_SCHEMA, EvidenceError, mapping, text

PLAN: Final = "lobes.spike.plan"
EVIDENCE: Final = "lobes.spike.evidence"
MEASUREMENTS: Final = frozenset(
    f"lobes.spike.{name}" for name in ("probe", "decode", "needle", "sweep", "agentic", "calibrate")
)

PARTS: Final[Mapping[str, str]] = {
    "lobes.spike.box_info": "box",
    "lobes.spike.lane": "lane",
    "lobes.spike.engine_ready": "boot",
    **dict.fromkeys(sorted(MEASUREMENTS), "result"),
}
"""The one part of a result that is recorded, by the module it comes from."""

FACTS: Final[Mapping[str, str]] = {"engine_image_facts": "image", "engine_image_checkpoints": "models"}
"""Facts that roles set and that are recorded, as ``image.probe`` and ``models``."""

RESULT_MEMBERS: Final = (
    "schema", "phase", "name", "context", "plan", "collection_version", "model_served", "max_model_len", "window",
    "status", "reason", "summary", "notes",
)  # fmt: skip
"""What of a result document goes into an event: its figures, not its requests."""

NO_EVIDENCE_MEMBERS: Final = ("dir",)
"""Where the evidence lies on this controller is nobody else's business."""


@dataclass
class Box:
    """The record of one box in this run."""

    directory: Path
    events: list[Event] = field(default_factory=list)
    seen: set[tuple[str, ...]] = field(default_factory=set)
    final: bool = False
    summary: list[str] = field(default_factory=list)
    guard: BinaryIO | None = None


@dataclass(frozen=True)
class Told:
    """A line for the operator; ``warning`` when something could not be written."""

    line: str
    warning: bool = False


class Recorder:
    """Keeps one `Box` per host. ``now`` gives UTC as text; it is read for events only, never for a document."""

    def __init__(self, now: Callable[[], str], run: Mapping[str, Any]) -> None:
        self._now = now
        self._run = dict(run)
        self._boxes: dict[str, Box] = {}

    def ok(self, host: str, module: str, task: str, result: Mapping[str, Any]) -> list[Told]:
        """A task succeeded. Returns what to tell the operator."""
        if module == PLAN:
            return self._opened(host, task, mapping(result, "spike"))
        box = self._boxes.get(host)
        if box is None:
            return []
        if module == EVIDENCE and mapping(result, "evidence"):
            return self._collected(host, box, task, mapping(result, "evidence"))
        told: list[Told] = []
        for data in _parts(module, result):
            if _is_new(box, data):
                told += self._add(host, box, "result", task, data)
        return told

    def failed(self, host: str, module: str, task: str, result: Mapping[str, Any], outcome: str) -> list[Told]:
        """A task failed or its box was unreachable; ``outcome`` says which. What it brought all the same is kept."""
        told = self.ok(host, module, task, result) if module not in (PLAN, EVIDENCE) else []
        box = self._boxes.get(host)
        if box is None or isinstance(result.get("results"), list):
            return told  # the items of a loop have told it already
        return told + self._add(host, box, "incident", task, {"outcome": outcome, "message": _first_line(result)})

    def started(self, host: str, module: str, task: str) -> list[Told]:
        """A task began: the record tells what was being measured when a run ends early."""
        box = self._boxes.get(host)
        if box is None or module not in MEASUREMENTS:
            return []
        return self._add(host, box, "begin", task, {"begun": module.rpartition(".")[2]})

    def ended(self, outcome: Callable[[str], Mapping[str, Any]]) -> list[Told]:
        """The run is over; ``outcome`` gives what is known of each host. Boxes are closed and forgotten."""
        told: list[Told] = []
        for host, box in sorted(self._boxes.items()):
            told += self._add(host, box, "run.end", "", dict(outcome(host)))
            told += [Told(f"{host}: {line}") for line in box.summary]
            place = box.directory / (TRANSCRIPT_NAME if box.final else PARTIAL_NAME)
            told.append(Told(f"{host}: {'transcript' if box.final else 'PARTIAL transcript'} in {place}"))
            if box.final:
                told.append(Told(f"{host}: report in {box.directory / REPORT_NAME}"))
            if box.guard is not None:
                box.directory.with_name(f".{box.directory.name}.lock").unlink(missing_ok=True)
                box.guard.close()
        self._boxes.clear()
        return told

    def _opened(self, host: str, task: str, spike: Mapping[str, Any]) -> list[Told]:
        place = text(spike, "evidence_dir")
        if place is None:
            return []
        directory = Path(place)
        if host in self._boxes and self._boxes[host].directory == directory:
            return []
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = directory / EVENTS_NAME
            guard = _alone(directory)
            earlier = list(read_events(path).events) if path.is_file() else []
        except BlockingIOError:
            return [Told(f"{host}: no transcript is recorded here: another run writes {place}", True)]
        except OSError as exc:
            return [Told(f"{host}: no transcript is recorded, {place} cannot be used: {exc.strerror}", True)]
        box = self._boxes[host] = Box(directory, earlier, guard=guard)
        told = self._add(host, box, "run.begin", "", self._run)
        kept = {name: part for name, part in spike.items() if name != "evidence_dir"}
        told += self._add(host, box, "spike", task, {"spike": kept})
        return [Told(f"{host}: the transcript of this spike is kept in {directory}"), *told]

    def _collected(self, host: str, box: Box, task: str, evidence: Mapping[str, Any]) -> list[Told]:
        kept = {name: part for name, part in evidence.items() if name not in NO_EVIDENCE_MEMBERS}
        told = self._append(host, box, EVIDENCE_KIND, task, {"evidence": kept})
        try:
            box.summary = publish.publish(box.directory)
        except (OSError, EvidenceError) as exc:
            return [*told, Told(f"{host}: the transcript could not be written: {clean(exc)}", True)]
        box.final = True
        return told

    def _add(self, host: str, box: Box, kind: str, task: str, data: Mapping[str, Any]) -> list[Told]:
        """Append an event and, while the document is not final, write the partial one anew."""
        told = self._append(host, box, kind, task, data)
        if box.final:
            return told
        last = box.events[-1]
        try:
            publish.publish_partial(box.directory, box.events, _words(last), last.utc)
        except OSError as exc:
            told.append(Told(f"{host}: the partial transcript could not be written: {exc.strerror}", True))
        return told

    def _append(self, host: str, box: Box, kind: str, task: str, data: Mapping[str, Any]) -> list[Told]:
        seq = box.events[-1].seq + 1 if box.events else 1
        event = Event(seq, kind, self._now(), clean(task, 200), data)
        box.events.append(event)
        try:
            append_event(box.directory / EVENTS_NAME, event)
        except OSError as exc:
            return [Told(f"{host}: an event could not be written: {exc.strerror}", True)]
        return []


def _alone(directory: Path) -> BinaryIO:
    """A lock beside a box's evidence that this process alone has. Raises BlockingIOError when another run has it.

    A record lock: it is not handed on to workers, which may outlive a run that was killed.
    """
    path = directory.with_name(f".{directory.name}.lock")
    guard = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b")  # noqa: SIM115
    try:
        fcntl.lockf(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        guard.close()
        raise BlockingIOError(exc.errno, exc.strerror) from exc
    return guard


def _words(event: Event) -> str:
    if event.kind == "run.end":
        return "the run ended before its evidence was collected"
    return f"task {event.task!r}" if event.task else "the run began"


def _parts(module: str, result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The recorded parts of a result, of each item where the task was a loop."""
    looped = result.get("results")
    if isinstance(looped, list):
        for item in looped:
            if isinstance(item, Mapping):
                yield from _parts(module, item)
        return
    facts = mapping(result, "ansible_facts")
    for fact, part in FACTS.items():
        if module == "ansible.builtin.set_fact" and facts.get(fact):
            yield {part: {"probe": facts[fact]} if part == "image" else facts[fact]}
    wanted = PARTS.get(module)
    content = mapping(result, wanted) if wanted else {}
    if wanted == "result":
        if content.get("schema") == RESULT_SCHEMA:
            yield {"result": {name: content[name] for name in RESULT_MEMBERS if name in content}}
    elif wanted == "box" and not content.get("identity"):
        return  # a look at one section, not a description of the box
    elif wanted and content:
        yield {wanted: content}


def _is_new(box: Box, data: Mapping[str, Any]) -> bool:
    """A result of a loop is reported with its item and once more with the loop; it is recorded once."""
    result = mapping(data, "result")
    if not result:
        return True
    key = (
        text(result, "context", "arm") or "",
        text(result, "name") or "",
        text(result, "window", "start_utc") or "",
        text(result, "status") or "",
    )
    if key in box.seen:
        return False
    box.seen.add(key)
    return True


def _first_line(result: Mapping[str, Any]) -> str:
    """The first line of a failure's message, never its arguments."""
    message = result.get("msg")
    if not isinstance(message, str) or not message.strip():
        return "no message"
    return clean(message.strip().splitlines()[0], 300)
