# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in that "fetches" tiny snapshots with the real cache layout, so that fetching can be exercised offline.

SPIKE_HUB (comma-separated) makes it fail: ``unreachable``, ``missing-revision``, ``no-space``, ``interrupted`` (half
the files, then an error), ``truncated`` (one shard cut short), ``missing-file`` (a shard that the index names is not
there), ``slow`` (half a second a file). ``kv-scales`` adds k_scale and v_scale tensors.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sys
import time
from typing import Any

from . import checkpoint
from .errors import LocalEntryNotFoundError, RevisionNotFoundError

__version__ = "1.20.0"


def _hub() -> str:
    home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    return os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")


def _lock(root: str, folder: str) -> None:
    """The lock file that the real client writes before anything else, and with it its errno 13 on a foreign cache."""
    path = os.path.join(root, ".locks", folder)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "snapshot.lock"), "w", encoding="ascii"):
        pass


def _store(folder: str, revision: str, name: str, data: bytes) -> None:
    """A blob and the link to it in the snapshot."""
    digest = hashlib.sha256(data).hexdigest()
    os.makedirs(os.path.join(folder, "blobs"), exist_ok=True)
    with open(os.path.join(folder, "blobs", digest), "wb") as file:
        file.write(data)
    snapshot = os.path.join(folder, "snapshots", revision)
    os.makedirs(snapshot, exist_ok=True)
    link = os.path.join(snapshot, name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(os.path.join("..", "..", "blobs", digest), link)


def snapshot_download(
    repo_id: str, *, revision: str | None = None, cache_dir: str | None = None, local_files_only: bool = False, **_: Any
) -> str:
    """Fetches a snapshot into the cache and returns its folder, as the real function does."""
    troubles = set(os.environ.get("SPIKE_HUB", "").split(","))
    root = cache_dir or _hub()
    name = "models--" + repo_id.replace("/", "--")
    folder, commit = os.path.join(root, name), checkpoint.full_revision(repo_id, revision)
    snapshot = os.path.join(folder, "snapshots", commit)
    if local_files_only or os.environ.get("HF_HUB_OFFLINE") == "1":
        if os.path.isdir(snapshot):
            return snapshot
        raise LocalEntryNotFoundError(
            "Cannot find an appropriate cached snapshot folder for the specified revision on the local disk "
            "and outgoing traffic has been disabled."
        )
    if "unreachable" in troubles:
        raise ConnectionError("HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded")
    if "missing-revision" in troubles:
        raise RevisionNotFoundError(f"404 Client Error. Revision Not Found for repository {repo_id}: {revision}.")
    _lock(root, name)
    if "no-space" in troubles:
        raise OSError(errno.ENOSPC, "No space left on device", os.path.join(folder, "blobs"))
    files = checkpoint.files(repo_id, "kv-scales" in troubles)
    for number, (file, data) in enumerate(sorted(files.items()), 1):
        if "interrupted" in troubles and number > len(files) // 2:
            raise ConnectionError("Connection broken: IncompleteRead")
        if "truncated" in troubles and file.endswith(".safetensors"):
            troubles.discard("truncated")
            data = data[: len(data) // 2]
        if "missing-file" in troubles and file.endswith("of-00005.safetensors"):
            troubles.discard("missing-file")
            continue
        if "slow" in troubles:
            time.sleep(0.5)
        _store(folder, commit, file, data)
        share = number / len(files)
        bar = f"{share:4.0%}|{'█' * int(10 * share):<10}| {number}/{len(files)}"
        sys.stderr.write(f"\rFetching {len(files)} files: {bar}")
    sys.stderr.write("\n")
    if revision is None or revision == "main":
        os.makedirs(os.path.join(folder, "refs"), exist_ok=True)
        with open(os.path.join(folder, "refs", "main"), "w", encoding="ascii") as file_:
            file_.write(commit)
    return snapshot
