# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record a spike as it runs: events, a partial transcript that any end leaves readable, the final documents."""

from __future__ import annotations

DOCUMENTATION = r"""
name: transcript
type: aggregate
short_description: Write the transcript of a spike for each box
version_added: 1.0.0
description:
  - Appends what a spike reports to C(events.jsonl) in the box's evidence folder, keeps C(transcript.partial.txt)
    readable while it runs, and writes the final documents (C(transcript.txt), C(comparison.md) and the rest) when
    M(lobes.spike.evidence) has brought the evidence home.
  - Starts with the result of M(lobes.spike.plan), which names the folder; plays without it are left alone. In check
    mode nothing is written.
  - Records only named parts of the results of this collection's modules; never task arguments, variables or the values
    of anything with C(no_log).
author:
  - lobes.spike contributors (@lobes)
requirements:
  - enabled in C(ansible.cfg) with C(callbacks_enabled = lobes.spike.transcript)
  - jmespath on the controller
options:
  enabled:
    description: Whether anything is recorded.
    type: bool
    default: true
    ini:
      - {section: callback_lobes_spike_transcript, key: enabled}
    env:
      - {name: LOBES_SPIKE_TRANSCRIPT_ENABLED}
"""

import atexit
import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.release import __version__ as ansible_version
from ansible_collections.lobes.spike.plugins.plugin_utils.recorder import Recorder, Told


def utc_now() -> str:
    """Now, as events carry it."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class CallbackModule(CallbackBase):
    """Hooks only hand over: which box, which module, which task, what came of it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "lobes.spike.transcript"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._recorder: Recorder | None = None
        self._writes = True
        self._owner = os.getpid()

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        """Read the options; a recorder that is not enabled is not made."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        if self.get_option("enabled"):
            self._recorder = Recorder(utc_now, {"ansible_core": ansible_version})
            atexit.register(self._interrupted)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Check mode writes nothing."""
        self._writes = not play.check_mode

    def v2_runner_on_ok(self, result: Any) -> None:
        """Record what a task reported."""
        self._record(lambda to: to.ok(*_parts(result)))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Record what a failed task reported, and that it failed."""
        outcome = "failed, ignored" if ignore_errors else "failed"
        self._record(lambda to: to.failed(*_parts(result), outcome))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Record that a box could not be reached."""
        self._record(lambda to: to.failed(*_parts(result), "unreachable"))

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Record that a measurement began."""
        self._record(lambda to: to.started(host.get_name(), task.action, task.get_name()))

    def v2_runner_item_on_ok(self, result: Any) -> None:
        """Record each item of a loop when it is done, not when the loop is."""
        self._record(lambda to: to.ok(*_parts(result)))

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Record an item that failed; the loop goes on and fails as a whole at its end."""
        self._record(lambda to: to.failed(*_parts(result), "failed"))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Close the record of every box."""
        self._record(lambda to: to.ended(stats.summarize))

    def _interrupted(self) -> None:
        """Ctrl-C ends a run without statistics; the record says so. Workers are forks and leave it alone."""
        if os.getpid() == self._owner:
            self._record(lambda to: to.ended(lambda _host: {"interrupted": True}))

    def _record(self, step: Callable[[Recorder], Iterable[Told]]) -> None:
        if self._recorder is None or not self._writes:
            return
        for told in step(self._recorder):
            if told.warning:
                self._display.warning(told.line)
            else:
                self._display.display(told.line)


def _parts(result: Any) -> tuple[str, str, str, Mapping[str, Any]]:
    """Host, module as the task names it, task name, result; nothing else of it is touched."""
    content = result.result
    return (
        result.host.get_name(),
        result.task.action,
        result.task.get_name(),
        content if isinstance(content, Mapping) else {},
    )
