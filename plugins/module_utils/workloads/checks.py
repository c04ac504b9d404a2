# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Was what was asked really done, and can what was measured be true?

Engines ignore request fields they do not know, so every demand is checked on the reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..client import Sample
from ..client.figures import ceiling_tok_s, implausible
from .plans import Common

_THINK_CLOSED = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_THINK_OPEN = re.compile(r"<think>(.*)\Z", re.DOTALL)

Check = dict[str, Any]


def split_thinking(content: str) -> tuple[str, str]:
    """(answer, thinking) of a content that may hold ``<think>`` text; an unclosed one runs to the end.

    A lone ``</think>`` means that the opening tag was part of the prompt: all before it is thinking.
    """
    if "<think>" not in content and "</think>" in content:
        thinking, answer = content.split("</think>", 1)
        return answer.strip(), thinking.strip()
    thinking_parts = _THINK_CLOSED.findall(content)
    answer = _THINK_CLOSED.sub("", content)
    unclosed = _THINK_OPEN.search(answer)
    if unclosed:
        thinking_parts.append(unclosed.group(1))
        answer = answer[: unclosed.start()]
    if not thinking_parts:
        return content, ""
    return answer.strip(), "\n".join(part.strip() for part in thinking_parts)


def answer_of(sample: Sample) -> str:
    """What the model answered, without thinking text wherever the engine put it."""
    return split_thinking(sample.text)[0]


def asked_and_got(sample: Sample, *, model: str, forced_tokens: int | None, thinking: bool | None) -> list[Check]:
    """Checks of one ok sample: the forced tokens arrived, thinking was off, the model is the one asked for."""
    if sample.status != "ok":
        return []
    checks = []
    if forced_tokens is not None:
        got = sample.completion_tokens
        ok = None if got is None else got == forced_tokens and sample.finish_reason == "length"
        checks.append(
            _check(
                "forced_tokens", sample, forced_tokens, got, ok,
                f"{forced_tokens} tokens were forced, {got} came (finish_reason {sample.finish_reason}): the engine "
                "does not honour min_tokens with ignore_eos",
            )
        )  # fmt: skip
    if thinking is False:
        thought = sample.reasoning or split_thinking(sample.text)[1]
        where = sample.reasoning_field or "content"
        asked_off = bool(thought) or bool(sample.reasoning_tokens)
        checks.append(
            _check(
                "thinking_off", sample, False, bool(asked_off), not asked_off,
                f"thinking was asked to be off and came all the same ({len(thought)} characters in {where})",
            )
        )  # fmt: skip
    if sample.model is not None:
        checks.append(
            _check(
                "model", sample, model, sample.model, sample.model == model,
                f"the reply names the model {sample.model[:200]}, asked was {model}",
            )
        )  # fmt: skip
    return checks


def plausible(sample: Sample, common: Common, tokens_per_step: float | None, text_tokens: int | None) -> list[Check]:
    """Figures of one ok sample that cannot be true, each named."""
    if sample.status != "ok":
        return []
    ceiling = None
    if common.active_model_bytes is not None and common.memory_bandwidth_bytes_s is not None:
        ceiling = ceiling_tok_s(common.active_model_bytes, common.memory_bandwidth_bytes_s, tokens_per_step or 1.0)
    doubts = implausible(sample, ceiling=ceiling, text_tokens=text_tokens)
    return [
        {"check": "plausible", "label": sample.label, "asked": None, "found": None, "ok": False, "text": doubt}
        for doubt in doubts
    ]


def repetitive(text: str) -> bool:
    """Is the text degenerate: do over half of its sequences of four words repeat earlier ones? (At least 64 words.)"""
    words = text.split()
    if len(words) < 64:
        return False
    grams = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
    return len(set(grams)) < len(grams) / 2


def failed_checks(checks: Sequence[Check]) -> list[str]:
    """One sentence for each check that did not hold."""
    return [f"{check['label']}: {check['text']}" for check in checks if check["ok"] is False]


def _check(name: str, sample: Sample, asked: Any, found: Any, ok: bool | None, text: str) -> Check:
    shown = text if ok is False else None
    return {"check": name, "label": sample.label, "asked": asked, "found": found, "ok": ok, "text": shown}
