#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_log_info
short_description: Read what an engine's log says of its boot and of its end
version_added: 1.0.0
description:
  - Reads a vLLM log of any release from 0.20 to 0.33 by the text of its messages and returns milestones, phases,
    resolved settings, memory, notices with what they do and do not mean, and the cause of a failure.
  - With O(container), the container's whole log of its last start is first written to O(log_path), and how the
    container ended is returned. A container that exited with 0 after its engine died is not a clean end.
author:
  - lobes.spike contributors (@lobes)
options:
  log_path:
    description:
      - The log. Without O(container) it is read; with it, it is written first, without keys. What lay there is replaced
        only by a log that was read to its end.
    type: path
    required: true
  container:
    description: Name or id of the container whose log is taken. It may have ended.
    type: str
  compare_with:
    description: Path of another boot's document (as lobes.spike.engine_ready writes it) that this boot is laid beside.
    type: path
attributes:
  check_mode:
    description: In check mode no log is taken from the container; the one at O(log_path) is read.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Keep the whole log and how the engine ended
  lobes.spike.engine_log_info:
    container: lobes-spike-B
    log_path: /home/operator/lightning-spike/2026-09-13-lightning-thor/results/B.boot.log
  register: end

- name: Lay the boot of arm C beside that of arm B
  lobes.spike.engine_log_info:
    log_path: results-dspark/C.boot.log
    compare_with: results/B.boot.json
"""

RETURN = r"""
milestones:
  description:
    - The steps of the boot in the order of the log. C(t_s) is seconds of the log's clock from its first line, null on
      a line without a time. C(duration_s) is what the engine itself says the step took.
  returned: always
  type: list
  elements: dict
  sample:
    - name: profiled
      t_s: 196.0
      log_time: "09-13 21:53:46"
      duration_s: 90.83
      text: Initial profiling/warmup run took 90.83 s
phases:
  description: Where the boot's time went, in seconds; each phase is named by what it is and bounded by two milestones.
  returned: always
  type: list
  elements: dict
  sample:
    - {name: first profiling run, begins: mamba_warmup, ends: profiled, start_s: 105.0, end_s: 196.0, seconds: 91.0}
facts:
  description:
    - Resolved settings, backends, memory in GiB, the KV pool (a capacity ceiling, with the max_model_len that it
      belongs to) and notices. null is "the log does not say".
  returned: always
  type: dict
  sample:
    engine_version: 0.29.0
    settings: {kv_cache_dtype: fp8, kv_cache_quantised: true}
    kv_pool: {tokens: 20431534, max_model_len: 1048576, capacity_ceiling_requests: 19.49}
    memory: {model_gib: 17.82, kv_memory_gib: 59.44, graphs_profiled_gib: 1.87, graphs_captured_gib: 4.1}
stats:
  description:
    - The engine's own account after the boot, from its periodic log lines. A witness of second rank - the line is
      silent during a long prefill and then books the whole prompt in one window. Empty where the log has no such line.
  returned: always
  type: dict
  sample:
    windows: 120
    last: {log_time: "09-13 22:37:31", prompt_tok_s: 0.0, generation_tok_s: 17.2, running: 0, kv_usage_percent: 0.0}
    highest: {prompt_tok_s: 25005.9, running: 32}
    last_speculation: {}
cause:
  description: The root cause that the log gives of a failure, null when it gives none.
  returned: always
  type: dict
  sample:
    kind: memory
    cause: "torch.OutOfMemoryError: CUDA out of memory."
    stage: mamba_warmup
    remedy: Free memory on the box, then boot again.
engine_died:
  description: Whether the log reports the death of an engine process.
  returned: always
  type: bool
  sample: false
end:
  description:
    - How the container is or ended, as docker says. C(clean) is false where the engine died, whatever the exit code.
  returned: with O(container)
  type: dict
  sample: {status: exited, exit_code: 0, oom_killed: false, finished_utc: "2026-09-13T23:20:11.1Z", clean: true}
log:
  description: The log's path, its number of lines and its bytes.
  returned: always
  type: dict
  sample: {path: /home/operator/results/B.boot.log, lines: 412, bytes: 51234}
anatomy:
  description:
    - This boot laid beside the other one, phase by phase (seconds) and in memory (GiB); differences are this minus the
      other, null where one of them is not known. KV-pool tokens are compared for the same max_model_len only.
  returned: with O(compare_with)
  type: dict
  sample: {sentences: ["+41 s in first profiling run", "-2.10 GiB KV pool"]}
"""

import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.engine.anatomy import compare, phases
from ansible_collections.lobes.spike.plugins.module_utils.engine.follow import docker_runner, inspect
from ansible_collections.lobes.spike.plugins.module_utils.engine.savedlog import read_log, save_log
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError

SPEC = {
    "log_path": {"type": "path", "required": True},
    "container": {"type": "str"},
    "compare_with": {"type": "path"},
}
# A long log takes docker a while.
SAVE_LIMIT_S = 300


def other_boot(path: str) -> dict[str, Any]:
    """The boot document to compare with. Raises PlanError when it is none."""
    try:
        with open(path, "rb") as handle:
            document = json.loads(handle.read())
    except (OSError, ValueError, RecursionError) as exc:
        raise PlanError("compare_with", path, f"It must be a boot document ({exc}).") from exc
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("lobes.spike/boot/"):
        raise PlanError("compare_with", path, "It must be a boot document of lobes.spike.engine_ready.")
    return document


def read(module: AnsibleModule) -> dict[str, Any]:
    """What the module returns."""
    params, out = module.params, {}
    year = None
    if params["container"] is not None:
        run = docker_runner(module.run_command, SAVE_LIMIT_S)
        state = inspect(run, params["container"])
        year = int(state.started_at[:4]) if state.started_at[:4].isdigit() else None
        if not module.check_mode:
            save_log(run, state.id, state.started_at, params["log_path"])
        out["end"] = {
            "status": state.status,
            "exit_code": None if state.status == "running" else state.exit_code,
            "oom_killed": state.oom_killed,
            "finished_utc": None if state.status == "running" else state.finished_at,
        }
    log = read_log(params["log_path"], year)
    cause = log.cause()
    out.update(log.to_json())
    out["phases"] = phases(out["milestones"], None)
    out["stats"] = log.stats()
    out["engine_died"] = log.engine_died
    out["cause"] = None if cause is None else {
        "kind": cause.kind, "cause": cause.text, "stage": cause.stage, "remedy": cause.remedy
    }  # fmt: skip
    out["log"] = {"path": params["log_path"], "lines": log.lines, "bytes": os.path.getsize(params["log_path"])}
    if "end" in out:
        ended_badly = out["end"]["exit_code"] not in (None, 0) or out["end"]["oom_killed"]
        out["end"]["clean"] = not (log.engine_died or ended_badly)
    if params["compare_with"] is not None:
        out["anatomy"] = compare(other_boot(params["compare_with"]), out)
    return out


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(changed=False, **read(module))
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)


if __name__ == "__main__":
    main()
