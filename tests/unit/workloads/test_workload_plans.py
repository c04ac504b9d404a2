# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError
from ansible_collections.lobes.spike.plugins.module_utils.workloads import plans

NEEDLE = {"prompt_tokens": 1000, "secret": "S-1", "statement": "It is {secret}.", "question": "Which?"}
SWEEP = {"prompt": "Write."}
AGENTIC = {"system_prompt": "Act."}
DECODE = {"prompt": "Write."}
PROBE = {"name": "sum", "prompt": "17+25?", "expect": []}


@pytest.mark.parametrize(
    ("plan", "good", "bad", "field"),
    [
        (plans.SweepPlan, SWEEP, {"concurrency": [1, -2]}, "concurrency"),
        (plans.SweepPlan, SWEEP, {"concurrency": [0]}, "concurrency"),
        (plans.SweepPlan, SWEEP, {"concurrency": []}, "concurrency"),
        (plans.SweepPlan, SWEEP, {"concurrency": [True]}, "concurrency"),
        (plans.SweepPlan, SWEEP, {"concurrency": "4"}, "concurrency"),
        (plans.SweepPlan, SWEEP, {"concurrency": [2, 2]}, "concurrency"),
        (plans.SweepPlan, SWEEP, {"max_tokens": 0}, "max_tokens"),
        (plans.SweepPlan, SWEEP, {"concurrency": [8], "requests_per_level": 4}, "requests_per_level"),
        (plans.SweepPlan, SWEEP, {"arrival_rates": [1.0]}, "requests_per_level"),
        (plans.SweepPlan, SWEEP, {"arrival_rates": [0.0], "requests_per_level": 4}, "arrival_rates"),
        (plans.SweepPlan, SWEEP, {"repeats": 0}, "repeats"),
        (plans.SweepPlan, SWEEP, {"prompt": "  "}, "prompt"),
        (plans.SweepPlan, SWEEP, {"goodput_ttft_s": -1.0}, "goodput_ttft_s"),
        (plans.NeedlePlan, NEEDLE, {"depth": 100}, "depth"),
        (plans.NeedlePlan, NEEDLE, {"depth": -1}, "depth"),
        (plans.NeedlePlan, NEEDLE, {"depth": float("nan")}, "depth"),
        (plans.NeedlePlan, NEEDLE, {"prompt_tokens": 0}, "prompt_tokens"),
        (plans.NeedlePlan, NEEDLE, {"prompt_tokens": None}, "prompt_tokens"),
        (plans.NeedlePlan, NEEDLE, {"forced_tokens": -1}, "forced_tokens"),
        (plans.NeedlePlan, NEEDLE, {"expect": "lukewarm"}, "expect"),
        (plans.NeedlePlan, NEEDLE, {"statement": "no place"}, "statement"),
        (plans.NeedlePlan, NEEDLE, {"question": "Is it S-1?"}, "question"),
        (plans.DecodePlan, DECODE, {"runs": 0}, "runs"),
        (plans.DecodePlan, DECODE, {"max_tokens": -5}, "max_tokens"),
        (plans.DecodePlan, DECODE, {"name": "../x"}, "name"),
        (plans.AgenticPlan, AGENTIC, {"sessions": 0}, "sessions"),
        (plans.AgenticPlan, AGENTIC, {"turns": 0}, "turns"),
        (plans.ProbePlan, PROBE, {"messages": [{"role": "user", "content": "x"}]}, "prompt"),
        (plans.ProbePlan, PROBE, {"prompt": None}, "prompt"),
        (plans.ProbePlan, PROBE, {"prompt": None, "messages": []}, "messages"),
        (plans.ProbePlan, PROBE, {"prompt": None, "messages": [{"role": "user"}]}, "messages[0]"),
        (plans.ProbePlan, PROBE, {"temperature": 3}, "temperature"),
        (plans.ProbePlan, PROBE, {"tool_choice": "auto"}, "tool_choice"),
        (plans.CalibratePlan, {"rates_hz": []}, {"concurrency": []}, "concurrency"),
    ],
)
def test_a_bad_plan_names_field_value_and_remedy(
    plan: Any, good: dict[str, Any], bad: dict[str, Any], field: str
) -> None:
    if plan is not plans.CalibratePlan:
        plan.from_options(good)
    with pytest.raises(PlanError) as caught:
        plan.from_options({**good, **bad})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert caught.value.remedy.endswith(".") or caught.value.remedy.endswith(":")


@pytest.mark.parametrize(("given", "percent"), [(37, 37.0), (0.37, 37.0), (0, 0.0), (1, 1.0), (99.5, 99.5)])
def test_depth_is_percent_and_a_share_is_understood(given: float, percent: float) -> None:
    assert plans.NeedlePlan.from_options({**NEEDLE, "depth": given}).depth == percent


@pytest.mark.parametrize("key", sorted(plans.RESERVED_BODY))
def test_extra_body_may_not_contradict_the_phase(key: str) -> None:
    with pytest.raises(PlanError, match=f"extra_body.{key}"):
        plans.Common.from_options({"extra_body": {key: 1}})


@pytest.mark.parametrize("field", ["request_timeout_s", "stall_time_limit_s", "active_model_bytes"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), "x", True])
def test_a_limit_is_above_zero_or_absent(field: str, value: object) -> None:
    assert getattr(plans.Common.from_options({}), field) is None
    with pytest.raises(PlanError, match=field):
        plans.Common.from_options({field: value})


def test_a_target_beyond_the_window_says_how_much_fits() -> None:
    plans.fits("prompt_tokens", 1_000, 24, 1_024)
    plans.fits("prompt_tokens", 10**9, 24, None)
    with pytest.raises(PlanError, match="Ask for at most 1000"):
        plans.fits("prompt_tokens", 1_001, 24, 1_024)


def test_the_plan_in_the_document_is_plain_and_complete() -> None:
    common = plans.Common.from_options({"model": "m", "extra_body": {"seed": 4}})
    body = plans.plan_json(plans.SweepPlan.from_options({**SWEEP, "concurrency": [1, 2]}), common)
    assert body["concurrency"] == [1, 2]
    assert (body["model"], body["extra_body"]) == ("m", {"seed": 4})
    assert "endpoint" not in body
