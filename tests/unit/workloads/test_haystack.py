# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.workloads import haystack, text
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import NeedlePlan


def plan(target: int, **changes: Any) -> NeedlePlan:
    base = {
        "prompt_tokens": target, "depth": 37, "secret": "MAROON-4817", "question": "What is the code?",
        "statement": "The code is {secret}.",
    }  # fmt: skip
    return NeedlePlan.from_options({**base, **changes})


def words(piece: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", piece))


def pieces(piece: str) -> int:
    """A tokenizer where tokens are not words: letters in threes, and what meets at a border merges."""
    return -(-len(piece) // 3)


class Counting:
    def __init__(self, count: Callable[[str], int], template: int = 9) -> None:
        self.count, self.template = count, template
        self.whole = 0

    def messages(self, messages: haystack.Messages) -> int:
        self.whole += 1
        return self.template + self.count(messages[0]["content"])


@pytest.mark.parametrize("count", [words, pieces])
@pytest.mark.parametrize(
    ("target", "depth"), [(90, 37), (120, 0), (120, 99.9), (500, 37), (4_096, 0), (9_999, 99.9), (128_000, 37)]
)
def test_the_target_is_met(count: Callable[[str], int], target: int, depth: float) -> None:
    counter = Counting(count)
    needle = haystack.build(plan(target, depth=depth), counter.messages, count)
    assert needle.tokens == counter.template + count(needle.messages[0]["content"])
    assert abs(needle.tokens - target) <= max(1, target // 1_000)
    assert needle.messages[0]["content"].count("MAROON-4817") == 1


def test_a_million_tokens_cost_little() -> None:
    counter = Counting(lambda piece: len(piece) // 4)
    target = 1_040_000
    started = time.process_time()
    needle = haystack.build(plan(target), counter.messages, lambda piece: len(piece) // 4)
    seconds = time.process_time() - started
    assert abs(needle.tokens - target) <= target // 1_000
    assert needle.counts <= 3
    assert counter.whole <= 5
    assert seconds < 3


def test_a_million_tokens_fit_in_memory() -> None:
    tracemalloc.start()
    haystack.build(plan(1_040_000), Counting(pieces).messages, pieces)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


def test_the_text_depends_on_the_plan_alone() -> None:
    def content(**changes: Any) -> str:
        target = changes.pop("target", 5_000)
        return str(haystack.build(plan(target, **changes), Counting(words).messages, words).messages[0]["content"])

    assert content() == content()
    for other in ({"seed": 2}, {"depth": 50}, {"target": 6_000}, {"secret": "OTHER-1"}):
        # Unlike from the title on: nothing of another needle's text can be in the cache.
        start = len(haystack.INTRODUCTION) + 40
        assert content()[:start] != content(**other)[:start]


def test_the_secret_lies_at_its_depth() -> None:
    content = str(haystack.build(plan(50_000), Counting(words).messages, words).messages[0]["content"])
    assert content.index("MAROON-4817") / len(content) == pytest.approx(0.37, abs=0.01)


def test_a_target_below_the_question_is_refused() -> None:
    with pytest.raises(PlanError, match="The question alone takes"):
        haystack.least(plan(20), Counting(words).messages)


def test_counts_that_do_not_settle_are_an_error_not_a_prompt() -> None:
    with pytest.raises(SpikeError, match="could not be built"):
        haystack.build(plan(10_000), lambda messages: 60, words)


def test_texts_of_two_seeds_share_nothing_long() -> None:
    one, two = (text.sentences(text.rng("x", seed), 200) for seed in (1, 2))
    assert one[:60] != two[:60]
    assert text.sentences(text.rng("x", 1), 200) == one
