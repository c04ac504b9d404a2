#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: note
short_description: Write a document into the record of a spike
version_added: 1.0.0
description:
  - Writes a file of the record whole or not at all - beside its place, synced to the disk, then renamed - with mode
    0600. Its folder must be there.
  - One round trip, where M(ansible.builtin.copy) takes three.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: File on the box.
    type: path
    required: true
  content:
    description: A mapping or a list is written as JSON with sorted keys, a text as it is, each with a final newline.
    type: raw
    required: true
  keep:
    description: Whether a file that is there already stays as it is.
    type: bool
    default: false
attributes:
  check_mode:
    description: Writes nothing, and tells whether it would.
    support: full
  diff_mode:
    description: Shows nothing, as a record may be long.
    support: none
"""

EXAMPLES = r"""
- name: Write down the box as it was found
  lobes.spike.note:
    path: "{{ evidence_box_dir }}/box.json"
    content: "{{ preflight_box }}"
    keep: true
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /home/nvidia/lightning-spike/2026-09-13-lightning-thor/box.json
sha256:
  description: SHA-256 of what was to be written; null when a file that was there is kept.
  returned: success
  type: str
  sample: 7d0f0b3f1c6e8c1d5a0b8f6b1a5d0c9e5f4b7a8c2d3e4f5061728394a5b6c7d8
"""

import hashlib
import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results.store import sha256_of, write_atomic


def encoded(content: Any) -> bytes:
    """The file's bytes. Raises SpikeError for a number that JSON has no form for."""
    if isinstance(content, str):
        return (content if content.endswith("\n") else content + "\n").encode("utf-8", "replace")
    try:
        text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise SpikeError(f"content: it cannot be written as JSON: {exc}") from exc
    return text.encode("utf-8", "replace") + b"\n"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "raw", "required": True},
            "keep": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    try:
        if module.params["keep"] and os.path.lexists(path):
            module.exit_json(changed=False, path=path, sha256=None)
        data = encoded(module.params["content"])
        sha256 = hashlib.sha256(data).hexdigest()
        changed = not os.path.isfile(path) or sha256_of(path) != sha256
        if changed and not module.check_mode:
            write_atomic(path, data)
    except (SpikeError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=changed, path=path, sha256=sha256)


if __name__ == "__main__":
    main()
