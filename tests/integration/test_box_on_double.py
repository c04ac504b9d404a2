# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at a box and its witnesses on a simulated Thor, fault by fault: what the product says must be right.

The code runs in the box as a module would; one play over ssh shows that the modules do run it so.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOX = ROOT / "tests/doubles/box/box.sh"
LOOK = """
import json, subprocess, sys
sys.path.insert(0, "/run/product")
from lobes_utils.box.look import look
from lobes_utils.box.requirements import Needs, judge, remarks
from lobes_utils.box.forecast import forecast, held_bytes, shares
from lobes_utils.box.source import Source
from lobes_utils.box.command import runner
def run_command(argv, environ_update=None, **_):
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", env=environ_update)
    return done.returncode, done.stdout, done.stderr
source = Source(runner(run_command))
box = look(source, disk_paths=["/root/lightning-spike"], cache="/root/.cache/huggingface")
going = [c for c in box["containers"] or [] if c["name"] == "model-gear-vllm-worker"]
share = shares(source, going, (box["gpu"] or {}).get("processes"), box["memory"]["total_bytes"])
held = held_bytes(source, (box["gpu"] or {}).get("processes"))
box["memory_forecast"] = forecast(box["memory"], share, 0.7, None, held, DROP)
needs = Needs(docker_runtime="nvidia", port=8090, lanes=["model-gear-vllm-worker"], min_disk_free_gib=1,
              hf_cache_writable=True, memory_utilization=0.7)
json.dump({"box": box, "problems": judge(box, needs), "remarks": remarks(box)}, sys.stdout)
"""
WITNESS = """
import json, subprocess, sys, time
sys.path.insert(0, "/run/product")
from lobes_utils.box import session
from lobes_utils.box.source import Source
from lobes_utils.box.command import runner
def run_command(argv, environ_update=None, **_):
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", env=environ_update)
    return done.returncode, done.stdout, done.stderr
source = Source(runner(run_command))
"""


@dataclass
class Box:
    """A simulated box with the product's code in it."""

    name: str
    port: int

    def fault(self, *names: str) -> None:
        subprocess.run([BOX, "fault", self.name, *names], check=True, capture_output=True)

    def heal(self) -> None:
        subprocess.run([BOX, "heal", self.name], check=True, capture_output=True)

    def shell(self, command: str) -> str:
        done = subprocess.run(
            ["docker", "exec", self.name, "sh", "-c", command], check=True, capture_output=True, text=True
        )
        return done.stdout

    def python(self, code: str) -> Any:
        command = [
            "docker",
            "exec",
            "-i",
            "-e",
            "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            self.name,
            "python3",
            "-",
        ]
        done = subprocess.run(command, input=code, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def look(self, drop_caches: bool = False) -> Any:
        return self.python(LOOK.replace("DROP", str(drop_caches)))

    def begin(self, spike: str, interval_s: float = 0.5) -> Any:
        code = f"json.dump(session.begin('{spike}/telemetry', {interval_s}, 600, None)[1], sys.stdout)"
        return self.python(WITNESS + code)

    def end(self, spike: str) -> Any:
        code = f"session.end('{spike}/telemetry', source, None); json.dump(session.attribute('{spike}'), sys.stdout)"
        return self.python(WITNESS + code)

    def window(self, spike: str, name: str, seconds: float) -> None:
        """A phase of so many seconds, with its result document."""
        code = f"""
import os
def moment():
    return time.monotonic_ns(), time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
a, au = moment()
time.sleep({seconds})
b, bu = moment()
os.makedirs("{spike}/results", exist_ok=True)
json.dump({{"schema": "lobes.spike/result/1", "phase": "needle", "name": "{name}", "context": {{"arm": "B"}},
  "window": {{"start_monotonic_ns": a, "end_monotonic_ns": b, "start_utc": au, "end_utc": bu}}}},
  open("{spike}/results/B.{name}.json", "w"))
json.dump(None, sys.stdout)
"""
        self.python(WITNESS + code)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def double() -> Iterator[Box]:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "version"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no container engine answers")
    made = Box("spike-test-box", free_port())
    subprocess.run([BOX, "up", made.name, str(made.port)], check=True, timeout=400)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(ROOT / "plugins/module_utils", "product/lobes_utils")
    subprocess.run(
        ["docker", "cp", "-", f"{made.name}:/run"], input=archive.getvalue(), check=True, capture_output=True
    )
    yield made
    subprocess.run([BOX, "down", made.name], check=False, capture_output=True)


@pytest.fixture
def box(double: Box) -> Iterator[Box]:
    yield double
    double.heal()
    time.sleep(0.5)  # the box's state follows ten times a second


@pytest.fixture
def spike(box: Box, request: pytest.FixtureRequest) -> Iterator[str]:
    path = f"/root/lightning-spike/{abs(hash(request.node.name))}"
    box.shell(f"mkdir -p {path}")
    yield path
    box.python(
        WITNESS + f"from lobes_utils.box import detach; detach.stop('{path}/telemetry'); json.dump(0, sys.stdout)"
    )


def test_a_healthy_box(box: Box) -> None:
    found = box.look()
    assert found["problems"] == []
    assert found["box"]["simulated"] is True
    assert found["box"]["identity"]["l4t"]["jetpack"] == "7.0"
    assert found["box"]["memory_forecast"]["lane_source"].endswith("nvidia-smi, per process")
    assert found["box"]["thermal"]["throttling"] == {"active": [], "known": True}


@pytest.mark.parametrize(
    ("fault", "field", "word"),
    [
        ("docker-down", "docker", "Start the container engine"),
        ("port-process", "port 8090", "pid"),
        ("port-container", "port 8090", "docker stop"),
        ("memory-leak", "memory", "GiB available"),
        ("disk-full", "disk /root/lightning-spike", "Free some room"),
    ],
)
def test_what_a_box_lacks(box: Box, fault: str, field: str, word: str) -> None:
    box.fault(fault)
    problems = {p["field"]: p for p in box.look()["problems"]}
    assert field in problems, problems
    assert word in " ".join(problems[field].values())
    if fault != "docker-down":
        assert len(problems) == 1, problems


def test_everything_at_once_in_one_look(box: Box) -> None:
    box.fault("port-process", "memory-leak", "no-runtime")
    assert [p["field"] for p in box.look()["problems"]] == ["docker_runtime", "port 8090", "memory"]
    box.heal()
    time.sleep(0.5)
    assert box.look()["problems"] == []


def test_locks_of_the_cache_that_another_user_owns(box: Box) -> None:
    box.fault("cache-locks-foreign")
    (problem,) = box.look()["problems"]
    assert ".locks" in problem["found"]
    assert "chown" in problem["remedy"]


def test_used_memory_that_nobody_holds_is_unknown_where_the_cache_will_be_dropped(box: Box) -> None:
    box.fault("page-cache")
    time.sleep(1)
    assert [p["field"] for p in box.look()["problems"]] == ["memory"]
    found = box.look(drop_caches=True)
    assert found["problems"] == []
    assert "cannot be foretold" in " ".join(found["remarks"])
    box.shell("sysctl -q -w vm.drop_caches=3; sleep 2")
    assert box.look()["problems"] == []


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("power-120w", "120W"),
        ("fan-stale", "persisted profile quiet"),
        ("cpu-pinned", "far slower than the governor believes"),
        ("throttle-always", "throttling now"),
    ],
)
def test_what_belongs_beside_every_figure(box: Box, fault: str, word: str) -> None:
    box.fault(fault)
    end = time.monotonic() + 30
    while word not in " ".join(box.look()["remarks"]) and time.monotonic() < end:
        time.sleep(0.5)
    found = box.look()
    assert word in " ".join(found["remarks"])
    assert found["problems"] == []


def test_a_gpu_that_sleeps_is_no_reading_and_a_tool_that_fails_is_a_reason(box: Box) -> None:
    box.fault("gpu-asleep", "nvpmodel-fails", "no-swap", "hwmon-renumbered")
    time.sleep(1.5)
    found = box.look()["box"]
    zones = {zone["type"]: zone["temp_c"] for zone in found["thermal"]["zones"]}
    assert zones["gpu-thermal"] is None
    assert zones["tj-thermal"] is not None
    assert found["power"]["mode"] is None
    assert "NVPM ERROR" in found["power"]["reason"]
    assert found["memory"]["swap_total_bytes"] == 0
    assert found["hwmon"]["over_current"][-1]["channel"] == 3


def test_a_burst_inside_one_window_taints_that_one_only(box: Box, spike: str) -> None:
    alert = "gpu-throttle-alert cooling state: 0 -> 1"
    about = box.begin(spike)
    assert about["tegrastats"] is True
    assert about["kernel_log"] is True
    box.shell(f"box kmsg '{alert}'")
    time.sleep(1.2)
    box.window(spike, "before", 2)
    time.sleep(1.2)
    box.shell(f"for i in 1 3 5; do (sleep $i; box kmsg '{alert}') >/dev/null 2>&1 & done")
    box.window(spike, "burst", 7)
    time.sleep(1.2)
    box.window(spike, "after", 2)
    time.sleep(1.2)
    box.shell(f"box kmsg '{alert}'")
    document = box.end(spike)
    found = {w["name"]: w for w in document["windows"]}
    assert {name: w["verdict"]["text"] for name, w in found.items()} == {
        "before": "clean",
        "burst": "under 3 alerts",
        "after": "clean",
    }
    assert found["burst"]["alerts"]["before"] == found["before"]["alerts"]["before"] >= 1
    assert (found["burst"]["alerts"]["after"], found["before"]["alerts"]["after"]) == (1, 4)
    assert found["burst"]["series"]["temp_c.tj"]["n"] >= 3
    assert found["burst"]["series"]["power_w.VIN"]["p50"] > 1
    assert document["recorder"]["stopped"]


@pytest.mark.parametrize(
    ("faults", "state", "word"),
    [
        (["dmesg-denied"], "unknown", "kernel log could not be read"),
        (["no-journal", "tegrastats-odd", "nvrm-noise", "oom-kill", "swap-used", "hwmon-renumbered"], "clean", "clean"),
        (["tegrastats-absent", "gpu-asleep"], "clean", "clean"),
        (["tegrastats-r39.2", "no-vin", "no-swap"], "clean", "clean"),
        (["throttle-always"], "under", "alert"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_what_the_witnesses_say_under_a_fault(box: Box, spike: str, faults: list[str], state: str, word: str) -> None:
    box.fault(*faults)
    if faults == ["throttle-always"]:
        time.sleep(15)  # it has to get hot first
    box.begin(spike)
    time.sleep(1.2)
    box.window(spike, "w", 4 if faults == ["throttle-always"] else 2)
    time.sleep(1.2)
    (window,) = box.end(spike)["windows"]
    assert window["verdict"]["state"] == state, window["verdict"]
    assert word in window["verdict"]["text"]
    assert "temp_c.tj" in window["series"]
    if "swap-used" in faults:
        assert window["series"]["swap_in_kib_s"]["max"] == 0.0
        assert window["series"]["swap_used_mib"]["min"] > 1000
        assert min(s["min"] for name, s in window["series"].items() if name.startswith("temp_c.")) > -40
    if "gpu-asleep" in faults:
        assert "temp_c.gpu" not in window["series"]
        assert window["gaps"]["tegrastats"] is None


def test_a_ring_that_wrapped_before_the_recorder_came_is_unknown_for_what_was_before(box: Box, spike: str) -> None:
    box.fault("dmesg-wrapped:2", "no-journal")
    time.sleep(3)
    box.window(spike, "earlier", 1)
    time.sleep(0.5)
    box.begin(spike)
    time.sleep(1.2)
    box.window(spike, "followed", 2)
    time.sleep(3.5)  # what was followed stays known though the ring forgets it
    found = {w["name"]: w["verdict"] for w in box.end(spike)["windows"]}
    assert found["earlier"]["state"] == "unknown"
    assert found["followed"]["state"] == "clean", found


def test_tegrastats_that_dies_and_one_whose_clock_jumps(box: Box, spike: str) -> None:
    box.fault("tegrastats-dies:3", "clock-jump")
    box.begin(spike, 0.3)
    time.sleep(5)
    box.window(spike, "w", 2)
    time.sleep(1)
    document = box.end(spike)
    died = [event for event in document["incidents"] if event["event"] == "source_died"]
    assert len(died) >= 2
    assert document["windows"][0]["verdict"]["text"] == "clean"
    assert document["windows"][0]["series"]["temp_c.tj"]["n"] >= 1


def test_the_recorder_killed_in_the_middle_leaves_a_gap_that_is_seen(box: Box, spike: str) -> None:
    about = box.begin(spike)
    time.sleep(1)
    box.shell(f"kill -9 {about['pid']}")
    box.window(spike, "blind", 12)
    again = box.begin(spike)
    assert again["pid"] != about["pid"]
    time.sleep(1.2)
    box.window(spike, "seen", 2)
    time.sleep(1.2)
    document = box.end(spike)
    found = {w["name"]: w for w in document["windows"]}
    assert "the recorder had died" in found["blind"]["verdict"]["text"]
    assert found["blind"]["gaps"]["sysfs"][0]["recorder"] == "died"
    assert found["seen"]["verdict"]["text"] == "clean"
    assert [life["end"] for life in document["recorder"]["lives"]] == ["died", "stopped"]


def test_a_freeze_of_six_seconds_is_a_gap_of_a_living_recorder(box: Box, spike: str) -> None:
    about = box.begin(spike, 1)
    time.sleep(1.5)
    box.shell(f"(sleep 1; kill -STOP {about['pid']}; sleep 6; kill -CONT {about['pid']}) >/dev/null 2>&1 &")
    box.window(spike, "frozen", 9)
    time.sleep(1.5)
    (window,) = box.end(spike)["windows"]
    (gap,) = window["gaps"]["sysfs"]
    assert gap["recorder"] == "lived"
    assert 5.9 < gap["silent_s"] < 7.5
    assert 0.15 < window["recorded_share"] < 0.4
    assert window["verdict"]["text"] == "clean"


PLAY = """
- hosts: boxes
  gather_facts: false
  vars: {evidence_box_dir: "%s", worker_lane_name: model-gear-vllm-worker, spike_recipe: {gpu-memory-utilization: 0.7}}
  tasks:
    - ansible.builtin.import_role: {name: lobes.spike.preflight}
    - lobes.spike.telemetry: {path: "%s/telemetry"}
    - ansible.builtin.copy:
        content: "{{ preflight_box | to_json }}"
        dest: "%s/box.json"
        mode: "0600"
    - ansible.builtin.import_role: {name: lobes.spike.worker_lane}
    - lobes.spike.box_info: {lane: model-gear-vllm-worker}
      register: after
    - ansible.builtin.copy: {content: "{{ after.box | to_json }}", dest: "%s/box_after.json", mode: "0600"}
    - lobes.spike.telemetry_info: {path: "%s/telemetry"}
      register: recording
    - lobes.spike.telemetry: {path: "%s/telemetry", state: stopped}
      register: recorded
    - lobes.spike.attribution: {path: "%s"}
    - lobes.spike.measure_only: {path: "%s"}
      register: proof
    - ansible.builtin.copy:
        content: "{{ {'proof': proof, 'recorder': recorded.recorder, 'running': recording.running} | to_json }}"
        dest: "%s/out.json"
        mode: "0600"
    - ansible.builtin.import_role: {name: lobes.spike.worker_lane, tasks_from: start}
      vars: {worker_lane_records: "%s/lane.json"}
"""


def test_a_play_over_ssh(box: Box, spike: str, tmp_path: Path) -> None:
    """Preflight, gate, recorder, proof and restart as modules, on a box that is reached as a real one is."""
    playbook = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert playbook
    variables = {
        "ansible_host": "127.0.0.1",
        "ansible_port": box.port,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(ROOT / "build/sim/id_ed25519"),
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    (tmp_path / "hosts.yml").write_text(json.dumps({"boxes": {"hosts": {"thor": variables}}}))
    (tmp_path / "play.yml").write_text(PLAY.replace("%s", spike))
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\ncollections_path = {ROOT}/.collections\n")
    approval = ["-e", "worker_lane_approval=thor", "-e", "worker_lane_approved_by=ada"]
    done = subprocess.run(
        [playbook, "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml"), *approval],
        env={**os.environ, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "ANSIBLE_PIPELINING": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = json.loads(box.shell(f"cat {spike}/out.json"))
    assert out["proof"]["unexplained"] == []
    assert any("ada" in str(row["explained_by"]) for row in out["proof"]["differences"])
    assert out["running"] is True
    assert out["recorder"]["stopped"]
    clocks = json.loads(box.shell(f"cat {spike}/telemetry/clocks.json"))
    assert abs(clocks["start"]["controller"]["offset_s"]) <= clocks["start"]["controller"]["error_s"]
    lane = json.loads(box.shell(f"cat {spike}/lane.json"))
    assert lane["disposition"] == "restarted"
    assert [other["untouched"] for other in lane["proof"]["others"]] == [True, True]
    assert lane["memory_available_after_bytes"] > lane["memory_available_before_bytes"]
