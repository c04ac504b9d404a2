# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole spike on the real vLLM with a real model: what the document says is what the engine did.

`make real-engine` has the image and the model ready. The spike runs once, as an operator runs it.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARMS = {"plain": "results", "ngram": "results-ngram"}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    evidence = tmp_path_factory.mktemp("evidence")
    command = [str(ROOT / "tools/spike.sh"), "cpu", "cpu", "-e", f"spike_evidence_dir={evidence}"]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    (found,) = evidence.glob("*-cpu-cpu/cpu")
    return found


def results(home: Path, arm: str) -> dict[str, dict[str, Any]]:
    """The arm's result documents by name."""
    documents = [json.loads(path.read_text()) for path in (home / ARMS[arm]).glob(f"{arm}.*.json")]
    return {document["name"]: document for document in documents if document.get("schema") == "lobes.spike/result/1"}


@pytest.mark.parametrize("arm", ARMS)
def test_every_phase_was_measured(home: Path, arm: str) -> None:
    measured = results(home, arm)
    assert {name.partition("-")[0] for name in measured} == {
        "calibrate",
        "probe",
        "decode",
        "needle",
        "sweep",
        "agentic",
    }
    assert {document["status"] for document in measured.values()} == {"complete"}


def test_the_verdicts_are_what_the_model_answered(home: Path) -> None:
    transcript = (home / "transcript.txt").read_text()
    for arm in ARMS:
        answer = results(home, arm)["probe-known_answer"]["summary"]["reply"]["content"]
        row = re.search(r"^\| known-answer \|(.*)\|$", transcript, re.M)
        assert row is not None
        verdict = row[1].split("|")[list(ARMS).index(arm)].strip()
        assert verdict == ("PASS" if re.search(r"\b42\b", answer) else "FAIL")
    assert "FAIL" in transcript, "a model this small gets something wrong"


def test_tokens_under_speculation_are_counted_from_usage(home: Path) -> None:
    samples = [s for name in ("decode-prose", "decode-code") for s in results(home, "ngram")[name]["samples"]]
    assert all(sample["completion_tokens"] == sample["usage"]["completion_tokens"] == 128 for sample in samples)
    events = [len(sample["events"]["t_us"]) for sample in samples]
    assert min(events) < 128, "an event of ngram speculation carries several tokens"
    for sample in samples:
        assert sum(sample["events"]["tok"]) == 128


@pytest.mark.parametrize("arm", ARMS)
def test_the_second_send_of_a_needle_is_warm_by_the_engines_own_evidence(home: Path, arm: str) -> None:
    measured = results(home, arm)
    for depth in (800, 3000):
        cold, warm = (measured[f"needle-{depth}-{state}"]["summary"]["cache"] for state in ("cold", "warm"))
        assert (cold["state"], warm["state"]) == ("cold", "warm")
        assert cold["evidence"]
        assert warm["evidence"]
        assert warm["cached_tokens"] > 0.9 * depth


@pytest.mark.parametrize("arm", ARMS)
def test_the_results_agree_with_the_engines_own_counters(home: Path, arm: str) -> None:
    """Tokens exactly; TTFT of lone requests within 2 % or 5 ms of the engine's own histogram."""
    for name, document in results(home, arm).items():
        for difference in document["witnesses"]["disagreements"]:
            assert "token" not in difference["what"], f"{name}: {difference}"
            if (
                document["phase"] == "decode"
                and difference["what"] == "ttft_s"
                and "(mean)" in difference["witnesses"][1]
            ):
                ours, engine = difference["values"]
                assert abs(ours - engine) <= max(0.02 * engine, 0.005), f"{name}: {difference['text']}"


def test_the_evidence_agrees_with_its_manifest_and_nothing_is_left(home: Path) -> None:
    check = subprocess.run(
        [str(ROOT / ".venv/bin/ansible"), "localhost", "-m", "lobes.spike.transcript_info", "-a",
         f"evidence_dir={home}"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert check.returncode == 0, check.stdout + check.stderr
    left = subprocess.check_output(["docker", "ps", "-aq", "--filter", "label=lobes.spike.arm"], text=True)
    assert left == ""
