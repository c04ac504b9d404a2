# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of the box, by name.

``box fault NAME[:ARG] ...`` inside the box or ``BOX_FAULTS=NAME,NAME`` at its start switches them on,
``box heal [NAME]`` off. They are lines of one file, which the driver and the stand-in tools read at each use.
"""

from __future__ import annotations

import os

SIM = os.environ.get("SPIKE_SIM", "/run/spike-sim")
FILE = os.path.join(SIM, "faults")

FAULTS: dict[str, str] = {
    # tegrastats
    "tegrastats-r39.2": "tegrastats as R39.2 prints it: three figures a rail (else: R38)",
    "tegrastats-orin": "tegrastats of an AGX Orin, R36.4",
    "tegrastats-xavier": "tegrastats of an AGX Xavier, R35: other rails, no unit on them, upper-case zones",
    "tegrastats-absent": "there is no tegrastats",
    "tegrastats-not-executable": "tegrastats may not be run",
    "tegrastats-dies": "tegrastats ends after ARG lines (default 5), the last one cut in the middle",
    "tegrastats-gap": "tegrastats is silent for ARG seconds (default 35) after its fifth line",
    "tegrastats-odd": "-256C, an integer temperature, tj below another zone, a rail twice, averages unlike the current",
    "no-swap": "swap off: no SWAP token, none in meminfo",
    "no-vin": "the VIN rail is missing",
    "clock-jump": "tegrastats' clock steps back ARG seconds (default 3600) after its fifth line",
    # heat and power
    "gpu-asleep": "GPU railgated: gpu-thermal answers EAGAIN, no gpu@, VDD_GPU 0",
    "gpu-flickers": "gpu@ missing from every second line of tegrastats",
    "throttle": "gpu at its 109 C trip while the engine works: ARG alerts 0 -> 1 a minute (default 30)",
    "throttle-always": "the same whether anything works or not",
    "over-current": "oc3 counts while the engine works, with no thermal event at all",
    "cpu-pinned": "every CPU at 242 MHz; scaling_cur_freq says otherwise",
    "hwmon-renumbered": "hwmon numbers as after another boot",
    "power-120w": "power mode 120W, as from the factory",
    "nvpmodel-fails": "nvpmodel answers NVPM ERROR",
    "fan-quiet": "fan profile quiet in conf and status",
    "fan-stale": "conf says cool, the persisted status says quiet",
    "fan-off": "pwm 0, 0 rpm",
    # kernel log
    "dmesg-denied": "no kernel log for anyone: dmesg, journal and /dev/kmsg refuse",
    "dmesg-wrapped": "the ring holds the last ARG seconds only (default 20)",
    "no-journal": "there is no journalctl",
    "nvrm-noise": "NVRM out-of-memory lines while an engine boots, all well",
    "oom-kill": "one OOM-killer report, now",
    # memory
    "page-cache": "87 GiB used that drop_caches gives back",
    "memory-leak": "87 GiB used that drop_caches does not give back",
    "memory-collapse": "MemAvailable falls to nothing within ARG seconds (default 20)",
    "swap-storm": "pages swapped in and out all the time",
    "swap-used": "10.5 GiB of swap used, none moving",
    # container engine and registry
    "no-runtime": "no nvidia runtime",
    "registry-down": "the registry does not answer",
    "registry-slow": "image layers trickle: ARG seconds each (default 10)",
    "registry-cuts": "image layers end in the middle",
    "registry-lies": "the manifest sent is not the one asked for by digest",
    "docker-restarts": "the container engine ends and is back after ARG seconds (default 2); its containers stop",
    "docker-down": "the container engine does not answer",
    # disk and cache
    "cache-locks-foreign": ".locks of the HF cache not writable by the cache's owner",
    "cache-truncated": "one shard of the model cut short",
    "cache-missing-shard": "one shard that the index names is not there",
    "cache-other-revision": "the cache holds another commit of the model than the pinned one",
    "cache-full": "the file system of the HF cache has no room left",
    "cache-empty": "the HF cache is empty",
    "disk-full": "the disk of the spike's directory is full",
    # others
    "port-process": "a process holds 127.0.0.1:8090",
    "port-container": "a container holds 127.0.0.1:8090",
    "lane-frees-memory": "the embed lane gives back its memory ARG seconds (default 2) after an engine began to boot",
    "host-wedge": "the box stops answering for ARG seconds (default 60): every process of ssh sessions is frozen",
}


def active() -> dict[str, str]:
    """The faults that are on, with their arguments ('' for none)."""
    try:
        with open(FILE, encoding="utf-8") as file:
            rows = file.read().split()
    except OSError:
        return {}
    return {name: arg for name, _, arg in (row.partition(":") for row in rows) if name in FAULTS}


def number(on: dict[str, str], name: str, default: float) -> float:
    """The argument of a fault as a number."""
    return float(on.get(name) or default)


def listing() -> str:
    """The table that --list-faults prints."""
    width = max(map(len, FAULTS))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in FAULTS.items())
