# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the probe module on the box and add the verdict, for which the controller has the library."""

from __future__ import annotations

from typing import Any

from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.plugin_utils.expectations import compile_expectations, judge
from ansible_collections.lobes.spike.plugins.plugin_utils.measuring import MeasuringAction


class ActionModule(MeasuringAction):
    """The expectations are read before anything is sent; the box's own result file is left as the box wrote it."""

    MODULE = "lobes.spike.probe"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result; ``passed`` and ``failed_expectation`` are filled when there is a reply."""
        try:
            expectations = compile_expectations(self._task.args.get("expect"))
        except SpikeError as exc:
            return {"failed": True, "msg": str(exc)}
        result: dict[str, Any] = super().run(tmp, task_vars)
        reply = result.get("reply")
        if result.get("status") == "complete" and isinstance(reply, dict):
            verdict = judge(reply, expectations)
            result["passed"] = verdict.passed
            result["failed_expectation"] = verdict.failed_expectation
        return result
