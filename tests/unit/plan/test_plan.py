# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.plan import (
    PlanRefused,
    choose_id,
    command_line,
    is_digest_reference,
    make_plan,
    merged_args,
    models_of,
    tokens,
)

DIGEST = "vllm/vllm-openai@sha256:" + "a" * 64
NOW = datetime.datetime(2026, 9, 13, 21, 40, tzinfo=datetime.timezone.utc)


def asked(**changes):
    plan = {
        "name": "lightning",
        "image": DIGEST,
        "model": "owner/model",
        "model_revision": "bee7596271d1",
        "port": 8090,
        "recipe": {"gpu-memory-utilization": 0.7, "trust-remote-code": True},
        "known_arms": [
            {"name": "B", "args": {"max-model-len": 1048576}},
            {
                "name": "C",
                "args": {"max_model_len": "1M", "trust-remote-code": None},
                "results_dir": "results-c",
                "drafter": {"model": "owner/drafter", "revision": None},
            },
        ],
        "workloads": {"needles": [{"prompt_tokens": 1040000, "forced_tokens": 256}]},
    }
    plan.update(changes)
    return plan


def refusals(**changes):
    with pytest.raises(PlanRefused) as refused:
        make_plan(asked(**changes), "thor", NOW, {})
    return refused.value.problems


def test_a_plan_has_the_spikes_id_and_the_merged_flags():
    plan = make_plan(asked(), "thor", NOW, {})
    assert plan["spike_id"] == "2026-09-13-lightning-thor"
    assert [arm["name"] for arm in plan["arms"]] == ["B", "C"]
    assert plan["arms"][0]["args"] == {
        "gpu-memory-utilization": 0.7,
        "trust-remote-code": True,
        "max-model-len": 1048576,
    }
    assert "trust-remote-code" not in plan["arms"][1]["args"]
    assert plan["arms"][1]["results_dir"] == "results-c"


def test_only_an_arm_that_speculates_is_asked_how_well():
    arms = [{"name": "B"}, {"name": "C", "args": {"speculative-config": {"method": "ngram"}}}, {"name": "D"}]
    arms[2]["args"] = {"speculative_config.method": "dspark"}
    plan = make_plan(
        asked(known_arms=arms, instrument_flags={"per-request-spec-decode-metrics": "summary"}), "t", NOW, {}
    )
    assert ["per-request-spec-decode-metrics" in arm["args"] for arm in plan["arms"]] == [False, True, True]


@pytest.mark.parametrize("selection", ["C", ["C"], " C ,"])
def test_arms_are_chosen_by_name(selection):
    assert [arm["name"] for arm in make_plan(asked(arms=selection), "thor", NOW, {})["arms"]] == ["C"]


def test_unknown_names_list_the_known_ones():
    assert refusals(arms="B,X", phases="probes,prefill") == [
        'spike_arms is "X": unknown name; known: B, C',
        'spike_phases is "prefill": unknown name; known: calibrate, probes, decode, needle, sweep, agentic',
    ]


def test_phases_keep_their_order_and_an_arm_may_have_fewer():
    arms = [{"name": "A", "args": {}, "phases": ["decode", "probes"]}]
    plan = make_plan(asked(known_arms=arms, phases="needle,decode,probes"), "thor", NOW, {})
    assert plan["phases"] == ["probes", "decode", "needle"]
    assert plan["arms"][0]["phases"] == ["probes", "decode"]


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai:v0.29.0",
        "vllm/vllm-openai",
        "vllm/vllm-openai@sha256:abc",
        DIGEST + "0",
        DIGEST.upper(),
        None,
        3,
    ],
)
def test_an_image_without_its_full_digest_is_refused(image):
    assert not is_digest_reference(image)
    (problem,) = refusals(image=image)
    assert problem.startswith("spike_image is ")
    assert "repository@sha256:<64 hex digits>" in problem


def test_every_fault_is_told_at_once():
    problems = refusals(image="x:latest", model="", model_revision="main", port=0, name="a b")
    assert [problem.split(" is ")[0] for problem in problems] == [
        "spike_name",
        "spike_image",
        "spike_model",
        "spike_model_revision",
        "spike_port",
    ]


def test_a_needle_beyond_the_window_is_refused_and_one_that_fits_is_not():
    arms = [{"name": "A", "args": {"max-model-len": 128000}}]
    (problem,) = refusals(known_arms=arms, workloads={"needles": [{"prompt_tokens": 128000, "forced_tokens": 256}]})
    assert "spike_known_arms[0] (A).workloads.needles[0].prompt_tokens is 128000" in problem
    make_plan(
        asked(known_arms=arms, workloads={"needles": [{"prompt_tokens": 127744, "forced_tokens": 256}]}), "t", NOW, {}
    )
    make_plan(asked(known_arms=arms, phases="probes"), "t", NOW, {})


def test_a_server_that_is_there_brings_its_own_image_model_and_port():
    plan = make_plan(
        asked(endpoint="http://127.0.0.1:8000", image=None, model=None, model_revision=None, port=None), "t", NOW, {}
    )
    assert plan["endpoint"] == "http://127.0.0.1:8000"
    assert plan["image"] is None
    assert models_of(plan) == []
    (problem,) = refusals(endpoint="127.0.0.1:8000")
    assert problem.startswith('spike_endpoint is "127.0.0.1:8000"')


def test_two_arms_of_one_name_are_refused():
    assert any("two arms bear this name" in problem for problem in refusals(known_arms=[{"name": "B"}, {"name": "B"}]))


def test_an_arms_workloads_replace_the_common_ones_one_by_one():
    arms = [{"name": "A", "workloads": {"needles": []}}]
    plan = make_plan(
        asked(known_arms=arms, workloads={"needles": [{"prompt_tokens": 5}], "sweep": {"concurrency": [1]}}),
        "t",
        NOW,
        {},
    )
    assert plan["arms"][0]["workloads"] == {"sweep": {"concurrency": [1]}}


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ({}, ("id", False)),
        ({"id": False}, ("id", True)),
        ({"id": True}, ("id.2", False)),
        ({"id": True, "id.2": False}, ("id.2", True)),
        ({"id": True, "id.2": True}, ("id.3", False)),
    ],
)
def test_an_unfinished_spike_is_gone_on_with_and_a_finished_one_is_not(taken, expected):
    assert choose_id("id", taken) == expected


def test_flags_become_an_argument_vector():
    args = merged_args(
        {"a": 1, "b": True, "gone": True}, {"b": False, "gone": None}, {"--spec_config": {"y": 2, "x": "1"}}
    )
    assert command_line(args) == ["--a", "1", "--spec-config", '{"x":"1","y":2}']
    assert command_line({"lora": ["a=b", "c=d"], "on": True}) == ["--lora", "a=b", "c=d", "--on"]


@pytest.mark.parametrize(
    ("text", "value"),
    [(5, 5), ("1M", 1048576), ("1m", 10**6), ("128k", 128000), ("1.5K", 1536), ("x", None), (True, None)],
)
def test_token_counts_are_read_as_the_engine_does(text, value):
    assert tokens(text) == value


def test_a_drafter_is_a_checkpoint_too_and_named_once():
    plan = make_plan(
        asked(known_arms=[{"name": n, "drafter": {"model": "o/d", "revision": None}} for n in "CD"]), "t", NOW, {}
    )
    assert models_of(plan) == [
        {"role": "model", "model": "owner/model", "revision": "bee7596271d1"},
        {"role": "drafter", "model": "o/d", "revision": None},
    ]


def test_phases_to_measure_again_are_known_names_or_all():
    assert make_plan(asked(remeasure="needle,probes"), "thor", NOW, {})["remeasure"] == ["probes", "needle"]
    assert len(make_plan(asked(remeasure="all"), "thor", NOW, {})["remeasure"]) == 6
    assert make_plan(asked(remeasure=[]), "thor", NOW, {})["remeasure"] == []
    assert refusals(remeasure="needles") == [
        'spike_remeasure is "needles": unknown name; known: calibrate, probes, decode, needle, sweep, agentic'
    ]


def test_an_arm_s_fingerprint_changes_with_all_that_its_figures_depend_on():
    def shas(**changed):
        return [arm["sha256"] for arm in make_plan(asked(**changed), "thor", NOW, {})["arms"]]

    base = shas()
    assert shas(evidence_dir="elsewhere", undecided=["x"]) == base
    assert len({*base, *shas(model_revision="0" * 40)}) == 2 * len(base)
    assert len({*base, *shas(workloads={"decode": [{"name": "x"}]})}) == 2 * len(base)


def test_a_night_s_spike_is_gone_on_with_the_day_after():
    yesterday = f"{NOW - datetime.timedelta(days=1):%Y-%m-%d}-lightning-thor"
    today = f"{NOW:%Y-%m-%d}-lightning-thor"
    assert make_plan(asked(name="lightning"), "thor", NOW, {yesterday: False})["spike_id"] == yesterday
    assert make_plan(asked(name="lightning"), "thor", NOW, {yesterday: True})["spike_id"] == today
    both = {yesterday: False, today: True}
    assert make_plan(asked(name="lightning"), "thor", NOW, both)["spike_id"] == f"{today}.2"


def test_an_arm_s_environment_is_in_the_plan_by_name_only():
    arms = [{"name": "B", "env": {"HF_TOKEN": "canary-1", "A": "x"}}]
    plan = make_plan(asked(known_arms=arms), "thor", NOW, {})
    assert plan["arms"][0]["env_names"] == ["A", "HF_TOKEN"]
    assert "canary-1" not in str(plan)


@pytest.mark.parametrize("flag", ["api-key", "api_key", "hf-token"])
def test_a_secret_among_the_arguments_is_refused_and_not_shown(flag):
    (problem,) = refusals(known_arms=[{"name": "B", "args": {flag: "canary-2"}}])
    assert "a secret is no argument" in problem
    assert "canary-2" not in problem
