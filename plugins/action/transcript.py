# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the documents of a spike again from its evidence alone. Runs on the controller, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.plugin_utils.document import render
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import load
from ansible_collections.lobes.spike.plugins.plugin_utils.publish import write_stale


class ActionModule(ActionBase):
    """Same evidence, same bytes: a second rendering changes nothing."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``files``, the paths of the documents; ``changed`` when one of them was not so before."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            argument_spec={
                "evidence_dir": {"type": "path", "required": True},
                "dest": {"type": "path"},
            }
        )
        evidence = Path(options["evidence_dir"]).absolute()
        dest = Path(options["dest"]).absolute() if options["dest"] else evidence
        try:
            forms = render(load(evidence))
            stale = write_stale(dest, forms, dry=self._task.check_mode)
        except (SpikeError, OSError) as exc:
            return {**result, "failed": True, "msg": str(exc)}
        return {**result, "changed": bool(stale), "files": [str(dest / name) for name in forms]}
