"""A watch of a detached measurement: what it tells, when it asks, when it gives up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.watching import (
    SILENCE_S,
    Lost,
    Seen,
    Timing,
    circumstances,
    job_result,
    left_s,
    progress_line,
    watch,
)

RUNNING = json.dumps({"started": 1, "finished": 0, "ansible_job_id": "j1.2"})
DONE = json.dumps({"status": "complete", "changed": False, "ansible_job_id": "j1.2", "_ansible_parsed": True})
TEGRASTATS = (
    "12313292565427 11-30-2026 14:02:20 RAM 114995/125771MB (lfb 31x4MB) SWAP 0/61032MB (cached 0MB) "
    "CPU [3%@972] GR3D_FREQ @[314,314,314] cpu@68.559C tj@71.659C VDD_GPU 2238mW/19512mW VIN 20970mW/52000mW"
)


def progress(done: int, total: int = 4, **more: Any) -> str:
    return json.dumps({"name": "sweep", "done": done, "total": total, "elapsed_s": 10.0, **more})


class FakeBox:
    """Answers each glance with the next of a list (the last one for ever); an exception in it is raised."""

    def __init__(self, *glances: Any, inspected: Mapping[str, Any] | None = None) -> None:
        self.glances, self.inspected, self.asked, self.now = list(glances), inspected or {}, 0, 0.0

    def glance(self) -> tuple[str, str, str]:
        found = self.glances.pop(0) if len(self.glances) > 1 else self.glances[0]
        if isinstance(found, Exception):
            raise found
        return found

    def inspect(self) -> Mapping[str, Any]:
        self.asked += 1
        return self.inspected

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(box: FakeBox, limit_s: float = 900.0) -> tuple[Seen, list[str]]:
    told: list[str] = []
    clock: Callable[[], float] = lambda: box.now  # noqa: E731
    return watch(box, Timing(5.0, limit_s), told.append, clock, box.sleep), told


def test_the_job_s_own_result_ends_the_watch_without_ansible_s_members() -> None:
    seen, told = run(FakeBox((RUNNING, progress(1), ""), (RUNNING, progress(2), ""), (DONE, "", "")))
    assert seen.returned == {"status": "complete", "changed": False}
    assert [line.split(",")[0] for line in told] == ["sweep: 1/4 done", "sweep: 2/4 done"]


def test_a_line_is_told_for_news_and_else_twice_a_minute() -> None:
    glances = [(RUNNING, progress(1, tokens=n), "") for n in range(24)]
    seen, told = run(FakeBox(*glances, (DONE, "", "")))
    assert seen.returned is not None
    assert 3 <= len(told) <= 5  # about 110 seconds of one request


def test_silence_is_asked_about_and_a_dead_measurement_ends_the_watch() -> None:
    box = FakeBox((RUNNING, progress(1), ""), inspected={"ended": True, "state": "interrupted"})
    seen, _told = run(box)
    assert seen.returned is None
    assert seen.inspected == {"ended": True, "state": "interrupted"}
    assert (box.asked, box.now >= SILENCE_S) == (1, True)


def test_a_job_that_died_without_a_word_is_asked_about() -> None:
    box = FakeBox(
        (json.dumps({"failed": True, "cmd": "AnsiballZ_decode.py", "data": "", "msg": "Traceback"}), "", ""),
        inspected={"ended": True},
    )
    assert run(box)[0] == Seen(None, {"ended": True})


def test_a_lost_box_is_waited_for() -> None:
    gone = Lost("Connection refused")
    seen, told = run(FakeBox(gone, gone, gone, (DONE, "", "")))
    assert seen.returned is not None
    assert told == ["the box is out of reach (Connection refused); what it measures goes on, looking again"]


def test_a_box_that_came_back_is_told() -> None:
    _seen, told = run(FakeBox(Lost("no route"), (RUNNING, progress(1), ""), (DONE, "", "")))
    assert [line.split()[3] for line in told if line.startswith("the box is")] == ["out", "back"]


def test_a_box_that_stays_away_ends_the_watch_at_the_limit() -> None:
    box = FakeBox(Lost("no route"))
    with pytest.raises(Lost):
        run(box, limit_s=60)
    assert 60 <= box.now <= 70


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", RUNNING, '{"started": 1}', "\x00", '{"started": 1, "finished": 0, "x": "\\u0000"}']
)
def test_a_file_that_says_nothing_is_a_job_that_runs(text: str) -> None:
    assert job_result(text) is None


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ({"prefill_tokens_estimate": 250, "prompt_tokens": 1000, "elapsed_s": 10.0}, 30.0),
        ({"done": 1, "total": 4, "elapsed_s": 10.0}, 30.0),
        # A deep prefill slows down as it goes: what was foretold knows that.
        (
            {"prefill_tokens_estimate": 500, "prompt_tokens": 1000, "elapsed_s": 10.0, "expected": {"predicted_s": 60}},
            50.0,
        ),
        ({"done": 1, "total": 4, "elapsed_s": 10.0, "expected": {"predicted_s": 9}}, 30.0),
        ({"done": 1, "total": 4, "elapsed_s": 10.0, "expected": None}, 30.0),
        ({"done": 0, "total": 4, "elapsed_s": 10.0}, None),
        ({"done": 4, "total": 4, "elapsed_s": 10.0}, None),
        ({"done": True, "total": 4, "elapsed_s": 10.0}, None),
        ({"done": 1, "total": 4}, None),
        ({}, None),
    ],
)
def test_what_is_left_is_an_estimate_or_unknown(content: dict[str, Any], left: float | None) -> None:
    assert left_s(content) == left


def test_heat_and_power_come_from_either_log() -> None:
    sysfs = json.dumps({"t": 1, "u": 2, "z": {"tj-thermal": 60632}, "p": {"VIN": 20970}})
    assert circumstances(TEGRASTATS) == {"tj_c": 71.659, "power_w": 20.97}
    assert circumstances(sysfs) == {"tj_c": 60.632, "power_w": 20.97}
    assert circumstances("") == circumstances("12 garbage") == circumstances('{"t": 1}') == {}


def test_a_progress_line_is_plain_and_cleaned() -> None:
    content = {
        "name": "needle-1040000-cold", "stage": "prefill\x1b[31m and answer", "prompt_tokens": 1040073,
        "prefill_tokens_estimate": 412160, "done": 0, "total": 1, "elapsed_s": 451.5,
    }  # fmt: skip
    line = progress_line(content, {"tj_c": 71.6, "power_w": 80.0})
    assert "\x1b" not in line
    assert line.startswith("needle-1040000-cold: prefill")
    assert line.endswith(
        "prefill 412,160 / 1,040,073 tokens 40 %, 7:31 elapsed, about 11:27 left, tj 71.6 C, power 80.0 W"
    )


@pytest.mark.parametrize(
    ("judgement", "words"),
    [
        ({"state": "stalled", "still_s": 312.4}, "stalled, nothing moved for 312 s"),
        ({"state": "dead", "still_s": 0.0}, "dead"),
        ({"state": "silent_but_moving", "still_s": 40.0}, None),
        (None, None),
        ("stalled", None),
    ],
)
def test_a_progress_line_says_that_an_engine_stands_still(judgement: Any, words: str | None) -> None:
    line = progress_line({"name": "n", "elapsed_s": 10.0, "judgement": judgement}, {})
    assert line == (f"n: {words}, 0:10 elapsed" if words else "n: 0:10 elapsed")
