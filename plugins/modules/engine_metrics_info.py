#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_metrics_info
short_description: Read an engine's metrics by meaning, and what they gained since an earlier reading
version_added: 1.0.0
description:
  - Reads the Prometheus exposition of a vLLM server, or a saved one, over renamed metrics and several engine cores.
  - Optionally keeps the exposition on disk, and compares it with an earlier one.
author:
  - lobes.spike contributors (@lobes)
options:
  endpoint:
    description: Base URL of the server; its C(/metrics) is read once.
    type: str
  path:
    description:
      - With O(endpoint), where the exposition is kept (written whole or not at all). Without it, the saved exposition
        that is read.
    type: path
  before:
    description: A saved exposition of the same server, taken earlier.
    type: path
attributes:
  check_mode:
    description: In check mode nothing is written.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Keep the metrics as they are before the measurements
  lobes.spike.engine_metrics_info:
    endpoint: http://127.0.0.1:8090
    path: results/B.metrics-before.prom

- name: What did the engine do since?
  lobes.spike.engine_metrics_info:
    endpoint: http://127.0.0.1:8090
    path: results/B.metrics-after.prom
    before: results/B.metrics-before.prom
  register: metrics
"""

RETURN = r"""
gauges:
  description: The gauges now. C(kv_cache_usage) is a share from 0 to 1; null is "not exported".
  returned: always
  type: dict
  sample: {requests_running: 1.0, requests_waiting: 0.0, kv_cache_usage: 0.077}
kv_pool:
  description:
    - The KV pool from C(cache_config_info); tokens and requests are a capacity ceiling that belongs to
      C(max_model_len). null when the engine does not export it.
  returned: always
  type: dict
  sample: {tokens: 20431534, capacity_ceiling_requests: 19.49, max_model_len: 1048576}
gained:
  description:
    - What the counters gained since O(before) - tokens, seconds, requests by how they finished, speculation. null is
      "not exported"; C(restarted) says that the engine was restarted in between, all else is null then.
  returned: with O(before)
  type: dict
  sample:
    prompt_tokens: 1040073.0
    generation_tokens: 256.0
    prefix_cache_hits: 0.0
    preemptions: 0.0
    spec_mean_acceptance_length: 4.07
    restarted: false
series:
  description: Number of series that were read.
  returned: always
  type: int
  sample: 412
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.client import Endpoint, get_text
from ansible_collections.lobes.spike.plugins.module_utils.engine.metrics import Exposition, delta, parse
from ansible_collections.lobes.spike.plugins.module_utils.engine.pool import read_pool
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results import store

SPEC = {"endpoint": {"type": "str"}, "path": {"type": "path"}, "before": {"type": "path"}}
GAUGES = ("requests_running", "requests_waiting", "kv_cache_usage")
# A saturated engine may answer late and be healthy.
TIMEOUT_S = 60


def saved(option: str, path: str) -> Exposition:
    """A saved exposition. Raises PlanError naming the option."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return parse(handle.read())
    except OSError as exc:
        raise PlanError(option, path, f"It cannot be read ({exc.strerror or exc}).") from exc


def read(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module returns."""
    before = saved("before", params["before"]) if params["before"] else None
    if params["endpoint"] is not None:
        text = get_text(Endpoint.parse(params["endpoint"]), "/metrics", timeout_s=TIMEOUT_S)
        now = parse(text)
        if params["path"] is not None and not check_mode:
            store.write_atomic(params["path"], text.encode("utf-8"))
    else:
        now = saved("path", params["path"])
    out: dict[str, Any] = {
        "gauges": {name: now.value(name) for name in GAUGES},
        "kv_pool": read_pool(now),
        "series": sum(len(family.series) for family in now.families.values()),
    }
    if before is not None:
        out["gained"] = delta(before, now)
    return out


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, required_one_of=[("endpoint", "path")], supports_check_mode=True)
    try:
        module.exit_json(changed=False, **read(module.params, module.check_mode))
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)


if __name__ == "__main__":
    main()
