# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a window is worth: clean, under N alerts, unknown. The night of the seed is among the cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import attribution, proof, session, telemetry
from ansible_collections.lobes.spike.plugins.module_utils.box.attribution import Span
from ansible_collections.lobes.spike.plugins.module_utils.box.kernel_log import Entry, KernelLog

S = 10**9
ABOUT = {
    "interval_s": 5,
    "page_bytes": 4096,
    "tegrastats": True,
    "sampled": {"cooling": ["gpu-throttle-alert", "pwm-fan"], "over_current": ["oc1", "oc3"]},
}
ALERT = "gpu-throttle-alert cooling state: 0 -> 1"


def at(clock: str) -> int:
    """``23:37:30`` of the seed's night as monotonic nanoseconds; after midnight the clock goes on."""
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return ((hours + (24 if hours < 12 else 0)) * 3600 + minutes * 60 + seconds) * S


def samples(start: int, end: int, **changes: Any) -> list[dict[str, Any]]:
    """A quiet box, sampled every five seconds; a callable change is asked with the time."""
    rows = []
    for t in range(start, end + 1, 5 * S):
        row = {"t": t, "u": t + 1000 * S, "z": {"tj-thermal": 60000}, "c": {}, "oc": {"oc1": 0, "oc3": 4}}
        rows.append(row | {key: value(t) if callable(value) else value for key, value in changes.items()})
    return rows


def log_of(alerts: list[int], covers_from: int = 0) -> KernelLog:
    entries = [Entry(t / S, ALERT) for t in alerts]
    return KernelLog("recorder", None, entries, covers_from / S)


def judged(
    spans: list[Span], rows: list[dict[str, Any]], log: KernelLog, about: dict[str, Any] | None = None
) -> list[Any]:
    return attribution.attribute(spans, rows, [], log, 0.0, ABOUT if about is None else about)


def test_the_night_of_the_seed() -> None:
    """238 alerts from 23:45:30 to 00:01:33: all inside the cold 1M needle, none in what came before or after."""
    first, last = at("23:45:30"), at("00:01:33")
    alerts = [first + (last - first) * i // 237 for i in range(238)]
    spans = [
        Span(at("23:33:50"), at("23:34:33"), {"name": "probes"}),
        Span(at("23:34:40"), at("23:35:23"), {"name": "cold 128K"}),
        Span(at("23:35:24"), at("23:37:30"), {"name": "cold 250K"}),
        Span(at("23:37:30"), at("00:01:49"), {"name": "cold 1M"}),
        Span(at("00:01:50"), at("00:02:15"), {"name": "warm"}),
        Span(at("00:02:20"), at("00:03:53"), {"name": "sweep"}),
    ]
    rows = samples(at("23:30:00"), at("00:10:00"))
    found = {w["name"]: w for w in judged(spans, rows, log_of(alerts))}
    assert {name: w["verdict"]["text"] for name, w in found.items()} == {
        "probes": "clean",
        "cold 128K": "clean",
        "cold 250K": "clean",
        "cold 1M": "under 238 alerts",
        "warm": "clean",
        "sweep": "clean",
    }
    assert found["probes"]["alerts"]["after"] == 238
    assert found["warm"]["alerts"]["before"] == 238
    assert 13 <= found["cold 1M"]["alerts"]["per_minute_max"] <= 32
    # The ring of that night began at 23:39:23: what was said about earlier windows could not be known from it.
    wrapped = {w["name"]: w for w in judged(spans, rows, log_of(alerts, covers_from=at("23:39:23")))}
    assert wrapped["probes"]["verdict"]["state"] == "unknown"
    assert "oldest kernel message" in wrapped["probes"]["verdict"]["text"]
    assert wrapped["cold 1M"]["verdict"]["text"] == "under at least 238 alerts"
    assert wrapped["sweep"]["verdict"]["text"] == "clean"


WINDOW = [Span(100 * S, 200 * S)]


def verdict(rows: list[dict[str, Any]], log: KernelLog, about: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = judged(WINDOW, rows, log, about)[0]["verdict"]
    return found


def test_clean_and_the_edges_of_a_window() -> None:
    rows = samples(50 * S, 250 * S)
    assert verdict(rows, log_of([99 * S, 201 * S]))["text"] == "clean"
    assert verdict(rows, log_of([100 * S]))["text"] == "under 1 alert"
    assert verdict(rows, log_of([200 * S]))["alerts"] == 1


def test_an_unreadable_kernel_log_is_unknown_not_none() -> None:
    found = verdict(samples(50 * S, 250 * S), KernelLog(None, "Permission denied"))
    assert found["state"] == "unknown"
    assert found["alerts"] is None
    assert "Permission denied" in found["text"]


def test_over_current_counts_without_any_thermal_event() -> None:
    rows = samples(50 * S, 250 * S, oc=lambda t: {"oc1": 0, "oc3": 4 + (t > 150 * S) * 7})
    assert verdict(rows, log_of([]))["text"] == "under 7 alerts"
    # Before the window only.
    rows = samples(50 * S, 250 * S, oc=lambda t: {"oc1": 0, "oc3": 4 + (t > 80 * S) * 7})
    assert verdict(rows, log_of([]))["text"] == "clean"


def test_over_current_at_the_edge_is_neither_in_nor_out() -> None:
    rows = samples(48 * S, 252 * S, oc=lambda t: {"oc1": 0, "oc3": 4 + (t > 200 * S)})
    found = verdict(rows, log_of([]))
    assert found["state"] == "unknown"
    assert "oc3" in found["text"]


def test_over_current_unread_at_the_end_is_unknown() -> None:
    assert verdict(samples(50 * S, 195 * S), log_of([]))["state"] == "unknown"


def test_a_box_without_over_current_counters_can_be_clean() -> None:
    about = {**ABOUT, "sampled": {"cooling": ["gpu-throttle-alert"], "over_current": []}}
    assert verdict(samples(50 * S, 250 * S, oc={}), log_of([]), about)["text"] == "clean"


def test_a_box_that_cannot_tell_is_unknown() -> None:
    about = {**ABOUT, "sampled": {"cooling": ["pwm-fan"], "over_current": []}}
    found = verdict(samples(50 * S, 250 * S, oc={}), log_of([]), about)
    assert found["state"] == "unknown"
    assert "neither cooling devices nor" in found["text"]


def test_no_telemetry_in_the_window_is_unknown() -> None:
    assert "no telemetry" in verdict(samples(300 * S, 400 * S), log_of([]))["text"]


def test_a_cooling_state_seen_inside_taints_and_a_fan_does_not() -> None:
    rows = samples(50 * S, 250 * S, c=lambda t: {"gpu-throttle-alert": 1} if 140 * S < t < 160 * S else {})
    assert verdict(rows, log_of([]))["text"] == "throttled in 3 of 21 samples"
    assert verdict(samples(50 * S, 250 * S, c={"pwm-fan": 3}), log_of([]))["text"] == "clean"
    rows = samples(50 * S, 250 * S, c=lambda t: {"gpu-throttle-alert": 1} if t < 90 * S else {})
    assert verdict(rows, log_of([]))["text"] == "clean"
    rows = samples(50 * S, 250 * S, c={"gpu-throttle-alert": None})
    assert verdict(rows, log_of([]))["state"] == "unknown"


def test_oom_and_nvrm_are_told_beside_and_do_not_taint() -> None:
    entries = [Entry(150, "NVRM: x NV_ERR_NO_MEMORY"), Entry(160, "Out of memory: Killed process 1 (x)")]
    window = judged(WINDOW, samples(50 * S, 250 * S), KernelLog("journal", None, entries, 0.0))[0]
    assert window["verdict"]["text"] == "clean"
    assert window["alerts"]["other"] == {"nvrm": 1, "oom": 1}


def test_the_kernel_clock_offset_moves_alerts() -> None:
    rows = samples(50 * S, 250 * S)
    log = log_of([95 * S])
    assert attribution.attribute(WINDOW, rows, [], log, 10.0, ABOUT)[0]["verdict"]["alerts"] == 1
    assert attribution.attribute(WINDOW, rows, [], log, 0.0, ABOUT)[0]["verdict"]["alerts"] == 0


def test_series_buckets_and_gaps() -> None:
    span = Span(0, 900 * S)
    lines = [
        f"{t * S} RAM 10/20MB tj@{50 + t / 100}C VDD_GPU 2000mW/1mW\n" for t in range(0, 900, 5) if not 300 < t < 345
    ]
    parsed = telemetry.read_tegrastats(lines)
    rows = samples(0, 900 * S, vm=lambda t: {"pswpin": t // S, "pswpout": 0}, cpu=lambda t: [t // S, 0, 0, t // S, 0])
    (found,) = attribution.attribute([span], rows, parsed, log_of([]), 0.0, ABOUT)
    series = found["series"]
    assert series["power_w.VDD_GPU"]["mean"] == 2.0  # the first number of a rail
    # tegrastats' word, and sysfs' (60 C throughout) where tegrastats was silent.
    assert series["temp_c.tj"]["max"] == series["temp_c.hottest"]["max"] == 60.0
    assert series["temp_c.tj"]["n"] == 180
    assert series["temp_c.tj"]["p50"] == 54.875
    assert found["sources"]["temp_c.tj"] == "tegrastats and, where it was silent, sysfs"
    assert found["sources"]["power_w.VDD_GPU"] == "tegrastats"
    assert found["sources"]["swap_in_kib_s"] == "sysfs"
    assert series["swap_in_kib_s"]["p50"] == 4.0
    assert series["swap_out_kib_s"]["max"] == 0.0
    assert series["cpu_busy_pct"]["p50"] == 50.0
    assert len(found["buckets"]) == 3
    assert found["buckets"][1]["series"]["temp_c.tj"]["n"] == 60
    assert found["gaps"]["tegrastats"] == [{"from_s": 300.0, "to_s": 345.0}]
    assert found["gaps"]["sysfs"] == []
    assert found["recorded_share"] == 1.0


def without(start: int, end: int, **changes: Any) -> list[dict[str, Any]]:
    """A quiet box that was not sampled between two times (seconds); its grid of five seconds goes on afterwards."""
    return [row for row in samples(50 * S, 250 * S, **changes) if not start < row["t"] / S < end]


def event(t: int, name: str, **facts: Any) -> dict[str, Any]:
    return {"t": t * S, "u": (t + 1000) * S, "event": name, **facts}


def lived(rows: list[dict[str, Any]], *events: dict[str, Any]) -> Any:
    (found,) = attribution.attribute(WINDOW, rows, [], log_of([]), 0.0, {**ABOUT, "tegrastats": False}, events)
    return found


@pytest.mark.parametrize("woke", [120.9, 121, 123, 125.9])
def test_a_freeze_of_six_seconds_is_a_gap_wherever_it_falls_between_two_samples(woke: float) -> None:
    """Sampled every 5 s; all stands still for 6 s, the sample that was due meanwhile comes when all goes on."""
    rows = [row for row in samples(50 * S, 250 * S) if not woke - 6 < row["t"] / S < woke]
    rows.insert(sum(row["t"] < woke * S for row in rows), {**rows[0], "t": int(woke * S)})
    found = lived(rows, event(45, "started"), event(251, "stopped"))
    (gap,) = found["gaps"]["sysfs"]
    assert gap["recorder"] == "lived"
    assert gap["silent_s"] == pytest.approx(gap["to_s"] - gap["from_s"])
    assert 5.9 <= gap["silent_s"] <= 10.9
    assert found["recorded_share"] == pytest.approx(1 - gap["silent_s"] / 100, abs=1e-4)
    assert found["verdict"]["text"] == "clean", "alerts and counters tell what lies between two samples"


def test_a_sample_that_load_made_late_is_no_gap() -> None:
    late = [row | {"t": row["t"] + (S * 4 // 10 if row["t"] == 120 * S else 0)} for row in samples(50 * S, 250 * S)]
    assert lived(late, event(45, "started"))["gaps"]["sysfs"] == []


def test_a_long_gap_of_a_living_recorder_cannot_be_clean() -> None:
    found = lived(without(120, 150), event(45, "started"))
    assert found["verdict"]["text"] == "unknown: nothing was recorded for 30.0 s of the window"


def test_a_gap_that_begins_before_a_window_is_cut_at_its_edge() -> None:
    (gap,) = lived(without(90, 110), event(45, "started"))["gaps"]["sysfs"]
    assert gap == {"from_s": 0.0, "to_s": 10.0, "recorder": "lived", "silent_s": 20.0}


def test_a_short_window_within_a_gap_is_all_gap() -> None:
    span = Span(122 * S, 124 * S)
    found = attribution.attribute([span], without(120, 150), [], log_of([]), 0.0, ABOUT, [event(45, "started")])[0]
    assert [(gap["from_s"], gap["to_s"]) for gap in found["gaps"]["sysfs"]] == [(0.0, 2.0)]
    assert found["recorded_share"] == 0.0
    assert found["gaps"]["tegrastats"] == [{"from_s": 0.0, "to_s": 2.0}]


NO_COUNTERS = {**ABOUT, "tegrastats": False, "sampled": {"cooling": ["gpu-throttle-alert"], "over_current": []}}


@pytest.mark.parametrize(
    ("events", "rows", "fate"),
    [
        ([event(45, "started"), event(145, "started")], without(120, 145), "died"),
        ([event(45, "started"), event(121, "stopped"), event(145, "started")], without(120, 145), "stopped"),
        ([event(45, "started"), event(260, "stop_asked", alive=False)], without(120, 999), "died"),
        ([event(45, "started"), event(260, "stop_asked", alive=True)], without(120, 999), "unknown"),
        ([event(45, "started")], without(120, 999), "unknown"),
        ([event(150, "started")], without(0, 150), "not started"),
        ([], without(120, 145), "unknown"),
    ],
)
def test_what_became_of_the_recorder_in_a_gap(events: list[Any], rows: list[Any], fate: str) -> None:
    (found,) = attribution.attribute(WINDOW, rows, [], log_of([]), 0.0, NO_COUNTERS, events)
    assert [gap["recorder"] for gap in found["gaps"]["sysfs"]] == [fate]
    assert found["verdict"]["state"] == "unknown", "nothing but the recorder saw the cooling devices"
    told = {"died": "the recorder had died", "stopped": "no recorder ran", "not started": "no recorder ran yet"}
    assert found["verdict"]["text"].startswith(f"unknown: {told[fate]}: " if fate in told else "unknown: nothing was")


def test_even_a_short_time_without_a_recorder_is_unknown() -> None:
    events = [event(45, "started"), event(127, "started")]
    (found,) = attribution.attribute(WINDOW, without(120, 127), [], log_of([]), 0.0, NO_COUNTERS, events)
    assert found["verdict"]["text"].startswith("unknown: the recorder had died: nothing was recorded for 10.0 s")


def test_a_suspended_box_is_counted_for_the_window_it_was_suspended_in() -> None:
    rows = samples(50 * S, 250 * S)
    asleep = [event(90, "suspended", suspended_s=3.0), event(130, "suspended", suspended_s=6.0)]
    assert lived(rows, event(45, "started"), *asleep)["suspended_s"] == 6.0


def test_what_was_not_read_is_left_out_and_counters_that_fell_say_nothing() -> None:
    row = {"t": 5 * S, "z": {"gpu-thermal": None, "cpu-thermal": -256000}, "vm": {"pswpin": 1}, "fan": {"rpm": None}}
    before = {"t": 0, "vm": {"pswpin": 9}}
    assert telemetry.sysfs_numbers(row, before, 4096) == {}


def test_torn_files_are_read_as_far_as_they_go() -> None:
    lines = ['{"t": 1, "u": 2}\n', '{"t": 3, "u"\n', "\n", "[]\n", '{"t": "x"}\n', '{"t": 4}']
    assert [row["t"] for row in telemetry.read_json_lines(lines)] == [1, 4]
    cut = [f"{S} RAM 1/2MB tj@50C VIN 7mW/7mW\n", f"{2 * S}~ RAM 1/2MB tj@50C VIN 7mW/7\n", "x RAM 1/2MB tj@1C\n"]
    assert [numbers.get("power_w.VIN") for _t, numbers in telemetry.read_tegrastats(cut)] == [0.007, None]


def a_spike(folder: Path) -> Path:
    """A spike's folder with one result, one boot and telemetry."""
    spike = folder / "spike"
    (spike / "results").mkdir(parents=True)
    (spike / "telemetry").mkdir()
    window = {
        "start_monotonic_ns": 100 * S,
        "end_monotonic_ns": 200 * S,
        "start_utc": "1970-01-01T00:18:20.000000Z",
        "end_utc": "1970-01-01T00:20:00.000000Z",
    }
    result = {
        "schema": "lobes.spike/result/1",
        "phase": "needle",
        "name": "n",
        "window": window,
        "context": {"arm": "B"},
    }
    (spike / "results/B.n.json").write_text(json.dumps(result))
    other = {**result, "window": {**window, "start_utc": "1970-03-01T00:00:00.000000Z"}}
    (spike / "results/B.other-boot.json").write_text(json.dumps(other))
    (spike / "results/B.half.json").write_text('{"schema": "lobes.sp')
    boot = {
        "schema": "lobes.spike/boot/1",
        "arm": "B",
        "started_utc": "1970-01-01T00:17:30.5Z",
        "ready_s": 20,
        "milestones": [{"t_s": 1.0, "log_time": "01-01 00:17:31"}, {"t_s": None, "log_time": None}],
    }
    (spike / "results/B.boot.json").write_text(json.dumps(boot))
    rows = "".join(json.dumps(row) + "\n" for row in samples(40 * S, 300 * S))
    (spike / "telemetry/sysfs.jsonl").write_text(rows)
    log = f"{40 * S} 6,0,1000000,-;Linux version\n" + f"{int(150.5 * S)} 4,1,150000000,-;{ALERT}\n"
    (spike / "telemetry/kernel.log").write_text(log)
    about = {
        **ABOUT,
        "boot_id": "x",
        "pid": 1,
        "start_ticks": 0,
        "token": "t",
        "kernel_log": True,
        "started": {"t": 40 * S, "u": 0},
    }
    (spike / "telemetry/recorder.json").write_text(json.dumps(about))
    (spike / "telemetry/events.jsonl").write_text('{"t": 1, "u": 2, "event": "started"}\n')
    return spike


def test_a_whole_spike_from_its_files(tmp_path: Path) -> None:
    spike = a_spike(tmp_path)
    document = session.attribute(str(spike))
    boot, needle = document["windows"]
    assert (boot["phase"], boot["start_monotonic_ns"], boot["duration_s"]) == ("boot", int(50.5 * S), 20.0)
    assert boot["verdict"]["text"] == "clean"
    assert needle["verdict"]["text"] == "under 1 alert"
    assert needle["arm"] == "B"
    assert [row["path"] for row in document["other_boot"]] == ["results/B.other-boot.json"]
    assert document["kernel"]["clock"] == {"offset_s": pytest.approx(0.5), "measured": True}
    assert document["clocks"]["engine_logs"][0]["zone_hours"] == 0
    written = json.loads((spike / "telemetry/attribution.json").read_text())
    assert written == json.loads(json.dumps(document))
    again = session.attribute(str(spike))
    assert again == document


def test_the_lives_of_the_recorders_are_told(tmp_path: Path) -> None:
    spike = a_spike(tmp_path)
    events = [event(40, "started", pid=7), event(150, "started", pid=8), event(310, "stop_asked", alive=False)]
    (spike / "telemetry/events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in events))
    document = session.attribute(str(spike))
    first, second = document["recorder"]["lives"]
    assert (first["pid"], first["end"], first["last_line"]["t"], first["started_anew"]["t"]) == (
        7, "died", 145 * S, 150 * S,
    )  # fmt: skip
    assert (second["pid"], second["end"], second["last_line"]["t"]) == (8, "died", 300 * S)
    assert document["incidents"] == [], "that the spike asked is no incident"
    # What the spike wrote at its end does not make the kernel log followed until then.
    assert document["kernel"]["covers_to_s"] == pytest.approx(300 - 0.5, abs=1)


def test_a_suspended_boxs_utc_was_not_stepped(tmp_path: Path) -> None:
    spike = a_spike(tmp_path)
    rows = samples(40 * S, 300 * S, u=lambda t: t + (1000 + 6 * (t > 148 * S) + 9 * (t > 250 * S)) * S)
    (spike / "telemetry/sysfs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    events = [event(40, "started"), event(150, "suspended", suspended_s=6.0)]
    (spike / "telemetry/events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in events))
    document = session.attribute(str(spike))
    assert [(step["monotonic_ns"] // S, step["step_s"]) for step in document["clocks"]["steps"]] == [(255, 9.0)]


def test_a_spike_without_telemetry_is_unknown_throughout(tmp_path: Path) -> None:
    spike = a_spike(tmp_path)
    for path in (spike / "telemetry").iterdir():
        path.unlink()
    document = session.attribute(str(spike))
    assert document["windows"] == []
    assert len(document["other_boot"]) == 2


def test_readings_are_thinned_but_keep_every_step() -> None:
    rows = samples(0, 600 * S, u=lambda t: t + (1000 - (t > 305 * S) * 50) * S)
    readings, last = session.telling_readings(rows)
    assert last == 600 * S
    assert len(readings) < 20
    offsets = [reading.offset_ns // S for reading in readings]
    assert offsets == sorted(offsets, reverse=True)
    step = next(i for i, offset in enumerate(offsets) if offset == 950)
    assert (readings[step - 1].monotonic_ns, readings[step].monotonic_ns) == (305 * S, 310 * S)


def a_box(**changes: Any) -> dict[str, Any]:
    container = {
        "id": "c" * 64,
        "image": "vllm@sha256:1",
        "running": True,
        "state": "running",
        "started_utc": "2026-01-01T00:00:00Z",
        "labels": {},
        "configuration_hash": "h" * 64,
        "configuration_parts": {"env": "1", "image": "2"},
    }
    port = {"port": 8001, "address": "127.0.0.1", "protocol": "tcp", "container_port": 8000}
    return {
        "containers": [{**container, "name": "worker", "ports": [port]}, {**container, "name": "embed", "ports": []}],
        "docker": {
            "reachable": True,
            "images": [{"id": "i", "reference": "a:1"}],
            "networks": ["bridge"],
            "volumes": [],
        },
        "ports": [
            {"address": "127.0.0.1", "port": 8001, "process": "docker-proxy"},
            {"address": "0.0.0.0", "port": 22, "process": None},
        ],
        "power": {"mode": "MAXN"},
        "fan": {"status": {"profile": "cool"}, "query": {"fans": []}, "conf": None},
        "sysctls": {"vm.drop_caches": "0"},
        "configuration_files": {"/srv/compose.yml": "x"},
        "identity": {"boot_id": "b"},
        **changes,
    }


LANE = {
    "name": "worker",
    "disposition": "stopped",
    "approval": {"approved_by": "ada"},
    "stopped_utc": "2026-01-01T01:00:00Z",
}


def differences(after: dict[str, Any], **actions: Any) -> dict[str, str | None]:
    found = proof.compare(a_box(), after, proof.Actions(**{"lane": {}, **actions}))
    return {difference.what: difference.explained_by for difference in found}


def test_the_same_box_has_no_difference() -> None:
    assert differences(a_box()) == {}
    assert proof.unknown(a_box(), a_box()) == []


def stopped_box() -> dict[str, Any]:
    after = a_box()
    after["containers"][0].update(running=False, state="exited")
    after["ports"] = after["ports"][1:]
    return after


@pytest.mark.parametrize("state", ["running", "restarting", "exited"])
def test_a_lane_that_someone_started_after_the_stop_is_not_explained_by_it(state: str) -> None:
    after = stopped_box()
    after["containers"][0].update(running=state == "running", state=state, started_utc="2026-09-13T23:59:00Z")
    lane = {**LANE, "stopped_utc": "2026-09-13T23:00:00Z"}
    found = differences(after, lane=lane)
    assert found["container worker: started by someone else"] is None
    assert "container worker: state" not in found


def test_what_the_spike_did_is_explained_by_its_record() -> None:
    after = stopped_box()
    after["docker"]["images"] = [*after["docker"]["images"], {"id": "j", "reference": "vllm@sha256:1"}]
    after["sysctls"] = {"vm.drop_caches": "3"}
    found = differences(after, lane=LANE, images=["vllm@sha256:1"], dropped_caches=True)
    assert set(found) == {
        "container worker: state",
        "listening on 127.0.0.1 port 8001",
        "image vllm@sha256:1",
        "sysctl vm.drop_caches",
    }
    assert all(found.values())
    assert "ada" in str(found["container worker: state"])


def test_the_same_without_a_record_is_not_explained() -> None:
    assert set(differences(stopped_box()).values()) == {None}
    assert set(differences(stopped_box(), lane={**LANE, "approval": None}).values()) == {None}
    assert set(differences(stopped_box(), lane={**LANE, "name": "embed"}).values()) == {None}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda b: b["containers"][1].update(started_utc="2026-01-02T00:00:00Z"), "container embed: running since"),
        (lambda b: b["containers"][1].update(state="exited", running=False), "container embed: state"),
        (lambda b: b["containers"][1].update(configuration_hash="k", configuration_parts={"env": "9", "image": "2"}),
         "container embed: configuration (env)"),
        (lambda b: b["containers"].pop(1), "container embed"),
        (lambda b: b["containers"].append({**b["containers"][1], "name": "new"}), "container new"),
        (lambda b: b["docker"].update(networks=[]), "network bridge"),
        (lambda b: b["docker"].update(volumes=["v"]), "volume v"),
        (lambda b: b["docker"].update(images=[]), "image a:1"),
        (lambda b: b["ports"].append({"address": "::", "port": 9, "process": "x"}), "listening on :: port 9"),
        (lambda b: b["power"].update(mode="120W"), "power mode"),
        (lambda b: b["fan"].update(status={"profile": "quiet"}), "fan profile"),
        (lambda b: b["sysctls"].update({"vm.drop_caches": "3"}), "sysctl vm.drop_caches"),
        (lambda b: b["configuration_files"].update({"/srv/compose.yml": "y"}), "file /srv/compose.yml"),
        (lambda b: b["identity"].update(boot_id="c"), "boot of the box"),
    ],
)  # fmt: skip
def test_whatever_else_changed_is_not_explained(change: Any, what: str) -> None:
    after = a_box()
    change(after)
    assert differences(after, lane=LANE) == {what: None}


def test_what_a_look_does_not_know_is_no_difference_but_is_named() -> None:
    after = a_box(containers=None, fan=None, power={"mode": None})
    assert differences(after) == {}
    assert proof.unknown(a_box(), after) == ["containers", "fan"]
