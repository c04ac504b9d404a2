"""The engine's periodic log lines, in the forms of several releases."""

from __future__ import annotations

import re

import engine_samples as samples
from ansible_collections.lobes.spike.plugins.module_utils.engine.bootlog import BootLog
from ansible_collections.lobes.spike.plugins.module_utils.engine.statslines import read_stats
from hypothesis import given
from hypothesis import strategies as st

LINE = (
    "Engine 000: Avg prompt throughput: 25005.9 tokens/s, Avg generation throughput: 0.1 tokens/s, Running: 1 reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: 6.2%, Prefix cache hit rate: 26.5%"
)
SPEC = (
    "SpecDecoding metrics: Mean acceptance length: 4.07, Accepted throughput: 4.29 tokens/s, Drafted throughput: 6.99 "
    "tokens/s, Accepted: 89 tokens, Drafted: 145 tokens, Per-position acceptance rate: 0.724, 0.724, 0.552, 0.552, "
    "0.517, Avg Draft acceptance rate: 61.4%"
)


def test_throughput_lines_of_several_releases() -> None:
    read = {
        "prompt_tok_s": 25005.9, "generation_tok_s": 0.1, "running": 1, "waiting": 0, "kv_usage_percent": 6.2,
        "prefix_hit_percent": 26.5,
    }  # fmt: skip
    assert read_stats(LINE) == read
    newer = LINE.replace("Waiting: 0 reqs", "Waiting: 0 reqs, Deferred: 2 reqs").replace("GPU KV", "CPU KV")
    assert read_stats(newer.partition(", Prefix")[0]) == {k: v for k, v in read.items() if "hit" not in k} | {
        "deferred": 2
    }
    more = LINE + ", External prefix cache hit rate: 1.0%, MM cache hit rate: 2.0%"
    assert read_stats(more) == read


def test_speculation_lines() -> None:
    read = read_stats(SPEC)
    assert read is not None
    assert read["mean_acceptance_length"] == 4.07
    assert read["acceptance_per_position"] == [0.724, 0.724, 0.552, 0.552, 0.517]
    assert (read["accepted_tokens"], read["drafted_tokens"], read["draft_acceptance_percent"]) == (89, 145, 61.4)
    fork = read_stats(SPEC.replace("Accepted: 89", "Current speculative depth: 5, Accepted: 89"))
    assert fork == read


def test_other_lines_are_none() -> None:
    assert read_stats("Engine 000 is fine") is None
    assert read_stats("Available KV cache memory: 59.44 GiB") is None


def test_the_real_logs_account() -> None:
    log = BootLog(2026)
    log.feed(samples.real("ngram"))
    log.close()
    stats = log.stats()
    assert stats["windows"] == 1
    assert stats["last"] == {
        "log_time": "11-30 04:19:29", "prompt_tok_s": 6.9, "generation_tok_s": 12.0, "running": 0.0, "waiting": 0.0,
        "kv_usage_percent": 0.0, "prefix_hit_percent": 0.0,
    }  # fmt: skip
    assert stats["last_speculation"]["mean_acceptance_length"] == 4.07
    plain = BootLog(2026)
    plain.feed(samples.real("plain"))
    assert plain.stats()["windows"] == 5
    assert plain.stats()["highest"]["running"] == 4


@given(st.sampled_from([LINE, SPEC]), st.data())
def test_no_number_comes_from_nowhere(line: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(line)))
    altered = line[:cut] + data.draw(st.text(max_size=30))
    numbers = {float(n) for n in re.findall(r"[0-9]+(?:\.[0-9]+)?", altered, re.ASCII)}
    for value in (read_stats(altered) or {}).values():
        assert set(value if isinstance(value, list) else [value]) <= numbers
