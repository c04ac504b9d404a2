# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``docker inspect`` -> what a container is, what state it is in, and a fingerprint of its configuration."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .masking import masked_args

_ANONYMOUS = re.compile(r"[0-9a-f]{64}")


def configuration(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """What defines a container, whatever state it is in, in a form that compares: the input of the fingerprint.

    Holds environment values, so it is hashed, never recorded.
    """
    config = inspected.get("Config") or {}
    host = inspected.get("HostConfig") or {}
    networks = (inspected.get("NetworkSettings") or {}).get("Networks") or {}
    restart = host.get("RestartPolicy") or {}
    return {
        "image": {"id": inspected.get("Image"), "reference": config.get("Image")},
        "command": {"entrypoint": config.get("Entrypoint") or [], "args": config.get("Cmd") or []},
        "env": sorted(config.get("Env") or []),
        "mounts": sorted((_mount(m) for m in inspected.get("Mounts") or []), key=lambda m: str(m["destination"])),
        "tmpfs": host.get("Tmpfs") or {},
        "ports": host.get("PortBindings") or {},
        "network": {
            "mode": host.get("NetworkMode"),
            "names": sorted(networks),
            "extra_hosts": sorted(host.get("ExtraHosts") or []),
            "dns": host.get("Dns") or [],
        },
        "restart_policy": {"name": restart.get("Name") or "no", "retries": restart.get("MaximumRetryCount") or 0},
        "runtime": {
            "name": host.get("Runtime"),
            "devices": host.get("Devices") or [],
            "device_requests": host.get("DeviceRequests") or [],
        },
        "labels": config.get("Labels") or {},
        "ulimits": sorted(json.dumps(u, sort_keys=True) for u in host.get("Ulimits") or []),
        "limits": {key: host.get(key) or 0 for key in ("Memory", "MemorySwap", "NanoCpus", "ShmSize", "CpuShares")},
        "security": {
            "user": config.get("User") or "",
            "privileged": bool(host.get("Privileged")),
            "read_only": bool(host.get("ReadonlyRootfs")),
            "capabilities": {"add": sorted(host.get("CapAdd") or []), "drop": sorted(host.get("CapDrop") or [])},
            "options": sorted(host.get("SecurityOpt") or []),
            "groups": sorted(host.get("GroupAdd") or []),
            "ipc": host.get("IpcMode") or "",
            "pid": host.get("PidMode") or "",
        },
        "process": {"directory": config.get("WorkingDir") or "", "health": config.get("Healthcheck")},
    }


def _mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    """A mount without what changes by itself: an anonymous volume is named by chance."""
    name = str(mount.get("Name") or "")
    source = name if mount.get("Type") == "volume" else mount.get("Source")
    return {
        "type": mount.get("Type"),
        "source": "anonymous" if _ANONYMOUS.fullmatch(name) else source,
        "destination": mount.get("Destination"),
        "writable": mount.get("RW"),
        "propagation": mount.get("Propagation"),
    }


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fingerprint(inspected: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """``(sha256, {part: first 16 hex of its sha256})`` of the configuration; the parts tell what changed."""
    parts = {name: _hash(value) for name, value in configuration(inspected).items()}
    return _hash(parts), {name: value[:16] for name, value in parts.items()}


def changed_parts(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The names of the parts of two fingerprints that differ, sorted."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _published(inspected: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Ports published on the box: what the engine says it bound, else what it was told to."""
    bound = (inspected.get("NetworkSettings") or {}).get("Ports") or {}
    told = (inspected.get("HostConfig") or {}).get("PortBindings") or {}
    ports = []
    for where, bindings in (bound or told).items():
        number, _mark, protocol = str(where).partition("/")
        for binding in bindings or []:
            host_port = str(binding.get("HostPort") or "")
            ports.append(
                {
                    "container_port": int(number) if number.isdigit() else None,
                    "protocol": protocol or "tcp",
                    "address": binding.get("HostIp") or "0.0.0.0",
                    "port": int(host_port) if host_port.isdigit() else None,
                }
            )
    return ports


def summary(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """One container as the evidence keeps it: identity, state, configuration without secrets, fingerprint.

    Times are the engine's own UTC strings, None for "never". ``args`` is entrypoint + command, secrets masked.
    """
    config = inspected.get("Config") or {}
    host = inspected.get("HostConfig") or {}
    state = inspected.get("State") or {}
    restart = host.get("RestartPolicy") or {}
    digest, parts = fingerprint(inspected)
    labels = config.get("Labels") or {}
    return {
        "name": str(inspected.get("Name") or "").lstrip("/"),
        "id": inspected.get("Id"),
        "image": config.get("Image"),
        "image_id": inspected.get("Image"),
        "state": state.get("Status"),
        "running": bool(state.get("Running")) and not state.get("Restarting"),
        "started_utc": _time(state.get("StartedAt")),
        "finished_utc": _time(state.get("FinishedAt")),
        "exit_code": state.get("ExitCode"),
        "oom_killed": state.get("OOMKilled"),
        "error": state.get("Error") or None,
        "health": (state.get("Health") or {}).get("Status"),
        "pid": state.get("Pid") or None,
        "restart_policy": restart.get("Name") or "no",
        "restarts": inspected.get("RestartCount"),
        "runtime": host.get("Runtime"),
        "network_mode": host.get("NetworkMode"),
        "ports": _published(inspected),
        "args": masked_args([*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]),
        "env_names": sorted(str(e).partition("=")[0] for e in config.get("Env") or []),
        "labels": {k: v if k.startswith("lobes.") else None for k, v in sorted(labels.items())},
        "configuration_hash": digest,
        "configuration_parts": parts,
    }


def _time(value: object) -> str | None:
    text = str(value or "")
    return None if not text or text.startswith("0001-01-01") else text


def flag_value(args: Sequence[str], flag: str) -> str | None:
    """The value of ``--flag value`` or ``--flag=value`` in a command line (the last one, as the engine reads it).

    Also found inside a single shell argument. Dashes and underscores are the same to the engine.
    """
    words = [word for arg in args for word in str(arg).split()]
    wanted = flag.lstrip("-").replace("_", "-")
    found = None
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.startswith("--") and name.lstrip("-").replace("_", "-") == wanted:
            found = value if equals else (words[i + 1] if i + 1 < len(words) else None)
    return found
