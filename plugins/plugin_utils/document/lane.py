# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the worker lane was left: what the spike recorded of it, and what the last look at the box saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.lobes.spike.plugins.module_utils.box.lane import UP, started_since

from ..evidence import Evidence, rows, text
from .words import clean


@dataclass(frozen=True)
class Left:
    """``words`` follow the lane's name; ``startable``: there may be something to start; ``looked``: by a last look."""

    words: str
    startable: bool = False
    looked: bool = True


def left(evidence: Evidence) -> Left | None:
    """How the lane is at the end; None without a record of it. What was not looked at is unknown, not stopped."""
    record = evidence.lane
    if not record:
        return None
    disposition = text(record, "disposition") or "not recorded"
    if disposition != "stopped":
        return Left(clean(disposition, 40).replace("_", " "), looked=False)
    since = f" since {clean(stopped, 40)}" if (stopped := text(record, "stopped_utc")) else ""
    if not isinstance(evidence.box_after.get("containers"), list):
        return Left(f"unknown: stopped for the spike{since} and not looked at afterwards", True, looked=False)
    found = [c for c in rows(evidence.box_after, "containers") if text(c, "name") == text(record, "name")]
    if not found:
        return Left(f"gone: stopped for the spike{since}, and removed by someone else")
    return _found(record, found[0], since)


def _found(record: Mapping[str, Any], container: Mapping[str, Any], since: str) -> Left:
    state = text(container, "state") or "in an unknown state"
    up = state in UP
    if not up and not started_since(record, container):
        return Left(f"stopped{since}", True)
    at = f" at {clean(started, 40)}" if (started := text(container, "started_utc")) else ""
    return Left(f"{clean(state, 40)}: started by someone else{at}, not by the spike", not up)
