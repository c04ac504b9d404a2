# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for one boot: from a started container to /health, or to the cause of its failure.

Everything that touches the box comes in through ``Box``, so that a boot of an hour is tested in a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..errors import PlanError, SpikeError
from .anatomy import phases
from .bootlog import BootLog, utc_of
from .causes import Cause, boot_failure, text_cause
from .follow import ContainerState, LogFollower
from .liveness import DEAD, STALLED, Judgement, Limits, Signals, Watch
from .metrics import parse
from .milestones import WHAT
from .pool import read_pool
from .processes import Tree

SCHEMA = "lobes.spike/boot/1"
POLL_S = 2.0
# A server that reported the death of its engine gets this long to exit by itself.
_DYING_S = 30.0
# A docker that does not answer (it restarts, or the box is busy) is asked again for so long before the wait gives up.
_BLIND_S = 60.0
# So many looks come quickly, at a port that nobody listens on yet.
_EAGER_POLLS = 8
# An engine whose log says that it serves answers at once; a port that is still refused then leads somewhere else.
_UNREACHED_S = 60.0
_RUNS = ("running", "paused")


@dataclass(frozen=True)
class BootPlan:
    """What to wait for. Limits in seconds; ``stage_limit_s`` None sets no limit to a single stage.

    ``args`` and the memory figures are recorded as they are; without ``args`` the container's own are.
    """

    arm: str
    time_limit_s: float
    wedge_limit_s: float
    stage_limit_s: float | None = None
    args: list[str] = field(default_factory=list)
    memory_before: Mapping[str, Any] | None = None
    memory_after_drop: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Box:
    """The box as the waiting sees it. ``health`` gives "ok", "refused", "timeout", "failed" or an HTTP status;
    ``metrics`` the text of /metrics or None; ``progress`` takes what the watcher may show."""

    inspect: Callable[[], ContainerState]
    follower: LogFollower
    health: Callable[[], str]
    metrics: Callable[[], str | None]
    tree: Callable[[int], Tree | None]
    monotonic: Callable[[], float]
    utc: Callable[[], datetime]
    sleep: Callable[[float], None]
    progress: Callable[[dict[str, Any]], None]


class BootWait:
    """One wait. ``run`` returns the boot document; ``failure`` is set when the boot failed."""

    def __init__(self, plan: BootPlan, box: Box, first: ContainerState) -> None:
        self._plan, self._box, self._first = plan, box, first
        started = utc_of(first.started_at)
        self._log = BootLog(started.year if started else None)
        self._watch = Watch(Limits.of(plan.wedge_limit_s))
        self._base_s = box.monotonic()
        # A wait may begin late (the session was lost and taken up again): the clock runs from the container's start.
        self._late_s = max(0.0, (box.utc() - started).total_seconds()) if started else 0.0
        self._polls = 0
        self._blind_s: float | None = None
        self._died_s: float | None = None
        self._served_s: float | None = None
        self._judgement: Judgement | None = None
        self._ready: tuple[float | None, str] | None = None
        self._pool: dict[str, object] | None = None
        self.failure: Cause | None = None

    def run(self) -> dict[str, Any]:
        """Wait until the engine is ready or its boot has failed, and say which."""
        while self._turn():
            spent = self._box.monotonic() - self._turn_s
            # A quick start is seen quickly; an engine that answers already is asked once in POLL_S.
            pause = POLL_S if self._polls > _EAGER_POLLS else POLL_S / 4
            self._box.sleep(max(0.0, pause - spent))
        return self._document()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the container's start."""
        return self._late_s + self._box.monotonic() - self._base_s

    def _turn(self) -> bool:
        self._turn_s = self._box.monotonic()
        self._polls += 1
        state = self._look()
        if state is None:
            return self.failure is None
        runs = state.status in _RUNS and state.started_at == self._first.started_at
        self._read_log(last=not runs)
        if not runs:
            self.failure = self._ended(state)
            return False
        health = self._box.health()
        if health == "ok":
            self._became_ready()
            return False
        tree = self._box.tree(state.pid) if state.pid else None
        self._judgement = self._watch.observe(
            Signals(
                now_s=self._box.monotonic(),
                booting=True,
                container=state.status,
                log_lines=self._box.follower.lines if self._box.follower.readable else None,
                stage=self._log.stage,
                health=health,
                tree=tree,
            )
        )
        self._box.progress(self._progress())
        self.failure = self._given_up(self._judgement) or self._unreached(health)
        return self.failure is None

    def _look(self) -> ContainerState | None:
        """The container's state; None when docker does not tell, with ``failure`` set when the container is gone."""
        try:
            state = self._box.inspect()
        except PlanError:
            text = "the container was removed during its boot"
            self.failure = Cause("killed", text, self._log.stage, "Nothing on the box may remove it during a boot.")
            return None
        except SpikeError:
            now_s = self._box.monotonic()
            self._blind_s = now_s if self._blind_s is None else self._blind_s
            if now_s - self._blind_s >= _BLIND_S:
                raise
            return None
        self._blind_s = None
        return state

    def _read_log(self, last: bool) -> None:
        for utc, line in self._box.follower.poll(last):
            self._log.feed_line(line, utc)
        if last:
            self._log.close()

    def _became_ready(self) -> None:
        if self._polls == 1 and self._late_s > 2 * POLL_S:
            # It was ready before anyone looked: only the log can say since when.
            self._read_log(last=False)
            self._ready = (self._ready_by_log(), "log")
        else:
            self._ready = (self.elapsed_s, "health")
            self._box.sleep(0.5)  # the last lines of the start come with the first answer
            self._read_log(last=False)
        text = self._box.metrics()
        self._pool = read_pool(parse(text)) if text is not None else None

    def _ready_by_log(self) -> float | None:
        started = utc_of(self._first.started_at)
        for milestone in reversed(self._log.milestones):
            if milestone["name"] == "startup_complete":
                at = utc_of(str(milestone["utc"] or ""))
                return (at - started).total_seconds() if at and started else None
        return None

    def _ended(self, state: ContainerState) -> Cause:
        if state.started_at != self._first.started_at and state.status in _RUNS:
            text = "the container ended and was started again during its boot (a restart policy?)"
            remedy = "Start the engine's container without a restart policy; the log holds the first start's end."
            cause = self._log.cause()
            if cause is None or cause.kind == "unknown":
                return Cause("unknown", text, self._log.stage, remedy)
            return cause
        if state.error and not self._log.lines:
            return text_cause(state.error, self._log.stage)
        if state.status == "created":
            return Cause("unknown", "the container was never started", "none", "Start it, then wait for it.")
        log = self._log
        return boot_failure(log.cause(), log.core_exit, log.stage, state.exit_code, state.oom_killed, log.told_to_stop)

    def _given_up(self, judgement: Judgement) -> Cause | None:
        plan, stage, now_s = self._plan, self._log.stage, self._box.monotonic()
        if self._log.engine_died:
            self._died_s = now_s if self._died_s is None else self._died_s
            if now_s - self._died_s >= _DYING_S:
                return boot_failure(self._log.cause(), self._log.core_exit, stage, None, False)
        what = _stage_words(stage)
        if judgement.state in (STALLED, DEAD):
            text = f"nothing moved for {judgement.still_s:.0f} s {what}"
            return Cause("wedge", text, stage, "This engine does not get through its start on this box: NO-GO.")
        stage_s = judgement.stage_s or 0.0
        if plan.stage_limit_s is not None and stage_s >= plan.stage_limit_s:
            text = f"more than {plan.stage_limit_s:g} s passed {what}"
            return Cause(
                "timeout", text, stage, "Raise the stage limit if the evidence shows work, else look at the log."
            )
        if self.elapsed_s >= plan.time_limit_s:
            text = f"not ready {plan.time_limit_s:g} s after its start, {what}"
            return Cause("timeout", text, stage, "Raise the boot's time limit if the evidence shows work.")
        return None

    def _unreached(self, health: str) -> Cause | None:
        if self._log.stage != "startup_complete" or health not in ("refused", "failed"):
            self._served_s = None
            return None
        now_s = self._box.monotonic()
        self._served_s = now_s if self._served_s is None else self._served_s
        if now_s - self._served_s < _UNREACHED_S:
            return None
        text = f"the log says that the engine serves, and its port is {health} {_UNREACHED_S:.0f} s later"
        remedy = (
            "The published port does not lead into this container: look at docker port, and for a second interface "
            "with the container's address (ip neigh, bridge link), as a killed container engine may leave one behind."
        )
        return Cause("port", text, self._log.stage, remedy)

    def _progress(self) -> dict[str, Any]:
        judgement = self._judgement.to_json() if self._judgement else None
        return {
            "stage": self._log.stage,
            "elapsed_s": round(self.elapsed_s, 1),
            "time_limit_s": self._plan.time_limit_s,
            "judgement": judgement,
        }

    def _document(self) -> dict[str, Any]:
        read = self._log.to_json()
        ready_s = self._ready[0] if self._ready else None
        facts = dict(read["facts"])
        facts["cache_config"] = self._pool
        return {
            "schema": SCHEMA,
            "arm": self._plan.arm,
            "boot_id": self._first.boot_id,
            "container": self._first.name,
            "container_id": self._first.id,
            "started_utc": self._first.started_at,
            "looked_utc": self._box.utc().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "status": "failed" if self.failure else "ready",
            "ready_s": None if ready_s is None else round(ready_s, 3),
            "ready_s_from": self._ready[1] if self._ready else None,
            "ready_s_resolution": POLL_S if self._ready and self._ready[1] == "health" else None,
            "args": list(self._plan.args) or list(self._first.args),
            "env_names": list(self._first.env_names),
            "memory_before": self._plan.memory_before,
            "memory_after_drop": self._plan.memory_after_drop,
            "milestones": read["milestones"],
            "phases": phases(read["milestones"], ready_s, self._before_log()),
            "facts": facts,
            "log": {
                "lines": self._box.follower.lines,
                "bytes": self._box.follower.bytes,
                "readable": self._box.follower.readable,
                "reason": self._box.follower.reason,
                "shows_ready": self._log.ready,
            },
            "judgement": self._judgement.to_json() if self._judgement else None,
            "failure": self._failure(),
        }

    def _before_log(self) -> float | None:
        """Seconds from the container's start to its first log line, by docker's times of both."""
        first, started = self._log.first_utc, utc_of(self._first.started_at)
        return (first - started).total_seconds() if first and started else None

    def _failure(self) -> dict[str, Any] | None:
        if self.failure is None:
            return None
        evidence = self._judgement.evidence if self._judgement else []
        shown = self.failure.kind in ("wedge", "timeout")
        return {
            "kind": self.failure.kind,
            "cause": self.failure.text,
            "stage": self.failure.stage,
            "detail": " ".join(evidence) if shown else "\n".join(self._log.tail[-20:]),
            "remedy": self.failure.remedy,
            "after_s": round(self.elapsed_s, 1),
        }


def failure_message(failure: Mapping[str, Any], arm: str, log_path: str) -> str:
    """One message: the cause first, then kind, stage, time, evidence, remedy and where the log is."""
    lines = [
        str(failure["cause"]),
        f"Arm {arm} did not become ready: {failure['kind']}, {_stage_words(str(failure['stage']))}, "
        f"{failure['after_s']:g} s after its start.",
    ]
    if failure["kind"] in ("wedge", "timeout") and failure["detail"]:
        lines.append(str(failure["detail"]))
    lines += [f"Remedy: {failure['remedy']}", f"The boot log is kept at {log_path}."]
    return "\n".join(lines)


def _stage_words(stage: str) -> str:
    return "before the first milestone" if stage == "none" else f"after {stage} ({WHAT.get(stage, stage)})"
