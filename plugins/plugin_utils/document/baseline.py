# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A spike beside an earlier one: which figures got worse, which got better, and which cannot be compared at all.

What is needed of the earlier spike is kept in the evidence of the later one as ``baseline.json``, so that the document
is made of this evidence alone. The noise is that of the ranking's rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ansible_collections.lobes.spike.plugins.module_utils.results.document import plan_sha256

from ..evidence import BASELINE_NAME, BASELINE_SCHEMA, Evidence, flag, mapping, number, numbers, rows, text
from . import conditions
from .figures import extract, needle_state, needle_target, probes
from .model import Beside, Cell, Comparison, Contender, Figure, Probe, Ref, Row, Table
from .ranking import BAND, contender, tie, ttft_error_s
from .standing import Standing, standings
from .words import ABSENT, clean, decimal, grouped, percent

THERE: Final = "in the baseline"
REGRESSION, IMPROVEMENT, SAME, NOT_COMPARABLE = "regression", "improvement", "same", "not comparable"
WORDS: Final = (REGRESSION, IMPROVEMENT, SAME, NOT_COMPARABLE)
RULE: Final = (
    f"a figure is the same where the ranges of the runs overlap (both n >= 2), where a single sample is within "
    f"{BAND:.0%}, or where the difference is below the instrument's calibrated error; else it is a regression or an "
    f"improvement, indicative where it rests on single samples. {conditions.RULE[0].upper()}{conditions.RULE[1:]}"
)
COUNTED: Final = (REGRESSION, IMPROVEMENT)
REASONS_SHOWN: Final = 6


def keep(evidence: Evidence) -> dict[str, Any]:
    """What a later spike needs of this one, the content of its ``baseline.json``."""
    figures = extract(evidence)
    return {
        "schema": BASELINE_SCHEMA,
        "spike_id": text(evidence.spike, "spike_id"),
        "host": text(evidence.spike, "host"),
        "started_utc": text(evidence.spike, "started_utc"),
        "transcribed": evidence.transcribed,
        "manifest_sha256": evidence.manifest.sha256,
        "conditions": conditions.of_box(evidence),
        "arms": [
            {"name": arm.name, "title": arm.title, "conditions": conditions.of_arm(arm)}
            for arm in evidence.arms
            if arm.results
        ],
        "ttft_error_s": ttft_error_s(figures),
        "figures": [_kept(one) for one in standings(evidence, figures)],
        "checks": [
            {"arm": arm, "name": name, "state": state, "plan_sha256": plan, "passed": passed}
            for arm, name, state, plan, passed, _ref in _checks(evidence, probes(evidence))
        ],
    }


def given(evidence: Evidence) -> Mapping[str, Any]:
    """The baseline in the evidence; empty when there is none, or none that can be read."""
    found = evidence.extra.get(BASELINE_NAME, {})
    return found if text(found, "schema") == BASELINE_SCHEMA else {}


def judge(evidence: Evidence, figures: Sequence[Figure], judged: Sequence[Probe]) -> Comparison | None:
    """Every figure and check of the spike and of its baseline; None when no baseline was given."""
    base = given(evidence)
    if not base:
        return None
    error_s = max(ttft_error_s(figures), number(base, "ttft_error_s") or 0.0)
    apart = _Apart(evidence, base)
    host = text(base, "host")
    found = [
        *_figures(standings(evidence, figures), base, apart, error_s),
        *_compared_checks(evidence, judged, base, apart),
    ]
    order = {arm.name: n for n, arm in enumerate(evidence.arms)}
    return Comparison(
        spike_id=clean(text(base, "spike_id") or "an unnamed spike", 120),
        host=clean(host or "an unnamed box", 80),
        manifest_sha256=text(base, "manifest_sha256"),
        rows=tuple(sorted(found, key=lambda row: order.get(row.arm, len(order)))),
        other_box=host != text(evidence.spike, "host"),
    )


def table(found: Comparison) -> Table:
    """Every figure beside the baseline's."""
    head = ("arm, workload", "baseline", "now", "difference", "verdict", "why")
    made = tuple(
        Row(
            f"{row.arm}, {row.workload}",
            (
                Cell(row.then or ABSENT),
                Cell(row.now or ABSENT, row.refs),
                Cell(row.difference or ABSENT),
                Cell(f"{row.word}{' (indicative)' if row.indicative else ''}"),
                Cell(_limited(row.because)),
            ),
        )
        for row in found.rows
    )
    return Table(f"Against the baseline {found.spike_id} on {found.host}", head, made, (f"Rule: {RULE}.",))


def regressions(found: Comparison) -> tuple[str, ...]:
    """One sentence for every regression."""
    return tuple(_told(row) for row in found.rows if row.word == REGRESSION)


def sentences(found: Comparison) -> tuple[str, ...]:
    """How many figures did how, the regressions and improvements by name, and why others cannot be compared."""
    counts = [(word, sum(row.word == word for row in found.rows)) for word in WORDS]
    sealed = f"its manifest's sha256 {found.manifest_sha256}" if found.manifest_sha256 else "it has no manifest"
    told = ", ".join(f"{n} {word}{'s' if n != 1 and word in COUNTED else ''}" for word, n in counts)
    said = [f"{told} ({sealed})."]
    said += ["The baseline is another box's: how boxes differ is in every difference."] if found.other_box else []
    said += [f"REGRESSION: {line}." for line in regressions(found)]
    said += [f"improvement: {_told(row)}." for row in found.rows if row.word == IMPROVEMENT]
    why: dict[str, list[str]] = {}
    for row in found.rows:
        if row.word == NOT_COMPARABLE:
            why.setdefault(_limited(row.because), []).append(f"{row.arm} {row.workload}")
    for because, names in why.items():
        which = "everything" if len(names) == len(found.rows) else _listed(names)
        said.append(f"not comparable: {which} ({because}).")
    return tuple(said)


class _Apart:
    """Which conditions keep the two spikes apart, as a whole and arm by arm."""

    def __init__(self, evidence: Evidence, base: Mapping[str, Any]) -> None:
        self.whole = conditions.differences(conditions.of_box(evidence), _conditions(base), THERE)
        self.now = {arm.name: conditions.of_arm(arm) for arm in evidence.arms}
        self.then = {name: _conditions(arm) for arm in rows(base, "arms") if (name := text(arm, "name"))}

    def of(self, arm: str) -> list[str]:
        if arm not in self.then or arm not in self.now:
            return self.whole  # that one side has no figure of it is said of each figure
        return [*self.whole, *conditions.differences(self.now[arm], self.then[arm], THERE)]


def _conditions(source: Mapping[str, Any]) -> dict[str, str]:
    found = mapping(source, "conditions")
    return {clean(name, 80): clean(found[name], 160) for name in found}


def _kept(one: Standing) -> dict[str, Any]:
    return {
        "arm": one.arm,
        "workload": one.workload,
        "measure": one.measure,
        "higher_is_better": one.higher_is_better,
        "state": one.state,
        "plan_sha256": one.plan,
        "values": [figure.value for figure in one.contender.figures],
        "throttled": one.heat.throttled,
    }


def _checks(
    evidence: Evidence, judged: Iterable[Probe]
) -> Iterator[tuple[str, str, str, str | None, bool | None, Ref]]:
    """What was right or wrong: arm, name, state, the plan's sha256, whether it passed, and where that stands."""
    plans = {
        result.path: plan_sha256(result.phase, result.plan) if result.plan else None
        for arm in evidence.arms
        for result in arm.results
    }
    for probe in judged:
        yield probe.arm, f"probe {clean(probe.name, 60)}", "", plans.get(probe.ref.path), probe.passed, probe.ref
    for arm in evidence.arms:
        for result in arm.of("needle"):
            name = f"recall at {grouped(needle_target(result))}, {needle_state(result)}"
            passed = flag(result.summary, "passed")
            yield arm.name, name, needle_state(result), plans[result.path], passed, Ref(result.path, "/summary/passed")


def _figures(stood: Iterable[Standing], base: Mapping[str, Any], apart: _Apart, error_s: float) -> Iterator[Beside]:
    then = {
        (text(row, "arm") or "", text(row, "workload") or ""): (n, row) for n, row in enumerate(rows(base, "figures"))
    }
    seen = set()
    for one in stood:
        key = (one.arm, one.workload)
        seen.add(key)
        n, row = then.get(key, (0, {}))
        yield _figure(one, _contender(n, row), row, apart, error_s)
    for key, (n, row) in then.items():
        other = _contender(n, row)
        if key not in seen and other is not None:
            shown = _shown(other, text(row, "measure") or "")
            yield Beside(clean(key[0], 40), clean(key[1], 80), shown, "", "", NOT_COMPARABLE, ("not measured now",))


def _figure(one: Standing, other: Contender | None, row: Mapping[str, Any], apart: _Apart, error_s: float) -> Beside:
    arm, now = clean(one.arm, 40), _shown(one.contender, one.measure)
    refs = tuple(figure.ref for figure in one.contender.figures)
    if other is None:
        return Beside(arm, one.workload, "", now, "", NOT_COMPARABLE, (f"not measured {THERE}",), refs=refs)
    then = _shown(other, one.measure)
    reasons = [*apart.of(one.arm), *_otherwise(one.state, one.plan, row)]
    if reasons:
        return Beside(arm, one.workload, then, now, "", NOT_COMPARABLE, tuple(reasons), refs=refs)
    better, worse = sorted((one.contender, other), key=lambda c: -c.central if one.higher_is_better else c.central)
    alike = tie(better, worse, one.measure, error_s) if one.value != other.central else "the same figure"
    word = SAME if alike else IMPROVEMENT if better is one.contender else REGRESSION
    single = len(one.contender.figures) == 1 or len(other.figures) == 1
    because = [alike] if alike else []
    because += ["measured under throttle alerts now"] if one.heat.throttled else []
    because += [f"measured under throttle alerts {THERE}"] if flag(row, "throttled") else []
    difference = percent(one.value, other.central)
    return Beside(arm, one.workload, then, now, difference, word, tuple(because), single, refs)


def _otherwise(state: str, plan: str | None, row: Mapping[str, Any]) -> Iterator[str]:
    """What keeps two results apart themselves."""
    before = text(row, "state") or ""
    if state != before:
        yield f"{clean(state, 20) or 'no state'} now, {clean(before, 20) or 'no state'} {THERE}"
    elif plan is None or plan != text(row, "plan_sha256"):
        yield "the workload's plan is another, or is not recorded"


def _compared_checks(
    evidence: Evidence, judged: Sequence[Probe], base: Mapping[str, Any], apart: _Apart
) -> Iterator[Beside]:
    then = {(text(row, "arm") or "", text(row, "name") or ""): row for row in rows(base, "checks")}
    words = {True: "passed", False: "FAILED", None: "no verdict"}
    for arm, name, state, plan, passed, ref in _checks(evidence, judged):
        row = then.get((arm, name), {})
        before = flag(row, "passed")
        reasons = [*apart.of(arm), *_otherwise(state, plan, row)] if row else [f"not measured {THERE}"]
        reasons += [] if reasons or (passed is not None and before is not None) else ["one of them has no verdict"]
        word = NOT_COMPARABLE if reasons else SAME if passed is before else IMPROVEMENT if passed else REGRESSION
        shown = words[before] if row else ""
        yield Beside(clean(arm, 40), name, shown, words[passed], "", word, tuple(reasons), refs=(ref,))


def _contender(n: int, row: Mapping[str, Any]) -> Contender | None:
    values = numbers(row, "values")
    arm, measure = text(row, "arm") or "", text(row, "measure") or ""
    place = f"/figures/{n}/values"
    return contender(
        arm,
        [Figure(arm, "", measure, value, Ref(BASELINE_NAME, f"{place}/{index}")) for index, value in enumerate(values)],
    )


def _shown(one: Contender, measure: str) -> str:
    places = 1 if measure in ("wall_s", "aggregate_tok_s") else 3 if measure == "ttft_s" else 2
    unit = "tok/s" if "tok_s" in measure else "s"
    spread = f" [{decimal(one.low, places)}-{decimal(one.high, places)}]" if len(one.figures) > 1 else ""
    return f"{decimal(one.central, places)}{spread} {unit}"


def _told(row: Beside) -> str:
    change = f"{row.difference} " if row.difference else ""
    why = "; ".join([*(["indicative"] if row.indicative else []), *row.because])
    return f"{row.arm}, {row.workload}: {change}({row.then} -> {row.now}{f'; {why}' if why else ''})"


def _limited(reasons: Sequence[str]) -> str:
    more = f"; and {len(reasons) - REASONS_SHOWN} more" if len(reasons) > REASONS_SHOWN else ""
    return f"{'; '.join(reasons[:REASONS_SHOWN])}{more}"


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
