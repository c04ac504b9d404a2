#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: measure_only
short_description: Show that a spike left the box as it found it
version_added: 1.0.0
description:
  - Compares C(box.json) with C(box_after.json) in a spike's folder - containers with their configuration, images,
    networks, volumes, listening ports, power mode, fan profile, sysctls, the files containers are configured by - and
    writes C(measure_only.json).
  - Each difference is explained by what the spike recorded of itself (the lane it stopped and whose approval that was,
    the image it pulled, the page cache it dropped), or it is not explained. The task does not fail for that; the caller
    decides.
  - Reads nothing but the spike's own folder.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: Folder of the spike on the box.
    type: path
    required: true
attributes:
  check_mode:
    description: Compares and writes nothing.
    support: full
  diff_mode:
    description: Has nothing to compare beyond what it returns.
    support: none
"""

EXAMPLES = r"""
- name: Compare the box with how it was found
  lobes.spike.measure_only:
    path: ~/lightning-spike/2026-09-13-lightning-thor
  register: proof

- name: Check that nothing changed that the spike does not answer for
  ansible.builtin.assert:
    that: proof.unexplained | length == 0
    fail_msg: "{{ proof.unexplained }}"
"""

RETURN = r"""
differences:
  description: Every difference; C(explained_by) is null when no recorded action explains it.
  returned: success
  type: list
  elements: dict
  sample:
    - what: "container model-gear-vllm-worker: state"
      before: running
      after: exited
      explained_by: stopped at 2026-09-13T20:40:04.512345Z, approved by ada
unexplained:
  description: The differences that nothing explains, one sentence each.
  returned: success
  type: list
  elements: str
  sample: []
not_compared:
  description: What could not be compared because one of the looks does not know it.
  returned: success
  type: list
  elements: str
  sample: []
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box import proof, session
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError


def prove(spike: str) -> dict[str, Any]:
    """The document of the proof. Raises SpikeError when a look at the box is missing."""

    def read(name: str) -> dict[str, Any]:
        return session.read_json(os.path.join(spike, name)) or {}

    looks = {name: read(name) for name in ("box.json", "box_after.json")}
    missing = [name for name, content in looks.items() if not content]
    if missing:
        raise SpikeError(f"path: {spike} has no {' and no '.join(missing)} that can be read; nothing can be compared")
    plan, image = read("spike.json"), read("image.json")
    actions = proof.Actions(
        lane=read("lane.json"),
        images=[str(i) for i in (plan.get("image"), image.get("image")) if i],
        dropped_caches=any(arm.get("drop_caches") for arm in plan.get("arms") or []),
    )
    before, after = looks["box.json"], looks["box_after.json"]
    differences = proof.compare(before, after, actions)
    return {
        "schema": proof.SCHEMA,
        "differences": [difference.to_json() for difference in differences],
        "unexplained": [
            f"{d.what}: {d.before or 'not there'} before, {d.after or 'not there'} after"
            for d in differences
            if d.explained_by is None
        ],
        "not_compared": proof.unknown(before, after),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    spike = module.params["path"]
    try:
        document = prove(spike)
        if not module.check_mode:
            session.write_json(os.path.join(spike, "measure_only.json"), document)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    del document["schema"]
    module.exit_json(changed=False, **document)


if __name__ == "__main__":
    main()
