"""The verdict on a reply: every operator, every kind of value, and every way to write a bad expectation."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError
from ansible_collections.lobes.spike.plugins.plugin_utils import expectations
from ansible_collections.lobes.spike.plugins.plugin_utils.expectations import compile_expectations, judge

REPLY: dict[str, Any] = {
    "content": "It arrives at 15:40.\n",
    "reasoning": None,
    "finish_reason": "tool_calls",
    "tool_calls": [
        {
            "id": "c1",
            "name": "get_weather",
            "arguments": '{"city": "Tel Aviv", "unit": "c", "days": 2, "deep": {"a": 1, "b": 2}}',
        },
        {"id": "c2", "name": "broken", "arguments": '{"city": '},
    ],
}


@pytest.mark.parametrize(
    ("expectation", "passed"),
    [
        ({"query": "finish_reason", "equals": "tool_calls"}, True),
        ({"query": "finish_reason", "equals": "stop"}, False),
        ({"query": "content", "matches": r"\b15:40\b"}, True),
        ({"query": "content", "matches": r"^15:40"}, False),
        ({"query": "content", "contains": "15:40"}, True),
        ({"query": "content", "contains": 15}, False),
        ({"query": "length(tool_calls)", "equals": 2}, True),
        ({"query": "tool_calls[0].arguments.days", "equals": 2.0}, True),
        ({"query": "tool_calls[0].arguments", "contains": {"city": "Tel Aviv", "deep": {"b": 2}}}, True),
        ({"query": "tool_calls[0].arguments", "contains": {"city": "Tel Aviv", "deep": {"b": 3}}}, False),
        ({"query": "tool_calls[0].arguments", "equals": {"city": "Tel Aviv"}}, False),
        ({"query": "tool_calls[].name", "contains": "broken"}, True),
        ({"query": "tool_calls[].name", "contains": "brok"}, False),
        ({"query": "tool_calls[1].arguments", "equals": '{"city": '}, True),
        ({"query": "reasoning", "equals": None}, True),
        ({"query": "reasoning", "matches": "x"}, False),
        ({"query": "absent.member", "contains": "x"}, False),
        ({"query": "length(reasoning)", "equals": 0}, False),
    ],
)
def test_one_expectation(expectation: dict[str, Any], passed: bool) -> None:
    assert judge(REPLY, [expectation]).passed is passed


def test_true_is_not_one() -> None:
    reply = {"content": True, "tool_calls": []}
    assert not judge(reply, [{"query": "content", "equals": 1}]).passed
    assert not judge({"content": 1}, [{"query": "content", "equals": True}]).passed
    assert judge(reply, [{"query": "content", "equals": True}]).passed


def test_the_failed_expectation_names_what_was_found() -> None:
    verdict = judge(
        REPLY,
        [{"query": "finish_reason", "equals": "tool_calls"}, {"query": "tool_calls[0].name", "equals": "get_time"}],
    )
    assert not verdict.passed
    assert [check.passed for check in verdict.checks] == [True, False]
    assert verdict.failed_expectation == {"query": "tool_calls[0].name", "equals": "get_time", "found": "get_weather"}


def test_a_query_that_does_not_apply_is_a_failed_check_with_a_note() -> None:
    verdict = judge(REPLY, [{"query": "length(reasoning)", "equals": 0}])
    assert verdict.failed_expectation is not None
    assert "does not apply" in verdict.failed_expectation["note"]


def test_deeply_nested_arguments_stay_text() -> None:
    reply = {"tool_calls": [{"name": "x", "arguments": "[" * 200_000}]}
    assert judge(reply, [{"query": "tool_calls[0].name", "equals": "x"}]).passed


def test_compiled_expectations_judge_like_raw_ones() -> None:
    raw = [{"query": "content", "contains": "15:40"}]
    compiled = judge(REPLY, compile_expectations(raw))
    assert [check.to_json() for check in compiled.checks] == [check.to_json() for check in judge(REPLY, raw).checks]


@pytest.mark.parametrize(
    ("expect", "field", "said"),
    [
        (None, "expect", "Write a list"),
        ("content", "expect", "Write a list"),
        ([], "expect", "at least one"),
        (["content"], "expect[0]", "Write {query"),
        ([{"query": "content"}], "expect[0]", "exactly one"),
        ([{"query": "content", "equals": 1, "contains": 1}], "expect[0]", "exactly one"),
        ([{"query": "content", "equal": 1}], "expect[0]", "exactly one"),
        ([{"equals": 1}], "expect[0].query", "JMESPath expression such as"),
        ([{"query": "content", "equals": 1}, {"query": "a[", "equals": 1}], "expect[1].query", "not a JMESPath"),
        ([{"query": "lenght(content)", "equals": 1}], "expect[0].query", "no JMESPath function 'lenght'"),
        ([{"query": "content", "matches": "("}], "expect[0].matches", "not a regular expression"),
        ([{"query": "content", "matches": 42}], "expect[0].matches", "as a string"),
    ],
)
def test_a_bad_expectation_is_a_plan_error_that_names_its_field(expect: object, field: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        compile_expectations(expect)
    assert caught.value.field == field
    assert said in str(caught.value)


def test_without_jmespath_there_is_no_verdict_and_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "jmespath", None)
    with pytest.raises(SpikeError, match="install jmespath"):
        judge(REPLY, [{"query": "content", "contains": "15:40"}])
