# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A box made of a directory and a table of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source

Answers = Mapping[tuple[str, ...], tuple[int, str, str]]


@pytest.fixture
def make_source(tmp_path: Path) -> Callable[..., Source]:
    """``make_source(files, commands)``: a Source whose files and commands are exactly these."""

    def make(files: Mapping[str, str] | None = None, commands: Answers | None = None) -> Source:
        for path, text in (files or {}).items():
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

        def run(argv: Sequence[str]) -> tuple[int, str, str]:
            for start, answer in (commands or {}).items():
                if tuple(argv)[: len(start)] == start:
                    return answer
            return 127, "", "not found"

        return Source(run, root=str(tmp_path))

    return make
