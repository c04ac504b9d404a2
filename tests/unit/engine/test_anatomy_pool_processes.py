"""Where a boot's time and memory went; the pool by the metrics; the processes of a container."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import engine_samples as samples
import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine.anatomy import compare, phases
from ansible_collections.lobes.spike.plugins.module_utils.engine.bootlog import BootLog
from ansible_collections.lobes.spike.plugins.module_utils.engine.metrics import parse
from ansible_collections.lobes.spike.plugins.module_utils.engine.pool import comparable, read_pool
from ansible_collections.lobes.spike.plugins.module_utils.engine.processes import parse_stat, read_tree
from hypothesis import given
from hypothesis import strategies as st


def boot(text: str, ready_s: float | None = None) -> dict[str, Any]:
    log = BootLog(2026)
    log.feed(text.encode())
    log.close()
    document = log.to_json()
    return {**document, "ready_s": ready_s, "phases": phases(document["milestones"], ready_s)}


def test_phases_of_a_thor_boot() -> None:
    document = boot(samples.thor(), 559.0)
    seconds = {p["name"]: p["seconds"] for p in phases(document["milestones"], 559.0)}
    assert seconds == {
        "start of server and engine core": 40, "loading the model": 50, "compilation before the Mamba warm-up": 15,
        "first profiling run": 91, "throw-away graph capture for memory": 51, "sizing of the KV pool": 1,
        "warm-up, autotuning and capture of the serving graphs": 302, "end of the engine core's start": 12,
        "start of the HTTP server": 1, "container start to /health": 559,
    }  # fmt: skip


def test_a_cpu_boot_has_the_phases_that_it_has() -> None:
    names = [p["ends"] for p in phases(boot(samples.real("plain").decode())["milestones"], None)]
    assert names == ["engine_config", "model_loaded", "profiled", "kv_pool", "engine_init", "http_start"]


def test_two_boots_side_by_side() -> None:
    one = boot(samples.thor(), 559.0)
    other = boot(samples.thor().replace("59.44 GiB", "57.34 GiB").replace("21:59", "22:00"), 600.0)
    found = compare(one, other)
    assert "+60 s in warm-up, autotuning and capture of the serving graphs" in found["sentences"]
    assert "-2.10 GiB KV pool" in found["sentences"]
    assert "+41 s in container start to /health" in found["sentences"]
    assert found["kv_pool"]["comparable"] is True
    assert found["kv_pool"]["difference_tokens"] == 0


def test_pools_of_different_context_lengths_are_not_compared() -> None:
    one, other = boot(samples.thor()), boot(samples.thor().replace("1,048,576 tokens per", "128,000 tokens per"))
    found = compare(one, other)["kv_pool"]
    assert found["comparable"] is False
    assert found["difference_tokens"] is None
    assert "max_model_len" in found["reason"]


def test_a_phase_with_another_beginning_is_not_compared() -> None:
    cached = samples.thor().replace("Warming up Mamba2", "Not warming up Mamba2")
    rows = {r["name"]: r for r in compare(boot(samples.thor()), boot(cached))["phases"]}
    assert rows["first profiling run"]["difference_s"] is None
    assert rows["loading the model"]["difference_s"] == 0
    assert rows["compilation before the Mamba warm-up"]["other_s"] is None
    assert compare({}, {})["sentences"] == []


def test_the_real_pool() -> None:
    pool = read_pool(parse((samples.DATA / "vllm-0.29.0-cpu-ngram.prom").read_text(encoding="utf-8")))
    assert pool is not None
    assert pool["tokens"] == 93184
    assert pool["max_model_len"] == 8192
    assert pool["capacity_ceiling_requests"] == 11.375
    assert "capacity ceiling" in str(pool["label"])
    settings: Any = pool["settings"]
    assert settings["mamba_ssm_cache_dtype"] == "float32"
    assert settings["mamba_block_size"] is None
    assert comparable(pool, pool) is True
    assert comparable(pool, {"max_model_len": 4096}) is False
    assert comparable(None, pool) is False
    assert read_pool(parse("")) is None
    assert read_pool(None) is None


def test_a_rounded_capacity_gives_no_context_length() -> None:
    text = 'vllm:cache_config_info{kv_cache_size_tokens="20431534",kv_cache_max_concurrency="19.49"} 1'
    pool = read_pool(parse(text))
    assert pool is not None
    assert pool["tokens"] == 20431534
    assert pool["max_model_len"] is None


def stat_line(pid: int, name: str, parent: int, ticks: int = 0) -> str:
    fields = ["S", str(parent), *["0"] * 7, "3", "4", str(ticks), "0", "0", "0", *["0"] * 6, "100", *["0"] * 20]
    return f"{pid} ({name}) {' '.join(fields)}\n"


def test_a_tree_with_compilers(tmp_path: Path) -> None:
    rows = [
        (10, "vllm", 1, 100),
        (11, "VLLM::EngineCor", 10, 300),
        (12, "cicc", 11, 50),
        (13, "odd ) name", 11, 0),
        (99, "x", 1, 9),
    ]
    for pid, name, parent, ticks in rows:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat_line(pid, name, parent, ticks))
    (tmp_path / "self").mkdir()
    (tmp_path / "77").mkdir()  # it ended meanwhile
    tree = read_tree(10, str(tmp_path))
    assert tree is not None
    assert tree.processes == 4
    assert tree.cpu_s == pytest.approx(450 / os.sysconf("SC_CLK_TCK"))
    assert tree.compilers == ("cicc",)
    assert tree.page_ins == 4 * 7
    assert read_tree(5, str(tmp_path)) is None
    assert read_tree(10, str(tmp_path / "absent")) is None


def test_a_real_tree() -> None:
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.5)
        tree = read_tree(child.pid)
    finally:
        child.kill()
        child.wait()
    assert tree is not None
    assert tree.processes == 1
    assert tree.cpu_s > 0.05
    assert tree.rss_bytes > 1_000_000


@given(st.text(max_size=200))
def test_no_stat_line_crashes(text: str) -> None:
    parse_stat(text)
