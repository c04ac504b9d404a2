# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a user may write a Hugging Face cache, its lock directories included."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Collection
from typing import Any

from .source import Source

# A cache can hold thousands of snapshots; the directories that a download writes are few, and this many is plenty.
_LOOK_AT_MOST = 2000


def may_write(found: os.stat_result, uid: int, groups: Collection[int]) -> bool:
    """Whether a user may create and replace entries in a directory, by owner, group and mode.

    Root may always. Access lists beyond the mode are not consulted.
    """
    if uid == 0:
        return True
    if found.st_uid == uid:
        wanted = stat.S_IWUSR | stat.S_IXUSR
    elif found.st_gid in groups:
        wanted = stat.S_IWGRP | stat.S_IXGRP
    else:
        wanted = stat.S_IWOTH | stat.S_IXOTH
    return found.st_mode & wanted == wanted


def groups_of(uid: int) -> list[int]:
    """The groups of a user, its own included; none for a uid without an account."""
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return []
    return sorted({account.pw_gid, *(g.gr_gid for g in grp.getgrall() if account.pw_name in g.gr_mem)})


def _directories(source: Source, cache: str) -> list[str]:
    """The directories that a download writes: hub, its locks, and every model's blobs, refs and snapshots."""
    hub = f"{cache}/hub" if os.path.isdir(source.path(f"{cache}/hub")) else cache
    found = [cache, hub] if hub != cache else [cache]
    locks = f"{hub}/.locks"
    found += [locks, *(f"{locks}/{name}" for name in source.names(locks))]
    for name in source.names(hub):
        if name.startswith("models--"):
            model = f"{hub}/{name}"
            found += [model, f"{model}/blobs", f"{model}/refs", f"{model}/snapshots"]
    return [path for path in found if os.path.isdir(source.path(path))][:_LOOK_AT_MOST]


def _lock_files(source: Source, directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in source.names(directory) if name.endswith(".lock")]


def read_hf_cache(source: Source, cache: str, uid: int | None) -> dict[str, Any]:
    """``{path, exists, uid, user, writable, unwritable: [{path, owner_uid, reason}]}``.

    ``uid`` None stands for the cache's owner, or, where there is no cache yet, the owner of its nearest parent.
    Lock files count as well: one that root left behind stops a download as surely as the directory.
    """
    at = cache
    while not os.path.isdir(source.path(at)) and at != "/":
        at = os.path.dirname(at) or "/"
    exists = at == cache
    who = os.stat(source.path(at)).st_uid if uid is None else uid
    groups = groups_of(who)
    unwritable: list[dict[str, Any]] = []
    for path in _directories(source, cache) if exists else [at]:
        targets = [path, *(_lock_files(source, path) if "/.locks/" in path else [])]
        for target in targets:
            try:
                found = os.stat(source.path(target))
            except OSError as exc:
                unwritable.append({"path": target, "owner_uid": None, "reason": os.strerror(exc.errno or 0)})
                continue
            allowed = may_write(found, who, groups) if target == path else _may_open(found, who, groups)
            if not allowed:
                mode = stat.filemode(found.st_mode)
                reason = f"owned by uid {found.st_uid} gid {found.st_gid}, mode {mode}"
                unwritable.append({"path": target, "owner_uid": found.st_uid, "reason": reason})
    if os.statvfs(source.path(at)).f_flag & os.ST_RDONLY:
        unwritable.append({"path": at, "owner_uid": None, "reason": "on a read-only file system"})
    return {
        "path": cache,
        "exists": exists,
        "uid": who,
        "user": _name(who),
        "writable": not unwritable,
        "unwritable": unwritable,
    }


def _may_open(found: os.stat_result, uid: int, groups: Collection[int]) -> bool:
    """Whether a user may open a file for writing."""
    if uid == 0:
        return True
    if found.st_uid == uid:
        return bool(found.st_mode & stat.S_IWUSR)
    return bool(found.st_mode & (stat.S_IWGRP if found.st_gid in groups else stat.S_IWOTH))


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
