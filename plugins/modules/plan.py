#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Turn what the operator asked into the plan of one spike
version_added: 1.0.0
description:
  - Checks every variable of a spike and resolves the chosen arms and phases, on the controller, before anything is
    touched.
  - All faults are reported in one message, each with the variable, its value and the remedy.
author:
  - lobes.spike contributors (@lobes)
options:
  name:
    description: Name of the campaign; it becomes part of the spike's id.
    type: str
    required: true
  id:
    description:
      - Id of the spike to go on with.
      - By default C(YYYY-MM-DD-<name>-<box>) in UTC. An unfinished spike of that id is gone on with; after a finished
        one a new one starts and is numbered.
    type: str
  endpoint:
    description:
      - Root of a server that is already there, as C(http://127.0.0.1:8000). Then no image, commit or port is asked.
    type: raw
  image:
    description: The engine's image as C(repository@sha256:<64 hex>). A tag is refused.
    type: raw
  model:
    description: The model as C(owner/name).
    type: raw
  model_revision:
    description: Commit of the model, 7 to 40 hex digits.
    type: raw
  port:
    description: Port of the box's loopback address on which an arm is published.
    type: int
  recipe:
    description:
      - Flags of every arm, as flag to value. V(true) is a bare flag, V(null) and V(false) leave a flag out, a mapping
        becomes JSON.
    type: dict
    default: {}
  instrument_flags:
    description: Flags that make the engine say more about itself, kept apart from the recipe.
    type: dict
    default: {}
  known_arms:
    description: The arms that may be chosen, each a mapping with C(name), C(title), C(results_dir), C(args) and more.
    type: raw
    required: true
  arms:
    description: Names of the arms to run, as a list or separated by commas. All by default.
    type: raw
  phases:
    description: Names of the phases to run, as a list or separated by commas. All by default.
    type: raw
  remeasure:
    description:
      - Names of the phases to measure again though the same plan was measured on the same boot, as a list or separated
        by commas, or V(all). None by default.
    type: raw
  workloads:
    description: The workloads of every arm; an arm's own C(workloads) replace them one by one.
    type: dict
    default: {}
  evidence_dir:
    description: Folder on the controller below which evidence is kept, from where the command is typed.
    type: str
    required: true
  baseline_arm:
    description: Name of the arm the others are compared with.
    type: str
  reverses:
    description: Name of an earlier transcript whose verdict this spike may reverse or confirm.
    type: str
  undecided:
    description: Decisions that belong to the operator; the transcript lists them as not decided.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Can run in check mode; it never changes anything.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Plan the spike
  lobes.spike.plan:
    name: lightning
    image: vllm/vllm-openai@sha256:18372a7224938643461b846fb64c5c9d3d6e9727e82caf2dc3043e620c9d4d7a
    model: nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4
    model_revision: bee7596271d1
    port: 8090
    known_arms:
      - name: B
        title: plain fp8
        args:
          max-model-len: 1048576
    arms: B
    evidence_dir: evidence
  register: plan
"""

RETURN = r"""
spike:
  description: The plan, the content of C(spike.json); C(arms) holds the chosen arms with their flags and workloads.
  returned: success
  type: dict
  sample:
    schema: lobes.spike/spike/1
    spike_id: 2026-09-13-lightning-thor
    phases: [probes, needle]
models:
  description: The checkpoints the plan needs, each with C(role), C(model) and C(revision).
  returned: success
  type: list
  elements: dict
  sample:
    - role: model
      model: nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4
      revision: bee7596271d1
problems:
  description: One line per fault of the plan.
  returned: failure
  type: list
  elements: str
"""
