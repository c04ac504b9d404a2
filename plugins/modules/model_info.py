#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_info
short_description: Look for a model's snapshot in a box's Hugging Face cache
version_added: 1.0.0
description:
  - Tells whether the pinned snapshot of a model is in the cache and whole enough to be served offline. Changes nothing.
author:
  - lobes.spike contributors (@lobes)
options:
  hf_cache:
    description: Root of the cache, the folder that holds C(hub).
    type: path
    required: true
  model:
    description: The model as C(owner/name).
    type: str
    required: true
  revision:
    description:
      - Commit of the model, 7 to 40 hex digits; a shortened one must match one snapshot only.
      - Without it the snapshot is the one that C(refs/main) names, and the result says that it was not pinned.
    type: str
  fetch_container:
    description: Name of a container that is fetching the snapshot; its state and last words are returned too.
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
- name: Look for the model
  lobes.spike.model_info:
    hf_cache: ~/.cache/huggingface
    model: nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4
    revision: bee7596271d1
  register: found
"""

RETURN = r"""
present:
  description: Whether the snapshot is there and every file that its index names is there too.
  returned: always
  type: bool
reason:
  description: Why it is not; null when it is.
  returned: always
  type: str
hf_cache:
  description: The cache's root with C(~) resolved.
  returned: always
  type: str
owner:
  description: Owner of the cache as C(uid:gid); a fetch must run as this user.
  returned: always
  type: str
fetched_bytes:
  description: Bytes of this model that lie in the cache so far, finished or not; null when nothing can be read.
  returned: when not present
  type: int
fetching:
  description: Whether O(fetch_container) still runs.
  returned: when O(fetch_container) is given
  type: bool
fetch_output:
  description: The last lines the fetch container wrote, 2000 characters at most.
  returned: when O(fetch_container) is given and it ended
  type: str
fetch_command:
  description: The command that would fetch the snapshot; C(IMAGE) stands for the engine's image.
  returned: always
  type: str
fetch_script:
  description: The Python that does the fetch inside the engine's image.
  returned: always
  type: str
checkpoint:
  description: The snapshot, when present.
  returned: when present
  type: dict
  sample:
    model: nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4
    revision_asked: bee7596271d1
    revision: bee7596271d1000000000000000000000000000f
    pinned: true
    snapshot_path: /home/op/.cache/huggingface/hub/models--nvidia--x/snapshots/bee7596271d1000000000000000000000000000f
    file_count: 12
    size_bytes: 21600000000
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.hub import (
    REVISION,
    fetch_command,
    fetch_script,
    find_snapshot,
)


def look(hf_cache: str, model: str, revision: str | None) -> dict[str, object]:
    """Return the module's result for one model. Raises PlanError for a revision that pins nothing."""
    if revision is not None and not REVISION.match(revision):
        raise PlanError("revision", revision, "give 7 to 40 hex digits of the model's commit")
    found = find_snapshot(hf_cache, model, revision)
    try:
        stat = os.stat(hf_cache)
        owner = f"{stat.st_uid}:{stat.st_gid}"
    except OSError:
        owner = f"{os.geteuid()}:{os.getegid()}"
    result: dict[str, object] = {
        "changed": False,
        "present": found.present,
        "reason": found.reason,
        "hf_cache": hf_cache,
        "owner": owner,
        "fetch_command": fetch_command(hf_cache, model, revision, owner),
        "fetch_script": fetch_script(model, revision),
    }
    if not found.present:
        result["fetched_bytes"] = found.fetched_bytes
        return result
    result["checkpoint"] = {
        "model": found.model,
        "revision_asked": found.revision_asked,
        "revision": found.revision,
        "pinned": found.revision_asked is not None,
        "snapshot_path": found.path,
        "file_count": found.files,
        "size_bytes": found.size_bytes,
    }
    return result


def follow(module: AnsibleModule, container: str) -> dict[str, object]:
    """Tell whether the fetch container still runs and, when it ended, what it said last."""
    rc, out, _dummy = module.run_command(["docker", "inspect", "--format", "{{.State.Running}}", container])
    if rc == 0 and out.strip() == "true":
        return {"fetching": True}
    _dummy, out, err = module.run_command(["docker", "logs", "--tail", "20", container])
    return {"fetching": False, "fetch_output": (out + err)[-2000:]}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "hf_cache": {"type": "path", "required": True},
            "model": {"type": "str", "required": True},
            "revision": {"type": "str"},
            "fetch_container": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        # The fetcher is looked at first: what it finished before that look is then surely seen in the cache.
        state = follow(module, module.params["fetch_container"]) if module.params["fetch_container"] else {}
        found = look(module.params["hf_cache"], module.params["model"], module.params["revision"])
        module.exit_json(**found, **state)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)


if __name__ == "__main__":
    main()
