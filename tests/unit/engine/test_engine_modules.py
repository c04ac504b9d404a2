"""The modules as they are run: options judged before anything is touched, returns as documented, check mode."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import engine_samples as samples
import pytest

ROOT = Path(__file__).parents[3]

# A docker that plays one container from files: state.json, out (its log) and calls (what was asked).
DOCKER = """#!/bin/sh
here=$(dirname "$0")
echo "$@" >>"$here/calls"
case $1 in
  inspect) [ -e "$here/state.json" ] || { echo "Error: No such container: $4" >&2; exit 1; }; cat "$here/state.json" ;;
  logs) cat "$here/out" ;;
esac
"""


def run(name: str, place: Path, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    arguments = place / "args.json"
    arguments.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**options, "_ansible_check_mode": check_mode}}))
    done = subprocess.run(
        [sys.executable, "-m", f"ansible_collections.lobes.spike.plugins.modules.{name}", str(arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections"), "PATH": f"{place}:{os.environ['PATH']}"},
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def box(tmp_path: Path) -> Path:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    return tmp_path


def container(box: Path, status: str, log: str, exit_code: int = 0) -> None:
    state = {
        "Status": status, "ExitCode": exit_code, "OOMKilled": False, "Error": "", "Pid": 0,
        "StartedAt": "2026-09-13T21:50:28.118213Z", "FinishedAt": "2026-09-13T22:00:00.1Z",
    }  # fmt: skip
    (box / "state.json").write_text(
        json.dumps([{"Id": "ab" * 32, "Name": "/lobes-spike-B", "State": state, "Args": []}])
    )
    (box / "out").write_bytes(log.encode())


READY = {"container": "lobes-spike-B", "endpoint": "http://127.0.0.1:9", "arm": "B"}


def test_a_failed_boot_fails_with_its_cause_and_leaves_document_and_log(box: Path) -> None:
    container(box, "exited", samples.failed("torch.OutOfMemoryError: CUDA out of memory."), 1)
    log, document = box / "r" / "B.boot.log", box / "r" / "B.boot.json"
    result = run("engine_ready", box, **READY, log_path=str(log), results_path=str(document))
    assert result["failed"] is True
    assert result["msg"].splitlines()[0] == "torch.OutOfMemoryError: CUDA out of memory."
    kept = json.loads(document.read_bytes())
    assert kept == result["boot"]
    assert kept["failure"]["kind"] == "memory"
    assert kept["log"]["path"] == str(log)
    assert "CUDA out of memory" in log.read_text(encoding="utf-8")
    assert document.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in document.parent.iterdir()) == ["B.boot.json", "B.boot.log"]


def test_check_mode_touches_nothing(box: Path) -> None:
    result = run("engine_ready", box, True, **READY, log_path=str(box / "l"), results_path=str(box / "r"))
    assert result["planned"]["container"] == "lobes-spike-B"
    assert not (box / "calls").exists()
    assert not (box / "l").exists()


def test_an_earlier_boot_is_set_aside_and_the_same_one_is_written_over(box: Path) -> None:
    container(box, "exited", samples.failed("torch.OutOfMemoryError: CUDA out of memory."), 1)
    log, document = box / "B.boot.log", box / "B.boot.json"
    log.write_text("the first boot's log\n")
    document.write_text(json.dumps({"boot_id": "another@boot"}))
    run("engine_ready", box, **READY, log_path=str(log), results_path=str(document))
    assert [json.loads(path.read_text()) for path in box.glob("B.boot.json.earlier-*")] == [{"boot_id": "another@boot"}]
    assert [path.read_text() for path in box.glob("B.boot.log.earlier-*")] == ["the first boot's log\n"]
    run("engine_ready", box, **READY, log_path=str(log), results_path=str(document))
    assert len(list(box.glob("*.earlier-*"))) == 2


class Health(http.server.BaseHTTPRequestHandler):
    """Answers 200 to everything, as an engine's /health."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_the_document_of_this_boot_is_kept_where_it_was_ready(box: Path) -> None:
    container(box, "running", samples.thor())
    log, document = box / "B.boot.log", box / "B.boot.json"
    before = {"available": 7}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ready = {**READY, "endpoint": f"http://127.0.0.1:{server.server_port}"}
        where = {"log_path": str(log), "results_path": str(document)}
        first = run("engine_ready", box, **ready, **where, memory_before=before)
        kept = document.read_bytes()
        again = run("engine_ready", box, **ready, **where)
        server.shutdown()
    assert first["boot"]["memory_before"] == before
    assert document.read_bytes() == kept, "what only the first wait could see is gone"
    assert {key: again[key] for key in ("boot", "boot_id", "ready_s", "results_sha256")} == {
        key: first[key] for key in ("boot", "boot_id", "ready_s", "results_sha256")
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_limit_s": 0}, "time_limit_s: 0"),
        ({"wedge_limit_s": -1}, "wedge_limit_s: -1"),
        ({"endpoint": "ftp://x"}, "endpoint: 'ftp://x'"),
        ({}, "no container of this name"),
    ],
)
def test_bad_input_is_one_message_before_anything_is_written(box: Path, changes: dict[str, Any], words: str) -> None:
    options = {**READY, "log_path": str(box / "l"), "results_path": str(box / "r"), **changes}
    result = run("engine_ready", box, **options)
    assert result["failed"] is True
    assert words in result["msg"]
    assert not (box / "l").exists()
    assert not (box / "r").exists()


def test_the_whole_log_and_the_end_of_an_engine(box: Path) -> None:
    died = "(APIServer pid=1) ERROR 09-13 22:10:00 [a.py:1] EngineCore encountered a fatal error.\n"
    container(box, "exited", samples.thor() + died)
    path = box / "B.log"
    path.write_text("an older log")
    result = run("engine_log_info", box, container="lobes-spike-B", log_path=str(path))
    assert result["end"] == {
        "status": "exited", "exit_code": 0, "oom_killed": False, "clean": False,
        "finished_utc": "2026-09-13T22:00:00.1Z",
    }  # fmt: skip
    assert result["engine_died"] is True
    assert result["facts"]["kv_pool"]["tokens"] == 20431534
    assert "s3cr3t" not in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    other = box / "other.json"
    other.write_text(json.dumps({"schema": "lobes.spike/boot/1", "milestones": [], "facts": {}}))
    laid = run("engine_log_info", box, log_path=str(path), compare_with=str(other))
    assert laid["anatomy"]["kv_pool"]["comparable"] is False
    assert "end" not in laid


def test_an_older_log_is_not_lost_to_a_container_that_is_gone(box: Path) -> None:
    path = box / "B.log"
    path.write_text("an older log")
    result = run("engine_log_info", box, container="gone", log_path=str(path))
    assert result["failed"] is True
    assert path.read_text() == "an older log"
    assert "compare_with" in run("engine_log_info", box, log_path=str(path), compare_with=str(path))["msg"]


def test_saved_metrics(box: Path) -> None:
    scrape = str(samples.DATA / "vllm-0.29.0-cpu-ngram.prom")
    result = run("engine_metrics_info", box, path=scrape, before=scrape)
    assert result["gauges"] == {"requests_running": 0.0, "requests_waiting": 0.0, "kv_cache_usage": 0.0}
    assert result["kv_pool"]["tokens"] == 93184
    assert result["gained"]["prompt_tokens"] == 0
    assert result["series"] > 300
    assert "before" in run("engine_metrics_info", box, path=scrape, before="/nowhere")["msg"]
    assert "refused" in run("engine_metrics_info", box, endpoint="http://127.0.0.1:9")["msg"]


def test_a_checkpoint_that_is_none(box: Path) -> None:
    assert "snapshot" in run("checkpoint_info", box, snapshot=str(box / "absent"))["msg"]
    assert "7 to 40 hex digits" in run("checkpoint_info", box, snapshot=str(box), revision="main")["msg"]
