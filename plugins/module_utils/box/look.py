# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One read-only look at a box: every section of ``box.json``."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timezone
from typing import Any

from . import disk, docker, fan, gpu, hf_cache, hwmon, identity, memory, ports, power, thermal
from .source import Source

SCHEMA = "lobes.spike/box/1"
# A box that carries this file is a double, and every document made from it says SIMULATED.
SIMULATED_MARK = "/etc/lobes-spike-simulated"

SECTIONS = (
    "identity",
    "memory",
    "power",
    "cpu",
    "fan",
    "gpu",
    "thermal",
    "hwmon",
    "disks",
    "docker",
    "ports",
    "sysctls",
    "hf_cache",
)
# What a spike writes (drop_caches), and what would change how a box behaves under it.
SYSCTLS = ("vm.drop_caches", "vm.swappiness", "vm.overcommit_memory", "vm.min_free_kbytes", "kernel.printk")


def look(
    source: Source,
    sections: Collection[str] = SECTIONS,
    disk_paths: Sequence[str] = (),
    cache: str | None = None,
    cache_uid: int | None = None,
) -> dict[str, Any]:
    """The box as it is now, ``{schema, simulated, looked_utc, looked_monotonic_ns, <section>: ...}``.

    Nothing is changed. A section that was not asked for, or does not apply, is None; what would not be read is named
    in ``unreadable`` (path -> reason), since absent and unreadable are different answers.
    """
    box: dict[str, Any] = {
        "schema": SCHEMA,
        "simulated": source.exists(SIMULATED_MARK),
        "looked_utc": datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "looked_monotonic_ns": time.monotonic_ns(),
        "python": platform.python_version(),
        "uid": os.geteuid(),
    }
    cooling = thermal.read_cooling(source) if "thermal" in sections else []
    readers: dict[str, Callable[[], Any]] = {
        "identity": lambda: identity.read_identity(source),
        "memory": lambda: memory.read_memory(source),
        "power": lambda: power.read_power(source),
        "cpu": lambda: {"count": os.cpu_count(), **power.read_cpu(source)},
        "fan": lambda: fan.read_fan(source),
        "gpu": lambda: gpu.read_gpu(source),
        "thermal": lambda: {
            "zones": thermal.read_zones(source),
            "cooling": cooling,
            "throttling": thermal.throttling(cooling),
        },
        "hwmon": lambda: hwmon.read_hwmon(source),
        "docker": lambda: docker.read_engine(source),
        "ports": lambda: ports.read_listeners(source),
        "sysctls": lambda: {name: source.line(f"/proc/sys/{name.replace('.', '/')}") for name in SYSCTLS},
        "hf_cache": lambda: hf_cache.read_hf_cache(source, cache, cache_uid) if cache else None,
    }
    for name in SECTIONS:
        box[name] = readers[name]() if name in sections and name in readers else None
    box["containers"] = box["configuration_files"] = None
    if box["docker"] and box["docker"]["reachable"]:  # one that does not answer is not asked twice
        box["containers"], box["configuration_files"] = docker.read_containers(source)
    if "disks" in sections:
        # Images need room as well, where the engine keeps them.
        root_dir = (box["docker"] or {}).get("root_dir")
        paths = [*disk_paths, *([root_dir] if root_dir and root_dir not in disk_paths else [])]
        box["disks"] = [disk.read_disk(source, path) for path in paths]
    box["unreadable"] = dict(sorted(source.unreadable.items()))
    return box
