# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The approval gate against a real container engine: what stops a lane, and everything that must not.

Each test has a lane and a neighbour of its own, made from any image on this machine, and a play of its own.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE_PLAYBOOK = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
BOX = "box-1"

STOP = """
- hosts: {hosts}
  gather_facts: false
  tasks:
    - name: Before
      ansible.builtin.debug: {{msg: before}}
    - name: The gate
      lobes.spike.lane:
        name: {lane}
        record: {record}
        grace_s: 1
      register: outcome
      tags: [gate]
    - name: After
      ansible.builtin.copy:
        content: "{{{{ outcome | to_json }}}}"
        dest: {folder}/outcome.json
        mode: "0600"
      check_mode: false
      tags: [gate]
"""


def docker(*argv: str) -> str:
    return subprocess.run(["docker", *argv], check=True, capture_output=True, text=True).stdout.strip()


def some_image() -> str | None:
    """An image on this machine that has a shell, or None when no engine answers."""
    try:
        images = docker("image", "ls", "--format", "{{.ID}} {{.Size}}").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    for line in sorted(images, key=lambda entry: (not entry.endswith("MB"), float(entry.split()[1].strip("kMGB")))):
        image = line.split()[0]
        probe = subprocess.run(["docker", "run", "--rm", "--network=none", image, "sh", "-c", "exit 0"], check=False)
        if probe.returncode == 0:
            return image
    return None


@dataclass
class Stage:
    """A lane, its neighbour and the files of a play."""

    lane: str
    neighbour: str
    image: str
    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / "spike/lane.json"

    def run_lane(self, *extra: str) -> None:
        docker("run", "-d", "--init", "--name", self.lane, "--network=none", *extra, self.image, "sleep", "600")

    def state(self, name: str | None = None) -> tuple[str, str, str]:
        shown = docker("inspect", "-f", "{{.State.Status}} {{.Id}} {{.State.StartedAt}}", name or self.lane)
        status, identity, started = shown.split()
        return status, identity, started

    def write(self, text: str = STOP, hosts: str = BOX) -> Path:
        play = self.folder / "play.yml"
        play.write_text(text.format(hosts=hosts, lane=self.lane, record=self.record, folder=self.folder))
        return play

    def command(self, *argv: str, play: Path | None = None) -> list[str]:
        assert ANSIBLE_PLAYBOOK
        inventory = self.folder / "hosts.yml"
        variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = dict.fromkeys((BOX, "box-2", "true"))
        inventory.write_text(json.dumps({"boxes": {"hosts": hosts, "vars": variables}}))
        return [ANSIBLE_PLAYBOOK, "-i", str(inventory), str(play or self.write()), *argv]

    def environment(self) -> dict[str, str]:
        config = self.folder / "ansible.cfg"
        config.write_text(f"[defaults]\ncollections_path = {ROOT}/.collections\n")
        return {**os.environ, "ANSIBLE_CONFIG": str(config), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}

    def play(self, *argv: str, play: Path | None = None) -> tuple[int, str]:
        """Run without a terminal, as cron does."""
        done = subprocess.run(
            self.command(*argv, play=play),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            start_new_session=True,
        )
        return done.returncode, done.stdout + done.stderr

    def play_on_a_terminal(self, typed: bytes) -> tuple[int, str]:
        """Run on a terminal and type an answer at the prompt."""
        command, environment = self.command(), self.environment()
        child, terminal = pty.fork()
        if child == 0:
            os.execve(command[0], command, environment)
        shown = b""
        sent = False
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.5)[0]:
                try:
                    part = os.read(terminal, 4096)
                except OSError:
                    break
                if not part:
                    break
                shown += part
            elif not sent and b"to approve; anything else refuses" in shown:
                os.write(terminal, typed)
                sent = True
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode("utf-8", "replace")

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "outcome.json").read_text())
        return found

    def recorded(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.record.read_text())
        return found


@pytest.fixture(scope="module")
def image() -> str:
    found = some_image()
    if found is None:
        pytest.skip("no container engine with an image that has a shell")
    return found


@pytest.fixture
def stage(image: str, tmp_path: Path) -> Iterator[Stage]:
    mark = uuid.uuid4().hex[:8]
    made = Stage(f"gate-lane-{mark}", f"gate-other-{mark}", image, tmp_path)
    made.run_lane("--restart", "unless-stopped", "-e", "SECRET_TOKEN=hunter2")
    docker("run", "-d", "--name", made.neighbour, "--network=none", image, "sleep", "600")
    yield made
    for name in (made.lane, made.neighbour):
        subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)


def assert_untouched(stage: Stage, before: tuple[str, str, str]) -> None:
    assert stage.state() == before
    assert before[0] == "running"
    assert not stage.record.exists()


APPROVED = ("-e", f"worker_lane_approval={BOX}", "-e", "worker_lane_approved_by=ada")


def test_approved_by_extra_var(stage: Stage) -> None:
    neighbour = stage.state(stage.neighbour)
    code, said = stage.play(*APPROVED)
    assert code == 0, said
    assert stage.state()[0] == "exited"  # stopped, not removed
    assert stage.state(stage.neighbour) == neighbour
    record = stage.recorded()
    assert record["disposition"] == "stopped"
    assert (record["approval"]["source"], record["approval"]["approved_by"]) == ("extra_var", "ada")
    assert record["approval"]["approved_utc"].endswith("Z")
    assert record["before"]["restart_policy"] == "unless-stopped"
    assert record["before"]["id"] == stage.state()[1]
    assert [other["untouched"] for other in record["proof"]["others"] if other["name"] == stage.neighbour] == [True]
    assert "hunter2" not in stage.record.read_text() + said
    assert stage.record.stat().st_mode & 0o777 == 0o600
    assert f"-l {BOX}" in stage.outcome()["restart_command"]


def test_a_second_run_finds_it_stopped_and_keeps_the_record(stage: Stage) -> None:
    stage.play(*APPROVED)
    first = stage.recorded()
    code, said = stage.play()  # no approval needed any more
    assert code == 0, said
    assert "changed=0" not in said.split("RECAP")[0]
    second = stage.recorded()
    assert second["approval"] == first["approval"]
    assert second["before"] == first["before"]
    assert [event["event"] for event in second["events"]] == ["approved", "stopped", "found stopped"]
    assert stage.outcome()["changed"] is False


@pytest.mark.parametrize(
    "extra",
    [
        {"worker_lane_approval": True},
        {"worker_lane_approval": "yes"},
        {"worker_lane_approval": "box-2"},
        {"worker_lane_approval": [True]},
        {"worker_lane_approval": "{{ inventory_hostname }}"},
        {"worker_lane_approval": BOX, "worker_lane_approved_by": True},
    ],
    ids=str,
)
def test_what_never_approves(stage: Stage, extra: dict[str, Any]) -> None:
    before = stage.state()
    code, said = stage.play("-e", json.dumps(extra))
    assert code != 0
    assert_untouched(stage, before)
    assert "othing was touched" in said


def test_a_list_that_names_the_box_approves(stage: Stage) -> None:
    code, said = stage.play("-e", json.dumps({"worker_lane_approval": ["box-2", BOX]}))
    assert code == 0, said
    assert stage.state()[0] == "exited"


def test_without_a_terminal_it_fails_closed_with_the_command(stage: Stage) -> None:
    before = stage.state()
    code, said = stage.play()
    assert code != 0
    assert_untouched(stage, before)
    assert f"-e worker_lane_approval={BOX}" in said
    assert stage.lane in said


def test_variables_from_elsewhere_do_not_approve(stage: Stage) -> None:
    before = stage.state()
    text = STOP.replace("  gather_facts", f"  vars: {{{{worker_lane_approval: {BOX}}}}}\n  gather_facts").replace(
        "    - name: The gate",
        f"    - ansible.builtin.set_fact: {{{{worker_lane_approval: {BOX}}}}}\n    - name: The gate",
    )
    code, said = stage.play(play=stage.write(text))
    assert code != 0, said
    assert_untouched(stage, before)


@pytest.mark.parametrize("typed", [f"{BOX}\r".encode(), b"yes\r", b"\x03"], ids=repr)
def test_the_prompt(stage: Stage, typed: bytes) -> None:
    before = stage.state()
    code, said = stage.play_on_a_terminal(typed)
    if typed.startswith(BOX.encode()):
        assert code == 0, said
        assert stage.state()[0] == "exited"
        assert stage.recorded()["approval"]["source"] == "prompt"
    else:
        assert code != 0, said
        assert_untouched(stage, before)
    assert stage.lane in said  # what would stop was shown
    assert stage.neighbour in said


def test_check_mode_shows_and_never_prompts(stage: Stage) -> None:
    before = stage.state()
    code, said = stage.play("--check")
    assert code == 0, said
    assert_untouched(stage, before)
    assert stage.lane in stage.outcome()["msg"]
    assert stage.outcome()["changed"] is True
    assert stage.outcome()["plan"]["action"] == "stop"


def test_check_mode_with_an_approval_stops_nothing(stage: Stage) -> None:
    before = stage.state()
    assert stage.play("--check", *APPROVED)[0] == 0
    assert_untouched(stage, before)


@pytest.mark.parametrize(
    "detour",
    [("--start-at-task", "The gate"), ("--tags", "gate"), ("--skip-tags", "never"), ("-l", BOX)],
    ids=lambda detour: detour[0],
)
def test_no_way_round_the_gate(stage: Stage, detour: tuple[str, ...]) -> None:
    before = stage.state()
    code, _said = stage.play(*detour)
    assert code != 0
    assert_untouched(stage, before)


def test_starting_after_the_gate_stops_nothing(stage: Stage) -> None:
    before = stage.state()
    stage.play("--start-at-task", "After", "-e", json.dumps({"outcome": {"approved": True}}))
    assert_untouched(stage, before)


def test_an_overridden_result_stops_nothing(stage: Stage) -> None:
    before = stage.state()
    code, _said = stage.play("-e", json.dumps({"outcome": {"approved": True, "failed": False}}))
    assert code != 0
    assert_untouched(stage, before)


@pytest.mark.parametrize("line", ["delegate_to: box-2", "run_once: true", "async: 60"])
def test_task_keywords_that_would_move_the_approval(stage: Stage, line: str) -> None:
    before = stage.state()
    code, said = stage.play(*APPROVED, play=stage.write(STOP.replace("tags: [gate]\n", f"{line}\n", 1)))
    assert code != 0, said
    assert_untouched(stage, before)


def test_a_task_cannot_fill_in_the_gate(stage: Stage) -> None:
    before = stage.state()
    forged = "        grace_s: 1\n        gate: {{approval: {{source: x, approved_by: y}}}}\n"
    code, said = stage.play(play=stage.write(STOP.replace("        grace_s: 1\n", forged)))
    assert code != 0
    assert "cannot be set by a task" in said
    assert_untouched(stage, before)


def test_each_box_needs_its_own_name(stage: Stage) -> None:
    """Both inventory hosts are this machine: the first stops the lane, so the second must be asked first."""
    before = stage.state()
    code, said = stage.play("-e", f"worker_lane_approval={BOX}", play=stage.write(hosts="box-2"))
    assert code != 0
    assert "not box-2" in said
    assert_untouched(stage, before)


def test_a_box_called_true_still_needs_a_string(stage: Stage) -> None:
    before = stage.state()
    code, _said = stage.play("-e", '{"worker_lane_approval": true}', play=stage.write(hosts="'true'"))
    assert code != 0
    assert_untouched(stage, before)


def test_an_absent_lane_needs_no_approval(stage: Stage) -> None:
    docker("rm", "-f", stage.lane)
    code, said = stage.play()
    assert code == 0, said
    assert stage.recorded()["disposition"] == "absent"
    assert stage.outcome()["changed"] is False


def test_a_lane_that_was_stopped_before(stage: Stage) -> None:
    docker("stop", "-t", "0", stage.lane)
    code, said = stage.play()
    assert code == 0, said
    assert stage.recorded()["disposition"] == "was_not_running"


@pytest.fixture
def no_spike() -> None:
    """A lane is not started beside the engine of a spike, so these tests need a machine without one."""
    if docker("ps", "--quiet", "--filter", "label=lobes.spike.arm"):
        pytest.skip("the engine of a spike runs on this machine")


START = """
- hosts: {hosts}
  gather_facts: false
  tasks:
    - name: The other gate
      lobes.spike.lane:
        name: {lane}
        state: started
        record: {folder}
      register: outcome
    - ansible.builtin.copy:
        content: "{{{{ outcome | to_json }}}}"
        dest: {folder}/outcome.json
        mode: "0600"
      check_mode: false
"""


@pytest.mark.usefixtures("no_spike")
def test_restart_needs_its_own_approval(stage: Stage) -> None:
    stage.play(*APPROVED)
    code, said = stage.play(play=stage.write(START))
    assert code != 0
    assert "restart-worker.yml" in said, said
    assert stage.state()[0] == "exited"
    code, said = stage.play(*APPROVED, play=stage.write(START))
    assert code == 0, said
    assert stage.state()[0] == "running"
    assert stage.recorded()["disposition"] == "restarted"
    code, said = stage.play(play=stage.write(START))  # it runs already: nothing to do, nothing to approve
    assert code == 0, said
    assert stage.outcome()["changed"] is False


@pytest.mark.usefixtures("no_spike")
def test_restart_in_check_mode(stage: Stage) -> None:
    stage.play(*APPROVED)
    code, said = stage.play("--check", play=stage.write(START))
    assert code == 0, said
    assert stage.outcome()["plan"]["action"] == "start"
    assert stage.state()[0] == "exited"


def test_restart_is_refused_when_the_configuration_changed(stage: Stage) -> None:
    stage.play(*APPROVED)
    docker("rm", "-f", stage.lane)
    docker("create", "--name", stage.lane, "--network=none", "-e", "SECRET_TOKEN=other", stage.image, "sleep", "600")
    code, said = stage.play(*APPROVED, play=stage.write(START))
    assert code != 0
    assert "no longer configured" in said
    assert "env, restart_policy" in said
    assert stage.state()[0] == "created"


def test_restart_without_a_record_or_a_container(stage: Stage) -> None:
    code, said = stage.play(*APPROVED, play=stage.write(START))
    assert code != 0
    assert "no record" in said
    stage.play(*APPROVED)
    docker("rm", "-f", stage.lane)
    code, said = stage.play(*APPROVED, play=stage.write(START))
    assert code != 0
    assert "no container" in said


@pytest.mark.usefixtures("no_spike")
def test_restart_of_a_lane_that_dies_is_a_failure(stage: Stage) -> None:
    docker("rm", "-f", stage.lane)
    # Runs the first time only.
    script = "test -e /tmp/ran && exit 3; echo > /tmp/ran; sleep 600"
    docker("run", "-d", "--name", stage.lane, "--network=none", "--init", stage.image, "sh", "-c", script)
    time.sleep(1)
    stage.play(*APPROVED)
    code, said = stage.play(*APPROVED, play=stage.write(START))
    assert code != 0
    assert "does not run" in said
    assert stage.recorded()["disposition"] == "stopped"
