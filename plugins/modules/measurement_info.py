#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: measurement_info
short_description: Tell how far a measurement is, or what it found
version_added: 1.0.0
description:
  - Reads the result of a measuring module and, while it runs, the progress that it keeps beside it. Reads only.
  - A running measurement is told from one that died by its process, so that a watcher never waits for a dead one.
  - Nothing that is or is not on disk makes it fail.
author:
  - lobes.spike contributors (@lobes)
options:
  path:
    description: The measuring module's O(ignore:results_path).
    type: path
    required: true
  job_file:
    description:
      - The C(results_file) of the job that measures, where it was started with C(async). RV(ended) then also tells a
        job that failed before it measured anything.
    type: path
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
  diff_mode:
    description: Returns what changed in diff mode.
    support: none
"""

EXAMPLES = r"""
- name: Watch a needle until it has ended
  lobes.spike.measurement_info:
    path: "{{ spike_results }}/B.needle-1040000-cold.json"
  register: __needle
  until: __needle.ended
  retries: 480
  delay: 15
"""

RETURN = r"""
state:
  description:
    - V(running) while its process lives, V(finished) when the result is there, V(interrupted) when it was begun and
      its process is gone without a result, V(broken) when something lies there that is no result, V(absent) when
      nothing does.
  returned: always
  type: str
  sample: running
ended:
  description:
    - Whether nothing is measuring any more, with a result or without. With O(job_file) by the job's own file, else by
      RV(state).
  returned: always
  type: bool
  sample: false
finished:
  description: Whether the result is there and nothing is running.
  returned: always
  type: bool
  sample: false
phase:
  description: The phase, null when unknown.
  returned: always
  type: str
  sample: needle
name:
  description: Name of the result, null when unknown.
  returned: always
  type: str
  sample: needle-1040000-cold
progress:
  description:
    - How far it is, refreshed every two seconds; null when nothing is or was running.
  returned: always
  type: dict
  contains:
    done:
      description: Requests that ended.
      type: int
      returned: success
      sample: 0
    total:
      description: Requests of the whole measurement.
      type: int
      returned: success
      sample: 1
    elapsed_s:
      description: Seconds since it began.
      type: float
      returned: success
      sample: 692.4
    tokens:
      description: Completion tokens of the requests that ended.
      type: int
      returned: success
      sample: 0
    stage:
      description: What it is doing.
      type: str
      returned: when the phase has stages
      sample: prefill and answer
    prompt_tokens:
      description: Tokens of the prompt being prefilled.
      type: int
      returned: for a needle
      sample: 1040073
    prefill_tokens_estimate:
      description: Prompt tokens that the engine's cache gauge says are done; null when unknown.
      type: int
      returned: success
      sample: 412160
    kv_cache_usage:
      description: The engine's own gauge, a share from 0 to 1; null when it was not read.
      type: float
      returned: success
      sample: 0.0201
    judgement:
      description:
        - Whether the engine lives, by its own gauges - C(state) is C(moving), C(silent_but_moving), C(stalled), C(dead)
          or C(unknown), C(still_s) for how long nothing has moved, C(evidence) what shows it. Null when nobody looks.
      type: dict
      returned: for a needle, and with a stall limit
      sample:
        state: silent_but_moving
        still_s: 12.0
        stage: null
        stage_s: null
        evidence: [The kv_cache_usage_perc (now 0.0201) last moved 12 s ago.]
    expected:
      description:
        - The seconds to the first token that the shorter cold prefills of the same boot foretell, with bounds
          (C(low_s), C(high_s)) and the time from which they do not explain it (C(late_s)). Null when nothing can be
          foretold.
      type: dict
      returned: for a needle
      sample: {tokens: 1040073, predicted_s: 1702.3, low_s: 611.0, high_s: 1833.2, late_s: 2749.8, points: 3}
    updated_utc:
      description: When this was written.
      type: str
      returned: success
      sample: "2026-09-13T22:16:02.000000Z"
result:
  description:
    - The result document without event times, or, when there is none yet, what is finished so far (its status is then
      V(partial)); null when there is neither.
  returned: always
  type: dict
  sample: null
why:
  description: What is wrong with what lies there, null when nothing is.
  returned: always
  type: str
  sample: null
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.results.progress import inspect, job_ended


def main() -> None:
    """Look at one path."""
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "job_file": {"type": "path"}},
        supports_check_mode=True,
    )
    job_file = module.params["job_file"]
    # The job is looked at first: what it wrote before it ended is then surely seen.
    job = job_ended(job_file) if job_file else None
    seen = inspect(module.params["path"])
    module.exit_json(changed=False, ended=seen["state"] != "running" if job is None else job, **seen)


if __name__ == "__main__":
    main()
