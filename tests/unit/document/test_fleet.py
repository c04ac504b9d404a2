"""The fleet page: which boxes are laid together, how far apart they are, and who is missing and why."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.lobes.spike.plugins.plugin_utils import baseline, fleet
from ansible_collections.lobes.spike.plugins.plugin_utils.events import Event, append_event
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import load
from ansible_collections.lobes.spike.plugins.plugin_utils.recorder import RESULT_MEMBERS
from fleet_evidence import CAMPAIGN, DATE, SOURCE, edit, make_box, seal
from test_report import Page

ROOT = Path(__file__).resolve().parents[3]


def render(root: Path) -> dict[str, str]:
    campaign = fleet.find(root)
    return fleet.forms(root, campaign, fleet.default_dest(root, campaign))


def page(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render(root)["fleet.json"])
    return found


def spread(found: dict[str, Any], workload: str, group: int = 1) -> dict[str, Any]:
    return next(s for s in found["spreads"] if (s["workload"], s["group"]) == (workload, group))


def died(root: Path, host: str, outcome: str, message: str) -> None:
    """The record of a box of which nothing came home."""
    folder = root / f"{CAMPAIGN}-{host}" / host
    folder.mkdir(parents=True)
    spike = {"spike_id": f"{CAMPAIGN}-{host}", "host": host, "arms": [{"name": "B"}], "phases": ["probes"]}
    append_event(folder / "events.jsonl", Event(1, "run.begin", "2026-11-30T08:00:00Z"))
    append_event(folder / "events.jsonl", Event(2, "spike", "2026-11-30T08:00:00Z", "plan", {"spike": spike}))
    data = {"outcome": outcome, "message": message}
    append_event(folder / "events.jsonl", Event(3, "incident", "2026-11-30T08:00:01Z", "a task", data))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for host, factor in (("thor-1", 1.0), ("thor-2", 1.02), ("thor-10", 0.7)):
        make_box(tmp_path, host, factor)
    return tmp_path


def test_the_spread_is_median_mad_and_named_outliers(three: Path) -> None:
    found = page(three)
    code = spread(found, "single-stream code")
    values = [box["figures"] for box in found["boxes"]]
    own = [next(f["value"] for f in figures if f["workload"] == "single-stream code") for figures in values]
    assert [box["host"] for box in found["boxes"]] == ["thor-1", "thor-2", "thor-10"], "in natural order"
    assert own == pytest.approx([78.68, 80.2536, 55.076])
    assert code["n"] == 3
    assert code["median"] == pytest.approx(78.68)
    assert code["mad"] == pytest.approx(1.5736)
    assert code["outliers"] == ["thor-10"]
    assert (code["lowest"]["host"], code["highest"]["host"]) == ("thor-10", "thor-2")
    assert {box["state"] for box in found["boxes"]} == {"complete"}


def test_no_spread_is_claimed_from_two_boxes(three: Path) -> None:
    shutil.rmtree(three / f"{CAMPAIGN}-thor-10")
    code = spread(page(three), "single-stream code")
    assert (code["n"], code["median"], code["mad"], code["outliers"]) == (2, None, None, [])
    text = render(three)["fleet.txt"]
    assert "No spread is claimed of group 1: fewer than 3 boxes." in text
    assert "### Spread between boxes" not in text
    assert "| median | — | — |" in text


def digest(spike: dict[str, Any]) -> None:
    spike["image"] = spike["image"].replace("1f1f", "2f2f")


def window(spike: dict[str, Any]) -> None:
    spike["arms"][0]["args"]["kv-cache-dtype"] = "bfloat16"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("spike.json", digest, "engine digest: sha256:2f2f"),
        ("model.json", lambda models: models[0].update(revision="f" * 40), "model revision: ffff"),
        ("box.json", lambda box: box["power"].update(mode="30W"), "power mode: 30W here, MAXN in group 1"),
        ("box.json", lambda box: box.pop("power"), "power mode: not recorded here, MAXN in group 1"),
        ("spike.json", window, "arm B, --kv-cache-dtype: bfloat16 here, fp8 in group 1"),
        (
            "results-B/B.boot.json",
            lambda boot: boot["facts"]["kv_pool"].update(max_model_len=16384),
            "arm B, max_model_len: 16384 here, 32768 in group 1",
        ),
    ],
)
def test_boxes_of_other_conditions_are_not_averaged(three: Path, name: str, change: Any, said: str) -> None:
    make_box(three, "thor-11", 1.01)
    odd = three / f"{CAMPAIGN}-thor-2" / "thor-2"
    edit(odd / name, change)
    seal(odd)
    found = page(three)
    assert [group["hosts"] for group in found["groups"]] == [["thor-1", "thor-10", "thor-11"], ["thor-2"]]
    assert any(line.startswith(said) for line in found["groups"][1]["differs"]), found["groups"][1]["differs"]
    assert spread(found, "single-stream code")["n"] == 3
    assert spread(found, "single-stream code", 2)["n"] == 1
    assert said[:30] in render(three)["fleet.txt"]


def test_a_needle_that_was_warm_is_not_laid_to_cold_ones(three: Path) -> None:
    odd = three / f"{CAMPAIGN}-thor-1" / "thor-1"
    edit(odd / "results-B" / "B.needle-16384-cold.json", lambda r: r["summary"]["cache"].update(state="partial"))
    seal(odd)
    found = spread(page(three), "decode at 16,384")
    assert found["n"] == 2
    assert found["left_out"] == ["thor-1 (partial, the others cold)"]


def test_who_is_missing_and_why(three: Path) -> None:
    died(three, "thor-3", "failed", "thor-3 is not ready, and nothing was touched.")
    died(three, "thor-4", "unreachable", "ssh: connect to host thor-4 port 22: No route to host")
    died(three, "thor-5", "failed", "On thor-5 this would stop the lane worker (container 0, image " + "x" * 300)
    folder = three / f"{CAMPAIGN}-thor-6" / "thor-6"
    folder.mkdir(parents=True)
    append_event(folder / "events.jsonl", Event(1, "run.begin", "2026-11-30T08:00:00Z"))
    shutil.copytree(SOURCE, three / f"{CAMPAIGN}-thor-7" / "thor-7")
    found = {box["host"]: box for box in page(three)["boxes"]}
    assert {host: box["state"] for host, box in found.items() if host > "thor-2"} == {
        "thor-3": "refused", "thor-4": "failed", "thor-5": "refused", "thor-6": "skipped", "thor-7": "partial",
    }  # fmt: skip
    assert "No route to host" in found["thor-4"]["why"][0]
    assert found["thor-3"]["group"] is None
    assert "planned and without a result: 2" in found["thor-7"]["why"][0]
    text = render(three)["fleet.txt"]
    assert text.startswith(
        "# fleet — 2026-11-30-lightning, 8 boxes: 3 complete, 1 partial, 2 refused, 1 failed, 1 skip"
    )


def test_a_box_that_died_while_it_was_measured_keeps_its_figures(three: Path) -> None:
    """Nothing of it came home; what the run told until then is in the record, and stands with the others."""
    whole = make_box(three / "away", "thor-3")
    folder = three / f"{CAMPAIGN}-thor-3" / "thor-3"
    folder.mkdir(parents=True)
    stored = load(whole)
    arm = stored.arms[0]
    assert arm.boot is not None
    parts: list[dict[str, Any]] = [{"spike": stored.spike}, {"box": stored.box}, {"models": list(stored.models)}]
    parts += [{"boot": arm.boot.data}]
    parts += [{"result": {k: r.data[k] for k in RESULT_MEMBERS if k in r.data}} for r in arm.results]
    for n, part in enumerate(parts, 1):
        append_event(folder / "events.jsonl", Event(n, "result", "2026-11-30T08:00:00Z", "t", part))
    lost = {"outcome": "unreachable", "message": "Connection timed out"}
    append_event(folder / "events.jsonl", Event(len(parts) + 1, "incident", "2026-11-30T08:00:01Z", "t", lost))
    found = page(three)
    box = next(box for box in found["boxes"] if box["host"] == "thor-3")
    assert (box["state"], box["group"], len(box["figures"])) == ("partial", 1, 11)
    assert box["why"][0].startswith("Its evidence was not brought home whole")
    assert any("Connection timed out" in line for line in box["why"])
    assert spread(found, "single-stream code")["n"] == 4
    assert "(heat?)" in render(three)["fleet.txt"]


def test_the_end_of_a_run_changes_nothing(three: Path) -> None:
    died(three, "thor-4", "unreachable", "no route")
    before = render(three)
    append_event(three / f"{CAMPAIGN}-thor-4" / "thor-4" / "events.jsonl", Event(4, "run.end", "2026-11-30T09:00:00Z"))
    assert render(three) == before


def test_same_evidence_same_bytes_and_nothing_of_the_machine(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = render(three)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for folder in sorted(three.glob(f"{DATE}-*"), reverse=True):
        shutil.copytree(folder, elsewhere / folder.name)
    monkeypatch.setattr("time.time", lambda: pytest.fail("the page asked for the time"))
    assert render(elsewhere) == first
    assert not [text for text in first.values() if str(tmp_path) in text]


def test_the_newest_campaign_and_the_last_run_of_a_box_are_taken(three: Path) -> None:
    make_box(three, "thor-1", 1.0, campaign="2026-11-01-lightning")
    again = make_box(three, "thor-1.2", 1.5)
    edit(again / "spike.json", lambda spike: spike.update(host="thor-1"))
    seal(again)
    (three / f"{CAMPAIGN}-thor-1.2" / "thor-1.2").rename(three / f"{CAMPAIGN}-thor-1.2" / "thor-1")
    found = fleet.find(three)
    assert found.name == CAMPAIGN
    assert found.folders[0].parent.name == f"{CAMPAIGN}-thor-1.2"
    assert found.earlier == (f"{CAMPAIGN}-thor-1/thor-1",)
    assert fleet.find(three, "2026-11-01-lightning").folders == (three / "2026-11-01-lightning-thor-1" / "thor-1",)
    assert "thor-1/thor-1" in render(three)["fleet.txt"].split("## Earlier runs")[1]


@pytest.mark.parametrize("campaign", ["lightning", "", "../2026-11-30-x", "2026-11-30"])
def test_no_campaign_by_that_name(tmp_path: Path, campaign: str) -> None:
    with pytest.raises(fleet.FleetError, match="campaign"):
        fleet.find(tmp_path, campaign)


def test_fleet_json_follows_its_schema(three: Path, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "schema" / "fleet.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    died(three, "thor-3", "failed", "thor-3 is not ready, and nothing was touched.")
    jsonschema.validate(page(three), schema)
    (tmp_path / "empty").mkdir()
    jsonschema.validate(page(tmp_path / "empty"), schema)


def test_nothing_at_all_is_no_error(tmp_path: Path) -> None:
    assert fleet.find(tmp_path) == fleet.Campaign("", (), ())
    assert "0 boxes: none" in render(tmp_path)["fleet.txt"]


def test_the_page_is_one_well_formed_file_and_its_links_lead_to_the_boxes_documents(three: Path) -> None:
    (three / f"{CAMPAIGN}-thor-1" / "thor-1" / "transcript.txt").write_text("", encoding="utf-8")
    source = render(three)["fleet.html"]
    found = Page(source)
    assert found.open == []
    assert not found.tags & {"script", "link", "iframe", "img", "object", "embed", "form", "base"}
    inner = {link.removeprefix("#") for link in found.links if link.startswith("#")}
    assert inner <= set(found.ids)
    outer = {link for link in found.links if not link.startswith("#")}
    assert outer == {f"../{CAMPAIGN}-thor-1/thor-1/transcript.txt"}
    assert (three / f"fleet-{CAMPAIGN}" / outer.pop()).resolve().is_file()
    assert 'aria-label="single-stream code"' in source
    assert not re.search(r"url\(|@import|https?://", source)


def test_hostile_words_stay_words(three: Path) -> None:
    hostile = '"><script>alert(1)</script>{{ 7*7 }}\x1b[2J\u202e'
    died(three, "thor-9", "failed", hostile)
    odd = three / f"{CAMPAIGN}-thor-1" / "thor-1"
    edit(odd / "spike.json", lambda spike: spike["arms"][0].update(title=hostile, args={hostile: hostile}))
    edit(odd / "box.json", lambda box: box["power"].update(mode=hostile))
    seal(odd)
    forms = render(three)
    found = Page(forms["fleet.html"])
    assert found.open == []
    assert "script" not in found.tags
    assert "alert(1)" in found.words
    assert not [form for form in forms.values() if re.search("[\x1b\u202e]", form)]


def test_how_a_box_stands_to_its_baseline_is_beside_it(three: Path) -> None:
    slow = three / f"{CAMPAIGN}-thor-10" / "thor-10"
    (slow / "baseline.json").write_text(
        json.dumps(baseline.read(three / f"{CAMPAIGN}-thor-1", "thor-1")), encoding="utf-8"
    )
    seal(slow)
    found = {box["host"]: box for box in page(three)["boxes"]}
    assert found["thor-10"]["baseline"].startswith(f"against {CAMPAIGN}-thor-1 on thor-1: 11 regressions, 0 improve")
    assert len(found["thor-10"]["regressions"]) == 11
    assert found["thor-1"]["baseline"] is None
    assert "regression: B, single-stream prose: -30.0%" in render(three)["fleet.html"]


def test_a_damaged_box_does_not_spoil_the_page(three: Path) -> None:
    odd = three / f"{CAMPAIGN}-thor-2" / "thor-2"
    (odd / "spike.json").write_text('{"schema": "lobes.spike/spike/1", "arms": [7, {"name": []}]', encoding="utf-8")
    (odd / "box.json").write_text("[]", encoding="utf-8")
    found = {box["host"]: box for box in page(three)["boxes"]}
    assert found["thor-2"]["state"] == "partial"
    assert any("spike.json: is not whole JSON" in line for line in found["thor-2"]["why"])


@pytest.mark.slow
def test_the_play_of_the_spike_ends_with_the_page_under_a_limit_too(three: Path, tmp_path: Path) -> None:
    plays = yaml.safe_load((ROOT / "playbooks" / "lightning_spike.yml").read_text(encoding="utf-8"))
    play = next(play for play in plays if play["name"] == "Lay the boxes side by side")
    path = tmp_path / "play.yml"
    path.write_text(yaml.safe_dump([play]), encoding="utf-8")
    inventory = tmp_path / "hosts.yml"
    spike = "{{ {'spike_id': '" + CAMPAIGN + "-' ~ inventory_hostname ~ '.2', 'evidence_dir': where} }}"
    hosts = {
        "boxes": {
            "hosts": dict.fromkeys(["thor-1", "thor-2", "thor-3"]),
            "vars": {"measure_plan": {"spike": spike}, "where": str(three / "x" / "y")},
        }
    }
    inventory.write_text(yaml.safe_dump(hosts), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), str(path)]
    done = subprocess.run(
        [*command, "-l", "thor-2,thor-3"], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Fleet page: {three / f'fleet-{CAMPAIGN}' / 'fleet.txt'}" in done.stdout
    shutil.rmtree(three / f"{CAMPAIGN}-thor-1")
    shutil.rmtree(three / f"{CAMPAIGN}-thor-2")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leet page:" not in done.stdout


@pytest.mark.slow
def test_a_hundred_boxes_of_four_arms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(100):
        make_box(tmp_path, f"thor-{n + 1}", 1 + 0.01 * ((n * 37) % 7 - 3) / 3, ("B", "C", "D", "E"))
    begin = time.monotonic()
    forms = render(tmp_path)
    took_s = time.monotonic() - begin
    tracemalloc.start()
    assert render(tmp_path) == forms
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with capsys.disabled():
        sizes = {name: len(text) for name, text in forms.items()}
        print(f"\n100 boxes x 4 arms: {took_s:.1f} s, peak {peak / 2**20:.0f} MiB, {sizes}")
    found = json.loads(forms["fleet.json"])
    assert len(found["boxes"]) == 100
    assert {s["n"] for s in found["spreads"]} == {100}
    assert took_s < 60
    assert peak < 500e6
