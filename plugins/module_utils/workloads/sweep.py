# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How speed changes with the number of requests at once: levels, their knee, and optionally arrival rates."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..client import ChatRequest, Loop, Sample
from ..client.figures import aggregate
from ..results.window import Clocks
from . import text
from .plans import Common, SweepPlan, fits
from .run import Measured, Run, planned, reused
from .server import CHAT_PATH, Server, chat_body
from .stats import interval95, knee

RESULT_NAME = "sweep"
Sender = Callable[[int, Sequence[ChatRequest]], list[Sample]]
"""(number of the repeat, requests) -> their samples."""
GOODPUT_RULE = (
    "a request is good when it did not fail, its ttft_s is within goodput_ttft_s and its mean time per output token "
    "after the first event is within goodput_token_s (each only where given)"
)


def plan_only(plan: SweepPlan, common: Common) -> dict[str, Any]:
    """What check mode returns."""
    requests = sum(_steps(plan))
    return planned("sweep", RESULT_NAME, plan, common, requests, {"output_tokens": requests * plan.max_tokens})


def run(plan: SweepPlan, common: Common, clocks: Clocks | None = None, salt: str | None = None) -> dict[str, Any]:
    """Measure every level, then every arrival rate; each finished level is on disk before the next one begins.

    ``salt`` makes the prompts of this run unlike those of any other, so that no cache helps; random when left out.
    """
    earlier = reused("sweep", plan, common)
    if earlier is not None:
        return earlier
    server = Server.discover(common)
    salt = salt or os.urandom(8).hex()
    if server.max_model_len is not None:
        messages = _messages(plan, salt, "size", 0)
        sized = server.count_messages(messages, _body(plan, common, server, messages))
        fits("max_tokens", sized or 1, plan.max_tokens, server.max_model_len)
    total = sum(_steps(plan))
    levels: list[dict[str, Any]] = []
    rates: list[dict[str, Any]] = []
    with Run("sweep", RESULT_NAME, plan, common, server, total, "requests", clocks or Clocks()) as phase:
        earlier = phase.earlier()
        if earlier is not None:
            # Only whole levels are kept on disk; the salt goes on, so that no prompt is sent twice.
            phase.take_over(earlier["samples"])
            levels, rates = list(earlier["summary"]["levels"]), list(earlier["summary"].get("rates", []))
            salt = earlier["workload"]["salt"]
        phase.workload = {"salt": salt, "shared_prefix": plan.shared_prefix is not None}
        for level in plan.concurrency[len(levels) :]:
            if phase.stopping():
                break
            phase.companion.update(stage=f"{level} at once")
            count = plan.requests_per_level or level
            repeats = _repeat(phase, plan, salt, f"n{level}", count, partial(_closed, phase, level))
            levels.append({"concurrency": level, **_row(plan, repeats)})
            phase.save_partial(_summary(plan, levels, rates))
        for rate in plan.arrival_rates[len(rates) :]:
            if phase.stopping():
                break
            phase.companion.update(stage=f"{rate:g} arrivals per second")
            count = plan.requests_per_level or 1
            starts = partial(arrivals, plan.seed, rate, count)
            repeats = _repeat(phase, plan, salt, f"rate{rate:g}", count, partial(_open, phase, starts))
            rates.append({"rate_per_s": rate, **_row(plan, repeats)})
            phase.save_partial(_summary(plan, levels, rates))
        _note_cache(plan, phase)
        return phase.finish(_summary(plan, levels, rates))


def arrivals(seed: int, rate: float, count: int, repeat: int) -> list[float]:
    """Start times in seconds of ``count`` requests that arrive at random (exponential gaps) at ``rate`` per second."""
    source = text.rng("arrivals", seed, rate, repeat)
    out, now = [], 0.0
    for _number in range(count):
        out.append(now)
        now += source.expovariate(rate)
    return out


def _steps(plan: SweepPlan) -> list[int]:
    """Requests of every level and every arrival rate, repeats included."""
    levels = [(plan.requests_per_level or level) * plan.repeats for level in plan.concurrency]
    return levels + [(plan.requests_per_level or 1) * plan.repeats for _rate in plan.arrival_rates]


def _messages(plan: SweepPlan, salt: str, label: str, number: int) -> list[dict[str, Any]]:
    # The tag is the first thing that is our own in the prompt: whatever follows it cannot be in a cache.
    unique = {"role": "user", "content": f"[{text.tag(salt, label, number)}] {plan.prompt}"}
    return [{"role": "system", "content": plan.shared_prefix}, unique] if plan.shared_prefix else [unique]


def _body(plan: SweepPlan, common: Common, server: Server, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return chat_body(
        server, messages, max_tokens=plan.max_tokens, forced=True, thinking=False, extra_body=common.extra_body
    )


def _repeat(phase: Run, plan: SweepPlan, salt: str, label: str, count: int, sender: Sender) -> list[Measured]:
    """Measure one step as often as planned, or until the phase is to stop."""
    repeats: list[Measured] = []
    for repeat in range(1, plan.repeats + 1):
        if repeats and phase.stopping():
            break
        repeats.append(_measure(phase, plan, salt, f"{label}-r{repeat}", count, partial(sender, repeat)))
    return repeats


def _measure(
    phase: Run,
    plan: SweepPlan,
    salt: str,
    label: str,
    count: int,
    do: Callable[[Sequence[ChatRequest]], list[Sample]],
) -> Measured:
    requests = [
        ChatRequest(
            body=_body(plan, phase.common, phase.server, _messages(plan, salt, label, number)),
            label=f"{label}-{number}",
            path=CHAT_PATH,
        )
        for number in range(1, count + 1)
    ]
    measured = phase.around(label, lambda: do(requests))
    # The texts of a level are counted in one go: counting each would cost more than it tells.
    phase.keep(measured, forced_tokens=plan.max_tokens, thinking=False, count_text=False)
    phase.check_texts(measured)
    return measured


def _closed(phase: Run, level: int, _number: int, requests: Sequence[ChatRequest]) -> list[Sample]:
    """``level`` requests at once; where there are more, each finished one is followed by the next on its connection."""
    if len(requests) == level:
        return phase.batch(requests)
    hook = phase.progressing()
    samples: dict[int, Sample] = {}
    waiting = iter(range(level, len(requests)))
    with Loop(phase.server.endpoint, phase.common.request_timeout_s, phase.stall()) as loop:
        phase.guard(loop)
        connections = [loop.connect() for worker in range(level)]

        def follow(worker: int, number: int) -> Callable[[Sample], None]:
            def done(sample: Sample) -> None:
                samples[number] = sample
                hook(
                    {
                        "done": len(samples),
                        "tokens": sum(kept.completion_tokens or 0 for kept in samples.values()),
                        "failed": sum(kept.status != "ok" for kept in samples.values()),
                    }
                )
                following = None if phase.stopping() else next(waiting, None)
                if following is not None:
                    loop.submit(connections[worker], requests[following], follow(worker, following))

            return done

        first = [loop.prepare(connections[i], requests[i], follow(i, i)) for i in range(level)]
        loop.settle()
        for exchange in first:
            loop.start(exchange)
        loop.run()
    return [samples[number] for number in sorted(samples)]


def _open(
    phase: Run, starts: Callable[[int], list[float]], repeat: int, requests: Sequence[ChatRequest]
) -> list[Sample]:
    return phase.batch(requests, starts(repeat))


def _row(plan: SweepPlan, repeats: Sequence[Measured]) -> dict[str, Any]:
    """One level: figures of its only run; with repeats, pooled percentiles and the means of wall and aggregate."""
    rows = [aggregate(measured.samples) for measured in repeats]
    pooled = aggregate([sample for measured in repeats for sample in measured.samples])
    row: dict[str, Any] = {
        **pooled,
        "wall_s": _mean_of(rows, "wall_s"),
        "aggregate_tok_s": _mean_of(rows, "aggregate_tok_s"),
        "client_cpu_s": sum(measured.client_cpu_s for measured in repeats),
        "repeats": None,
        "goodput": None,
    }
    if len(repeats) > 1:
        row["repeats"] = {
            key: interval95([one[key] for one in rows if one[key] is not None])
            for key in ("aggregate_tok_s", "decode_tok_s_p50", "ttft_s_p50")
        }
    if plan.goodput_ttft_s is not None or plan.goodput_token_s is not None:
        row["goodput"] = _goodput(plan, repeats, rows)
    return row


def _mean_of(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [row[key] for row in rows]
    # A repeat without the figure makes the mean one of a part, under the name of the whole.
    if not values or any(value is None for value in values):
        return None
    return float(sum(values) / len(values))


def _goodput(plan: SweepPlan, repeats: Sequence[Measured], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    samples = [sample for measured in repeats for sample in measured.samples]
    good = [sample for sample in samples if _good(plan, sample)]
    wall = sum(row["wall_s"] or 0.0 for row in rows)
    return {
        "good": len(good),
        "share": len(good) / len(samples) if samples else None,
        "requests_per_s": len(good) / wall if wall else None,
        "ttft_limit_s": plan.goodput_ttft_s,
        "token_limit_s": plan.goodput_token_s,
        "rule": GOODPUT_RULE,
    }


def _good(plan: SweepPlan, sample: Sample) -> bool:
    if sample.status != "ok" or sample.ttft_s is None:
        return False
    if plan.goodput_ttft_s is not None and sample.ttft_s > plan.goodput_ttft_s:
        return False
    if plan.goodput_token_s is None:
        return True
    tokens = (sample.completion_tokens or 0) - (sample.first_event_tokens or 0)
    if tokens <= 0 or not sample.events:
        return False
    return (sample.events[-1][0] - sample.events[0][0]) / 1e9 / tokens <= plan.goodput_token_s


def _summary(plan: SweepPlan, levels: list[dict[str, Any]], rates: list[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"levels": list(levels), "knee": knee(levels)}
    if plan.arrival_rates:
        summary["rates"] = list(rates)
    return summary


def _note_cache(plan: SweepPlan, phase: Run) -> None:
    if plan.shared_prefix:
        return
    helped = [s["label"] for s in phase.samples if (s["cached_tokens"] or 0) > 0.5 * (s["prompt_tokens"] or 1)]
    if helped:
        phase.notes.append(f"the cache helped {len(helped)} of the requests although each prompt is unlike the others")
