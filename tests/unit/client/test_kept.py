# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer of any length: its beginning, its length and its sha256, in bounded memory and a small result."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client import Sample, chat
from ansible_collections.lobes.spike.plugins.module_utils.client.chat import ChatReader
from ansible_collections.lobes.spike.plugins.module_utils.client.figures import decode_rate, implausible
from ansible_collections.lobes.spike.plugins.module_utils.client.kept import (
    JUDGED_CHARS,
    MAX_PIECES,
    WRITTEN_CHARS,
    Text,
)
from ansible_collections.lobes.spike.plugins.module_utils.client.reply import Reply


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("size", [3, 1000, 2_000_000])
@pytest.mark.parametrize("length", [0, 5, WRITTEN_CHARS, WRITTEN_CHARS + 1, JUDGED_CHARS, JUDGED_CHARS + 1, 1_500_001])
def test_a_text_is_its_beginning_its_length_and_its_hash(length: int, size: int) -> None:
    whole = ("The cat sät on the 世界. " * (length // 20 + 1))[:length]
    text = Text()
    for i in range(0, length, size):
        text.add(whole[i : i + size])
        assert len(text.parts) <= MAX_PIECES + 1
    head, cut = text.ended()
    assert head == whole[:JUDGED_CHARS]
    assert cut == (None if length <= WRITTEN_CHARS else {"characters": length, "sha256": sha256(whole)})


def chunk(**delta: Any) -> bytes:
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


END = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}).encode()


def read(payloads: Iterator[bytes] | list[bytes]) -> Sample:
    sample = Sample("a")
    reader = ChatReader(sample)
    for number, payload in enumerate([*payloads, END]):
        if reader.event(number * 1000, payload):
            break
    reader.close(10**9)
    return sample


@pytest.mark.parametrize("field", ["content", "reasoning"])
def test_a_long_text_in_many_plain_events_is_cut_and_known_whole(field: str) -> None:
    word = "twelve chars"
    sample = read([chunk(**{field: word})] * (MAX_PIECES * 6))
    name = "text" if field == "content" else "reasoning"
    whole = word * (MAX_PIECES * 6)
    assert getattr(sample, name) == whole[:JUDGED_CHARS]
    assert sample.cut == {name: {"characters": len(whole), "sha256": sha256(whole)}}
    assert sample.characters == len(whole)
    assert not sample.whole_text
    written = sample.to_json()
    assert written[name] == whole[:WRITTEN_CHARS]
    assert written["cut"] == sample.cut


def test_an_answer_of_everyday_length_is_whole_and_says_nothing_of_cuts() -> None:
    sample = read([chunk(content="hello ")] * 2000)
    assert sample.to_json()["text"] == "hello " * 2000
    assert (sample.cut, sample.whole_text) == ({}, True)


def test_arguments_of_a_call_are_cut_too() -> None:
    piece = "y" * 50_000
    sample = read([chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": piece}}])] * 10)
    assert sample.cut == {"arguments of call 0": {"characters": 500_000, "sha256": sha256(piece * 10)}}
    assert len(sample.to_json()["tool_calls"][0]["arguments"]) == WRITTEN_CHARS
    assert sample.tool_calls[0]["name"] == "f"


def test_calls_and_names_without_end_are_bounded() -> None:
    calls = [chunk(tool_calls=[{"index": i, "function": {"name": "n" * 700, "arguments": "{}"}}]) for i in range(99)]
    names = [chunk(tool_calls=[{"index": 0, "function": {"name": f"{i:0600}"}}]) for i in range(9)]
    sample = read([*calls, *names])
    assert len(sample.tool_calls) == chat.MAX_CALLS
    assert len(sample.tool_calls[0]["name"] or "") == chat.MAX_NAME
    assert any("tool calls" in warning for warning in sample.warnings)


def test_events_without_end_fail_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "MAX_EVENTS", 5)
    sample = read([chunk(content="x" * 5000)] * 9)
    assert (sample.status, sample.error_kind, len(sample.events)) == ("failed", "bad_event", 6)


def wire(pieces: int, piece: str) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b"data: " + chunk(content=piece) + b"\n\n"
    one = b"%x\r\n%b\r\n" % (len(event), event)
    for _ in range(pieces):
        yield from (one[i : i + 65536] for i in range(0, len(one), 65536))
    for last in (b"data: " + END + b"\n\n", b"data: [DONE]\n\n"):
        yield b"%x\r\n%b\r\n" % (len(last), last)


@pytest.mark.parametrize(("pieces", "length"), [(400, 100_000), (40_000, 1000)])
def test_memory_is_bounded_whatever_comes(pieces: int, length: int) -> None:
    sample = Sample("a")
    reply = Reply(sample)
    tracemalloc.start()
    for number, data in enumerate(wire(pieces, "z" * length)):
        reply.feed(number * 1000, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sample.status == "ok"
    assert sample.cut["text"]["characters"] == pieces * length
    assert peak < 0.5 * pieces * length, "the whole was held at once"
    assert len(json.dumps(sample.to_json()["text"])) < WRITTEN_CHARS + 10


def test_a_text_that_its_tokens_cannot_be_is_no_figure() -> None:
    events = [(i * 10**7, i + 1) for i in range(100)]
    sample = Sample("a", status="ok", completion_tokens=100, finish_reason="length", events=events,
                    first_event_tokens=1, text="x" * 25_600)  # fmt: skip
    assert decode_rate(sample, 100)[0] == pytest.approx(100)
    assert implausible(sample) == []
    sample.text += "x"
    assert decode_rate(sample, 100) == (None, "25601 characters are no text of 100 tokens")
    assert implausible(sample) == ["the text is 25601 characters long, usage says 100 tokens: degenerate output?"]


def test_nuls_are_text_like_any_other() -> None:
    sample = read([chunk(content="a\0b"), chunk(content="\0")])
    assert sample.text == "a\0b\0"
    assert json.loads(json.dumps(sample.to_json()))["text"] == "a\0b\0"
