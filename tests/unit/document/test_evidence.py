"""Reading evidence: what is absent, damaged, foreign, unfinished or tampered with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document import build
from ansible_collections.lobes.spike.plugins.plugin_utils.events import (
    Event,
    append_event,
    read_events,
    up_to_evidence,
)
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import (
    EvidenceError,
    check_manifest,
    flag,
    from_events,
    load,
    number,
    numbers,
    texts,
    whole,
)
from hypothesis import given
from hypothesis import strategies as st


def test_the_small_spike_is_read_whole_but_for_its_damaged_file(sim_small: Path) -> None:
    evidence = load(sim_small)
    assert [arm.name for arm in evidence.arms] == ["B", "C"]
    assert [len(arm.results) for arm in evidence.arms] == [11, 10]
    assert [damage.path for damage in evidence.damaged] == ["results-spec/C.agentic-2.json"]
    assert evidence.simulated
    assert evidence.manifest.ok is True
    boot = evidence.arms[0].boot
    assert boot is not None
    assert (boot.ready, boot.ready_s) == (True, 36.2)
    assert boot.kv_pool[0]["tokens"] == 1_021_534


def test_results_come_in_the_order_they_were_measured(sim_small: Path) -> None:
    needles = [result.name for result in load(sim_small).arms[0].of("needle")]
    assert needles == ["needle-4096-cold", "needle-4096-warm", "needle-16384-cold"]


def test_no_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="is no directory"):
        load(tmp_path / "nowhere")


def test_an_empty_directory_is_evidence_of_nothing(tmp_path: Path) -> None:
    evidence = load(tmp_path)
    assert (evidence.arms, evidence.manifest.ok, evidence.events) == ((), None, ())
    assert [damage.path for damage in evidence.damaged] == ["spike.json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not whole JSON"),
        (b'{"schema": "lobes.spike/result/1"', "not whole JSON"),
        (b"[1, 2]", "no JSON object"),
        (b'{"schema": "lobes.spike/result/9"}', "neither a boot nor a result"),
        (b'{"schema": "lobes.spike/result/1", "x": NaN}', "not whole JSON"),
        (b"\xff\xfe\x00", "not whole JSON"),
        (b"[" * 100_000, "not whole JSON"),
    ],
)
def test_a_damaged_result_is_named_and_costs_only_itself(sim_small: Path, content: bytes, reason: str) -> None:
    (sim_small / "results" / "B.sweep.json").write_bytes(content)
    evidence = load(sim_small)
    damage = next(damage for damage in evidence.damaged if damage.path == "results/B.sweep.json")
    assert reason in damage.reason
    assert len(evidence.arms[0].results) == 10


def test_a_measurement_that_left_no_result_is_unfinished(sim_small: Path) -> None:
    (sim_small / "results" / "B.needle-9-cold.json.progress").write_text("{}", encoding="utf-8")
    (sim_small / "results" / "B.sweep.json.progress").write_text("{}", encoding="utf-8")
    assert load(sim_small).unfinished == ("results/B.needle-9-cold.json.progress",)


def test_the_manifest_finds_every_change(sim_small: Path) -> None:
    (sim_small / "lane.json").write_text("{}", encoding="utf-8")
    (sim_small / "box.json").unlink()
    (sim_small / "results" / "extra.json").write_text("{}", encoding="utf-8")
    (sim_small / "transcript.txt").write_text("rendered", encoding="utf-8")
    check = check_manifest(sim_small)
    assert check.ok is False
    assert check.problems == (
        "box.json: listed in the manifest, absent here",
        "lane.json: its sha256 is not the one in the manifest",
        "results/extra.json: not in the manifest",
    )


@pytest.mark.parametrize("name", ["../outside.json", "/etc/passwd"])
def test_a_manifest_that_points_outside_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {name: {"sha256": "0"}}}), encoding="utf-8")
    assert check_manifest(tmp_path).problems == (f"{name}: the manifest names a path outside the evidence",)


@pytest.mark.parametrize("content", ["", "[]", '{"files": 3}', "{}"])
def test_a_broken_manifest_is_not_a_good_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content, encoding="utf-8")
    assert check_manifest(tmp_path).ok is False


def test_typed_reading_gives_none_for_what_is_not_there() -> None:
    source: dict[str, Any] = {"a": {"b": True, "c": 1.5, "d": [1, "x", None], "e": "text", "f": 3.0}}
    assert number(source, "a", "b") is None
    assert number(source, "a", "c") == 1.5
    assert number(source, "a", "c", "deeper") is None
    assert whole(source, "a", "f") == 3
    assert whole(source, "a", "c") is None
    assert numbers(source, "a", "d") == (1, None, None)
    assert texts(source, "a", "d") == ("x",)
    assert texts(source, "a", "e") == ()
    assert flag(source, "a", "c") is None
    assert number({"x": float("inf")}, "x") is None


def event(seq: int, kind: str, **data: Any) -> Event:
    return Event(seq, kind, f"2026-11-30T08:00:{seq:02d}Z", f"task {seq}", data)


def test_events_are_appended_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    written = [event(1, "run.begin"), event(2, "result", text="zeile\u2028\x00ende")]
    for one in written:
        append_event(path, one)
    read = read_events(path)
    assert (list(read.events), read.problems) == (written, ())
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cut_line_is_named_and_the_next_event_survives_it(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append_event(path, event(1, "run.begin"))
    with path.open("ab") as stream:
        stream.write(b'{"seq": 2, "kind": "res')
    append_event(path, event(2, "run.begin"))
    read = read_events(path)
    assert [one.seq for one in read.events] == [1, 2]
    assert read.problems == ("line 2 is no event (cut when the run was killed?)",)


def test_a_missing_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append_event(path, event(1, "run.begin"))
    append_event(path, event(3, "result"))
    assert read_events(path).problems == ("line 2 has number 3, 2 was expected",)


def test_a_final_document_ends_with_the_last_collected_evidence() -> None:
    events = [
        event(1, "run.begin"),
        event(2, "evidence"),
        event(3, "incident"),
        event(4, "evidence"),
        event(5, "run.end"),
    ]
    assert [one.seq for one in up_to_evidence(events)] == [1, 2, 3, 4]
    assert [one.seq for one in up_to_evidence(events[:1])] == [1]


def test_evidence_from_events_keeps_the_last_word_on_each_result(sim_small: Path) -> None:
    stored = load(sim_small)
    sweep = stored.arms[0].of("sweep")[0].data
    events = [
        event(1, "spike", spike=dict(stored.spike)),
        event(2, "result", box=dict(stored.box)),
        event(3, "result", result={**sweep, "status": "partial"}),
        event(4, "result", result=dict(sweep)),
        event(5, "result", box={**stored.box, "looked_utc": "later"}),
    ]
    evidence = from_events(events)
    assert [result.status for result in evidence.arms[0].results] == ["complete"]
    assert evidence.box == stored.box
    assert evidence.box_after["looked_utc"] == "later"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_reading_never_raises(content: Any) -> None:
    source = {"x": content}
    for read in (number, whole, flag, numbers, texts):
        read(source, "x")
        read(source, "x", "y")


def test_a_measurement_in_flight_is_named(sim_small: Path) -> None:
    stored = load(sim_small)
    opened = [event(1, "run.begin"), event(2, "spike", spike=dict(stored.spike)), event(3, "begin", begun="needle")]
    told = build(from_events(opened), partial=True).incidents
    assert told == ("The needle begun at 2026-11-30T08:00:03Z has not reported yet. [2]",)
    result = event(4, "result", result=dict(stored.arms[0].of("sweep")[0].data))
    assert build(from_events([*opened, result]), partial=True).incidents == ()
    again = build(from_events([*opened, event(4, "run.begin")]), partial=True).incidents
    assert any("had not reported when the run broke off" in line for line in again)
    # A phase that was not asked for begins as a task all the same, is skipped and reports nothing; the run goes on.
    skipped = [*opened, event(4, "result", box={"simulated": True}), event(5, "evidence", evidence={})]
    assert not any("had not reported" in line for line in build(from_events(skipped), partial=True).incidents)


def test_a_run_that_was_ended_by_a_signal_is_told_as_interrupted(sim_small: Path) -> None:
    opened = [event(1, "run.begin"), event(2, "spike", spike=dict(load(sim_small).spike))]
    broken_off = [*opened, event(3, "run.end", interrupted=True), event(4, "run.begin")]
    told = build(from_events(broken_off), partial=True).incidents
    assert any("was interrupted; the run of" in line for line in told)
    whole = [*opened, event(3, "run.end", ok=1), event(4, "run.begin")]
    assert not any("was interrupted" in line for line in build(from_events(whole), partial=True).incidents)
