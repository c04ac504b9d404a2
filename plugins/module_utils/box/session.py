# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The witnesses of one spike, as files in ``<spike>/telemetry``: begun, ended, and laid beside the phases' windows.

Beside what the recorder writes there are ``clocks.json`` (the clocks at start and end), ``kernel.json`` (the kernel log
as read at the end) and ``attribution.json``, which is made from these files and the results alone.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import SpikeError
from ..results.store import write_atomic
from ..results.window import utc_text
from . import attribution, clocks, detach, kernel_log
from .attribution import Span
from .clocks import Reading
from .kernel_log import KernelLog
from .recorder import Log, give, now, text_of
from .source import Source
from .telemetry import STOP_ASKED, Lives, read_json_lines, read_tegrastats, reading_of

CLOCKS_SCHEMA = "lobes.spike/clocks/1"
RESULT_SCHEMA, BOOT_SCHEMA = "lobes.spike/result/1", "lobes.spike/boot/1"
# Windows whose UTC and monotonic times differ from the recorder's by more are of another boot of the box.
SAME_BOOT_S = 120.0
# A step is seen between two samples, its event is written beside the second.
SAME_MOMENT_NS = 10**9
# Messages from before the recorder tell what the ring still knew; this much of them is asked of the journal.
LOOK_BACK_S = 3600.0

Row = dict[str, Any]


def write_json(path: str, value: Mapping[str, Any]) -> str:
    """Write a document whole or not at all; returns its sha256. Raises SpikeError."""
    digest = write_atomic(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
    give(path)
    return digest


def read_json(path: str) -> Row | None:
    """A JSON object from a file, or None when there is none."""
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def lines_of(path: str) -> Iterator[str]:
    """The lines of a text file; none when there is no file."""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as handle:
        yield from handle


def samples_of(folder: str) -> Iterator[Row]:
    """The recorder's samples, one by one."""
    yield from read_json_lines(lines_of(os.path.join(folder, "sysfs.jsonl")))


def telling_readings(rows: Iterable[Row]) -> tuple[list[Reading], int]:
    """(one reading of the clocks a minute and at every move between them, the time of the last sample)."""
    kept: list[Reading] = []
    last: Reading | None = None
    for row in rows:
        if not isinstance(row.get("u"), int):
            continue
        reading = reading_of(row)
        moved = last is not None and abs(reading.offset_ns - last.offset_ns) > 10**7
        if not kept or moved or reading.monotonic_ns - kept[-1].monotonic_ns > 60 * 10**9:
            if moved and last is not None and kept[-1] is not last:
                kept.append(last)
            kept.append(reading)
        last = reading
    if last is not None and kept[-1] is not last:
        kept.append(last)
    return kept, last.monotonic_ns if last else 0


def begin(folder: str, interval_s: float, limit_s: float, controller: Mapping[str, Any] | None) -> tuple[bool, Row]:
    """Have a recorder on the folder. Returns (whether one was started, its ``recorder.json``). Raises SpikeError.

    One that runs already is left alone. Files of an earlier boot of the box are set aside, for their clock is another.
    """
    about = detach.read_about(folder)
    if about is not None and detach.alive(about):
        return False, about
    if about is not None and about.get("boot_id") != text_of("/proc/sys/kernel/random/boot_id"):
        _set_aside(folder, str(about.get("boot_id"))[:8])
    about = detach.start(folder, interval_s, limit_s)
    _note_clocks(folder, "start", controller, None)
    return True, about


def _set_aside(folder: str, boot: str) -> None:
    aside = os.path.join(folder, f"boot-{boot}")
    os.makedirs(aside, mode=0o700, exist_ok=True)
    give(aside)
    for name in os.listdir(folder):
        if not name.startswith("boot-"):
            os.replace(os.path.join(folder, name), os.path.join(aside, name))


def end(folder: str, source: Source, controller: Mapping[str, Any] | None) -> tuple[bool, Row | None]:
    """End the folder's recorder and read the kernel log a last time. Returns (whether one ran, its last words)."""
    found = detach.read_about(folder)
    if detach.alive(found) or detach.died(found):
        # A recorder that is gone cannot say so itself.
        _note_event(folder, STOP_ASKED, alive=detach.alive(found))
    ran, about = detach.stop(folder)
    if about is None:
        return ran, about
    same_boot = about.get("boot_id") == text_of("/proc/sys/kernel/random/boot_id")
    if same_boot and (ran or not os.path.exists(os.path.join(folder, "kernel.json"))):
        since = about["started"]["u"] / 1e9 - LOOK_BACK_S
        log = kernel_log.read_kernel_log(source, since)
        now_s = time.monotonic() - (log.offset_s or 0.0)
        write_json(os.path.join(folder, "kernel.json"), kernel_log.to_json(log, now_s))
        _note_clocks(folder, "end", controller, log)
    return ran, about


def _note_event(folder: str, name: str, **facts: Any) -> None:
    """Add a line to the recorder's events; a disk that is full must not keep it from being stopped."""
    t, u = now()
    with contextlib.suppress(OSError):
        log = Log(os.path.join(folder, "events.jsonl"))
        # On a line of its own, whatever half of one a dead recorder left.
        log.write("\n" + json.dumps({"t": t, "u": u, "event": name, **facts}, separators=(",", ":")))
        os.close(log.fd)


def _note_clocks(folder: str, when: str, controller: Mapping[str, Any] | None, log: KernelLog | None) -> None:
    path = os.path.join(folder, "clocks.json")
    found = read_json(path) or {"schema": CLOCKS_SCHEMA, "start": None, "end": None, "drift": None}
    reading, error_ns = clocks.read_clocks()
    moment: Row = {
        "monotonic_ns": reading.monotonic_ns,
        "utc_ns": reading.utc_ns,
        "utc": utc_text(reading.utc_ns / 1e9),
        "error_ns": error_ns,
        "local_zone": time.strftime("%z"),
        "controller": dict(controller) if controller else None,
        "kernel_offset_s": log.offset_s if log else None,
    }
    if when == "end" or found["start"] is None:
        found[when] = moment
    if found["start"] and found["end"]:
        a, b = (Reading(found[k]["monotonic_ns"], found[k]["utc_ns"]) for k in ("start", "end"))
        found["drift"] = clocks.drift(a, b)
    write_json(path, found)


def info(folder: str) -> Row:
    """How the recorder is doing: ``{running, recorder, samples, last_sample_age_s, events}``."""
    about = detach.read_about(folder)
    last, count = None, 0
    for row in samples_of(folder):
        last, count = row, count + 1
    events = list(read_json_lines(lines_of(os.path.join(folder, "events.jsonl"))))
    return {
        "running": detach.alive(about),
        "recorder": about,
        "samples": count,
        "last_sample_age_s": (time.monotonic_ns() - last["t"]) / 1e9 if last and detach.alive(about) else None,
        "events": events[-50:],
    }


def windows(spike: str, readings: Sequence[Reading]) -> list[Span]:
    """The windows of all results and boots below a spike's folder, in the order of time.

    A result carries its window on the monotonic clock. A boot has the container engine's UTC; ``readings`` place it.
    """
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(spike), "*", "*.json"))):
        document = read_json(path)
        where = os.path.relpath(path, spike)
        if document is None or where.startswith("telemetry" + os.sep):
            continue
        if document.get("schema") == RESULT_SCHEMA and document.get("window"):
            window, context = document["window"], document.get("context") or {}
            about = {
                "path": where,
                "phase": document.get("phase"),
                "name": document.get("name"),
                "arm": context.get("arm"),
                "boot_id": context.get("boot_id"),
                "start_utc": window.get("start_utc"),
                "end_utc": window.get("end_utc"),
            }
            found.append(Span(int(window["start_monotonic_ns"]), int(window["end_monotonic_ns"]), about))
        elif document.get("schema") == BOOT_SCHEMA:
            span = _boot_span(where, document, readings)
            found += [span] if span else []
    return sorted(found, key=lambda span: (span.start_ns, span.end_ns))


def _boot_span(where: str, boot: Row, readings: Sequence[Reading]) -> Span | None:
    started = clocks.parse_utc(boot.get("started_utc"))
    start = clocks.monotonic_of(started, readings) if started is not None else None
    if start is None or started is None or boot.get("ready_s") is None:
        return None
    length = int(float(boot["ready_s"]) * 1e9)
    about = {
        "path": where,
        "phase": "boot",
        "name": "boot",
        "arm": boot.get("arm"),
        "boot_id": boot.get("boot_id"),
        "start_utc": boot.get("started_utc"),
        "end_utc": utc_text((started + length) / 1e9),
    }
    return Span(start, start + length, about)


def same_boot(span: Span, readings: Sequence[Reading]) -> bool:
    """Whether a window was measured in the boot of the box that these readings are of, by its offset of the clocks."""
    utc = clocks.parse_utc(span.about.get("start_utc"))
    if utc is None or not readings:
        return bool(readings)
    offsets = [reading.offset_ns for reading in readings]
    slack = SAME_BOOT_S * 1e9
    return min(offsets) - slack <= utc - span.start_ns <= max(offsets) + slack


def kernel_of(folder: str, about: Row, ended_s: float) -> tuple[KernelLog, Row]:
    """Everything known of the kernel log, and the clock it is on: ``{offset_s, measured}``."""
    began_s = about["started"]["t"] / 1e9 if about.get("kernel_log") and about.get("started") else None
    followed = kernel_log.read_followed("".join(lines_of(os.path.join(folder, "kernel.log"))), began_s, ended_s)
    saved = read_json(os.path.join(folder, "kernel.json"))
    read = kernel_log.from_json(saved) if saved else KernelLog(None, "the kernel log was not read at the end")
    log = kernel_log.merge(followed, read)
    # Both clocks start with the box; without a measure they are taken for one.
    return log, {"offset_s": log.offset_s or 0.0, "measured": log.offset_s is not None}


def attribute(spike: str) -> Row:
    """``telemetry/attribution.json`` of a spike, from its own files alone; also written. Raises SpikeError."""
    if not os.path.isdir(spike):
        raise SpikeError(f"path: there is no folder {spike}")
    folder = os.path.join(spike, "telemetry")
    about = detach.read_about(folder) or {}
    events = [row for row in read_json_lines(lines_of(os.path.join(folder, "events.jsonl"))) if row.get("event")]
    lives = Lives(events)
    readings, last_ns = telling_readings(lives.watch(samples_of(folder)))
    spans = windows(spike, readings)
    mine = [span for span in spans if same_boot(span, readings)]
    own = [row for row in events if row["event"] != STOP_ASKED]
    ended_s = max(last_ns, *(row["t"] for row in own[-1:]), 0) / 1e9
    log, kernel_clock = kernel_of(folder, about, ended_s)
    tegrastats = read_tegrastats(lines_of(os.path.join(folder, "tegrastats.log")))
    attributed = attribution.attribute(
        mine, samples_of(folder), tegrastats, log, kernel_clock["offset_s"], about, events
    )
    if about and not about.get("kernel_log") and log.covers_from_s is None:
        kernel_clock["refused"] = about.get("kernel_log_refusal")
    document = {
        "schema": attribution.SCHEMA,
        "recorder": {
            **{k: about.get(k) for k in ("interval_s", "tegrastats", "kernel_log", "uid", "started", "stopped")},
            "lives": [life.to_json() for life in lives.lives],
        },
        "kernel": {**{k: v for k, v in kernel_log.to_json(log).items() if k != "telling"}, "clock": kernel_clock},
        "clocks": {
            **(read_json(os.path.join(folder, "clocks.json")) or {}),
            "steps": _steps(readings, events),
            "engine_logs": _engine_clocks(spike),
        },
        "incidents": [row for row in own if row["event"] not in ("started", "stopped", "source_started")][:500],
        "windows": attributed,
        "other_boot": [dict(span.about) for span in spans if span not in mine],
    }
    if not os.path.isdir(folder):
        os.mkdir(folder, mode=0o700)
        give(folder)
    write_json(os.path.join(folder, "attribution.json"), document)
    return document


def _steps(readings: Sequence[Reading], events: Sequence[Row]) -> list[Row]:
    """Where UTC was set; a suspended box's UTC went on while its monotonic clock stood, which is no step."""
    asleep = [(row["t"], float(row["suspended_s"])) for row in events if row["event"] == "suspended"]
    found = []
    for step in clocks.steps(readings):
        near = [s for t, s in asleep if abs(t - step["monotonic_ns"]) < SAME_MOMENT_NS]
        step_s = step["step_s"] - sum(near)
        if not near or abs(step_s) > clocks.STEP_S:
            found.append({**step, "step_s": step_s})
    return found


def _engine_clocks(spike: str) -> list[Row]:
    """The clock of every boot's log against UTC, by its milestones."""
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(spike), "*", "*.boot.json"))):
        boot = read_json(path) or {}
        started = clocks.parse_utc(boot.get("started_utc"))
        pairs = [
            (started + int(m["t_s"] * 1e9), str(m["log_time"]))
            for m in boot.get("milestones") or []
            if started is not None and m.get("t_s") is not None and m.get("log_time")
        ]
        found.append({"arm": boot.get("arm"), "boot_id": boot.get("boot_id"), **clocks.engine_log_offset(pairs)})
    return found
