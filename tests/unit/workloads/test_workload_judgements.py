# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client import Sample
from ansible_collections.lobes.spike.plugins.module_utils.workloads import agent, checks, stats, witnesses
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import AgenticPlan, Common


def sample(**changes: Any) -> Sample:
    made = Sample("one", status="ok", finish_reason="length", completion_tokens=100, prompt_tokens=10, model="m")
    made.t0_ns, made.ttft_s, made.upload_s, made.end_s, made.first_event_tokens = 0, 0.1, 0.0, 1.1, 1
    made.events = [(100_000_000 + i * 10_000_000, i + 1) for i in range(100)]
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def names(found: list[dict[str, Any]]) -> list[str]:
    return [check["check"] for check in found if check["ok"] is False]


# --- was it done as asked? ----


def test_nothing_to_say_about_a_sample_that_is_as_asked() -> None:
    assert names(checks.asked_and_got(sample(), model="m", forced_tokens=100, thinking=False)) == []
    assert checks.asked_and_got(sample(status="failed"), model="m", forced_tokens=100, thinking=False) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"completion_tokens": 40, "finish_reason": "stop"}, "forced_tokens"),
        ({"finish_reason": "stop"}, "forced_tokens"),
        ({"reasoning": "Hm.", "reasoning_field": "reasoning"}, "thinking_off"),
        ({"text": "<think>Hm.</think>42"}, "thinking_off"),
        ({"text": "Hm.</think>42"}, "thinking_off"),
        ({"reasoning_tokens": 5}, "thinking_off"),
        ({"model": "other"}, "model"),
    ],
)
def test_what_was_not_done_as_asked_is_named(changes: dict[str, Any], what: str) -> None:
    found = checks.asked_and_got(sample(**changes), model="m", forced_tokens=100, thinking=False)
    assert names(found) == [what]
    assert checks.failed_checks(found)[0].startswith("one: ")


def test_an_unknown_token_count_is_neither_right_nor_wrong() -> None:
    found = checks.asked_and_got(sample(completion_tokens=None), model="m", forced_tokens=100, thinking=None)
    assert [check["ok"] for check in found] == [None, True]


@pytest.mark.parametrize(
    ("content", "answer", "thinking"),
    [
        ("42", "42", ""),
        ("<think>17+25</think>\n42", "42", "17+25"),
        ("<think>it never ends 42", "", "it never ends 42"),
        ("17+25 is </think> 42", "42", "17+25 is"),
        ("<think>a</think>x<think>b</think>y", "xy", "a\nb"),
        ("", "", ""),
    ],
)
def test_thinking_is_no_answer(content: str, answer: str, thinking: str) -> None:
    assert checks.split_thinking(content) == (answer, thinking)


def test_a_rate_above_the_memory_bound_is_flagged_unless_speculation_explains_it() -> None:
    common = Common.from_options({"active_model_bytes": 3e9, "memory_bandwidth_bytes_s": 240e9})
    assert names(checks.plausible(sample(), common, None, None)) == ["plausible"]
    assert names(checks.plausible(sample(), common, 2.0, None)) == []
    assert names(checks.plausible(sample(), Common.from_options({}), None, None)) == []
    assert names(checks.plausible(sample(), Common.from_options({}), None, 79)) == ["plausible"]
    assert names(checks.plausible(sample(), Common.from_options({}), None, 81)) == []


def test_degenerate_text_is_seen() -> None:
    assert checks.repetitive("and so on and on " * 30)
    assert not checks.repetitive(" ".join(f"word{i}" for i in range(100)))
    assert not checks.repetitive("no no no no")


# --- witnesses ----


def moved(**values: Any) -> dict[str, Any]:
    return {"restarted": False, "requests_finished": {"length": 1.0}, **values}


def test_witnesses_that_agree_say_nothing() -> None:
    deltas = moved(generation_tokens=100.0, prompt_tokens=10.0, ttft_s_sum=0.0985, ttft_s_count=1.0)
    assert witnesses.counters([sample()], deltas, "run-1") == []
    assert witnesses.counters([sample()], None, "run-1") == []
    assert witnesses.per_request(sample()) == []
    own = {"time_to_first_token_ms": 90.0, "queue_time_ms": 8.0, "generation_time_ms": 1000.0}
    assert witnesses.per_request(sample(engine_metrics=own)) == []


@pytest.mark.parametrize(
    ("deltas", "what"),
    [
        (moved(generation_tokens=101.0), "generation_tokens"),
        (moved(prompt_tokens=9.0), "prompt_tokens"),
        (moved(ttft_s_sum=0.08, ttft_s_count=1.0), "ttft_s"),
        (moved(decode_s_sum=0.5, decode_s_count=1.0), "decode_s"),
        ({**moved(generation_tokens=900.0), "requests_finished": {"length": 3.0}}, "requests"),
        ({"restarted": True}, "engine"),
    ],
)
def test_a_difference_beyond_the_stated_error_is_named(deltas: dict[str, Any], what: str) -> None:
    found = witnesses.counters([sample()], deltas, "run-1")
    assert [entry["what"] for entry in found] == [what]
    assert found[0]["label"] == "run-1"


def test_absent_counters_are_not_zero() -> None:
    assert witnesses.counters([sample()], moved(generation_tokens=None, prompt_tokens=None), "run-1") == []
    assert witnesses.counters([sample(completion_tokens=None)], moved(generation_tokens=5.0), "run-1") == []


@pytest.mark.parametrize("value", ["90", None, True, float("nan"), -1, [1]])
def test_an_engine_that_sends_nonsense_is_no_witness(value: object) -> None:
    assert witnesses.per_request(sample(engine_metrics={"time_to_first_token_ms": value})) == []


def test_the_engines_own_figure_that_differs_is_named() -> None:
    own = {"time_to_first_token_ms": 10.0, "generation_time_ms": 2000.0}
    assert [e["what"] for e in witnesses.per_request(sample(engine_metrics=own))] == ["ttft_s", "generation_s"]


# --- statistics ----


def test_the_interval_is_students() -> None:
    found = stats.interval95([79.25, 78.72, 78.73])
    assert found["mean"] == pytest.approx(78.9)
    assert found["half_width"] == pytest.approx(4.303 * 0.30315 / 3**0.5, rel=1e-3)
    assert stats.interval95([1.0])["half_width"] is None
    assert stats.interval95([])["mean"] is None
    assert stats.t95(30) == 2.042
    assert stats.t95(60) == pytest.approx(2.000, abs=0.002)
    assert stats.t95(1000) == pytest.approx(1.962, abs=0.001)


def level(n: int, rate: float | None, failed: int = 0) -> dict[str, Any]:
    return {"concurrency": n, "aggregate_tok_s": rate, "failed": failed}


def test_the_seeds_sweep_has_no_knee() -> None:
    rates = [76.2, 108.5, 158.3, 267.1, 370.7, 541.0]
    found = stats.knee([level(2**i, rate) for i, rate in enumerate(rates)])
    assert found["concurrency"] is None
    assert found["reason"] == "no knee up to 32 requests at once"
    assert len(found["slopes"]) == 5


def test_a_knee_is_found_where_it_is() -> None:
    flat = [level(1, 100), level(2, 190), level(4, 360), level(8, 370), level(16, 365)]
    assert stats.knee(flat)["concurrency"] == 4
    dip = [level(1, 100), level(2, 101), level(4, 200), level(8, 400)]
    assert stats.knee(dip)["concurrency"] is None
    assert stats.knee([level(1, 100), level(2, 100)])["concurrency"] is None
    assert "too few" in stats.knee([level(1, 100), level(2, None), level(4, 100, failed=1)])["reason"]


# --- agents ----


def call(name: str | None, arguments: str | None) -> dict[str, Any]:
    return {"id": "c", "name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"tool_calls": [call("read_file", '{"path": "a/b.py"}')]}, "valid"),
        ({"tool_calls": [call("read_file", '{"path": "a/c.py"}')]}, "wrong_path"),
        ({"tool_calls": [call("read_file", '{"path": "./a/b.py"}')]}, "wrong_path"),
        ({"tool_calls": [call("finish", '{"early": 1}')]}, "wrong_tool"),
        ({"tool_calls": [call(None, "{}")]}, "wrong_tool"),
        ({"tool_calls": [call("read_file", '{"path": "a/b')]}, "malformed_arguments"),
        ({"tool_calls": [call("read_file", None)]}, "malformed_arguments"),
        ({"tool_calls": [call("read_file", '["a/b.py"]')]}, "malformed_arguments"),
        ({"tool_calls": [call("read_file", '{"path": 7}')]}, "malformed_arguments"),
        ({"tool_calls": [call("read_file", '{"path": "a/b.py", "x": 1}')]}, "malformed_arguments"),
        ({"tool_calls": [call("read_file", "{}"), call("read_file", "{}")]}, "several_calls"),
        ({"text": "I would read a/b.py"}, "text_instead"),
        ({"text": "<think>read a/b.py</think>"}, "no_call"),
        ({"reasoning": "hm"}, "no_call"),
    ],
)
def test_each_way_of_going_wrong_has_its_name(changes: dict[str, Any], verdict: str) -> None:
    assert agent.judge_read(sample(**changes), "a/b.py").name == verdict


def script(turns: int = 12) -> agent.Script:
    plan = AgenticPlan.from_options({"system_prompt": "Act.", "turns": turns, "tool_result_tokens": 800})
    return agent.script(plan, "salt", 1, 8.0)


def test_the_facts_asked_for_are_first_past_middle_and_last() -> None:
    made = script()
    assert [file.path for file in made.asked_for().values()] == [made.files[i].path for i in (0, 6, 11)]
    assert script(1).asked_for()["late"] == script(1).files[0]


def test_each_file_states_one_budget_and_all_differ() -> None:
    made = script()
    assert len({file.budget for file in made.files}) == len({file.path for file in made.files}) == 12
    for file in made.files:
        assert file.content.count("RETRY_BUDGET") == 1
        assert f"RETRY_BUDGET = {file.budget} " in file.content
    places = [file.at for file in made.files]
    assert min(places) < 0.3
    assert max(places) > 0.7


def test_recall_counts_each_fact() -> None:
    made = script()
    early, middle, late = (file.budget for file in made.asked_for().values())
    arguments = f'{{"early": {early}, "middle": {middle + 1}, "late": "{late}"}}'
    verdict, recall = agent.judge_finish(sample(tool_calls=[call("finish", arguments)]), made)
    assert [fact["passed"] for fact in recall.values()] == [True, False, False]
    assert verdict.name == "malformed_arguments"
    verdict, recall = agent.judge_finish(sample(text="417"), made)
    assert verdict.name == "text_instead"
    assert not any(fact["passed"] for fact in recall.values())


def test_true_is_not_the_number_one() -> None:
    made = agent.Script(1, "t", (agent.File("a", "", 1, 0.5),))
    recall = agent.judge_finish(sample(tool_calls=[call("finish", '{"early": true, "middle": 1, "late": 1}')]), made)[1]
    assert [fact["passed"] for fact in recall.values()] == [False, True, True]


def test_many_differences_are_one_sentence_each_kind() -> None:
    late = [sample(label=f"s{i}", ttft_s=0.1 + i / 100) for i in range(5)]
    for one in late:
        one.engine_metrics = {"time_to_first_token_ms": 90.0}
    found = [entry for one in late for entry in witnesses.per_request(one)]
    found += witnesses.counters([sample()], moved(prompt_tokens=9.0), "run-1")
    words = witnesses.in_words(found)
    assert len(found) == 6
    assert len(words) == 2
    assert words[0].startswith("witnesses differ on ttft_s in 5 places, most in s4: ")
    assert words[1].startswith("witnesses differ on prompt_tokens in run-1: ")
    assert witnesses.in_words([]) == []
