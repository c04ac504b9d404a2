# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Throttle alerts inside one needle of a whole spike, and others outside: the document blames that needle alone."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOX = ROOT / "tests/doubles/box/box.sh"
NAME, PORT = "spike-alerts", "2242"
ALERT = "box kmsg 'gpu-throttle-alert cooling state: 0 -> 1'"
# Waits on the box for the cold needle, lets three alerts fall into it and one into the time after the last needle.
INJECT = f"""
cd ~; {ALERT}
until ls lightning-spike/*/results/B.needle-30000-cold.json.progress >/dev/null 2>&1; do sleep 0.1; done
sleep 1.5; {ALERT}; sleep 1.1; {ALERT}; sleep 1.1; {ALERT}
until ls lightning-spike/*/results/B.needle-30000-warm.json >/dev/null 2>&1; do sleep 0.1; done
sleep 1.2; {ALERT}
"""


@pytest.fixture
def box() -> Iterator[None]:
    if subprocess.run(["docker", "version"], capture_output=True).returncode:
        pytest.skip("no container engine answers; `make docker` starts one")
    subprocess.run([BOX, "up", NAME, PORT], check=True)
    yield
    subprocess.run([BOX, "down", NAME], check=True)


@pytest.mark.usefixtures("box")
def test_a_burst_inside_one_needle_taints_that_one_only(tmp_path: Path) -> None:
    # The engine prefills 30,000 tokens in about eight seconds, so that alerts can fall into it.
    slow = {"spike_container": {"runtime": "nvidia", "ipc_mode": "host", "env": {
        "SPIKE_SPEEDUP_BOOT": "180", "SPIKE_SPEEDUP_PREFILL": "0.5", "SPIKE_SPEEDUP_DECODE": "4",
    }}}  # fmt: skip
    command = [
        str(ROOT / ".venv/bin/ansible-playbook"), "playbooks/lightning-spike.yml",
        "-i", "inventories/sim", "-l", "thor",
        "-e", f"ansible_port={PORT}", "-e", "worker_lane_approval=thor", "-e", f"spike_evidence_dir={tmp_path}",
        "-e", "spike_arms=B", "-e", "spike_phases=needle", "-e", "spike_telemetry_interval_s=1", "-e", json.dumps(slow),
    ]  # fmt: skip
    injector = threading.Thread(target=subprocess.run, args=([BOX, "ssh", NAME, INJECT],), kwargs={"check": True})
    injector.start()
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    injector.join()
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    (home,) = tmp_path.glob("*-thor/thor")
    windows = json.loads((home / "telemetry/attribution.json").read_text())["windows"]
    verdicts = {window["name"]: window["verdict"]["text"] for window in windows if window["name"].startswith("needle")}
    assert verdicts == {"needle-30000-cold": "under 3 alerts", "needle-30000-warm": "clean"}
    cold = next(window for window in windows if window["name"] == "needle-30000-cold")
    assert (cold["alerts"]["inside"], cold["alerts"]["after"] >= 1, cold["alerts"]["before"] >= 1) == (3, True, True)
    transcript = (home / "transcript.txt").read_text()
    assert "needle-30000-cold: measured under 3 alerts" in transcript
    assert "needle-30000-warm: measured" not in transcript
