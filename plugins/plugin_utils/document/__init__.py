# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence in, document out, by pure functions: same evidence, same bytes.

Nothing here reads a clock, a locale or the environment, and nothing that an engine or a model wrote is ever taken for
a template or for markup.
"""

from __future__ import annotations

from ..evidence import Evidence, text
from . import baseline, data, expected, findings, heat, lane, ranking, report, tables, transcript
from .figures import extract, probes
from .model import Document
from .transcript import Stopped
from .words import clean, harmless

TRANSCRIPT_NAME = "transcript.txt"
PARTIAL_NAME = "transcript.partial.txt"
COMPARISON_NAME = "comparison.md"
REPORT_NAME = "report.html"
JSON_NAME = "results.json"
CSV_NAME = "results.csv"


def build(evidence: Evidence, partial: bool = False) -> Document:
    """Judge the evidence: figures, tables, winners, findings. A partial one is not blamed for what comes last."""
    figures = extract(evidence)
    judged = probes(evidence)
    columns = tables.columns_of(evidence)
    ranked = ranking.rankings(evidence, columns, figures)
    references = _references(evidence)
    beside = baseline.judge(evidence, figures, judged)
    marks = {path: f"[{number}]" for path, number in references.items()}
    return Document(
        evidence=evidence,
        figures=figures,
        probes=judged,
        columns=columns,
        tables=(
            *tables.comparison(evidence, columns, figures, judged),
            *([baseline.table(beside)] if beside is not None else []),
        ),
        rankings=ranked,
        arm_verdicts=ranking.verdicts(columns, ranked),
        expected=expected.judge(evidence, ranked, ranking.BAND),
        verdict=findings.verdict(evidence, figures),
        correctness=findings.correctness(evidence, judged),
        corrections=findings.corrections(evidence, figures, marks),
        incidents=findings.incidents(evidence, marks),
        false_alarms=findings.false_alarms(evidence),
        heat_flags=heat.flags(evidence),
        coverage_limits=findings.coverage_limits(evidence, partial),
        not_measured=findings.not_measured(evidence),
        undecided=findings.undecided(evidence),
        references=references,
        baseline=beside,
    )


def render(evidence: Evidence) -> dict[str, str]:
    """Every final form, by file name."""
    document = build(evidence)
    forms = {
        TRANSCRIPT_NAME: transcript.write(document),
        COMPARISON_NAME: comparison(document),
        REPORT_NAME: report.write(document),
        JSON_NAME: data.results_json(document),
        CSV_NAME: data.results_csv(document),
    }
    # Each writer cleans what it quotes; should one forget, nothing hostile leaves here all the same.
    return {name: harmless(text) for name, text in forms.items()}


def render_partial(evidence: Evidence, stopped: Stopped) -> str:
    """The transcript of a spike that has not ended, marked so and saying where it stands."""
    return harmless(transcript.write(build(evidence, partial=True), stopped))


def summary(evidence: Evidence) -> list[str]:
    """What an operator wants to read when the run ends, in 13 lines at most."""
    document = build(evidence)
    lines = [transcript.title(document)]
    if evidence.simulated:
        lines.append("SIMULATED: no figure here says anything about hardware.")
    for verdict in document.arm_verdicts[:5]:
        counts = (f"{len(found)} {word}" for word, found in
                  (("won", verdict.wins), ("tied", verdict.ties), ("lost", verdict.loses)))  # fmt: skip
        lines.append(f"arm {verdict.arm}: {', '.join(counts)}")
    if document.correctness:
        lines.append("; ".join(document.correctness[:2]))
    if document.baseline is not None:
        lines.append(f"against {document.baseline.spike_id}: {baseline.sentences(document.baseline)[0]}")
    lines.append(
        f"{len(document.corrections)} corrections, {len(document.incidents)} incidents, "
        f"{len(document.coverage_limits)} coverage limits"
    )
    lines += [line for line in document.incidents if line.startswith("NOT AS FOUND")][:2]
    left = lane.left(evidence)
    if left is not None and text(evidence.lane, "disposition") == "stopped":
        command = f"; to start it: {transcript.restart_command(document)}" if left.startable else ""
        lines.append(f"the worker lane is {left.words}{command}")
    return [clean(line, 400) for line in lines[:13]]


def comparison(document: Document) -> str:
    """comparison.md: the tables under the document's title."""
    head = [f"# {transcript.title(document)}"]
    if document.evidence.simulated:
        head += ["", "**SIMULATED**: made on a double; no figure here says anything about hardware."]
    return "\n".join([*head, *transcript.comparison_lines(document)]) + "\n"


def _references(evidence: Evidence) -> dict[str, int]:
    """Number the evidence's files: those about the spike first, then arm by arm."""
    parts = (
        ("spike.json", evidence.spike),
        ("box.json", evidence.box),
        ("box_after.json", evidence.box_after),
        ("lane.json", evidence.lane),
        ("image.json", evidence.image),
        ("model.json", evidence.models),
        ("events.jsonl", evidence.events),
    )
    paths = [path for path, content in parts if content]
    paths += sorted(evidence.extra)
    for arm in evidence.arms:
        paths += [arm.boot.path] if arm.boot is not None else []
        paths += [result.path for result in arm.results]
    return {path: number for number, path in enumerate(dict.fromkeys(paths), start=1)}
