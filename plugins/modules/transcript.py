#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transcript
short_description: Render the documents of a spike again from its evidence
version_added: 1.0.0
description:
  - Reads one box's evidence folder and writes every form of the document; no box and no network are needed.
  - The same evidence gives the same bytes, so a second run changes nothing.
  - Runs on the controller, whatever host the task is for.
author:
  - lobes.spike contributors (@lobes)
options:
  evidence_dir:
    description: Folder of one spike and one box on the controller, C(<evidence>/<spike id>/<host>).
    type: path
    required: true
  dest:
    description: Folder to write the documents to. By default O(evidence_dir).
    type: path
attributes:
  check_mode:
    description: Can run in check mode; then nothing is written and RV(ignore:changed) says whether it would be.
    support: full
  diff_mode:
    description: Shows no differences; M(lobes.spike.transcript_info) names them.
    support: none
seealso:
  - module: lobes.spike.transcript_info
"""

EXAMPLES = r"""
- name: Render the transcript again
  lobes.spike.transcript:
    evidence_dir: evidence/2026-09-13-lightning-thor/thor
    dest: build/again
"""

RETURN = r"""
files:
  description: Paths of the documents.
  returned: success
  type: list
  elements: str
  sample: [build/again/transcript.txt, build/again/comparison.md]
"""
