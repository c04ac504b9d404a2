#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: baseline_info
short_description: Read of an earlier spike what a later one is laid beside
version_added: 1.0.0
description:
  - Reads the evidence of an earlier spike and returns its figures, its checks and the conditions under which they were
    measured. Written as C(baseline.json) into the record of a later spike, they make every form of its document say
    which figures got worse, which got better, which are the same and which cannot be compared, and why.
  - Evidence that is not as it was sealed is refused.
  - Runs on the controller, whatever host the task is for, and changes nothing.
author:
  - lobes.spike contributors (@lobes)
options:
  evidence_dir:
    description: The earlier spike's folder on the controller, C(<evidence>/<spike id>/<host>); or C(<evidence>/<spike
      id>), in which the folder of the task's host is looked for.
    type: path
    required: true
attributes:
  check_mode:
    description: Can run in check mode, it changes nothing anyway.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
seealso:
  - module: lobes.spike.transcript_info
"""

EXAMPLES = r"""
- name: Read the baseline
  lobes.spike.baseline_info:
    evidence_dir: evidence/2026-09-13-lightning-thor
  register: earlier
"""

RETURN = r"""
baseline:
  description:
    - What is kept of the earlier spike.
    - C(figures) holds each arm's runs of each workload, in the unit that the measure's name ends with; C(checks) what
      passed; C(conditions) and C(arms) under which conditions; C(ttft_error_s) the instrument's calibrated error in
      seconds.
  returned: success
  type: dict
  sample:
    schema: lobes.spike/baseline/1
    spike_id: 2026-09-13-lightning-thor
    figures:
      - {arm: B, workload: single-stream prose, measure: decode_tok_s, values: [73.7, 75.0, 75.4]}
"""
