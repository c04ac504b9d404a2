"""A measuring module that runs as a job of the box: it is watched, taken up again, reused, and its death is told."""

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

REPOSITORY = Path(__file__).resolve().parents[2]
ANSIBLE = str(Path(sys.executable).with_name("ansible"))
SERVER = REPOSITORY / "tests" / "doubles" / "truth" / "server.py"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The ground-truth server: 0.1 s to the first token, then 50 tokens a second."""
    server = subprocess.Popen(
        [sys.executable, str(SERVER), "--port", "0", "--ttft", "0.1", "--itl", "0.02"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().split()[-1]}"
    finally:
        server.terminate()
        server.wait(timeout=10)


def start(endpoint: str, path: Path, **options: Any) -> subprocess.Popen[str]:
    args = {
        "endpoint": endpoint, "results_path": str(path), "detached": True, "poll_s": 0.5, "max_tokens": 100, "runs": 1,
        "context": {"boot_id": "one"}, **options,
    }  # fmt: skip
    env = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACKS_ENABLED": "lobes.spike.transcript",
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
    }
    command = [
        ANSIBLE, "-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", "localhost",
        "-m", "lobes.spike.decode", "-a", json.dumps(args),
    ]  # fmt: skip
    return subprocess.Popen(command, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result_of(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    text, _errors = process.communicate(timeout=120)
    head, _brace, body = text.partition("=> {")
    return {**json.loads("{" + body), "failed": "FAILED!" in head}, text


def children(pid: int) -> list[int]:
    """The workers of a run."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in found.split()]


def wait_for(path: Path) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return dict(json.loads(path.read_text()))
        except (OSError, ValueError):
            time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def test_it_measures_tells_where_it_stands_and_is_not_measured_twice(endpoint: str, tmp_path: Path) -> None:
    path = tmp_path / "B.decode-prose.json"
    first, text = result_of(start(endpoint, path))
    assert (first["status"], first["reused"], first["failed_runs"]) == ("complete", False, 0)
    assert first["decode_tok_s"][0] == pytest.approx(50, rel=0.02)
    assert "localhost: decode-prose: 0/1 done" in text
    again, _text = result_of(start(endpoint, path))
    assert (again["reused"], again["decode_tok_s"]) == (True, first["decode_tok_s"])
    other, _text = result_of(start(endpoint, path, context={"boot_id": "two"}))
    assert other["reused"] is False
    assert any("set aside" in note and "another boot_id" in note for note in other["result"]["notes"])
    assert len(list(tmp_path.glob("B.decode-prose.json.earlier-*"))) == 1
    forced, _text = result_of(start(endpoint, path, context={"boot_id": "two"}, remeasure=True))
    assert forced["reused"] is False


def test_the_controller_s_death_leaves_it_running_and_the_same_command_takes_it_up(
    endpoint: str, tmp_path: Path
) -> None:
    path = tmp_path / "B.decode-prose.json"
    first = start(endpoint, path, max_tokens=400)
    progress = wait_for(Path(f"{path}.progress"))
    workers = [Path(f"/proc/{pid}") for pid in children(first.pid)]
    assert workers
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=30)
    assert Path(f"/proc/{progress['pid']}").exists()
    second, text = result_of(start(endpoint, path, max_tokens=400))
    assert "another job measures this already" in text
    assert (second["status"], second["completion_tokens"], second["failed_runs"]) == ("complete", [400], 0)
    assert len(second["samples"]) == 1
    assert not any(worker.exists() for worker in workers), "a worker outlived its run"
    assert wait_for(path)["window"]["start_utc"] == second["result"]["window"]["start_utc"]
    assert not list(tmp_path.glob("*.earlier-*")), "the first job's result is the only one"


def test_a_killed_measurement_is_a_failure_that_brings_what_was_finished(endpoint: str, tmp_path: Path) -> None:
    path = tmp_path / "B.decode-prose.json"
    running = start(endpoint, path, runs=3)
    wait_for(Path(f"{path}.partial"))
    os.kill(wait_for(Path(f"{path}.progress"))["pid"], signal.SIGKILL)
    found, _text = result_of(running)
    assert found["failed"]
    assert "ended without a result" in found["msg"]
    assert "what it had finished is kept" in found["msg"]
    assert found["result"]["summary"]["completion_tokens"][0] == 100


def test_a_time_limit_keeps_what_was_measured(endpoint: str, tmp_path: Path) -> None:
    found, _text = result_of(start(endpoint, tmp_path / "B.decode-prose.json", runs=5, max_tokens=150, time_limit_s=5))
    assert found["status"] == "partial"
    assert "time_limit_s = 5" in found["reason"]
    assert found["decode_tok_s"][0] == pytest.approx(50, rel=0.02)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"poll_s": 0}, "poll_s: must be a number of seconds above 0, not 0"),
        ({"detached": "perhaps"}, "detached: must be true or false, not 'perhaps'"),
        ({"results_path": ""}, "results_path: a detached measurement is found again by it"),
        ({"runs": 0}, "runs"),
    ],
)
def test_bad_options_are_refused_by_name(endpoint: str, tmp_path: Path, options: dict[str, Any], says: str) -> None:
    found, _text = result_of(start(endpoint, tmp_path / "x.json", **options))
    assert found["failed"]
    assert says in found["msg"]
