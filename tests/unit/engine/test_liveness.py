"""Is it alive: wedges and compile storms in a boot, long silent prefills, hangs behind a healthy /health, the dead."""

from __future__ import annotations

from collections.abc import Callable

import engine_samples as samples
import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine.liveness import (
    DEAD,
    MOVING,
    SILENT,
    STALLED,
    UNKNOWN,
    Judgement,
    Limits,
    Signals,
    Watch,
    phase_signals,
)
from ansible_collections.lobes.spike.plugins.module_utils.engine.metrics import parse
from ansible_collections.lobes.spike.plugins.module_utils.engine.processes import Tree
from hypothesis import given
from hypothesis import strategies as st

LIMITS = Limits(quiet_s=20, stall_s=300)


def tree(cpu_s: float, compilers: tuple[str, ...] = (), rss: int = 1 << 30, pages: int = 5) -> Tree:
    return Tree(processes=3 + len(compilers), cpu_s=cpu_s, compilers=compilers, page_ins=pages, rss_bytes=rss)


def follow(seconds: range, signals: Callable[[float], Signals], watch: Watch | None = None) -> list[Judgement]:
    watch = watch or Watch(LIMITS)
    return [watch.observe(signals(float(s))) for s in seconds]


def first(judged: list[Judgement], state: str, step: int = 2) -> int | None:
    return next((n * step for n, j in enumerate(judged) if j.state == state), None)


def boot(log: Callable[[float], int], cpu: Callable[[float], Tree | None]) -> Callable[[float], Signals]:
    return lambda s: Signals(
        now_s=s,
        booting=True,
        container="running",
        health="refused",
        log_lines=log(s),
        stage="mamba_warmup",
        tree=cpu(s),
    )


def test_a_wedge_is_called_within_its_limit_with_evidence() -> None:
    # Really seen: two minutes at 80 % of a core, then 0.4 % for good, no child, no line.
    judged = follow(range(0, 600, 2), boot(lambda s: 40, lambda s: tree(min(s, 120) * 0.8 + s * 0.004)))
    called = first(judged, STALLED)
    assert called is not None
    assert 120 + 300 <= called <= 120 + 300 + 20
    text = " ".join(judged[-1].evidence)
    assert "mamba_warmup" in text
    assert "0.4 % of one core" in text
    assert "No compiler is running" in text
    assert judged[-1].stage == "mamba_warmup"


@pytest.mark.parametrize("limit_s", [4, 19, 60])
def test_a_short_limit_is_kept_though_something_was_printed_lately(limit_s: float) -> None:
    judged = follow(range(0, 120, 2), boot(lambda s: 40, lambda s: tree(0)), Watch(Limits.of(limit_s)))
    called = first(judged, STALLED)
    assert called is not None
    assert limit_s <= called <= limit_s + 4


def test_a_compile_storm_is_not_a_wedge() -> None:
    storm = tree(0, ("cicc",) * 22)
    judged = follow(
        range(0, 1200, 2),
        boot(lambda s: 40, lambda s: tree(s * 14, storm.compilers)),
    )
    assert {j.state for j in judged[15:]} == {SILENT}
    assert "22 compiler processes are running (cicc)" in " ".join(judged[-1].evidence)


def test_weights_that_come_from_a_slow_disk_are_movement() -> None:
    judged = follow(range(0, 900, 2), boot(lambda s: 20, lambda s: tree(s * 0.01, pages=int(s))))
    assert STALLED not in {j.state for j in judged}


def test_a_boot_that_prints_is_moving() -> None:
    judged = follow(range(0, 900, 2), boot(lambda s: int(s // 10), lambda s: tree(0)))
    assert {j.state for j in judged} == {MOVING}


def test_a_silent_boot_without_its_processes_in_sight_is_unknown_and_never_a_wedge() -> None:
    judged = follow(range(0, 2000, 2), boot(lambda s: 40, lambda s: None))
    assert judged[-1].state == UNKNOWN
    assert STALLED not in {j.state for j in judged}


def phase(**changes: object) -> Signals:
    known: dict[str, object] = {
        "container": "running", "health": "ok", "scrape": "ok", "running": 1.0, "waiting": 0.0, "kv_usage": 0.1,
        "tokens": 500.0, "iterations": 40.0, "in_hand": 1,
    }  # fmt: skip
    return Signals(**(known | changes))  # type: ignore[arg-type]


def test_a_long_prefill_fills_the_cache_and_is_not_a_stall() -> None:
    # One step of 50 s late in a prompt of a million tokens; log, counters and CPU stand still for half an hour.
    judged = follow(range(0, 1688, 2), lambda s: phase(now_s=s, kv_usage=0.05 + s // 50 * 0.001))
    assert {j.state for j in judged[15:]} == {SILENT}
    assert "kv_cache_usage_perc (now" in " ".join(judged[-1].evidence)


def test_the_progress_of_a_real_prefill() -> None:
    # Real engine (vLLM 0.29.0), 7,377 prompt tokens: the gauge every 4 s while all counters stood at 0.
    usage = [0.0110, 0.0220, 0.0385, 0.0440, 0.0550, 0.0660, 0.0715, 0.0770]
    watch = Watch(Limits(quiet_s=3, stall_s=10))
    judged = [watch.observe(phase(now_s=n * 4.0, kv_usage=u, tokens=0.0, iterations=0.0)) for n, u in enumerate(usage)]
    assert {j.state for j in judged[1:]} == {SILENT}


def test_a_scrape_becomes_signals() -> None:
    real = (samples.DATA / "vllm-0.29.0-cpu-ngram.prom").read_text(encoding="utf-8")
    seen = phase_signals(7.0, parse(real), in_hand=1)
    assert (seen.running, seen.waiting, seen.kv_usage, seen.tokens, seen.iterations) == (0, 0, 0, 189, 34)
    none = phase_signals(7.0, None, scrape="timeout", in_hand=1)
    assert (none.scrape, none.running, none.tokens) == ("timeout", None, None)
    # An engine without metrics: nothing is invented, and nothing is judged.
    empty = phase_signals(7.0, parse(""), in_hand=1)
    assert empty.tokens is None
    assert Watch().observe(empty).state == UNKNOWN


def test_a_hang_behind_a_healthy_answer_is_a_stall() -> None:
    judged = follow(range(0, 400, 2), lambda s: phase(now_s=s, waiting=3.0))
    assert first(judged, STALLED) == 300
    text = " ".join(judged[-1].evidence)
    assert "/health answers 200, which it does during a hang as well" in text
    assert "1 and 3" in text


def test_decoding_is_visible_movement() -> None:
    judged = follow(range(0, 900, 2), lambda s: phase(now_s=s, tokens=500 + s * 3))
    assert {j.state for j in judged} == {MOVING}


def test_an_idle_engine_is_not_stalled_and_owes_nothing_to_the_next_request() -> None:
    watch = Watch(LIMITS)
    idle = follow(range(0, 3600, 2), lambda s: phase(now_s=s, running=0.0, in_hand=0), watch)
    assert {j.state for j in idle} == {MOVING}
    assert "Idle" in " ".join(idle[-1].evidence)
    assert watch.observe(phase(now_s=3601, running=1.0)).state in (MOVING, SILENT)
    assert watch.observe(phase(now_s=3700, running=1.0)).state == SILENT


def test_a_request_in_hand_that_the_engine_does_not_know_is_not_idleness() -> None:
    judged = follow(range(0, 400, 2), lambda s: phase(now_s=s, running=0.0, in_hand=1))
    assert judged[-1].state == STALLED


def test_a_failed_scrape_is_not_idle_and_busy_is_not_dead() -> None:
    # A saturated engine answers neither /metrics nor /health in time, and computes.
    def saturated(s: float) -> Signals:
        return phase(
            now_s=s, health="timeout", scrape="timeout", running=None, waiting=None, kv_usage=None, tokens=None,
            iterations=None, tree=tree(s * 0.9),
        )  # fmt: skip

    watch = Watch(LIMITS)
    watch.observe(phase(now_s=0.0))
    judged = follow(range(2, 1200, 2), saturated, watch)
    assert {j.state for j in judged[10:]} == {SILENT}
    assert "that is not idleness" in " ".join(judged[-1].evidence)

    def blind(s: float) -> Signals:
        return phase(
            now_s=s, health="timeout", scrape="timeout", running=None, waiting=None, kv_usage=None, tokens=None,
            iterations=None,
        )  # fmt: skip

    assert follow(range(0, 1200, 2), blind)[-1].state == UNKNOWN


@pytest.mark.parametrize(
    ("signals", "words"),
    [
        (phase(now_s=0.0, container="exited", exit_code=0), "exit code 0 (a server whose engine died exits with 0)"),
        (phase(now_s=0.0, container="exited", exit_code=137), "exit code 137"),
        (phase(now_s=0.0, health="503"), "its engine is dead"),
        (phase(now_s=0.0, health="refused"), "refuses connections"),
    ],
)
def test_the_dead(signals: Signals, words: str) -> None:
    judgement = Watch().observe(signals)
    assert judgement.state == DEAD
    assert words in " ".join(judgement.evidence)


def test_a_port_that_refuses_during_a_boot_is_normal() -> None:
    assert Watch().observe(boot(lambda s: 1, lambda s: tree(1))(0.0)).state == MOVING


def test_cpu_time_that_a_dead_child_takes_with_it_is_no_movement() -> None:
    judged = follow(range(0, 700, 2), boot(lambda s: 40, lambda s: tree(500 - (s > 100) * 200)))
    assert judged[-1].state == STALLED


MAYBE = st.none() | st.floats(0, 1e9)
ANY = st.builds(
    Signals,
    now_s=st.floats(0, 1e6),
    booting=st.booleans(),
    container=st.sampled_from([None, "running", "paused", "exited", "odd"]),
    exit_code=st.none() | st.integers(-9, 255),
    log_lines=st.none() | st.integers(0, 9),
    stage=st.sampled_from([None, "none", "kv_pool"]),
    health=st.sampled_from([None, "ok", "refused", "timeout", "503", "404"]),
    scrape=st.sampled_from([None, "ok", "timeout", "failed"]),
    running=MAYBE, waiting=MAYBE, kv_usage=MAYBE, tokens=MAYBE, iterations=MAYBE,
    in_hand=st.none() | st.integers(0, 3),
    tree=st.none() | st.builds(tree, st.floats(0, 1e6)),
)  # fmt: skip


@given(st.lists(ANY, max_size=12))
def test_any_signals_give_a_judgement_and_the_same_signals_the_same(signals: list[Signals]) -> None:
    ordered = sorted(signals, key=lambda s: s.now_s)
    one, other = Watch(LIMITS), Watch(LIMITS)
    for seen in ordered:
        judged = one.observe(seen)
        assert judged.to_json() == other.observe(seen).to_json()
        assert judged.state in (MOVING, SILENT, STALLED, DEAD, UNKNOWN)
        assert judged.state != STALLED or judged.still_s >= LIMITS.stall_s
