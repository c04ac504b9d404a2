# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet page as text, Markdown, HTML and JSON, the first three from the same tables.

The JSON follows ``docs/schema/fleet.schema.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from markupsafe import Markup

from . import conditions
from .fleet import LEAST, RULE, STATE_WORDS, Box, Fleet, Group, Spread, title
from .model import Cell, Row, Table
from .pictures import unit_of
from .report import template
from .standing import Standing
from .svg import Point, legend, linear_axis, whiskers
from .transcript import table_lines
from .words import ABSENT, clean, decimal, fixed, grouped, harmless, wrapped

TEXT_NAME: Final = "fleet.txt"
MARKDOWN_NAME: Final = "fleet.md"
HTML_NAME: Final = "fleet.html"
JSON_NAME: Final = "fleet.json"
SCHEMA: Final = "lobes.spike/fleet/1"
END_MARK: Final = "# END OF FLEET PAGE "
HEAT_RULE: Final = (
    "(throttled): measured under throttle alerts. (heat?): whether it was is not known. Beside the figures stand the "
    "hottest sample and the mean power inside their windows."
)


def render(fleet: Fleet, root: str = "..") -> dict[str, str]:
    """Every form, by file name. ``root`` leads from the page to the folder that the boxes' folders lie in."""
    tables = (boxes_table(fleet), *groups_table(fleet), *spread_tables(fleet), *speed_tables(fleet))
    forms = {
        TEXT_NAME: _text(fleet, tables),
        MARKDOWN_NAME: _markdown(fleet, tables),
        HTML_NAME: _html(fleet, tables, root),
        JSON_NAME: _json(fleet),
    }
    # Each writer cleans what it quotes; should one forget, nothing hostile leaves here all the same.
    return {name: harmless(content) for name, content in forms.items()}


def boxes_table(fleet: Fleet) -> Table:
    """Every box: how far it came, its verdict, its heat, and where its own transcript is."""
    head = ("box", "group", "state", "verdict", "hottest C", "power max W", "alerts", "worker lane", "transcript")
    rows = tuple(
        Row(
            box.host,
            tuple(
                Cell(text)
                for text in (
                    str(fleet.group_of(box.host) or ABSENT),
                    box.state,
                    box.verdict,
                    fixed(box.hottest_c, 1),
                    fixed(box.power_max_w, 1),
                    "unknown" if box.alerts is None else grouped(box.alerts),
                    box.lane or ABSENT,
                    transcript_of(box) or "none",
                )
            ),
        )
        for box in fleet.boxes
    )
    words = "; ".join(f"{state}: {said}" for state, said in STATE_WORDS.items())
    return Table("Boxes", head, rows, (f"{words[0].upper()}{words[1:]}.",))


def groups_table(fleet: Fleet) -> tuple[Table, ...]:
    """What the boxes of each group have in common, where there is a group at all."""
    if not fleet.groups:
        return ()
    head = ("condition", *(f"group {group.number}" for group in fleet.groups))
    names = list(fleet.groups[0].setting)
    rows = [Row("boxes", tuple(Cell(f"{len(g.hosts)}: {_listed(g.hosts)}") for g in fleet.groups))]
    rows += [Row(name, tuple(Cell(_short(g.setting.get(name, ABSENT))) for g in fleet.groups)) for name in names]
    for arm in fleet.arms:
        windows = [g.arm_settings.get(arm, {}).get("max_model_len", ABSENT) for g in fleet.groups]
        rows.append(Row(f"arm {arm}: max_model_len", tuple(map(Cell, windows))))
    notes = [f"Group {g.number} is apart from group 1: {_joined(g.differs)}." for g in fleet.groups[1:]]
    few = [f"group {g.number}" for g in fleet.groups if len(g.hosts) < LEAST]
    notes += [f"No spread is claimed of {_listed(few)}: fewer than {LEAST} boxes."] if few else []
    return (Table("Groups", head, tuple(rows), (*notes, f"Rule: {conditions.RULE}.")),)


def _short(said: str) -> str:
    """A digest as short as a table bears it; the JSON has it whole."""
    return said[:19] if re.fullmatch(r"sha256:[0-9a-f]{64}", said) else said


def spread_tables(fleet: Fleet) -> tuple[Table, ...]:
    """One table for each group of which a spread may be claimed: how far apart its boxes are in every workload."""
    head = ("arm, workload", "unit", "n", "median", "MAD", "MAD %", "lowest", "highest", "outliers")
    made = []
    for group in fleet.groups:
        spreads = [spread for spread in fleet.spreads if spread.group == group.number]
        if len(group.hosts) < LEAST:
            continue
        rows = tuple(Row(f"{s.arm}, {s.workload}", tuple(map(Cell, _spread_cells(s)))) for s in spreads)
        left = [f"{s.arm}, {s.workload}: left out {_listed(s.left_out)}." for s in spreads if s.left_out]
        if rows:
            made.append(Table(f"Spread between boxes, group {group.number}", head, rows, (*left, f"Rule: {RULE}")))
    return tuple(made)


def speed_tables(fleet: Fleet) -> tuple[Table, ...]:
    """One table for each group and arm: boxes by workloads, heat and power beside them."""
    return tuple(
        table
        for group in fleet.groups
        for arm, name in fleet.arms.items()
        if (table := _speed(fleet, group, arm, name)) is not None
    )


def _speed(fleet: Fleet, group: Group, arm: str, name: str) -> Table | None:
    spreads = [spread for spread in fleet.spreads if (spread.group, spread.arm) == (group.number, arm)]
    if not spreads:
        return None
    head = ("box", *(f"{s.workload}, {unit_of(s.measure)}" for s in spreads), "hottest C", "power mean W", "heat")
    rows = []
    for host in group.hosts:
        own = [spread.figures.get(host) for spread in spreads]
        known = [one for one in own if one is not None]
        if known:
            cells = [_figure_cell(spread, host) for spread in spreads]
            rows.append(Row(host, tuple(map(Cell, (*cells, *_heat_cells(known))))))
    told = (
        ("n", [str(len(s.figures)) for s in spreads]),
        ("median", [_shown(s.median, s.measure) for s in spreads]),
        ("MAD", [_shown(s.mad, s.measure) for s in spreads]),
    )
    rows += [Row(words, tuple(map(Cell, (*found, ABSENT, ABSENT, ABSENT)))) for words, found in told]
    return Table(f"Group {group.number}, arm {arm}: {name}", head, tuple(rows))


def _figure_cell(spread: Spread, host: str) -> str:
    one = spread.figures.get(host)
    if one is None:
        return "left out" if any(line.startswith(f"{host} (") for line in spread.left_out) else ABSENT
    marks = [
        *(["outlier"] if host in spread.outliers else []),
        *(["throttled"] if one.heat.throttled else []),
        *(["heat?"] if one.heat.state == "unknown" else []),
    ]
    told = f" ({', '.join(marks)})" if marks else ""
    return f"{_shown(one.value, one.measure)}{told}"


def _heat_cells(known: list[Standing]) -> tuple[str, str, str]:
    hottest = max((one.temp_max_c for one in known if one.temp_max_c is not None), default=None)
    powers = [one.power_mean_w for one in known if one.power_mean_w is not None]
    throttled = sum(one.heat.throttled for one in known)
    unknown = sum(one.heat.state == "unknown" for one in known)
    words = [
        *([f"throttled in {throttled} of {len(known)}"] if throttled else []),
        *([f"unknown in {unknown} of {len(known)}"] if unknown else []),
    ]
    mean = sum(powers) / len(powers) if powers else None
    return fixed(hottest, 1), fixed(mean, 1), "; ".join(words) or "clean"


def _spread_cells(spread: Spread) -> tuple[str, ...]:
    low, high = spread.ends
    n = str(len(spread.figures))
    lowest, highest = (f"{_shown(spread.figures[host].value, spread.measure)} ({host})" for host in (low, high))
    if spread.median is None or spread.mad is None:
        return unit_of(spread.measure), n, "no spread", ABSENT, ABSENT, lowest, highest, ABSENT
    share = f"{100 * spread.mad / spread.median:.1f}%"
    outliers = [
        f"{host} {_shown(spread.figures[host].value, spread.measure)} ({_aside(spread, host)})"
        for host in spread.outliers
    ]
    return (
        unit_of(spread.measure), n, _shown(spread.median, spread.measure), _shown(spread.mad, spread.measure), share,
        lowest, highest, _listed(outliers) if outliers else "none",
    )  # fmt: skip


def _aside(spread: Spread, host: str) -> str:
    return f"{(spread.figures[host].value / (spread.median or 1.0) - 1) * 100:+.0f}%"


def _shown(value: float | None, measure: str) -> str:
    return decimal(value, 1 if measure in ("wall_s", "aggregate_tok_s") else 3 if measure == "ttft_s" else 2)


def _listed(names: Iterable[str], most: int = 8) -> str:
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(found[:most])}{more}"


def _joined(sentences: Iterable[str], most: int = 8) -> str:
    found = list(sentences)
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return f"{'; '.join(found[:most])}{more}" if found else "see the table"


def transcript_of(box: Box) -> str:
    """The path of a box's own transcript below the evidence root; empty when none was written."""
    name = next((name for name in ("transcript.txt", "transcript.partial.txt") if name in box.documents), "")
    return f"{box.folder}/{name}" if name else ""


def left_out(fleet: Fleet) -> list[tuple[Box, tuple[str, ...]]]:
    """The boxes that are not complete, with the reasons."""
    return [(box, box.why) for box in fleet.boxes if box.state != "complete"]


def marks_of(fleet: Fleet) -> list[str]:
    """What must be said above every figure."""
    simulated = [box.host for box in fleet.boxes if box.simulated]
    transcribed = [box.host for box in fleet.boxes if box.transcribed]
    said = []
    if simulated:
        who = "" if len(simulated) == len(fleet.boxes) else f" on {_listed(simulated)}"
        said.append(
            f"SIMULATED{who}: made on a double of the box or of the engine. No such figure says anything of hardware."
        )
    if transcribed:
        said.append(f"TRANSCRIBED on {_listed(transcribed)}: figures copied from an older record.")
    return said


def _text(fleet: Fleet, tables: Iterable[Table]) -> str:
    lines = [f"# {title(fleet)}", "#"]
    for mark in marks_of(fleet):
        lines += [*wrapped(mark, 98, "# ", "# "), "#"]
    lines += [
        "# Measure-only: nothing here changes what a box serves. Each box's own transcript has its evidence.",
        "#",
    ]
    for group in fleet.groups:
        lines += wrapped(f"Group {group.number}, {len(group.hosts)} boxes: {_listed(group.hosts)}", 98, "# ", "#   ")
        if group.differs:
            lines += wrapped(f"apart from group 1: {_joined(group.differs)}", 98, "#   ", "#     ")
    lines += ["# No box has a figure."] if not fleet.groups else []
    lines += ["#", f"# {'=' * 30} TABLES {'=' * 30}"]
    lines += [line for table in tables for line in ("", *table_lines(table))]
    lines += ["", f"# {'=' * 30} BOX BY BOX {'=' * 30}", ""]
    for box in fleet.boxes:
        lines += _box_lines(fleet, box)
    lines += ["## Earlier runs of this campaign, replaced by a later one", "", *(fleet.earlier or ("None.",)), ""]
    lines += [*wrapped(f"Rule: {RULE}", 98, "# ", "# "), *wrapped(f"Rule: {conditions.RULE}.", 98, "# ", "# ")]
    lines += [*wrapped(f"Heat: {HEAT_RULE}", 98, "# ", "# "), "#"]
    made_of = {box.host: box.manifest_sha256 for box in fleet.boxes}
    lines.append(END_MARK + json.dumps({"boxes": len(fleet.boxes), "manifests": made_of}, ensure_ascii=True))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _box_lines(fleet: Fleet, box: Box) -> list[str]:
    group = fleet.group_of(box.host)
    lines = [f"## {box.host} — {box.state}: {box.verdict}", ""]
    lines.append(f"spike      {box.spike_id}")
    lines.append(f"group      {group if group is not None else 'none: it has no figure'}")
    lines.append(f"transcript {transcript_of(box) or 'none was written'}")
    lines.append(f"manifest   {box.manifest_sha256 or 'absent'}")
    lines += [f"lane       {box.lane}"] if box.lane else []
    lines += wrapped(f"baseline   {box.beside}", 100, "", " " * 11) if box.beside else []
    for said in box.regressions:
        lines += wrapped(f"REGRESSION: {said}", 100, "  ! ", "    ")
    for said in box.correctness:
        lines += wrapped(said, 100, "  - ", "    ")
    for said in box.why:
        lines += wrapped(said, 100, "  ! ", "    ")
    return [*lines, ""]


def _markdown(fleet: Fleet, tables: Iterable[Table]) -> str:
    lines = [f"# {title(fleet)}", *(line for mark in marks_of(fleet) for line in ("", f"**{mark}**"))]
    lines += [line for table in tables for line in ("", *table_lines(table))]
    whys = [f"- {box.host}, {box.state}: {' '.join(why)}" for box, why in left_out(fleet)]
    lines += ["", "### Skipped, refused, failed, partial", "", *(whys or ["None."]), "", f"Heat: {HEAT_RULE}"]
    return "\n".join(lines) + "\n"


def _html(fleet: Fleet, tables: Iterable[Table], root: str) -> str:
    hosts = {box.host: f"b{n}" for n, box in enumerate(fleet.boxes, start=1)}
    return template("fleet.html.j2").render(
        title=title(fleet),
        marks=marks_of(fleet),
        tables=[
            {
                "anchor": f"t{n}",
                "title": table.title,
                "head": table.head,
                "rows": [
                    (
                        {"text": row.label, "href": f"#{hosts[row.label]}" if row.label in hosts else ""},
                        [{"text": cell.text, "href": "", "bad": _bad(cell.text)} for cell in row.cells],
                    )
                    for row in table.rows
                ],
                "notes": table.notes,
            }
            for n, table in enumerate(tables, start=1)
        ],
        legend=Markup(legend([(f"{arm} {name}", n) for n, (arm, name) in enumerate(fleet.arms.items())])),
        pictures=[(words, Markup(svg)) for words, svg in _pictures(fleet)],
        boxes=[
            {
                "anchor": hosts[box.host],
                "box": box,
                "group": fleet.group_of(box.host),
                "transcript": transcript_of(box),
                "report": f"{box.folder}/report.html" if "report.html" in box.documents else "",
            }
            for box in fleet.boxes
        ],
        earlier=fleet.earlier,
        root=root,
        rules=[RULE, f"{conditions.RULE}.", HEAT_RULE],
    )


def _bad(text: str) -> bool:
    return text in ("refused", "failed", "partial", "skipped") or "outlier" in text or "throttled" in text


def _pictures(fleet: Fleet) -> Iterable[tuple[str, str]]:
    """One small picture for each group and workload: every arm's boxes from slowest to quickest around their median."""
    index = {arm: n for n, arm in enumerate(fleet.arms)}
    keys = dict.fromkeys((spread.group, spread.workload) for spread in fleet.spreads if spread.median is not None)
    for group, workload in keys:
        found = [s for s in fleet.spreads if (s.group, s.workload) == (group, workload) and s.median is not None]
        ends = [(s.figures[s.ends[0]].value, s.figures[s.ends[1]].value) for s in found]
        axis = linear_axis(unit_of(found[0].measure), [end for pair in ends for end in pair])
        lines = [
            (
                clean(s.arm, 12),
                index[s.arm],
                Point(s.median or 0.0, 0, f"{s.arm}: median {_shown(s.median, s.measure)}", "", low, high),
            )
            for s, (low, high) in zip(found, ends, strict=True)
        ]
        yield f"group {group}, {workload}, {unit_of(found[0].measure)}", whiskers(workload, axis, lines)


def _json(fleet: Fleet) -> str:
    whole: dict[str, Any] = {
        "schema": SCHEMA,
        "campaign": fleet.campaign,
        "title": title(fleet),
        "rules": {"spread": RULE, "groups": conditions.RULE},
        "boxes": [_box_json(fleet, box) for box in fleet.boxes],
        "groups": [
            {
                "number": group.number,
                "hosts": list(group.hosts),
                "conditions": dict(group.setting),
                "arms": {arm: dict(found) for arm, found in group.arm_settings.items()},
                "differs": list(group.differs),
            }
            for group in fleet.groups
        ],
        "spreads": [_spread_json(spread) for spread in fleet.spreads],
        "earlier": list(fleet.earlier),
    }
    return json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _box_json(fleet: Fleet, box: Box) -> Mapping[str, Any]:
    return {
        "host": box.host,
        "spike_id": box.spike_id,
        "group": fleet.group_of(box.host),
        "state": box.state,
        "why": list(box.why),
        "verdict": box.verdict,
        "correctness": list(box.correctness),
        "hottest_c": box.hottest_c,
        "power_max_w": box.power_max_w,
        "alerts": box.alerts,
        "lane": box.lane or None,
        "baseline": box.beside or None,
        "regressions": list(box.regressions),
        "simulated": box.simulated,
        "transcribed": box.transcribed,
        "manifest_sha256": box.manifest_sha256,
        "folder": box.folder,
        "transcript": transcript_of(box) or None,
        "figures": [
            {
                "arm": one.arm,
                "workload": one.workload,
                "measure": one.measure,
                "state": one.state or None,
                "value": one.value,
                "low": one.contender.low,
                "high": one.contender.high,
                "n": len(one.contender.figures),
                "heat": one.heat.words,
                "temp_max_c": one.temp_max_c,
                "power_mean_w": one.power_mean_w,
                "path": one.contender.figures[0].ref.path,
                "pointer": one.contender.figures[0].ref.pointer,
            }
            for one in box.standings
        ],
    }


def _spread_json(spread: Spread) -> Mapping[str, Any]:
    low, high = spread.ends
    return {
        "group": spread.group,
        "arm": spread.arm,
        "workload": spread.workload,
        "measure": spread.measure,
        "higher_is_better": spread.higher_is_better,
        "n": len(spread.figures),
        "median": spread.median,
        "mad": spread.mad,
        "lowest": {"host": low, "value": spread.figures[low].value},
        "highest": {"host": high, "value": spread.figures[high].value},
        "outliers": list(spread.outliers),
        "left_out": list(spread.left_out),
    }
