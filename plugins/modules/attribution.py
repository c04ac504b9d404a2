#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: attribution
short_description: Say what the box did inside the window of every phase
version_added: 1.0.0
description:
  - Lays the windows of a spike's results and boots over its telemetry and kernel log, and writes
    C(telemetry/attribution.json). Reads nothing but the spike's own folder, so that it can be repeated.
  - A window is C(clean) only when all that could have slowed the box was seen and did not; C(under) when it did; else
    C(unknown) with the reason. What happened outside a window never taints it.
  - Two samples that lie further apart than the interval and half a second (on long intervals a tenth of it) have a gap
    between them. It is said how long it was and whether the recorder lived, had died or did not run; what part of the
    window was recorded; and whether the box was suspended in it. A window without a recorder, or in which a living one
    was silent for more than three intervals and ten seconds, is not clean.
  - Where tegrastats alone is silent, temperatures and power are those of sysfs, and the source of each series is said.
  - All joins between clocks use the offsets that were measured.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: Folder of the spike on the box.
    type: path
    required: true
attributes:
  check_mode:
    description: Tells whether there is anything to attribute and writes nothing.
    support: partial
    details: The windows are not returned.
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Lay heat and power beside every figure
  lobes.spike.attribution:
    path: ~/lightning-spike/2026-09-13-lightning-thor
  register: attribution
"""

RETURN = r"""
windows:
  description: One row a window, in the order of time; C(alerts) is null when unknown.
  returned: when not in check mode
  type: list
  elements: dict
  sample:
    - arm: D
      phase: needle
      name: needle-1040000-cold
      duration_s: 1459.2
      state: under
      alerts: 238
      text: under 238 alerts
attribution_path:
  description: Path of the document with everything - series, five-minute buckets, alerts, gaps, clocks.
  returned: always
  type: str
  sample: /home/op/lightning-spike/2026-09-13-lightning-thor/telemetry/attribution.json
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box import session
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError


def row(window: dict[str, Any]) -> dict[str, Any]:
    """A window in short."""
    verdict = window["verdict"]
    named = {key: window.get(key) for key in ("arm", "phase", "name", "path", "duration_s")}
    return {**named, **{key: verdict[key] for key in ("state", "alerts", "text")}}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    spike = module.params["path"]
    path = os.path.join(spike, "telemetry", "attribution.json")
    if module.check_mode:
        module.exit_json(changed=False, attribution_path=path)
    try:
        document = session.attribute(spike)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, windows=[row(window) for window in document["windows"]], attribution_path=path)


if __name__ == "__main__":
    main()
