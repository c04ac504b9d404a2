# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several boxes of one campaign laid side by side: who was measured and how, and how far apart the boxes are.

Each box is judged alone and reduced to what the page needs, so that a hundred of them fit in memory. Boxes that were
measured under other conditions are in another group, and no figure of two groups is put into one spread.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..evidence import Evidence, number, text
from . import baseline, conditions, findings, heat
from .figures import extract, probes
from .lane import left
from .ranking import BAND
from .standing import Standing, standings
from .words import clean, grouped, sentence

LEAST: Final = 3
"""No spread is claimed from fewer boxes."""
FAR: Final = 3.5
NORMAL: Final = 1.4826
"""The MAD of normally spread figures is their standard deviation divided by this."""

RULE: Final = (
    f"spread between boxes: the median, and the MAD (median of the distances from it, as it is), from {LEAST} boxes of "
    f"one group on. An outlier is further from the median than {FAR} x {NORMAL} x MAD and than {BAND:.0%} of the "
    "median. Of figures that several runs made, each box gives the median of its own runs."
)
STATES: Final = ("complete", "partial", "refused", "failed", "skipped")
STATE_WORDS: Final = {
    "complete": "all that was planned was measured",
    "partial": "some of what was planned was measured",
    "refused": "nothing was touched: not approved, or the box was not ready",
    "failed": "nothing could be measured",
    "skipped": "begun, and nothing of it is on record",
}
WHYS_SHOWN: Final = 4


@dataclass(frozen=True)
class Box:
    """One box of the campaign, as far as its own evidence tells.

    ``folder`` is where its evidence lies below the root, ``documents`` which documents lie there. ``alerts`` counts
    those inside windows and is None where it is not known for any. ``beside`` says how the box stands to its baseline,
    empty where it has none. Temperatures are in C, power in W.
    """

    host: str
    spike_id: str
    folder: str
    documents: tuple[str, ...]
    state: str
    why: tuple[str, ...]
    verdict: str
    correctness: tuple[str, ...]
    setting: conditions.Conditions
    arms: Mapping[str, str]
    arm_settings: Mapping[str, conditions.Conditions]
    standings: tuple[Standing, ...]
    hottest_c: float | None
    power_max_w: float | None
    alerts: int | None
    lane: str
    beside: str
    regressions: tuple[str, ...]
    manifest_sha256: str | None
    simulated: bool
    transcribed: bool


@dataclass(frozen=True)
class Group:
    """Boxes whose figures may be laid together; ``differs`` says against the first group why these are apart."""

    number: int
    hosts: tuple[str, ...]
    setting: conditions.Conditions
    arm_settings: Mapping[str, conditions.Conditions]
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spread:
    """One workload on one arm over the boxes of a group.

    ``figures`` are the boxes' own, by host; ``median``, ``mad`` and ``outliers`` are there from `LEAST` boxes on.
    ``left_out`` says which boxes' figures are of another kind (cold for warm, another plan), and are not in.
    """

    group: int
    arm: str
    workload: str
    measure: str
    higher_is_better: bool
    figures: Mapping[str, Standing]
    median: float | None
    mad: float | None
    outliers: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def ends(self) -> tuple[str, str]:
        """The boxes with the lowest and the highest figure."""
        order = sorted(self.figures, key=lambda host: (self.figures[host].value, host))
        return order[0], order[-1]


@dataclass(frozen=True)
class Fleet:
    """The whole page, ready to be written in any form; ``earlier`` names runs that a later one replaced."""

    campaign: str
    boxes: tuple[Box, ...]
    groups: tuple[Group, ...]
    spreads: tuple[Spread, ...]
    earlier: tuple[str, ...]

    def group_of(self, host: str) -> int | None:
        """The number of a box's group; None for a box without figures."""
        return next((group.number for group in self.groups if host in group.hosts), None)

    @property
    def arms(self) -> dict[str, str]:
        """Every arm that a box measured, with its title."""
        return {arm: title for box in reversed(self.boxes) for arm, title in box.arms.items()}


def look(evidence: Evidence, host: str, folder: str, documents: Sequence[str] = ()) -> Box:
    """Judge one box by its evidence alone."""
    figures = extract(evidence)
    judged = probes(evidence)
    beside = baseline.judge(evidence, figures, judged)
    stood = standings(evidence, figures)
    measured = [arm for arm in evidence.arms if arm.results]
    windows = heat.Windows(evidence)
    state, why = _state(evidence)
    lane = left(evidence)
    told = [
        h.alerts for arm in evidence.arms for r in arm.results if (h := windows.of(r.path, arm.name)).alerts is not None
    ]
    temperatures = [number(found[1], "max") for row in windows.rows if (found := heat.temperature(row))]
    rail = heat.main_rail(windows.rows)
    powers = [number(row, "series", f"power_w.{rail}", "max") for row in windows.rows] if rail else []
    return Box(
        host=clean(host, 80),
        spike_id=clean(text(evidence.spike, "spike_id") or folder.partition("/")[0], 120),
        folder=clean(folder, 240),
        documents=tuple(documents),
        state=state,
        why=why,
        verdict=findings.verdict(evidence, figures),
        correctness=findings.correctness(evidence, judged),
        setting=conditions.of_box(evidence),
        arms={clean(arm.name, 40): clean(arm.title, 60) for arm in measured},
        arm_settings={clean(arm.name, 40): conditions.of_arm(arm) for arm in measured},
        standings=stood,
        hottest_c=max((t for t in temperatures if t is not None), default=None),
        power_max_w=max((p for p in powers if p is not None), default=None),
        alerts=sum(told) if told else None,
        lane=f"{clean(text(evidence.lane, 'name') or 'a lane', 80)}: {lane.words}" if lane else "",
        beside="" if beside is None else f"against {beside.spike_id} on {beside.host}: {baseline.sentences(beside)[0]}",
        regressions=() if beside is None else baseline.regressions(beside),
        manifest_sha256=evidence.manifest.sha256,
        simulated=evidence.simulated,
        transcribed=evidence.transcribed,
    )


def lay_together(campaign: str, boxes: Iterable[Box], earlier: Iterable[str] = ()) -> Fleet:
    """Group the boxes by their conditions and spread every workload over each group."""
    ordered = tuple(sorted(boxes, key=lambda box: _natural(box.host)))
    groups = _groups([box for box in ordered if box.standings])
    return Fleet(
        campaign=clean(campaign, 160),
        boxes=ordered,
        groups=groups,
        spreads=tuple(spread for group in groups for spread in _spreads(group, ordered)),
        earlier=tuple(clean(line, 240) for line in sorted(earlier)),
    )


def _state(evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """One of `STATES`, and why it is not complete."""
    incidents, missing = findings.incidents(evidence, {}), findings.missing(evidence)
    damaged = [f"{clean(damage.path, 120)}: {sentence(damage.reason)}" for damage in evidence.damaged]
    if evidence.manifest.ok is False:
        damaged += [f"manifest: {sentence(problem)}" for problem in evidence.manifest.problems]
    sealed = evidence.manifest.sha256 is not None or evidence.transcribed
    if not any(result.status != "failed" for arm in evidence.arms for result in arm.results):
        refused = [event for event in evidence.events if event.kind == "incident" and _refused(event.data)]
        if refused:
            return "refused", (sentence(refused[-1].data.get("message"), 400),)
        said = _shortened([*incidents, *damaged])
        return ("failed", said) if said else ("skipped", ("No result and no incident is on record.",))
    unwhole = any(result.status != "complete" for arm in evidence.arms for result in arm.results)
    unbooted = any(arm.boot is not None and not arm.boot.ready for arm in evidence.arms)
    unsealed = [] if sealed else ["Its evidence was not brought home whole: the figures are those told while it ran."]
    if unsealed or missing or unwhole or unbooted or damaged:
        return "partial", _shortened([*unsealed, *missing, *incidents, *damaged])
    return "complete", ()


def _refused(incident: Mapping[str, object]) -> bool:
    """Whether a failure is the gate's or the preflight's own, which come before anything is touched."""
    said = str(incident.get("message") or "")
    if incident.get("outcome") == "unreachable":
        return False
    gate = said.startswith("On ") and " this would " in said
    return gate or "othing was touched" in said


def _shortened(sentences: Sequence[str]) -> tuple[str, ...]:
    kept = [clean(line, 400) for line in sentences[:WHYS_SHOWN]]
    rest = len(sentences) - WHYS_SHOWN
    return (*kept, f"And {rest} more, see its own transcript.") if rest > 0 else tuple(kept)


def _natural(host: str) -> tuple[list[tuple[int, int, str]], str]:
    """thor-2 before thor-10."""
    parts = re.findall(r"\d+|\D+", host)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts], host


def _groups(boxes: Sequence[Box]) -> tuple[Group, ...]:
    """A box joins the first group that nothing it knows contradicts; the largest group comes first."""
    made: list[tuple[list[str], conditions.Conditions, dict[str, conditions.Conditions]]] = []
    for box in boxes:
        for hosts, setting, arms in made:
            if box.setting == setting and all(arms.get(arm, own) == own for arm, own in box.arm_settings.items()):
                hosts.append(box.host)
                arms.update(box.arm_settings)
                break
        else:
            made.append(([box.host], box.setting, dict(box.arm_settings)))
    made.sort(key=lambda group: -len(group[0]))
    return tuple(
        Group(n, tuple(hosts), setting, arms, tuple(_apart(setting, arms, made[0][1], made[0][2])) if n > 1 else ())
        for n, (hosts, setting, arms) in enumerate(made, start=1)
    )


def _apart(
    setting: conditions.Conditions,
    arms: Mapping[str, conditions.Conditions],
    first: conditions.Conditions,
    first_arms: Mapping[str, conditions.Conditions],
) -> Iterable[str]:
    """Against the first group; where that has the same of everything, an arm in another group set the two apart."""
    yield from conditions.differences(setting, first, "in group 1")
    for arm in (name for name in arms if name in first_arms):
        for difference in conditions.differences(arms[arm], first_arms[arm], "in group 1"):
            yield f"arm {arm}, {difference}"


def _spreads(group: Group, boxes: Sequence[Box]) -> Iterable[Spread]:
    members = [box for box in boxes if box.host in group.hosts]
    by_key: dict[tuple[str, str], dict[str, Standing]] = {}
    for box in members:
        for one in box.standings:
            by_key.setdefault((clean(one.arm, 40), one.workload), {})[box.host] = one
    order = {key: n for n, key in enumerate(by_key)}
    for (arm, workload), found in sorted(by_key.items(), key=lambda item: (item[0][0], order[item[0]])):
        yield _spread(group.number, arm, workload, found)


def _spread(group: int, arm: str, workload: str, found: Mapping[str, Standing]) -> Spread:
    """Median and MAD of the figures that are of one kind: the kind that most boxes have."""
    kinds = Counter((one.state, one.plan or "") for one in found.values())
    kind = min(kinds, key=lambda one: (-kinds[one], one))
    kept = {host: one for host, one in found.items() if (one.state, one.plan or "") == kind}
    left_out = tuple(
        f"{host} ({one.state}, the others {kind[0]})" if one.state != kind[0] else f"{host} (another plan)"
        for host, one in found.items()
        if host not in kept
    )
    first = next(iter(kept.values()))
    median = mad = None
    outliers: tuple[str, ...] = ()
    if len(kept) >= LEAST:
        median = middle = statistics.median(one.value for one in kept.values())
        mad = statistics.median(abs(one.value - middle) for one in kept.values())
        reach = max(FAR * NORMAL * mad, BAND * middle)
        outliers = tuple(host for host, one in kept.items() if abs(one.value - middle) > reach)
    return Spread(group, arm, workload, first.measure, first.higher_is_better, kept, median, mad, outliers, left_out)


def title(fleet: Fleet) -> str:
    """One line: the campaign, and how many boxes came how far."""
    counts = Counter(box.state for box in fleet.boxes)
    told = ", ".join(f"{grouped(counts[state])} {state}" for state in STATES if counts[state]) or "none"
    apart = f"; {len(fleet.groups)} groups that are not averaged together" if len(fleet.groups) > 1 else ""
    return f"fleet — {fleet.campaign}, {grouped(len(fleet.boxes))} boxes: {told}{apart}"
