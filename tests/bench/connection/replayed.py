# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A box that answers at once what another one answered through ``recorded``, whatever it is asked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: replayed
short_description: Answers what another box answered
description: Answers what another box answered.
extends_documentation_fragment: connection_pipelining
options:
  host:
    description: Whose place in the recording.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
"""


class Connection(ConnectionBase):
    """Each host has its own place in the recording, kept in a file: every task is a process of its own."""

    transport = "replayed"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def close(self) -> None:
        self._connected = False

    def reset(self) -> None:
        pass

    def _next(self, kind: str) -> Path:
        host = self.get_option("host")
        place = Path(os.environ["SCALE_PLACES"]) / host
        number = int(place.read_text()) if place.exists() else 0
        place.write_text(str(number + 1))
        (found,) = Path(os.environ["SCALE_ANSWERS"]).glob(f"{number:04d}.*") or [Path("nothing")]
        if found.suffix != f".{kind}":
            raise AnsibleConnectionFailure(f"{host}: {kind} is asked for as number {number}, recorded was {found.name}")
        return found

    def exec_command(self, cmd, in_data=None, sudoable=True):  # type: ignore[no-untyped-def]
        code, length, rest = self._next("exec").read_bytes().split(b"\n", 2)
        return int(code), rest[: int(length)], rest[int(length) :]

    def put_file(self, in_path, out_path):  # type: ignore[no-untyped-def]
        self._next("put")

    def fetch_file(self, in_path, out_path):  # type: ignore[no-untyped-def]
        shutil.copyfile(self._next("fetch"), out_path)
