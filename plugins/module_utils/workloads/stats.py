# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small-sample statistics and the knee of a sweep. Pure; every rule is stated where its figure is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom; beyond, the approximation below is within 0.1 %.
# Source: NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip

KNEE_SLOPE = 0.2
KNEE_RULE = (
    "the first level from which every further level raises the aggregate by less than the number of requests to the "
    f"power {KNEE_SLOPE} (doubling them gains under {2**KNEE_SLOPE - 1:.0%}); at least three levels without failures"
)


def t95(degrees: int) -> float:
    """The two-sided 95 % quantile of Student's t."""
    if degrees < 1:
        raise ValueError("at least one degree of freedom")
    if degrees <= len(_T95):
        return _T95[degrees - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees)


def interval95(values: Sequence[float]) -> dict[str, Any]:
    """Mean and 95 % interval over repeats: {n, mean, half_width, low, high, values}; the interval is None for n < 2.

    The repeats are independent runs; tokens or requests of one run understate the spread between runs.
    """
    n = len(values)
    if n == 0:
        return {"n": 0, "mean": None, "half_width": None, "low": None, "high": None, "values": []}
    mean = math.fsum(values) / n
    if n < 2:
        return {"n": n, "mean": mean, "half_width": None, "low": None, "high": None, "values": list(values)}
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t95(n - 1) * deviation / math.sqrt(n)
    return {"n": n, "mean": mean, "half_width": half, "low": mean - half, "high": mean + half, "values": list(values)}


def knee(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where more requests stop paying: {concurrency, reason, rule, slopes: [{from, to, slope}]}.

    ``slope`` is ln(aggregate ratio) / ln(concurrency ratio) between neighbours: 1 is perfect scaling, 0 is none.
    ``concurrency`` is None, with a reason, when there is no knee in the measured range or it cannot be decided.
    """
    usable = sorted(
        (int(level["concurrency"]), float(level["aggregate_tok_s"]))
        for level in levels
        if level.get("aggregate_tok_s") and not level.get("failed")
    )
    slopes = [
        {"from": low, "to": high, "slope": round(math.log(fast / slow) / math.log(high / low), 4)}
        for (low, slow), (high, fast) in pairwise(usable)
    ]
    out: dict[str, Any] = {"concurrency": None, "reason": None, "rule": KNEE_RULE, "slopes": slopes}
    if len(usable) < 3:
        out["reason"] = f"{len(usable)} levels without failures are too few"
        return out
    flat = [step["slope"] < KNEE_SLOPE for step in slopes]
    if not flat[-1]:
        out["reason"] = f"no knee up to {usable[-1][0]} requests at once"
        return out
    first = len(flat)
    while first > 0 and flat[first - 1]:
        first -= 1
    out["concurrency"] = slopes[first]["from"]
    return out
