# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the matrix, read from ``rows.yml``; its head says what a row may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROWS = Path(__file__).with_name("rows.yml")


@dataclass(frozen=True)
class Row:
    """One fault of a whole spike. The members are described at the head of ``rows.yml``."""

    name: str
    fault: str
    promised: str
    phases: str = "decode"
    variables: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    when: Mapping[str, str] = field(default_factory=dict)
    inject: Mapping[str, str] = field(default_factory=dict)
    small_disk: bool = False
    heal: str = ""
    exit: str = "any"
    says: Sequence[str] = ()
    other: Sequence[str] = ()
    then: str = ""
    then_exit: str = "ok"
    then_says: Sequence[str] = ()
    after: str = ""
    document: str = "final"
    document_says: Sequence[str] = ()
    document_refused: Sequence[str] = ()
    worker: str = "exited"
    lanes: str = "untouched"
    box: Mapping[str, str] = field(default_factory=dict)
    not_played: str = ""


@dataclass(frozen=True)
class Outcome:
    """What happened, what had been measured and is gone, and what is wrong (both empty when all is well)."""

    happened: str
    lost: str
    wrong: str


def rows() -> list[Row]:
    """All rows, in the order of the file."""
    return [Row(**entry) for entry in yaml.safe_load(ROWS.read_text(encoding="utf-8"))]
