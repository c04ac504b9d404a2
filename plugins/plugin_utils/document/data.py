# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""results.json and results.csv: every figure of the document for other programs, each with its place in the evidence.

The JSON follows ``docs/schema/results.schema.json``; a change that breaks a reader gets a new number in its schema.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, Final

from ..evidence import text
from . import baseline, heat
from .figures import DEFINITIONS
from .model import Comparison, Document, Figure, Ranking, Ref, Table
from .ranking import RULE
from .words import clean

SCHEMA: Final = "lobes.spike/results/1"
FIELDS: Final = ("arm", "workload", "measure", "state", "run", "value", "n", "reason", "heat", "path", "pointer")
COLUMNS: Final = (*FIELDS, "made_on")


def results_json(document: Document) -> str:
    """The document as data."""
    evidence = document.evidence
    whole: dict[str, Any] = {
        "schema": SCHEMA,
        "spike_id": text(evidence.spike, "spike_id"),
        "host": text(evidence.spike, "host"),
        "image": text(evidence.spike, "image"),
        "model": text(evidence.spike, "model"),
        "model_revision": text(evidence.spike, "model_revision"),
        "simulated": evidence.simulated,
        "transcribed": evidence.transcribed,
        "manifest": {"ok": evidence.manifest.ok, "sha256": evidence.manifest.sha256},
        "verdict": document.verdict,
        "arms": [
            {
                "name": arm.name,
                "title": arm.title,
                "ready": None if arm.boot is None else arm.boot.ready,
                "boot_id": None if arm.boot is None else arm.boot.boot_id,
            }
            for arm in evidence.arms
        ],
        "figures": list(_figures(document)),
        "probes": [
            {"arm": p.arm, "name": p.name, "passed": p.passed, "note": p.note, **_place(p.ref)} for p in document.probes
        ],
        "tables": [_table(table) for table in document.tables],
        "rule": RULE,
        "rankings": [_ranking(ranking) for ranking in document.rankings],
        "arm_verdicts": [
            {"arm": v.arm, "wins": list(v.wins), "ties": list(v.ties), "loses": list(v.loses)}
            for v in document.arm_verdicts
        ],
        "expected": [
            {"arm": e.arm, "sentence": e.sentence, "verdict": e.verdict, "because": e.because}
            for e in document.expected
        ],
        "findings": {
            "correctness": list(document.correctness),
            "corrections": list(document.corrections),
            "incidents": list(document.incidents),
            "false_alarms": list(document.false_alarms),
            "coverage_limits": list(document.coverage_limits),
            "not_measured": list(document.not_measured),
            "undecided": list(document.undecided),
        },
        "definitions": dict(DEFINITIONS),
    }
    if document.baseline is not None:
        whole["baseline"] = _baseline(document.baseline)
    return json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def results_csv(document: Document) -> str:
    """The figures as a table, one a line; absent and invalid values are empty and say why."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    evidence = document.evidence
    # A figure cut out of the table must not lose what it is.
    made_on = "SIMULATED" if evidence.simulated else "transcribed" if evidence.transcribed else "box"
    for row in _figures(document):
        writer.writerow([*(_cell(row[name]) for name in FIELDS), made_on])
    return stream.getvalue()


def _figures(document: Document) -> Iterator[dict[str, Any]]:
    told = {path: found.words for path, found in heat.by_path(document.evidence).items()}
    return (_figure(figure, told.get(figure.ref.path, heat.UNKNOWN)) for figure in document.figures)


def _figure(figure: Figure, heat_words: str) -> dict[str, Any]:
    return {
        "arm": figure.arm,
        "workload": figure.workload,
        "measure": figure.measure,
        "state": figure.state or None,
        "run": figure.run,
        "value": figure.value,
        "n": figure.n,
        "reason": figure.reason,
        "heat": heat_words,
        **_place(figure.ref),
    }


def _place(ref: Ref) -> dict[str, str]:
    return {"path": ref.path, "pointer": ref.pointer}


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "head": list(table.head),
        "rows": [{"label": row.label, "cells": [cell.text for cell in row.cells]} for row in table.rows],
        "notes": list(table.notes),
    }


def _ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "workload": ranking.workload,
        "measure": ranking.measure,
        "higher_is_better": ranking.higher_is_better,
        "winners": list(ranking.winners),
        "basis": ranking.basis,
        "indicative": ranking.indicative,
        "contenders": [
            {"arm": c.arm, "central": c.central, "low": c.low, "high": c.high, "n": len(c.figures)}
            for c in ranking.contenders
        ],
        "earlier": list(ranking.earlier),
        "earlier_note": ranking.earlier_note or None,
    }


def _baseline(found: Comparison) -> dict[str, Any]:
    return {
        "spike_id": found.spike_id,
        "host": found.host,
        "manifest_sha256": found.manifest_sha256,
        "rule": baseline.RULE,
        "rows": [
            {
                "arm": row.arm,
                "workload": row.workload,
                "then": row.then or None,
                "now": row.now or None,
                "difference": row.difference or None,
                "verdict": row.word,
                "indicative": row.indicative,
                "because": list(row.because),
            }
            for row in found.rows
        ],
    }


def _cell(found: Any) -> str:
    """A value as CSV; text that a spreadsheet would take for a formula is made plain."""
    if found is None:
        return ""
    if isinstance(found, (int, float)):
        return json.dumps(found)
    shown = clean(found)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
