# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a spike needs of an earlier one to be laid beside it. Runs on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.plugin_utils.baseline import read


class ActionModule(ActionBase):
    """Reads the evidence of the earlier spike and changes nothing."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``baseline``, what is kept of the earlier spike; fail when it cannot be one."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={"evidence_dir": {"type": "path", "required": True}}
        )
        try:
            kept = read(Path(options["evidence_dir"]).absolute(), str((task_vars or {}).get("inventory_hostname", "")))
        except (SpikeError, OSError) as exc:
            return {**result, "failed": True, "msg": str(exc)}
        return {**result, "changed": False, "baseline": kept}
