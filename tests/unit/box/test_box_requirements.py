# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at a box, and what it lacks: all of it, at once, each with a remedy."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import hf_cache
from ansible_collections.lobes.spike.plugins.module_utils.box.forecast import forecast, held_bytes, lane_share, shares
from ansible_collections.lobes.spike.plugins.module_utils.box.look import SECTIONS, look
from ansible_collections.lobes.spike.plugins.module_utils.box.requirements import GIB, Needs, judge, remarks
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source

MakeSource = Callable[..., Source]
LANE = "c" * 64


def a_box(**changes: Any) -> dict[str, Any]:
    return {
        "python": "3.12.3",
        "identity": {"l4t": {"release": "38.2.0"}},
        "power": {"mode": "MAXN"},
        "cpu": {"pinned": True, "policies": []},
        "fan": None,
        "hwmon": None,
        "thermal": None,
        "memory": {"total_bytes": 100 * GIB, "available_bytes": 60 * GIB},
        "docker": {"reachable": True, "reason": None, "runtimes": ["nvidia", "runc"]},
        "containers": [a_lane()],
        "ports": [],
        "disks": [],
        "hf_cache": None,
        **changes,
    }


def a_lane(**changes: Any) -> dict[str, Any]:
    return {
        "name": "worker",
        "id": LANE,
        "running": True,
        "args": ["--gpu-memory-utilization=0.4"],
        "pid": 7,
        "labels": {},
        "ports": [],
        **changes,
    }


def test_a_good_box_has_no_problem() -> None:
    needs = Needs(docker_runtime="nvidia", port=8090, lanes=["worker"], min_disk_free_gib=1)
    assert judge(a_box(), needs) == []
    assert remarks(a_box()) == []


def test_every_problem_is_reported_at_once_with_its_remedy() -> None:
    box = a_box(
        python="3.9.2",
        docker={"reachable": True, "reason": None, "runtimes": ["runc"]},
        ports=[{"address": "0.0.0.0", "port": 8090, "pid": 99, "process": "nginx"}],
        disks=[
            {"path": path, "measured_at": "/", "device": 1, "free_bytes": GIB, "read_only": False}
            for path in ("/d", "/e")
        ],
        hf_cache={
            "path": "/hf",
            "uid": 1000,
            "user": "op",
            "writable": False,
            "unwritable": [{"path": "/hf/hub/.locks", "owner_uid": 0, "reason": "owned by uid 0 gid 0"}],
        },
    )
    share = {"bytes": 40 * GIB, "source": "test"}
    box["memory_forecast"] = forecast({"total_bytes": 100 * GIB, "available_bytes": 20 * GIB}, share, 0.7, None)
    found = judge(
        box,
        Needs(
            docker_runtime="nvidia",
            port=8090,
            lanes=["worker", "gone"],
            min_disk_free_gib=30,
            hf_cache_writable=True,
            memory_utilization=0.7,
        ),
    )
    assert [p["field"] for p in found] == [
        "python",
        "docker_runtime",
        "lane gone",
        "port 8090",
        "disk /d, /e",
        "hf_cache /hf",
        "memory",
    ]
    assert all(p["remedy"] and p["found"] and p["wanted"] for p in found)
    assert "pid 99" in found[3]["remedy"]
    assert "20.0 GiB available + 40.0 GiB given back (test)" in found[-1]["found"]
    assert "0.7 x 100.00 GiB" in found[-1]["wanted"]


def test_a_port_held_by_this_very_spike_is_not_a_problem() -> None:
    ports = [{"address": "127.0.0.1", "port": 8090, "protocol": "tcp", "container_port": 8000}]
    ours = a_lane(name="ours", ports=ports, labels={"lobes.spike.id": "x"})
    box = a_box(containers=[ours])
    assert [p["field"] for p in judge(box, Needs(port=8090))] == ["port 8090"]
    assert judge(box, Needs(port=8090, own_label="lobes.spike.id=x")) == []
    assert judge(box, Needs(port=8090, own_label="lobes.spike.id")) == []
    assert [p["field"] for p in judge(box, Needs(port=8090, own_label="lobes.spike.id=y"))] == ["port 8090"]


def test_an_engine_that_does_not_answer_is_one_problem() -> None:
    box = a_box(docker={"reachable": False, "reason": "no", "runtimes": None}, containers=None)
    assert [p["field"] for p in judge(box, Needs(docker_runtime="nvidia", lanes=["worker"]))] == ["docker"]


@pytest.mark.parametrize(
    ("available", "lane_bytes", "enough"),
    [(80, 0, True), (80, None, True), (40, 30, True), (40, 29, False), (40, None, None), (None, 30, None)],
)
def test_memory_forecast(available: int | None, lane_bytes: int | None, enough: bool | None) -> None:
    found = forecast(
        {"total_bytes": 100 * GIB, "available_bytes": None if available is None else available * GIB},
        {"bytes": None if lane_bytes is None else lane_bytes * GIB, "source": "test"},
        0.7,
        None,
    )
    assert found["enough"] is enough
    box = a_box(memory_forecast=found)
    assert bool(judge(box, Needs(memory_utilization=0.7))) is (enough is False)


@pytest.mark.parametrize(
    ("held", "drop_caches", "enough"),
    [(50, True, None), (50, False, False), (85, True, False), (None, True, False)],
)
def test_memory_that_nobody_holds_may_be_freed_by_dropping_the_cache(
    held: int | None, drop_caches: bool, enough: bool | None
) -> None:
    memory = {"total_bytes": 100 * GIB, "available_bytes": 10 * GIB}
    held_bytes = None if held is None else held * GIB
    found = forecast(memory, {"bytes": 30 * GIB, "source": "x"}, 0.7, None, held_bytes, drop_caches)
    assert found["enough"] is enough
    assert found["unaccounted_bytes"] == (None if held is None else (90 - held) * GIB)
    box = a_box(memory_forecast=found)
    assert any("cannot be foretold" in remark for remark in remarks(box)) is (enough is None)


def test_what_processes_hold(make_source: MakeSource) -> None:
    source = make_source({"/proc/1/statm": "9 3 1 0 0 0 0\n", "/proc/2/statm": "9 4 1\n", "/proc/self/statm": "9 99\n"})
    page = os.sysconf("SC_PAGE_SIZE")
    assert held_bytes(source, [{"used_mib": 2}]) == 7 * page + (2 << 20)
    assert held_bytes(source, None) == 7 * page
    assert held_bytes(source, [{"used_mib": None}]) is None


def test_memory_floor_without_a_share() -> None:
    memory = {"total_bytes": None, "available_bytes": 3 * GIB}
    assert forecast(memory, {"bytes": 0, "source": ""}, None, 4 * GIB)["enough"] is False
    assert forecast(memory, {"bytes": 0, "source": ""}, None, None)["enough"] is None


def test_lane_share_by_the_driver_first(make_source: MakeSource) -> None:
    source = make_source({"/proc/11/cgroup": f"0::/system.slice/docker-{LANE}.scope\n", "/proc/12/cgroup": "0::/\n"})
    processes = [{"pid": 11, "used_mib": 1000}, {"pid": 12, "used_mib": 5}]
    share = lane_share(source, a_lane(), processes, 100 * GIB)
    assert share == {"bytes": 1000 << 20, "source": "nvidia-smi, per process"}


def test_lane_share_by_its_flag_when_the_driver_will_not_say(make_source: MakeSource) -> None:
    source = make_source({"/proc/11/cgroup": f"1:memory:/docker/{LANE}\n"})
    share = lane_share(source, a_lane(), [{"pid": 11, "used_mib": None}], 100 * GIB)
    assert share["bytes"] == 40 * GIB
    assert "0.4" in share["source"]


@pytest.mark.parametrize("version", [1, 2])
def test_lane_share_by_its_control_group_last(make_source: MakeSource, version: int) -> None:
    if version == 2:
        files = {
            "/proc/7/cgroup": "0::/docker/x\n",
            "/sys/fs/cgroup/docker/x/memory.current": "1000\n",
            "/sys/fs/cgroup/docker/x/memory.stat": "inactive_file 300\n",
        }
    else:
        files = {
            "/proc/7/cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n",
            "/sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes": "1000\n",
            "/sys/fs/cgroup/memory/docker/x/memory.stat": "total_inactive_file 300\n",
        }
    share = lane_share(make_source(files), a_lane(args=[]), None, 100 * GIB)
    assert share["bytes"] == 700
    assert "control group" in share["source"]


def test_lane_share_unknown_and_nothing(make_source: MakeSource) -> None:
    assert lane_share(make_source(), a_lane(args=[]), None, None)["bytes"] is None
    assert shares(make_source(), [a_lane(running=False)], None, None)["bytes"] == 0
    assert shares(make_source(), [], None, None)["bytes"] == 0
    other = a_lane(name="other", args=[])
    assert shares(make_source(), [a_lane(), other], None, 100 * GIB)["bytes"] is None
    assert shares(make_source(), [a_lane(), a_lane(name="b")], None, 100 * GIB)["bytes"] == 80 * GIB


def test_remarks() -> None:
    box = a_box(
        power={"mode": "120W"},
        cpu={"pinned": False, "policies": [{"name": "policy0", "hardware_khz": 242000, "scaling_khz": 2601000}]},
        thermal={"throttling": {"active": [{"type": "gpu-throttle-alert", "state": 1, "max_state": 2}]}},
        fan={"stale_conf": True, "status": {"profile": "quiet"}},
        hwmon={"fan": {"pwm": 0, "pwm_enable": 0, "rpm": 0}},
    )
    words = ("120W", "float", "242000", "throttling now", "quiet", "The fan is off")
    assert [word for word in words if word not in " ".join(remarks(box))] == []


@pytest.mark.parametrize("fan", [None, {}, {"pwm": 0, "rpm": None}, {"pwm": 0, "rpm": 1200}, {"pwm": 77, "rpm": 0}])
def test_a_fan_that_is_not_surely_off_is_not_called_off(fan: dict[str, int | None] | None) -> None:
    assert not any("fan is off" in remark for remark in remarks(a_box(hwmon={"fan": fan})))


def stat_of(mode: int, uid: int, gid: int) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "uid", "allowed"),
    [
        (0o755, 1000, True),
        (0o755, 1001, False),
        (0o775, 1002, True),  # by group
        (0o575, 1000, False),  # the owner's bits decide for the owner
        (0o757, 1001, True),
        (0o000, 0, True),
    ],
)
def test_may_write(mode: int, uid: int, allowed: bool) -> None:
    found = stat_of(stat.S_IFDIR | mode, 1000, 50)
    assert hf_cache.may_write(found, uid, [50] if uid == 1002 else []) is allowed


def test_hf_cache_with_locks_that_root_left(make_source: MakeSource, tmp_path: Path) -> None:
    hub = tmp_path / "hf/hub"
    locks = hub / ".locks/models--a--b"
    locks.mkdir(parents=True)
    (locks / "x.lock").touch()
    (hub / "models--a--b/blobs").mkdir(parents=True)
    source = make_source()
    uid = 12345
    for path in [tmp_path / "hf", hub, hub / ".locks", locks, hub / "models--a--b", hub / "models--a--b/blobs"]:
        path.chmod(0o777)
    (locks / "x.lock").chmod(0o666)
    good = hf_cache.read_hf_cache(source, "/hf", uid)
    assert good["writable"] is True
    assert good["exists"] is True
    locks.chmod(0o755)
    (locks / "x.lock").chmod(0o644)
    bad = hf_cache.read_hf_cache(source, "/hf", uid)
    assert [b["path"] for b in bad["unwritable"]] == [
        "/hf/hub/.locks/models--a--b",
        "/hf/hub/.locks/models--a--b/x.lock",
    ]
    assert bad["writable"] is False


def test_hf_cache_that_does_not_exist_yet_is_judged_at_its_parent(make_source: MakeSource, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o755)
    found = hf_cache.read_hf_cache(make_source(), "/home/hf", 12345)
    assert found["exists"] is False
    assert found["writable"] is False


def test_look_on_an_empty_box_knows_nothing_and_says_so(make_source: MakeSource) -> None:
    box = look(make_source(), disk_paths=["/a/b"])
    assert box["simulated"] is False
    assert box["identity"]["l4t"] is None
    assert box["memory"]["total_bytes"] is None
    assert box["docker"]["reachable"] is False
    assert box["containers"] is None
    assert box["hwmon"]["over_current"] is None
    assert box["disks"][0]["free_bytes"] > 0
    assert box["looked_utc"].endswith("Z")


def test_look_at_a_part_only(make_source: MakeSource) -> None:
    box = look(make_source({"/etc/lobes-spike-simulated": ""}), sections=["memory"])
    assert box["simulated"] is True
    assert [name for name in SECTIONS if box[name] is not None] == ["memory"]
