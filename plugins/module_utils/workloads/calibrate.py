# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instrument's own error: the client against a server whose every sending time is known."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..client import ChatRequest, Endpoint, Sample, get_json, run_batch
from ..client.figures import percentile
from ..results.window import Clocks
from .null_server import NullServer, schedule
from .plans import CalibratePlan, Common
from .run import Run, planned, reused
from .server import Server

RESULT_NAME = "calibrate"
# Enough for a 99th percentile that is not the largest one under another name.
SAMPLES = 100
RATE_SPAN_S = 0.5
RATE_STREAMS = 32
RATE_ERROR_S = 0.001
# A server that reaches less of the asked rate is the limit itself.
REACHED_SHARE = 0.9


@dataclass
class _Round:
    """Requests that were sent together, each with the server's own sending times."""

    samples: list[Sample]
    truth: dict[str, list[int]]
    cpu_s: float

    def pairs(self) -> list[tuple[Sample, list[int]]]:
        return [
            (sample, self.truth[sample.label])
            for sample in self.samples
            if sample.status == "ok" and len(self.truth.get(sample.label, ())) == len(sample.events)
        ]

    def ttft_errors(self) -> list[float]:
        return [
            sample.ttft_s - (sent[0] - sample.t0_ns) / 1e9
            for sample, sent in self.pairs()
            if sample.ttft_s is not None and sample.t0_ns is not None
        ]

    def gap_errors(self) -> list[float]:
        out = []
        for sample, sent in self.pairs():
            times = [seen[0] for seen in sample.events]
            out += [abs((times[i] - times[i - 1]) - (sent[i] - sent[i - 1])) / 1e9 for i in range(1, len(sent))]
        return out

    def delays(self) -> list[float]:
        """By how much later than it was sent each event was seen."""
        out = []
        for sample, sent in self.pairs():
            t0_ns = sample.t0_ns or 0
            out += [(t0_ns + seen[0] - sent_ns) / 1e9 for seen, sent_ns in zip(sample.events, sent, strict=True)]
        return out


def plan_only(plan: CalibratePlan, common: Common) -> dict[str, Any]:
    """What check mode returns."""
    requests = sum(level * (_rounds(level) + 1) for level in plan.concurrency)
    return planned("calibrate", RESULT_NAME, plan, common, requests, {"output_tokens": None})


def run(plan: CalibratePlan, common: Common, clocks: Clocks | None = None) -> dict[str, Any]:
    """Calibrate at every level, then find the highest event rate."""
    # A calibration is about the instrument: neither a model nor extra fields have a part in it.
    own = replace(common, model=None, extra_body={}, stall_time_limit_s=None)
    earlier = reused("calibrate", plan, own)
    if earlier is not None:
        return earlier
    levels: list[dict[str, Any]] = []
    rates: list[dict[str, Any]] = []
    with NullServer() as null:
        endpoint = Endpoint.parse(null.url)
        server = Server(endpoint, "null", None, "null", None)
        total = len(plan.concurrency) + len(plan.rates_hz)
        with Run("calibrate", RESULT_NAME, plan, own, server, total, "steps", clocks or Clocks()) as phase:
            _send(endpoint, [schedule("warmup", 0.01, 0.01, 4)])
            cpu: dict[int, float | None] = {}
            for level in plan.concurrency:
                if phase.stopping():
                    break
                phase.companion.update(stage=f"{level} streams")
                row, cpu[level] = _level(phase, plan, endpoint, level)
                levels.append(row)
                phase.companion.update(done=len(levels))
            for rate in sorted(plan.rates_hz):
                if phase.stopping():
                    break
                phase.companion.update(stage=f"{rate} events per second")
                rates.append(_rate(phase, endpoint, rate))
                phase.companion.update(done=len(levels) + len(rates))
                if rates[-1]["beyond"]:
                    break
            phase.notes.append(
                "an error is the client's time minus the time just before the server's send: the kernel's part is in it"
            )
            held = [row["rate_hz"] for row in rates if row["within"]]
            return phase.finish(
                {
                    "levels": levels,
                    "max_event_rate_hz": max(held, default=None),
                    "cpu_s_per_100k_tokens": cpu[max(cpu)] if cpu else None,
                    "rates": rates,
                }
            )


def _rounds(level: int) -> int:
    return math.ceil(SAMPLES / level)


def _level(phase: Run, plan: CalibratePlan, endpoint: Endpoint, level: int) -> tuple[dict[str, Any], float | None]:
    firsts: list[float] = []
    for number in range(_rounds(level)):
        bodies = [schedule(f"t{number}-{i}", plan.first_token_s, 0.001, 2) for i in range(level)]
        done = _send(endpoint, bodies)
        _count(phase, done)
        firsts += done.ttft_errors()
    tokens = max(plan.tokens, math.ceil(SAMPLES / level) + 1)
    steady = _send(
        endpoint, [schedule(f"s{i}", plan.first_token_s, 1 / plan.tokens_per_s, tokens) for i in range(level)]
    )
    _count(phase, steady)
    firsts += steady.ttft_errors()
    gaps = steady.gap_errors()
    sent = sum(len(times) for times in steady.truth.values())
    row = {
        "concurrency": level,
        "ttft_error_s_p50": percentile(firsts, 50),
        "ttft_error_s_p99": _p99(firsts),
        "ttft_error_s_max": max(firsts, default=None),
        "ttft_samples": len(firsts),
        "itl_error_s_p50": percentile(gaps, 50),
        "itl_error_s_p99": _p99(gaps),
        "itl_samples": len(gaps),
    }
    return row, steady.cpu_s / sent * 1e5 if sent else None


def _rate(phase: Run, endpoint: Endpoint, rate: int) -> dict[str, Any]:
    streams = min(RATE_STREAMS, max(1, rate // 50))
    tokens = max(2, int(rate * RATE_SPAN_S / streams))
    # Evenly spread: one event each 1/rate seconds over all streams.
    bodies = [schedule(f"r{i}", 0.1 + i / rate, streams / rate, tokens) for i in range(streams)]
    started = time.monotonic()
    done = _send(endpoint, bodies)
    wall = time.monotonic() - started
    _count(phase, done)
    delays = done.delays()
    stamps = [stamp for times in done.truth.values() for stamp in times]
    span = (max(stamps) - min(stamps)) / 1e9 if stamps else 0.0
    reached = (len(stamps) - 1) / span if span else None
    p99 = _p99(delays)
    return {
        "rate_hz": rate,
        "reached_hz": reached,
        "error_s_p50": percentile(delays, 50),
        "error_s_p99": p99,
        "cpu_share": done.cpu_s / wall if wall else None,
        # A single late turn of a busy box spoils the 99th percentile only; half of all events late is the limit itself.
        "beyond": reached is None or reached < REACHED_SHARE * rate or (percentile(delays, 50) or 0.0) > RATE_ERROR_S,
        "within": p99 is not None and p99 <= RATE_ERROR_S and reached is not None and reached >= REACHED_SHARE * rate,
    }


def _send(endpoint: Endpoint, bodies: Sequence[dict[str, Any]]) -> _Round:
    requests = [ChatRequest(body=body, label=body["schedule"]["label"]) for body in bodies]
    cpu = time.process_time()
    samples = run_batch(endpoint, requests)
    cpu = time.process_time() - cpu
    return _Round(samples, get_json(endpoint, "/truth"), cpu)


def _count(phase: Run, done: _Round) -> None:
    for sample in done.samples:
        if sample.status == "ok":
            phase.ok += 1
        else:
            phase.failed += 1
            phase.errors.append(f"{sample.label}: {sample.error_kind}: {sample.error}")


def _p99(values: Sequence[float]) -> float | None:
    return percentile(values, 99) if len(values) >= SAMPLES else None
