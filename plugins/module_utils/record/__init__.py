# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A spike's record on the box: sealed by a manifest, packed for the way home."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import SpikeError

SCHEMA = "lobes.spike/manifest/1"
MANIFEST = "manifest.json"
# Written while something runs; not part of what was measured.
PASSING = (".progress", ".tmp")


@dataclass(frozen=True)
class Manifest:
    """The sealed manifest: names of its files (relative, sorted) and its own sha256."""

    names: tuple[str, ...]
    sha256: str


@dataclass(frozen=True)
class Pack:
    """The packed record on the box."""

    path: str
    sha256: str


def file_sha256(path: str) -> str:
    """The sha256 of a file's bytes, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def record_files(folder: str) -> Iterator[str]:
    """Yield the record's files, relative and sorted; links, the manifest and passing files are left out."""
    found = []
    for parent, _dummy, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, folder)
            if (
                relative != MANIFEST
                and not name.endswith(PASSING)
                and os.path.isfile(path)
                and not os.path.islink(path)
            ):
                found.append(relative)
    yield from sorted(found)


def write_manifest(folder: str) -> Manifest:
    """Write ``manifest.json`` (``files``: name to sha256 and bytes), whole or not at all. Raises SpikeError."""
    try:
        files = {
            name: {
                "sha256": file_sha256(os.path.join(folder, name)),
                "bytes": os.path.getsize(os.path.join(folder, name)),
            }
            for name in record_files(folder)
        }
        text = json.dumps({"schema": SCHEMA, "files": files}, indent=1, sort_keys=True) + "\n"
        target = os.path.join(folder, MANIFEST)
        with open(os.open(target + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(target + ".tmp", target)
    except OSError as error:
        raise SpikeError(f"The record in {folder} could not be sealed: {error}") from error
    return Manifest(tuple(files), hashlib.sha256(text.encode()).hexdigest())


def pack(folder: str, manifest: Manifest) -> Pack:
    """Pack the sealed record beside its folder as ``<folder>.tar.gz`` (mode 0600). Raises SpikeError."""
    target = folder.rstrip("/") + ".tar.gz"
    try:
        with (
            open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw,
            tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as archive,
        ):
            for name in (*manifest.names, MANIFEST):
                archive.add(os.path.join(folder, name), arcname=name, recursive=False)
    except OSError as error:
        raise SpikeError(f"The record in {folder} could not be packed: {error}") from error
    return Pack(target, file_sha256(target))
