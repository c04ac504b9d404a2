# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi, whose every field may be N/A on a box with unified memory."""

from __future__ import annotations

import re
from typing import Any

from .source import Source, to_int

FIELDS = (
    ("index", "index"),
    ("name", "name"),
    ("pci.bus_id", "bus_id"),
    ("driver_version", "driver"),
    ("memory.total", "memory_total_mib"),
    ("memory.used", "memory_used_mib"),
    ("memory.free", "memory_free_mib"),
    ("utilization.gpu", "utilization_pct"),
    ("temperature.gpu", "temp_c"),
    ("power.draw", "power_w"),
)
_NUMERIC = {"index", "memory_total_mib", "memory_used_mib", "memory_free_mib", "utilization_pct", "temp_c", "power_w"}
_NUMBER = re.compile(r"^(-?\d+(?:\.\d+)?)\s*(?:MiB|W|C|%|MHz)?$")


def parse_value(text: str) -> float | int | None:
    """One number as nvidia-smi prints it, with or without its unit; ``[N/A]``, ``Not Supported`` and so on are None."""
    found = _NUMBER.match(text.strip())
    if found is None:
        return None
    return float(found[1]) if "." in found[1] else int(found[1])


def parse_text(text: str) -> str | None:
    """One word as nvidia-smi prints it; its ways of saying "no" are None."""
    text = text.strip()
    return None if text.strip("[]").lower() in ("", "n/a", "not supported", "unknown error", "err!") else text


def parse_query(text: str) -> list[dict[str, Any]]:
    """``nvidia-smi --query-gpu=... --format=csv,noheader,nounits`` with ``FIELDS`` -> one dict per GPU."""
    gpus = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(FIELDS):
            continue
        gpus.append(
            {
                key: parse_value(cells[i]) if key in _NUMERIC else parse_text(cells[i])
                for i, (_field, key) in enumerate(FIELDS)
            }
        )
    return gpus


def parse_processes(text: str) -> list[dict[str, Any]]:
    """``--query-compute-apps=pid,process_name,used_memory`` -> ``[{pid, name, used_mib}]``; used_mib None when N/A."""
    processes = []
    for line in text.splitlines():
        first, _mark, rest = line.partition(",")
        name, _mark, used = rest.rpartition(",")
        pid = to_int(first.strip())
        if pid is not None:
            processes.append({"pid": pid, "name": name.strip(), "used_mib": parse_value(used)})
    return processes


def parse_cuda_version(text: str) -> str | None:
    """The CUDA version in nvidia-smi's banner, or None."""
    found = re.search(r"CUDA(?: UMD)? Version:\s*(\d+\.\d+)", text)
    return found[1] if found else None


def read_gpu(source: Source) -> dict[str, Any]:
    """``{gpus: [...], processes: [...]|None, cuda, reason}``; ``reason`` says why there is no GPU to report."""
    nothing: dict[str, Any] = {"gpus": [], "processes": None, "cuda": None}
    query = ",".join(field for field, _key in FIELDS)
    rc, out, err = source.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"])
    if rc == 127:
        return {**nothing, "reason": "there is no nvidia-smi on this box"}
    if rc != 0:
        return {**nothing, "reason": (err or out).strip()[:300] or f"nvidia-smi ended with {rc}"}
    _rc, banner, _err = source.run(["nvidia-smi"])
    rc, apps, _err = source.run(
        ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits"]
    )
    return {
        "gpus": parse_query(out),
        "processes": parse_processes(apps) if rc == 0 else None,
        "cuda": parse_cuda_version(banner),
        "reason": None,
    }
