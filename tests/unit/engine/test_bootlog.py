"""The boot log's milestones, settings and notices: real logs, the forms of several releases, and hostile text."""

from __future__ import annotations

import re
import time

import engine_samples as samples
import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine.bootlog import BootLog
from ansible_collections.lobes.spike.plugins.module_utils.engine.records import (
    LogClock,
    clean,
    record,
    split_docker_time,
)
from hypothesis import given, settings
from hypothesis import strategies as st

VERSIONS = ["0.24.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"]


def read(text: str | bytes, piece: int = 1 << 20, year: int | None = 2026) -> BootLog:
    data = text.encode() if isinstance(text, str) else text
    log = BootLog(year)
    for start in range(0, len(data), piece):
        log.feed(data[start : start + piece])
    log.close()
    return log


def times(log: BootLog) -> list[tuple[str, float | None]]:
    return [(m["name"], m["t_s"]) for m in log.to_json()["milestones"]]


def test_real_cpu_boot_yields_all_its_milestones() -> None:
    log = read(samples.real("plain"))
    assert times(log) == [
        ("arguments", 2), ("architecture", 11), ("max_model_len", 11), ("engine_config", 18), ("load_start", 25),
        ("checkpoint", 25), ("weights_loaded", 27), ("model_warmup", 27), ("compile_saved", 135), ("profiled", 139),
        ("model_warm", 145), ("kv_memory", 145), ("kv_pool", 145), ("engine_init", 151), ("tasks", 151),
        ("http_start", 152), ("startup_complete", None),
    ]  # fmt: skip
    facts = log.facts()
    assert facts["engine_version"] == "0.29.0"
    assert facts["settings"]["kv_cache_dtype"] == "auto"
    assert facts["settings"]["kv_cache_quantised"] is None
    assert facts["settings"]["cudagraph_mode"] == "NONE"
    assert facts["settings"]["speculative"] is None
    pool = facts["kv_pool"]
    assert (pool["tokens"], pool["max_model_len"], pool["capacity_ceiling_requests"]) == (93184, 8192, 11.38)
    assert "capacity ceiling" in pool["label"]
    assert facts["memory"]["kv_memory_gib"] == 2.0
    assert facts["compile_cache"]["hit"] is False
    assert log.ready
    assert log.cause() is None


def test_a_newer_release_yields_all_its_milestones() -> None:
    # 0.32.0 puts the prefix into the record, prints bare lines without it and names the device in the pool's line.
    log = read((samples.DATA / "vllm-0.32.0-cpu.log").read_bytes())
    assert times(log) == [
        ("arguments", 0), ("architecture", 132), ("max_model_len", 132), ("engine_config", 204), ("load_start", 260),
        ("checkpoint", 261), ("weights_loaded", 263), ("kv_memory", 266), ("kv_pool", 266), ("engine_init", 267),
        ("tasks", 270), ("http_start", 272), ("startup_complete", None),
    ]  # fmt: skip
    facts = log.facts()
    assert facts["engine_version"] == "0.32.0"
    assert facts["kv_pool"]["tokens"] == 46592
    assert facts["settings"]["compilation_mode"] == "NONE"
    assert log.ready
    assert log.cause() is None


def test_real_ngram_boot_shows_its_speculation() -> None:
    log = read(samples.real("ngram"))
    assert log.facts()["settings"]["speculative"] == {"method": "ngram", "model": None, "num_spec_tokens": 5}
    stated = {m["name"]: m["duration_s"] for m in log.to_json()["milestones"] if m["duration_s"] is not None}
    assert stated == {"weights_loaded": 0.43, "profiled": 1.16, "engine_init": 68.08}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_release_gives_the_same_boot(version: str) -> None:
    log = read(samples.thor(version))
    seconds = dict(times(log))
    assert seconds["mamba_warmup"] == 105
    assert seconds["profiled"] == 196
    assert seconds["kv_pool"] == 248
    assert seconds["engine_init"] == 562
    facts = log.facts()
    assert facts["engine_version"] == version
    assert facts["kv_pool"]["tokens"] == 20431534
    assert facts["kv_pool"]["max_model_len"] == 1048576
    assert facts["kv_pool"]["capacity_ceiling_requests"] == 19.49
    assert facts["backends"] == {
        "model_runner": "V2", "moe": "MARLIN", "moe_quantization": "NvFp4", "attention": ["FLASHINFER"],
        "mamba_ssu": "flashinfer",
    }  # fmt: skip
    memory = facts["memory"]
    assert memory["model_gib"] == 17.82
    assert memory["budget_gib"] == 85.97
    assert memory["activation_gib"] == 2.92
    assert memory["graphs_gib"] == 4.1
    assert facts["compilation_s"] == 14.82
    assert facts["settings"]["kv_cache_quantised"] is True
    assert facts["settings"]["cudagraph_mode"] == "FULL_AND_PIECEWISE"
    assert facts["settings"]["reasoning_parser"] == "nemotron_v3"
    assert log.ready
    meanings = {n["meaning"] for n in facts["notices"]}
    assert ("modelopt_detected" in meanings) is (int(version.split(".")[1]) < 30)


def test_the_two_graph_captures_are_told_apart() -> None:
    log = read(samples.thor())
    graphs = {m["name"]: m["duration_s"] for m in log.to_json()["milestones"] if m["name"].startswith("graphs")}
    assert graphs == {"graphs_profiled": 49, "graphs_captured": 122}
    memory = log.facts()["memory"]
    assert (memory["graphs_profiled_gib"], memory["graphs_captured_gib"]) == (1.87, 4.10)
    cut = read(samples.thor(until="took 1.87 GiB"))
    assert cut.stage == "graphs_profiled"
    assert cut.facts()["memory"]["graphs_captured_gib"] is None


def test_notices_say_what_they_do_not_mean() -> None:
    notices = {n["meaning"]: n for n in read(samples.thor(kv="fp8")).facts()["notices"]}
    assert "does not say what the device can compute" in notices["fp4_weight_only"]["says"]
    assert "says nothing about K and V scales" in notices["kv_scale_q_prob"]["says"]
    assert "uncalibrated" in notices["kv_scale_kv"]["says"]
    assert notices["modelopt_detected"]["times"] == 3
    # auto resolves to fp8_e4m3 here: quantised, without the q/prob line. Its absence proves nothing.
    auto = read(samples.thor(kv="fp8_e4m3")).facts()
    assert "kv_scale_q_prob" not in {n["meaning"] for n in auto["notices"]}
    assert auto["settings"]["kv_cache_quantised"] is True
    assert read(samples.thor(kv="bfloat16")).facts()["settings"]["kv_cache_quantised"] is False


def test_a_drafter_is_a_second_architecture_and_a_setting() -> None:
    facts = read(samples.thor(drafter=True)).facts()
    assert facts["architectures"] == ["NemotronHForCausalLM", "Qwen3DSparkModel"]
    assert facts["settings"]["speculative"]["method"] == "dspark"


def test_secrets_in_the_arguments_are_not_repeated() -> None:
    text = str(read(samples.thor()).to_json())
    assert "s3cr3t" not in text
    assert "(redacted)" in text
    assert clean("'api_key': None, 'x': 1") == "'api_key': None, 'x': 1"


def test_year_rollover_and_steps_back_of_a_second() -> None:
    clock = LogClock()
    stamps = [
        "12-31 23:59:58",
        "01-01 00:00:03",
        "12-31 23:59:59",
        "01-01 00:00:02",
        "02-28 00:00:03",
        "03-01 00:00:03",
    ]
    assert [clock.seconds(t) for t in stamps[:4]] == [0, 5, 1, 4]
    assert clock.seconds(stamps[5]) - clock.seconds(stamps[4]) == 86400
    leap = LogClock(2028)
    assert leap.seconds("02-28 00:00:00") == 0
    assert leap.seconds("03-01 00:00:00") == 2 * 86400
    log = read(samples.thor(date="12-31").replace("12-31 21:59", "01-01 00:59"))
    assert dict(times(log))["engine_init"] == 3 * 3600 + 9 * 60 + 22


def test_colour_pieces_and_carriage_returns_change_nothing() -> None:
    plain = samples.thor()
    head = r"^\((\w+) pid=(\d+)\) (INFO|WARNING) (\S+ \S+) (\[\S+\])"
    coloured = "\x1b[0;36m(\\1 pid=\\2)\x1b[0;0m \x1b[32m\\3\x1b[0m \x1b[90m\\4\x1b[0m \x1b[90m\\5\x1b[0m"
    grey = re.sub(head, coloured, plain, flags=re.MULTILINE)
    assert "\x1b" in grey
    whole = read(plain).to_json()["milestones"]
    assert read(grey).to_json()["milestones"] == whole
    assert read(plain, piece=7).to_json() == read(plain).to_json()
    bar = "Capturing CUDA graphs (FULL):  45%|####      | 23/51 [00:03<00:04,  6.57it/s]"
    glued = plain.replace(
        "(EngineCore pid=182) INFO 09-13 21:59:40", bar + "(EngineCore pid=182) INFO 09-13 21:59:40", 1
    )
    assert times(read(glued)) == times(read(plain))


def test_workers_that_repeat_a_step_are_counted_once() -> None:
    line = "(Worker_TP{0} pid={0}) INFO 09-13 10:00:00 [w.py:1] Model loading took 10.0 GiB memory and {0} seconds\n"
    assert [m["duration_s"] for m in read(line.format(7) + line.format(8)).to_json()["milestones"]] == [7]


def test_what_is_printed_after_the_boot_is_no_milestone() -> None:
    text = samples.thor() + "(EngineCore pid=182) INFO 09-13 22:01:00 [x.py:1] GPU KV cache size: 5 tokens\n"
    log = read(text)
    assert log.stage == "startup_complete"
    assert log.facts()["kv_pool"]["tokens"] == 20431534


def test_lines_beyond_all_measure() -> None:
    head = "(EngineCore pid=1) INFO 09-13 10:00:00 [a.py:1] "
    log = read(
        f"{head}{'x' * 3_000_000}\n{head}Available KV cache memory: 59.44 GiB\n{head}" + "y" * 40_000, piece=65536
    )
    assert [m["name"] for m in log.to_json()["milestones"]] == ["kv_memory"]
    assert log.lines == 3


def test_docker_times_are_taken_off_whole_and_in_pieces() -> None:
    stamp = b"2026-11-30T07:56:12.814539402Z "
    assert split_docker_time(stamp + b"hello") == ("2026-11-30T07:56:12.814539402Z", b"hello")
    assert split_docker_time(b"hello") == (None, b"hello")
    text = bytes(range(65, 91)) * 1500
    pieces = b"".join(stamp + text[i : i + 16384] for i in range(0, len(text), 16384))
    assert split_docker_time(pieces) == (stamp.decode().strip(), text)


def test_docker_times_give_unprefixed_lines_their_place_and_the_clock_its_offset() -> None:
    log = BootLog(2026)
    log.feed_line("(APIServer pid=1) INFO 12-31 23:59:59 [a.py:1] Using max model len 8192", "2027-01-01T02:59:59.400Z")
    log.feed_line(
        "(APIServer pid=1) INFO 01-01 00:00:09 [a.py:1] Supported tasks: ['generate']", "2027-01-01T03:00:09.100Z"
    )
    log.feed_line("(APIServer pid=1) INFO:     Application startup complete.", "2027-01-01T03:00:11.400Z")
    assert times(log)[-1] == ("startup_complete", 12.3)
    assert log.facts()["log_clock"] == {"minus_utc_s": -10800.1, "resolution_s": 1.0, "samples": 2}


def test_big_logs_are_read_fast_enough() -> None:
    line = "(EngineCore pid=7251) INFO 11-30 04:12:20 [core.py:123] some text of about this length, number 17\n"
    data = (line * 20 + samples.thor(until="Mamba2 SSD")).encode()
    data *= 10_000_000 // len(data)
    start = time.process_time()
    read(data)
    spent = time.process_time() - start
    # 200 MB in 10 s is the aim on a free core; this asks for a third of that, so that a busy machine does not fail it.
    assert spent / len(data) * 200e6 < 30


NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
LINE = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=120)
HEAD = "(EngineCore pid=182) INFO 09-13 21:53:46 [monitor.py:81] "
MESSAGES = [line.partition("] ")[2] for line in samples.thor().splitlines() if "] " in line]


@given(LINE)
def test_no_line_crashes_the_reader(text: str) -> None:
    for line in (text, HEAD + text, "(APIServer pid=1) " + text):
        log = read(line)
        assert log.lines >= 1 or not line
        log.to_json()
        record(line.replace("\r", ""))


@settings(max_examples=300)
@given(st.sampled_from(MESSAGES), st.data())
def test_no_number_comes_from_nowhere(message: str, data: st.DataObject) -> None:
    """Cut, doubled or altered messages: every number in the facts stands in the line."""
    start = data.draw(st.integers(0, len(message)))
    end = data.draw(st.integers(start, len(message)))
    altered = message[:start] + data.draw(LINE) + message[end:]
    log = read(HEAD + altered)
    present = NUMBER.findall(altered.replace(",", ""))
    facts = log.facts()
    numbers = [v for v in (*facts["memory"].values(), facts["max_model_len"], facts["compilation_s"]) if v is not None]
    pool = facts["kv_pool"] or {}
    numbers += [v for k, v in pool.items() if k not in ("label",) and v is not None]
    numbers += [m["duration_s"] for m in log.to_json()["milestones"] if m["duration_s"] is not None]
    for number in numbers:
        assert any(abs(number) == float(text) for text in present)


@given(st.binary(max_size=300), st.integers(1, 50))
def test_bytes_in_any_pieces_are_read_the_same(data: bytes, piece: int) -> None:
    assert read(data, piece).to_json() == read(data).to_json()
