# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ssh that keeps what a box answered, in order, for ``replayed`` to answer the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ansible.plugins.connection.ssh import DOCUMENTATION as SSH
from ansible.plugins.connection.ssh import Connection as Ssh

DOCUMENTATION = SSH.replace("name: ssh", "name: recorded")


class Connection(Ssh):
    """A connection whose answers are files in ``SCALE_ANSWERS``, numbered in the order of the questions."""

    transport = "recorded"

    def _next(self, kind: str) -> Path:
        folder = Path(os.environ["SCALE_ANSWERS"])
        return folder / f"{len(list(folder.iterdir())):04d}.{kind}"

    def exec_command(self, cmd, in_data=None, sudoable=True):  # type: ignore[no-untyped-def]
        code, out, err = super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        self._next("exec").write_bytes(b"%d\n%d\n" % (code, len(out)) + out + err)
        return code, out, err

    def put_file(self, in_path, out_path):  # type: ignore[no-untyped-def]
        answer = super().put_file(in_path, out_path)
        self._next("put").touch()
        return answer

    def fetch_file(self, in_path, out_path):  # type: ignore[no-untyped-def]
        super().fetch_file(in_path, out_path)
        shutil.copyfile(out_path, self._next("fetch"))
