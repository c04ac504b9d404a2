# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine double as a process: boots, deaths, streams, caches, answers, as the product's own client sees them."""

from __future__ import annotations

import itertools
import json
import re
import signal
import sys
import time

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client import get_text, post_json
from ansible_collections.lobes.spike.plugins.module_utils.workloads import agent
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import AgenticPlan
from engine_double import DOUBLES, DSPARK, MODEL, PLAIN, RECIPE, serving, start

sys.path.insert(0, str(DOUBLES / "engine"))
from spike_engine.answers import PROSE
from spike_engine.faults import FAULTS

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["c", "f"]}},
        },
    },
}
TRAIN = "A train leaves at 09:40 and needs six hours. When does it arrive? Answer HH:MM."


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("plain"), [*RECIPE, *PLAIN], VLLM_SERVER_DEV_MODE="1") as running:
        yield running


@pytest.fixture(autouse=True)
def _healed(request):
    yield
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine").faults("")


def test_the_boot_log_has_every_milestone_in_order_and_ends_well(tmp_path):
    process, _ = start(tmp_path, [*RECIPE, *DSPARK])
    rows = []
    for row in process.stdout:
        rows.append(row)
        if "Application startup complete" in row:
            break
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=20)[0]
    log = "".join(rows)
    milestones = [
        "version 0.29.0", "non-default args", "Resolved architecture: NemotronHForCausalLM",
        "Using max model len 1048576", "quant_algo=W4A16_NVFP4", "Resolved architecture: Qwen3DSparkModel",
        "dense checkpointing", "Initializing a V1 LLM engine (v0.29.0)", "Using V2 Model Runner",
        "'MARLIN' NvFp4 MoE backend", "Using FLASHINFER attention backend", "Loading weights took",
        "Using TRITON_ATTN", "native support for FP4", "uncalibrated q_scale",
        "Model loading took 19.44 GiB memory", "torch.compile took", "Warming up Mamba2 SSD Triton kernels",
        "Initial profiling/warmup run took", "Mamba SSU backend", "setting cudagraph_mode=PIECEWISE",
        "Graph capturing finished", "Available KV cache memory: 56.27 GiB",
        "GPU KV cache size: 17,911,473 tokens", "JIT kernel warmup finished", "Graph capturing finished",
        "CUDA graph pool memory", "Free memory on device (94.49/122.82 GiB)",
        "init engine (profile, create kv cache, warmup model) took 309.09 s (compilation: 45.01 s)",
        "Supported tasks", "Starting vLLM server on", "Available routes are", "Application startup complete",
    ]  # fmt: skip
    at = 0
    for text in milestones:
        found = log.find(text, at)
        assert found >= 0, f"{text} is missing or out of order"
        at = found + 1
    assert process.returncode == 0
    assert "[shutdown] API server: shutdown triggered" in rest


def test_a_second_boot_finds_its_caches(tmp_path):
    logs = []
    for _ in range(2):
        process, _ = start(tmp_path, [*RECIPE, *PLAIN], VLLM_ENABLE_STARTUP_PLAN="1")
        log = ""
        for row in process.stdout:
            log += row
            if "Application startup complete" in row:
                break
        process.kill()
        process.communicate()
        logs.append(log)
    assert "Dynamo bytecode transform" in logs[0]
    assert "Initial profiling" in logs[0]
    assert "Directly load AOT compilation" in logs[1]
    assert "Initial profiling" not in logs[1]


DEATHS = {
    "die-at-boot-memory": (1, "ValueError: Free memory on device cuda:0"),
    "die-at-boot-kv": (1, "ValueError: To serve at least one request"),
    "die-at-boot-blocks": (1, "ValueError: No available memory for the cache blocks"),
    "die-at-boot-profiling": (1, "AssertionError: Error in memory profiling"),
    "die-at-boot-oom": (1, "torch.OutOfMemoryError: CUDA out of memory"),
    "die-at-boot-killed": (1, "Failed core proc(s): {'EngineCore': -9}"),
    "die-at-boot-argument": (2, "vllm serve: error: unrecognized arguments"),
    "die-at-boot-parser": (1, "KeyError: 'invalid tool call parser"),
    "die-at-boot-port": (1, "OSError: [Errno 98] Address already in use"),
    "die-at-boot-unsupported": (1, "are not supported for now"),
    "die-at-boot-config": (1, "Failed to load the model config"),
    "die-at-boot-quant": (1, "Missing 'quant_algo'"),
    "die-at-boot-file": (1, "FileNotFoundError: Weight files referenced in index but missing"),
    "die-at-boot-shard": (1, "MetadataIncompleteBuffer"),
    "die-at-boot-locks": (1, "PermissionError: [Errno 13] Permission denied"),
    "die-at-boot-space": (1, "OSError: [Errno 28] No space left on device"),
    "die-at-boot-exit-0": (0, "Warming up Mamba2 SSD Triton kernels"),
}


def test_every_boot_death_is_tested():
    assert {name for name in FAULTS if name.startswith("die-at-boot")} == set(DEATHS)


def test_boots_die_with_their_cause_above_the_wrapper(tmp_path):
    running = {name: start(tmp_path / name, [*RECIPE, *PLAIN], name)[0] for name in DEATHS}
    for name, process in running.items():
        log = process.communicate(timeout=60)[0]
        code, cause = DEATHS[name]
        assert process.returncode == code, name
        assert cause in log, name
        if "See root cause above" in log and name != "die-at-boot-killed":
            assert log.index(cause) < log.index("See root cause above"), name


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["--max-model-len", "2000000"], "is greater than the derived max_model_len"),
        (["--max-model-len", "1048576", "--gpu-memory-utilization", "0.22"], "To serve at least one request"),
        (["--tool-call-parser", "qwen9"], "invalid tool call parser: qwen9"),
        (["--per-request-spec-decode-metrics", "summary"], "requires speculative decoding to be enabled"),
    ],
)
def test_arguments_that_cannot_work_end_the_boot(tmp_path, arguments, cause):
    process, _ = start(tmp_path, [*RECIPE, "--kv-cache-dtype", "fp8", *arguments])
    assert cause in process.communicate(timeout=60)[0]
    assert process.returncode == 1


def test_offline_without_the_checkpoint_is_a_failed_boot(tmp_path):
    process, _ = start(tmp_path, [*RECIPE, *PLAIN], HF_HUB_OFFLINE="1")
    assert "LocalEntryNotFoundError" in process.communicate(timeout=60)[0]


def test_a_wedge_is_silent_and_alive(tmp_path):
    process, _ = start(tmp_path, [*RECIPE, *PLAIN], "wedge-at-mamba")
    last = ""
    for row in process.stdout:
        last = row
        if "Mamba2 SSD" in row:
            break
    time.sleep(1)
    assert process.poll() is None
    process.kill()
    assert process.communicate()[0] == ""
    assert "Warming up Mamba2 SSD Triton kernels..." in last


@pytest.mark.parametrize(
    ("question", "answer"), [("What is 17 + 25? Answer with the number only.", "42"), (TRAIN, "15:40")]
)
def test_probes_are_answered(engine, question, answer):
    sample = engine.chat(question)
    assert (sample.status, sample.text, sample.finish_reason) == ("ok", answer, "stop")


def test_thinking_comes_first_unless_it_is_off(engine):
    sample = engine.chat("What is 17 + 25?", chat_template_kwargs={})
    assert sample.reasoning
    assert sample.text == "42"
    assert engine.chat("What is 17 + 25?").reasoning in (None, "")


def test_a_tool_is_called_in_fragments(engine):
    sample = engine.chat("What is the weather in Tel Aviv, in degrees Celsius? Use the tool.", tools=[WEATHER])
    assert sample.finish_reason == "tool_calls"
    (call,) = sample.tool_calls
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Tel Aviv", "unit": "c"})
    assert len(sample.events) > 5


def test_wrong_answers_by_switch(tmp_path):
    with serving(tmp_path, [*RECIPE, *PLAIN], SPIKE_WRONG="multi_step,tool_call") as wrong:
        assert wrong.chat(TRAIN).text != "15:40"
        assert wrong.chat("What is 17 + 25?").text == "42"
        called = wrong.chat("The weather in Tel Aviv?", tools=[WEATHER]).tool_calls[0]
        assert "Tel Aviv" not in called["arguments"]


def haystack(words: int) -> str:
    text = " ".join(f"barge number {i} lay at the pier." for i in range(words // 7))
    middle = text.index(" ", len(text) // 3)
    return f"{text[:middle]} The secret code is MAROON-4817. {text[middle:]}\n\nWhat is the secret code?"


def test_a_needle_is_found_cold_then_warm_in_whole_blocks(engine):
    prompt = haystack(20000)
    cold, warm = engine.forced(100, messages=[{"role": "user", "content": prompt}]), engine.chat(prompt, min_tokens=100)
    assert cold.text.startswith("MAROON-4817")
    assert (cold.cached_tokens, cold.completion_tokens, cold.finish_reason) == (0, 100, "length")
    assert warm.cached_tokens % 544 == 0
    assert 0 < warm.prompt_tokens - warm.cached_tokens <= 544
    assert warm.ttft_s < cold.ttft_s + 0.05  # a busy machine may be slower by chance, never by a whole prefill


def test_the_engine_counts_what_it_sent(engine):
    def total(name):
        return float(
            re.search(rf"^vllm:{name}{{[^}}]*}} (\S+)$", get_text(engine.endpoint, "/metrics"), re.MULTILINE)[1]
        )

    names = [
        "generation_tokens_total",
        "prompt_tokens_total",
        "time_to_first_token_seconds_sum",
        "prefix_cache_queries_total",
    ]
    before = {name: total(name) for name in names}
    sample = engine.forced(80)
    grown = {name: total(name) - before[name] for name in names}
    assert grown["generation_tokens_total"] == 80
    assert grown["prompt_tokens_total"] == grown["prefix_cache_queries_total"] == sample.prompt_tokens
    assert grown["time_to_first_token_seconds_sum"] == pytest.approx(sample.ttft_s, abs=0.05)


def test_the_kv_gauge_rises_chunk_by_chunk_while_counters_stand(tmp_path):
    fast = {"SPIKE_SPEEDUP_PREFILL": "20"}
    with serving(tmp_path, [*RECIPE, "--max-num-batched-tokens", "2048", *PLAIN], **fast) as slow:
        import threading

        worker = threading.Thread(target=slow.chat, args=(haystack(60000),))
        worker.start()
        gauge, counter = [], []
        while worker.is_alive():
            text = get_text(slow.endpoint, "/metrics")
            gauge.append(float(re.search(r"^vllm:kv_cache_usage_perc\S* (\S+)$", text, re.MULTILINE)[1]))
            counter.append(float(re.search(r"^vllm:prompt_tokens_total\S* (\S+)$", text, re.MULTILINE)[1]))
            time.sleep(0.02)
        worker.join()
    silent = [g for g, c in zip(gauge, counter, strict=True) if c == 0]
    assert len(set(silent)) >= 4
    assert silent == sorted(silent)


def test_speculation_sends_several_tokens_in_one_event(tmp_path):
    with serving(tmp_path, [*RECIPE, *DSPARK]) as spec:
        sample = spec.forced(200)
        text = get_text(spec.endpoint, "/metrics")
        metrics = sample.engine_metrics["speculative_decoding"]
    steps = [b[1] - a[1] for a, b in itertools.pairwise(sample.events) if a[1] and b[1]]
    assert max(steps) > 1
    assert max(steps) <= 6
    assert sample.completion_tokens == 200
    assert 1.3 < metrics["mean_acceptance_length"] < 2.8
    assert 'spec_decode_num_accepted_tokens_per_pos_total{engine="0"' in text


def test_the_agentic_loop_is_played_right(engine):
    plan = AgenticPlan(1, 5, 400, 512, "Use the tools.", 1)
    script = agent.script(plan, "salt", 1, 12.0)
    messages = [agent.system_message(plan, script)]
    for file in script.files:
        messages.append(agent.turn_message(file))
        sample = engine.chat(messages, tools=agent.TOOLS)
        assert agent.judge_read(sample, file.path).valid
        call = sample.tool_calls[0]
        messages += [
            {"role": "assistant", "tool_calls": [{"id": call["id"], "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": call["id"], "content": file.content},
        ]
    messages.append(agent.final_message(script))
    verdict, recall = agent.judge_finish(engine.chat(messages, tools=agent.TOOLS), script)
    assert verdict.valid
    assert all(fact["passed"] for fact in recall.values())


STREAMS = {
    "http-500": lambda s: s.error_kind == "http_status" and s.http_status == 500,
    "http-503": lambda s: s.http_status == 503,
    "html-error": lambda s: s.http_status == 502,
    "json-200-error": lambda s: s.status == "failed" and s.http_status == 200,
    "error-mid-stream": lambda s: s.error_kind == "server_error" and s.completion_tokens == 20,
    "cut-stream": lambda s: s.error_kind == "early_close",
    "reset-stream": lambda s: s.status == "failed",
    "no-done": lambda s: s.status == "ok" and s.warnings,
    "no-finish": lambda s: s.error_kind == "no_finish_reason",
    "stall:0.6": lambda s: s.status == "ok" and s.max_gap_s > 0.5,
    "slow-decode": lambda s: s.last_token_s - s.ttft_s > 1.5,
    "slow-first-token:0.7": lambda s: s.ttft_s > 0.7,
    "no-usage": lambda s: s.completion_tokens is None,
    "usage-last-only": lambda s: s.completion_tokens == 100 and s.warnings,
    "usage-late:0.5": lambda s: s.end_s - s.last_token_s > 0.4,
    "role-early,slow-first-token:0.4": lambda s: s.ttft_s - s.first_event_s > 0.3,
    "empty-deltas": lambda s: s.completion_tokens == 100,
    "keep-alive-comments": lambda s: s.keepalives > 50,
    "crlf": lambda s: s.completion_tokens == 100,
    "no-space": lambda s: s.completion_tokens == 100,
    "split-writes,unicode": lambda s: s.completion_tokens == 100 and "\U0001f30d" in s.text and "\ufffd" not in s.text,
    "merged-writes": lambda s: s.completion_tokens == 100,
    "ignore-forced": lambda s: s.completion_tokens == 10 and s.finish_reason == "stop",
    "zero-tokens": lambda s: s.completion_tokens == 0 and s.ttft_s is None,
    "degenerate": lambda s: s.completion_tokens == 300,
    "thinks-anyway": lambda s: s.reasoning,
    "think-in-content": lambda s: s.text.startswith("<think>"),
    "answer-in-reasoning": lambda s: not s.text and s.reasoning,
    "control-characters": lambda s: "\x1b[31m" in s.text,
    "nul-characters": lambda s: s.text.startswith("\0") and s.completion_tokens == 100,
    "huge-answer:3": lambda s: s.cut["text"]["characters"] > 3e6 and s.completion_tokens == 100,
    "cache-details-missing": lambda s: s.cached_tokens is None,
    "wrong-model": lambda s: True,
}


def test_a_huge_answer_is_as_long_unstreamed(engine):
    engine.faults("huge-answer:3")
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Write about the sea."}], "max_tokens": 20}
    answer = post_json(engine.endpoint, "/v1/chat/completions", {**body, "min_tokens": 20, "ignore_eos": True})
    assert 3e6 < len(answer["choices"][0]["message"]["content"]) < 3e6 + 10 * sum(map(len, PROSE[:20]))
    assert answer["usage"]["completion_tokens"] == 20


@pytest.mark.parametrize("fault", STREAMS)
def test_streams_are_odd_in_their_own_way(engine, fault):
    engine.faults(fault)
    sample = engine.forced(100)
    assert STREAMS[fault](sample), sample.to_json()


def test_a_fault_may_wait_for_its_request(engine):
    number = engine.get("/_double/state")["chats"]
    engine.faults(f"http-500@{number + 2}")
    assert [engine.forced(64).status for _ in range(3)] == ["ok", "failed", "ok"]


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ("wrong-tool-path", "wrong_path"), ("wrong-tool", "wrong_tool"), ("bad-arguments", "malformed_arguments"),
        ("text-for-call", "text_instead"),
    ],
)  # fmt: skip
def test_calls_go_wrong_by_switch(engine, fault, verdict):
    engine.faults(fault)
    sample = engine.chat("Read the file services/search/pool_001.py now.", tools=agent.TOOLS)
    assert agent.judge_read(sample, "services/search/pool_001.py").name == verdict


def test_the_cache_can_be_forgotten_or_filled_by_another(engine):
    prompt = haystack(3000) + " Once more."
    engine.chat(prompt)
    assert engine.chat(prompt).cached_tokens > 0
    engine.faults("evicts")
    assert engine.chat(prompt).cached_tokens == 0
    engine.faults("always-warm")
    assert engine.chat("Never sent before. " + prompt).cached_tokens > 0
    engine.faults("reset-busy")
    assert post_json(engine.endpoint, "/reset_prefix_cache", {}, timeout_s=10) == {"success": False}
    engine.faults("")
    assert post_json(engine.endpoint, "/reset_prefix_cache", {}, timeout_s=10) == {"success": True}
    assert engine.chat(prompt).cached_tokens == 0


def test_the_engine_dies_in_mid_stream_with_an_error_and_exit_code_0(tmp_path):
    with serving(tmp_path, [*RECIPE, *PLAIN], "die-mid-stream") as dying:
        sample = dying.forced(100)
        assert sample.error_kind == "server_error"
        assert dying.process.wait(10) == 0
        assert "EngineCore encountered a fatal error" in dying.process.stdout.read()


def test_the_fifth_request_crashes_the_engine(tmp_path):
    with serving(tmp_path, [*RECIPE, *PLAIN], "crash-on-request") as dying:
        assert [dying.forced(64).status for _ in range(5)] == ["ok"] * 4 + ["failed"]
        assert dying.process.wait(10) == 0


def test_a_hang_looks_healthy(engine):
    engine.faults("hang")
    sample = engine.forced(64, timeout_s=1)
    assert sample.error_kind == "timeout"
    assert get_text(engine.endpoint, "/health") == ""


def test_requests_are_checked_as_vllm_checks_them(engine):
    def status(**body):
        return engine.chat("hello", **body).http_status

    assert status(model="nope") == 404
    assert status(tools=[]) == 400
    assert status(stream=False) == 400
    assert status(max_tokens=200000) == 400
    assert status(min_token=5) == 200
    assert engine.get("/v1/models")["data"][0]["id"] == MODEL


def test_the_ground_truth_is_written_down(tmp_path):
    with serving(tmp_path, [*RECIPE, *PLAIN]) as told:
        sample = told.forced(64)
        time.sleep(0.5)  # the client may have the last byte before the log has its line
    rows = [json.loads(row) for row in (tmp_path / "truth.jsonl").read_text().splitlines()]
    (stream,) = [row for row in rows if row["kind"] == "stream"]
    assert (stream["sent"], stream["how"]) == (64, "done")
    sent = [t for t, n in stream["events"] if n]
    assert (sent[-1] - sent[0]) / 1e9 == pytest.approx(sample.last_token_s - sample.ttft_s, abs=0.05)
