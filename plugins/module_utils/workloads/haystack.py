# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prompt of an exact number of tokens with a secret in it, by the engine's own tokenizer.

The text is grown by whole entries to an estimate, counted once by the engine, trimmed or extended by the difference
(counted on the small piece only) and counted again: two counts of the whole for a million tokens, as a rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..errors import PlanError, SpikeError
from . import text
from .plans import NeedlePlan

INTRODUCTION = "Below is the log book of a harbour. One of its entries holds a code. Read all of it."
SAMPLE_ENTRIES = 64
MAX_WHOLE_COUNTS = 6
# Aim for one in ten thousand, exactly below ten thousand tokens; what is accepted is one in a thousand.
AIM = 10_000
ACCEPT = 1_000

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Needle:
    """The built prompt. ``tokens`` is the engine's count, ``counts`` how often the whole was counted."""

    messages: Messages
    tokens: int
    entries: int
    secret_entry: int
    sha256: str
    counts: int


class _Book:
    """The log book under construction: entries, and filler words that close the last few tokens."""

    def __init__(self, plan: NeedlePlan) -> None:
        self.plan = plan
        identity = (plan.seed, plan.prompt_tokens, plan.depth, plan.secret)
        self._source = text.paragraphs(text.rng("needle", *identity))
        # First in the prompt, so that no needle of another size or seed finds a part of itself in the cache.
        self.title = f"Log book {text.tag('needle', *identity)}."
        self.entries: list[str] = []
        self.filler = 0

    def resize(self, count: int) -> list[str]:
        """Add or drop entries at the end; returns those added or dropped."""
        have = len(self.entries)
        if count >= have:
            added = list(islice(self._source, count - have))
            self.entries += added
            return added
        dropped = self.entries[count:]
        # What was dropped is kept in front of the generator: the text depends on the target, not on the way there.
        rest = self._source
        self._source = _chain(dropped, rest)
        del self.entries[count:]
        return dropped

    def secret_entry(self) -> int:
        return round(len(self.entries) * self.plan.depth / 100)

    def messages(self) -> Messages:
        at = self.secret_entry()
        parts = [INTRODUCTION, self.title, *self.entries[:at], self.plan.statement.format(secret=self.plan.secret)]
        parts += self.entries[at:]
        if self.filler:
            parts.append(filler(self.filler))
        parts.append(self.plan.question)
        return [{"role": "user", "content": "\n\n".join(parts)}]


def filler(words: int) -> str:
    """Short common words, close to one token each."""
    return "All" + " is well and" * (words // 3) + " so" * (words % 3)


def least(plan: NeedlePlan, count_messages: Callable[[Messages], int]) -> int:
    """Tokens of the smallest prompt: the secret and the question alone. Raises PlanError when the target is less."""
    smallest = count_messages(_Book(plan).messages())
    if smallest > plan.prompt_tokens:
        raise PlanError(
            "prompt_tokens", plan.prompt_tokens, f"The question alone takes {smallest} tokens; write more than that."
        )
    return smallest


def build(
    plan: NeedlePlan,
    count_messages: Callable[[Messages], int],
    count_text: Callable[[str], int],
) -> Needle:
    """Build the prompt.

    Raises:
        PlanError: ``prompt_tokens`` is less than the question itself needs.
        SpikeError: the engine's counts do not settle within 0.1 % of the target.
    """
    book = _Book(plan)
    smallest = least(plan, count_messages)
    target = plan.prompt_tokens
    sample = "\n\n".join(islice(text.paragraphs(text.rng("needle-sample", plan.seed)), SAMPLE_ENTRIES))
    per_entry = max(1.0, count_text(sample) / SAMPLE_ENTRIES)
    book.resize(int((target - smallest) / per_entry))
    best: Needle | None = None
    for counts in range(1, MAX_WHOLE_COUNTS + 1):
        messages = book.messages()
        tokens = count_messages(messages)
        if best is None or abs(tokens - target) < abs(best.tokens - target):
            best = _needle(book, messages, tokens, counts)
        if abs(tokens - target) <= target // AIM:
            break
        _adjust(book, target - tokens, per_entry, count_text)
    if best is None or abs(best.tokens - target) > max(1, target // ACCEPT):
        got = best.tokens if best else None
        raise SpikeError(f"a prompt of {target} tokens could not be built: the engine's count settled at {got}.")
    return best


def _adjust(book: _Book, missing: int, per_entry: float, count_text: Callable[[str], int]) -> None:
    """Bring the book ``missing`` tokens nearer (negative: too long), counting only the piece that changes."""
    if missing < 0 and book.filler >= -missing:
        book.filler += missing
        return
    if missing < 0:
        # Drop one entry more than needed, and close the gap with words.
        missing += book.filler
        book.filler = 0
        dropped = book.resize(max(0, len(book.entries) - 1 - int(-missing / per_entry)))
        missing += count_text("\n\n".join(dropped)) if dropped else 0
    elif missing > per_entry:
        added = book.resize(len(book.entries) + int(missing / per_entry))
        missing -= count_text("\n\n".join(added)) if added else 0
    if missing > 0:
        words = book.filler + missing
        measured = max(1, count_text(filler(words)))
        book.filler = max(0, round(words * words / measured))


def _needle(book: _Book, messages: Messages, tokens: int, counts: int) -> Needle:
    digest = hashlib.sha256(str(messages[0]["content"]).encode("utf-8")).hexdigest()
    return Needle(messages, tokens, len(book.entries), book.secret_entry(), digest, counts)


def _chain(first: Sequence[str], rest: Any) -> Any:
    yield from first
    yield from rest
