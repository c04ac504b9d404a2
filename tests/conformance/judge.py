# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tool reported against what is true: pure."""

from __future__ import annotations

from typing import Any

TIMES = ("ttft_s", "first_answer_s", "last_token_s", "max_gap_s")
TIME_TOLERANCE_S = 0.02
RATE_TOLERANCE = 0.02
ABSENT = object()


def judge(expect: dict[str, Any], report: dict[str, Any], late_s: float = 0.0) -> dict[str, str]:
    """Figure -> what is wrong with it; {} when all that was reported is right.

    ``report`` may leave out what a tool does not report at all: that is not judged. ``late_s`` is what the server was
    late by, which widens the tolerances. A failed request is judged on its status and its message only.
    """
    wrong: dict[str, str] = {}
    for name, truth in expect.items():
        if name == "error_has":
            message = report.get("error", ABSENT)
            if message is not ABSENT and report.get("status") == "failed":
                missing = [word for word in truth if word not in (message or "")]
                if missing:
                    wrong["error"] = f"lost {missing[0]!r}: {str(message)[:120]!r}"
            continue
        got = report.get(name, ABSENT)
        if got is ABSENT or (expect["status"] == "failed" and name != "status"):
            continue
        if not _same(name, truth, got, late_s):
            wrong[name] = f"{_show(got)} instead of {_show(truth)}"
    return wrong


def _same(name: str, truth: Any, got: Any, late_s: float) -> bool:
    if truth is None or got is None:
        return truth is None and got is None
    if name in TIMES:
        return bool(abs(got - truth) <= TIME_TOLERANCE_S + late_s)
    if name == "decode_tok_s":
        # A rate over a second or more: a server late by 10 ms moves it by a percent.
        return bool(abs(got - truth) <= truth * (RATE_TOLERANCE + 2 * late_s))
    return bool(got == truth)


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is None:
        return "none"
    text = value if isinstance(value, str) else str(value)
    return repr(text[:40]) if isinstance(value, str) else text[:60]


def verdict(expect: dict[str, Any], report: dict[str, Any] | None, late_s: float = 0.0) -> tuple[str, str]:
    """("right" | "wrong" | "no report", details)."""
    if report is None:
        return "no report", ""
    wrong = judge(expect, report, late_s)
    return ("wrong", "; ".join(f"{name}: {what}" for name, what in wrong.items())) if wrong else ("right", "")
