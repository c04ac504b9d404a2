# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This project's client, all streams at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.lobes.spike.plugins.module_utils.client import (
    ChatRequest,
    Endpoint,
    Sample,
    run_batch,
)
from ansible_collections.lobes.spike.plugins.module_utils.client.figures import observed_rate

NAME = "lobes.spike"
VERSION = "this checkout"


def available() -> str | None:
    return None


def request(name: str) -> ChatRequest:
    body = {
        "model": name,
        "messages": [{"role": "user", "content": "Say something."}],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "max_tokens": 512,
    }
    return ChatRequest(body, label=name)


def report(sample: Sample) -> dict[str, Any]:
    """A sample in the table's words. The short streams of the set are below the rate's own limits, so those are off."""
    if sample.status != "ok":
        return {"status": "failed", "error": sample.error}
    rate, _ = observed_rate(sample, min_tokens=2, min_events=2)
    names = ("ttft_s", "first_answer_s", "last_token_s", "max_gap_s", "text", "reasoning", "tool_calls")
    more = ("finish_reason", "prompt_tokens", "cached_tokens")
    return {
        "status": "ok",
        "tokens": sample.completion_tokens,
        "decode_tok_s": rate,
        **{name: getattr(sample, name) for name in (*names, *more)},
    }


def measure(url: str, names: list[str]) -> dict[str, dict[str, Any] | None]:
    samples = run_batch(Endpoint.parse(url), [request(name) for name in names], request_timeout_s=60)
    return {sample.label: report(sample) for sample in samples}
