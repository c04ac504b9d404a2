#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transcript_info
short_description: Check that the transcript of a spike is whole and what its evidence gives
version_added: 1.0.0
description:
  - A callback that breaks cannot fail a play, so the last task of a spike asks this.
  - Right is a transcript that is there, has its end mark, covers every arm and phase that C(spike.json) planned, was
    made of as many results and events as there are, and is byte for byte what a fresh rendering gives; and evidence
    that agrees with its manifest. Anything else fails with one message.
  - Runs on the controller, whatever host the task is for, and changes nothing.
author:
  - lobes.spike contributors (@lobes)
options:
  evidence_dir:
    description: Folder of one spike and one box on the controller, C(<evidence>/<spike id>/<host>).
    type: path
    required: true
attributes:
  check_mode:
    description: Can run in check mode, it changes nothing anyway.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Check that the transcript is complete
  lobes.spike.transcript_info:
    evidence_dir: evidence/2026-09-13-lightning-thor/thor
"""

RETURN = r"""
transcript:
  description: Path of the transcript on the controller.
  returned: when the evidence could be read
  type: str
  sample: /home/op/evidence/2026-09-13-lightning-thor/thor/transcript.txt
baseline:
  description: How the spike stands to its baseline, in one sentence; null where none was given.
  returned: when the evidence could be read
  type: str
  sample: "against 2026-09-13-lightning-thor on thor: 1 regression, 0 improvements, 21 same, 0 not comparable."
regressions:
  description: Every figure and check that is worse than in the baseline, one sentence each. They do not fail the task.
  returned: when the evidence could be read
  type: list
  elements: str
  sample: ["B, single-stream prose: -10.1% (78.73 [78.72-79.25] tok/s -> 70.8 [70.7-70.9] tok/s)"]
problems:
  description: What is wrong, one sentence each; empty when all is right.
  returned: when the evidence could be read
  type: list
  elements: str
  sample: ["comparison.md, line 7: it says '| 1 | 99.0 |', the evidence gives '| 1 | 76.2 |'"]
"""
