#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cleanup
short_description: End what spikes left running on a box
version_added: 1.0.0
description:
  - Ends detached measurements (which keep what they have) and recorders, each by its pid, its start time and its own
    record, never by name, and frees the lock. For a box after the worst; a spike that ends in any usual way needs none.
  - Removes no result and no container. Engines are removed by C(playbooks/cleanup.yml), by their label.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: Folder of all spikes on the box.
    type: path
    required: true
seealso:
  - module: lobes.spike.spike_lock
attributes:
  check_mode:
    description: Tells what it would end.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: End what earlier spikes left running
  lobes.spike.cleanup:
    path: ~/lightning-spike
"""

RETURN = r"""
ended:
  description: What was ended (in check mode, what would be), each with C(kind), C(spike_id), C(path) and C(pid).
  returned: success
  type: list
  elements: dict
  sample: [{kind: recorder, spike_id: 2026-09-13-lightning-thor, path: /home/nvidia/lightning-spike/x, pid: 4711}]
lock:
  description: The lock that was freed; null when there was none.
  returned: success
  type: dict
  sample: null
problems:
  description: What would not end. The task fails when there is one.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box import cleanup, lock


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    root = module.params["path"]
    if module.check_mode:
        running, found = cleanup.left_running(root), lock.read(root)
        module.exit_json(changed=bool(running or found is not None), ended=running, lock=found or None, problems=[])
    done = cleanup.clean(root)
    changed = bool(done["ended"] or done["lock"] is not None)
    if done["problems"]:
        module.fail_json(msg="; ".join(done["problems"]), changed=changed, **done)
    module.exit_json(changed=changed, **{**done, "lock": done["lock"] or None})


if __name__ == "__main__":
    main()
