# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lane: what approves, what is planned, what is proved, what is recorded. A container engine made of a list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import lane
from ansible_collections.lobes.spike.plugins.module_utils.box.approval import judge_answer, judge_value, printable
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError


class Engine:
    """Containers by name; ``docker stop`` and ``start`` act on them, and on more where a test says so."""

    def __init__(self, *names: str) -> None:
        self.containers = {name: self.made(name) for name in names}
        self.commands: list[list[str]] = []
        self.on_stop: Any = None
        self.on_start: Any = None

    @staticmethod
    def made(name: str) -> dict[str, Any]:
        return {
            "Id": f"id-{name}",
            "Name": f"/{name}",
            "Image": "sha256:1",
            "State": {"Status": "running", "Running": True, "StartedAt": "2026-01-01T00:00:00Z", "ExitCode": 0},
            "Config": {"Image": "a", "Cmd": ["serve"], "Env": ["A=b"], "Labels": {}},
            "HostConfig": {"RestartPolicy": {"Name": "always"}},
        }

    def set_state(self, name: str, status: str, code: int = 0) -> None:
        state = self.containers[name]["State"]
        state.update(Status=status, Running=status == "running", ExitCode=code)

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.commands.append(list(argv))
        verb = argv[1]
        if verb == "ps":
            return 0, "\n".join(c["Id"] for c in self.containers.values()), ""
        if verb == "inspect":
            return 0, json.dumps(list(self.containers.values())), ""
        name = argv[-1].removeprefix("id-")
        if verb == "stop":
            self.set_state(name, "exited")
            if self.on_stop:
                self.on_stop()
        elif verb == "start":
            self.set_state(name, "running")
            if self.on_start:
                self.on_start()
        return 0, "", ""

    def source(self, root: Path) -> Source:
        return Source(self.run, root=str(root))


def approval_of(view: lane.View, **changes: Any) -> dict[str, Any]:
    assert view.lane
    return {
        "approval": {
            "source": "extra_var",
            "approved_by": "ada",
            "container_id": view.lane["id"],
            "configuration_hash": view.lane["configuration_hash"],
            **changes,
        },
        "restart_command": "again",
    }


def stop(engine: Engine, folder: Path, gate: dict[str, Any] | None = None) -> dict[str, Any]:
    """One run of the stop, as the module does it."""
    source = engine.source(folder)
    path = str(folder / "lane.json")
    view = lane.look(source, "worker")
    earlier = lane.read_record(path)
    record = lane.new_record(source, "worker", earlier)
    plan = lane.plan_stop(view, "worker", earlier)
    lane.stop_and_record(source, view, plan, record, path, approval_of(view) if gate is None else gate, 0)
    on_disk: dict[str, Any] = json.loads(Path(path).read_text())
    assert on_disk == record
    return record


@pytest.mark.parametrize("value", ["thor", "thor-2, thor", ["thor"], ["x", " thor "]])
def test_what_approves(value: object) -> None:
    assert judge_value(value, "thor").approved


@pytest.mark.parametrize(
    "value", [True, False, 1, None, "true", "yes", "y", "all", "*", "", "thor-2", "Thor", "thor thor-2", [], [True], {}]
)
def test_what_does_not(value: object) -> None:
    verdict = judge_value(value, "thor")
    assert not verdict.approved
    assert "worker_lane_approval" in verdict.reason


@pytest.mark.parametrize(
    "value",
    [
        "thor,all", "thor,*", "thor,yes", "thor-*,thor", ["thor", "all"], ["thor", True], ["thor", ["thor"]],
        '["thor"]', "thor,{{ groups.all }}", "{{ inventory_hostname }}", "~thor", "!thor-2", "thor;thor-2", "thor:",
        "thor\x00", ["thor,thor-2"],
    ],
)  # fmt: skip
def test_a_list_that_is_not_names_alone_approves_nobody(value: object) -> None:
    assert not judge_value(value, "thor").approved


@pytest.mark.parametrize("value", ["thor-1,thor-2", "thor-2 , thor-1,", ["thor-1", "thor-2"], ("thor-2", "thor-1")])
def test_each_box_of_a_fleet_needs_its_own_name(value: object) -> None:
    boxes = ["thor-1", "thor-2", "thor-3", "thor-10", "thor-1.example", "THOR-1", "thor"]
    assert [box for box in boxes if judge_value(value, box).approved] == ["thor-1", "thor-2"]
    assert "not thor-3" in judge_value(value, "thor-3").reason


def test_a_limit_approves_nobody() -> None:
    """Under -l thor-3, or boxes:!thor-1, the play reaches boxes that the approval does not name."""
    for limit in ("thor-3", "boxes:!thor-1", "thor-[1:3]"):
        assert not judge_value(limit.replace("thor-3", "thor-1"), "thor-3").approved
        assert not judge_value([limit] if limit != "thor-3" else ["boxes"], "thor-3").approved


@pytest.mark.parametrize("host", ["yes", "all", "1"])
def test_a_box_that_is_called_yes_is_approved_at_the_prompt_alone(host: str) -> None:
    assert not judge_value(host, host).approved
    assert judge_answer(host, host).approved


def test_the_prompt_wants_the_exact_name() -> None:
    assert judge_answer("thor\r\n", "thor").approved
    assert not judge_answer("thor2", "thor").approved
    assert not judge_answer("yes", "thor").approved
    assert not judge_answer("", "thor").approved


def test_a_container_cannot_write_on_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\n\u202ec\u2028") == "a?[2Jb???c?"


def test_stop_and_proof(tmp_path: Path) -> None:
    engine = Engine("worker", "embed")
    record = stop(engine, tmp_path)
    assert record["disposition"] == "stopped"
    assert record["proof"]["state"] == "exited"
    assert record["proof"]["others"] == [
        {"name": "embed", "id": "id-embed", "started_utc": "2026-01-01T00:00:00Z", "untouched": True}
    ]
    assert record["restart_command"] == "again"
    assert "always" in record["warnings"][0]
    changing = [c for c in engine.commands if c[1] not in ("ps", "inspect")]
    assert changing == [["docker", "stop", "-t", "0", "id-worker"]]  # that container, stopped, not removed


def test_again_is_nothing_to_do_and_keeps_who_approved(tmp_path: Path) -> None:
    engine = Engine("worker")
    first = stop(engine, tmp_path)
    second = stop(engine, tmp_path, gate={})
    assert second["approval"] == first["approval"]
    assert second["disposition"] == "stopped"
    assert len([c for c in engine.commands if c[1] == "stop"]) == 1


def test_a_run_killed_in_the_middle_of_the_stop_is_gone_on_with(tmp_path: Path) -> None:
    engine = Engine("worker")
    first = stop(engine, tmp_path)
    lane.save(str(tmp_path / "lane.json"), {**first, "disposition": "stopping", "stopped_utc": None, "proof": None})
    engine.containers["worker"]["State"]["FinishedAt"] = "2026-01-01T01:00:00Z"
    second = stop(engine, tmp_path, gate={})
    assert second["disposition"] == "stopped"
    assert second["stopped_utc"] == "2026-01-01T01:00:00Z"


def test_started_by_someone_else_needs_a_new_approval(tmp_path: Path) -> None:
    engine = Engine("worker")
    stop(engine, tmp_path)
    engine.set_state("worker", "running")
    with pytest.raises(SpikeError, match="No approval"):
        stop(engine, tmp_path, gate={})
    assert engine.containers["worker"]["State"]["Running"]


@pytest.mark.parametrize("state", ["running", "restarting", "exited"])
def test_that_someone_else_started_it_is_said(tmp_path: Path, state: str) -> None:
    engine = Engine("worker")
    record = stop(engine, tmp_path)
    engine.set_state("worker", state)
    engine.containers["worker"]["State"]["StartedAt"] = "2999-01-01T00:00:00Z"
    plan = lane.plan_stop(lane.look(engine.source(tmp_path), "worker"), "worker", record)
    assert plan.action == ("none" if state == "exited" else "stop")
    assert plan.reason.endswith("Someone else started it after this spike had stopped it.")
    assert "is stopped since" not in plan.reason
    assert {"running": "worker runs.", "restarting": "is restarting.", "exited": "not run (exited)."}[
        state
    ] in plan.reason


@pytest.mark.parametrize("status", ["absent", "exited", "created"])
def test_nothing_to_stop(tmp_path: Path, status: str) -> None:
    engine = Engine() if status == "absent" else Engine("worker")
    if status != "absent":
        engine.set_state("worker", status)
    record = stop(engine, tmp_path, gate={})
    assert record["disposition"] == ("absent" if status == "absent" else "was_not_running")


@pytest.mark.parametrize("status", ["restarting", "paused"])
def test_what_may_take_memory_again_counts_as_running(tmp_path: Path, status: str) -> None:
    engine = Engine("worker")
    engine.set_state("worker", status)
    assert stop(engine, tmp_path)["disposition"] == "stopped"


@pytest.mark.parametrize(
    "changes", [{"container_id": "x"}, {"configuration_hash": "x"}, {"approved_by": ""}, {"source": None}]
)
def test_an_approval_for_something_else_touches_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    engine = Engine("worker")
    gate = approval_of(lane.look(engine.source(tmp_path), "worker"), **changes)
    with pytest.raises(SpikeError, match=r"othing was touched|No approval"):
        stop(engine, tmp_path, gate)
    assert not [c for c in engine.commands if c[1] == "stop"]
    assert not (tmp_path / "lane.json").exists()


@pytest.mark.parametrize("how", ["died", "restarted", "replaced", "gone"])
def test_a_neighbour_that_is_not_as_it_was_is_a_failure(tmp_path: Path, how: str) -> None:
    engine = Engine("worker", "embed")

    def disturb() -> None:
        embed = engine.containers["embed"]
        if how == "died":
            engine.set_state("embed", "exited")
        elif how == "restarted":
            embed["State"]["StartedAt"] = "2026-01-02T00:00:00Z"
        elif how == "replaced":
            embed["Id"] = "id-new"
        else:
            del engine.containers["embed"]

    engine.on_stop = disturb
    with pytest.raises(SpikeError, match="embed"):
        stop(engine, tmp_path)
    record = lane.read_record(str(tmp_path / "lane.json"))
    assert record
    assert record["disposition"] == "stopped"
    assert "embed" in record["error"]
    assert record["proof"]["others"][0]["untouched"] is False


def test_a_lane_that_will_not_stop(tmp_path: Path) -> None:
    engine = Engine("worker")
    engine.on_stop = lambda: engine.set_state("worker", "running")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    source = engine.source(tmp_path)
    view = lane.look(source, "worker")
    with pytest.raises(SpikeError, match="did not stop within 25 s") as caught:
        lane.stop(source, view, "worker", 5, clock=lambda: now[0], sleep=sleep)
    assert caught.value.partial["proof"]["state"] == "running"


def test_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "SETTLE_S", 0.0)
    engine = Engine("worker")
    stop(engine, tmp_path)
    source = engine.source(tmp_path)
    path, record = lane.find_record(str(tmp_path / "lane.json"), "worker")
    view = lane.look(source, "worker")
    plan = lane.plan_start(view, "worker", record)
    assert plan.action == "start"
    with pytest.raises(SpikeError, match="No approval"):
        lane.start_and_record(source, view, plan, record, path, {})
    lane.start_and_record(source, view, plan, record, path, approval_of(view))
    assert record["disposition"] == "restarted"
    assert lane.plan_start(lane.look(source, "worker"), "worker", record).action == "none"


def test_start_is_refused_for_another_configuration(tmp_path: Path) -> None:
    engine = Engine("worker")
    record = stop(engine, tmp_path)
    engine.containers["worker"]["Config"]["Env"] = ["A=c"]
    with pytest.raises(SpikeError, match="changed: env"):
        lane.plan_start(lane.look(engine.source(tmp_path), "worker"), "worker", record)


def test_start_is_refused_beside_a_spikes_engine(tmp_path: Path) -> None:
    engine = Engine("worker", "engine")
    record = stop(engine, tmp_path)
    engine.containers["engine"]["Config"]["Labels"] = {lane.ENGINE_LABEL: "B"}
    with pytest.raises(SpikeError, match="room for both"):
        lane.plan_start(lane.look(engine.source(tmp_path), "worker"), "worker", record)


def test_the_newest_record_of_this_lane_counts(tmp_path: Path) -> None:
    for day, name in (("01", "worker"), ("03", "other"), ("02", "worker")):
        folder = tmp_path / f"spike-{day}-{name}"
        folder.mkdir()
        record = {"schema": lane.SCHEMA, "name": name, "before": {"id": day}, "stopped_utc": f"2026-01-{day}"}
        (folder / "lane.json").write_text(json.dumps(record))
    (tmp_path / "notes.txt").write_text("not a spike")
    assert lane.find_record(str(tmp_path), "worker")[1]["before"]["id"] == "02"
    with pytest.raises(SpikeError, match="no record"):
        lane.find_record(str(tmp_path), "third")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other"}'])
def test_a_file_that_is_not_a_record_is_said_to_be_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "lane.json").write_text(text)
    with pytest.raises(SpikeError, match=r"lane\.json"):
        lane.read_record(str(tmp_path / "lane.json"))


def test_an_engine_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(SpikeError, match="cannot be looked at"):
        lane.look(Source(lambda argv: (1, "", "Cannot connect"), root=str(tmp_path)), "worker")
