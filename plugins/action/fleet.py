# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lay the boxes of a campaign side by side, from their evidence alone. Runs on the controller, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.plugin_utils.fleet import default_dest, find, forms
from ansible_collections.lobes.spike.plugins.plugin_utils.publish import write_stale


class ActionModule(ActionBase):
    """Same evidence, same bytes: a second rendering changes nothing."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``campaign``, its ``boxes`` and the ``files``; skipped when there are too few boxes."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "evidence_dir": {"type": "path", "required": True},
                "campaign": {"type": "str"},
                "dest": {"type": "path"},
                "min_boxes": {"type": "int", "default": 1},
            }
        )
        root = Path(options["evidence_dir"]).absolute()
        try:
            campaign = find(root, options["campaign"])
            result.update(campaign=campaign.name, boxes=[folder.name for folder in campaign.folders])
            if len(campaign.folders) < options["min_boxes"]:
                why = f"{len(campaign.folders)} boxes have evidence of this campaign"
                return {**result, "changed": False, "skipped": True, "skip_reason": why, "files": []}
            dest = Path(options["dest"]).absolute() if options["dest"] else default_dest(root, campaign)
            pages = forms(root, campaign, dest)
            stale = write_stale(dest, pages, dry=self._task.check_mode)
        except (SpikeError, OSError) as exc:
            return {**result, "failed": True, "msg": str(exc)}
        return {**result, "changed": bool(stale), "files": [str(dest / name) for name in pages]}
