# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page ``docs/fault-matrix.md``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .catalogue import Outcome, Row

HEAD = """# What is left of a spike that a fault hits

Written by `cd tests && ../.venv/bin/python -m matrix --markdown ../docs/fault-matrix.md`, which plays each row as a
whole spike against the box double, a real container with a container engine of its own. *Lost* are results that were
whole on the box when the fault came and are afterwards neither there nor in the evidence with the same bytes. A row
is right when nothing is lost, what was promised came true, no engine, recorder or lock of the spike is left on the
box (after the second command, where there is one), the worker lane is as the approval left it and no other lane was
restarted. What a row must say is in `tests/matrix/rows.yml`. What the single measurements and modules say of the
doubles' faults is in the tables of `tests/faults`.

"""
SHOWN = 420


def page(found: Sequence[tuple[Row, Outcome | None]]) -> str:
    """The whole page."""
    played = [outcome for _row, outcome in found if outcome is not None]
    right = sum(1 for outcome in played if not outcome.wrong and not outcome.lost)
    out = HEAD + f"**{right} of {len(played)} right; {len(found) - len(played)} not played.**\n\n"
    out += "| fault | promised | happened | lost | right? |\n|---|---|---|---|---|\n"
    return out + "".join(line(row, outcome) for row, outcome in found)


def line(row: Row, outcome: Outcome | None) -> str:
    """One row of the table."""
    if outcome is None:
        return f"{key(row)}not played: {plain(row.not_played or 'not yet')} | unknown | not played |\n"
    verdict = "yes" if not outcome.wrong and not outcome.lost else f"no: {plain(outcome.wrong) or 'something is lost'}"
    return f"{key(row)}{plain(outcome.happened)} | {plain(outcome.lost) or 'nothing'} | {verdict} |\n"


def key(row: Row) -> str:
    """The part of a row's line that does not depend on a run."""
    return f"| {plain(row.fault)} | {plain(row.promised)} | "


def plain(text: str) -> str:
    """One line for a table's cell: no control characters, no markup, not too long."""
    text = "".join(c if c.isprintable() else " " for c in text.replace("|", "/"))
    text = re.sub(r"\s+", " ", text).strip()
    text = text if len(text) <= SHOWN else text[: SHOWN - 4].rstrip() + " ..."
    return text.replace("<", "&lt;").replace("{{", "{ {").replace("`", "'").replace("*", "\\*").replace("_", "\\_")
