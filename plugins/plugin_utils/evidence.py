# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a spike left behind: one directory per box, or the events of a run that has not ended.

Both readings give the same `Evidence`. What is absent stays absent (None or an empty tuple), a file that cannot be
read is named in ``damaged`` and the rest is read; only a path that is no directory is an error.
Nothing here judges a figure; that is the document's work.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError

from .events import EVENTS_NAME, Event, read_events, up_to_evidence
from .telemetry import Moment, curve

SPIKE_SCHEMA: Final = "lobes.spike/spike/1"
BOOT_SCHEMA: Final = "lobes.spike/boot/1"
RESULT_SCHEMA: Final = "lobes.spike/result/1"
TRANSCRIBED_SCHEMA: Final = "lobes.spike/transcribed-result/1"
"""Figures copied from an older record: summaries in place of samples, and members may be absent."""
MANIFEST_SCHEMA: Final = "lobes.spike/manifest/1"

BASELINE_SCHEMA: Final = "lobes.spike/baseline/1"

BASELINE_NAME: Final = "baseline.json"
"""What was kept of an earlier spike that this one is laid beside."""
MANIFEST_NAME: Final = "manifest.json"
DOCUMENT_NAMES: Final = frozenset(
    {"transcript.txt", "transcript.partial.txt", "comparison.md", "report.html", "results.json", "results.csv"}
)
"""What is rendered from evidence, beside it; never evidence itself."""


class EvidenceError(SpikeError):
    """There is no evidence to read at this path."""


@dataclass(frozen=True)
class Damaged:
    """A file that could not be read as what it should be; ``path`` is relative to the evidence directory."""

    path: str
    reason: str


@dataclass(frozen=True)
class Result:
    """One result document. ``path`` leads back to it; ``data`` is the document itself."""

    path: str
    data: Mapping[str, Any]

    @property
    def phase(self) -> str:
        """One of probe, decode, needle, sweep, agentic, calibrate."""
        return text(self.data, "phase") or ""

    @property
    def name(self) -> str:
        """The result's name within its arm, for example ``needle-128000-cold``."""
        return text(self.data, "name") or ""

    @property
    def arm(self) -> str:
        """The arm it was measured on."""
        return text(self.data, "context", "arm") or PurePosixPath(self.path).name.split(".", 1)[0]

    @property
    def boot_id(self) -> str | None:
        """The boot it was measured on."""
        return text(self.data, "context", "boot_id")

    @property
    def status(self) -> str:
        """complete, partial, failed, or the word that was found."""
        return text(self.data, "status") or "unknown"

    @property
    def reason(self) -> str | None:
        """Why it is not complete."""
        return text(self.data, "reason")

    @property
    def summary(self) -> Mapping[str, Any]:
        """The phase's summary; its members are those of the module's interface."""
        return mapping(self.data, "summary")

    @property
    def plan(self) -> Mapping[str, Any]:
        """The options that defined the measurement."""
        return mapping(self.data, "plan")

    @property
    def window(self) -> Mapping[str, Any]:
        """``start_utc``, ``end_utc`` and the monotonic pair."""
        return mapping(self.data, "window")

    @property
    def notes(self) -> tuple[str, ...]:
        """What the phase had to say beside its figures."""
        return texts(self.data, "notes")

    @property
    def samples(self) -> tuple[Mapping[str, Any], ...]:
        """The requests, when the reading kept them."""
        return rows(self.data, "samples")

    @property
    def transcribed(self) -> bool:
        """True for figures copied from an older record instead of measured by this collection."""
        return self.data.get("schema") == TRANSCRIBED_SCHEMA


@dataclass(frozen=True)
class Boot:
    """One boot document of an arm."""

    path: str
    data: Mapping[str, Any]

    @property
    def arm(self) -> str:
        """The arm that was booted."""
        return text(self.data, "arm") or PurePosixPath(self.path).name.split(".", 1)[0]

    @property
    def boot_id(self) -> str | None:
        """Container id and start time: which process the results belong to."""
        return text(self.data, "boot_id")

    @property
    def ready(self) -> bool:
        """True when the engine answered /health with 200."""
        return text(self.data, "status") == "ready"

    @property
    def ready_s(self) -> float | None:
        """Seconds from the container's start to the first 200 of /health."""
        return number(self.data, "ready_s")

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the boot log and /metrics say about the engine."""
        return mapping(self.data, "facts")

    @property
    def kv_pool(self) -> tuple[Mapping[str, Any], str]:
        """The KV pool ``{tokens, max_model_len, ...}`` and its place: by /metrics, else by the log's sentence."""
        for place in ("cache_config", "kv_pool"):
            pool = mapping(self.facts, place)
            if number(pool, "tokens") is not None:
                return pool, f"/facts/{place}"
        return {}, ""

    @property
    def milestones(self) -> tuple[Mapping[str, Any], ...]:
        """``{name, t_s, log_time, duration_s, text}`` in the order of the log."""
        return rows(self.data, "milestones")

    @property
    def failure(self) -> Mapping[str, Any]:
        """``{kind, cause, stage, detail}``; empty for a boot that got ready."""
        return mapping(self.data, "failure")


@dataclass(frozen=True)
class ArmEvidence:
    """What is known of one arm; ``plan`` is its definition in spike.json (empty when it is not there)."""

    name: str
    plan: Mapping[str, Any]
    boot: Boot | None
    results: tuple[Result, ...]

    @property
    def title(self) -> str:
        """The arm's words for a table's head."""
        return text(self.plan, "title") or self.name

    def of(self, phase: str) -> tuple[Result, ...]:
        """The arm's results of one phase."""
        return tuple(result for result in self.results if result.phase == phase)


@dataclass(frozen=True)
class ManifestCheck:
    """``ok`` is None when there is no manifest to hold the files against."""

    ok: bool | None
    sha256: str | None = None
    listed: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Everything known of one spike on one box."""

    spike: Mapping[str, Any] = field(default_factory=dict)
    box: Mapping[str, Any] = field(default_factory=dict)
    box_after: Mapping[str, Any] = field(default_factory=dict)
    lane: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    curve: tuple[Moment, ...] = ()
    arms: tuple[ArmEvidence, ...] = ()
    events: tuple[Event, ...] = ()
    events_sha256: str | None = None
    unfinished: tuple[str, ...] = ()
    damaged: tuple[Damaged, ...] = ()
    manifest: ManifestCheck = ManifestCheck(None)

    @property
    def simulated(self) -> bool:
        """True when the plan, the box or any result says that this was a double."""
        return (
            flag(self.spike, "simulated") is True
            or flag(self.box, "simulated") is True
            or any(flag(r.data, "context", "simulated") is True for arm in self.arms for r in arm.results)
        )

    @property
    def transcribed(self) -> bool:
        """True when the figures were copied from an older record."""
        return flag(self.spike, "transcribed") is True

    @property
    def planned_phases(self) -> tuple[str, ...]:
        """The phases spike.json asked for."""
        return texts(self.spike, "phases")

    def arm(self, name: str) -> ArmEvidence | None:
        """The arm of this name."""
        return next((arm for arm in self.arms if arm.name == name), None)


# What JSON may hold is anybody's guess; these give a typed value or None, and never raise.


def value(source: Mapping[str, Any], *path: str) -> Any:
    """The member at ``path``, or None when any step is absent."""
    found: Any = source
    for step in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


def number(source: Mapping[str, Any], *path: str) -> float | None:
    """A finite number (an int stays an int), else None; true is not a number."""
    found = value(source, *path)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
        return None
    return found


def whole(source: Mapping[str, Any], *path: str) -> int | None:
    """A whole number, else None."""
    found = number(source, *path)
    return int(found) if found is not None and found == int(found) else None


def text(source: Mapping[str, Any], *path: str) -> str | None:
    """A non-empty string, else None."""
    found = value(source, *path)
    return found if isinstance(found, str) and found else None


def flag(source: Mapping[str, Any], *path: str) -> bool | None:
    """A boolean, else None."""
    found = value(source, *path)
    return found if isinstance(found, bool) else None


def mapping(source: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """A mapping, else an empty one."""
    found = value(source, *path)
    return found if isinstance(found, Mapping) else {}


def rows(source: Mapping[str, Any], *path: str) -> tuple[Mapping[str, Any], ...]:
    """The mappings of a list, else nothing."""
    found = value(source, *path)
    return tuple(row for row in found if isinstance(row, Mapping)) if isinstance(found, Sequence) else ()


def texts(source: Mapping[str, Any], *path: str) -> tuple[str, ...]:
    """The strings of a list, else nothing."""
    found = value(source, *path)
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ()
    return tuple(entry for entry in found if isinstance(entry, str))


def numbers(source: Mapping[str, Any], *path: str) -> tuple[float | None, ...]:
    """The numbers of a list, None where an element is none; else nothing."""
    found = value(source, *path)
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ()
    return tuple(number({"x": entry}, "x") for entry in found)


def load(directory: Path, with_curve: bool = True) -> Evidence:
    """Read the evidence directory of one spike on one box; the curve over time only where it will be drawn.

    Raises:
        EvidenceError: there is no such directory.
    """
    if not directory.is_dir():
        raise EvidenceError(f"evidence_dir: {str(directory)!r} is no directory. Give <evidence>/<spike id>/<host>.")
    reader = _Reader(directory)
    spike = reader.document("spike.json", SPIKE_SCHEMA)
    if not spike and not reader.damaged:
        reader.damaged.append(Damaged("spike.json", "absent; what was planned is not known"))
    models = reader.any("model.json")
    documents = tuple(reader.documents())
    events, events_sha256 = _events(directory, reader)
    return Evidence(
        spike=spike,
        box=reader.document("box.json"),
        box_after=reader.document("box_after.json"),
        lane=reader.document("lane.json"),
        image=reader.document("image.json"),
        models=rows({"models": models}, "models"),
        extra=dict(reader.extra()),
        curve=curve(directory / "telemetry") if with_curve else (),
        arms=_arms(spike, documents),
        events=events,
        events_sha256=events_sha256,
        unfinished=reader.unfinished(),
        damaged=tuple(reader.damaged),
        manifest=check_manifest(directory),
    )


def from_events(events: Sequence[Event]) -> Evidence:
    """Read what a run that has not ended has reported so far; the paths are those of the files on the box.

    A box's second description is the one at the end.
    """
    parts: dict[str, Any] = {}
    documents: dict[str, Boot | Result] = {}
    for event in events:
        for part, content in event.data.items():
            if part == "box" and "box" in parts:
                parts["box_after"] = content
            elif part == "boot" and isinstance(content, Mapping):
                documents[f"boot {text(content, 'arm')}"] = Boot(f"events.jsonl#{event.seq}", content)
            elif part == "result" and isinstance(content, Mapping):
                result = Result(f"events.jsonl#{event.seq}", content)
                documents[f"result {result.arm} {result.name}"] = result
            elif part in ("spike", "box", "lane", "image", "models"):
                parts[part] = content
    spike = mapping(parts, "spike")
    return Evidence(
        spike=spike,
        box=mapping(parts, "box"),
        box_after=mapping(parts, "box_after"),
        lane=mapping(parts, "lane"),
        image=mapping(parts, "image"),
        models=rows(parts, "models"),
        arms=_arms(spike, documents.values()),
        events=tuple(events),
    )


def check_manifest(directory: Path) -> ManifestCheck:
    """Hold every file against the manifest: changed, missing, and unlisted ones are named."""
    try:
        raw = (directory / MANIFEST_NAME).read_bytes()
    except OSError:
        return ManifestCheck(None, problems=(f"{MANIFEST_NAME}: absent; the files cannot be checked",))
    digest = hashlib.sha256(raw).hexdigest()
    try:
        listed = _parse(raw)["files"]
        entries = {str(name): mapping(listed, name) for name in listed}
    except (ValueError, KeyError, TypeError, RecursionError):
        return ManifestCheck(False, digest, 0, (f"{MANIFEST_NAME}: cannot be read as a manifest",))
    problems = [problem for name in sorted(entries) for problem in _check_file(directory, name, entries[name])]
    problems += [
        f"{name}: not in the manifest"
        for name in _files(directory)
        if name not in entries and name not in DOCUMENT_NAMES and name not in (MANIFEST_NAME, EVENTS_NAME)
    ]
    return ManifestCheck(not problems, digest, len(entries), tuple(problems))


def without_samples(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result document with its figures and without its requests, for the event record."""
    return {key: content for key, content in result.items() if key != "samples"}


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _check_file(directory: Path, name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    parts = PurePosixPath(name).parts
    if PurePosixPath(name).is_absolute() or ".." in parts:
        yield f"{name}: the manifest names a path outside the evidence"
        return
    path = directory.joinpath(*parts)
    if not path.is_file():
        yield f"{name}: listed in the manifest, absent here"
    elif sha256_of(path) != text(entry, "sha256"):
        yield f"{name}: its sha256 is not the one in the manifest"


def _files(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def _events(directory: Path, reader: _Reader) -> tuple[tuple[Event, ...], str | None]:
    path = directory / EVENTS_NAME
    if not path.is_file():
        return (), None
    read = read_events(path)
    reader.damaged.extend(Damaged(EVENTS_NAME, problem) for problem in read.problems)
    kept = up_to_evidence(read.events)
    digest = hashlib.sha256(b"".join(event.line for event in kept)).hexdigest()
    return kept, digest


def _arms(spike: Mapping[str, Any], documents: Iterable[Boot | Result]) -> tuple[ArmEvidence, ...]:
    """Group by arm: those of the plan in its order, then any other that left a document."""
    plans = {name: plan for plan in rows(spike, "arms") if (name := text(plan, "name"))}
    boots: dict[str, Boot] = {}
    results: dict[str, list[Result]] = {}
    for document in documents:
        if isinstance(document, Boot):
            boots[document.arm] = document
        else:
            results.setdefault(document.arm, []).append(document)
    names = [*plans, *sorted((set(boots) | set(results)) - set(plans))]
    return tuple(
        ArmEvidence(name, plans.get(name, {}), boots.get(name), _arranged(results.get(name, []), plans.get(name, {})))
        for name in names
    )


PHASES: Final = ("calibrate", "probe", "decode", "needle", "sweep", "agentic")


def _arranged(results: Sequence[Result], plan: Mapping[str, Any]) -> tuple[Result, ...]:
    """By phase; within one as measured, or, where a start is not on record, as planned and then by size and name."""
    timed = {phase: all(text(r.window, "start_utc") for r in results if r.phase == phase) for phase in PHASES}
    planned = [
        f"{phase}-{name}"
        for phase, work in (("probe", "probes"), ("decode", "decode"))
        for row in rows(plan, "workloads", work)
        if (name := text(row, "name"))
    ]

    def order(result: Result) -> tuple[int, str, int, float, str]:
        phase = PHASES.index(result.phase) if result.phase in PHASES else len(PHASES)
        start = (text(result.window, "start_utc") or "") if timed.get(result.phase) else ""
        place = planned.index(result.name) if result.name in planned else len(planned)
        size = number(result.summary, "target_tokens") or number(result.summary, "sessions") or 0
        return phase, start, place, size, result.name

    return tuple(sorted(results, key=order))


def _parse(raw: bytes) -> Any:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(raw.decode("utf-8"), parse_constant=refuse)


class _Reader:
    """Reads the files of one directory and remembers which could not be read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.damaged: list[Damaged] = []

    def any(self, name: str) -> Any:
        """The content of a JSON file; None when it is absent or damaged."""
        try:
            return _parse((self.directory / name).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as exc:
            self.damaged.append(Damaged(name, f"cannot be read: {exc.strerror}"))
        except (ValueError, RecursionError):
            # The library's own words differ between Python versions; the document's bytes must not.
            self.damaged.append(Damaged(name, "is not whole JSON (cut, or changed)"))
        return None

    def document(self, name: str, schema: str | None = None) -> Mapping[str, Any]:
        """The content of a JSON file that holds an object; empty when it does not."""
        content = self.any(name)
        if content is None:
            return {}
        if not isinstance(content, Mapping):
            self.damaged.append(Damaged(name, "holds no JSON object"))
            return {}
        if schema is not None and content.get("schema") != schema:
            self.damaged.append(Damaged(name, f"its schema is {str(content.get('schema'))[:60]!r}, not {schema!r}"))
            return {}
        return content

    def documents(self) -> Iterator[Boot | Result]:
        """Boots and results in the results directories (one level down), in the order of their paths."""
        for path in sorted(self.directory.glob("*/*.json")):
            name = path.relative_to(self.directory).as_posix()
            if name.startswith("telemetry/"):
                continue
            content = self.document(name)
            if not content:
                continue
            if content.get("schema") == BOOT_SCHEMA:
                yield Boot(name, content)
            elif content.get("schema") in (RESULT_SCHEMA, TRANSCRIBED_SCHEMA):
                yield Result(name, content)
            else:
                schema = str(content.get("schema"))[:60]
                self.damaged.append(Damaged(name, f"its schema is {schema!r}; neither a boot nor a result"))

    def extra(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Further JSON objects at the top and under telemetry/, by path; what reads them knows their shape."""
        known = {"spike.json", "box.json", "box_after.json", "lane.json", "image.json", "model.json", MANIFEST_NAME}
        for path in sorted([*self.directory.glob("*.json"), *self.directory.glob("telemetry/*.json")]):
            name = path.relative_to(self.directory).as_posix()
            if name in known or name in DOCUMENT_NAMES:
                continue
            content = self.document(name)
            if content:
                yield name, content

    def unfinished(self) -> tuple[str, ...]:
        """Progress files whose result never came."""
        names = [path.relative_to(self.directory).as_posix() for path in self.directory.glob("*/*.json.progress")]
        return tuple(sorted(name for name in names if not (self.directory / name.removesuffix(".progress")).exists()))
