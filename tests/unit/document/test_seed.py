"""The hand-written transcript of 2026-09-13, rendered from its own figures: the proof that nothing is lost or bent."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document import build, render
from ansible_collections.lobes.spike.plugins.plugin_utils.document.model import Document, Figure
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import load

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SEED = FIXTURES / "evidence" / "2026-09-13-lightning-thor"


@pytest.fixture(scope="module")
def document() -> Document:
    return build(load(SEED))


@pytest.fixture(scope="module")
def forms() -> dict[str, str]:
    return render(load(SEED))


def tables(text: str) -> dict[str, list[list[str]]]:
    """Markdown tables by their title, as lists of cells."""
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("### "):
            title = line.removeprefix("### ")
        elif line.startswith("| "):
            found.setdefault(title, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_the_comparison_tables_are_the_seeds_cell_for_cell(forms: dict[str, str]) -> None:
    wanted = tables((FIXTURES / "seed_tables.md").read_text(encoding="utf-8"))
    assert len(wanted) == 4
    assert tables(forms["comparison.md"]) == wanted
    assert list(tables(forms["comparison.md"])) == list(wanted)
    assert tables(forms["transcript.txt"]) == wanted


def test_the_fixture_is_what_its_maker_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, folder in (("make_seed", SEED.name), ("make_sim_small", "sim-small")):
        spec = importlib.util.spec_from_file_location(name, FIXTURES / "evidence" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        maker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(maker)
        monkeypatch.setattr(maker, "HERE", tmp_path / folder)
        maker.main()
        made, committed = ({p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
                           for root in (tmp_path / folder, FIXTURES / "evidence" / folder))  # fmt: skip
        assert made == committed


def test_winners_agree_or_name_the_rule_that_differs(document: Document) -> None:
    told = {ranking.workload: (ranking.winners, ranking.earlier, ranking.earlier_note) for ranking in document.rankings}
    indicative, tie = "agrees, as an indicative win on single samples", "by this rule a tie"
    assert told == {
        "single-stream prose": (("C", "B"), ("B",), tie),
        "single-stream code": (("C",), ("C",), indicative),
        "decode at 128,000": (("B", "C"), ("B",), tie),
        "decode at 250,000": (("B", "C"), ("B",), tie),
        "decode at 1,040,000": (("C",), ("C",), indicative),
        "cold prefill 128,000": (("D", "B"), ("D",), tie),
        "cold prefill 250,000": (("D", "C"), ("D",), tie),
        "cold prefill 1,040,000": (("D",), ("D",), indicative),
        "concurrency 1..32": (("B", "D"), ("B", "D"), "agrees"),
        "agentic, 1 session": (("D",), ("D",), indicative),
        "agentic, 4 sessions": (("D",), ("D",), indicative),
    }


def test_every_tie_says_which_part_of_the_rule_made_it(document: Document) -> None:
    basis = {ranking.workload: ranking.basis for ranking in document.rankings if len(ranking.winners) > 1}
    assert basis.pop("single-stream prose") == "the ranges of their runs overlap"
    assert set(basis.values()) == {"single samples within 5%"}


def test_run_c_at_1m_is_cold_and_says_why(document: Document, forms: dict[str, str]) -> None:
    assert any(
        line.startswith("C, needle 1,040,000: meant warm, in fact cold (the operator had skipped the only earlier 1M")
        for line in document.corrections
    )
    assert "DSpark fp8, 1,040,000 cold: it was meant warm, see Corrections." in forms["comparison.md"]


@pytest.mark.parametrize("rate", ["278.8", "1482.9"])
def test_rates_over_nine_tokens_appear_only_as_invalid(forms: dict[str, str], rate: str) -> None:
    for text in forms.values():
        words = " ".join(text.replace("#", " ").split())
        assert words.count(rate) == words.count(f"(recorded: {rate} tok/s)")
    assert not [figure for figure in build(load(SEED)).figures if figure.value == float(rate)]


def test_heat_is_attributed_as_recorded(forms: dict[str, str]) -> None:
    text = forms["transcript.txt"]
    run_d = text[text.index("## Run D") :]
    cold = {depth: run_d[run_d.index(f"  {depth} tokens, cold") :] for depth in ("128,073", "250,073", "1,040,073")}
    heat = {depth: re.search(r"heat: (.*)", part).group(1) for depth, part in cold.items()}  # type: ignore[union-attr]
    assert heat["1,040,073"] == "under 238 alerts"
    assert "Kernel log, D needle-1040000-cold: 238 alerts inside" in text
    assert heat["128,073"].startswith("clean")
    assert heat["250,073"].startswith("clean")
    bounds = {
        "A": "",
        "B": "; tj max 99.5 C, 9.5 C below the 109.0 C trip",
        "C": "; tj max 100.2 C, 8.8 C below the 109.0 C trip",
    }
    for arm, bound in bounds.items():
        section = text[text.index(f"## Run {arm} ") :]
        assert f"Heat: no alert seen; kernel log does not cover{bound}\n" in section[: section.index("Needles")]


def test_derived_figures_are_recomputed_not_stored(forms: dict[str, str]) -> None:
    text = forms["transcript.txt"]
    for derived in (
        "143.33x of 128,000", "19.49x of 1,048,576", "17.08x of 1,048,576", "9.91x of 1,048,576", "99.2% of the window",
        "prefill 616 tok/s", "prefill 626 tok/s", "prefill 718 tok/s", "Aggregate scales 7.1x from N=1 to N=32",
        "falls to 22% of N=1", "-> 1.79x", "(-4.8%)", "(-0.9%)", "(-13.7%)", "(-20.9%)", "(-19.7%)", "180/180", "45/45",
        "+1.62 GiB model in memory", "(28.1 min)", "(27.7 min)", "(24.1 min)", "9.5 C below",
    ):  # fmt: skip
        assert derived in text, derived
    stored = "".join(path.read_text(encoding="utf-8") for path in SEED.rglob("*.json"))
    for derived in ("616.2", '"prefill_tok_s"', "1.79", "34.7", "99.2", "capacity_ceiling_requests"):
        assert derived not in stored, derived


def test_every_figure_leads_back_to_the_evidence(document: Document) -> None:
    def derived(figure: Figure) -> bool:
        return figure.measure in ("capacity_ceiling_requests", "prefill_tok_s")

    for figure in document.figures:
        found: Any = json.loads((SEED / figure.ref.path).read_text(encoding="utf-8"))
        if figure.value is None or derived(figure):
            continue
        for step in figure.ref.pointer.strip("/").split("/"):
            found = found[int(step)] if isinstance(found, list) else found[step]
        assert found == figure.value


def test_nothing_of_the_operators_is_decided(forms: dict[str, str]) -> None:
    text = forms["transcript.txt"]
    decided = text[text.index("## NOT DECIDED HERE") :]
    for matter in ("DSpark adoption", "fp8 or bfloat16 KV cache", "associate lane", "the worker lane's disposition"):
        assert matter in decided


def test_rendering_the_seed_is_quick() -> None:
    begun = time.perf_counter()
    render(load(SEED))
    assert time.perf_counter() - begun < 3.0
