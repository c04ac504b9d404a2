#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sweep
short_description: Measure how speed changes with the number of requests at once
version_added: 1.0.0
description:
  - For each level N opens N connections and then sends N requests back to back, each forced to O(max_tokens) tokens,
    with prompts that share nothing with each other or with any other run. Failures are counted, never dropped.
  - The aggregate is the completion tokens / (last token - first byte sent), over requests that succeeded.
  - Each finished level is on disk before the next one begins.
author:
  - lobes.spike contributors (@lobes)
extends_documentation_fragment:
  - lobes.spike.measurement
options:
  concurrency:
    description: Requests at once, one level each. May be empty when O(arrival_rates) are given.
    type: list
    elements: int
    default: [1, 2, 4]
  requests_per_level:
    description:
      - Requests of each level (default - the level), and of each arrival rate (no default). With more than the
        level, each finished request is followed by the next one.
    type: int
  max_tokens:
    description: Tokens of each answer.
    type: int
    default: 512
  prompt:
    description: What every request asks, after a tag of its own.
    type: str
    default: >-
      Write an essay of about five hundred words on how the work of a lighthouse keeper changed over two centuries.
  shared_prefix:
    description: A system message that all requests share on purpose, so that the prefix cache may help with it.
    type: str
  repeats:
    description: How often each level is measured. With 2 or more, 95 % intervals over the repeats are given.
    type: int
    default: 1
  arrival_rates:
    description:
      - Open-loop rates in requests per second. Requests arrive at random at that rate, whatever the earlier ones do.
    type: list
    elements: float
    default: []
  goodput_ttft_s:
    description: A request is good only when its time to first text is within this many seconds.
    type: float
  goodput_token_s:
    description: A request is good only when its mean time per output token is within this many seconds.
    type: float
  seed:
    description: Seed of the arrival times.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: Sweep one to thirty-two requests at once
  lobes.spike.sweep:
    concurrency: [1, 2, 4, 8, 16, 32]
    max_tokens: 512
    results_path: "{{ spike_results }}/B.sweep.json"

- name: Find the goodput at two arrival rates
  lobes.spike.sweep:
    concurrency: []
    arrival_rates: [0.5, 2]
    requests_per_level: 100
    goodput_ttft_s: 1
    goodput_token_s: 0.05
"""

RETURN = r"""
levels:
  description: One entry for each level, in the order given.
  returned: when not in check mode
  type: list
  elements: dict
  contains:
    concurrency:
      description: Requests at once.
      type: int
      returned: success
      sample: 32
    requests:
      description: Requests sent, over all repeats.
      type: int
      returned: success
      sample: 32
    failed:
      description: How many of them failed.
      type: int
      returned: success
      sample: 0
    wall_s:
      description: Seconds from the first byte sent to the last token; with repeats their mean.
      type: float
      returned: success
      sample: 30.28
    tokens:
      description: Completion tokens of the requests that succeeded, over all repeats.
      type: int
      returned: success
      sample: 16384
    aggregate_tok_s:
      description: Tokens per second of all requests together; with repeats the mean.
      type: float
      returned: success
      sample: 541.0
    decode_tok_s_p50:
      description: Median decode speed of a request, over the valid ones.
      type: float
      returned: success
      sample: 17.17
    decode_tok_s_min:
      description: Slowest decode speed of a request, over the valid ones.
      type: float
      returned: success
      sample: 17.01
    ttft_s_mean:
      description: Mean seconds to the first text.
      type: float
      returned: success
      sample: 0.509
    ttft_s_p50:
      description: Median seconds to the first text.
      type: float
      returned: success
      sample: 0.511
    ttft_s_p99:
      description: 99th percentile of the seconds to the first text; null under 100 samples.
      type: float
      returned: success
      sample: null
    ttft_s_max:
      description: Longest time to the first text in seconds.
      type: float
      returned: success
      sample: 0.516
    client_cpu_s:
      description: CPU seconds that the client used.
      type: float
      returned: success
      sample: 0.21
    repeats:
      description: Mean and 95 % interval over the repeats of three figures; null without repeats.
      type: dict
      returned: success
      sample: null
    goodput:
      description: How many requests were good, and how many a second; null without limits.
      type: dict
      returned: success
      sample: null
rates:
  description: One entry for each arrival rate, with C(rate_per_s) in place of C(concurrency).
  returned: when O(arrival_rates) are given and not in check mode
  type: list
  elements: dict
  sample: [{rate_per_s: 0.5, requests: 100, failed: 0, aggregate_tok_s: 240.1, ttft_s_p99: 0.61}]
knee:
  description: The level from which more requests stop paying, with the rule; null with a reason when there is none.
  returned: when not in check mode
  type: dict
  sample: {concurrency: null, reason: no knee up to 32 requests at once}
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
  sample: sweep
results_path:
  description: Where the result document lies; null when no path was given.
  returned: always
  type: str
  sample: /home/nvidia/lightning-spike/2026-09-13-lightning-thor/results/B.sweep.json
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
  sample: {schema: lobes.spike/result/1, phase: sweep, name: sweep, status: complete}
planned:
  description: The plan, its hash, and how many requests and tokens it would send.
  returned: in check mode
  type: dict
  sample: {phase: sweep, requests: 63}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.workloads.options import COMMON_OPTIONS
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import Common, SweepPlan
from ansible_collections.lobes.spike.plugins.module_utils.workloads.sweep import plan_only, run

PROMPT = "Write an essay of about five hundred words on how the work of a lighthouse keeper changed over two centuries."


def main() -> None:
    """Read the options, measure (or plan), return."""
    module = AnsibleModule(
        argument_spec={
            **COMMON_OPTIONS,
            "concurrency": {"type": "list", "elements": "int", "default": [1, 2, 4]},
            "requests_per_level": {"type": "int"},
            "max_tokens": {"type": "int", "default": 512, "no_log": False},
            "prompt": {"type": "str", "default": PROMPT},
            "shared_prefix": {"type": "str"},
            "repeats": {"type": "int", "default": 1},
            "arrival_rates": {"type": "list", "elements": "float", "default": []},
            "goodput_ttft_s": {"type": "float"},
            "goodput_token_s": {"type": "float", "no_log": False},
            "seed": {"type": "int", "default": 1},
        },
        mutually_exclusive=[("api_key_file", "api_key_env")],
        supports_check_mode=True,
    )
    try:
        common = Common.from_options(module.params)
        plan = SweepPlan.from_options(module.params)
        result = plan_only(plan, common) if module.check_mode else run(plan, common)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
