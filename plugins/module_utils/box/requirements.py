# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A box against what a spike needs of it: every failed requirement at once, each with its remedy."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import ports

GIB = 1 << 30
Problem = dict[str, Any]


@dataclass(frozen=True)
class Needs:
    """What is asked of the box; a need that is None, empty or False is not asked.

    ``memory_utilization`` is the engine's share of all memory (0..1); sizes are GiB (2**30 bytes). ``drop_caches`` says
    that the page cache is dropped before the engine starts.
    ``own_label`` (``key`` or ``key=value``) marks the spike's own containers, which go before the engine starts:
    they may hold the port.
    """

    docker: bool = True
    docker_runtime: str | None = None
    port: int | None = None
    own_label: str | None = None
    min_disk_free_gib: float | None = None
    hf_cache_writable: bool = False
    lanes: Sequence[str] = field(default_factory=tuple)
    memory_utilization: float | None = None
    drop_caches: bool = False
    min_memory_available_gib: float | None = None


def problem(name: str, found: object, wanted: object, remedy: str) -> Problem:
    """One failed requirement: the field, what was found, what was wanted (both as text), what to do about it."""
    return {"field": name, "found": str(found), "wanted": str(wanted), "remedy": remedy}


def judge(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    """Every requirement the box fails, in reading order; an unknown is not a failure."""
    rules: tuple[Callable[[Mapping[str, Any], Needs], list[Problem]], ...] = (
        _python,
        _docker,
        _lanes,
        _port,
        _disk,
        _hf_cache,
        _memory,
    )
    return [found for rule in rules for found in rule(box, needs)]


def has_label(container: Mapping[str, Any], label: str | None) -> bool:
    """Whether a container carries a label, given as ``key`` or ``key=value``; never for no label."""
    key, equals, value = (label or "").partition("=")
    return key in container["labels"] and (not equals or container["labels"][key] == value) if key else False


def _python(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    major, minor = (int(part) for part in str(box["python"]).split(".")[:2])
    if (major, minor) >= (3, 10):
        return []
    remedy = "Install a newer Python and point ansible_python_interpreter at it."
    return [problem("python", box["python"], ">= 3.10", remedy)]


def _docker(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    engine = box["docker"]
    if engine is None or not needs.docker:
        return []
    if not engine["reachable"]:
        remedy = "Start the container engine and let this user reach it (group docker, or become)."
        return [problem("docker", engine["reason"], "an engine that answers", remedy)]
    if needs.docker_runtime and needs.docker_runtime not in engine["runtimes"]:
        known = ", ".join(engine["runtimes"]) or "none"
        remedy = (
            f"Register the runtime {needs.docker_runtime} in /etc/docker/daemon.json and restart the engine, "
            "or name another one."
        )
        return [problem("docker_runtime", known, needs.docker_runtime, remedy)]
    return []


def _lanes(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    if box["containers"] is None:
        return []
    known = [c["name"] for c in box["containers"]]
    remedy = "Correct the lane's name in the inventory, or take it out if this box does not have the lane."
    return [
        problem(f"lane {lane}", "no container of that name; there are: " + (", ".join(known) or "none"), lane, remedy)
        for lane in needs.lanes
        if lane not in known
    ]


def _port(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    if needs.port is None or box["ports"] is None:
        return []
    found = ports.holders(needs.port, box["ports"], box["containers"])
    if any(h["kind"] == "container" and has_label(h, needs.own_label) for h in found):
        return []
    problems = []
    for holder in found:
        if holder["kind"] == "container":
            who = f"taken by the container {holder['name']}"
            remedy = f"Stop that container (docker stop {shlex.quote(holder['name'])}) or set another spike_port."
        elif holder["pid"] is not None:
            who = f"taken by the process {holder['name']} (pid {holder['pid']}) on {holder['address']}"
            remedy = f"Stop the process with pid {holder['pid']} or set another spike_port."
        else:
            who = f"taken by a process of another user on {holder['address']}"
            remedy = "Find it with: sudo ss -ltnp; stop it or set another spike_port."
        problems.append(problem(f"port {needs.port}", who, "free on 127.0.0.1", remedy))
    return problems


def _disk(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    problems = []
    systems: dict[Any, list[dict[str, Any]]] = {}
    for entry in box["disks"] or []:
        systems.setdefault((entry["device"], entry["read_only"]), []).append(entry)
    for entries in systems.values():
        entry = entries[0]
        name = f"disk {', '.join(e['path'] for e in entries)}"
        if entry["read_only"]:
            problems.append(problem(name, "read-only", "writable", "Remount it, or choose another path."))
        elif entry["free_bytes"] is not None and needs.min_disk_free_gib is not None:
            free = entry["free_bytes"] / GIB
            if free < needs.min_disk_free_gib:
                wanted = f">= {needs.min_disk_free_gib:g} GiB free"
                remedy = f"Free some room on the file system of {entry['measured_at']}, or choose another path."
                problems.append(problem(name, f"{free:.1f} GiB free", wanted, remedy))
    return problems


def _hf_cache(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    cache = box["hf_cache"]
    if cache is None or not needs.hf_cache_writable or cache["writable"]:
        return []
    bad = cache["unwritable"]
    shown = "; ".join(f"{b['path']} ({b['reason']})" for b in bad[:3])
    if len(bad) > 3:
        shown += f"; and {len(bad) - 3} more"
    who = cache["user"] or cache["uid"]
    remedy = (
        f"sudo chown -R {who} {shlex.quote(cache['path'])}, or fetch as the uid that owns these "
        "(lock directories made by a root container are the usual cause)."
    )
    return [problem(f"hf_cache {cache['path']}", shown, f"writable by uid {cache['uid']}", remedy)]


def _memory(box: Mapping[str, Any], needs: Needs) -> list[Problem]:
    foretold = box.get("memory_forecast")
    if foretold is None or foretold["enough"] is not False:
        return []
    available, lane, wanted = (foretold[k] / GIB for k in ("available_bytes", "lane_bytes", "wanted_bytes"))
    found = f"{available:.1f} GiB available"
    if foretold["lane_bytes"]:
        found += f" + {lane:.1f} GiB given back ({foretold['lane_source']})"
    asked = []
    if needs.memory_utilization is not None and box["memory"]["total_bytes"] is not None:
        asked.append(f"{needs.memory_utilization:g} x {box['memory']['total_bytes'] / GIB:.2f} GiB")
    if needs.min_memory_available_gib is not None:
        asked.append(f"{needs.min_memory_available_gib:g} GiB")
    remedy = "Stop what else holds memory on this box, or lower gpu-memory-utilization in the recipe."
    return [problem("memory", found, f">= {wanted:.1f} GiB ({', at least '.join(asked)})", remedy)]


def remarks(box: Mapping[str, Any]) -> list[str]:
    """What is not wrong but belongs beside every figure: power mode, floating clocks, throttling, the fan."""
    found = []
    power = box["power"]
    if power and power["mode"] and not power["mode"].upper().startswith("MAXN"):
        found.append(f"The power mode is {power['mode']}, not MAXN: figures are of this mode.")
    if box["cpu"] and box["cpu"]["pinned"] is False and box["identity"] and box["identity"]["l4t"]:
        found.append("The CPU clocks float (jetson_clocks was not run): figures vary more.")
    foretold = box.get("memory_forecast")
    if foretold and foretold["wanted_bytes"] is not None and foretold["enough"] is None:
        missing = (foretold["unaccounted_bytes"] or 0) / GIB
        found.append(
            "Whether the engine will have its memory cannot be foretold; it is checked before each boot. "
            f"{missing:.1f} GiB are neither available nor held by a process that can be seen."
        )
    slow = [
        f"{p['name']} at {p['hardware_khz']} kHz, while {p['scaling_khz']} kHz is reported"
        for p in (box["cpu"] or {}).get("policies", [])
        if p["hardware_khz"] and p["scaling_khz"] and p["hardware_khz"] < p["scaling_khz"] / 2
    ]
    if slow:
        found.append(
            "CPUs run far slower than the governor believes (an over-current event?): " + "; ".join(slow) + "."
        )
    if box["thermal"]:
        for device in box["thermal"]["throttling"]["active"]:
            found.append(
                f"{device['type']} is at {device['state']} of {device['max_state']}: the box is throttling now."
            )
    turning = (box["hwmon"] or {}).get("fan") or {}
    if turning.get("pwm") == 0 and turning.get("rpm") == 0:
        found.append("The fan is off (pwm 0, 0 rpm): figures are of a box that nothing cools.")
    if box["fan"] and box["fan"]["stale_conf"]:
        profile = box["fan"]["status"]["profile"]
        found.append(f"/etc/nvfancontrol.conf was edited but the persisted profile {profile} is what is in force.")
    return found
