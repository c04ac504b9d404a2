# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engine, read through its command-line client."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .containers import summary
from .source import COMMAND_TIME_LIMIT_S, Source

LARGEST_FILE = 4 << 20


class DockerError(Exception):
    """The container engine does not answer, or not what was asked."""


def _lines(text: str) -> list[Any]:
    """One JSON value a line."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _run(source: Source, argv: Sequence[str]) -> str:
    rc, out, err = source.run(["docker", *argv])
    if rc == 127:
        raise DockerError("there is no docker client on this box")
    if rc == 124:
        raise DockerError(f"the container engine did not answer docker {argv[0]} within {COMMAND_TIME_LIMIT_S} s")
    if rc != 0:
        raise DockerError((err or out).strip()[:500] or f"docker {argv[0]} ended with {rc}")
    return out


def inspect_all(source: Source) -> list[dict[str, Any]]:
    """``docker inspect`` of every container, running or not, ordered by name. Raises DockerError.

    A container that goes away between the two commands is left out, not an error.
    """
    ids = _run(source, ["ps", "--all", "--quiet", "--no-trunc"]).split()
    if not ids:
        return []
    rc, out, err = source.run(["docker", "inspect", "--type", "container", *ids])
    if rc != 0 and "No such" not in err:
        raise DockerError(err.strip()[:500])
    try:
        found = json.loads(out)
    except ValueError as exc:
        raise DockerError(f"docker inspect did not answer in JSON: {exc}") from exc
    return sorted(found, key=lambda c: str(c.get("Name")))


def read_containers(source: Source) -> tuple[list[dict[str, Any]] | None, dict[str, str | None] | None]:
    """(every container's summary, sha256 of the files they are configured by); None when the engine does not answer.

    The files are those of compose projects and single files mounted into a container; None for one that is not
    readable, "absent" for one that is not there.
    """
    try:
        found = inspect_all(source)
    except DockerError:
        return None, None
    paths = sorted({path for inspected in found for path in configuration_files(source, inspected)})
    return [summary(inspected) for inspected in found], {path: file_hash(source, path) for path in paths}


def configuration_files(source: Source, inspected: Mapping[str, Any]) -> list[str]:
    """Paths of the files on the box that a container is configured by."""
    labels = (inspected.get("Config") or {}).get("Labels") or {}
    named = ",".join(
        str(labels.get(f"com.docker.compose.project.{key}", "")) for key in ("config_files", "environment_file")
    )
    mounted = [
        str(mount["Source"])
        for mount in inspected.get("Mounts") or []
        if mount.get("Type") == "bind" and os.path.isfile(source.path(str(mount.get("Source"))))
    ]
    return [path for path in named.split(",") if path.startswith("/")] + mounted


def file_hash(source: Source, path: str) -> str | None:
    """sha256 of a small file; None when it cannot be read or is larger than 4 MiB."""
    if not source.exists(path):
        return "absent"
    text = source.read(path, LARGEST_FILE + 1)
    if text is None or len(text) > LARGEST_FILE:
        return None
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def read_engine(source: Source) -> dict[str, Any]:
    """``{reachable, reason, version, runtimes, default_runtime, root_dir, cgroup_version, images, networks, volumes}``.

    ``images`` are ``{id, reference}``, ``networks`` and ``volumes`` names; all None when the engine does not answer.
    """
    unknown = dict.fromkeys(
        ("version", "runtimes", "default_runtime", "root_dir", "cgroup_version", "images", "networks", "volumes")
    )
    try:
        info = json.loads(_run(source, ["info", "--format", "{{json .}}"]))
        if info.get("ServerErrors"):
            raise DockerError("; ".join(info["ServerErrors"])[:500])
        images = _lines(_run(source, ["image", "ls", "--no-trunc", "--digests", "--format", "{{json .}}"]))
        networks = _lines(_run(source, ["network", "ls", "--format", "{{json .Name}}"]))
        volumes = _lines(_run(source, ["volume", "ls", "--format", "{{json .Name}}"]))
    except DockerError as exc:
        return {"reachable": False, "reason": str(exc), **unknown}
    except ValueError as exc:
        return {"reachable": False, "reason": f"docker did not answer in JSON: {exc}", **unknown}
    return {
        "reachable": True,
        "reason": None,
        "version": info.get("ServerVersion"),
        "runtimes": sorted(info.get("Runtimes") or {}),
        "default_runtime": info.get("DefaultRuntime"),
        "root_dir": info.get("DockerRootDir"),
        "cgroup_version": info.get("CgroupVersion"),
        "images": sorted(({"id": i.get("ID"), "reference": _reference(i)} for i in images), key=str),
        "networks": sorted(networks),
        "volumes": sorted(volumes),
    }


def _reference(image: dict[str, str]) -> str:
    """``repo:tag``, or ``repo@digest`` for an image that was pulled by digest."""
    tag, digest = image.get("Tag"), image.get("Digest")
    if tag in (None, "<none>") and digest not in (None, "<none>"):
        return f"{image.get('Repository')}@{digest}"
    return f"{image.get('Repository')}:{tag}"
