# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the operator approved, judged by a value that must name the box. Pure; used on the controller."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

VARIABLE = "worker_lane_approval"
BY_VARIABLE = "worker_lane_approved_by"
# What says "whatever box it is" instead of naming one; also what Ansible's patterns are made of.
_YES = {"true", "false", "yes", "no", "y", "n", "on", "off", "1", "0", "all", "any", "*"}
_PATTERN = re.compile(r"[*?!&~\[\]{}]")


@dataclass(frozen=True)
class Verdict:
    """``approved`` and, when it is not, the sentence that tells the operator why."""

    approved: bool
    reason: str = ""


def judge_value(value: Any, host: str) -> Verdict:
    """Judge the value of the extra variable: names of boxes, as a list or separated by commas, with this box's in it.

    A boolean and its look-alikes never approve: they say "yes" to whatever box the play happens to reach. Nor does a
    list that holds one, or a pattern: who wrote it did not name each box. ``--limit`` chooses boxes and approves none.
    """
    if isinstance(value, (list, tuple)):
        if not all(isinstance(entry, str) for entry in value):
            return Verdict(False, f"{VARIABLE} must hold names of boxes only, got {printable(repr(value))[:200]}.")
        names = [entry.strip() for entry in value]
    elif isinstance(value, str):
        names = [entry.strip() for entry in value.split(",") if entry.strip()]
    else:
        return Verdict(False, f"{VARIABLE} must be the name of the box, not {_kind(value)}: a bare yes names no box.")
    if not names:
        return Verdict(False, f"{VARIABLE} is empty; it must be the name of the box.")
    for entry in names:
        if entry.lower() in _YES:
            why = "a bare yes names no box"
        elif entry != host and _PATTERN.search(entry):
            why = "a pattern names no box; name each one, as thor-1,thor-2"
        else:
            continue
        return Verdict(False, f"{VARIABLE} must be the name of the box, not {printable(entry)[:60]!r}: {why}.")
    if host in names:
        return Verdict(True)
    return Verdict(False, f"{VARIABLE} names {printable(', '.join(names))[:200]}, not {host}.")


def judge_answer(answer: str, host: str) -> Verdict:
    """Judge what was typed at the prompt: the box's name, nothing else."""
    typed = answer.strip()
    if typed == host:
        return Verdict(True)
    return Verdict(False, f"What was typed is not the box's name: {printable(typed)[:60]!r} is not {host!r}.")


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    return f"{type(value).__name__} {value!r}"


def printable(text: str) -> str:
    """Text from a box or a container, safe to show on a terminal: control characters become ``?``."""
    return re.sub(r"[^\x20-\x7e\u00a0-\u2027\u2030-\u2065\u2070-\ud7ff\uf900-\ufffd]", "?", text)
