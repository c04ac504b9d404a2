"""A spike beside an earlier one: what is the same, what got worse, and what cannot be compared, with the reason."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.baseline import read
from ansible_collections.lobes.spike.plugins.plugin_utils.document import build, render, summary
from ansible_collections.lobes.spike.plugins.plugin_utils.document.baseline import regressions, sentences
from ansible_collections.lobes.spike.plugins.plugin_utils.document.model import Comparison
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import EvidenceError, load
from ansible_collections.lobes.spike.plugins.plugin_utils.publish import problems, publish
from fleet_evidence import SOURCE, edit, make_box, seal

ROOT = Path(__file__).resolve().parents[3]


def lay_beside(folder: Path, earlier: Path) -> Comparison:
    """Keep the earlier spike in the evidence, as the role does, and judge."""
    (folder / "baseline.json").write_text(json.dumps(read(earlier, "thor")), encoding="utf-8")
    seal(folder)
    found = build(load(folder)).baseline
    assert found is not None
    return found


def words(found: Comparison) -> set[str]:
    return {row.word for row in found.rows}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    return make_box(tmp_path / "then", "thor", arms=("B", "C"))


def later(tmp_path: Path, factor: float = 1.0) -> Path:
    return make_box(tmp_path / "now", "thor", factor, ("B", "C"))


@pytest.mark.parametrize("spike", ["sim-small", "2026-09-13-lightning-thor"])
def test_a_spike_is_the_same_as_itself(spike: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SOURCE.parent / spike, tmp_path / spike))
    base = folder if spike == "sim-small" else SOURCE.parent / spike
    found = lay_beside(folder, base)
    if spike == "sim-small":
        assert words(found) == {"same"}
        assert len(found.rows) > 25
    else:
        assert not words(found) & {"regression", "improvement"}
    assert regressions(found) == ()


def test_ten_percent_slower_is_told_by_name(tmp_path: Path, earlier: Path) -> None:
    found = lay_beside(later(tmp_path, 0.9), earlier)
    speeds = [row for row in found.rows if not row.workload.startswith(("probe", "recall"))]
    assert {row.word for row in speeds} == {"regression"}
    assert len(speeds) == 22
    prose = next(row for row in speeds if row.workload == "single-stream prose")
    assert (prose.difference, prose.indicative) == ("-10.0%", False)
    code = next(row for row in speeds if row.workload == "single-stream code")
    assert code.indicative
    cold = next(row for row in speeds if row.workload == "cold prefill 4,096")
    assert cold.difference == "+11.1%", "a longer time is a regression too"
    assert any(line.startswith("B, single-stream prose: -10.0% (") for line in regressions(found))
    assert {row.word for row in found.rows if row not in speeds} == {"same"}


def test_ten_percent_quicker_is_an_improvement(tmp_path: Path, earlier: Path) -> None:
    found = lay_beside(later(tmp_path, 1.1), earlier)
    assert words(found) == {"improvement", "same"}
    assert sum(row.word == "improvement" for row in found.rows) == 22


def test_single_samples_within_the_band_are_the_same(tmp_path: Path, earlier: Path) -> None:
    found = lay_beside(later(tmp_path, 0.96), earlier)
    code = next(row for row in found.rows if row.workload == "single-stream code")
    assert (code.word, code.because, code.indicative) == ("same", ("single samples within 5%",), True)
    prose = next(row for row in found.rows if row.workload == "single-stream prose")
    assert prose.word == "regression", "three runs whose ranges do not overlap"


def test_runs_whose_ranges_overlap_are_the_same(tmp_path: Path, earlier: Path) -> None:
    found = lay_beside(later(tmp_path, 0.995), earlier)
    prose = next(row for row in found.rows if row.workload == "single-stream prose")
    assert (prose.word, prose.because) == ("same", ("the ranges of their runs overlap",))


def test_below_the_instruments_error_is_the_same(tmp_path: Path, earlier: Path) -> None:
    folder = later(tmp_path, 0.9)
    for path in folder.glob("results-*/*.calibrate.json"):
        edit(path, lambda r: [level.update(ttft_error_s_p99=0.5) for level in r["summary"]["levels"]])
    found = lay_beside(folder, earlier)
    cold = {row.workload: row for row in found.rows if row.arm == "B" and row.workload.startswith("cold")}
    assert cold["cold prefill 4,096"].word == "same"
    assert cold["cold prefill 4,096"].because == ("within the instrument's error of 500.0 ms",)
    assert cold["cold prefill 16,384"].word == "regression"


CHANGES: list[tuple[str, Any, str]] = [
    ("spike.json", lambda s: s.update(image=s["image"].replace("1f", "2f")), "engine digest: sha256:2f"),
    ("model.json", lambda m: m[0].update(revision="f" * 40), "model revision: ffff"),
    ("box.json", lambda b: b["identity"].update(l4t={"release": "39.1"}), "L4T: 39.1 here, not recorded in"),
    ("box.json", lambda b: b.update(gpu={"gpus": [{"driver": "590.10"}]}), "driver: 590.10 here, not recorded"),
    ("box.json", lambda b: b["power"].update(mode="30W"), "power mode: 30W here, MAXN in the baseline"),
]


@pytest.mark.parametrize(("name", "change", "reason"), CHANGES)
def test_another_condition_keeps_all_apart(tmp_path: Path, earlier: Path, name: str, change: Any, reason: str) -> None:
    folder = later(tmp_path, 0.5)
    edit(folder / name, change)
    found = lay_beside(folder, earlier)
    assert words(found) == {"not comparable"}
    assert all(row.because[0].startswith(reason) for row in found.rows)
    assert sentences(found)[1].startswith("not comparable: everything (" + reason)


def test_another_flag_or_window_keeps_its_arm_apart(tmp_path: Path, earlier: Path) -> None:
    folder = later(tmp_path)
    edit(folder / "spike.json", lambda s: s["arms"][0]["args"].update({"kv-cache-dtype": "bfloat16", "seed": 1}))
    edit(folder / "results-B" / "B.boot.json", lambda b: b["facts"]["kv_pool"].update(max_model_len=16384))
    found = lay_beside(folder, earlier)
    assert {row.word for row in found.rows if row.arm == "B"} == {"not comparable"}
    assert {row.word for row in found.rows if row.arm == "C"} == {"same"}
    assert found.rows[0].because == (
        "max_model_len: 16384 here, 32768 in the baseline",
        "--kv-cache-dtype: bfloat16 here, fp8 in the baseline",
        "--seed: 1 here, not set in the baseline",
    )


def test_another_plan_and_another_state_keep_their_figure_apart(tmp_path: Path, earlier: Path) -> None:
    folder = later(tmp_path)
    edit(folder / "results-B" / "B.decode-code.json", lambda r: r["plan"].update(max_tokens=99))
    edit(folder / "results-B" / "B.needle-16384-cold.json", lambda r: r["summary"]["cache"].update(state="partial"))
    found = {(row.arm, row.workload): row for row in lay_beside(folder, earlier).rows}
    assert found["B", "single-stream code"].because == ("the workload's plan is another, or is not recorded",)
    assert found["B", "decode at 16,384"].because == ("partial now, cold in the baseline",)
    assert found["B", "cold prefill 16,384"].because == ("not measured now",)
    assert found["C", "decode at 16,384"].word == "same"


def test_a_lost_needle_and_a_failed_probe_are_regressions(tmp_path: Path, earlier: Path) -> None:
    folder = later(tmp_path)
    edit(folder / "results-B" / "B.needle-4096-cold.json", lambda r: r["summary"].update(passed=False))
    edit(folder / "results-C" / "C.probe-known_answer.json", lambda r: r["summary"]["reply"].update(content="41"))
    assert regressions(lay_beside(folder, earlier)) == (
        "B, recall at 4,096, cold: (passed -> FAILED)",
        "C, probe known_answer: (passed -> FAILED)",
    )


def test_another_box_is_told(tmp_path: Path) -> None:
    found = lay_beside(later(tmp_path), make_box(tmp_path / "then", "thor-2", arms=("B", "C")))
    assert words(found) == {"same"}
    assert "another box's" in sentences(found)[1]


def test_every_form_has_it_and_offline_it_is_the_same(tmp_path: Path, earlier: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    folder = later(tmp_path, 0.9)
    lay_beside(folder, earlier)
    publish(folder)
    forms = render(load(folder))
    shutil.rmtree(earlier)
    assert render(load(folder)) == forms
    assert problems(folder) == ()
    data = json.loads(forms["results.json"])
    jsonschema.validate(data, json.loads((ROOT / "docs" / "schema" / "results.schema.json").read_text()))
    assert {row["verdict"] for row in data["baseline"]["rows"]} == {"regression", "same"}
    assert data["baseline"]["manifest_sha256"]
    for name in ("transcript.txt", "comparison.md", "report.html"):
        assert "Against the baseline 2026-11-30-lightning-thor on thor" in forms[name], name
    assert "REGRESSION: B, single-stream prose: -10.0%" in " ".join(forms["transcript.txt"].split()).replace("# ", "")
    assert '<section id="baseline">' in forms["report.html"]
    assert any(line.startswith("against 2026-11-30-lightning-thor: 22 regressions") for line in summary(load(folder)))


def test_without_a_baseline_there_is_nothing_of_it(earlier: Path) -> None:
    forms = render(load(earlier))
    assert "baseline" not in json.loads(forms["results.json"])
    assert "gainst the baseline" not in forms["transcript.txt"] + forms["report.html"]


@pytest.mark.parametrize("content", ['{"schema": "x"}', "[]", "{", "7"])
def test_a_strange_baseline_spoils_nothing(earlier: Path, content: str) -> None:
    (earlier / "baseline.json").write_text(content, encoding="utf-8")
    seal(earlier)
    document = build(load(earlier))
    assert document.baseline is None
    assert any("baseline.json" in line for line in document.coverage_limits)


def test_a_hostile_baseline_spoils_nothing(earlier: Path) -> None:
    strange = {
        "schema": "lobes.spike/baseline/1", "spike_id": '"><script>\x1b[2J', "host": [], "ttft_error_s": "x",
        "conditions": {"power mode": {"a": 1}, "<b>": None}, "arms": [7, {"name": "B", "conditions": 7}],
        "figures": [{"arm": "B", "workload": "single-stream code", "values": [True, "x", 1e999, -1, 0]}, 7],
        "checks": [{"arm": "B", "name": "probe known_answer", "passed": "yes"}],
    }  # fmt: skip
    (earlier / "baseline.json").write_text(json.dumps(strange).replace("Infinity", "1e308"), encoding="utf-8")
    seal(earlier)
    forms = render(load(earlier))
    assert "<script" not in forms["report.html"]
    assert not [name for name, form in forms.items() if "\x1b" in form]


def test_what_cannot_be_a_baseline_is_refused(tmp_path: Path, earlier: Path) -> None:
    assert read(earlier.parent, "thor") == read(earlier, "elsewhere"), "the folder of the spike will do"
    with pytest.raises(EvidenceError, match=r"spike_baseline is .* no spike\.json"):
        read(tmp_path, "thor")
    edit(earlier / "spike.json", lambda s: s.update(host="other"))
    with pytest.raises(EvidenceError, match="not what was sealed"):
        read(earlier, "thor")
    shutil.rmtree(earlier / "results-B")
    shutil.rmtree(earlier / "results-C")
    seal(earlier)
    with pytest.raises(EvidenceError, match="no figure"):
        read(earlier, "thor")


PLAY = """
- hosts: localhost
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    evidence_spike: {spike_id: x, evidence_dir: "%(folder)s"}
    evidence_measure_only: {unexplained: []}
    evidence_failed: []
  tasks:
    - lobes.spike.baseline_info:
        evidence_dir: "%(earlier)s"
      register: read
    - ansible.builtin.copy:
        content: "{{ read.baseline | to_nice_json }}\\n"
        dest: "%(again)s"
        mode: "0600"
    - lobes.spike.transcript_info:
        evidence_dir: "%(folder)s"
      register: evidence_judged
    - ansible.builtin.import_role:
        name: lobes.spike.evidence
        tasks_from: verdict
"""


@pytest.mark.slow
def test_the_verdict_fails_where_that_is_asked(tmp_path: Path, earlier: Path) -> None:
    folder = later(tmp_path, 0.9)
    lay_beside(folder, earlier)
    publish(folder)
    play, again = tmp_path / "play.yml", tmp_path / "again.json"
    play.write_text(PLAY % {"folder": folder, "earlier": earlier, "again": again}, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "-c", "local", str(play)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "against 2026-11-30-lightning-thor on thor: 22 regressions" in done.stdout
    assert json.loads(again.read_text(encoding="utf-8")) == json.loads(
        (folder / "baseline.json").read_text(encoding="utf-8")
    )
    asked = [*command, "-e", "spike_fail_on_regression=true"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "worse than its baseline" in done.stdout
    assert "B, single-stream prose: -10.0%" in done.stdout
