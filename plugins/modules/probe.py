#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: probe
short_description: Ask a served model one question whose answer is known
version_added: 1.0.0
description:
  - Sends one chat request, streamed, and keeps the whole reply with the expectations on it.
  - The verdict is given on the controller, by this module's action plugin (for which it needs jmespath) and again by
    the document; on the box RV(passed) is null. A wrong answer is data, not a failed task.
  - Thinking text never counts as an answer, wherever the engine puts it. What was asked is checked on the reply - the
    model that answered, and thinking off when O(thinking=false).
author:
  - lobes.spike contributors (@lobes)
extends_documentation_fragment:
  - lobes.spike.measurement
options:
  name:
    description: Short name of the probe; the result is called C(probe-<name>).
    type: str
    required: true
  prompt:
    description: The question, as the only message. Mutually exclusive with O(messages).
    type: str
  messages:
    description: The whole conversation, each message with C(role) and C(content).
    type: list
    elements: dict
  tools:
    description: Tools in the form of the chat API.
    type: list
    elements: dict
    default: []
  tool_choice:
    description: As in the chat API, a word or a mapping. Needs O(tools).
    type: raw
  max_tokens:
    description: Longest answer in tokens, thinking included.
    type: int
    default: 1024
  temperature:
    description: Sampling temperature, 0 to 2.
    type: float
    default: 0.0
  thinking:
    description: Whether the model may think first. By default the model's own way is left alone.
    type: bool
  compare_unstreamed:
    description:
      - Whether the same question is also asked unstreamed and a difference in tool calls is noted. By default when
        O(tools) are given, since engines read streamed tool calls with another parser.
    type: bool
  expect:
    description:
      - What the reply must hold. Each expectation has C(query), a JMESPath expression on RV(reply), and one of
        C(equals), C(matches) (a regular expression) and C(contains).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Ask for a sum
  lobes.spike.probe:
    name: known_answer
    prompt: What is 17 + 25? Answer with the number alone.
    expect:
      - {query: content, matches: '(?<![0-9])42(?![0-9])'}
    results_path: "{{ spike_results }}/B.probe-known_answer.json"

- name: Ask for a train's arrival
  lobes.spike.probe:
    name: multi_step
    prompt: >-
      A train leaves at 09:40. It travels two and a half hours, waits 45 minutes, and travels two hours and
      three quarters more. At what time does it arrive? End with the time as HH:MM.
    max_tokens: 2048
    expect:
      - {query: content, contains: "15:40"}

- name: Ask for a tool call
  lobes.spike.probe:
    name: tool_call
    prompt: What is the weather in Tel Aviv in degrees Celsius? Use the tool.
    thinking: false
    tools:
      - type: function
        function:
          name: get_weather
          description: Current weather of a city.
          parameters:
            type: object
            properties:
              city: {type: string}
              unit: {type: string, enum: [c, f]}
            required: [city, unit]
    expect:
      - {query: "tool_calls[0].name", equals: get_weather}
      - {query: "tool_calls[0].arguments", equals: {city: Tel Aviv, unit: c}}
      - {query: finish_reason, equals: tool_calls}
"""

RETURN = r"""
passed:
  description: The verdict; null when the request failed, and on the box, where it is not given.
  returned: when not in check mode
  type: bool
  sample: true
answer:
  description: What was answered, without thinking text; tool calls as C(name(arguments)). Null when it failed.
  returned: when not in check mode
  type: str
  sample: "42"
reply:
  description: The reply as the expectations see it. Null when the request failed.
  returned: when not in check mode
  type: dict
  contains:
    content:
      description: The answer's text, without thinking text.
      type: str
      returned: success
      sample: "42"
    reasoning:
      description: Thinking text, empty when there was none.
      type: str
      returned: success
      sample: ""
    tool_calls:
      description: Calls in order, each with C(id), C(name) and C(arguments) as text.
      type: list
      elements: dict
      returned: success
      sample: [{id: call_1, name: get_weather, arguments: '{"city": "Tel Aviv", "unit": "c"}'}]
    finish_reason:
      description: Why the engine ended.
      type: str
      returned: success
      sample: stop
failed_expectation:
  description: The first expectation that did not hold, with what was found; null when all held or none was judged.
  returned: when not in check mode
  type: dict
  sample: null
wall_s:
  description: Seconds from the first byte sent to the end of the reply; null when the request failed.
  returned: when not in check mode
  type: float
  sample: 2.05
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
  sample: probe-tool_call
results_path:
  description: Where the result document lies; null when no path was given.
  returned: always
  type: str
  sample: /home/nvidia/lightning-spike/2026-09-13-lightning-thor/results/B.probe-tool_call.json
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
  sample: {schema: lobes.spike/result/1, phase: probe, name: probe-tool_call, status: complete}
planned:
  description: The plan, its hash, and how many requests and tokens it would send.
  returned: in check mode
  type: dict
  sample: {phase: probe, requests: 2}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.workloads.options import COMMON_OPTIONS
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import Common, ProbePlan
from ansible_collections.lobes.spike.plugins.module_utils.workloads.probe import plan_only, run


def main() -> None:
    """Read the options, measure (or plan), return."""
    module = AnsibleModule(
        argument_spec={
            **COMMON_OPTIONS,
            "name": {"type": "str", "required": True},
            "prompt": {"type": "str"},
            "messages": {"type": "list", "elements": "dict"},
            "tools": {"type": "list", "elements": "dict", "default": []},
            "tool_choice": {"type": "raw"},
            "max_tokens": {"type": "int", "default": 1024, "no_log": False},
            "temperature": {"type": "float", "default": 0.0},
            "thinking": {"type": "bool"},
            "compare_unstreamed": {"type": "bool"},
            "expect": {"type": "list", "elements": "dict", "required": True},
        },
        mutually_exclusive=[("prompt", "messages"), ("api_key_file", "api_key_env")],
        required_one_of=[("prompt", "messages")],
        supports_check_mode=True,
    )
    try:
        common = Common.from_options(module.params)
        plan = ProbePlan.from_options(module.params)
        result = plan_only(plan, common) if module.check_mode else run(plan, common)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
