#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: evidence
short_description: Seal a spike's record on the box and bring a verified copy home
version_added: 1.0.0
description:
  - Writes C(manifest.json) with the sha256 and size of every file of the record, packs the record, fetches the pack to
    the controller, unpacks it there and verifies every file against the manifest.
  - The record stays on the box.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: Folder of the spike on the box.
    type: path
    required: true
  dest:
    description: Folder of the spike and box on the controller. Files of an earlier fetch are replaced; others are kept.
    type: str
    required: true
attributes:
  check_mode:
    description: Can run in check mode; then nothing is written on either side.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Bring the evidence home
  lobes.spike.evidence:
    path: ~/lightning-spike/2026-09-13-lightning-thor
    dest: evidence/2026-09-13-lightning-thor/thor
"""

RETURN = r"""
evidence:
  description: What was fetched.
  returned: success
  type: dict
  contains:
    dir:
      description: Folder on the controller.
      type: str
    file_count:
      description: Number of files in the manifest.
      type: int
    size_bytes:
      description: Their size together, in bytes.
      type: int
    manifest_sha256:
      description: The sha256 of the manifest itself.
      type: str
    manifest_ok:
      description: Whether every file on the controller agrees with the manifest.
      type: bool
    faults:
      description: One line per file that does not.
      type: list
      elements: str
archive:
  description: The pack on the box, removed once it was fetched.
  returned: success
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.record import pack, write_manifest


def main() -> None:
    """Seal and pack the record; the controller's side fetches and verifies it."""
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "dest": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    path = module.params["path"]
    if not os.path.isdir(path):
        module.fail_json(msg=f"path: {path} is no folder on this box; a spike makes it when it begins")
    if module.check_mode:
        module.exit_json(changed=False, planned=f"seal {path} and fetch it to {module.params['dest']}")
    try:
        manifest = write_manifest(path)
        archive = pack(path, manifest)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=True, archive=archive.path, archive_sha256=archive.sha256, manifest_sha256=manifest.sha256)


if __name__ == "__main__":
    main()
