#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: agentic
short_description: Let agents read files into a growing context and recall facts from it
version_added: 1.0.0
description:
  - Each session has a system prompt and two tools. In each turn the user names a path and the model must call
    C(read_file) with exactly that path; the tool result adds about O(tool_result_tokens) tokens of made-up source with
    one retry budget at a random place. At the end the model must call C(finish) with the budgets of the first, the
    middle and the last file.
  - Every answer is scored and named - V(valid), V(wrong_tool), V(wrong_path), V(malformed_arguments),
    V(text_instead), V(no_call) or V(several_calls). After a wrong one the right call takes its place in the history, so
    that all sessions read the same.
  - Temperature is 0 and thinking is off; thinking text that comes all the same is counted.
author:
  - lobes.spike contributors (@lobes)
extends_documentation_fragment:
  - lobes.spike.measurement
options:
  sessions:
    description: Sessions at once.
    type: int
    default: 1
  turns:
    description: Files that each session reads.
    type: int
    default: 12
  tool_result_tokens:
    description: Tokens of each file, by the engine's tokenizer.
    type: int
    default: 8000
  max_tokens:
    description: Longest answer of a turn in tokens.
    type: int
    default: 512
  system_prompt:
    description: The system prompt, after a tag of the session's own.
    type: str
    default: >-
      You work on a code repository and act only through your tools. When the user names a file, call read_file with
      exactly that path and write nothing else. Each file states one retry budget; remember which file has which. When
      the user asks for retry budgets, call finish with the numbers.
  seed:
    description: Seed of the files. Every run adds a random salt of its own, kept in the result.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: Run one session of twelve turns
  lobes.spike.agentic:
    sessions: 1
    turns: 12
    tool_result_tokens: 8000
    results_path: "{{ spike_results }}/B.agentic-1.json"

- name: Run four sessions at once
  lobes.spike.agentic:
    sessions: 4
    results_path: "{{ spike_results }}/B.agentic-4.json"
  async: 3600
  poll: 0
"""

RETURN = r"""
sessions:
  description: Sessions at once.
  returned: when not in check mode
  type: int
  sample: 4
turns:
  description: Turns of each session, the final report not counted.
  returned: when not in check mode
  type: int
  sample: 12
tool_calls_valid:
  description: Turns that were answered by the right tool with exactly the right path.
  returned: when not in check mode
  type: int
  sample: 48
tool_calls_total:
  description: Turns of all sessions, those that could not be sent included.
  returned: when not in check mode
  type: int
  sample: 48
recall_passed:
  description: Facts that were reported right.
  returned: when not in check mode
  type: int
  sample: 12
recall_total:
  description: Facts that were asked for.
  returned: when not in check mode
  type: int
  sample: 12
verdicts:
  description: How often each verdict was given.
  returned: when not in check mode
  type: dict
  sample: {valid: 48}
thinking_turns:
  description: Turns in which thinking text came although it was off.
  returned: when not in check mode
  type: int
  sample: 0
wall_s:
  description: Seconds from the first byte sent to the end of the last session; null unless all sessions finished.
  returned: when not in check mode
  type: float
  sample: 153.6
ttft_s_p50:
  description: Median seconds to the first text, over the turns.
  returned: when not in check mode
  type: float
  sample: 11.48
ttft_s_max:
  description: Longest time to the first text over the turns, in seconds.
  returned: when not in check mode
  type: float
  sample: 15.98
decode_tok_s_p50:
  description: Median of the valid decode figures; null as a rule, since tool calls are short and not forced.
  returned: when not in check mode
  type: float
  sample: null
decode_tok_s_min:
  description: Least of the valid decode figures; null as a rule.
  returned: when not in check mode
  type: float
  sample: null
burst_tok_s_p50:
  description: Median rate over the tokens of a turn, a burst and not sustained decode; needs 8 tokens and 8 events.
  returned: when not in check mode
  type: float
  sample: 59.2
burst_tok_s_min:
  description: Least of these rates.
  returned: when not in check mode
  type: float
  sample: 51.3
decode_tokens_per_turn:
  description: Median completion tokens of a turn.
  returned: when not in check mode
  type: float
  sample: 29.0
final_prompt_tokens_max:
  description: Prompt tokens of the longest final request.
  returned: when not in check mode
  type: int
  sample: 118013
sessions_detail:
  description: Each session with its turns, its final report and what was recalled.
  returned: when not in check mode
  type: list
  elements: dict
  contains:
    session:
      description: Number of the session, from 1.
      type: int
      returned: success
      sample: 1
    wall_s:
      description: Seconds from its first byte sent to its end; null when it did not finish.
      type: float
      returned: success
      sample: 151.2
    turns:
      description:
        - Each turn with its prompt and cached tokens, ttft_s, completion tokens, rates, wall_s and verdict.
      type: list
      elements: dict
      returned: success
      sample: [{label: s1-t1, prompt_tokens: 379, cached_tokens: 0, ttft_s: 0.32, verdict: valid}]
    final:
      description: The final report in the same form; null when it was not reached.
      type: dict
      returned: success
      sample: {label: s1-final, prompt_tokens: 117929, verdict: valid}
    recall:
      description: For C(early), C(middle) and C(late) what was expected, what came, and whether it passed.
      type: dict
      returned: success
      sample: {early: {expected: 417, got: 417, passed: true}}
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
  sample: agentic-4
results_path:
  description: Where the result document lies; null when no path was given.
  returned: always
  type: str
  sample: /home/nvidia/lightning-spike/2026-09-13-lightning-thor/results/B.agentic-4.json
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
  sample: {schema: lobes.spike/result/1, phase: agentic, name: agentic-4, status: complete}
planned:
  description: The plan, its hash, and how many requests and tokens it would send.
  returned: in check mode
  type: dict
  sample: {phase: agentic, requests: 52}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.workloads.agentic import plan_only, run
from ansible_collections.lobes.spike.plugins.module_utils.workloads.options import COMMON_OPTIONS
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import AgenticPlan, Common

SYSTEM_PROMPT = (
    "You work on a code repository and act only through your tools. When the user names a file, call read_file with "
    "exactly that path and write nothing else. Each file states one retry budget; remember which file has which. When "
    "the user asks for retry budgets, call finish with the numbers."
)


def main() -> None:
    """Read the options, measure (or plan), return."""
    module = AnsibleModule(
        argument_spec={
            **COMMON_OPTIONS,
            "sessions": {"type": "int", "default": 1},
            "turns": {"type": "int", "default": 12},
            "tool_result_tokens": {"type": "int", "default": 8000, "no_log": False},
            "max_tokens": {"type": "int", "default": 512, "no_log": False},
            "system_prompt": {"type": "str", "default": SYSTEM_PROMPT},
            "seed": {"type": "int", "default": 1},
        },
        mutually_exclusive=[("api_key_file", "api_key_env")],
        supports_check_mode=True,
    )
    try:
        common = Common.from_options(module.params)
        plan = AgenticPlan.from_options(module.params)
        result = plan_only(plan, common) if module.check_mode else run(plan, common)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
