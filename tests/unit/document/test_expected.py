"""The operator's expectations, held against figures with their noise."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError
from ansible_collections.lobes.spike.plugins.plugin_utils.document import build
from ansible_collections.lobes.spike.plugins.plugin_utils.document.expected import Sentence, judge, read, same_workload
from ansible_collections.lobes.spike.plugins.plugin_utils.document.model import Contender, Figure, Ranking, Ref
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import ArmEvidence, Evidence, load

SEED = Path(__file__).resolve().parents[2] / "fixtures" / "evidence" / "2026-09-13-lightning-thor"


def test_a_sentence_is_read() -> None:
    assert read("decode at 1M above B by 20 %") == Sentence("decode at 1M", "above", "B", 0.2)
    assert read("agentic, 4 sessions better than plain-8") == Sentence(
        "agentic, 4 sessions", "better than", "plain-8", 0
    )


@pytest.mark.parametrize("bad", ["", "decode", "decode at 1M over B", "above B by 3 %", "decode above B by much"])
def test_a_bad_sentence_is_refused_with_its_field(bad: str) -> None:
    with pytest.raises(PlanError, match="expect"):
        read(bad)


@pytest.mark.parametrize(
    ("asked", "measured", "same"),
    [
        ("decode at 1M", "decode at 1,040,000", True),
        ("decode at 128K", "decode at 128,000", True),
        ("decode at 128K", "decode at 250,000", False),
        ("prose", "single-stream prose", True),
        ("code", "single-stream prose", False),
        ("cold prefill 250K", "cold prefill 250,000", True),
        ("decode 250K", "cold prefill 250,000", False),
        ("concurrency", "concurrency 1..32", True),
        ("agentic 4", "agentic, 4 sessions", True),
        ("agentic 1 session", "agentic, 4 sessions", False),
    ],
)
def test_workloads_are_matched_as_people_write_them(asked: str, measured: str, same: bool) -> None:
    assert same_workload(asked, measured) is same


def contender(arm: str, *values: float) -> Contender:
    figures = tuple(Figure(arm, "w", "m", value, Ref("x")) for value in values)
    return Contender(arm, figures, sorted(values)[len(values) // 2], min(values), max(values))


@pytest.mark.parametrize(
    ("sentence", "own", "other", "higher", "verdict"),
    [
        ("decode at 1M above B by 20 %", (45.02,), (33.41,), True, "confirmed"),
        ("decode at 1M above B by 32 %", (45.02,), (33.41,), True, "not decidable"),
        ("decode at 1M above B by 50 %", (45.02,), (33.41,), True, "contradicted"),
        ("decode at 1M below B", (45.02,), (33.41,), True, "contradicted"),
        ("decode at 1M same as B", (34.0,), (33.41,), True, "confirmed"),
        ("decode at 1M same as B", (45.02,), (33.41,), True, "contradicted"),
        ("decode at 1M better than B", (90.0,), (100.0,), False, "confirmed"),
        ("decode at 1M worse than B", (90.0,), (100.0,), False, "contradicted"),
        ("decode at 1M above B", (100.0, 101.0), (99.0, 99.5), True, "confirmed"),
        ("decode at 1M above B", (99.2, 101.0), (99.0, 99.5), True, "not decidable"),
        ("decode at 1M above X", (1.0,), (1.0,), True, "not decidable"),
        ("prefill above B", (1.0,), (1.0,), True, "not decidable"),
        ("nonsense", (1.0,), (1.0,), True, "not decidable"),
    ],
)  # fmt: skip
def test_a_verdict_needs_a_difference_beyond_the_noise(
    sentence: str, own: tuple[float, ...], other: tuple[float, ...], higher: bool, verdict: str
) -> None:
    contenders = (contender("C", *own), contender("B", *other))
    ranking = Ranking("decode at 1,040,000", "decode_tok_s", higher, contenders, (), "", False)
    evidence = Evidence(arms=(ArmEvidence("C", {"expect": [sentence]}, None, ()),))
    (judged,) = judge(evidence, (ranking,), 0.05)
    assert (judged.arm, judged.verdict) == ("C", verdict)


def test_the_document_says_what_came_of_each(sim_small: Path) -> None:
    document = build(load(sim_small))
    assert [(one.sentence, one.verdict) for one in document.expected] == [
        ("code above B by 20 %", "confirmed"),
        ("prose better than B", "contradicted"),
        ("decode at 16K above B by 3 %", "contradicted"),
        ("needles same as B", "not decidable"),
    ]
