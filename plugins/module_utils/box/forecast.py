# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Will the engine have the memory it asks for, once the worker lane has stopped? A forecast, with its source named."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .containers import flag_value
from .source import Source, to_float

MIB = 1 << 20
# vLLM's own default of --gpu-memory-utilization.
DEFAULT_UTILIZATION = 0.92


def container_of(source: Source, pid: int) -> str:
    """The control groups of a process, as text: a container's id is in it."""
    return source.read(f"/proc/{pid}/cgroup", 1 << 16) or ""


def cgroup_bytes(source: Source, pid: int | None) -> int | None:
    """What a container's processes hold by its memory control group (v2 or v1), without reclaimable file cache.

    On a box with unified memory this leaves CUDA's allocations out: a lower bound, the last resort.
    """
    if pid is None:
        return None
    for line in container_of(source, pid).splitlines():
        _number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            base, usage_file, cache_key = f"/sys/fs/cgroup{path}", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, usage_file, cache_key = f"/sys/fs/cgroup/memory{path}", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        usage = source.number(f"{base}/{usage_file}")
        if usage is None:
            continue
        for row in (source.read(f"{base}/memory.stat") or "").splitlines():
            key, _mark, value = row.partition(" ")
            if key == cache_key and value.strip().isdigit():
                return max(0, usage - int(value))
        return usage
    return None


def lane_share(
    source: Source,
    lane: Mapping[str, Any],
    processes: Sequence[Mapping[str, Any]] | None,
    total_bytes: int | None,
) -> dict[str, Any]:
    """``{bytes: int|None, source: str}``: what stopping the lane gives back, and by whose word.

    In order: nvidia-smi's per-process memory of the lane's processes; its ``--gpu-memory-utilization`` x total; its
    memory control group.
    """
    mine = [p for p in processes or [] if lane["id"] and lane["id"] in container_of(source, p["pid"])]
    if mine and all(p["used_mib"] is not None for p in mine):
        return {"bytes": int(sum(p["used_mib"] for p in mine) * MIB), "source": "nvidia-smi, per process"}
    asked = to_float(flag_value(lane["args"], "--gpu-memory-utilization"))
    if asked is not None and 0 < asked <= 1 and total_bytes is not None:
        return {"bytes": int(asked * total_bytes), "source": f"its --gpu-memory-utilization {asked:g} x total"}
    held = cgroup_bytes(source, lane["pid"])
    if held is not None:
        return {"bytes": held, "source": "its memory control group (CUDA memory is not in it)"}
    return {"bytes": None, "source": "unknown"}


def shares(
    source: Source,
    containers: Sequence[Mapping[str, Any]],
    processes: Sequence[Mapping[str, Any]] | None,
    total_bytes: int | None,
) -> dict[str, Any]:
    """``lane_share`` of several containers together; unknown as soon as one of them is."""
    found = [(c["name"], lane_share(source, c, processes, total_bytes)) for c in containers if c["running"]]
    if not found:
        return {"bytes": 0, "source": "nothing that will be stopped runs"}
    known = all(share["bytes"] is not None for _name, share in found)
    return {
        "bytes": sum(share["bytes"] for _name, share in found) if known else None,
        "source": "; ".join(f"{name}: {share['source']}" for name, share in found),
    }


def held_bytes(source: Source, processes: Sequence[Mapping[str, Any]] | None) -> int | None:
    """What all processes hold that can be seen: resident memory plus the GPU's by nvidia-smi; None when unknown.

    Shared pages count once for each process, so it is rather too much than too little.
    """
    if any(p["used_mib"] is None for p in processes or []):
        return None
    pages = 0
    for pid in source.names("/proc"):
        words = (source.read(f"/proc/{pid}/statm", 256) or "").split() if pid.isdigit() else []
        pages += int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") + int(sum(p["used_mib"] for p in processes or []) * MIB)


def forecast(
    memory: Mapping[str, Any],
    share: Mapping[str, Any],
    utilization: float | None,
    min_available_bytes: int | None,
    held: int | None = 0,
    drop_caches: bool = False,
) -> dict[str, Any]:
    """``{available_bytes, lane_bytes, lane_source, unaccounted_bytes, expected_bytes, wanted_bytes, enough}``.

    ``wanted_bytes`` is the larger of utilization x MemTotal and ``min_available_bytes``. ``enough`` is None, which is
    not a failure, when something needed is unknown and what is known does not already suffice.

    ``unaccounted_bytes`` is memory that is neither available nor ``held`` by a process that can be seen. On a box with
    unified memory dropping the page cache has been seen to free 87 GiB of it that MemAvailable did not count; with
    ``drop_caches`` planned it may yet become available, so it turns a "no" into "unknown".
    """
    total, available = memory["total_bytes"], memory["available_bytes"]
    by_share = None if utilization is None or total is None else int(utilization * total)
    wanted = max((w for w in (by_share, min_available_bytes) if w is not None), default=None)
    lane_bytes = share["bytes"]
    expected = None if available is None or lane_bytes is None else available + lane_bytes
    unaccounted = None if None in (total, available, held) else max(0, total - available - (held or 0))
    if wanted is None or available is None:
        enough = None
    elif available >= wanted:
        enough = True
    elif expected is None or expected >= wanted:
        enough = None if expected is None else True
    else:
        enough = None if drop_caches and expected + (unaccounted or 0) >= wanted else False
    return {
        "available_bytes": available,
        "lane_bytes": lane_bytes,
        "lane_source": share["source"],
        "unaccounted_bytes": unaccounted,
        "expected_bytes": expected,
        "wanted_bytes": wanted,
        "enough": enough,
    }
