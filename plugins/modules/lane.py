#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lane
short_description: Stop a resident lane behind an approval, or start it again behind another
version_added: 1.0.0
description:
  - Stops one container, and only that one, after the operator approved it for this very box. It is stopped, not
    removed.
  - Gate and stop are one task, so that no tag, start-at-task, registered variable or skipped task comes between them.
  - The approval is looked for in this order. First the extra variable C(worker_lane_approval), which must hold the
    box's inventory name - a string, a comma list or a list of strings; a boolean, C(all) or a pattern never approves,
    nor does a list that holds one, and variables from anywhere else than the command line do not count. Then an
    interactive prompt that wants the name typed. Else nothing is touched and the message holds the command that would
    approve. In a play over several boxes each must find its own name.
  - C(worker_lane_approved_by), also an extra variable, says who approved; by default the controller's login name.
  - Records who, how and when, and what ran; proves that the lane stopped and that every other container that ran before
    still runs, the same and since the same moment.
  - A lane that is absent or does not run needs no approval; that is recorded too.
  - Starting again is refused when the container's configuration is no longer the recorded one.
author:
  - lobes.spike contributors (@lobes)
options:
  name:
    description: Name of the lane's container.
    type: str
    required: true
  state:
    description: Whether the lane is to be stopped, or to be started again after a spike stopped it.
    type: str
    choices: [stopped, started]
    default: stopped
  record:
    description:
      - Path on the box of the record, C(lane.json).
      - For O(state=started) it may be a folder of spikes; the newest C(*/lane.json) of this lane in it is taken.
    type: path
    required: true
  grace_s:
    description: Seconds the container has to end by itself before it is killed.
    type: int
    default: 60
  prompt_limit_s:
    description: Seconds the prompt waits for an answer before nothing is touched.
    type: int
    default: 600
  gate:
    description: Filled in by the gate on the controller. A task that sets it is refused.
    type: dict
    suboptions:
      look:
        description: Whether to look only.
        type: bool
        default: false
      approval:
        description: The approval.
        type: dict
      restart_command:
        description: The command that starts the lane again.
        type: str
attributes:
  check_mode:
    description: Shows what would be stopped or started. Never prompts and needs no approval.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
notes:
  - Refuses C(delegate_to), C(run_once) and C(async); the approval is for the box that the task runs on, at that moment.
"""

EXAMPLES = r"""
# ansible-playbook site.yml -l thor -e worker_lane_approval=thor -e worker_lane_approved_by=ada
- name: Stop the worker lane
  lobes.spike.lane:
    name: model-gear-vllm-worker
    record: ~/lightning-spike/2026-09-13-lightning-thor/lane.json
  register: lane

- name: Start it again
  lobes.spike.lane:
    name: model-gear-vllm-worker
    state: started
    record: ~/lightning-spike
"""

RETURN = r"""
plan:
  description: What there is to do and why, with the lane as it is now.
  returned: always
  type: dict
  contains:
    action:
      description: C(stop), C(start) or C(none).
      type: str
    reason:
      description: Why, in a sentence.
      type: str
    lane:
      description: The container as it is now, without secrets; null when there is none.
      type: dict
    others_running:
      description: Names of the containers that run beside it.
      type: list
      elements: str
  sample: {action: none, reason: There is no container worker on this box., lane: null, others_running: []}
lane:
  description: The record, the content of C(lane.json); times in UTC, sizes in bytes.
  returned: when not in check mode
  type: dict
  sample:
    schema: lobes.spike/lane/1
    name: model-gear-vllm-worker
    disposition: stopped
    approval: {source: extra_var, approved_by: ada, approved_utc: "2026-09-13T20:40:00.000000Z"}
    stopped_utc: "2026-09-13T20:40:04.512345Z"
    proof: {state: exited, exit_code: 0, stop_s: 4.1, others: [{name: embed, untouched: true}]}
record:
  description: Path of the record on the box.
  returned: success
  type: str
  sample: /home/op/lightning-spike/2026-09-13-lightning-thor/lane.json
restart_command:
  description: The command that starts the lane again, behind its own approval.
  returned: O(state=stopped)
  type: str
  sample: ansible-playbook playbooks/restart-worker.yml -l thor -e worker_lane_approval=thor
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box import lane as lanes
from ansible_collections.lobes.spike.plugins.module_utils.box.command import runner
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError

GATE = {
    "look": {"type": "bool", "default": False},
    "approval": {"type": "dict"},
    "restart_command": {"type": "str"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["stopped", "started"], "default": "stopped"},
            "record": {"type": "path", "required": True},
            "grace_s": {"type": "int", "default": 60},
            "prompt_limit_s": {"type": "int", "default": 600},
            "gate": {"type": "dict", "options": GATE},
        },
        supports_check_mode=True,
    )
    asked = module.params
    result: dict[str, Any] = {"changed": False}
    earlier: lanes.Record | None
    try:
        if asked["grace_s"] < 0:
            raise PlanError("grace_s", asked["grace_s"], "Give seconds, 0 or more.")
        source = Source(runner(module.run_command, asked["grace_s"] + 30))
        view = lanes.look(source, asked["name"])
        if asked["state"] == "started":
            asked["record"], earlier = lanes.find_record(asked["record"], asked["name"])
            plan = lanes.plan_start(view, asked["name"], earlier)
        else:
            earlier = lanes.read_record(asked["record"])
            plan = lanes.plan_stop(view, asked["name"], earlier)
        result.update(plan=plan.to_json(view), record=asked["record"], changed=plan.action != "none")
        gate = asked["gate"] or {}
        if not module.check_mode and not gate.get("look"):
            record = result["lane"] = lanes.new_record(source, asked["name"], earlier)
            if asked["state"] == "stopped":
                os.makedirs(os.path.dirname(asked["record"]), mode=0o700, exist_ok=True)
                lanes.stop_and_record(source, view, plan, record, asked["record"], gate, asked["grace_s"])
            else:
                lanes.start_and_record(source, view, plan, record, asked["record"], gate)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **{**result, **exc.partial})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
