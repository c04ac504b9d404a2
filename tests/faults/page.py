# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page ``docs/faults.md``."""

from __future__ import annotations

from collections.abc import Sequence

from .catalogue import Outcome, Row

HEAD = """# What the product says of each fault

Written by `make faults`, which plays every switch of the two doubles (see [doubles.md](doubles.md)) and holds what the
product answers against what it must. What must be in an answer is in `tests/faults/engine.yml` and
`tests/faults/box.yml`; `tests/faults/test_faults.py` fails when a row is wrong or a switch has none. Figures are of
simulated hardware on one machine and differ from run to run.

Who looks: `boot` is what `engine_ready` does while an engine starts; `decode`, `needle`, `sweep`, `agentic` and `probe`
are the measurements, called as their modules call them against the engine double run as a process. On the box double
the modules themselves run, with the box's own Python.

"""
TITLES = {"engine": "Faults of the engine", "box": "Faults of the box"}


def page(found: Sequence[tuple[Row, Outcome]]) -> str:
    """The whole page."""
    wrong = sum(1 for _row, outcome in found if outcome.wrong)
    out = HEAD + f"**{len(found) - wrong} of {len(found)} right.**\n"
    for double, title in TITLES.items():
        rows = [(row, outcome) for row, outcome in found if row.double == double]
        if rows:
            out += f"\n## {title}\n\n| fault | looked at by | what the product said | right |\n|---|---|---|---|\n"
            out += "".join(line(row, outcome) for row, outcome in rows)
    return out


def line(row: Row, outcome: Outcome) -> str:
    """One row of the table."""
    verdict = f"no: {outcome.wrong}" if outcome.wrong else "yes"
    return f"{key(row)}{outcome.said} | {verdict} |\n"


def key(row: Row) -> str:
    """The part of a row's line that does not depend on a run."""
    return f"| `{row.given}` | {row.look} | "
