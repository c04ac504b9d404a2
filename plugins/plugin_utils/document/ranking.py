# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which configuration wins, by workload, under one stated rule.

The rule: each arm's runs give a median and a range. The best median leads. An arm ties with the leader

- where both made two or more runs: when their ranges overlap;
- where either made one: when its median is within `BAND` of the leader's;
- always: when the difference is below the instrument's own error, as calibrated in this spike.

A win that rests on single samples is called indicative.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ..evidence import Evidence, mapping, texts
from .figures import find
from .heat import by_path
from .model import ArmVerdict, Column, Contender, Figure, Ranking, Ref
from .tables import decode_at_depth, decode_names, needle_depths, session_counts, sweep_levels
from .words import clean, decimal, percent

BAND: Final = 0.05
"""Two single samples closer than this share are a tie."""

RULE: Final = (
    f"the best median leads; arms tie where the ranges of their runs overlap (both n >= 2), where a single sample is "
    f"within {BAND:.0%} of the leader, or where the difference is below the instrument's calibrated error. A win that "
    "rests on single samples is indicative. Concurrency: geometric mean of the levels that all arms finished whole."
)


def rankings(evidence: Evidence, columns: Sequence[Column], figures: Sequence[Figure]) -> tuple[Ranking, ...]:
    """One ranking per workload that at least two columns measured."""
    maker = _Ranker(evidence, columns, figures)
    return tuple(ranking for ranking in maker.all() if len(ranking.contenders) > 1)


def verdicts(columns: Sequence[Column], ranked: Iterable[Ranking]) -> tuple[ArmVerdict, ...]:
    """Each column's workloads, sorted by how it did in them."""
    ranked = tuple(ranked)
    return tuple(
        ArmVerdict(
            arm,
            wins=tuple(r.workload for r in ranked if r.winners == (arm,)),
            ties=tuple(r.workload for r in ranked if arm in r.winners and len(r.winners) > 1),
            loses=tuple(r.workload for r in ranked if arm in _arms(r) and arm not in r.winners),
        )
        for arm in (column.arms[0] for column in columns)
    )


def _arms(ranking: Ranking) -> tuple[str, ...]:
    return tuple(contender.arm for contender in ranking.contenders)


class _Ranker:
    def __init__(self, evidence: Evidence, columns: Sequence[Column], figures: Sequence[Figure]) -> None:
        self.heat = by_path(evidence)
        self.columns = columns
        self.figures = figures
        self.ttft_error_s = max(
            (f.value for f in figures if f.measure == "ttft_error_s_p99" and f.value is not None), default=0.0
        )
        self.earlier = mapping(evidence.spike, "earlier", "wins")

    def all(self) -> Iterable[Ranking]:
        for name in decode_names(self.figures):
            yield self.rank(
                f"single-stream {clean(name, 40)}",
                "decode_tok_s",
                True,
                {column.arms[0]: self._first(column, f"decode {name}", "decode_tok_s") for column in self.columns},
            )
        depths = needle_depths(self.figures)
        for depth in depths:
            rates = {c.arms[0]: tuple(f for a in c.arms if (f := decode_at_depth(self.figures, a, depth)))[:1]
                     for c in self.columns}  # fmt: skip
            yield self.rank(f"decode at {depth:,}", "decode_tok_s", True, rates)
        for depth in depths:
            cold = {c.arms[0]: self._first(c, f"needle {depth}", "ttft_s", "cold") for c in self.columns}
            yield self.rank(f"cold prefill {depth:,}", "ttft_s", False, cold)
        yield self._concurrency()
        for sessions in session_counts(self.figures):
            wall = {c.arms[0]: self._first(c, f"agentic {sessions}", "wall_s") for c in self.columns}
            yield self.rank(f"agentic, {sessions} session{'s' if sessions > 1 else ''}", "wall_s", False, wall)

    def _first(self, column: Column, workload: str, measure: str, state: str | None = None) -> tuple[Figure, ...]:
        return next(
            (found for arm in column.arms if (found := find(self.figures, arm, workload, measure, state))),
            (),
        )

    def _concurrency(self) -> Ranking:
        """One score per arm: the geometric mean of its aggregate over the levels that every arm measured."""
        levels = sweep_levels(self.figures)
        by_arm = {
            c.arms[0]: {
                n: f for n in levels for f in self._first(c, f"sweep {n}", "aggregate_tok_s")[:1] if self._whole(f)
            }
            for c in self.columns
        }
        measured = {arm: found for arm, found in by_arm.items() if found}
        shared = [n for n in levels if measured and all(n in found for found in measured.values())]
        scores: dict[str, tuple[Figure, ...]] = {}
        for arm, found in measured.items():
            if shared:
                mean = math.exp(statistics.fmean(math.log(found[n].value or 1.0) for n in shared))
                place = Ref(found[shared[-1]].ref.path, "/summary/levels")
                scores[arm] = (Figure(arm, "sweep", "aggregate_tok_s", mean, place, n=len(shared)),)
        span = f"{shared[0]}..{shared[-1]}" if len(shared) > 1 else "".join(map(str, shared))
        return self.rank(f"concurrency {span}", "aggregate_tok_s", True, scores)

    def _whole(self, figure: Figure) -> bool:
        """A level in which a request failed did other work than the rest; it is not compared."""
        failed = find(self.figures, figure.arm, figure.workload, "failed")
        return figure.value is not None and figure.value > 0 and not any(lost.value for lost in failed)

    def rank(self, workload: str, measure: str, higher: bool, found: Mapping[str, tuple[Figure, ...]]) -> Ranking:
        """Apply the rule to one workload."""
        contenders = sorted(
            (contender for arm, figures in found.items() if (contender := _contender(arm, figures)) is not None),
            key=lambda contender: -contender.central if higher else contender.central,
        )
        if not contenders:
            return Ranking(workload, measure, higher, (), (), "", False)
        leader, rest = contenders[0], contenders[1:]
        tied = {other.arm: why for other in rest if (why := self._tie(leader, other, measure))}
        winners = (leader.arm, *(other.arm for other in rest if other.arm in tied))
        single = any(len(contender.figures) == 1 for contender in contenders[:2])
        if tied:
            basis = "; ".join(dict.fromkeys(tied.values()))
        else:
            basis = f"{percent(leader.central, rest[0].central)} on {rest[0].arm}" if rest else ""
        basis += self._throttled(contenders)
        ranking = Ranking(workload, measure, higher, tuple(contenders), winners, basis, single and not tied)
        return self._against_earlier(ranking)

    def _throttled(self, contenders: Sequence[Contender]) -> str:
        """Which of the compared figures were measured under alerts; the reader must not take them for equal terms."""
        told = {
            contender.arm: heat.alerts
            for contender in contenders
            for figure in contender.figures
            if (heat := self.heat[figure.ref.path]).throttled
        }
        return "".join(f"; {arm} under {alerts} throttle alerts" for arm, alerts in told.items())

    def _tie(self, leader: Contender, other: Contender, measure: str) -> str:
        difference = abs(leader.central - other.central)
        if measure == "ttft_s" and difference < self.ttft_error_s:
            return f"within the instrument's error of {self.ttft_error_s * 1000:.1f} ms"
        if len(leader.figures) > 1 and len(other.figures) > 1:
            overlap = leader.low <= other.high and other.low <= leader.high
            return "the ranges of their runs overlap" if overlap else ""
        share = difference / max(leader.central, other.central)
        return f"single samples within {BAND:.0%}" if share < BAND else ""

    def _against_earlier(self, ranking: Ranking) -> Ranking:
        """Lay an earlier transcript's word for this workload beside ours, and say which rule differs."""
        named = texts(self.earlier, ranking.workload)
        if not named:
            return ranking
        if set(ranking.winners) == set(named):
            note = "agrees, as an indicative win on single samples" if ranking.indicative else "agrees"
        elif set(named) < set(ranking.winners):
            note = "by this rule a tie"
        else:
            note = "differs"
        return replace(ranking, earlier=named, earlier_note=note)


def _contender(arm: str, figures: Sequence[Figure]) -> Contender | None:
    # A speed or a time that is not above zero was not measured, whatever wrote it.
    valid = sorted((f for f in figures if f.value is not None and f.value > 0), key=lambda figure: figure.value or 0.0)
    numbers = [figure.value for figure in valid if figure.value is not None]
    if not numbers:
        return None
    return Contender(arm, tuple(valid), statistics.median(numbers), numbers[0], numbers[-1])


def shown(contender: Contender, measure: str) -> str:
    """``C 84.27 [77.41-86.69]``; the range only where there were several runs."""
    places = 1 if measure in ("wall_s", "aggregate_tok_s") else 2
    spread = ""
    if len(contender.figures) > 1:
        spread = f" [{decimal(contender.low, places)}-{decimal(contender.high, places)}]"
    return f"{contender.arm} {decimal(contender.central, places)}{spread}"
