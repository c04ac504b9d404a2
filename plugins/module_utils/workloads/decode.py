# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single-stream decode speed: one request after the other, each answer forced to a length."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..client import ChatRequest, Sample
from ..results.window import Clocks
from .checks import repetitive
from .plans import Common, DecodePlan, fits
from .run import Measured, Run, planned, reused
from .server import CHAT_PATH, Server, chat_body

WARMUP_PROMPT = "Name the colours of the rainbow, one per line."


def result_name(plan: DecodePlan) -> str:
    """``decode-<name>``."""
    return f"decode-{plan.name}"


def plan_only(plan: DecodePlan, common: Common) -> dict[str, Any]:
    """What check mode returns."""
    requests = plan.runs + plan.warmup_runs
    return planned("decode", result_name(plan), plan, common, requests, {"output_tokens": requests * plan.max_tokens})


def run(plan: DecodePlan, common: Common, clocks: Clocks | None = None) -> dict[str, Any]:
    """Measure; a failed run is a failed sample and the others are kept."""
    earlier = reused("decode", plan, common)
    if earlier is not None:
        return earlier
    server = Server.discover(common)
    messages = [{"role": "user", "content": plan.prompt}]
    body = _body(plan, common, server, messages)
    if server.max_model_len is not None:
        prompt_tokens = server.count_messages(messages, body)
        fits("max_tokens", prompt_tokens or 1, plan.max_tokens, server.max_model_len)
    total = plan.runs + plan.warmup_runs
    forced = plan.max_tokens if plan.forced else None
    measurements: list[Measured] = []
    with Run("decode", result_name(plan), plan, common, server, total, "requests", clocks or Clocks()) as phase:
        warmup = _body(plan, common, server, [{"role": "user", "content": WARMUP_PROMPT}])
        for number in range(1, plan.warmup_runs + 1):
            if phase.stopping():
                break
            # Its own prompt: a warm-up with the measured one would fill the cache for it.
            label = f"warmup-{number}"
            measured = phase.send(label, [ChatRequest(body=warmup, label=label, path=CHAT_PATH)])
            phase.notes += [f"{s.label} failed: {s.error}" for s in measured.samples if s.status != "ok"]
        part = phase.earlier()
        if part is not None:
            phase.take_over(part["samples"])
        for number in range(len(phase.samples) + 1, plan.runs + 1):
            if phase.stopping():
                break
            label = f"run-{number}"
            measured = phase.send(label, [ChatRequest(body=body, label=label, path=CHAT_PATH)])
            measurements.append(measured)
            phase.keep(measured, forced_tokens=forced, thinking=False, extra=partial(_extra, measured))
            if number < plan.runs:
                phase.save_partial(_summary(plan, phase))
        for measured in measurements:
            if repetitive(measured.samples[0].text):
                phase.notes.append(f"{measured.label}: the text repeats itself: degenerate output?")
        return phase.finish(_summary(plan, phase))


def _body(plan: DecodePlan, common: Common, server: Server, messages: list[dict[str, Any]]) -> dict[str, Any]:
    return chat_body(
        server,
        messages,
        max_tokens=plan.max_tokens,
        forced=plan.forced,
        thinking=False,
        extra_body=common.extra_body,
    )


def _extra(measured: Measured, sample: Sample) -> dict[str, Any]:
    verdict = measured.cache(sample)
    return {"cache": verdict.to_json(None)} if sample.status == "ok" else {"cache": None}


def _summary(plan: DecodePlan, phase: Run) -> dict[str, Any]:
    figures = phase.samples
    return {
        "runs": len(figures),
        "ok": phase.ok,
        "failed": phase.failed,
        "prompt_name": plan.name,
        "decode_tok_s": [sample["decode_tok_s"] for sample in figures],
        "ttft_s": [sample["ttft_s"] if sample["status"] == "ok" else None for sample in figures],
        "completion_tokens": [sample["completion_tokens"] if sample["status"] == "ok" else None for sample in figures],
    }
