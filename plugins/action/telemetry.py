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
EXCHANGES = 3


class ActionModule(ActionBase):
    """See the module of the same name for what it does."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the clocks, then have the box start or stop its recorder."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        if not self._task.check_mode:
            args["controller"] = self._compare_clocks()
        answer: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        return {**result, **answer}

    def _compare_clocks(self) -> dict[str, float] | None:
        """The box's UTC minus the controller's, from the quickest of some exchanges; None when the box will not say."""
        found = []
        for _try in range(EXCHANGES):
            sent = time.time()
            answer = self._low_level_execute_command("date -u +%s.%N", sudoable=False)
            received = time.time()
            try:
                found.append(controller_offset(sent, float(str(answer.get("stdout", "")).strip()), received))
            except ValueError:
                continue
        return min(found, key=lambda exchange: exchange["error_s"]) if found else None
