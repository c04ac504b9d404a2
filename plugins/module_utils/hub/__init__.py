# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Hugging Face cache of a box, read as files: which snapshot of a model is there, and is it whole.

Layout (huggingface_hub): ``<cache>/hub/models--<owner>--<name>/{refs/<ref>,snapshots/<40 hex>/...,blobs/...}``.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from dataclasses import dataclass

REVISION = re.compile(r"^[0-9a-f]{7,40}$")


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a model in the cache; ``reason`` says why ``present`` is false."""

    present: bool
    reason: str | None
    model: str
    revision_asked: str | None
    revision: str | None = None
    path: str | None = None
    files: int | None = None
    size_bytes: int | None = None
    fetched_bytes: int | None = None


def repository_folder(hf_cache: str, model: str) -> pathlib.Path:
    """Folder of ``model`` (``owner/name``) below the cache's root."""
    return pathlib.Path(hf_cache) / "hub" / ("models--" + model.replace("/", "--"))


def find_snapshot(hf_cache: str, model: str, revision: str | None) -> Snapshot:
    """Find the snapshot of ``model`` at ``revision`` (7 to 40 hex digits, or None for what ``refs/main`` names).

    A shortened revision must match exactly one snapshot. Nothing is raised: what is wrong stands in ``reason``.
    """
    folder = repository_folder(hf_cache, model)

    def missing(reason: str) -> Snapshot:
        return Snapshot(False, reason, model, revision, fetched_bytes=_folder_bytes(folder / "blobs"))

    try:
        snapshots = sorted(entry.name for entry in (folder / "snapshots").iterdir() if entry.is_dir())
    except OSError as error:
        return missing(f"no snapshot of it: {error.strerror or error}")
    if revision is None:
        try:
            wanted = (folder / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return missing("no revision was asked for and refs/main cannot be read")
    else:
        wanted = revision
    matching = [name for name in snapshots if name.startswith(wanted)]
    if len(matching) != 1:
        have = ", ".join(name[:12] for name in snapshots) or "none"
        return missing(f"{len(matching)} snapshots match revision {wanted}; there: {have}")
    path = folder / "snapshots" / matching[0]
    fault = incomplete_reason(path)
    if fault:
        return missing(fault)
    sizes = [entry.stat().st_size for entry in path.rglob("*") if entry.is_file()]
    return Snapshot(True, None, model, revision, matching[0], str(path), len(sizes), sum(sizes))


def incomplete_reason(snapshot: pathlib.Path) -> str | None:
    """Say why a snapshot folder cannot be served offline, or None when every file it needs is there."""
    if not (snapshot / "config.json").is_file():
        return "config.json is missing"
    index = snapshot / "model.safetensors.index.json"
    if index.exists():
        try:
            needed = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return "model.safetensors.index.json cannot be read"
        absent = sorted(str(name) for name in needed if not (snapshot / os.path.basename(str(name))).is_file())
        return f"the index names files that are missing: {', '.join(absent[:3])}" if absent else None
    if not any(snapshot.glob("*.safetensors")) and not any(snapshot.glob("*.bin")):
        return "no weights"
    return None


def _folder_bytes(folder: pathlib.Path) -> int | None:
    try:
        return sum(entry.stat().st_size for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return None


def fetch_script(model: str, revision: str | None) -> str:
    """Python that fetches the snapshot with the engine image's own huggingface_hub into its cache."""
    return f"from huggingface_hub import snapshot_download; print(snapshot_download({model!r}, revision={revision!r}))"


def fetch_command(hf_cache: str, model: str, revision: str | None, owner: str) -> str:
    """The command to paste that fetches the snapshot as ``owner`` (``uid:gid``); IMAGE stands for the image."""
    return (
        f"docker run --rm --user {owner} -e HOME=/tmp -e HF_HOME=/hf -v {hf_cache}:/hf --entrypoint python3 IMAGE "
        f'-c "{fetch_script(model, revision)}"'
    )
