# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How one box did in every workload: what boxes are laid side by side by, and a spike beside an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.lobes.spike.plugins.module_utils.results.document import plan_sha256

from ..evidence import Evidence, number
from . import heat, ranking
from .model import Column, Contender, Figure


@dataclass(frozen=True)
class Standing:
    """One arm in one workload.

    ``state`` is cold, warm, ... for needles, else empty; ``plan`` the sha256 of the workload's plan, None where that is
    not recorded. ``temp_max_c`` (C) and ``power_mean_w`` (W) are those inside the window of the measurement.
    """

    workload: str
    measure: str
    higher_is_better: bool
    contender: Contender
    state: str
    plan: str | None
    heat: heat.Heat
    temp_max_c: float | None = None
    power_mean_w: float | None = None

    @property
    def arm(self) -> str:
        """The arm it was measured on."""
        return self.contender.arm

    @property
    def value(self) -> float:
        """The median of its runs."""
        return self.contender.central


def standings(evidence: Evidence, figures: Sequence[Figure]) -> tuple[Standing, ...]:
    """Every workload that an arm has a valid figure of. No arm stands in for another here."""
    columns = [Column(arm.title, (arm.name,)) for arm in evidence.arms]
    windows = heat.Windows(evidence)
    rail = heat.main_rail(windows.rows)
    # Taken anew from the plan: the record of a run that broke off holds the plan and not its sum.
    plans = {
        result.path: plan_sha256(result.phase, result.plan)
        for arm in evidence.arms
        for result in arm.results
        if result.plan
    }
    found = []
    for maker in (ranking.streams, ranking.levels, ranking.sessions):
        for work in maker(columns, figures):
            for arm, runs in work.found.items():
                one = ranking.contender(arm, runs)
                if one is None:
                    continue
                path = one.figures[0].ref.path
                row = windows.own(path) or windows.whole_arm(arm) or {}
                temperature = heat.temperature(row)
                found.append(
                    Standing(
                        work.name,
                        work.measure,
                        work.higher_is_better,
                        one,
                        one.figures[0].state,
                        plans.get(path),
                        windows.of(path, arm),
                        number(temperature[1], "max") if temperature else None,
                        number(row, "series", f"power_w.{rail}", "mean") if rail else None,
                    )
                )
    return tuple(found)
