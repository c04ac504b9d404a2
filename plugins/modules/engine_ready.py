#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_ready
short_description: Wait until an engine's container serves, or say why it does not
version_added: 1.0.0
description:
  - Follows a started container (its state, its log and C(/health)) until the engine is ready, and writes what the boot
    said - milestones, phases, resolved settings, memory, notices - as one document.
  - When the boot fails, the task fails with one message whose first line is the real cause from the log, above the
    wrapper that only reports it. The document and the log are written in this case as well.
  - A boot in which nothing moves any more - no log line, no CPU, no compiler, no page from disk - is called a wedge
    after O(wedge_limit_s), with the evidence. A silent boot whose processes compute or compile is left alone until
    O(time_limit_s).
  - A container that exits with 0 before it is ready has failed, an engine that dies may exit so.
  - Looks at most every 2 s. Changes nothing on the box but the files it is told to write.
author:
  - lobes.spike contributors (@lobes)
options:
  container:
    description: Name or id of the started container.
    type: str
    required: true
  endpoint:
    description: Base URL of the server, for example V(http://127.0.0.1:8090).
    type: str
    required: true
  arm:
    description: Name of the arm that is booted; kept in the document.
    type: str
    required: true
  log_path:
    description:
      - Where the boot log is kept, written while it grows, without docker's timestamps and without keys. It is begun
        anew.
    type: path
    required: true
  results_path:
    description:
      - Where the boot document is written. While waiting, progress is in the file C(<results_path>.progress).
      - The document of another boot and its log are set aside as C(<path>.earlier-<time>). A document which says that
        this very boot was ready is kept as it is, once the engine is seen to serve.
    type: path
    required: true
  time_limit_s:
    description: Longest time from the container's start until it is ready, in seconds.
    type: int
    default: 3600
  wedge_limit_s:
    description: For how many seconds nothing may move.
    type: int
    default: 300
  stage_limit_s:
    description: Longest time in a single stage of the boot, in seconds, whatever moves. No limit by default.
    type: int
  command_args:
    description: The engine's arguments, for the document. By default those of the container. Keys are left out.
    type: list
    elements: str
    default: []
  memory_before:
    description: The box's memory before anything was done for this boot, for the document.
    type: dict
  memory_after_drop:
    description: The box's memory after the page cache was dropped, for the document.
    type: dict
attributes:
  check_mode:
    description: In check mode nothing is waited for and nothing is written; RV(planned) says what would be.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Wait until the arm serves
  lobes.spike.engine_ready:
    container: lobes-spike-B
    endpoint: http://127.0.0.1:8090
    arm: B
    log_path: /home/operator/lightning-spike/2026-09-13-lightning-thor/results/B.boot.log
    results_path: /home/operator/lightning-spike/2026-09-13-lightning-thor/results/B.boot.json
    time_limit_s: 1800
    wedge_limit_s: 300
  register: boot
"""

RETURN = r"""
boot:
  description:
    - The boot document, schema C(lobes.spike/boot/1), as written to O(results_path); also returned on failure.
    - Seconds are of the engine log's clock from its first line, except C(ready_s), which runs from the container's
      start on the box's clock. Sizes are GiB. null is "not known".
    - C(facts.kv_pool) is a capacity ceiling and belongs to its C(max_model_len); it is neither measured concurrency
      nor throughput.
  returned: always, except in check mode
  type: dict
  sample:
    schema: lobes.spike/boot/1
    arm: B
    boot_id: 3f2a9c01d4e5@2026-09-13T21:50:28.118213Z
    status: ready
    ready_s: 559.4
    ready_s_from: health
    milestones:
      - name: mamba_warmup
        t_s: 105.0
        log_time: "09-13 21:52:15"
        utc: "2026-09-13T21:52:15.402113450Z"
        duration_s: null
        since_previous_s: 0.0
        text: Warming up Mamba2 SSD Triton kernels...
    phases:
      - {name: loading the model, begins: engine_config, ends: model_loaded, seconds: 50.0}
    facts:
      engine_version: 0.29.0
      settings: {kv_cache_dtype: fp8, max_seq_len: 1048576}
      kv_pool: {tokens: 20431534, max_model_len: 1048576, capacity_ceiling_requests: 19.49}
      memory: {model_gib: 17.82, kv_memory_gib: 59.44}
    failure: null
boot_id:
  description: One id for each boot of a container; results that carry it belong to this boot.
  returned: always, except in check mode
  type: str
  sample: 3f2a9c01d4e5@2026-09-13T21:50:28.118213Z
ready_s:
  description: Seconds from the container's start until C(/health) answered 200, to 2 s; null when it is not known.
  returned: when the engine is ready
  type: float
  sample: 559.4
results_sha256:
  description: SHA-256 of the document on disk.
  returned: always, except in check mode
  type: str
  sample: 0f5d1c9ce4a0b7a39d7b8f40a1d1ab5b6c5ad1a6e4a0d6a3b6a3dcb7b8a6f0c1
planned:
  description: What would be waited for and written.
  returned: in check mode
  type: dict
  sample: {container: lobes-spike-B, endpoint: "http://127.0.0.1:8090", time_limit_s: 1800}
"""

import json
import os
import time
from datetime import datetime, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.client import Endpoint, ask
from ansible_collections.lobes.spike.plugins.module_utils.engine.boot import BootPlan, BootWait, Box, failure_message
from ansible_collections.lobes.spike.plugins.module_utils.engine.follow import (
    LogFollower,
    docker_runner,
    inspect,
    without_keys,
)
from ansible_collections.lobes.spike.plugins.module_utils.engine.processes import read_tree
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results import progress, store

SPEC = {
    "container": {"type": "str", "required": True},
    "endpoint": {"type": "str", "required": True},
    "arm": {"type": "str", "required": True},
    "log_path": {"type": "path", "required": True},
    "results_path": {"type": "path", "required": True},
    "time_limit_s": {"type": "int", "default": 3600},
    "wedge_limit_s": {"type": "int", "default": 300},
    "stage_limit_s": {"type": "int"},
    "command_args": {"type": "list", "elements": "str", "default": []},
    "memory_before": {"type": "dict"},
    "memory_after_drop": {"type": "dict"},
}


def plan_of(params: dict[str, Any]) -> BootPlan:
    """The plan, checked. Raises PlanError naming the option."""
    for name in ("time_limit_s", "wedge_limit_s", "stage_limit_s"):
        if params[name] is not None and params[name] < 1:
            raise PlanError(name, params[name], "Give a number of seconds of at least 1.")
    return BootPlan(
        arm=params["arm"],
        time_limit_s=params["time_limit_s"],
        wedge_limit_s=params["wedge_limit_s"],
        stage_limit_s=params["stage_limit_s"],
        args=without_keys(params["command_args"]),
        memory_before=params["memory_before"],
        memory_after_drop=params["memory_after_drop"],
    )


def keep_earlier(results_path: str, log_path: str, boot_id: str) -> dict[str, Any] | None:
    """Set the document and the log of another boot aside, on which an interrupted spike has measured.

    The document of this boot is returned when it was ready: it holds what only the first wait could see, such as the
    memory before it.
    """
    try:
        with open(results_path, encoding="utf-8") as handle:
            earlier = json.load(handle)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(earlier, dict) or earlier.get("boot_id") is None:
        return None
    if earlier["boot_id"] == boot_id:
        return earlier if earlier.get("status") == "ready" else None
    for path in (results_path, log_path):
        if os.path.isfile(path):
            store.set_aside(path, "earlier")
    return None


def wait(module: AnsibleModule, plan: BootPlan, endpoint: Endpoint) -> dict[str, Any]:
    """Wait, write the document, and return what the module returns; raises SpikeError with it when the boot failed."""
    params = module.params
    run = docker_runner(module.run_command)
    first = inspect(run, params["container"])
    earlier = keep_earlier(params["results_path"], params["log_path"], first.boot_id)
    follower = LogFollower(run, first.id, first.started_at, params["log_path"])
    base = {"schema": progress.SCHEMA, "phase": "boot", "name": plan.arm, **progress.own_identity()}
    progress_path = progress.progress_path(params["results_path"])
    box = Box(
        inspect=lambda: inspect(run, first.id),
        follower=follower,
        health=lambda: ask(endpoint, "/health")[0],
        metrics=lambda: ask(endpoint, "/metrics")[1],
        tree=read_tree,
        monotonic=time.monotonic,
        utc=lambda: datetime.now(timezone.utc),
        sleep=time.sleep,
        progress=lambda state: store.write_quick(progress_path, base | state),
    )
    try:
        document = BootWait(plan, box, first).run()
    finally:
        store.remove(progress_path)
    document["log"]["path"] = params["log_path"]
    if earlier is not None and document["failure"] is None:
        document = earlier
    out = {
        "boot": document,
        "boot_id": document["boot_id"],
        "results_sha256": store.write_atomic(params["results_path"], store.encode(document)),
    }
    if document["failure"] is not None:
        raise SpikeError(failure_message(document["failure"], plan.arm, params["log_path"]), out)
    return {**out, "ready_s": document["ready_s"]}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        plan = plan_of(module.params)
        endpoint = Endpoint.parse(module.params["endpoint"])
        if module.check_mode:
            names = ("container", "endpoint", "arm", "log_path", "results_path", "time_limit_s", "wedge_limit_s")
            module.exit_json(changed=False, planned={name: module.params[name] for name in names})
        module.exit_json(changed=False, **wait(module, plan, endpoint))
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)


if __name__ == "__main__":
    main()
