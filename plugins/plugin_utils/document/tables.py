# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The four comparison tables: probes and decode, needles, concurrency, agentic.

A row is there when any column measured it. A needle's cold row takes what the engine's evidence calls cold, whatever
it was meant to be. Decode at depth is shown only when valid, the warm sample's before the cold one's: straight after
a long prefill a sample reads low, and warm ones are alike on every arm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..evidence import Evidence, number, text, whole
from .figures import MIN_DECODE_TOKENS, find, needle_state, needle_target
from .model import Cell, Column, Figure, Probe, Row, Table
from .words import ABSENT, clean, decimal, grouped

CellOf = Callable[[str], Cell | None]


def columns_of(evidence: Evidence) -> tuple[Column, ...]:
    """One column per arm; an arm whose plan says ``stands_in_for: B`` fills gaps of B's column instead."""
    stand_ins: dict[str, list[str]] = {}
    for arm in evidence.arms:
        other = text(arm.plan, "stands_in_for")
        if other and evidence.arm(other):
            stand_ins.setdefault(other, []).append(arm.name)
    fillers = {name for names in stand_ins.values() for name in names}
    return tuple(
        Column(clean(arm.title, 60), (arm.name, *stand_ins.get(arm.name, ())))
        for arm in evidence.arms
        if arm.name not in fillers
    )


def comparison(
    evidence: Evidence, columns: Sequence[Column], figures: Sequence[Figure], probes: Sequence[Probe]
) -> tuple[Table, ...]:
    """The tables that have at least one row."""
    maker = _Maker(evidence, tuple(columns), tuple(figures), tuple(probes))
    tables = (maker.probes_and_decode(), maker.needles(), maker.concurrency(), maker.agentic())
    return tuple(table for table in tables if table.rows)


def needle_depths(figures: Iterable[Figure]) -> list[int]:
    """The needle sizes that somebody measured, in tokens, rising."""
    names = {figure.workload.removeprefix("needle ") for figure in figures if figure.workload.startswith("needle ")}
    return sorted(int(name) for name in names if name.isdigit())


def sweep_levels(figures: Iterable[Figure]) -> list[int]:
    """The concurrency levels that somebody measured, rising."""
    return sorted({int(f.workload.removeprefix("sweep ")) for f in figures if f.workload.startswith("sweep ")})


def session_counts(figures: Iterable[Figure]) -> list[int]:
    """The numbers of agentic sessions that somebody measured, rising."""
    return sorted({int(f.workload.removeprefix("agentic ")) for f in figures if f.workload.startswith("agentic ")})


def decode_names(figures: Iterable[Figure]) -> list[str]:
    """The decode prompts that somebody measured, in the order of the plan."""
    return list(dict.fromkeys(f.workload.removeprefix("decode ") for f in figures if f.workload.startswith("decode ")))


def decode_at_depth(figures: Sequence[Figure], arm: str, depth: int) -> Figure | None:
    """The decode rate at a depth that counts for this arm: a valid warm one, else a valid cold one, else an invalid."""
    found = find(figures, arm, f"needle {depth}", "decode_tok_s")
    ranked = sorted(found, key=lambda figure: (figure.value is None, figure.state != "warm"))
    return ranked[0] if ranked else None


class _Maker:
    def __init__(
        self,
        evidence: Evidence,
        columns: tuple[Column, ...],
        figures: tuple[Figure, ...],
        probes: tuple[Probe, ...],
    ) -> None:
        self.evidence = evidence
        self.columns = columns
        self.figures = figures
        self.probes = probes

    def row(self, label: str, cell_of: CellOf, lent: dict[str, set[str]] | None = None) -> Row | None:
        """A row, or None when no column has it. ``lent`` collects which columns a stand-in filled."""
        cells: list[Cell] = []
        for column in self.columns:
            arm, cell = next(((arm, cell) for arm in column.arms if (cell := cell_of(arm)) is not None), (None, None))
            if arm is not None and arm != column.arms[0] and lent is not None:
                lent.setdefault(f"{column.title}: from arm {arm}", set()).add(label)
            cells.append(cell or Cell(ABSENT))
        return None if all(cell.text == ABSENT for cell in cells) else Row(label, tuple(cells))

    def table(self, title: str, first: str, wanted: Iterable[tuple[str, CellOf]], notes: tuple[str, ...] = ()) -> Table:
        lent: dict[str, set[str]] = {}
        made = [self.row(label, cell_of, lent) for label, cell_of in wanted]
        order = [row.label for row in made if row is not None]
        borrowed = tuple(
            f"{who} ({', '.join(label for label in order if label in labels)})" for who, labels in lent.items()
        )
        head = (first, *(column.title for column in self.columns))
        return Table(title, head, tuple(row for row in made if row is not None), (*notes, *borrowed))

    def probes_and_decode(self) -> Table:
        names = list(dict.fromkeys(probe.name for probe in self.probes))
        wanted: list[tuple[str, CellOf]] = [(probe_label(name), self._probe_cell(name)) for name in names]
        for name in decode_names(self.figures):
            found = [f for f in self.figures if f.workload == f"decode {name}" and f.measure == "decode_tok_s"]
            runs = max((figure.run for figure in found), default=1)
            label = f"{clean(name, 40)} decode (tok/s{f', {runs} runs' if runs > 1 else ''})"
            wanted.append((label, self._decode_cell(name)))
        return self.table("Probes and single-stream decode", "metric", wanted)

    def needles(self) -> Table:
        wanted: list[tuple[str, CellOf]] = []
        for depth in needle_depths(self.figures):
            wanted.append((f"{depth:,} cold: recall / TTFT s", self._cold_cell(depth)))
            wanted.append((f"{depth:,} decode at depth (tok/s)", self._depth_cell(depth)))
        title = f"Needles (decode shown only for >= {MIN_DECODE_TOKENS} forced tokens)"
        return self.table(title, "metric", wanted, tuple(self._meant_otherwise()))

    def _meant_otherwise(self) -> Iterable[str]:
        """Cold rows that were meant warm, said beside the table that uses them."""
        for arm in self.evidence.arms:
            for result in arm.of("needle"):
                expected = text(result.summary, "cache", "expected")
                if needle_state(result) == "cold" and expected == "warm":
                    depth = grouped(needle_target(result))
                    yield f"{clean(arm.title, 60)}, {depth} cold: it was meant warm, see Corrections."

    def concurrency(self) -> Table:
        wanted = [(str(level), self._sweep_cell(level)) for level in sweep_levels(self.figures)]
        return self.table("Concurrency: aggregate tok/s / per-request p50", "N", wanted)

    def agentic(self) -> Table:
        wanted: list[tuple[str, CellOf]] = []
        for sessions in session_counts(self.figures):
            for words, measures, places in (
                ("tool calls", ("tool_calls_valid", "tool_calls_total"), 0),
                ("recall", ("recall_passed", "recall_total"), 0),
                ("wall s", ("wall_s",), 1),
                ("TTFT p50 s", ("ttft_s_p50",), 3),
                ("TTFT max s", ("ttft_s_max",), 3),
            ):
                cell = self._joined_cell(f"agentic {sessions}", measures, places, "/")
                wanted.append((f"{sessions} session(s): {words}", cell))
            wanted.append((f"{sessions} session(s): decode min tok/s", self._burst_cell(f"agentic {sessions}")))
        notes = ("Agentic decode rates are bursts over the few tokens of a tool call, not sustained decode.",)
        return self.table(f"Agentic{self._agentic_size()}", "metric", wanted, notes)

    def _probe_cell(self, name: str) -> CellOf:
        def cell(arm: str) -> Cell | None:
            probe = next((probe for probe in self.probes if (probe.arm, probe.name) == (arm, name)), None)
            return None if probe is None else Cell(verdict_word(probe.passed), (probe.ref,))

        return cell

    def _decode_cell(self, name: str) -> CellOf:
        def cell(arm: str) -> Cell | None:
            found = find(self.figures, arm, f"decode {name}", "decode_tok_s")
            if not found:
                return None
            shown = ", ".join("invalid" if figure.value is None else decimal(figure.value) for figure in found)
            return Cell(shown, tuple(figure.ref for figure in found))

        return cell

    def _cold_cell(self, depth: int) -> CellOf:
        def cell(arm: str) -> Cell | None:
            found = find(self.figures, arm, f"needle {depth}", "ttft_s", "cold")
            if not found:
                return None
            first = found[0]
            passed = needle_passed(self.evidence, first)
            shown = "failed" if first.value is None else decimal(first.value)
            return Cell(f"{verdict_word(passed)} / {shown}", (first.ref,))

        return cell

    def _depth_cell(self, depth: int) -> CellOf:
        def cell(arm: str) -> Cell | None:
            figure = decode_at_depth(self.figures, arm, depth)
            if figure is None or not find(self.figures, arm, f"needle {depth}", "ttft_s"):
                return None
            return Cell("invalid" if figure.value is None else decimal(figure.value), (figure.ref,))

        return cell

    def _sweep_cell(self, level: int) -> CellOf:
        def cell(arm: str) -> Cell | None:
            aggregate = find(self.figures, arm, f"sweep {level}", "aggregate_tok_s")
            each = find(self.figures, arm, f"sweep {level}", "decode_tok_s_p50")
            if not aggregate or not each:
                return None
            failed = find(self.figures, arm, f"sweep {level}", "failed")
            lost = f" ({failed[0].value:.0f} failed)" if failed and failed[0].value else ""
            shown = f"{decimal(aggregate[0].value, 1)} / {decimal(each[0].value)}{lost}"
            return Cell(shown, (aggregate[0].ref, each[0].ref))

        return cell

    def _joined_cell(self, workload: str, measures: tuple[str, ...], places: int, joint: str) -> CellOf:
        def cell(arm: str) -> Cell | None:
            found = [figure for measure in measures for figure in find(self.figures, arm, workload, measure)]
            if len(found) != len(measures) or all(figure.value is None for figure in found):
                return None
            return Cell(joint.join(decimal(f.value, places) for f in found), tuple(f.ref for f in found))

        return cell

    def _burst_cell(self, workload: str) -> CellOf:
        sustained = self._joined_cell(workload, ("decode_tok_s_min",), 2, "")
        burst = self._joined_cell(workload, ("burst_tok_s_min",), 2, "")
        return lambda arm: sustained(arm) or burst(arm)

    def _agentic_size(self) -> str:
        results = [result for arm in self.evidence.arms for result in arm.of("agentic")]
        turns = sorted({t for result in results if (t := whole(result.summary, "turns"))})
        added = sorted({t for result in results if (t := whole(result.plan, "tool_result_tokens"))})
        reached = [n for result in results if (n := number(result.summary, "final_prompt_tokens_max"))]
        deepest = max(reached, default=None)
        if len(turns) != 1:
            return ""
        size = f"{turns[0]} turns"
        size += f" x ~{added[0] / 1000:.0f}K tool-result tokens" if len(added) == 1 else ""
        size += f", to ~{deepest / 1000:.0f}K" if deepest else ""
        return f" ({size})"


def needle_passed(evidence: Evidence, figure: Figure) -> bool | None:
    """Whether the needle that this figure belongs to was found."""
    for arm in evidence.arms:
        for result in arm.results:
            if result.path == figure.ref.path:
                passed = result.summary.get("passed")
                return passed if isinstance(passed, bool) else None
    return None


def probe_label(name: str) -> str:
    """A probe's name in words."""
    return {"tool_call": "tool call"}.get(name, clean(name, 60).replace("_", "-"))


def verdict_word(passed: bool | None) -> str:
    """PASS, FAIL, or that there is no verdict."""
    return "no verdict" if passed is None else "PASS" if passed else "FAIL"


def thousands(tokens: float) -> str:
    """A depth in words: 128K, 1M, 4,096."""
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.0f}M"
    return f"{tokens / 1000:.0f}K" if tokens >= 10_000 else grouped(tokens)
