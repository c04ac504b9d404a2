# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of lobes.spike.spike_lock: says who asks, and whether a holder on this machine still lives."""

from __future__ import annotations

import getpass
import os
import platform
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.lobes.spike.plugins.module_utils.results.progress import process_identity

MODULE = "lobes.spike.spike_lock"


class ActionModule(ActionBase):
    """See the module of the same name for what it does."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask for the lock; where another run has it, ask once more with what is known of that run here."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        holder = own_identity()
        answer = self._ask(holder, task_vars)
        held = answer.get("held")
        if answer.get("failed") and isinstance(held, dict):
            alive = is_alive(held, holder)
            if alive is not None:
                answer = self._ask({**holder, "other_alive": alive}, task_vars)
        return {**result, **answer}

    def _ask(self, holder: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args={**self._task.args, "holder": holder}, task_vars=task_vars
        )
        return answer


def own_identity() -> dict[str, Any]:
    """This run: its user, its machine, and the process that all its tasks are forked from."""
    try:
        owner = getpass.getuser()
    except (KeyError, OSError):
        owner = "an unnamed user"
    pid = os.getppid()
    return {
        "owner": owner,
        "controller": platform.node(),
        "pid_namespace": pid_namespace(),
        "pid": pid,
        "pid_start": process_identity(pid),
    }


def pid_namespace() -> str | None:
    """Whose process numbers these are: two containers of one host name have each their own. None where unknown."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def is_alive(held: dict[str, Any], holder: dict[str, Any]) -> bool | None:
    """Whether the run that has a lock lives; None when its process number is none of those that are seen here."""
    pid = held.get("pid")
    same = all(held.get(member) == holder[member] for member in ("controller", "pid_namespace"))
    if not same or isinstance(pid, bool) or not isinstance(pid, int):
        return None
    return process_identity(pid) is not None and process_identity(pid) == held.get("pid_start")
