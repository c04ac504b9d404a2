# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorder as the process it is: on a tree of its own, with a tegrastats that dies, falls silent and cuts lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import attribution, detach, recorder, session, telemetry
from ansible_collections.lobes.spike.plugins.module_utils.box.kernel_log import KernelLog
from ansible_collections.lobes.spike.plugins.module_utils.box.recorder import Log, Sampler, fields, sensor
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError

LINE = "01-20-2026 22:46:22 RAM 17842/125772MB (lfb 79x4MB) tj@31.218C VDD_GPU 0mW/0mW VIN 16802mW/16802mW"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import recorder
recorder.PATH = sys.argv.pop(1) + ":" + recorder.PATH
recorder.RESTART_WAITS_S, recorder.SILENCE_S = (0.1,), 0.6
root = sys.argv.pop(1)
recorder.main(sys.argv[1:], lambda *args: recorder.Recorder(*args, root=root))
"""


def until(true: Callable[[], Any], limit_s: float = 10.0) -> Any:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.03)
    raise AssertionError("it did not happen in time")


class Stage:
    """A recorder's process, its folder and the tree it samples."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.bin = folder / "telemetry", folder / "root", folder / "bin"
        for path in (self.folder, self.root / "dev", self.bin):
            path.mkdir(parents=True)
        self.process: subprocess.Popen[bytes] | None = None
        (self.root / "dev/kmsg").write_text("6,7,1000000,-;before\n")

    def put(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def tegrastats(self, script: str) -> None:
        program = self.bin / "tegrastats"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def start(self, interval_s: float = 0.1, limit_s: float = 60) -> None:
        where = str(Path(recorder.__file__).parent)
        options = [f"--folder={self.folder}", "--token=abc", f"--interval-s={interval_s}", f"--limit-s={limit_s}"]
        command = [sys.executable, "-c", PROGRAM, where, str(self.bin), str(self.root), *options]
        self.process = subprocess.Popen(command)
        until(lambda: (self.folder / "recorder.json").exists())

    def stop(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(10) == 0

    def rows(self, name: str = "sysfs.jsonl") -> list[dict[str, Any]]:
        return list(telemetry.read_json_lines(session.lines_of(str(self.folder / name))))

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows("events.jsonl") if row["event"] == kind]

    def lines(self, name: str) -> list[str]:
        return list(session.lines_of(str(self.folder / name)))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    if made.process and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def test_it_samples_what_there_is(stage: Stage) -> None:
    stage.put("sys/class/thermal/thermal_zone0/type", "tj-thermal\n")
    stage.put("sys/class/thermal/thermal_zone0/temp", "36031\n")
    stage.put("sys/class/thermal/cooling_device10/type", "gpu-throttle-alert\n")
    stage.put("sys/class/thermal/cooling_device10/cur_state", "1\n")
    stage.put("sys/class/thermal/cooling_device2/type", "cpufreq-cpu0\n")
    stage.put("sys/class/thermal/cooling_device2/cur_state", "0\n")
    stage.put("sys/class/hwmon/hwmon3/name", "soctherm_oc\n")
    stage.put("sys/class/hwmon/hwmon3/oc3_event_cnt", "17\n")
    stage.put("sys/class/hwmon/hwmon0/name", "ina238\n")
    stage.put("sys/class/hwmon/hwmon0/power1_input", "101000000\n")
    stage.put("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 60 kB\nSwapTotal: 9 kB\nSwapFree: 9 kB\n")
    stage.put("proc/vmstat", "nr_free 1\npswpin 5\npswpout 6\noom_kill 0\n")
    stage.put("proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1\n")
    stage.start()
    until(lambda: len(stage.rows()) >= 5)
    stage.put("sys/class/thermal/thermal_zone0/temp", "40000\n")  # the file is kept open and read anew
    until(lambda: stage.rows()[-1]["z"] == {"tj-thermal": 40000})
    stage.stop()
    row = stage.rows()[0]
    assert row["z"] == {"tj-thermal": 36031}
    assert row["c"] == {"gpu-throttle-alert": 1}  # zeros are left out; recorder.json names all
    assert row["oc"] == {"oc3": 17}
    assert row["p"] == {"VIN": 101000}
    assert row["mem"] == {"MemTotal": 100, "MemAvailable": 60, "SwapTotal": 9, "SwapFree": 9}
    assert row["vm"] == {"pswpin": 5, "pswpout": 6, "oom_kill": 0}
    assert row["cpu"] == [1, 2, 3, 4, 5, 6, 7, 8, 0, 0]
    about = json.loads((stage.folder / "recorder.json").read_text())
    assert about["sampled"]["cooling"] == ["cpufreq-cpu0", "gpu-throttle-alert"]
    assert about["tegrastats"] is False
    assert about["stopped"]["t"] > about["started"]["t"]
    times = [row["t"] for row in stage.rows()]
    assert times == sorted(times)
    assert (stage.folder / "sysfs.jsonl").stat().st_mode & 0o777 == 0o600


def test_tegrastats_that_dies_is_started_again_and_its_cut_line_is_marked(stage: Stage) -> None:
    stage.tegrastats(f"echo '{LINE}'; sleep 0.2; printf '%s' '{LINE[:60]}'; exit 3")
    stage.start()
    until(lambda: len(stage.events("source_died")) >= 3)
    stage.stop()
    assert stage.events("source_died")[0]["exit_status"] == 3
    lines = stage.lines("tegrastats.log")
    whole = [line for line in lines if "~ " not in line]
    cut = [line for line in lines if "~ " in line]
    assert len(whole) >= 3
    assert len(cut) >= 3
    assert whole[0].split(" ", 1)[1] == LINE + "\n"
    numbers = [found for _t, found in telemetry.read_tegrastats(lines)]
    assert all(found.get("power_w.VIN", 16.802) == 16.802 for found in numbers)


def test_tegrastats_that_falls_silent_is_started_again(stage: Stage) -> None:
    stage.tegrastats(f"echo '{LINE}'; exec sleep 60")
    stage.start()
    until(lambda: len(stage.events("source_silent")) >= 2)
    stage.stop()
    assert stage.events("source_silent")[0]["silent_s"] >= 0.6
    assert len(stage.lines("tegrastats.log")) >= 2
    # Its children end with it.
    pids = [event["pid"] for event in stage.events("source_started")]
    assert not any(Path(f"/proc/{pid}").exists() and detach.command_line(pid)[0] for pid in pids)


def test_tegrastats_that_may_not_be_run_is_as_none(stage: Stage) -> None:
    stage.tegrastats("exit 0")
    (stage.bin / "tegrastats").chmod(0o644)
    stage.start()
    until(lambda: len(stage.rows()) >= 2)
    stage.stop()
    assert json.loads((stage.folder / "recorder.json").read_text())["tegrastats"] is False


def test_kernel_messages_are_followed_and_lost_ones_told(stage: Stage) -> None:
    stage.start()
    kmsg = stage.root / "dev/kmsg"
    with kmsg.open("a") as log:
        log.write("4,8,2000000,-;gpu-throttle-alert cooling state: 0 -> 1\n SUBSYSTEM=x\n")
    until(lambda: len(stage.lines("kernel.log")) == 2)
    kmsg.write_text("4,12,3000000,-;after the ring wrapped\n")
    until(lambda: stage.events("kernel_lost"))
    stage.stop()
    assert [line.split(";")[1] for line in stage.lines("kernel.log")] == [
        "before\n",
        "gpu-throttle-alert cooling state: 0 -> 1\n",
        "after the ring wrapped\n",
    ]
    assert stage.events("kernel_lost")[0]["records"] == 3


def test_a_kernel_log_that_may_not_be_read_is_said_to_be_so(stage: Stage) -> None:
    (stage.root / "dev/kmsg").unlink()
    stage.start()
    stage.stop()
    about = json.loads((stage.folder / "recorder.json").read_text())
    assert about["kernel_log"] is False
    assert about["kernel_log_refusal"] == "No such file or directory"


def test_a_stopped_process_leaves_missed_samples_not_a_silent_hole(stage: Stage) -> None:
    stage.start()
    until(lambda: len(stage.rows()) >= 3)
    assert stage.process
    stage.process.send_signal(signal.SIGSTOP)
    time.sleep(0.7)
    stage.process.send_signal(signal.SIGCONT)
    until(lambda: stage.events("samples_missed"))
    stage.stop()
    assert stage.events("samples_missed")[0]["samples"] >= 4
    rows = stage.rows()
    span = attribution.Span(rows[0]["t"], rows[-1]["t"])
    about = json.loads((stage.folder / "recorder.json").read_text())
    (found,) = attribution.attribute(
        [span], rows, [], KernelLog("recorder", None, [], 0.0), 0.0, about, stage.rows("events.jsonl")
    )
    longest = max(found["gaps"]["sysfs"], key=lambda gap: gap["silent_s"])
    assert longest["recorder"] == "lived"
    assert longest["silent_s"] >= 0.7
    assert found["recorded_share"] < 1


def test_a_forgotten_recorder_ends_by_itself(stage: Stage) -> None:
    stage.start(limit_s=0.5)
    assert stage.process
    assert stage.process.wait(10) == 0
    assert stage.events("limit_reached")


def test_a_full_disk_loses_lines_and_counts_them() -> None:
    log = Log("/dev/full")
    assert [log.write("x"), log.write("y")] == [0, 0]
    assert log.lost == 2


def test_a_clock_step_is_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorder.Recorder(str(tmp_path), "t", 1.0, 60.0, root=str(tmp_path))
    moments = iter([(0, 10**12), (10**9, 10**12 + 10**9), (2 * 10**9, 10**12 - 3600 * 10**9)])
    monkeypatch.setattr(recorder, "now", lambda: next(moments, (3 * 10**9, 0)))
    for _ in range(3):
        made.tick()
    steps = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [(row["event"], round(row["step_ns"] / 1e9)) for row in steps] == [("clock_step", -3602)]


def test_a_suspension_is_an_event_and_no_clock_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "asleep_ns", lambda: 5)
    made = recorder.Recorder(str(tmp_path), "t", 1.0, 60.0, root=str(tmp_path))
    moments = iter([(0, 10**12), (10**9, 10**12 + 7 * 10**9)])
    monkeypatch.setattr(recorder, "now", lambda: next(moments, (2 * 10**9, 10**12 + 8 * 10**9)))
    made.tick()
    monkeypatch.setattr(recorder, "asleep_ns", lambda: 5 + 6 * 10**9)
    made.tick()
    made.tick()
    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [(row["event"], row["suspended_s"]) for row in told] == [("suspended", 6.0)]


def test_this_machine_counts_its_time_asleep() -> None:
    assert recorder.asleep_ns() > -(10**9)


def test_fields_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("MemTotalX: 1 kB\nMemTotal:       12 kB\nBad: x\n")
    found = sensor(str(tmp_path / "f"))
    assert fields(found, (b"MemTotal", b"Bad", b"Gone"), b":") == {"MemTotal": 12}
    assert fields(None, (b"MemTotal",), b":") == {}


def test_two_zones_of_one_type_are_both_kept(tmp_path: Path) -> None:
    for number in (0, 1):
        zone = tmp_path / f"sys/class/thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "type").write_text("acpitz\n")
        (zone / "temp").write_text(f"{number}\n")
    assert Sampler(str(tmp_path)).sample()["z"] == {"acpitz": 0, "acpitz#thermal_zone1": 1}


def test_detached_it_outlives_who_started_it_and_is_ended_by_pid_and_token(tmp_path: Path) -> None:
    """Real start and stop, in a child whose session is killed afterwards."""
    folder = tmp_path / "telemetry"
    code = "import os, sys; from %s import start; start(sys.argv[1], 0.1, 60); os.write(1, b'up'); input()"
    environment = {**os.environ, "PYTHONPATH": str(Path(detach.__file__).parents[6])}
    starter = subprocess.Popen(
        [sys.executable, "-c", code % detach.__name__, str(folder)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert starter.stdout
    assert starter.stdout.read(2) == b"up"
    os.killpg(starter.pid, signal.SIGKILL)
    # Nothing of the recorder holds the starter's pipes open: ssh would hang on them.
    assert starter.communicate(timeout=5)[0] == b""
    about = detach.read_about(str(folder))
    assert about
    try:
        assert detach.alive(about)
        assert os.getsid(about["pid"]) != starter.pid
        assert session.begin(str(folder), 0.1, 60, None)[0] is False  # it goes on, no second one
        # Another process with that pid, or another token, is not it.
        assert not detach.alive({**about, "token": "other"})
        assert not detach.alive({**about, "start_ticks": about["start_ticks"] + 1})
        assert not detach.alive({**about, "pid": os.getpid()})
        assert not detach.alive({**about, "boot_id": "other"})
        count = session.info(str(folder))["samples"]
        until(lambda: session.info(str(folder))["samples"] > count)
    finally:
        ran, last = detach.stop(str(folder))
    assert ran
    assert last
    assert last["stopped"]
    assert detach.stop(str(folder))[0] is False


def test_one_that_ignores_the_request_is_killed_and_only_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    about = detach.start(folder, 0.1, 60)
    os.kill(about["pid"], signal.SIGSTOP)
    sent: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        sent.append((pid, number))
        os.kill(pid, number)

    assert detach.stop(folder, patience_s=0.3, kill=kill)[0]
    assert sent == [(about["pid"], signal.SIGTERM), (about["pid"], signal.SIGKILL)]


def lives(folder: str) -> list[str]:
    events = list(telemetry.read_json_lines(session.lines_of(f"{folder}/events.jsonl")))
    return [life.end for life in telemetry.Lives(events).lives]


def test_a_killed_recorder_is_known_to_have_died_and_a_stopped_one_to_have_stopped(
    tmp_path: Path, make_source: Callable[..., Source]
) -> None:
    folder = str(tmp_path / "t")
    _changed, about = session.begin(folder, 0.1, 60, None)
    assert lives(folder) == ["unknown"], "it is at work"
    os.kill(about["pid"], signal.SIGKILL)
    until(lambda: not detach.alive(about))
    session.begin(folder, 0.1, 60, None)
    assert lives(folder) == ["died", "unknown"]
    assert session.end(folder, make_source(), None)[0] is True
    assert lives(folder) == ["died", "stopped"]
    assert session.end(folder, make_source(), None)[0] is False
    assert lives(folder) == ["died", "stopped"], "that it is gone now says nothing of it"
    _changed, about = session.begin(folder, 0.1, 60, None)
    os.kill(about["pid"], signal.SIGKILL)
    until(lambda: not detach.alive(about))
    with open(f"{folder}/events.jsonl", "a") as torn:
        torn.write('{"t": 1, "u": ')
    assert session.end(folder, make_source(), None)[0] is False
    assert lives(folder) == ["died", "stopped", "died"]


def test_one_that_had_to_be_killed_is_said_to_have_been(
    tmp_path: Path, make_source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "t")
    _changed, about = session.begin(folder, 0.1, 60, None)
    os.kill(about["pid"], signal.SIGSTOP)
    patient = detach.stop
    monkeypatch.setattr(detach, "stop", lambda folder: patient(folder, patience_s=0.3))
    assert session.end(folder, make_source(), None)[0] is True
    assert lives(folder) == ["killed"]


def test_a_recorder_that_cannot_start_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    (folder / "sysfs.jsonl").mkdir(parents=True)
    with pytest.raises(SpikeError, match=r"sysfs\.jsonl"):
        detach.start(str(folder), 0.1, 60, patience_s=2.0)


def test_files_of_another_boot_are_set_aside(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    old = {"boot_id": "0123456789ab", "pid": 1, "start_ticks": 1, "token": "x"}
    (folder / "recorder.json").write_text(json.dumps(old))
    (folder / "sysfs.jsonl").write_text('{"t": 1, "u": 1}\n')
    try:
        changed, about = session.begin(str(folder), 0.1, 60, {"offset_s": 0.0, "error_s": 0.1})
        assert changed
        assert about["boot_id"] != old["boot_id"]
        assert (folder / "boot-01234567/sysfs.jsonl").exists()
        assert json.loads((folder / "clocks.json").read_text())["start"]["controller"]["error_s"] == 0.1
    finally:
        detach.stop(str(folder))
