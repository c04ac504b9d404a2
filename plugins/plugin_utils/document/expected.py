# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator expected of an arm, held against what was measured.

An arm's ``expect`` is a list of sentences ``<workload> <relation> <arm> [by <number> %]``: *decode at 1M above B by
20 %*, *cold prefill 250K same as B*, *prose better than D*. A workload is one of the document's (depths may be written
128K or 1M and are matched within 5 %). ``above`` and ``below`` compare the numbers, ``better than`` and ``worse than``
their sense (a shorter time is better), ``same as`` means within the noise.

The verdict is *confirmed* or *contradicted* when the difference clears the noise, else *not decidable*. Noise is the
ranges of the runs where both arms made several, else the band that single samples have in the ranking's rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError

from ..evidence import Evidence, texts
from .model import Contender, Expected, Ranking
from .words import clean, percent

NEAR: Final = 0.05
RELATIONS: Final = ("above", "below", "better than", "worse than", "same as")

_SENTENCE: Final = re.compile(
    r"\s*(?P<workload>.+?)\s+(?P<relation>above|below|better than|worse than|same as)\s+(?P<arm>[\w.-]+)"
    r"(?:\s+by\s+(?P<share>\d+(?:\.\d+)?)\s*(?:%|percent))?\s*\Z"
)
_DEPTH: Final = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*([kKmM]?)\b")


@dataclass(frozen=True)
class Sentence:
    """One expectation, read. ``share`` is the least difference, as a share of the other arm's figure."""

    workload: str
    relation: str
    arm: str
    share: float


def read(sentence: str, field: str = "expect") -> Sentence:
    """Read one expectation.

    Raises:
        PlanError: it is not such a sentence.
    """
    match = _SENTENCE.match(sentence)
    if match is None:
        raise PlanError(
            field, sentence, "Write '<workload> above|below|better than|worse than|same as <arm> [by N %]'."
        )
    share = float(match["share"]) / 100 if match["share"] else 0.0
    return Sentence(match["workload"], match["relation"], match["arm"], share)


def judge(evidence: Evidence, rankings: Sequence[Ranking], band: float) -> tuple[Expected, ...]:
    """Every arm's expectations with their verdicts, in the order they were written."""
    return tuple(
        Expected(arm.name, clean(sentence, 200), *_verdict(arm.name, sentence, rankings, band))
        for arm in evidence.arms
        for sentence in texts(arm.plan, "expect")
    )


def _verdict(arm: str, raw: str, rankings: Sequence[Ranking], band: float) -> tuple[str, str]:
    try:
        sentence = read(raw)
    except PlanError as exc:
        return "not decidable", clean(exc)
    ranking = next((ranking for ranking in rankings if same_workload(sentence.workload, ranking.workload)), None)
    if ranking is None:
        return "not decidable", "no such workload was measured on two arms"
    by_arm = {contender.arm: contender for contender in ranking.contenders}
    own, other = by_arm.get(arm), by_arm.get(sentence.arm)
    if own is None or other is None:
        missing = ", ".join(name for name in (arm, sentence.arm) if name not in by_arm)
        return "not decidable", f"nothing valid was measured on {clean(missing, 60)}"
    low, high, noise = _difference(own, other, band)
    told = f"{percent(own.central, other.central)}, {noise}"
    if sentence.relation == "same as":
        return ("confirmed" if low <= 0 <= high else "contradicted"), told
    upward = sentence.relation == "above" or (
        sentence.relation in ("better than", "worse than")
        and (sentence.relation == "better than") == ranking.higher_is_better
    )
    # An expected difference must lie on one side of the whole noise, or it cannot be told.
    if upward:
        least, most = low, high
    else:
        least, most = -high, -low
    if least >= sentence.share:
        return "confirmed", told
    return ("contradicted" if most < sentence.share else "not decidable"), told


def _difference(own: Contender, other: Contender, band: float) -> tuple[float, float, str]:
    """The lowest and highest difference, as a share of the other's figure, that the runs allow."""
    if len(own.figures) > 1 and len(other.figures) > 1:
        return own.low / other.high - 1, own.high / other.low - 1, "by the ranges of the runs"
    middle = own.central / other.central - 1
    return middle - band, middle + band, f"single samples, band {band:.0%}"


def same_workload(asked: str, measured: str) -> bool:
    """Whether an operator's words mean a workload of the document."""
    words, numbers = _parts(asked)
    their_words, their_numbers = _parts(measured)
    if "concurrency" in words and "concurrency" in their_words:
        return True
    return (
        words == their_words
        and len(numbers) == len(their_numbers)
        and all(abs(one - two) <= NEAR * two for one, two in zip(numbers, their_numbers, strict=True))
    )


def _parts(raw: str) -> tuple[frozenset[str], list[float]]:
    """The words that tell workloads apart, and the numbers (128K is 128000)."""
    numbers = [float(n.replace(",", "")) * {"": 1, "k": 1e3, "m": 1e6}[unit.lower()] for n, unit in _DEPTH.findall(raw)]
    return frozenset(_words(_DEPTH.sub(" ", raw))), numbers


def _words(raw: str) -> Iterator[str]:
    dull: Iterable[str] = ("at", "depth", "single", "stream", "session", "sessions", "tokens", "of")
    for word in re.findall(r"[a-z_]+", raw.lower()):
        if word not in dull:
            yield word
