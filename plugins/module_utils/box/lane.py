# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stopping and starting one lane, with proof, and the record of it (``lane.json``)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import SpikeError
from ..results.store import write_atomic
from ..results.window import utc_text
from .containers import changed_parts, summary
from .docker import DockerError, inspect_all
from .look import SIMULATED_MARK
from .memory import read_memory
from .source import Source

SCHEMA = "lobes.spike/lane/1"
# A started lane must still run after this long; an engine that cannot start dies within it.
SETTLE_S = 3.0
_POLL_S = 0.5
# Every engine that a spike boots carries this label.
ENGINE_LABEL = "lobes.spike.arm"

# Running, between two restarts, or paused.
UP = ("running", "restarting", "paused")

Record = dict[str, Any]


@dataclass(frozen=True)
class View:
    """The lane (None: there is no such container) and the other containers, as they are now."""

    lane: dict[str, Any] | None
    others: list[dict[str, Any]]


@dataclass(frozen=True)
class Plan:
    """What there is to do: ``action`` is stop, start or none, ``reason`` says why in a sentence."""

    action: str
    reason: str
    disposition: str

    def to_json(self, view: View) -> dict[str, Any]:
        """The plan with what it is about, for the operator to see before approving."""
        running = [other["name"] for other in view.others if other["running"]]
        return {"action": self.action, "reason": self.reason, "lane": view.lane, "others_running": running}


def look(source: Source, name: str) -> View:
    """Look at the lane and its neighbours. Raises SpikeError when the container engine does not answer."""
    try:
        found = [summary(inspected) for inspected in inspect_all(source)]
    except DockerError as exc:
        raise SpikeError(f"The lane {name} cannot be looked at: {exc}") from exc
    lanes = [container for container in found if container["name"] == name]
    return View(lanes[0] if lanes else None, [container for container in found if container["name"] != name])


def plan_stop(view: View, name: str, earlier: Record | None) -> Plan:
    """What stopping would mean now; ``earlier`` is the record of this spike so far."""
    lane = view.lane
    if lane is None:
        return Plan("none", f"There is no container {name} on this box.", "absent")
    record = earlier or {}
    ours = record.get("disposition") in ("stopped", "stopping") and (record.get("before") or {}).get("id") == lane["id"]
    others = " Someone else started it after this spike had stopped it." if ours and started_since(record, lane) else ""
    if is_up(lane):
        state = "runs" if lane["state"] == "running" else f"is {lane['state']}"
        return Plan("stop", f"The container {name} {state}.{others}", "stopped")
    if ours:
        state = f"does not run ({lane['state']})." if others else "is stopped since this spike stopped it."
        return Plan("none", f"The container {name} {state}{others}", "stopped")
    return Plan("none", f"The container {name} does not run ({lane['state']}).", "was_not_running")


def started_since(record: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    """Whether a container was started after the spike stopped its lane, as ``record`` has it: never by the spike."""
    started, stopped = container.get("started_utc"), record.get("stopped_utc")
    return bool(started and stopped and str(started) > str(stopped))


def plan_start(view: View, name: str, record: Record) -> Plan:
    """What starting again would mean now. Raises SpikeError when the lane is no longer what was stopped."""
    lane, before = view.lane, record.get("before") or {}
    if lane is None:
        raise SpikeError(
            f"There is no container {name} any more; the spike stopped it and did not remove it. "
            f"It ran the image {before.get('image')} with: {' '.join(before.get('args') or [])}"
        )
    if lane["configuration_hash"] != before.get("configuration_hash"):
        parts = changed_parts(before.get("configuration_parts") or {}, lane["configuration_parts"])
        raise SpikeError(
            f"The container {name} is no longer configured as it was when it was stopped "
            f"(changed: {', '.join(parts) or 'unknown'}). Start it by hand if that is meant."
        )
    if is_up(lane):
        return Plan("none", f"The container {name} runs already.", "running")
    engines = [other["name"] for other in view.others if other["running"] and ENGINE_LABEL in other["labels"]]
    if engines:
        raise SpikeError(
            f"The engine of a spike runs ({', '.join(engines)}), and there is not room for both. "
            "Let the spike end, or clean up after it, and start the lane then."
        )
    return Plan("start", f"The container {name} is stopped ({lane['state']}).", "restarted")


def is_up(container: Mapping[str, Any]) -> bool:
    """Whether the container holds memory or may take it again by itself."""
    return container["state"] in UP


def check_approval(approval: Mapping[str, Any] | None, lane: Mapping[str, Any]) -> dict[str, Any]:
    """The approval, if it is for this very container as it is now. Raises SpikeError otherwise."""
    if not approval or not approval.get("source") or not approval.get("approved_by"):
        raise SpikeError("No approval was given for this lane; nothing was touched.")
    for key, of in (("container_id", "id"), ("configuration_hash", "configuration_hash")):
        if approval.get(key) != lane[of]:
            raise SpikeError(
                f"The lane {lane['name']} changed after it was approved ({key} differs); nothing was touched."
            )
    return dict(approval)


def stop_and_record(
    source: Source, view: View, plan: Plan, record: Record, path: str, gate: Mapping[str, Any], grace_s: int
) -> None:
    """Carry out a planned stop; ``record`` is filled and on disk before, after, and when it fails. Raises SpikeError.

    Without a valid approval nothing is touched or written.
    """
    lane = view.lane
    if plan.action == "none" or lane is None:
        record["disposition"] = plan.disposition
        if plan.disposition == "stopped" and record["stopped_utc"] is None and lane is not None:
            record["stopped_utc"] = lane["finished_utc"]
        add_event(record, f"found {plan.disposition.replace('_', ' ')}")
        save(path, record)
        return
    approval = check_approval(gate.get("approval"), lane)
    record.update(
        disposition="stopping",
        approval=approval,
        before=lane,
        stopped_utc=None,
        proof=None,
        error=None,
        warnings=warnings_of(lane),
        restart_command=gate.get("restart_command"),
        memory_available_before_bytes=available_bytes(source),
    )
    add_event(record, "approved", approval)
    save(path, record)  # whatever comes, it is known who approved what
    try:
        record["proof"] = stop(source, view, lane["name"], grace_s)
    except SpikeError as exc:
        still_up = exc.partial["proof"]["state"] in UP if "proof" in exc.partial else True
        record.update(proof=exc.partial.get("proof"), error=str(exc), disposition="running" if still_up else "stopped")
        add_event(record, "stop failed", approval)
        save(path, record)
        raise
    record.update(
        disposition=plan.disposition,
        stopped_utc=utc_text(time.time()),
        memory_available_after_bytes=available_bytes(source),
    )
    add_event(record, "stopped", approval)
    save(path, record)


def start_and_record(
    source: Source, view: View, plan: Plan, record: Record, path: str, gate: Mapping[str, Any]
) -> None:
    """Carry out a planned start, as ``stop_and_record`` does a stop. Raises SpikeError."""
    lane = view.lane
    if plan.action == "none" or lane is None:
        return
    approval = check_approval(gate.get("approval"), lane)
    add_event(record, "start approved", approval)
    save(path, record)
    try:
        record["restart_proof"] = start(source, view, lane["name"])
    except SpikeError as exc:
        record.update(restart_proof=exc.partial.get("proof"), error=str(exc))
        add_event(record, "start failed", approval)
        save(path, record)
        raise
    record.update(disposition=plan.disposition, error=None)
    add_event(record, "started", approval)
    save(path, record)


def stop(
    source: Source,
    view: View,
    name: str,
    grace_s: int,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Record:
    """Stop the lane (it is not removed) and prove it. Returns what was proved; raises SpikeError with it on failure."""
    lane = view.lane
    if lane is None:
        raise SpikeError(f"There is no container {name} on this box.")
    began = clock()
    _rc, out, err = source.run(["docker", "stop", "-t", str(grace_s), lane["id"]])
    after = look(source, name)
    while after.lane is not None and is_up(after.lane) and clock() - began < grace_s + 20:
        sleep(_POLL_S)
        after = look(source, name)
    proof: Record = {
        "stop_s": round(clock() - began, 3),
        "state": after.lane["state"] if after.lane else "gone",
        "exit_code": after.lane["exit_code"] if after.lane else None,
        "finished_utc": after.lane["finished_utc"] if after.lane else None,
        "others": compare_others(view.others, after.others),
    }
    if after.lane is not None and is_up(after.lane):
        said = (err or out).strip()[:300]
        raise SpikeError(
            f"The lane {name} did not stop within {grace_s + 20} s (docker said: {said})", {"proof": proof}
        )
    disturbed = [other["name"] for other in proof["others"] if not other["untouched"]]
    if disturbed:
        raise SpikeError(
            f"The lane {name} is stopped, but other containers that ran before are not as they were: "
            + ", ".join(disturbed),
            {"proof": proof},
        )
    return proof


def start(
    source: Source,
    view: View,
    name: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Record:
    """Start the lane again and prove that it keeps running. Raises SpikeError otherwise."""
    lane = view.lane
    if lane is None:
        raise SpikeError(f"There is no container {name} on this box.")
    began = clock()
    rc, out, err = source.run(["docker", "start", lane["id"]])
    if rc != 0:
        raise SpikeError(f"The lane {name} could not be started: {(err or out).strip()[:500]}")
    while clock() - began < SETTLE_S:
        sleep(_POLL_S)
    after = look(source, name)
    proof: Record = {
        "state": after.lane["state"] if after.lane else "gone",
        "exit_code": after.lane["exit_code"] if after.lane else None,
        "started_utc": after.lane["started_utc"] if after.lane else None,
        "others": compare_others(view.others, after.others),
    }
    if after.lane is None or not after.lane["running"]:
        raise SpikeError(
            f"The lane {name} was started but does not run: {proof['state']}, exit code {proof['exit_code']}.",
            {"proof": proof},
        )
    return proof


def compare_others(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every other container that ran before: is it the same one, running since the same moment?"""
    now = {container["name"]: container for container in after}
    rows = []
    for other in before:
        if not is_up(other):
            continue
        found = now.get(other["name"])
        same = bool(found) and all(found[key] == other[key] for key in ("id", "started_utc"))  # type: ignore[index]
        rows.append(
            {
                "name": other["name"],
                "id": other["id"],
                "started_utc": other["started_utc"],
                "untouched": same and is_up(found),  # type: ignore[arg-type]
            }
        )
    return rows


def read_record(path: str) -> Record | None:
    """A lane record, or None when there is none. Raises SpikeError for a file that is not one."""
    try:
        with open(path, encoding="utf-8") as handle:
            record = json.load(handle)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as exc:
        raise SpikeError(f"The lane record {path} cannot be read: {exc}") from exc
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise SpikeError(f"{path} is not a lane record of this collection.")
    return record


def find_record(path: str, name: str) -> tuple[str, Record]:
    """The record of the last stop of a lane: a file, or the newest ``*/lane.json`` in a folder of spikes.

    Raises SpikeError when there is none.
    """
    candidates = [path]
    if os.path.isdir(path):
        candidates = [os.path.join(path, entry, "lane.json") for entry in sorted(os.listdir(path))]
    found = []
    for candidate in candidates:
        record = read_record(candidate)
        if record and record.get("name") == name and record.get("before"):
            found.append((str(record.get("stopped_utc")), candidate, record))
    if not found:
        raise SpikeError(
            f"There is no record of a stop of the lane {name} at {path}. Start it by hand if that is meant."
        )
    _when, where, record = max(found, key=lambda entry: entry[0])
    return where, record


def new_record(source: Source, name: str, earlier: Record | None) -> Record:
    """A record to fill; what an earlier run of the same spike did to the lane is kept."""
    empty: Record = {
        "schema": SCHEMA,
        "name": name,
        "simulated": source.exists(SIMULATED_MARK),
        "disposition": None,
        "approval": None,
        "before": None,
        "stopped_utc": None,
        "proof": None,
        "restart_proof": None,
        "error": None,
        "memory_available_before_bytes": None,
        "memory_available_after_bytes": None,
        "warnings": [],
        "restart_command": None,
        "events": [],
    }
    return {**empty, **(earlier or {})}


def add_event(record: Record, event: str, approval: Mapping[str, Any] | None = None) -> None:
    """Note what happened to the lane and when (UTC), by whose approval."""
    who = {key: approval[key] for key in ("source", "approved_by") if key in approval} if approval else {}
    record["events"] = [*record["events"], {"utc": utc_text(time.time()), "event": event, **who}]


def warnings_of(lane: Mapping[str, Any]) -> list[str]:
    """What the operator should know about leaving this lane stopped."""
    if lane["restart_policy"] == "always":
        return [
            f"The restart policy of {lane['name']} is 'always': the container engine starts it again when it restarts "
            "(a reboot, an update), whatever the spike left."
        ]
    return []


def available_bytes(source: Source) -> int | None:
    """MemAvailable now."""
    found = read_memory(source)["available_bytes"]
    return found if isinstance(found, int) else None


def save(path: str, record: Record) -> None:
    """Write the record so that it is whole or not there. Raises SpikeError."""
    write_atomic(path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
