# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patience: how long the next, deeper cold prefill will take, from those already measured in the same boot.

A prefill of n tokens costs a part that grows with n (weights, state layers) and a part that grows with n squared
(attention over what is already there): t = a n + b n^2, a and b not negative. The rules:

- no point: no prediction;
- one point (n1, t1): t = t1 (n / n1)^1.5, between the linear and the quadratic law, which are the bounds;
- two or more: a and b by least squares of the relative error; the bounds are the linear and the quadratic law through
  the deepest point.

A prediction is made before the request is sent and kept beside what came: its error is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# A prefill is late beyond the upper bound and half of it again.
LATE = 1.5


@dataclass(frozen=True)
class Prediction:
    """Seconds to the first token of a cold prompt of ``tokens``; ``low_s`` and ``high_s`` bound it by the stated laws.

    ``late_s`` is the time from which the request is later than any of the laws explains.
    """

    tokens: int
    seconds: float
    low_s: float
    high_s: float
    points: int
    a: float | None
    b: float | None
    rule: str

    @property
    def late_s(self) -> float:
        return self.high_s * LATE

    def to_json(self) -> dict[str, object]:
        """Plain data: seconds to a hundredth, ``a`` in s per token and ``b`` in s per token squared."""
        return {
            "tokens": self.tokens,
            "predicted_s": round(self.seconds, 2),
            "low_s": round(self.low_s, 2),
            "high_s": round(self.high_s, 2),
            "late_s": round(self.late_s, 2),
            "points": self.points,
            "a": self.a,
            "b": self.b,
            "rule": self.rule,
        }


def cold_points(results: Iterable[Mapping[str, Any]], boot_id: str | None) -> list[tuple[int, float]]:
    """(tokens, seconds) of the needles among result documents that one boot proved cold, ready for ``predict``.

    A needle that was meant cold and was not, or whose state is unproven, is no point; nor is one of another boot.
    """
    points = []
    for result in results:
        summary = result.get("summary") or {}
        context = result.get("context") or {}
        tokens, seconds = summary.get("prompt_tokens"), summary.get("ttft_s")
        cold = (summary.get("cache") or {}).get("state") == "cold"
        same = boot_id is None or context.get("boot_id") == boot_id
        if not (isinstance(tokens, int) and isinstance(seconds, (int, float))):
            continue
        if result.get("phase") == "needle" and cold and same:
            points.append((tokens, float(seconds)))
    return points


def predict(points: Iterable[tuple[int, float]], tokens: int) -> Prediction | None:
    """Predict a cold prefill of ``tokens`` from (tokens, seconds) of cold prefills; None when nothing can be said.

    Points that are not positive are left out; of several at one depth the mean counts.
    """
    known = _clean(points)
    if not known or tokens <= 0:
        return None
    n1, t1 = known[-1]
    laws = sorted((t1 * tokens / n1, t1 * (tokens / n1) ** 2))
    if len(known) == 1:
        seconds = t1 * (tokens / n1) ** 1.5
        return Prediction(tokens, seconds, laws[0], laws[1], 1, None, None, "one point: t1 (n / n1)^1.5")
    a, b = _fit(known)
    seconds = a * tokens + b * tokens**2
    rule = f"{len(known)} points: t = a n + b n^2, least squares of the relative error"
    return Prediction(tokens, seconds, min(laws[0], seconds), max(laws[1], seconds), len(known), a, b, rule)


def error(prediction: Prediction, actual_s: float) -> dict[str, object]:
    """What came beside what was predicted: {predicted_s, actual_s, error_s, error_percent, within_bounds}.

    The error is prediction minus actual; its percentage is of the actual time.
    """
    off = prediction.seconds - actual_s
    return {
        **prediction.to_json(),
        "actual_s": round(actual_s, 2),
        "error_s": round(off, 2),
        "error_percent": round(off / actual_s * 100, 1) if actual_s > 0 else None,
        "within_bounds": prediction.low_s <= actual_s <= prediction.high_s,
    }


def _clean(points: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    depths: dict[int, list[float]] = {}
    for tokens, seconds in points:
        if tokens > 0 and seconds > 0:
            depths.setdefault(tokens, []).append(seconds)
    return [(tokens, sum(times) / len(times)) for tokens, times in sorted(depths.items())]


def _fit(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Least squares of (a n + b n^2) / t = 1; a part that would be negative is 0."""
    x = [(n / t, n * n / t) for n, t in points]
    s11, s12, s22 = (sum(p[i] * p[j] for p in x) for i, j in ((0, 0), (0, 1), (1, 1)))
    s1, s2 = sum(p[0] for p in x), sum(p[1] for p in x)
    determinant = s11 * s22 - s12 * s12
    if determinant > 0:
        a, b = (s1 * s22 - s2 * s12) / determinant, (s2 * s11 - s1 * s12) / determinant
        if a >= 0 and b >= 0:
            return a, b
        if a < 0:
            return 0.0, s2 / s22
    return s1 / s11, 0.0
