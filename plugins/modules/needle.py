#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: needle
short_description: Find a secret in a prompt of an exact number of tokens
version_added: 1.0.0
description:
  - Builds a text of exactly O(prompt_tokens) tokens, counted by the engine's own tokenizer with the chat template
    included, puts a secret at O(depth), and asks for it. The same options give the same text, so a second send is warm.
  - Measures prefill, recall, and decode at that depth with forced tokens. A target that does not fit the served
    window is refused before it is sent.
  - Cold or warm is decided by the engine's own evidence; O(expect) is only what was meant, and is confirmed or
    corrected. C(prefill_tok_s) exists only for a cold sample.
author:
  - lobes.spike contributors (@lobes)
extends_documentation_fragment:
  - lobes.spike.measurement
options:
  prompt_tokens:
    description: Tokens of the whole prompt, chat template included. Met within 0.1 %.
    type: int
    required: true
  depth:
    description:
      - Where the secret lies, in percent of the text from its beginning, below 100. A value below 1 is read as a share,
        so that 0.37 and 37 are the same.
    type: float
    default: 37
  expect:
    description: Whether the prompt is meant to be new to the engine (V(cold)) or in its prefix cache (V(warm)).
    type: str
    choices: [cold, warm]
    default: cold
  forced_tokens:
    description:
      - Tokens that the engine is made to write, for the decode figure at depth. V(0) forces none, and there is no
        decode figure.
    type: int
    default: 256
  decode_apart:
    description:
      - Whether decode at depth is measured by a second request with the same prompt, so that the answer to the
        question is not forced.
    type: bool
    default: false
  secret:
    description: What must be found. It must stand within the first 200 characters of the answer.
    type: str
    default: MAROON-4817
  statement:
    description: The sentence that holds the secret, at the place of C({secret}).
    type: str
    default: "Note for the reader: the code of this log book is {secret}."
  question:
    description: What is asked at the end. It must not hold the secret.
    type: str
    default: >-
      What is the code of this log book? Write the code first, alone on a line. Then tell a long story about the
      harbour.
  seed:
    description: Another seed makes another text.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: Find the secret at 128,000 tokens, cold, watched from outside
  lobes.spike.needle:
    prompt_tokens: 128000
    depth: 37
    expect: cold
    forced_tokens: 256
    results_path: "{{ spike_results }}/B.needle-128000-cold.json"
  async: 7200
  poll: 0

- name: Measure decode at depth on the cached prompt
  lobes.spike.needle:
    prompt_tokens: 128000
    depth: 37
    expect: warm
    results_path: "{{ spike_results }}/B.needle-128000-warm.json"
"""

RETURN = r"""
passed:
  description: Whether the secret stood at the head of the answer; null when the request failed.
  returned: when not in check mode
  type: bool
  sample: true
answer:
  description: The first 200 characters of the answer; null when the request failed.
  returned: when not in check mode
  type: str
  sample: MAROON-4817
prompt_tokens:
  description: Prompt tokens by the server's usage.
  returned: when not in check mode
  type: int
  sample: 128000
target_tokens:
  description: Prompt tokens that were asked for.
  returned: when not in check mode
  type: int
  sample: 128000
depth:
  description: Where the secret lay, in percent.
  returned: when not in check mode
  type: float
  sample: 37.0
ttft_s:
  description: Seconds from the first byte sent to the first text.
  returned: when not in check mode
  type: float
  sample: 46.84
prefill_tok_s:
  description: Prompt tokens computed by the engine / ttft_s, in tokens per second, only for a cold sample.
  returned: when not in check mode
  type: float
  sample: 2732.7
prefill_invalid_reason:
  description: Why there is no prefill figure, else null.
  returned: when not in check mode
  type: str
  sample: null
decode_tok_s:
  description: Tokens per second at depth, null where invalid.
  returned: when not in check mode
  type: float
  sample: 70.83
decode_invalid_reason:
  description: Why there is no decode figure, else null.
  returned: when not in check mode
  type: str
  sample: null
completion_tokens:
  description: Tokens that the decode figure spans, by the server's usage.
  returned: when not in check mode
  type: int
  sample: 256
foretold:
  description:
    - How long the prefill would take by the shorter ones that were proved cold in the same boot and lie in the same
      directory, with the rule, its bounds and, beside it, what came (C(error_s) is prediction minus actual). Null where
      there are none.
  returned: when not in check mode
  type: dict
  sample: {tokens: 1040073, predicted_s: 1702.3, actual_s: 1687.9, error_s: 14.4, error_percent: 0.9}
cache:
  description: Cold or warm, by the engine's own evidence.
  returned: when not in check mode
  type: dict
  contains:
    state:
      description: V(cold), V(warm), V(partial) or V(unproven).
      type: str
      returned: success
      sample: cold
    cached_tokens:
      description: Prompt tokens that came from the cache, null when unproven.
      type: int
      returned: success
      sample: 0
    computed_tokens:
      description: Prompt tokens that the engine computed, null when unproven.
      type: int
      returned: success
      sample: 128000
    evidence:
      description: What the engine said, by which source the state was decided, and the rule.
      type: dict
      returned: success
      sample: {source: usage.prompt_tokens_details.cached_tokens, usage_cached_tokens: 0}
    expected:
      description: What was meant.
      type: str
      returned: success
      sample: cold
    as_expected:
      description: Whether it was as meant; null when unproven.
      type: bool
      returned: success
      sample: true
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
  sample: needle-128000-cold
results_path:
  description: Where the result document lies; null when no path was given.
  returned: always
  type: str
  sample: /home/nvidia/lightning-spike/2026-09-13-lightning-thor/results/B.needle-128000-cold.json
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
  sample: {schema: lobes.spike/result/1, phase: needle, name: needle-128000-cold, status: complete}
planned:
  description: The plan, its hash, and how many requests and tokens it would send.
  returned: in check mode
  type: dict
  sample: {phase: needle, requests: 1}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.workloads.needle import plan_only, run
from ansible_collections.lobes.spike.plugins.module_utils.workloads.options import COMMON_OPTIONS
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import Common, NeedlePlan

QUESTION = (
    "What is the code of this log book? Write the code first, alone on a line. "
    "Then tell a long story about the harbour."
)


def main() -> None:
    """Read the options, measure (or plan), return."""
    module = AnsibleModule(
        argument_spec={
            **COMMON_OPTIONS,
            "prompt_tokens": {"type": "int", "required": True, "no_log": False},
            "depth": {"type": "float", "default": 37},
            "expect": {"type": "str", "choices": ["cold", "warm"], "default": "cold"},
            "forced_tokens": {"type": "int", "default": 256, "no_log": False},
            "decode_apart": {"type": "bool", "default": False},
            "secret": {"type": "str", "default": "MAROON-4817", "no_log": False},
            "statement": {"type": "str", "default": "Note for the reader: the code of this log book is {secret}."},
            "question": {"type": "str", "default": QUESTION},
            "seed": {"type": "int", "default": 1},
        },
        mutually_exclusive=[("api_key_file", "api_key_env")],
        supports_check_mode=True,
    )
    try:
        common = Common.from_options(module.params)
        plan = NeedlePlan.from_options(module.params)
        result = plan_only(plan, common) if module.check_mode else run(plan, common)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
