# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of lobes.spike.plan: reads which spikes already have evidence, then plans."""

from __future__ import annotations

import datetime
import pathlib
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.release import __version__ as ansible_version
from ansible.utils.vars import merge_hash
from ansible_collections.lobes.spike.plugins.plugin_utils.plan import PlanRefused, make_plan, models_of


class ActionModule(ActionBase):
    """Make the plan of a spike for one box; nothing is touched, neither on the box nor here."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``spike`` (the plan) and ``models`` (the checkpoints it needs), or fail naming every fault."""
        task_vars = task_vars or {}
        result = super().run(tmp, task_vars)
        _dummy, asked = self.validate_argument_spec(
            argument_spec={
                "name": {"type": "str", "required": True},
                "id": {"type": "str"},
                "endpoint": {"type": "raw"},
                "image": {"type": "raw"},
                "model": {"type": "raw"},
                "model_revision": {"type": "raw"},
                "port": {"type": "int"},
                "recipe": {"type": "dict", "default": {}},
                "instrument_flags": {"type": "dict", "default": {}},
                "known_arms": {"type": "raw", "required": True},
                "arms": {"type": "raw"},
                "phases": {"type": "raw"},
                "remeasure": {"type": "raw"},
                "workloads": {"type": "dict", "default": {}},
                "evidence_dir": {"type": "str", "required": True},
                "baseline_arm": {"type": "str"},
                "reverses": {"type": "str"},
                "undecided": {"type": "list", "elements": "str", "default": []},
            }
        )
        host = str(task_vars.get("inventory_hostname", ""))
        # Where the command was typed, not where the playbook lies: an installed collection is no place for evidence.
        root = pathlib.Path(asked["evidence_dir"]).expanduser().absolute()
        taken = {
            folder.parent.name: (folder / "transcript.txt").exists()
            for folder in root.glob(f"*/{host}")
            if folder.is_dir()
        }
        try:
            spike = make_plan(asked, host, datetime.datetime.now(datetime.timezone.utc), taken)
        except PlanRefused as refused:
            return merge_hash(result, {"failed": True, "msg": str(refused), "problems": refused.problems})
        spike["evidence_dir"] = str(root / spike["spike_id"] / host)
        spike["controller"] = {"ansible_core": ansible_version}
        return merge_hash(result, {"changed": False, "spike": spike, "models": models_of(spike)})
