# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engine, read through its command-line client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .containers import summary
from .source import Source


class DockerError(Exception):
    """The container engine does not answer, or not what was asked."""


def _lines(text: str) -> list[Any]:
    """One JSON value a line."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _run(source: Source, argv: Sequence[str]) -> str:
    rc, out, err = source.run(["docker", *argv])
    if rc == 127:
        raise DockerError("there is no docker client on this box")
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


def read_containers(source: Source) -> list[dict[str, Any]] | None:
    """Every container's summary, or None when the engine does not answer."""
    try:
        return [summary(inspected) for inspected in inspect_all(source)]
    except DockerError:
        return None


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
