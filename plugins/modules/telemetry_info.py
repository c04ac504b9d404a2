#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: telemetry_info
short_description: Tell how a box's telemetry recorder is doing
version_added: 1.0.0
description:
  - Tells whether the recorder of a folder runs, how many samples it took, and what went wrong. Changes nothing.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: Folder on the box with the recordings, as given to M(lobes.spike.telemetry).
    type: path
    required: true
attributes:
  check_mode:
    description: Can run in check mode; it never changes anything.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: See whether the box is still being recorded
  lobes.spike.telemetry_info:
    path: ~/lightning-spike/2026-09-13-lightning-thor/telemetry
"""

RETURN = r"""
running:
  description: Whether the recorder runs.
  returned: always
  type: bool
recorder:
  description: What the recorder says about itself, the content of C(recorder.json); null when none ever ran here.
  returned: always
  type: dict
  sample: {pid: 4711, interval_s: 5, tegrastats: true, kernel_log: false, kernel_log_refusal: Permission denied}
samples:
  description: Number of samples so far.
  returned: always
  type: int
last_sample_age_s:
  description: Age of the last sample in seconds; null when nothing runs.
  returned: always
  type: float
events:
  description: The last 50 events, each with C(t) (monotonic ns), C(u) (UTC ns) and C(event).
  returned: always
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box import session


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    module.exit_json(changed=False, **session.info(module.params["path"]))


if __name__ == "__main__":
    main()
