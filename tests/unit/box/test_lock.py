"""One spike per box: whose a lock is, and what cleaning up ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import cleanup, detach, lock
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results import progress

ADA = {"owner": "ada", "controller": "desk", "pid": 4711, "pid_start": "100"}
BOB = {"owner": "bob", "controller": "rack", "pid": 815, "pid_start": "200"}
BOOT = progress.boot_of_box()


def held_by(holder: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema": lock.SCHEMA, "spike_id": "s1", "boot_id": BOOT, "since_utc": "then", **holder, **more}


@pytest.mark.parametrize(
    ("found", "runs", "alive", "state", "words"),
    [
        (None, False, None, "free", "no lock"),
        ({}, True, None, "stale", "cannot be read"),
        (held_by(ADA), True, None, "ours", "this very run"),
        (held_by(ADA, pid_start="99"), True, False, "stale", "is gone"),
        (held_by(BOB, boot_id="another"), True, True, "stale", "started anew"),
        (held_by(BOB), True, None, "held", "spike s1 of bob from rack"),
        (held_by(BOB), True, True, "held", "pid 815"),
        (held_by(BOB), False, True, "held", "since then"),
        (held_by(BOB), False, None, "stale", "nothing of that spike runs"),
    ],
)
def test_whose_a_lock_is(found: Any, runs: bool, alive: bool | None, state: str, words: str) -> None:
    verdict = lock.judge(found, ADA, BOOT, runs, alive)
    assert (verdict.state, words in verdict.why) == (state, True), verdict


def test_it_is_taken_kept_and_given_back(tmp_path: Path) -> None:
    root = str(tmp_path / "spikes")
    first = lock.acquire(root, "s1", ADA, None, False, 0.0)
    assert (first["changed"], first["was"]) == (True, "free")
    assert oct(os.stat(lock.path_of(root)).st_mode & 0o777) == "0o600"
    assert lock.acquire(root, "s1", ADA, None, False, 9.0)["changed"] is False
    assert lock.release(root, BOB)["changed"] is False
    assert lock.read(root) is not None
    assert lock.release(root, ADA)["changed"] is True
    assert lock.release(root, ADA) == {"changed": False, "lock": None, "was": "free", "why": "there is no lock"}


def test_a_lock_left_behind_is_taken_and_explained(tmp_path: Path) -> None:
    root = str(tmp_path)
    lock.acquire(root, "s1", BOB, None, False, 0.0)
    taken = lock.acquire(root, "s1", ADA, None, False, 0.0)
    assert taken["was"] == "stale"
    assert "nothing of that spike runs on the box any more: spike s1 of bob from rack" in taken["why"]
    assert taken["lock"]["owner"] == "ada"


@pytest.fixture
def measuring(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A process that a progress file says is measuring for spike s1."""
    arm = tmp_path / "s1" / "results"
    arm.mkdir(parents=True)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    content = {
        "schema": progress.SCHEMA, "phase": "needle", "name": "n", "pid": process.pid,
        "pid_start": progress.process_identity(process.pid), "boot": BOOT,
    }  # fmt: skip
    (arm / "B.needle.json.progress").write_text(json.dumps(content))
    yield tmp_path, process
    process.kill()
    process.wait()


def test_a_measurement_at_work_holds_the_lock_of_a_run_elsewhere(measuring: tuple[Path, Any]) -> None:
    root, _process = measuring
    lock.acquire(str(root), "s1", BOB, None, False, 0.0)
    with pytest.raises(SpikeError, match="Another spike is on this box, and nothing was touched") as refused:
        lock.acquire(str(root), "s2", ADA, None, False, 0.0)
    assert refused.value.partial["held"]["owner"] == "bob"
    assert "playbooks/cleanup.yml" in str(refused.value)
    assert lock.acquire(str(root), "s2", ADA, None, True, 0.0)["lock"]["spike_id"] == "s2"


def test_cleaning_up_ends_measurements_and_recorders_and_frees_the_lock(measuring: tuple[Path, Any]) -> None:
    root, process = measuring
    lock.acquire(str(root), "s1", BOB, None, False, 0.0)
    telemetry = root / "s1" / "telemetry"
    telemetry.mkdir()
    about = detach.start(str(telemetry), 1.0, 60.0)
    running = cleanup.left_running(str(root))
    assert [(one["kind"], one["spike_id"], one["pid"]) for one in running] == [
        ("measurement", "s1", process.pid), ("recorder", "s1", about["pid"]),
    ]  # fmt: skip
    done = cleanup.clean(str(root), sleep=lambda seconds: time.sleep(seconds if process.poll() is None else 0))
    assert [one["kind"] for one in done["ended"]] == ["measurement", "recorder"]
    assert (done["problems"], done["lock"]["owner"]) == ([], "bob")
    assert process.wait(timeout=5) == -signal.SIGTERM
    assert not detach.alive(detach.read_about(str(telemetry)))
    assert cleanup.left_running(str(root)) == []
    assert lock.read(str(root)) is None
    assert cleanup.clean(str(root)) == {"ended": [], "problems": [], "lock": None}


def test_a_process_that_got_the_number_is_not_touched(measuring: tuple[Path, Any]) -> None:
    root, process = measuring
    path = root / "s1" / "results" / "B.needle.json.progress"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid_start": "1"}))
    assert cleanup.clean(str(root))["ended"] == []
    assert process.poll() is None


def test_names_in_a_lock_lead_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / lock.NAME).write_text(json.dumps(held_by(BOB, spike_id="../../etc")))
    assert lock.acquire(str(tmp_path), "s2", ADA, None, False, 0.0)["was"] == "stale"
