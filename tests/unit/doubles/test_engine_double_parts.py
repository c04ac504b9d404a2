# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine double's parts against the seed's figures and vLLM's rules, without a process."""

from __future__ import annotations

import json
import sys

import pytest
from engine_double import DOUBLES, DSPARK, MODEL, PLAIN, RECIPE
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(DOUBLES / "engine"))
from spike_engine import arm, bootlog, cli, core, faults, perf, tokens

LONG = ["--max-model-len", "1048576"]


def settings(*arguments: str):
    return cli.parse([MODEL, *RECIPE, *arguments])


@pytest.mark.parametrize(
    ("arguments", "figures"),
    [
        (PLAIN, ("18,346,666", "128,000", "143.33")),
        (
            [*LONG, "--kv-cache-dtype", "fp8"],
            ("20,431,534", "1,048,576", "19.49"),
        ),
        (DSPARK, ("17,911,473", "1,048,576", "17.08")),
        (
            [*LONG, "--kv-cache-dtype", "bfloat16"],
            ("10,392,269", "1,048,576", "9.91"),
        ),
    ],
)
def test_pools_are_those_of_the_seed(arguments, figures):
    s = settings(*arguments)
    tokens_, length, times = figures
    line = f"{tokens_} tokens, Maximum concurrency for {length} tokens per request: {times}x"
    script = bootlog.script(
        s,
        arm.resolve(s),
        faults.Faults(),
        warm_caches=False,
        startup_plan=False,
        logo=True,
        dev_mode=False,
        port=8000,
        api_pid=1,
    )
    assert any(line in row.text for row in script)


def test_a_pool_outside_the_seed_follows_the_same_arithmetic():
    near = arm.resolve(settings("--max-model-len", "1048575", "--kv-cache-dtype", "fp8"))
    assert near.pool_tokens == pytest.approx(20431534, rel=0.01)
    half = arm.resolve(settings("--max-model-len", "1048575", "--kv-cache-dtype", "bfloat16"))
    assert half.pool_tokens == pytest.approx(near.pool_tokens / 2, rel=0.01)


@pytest.mark.parametrize(
    ("kv", "spec", "tokens_", "seconds"),
    [
        ("fp8", None, 88940, 28.2), ("fp8", None, 128073, 46.84), ("fp8", None, 250073, 131.7),
        ("fp8", None, 1040073, 1687.85),
        ("fp8", "dspark", 128073, 49.91), ("fp8", "dspark", 250073, 128.78), ("fp8", "dspark", 1040073, 1661.2),
        ("bfloat16", None, 128073, 45.28), ("bfloat16", None, 250073, 122.44), ("bfloat16", None, 1040073, 1448.97),
    ],
)  # fmt: skip
def test_prefill_takes_what_it_took(kv, spec, tokens_, seconds):
    model = perf.choose(kv, spec, 5)
    chunks = [(i, min(i + 16384, tokens_)) for i in range(0, tokens_, 16384)]
    assert sum(model.prefill(*chunk) for chunk in chunks) == pytest.approx(seconds, rel=0.075)


@pytest.mark.parametrize(
    ("streams", "rate"), [(1, 77.86), (2, 56.68), (4, 40.07), (8, 33.75), (16, 23.49), (32, 17.17)]
)
def test_decode_is_as_fast_as_it_was(streams, rate):
    assert 1 / perf.choose("fp8", None, 0).step([31] * streams) == pytest.approx(rate, rel=0.03)


@pytest.mark.parametrize(("depth", "rate"), [(128073, 70.83), (250073, 66.66), (1040073, 33.41)])
def test_decode_slows_with_depth(depth, rate):
    assert 1 / perf.choose("fp8", None, 0).step([depth]) == pytest.approx(rate, rel=0.01)


@given(st.text())
def test_pieces_join_to_the_text(text):
    tokenizer = tokens.Tokenizer()
    pieces = tokenizer.pieces(text)
    # What is neither word, digit, space nor mark (a lone combining sign, say) is dropped, as byte-level rest.
    assert "".join(pieces) in (text, "".join(c for c in text if c in "".join(pieces)))
    assert tokenizer.decode(tokenizer.encode(text)) == "".join(pieces)


def test_a_prompt_is_a_prefix_of_the_next_turn():
    turns = [{"role": "user", "content": "one"}]
    first = tokens.render(turns, None, thinking=False, generation_prompt=False)
    longer = tokens.render(
        [*turns, {"role": "assistant", "content": "two"}], None, thinking=False, generation_prompt=True
    )
    assert longer.startswith(first)


def test_cache_hits_are_whole_blocks_and_leave_a_token_to_compute():
    cache = core.PrefixCache(16, 1600)
    ids = list(range(64))
    assert cache.look_up(ids, "") == 0
    cache.keep(ids, "")
    assert cache.look_up(ids, "") == 48
    assert cache.look_up([*ids, 1], "") == 64
    assert cache.look_up([*ids, 1], "salt") == 0
    assert cache.look_up([*ids[:40], 99, *ids[41:]], "") == 32


def test_the_cache_forgets_under_pressure():
    cache = core.PrefixCache(16, 64)
    cache.keep(list(range(64)), "")
    cache.keep(list(range(100, 164)), "")
    assert cache.look_up([*range(64), 1], "") == 0
    assert cache.look_up([*range(100, 164), 1], "") == 64


def test_dotted_and_json_speculation_are_the_same():
    dotted = settings(*DSPARK).speculative_config
    given = json.dumps({"method": "dspark", "model": f"{MODEL}-DSpark", "num_speculative_tokens": 5})
    assert settings("--speculative-config", given).speculative_config == dotted
    assert arm.resolve(settings(*DSPARK)).spec_k == 5


@pytest.mark.parametrize(("text", "length"), [("128k", 128000), ("1M", 1048576), ("1048576", 1048576), ("2K", 2048)])
def test_lengths_have_suffixes(text, length):
    assert settings("--max-model-len", text).max_model_len == length


@pytest.mark.parametrize(
    "bad", [["--mamba-cash-mode", "align"], ["--kv-cache-dtype", "fp9"], ["--max-model-len", "many"]]
)
def test_a_bad_argument_ends_with_2(bad, capsys):
    with pytest.raises(SystemExit) as end:
        settings(*bad)
    assert end.value.code == 2
    assert "vllm serve: error:" in capsys.readouterr().err


def test_switches_have_arguments_and_windows():
    on = faults.Faults("stall:7@2-3, no-done")
    assert [on.on("stall", n) for n in (1, 2, 3, 4)] == [False, True, True, False]
    assert on.number("stall", 3) == 7
    assert on.on("no-done", 99)
    with pytest.raises(ValueError, match="list-faults"):
        faults.Faults("no-such-fault")
