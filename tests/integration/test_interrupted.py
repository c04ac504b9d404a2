# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's machine dies in the middle of a spike: what is left, how the box stands, and how it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOX = ROOT / "tests/doubles/box/box.sh"
NAME, PORT = "spike-interrupted", "2241"


@pytest.fixture
def box() -> Iterator[None]:
    if subprocess.run(["docker", "version"], capture_output=True).returncode:
        pytest.skip("no container engine answers; `make docker` starts one")
    subprocess.run([BOX, "up", NAME, PORT], check=True)
    yield
    subprocess.run([BOX, "down", NAME], check=True)


def on_box(command: str) -> str:
    return subprocess.check_output([BOX, "ssh", NAME, command], text=True)


@pytest.mark.usefixtures("box")
def test_a_killed_controller_loses_nothing_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [
        str(ROOT / ".venv/bin/ansible-playbook"), "playbooks/lightning-spike.yml",
        "-i", "inventories/sim", "-l", "thor",
        "-e", f"ansible_port={PORT}", "-e", "worker_lane_approval=thor", "-e", f"spike_evidence_dir={tmp_path}",
        "-e", "spike_arms=B", "-e", "spike_phases=probes,decode",
    ]  # fmt: skip
    before = on_box("docker inspect -f '{{.State.StartedAt}}' model-gear-vllm-embed model-gear-vllm-rerank")
    with open(tmp_path / "log", "wb") as log:
        spike = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)
        partial = None
        for _ in range(1200):
            assert spike.poll() is None, (tmp_path / "log").read_text()[-3000:]
            partial = next(tmp_path.glob("*-thor/thor/transcript.partial.txt"), None)
            if partial is not None and "known_answer" in partial.read_text():
                break
            time.sleep(0.5)
        other = subprocess.run(
            [*command, "-e", "spike_name=other"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        os.killpg(spike.pid, signal.SIGKILL)
        spike.wait()
    assert other.returncode != 0
    assert "Another spike is on this box, and nothing was touched" in other.stdout + other.stderr
    assert partial is not None
    text = partial.read_text()
    assert "PARTIAL TRANSCRIPT" in text
    assert '"42"  PASS' in text
    assert not partial.with_name("transcript.txt").exists()
    # The box is as the approval left it: the one lane stopped, the others never touched.
    assert on_box("docker inspect -f '{{.State.Status}}' model-gear-vllm-worker") == "exited\n"
    assert on_box("docker inspect -f '{{.State.StartedAt}}' model-gear-vllm-embed model-gear-vllm-rerank") == before
    # What runs on is ours by its label; the next spike, or `make down`, removes it.
    ours = on_box("docker ps --filter label=lobes.spike.arm --format '{{.Names}}'").split()
    assert set(ours) <= {"lobes-spike-b"}
    assert "known_answer" in on_box("ls ~/lightning-spike/*/results")

    # The same command takes up what is there: the engine, what was measured on it, the record.
    booted = on_box("docker inspect -f '{{.Id}} {{.State.StartedAt}}' lobes-spike-b")
    asked = on_box("stat -c %Y ~/lightning-spike/*/results/B.probe-known_answer.json")
    again = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = again.stdout + again.stderr
    assert again.returncode == 0, said[-3000:]
    assert "Going on with" in said
    transcript = partial.with_name("transcript.txt").read_text()
    assert "was interrupted; the run of" in transcript
    assert booted.split()[0][:12] in transcript, "the engine was not booted again"
    kept = on_box("stat -c %Y ~/lightning-spike/*/results/B.probe-known_answer.json")
    assert kept == asked, "what was measured on this boot was not measured again"
    assert on_box("docker inspect -f '{{.State.Status}}' model-gear-vllm-worker") == "exited\n"
    assert on_box("docker ps -aq --filter label=lobes.spike.arm") == ""
    assert "spike.lock" not in on_box("ls ~/lightning-spike")
