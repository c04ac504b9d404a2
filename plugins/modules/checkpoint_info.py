#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint_info
short_description: Inspect a checkpoint on disk, by its index and the headers of its files
version_added: 1.0.0
description:
  - Tells whether every file that the index names is there and whole (its size must be what its own header gives, so a
    cut file and trailing bytes are found without reading the data), and whether the snapshot is the pinned revision.
  - Counts tensors by kind, activation, K and V scales, and quantised layers by algorithm, and ends in the conclusions
    that these facts support.
  - Changes nothing. A broken checkpoint does not fail the task; RV(whole) is false then.
author:
  - lobes.spike contributors (@lobes)
options:
  snapshot:
    description: The directory of the checkpoint, for example a snapshot in the Hugging Face cache.
    type: path
    required: true
  revision:
    description: The pinned revision, 7 to 40 hex digits. Without it the revision is not judged.
    type: str
attributes:
  check_mode:
    description: Can run in check mode; it never changes anything.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Inspect the checkpoint
  lobes.spike.checkpoint_info:
    snapshot: ~/.cache/huggingface/hub/models--nvidia--Lightning/snapshots/bee7596271d1c0ffee00bee7596271d1c0ffee00
    revision: bee7596271d1
  register: checkpoint
"""

RETURN = r"""
whole:
  description: Whether nothing is wrong with files and revision.
  returned: always
  type: bool
  sample: true
problems:
  description: What is wrong, one sentence each; empty when nothing is.
  returned: always
  type: list
  elements: str
  sample: []
conclusions:
  description: The sentences that the facts support.
  returned: always
  type: list
  elements: str
  sample: ["All 5 files that the index names are there and whole by their headers."]
checkpoint:
  description:
    - All facts. Sizes are bytes, C(kinds), C(scales) and C(layers_by_algorithm) are counts of tensors or layers. null
      is "not declared" or "not known".
  returned: always
  type: dict
  sample:
    snapshot: /home/operator/.cache/huggingface/hub/models--nvidia--Lightning/snapshots/bee7596271d1
    revision: {wanted: bee7596271d1, found: bee7596271d1, equal: true}
    tensors: 18487
    kinds: {"experts.*.weight": 6144, "experts.*.weight_scale": 5888, in_proj.input_scale: 23}
    scales: {input_scale: 46, k_scale: 0, v_scale: 0}
    quantisation:
      algorithm: MIXED_PRECISION
      kv_cache: FP8
      auto_kv_cache_dtype: fp8_e4m3
      layers_by_algorithm: {W4A16_NVFP4: 5935, FP8: 46}
    files:
      - name: model-00001-of-00005.safetensors
        bytes: 4986211280
        expected_bytes: 4986211280
        tensors: 3811
        problem: null
"""

import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.engine.checkpoint import NotACheckpoint, inspect_checkpoint
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError


def read(params: dict[str, Any]) -> dict[str, Any]:
    """What the module returns. Raises PlanError naming the option."""
    revision = params["revision"]
    if revision is not None and not re.fullmatch(r"[0-9a-fA-F]{7,40}", revision):
        raise PlanError("revision", revision, "Give 7 to 40 hex digits of the commit.")
    try:
        checkpoint = inspect_checkpoint(params["snapshot"], revision)
    except NotACheckpoint as exc:
        raise PlanError("snapshot", params["snapshot"], f"It must be the directory of a checkpoint: {exc}.") from exc
    return {
        "whole": checkpoint["whole"],
        "problems": checkpoint["problems"],
        "conclusions": checkpoint["conclusions"],
        "checkpoint": checkpoint,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={"snapshot": {"type": "path", "required": True}, "revision": {"type": "str"}},
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, **read(module.params))
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)


if __name__ == "__main__":
    main()
