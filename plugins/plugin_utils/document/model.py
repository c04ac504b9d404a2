# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the document is made of: figures that lead back to the evidence, tables, rankings, findings.

Every form (text, Markdown, HTML, JSON, CSV) is written from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..evidence import Evidence


@dataclass(frozen=True)
class Ref:
    """A place in the evidence: a file, and a JSON pointer in it."""

    path: str
    pointer: str = ""

    def __str__(self) -> str:
        return f"{self.path}#{self.pointer}" if self.pointer else self.path


@dataclass(frozen=True)
class Figure:
    """One number of one arm.

    ``value`` is None when the number is absent or invalid; ``reason`` then says which and why, as far as it is known.
    ``workload`` is what was measured (``decode prose``, ``needle 128000``, ``sweep 32``), ``measure`` the number's name
    with its unit (``ttft_s``), ``state`` cold, warm, ... where that matters, ``run`` counts repeats from 1, ``n`` is
    how many samples the number is made of.
    """

    arm: str
    workload: str
    measure: str
    value: float | None
    ref: Ref
    state: str = ""
    run: int = 1
    n: int | None = 1
    reason: str | None = None


@dataclass(frozen=True)
class Probe:
    """A probe's verdict: None when there is no reply to judge; ``note`` says what was expected and found instead."""

    arm: str
    name: str
    passed: bool | None
    reply: Mapping[str, Any]
    ref: Ref
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """A table's cell and the figures it shows."""

    text: str
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True)
class Row:
    """A labelled row with one cell per column."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A comparison table; ``head`` holds the first column's title and then one title per column."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of the comparison: an arm, and the arms that stand in where it has nothing."""

    title: str
    arms: tuple[str, ...]


@dataclass(frozen=True)
class Contender:
    """An arm in one workload: its runs, from lowest to highest, and their median."""

    arm: str
    figures: tuple[Figure, ...]
    central: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranking:
    """Who wins one workload, by the stated rule.

    ``winners`` has one arm, or several for a tie. ``basis`` says which part of the rule decided; ``indicative`` is true
    when single samples did. ``earlier`` is what an earlier transcript named, and ``earlier_note`` how that compares.
    """

    workload: str
    measure: str
    higher_is_better: bool
    contenders: tuple[Contender, ...]
    winners: tuple[str, ...]
    basis: str
    indicative: bool
    earlier: tuple[str, ...] = ()
    earlier_note: str = ""


@dataclass(frozen=True)
class ArmVerdict:
    """An arm's workloads, sorted: won, tied, lost."""

    arm: str
    wins: tuple[str, ...]
    ties: tuple[str, ...]
    loses: tuple[str, ...]


@dataclass(frozen=True)
class Expected:
    """What the operator expected of an arm, and what the evidence says: confirmed, contradicted or not decidable."""

    arm: str
    sentence: str
    verdict: str
    because: str


@dataclass(frozen=True)
class Beside:
    """One figure or check beside the baseline's: both as they are shown, and regression, improvement, same or not
    comparable. ``because`` says what made them the same, or what keeps them from being compared.
    """

    arm: str
    workload: str
    then: str
    now: str
    difference: str
    word: str
    because: tuple[str, ...] = ()
    indicative: bool = False
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A spike beside an earlier one; ``other_box`` when that was measured on a box of another name."""

    spike_id: str
    host: str
    manifest_sha256: str | None
    rows: tuple[Beside, ...]
    other_box: bool = False


@dataclass(frozen=True)
class Document:
    """The whole document, ready to be written in any form."""

    evidence: Evidence
    figures: tuple[Figure, ...]
    probes: tuple[Probe, ...]
    columns: tuple[Column, ...]
    tables: tuple[Table, ...]
    rankings: tuple[Ranking, ...]
    arm_verdicts: tuple[ArmVerdict, ...]
    expected: tuple[Expected, ...]
    verdict: str
    correctness: tuple[str, ...]
    corrections: tuple[str, ...]
    incidents: tuple[str, ...]
    false_alarms: tuple[str, ...]
    heat_flags: tuple[str, ...]
    coverage_limits: tuple[str, ...]
    not_measured: tuple[str, ...]
    undecided: tuple[str, ...]
    references: Mapping[str, int] = field(default_factory=dict)
    baseline: Comparison | None = None

    def mark(self, path: str) -> str:
        """The reference mark of an evidence file, such as ``[7]``; empty for a file that is not in the list."""
        number = self.references.get(path)
        return f"[{number}]" if number is not None else ""
