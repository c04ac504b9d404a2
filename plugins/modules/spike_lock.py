#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spike_lock
short_description: Have one spike on a box at a time
version_added: 1.0.0
description:
  - Takes the lock of a box for this run of C(ansible-playbook), or gives it back. While another run has it, the task
    fails and nothing is touched.
  - A lock that was left behind is told from one that is held - the box was started anew, the run that took it is gone
    (where it was one of this controller), or nothing of its spike runs on the box any more. It is then taken, and
    RV(why) says so.
  - The lock names the spike, who runs it, from which controller, and the boot of the box.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: Folder of all spikes on the box; the lock is C(spike.lock) in it.
    type: path
    required: true
  spike_id:
    description: The spike that takes it.
    type: str
  state:
    description: V(present) takes the lock, V(absent) gives it back; that of another run is left alone.
    type: str
    choices: [present, absent]
    default: present
  take_over:
    description: Whether it is taken even from a run that may still be at work.
    type: bool
    default: false
  holder:
    description: Who asks. Filled in on the controller; a task need not set it.
    type: dict
attributes:
  check_mode:
    description: Tells what it would do, and fails where the lock is held.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Have the box alone
  lobes.spike.spike_lock:
    path: ~/lightning-spike
    spike_id: 2026-09-13-lightning-thor

- name: Give it back
  lobes.spike.spike_lock:
    path: ~/lightning-spike
    state: absent
"""

RETURN = r"""
was:
  description: V(free), V(ours), V(stale) or V(held), as it was found.
  returned: success
  type: str
  sample: free
why:
  description: Whose it was, or why it was nobody's.
  returned: success
  type: str
  sample: there is no lock
lock:
  description: The lock's content as it is now, or was before it was given back; null when there is none.
  returned: success
  type: dict
  sample: {schema: lobes.spike/lock/1, spike_id: 2026-09-13-lightning-thor, owner: ada, controller: desk, pid: 4711}
held:
  description: The content of a lock that another run has.
  returned: when it is held
  type: dict
  sample: {schema: lobes.spike/lock/1, spike_id: 2026-09-13-lightning-thor, owner: bob, controller: rack, pid: 815}
"""

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box import lock
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results.progress import boot_of_box


def act(asked: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Take the lock or give it back."""
    root, holder = asked["path"], asked["holder"] or {}
    if asked["state"] == "present" and not asked["spike_id"]:
        raise PlanError("spike_id", asked["spike_id"], "Name the spike that takes the lock.")
    if check_mode:
        found = lock.read(root) if os.path.isdir(root) else None
        verdict = lock.judge(found, holder, boot_of_box(), True, holder.get("other_alive"))
        if verdict.state == lock.HELD and asked["state"] == "present" and not asked["take_over"]:
            raise SpikeError(f"Another spike is on this box: {verdict.why}.", {"held": found})
        return {"changed": True, "lock": found, "was": verdict.state, "why": verdict.why}
    if asked["state"] == "absent":
        return lock.release(root, holder)
    return lock.acquire(root, asked["spike_id"], holder, holder.get("other_alive"), asked["take_over"], time.time())


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "spike_id": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "take_over": {"type": "bool", "default": False},
            "holder": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    try:
        result = act(module.params, module.check_mode)
    except (SpikeError, OSError) as exc:
        module.fail_json(msg=str(exc), **getattr(exc, "partial", {}))
    if module.params["state"] == "present" and result["was"] in (lock.STALE, lock.HELD) and not module.check_mode:
        module.warn(f"The lock of another spike is taken over: {result['why']}.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
