# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a Thor takes: the seed transcript's figures turned into a small model.

All times are the real box's seconds; the caller divides them by its speed-up. Prefill of n tokens fits
``a*n + b*n**2`` within 7 % at every depth the seed measured (88,940 to 1,040,073 tokens); decode is a table of
milliseconds per step by depth (one stream) and by concurrency (short prompts), both from the seed's tables.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

Points = tuple[tuple[float, float], ...]


def interpolate(points: Points, x: float) -> float:
    """Value at x on the line through points (sorted by x); beyond the ends the last slope goes on."""
    xs = [p[0] for p in points]
    i = min(max(bisect.bisect_right(xs, x), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[i - 1], points[i]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


@dataclass(frozen=True)
class Perf:
    """One arm's speed. Times in seconds, depths in tokens."""

    prefill_a: float
    prefill_b: float
    warm_s_per_token: float  # what a cached prefix still costs
    step_by_depth: Points
    step_by_streams: Points  # x is log2 of the number of streams
    spec_k: int = 0
    base_s: float = 0.045
    per_request_s: float = 0.0145

    def prefill(self, start: int, end: int) -> float:
        """Seconds to compute prompt tokens start..end, whose attention reads everything before them."""
        return self.prefill_a * (end - start) + self.prefill_b * (end * end - start * start)

    def admission(self, cached: int) -> float:
        """Seconds a request costs before its first chunk, a cached prefix included."""
        return self.per_request_s + self.warm_s_per_token * cached

    def step(self, depths: list[int]) -> float:
        """Seconds of one decode step over the streams at these depths."""
        if not depths:
            return 0.0
        base = interpolate(self.step_by_streams, math.log2(len(depths)))
        zero = self.step_by_depth[0][1]
        return base + sum(interpolate(self.step_by_depth, d) - zero for d in depths)


def _streams(*tok_s: float) -> Points:
    return tuple((float(i), 1 / rate) for i, rate in enumerate(tok_s))


def _depths(k: float, *tok_s: float) -> Points:
    return tuple((d, k / rate) for d, rate in zip((0.0, 128073.0, 250073.0, 1040073.0), tok_s, strict=True))


PROSE_ACCEPTED = 1.95  # mean tokens a step under speculation; 23.5 ms a step gives the seed's 83 tok/s
CODE_ACCEPTED = 3.3  # gives its 141 tok/s
TOOL_ACCEPTED = 6.0  # every draft accepted on tool-call JSON

FP8 = Perf(
    1.892e-4,
    1.3784e-9,
    8.0e-6,
    _depths(1, 79.0, 70.83, 66.66, 33.41),
    _streams(79.0, 56.68, 40.07, 33.75, 23.49, 17.17, 12.4),
)
BF16 = Perf(
    2.0756e-4,
    1.1399e-9,
    4.5e-6,
    _depths(1, 73.86, 61.16, 52.73, 26.82),
    _streams(73.86, 58.25, 44.08, 32.26, 22.71, 16.70, 12.0),
)
DSPARK = Perf(
    2.201e-4,
    1.324e-9,
    1.7e-5,
    _depths(PROSE_ACCEPTED, 83.0, 67.46, 66.07, 45.02),
    tuple((x, y * PROSE_ACCEPTED) for x, y in _streams(83.0, 48.95, 40.96, 32.40, 21.51, 17.02, 12.2)),
)


def choose(kv_dtype: str, spec_method: str | None, spec_k: int) -> Perf:
    """The speed of an arm by its KV dtype and its speculation."""
    base = DSPARK if spec_method else (BF16 if kv_dtype == "bfloat16" else FP8)
    return Perf(**{**base.__dict__, "spec_k": spec_k if spec_method else 0})
