# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of every measuring module: have it run detached on the box, and watch it until it has ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.results.document import task_result
from .document.words import clean
from .evidence import texts
from .watching import Lost, Seen, Timing, watch

INFO = "lobes.spike.measurement_info"
JOB_MARGIN_S = 600
"""A job that is told to end at a limit gets this long to write down what it has."""
NO_LIMIT_S = 7 * 24 * 3600
HERE = ("detached", "poll_s", "reconnect_limit_s", "telemetry_path")
"""Options that mean nothing on the box."""

display = Display()


class MeasuringAction(ActionBase):
    """Runs ``MODULE`` as any action would, or, with ``detached``, as a job of the box that outlives the connection."""

    MODULE: ClassVar[str]
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        args = {name: value for name, value in self._task.args.items() if name not in HERE}
        if self._detached() and not self._task.check_mode:
            return {**result, **self._watched(args, variables)}
        answer: dict[str, Any] = self._execute_module(
            self.MODULE, args, task_vars=variables, wrap_async=self._task.async_val
        )
        return {**result, **answer}

    def _detached(self) -> bool:
        wanted = self._task.args.get("detached", False)
        if str(wanted).lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise AnsibleActionFail(f"detached: must be true or false, not {wanted!r}.")
        detached = str(wanted).lower() in ("true", "yes", "1")
        if detached and self._task.async_val:
            raise AnsibleActionFail("detached: the module then runs as a job already; take async off the task.")
        if detached and not self._task.args.get("results_path"):
            raise AnsibleActionFail("results_path: a detached measurement is found again by it; give one.")
        return detached

    def _watched(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Start the job, or take up the one that is at work on the same path, and wait for its end."""
        path = self._remote_expand_user(str(args["results_path"]))
        timing = Timing(self._seconds("poll_s", 5.0), self._seconds("reconnect_limit_s", 900.0))
        job = self._start({**args, "results_path": path}, variables)
        if job.get("failed") or not job.get("results_file"):
            return job
        files = _Files(path, str(job["results_file"]), self._task.args.get("telemetry_path"))
        box = _Box(self, files, variables)
        host = str(variables.get("inventory_hostname", ""))

        run = os.getppid()

        def tell(line: str) -> None:
            display.display(f"{host}: {line}")

        def sleep(seconds: float) -> None:
            time.sleep(seconds)
            if os.getppid() != run:
                # Nobody waits for this watch any more, nor reads what a worker would send before it ends; the next run
                # of the spike takes the measurement up.
                os._exit(1)

        try:
            seen = watch(box, timing, tell, time.monotonic, sleep)
            if (seen.returned or {}).get("at_work"):
                tell("another job measures this already; it is watched instead")
                theirs = _Box(self, files.without_job(), variables)
                seen = watch(theirs, timing, tell, time.monotonic, sleep)
        except Lost as exc:
            raise AnsibleConnectionFailure(
                f"the box was out of reach for {timing.reconnect_limit_s:.0f} s ({exc}); what it measures goes on. "
                "The same command takes it up again."
            ) from exc
        with contextlib.suppress(Lost):
            box.forget_job()
        result = ended(seen, path)
        for line in earlier(result):
            tell(line)
        return result

    def _seconds(self, name: str, default: float) -> float:
        given = self._task.args.get(name, default)
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = 0.0
        if isinstance(given, bool) or not 0 < value < float("inf"):
            raise AnsibleActionFail(f"{name}: must be a number of seconds above 0, not {given!r}.")
        return value

    def _start(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        limit = args.get("time_limit_s")
        task = self._task
        # A job's limit is read from the task, which is otherwise an ordinary one.
        task.async_val = NO_LIMIT_S if limit is None else int(self._seconds("time_limit_s", 1.0)) + JOB_MARGIN_S
        try:
            job: dict[str, Any] = self._execute_module(self.MODULE, args, task_vars=variables, wrap_async=True)
        finally:
            task.async_val = 0
        return job

    # What _Box needs of the connection.

    def read_text(self, command: str) -> str:
        """What a shell command of the box prints. Raises Lost."""
        try:
            done = self._low_level_execute_command(command)
        except AnsibleConnectionFailure as exc:
            self._reconnect()
            raise Lost(_first_line(exc)) from exc
        return str(done.get("stdout", ""))

    def look(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """What measurement_info says. Raises Lost."""
        try:
            found: dict[str, Any] = self._execute_module(INFO, args, task_vars=variables)
        except AnsibleConnectionFailure as exc:
            self._reconnect()
            raise Lost(_first_line(exc)) from exc
        if found.get("failed"):
            raise Lost(str(found.get("msg", "it does not answer")).splitlines()[0][:200])
        return found

    def _reconnect(self) -> None:
        """Have the next command open a connection of its own; a dead shared one would fail it as well."""
        with contextlib.suppress(AnsibleError):
            self._connection.reset()


class _Files:
    """Where a measurement on the box is looked at."""

    def __init__(self, path: str, job: str | None, telemetry: str | None) -> None:
        self.path, self.job, self.telemetry = path, job, telemetry

    def without_job(self) -> _Files:
        """The same, for a measurement that somebody else started."""
        return _Files(self.path, None, self.telemetry)

    def command(self) -> str:
        """A shell command that prints the job, the progress and the newest telemetry, apart by record separators."""
        logs = (
            [os.path.join(self.telemetry, name) for name in ("tegrastats.log", "sysfs.jsonl")] if self.telemetry else []
        )
        parts = [f"cat {shlex.quote(self.job)} 2>/dev/null" if self.job else ":"]
        parts.append(f"cat {shlex.quote(self.path + '.progress')} 2>/dev/null")
        newest = " || ".join(f"tail -n 1 {shlex.quote(log)} 2>/dev/null" for log in logs)
        parts.append(newest or ":")
        return "; printf '\\036'; ".join(parts) + "; true"


class _Box:
    """The box as a watch sees it, through an action's connection."""

    def __init__(self, action: MeasuringAction, files: _Files, variables: dict[str, Any]) -> None:
        self._action, self._files, self._variables = action, files, variables

    def glance(self) -> tuple[str, str, str]:
        found = self._action.read_text(self._files.command()).split("\x1e")
        job, progress, heat = (*found, "", "", "")[:3]
        return job.strip(), progress.strip(), heat.strip()

    def inspect(self) -> Mapping[str, Any]:
        args = {"path": self._files.path}
        if self._files.job:
            args["job_file"] = self._files.job
        return self._action.look(args, self._variables)

    def forget_job(self) -> None:
        """The job's file has been read and is of no more use."""
        if self._files.job:
            self._action.read_text(f"rm -f -- {shlex.quote(self._files.job)}")


def ended(seen: Seen, path: str) -> dict[str, Any]:
    """The task's result: what the job returned, or a failure that says what became of it and brings what it had."""
    if seen.returned is not None:
        return dict(seen.returned)
    found = seen.inspected or {}
    result = found.get("result")
    if found.get("finished") and isinstance(result, Mapping):
        return {"changed": False, **task_result(result, path, None, False)}
    why = found.get("why") or "its process is gone"
    had = "what it had finished is kept" if result else "it had finished nothing"
    return {
        "changed": False,
        "result": result,
        "results_path": path,
        "failed": True,
        "msg": f"The measurement ended without a result ({found.get('state')}): {why}; {had}.",
    }


def earlier(result: Mapping[str, Any]) -> list[str]:
    """What became of a result that lay there before: kept as it is, or set aside and why."""
    name = clean(result.get("name") or "it", 60)
    if result.get("reused") is True:
        return [f"{name}: measured on this boot by the same plan already, not measured again"]
    document = result.get("result")
    notes = texts(document, "notes") if isinstance(document, Mapping) else ()
    return [f"{name}: {clean(note, 300)}" for note in notes if "was set aside as" in note or note.startswith("resumed")]


def _first_line(exc: Exception) -> str:
    return (str(exc).strip().splitlines() or ["no answer"])[0][:200]
