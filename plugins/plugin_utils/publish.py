# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents on disk beside their evidence: written whole or not at all, and checked against a fresh rendering."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .document import PARTIAL_NAME, TRANSCRIPT_NAME, baseline, build, render, render_partial, summary
from .document.transcript import END_MARK, Stopped, stop_line
from .document.words import clean
from .events import Event
from .evidence import Evidence, from_events, load, rows, text

LONGEST_DIFFERENCE: Final = 6


def publish(directory: Path) -> list[str]:
    """Render the evidence in ``directory`` and put every form beside it; the partial one goes.

    Returns a summary for the operator, a few lines. Raises EvidenceError and OSError.
    """
    evidence = load(directory)
    for name, content in render(evidence).items():
        write_whole(directory / name, content)
    (directory / PARTIAL_NAME).unlink(missing_ok=True)
    return summary(evidence)


def publish_partial(directory: Path, events: list[Event], last: str, utc: str) -> Path:
    """Write what the events hold so far as ``transcript.partial.txt``, which says that it is partial and why.

    Raises OSError.
    """
    path = directory / PARTIAL_NAME
    write_whole(path, render_partial(from_events(events), Stopped(last, utc)))
    return path


def write_whole(path: Path, content: str) -> None:
    """Write a file so that a reader sees all of it or what was there before. Raises OSError."""
    passing = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        with os.fdopen(os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(content.encode("utf-8", "backslashreplace"))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(passing, path)
    except OSError:
        passing.unlink(missing_ok=True)
        raise


def write_stale(dest: Path, forms: Mapping[str, str], dry: bool = False) -> list[str]:
    """Write those documents that do not lie in ``dest`` as they should; ``dry`` only names them. Raises OSError."""
    stale = [name for name, content in forms.items() if not _lies(dest / name, content)]
    if not dry:
        dest.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in stale:
            write_whole(dest / name, forms[name])
    return stale


def _lies(path: Path, content: str) -> bool:
    try:
        return path.read_bytes() == content.encode("utf-8", "backslashreplace")
    except OSError:
        return False


def problems(directory: Path) -> tuple[str, ...]:
    """Everything that is wrong with the document in ``directory``, one sentence each; empty when it is right.

    Right is: the files agree with the manifest, the transcript is there and whole, it covers every arm and every phase
    that was planned, and it is byte for byte what the evidence gives now. Raises EvidenceError and OSError.
    """
    evidence = load(directory)
    found = [f"evidence: {problem}" for problem in evidence.manifest.problems if evidence.manifest.ok is False]
    path = directory / TRANSCRIPT_NAME
    if not path.is_file():
        partial = " Only a partial one is there." if (directory / PARTIAL_NAME).is_file() else ""
        return (
            *found,
            f"{TRANSCRIPT_NAME} is not there: the callback lobes.spike.transcript did not write it.{partial}",
        )
    lying = path.read_text(encoding="utf-8", errors="replace")
    found += _incomplete(lying, evidence)
    for name, fresh in render(evidence).items():
        found += _differences(directory / name, name, fresh)
    return tuple(found)


def regressions(directory: Path) -> dict[str, Any]:
    """``baseline``, how the spike stands to its baseline in one sentence (None without one), and ``regressions``.

    Raises EvidenceError and OSError.
    """
    found = build(load(directory, with_curve=False)).baseline
    if found is None:
        return {"baseline": None, "regressions": []}
    told = f"against {found.spike_id} on {found.host}: {baseline.sentences(found)[0]}"
    return {"baseline": told, "regressions": list(baseline.regressions(found))}


def _incomplete(lying: str, evidence: Evidence) -> Iterator[str]:
    """What the end mark says, held against the plan and the events."""
    last = lying.rstrip("\n").rpartition("\n")[2]
    if not last.startswith(END_MARK):
        yield f"{TRANSCRIPT_NAME} has no end mark: it is cut, or it is not a transcript of this collection"
        return
    mark = _json(last.removeprefix(END_MARK))
    wanted = _json(stop_line(build(evidence)).removeprefix(END_MARK))
    planned = [name for arm in rows(evidence.spike, "arms") if (name := text(arm, "name"))]
    for arm in planned:
        if arm not in (mark.get("arms") or ()):
            yield f"{TRANSCRIPT_NAME} does not cover the planned arm {clean(arm, 60)}"
    for phase in evidence.planned_phases:
        if phase not in (mark.get("phases") or ()):
            yield f"{TRANSCRIPT_NAME} does not cover the planned phase {clean(phase, 60)}"
    for what in ("results", "events"):
        if mark.get(what) != wanted.get(what):
            yield f"{TRANSCRIPT_NAME} was made of {mark.get(what)} {what}, the evidence has {wanted.get(what)}"


def _json(raw: str) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _differences(path: Path, name: str, fresh: str) -> Iterator[str]:
    """The first lines in which the file that lies there is not what the evidence gives."""
    try:
        lying = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        yield f"{name} is not there"
        return
    if lying == fresh:
        return
    ours, theirs = fresh.splitlines(), lying.splitlines()
    shown = 0
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if shown == LONGEST_DIFFERENCE:
            yield f"{name}: further lines differ"
            return
        shown += 1
        has = clean(" / ".join(theirs[j1:j2]), 160) if j2 > j1 else "nothing"
        gives = clean(" / ".join(ours[i1:i2]), 160) if i2 > i1 else "nothing"
        yield f"{name}, line {j1 + 1}: it says {has!r}, the evidence gives {gives!r}"
    if not shown:
        yield f"{name}: line ends or the last line differ"
