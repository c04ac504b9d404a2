# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the transcript of a spike there, whole, and what its evidence gives? Runs on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.plugin_utils.document import TRANSCRIPT_NAME
from ansible_collections.lobes.spike.plugins.plugin_utils.publish import problems, regressions


class ActionModule(ActionBase):
    """A broken callback cannot fail a play; this can."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``transcript`` (its path), ``regressions`` and ``problems``; fail when there is a problem."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={"evidence_dir": {"type": "path", "required": True}}
        )
        directory = Path(options["evidence_dir"]).absolute()
        try:
            found = problems(directory)
            worse = regressions(directory)
        except (SpikeError, OSError) as exc:
            return {**result, "failed": True, "msg": str(exc)}
        result.update(changed=False, transcript=str(directory / TRANSCRIPT_NAME), problems=list(found), **worse)
        if found:
            more = f" (and {len(found) - 1} more, see problems)" if len(found) > 1 else ""
            result.update(failed=True, msg=f"The transcript in {directory} is not right: {found[0]}{more}")
        return result
