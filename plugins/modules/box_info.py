#!/usr/bin/python
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: box_info
short_description: Look at a box and judge whether it is ready for a spike
version_added: 1.0.0
description:
  - Reads what a box is and how it is now - board, memory, power mode, clocks, fan, GPU, heat, disks, containers with
    the fingerprint of their configuration, listening ports, and who may write the Hugging Face cache.
  - Judges it against O(require) and returns every failed requirement at once, each with its remedy. A failed
    requirement does not fail the task; the caller decides.
  - Changes nothing, in check mode or not. What is absent is null, what could not be read is named in C(unreadable).
author:
  - lobes.spike contributors (@lobes)
options:
  sections:
    description: What to look at. C(docker) includes the containers.
    type: list
    elements: str
    choices: [identity, memory, power, cpu, fan, gpu, thermal, hwmon, disks, docker, ports, sysctls, hf_cache]
    default: [identity, memory, power, cpu, fan, gpu, thermal, hwmon, disks, docker, ports, sysctls, hf_cache]
  lane:
    description:
      - Name of the worker lane's container. Its share of the memory counts as free in the memory forecast, since it is
        stopped before the engine starts.
    type: str
  own_label:
    description:
      - Label of the spike's own containers, as C(key) or C(key=value). They are removed before an engine starts, so
        they may hold O(require.port) and their memory counts as free in the forecast.
    type: str
  hf_cache:
    description: Root of the box's Hugging Face cache, the folder that holds C(hub).
    type: path
  hf_uid:
    description: The uid that downloads into O(hf_cache). By default the cache's owner.
    type: int
  disk_paths:
    description: Paths whose file systems are measured; a path may not exist yet.
    type: list
    elements: path
    default: []
  require:
    description: What the box must have. Nothing is judged without it.
    type: dict
    suboptions:
      docker:
        description: Whether a container engine must answer.
        type: bool
        default: true
      docker_runtime:
        description: Name of a container runtime that must be registered, for example V(nvidia).
        type: str
      port:
        description: TCP port that must be free on 127.0.0.1.
        type: int
      min_disk_free_gib:
        description: Free room that each of O(disk_paths) must have, in GiB.
        type: float
      hf_cache_writable:
        description: Whether O(hf_uid) must be able to write O(hf_cache), its lock directories included.
        type: bool
        default: false
      lanes:
        description: Names of containers that must be there, running or not.
        type: list
        elements: str
        default: []
      memory_utilization:
        description:
          - The engine's share of all memory, above 0 up to 1. MemAvailable, and what O(lane) gives back when it stops,
            must reach it.
        type: float
      drop_caches:
        description:
          - Whether the page cache is dropped before the engine starts. Memory that is neither available nor held by a
            process may then still become available, so its lack alone is unknown and not a failed requirement.
        type: bool
        default: false
      min_memory_available_gib:
        description: Memory in GiB that must be available in the same sense.
        type: float
attributes:
  check_mode:
    description: Can run in check mode; it never changes anything.
    support: full
  diff_mode:
    description: Has nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Look at the box and judge it
  lobes.spike.box_info:
    lane: model-gear-vllm-worker
    hf_cache: ~/.cache/huggingface
    disk_paths: [~/lightning-spike]
    require:
      docker_runtime: nvidia
      port: 8090
      min_disk_free_gib: 60
      hf_cache_writable: true
      memory_utilization: 0.7
  register: look

- name: Look at the memory only
  lobes.spike.box_info:
    sections: [memory]
"""

RETURN = r"""
box:
  description:
    - The box as it is now, the content of C(box.json). Sizes are bytes, temperatures degrees Celsius, power watts,
      clocks kHz; null is "not there" or "not known".
    - C(containers) are null when the engine does not answer. C(configuration_hash) of a container is the same for the
      same configuration, whatever the container's state; environment values and secrets are in no field.
    - C(configuration_files) are the sha256 of the files that containers are configured by.
  returned: always
  type: dict
  sample:
    schema: lobes.spike/box/1
    simulated: false
    looked_utc: "2026-09-13T20:31:05.120334Z"
    identity:
      model: NVIDIA Jetson AGX Thor Developer Kit
      l4t: {release: 38.2.0, jetpack: "7.0"}
    memory: {total_bytes: 131881054208, available_bytes: 47244640256}
    power: {mode: MAXN, mode_id: 0}
    memory_forecast:
      available_bytes: 47244640256
      lane_bytes: 60129542144
      unaccounted_bytes: 0
      lane_source: "model-gear-vllm-worker: nvidia-smi, per process"
      expected_bytes: 107374182400
      wanted_bytes: 92316737945
      enough: true
    unreadable: {/sys/class/thermal/thermal_zone1/temp: Resource temporarily unavailable}
problems:
  description: Every failed requirement; empty when there is none.
  returned: always
  type: list
  elements: dict
  contains:
    field:
      description: What is wrong, for example C(port 8090).
      type: str
    found:
      description: What the box has.
      type: str
    wanted:
      description: What it should have.
      type: str
    remedy:
      description: What to do about it.
      type: str
  sample:
    - field: port 8090
      found: taken by the container other
      wanted: free on 127.0.0.1
      remedy: Stop that container (docker stop other) or set another spike_port.
remarks:
  description: What is not wrong but belongs beside every figure, one sentence each.
  returned: always
  type: list
  elements: str
  sample: ["The power mode is 120W, not MAXN: figures are of this mode."]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lobes.spike.plugins.module_utils.box.command import runner
from ansible_collections.lobes.spike.plugins.module_utils.box.forecast import forecast, held_bytes, shares
from ansible_collections.lobes.spike.plugins.module_utils.box.look import SECTIONS, look
from ansible_collections.lobes.spike.plugins.module_utils.box.requirements import (
    GIB,
    Needs,
    has_label,
    judge,
    remarks,
)
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError

REQUIRE = {
    "docker": {"type": "bool", "default": True},
    "docker_runtime": {"type": "str"},
    "port": {"type": "int"},
    "min_disk_free_gib": {"type": "float"},
    "hf_cache_writable": {"type": "bool", "default": False},
    "lanes": {"type": "list", "elements": "str", "default": []},
    "memory_utilization": {"type": "float"},
    "drop_caches": {"type": "bool", "default": False},
    "min_memory_available_gib": {"type": "float"},
}


def needs_of(require: dict[str, Any], own_label: str | None) -> Needs:
    """The requirements, checked. Raises PlanError naming the option."""
    share, port = require["memory_utilization"], require["port"]
    if share is not None and not 0 < share <= 1:
        raise PlanError("require.memory_utilization", share, "Give a share of the memory above 0 and up to 1.")
    if port is not None and not 0 < port < 65536:
        raise PlanError("require.port", port, "Give a TCP port, 1 to 65535.")
    return Needs(**require, own_label=own_label)


def foretell(source: Source, box: dict[str, Any], lane_name: str | None, needs: Needs) -> dict[str, Any]:
    """The memory forecast of a box that was looked at."""
    going = [c for c in box["containers"] or [] if c["name"] == lane_name or has_label(c, needs.own_label)]
    processes = (box["gpu"] or {}).get("processes")
    share = shares(source, going, processes, box["memory"]["total_bytes"])
    if box["containers"] is None and (lane_name or needs.own_label):
        share = {"bytes": None, "source": "unknown: the containers could not be looked at"}
    floor = needs.min_memory_available_gib
    floor_bytes = None if floor is None else int(floor * GIB)
    held = held_bytes(source, processes)
    return forecast(box["memory"], share, needs.memory_utilization, floor_bytes, held, needs.drop_caches)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "sections": {"type": "list", "elements": "str", "choices": list(SECTIONS), "default": list(SECTIONS)},
            "lane": {"type": "str"},
            "own_label": {"type": "str"},
            "hf_cache": {"type": "path"},
            "hf_uid": {"type": "int"},
            "disk_paths": {"type": "list", "elements": "path", "default": []},
            "require": {"type": "dict", "options": REQUIRE},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        needs = needs_of(asked["require"], asked["own_label"]) if asked["require"] else None
        source = Source(runner(module.run_command))
        box = look(source, asked["sections"], asked["disk_paths"], asked["hf_cache"], asked["hf_uid"])
        problems: list[dict[str, Any]] = []
        box["memory_forecast"] = None
        if needs is not None:
            if box["memory"] is not None:
                box["memory_forecast"] = foretell(source, box, asked["lane"], needs)
            problems = judge(box, needs)
    except SpikeError as exc:
        module.fail_json(msg=str(exc), **exc.partial)
    module.exit_json(changed=False, box=box, problems=problems, remarks=remarks(box))


if __name__ == "__main__":
    main()
