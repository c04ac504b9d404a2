# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results import progress
from ansible_collections.lobes.spike.plugins.module_utils.workloads import (
    agentic,
    calibrate,
    decode,
    needle,
    plans,
    probe,
    sweep,
)
from fake_engine import FakeEngine, Reply

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs/schema/result.schema.json").read_text())
NEEDLE = {
    "prompt_tokens": 4000, "secret": "MAROON-4817", "statement": "The code is {secret}.", "question": "Which code?",
    "forced_tokens": 70,
}  # fmt: skip


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with FakeEngine() as started:
        yield started


def common(engine: FakeEngine | str, path: Path | None = None, **options: Any) -> plans.Common:
    base = engine if isinstance(engine, str) else engine.base
    chosen = {"endpoint": base, "results_path": None if path is None else str(path)}
    return plans.Common.from_options({**chosen, "context": {"boot_id": "abc@1"}, **options})


def run_decode(engine: FakeEngine | str, path: Path | None = None, **options: Any) -> dict[str, Any]:
    base = {"prompt": "Write about the sea.", "max_tokens": 80, "runs": 3}
    shared = {k: options.pop(k) for k in list(options) if k in plans.Common.__dataclass_fields__}
    plan = plans.DecodePlan.from_options({**base, **options})
    return checked(decode.run(plan, common(engine, path, **shared)))


def run_needle(engine: FakeEngine | str, path: Path | None = None, **options: Any) -> dict[str, Any]:
    shared = {k: options.pop(k) for k in list(options) if k in plans.Common.__dataclass_fields__}
    return checked(needle.run(plans.NeedlePlan.from_options({**NEEDLE, **options}), common(engine, path, **shared)))


def run_sweep(engine: FakeEngine | str, path: Path | None = None, **options: Any) -> dict[str, Any]:
    plan = plans.SweepPlan.from_options({"prompt": "Write.", "max_tokens": 64, **options})
    return checked(sweep.run(plan, common(engine, path)))


def run_agentic(engine: FakeEngine | str, path: Path | None = None, **options: Any) -> dict[str, Any]:
    base = {"system_prompt": "Use your tools.", "turns": 4, "tool_result_tokens": 600}
    return checked(agentic.run(plans.AgenticPlan.from_options({**base, **options}), common(engine, path)))


def run_probe(engine: FakeEngine | str, path: Path | None = None, **options: Any) -> dict[str, Any]:
    plan = plans.ProbePlan.from_options({"name": "sum", "prompt": "17 + 25?", "expect": [], **options})
    return checked(probe.run(plan, common(engine, path)))


def checked(result: dict[str, Any]) -> dict[str, Any]:
    """Every result follows the schema, on disk where it was written, and nothing of the run is left behind."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    assert [error.message for error in validator.iter_errors(result["result"])] == []
    if result["results_path"]:
        path = Path(result["results_path"])
        assert [error.message for error in validator.iter_errors(json.loads(path.read_text()))] == []
        assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith(path.name)] == [path.name]
    return result


def agent_answers(body: dict[str, Any]) -> Reply:
    """A model that does everything right."""
    asked = body["messages"][-1]["content"]
    if asked.startswith("Read the file"):
        return Reply(calls=[("read_file", json.dumps({"path": asked.split()[3]}))])
    text = "\n".join(str(message["content"]) for message in body["messages"])
    facts = {}
    for when in ("early", "middle", "late"):
        path = re.search(rf"stated in (\S+) as {when}", asked).group(1)  # type: ignore[union-attr]
        facts[when] = int(re.search(rf"# {re.escape(path)}\n.*?RETRY_BUDGET = (\d+)", text, re.DOTALL).group(1))  # type: ignore[union-attr]
    return Reply(calls=[("finish", json.dumps(facts))])


# --- decode ----


def test_decode_forces_its_tokens_and_keeps_every_run(engine: FakeEngine, tmp_path: Path) -> None:
    engine.token_s = 0.001
    found = run_decode(engine, tmp_path / "d.json", runs=3, warmup_runs=1)
    assert (found["status"], found["ok"], found["failed_runs"], found["name"]) == ("complete", 3, 0, "decode-prose")
    assert found["completion_tokens"] == [80, 80, 80]
    assert all(0 < rate < 1000 for rate in found["decode_tok_s"])
    assert len(found["samples"]) == 3
    assert "events" not in found["samples"][0]
    body = engine.requests[-1]
    assert (body["min_tokens"], body["max_tokens"], body["ignore_eos"], body["temperature"]) == (80, 80, True, 0.0)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    # A warm-up with the measured prompt would fill the cache for it.
    assert engine.requests[0]["messages"] != body["messages"]
    assert len(engine.requests) == 4
    on_disk = json.loads((tmp_path / "d.json").read_text())
    assert len(on_disk["samples"][0]["events"]["t_us"]) == 80
    assert on_disk["context"] == {"boot_id": "abc@1"}
    assert on_disk["window"]["start_monotonic_ns"] <= on_disk["samples"][0]["t0_ns"]


def test_a_short_or_unforced_answer_has_no_decode_figure(engine: FakeEngine) -> None:
    assert run_decode(engine, max_tokens=10)["decode_tok_s"] == [None, None, None]
    found = run_decode(engine, forced=False)
    assert found["decode_tok_s"] == [None] * 3
    assert "not forced" in found["samples"][0]["decode_invalid_reason"]


def test_an_engine_that_ignores_what_was_forced_is_named(engine: FakeEngine) -> None:
    engine.forces = False
    found = run_decode(engine, runs=1)
    assert found["decode_tok_s"] == [None]
    assert any("does not honour min_tokens" in note for note in found["result"]["notes"])


def test_tokens_in_one_event_are_counted_as_tokens(engine: FakeEngine, tmp_path: Path) -> None:
    engine.per_event, engine.token_s = 5, 0.002
    found = run_decode(engine, tmp_path / "d.json", runs=1)
    assert found["completion_tokens"] == [80]
    events = json.loads((tmp_path / "d.json").read_text())["samples"][0]["events"]
    assert events["tok"] == [5] * 16
    # 75 tokens after the first event's five, over the time between the first and the last event.
    assert found["decode_tok_s"][0] == pytest.approx(75 / (sum(events["t_us"][1:]) / 1e6), rel=1e-3)


def test_one_failure_leaves_the_others(engine: FakeEngine) -> None:
    turn = iter(range(10))
    engine.answer = lambda body: Reply(["x"], error_after=8) if next(turn) == 1 else Reply(["x"])
    found = run_decode(engine)
    assert (found["status"], found["ok"], found["failed_runs"]) == ("partial", 2, 1)
    assert [sample["status"] for sample in found["samples"]] == ["ok", "failed", "ok"]
    assert found["samples"][1]["error_kind"] == "server_error"
    assert "EngineCore died" in found["reason"]
    assert found["ttft_s"][1] is None


def test_a_server_that_is_not_there_gives_a_result_that_says_so(tmp_path: Path) -> None:
    found = run_decode("http://127.0.0.1:9", tmp_path / "d.json", runs=2)
    assert (found["status"], found["failed_runs"]) == ("failed", 2)
    assert [sample["error_kind"] for sample in found["samples"]] == ["connect_refused"] * 2
    assert "2 of 2 requests failed" in found["reason"]


def test_thinking_that_comes_though_it_is_off_is_named(engine: FakeEngine) -> None:
    engine.answer = lambda body: Reply(["x"], reasoning=["Let", "me", "see"])
    notes = run_decode(engine, runs=1)["result"]["notes"]
    assert any("thinking was asked to be off" in note for note in notes)


# --- what is refused before anything is sent ----


def test_a_model_that_is_not_served_is_refused(engine: FakeEngine) -> None:
    with pytest.raises(PlanError, match=r"model: 'other' cannot be used\. This server serves fake"):
        run_decode(engine, model="other")
    assert engine.requests == []


def test_a_server_without_a_model_list_needs_a_name(engine: FakeEngine) -> None:
    engine.models_status = 404
    with pytest.raises(PlanError, match="name the one to measure"):
        run_decode(engine)
    assert run_decode(engine, model="fake", runs=1)["status"] == "complete"


def test_what_does_not_fit_the_window_is_refused(engine: FakeEngine) -> None:
    engine.max_model_len = 4050
    with pytest.raises(PlanError) as caught:
        run_needle(engine)
    assert caught.value.field == "prompt_tokens"
    assert "Ask for at most 3980" in str(caught.value)
    with pytest.raises(PlanError, match="max_tokens"):
        run_decode(engine, max_tokens=4050)
    with pytest.raises(PlanError, match="turns"):
        run_agentic(engine, turns=12)
    with pytest.raises(PlanError, match="max_tokens"):
        run_sweep(engine, max_tokens=4050)
    assert engine.requests == []


def test_a_needle_smaller_than_its_question_leaves_an_earlier_result_alone(engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text("kept")
    with pytest.raises(PlanError, match="question alone takes"):
        run_needle(engine, tmp_path / "n.json", prompt_tokens=12)
    assert (tmp_path / "n.json").read_text() == "kept"


def test_a_key_is_read_from_a_file_and_never_shown(engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("canary-1234\n")
    found = run_decode(engine, tmp_path / "r" / "d.json", runs=1, api_key_file=str(tmp_path / "key"))
    assert "canary" not in json.dumps(found)
    assert "canary" not in (tmp_path / "r" / "d.json").read_text()
    with pytest.raises(PlanError, match="api_key_file"):
        run_decode(engine, api_key_file=str(tmp_path / "absent"))
    with pytest.raises(PlanError, match="api_key_env"):
        run_decode(engine, api_key_env="NO_SUCH_VARIABLE_HERE")


def test_a_null_takes_a_field_out(engine: FakeEngine) -> None:
    run_decode(engine, runs=1, extra_body={"chat_template_kwargs": None, "seed": 7})
    assert "chat_template_kwargs" not in engine.requests[0]
    assert engine.requests[0]["seed"] == 7


# --- needle ----


def test_cold_then_warm_by_the_engines_evidence(engine: FakeEngine, tmp_path: Path) -> None:
    engine.answer = lambda body: Reply(["MAROON-4817"])
    engine.token_s = 0.001
    cold = run_needle(engine, tmp_path / "c.json")
    assert (cold["passed"], cold["prompt_tokens"], cold["cache"]["state"]) == (True, 4000, "cold")
    assert cold["prefill_tok_s"] == pytest.approx(4000 / cold["ttft_s"])
    assert cold["decode_tok_s"] is not None
    warm = run_needle(engine, tmp_path / "w.json", expect="warm")
    assert (warm["cache"]["state"], warm["cache"]["as_expected"], warm["name"]) == ("warm", True, "needle-4000-warm")
    assert warm["prefill_tok_s"] is None
    assert "not cold" in warm["prefill_invalid_reason"]
    assert len((tmp_path / "w.json").read_bytes()) < 20_000


def test_a_warm_that_is_cold_says_so_out_loud(engine: FakeEngine) -> None:
    found = run_needle(engine, expect="warm")
    assert (found["cache"]["state"], found["cache"]["as_expected"]) == ("cold", False)
    assert any("was meant warm and was cold" in note for note in found["result"]["notes"])


def test_another_target_finds_nothing_of_the_first_in_the_cache(engine: FakeEngine) -> None:
    run_needle(engine)
    assert run_needle(engine, prompt_tokens=6000)["cache"]["state"] == "cold"


def test_counters_prove_it_where_usage_is_silent(engine: FakeEngine) -> None:
    engine.details = False
    found = run_needle(engine)
    assert found["cache"]["state"] == "cold"
    assert found["cache"]["evidence"]["source"] == "request_prefill_kv_computed_tokens"
    engine.count["running"] = 1.0
    assert run_needle(engine, expect="warm")["cache"]["state"] == "unproven"


def test_without_any_evidence_it_is_unproven(engine: FakeEngine) -> None:
    engine.details, engine.exports = False, False
    found = run_needle(engine)
    assert (found["cache"]["state"], found["cache"]["as_expected"]) == ("unproven", None)
    assert found["prefill_tok_s"] is None
    assert found["result"]["witnesses"]["engine_metrics"] is None


def test_a_server_without_tokenizer_is_sized_by_usage(engine: FakeEngine) -> None:
    engine.tokenizes = False
    found = run_needle(engine)
    assert found["prompt_tokens"] == pytest.approx(4000, rel=0.03)
    assert "by usage" in found["result"]["workload"]["counted_by"]


def test_decode_apart_leaves_the_answer_free(engine: FakeEngine) -> None:
    engine.answer = lambda body: Reply(["MAROON-4817"])
    found = run_needle(engine, decode_apart=True)
    assert found["completion_tokens"] == 70
    assert found["answer"].strip() == "MAROON-4817"
    assert "min_tokens" not in engine.requests[0]
    assert engine.requests[1]["min_tokens"] == 70
    assert found["cache"]["state"] == "cold"
    assert [sample["cache"]["state"] for sample in found["result"]["samples"]] == ["cold", "warm"]


def test_the_secret_must_stand_at_the_head_and_not_in_thinking(engine: FakeEngine) -> None:
    engine.answer = lambda body: Reply(["word"] * 60 + ["MAROON-4817"])
    assert run_needle(engine)["passed"] is False
    engine.answer = lambda body: Reply(["nothing"], reasoning=["MAROON-4817"])
    assert run_needle(engine)["passed"] is False
    engine.answer = lambda body: Reply(status=500)
    found = run_needle(engine)
    assert (found["passed"], found["status"], found["cache"]["state"]) == (None, "failed", "unproven")


# --- sweep ----


def test_a_sweep_counts_and_shares_nothing(engine: FakeEngine, tmp_path: Path) -> None:
    engine.token_s, engine.prefill_s = 0.001, 0.02
    found = run_sweep(engine, tmp_path / "s.json", concurrency=[1, 2, 4])
    assert [(row["concurrency"], row["requests"], row["failed"]) for row in found["levels"]] == [
        (1, 1, 0), (2, 2, 0), (4, 4, 0),
    ]  # fmt: skip
    assert [row["tokens"] for row in found["levels"]] == [64, 128, 256]
    assert found["levels"][2]["aggregate_tok_s"] > found["levels"][0]["aggregate_tok_s"]
    assert found["levels"][0]["ttft_s_p99"] is None
    prompts = [body["messages"][-1]["content"] for body in engine.requests]
    assert len({prompt[:16] for prompt in prompts}) == 7
    run_sweep(engine, concurrency=[1])
    assert engine.requests[-1]["messages"][-1]["content"][:16] not in {prompt[:16] for prompt in prompts}


def test_more_requests_than_the_level_follow_each_other(engine: FakeEngine) -> None:
    engine.prefill_s = 0.03
    found = run_sweep(engine, concurrency=[2], requests_per_level=7)
    assert (found["levels"][0]["requests"], engine.most_open) == (7, 2)


def test_failures_are_counted_and_kept(engine: FakeEngine) -> None:
    lock, turn = threading.Lock(), iter(range(100))

    def answer(body: dict[str, Any]) -> Reply:
        with lock:
            return Reply(status=503) if next(turn) % 4 == 0 else Reply(["x"])

    engine.answer = answer
    found = run_sweep(engine, concurrency=[8])
    assert (found["status"], found["levels"][0]["failed"], found["levels"][0]["requests"]) == ("partial", 2, 8)
    assert found["levels"][0]["tokens"] == 6 * 64
    assert "2 of 8 requests failed" in found["reason"]


def test_repeats_rates_and_goodput(engine: FakeEngine) -> None:
    engine.token_s = 0.001
    found = run_sweep(
        engine, concurrency=[2], repeats=3, arrival_rates=[100.0], requests_per_level=4, goodput_ttft_s=5.0,
        goodput_token_s=0.5,
    )  # fmt: skip
    row = found["levels"][0]
    assert (row["requests"], row["repeats"]["aggregate_tok_s"]["n"]) == (12, 3)
    assert (
        row["repeats"]["aggregate_tok_s"]["low"] <= row["aggregate_tok_s"] <= row["repeats"]["aggregate_tok_s"]["high"]
    )
    assert (row["goodput"]["good"], row["goodput"]["share"]) == (12, 1.0)
    assert (found["rates"][0]["rate_per_s"], found["rates"][0]["requests"]) == (100.0, 12)
    strict = run_sweep(engine, concurrency=[1], goodput_token_s=1e-9)
    assert strict["levels"][0]["goodput"]["good"] == 0


def test_arrivals_are_the_same_for_the_same_seed() -> None:
    one = sweep.arrivals(1, 2.0, 500, 1)
    assert one == sweep.arrivals(1, 2.0, 500, 1) != sweep.arrivals(2, 2.0, 500, 1)
    assert one[0] == 0
    assert 500 / one[-1] == pytest.approx(2.0, rel=0.15)


def test_a_big_sweep_stays_small_on_disk(engine: FakeEngine, tmp_path: Path) -> None:
    run_sweep(engine, tmp_path / "s.json", concurrency=[32], max_tokens=512)
    assert (tmp_path / "s.json").stat().st_size < 1_000_000


def test_finished_levels_are_on_disk_before_the_last_one_ends(engine: FakeEngine, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    partial = tmp_path / "s.json.partial"
    seen: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Reply:
        if partial.exists() and not seen:
            seen.append(json.loads(partial.read_text()))
        return Reply(["x"])

    engine.answer = answer
    run_sweep(engine, path, concurrency=[1, 2])
    assert (seen[0]["status"], len(seen[0]["summary"]["levels"])) == ("partial", 1)
    assert [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(seen[0])] == []


# --- agentic ----


def test_agents_that_do_all_right(engine: FakeEngine, tmp_path: Path) -> None:
    engine.answer, engine.prefill_s = agent_answers, 0.02  # long enough that the sessions overlap on a busy machine
    found = run_agentic(engine, tmp_path / "a.json", sessions=3, turns=5)
    assert (found["tool_calls_valid"], found["tool_calls_total"]) == (15, 15)
    assert (found["recall_passed"], found["recall_total"]) == (9, 9)
    assert (found["status"], found["name"], found["verdicts"]) == ("complete", "agentic-3", {"valid": 15})
    turns = found["sessions_detail"][0]["turns"]
    growth = [b["prompt_tokens"] - a["prompt_tokens"] for a, b in pairwise(turns)]
    assert all(step == pytest.approx(650, rel=0.15) for step in growth)
    assert turns[3]["cached_tokens"] > turns[2]["cached_tokens"] > 0
    assert turns[0]["cached_tokens"] == 0
    # A rate over a few tokens never goes by the name of the decode figure.
    assert found["decode_tok_s_min"] is None
    assert turns[0]["decode_tok_s"] is None
    assert engine.most_open == 3


def test_wrong_answers_are_scored_and_every_session_reads_the_same(engine: FakeEngine) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        turn = sum(message["role"] == "tool" for message in body["messages"])
        if turn == 1:
            return Reply(calls=[("read_file", '{"path": "elsewhere.py"}')])
        if turn == 2:
            return Reply(["I", "refuse"])
        if turn == 3:
            return Reply(calls=[("read_file", "{not json")], reasoning=["hm"])
        return agent_answers(body)

    engine.answer = answer
    found = run_agentic(engine, turns=5)
    assert [turn["verdict"] for turn in found["sessions_detail"][0]["turns"]] == [
        "valid", "wrong_path", "text_instead", "malformed_arguments", "valid",
    ]  # fmt: skip
    assert (found["tool_calls_valid"], found["recall_passed"], found["thinking_turns"]) == (2, 3, 1)
    history = engine.requests[-1]["messages"]
    assert sum(message["role"] == "tool" for message in history) == 5
    for message in history:
        for call in message.get("tool_calls", []):
            json.loads(call["function"]["arguments"])
    ids = [call["id"] for message in history for call in message.get("tool_calls", [])]
    assert ids == [message["tool_call_id"] for message in history if message["role"] == "tool"]


def test_a_request_that_fails_ends_its_session_only(engine: FakeEngine) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if sum(message["role"] == "tool" for message in body["messages"]) == 2 and "services" in str(body):
            if not failed:
                failed.append(body["messages"][0]["content"])
            if body["messages"][0]["content"] == failed[0]:
                return Reply(status=500)
        return agent_answers(body)

    failed: list[str] = []
    engine.answer = answer
    found = run_agentic(engine, sessions=2)
    assert (found["status"], found["tool_calls_total"], found["wall_s"]) == ("partial", 8, None)
    assert found["tool_calls_valid"] == 6
    assert (found["recall_passed"], found["recall_total"]) == (3, 6)
    dead = next(entry for entry in found["sessions_detail"] if entry["final"] is None)
    assert [turn["verdict"] for turn in dead["turns"]] == ["valid", "valid", "failed"]


# --- probe ----


def test_a_probe_keeps_the_reply_and_gives_no_verdict(engine: FakeEngine) -> None:
    engine.answer = lambda body: Reply(["42"], reasoning=["17", "plus", "25"])
    found = run_probe(engine, expect=[{"query": "content", "contains": "42"}])
    assert (found["passed"], found["answer"].strip(), found["reply"]["finish_reason"]) == (None, "42", "stop")
    assert "plus" in found["reply"]["reasoning"]
    assert found["result"]["plan"]["expect"] == [{"query": "content", "contains": "42"}]
    assert "chat_template_kwargs" not in engine.requests[0]


def test_thinking_text_in_content_is_not_the_answer(engine: FakeEngine) -> None:
    engine.answer = lambda body: Reply(["<think>", "is", "it", "42?"])
    found = run_probe(engine)
    assert found["reply"]["content"] == ""
    assert any("only thinking text" in note for note in found["result"]["notes"])


def test_an_answer_without_end_leaves_a_small_result_that_says_what_it_was(engine: FakeEngine, tmp_path: Path) -> None:
    word = "z" * 1_000_000
    engine.answer = lambda body: Reply([word] * 10)
    path = tmp_path / "probe.json"
    found = run_probe(engine, path, compare_unstreamed=True)
    assert path.stat().st_size < 300_000
    assert len(json.dumps(found)) < 300_000, "what crosses to the controller"
    (kept,) = json.loads(path.read_text())["samples"]
    whole = " ".join([word] * 10)
    assert 10_000_000 < kept["cut"]["text"]["characters"] <= len(whole) + 10
    assert kept["text"] == (word + " ")[: len(kept["text"])] == found["answer"] == found["reply"]["content"]
    assert [note for note in found["result"]["notes"] if "characters long (sha256 " in note]
    assert "/tokenize" not in engine.paths[-3:], "ten megabytes are not sent back to be counted"


def test_arguments_without_end_are_cut_both_ways(engine: FakeEngine, tmp_path: Path) -> None:
    arguments = json.dumps({"city": "z" * 100_000})
    engine.answer = lambda body: Reply(calls=[("get_weather", arguments)])
    path = tmp_path / "probe.json"
    found = run_probe(engine, path, tools=[{"type": "function", "function": {"name": "get_weather"}}])
    assert path.stat().st_size < 500_000
    assert found["result"]["workload"]["unstreamed"]["same_calls"] is True
    (kept,) = json.loads(path.read_text())["samples"]
    assert kept["cut"]["arguments of call 0"]["characters"] == len(arguments)


def test_long_texts_of_a_sweep_are_not_sent_back_to_be_counted(engine: FakeEngine, tmp_path: Path) -> None:
    engine.answer = lambda body: Reply(["z" * 20_000] * 64)
    path = tmp_path / "sweep.json"
    found = run_sweep(engine, path, concurrency=[5])
    assert path.stat().st_size < 500_000
    notes = found["result"]["notes"]
    assert sum("characters long (sha256" in note for note in notes) == 3
    assert "2 more texts were cut; their samples say how long they were" in notes
    assert found["levels"][0]["decode_tok_s_p50"] is None
    assert any("usage says 64 tokens: degenerate" in note for note in found["result"]["notes"])


def test_tool_calls_are_asked_for_both_ways(engine: FakeEngine) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        return Reply(calls=[("get_weather", '{"city":"Tel Aviv"}' if body.get("stream") else '{"city":"Haifa"}')])

    engine.answer = answer
    found = run_probe(engine, tools=[{"type": "function", "function": {"name": "get_weather"}}])
    assert found["answer"] == 'get_weather({"city":"Tel Aviv"})'
    assert found["result"]["workload"]["unstreamed"]["same_calls"] is False
    assert any("call tools differently" in note for note in found["result"]["notes"])


def test_a_failed_probe_has_no_reply(engine: FakeEngine) -> None:
    engine.answer = lambda body: Reply(["4"], error_after=1)
    found = run_probe(engine)
    assert (found["status"], found["reply"], found["answer"], found["wall_s"]) == ("failed", None, None, None)


# --- calibrate ----


def test_calibration_against_the_null_server(tmp_path: Path) -> None:
    plan = plans.CalibratePlan.from_options(
        {"concurrency": [2, 8], "rates_hz": [500], "tokens": 4, "tokens_per_s": 200.0}
    )
    before = children()
    found = checked(calibrate.run(plan, common("http://127.0.0.1:9", tmp_path / "c.json")))
    assert found["status"] == "complete"
    assert [row["concurrency"] for row in found["levels"]] == [2, 8]
    for row in found["levels"]:
        assert row["ttft_samples"] >= 100
        assert row["itl_samples"] >= 100
        # The client cannot see an event before it is sent, and is not whole tenths of a second late.
        assert 0 < row["ttft_error_s_p50"] < 0.1
    assert found["rates"][0]["reached_hz"] == pytest.approx(500, rel=0.15)
    assert found["cpu_s_per_100k_tokens"] > 0
    assert children() == before


def children() -> set[str]:
    out = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            out.add(pid)
    return out


# --- progress ----


def test_a_long_prefill_shows_its_progress_and_then_only_its_result(engine: FakeEngine, tmp_path: Path) -> None:
    engine.prefill_s = 1.8
    path = str(tmp_path / "n.json")
    seen: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: watch(path, seen))
    thread.start()
    run_needle(engine, tmp_path / "n.json")
    thread.join()
    running = [entry["progress"] for entry in seen if entry["state"] == "running"]
    assert {entry["stage"] for entry in running if "stage" in entry} >= {"prefill and answer"}
    assert running[-1]["prompt_tokens"] == 4000
    assert running[-1]["kv_cache_usage"] == 0.01
    assert max(entry["elapsed_s"] for entry in running) > 0.5
    judged = [entry["judgement"] for entry in running if entry["judgement"]]
    assert judged[-1]["state"] in ("moving", "silent_but_moving")
    assert "kv_cache_usage_perc" in " ".join(judged[-1]["evidence"])
    assert not any(entry["finished"] for entry in seen[:-1])
    assert progress.inspect(path)["finished"] is True


def watch(path: str, seen: list[dict[str, Any]]) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        seen.append(progress.inspect(path))
        if seen[-1]["finished"]:
            return
        time.sleep(0.05)


def test_a_stall_is_a_failed_sample(engine: FakeEngine) -> None:
    engine.prefill_s = 30
    started = time.monotonic()
    found = run_decode(engine, runs=1, stall_time_limit_s=1.0)
    assert time.monotonic() - started < 10
    assert (found["status"], found["samples"][0]["error_kind"]) == ("failed", "stall")
    assert "the engine is stalled" in found["samples"][0]["error"]
    assert "did not move for" in found["samples"][0]["error"]


def test_an_engine_without_metrics_is_judged_by_the_wire_alone(engine: FakeEngine) -> None:
    engine.exports, engine.prefill_s = False, 30
    found = run_decode(engine, runs=1, stall_time_limit_s=1.0)
    assert found["samples"][0]["error_kind"] == "stall"
    assert "could not be read" in found["samples"][0]["error"]


def test_a_watch_asks_the_engine_at_most_every_two_seconds(engine: FakeEngine, tmp_path: Path) -> None:
    engine.prefill_s = 4.5
    run_needle(engine, tmp_path / "n.json")
    # Two readings are the counters before and after the request, the others the watch's.
    assert 3 <= engine.paths.count("/metrics") <= 2 + 1 + 3


def test_a_deeper_prefill_is_foretold_by_the_shorter_ones_of_its_boot(engine: FakeEngine, tmp_path: Path) -> None:
    engine.prefill_s = 0.1
    assert run_needle(engine, tmp_path / "a.json", prompt_tokens=2000)["foretold"] is None
    engine.prefill_s = 0.3
    found = run_needle(engine, tmp_path / "b.json", prompt_tokens=4000)["foretold"]
    assert (found["points"], found["tokens"]) == (1, 4000)
    assert found["low_s"] == pytest.approx(0.2, rel=0.5)
    assert found["actual_s"] == pytest.approx(0.3, rel=0.5)
    engine.prefill_s = 3.0
    late = run_needle(engine, tmp_path / "c.json", prompt_tokens=4100)
    assert any("later than" in note for note in late["result"]["notes"])
    other = run_needle(engine, tmp_path / "d.json", prompt_tokens=4000, context={"boot_id": "another"})
    assert other["foretold"] is None


def test_gauges_that_move_are_no_stall(engine: FakeEngine) -> None:
    engine.prefill_s = 3.5
    stop = threading.Event()

    def move() -> None:
        while not stop.wait(0.2):
            engine.count["prompt"] += 1

    thread = threading.Thread(target=move)
    thread.start()
    found = run_decode(engine, runs=1, stall_time_limit_s=2.5)
    stop.set()
    thread.join()
    assert found["status"] == "complete"


def test_a_broken_place_for_results_is_an_error_before_anything_is_sent(engine: FakeEngine, tmp_path: Path) -> None:
    with pytest.raises(SpikeError, match="is a directory"):
        run_decode(engine, tmp_path)
    assert engine.requests == []


# --- stopping, dying, going on ----


def test_at_the_time_limit_what_was_measured_is_kept(engine: FakeEngine, tmp_path: Path) -> None:
    engine.answer = lambda body: Reply(["x"]) if len(engine.requests) < 3 else hang()
    found = run_decode(engine, tmp_path / "d.json", runs=5, time_limit_s=2.5)
    assert (found["status"], found["ok"], found["failed_runs"], found["runs"]) == ("partial", 2, 1, 3)
    assert found["samples"][2]["error_kind"] == "stopped"
    assert found["reason"].startswith("stopped at time_limit_s = 2.5; 2 requests were whole")


def hang() -> Reply:
    time.sleep(8)
    return Reply(["late"])


def test_a_stopped_sweep_begins_no_further_level(engine: FakeEngine) -> None:
    engine.prefill_s = 0.7
    plan = plans.SweepPlan.from_options({"prompt": "Write.", "max_tokens": 64, "concurrency": [1, 2, 4]})
    found = checked(sweep.run(plan, common(engine, time_limit_s=1.0)))
    assert found["status"] == "partial"
    assert [row["concurrency"] for row in found["levels"]] in ([1], [1, 2])


def test_a_stopped_agent_begins_no_further_turn(engine: FakeEngine) -> None:
    engine.answer, engine.prefill_s = agent_answers, 0.4
    plan = plans.AgenticPlan.from_options({"system_prompt": "Act.", "turns": 9, "tool_result_tokens": 100})
    found = checked(agentic.run(plan, common(engine, time_limit_s=1.0)))
    assert (found["status"], found["tool_calls_total"], found["wall_s"]) == ("partial", 9, None)
    assert 1 <= found["tool_calls_valid"] <= 4


def started(tmp_path: Path, phase: str, options: dict[str, Any]) -> int:
    """Measure in a process of its own, as a module does; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        run = {"sweep": run_sweep, "agentic": run_agentic, "decode": run_decode}[phase]
        run(options.pop("base"), tmp_path / "r.json", **options)
    finally:
        os._exit(0)


def until(condition: Any) -> None:
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize(("phase", "options"), [("sweep", {"concurrency": [1, 2, 4]}), ("decode", {"runs": 4})])
def test_a_killed_measurement_goes_on_where_it_was(
    engine: FakeEngine, tmp_path: Path, phase: str, options: dict[str, Any]
) -> None:
    engine.prefill_s = 0.4
    partial = tmp_path / "r.json.partial"
    pid = started(tmp_path, phase, {"base": engine.base, **options})
    until(partial.exists)
    with pytest.raises(SpikeError, match=f"pid {pid}"):
        run_decode(engine, tmp_path / "r.json")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    seen = progress.inspect(str(tmp_path / "r.json"))
    assert (seen["state"], seen["result"]["status"]) == ("interrupted", "partial")
    done = len(seen["result"]["samples"])
    until(lambda: not engine.open)
    engine.requests.clear()
    run = {"sweep": run_sweep, "decode": run_decode}[phase]
    found = run(engine.base, tmp_path / "r.json", **options)
    assert found["status"] == "complete"
    total = 7 if phase == "sweep" else 4
    assert (len(found["result"]["samples"]), len(engine.requests)) == (total, total - done)
    assert any(note.startswith("resumed: ") for note in found["result"]["notes"])
    labels = [sample["label"] for sample in found["result"]["samples"]]
    assert len(set(labels)) == total


@pytest.mark.parametrize("change", [{"max_tokens": 65}, {"context": {"boot_id": "other@2"}}, {"context": {}}])
def test_a_part_of_another_plan_or_boot_is_not_taken_over(
    engine: FakeEngine, tmp_path: Path, change: dict[str, Any]
) -> None:
    run_decode(engine, tmp_path / "r.json", runs=2)
    document = json.loads((tmp_path / "r.json").read_text())
    document.update(status="partial", reason="cut")
    (tmp_path / "r.json").unlink()
    (tmp_path / "r.json.partial").write_text(json.dumps(document))
    engine.requests.clear()
    shared = {"context": change["context"]} if "context" in change else {}
    options = {"prompt": "Write about the sea.", "max_tokens": change.get("max_tokens", 80), "runs": 2}
    shared = {
        "endpoint": engine.base,
        "results_path": str(tmp_path / "r.json"),
        "context": {"boot_id": "abc@1"},
        **shared,
    }
    found = decode.run(plans.DecodePlan.from_options(options), plans.Common.from_options(shared))
    assert len(engine.requests) == 2
    assert any("set aside as r.json.earlier-" in note for note in found["result"]["notes"])


def test_told_to_stop_it_keeps_what_it_has(engine: FakeEngine, tmp_path: Path) -> None:
    engine.answer = lambda body: Reply(["x"]) if len(engine.requests) < 2 else hang()
    pid = started(tmp_path, "decode", {"base": engine.base, "runs": 3})
    until(lambda: len(engine.requests) == 2)
    os.kill(pid, signal.SIGTERM)
    assert os.waitpid(pid, 0)[1] == 0
    seen = progress.inspect(str(tmp_path / "r.json"))
    assert (seen["state"], seen["result"]["status"]) == ("finished", "partial")
    assert "told to stop (SIGTERM)" in seen["result"]["reason"]
    assert [sample["status"] for sample in seen["result"]["samples"]] == ["ok", "failed"]


def test_a_finished_session_is_on_disk_while_another_goes_on(engine: FakeEngine, tmp_path: Path) -> None:
    slow: set[str] = set()

    def answer(body: dict[str, Any]) -> Reply:
        session = body["messages"][0]["content"]
        if not slow:
            slow.add(session)
        if session in slow:
            time.sleep(0.3)
        return agent_answers(body)

    engine.answer = answer
    pid = started(tmp_path, "agentic", {"base": engine.base, "sessions": 2, "turns": 5})
    until((tmp_path / "r.json.partial").exists)
    kept = json.loads((tmp_path / "r.json.partial").read_text())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(kept)] == []
    whole = [entry for entry in kept["summary"]["sessions_detail"] if entry["wall_s"] is not None]
    assert len(whole) == 1
    assert all(fact["passed"] for fact in whole[0]["recall"].values())


def test_an_engine_that_dies_before_the_texts_are_counted_costs_no_result(engine: FakeEngine, tmp_path: Path) -> None:
    whole = engine.post

    def post(handler: Any) -> None:
        if handler.path == "/tokenize" and engine.requests:
            engine.send(handler, {"error": "dead"}, 500)
        else:
            whole(handler)

    engine.post = post  # type: ignore[method-assign]
    found = run_decode(engine, tmp_path / "d.json", runs=1)
    assert found["status"] == "complete"
    assert any("texts were not counted again" in note for note in found["result"]["notes"])
