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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Workload:
    """One thing that arms are compared in: its figure, which way is better, and the runs of every arm that has it."""

    name: str
    measure: str
    higher_is_better: bool
    found: Mapping[str, tuple[Figure, ...]]


def streams(columns: Sequence[Column], figures: Sequence[Figure]) -> Iterator[Workload]:
    """The workloads of one request at a time: decode, decode at depth, cold prefill."""
    for name in decode_names(figures):
        found = {c.arms[0]: _first(figures, c, f"decode {name}", "decode_tok_s") for c in columns}
        yield Workload(f"single-stream {clean(name, 40)}", "decode_tok_s", True, found)
    depths = needle_depths(figures)
    for depth in depths:
        rates = {c.arms[0]: tuple(f for a in c.arms if (f := decode_at_depth(figures, a, depth)))[:1] for c in columns}
        yield Workload(f"decode at {depth:,}", "decode_tok_s", True, rates)
    for depth in depths:
        cold = {c.arms[0]: _first(figures, c, f"needle {depth}", "ttft_s", "cold") for c in columns}
        yield Workload(f"cold prefill {depth:,}", "ttft_s", False, cold)


def levels(columns: Sequence[Column], figures: Sequence[Figure]) -> Iterator[Workload]:
    """The sweep, level by level; a level in which a request failed did other work than the rest and is left out."""
    for level in sweep_levels(figures):
        found = {
            c.arms[0]: tuple(
                f for f in _first(figures, c, f"sweep {level}", "aggregate_tok_s")[:1] if _finished_whole(figures, f)
            )
            for c in columns
        }
        yield Workload(f"concurrency {level}", "aggregate_tok_s", True, found)


def sessions(columns: Sequence[Column], figures: Sequence[Figure]) -> Iterator[Workload]:
    """The agent sessions, by their number."""
    for count in session_counts(figures):
        wall = {c.arms[0]: _first(figures, c, f"agentic {count}", "wall_s") for c in columns}
        yield Workload(f"agentic, {count} session{'s' if count > 1 else ''}", "wall_s", False, wall)


def ttft_error_s(figures: Iterable[Figure]) -> float:
    """The instrument's own error of a time to first token, as calibrated, in seconds; 0 where it was not."""
    return max((f.value for f in figures if f.measure == "ttft_error_s_p99" and f.value is not None), default=0.0)


def tie(leader: Contender, other: Contender, measure: str, error_s: float) -> str:
    """Why two are the same under the rule; empty when they are not. ``error_s`` is :func:`ttft_error_s`."""
    difference = abs(leader.central - other.central)
    if measure == "ttft_s" and difference < error_s:
        return f"within the instrument's error of {error_s * 1000:.1f} ms"
    if len(leader.figures) > 1 and len(other.figures) > 1:
        overlap = leader.low <= other.high and other.low <= leader.high
        return "the ranges of their runs overlap" if overlap else ""
    share = difference / max(leader.central, other.central)
    return f"single samples within {BAND:.0%}" if share < BAND else ""


def contender(arm: str, figures: Sequence[Figure]) -> Contender | None:
    """An arm's runs of one workload; None when none is a figure."""
    # A speed or a time that is not above zero was not measured, whatever wrote it.
    valid = sorted((f for f in figures if f.value is not None and f.value > 0), key=lambda figure: figure.value or 0.0)
    numbers = [figure.value for figure in valid if figure.value is not None]
    if not numbers:
        return None
    return Contender(arm, tuple(valid), statistics.median(numbers), numbers[0], numbers[-1])


def _first(
    figures: Sequence[Figure], column: Column, workload: str, measure: str, state: str | None = None
) -> tuple[Figure, ...]:
    return next((found for arm in column.arms if (found := find(figures, arm, workload, measure, state))), ())


def _finished_whole(figures: Sequence[Figure], figure: Figure) -> bool:
    failed = find(figures, figure.arm, figure.workload, "failed")
    return figure.value is not None and figure.value > 0 and not any(lost.value for lost in failed)


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
    return tuple(one.arm for one in ranking.contenders)


class _Ranker:
    def __init__(self, evidence: Evidence, columns: Sequence[Column], figures: Sequence[Figure]) -> None:
        self.heat = by_path(evidence)
        self.columns = columns
        self.figures = figures
        self.ttft_error_s = ttft_error_s(figures)
        self.earlier = mapping(evidence.spike, "earlier", "wins")

    def all(self) -> Iterable[Ranking]:
        for one in streams(self.columns, self.figures):
            yield self.rank(one.name, one.measure, one.higher_is_better, one.found)
        yield self._concurrency()
        for one in sessions(self.columns, self.figures):
            yield self.rank(one.name, one.measure, one.higher_is_better, one.found)

    def _concurrency(self) -> Ranking:
        """One score per arm: the geometric mean of its aggregate over the levels that every arm measured."""
        by_level = dict(
            zip(sweep_levels(self.figures), (w.found for w in levels(self.columns, self.figures)), strict=True)
        )
        by_arm = {c.arms[0]: {n: f for n, found in by_level.items() for f in found[c.arms[0]]} for c in self.columns}
        measured = {arm: found for arm, found in by_arm.items() if found}
        shared = [n for n in by_level if measured and all(n in found for found in measured.values())]
        scores: dict[str, tuple[Figure, ...]] = {}
        for arm, found in measured.items():
            if shared:
                mean = math.exp(statistics.fmean(math.log(found[n].value or 1.0) for n in shared))
                place = Ref(found[shared[-1]].ref.path, "/summary/levels")
                scores[arm] = (Figure(arm, "sweep", "aggregate_tok_s", mean, place, n=len(shared)),)
        span = f"{shared[0]}..{shared[-1]}" if len(shared) > 1 else "".join(map(str, shared))
        return self.rank(f"concurrency {span}", "aggregate_tok_s", True, scores)

    def rank(self, workload: str, measure: str, higher: bool, found: Mapping[str, tuple[Figure, ...]]) -> Ranking:
        """Apply the rule to one workload."""
        contenders = sorted(
            (one for arm, figures in found.items() if (one := contender(arm, figures)) is not None),
            key=lambda one: -one.central if higher else one.central,
        )
        if not contenders:
            return Ranking(workload, measure, higher, (), (), "", False)
        leader, rest = contenders[0], contenders[1:]
        tied = {other.arm: why for other in rest if (why := tie(leader, other, measure, self.ttft_error_s))}
        winners = (leader.arm, *(other.arm for other in rest if other.arm in tied))
        single = any(len(one.figures) == 1 for one in contenders[:2])
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
            one.arm: heat.alerts
            for one in contenders
            for figure in one.figures
            if (heat := self.heat[figure.ref.path]).throttled
        }
        return "".join(f"; {arm} under {alerts} throttle alerts" for arm, alerts in told.items())

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


def shown(one: Contender, measure: str) -> str:
    """``C 84.27 [77.41-86.69]``; the range only where there were several runs."""
    places = 1 if measure in ("wall_s", "aggregate_tok_s") else 2
    spread = ""
    if len(one.figures) > 1:
        spread = f" [{decimal(one.low, places)}-{decimal(one.high, places)}]"
    return f"{one.arm} {decimal(one.central, places)}{spread}"
