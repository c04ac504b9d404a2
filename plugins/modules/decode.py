#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: decode
short_description: Measure the decode speed of one stream
version_added: 1.0.0
description:
  - Sends the same prompt O(runs) times, one request after the other, streamed, at temperature 0 with thinking off.
  - A decode figure is (completion tokens - tokens of the first event) / (last token event - first token event), from
    the server's usage, and valid only for at least 64 tokens that were forced and ended by length; else it is null
    with a reason.
author:
  - lobes.spike contributors (@lobes)
extends_documentation_fragment:
  - lobes.spike.measurement
options:
  name:
    description: Short name of the prompt; the result is called C(decode-<name>).
    type: str
    default: prose
  prompt:
    description: The only message of each request.
    type: str
    default: >-
      Write an essay of about five hundred words on how the work of a lighthouse keeper changed over two centuries.
  max_tokens:
    description: Tokens of each answer.
    type: int
    default: 512
  runs:
    description: How often it is measured.
    type: int
    default: 3
  warmup_runs:
    description: Requests with a prompt of their own before the first run; they are in no figure.
    type: int
    default: 0
  forced:
    description:
      - Whether the engine is made to write exactly O(max_tokens) tokens (C(min_tokens), C(ignore_eos)). Without it no
        decode figure is valid.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Measure prose three times
  lobes.spike.decode:
    name: prose
    prompt: Write an essay of about five hundred words on how ports changed when containers came.
    max_tokens: 512
    runs: 3
    results_path: "{{ spike_results }}/B.decode-prose.json"

- name: Measure code once
  lobes.spike.decode:
    name: code
    prompt: Write a Python module with a priority queue, a trie and an LRU cache, with type hints and docstrings.
    max_tokens: 768
    runs: 1
    results_path: "{{ spike_results }}/B.decode-code.json"
"""

RETURN = r"""
runs:
  description: Number of measured runs.
  returned: when not in check mode
  type: int
  sample: 3
ok:
  description: Runs that succeeded.
  returned: when not in check mode
  type: int
  sample: 3
failed_runs:
  description: Runs that failed; they are data, and do not fail the task.
  returned: when not in check mode
  type: int
  sample: 0
prompt_name:
  description: The prompt's name.
  returned: when not in check mode
  type: str
  sample: prose
decode_tok_s:
  description: Tokens per second of each run, null where invalid.
  returned: when not in check mode
  type: list
  elements: float
  sample: [79.25, 78.72, 78.73]
ttft_s:
  description: Seconds to the first text of each run, null where it failed.
  returned: when not in check mode
  type: list
  elements: float
  sample: [0.07, 0.068, 0.072]
completion_tokens:
  description: Tokens of each answer by the server's usage, null where unknown.
  returned: when not in check mode
  type: list
  elements: int
  sample: [512, 512, 512]
samples:
  description: Each run; times in seconds since its first byte was sent.
  returned: when not in check mode
  type: list
  elements: dict
  contains:
    status:
      description: V(ok) or V(failed).
      type: str
      returned: success
      sample: ok
    error:
      description: Why it failed, else null.
      type: str
      returned: success
      sample: null
    ttft_s:
      description: First non-empty text of any kind.
      type: float
      returned: success
      sample: 0.07
    first_answer_s:
      description: First text that is not thinking.
      type: float
      returned: success
      sample: 0.07
    first_event_s:
      description: First event of any kind.
      type: float
      returned: success
      sample: 0.069
    completion_tokens:
      description: Tokens by the server's usage.
      type: int
      returned: success
      sample: 512
    decode_tok_s:
      description: Tokens per second, null where invalid.
      type: float
      returned: success
      sample: 79.25
    decode_invalid_reason:
      description: Why there is no decode figure, else null.
      type: str
      returned: success
      sample: null
    max_gap_s:
      description: Longest time between two token events.
      type: float
      returned: success
      sample: 0.031
    finish_reason:
      description: Why the engine ended.
      type: str
      returned: success
      sample: length
    text:
      description: The answer.
      type: str
      returned: success
      sample: When the first lamp was lit...
    reasoning:
      description: Thinking text, empty when there was none.
      type: str
      returned: success
      sample: ""
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
  sample: decode-prose
results_path:
  description: Where the result document lies; null when no path was given.
  returned: always
  type: str
  sample: /home/nvidia/lightning-spike/2026-09-13-lightning-thor/results/B.decode-prose.json
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
  sample: {schema: lobes.spike/result/1, phase: decode, name: decode-prose, status: complete}
planned:
  description: The plan, its hash, and how many requests and tokens it would send.
  returned: in check mode
  type: dict
  sample: {phase: decode, requests: 3}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.workloads.decode import plan_only, run
from ansible_collections.lobes.spike.plugins.module_utils.workloads.options import COMMON_OPTIONS
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import Common, DecodePlan

PROMPT = "Write an essay of about five hundred words on how the work of a lighthouse keeper changed over two centuries."


def main() -> None:
    """Read the options, measure (or plan), return."""
    module = AnsibleModule(
        argument_spec={
            **COMMON_OPTIONS,
            "name": {"type": "str", "default": "prose"},
            "prompt": {"type": "str", "default": PROMPT},
            "max_tokens": {"type": "int", "default": 512, "no_log": False},
            "runs": {"type": "int", "default": 3},
            "warmup_runs": {"type": "int", "default": 0},
            "forced": {"type": "bool", "default": True},
        },
        mutually_exclusive=[("api_key_file", "api_key_env")],
        supports_check_mode=True,
    )
    try:
        common = Common.from_options(module.params)
        plan = DecodePlan.from_options(module.params)
        result = plan_only(plan, common) if module.check_mode else run(plan, common)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
