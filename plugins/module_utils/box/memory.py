# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory and swap, from /proc."""

from __future__ import annotations

from typing import Any

from .source import Source, to_int

_MEMINFO = {
    "MemTotal": "total_bytes",
    "MemFree": "free_bytes",
    "MemAvailable": "available_bytes",
    "Buffers": "buffers_bytes",
    "Cached": "cached_bytes",
    "Shmem": "shmem_bytes",
    "SReclaimable": "slab_reclaimable_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
}


def parse_meminfo(text: str) -> dict[str, int | None]:
    """/proc/meminfo -> bytes by name (``total_bytes``, ``available_bytes``, ...); a line that is not there is None.

    ``page_cache_bytes`` is what dropping the caches could free of it: Buffers + Cached - Shmem + SReclaimable.
    """
    found: dict[str, int | None] = dict.fromkeys(_MEMINFO.values())
    for line in text.splitlines():
        name, _mark, rest = line.partition(":")
        key = _MEMINFO.get(name.strip())
        words = rest.split()
        value = to_int(words[0]) if words else None
        if key is not None and value is not None and value >= 0:
            found[key] = value * 1024 if len(words) > 1 and words[1] == "kB" else value
    parts = [found[key] for key in ("buffers_bytes", "cached_bytes", "slab_reclaimable_bytes")]
    cached = found["cached_bytes"]
    found["page_cache_bytes"] = (
        None if cached is None else max(0, sum(p for p in parts if p is not None) - (found["shmem_bytes"] or 0))
    )
    return found


def parse_vmstat(text: str) -> dict[str, int | None]:
    """/proc/vmstat -> counters since boot: pages swapped in and out, OOM kills. Rates need two readings."""
    wanted = {"pswpin": "swapped_in_pages", "pswpout": "swapped_out_pages", "oom_kill": "oom_kills"}
    found: dict[str, int | None] = dict.fromkeys(wanted.values())
    for line in text.splitlines():
        name, _mark, value = line.partition(" ")
        if name in wanted:
            found[wanted[name]] = to_int(value.strip())
    return found


def read_memory(source: Source) -> dict[str, Any]:
    """``parse_meminfo`` and ``parse_vmstat`` of the box, in one dict."""
    return {**parse_meminfo(source.read("/proc/meminfo") or ""), **parse_vmstat(source.read("/proc/vmstat") or "")}
