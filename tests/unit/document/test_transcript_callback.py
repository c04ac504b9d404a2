"""The callback in real playbook runs: what is recorded, what is not, and what every kind of end leaves behind."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.events import read_events
from ansible_collections.lobes.spike.plugins.plugin_utils.publish import problems

# These run ansible-playbook, which takes seconds; make check leaves them out.
pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]
EVIDENCE = Path(__file__).resolve().parents[2] / "fixtures" / "evidence"

HEAD = """
- hosts: all
  strategy: {strategy}
  gather_facts: false
  connection: local
  vars:
    ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
    kept_secret: canary-in-a-variable
  tasks:
"""


def task(module: str, name: str, **args: Any) -> str:
    """One task in YAML (JSON is YAML)."""
    keywords = {key: args.pop(key) for key in ("register", "until", "retries", "delay", "ignore_errors") if key in args}
    return f"    - {json.dumps({'name': name, module: args, **keywords})}\n"


class Stubs:
    """The JSON files that stubs return, made from the small simulated spike."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.evidence_dir = folder / "evidence" / "spike-1"

    def file(self, name: str, content: object) -> str:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    def read(self, path: str) -> Any:
        return json.loads((EVIDENCE / "sim-small" / path).read_text(encoding="utf-8"))

    def plan(self) -> str:
        spike = self.read("spike.json")
        spike["evidence_dir"] = f"{self.evidence_dir}/HOST"
        return self.file("plan", {"spike": spike})

    def result(self, path: str) -> str:
        document = self.read(path)
        document["samples"] = [{"text": "sample-text-must-not-be-recorded"}]
        return self.file(path.replace("/", "-"), {"finished": True, "result": document, "invocation": {"a": "b"}})


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    return Stubs(tmp_path / "stubs")


def opening(stubs: Stubs, host: str = "box1") -> str:
    spike = stubs.read("spike.json")
    spike["evidence_dir"] = str(stubs.evidence_dir / host)
    plan = stubs.file(f"plan-{host}", {"spike": spike})
    return task("lobes.spike.plan", "Plan the spike", returns=plan) + task(
        "lobes.spike.box_info", "Look at the box", returns=stubs.file("box", {"box": stubs.read("box.json")})
    )


def collecting(stubs: Stubs, host: str = "box1") -> str:
    fetched = stubs.file("fetched", {"evidence": {"dir": "/somewhere/private", "manifest_ok": True, "file_count": 31}})
    return task(
        "lobes.spike.evidence",
        "Bring the evidence home",
        returns=fetched,
        copy=str(EVIDENCE / "sim-small"),
        to=str(stubs.evidence_dir / host),
    )


def test_a_whole_run_ends_with_a_checked_transcript(run_playbook: Run, stubs: Stubs) -> None:
    play = HEAD.format(strategy="linear") + opening(stubs)
    play += task("lobes.spike.probe", "Ask", returns=stubs.result("results/B.probe-tool_call.json"))
    play += collecting(stubs)
    play += task("lobes.spike.transcript_info", "Check", evidence_dir=str(stubs.evidence_dir / "box1"))
    done = run_playbook(play)
    assert done.returncode == 0, done.stdout + done.stderr
    home = stubs.evidence_dir / "box1"
    assert problems(home) == ()
    assert not (home / "transcript.partial.txt").exists()
    transcript = (home / "transcript.txt").read_text(encoding="utf-8")
    assert "SIMULATED" in transcript
    told = [line for line in done.stdout.splitlines() if line.startswith("box1: ")]
    assert told[-2:] == [f"box1: transcript in {home}/transcript.txt", f"box1: report in {home}/report.html"]
    assert len(told) <= 16, "one line at the start, fifteen at the end"
    (lane,) = [line for line in told if "worker lane" in line]
    assert lane.startswith("box1: the worker lane is stopped since 2026-11-30T07:58:41Z; to start it: ansible-playbook")
    read = read_events(home / "events.jsonl")
    assert read.problems == ()
    kinds = [event.kind for event in read.events]
    assert kinds == ["run.begin", "spike", "result", "begin", "result", "evidence", "run.end"]
    assert [event.seq for event in read.events] == [1, 2, 3, 4, 5, 6, 7]


def test_only_named_parts_are_recorded(run_playbook: Run, stubs: Stubs) -> None:
    play = HEAD.format(strategy="linear") + opening(stubs)
    play += task(
        "lobes.spike.decode", "Decode", returns=stubs.result("results/B.decode-prose.json"), api="canary-in-args"
    )
    play += collecting(stubs)
    done = run_playbook(play, "-e", "token=canary-in-extra-vars", HF_TOKEN="canary-in-environment")
    assert done.returncode == 0, done.stdout + done.stderr
    home = stubs.evidence_dir / "box1"
    written = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    for secret in (b"canary", b"sample-text-must-not-be-recorded", b"/somewhere/private", b"invocation"):
        assert secret not in written
    events = (home / "events.jsonl").read_text(encoding="utf-8")
    assert '"decode_tok_s":[79.25,78.72,78.73]' in events
    assert str(stubs.folder) not in events


def test_a_failure_is_an_incident_by_its_first_line(run_playbook: Run, stubs: Stubs) -> None:
    failing = stubs.file("failing", {"failed": True, "msg": "the port is taken\nsecond line", "boot": {}})
    play = HEAD.format(strategy="linear") + opening(stubs)
    play += task("lobes.spike.engine_ready", "Wait until the arm serves", returns=failing)
    done = run_playbook(play)
    assert done.returncode == 2
    home = stubs.evidence_dir / "box1"
    partial = (home / "transcript.partial.txt").read_text(encoding="utf-8")
    assert "task 'Wait until the arm serves' failed: the port is taken." in partial
    assert "second line" not in partial
    assert "# PARTIAL TRANSCRIPT last seen: the run ended before its evidence was collected" in partial
    assert not (home / "transcript.txt").exists()


def test_a_kill_leaves_what_was_measured_readable(run_playbook: Run, stubs: Stubs) -> None:
    play = HEAD.format(strategy="linear") + opening(stubs)
    play += task("lobes.spike.decode", "Decode", returns=stubs.result("results/B.decode-prose.json"))
    play += task("lobes.spike.sweep", "Die here", returns=stubs.file("none", {}), kill=True)
    done = run_playbook(play)
    assert done.returncode == -9
    home = stubs.evidence_dir / "box1"
    partial = (home / "transcript.partial.txt").read_text(encoding="utf-8")
    assert "last seen: task 'Die here', at " in partial
    assert "79.25 / 78.72 / 78.73 tok/s" in partial
    kinds = [event.kind for event in read_events(home / "events.jsonl").events]
    assert kinds == ["run.begin", "spike", "result", "begin", "result", "begin"]

    # The same command again goes on in the same record, and the document names the interruption.
    again = HEAD.format(strategy="linear") + opening(stubs) + collecting(stubs)
    assert run_playbook(again).returncode == 0
    assert problems(home) == ()
    assert "was interrupted; the run of" in (home / "transcript.txt").read_text(encoding="utf-8")


def test_a_record_is_written_by_one_run_at_a_time(run_playbook: Run, stubs: Stubs) -> None:
    home = stubs.evidence_dir / "box1"
    home.mkdir(parents=True)
    with open(stubs.evidence_dir / ".box1.lock", "w+b") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        done = run_playbook(HEAD.format(strategy="linear") + opening(stubs))
    assert "no transcript is recorded here: another run writes" in " ".join(done.stderr.split())
    assert not (home / "events.jsonl").exists()


def test_boxes_side_by_side_have_a_record_each(run_playbook: Run, stubs: Stubs) -> None:
    play = HEAD.format(strategy="ansible.builtin.host_pinned")
    for host in ("box1", "box2"):
        tasks = opening(stubs, host) + collecting(stubs, host)
        play += "".join(
            f'{line[:-2]}, "when": "inventory_hostname == \'{host}\'"}}\n' for line in tasks.splitlines(keepends=True)
        )
    done = run_playbook(play, hosts="box1,box2,")
    assert done.returncode == 0, done.stdout + done.stderr
    for host in ("box1", "box2"):
        assert problems(stubs.evidence_dir / host) == ()


def test_check_mode_and_a_disabled_callback_write_nothing(run_playbook: Run, stubs: Stubs) -> None:
    play = HEAD.format(strategy="linear") + opening(stubs)
    assert run_playbook(play, "--check").returncode == 0
    assert run_playbook(play, LOBES_SPIKE_TRANSCRIPT_ENABLED="false").returncode == 0
    assert not stubs.evidence_dir.exists()


def test_a_play_without_a_spike_is_left_alone(run_playbook: Run, stubs: Stubs) -> None:
    play = HEAD.format(strategy="linear") + task("ansible.builtin.debug", "Say", msg="hello")
    done = run_playbook(play)
    assert done.returncode == 0
    assert "transcript" not in done.stdout


def test_a_measurement_is_recorded_when_it_begins_and_each_item_once(run_playbook: Run, stubs: Stubs) -> None:
    finished = stubs.result("results/B.needle-16384-cold.json")
    play = HEAD.format(strategy="linear") + opening(stubs)
    looped = task("lobes.spike.needle", "Look for the needles", returns=finished).rstrip()
    play += f'{looped[:-1]}, "loop": [16384]}}\n'
    assert run_playbook(play).returncode == 0
    events = read_events(stubs.evidence_dir / "box1" / "events.jsonl").events
    begun = [(event.task, dict(event.data)) for event in events if event.kind == "begin"]
    assert begun == [("Look for the needles", {"begun": "needle"})]
    assert sum("result" in event.data for event in events) == 1
