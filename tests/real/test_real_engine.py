# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a spike on the real vLLM with a real model: what the document says is what the engine did.

`make real-engine` runs the spike and then these tests; on evidence that is there already:
``LOBES_SPIKE_EVIDENCE=evidence python -m pytest tests/real``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARMS = {"plain": "results", "ngram": "results-ngram"}


@pytest.fixture(scope="session")
def home() -> Path:
    evidence = Path(os.environ["LOBES_SPIKE_EVIDENCE"])
    return max(evidence.glob("*-cpu-cpu*/cpu"), key=lambda path: path.stat().st_mtime)


def results(home: Path, arm: str) -> dict[str, dict[str, Any]]:
    """The arm's result documents by name."""
    documents = [json.loads(path.read_text()) for path in (home / ARMS[arm]).glob(f"{arm}.*.json")]
    return {document["name"]: document for document in documents if document.get("schema") == "lobes.spike/result/1"}


def batch(document: dict[str, Any], label: str) -> list[dict[str, Any]]:
    """The samples that were sent between two looks at the counters: a level's, a session's, or one."""
    samples = document["samples"]
    own = [s for s in samples if s["label"] == label or s["label"].startswith(f"{label}-")]
    return own or samples


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
    for depth in (800, 2000):
        cold, warm = (measured[f"needle-{depth}-{state}"]["summary"]["cache"] for state in ("cold", "warm"))
        assert (cold["state"], warm["state"]) == ("cold", "warm")
        assert cold["evidence"]
        assert warm["evidence"]
        assert warm["cached_tokens"] > 0.9 * depth


def test_the_samples_agree_with_the_engine_s_own_counters(home: Path) -> None:
    """Around every batch: tokens exactly; the mean TTFT within 2 % or 5 ms of the engine's own histogram.

    On two cores the server that writes the stream waits for the cores that compute: a batch in ten may be further off,
    and is then named in the result.
    """
    compared, beyond = 0, []
    for arm in ARMS:
        for name, document in results(home, arm).items():
            for label, counters in (document["witnesses"]["engine_metrics"] or {}).items():
                samples = batch(document, label)
                where = f"{arm} {name} {label}"
                assert counters["generation_tokens"] == sum(s["completion_tokens"] for s in samples), where
                assert counters["prompt_tokens"] == sum(s["prompt_tokens"] for s in samples), where
                assert counters["ttft_s_count"] == len(samples), where
                theirs = counters["ttft_s_sum"] / counters["ttft_s_count"]
                # The engine's clock starts somewhere in the upload, ours at its first byte: the client knows a range.
                latest = sum(s["first_event_s"] for s in samples) / len(samples)
                earliest = latest - sum(s["upload_s"] or 0.0 for s in samples) / len(samples)
                error = max(0.02 * theirs, 0.005)
                compared += 1
                if not earliest - error <= theirs <= latest + error:
                    beyond.append(f"{where}: {latest:.4f} s, engine {theirs:.4f} s")
                    named = {d["label"] for d in document["witnesses"]["disagreements"] if d["what"] == "ttft_s"}
                    assert label in named, beyond[-1]
    assert compared >= 20
    assert len(beyond) <= compared / 10, beyond


def test_the_evidence_agrees_with_its_manifest_and_nothing_is_left(home: Path) -> None:
    check = subprocess.run(
        [str(ROOT / ".venv/bin/ansible"), "localhost", "-m", "lobes.spike.transcript_info", "-a",
         f"evidence_dir={home}"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert check.returncode == 0, check.stdout + check.stderr
    left = subprocess.check_output(["docker", "ps", "-aq", "--filter", "label=lobes.spike.arm"], text=True)
    assert left == ""
