#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet
short_description: Lay the boxes of one campaign side by side in one document
version_added: 1.0.0
description:
  - Reads the evidence of every box of a campaign and writes the fleet page as C(fleet.txt), C(fleet.md), C(fleet.html)
    and C(fleet.json). No box and no network are needed, and the same evidence gives the same bytes.
  - Shows boxes by workloads with heat and power beside the speeds; how far apart the boxes are (median, MAD, outliers,
    from three boxes on); who was skipped, refused, failed or partly measured, and why; and where each box's own
    transcript is.
  - Boxes that were measured under other conditions (engine digest, model revision, power mode, max_model_len, ...) are
    in another group and are never averaged with the rest.
  - Runs on the controller, whatever host the task is for.
author:
  - lobes.spike contributors (@lobes)
options:
  evidence_dir:
    description: Folder on the controller that the spikes' folders lie in, so that a box's evidence is in
      C(<evidence_dir>/<spike id>/<host>).
    type: path
    required: true
  campaign:
    description:
      - Date and name of the campaign, C(YYYY-MM-DD-<name>). Of a box that ran several times the last run is taken.
      - By default the campaign of the last date; of several that day the one that a box began last.
    type: str
  dest:
    description: Folder to write the page to. By default C(fleet-<campaign>) in O(evidence_dir).
    type: path
  min_boxes:
    description: Where fewer boxes than this have evidence of the campaign, nothing is written and the task is skipped.
    type: int
    default: 1
attributes:
  check_mode:
    description: Can run in check mode; then nothing is written and RV(ignore:changed) says whether it would be.
    support: full
  diff_mode:
    description: Shows no differences.
    support: none
seealso:
  - module: lobes.spike.transcript
"""

EXAMPLES = r"""
- name: Lay the boxes side by side
  lobes.spike.fleet:
    evidence_dir: evidence
    campaign: 2026-09-13-lightning
"""

RETURN = r"""
campaign:
  description: Date and name of the campaign.
  returned: success
  type: str
  sample: 2026-09-13-lightning
boxes:
  description: Names of the boxes that have evidence of it.
  returned: success
  type: list
  elements: str
  sample: [thor-1, thor-2, thor-3]
files:
  description: Paths of the documents; empty when there were too few boxes.
  returned: success
  type: list
  elements: str
  sample: [/home/op/evidence/fleet-2026-09-13-lightning/fleet.txt]
"""
