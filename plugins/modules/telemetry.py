#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: telemetry
short_description: Record a box's heat, power, memory and kernel messages for as long as a spike lasts
version_added: 1.0.0
description:
  - Starts a recorder that belongs to nobody's session - it outlives the task, the connection and the controller - and
    ends it again by its pid, its start time and its token, never by its name.
  - It samples sysfs and /proc at an interval on any box, follows tegrastats where there is one and /dev/kmsg where it
    may be read. A source that dies or falls silent is started again; what was missed is written down.
  - A recorder that is not at work when it is to be started or stopped, and never said that it stopped, died; this is
    warned of and written down.
  - It runs with the rights of the task. Without root, tegrastats leaves fields out and the kernel log is often refused;
    both are recorded, and what was not seen is later called unknown.
  - Writes only into O(path) on the box.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: Folder on the box for the recordings, C(telemetry) in the folder of the spike. Made if needed.
    type: path
    required: true
  state:
    description:
      - V(started) has a recorder running; one that runs already goes on.
      - V(stopped) ends it, then reads the kernel log and the clocks for the last time.
    type: str
    choices: [started, stopped]
    default: started
  interval_s:
    description: Seconds between two samples, 0.05 to 3600.
    type: float
    default: 5
  limit_s:
    description: Seconds after which a forgotten recorder ends by itself.
    type: float
    default: 604800
  controller:
    description: The controller's clock against the box's. Filled in on the controller; a task need not set it.
    type: dict
seealso:
  - module: lobes.spike.telemetry_info
attributes:
  check_mode:
    description: Starts and stops nothing, and tells whether it would.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Record the box while it is measured
  lobes.spike.telemetry:
    path: ~/lightning-spike/2026-09-13-lightning-thor/telemetry

- name: End the recording
  lobes.spike.telemetry:
    path: ~/lightning-spike/2026-09-13-lightning-thor/telemetry
    state: stopped
"""

RETURN = r"""
running:
  description: Whether the recorder runs after the task.
  returned: always
  type: bool
recorder:
  description: What the recorder says about itself, the content of C(recorder.json); null when none ever ran here.
  returned: always
  type: dict
  sample: {pid: 4711, interval_s: 5, tegrastats: true, kernel_log: false, kernel_log_refusal: Permission denied}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box import detach, session
from ansible_collections.lobes.spike.plugins.module_utils.box.command import runner
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError


def check(asked: dict[str, Any]) -> None:
    """Raise PlanError for an interval or a limit that makes no sense."""
    if not 0.05 <= asked["interval_s"] <= 3600:
        raise PlanError("interval_s", asked["interval_s"], "Give seconds from 0.05 to 3600.")
    if not asked["limit_s"] > asked["interval_s"]:
        raise PlanError("limit_s", asked["limit_s"], "Give more seconds than interval_s.")


def act(module: AnsibleModule, asked: dict[str, Any]) -> dict[str, Any]:
    """Bring the recorder into the state asked for."""
    folder, state = asked["path"], asked["state"]
    about = detach.read_about(folder)
    running = detach.alive(about)
    if module.check_mode:
        return {"changed": running != (state == "started"), "running": running, "recorder": about}
    if detach.died(about):
        module.warn(f"The recorder of {folder} is not at work and did not say that it stopped: it died or was killed.")
    if state == "started":
        changed, about = session.begin(folder, asked["interval_s"], asked["limit_s"], asked["controller"])
        return {"changed": changed, "running": True, "recorder": about}
    changed, about = session.end(folder, Source(runner(module.run_command)), asked["controller"])
    return {"changed": changed, "running": False, "recorder": about}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "interval_s": {"type": "float", "default": 5},
            "limit_s": {"type": "float", "default": 604800},
            "controller": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    try:
        check(module.params)
        result = act(module, module.params)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
