# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks a model up in the HF cache as the engine does when it is offline, and finds what is broken in it."""

from __future__ import annotations

import json
import os
import struct

INCOMPLETE = "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"


def cache_root() -> str:
    """The hub directory of the HF cache."""
    home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    return os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")


def snapshot(model: str, revision: str | None) -> str | None:
    """The directory of a model's snapshot in the cache, a local directory itself, or None."""
    if os.path.isdir(model):
        return model
    folder = os.path.join(cache_root(), "models--" + model.replace("/", "--"))
    wanted = revision or "main"
    try:
        with open(os.path.join(folder, "refs", wanted), encoding="ascii") as file:
            wanted = file.read().strip()
    except OSError:
        pass
    path = os.path.join(folder, "snapshots", wanted)
    return path if os.path.isfile(os.path.join(path, "config.json")) else None


def problem(path: str) -> str | None:
    """The error that loading this snapshot ends with, or None."""
    try:
        with open(os.path.join(path, "model.safetensors.index.json"), encoding="utf-8") as file:
            names = set(json.load(file)["weight_map"].values())
    except FileNotFoundError:
        names = {name for name in os.listdir(path) if name.endswith(".safetensors")}
    missing = {name for name in names if not os.path.exists(os.path.join(path, name))}
    if missing:
        return f"FileNotFoundError: Weight files referenced in index but missing: {missing}"
    if not names:
        return f"RuntimeError: Cannot find any model weights with `{path}`"
    return next((INCOMPLETE for name in sorted(names) if not whole(os.path.join(path, name))), None)


def whole(path: str) -> bool:
    """Whether a safetensors file is as long as its header says."""
    with open(path, "rb") as file:
        head = file.read(8)
        if len(head) < 8:
            return False
        length = struct.unpack("<Q", head)[0]
        header = file.read(length)
    if len(header) < length:
        return False
    ends = [t["data_offsets"][1] for name, t in json.loads(header).items() if name != "__metadata__"]
    return bool(os.path.getsize(path) == 8 + length + max(ends, default=0))
