"""The box's own account beside the figures: verdicts as they were made, never made better, and the curve."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document import build, render
from ansible_collections.lobes.spike.plugins.plugin_utils.document.heat import UNKNOWN, by_path
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import load
from ansible_collections.lobes.spike.plugins.plugin_utils.telemetry import BINS, curve


def test_a_window_has_the_verdict_of_its_own_row(sim_small: Path) -> None:
    told = {path: heat.words for path, heat in by_path(load(sim_small)).items()}
    assert (
        told["results-spec/C.needle-16384-warm.json"] == "under 3 alerts; tj max 99.0 C, 10.0 C below the 109.0 C trip"
    )
    assert told["results/B.calibrate.json"].startswith("unknown: the oldest kernel message known is 2 s younger")
    assert told["results/B.decode-code.json"] == "clean; tj max 107.0 C, 2.0 C below the 109.0 C trip"
    assert told["results/B.boot.json"] == UNKNOWN, "no row, no verdict"


def test_nothing_recorded_is_unknown_everywhere(sim_small: Path) -> None:
    (sim_small / "telemetry" / "attribution.json").unlink()
    evidence = load(sim_small)
    assert {heat.words for heat in by_path(evidence).values()} == {UNKNOWN}
    assert any("were not recorded" in line for line in build(evidence).coverage_limits)


def test_a_throttled_figure_is_flagged_wherever_it_competes(sim_small: Path) -> None:
    document = build(load(sim_small))
    assert [line.split(":")[0] for line in document.heat_flags] == ["C, needle-16384-warm"]
    told = {ranking.workload: ranking.basis for ranking in document.rankings}
    assert told["decode at 16,384"].endswith("; C under 3 throttle alerts")
    assert told["cold prefill 16,384"].endswith("; C under 3 throttle alerts")
    assert "throttle" not in told["decode at 4,096"]


def test_the_transcript_names_what_happened_to_the_watchers(sim_small: Path) -> None:
    text = " ".join(render(load(sim_small))["transcript.txt"].split())
    assert "Recorder: source_died (kmsg)." in text
    assert "The box's UTC clock was stepped by -1.500 s during the spike" in text
    assert "NOT AS FOUND: power mode: MAXN before, 120W after." in text
    assert (
        "container model-gear-vllm-worker: state: running -> exited; stopped at 2026-11-30T07:58:41Z, approved by"
        in text
    )


def test_the_curve_has_the_spikes_times(sim_small: Path) -> None:
    moments = load(sim_small).curve
    assert 10 < len(moments) <= BINS + 1
    assert abs(moments[0].utc_s - 1796025660) < 5  # 2026-11-30T08:01:00Z
    assert moments[0].tj_c == 80.0
    assert moments[0].rails_w == {"VDD_GPU": 60.0}


def test_a_long_night_makes_a_thin_curve_of_its_highs(tmp_path: Path) -> None:
    lines = [
        json.dumps({"t": n * 10**9, "u": 10**18 + n * 10**9, "z": {"tj-thermal": 120_000 if n == 5000 else 70_000}})
        for n in range(20_000)
    ]
    (tmp_path / "sysfs.jsonl").write_text("\n".join([*lines, '{"t": 1, "z": 7}', '{"cut": ']) + "\n", encoding="utf-8")
    moments = curve(tmp_path)
    assert len(moments) <= BINS + 1
    assert max(moment.tj_c or 0 for moment in moments) == 120.0
    assert curve(tmp_path / "nowhere") == ()


def edited(folder: Path, how: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    path = folder / "telemetry" / "attribution.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    how(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return content


def window(content: dict[str, Any], path: str) -> dict[str, Any]:
    return next(row for row in content["windows"] if row["path"] == path)


def gap(from_s: float, to_s: float, **more: Any) -> dict[str, Any]:
    return {"from_s": from_s, "to_s": to_s, **more}


PROSE, CODE = "results/B.decode-prose.json", "results/B.decode-code.json"


def test_a_gap_says_how_long_and_what_became_of_the_recorder(sim_small: Path) -> None:
    def how(content: dict[str, Any]) -> None:
        frozen, blind = window(content, PROSE), window(content, CODE)
        frozen.update(recorded_share=0.9419, gaps={"sysfs": [gap(2, 8.1, recorder="lived", silent_s=6.1)]})
        frozen["gaps"]["tegrastats"] = [gap(2, 8.1)]
        blind.update(recorded_share=0.0, gaps={"sysfs": [gap(0, 3, recorder="died"), gap(3, 4)], "tegrastats": []})

    edited(sim_small, how)
    evidence = load(sim_small)
    (told,) = [line for line in build(evidence).coverage_limits if "silent" in line]
    assert told == (
        "The recording was silent for a while inside these windows: B decode-prose (6.1 s, the recorder lived); "
        "B decode-code (3.0 s, the recorder had died; 1.0 s, whether the recorder lived is not known)."
    )
    words = {path: heat.words for path, heat in by_path(evidence).items()}
    assert words[PROSE] == ("clean; tj 86.0 to 88.0 C, 21.0 C below the 109.0 C trip; 94.1% of the window was recorded")
    assert "clean, 94.1% recorded" in render(evidence)["transcript.txt"]


def test_tegrastats_alone_being_silent_is_told_with_the_source_that_goes_on(sim_small: Path) -> None:
    def how(content: dict[str, Any]) -> None:
        row = window(content, PROSE)
        row["gaps"] = {"sysfs": [], "tegrastats": [gap(1, 12.5), gap(20, 31)]}
        row["sources"] = {"temp_c.tj": "tegrastats and, where it was silent, sysfs"}

    edited(sim_small, how)
    evidence = load(sim_small)
    (told,) = [line for line in build(evidence).coverage_limits if "silent" in line]
    assert told == (
        "tegrastats alone was silent for a while inside these windows: B decode-prose (22.5 s in 2 gaps). "
        "Temperatures and power there are those of sysfs, as far as it has them."
    )
    assert "C (tegrastats and, where it was silent, sysfs), 21.0 C below" in by_path(evidence)[PROSE].words


LAST = {"t": 1, "u": 1796025700_500_000_000}


@pytest.mark.parametrize(
    ("life", "incident", "limit"),
    [
        ({"end": "died", "started_anew": None},
         "died or was killed: its last line is of 2026-11-30T08:01:40.500000Z, and it was not at work when the spike "
         "stopped it.", None),
        ({"end": "died", "started_anew": {"t": 2, "u": 1796025705_000_000_000}},
         "2026-11-30T08:01:40.500000Z, and another one was started at 2026-11-30T08:01:45.000000Z.", None),
        ({"end": "killed"}, "did not end when it was to, and was killed; its last line is of 2026-11-30T08:01", None),
        ({"end": "unknown"}, None, "Whether the recorder ran to the end of the spike is not known; its last line is"),
        ({"end": "stopped"}, None, None),
    ],
)  # fmt: skip
def test_the_end_of_a_recorder_is_said_outright(
    sim_small: Path, life: dict[str, Any], incident: str | None, limit: str | None
) -> None:
    edited(sim_small, lambda content: content["recorder"].update(lives=[{"pid": 7, "last_line": LAST, **life}]))
    document = build(load(sim_small))
    told = [line for line in document.incidents if "recorder of heat and power" in line]
    assert len(told) == (incident is not None)
    assert not incident or incident in told[0]
    limits = [line for line in document.coverage_limits if "Whether the recorder ran" in line]
    assert len(limits) == (limit is not None)
    assert not limit or limits[0].startswith(limit)


def test_a_suspended_box_is_said_to_have_been(sim_small: Path) -> None:
    def how(content: dict[str, Any]) -> None:
        content["incidents"].append({"t": 1, "u": 1, "event": "suspended", "suspended_s": 6.04})
        window(content, PROSE)["suspended_s"] = 6.04

    edited(sim_small, how)
    evidence = load(sim_small)
    assert "The box was suspended for 6.0 s: its monotonic clock stood still meanwhile." in build(evidence).incidents
    assert by_path(evidence)[PROSE].words.endswith("the box was suspended for 6.0 s in it, and its clock stood still")
