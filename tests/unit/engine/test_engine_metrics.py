"""The exposition parser: real scrape of vLLM 0.29.0, old and new names, engines, restarts, rubbish."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine import metrics
from hypothesis import given
from hypothesis import strategies as st

REAL = (Path(__file__).parent / "data" / "vllm-0.29.0-cpu-ngram.prom").read_text(encoding="utf-8")


def test_real_scrape_is_read_whole() -> None:
    exposition = metrics.parse(REAL)
    assert exposition.skipped == 0
    assert exposition.value("prompt_tokens") == 69
    assert exposition.value("vllm:prompt_tokens_total") == 69
    assert exposition.value("generation_tokens") == 120
    assert exposition.value("kv_cache_usage") == 0
    assert exposition.value("requests_finished", finished_reason="length") == 1
    assert exposition.value("process_cpu_seconds") == pytest.approx(9.14)
    assert exposition.histogram("prefill_computed_tokens") == (69.0, 1.0)
    assert exposition.histogram("iteration_tokens") == (189.0, 34.0)
    assert exposition.families["vllm:prompt_tokens_total"].kind == "counter"
    assert exposition.families["vllm:iteration_tokens_total_sum"].kind == "histogram"
    info = exposition.info("cache_config_info")
    assert info is not None
    assert info["kv_cache_size_tokens"] == "93184"


def test_real_delta_gives_the_acceptance_the_log_gives() -> None:
    # The same run's log line: mean acceptance length 4.07, per position 0.724 0.724 0.552 0.552 0.517.
    zero = re.sub(r"^(vllm:(?!\w*_created)\S+_(?:total|sum|count)(?:\{.*\})?) \S+$", r"\1 0.0", REAL, flags=re.M)
    gained = metrics.delta(metrics.parse(zero), metrics.parse(REAL))
    assert gained["restarted"] is False
    assert gained["spec_mean_acceptance_length"] == pytest.approx(4.07, abs=0.005)
    assert gained["spec_acceptance_per_pos"] == pytest.approx([0.724, 0.724, 0.552, 0.552, 0.517], abs=0.0005)
    assert gained["prefill_computed_tokens"] == 69
    assert gained["ttft_s_count"] == 1
    assert gained["requests_finished"] == {"abort": 0, "error": 0, "length": 1, "repetition": 0, "stop": 0}
    assert gained["prompt_tokens_by_source"] == {"external_kv_transfer": 0, "local_cache_hit": 0, "local_compute": 69}


def test_old_and_new_name_together_are_not_added() -> None:
    exposition = metrics.parse("vllm:gpu_cache_usage_perc 0.25\nvllm:kv_cache_usage_perc 0.5\n")
    assert exposition.value("kv_cache_usage") == 0.5
    assert metrics.parse("vllm:gpu_cache_usage_perc 0.25").value("kv_cache_usage") == 0.25


def test_engines_are_summed_and_created_is_not_a_count() -> None:
    text = (
        'vllm:prompt_tokens_total{engine="0"} 10\nvllm:prompt_tokens_total{engine="1"} 5\n'
        'vllm:prompt_tokens_created{engine="0"} 1.7e9\n'
    )
    exposition = metrics.parse(text)
    assert exposition.value("prompt_tokens") == 15
    assert exposition.value("prompt_tokens", engine="1") == 5
    assert metrics.parse("vllm:prompt_tokens{} 7").value("prompt_tokens") == 7


def test_absent_is_none_and_not_zero() -> None:
    empty = metrics.parse("")
    assert empty.value("prompt_tokens") is None
    assert empty.histogram("ttft_s") is None
    assert empty.by_label("spec_accepted_per_pos", "position") == {}
    gained = metrics.delta(empty, empty)
    assert set(gained.values()) == {None, False}
    assert metrics.parse("vllm:prompt_tokens_total NaN").value("prompt_tokens") is None
    assert metrics.delta(None, metrics.parse(REAL))["prompt_tokens"] is None


def test_a_restarted_engine_gives_no_delta() -> None:
    before = metrics.parse(REAL)
    fell = metrics.parse(REAL.replace('model_name="smol"} 69.0', 'model_name="smol"} 3.0'))
    assert metrics.delta(before, fell)["restarted"] is True
    assert metrics.delta(before, fell)["prompt_tokens"] is None
    again = metrics.parse(re.sub(r"(vllm:prompt_tokens_created\S+) \S+", r"\1 1.9e9", REAL))
    assert metrics.delta(before, again)["restarted"] is True


def test_a_counter_that_fell_gained_nothing_known() -> None:
    before, after = metrics.parse("vllm:num_preemptions_total 5"), metrics.parse("vllm:num_preemptions_total 2")
    assert metrics.counter_delta(before, after, "preemptions") is None
    assert metrics.counter_delta(after, before, "preemptions") == 3
    histogram = metrics.parse("vllm:request_queue_time_seconds_sum 4\nvllm:request_queue_time_seconds_count 2")
    assert metrics.histogram_delta(histogram, histogram, "queue_s") == (0, 0)
    assert metrics.histogram_delta(metrics.parse(""), histogram, "queue_s") is None


def test_labels_with_escapes_exemplars_timestamps_and_rubbish() -> None:
    exposition = metrics.parse(
        'a{x="q\\"}\\\\ \\n,y"} 1 1700000000\r\nb 2 # {trace="1"} 0.5 9\nc{x="cut\nd 1_000\ne \u0661\n<i>\nf +Inf\n}{'
    )
    assert exposition.families["a"].series[0].labels == {"x": 'q"}\\ \n,y'}
    assert exposition.value("a") == 1
    assert exposition.value("b") == 2
    assert exposition.value("f") is None
    assert set(exposition.families) == {"a", "b", "f"}
    assert exposition.skipped == 5


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300))
def test_no_text_crashes_it_or_makes_a_number(text: str) -> None:
    for family in metrics.parse(text).families.values():
        for series in family.series:
            assert repr(series.value) in ("nan", "inf", "-inf") or any(ch in "0123456789" for ch in text)


@given(st.integers(0, len(REAL)))
def test_a_cut_scrape_never_invents_a_value(cut: int) -> None:
    whole, part = metrics.parse(REAL), metrics.parse(REAL[:cut])
    names = {s.name for f in whole.families.values() for s in f.series}
    last = REAL[:cut].rpartition("\n")[2]
    for name in part.families:
        assert name in names or name in last
