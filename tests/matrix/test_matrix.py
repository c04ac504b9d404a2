# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows are well formed and shown on the page; ``-m slow`` (`make test-faults`) plays every one of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .catalogue import Row, rows
from .page import key
from .play import Player

ROWS = rows()
PAGE = Path(__file__).resolve().parents[2] / "docs/fault-matrix.md"


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    if subprocess.run(["docker", "version"], check=False, capture_output=True).returncode:
        pytest.skip("no container engine answers; `make docker` starts one")
    with Player() as made:
        yield made


def test_no_two_rows_have_the_same_name_and_a_moment_has_its_fault() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.when or not row.inject, row.name
        assert row.then in ("", "again", "cleanup"), row.name


def test_the_page_shows_every_row() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(shown) == len(ROWS)
    for line, row in zip(shown, ROWS, strict=True):
        assert line.startswith(key(row)), f"{row.name}: write the page anew"


@pytest.mark.slow
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_nothing_is_lost(row: Row, player: Player) -> None:
    if row.not_played:
        pytest.skip(row.not_played)
    if row.small_disk and os.geteuid():
        pytest.skip("only root may mount")
    outcome = player.play(row)
    assert not outcome.lost, outcome
    assert not outcome.wrong, outcome
