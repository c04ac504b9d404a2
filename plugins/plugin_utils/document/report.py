# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""report.html: one file, no script, nothing fetched; the template is ours, everything put into it is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ..evidence import mapping, number, text
from . import baseline
from .figures import DEFINITIONS
from .model import Cell, Document, Figure, Ref
from .pictures import Gallery, unit_of
from .ranking import RULE, shown
from .record import arm_sections
from .tables import verdict_word
from .transcript import heat_lines, lane_lines, proof_lines, setting_lines, title, touched
from .words import clean, decimal, grouped

TEMPLATE = "report.html.j2"


@cache
def template(name: str) -> jinja2.Template:
    """A template of ours. They lie beside this module: an installed collection is files on a disk as well."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def write(document: Document) -> str:
    """The report as HTML."""
    anchors = _anchors(document.figures)

    def href(figure: Figure) -> str:
        return _target(document, anchors, figure.ref)

    gallery = Gallery(document, href)
    evidence = document.evidence
    return template(TEMPLATE).render(
        title=title(document),
        document=document,
        touched=touched(document),
        spike_id=text(evidence.spike, "spike_id") or "not recorded",
        about=_about(document),
        arms=_arms(document),
        tables=[
            {
                "title": table.title,
                "head": table.head,
                "rows": [
                    ({"text": row.label, "href": ""}, [_cell(document, anchors, cell) for cell in row.cells])
                    for row in table.rows
                ],
                "notes": table.notes,
            }
            for table in document.tables
        ],
        rankings=[
            {
                "ranking": ranking,
                "winners": " ~= ".join(ranking.winners),
                "word": "tie" if len(ranking.winners) > 1 else "indicative" if ranking.indicative else "win",
                "figures": "; ".join(shown(contender, ranking.measure) for contender in ranking.contenders),
                "unit": unit_of(ranking.measure),
                "svg": Markup(gallery.ranking(ranking)),
                "earlier": " ~= ".join(ranking.earlier),
            }
            for ranking in document.rankings
        ],
        rule=RULE,
        legend=Markup(gallery.legend()),
        pictures=[(picture, Markup(picture.svg)) for picture in gallery.all()],
        findings=_findings(document),
        record=[
            ("Setting", _linked(document, setting_lines(document))),
            ("Arms", _linked(document, arm_sections(document))),
            ("Heat and power", _linked(document, heat_lines(document))),
            ("Measure-only proof", _linked(document, proof_lines(document))),
            ("Worker lane", _linked(document, lane_lines(document))),
        ],
        definitions=DEFINITIONS,
        references=_references(document, anchors),
        probes=[(probe, verdict_word(probe.passed)) for probe in document.probes],
    )


def _anchors(figures: Iterable[Figure]) -> dict[str, str]:
    """A name in the page for every place in the evidence that a figure comes from."""
    places = dict.fromkeys(str(figure.ref) for figure in figures)
    return {place: f"f{number_}" for number_, place in enumerate(places, start=1)}


def _target(document: Document, anchors: dict[str, str], ref: Ref) -> str:
    if str(ref) in anchors:
        return f"#{anchors[str(ref)]}"
    number_ = document.references.get(ref.path)
    return f"#r{number_}" if number_ is not None else ""


def _cell(document: Document, anchors: dict[str, str], cell: Cell) -> dict[str, Any]:
    """A cell's text and where it leads; a cell of several figures leads to the first."""
    href = _target(document, anchors, cell.refs[0]) if cell.refs else ""
    return {
        "text": cell.text,
        "href": href,
        "bad": cell.text.startswith(("FAIL", "no verdict", "invalid", "regression")),
    }


def _linked(document: Document, lines: Iterable[str]) -> Markup:
    """Text in which every reference mark leads to its file."""
    numbers = set(document.references.values())

    def link(match: re.Match[str]) -> Markup:
        number_ = int(match[1])
        mark = Markup('<a href="#r{0}">[{0}]</a>')
        return mark.format(number_) if number_ in numbers else Markup.escape(match[0])

    escaped = str(Markup.escape("\n".join(line.rstrip() for line in lines)))
    return Markup(re.sub(r"\[(\d{1,6})\]", link, escaped))


def _about(document: Document) -> list[tuple[str, str]]:
    spike, box = document.evidence.spike, document.evidence.box
    host = text(spike, "host") or "not recorded"
    model = text(box, "identity", "model")
    found = [
        ("Box", f"{host}{f', {model}' if model else ''}"),
        ("Engine", text(spike, "image") or text(document.evidence.image, "image")),
        ("Engine version", text(document.evidence.image, "probe", "engine_version")),
        ("Model", text(spike, "model")),
        ("Revision", text(spike, "model_revision")),
        ("Begun", text(spike, "started_utc")),
        ("Power mode", text(mapping(box, "power"), "mode")),
    ]
    return [(name, clean(value, 240)) for name, value in found if value]


def _arms(document: Document) -> list[dict[str, Any]]:
    verdicts = {verdict.arm: verdict for verdict in document.arm_verdicts}
    cards = []
    for arm in document.evidence.arms:
        pool = arm.boot.kv_pool[0] if arm.boot is not None else {}
        tokens, window = number(pool, "tokens"), number(pool, "max_model_len")
        cards.append(
            {
                "name": clean(arm.name, 40),
                "title": clean(arm.title, 80),
                "state": "not booted" if arm.boot is None else "ready" if arm.boot.ready else "not ready",
                "ready_s": decimal(arm.boot.ready_s, 0) if arm.boot is not None and arm.boot.ready else "",
                "pool": f"{grouped(tokens)} tokens, {tokens / window:.2f}x of {grouped(window)}"
                if tokens and window
                else "",
                "verdict": verdicts.get(arm.name),
            }
        )
    return cards


def _findings(document: Document) -> list[tuple[str, str, list[Markup], str]]:
    """Anchor, title, sentences, and what is said when there is none."""
    expected = [f"{e.arm}: {e.sentence}: {e.verdict} ({e.because})" for e in document.expected]
    found: list[tuple[str, str, Sequence[str], str]] = [
        ("correctness", "Correctness", document.correctness, "Nothing was checked."),
        ("expected", "What was expected", expected, "No expectation was written down."),
        *(
            [("baseline", "Against the baseline", baseline.sentences(document.baseline), "")]
            if document.baseline is not None
            else []
        ),
        ("corrections", "Corrections", document.corrections, "Every sample was what it was meant to be."),
        ("incidents", "Incidents", document.incidents, "None was recorded."),
        ("alarms", "False alarms, judged", document.false_alarms, "None was recorded."),
        ("limits", "Coverage limits", document.coverage_limits, "None is known."),
        ("unmeasured", "What was not measured", document.not_measured, "Everything that was planned has a result."),
        ("undecided", "Not decided here", document.undecided, "Nothing was listed."),
    ]
    return [
        (anchor, words, [_linked(document, [line]) for line in lines], none) for anchor, words, lines, none in found
    ]


def _references(document: Document, anchors: dict[str, str]) -> list[dict[str, Any]]:
    """Every evidence file with the figures that come from it."""
    by_path: dict[str, list[dict[str, str]]] = {}
    seen: set[str] = set()
    for figure in document.figures:
        place = str(figure.ref)
        if place in seen:
            continue
        seen.add(place)
        value = (
            "—"
            if figure.value is None
            else str(figure.value)
            if isinstance(figure.value, int)
            else decimal(figure.value, 6)
        )
        state = f" {figure.state}" if figure.state else ""
        by_path.setdefault(figure.ref.path, []).append(
            {
                "anchor": anchors[place],
                "what": f"{figure.arm}, {figure.workload}{state}: {figure.measure}",
                "value": value,
                "n": "" if figure.n is None else str(figure.n),
                "reason": figure.reason or "",
                "pointer": figure.ref.pointer,
            }
        )
    return [
        {"number": number_, "path": clean(path, 200), "figures": by_path.get(path, [])}
        for path, number_ in document.references.items()
    ]
