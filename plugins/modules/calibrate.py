#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: calibrate
short_description: Measure the error of the instrument itself
version_added: 1.0.0
description:
  - Starts a small server process on the box that streams tokens on a known schedule and records when it really sent
    each one, measures it at the numbers of streams of the plan, and compares. Both processes read the same clock.
  - Also finds the highest event rate at which the 99th percentile of the client's error stays within 1 ms, and the CPU
    time that the client uses. The server process ends with the module, whatever happens to it.
  - Nothing is sent to O(endpoint); the other shared options are accepted so that one set of defaults serves all
    measuring modules.
author:
  - lobes.spike contributors (@lobes)
extends_documentation_fragment:
  - lobes.spike.measurement
options:
  concurrency:
    description: Numbers of streams at once to calibrate at.
    type: list
    elements: int
    default: [1, 2, 4, 8, 16, 32]
  tokens:
    description: Tokens of each stream.
    type: int
    default: 32
  first_token_s:
    description: Seconds from a request's arrival to its first token.
    type: float
    default: 0.02
  tokens_per_s:
    description: Tokens per second of each stream after the first.
    type: float
    default: 50.0
  rates_hz:
    description: Event rates over all streams, in events per second, tried from the lowest up for half a second each.
    type: list
    elements: int
    default: [1000, 2000, 5000, 10000, 20000, 40000]
"""

EXAMPLES = r"""
- name: Calibrate at the levels of the sweep
  lobes.spike.calibrate:
    concurrency: [1, 2, 4, 8, 16, 32]
    results_path: "{{ spike_results }}/calibrate.json"
"""

RETURN = r"""
levels:
  description: One entry for each number of streams. An error is the client's time minus the true time.
  returned: when not in check mode
  type: list
  elements: dict
  contains:
    concurrency:
      description: Streams at once.
      type: int
      returned: success
      sample: 32
    ttft_error_s_p50:
      description: Median error of the time to first text, in seconds.
      type: float
      returned: success
      sample: 0.0002
    ttft_error_s_p99:
      description: Its 99th percentile over all streams (of as many repeats as make 100 samples), in seconds.
      type: float
      returned: success
      sample: 0.0009
    itl_error_s_p50:
      description: Median error of the time between two tokens, without its sign, in seconds.
      type: float
      returned: success
      sample: 0.00004
    itl_error_s_p99:
      description: Its 99th percentile, in seconds.
      type: float
      returned: success
      sample: 0.0004
max_event_rate_hz:
  description: Highest tried rate of events per second with a 99th percentile of the error within 1 ms; null when none.
  returned: when not in check mode
  type: int
  sample: 10000
cpu_s_per_100k_tokens:
  description: CPU seconds that the client used for 100,000 tokens, one event each.
  returned: when not in check mode
  type: float
  sample: 1.9
rates:
  description: Each tried rate with the rate reached and the error's percentiles.
  returned: when not in check mode
  type: list
  elements: dict
  sample: [{rate_hz: 1000, reached_hz: 998.7, error_s_p50: 0.00005, error_s_p99: 0.0003, cpu_share: 0.02}]
status:
  description:
    - V(complete) when every request succeeded, V(partial) when some failed, V(failed) when all did. A failed request
      is data and does not fail the task. V(planned) in check mode.
  returned: always
  type: str
  sample: complete
reason:
  description: Why not everything succeeded, with the first error; null when nothing failed.
  returned: when not in check mode
  type: str
  sample: null
name:
  description: Name of the result.
  returned: always
  type: str
  sample: calibrate
results_path:
  description: Where the result document lies; null when no path was given.
  returned: always
  type: str
  sample: /home/nvidia/lightning-spike/2026-09-13-lightning-thor/results/B.calibrate.json
reused:
  description:
    - Whether the same plan had been measured whole on the same boot of the engine (C(boot_id) in O(context)) by this
      version of the collection. Nothing was sent then, and the earlier result is returned.
  returned: when not in check mode
  type: bool
  sample: false
results_sha256:
  description: SHA-256 of the result document on disk; null when no path was given.
  returned: when not in check mode
  type: str
  sample: 7d0f0b3f1c6e8c1d5a0b8f6b1a5d0c9e5f4b7a8c2d3e4f5061728394a5b6c7d8
result:
  description:
    - The result document without the samples' event times, long texts cut with a mark. It also holds the witnesses,
      the checks of what was asked, and the notes.
  returned: when not in check mode
  type: dict
  sample: {schema: lobes.spike/result/1, phase: calibrate, name: calibrate, status: complete}
planned:
  description: The plan, its hash, and how many requests and tokens it would send.
  returned: in check mode
  type: dict
  sample: {phase: calibrate, requests: 63}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.workloads.calibrate import plan_only, run
from ansible_collections.lobes.spike.plugins.module_utils.workloads.options import COMMON_OPTIONS
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import CalibratePlan, Common


def main() -> None:
    """Read the options, measure (or plan), return."""
    module = AnsibleModule(
        argument_spec={
            **COMMON_OPTIONS,
            "concurrency": {"type": "list", "elements": "int", "default": [1, 2, 4, 8, 16, 32]},
            "tokens": {"type": "int", "default": 32, "no_log": False},
            "first_token_s": {"type": "float", "default": 0.02, "no_log": False},
            "tokens_per_s": {"type": "float", "default": 50.0, "no_log": False},
            "rates_hz": {"type": "list", "elements": "int", "default": [1000, 2000, 5000, 10000, 20000, 40000]},
        },
        mutually_exclusive=[("api_key_file", "api_key_env")],
        supports_check_mode=True,
    )
    try:
        common = Common.from_options(module.params)
        plan = CalibratePlan.from_options(module.params)
        result = plan_only(plan, common) if module.check_mode else run(plan, common)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
