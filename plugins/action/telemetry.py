# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of lobes.spike.telemetry: measures its clock against the box's, then lets the module act."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.lobes.spike.plugins.module_utils.box.clocks import controller_offset

MODULE = "lobes.spike.telemetry"


class ActionModule(ActionBase):
    """See the module of the same name for what it does."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the box for its clock, then have it start or stop its recorder."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        if args.get("state", "started") != "info" and not self._task.check_mode:
            sent = time.time()
            asked = self._ask({**args, "state": "info"}, task_vars)
            received = time.time()
            if asked.get("failed"):
                return {**result, **asked}
            args["controller"] = controller_offset(sent, float(asked["utc_s"]), received)
        return {**result, **self._ask(args, task_vars)}

    def _ask(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        return answer
