"""Waiting for a boot on a box that is played: ready, failed in every way, wedged, late; an hour in a millisecond."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import engine_samples as samples
import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine.boot import BootPlan, BootWait, Box, failure_message
from ansible_collections.lobes.spike.plugins.module_utils.engine.follow import (
    ContainerState,
    LogFollower,
    inspect,
    without_keys,
)
from ansible_collections.lobes.spike.plugins.module_utils.engine.processes import Tree
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError

START = datetime(2026, 9, 13, 21, 50, 28, tzinfo=timezone.utc)
ID = "3f2a9c01d4e5" + "0" * 52


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


class Play:
    """A box in which a container prints ``lines`` (second, stream, text) and ends, or answers, at set times."""

    def __init__(
        self,
        lines: Sequence[tuple[float, int, str]],
        *,
        ready_at: float | None = None,
        exit_at: float | None = None,
        exit_code: int = 1,
        oom: bool = False,
        cpu: float = 0.9,
        tree: bool = True,
        error: str = "",
        begin: float = 0.0,
        path: str | None = None,
        log_works: bool = True,
    ) -> None:
        self.lines, self.ready_at, self.exit_at, self.exit_code, self.oom = lines, ready_at, exit_at, exit_code, oom
        self.cpu, self.has_tree, self.error, self.log_works = cpu, tree, error, log_works
        self.now = begin
        self.restarted_at: float | None = None
        self.removed_at: float | None = None
        self.docker_fails = range(0)
        self.looks = 0
        self.progress: list[dict[str, Any]] = []
        self.metrics: str | None = None
        self.path = path

    def run(self, argv: Sequence[str]) -> tuple[int, bytes, bytes]:
        if argv[1] == "inspect":
            return self._inspect()
        assert list(argv[:4]) == ["docker", "logs", "--timestamps", "--since"]
        if not self.log_works:
            return 1, b"", b"Error response from daemon: configured logging driver does not support reading"
        out = [b"", b""]
        for at, stream, text in self.lines:
            if at <= self.now and stamp(at) >= argv[4]:
                out[stream] += f"{stamp(at)} {text}\n".encode()
        return 0, out[0], out[1]

    def _inspect(self) -> tuple[int, bytes, bytes]:
        self.looks += 1
        if self.looks in self.docker_fails:
            return 1, b"", b"Cannot connect to the Docker daemon"
        if self.removed_at is not None and self.now >= self.removed_at:
            return 1, b"", b"Error: No such container: x"
        ended = self.exit_at is not None and self.now >= self.exit_at
        started = self.restarted_at if self.restarted_at is not None and self.now >= self.restarted_at else 0.0
        status = "created" if self.error else "exited" if ended else "running"
        state = {
            "Status": status, "ExitCode": self.exit_code if ended else 0, "OOMKilled": self.oom and ended, "Pid": 7,
            "Error": self.error, "StartedAt": stamp(started), "FinishedAt": "0001-01-01T00:00:00Z",
        }  # fmt: skip
        found = {
            "Id": ID, "Name": "/lobes-spike-B", "State": state, "Args": ["serve", "--api-key", "s3cr3t", "--x=1"],
            "Config": {"Env": ["HF_TOKEN=hidden", "PATH=/bin"]},
        }  # fmt: skip
        return 0, json.dumps([found]).encode(), b""

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)

    def box(self, follower: LogFollower) -> Box:
        def health() -> str:
            return "ok" if self.ready_at is not None and self.now >= self.ready_at else "refused"

        def tree(pid: int) -> Tree | None:
            return Tree(3, self.now * self.cpu, (), 0, 1 << 30) if self.has_tree else None

        return Box(
            inspect=lambda: inspect(self.run, ID),
            follower=follower,
            health=health,
            metrics=lambda: self.metrics,
            tree=tree,
            monotonic=lambda: self.now + 5000,
            utc=lambda: START + timedelta(seconds=self.now),
            sleep=self.sleep,
            progress=self.progress.append,
        )

    def wait(self, **plan: Any) -> tuple[dict[str, Any], BootWait]:
        first = inspect(self.run, ID)
        follower = LogFollower(self.run, ID, first.started_at, self.path)
        waiting = BootWait(
            BootPlan(**{"arm": "B", "time_limit_s": 3600, "wedge_limit_s": 300, **plan}), self.box(follower), first
        )
        return waiting.run(), waiting


def printed(text: str, rate: float = 1.0) -> list[tuple[float, int, str]]:
    """One line each ``rate`` seconds; bars go to stderr."""
    return [(n * rate, int("Loading safetensors" in line), line) for n, line in enumerate(text.split("\n")[:-1])]


def test_a_good_boot(tmp_path: Path) -> None:
    path = tmp_path / "results" / "B.boot.log"
    play = Play(
        [(at + 7, stream, text) for at, stream, text in printed(samples.thor(), 2.0)], ready_at=260.5, path=str(path)
    )
    requests = 20431534 / 1048576
    play.metrics = (
        f'vllm:cache_config_info{{kv_cache_size_tokens="20431534",kv_cache_max_concurrency="{requests}"}} 1\n'
    )
    document, waiting = play.wait(memory_before={"available_bytes": 97})
    assert waiting.failure is None
    assert document["status"] == "ready"
    assert document["boot_id"] == f"3f2a9c01d4e5@{stamp(0)}"
    assert 260.5 <= document["ready_s"] <= 263
    assert document["ready_s_from"] == "health"
    assert document["memory_before"] == {"available_bytes": 97}
    assert document["args"] == ["serve", "--api-key", "(redacted)", "--x=1"]
    assert document["env_names"] == ["HF_TOKEN", "PATH"]
    assert [m["name"] for m in document["milestones"]][-1] == "startup_complete"
    assert document["milestones"][0]["utc"] is not None
    seconds = {p["name"]: p["seconds"] for p in document["phases"]}
    assert seconds["container start to first log line"] == 7
    assert seconds["container start to /health"] == document["ready_s"]
    assert document["facts"]["cache_config"]["max_model_len"] == 1048576
    assert document["log"]["shows_ready"] is True
    text = path.read_bytes().decode()
    assert text.count("Warming up Mamba2") == 1
    assert "s3cr3t" not in text
    assert text.split("\n")[0] == samples.thor().split("\n")[0]
    assert text.count("\n") == document["log"]["lines"]
    assert path.stat().st_mode & 0o777 == 0o600
    stages = [p["stage"] for p in play.progress]
    assert "mamba_warmup" in stages
    assert play.progress[-1]["elapsed_s"] <= 262
    assert "hidden" not in json.dumps(document)
    # One look every two seconds, after a few quick ones at a port that nobody listens on yet.
    assert len(play.progress) <= 262 / 2 + 2 + 6


def test_the_log_on_disk_is_the_log_that_was_printed(tmp_path: Path) -> None:
    path = tmp_path / "boot.log"
    clean = samples.thor().replace("'api_key': ['s3cr3t'], ", "")
    Play(printed(clean, 0.31), ready_at=80, path=str(path)).wait()
    assert sorted(path.read_bytes().decode().split("\n")) == sorted(clean.split("\n"))


def test_a_boot_that_was_ready_before_anyone_looked() -> None:
    document, _ = Play(printed(samples.thor(), 1.0), ready_at=150, begin=4000).wait()
    assert document["ready_s_from"] == "log"
    assert document["ready_s"] == pytest.approx(samples.thor().count("\n") - 1, abs=1)
    unknown, _ = Play([], ready_at=150, begin=4000).wait()
    assert unknown["ready_s"] is None
    assert unknown["status"] == "ready"


def test_the_cause_of_a_failed_boot_is_the_first_line_of_the_message() -> None:
    cause = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
    document, waiting = Play(printed(samples.failed(cause)), exit_at=60).wait()
    assert document["status"] == "failed"
    assert document["failure"]["kind"] == "kv_too_small"
    message = failure_message(document["failure"], "B", "/x/B.boot.log")
    assert message.splitlines()[0] == cause
    assert "/x/B.boot.log" in message
    assert "after model_runner" in message
    assert waiting.failure is not None


@pytest.mark.parametrize(
    ("play", "kind", "words"),
    [
        (Play(printed(samples.thor(until="Mamba2")), exit_at=90, exit_code=0), "exited_0", "code 0"),
        (Play(printed(samples.thor(until="Mamba2")), exit_at=90, exit_code=137), "killed", "SIGKILL"),
        (Play(printed(samples.thor(until="Mamba2")), exit_at=90, exit_code=137, oom=True), "killed", "OOMKilled"),
        (
            Play([(0, 1, "vllm serve: error: unrecognized arguments: --foo")], exit_at=3, exit_code=2),
            "argument",
            "--foo",
        ),
        (Play([], error="Bind for 127.0.0.1:8090 failed: port is already allocated"), "port", "already allocated"),
        (Play([], error="Unknown runtime specified nvidia"), "unsupported", "nvidia"),
    ],
)
def test_ends_before_readiness(play: Play, kind: str, words: str) -> None:
    document, _ = play.wait()
    assert document["failure"]["kind"] == kind
    assert words in document["failure"]["cause"]


def test_a_wedge_at_the_mamba_warm_up_is_called() -> None:
    play = Play(printed(samples.thor(until="Mamba2 SSD")), cpu=0.004)
    document, _ = play.wait(wedge_limit_s=120)
    failure = document["failure"]
    assert failure["kind"] == "wedge"
    assert failure["stage"] == "mamba_warmup"
    assert play.now < 40 + 120 + 10
    assert "0.4 % of one core" in failure["detail"]
    assert "NO-GO" in failure["remedy"]
    assert document["judgement"]["state"] == "stalled"


def test_a_silent_boot_that_computes_waits_for_the_time_limit() -> None:
    play = Play(printed(samples.thor(until="Mamba2 SSD")), cpu=14)
    document, _ = play.wait(wedge_limit_s=120, time_limit_s=1800)
    assert document["failure"]["kind"] == "timeout"
    assert 1800 <= play.now < 1810
    assert document["judgement"]["state"] == "silent_but_moving"
    blind = Play(printed(samples.thor(until="Mamba2 SSD")), tree=False)
    assert blind.wait(wedge_limit_s=60, time_limit_s=900)[0]["failure"]["kind"] == "timeout"


def test_a_stage_may_have_its_own_limit() -> None:
    play = Play(printed(samples.thor(until="Mamba2 SSD")), cpu=14)
    document, _ = play.wait(stage_limit_s=400)
    assert document["failure"]["kind"] == "timeout"
    assert "mamba_warmup" in document["failure"]["cause"]
    assert play.now < 460


def test_a_server_that_stays_up_over_a_dead_core_is_not_waited_for() -> None:
    play = Play(printed(samples.failed("torch.OutOfMemoryError: CUDA out of memory.")), cpu=1)
    document, _ = play.wait()
    assert document["failure"]["kind"] == "memory"
    assert play.now < 120


def test_restarts_and_removals_are_failures() -> None:
    play = Play(printed(samples.thor(until="Mamba2")))
    play.restarted_at = 20
    document, _ = play.wait()
    assert "started again" in document["failure"]["cause"]
    assert document["boot_id"].endswith(stamp(0))
    play = Play(printed(samples.thor(until="Mamba2")))
    play.removed_at = 20
    assert "removed" in play.wait()[0]["failure"]["cause"]


def test_docker_may_be_away_for_a_moment_but_not_for_good() -> None:
    play = Play(printed(samples.thor()), ready_at=150)
    play.docker_fails = range(5, 30)
    assert play.wait()[0]["status"] == "ready"
    play = Play(printed(samples.thor()), ready_at=150)
    play.docker_fails = range(5, 5000)
    with pytest.raises(SpikeError, match="Cannot connect to the Docker daemon"):
        play.wait()


def test_a_log_that_docker_cannot_give_is_said_and_not_fatal() -> None:
    document, _ = Play([], ready_at=30, log_works=False).wait()
    assert document["status"] == "ready"
    assert document["log"]["readable"] is False
    assert "does not support reading" in document["log"]["reason"]
    assert document["milestones"] == []


def test_a_container_that_is_not_there() -> None:
    with pytest.raises(PlanError, match="no container of this name"):
        inspect(lambda argv: (1, b"", b"Error: No such container: nope"), "nope")
    with pytest.raises(SpikeError, match="did not answer as expected"):
        inspect(lambda argv: (0, b"[]", b""), "nope")


def test_lines_of_two_streams_are_merged_and_none_is_lost_or_doubled(tmp_path: Path) -> None:
    """Out of order by less than a second between the streams, equal lines, equal times."""
    lines = [(n * 0.4, n % 2, f"line {n // 3}") for n in range(200)]
    late = [(t + 0.3 * s, s, x) for t, s, x in lines]
    play = Play(late)
    follower = LogFollower(play.run, ID, stamp(0), str(tmp_path / "log"))
    got: list[str] = []
    while play.now < 100:
        got += [text for _utc, text in follower.poll()]
        play.now += 1.3
    assert sorted(got) == sorted(x for _t, _s, x in late)
    assert follower.lines == 200


def test_an_unfinished_line_waits_for_its_end() -> None:
    end = [b""]

    def run(argv: Sequence[str]) -> tuple[int, bytes, bytes]:
        return 0, f"{stamp(1)} whole\n{stamp(2)} begin".encode() + end[0], b""

    follower = LogFollower(run, ID, stamp(0), None)
    assert [text for _utc, text in follower.poll()] == ["whole"]
    end[0] = b" and end\n"
    assert [text for _utc, text in follower.poll()] == ["begin and end"]
    end[0] = b" and end\n" + stamp(3).encode() + b" last"
    assert [text for _utc, text in follower.poll(last=True)] == ["last"]


def test_a_log_without_timestamps_is_not_doubled() -> None:
    text = [b"one\n"]
    follower = LogFollower(lambda argv: (0, text[0], b""), ID, stamp(0), None)
    assert follower.poll() == [(None, "one")]
    text[0] += b"one\ntwo\n"
    assert follower.poll() == [(None, "one"), (None, "two")]


def test_keys_are_left_out_of_arguments() -> None:
    args = ["--api-key", "a", "--api-key=b", "--hf_token", "c", "--x", "d", "--api-key", "--y"]
    assert without_keys(args) == [
        "--api-key", "(redacted)", "--api-key=(redacted)", "--hf_token", "(redacted)", "--x", "d", "--api-key", "--y",
    ]  # fmt: skip


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="log_path"):
        LogFollower(lambda argv: (0, b"", b""), ID, stamp(0), str(tmp_path))


def test_states_are_plain(tmp_path: Path) -> None:
    state = inspect(Play([]).run, ID)
    assert isinstance(state, ContainerState)
    assert state.name == "lobes-spike-B"


def test_an_engine_that_serves_behind_a_port_that_leads_elsewhere_is_told() -> None:
    play = Play(printed(samples.thor()), ready_at=None)
    document, _ = play.wait()
    served = len(samples.thor().split("\n"))
    assert document["failure"]["kind"] == "port"
    assert "the log says that the engine serves" in document["failure"]["cause"]
    assert served + 50 < play.now < served + 80
