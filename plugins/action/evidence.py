# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of lobes.spike.evidence: fetch the pack, unpack it, hold it against its manifest."""

from __future__ import annotations

import os
import pathlib
import shutil
import tarfile
import tempfile
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import MANIFEST_NAME, check_manifest, sha256_of


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, home: pathlib.Path) -> None:
    """Write one member below ``home``. The box is not trusted: no name may lead elsewhere, nothing but files is taken.

    The standard library's own filter for this is not in every Python 3.11.
    """
    name = pathlib.PurePosixPath(member.name)
    stream = archive.extractfile(member) if member.isreg() else None
    if stream is None or name.is_absolute() or ".." in name.parts:
        raise tarfile.TarError(f"{member.name!r} is no plain file of the record")
    target = home / name
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    passing = target.with_name(target.name + ".fetched")
    with open(os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        shutil.copyfileobj(stream, out)
    os.replace(passing, target)


class ActionModule(ActionBase):
    """Bring a spike's record home and say whether it arrived whole."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module on the box, fetch what it packed, and verify the copy."""
        result = super().run(tmp, task_vars)
        sealed = self._execute_module("lobes.spike.evidence", module_args=self._task.args, task_vars=task_vars)
        result = merge_hash(result, sealed)
        if result.get("failed") or self._task.check_mode:
            return result
        home = pathlib.Path(str(self._task.args["dest"])).expanduser().absolute()
        try:
            fault = self._fetch(sealed["archive"], sealed["archive_sha256"], home)
        except (OSError, tarfile.TarError) as error:
            fault = f"{error.__class__.__name__}: {error}"
        if fault:
            return merge_hash(
                result,
                {
                    "failed": True,
                    "msg": f"The evidence did not arrive whole in {home} ({fault}). It is still on the box, in "
                    f"{self._task.args['path']}; make room or mend the connection and run the spike again.",
                },
            )
        self._execute_module(
            "ansible.builtin.file",
            module_args={"path": sealed["archive"], "state": "absent"},
            task_vars=task_vars,
        )
        check = check_manifest(home)
        result["evidence"] = {
            "dir": str(home),
            "file_count": check.listed,
            "size_bytes": sum(path.stat().st_size for path in home.rglob("*") if path.is_file()),
            "manifest_sha256": sha256_of(home / MANIFEST_NAME),
            "manifest_ok": check.ok is True,
            "faults": list(check.problems),
        }
        return result

    def _fetch(self, archive: str, sha256: str, home: pathlib.Path) -> str | None:
        """Fetch and unpack; return what is wrong, or None."""
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetch-") as passing:
            pack = os.path.join(passing, "record.tar.gz")
            self._connection.fetch_file(archive, pack)
            if sha256_of(pathlib.Path(pack)) != sha256:
                return "its checksum differs from the one taken on the box"
            with tarfile.open(pack) as opened:
                for member in opened:
                    _unpack(opened, member, home)
        return None
