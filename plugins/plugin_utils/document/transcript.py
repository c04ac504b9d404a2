# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""transcript.txt: the header, the summary, the tables, the record, and an end mark that says it is whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ansible_collections.lobes.spike.plugins.module_utils.engine.kernels import fp4_conclusions

from ..evidence import mapping, number, rows, text, texts, value, whole
from . import baseline, heat
from .figures import DEFINITIONS
from .findings import MEASURE_ONLY
from .lane import left
from .model import Document, Expected, Ranking, Table
from .ranking import RULE, shown
from .record import arm_sections
from .words import ABSENT, clean, gib, grouped, markdown_table, wrapped

END_MARK: Final = "# END OF TRANSCRIPT "
PARTIAL_MARK: Final = "# PARTIAL TRANSCRIPT "
CHECKPOINT: Final = "checkpoint.json"
RESTART: Final = "ansible-playbook playbooks/restart-worker.yml"


@dataclass(frozen=True)
class Stopped:
    """Where a run stands whose document is not final: the last thing that was seen, in words, and when."""

    last: str
    utc: str


def write(document: Document, stopped: Stopped | None = None) -> str:
    """The whole transcript, as text that ends with a line end."""
    lines = [
        *_header(document, stopped),
        *_summary(document),
        *_banner("COMPARISON TABLES"),
        *comparison_lines(document),
        "",
        *_banner("RUN-BY-RUN RECORD"),
        "",
        *setting_lines(document),
        *arm_sections(document),
        *lane_lines(document),
        *proof_lines(document),
        *heat_lines(document),
        *_list("Incidents", document.incidents, "None was recorded."),
        *_list("False alarms, judged", document.false_alarms, "None was recorded."),
        *_list("Corrections", document.corrections, "None: every sample was what it was meant to be."),
        *_list("Coverage limits", document.coverage_limits, "None is known."),
        *_list("What was not measured", document.not_measured, "Everything that was planned has a result."),
        *_list("NOT DECIDED HERE (the operator's decisions)", document.undecided, "Nothing was listed."),
        *_banner("HOW A FIGURE IS DEFINED"),
        *(line for name, said in DEFINITIONS for line in wrapped(said, 100, f"# {name:15}  ", "#" + " " * 18)),
        "#",
        *_banner("REFERENCES"),
        *(f"# [{number_}] {clean(path, 200)}" for path, number_ in document.references.items()),
        "#",
        *_table_references(document),
        "#",
        stop_line(document) if stopped is None else _partial_line(stopped),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table_references(document: Document) -> list[str]:
    """Which evidence each row of the tables comes from, column by column."""
    lines = ["# Where the tables' rows come from, column by column:"] if document.tables else []
    for table in document.tables:
        lines.append(f"#   {table.title.partition(' (')[0].partition(':')[0]}")
        for row in table.rows:
            marks = (
                "".join(dict.fromkeys(document.mark(ref.path) for ref in cell.refs)) or ABSENT for cell in row.cells
            )
            lines.append(f"#     {row.label}: {' '.join(marks)}")
    return lines


def stop_line(document: Document) -> str:
    """The end mark: what the document is made of, for the check that nothing is missing."""
    evidence = document.evidence
    made_of = {
        "arms": [arm.name for arm in evidence.arms],
        "phases": list(evidence.planned_phases),
        "results": sum(len(arm.results) for arm in evidence.arms),
        "events": len(evidence.events),
        "events_sha256": evidence.events_sha256,
        "manifest_sha256": evidence.manifest.sha256,
    }
    return END_MARK + json.dumps(made_of, ensure_ascii=True)


def _partial_line(stopped: Stopped) -> str:
    return f"{PARTIAL_MARK}last seen: {clean(stopped.last, 200)}, at {clean(stopped.utc, 40)}"


def comparison_lines(document: Document) -> list[str]:
    """The tables in Markdown, as they stand in the transcript and in comparison.md."""
    if not document.tables:
        return ["", "Nothing was measured that could be compared."]
    return [line for table in document.tables for line in ("", *table_lines(table))]


def table_lines(table: Table) -> list[str]:
    """One table in Markdown, under its title, its notes below it."""
    body = ([row.label, *(cell.text for cell in row.cells)] for row in table.rows)
    lines = [f"### {table.title}", "", *markdown_table(table.head, body)]
    return [*lines, *(["", *table.notes] if table.notes else [])]


def title(document: Document) -> str:
    """One line: what was asked, the verdict, and where."""
    spike = document.evidence.spike
    model = clean(text(spike, "model") or "an unnamed model", 160).rpartition("/")[2]
    host = clean(text(spike, "host") or "an unnamed box", 80)
    return f"spike — {model} on {host}: {document.verdict}"


def _banner(words: str) -> list[str]:
    return [f"# {'=' * 30} {words} {'=' * 30}"]


def _header(document: Document, stopped: Stopped | None) -> list[str]:
    evidence = document.evidence
    lines = [f"# {title(document)}", "#"]
    if stopped is not None:
        lines += [
            f"{_partial_line(stopped)}",
            "# This spike had not ended when this was written. What stands below was measured; nothing is final.",
            "#",
        ]
    if evidence.simulated:
        lines += [
            "# SIMULATED: made on a double of the box or of the engine. No figure here says anything about hardware.",
            "#",
        ]
    if evidence.transcribed:
        source = clean(text(evidence.spike, "transcribed_from") or "an older record")
        lines += wrapped(
            f"TRANSCRIBED: the figures were copied from {source}; they were not measured by this collection.",
            98,
            "# ",
            "# ",
        )
        lines.append("#")
    lines += wrapped(f"Measure-only: nothing here changes what the box serves. {touched(document)}", 98, "# ", "# ")
    spike_id = clean(text(evidence.spike, "spike_id") or "not recorded", 120)
    begun = text(evidence.spike, "started_utc")
    lines.append(f"# Spike {spike_id}{f', begun {clean(begun, 40)}' if begun else ''}.")
    reverses = text(evidence.spike, "reverses")
    if reverses:
        word = "Reverses" if document.verdict.startswith("SERVES") else "Confirms"
        lines += wrapped(f"{word} {clean(reverses)} for this engine.", 98, "# ", "# ")
    return [*lines, "#"]


def touched(document: Document) -> str:
    """What the spike did to what was there before it."""
    if text(document.evidence.spike, "endpoint"):
        return "The server was there already; no lane, image or container was touched."
    if text(document.evidence.lane, "disposition") == "stopped":
        return "The one lane that was stopped, was stopped with the approval below; this spike does not restart it."
    return "No lane is on record as stopped."


def _summary(document: Document) -> list[str]:
    return [
        *_banner("SUMMARY"),
        "#",
        *_engine_summary(document),
        "#",
        *_runs(document),
        "#",
        *wrapped(
            'CONCURRENCY RATIOS: every "Nx" beside a KV pool is a CAPACITY CEILING (KV cache tokens / max_model_len), '
            "not measured concurrency; it must not be multiplied by single-stream tok/s. Measured aggregate "
            "throughput is the sweep.",
            98,
            "# ",
            "#   ",
        ),
        "#",
        *_hashed("Correctness", document.correctness),
        *_winners(document),
        *_arm_verdicts(document),
        *_baseline(document),
        *_hashed("EXPECTATIONS", (_expected(one) for one in document.expected)),
        *_hashed("THERMAL FLAG", document.heat_flags),
        *_hashed("CORRECTIONS", (line for line in document.corrections if line not in document.heat_flags)),
        *_hashed("NOT DECIDED HERE (operator decisions)", document.undecided),
    ]


def _hashed(words: str, sentences: Iterable[str]) -> list[str]:
    found = list(sentences)
    if not found:
        return []
    return [f"# {words}:", *(line for s in found for line in wrapped(s, 98, "#   - ", "#     ")), "#"]


def _engine_summary(document: Document) -> list[str]:
    evidence = document.evidence
    probe = mapping(evidence.image, "probe")
    facts = [
        f"{name} {clean(found, 60)}"
        for name, found in (
            ("vLLM", value(probe, "engine_version")),
            ("torch", value(probe, "torch")),
            ("CUDA", value(probe, "cuda")),
            ("device", value(probe, "device")),
        )
        if found
    ]
    endpoint = text(evidence.spike, "endpoint")
    image = text(evidence.spike, "image") or text(evidence.image, "image")
    there = f"a server that was there already, at {endpoint}" if endpoint else "not recorded"
    lines = [f"# Engine    {clean(image or there, 240)}"]
    lines += [f"#           ({', '.join(facts)}; probed live)"] if facts else []
    model = clean(text(evidence.spike, "model") or "not recorded", 200)
    revision = clean(text(evidence.spike, "model_revision") or "not recorded", 60)
    lines.append(f"# Model     {model} (revision {revision})")
    box = evidence.box
    name = text(box, "identity", "model") or text(box, "identity", "os", "pretty_name") or "not recorded"
    extras = [
        f"L4T {clean(release, 40)}" if (release := value(box, "identity", "l4t", "release")) else "",
        f"memory {gib(total)}" if (total := number(box, "memory", "total_bytes")) else "",
        f"power mode {clean(mode, 60)}" if (mode := value(box, "power", "mode")) else "",
    ]
    lines.append(f"# Box       {', '.join(part for part in (clean(name, 120), *extras) if part)}")
    return lines


def _runs(document: Document) -> list[str]:
    rows_ = []
    for arm in document.evidence.arms:
        facts = arm.boot.kv_pool[0] if arm.boot else {}
        tokens, window = number(facts, "tokens"), number(facts, "max_model_len")
        pool = ""
        if tokens is not None:
            held = f" ({tokens / window:.2f}x of {grouped(window)} = capacity ceiling)" if window else ""
            pool = f"KV pool {grouped(tokens)} tokens{held}"
        unbooted = "as it was" if text(document.evidence.spike, "endpoint") else "not booted"
        state = unbooted if arm.boot is None else "" if arm.boot.ready else "NOT READY"
        rows_.append([clean(arm.name, 40), clean(arm.title, 60), state or pool])
    if not rows_:
        return ["# Runs      none is on record"]
    widths = [max(len(row[index]) for row in rows_) for index in (0, 1)]
    return [
        f"# {'Runs' if index == 0 else '':9} {row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}".rstrip()
        for index, row in enumerate(rows_)
    ]


def _winners(document: Document) -> list[str]:
    if not document.rankings:
        return []
    width = max(len(ranking.workload) for ranking in document.rankings)
    lines = ["# Which configuration wins, by workload:"]
    for ranking in document.rankings:
        lines += _winner(ranking, width)
    return [*lines, *wrapped(f"Rule: {RULE}", 98, "#   ", "#   "), "#"]


def _winner(ranking: Ranking, width: int) -> list[str]:
    who = " ~= ".join(clean(arm, 40) for arm in ranking.winners)
    unit = {"decode_tok_s": "tok/s", "aggregate_tok_s": "tok/s, geometric mean"}.get(ranking.measure, "s")
    figures = "; ".join(shown(contender, ranking.measure) for contender in ranking.contenders)
    word = "tie" if len(ranking.winners) > 1 else "indicative" if ranking.indicative else "win"
    because = f"{word}: {ranking.basis}" if ranking.basis else word
    margin = f"#   {'':{width}}  "
    lines = [f"#   {ranking.workload:{width}}  {who:8} {because}", f"{margin}({figures} {unit})"]
    if ranking.earlier:
        named = " ~= ".join(clean(arm, 40) for arm in ranking.earlier)
        lines.append(f"{margin}earlier transcript: {named}; {ranking.earlier_note}")
    return lines


def _baseline(document: Document) -> list[str]:
    found = document.baseline
    return [] if found is None else _hashed(f"BASELINE {found.spike_id} on {found.host}", baseline.sentences(found))


def _expected(one: Expected) -> str:
    return f"{clean(one.arm, 40)}: {one.sentence}: {one.verdict.upper()} ({one.because})"


def _arm_verdicts(document: Document) -> list[str]:
    lines = []
    for verdict in document.arm_verdicts:
        for word, workloads in (("wins", verdict.wins), ("ties", verdict.ties), ("loses", verdict.loses)):
            if workloads:
                lines += wrapped(f"{clean(verdict.arm, 40)} {word:5}: {'; '.join(workloads)}", 98, "#   ", "#     ")
    return ["# Verdict per arm:", *lines, "#"] if lines else []


def setting_lines(document: Document) -> list[str]:
    """Engine and model as they were found, before any arm."""
    evidence = document.evidence
    lines = ["## Engine", ""]
    image = evidence.image
    lines.append(f"image    {clean(text(evidence.spike, 'image') or text(image, 'image') or 'not recorded', 240)}")
    for name, member in (("image id", "image_id"), ("digest", "digest")):
        if text(image, member):
            lines.append(f"{name:8} {clean(text(image, member), 120)}")
    if number(image, "size_bytes") is not None:
        lines.append(f"size     {gib(number(image, 'size_bytes'))}")
    lines += [f"  {name}: {found}" for name, found in _known(mapping(image, "probe")) if name != "schema"]
    lines += [f"  {line}" for line in map(clean, texts(image, "notes"))]
    if image:
        lines.append(f"  {document.mark('image.json')}")
    lines += ["", "## Model", ""]
    if not evidence.models:
        lines.append("Not recorded.")
    for model in evidence.models:
        held = number(model, "size_bytes") or number(model, "bytes")
        size = f", {gib(held)}" if held is not None else ""
        lines.append(
            f"{clean(text(model, 'role') or 'model', 40)}  {clean(text(model, 'model') or 'not recorded', 200)} at "
            f"{clean(text(model, 'revision') or 'not recorded', 60)} "
            f"({_asked(model)}{size}) "
            f"{document.mark('model.json')}"
        )
    lines += _kernel_and_checkpoint(document)
    lines += ["", "## Box", "", *_box(document)]
    return [*lines, ""]


def _kernel_and_checkpoint(document: Document) -> list[str]:
    """What the image's kernels and the checkpoint's tensors allow, concluded from the facts on record."""
    evidence = document.evidence
    probe, checkpoint = mapping(evidence.image, "probe"), evidence.extra.get(CHECKPOINT, {})
    lines = []
    kinds = mapping(checkpoint, "kinds")
    if kinds:
        tensors = whole(checkpoint, "tensors")
        lines.append(f"checkpoint: {grouped(tensors)} tensors {document.mark(CHECKPOINT)}")
        lines += [f"  {clean(kind, 60)}: {grouped(number(kinds, kind))}" for kind in kinds]
    if mapping(probe, "fp4") and probe.get("capability") is not None:
        backends = [text(arm.boot.facts, "backends", "moe") for arm in evidence.arms if arm.boot is not None]
        backend = next((found for found in backends if found), None)
        asked = {**probe, "fp4": dict(mapping(probe, "fp4"))}
        lines += _concluded(fp4_conclusions(asked, {"kinds": dict(kinds)}, backend))
    return lines + _concluded(texts(checkpoint, "conclusions"))


def _concluded(sentences: Iterable[str]) -> list[str]:
    return [line for said in sentences for line in wrapped(clean(said, 600), 100, "=> ", "   ")]


def _box(document: Document) -> list[str]:
    box = document.evidence.box
    if not box:
        return ["Not recorded."]
    known = [
        ("model", value(box, "identity", "model")),
        ("L4T", value(box, "identity", "l4t", "release")),
        ("kernel", value(box, "identity", "kernel")),
        ("memory", gib(number(box, "memory", "total_bytes"))),
        ("power", value(box, "power", "mode")),
    ]
    lines = [f"{name:8} {clean(found, 160)}" for name, found in known if found]
    throttling = rows(box, "thermal", "throttling", "active")
    if throttling:
        held = ", ".join(f"{clean(row.get('type'), 60)} {clean(row.get('state'), 20)}" for row in throttling)
        lines.append(f"THROTTLED before anything ran: {held}")
    return [*lines, *heat.fan(document.evidence), document.mark("box.json")]


def _asked(model: Mapping[str, Any]) -> str:
    asked = text(model, "revision_asked")
    return f"asked for {clean(asked, 60)}" if asked else "no revision was asked for"


def _known(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Every fact that has a value, those of nested objects by their path."""
    for name, found in facts.items():
        path = f"{above}{clean(name, 60)}"
        if isinstance(found, Mapping):
            yield from _known(found, f"{path}.")
        elif found is not None and found != []:
            yield path, clean(_plain(found))


def _plain(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def proof_lines(document: Document) -> list[str]:
    """Whether the box was left as it was found: every difference, and what explains it."""
    proof = document.evidence.extra.get(MEASURE_ONLY)
    lines = ["## Measure-only proof", ""]
    if not proof:
        return [*lines, "Not on record: that the box was left as it was found is not shown.", ""]
    differences = rows(proof, "differences")
    lines.append(
        f"{len(differences)} differences between the looks before and after, "
        f"{len(texts(proof, 'unexplained'))} of them unexplained {document.mark(MEASURE_ONLY)}"
    )
    for one in differences:
        explained = text(one, "explained_by")
        ends = " -> ".join(clean(_plain(one.get(end) or "not there"), 120) for end in ("before", "after"))
        why = clean(explained, 200) if explained else "UNEXPLAINED"
        lines += wrapped(
            f"{clean(text(one, 'what') or 'something', 120)}: {ends}; {why}",
            100,
            "  ",
            "    ",
        )
    lines += [f"  not compared: {clean(line)}" for line in texts(proof, "not_compared")]
    return [*lines, ""]


def heat_lines(document: Document) -> list[str]:
    """Heat and power over the spike."""
    return heat.section(document)


def lane_lines(document: Document) -> list[str]:
    """How the worker lane was left, and the command that starts it again."""
    lane, found = document.evidence.lane, left(document.evidence)
    lines = ["## Worker lane", ""]
    if found is None:
        return [*lines, "No lane was stopped on this record.", ""]
    name = clean(text(lane, "name") or "not named", 120)
    looked = document.mark("box_after.json") if found.looked else ""
    lines += wrapped(f"{name}: {found.words} {document.mark('lane.json')}{looked}", 100, "", "  ")
    for words, member in (("approved", "approval"), ("ran", "before")):
        known = [(key, value(lane, member, key)) for key in _LANE_MEMBERS[member]]
        said = [f"{key.replace('_', ' ')} {clean(_plain(part), 120)}" for key, part in known if part is not None]
        lines += wrapped(f"{words}: {', '.join(said)}", 100, "  ", "    ") if said else []
    others = rows(lane, "proof", "others")
    if others:
        kept = [clean(text(other, "name") or "?", 80) for other in others if other.get("untouched") is True]
        moved = [clean(text(other, "name") or "?", 80) for other in others if other.get("untouched") is not True]
        lines.append(f"  other lanes untouched by the stop: {', '.join(kept) or 'none'}")
        lines += [f"  NOT as before: {', '.join(moved)}"] if moved else []
    lines += [f"  {clean(line)}" for line in texts(lane, "warnings")]
    lines += [f"  error: {clean(text(lane, 'error'))}"] if text(lane, "error") else []
    if found.startable:
        lines += [
            "  This spike does not restart it. To restart it, with an approval of its own:",
            f"  {restart_command(document)}",
        ]
    return [*lines, ""]


def restart_command(document: Document) -> str:
    """The command that starts the stopped lane again, as the record of the lane has it."""
    host = clean(text(document.evidence.spike, "host") or "<box>", 80)
    return clean(text(document.evidence.lane, "restart_command") or f"{RESTART} -l {host}")


_LANE_MEMBERS: Final = {
    "approval": ("approved_by", "source", "approved_utc"),
    "before": ("id", "image", "configuration_hash", "restart_policy", "started_utc"),
}


def _list(words: str, sentences: Iterable[str], none: str) -> list[str]:
    found = list(sentences)
    lines = [line for n, s in enumerate(found, start=1) for line in wrapped(s, 100, f"{n}. ", "   ")]
    return [f"## {words}", "", *(lines or [none]), ""]
