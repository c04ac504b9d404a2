# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any split of any valid stream gives the same sample; no input hangs the reader, breaks it or makes a figure."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from ansible_collections.lobes.spike.plugins.module_utils.client import Sample, chat
from ansible_collections.lobes.spike.plugins.module_utils.client.reply import Reply
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CAPTURE = Path(__file__).parent / "data" / "vllm-0.29.0-ngram.sse"

# What a server can put into one delta, and how it can put it on the wire.
TEXT = st.text(min_size=0, max_size=12)
PLAIN = st.text(alphabet=st.sampled_from('ab\n\\"é \t/n'), max_size=6)  # what the short way must tell apart
KINDS = st.sampled_from(["content", "content", "content", "reasoning", "reasoning_content"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def events(draw):
    """A stream as the server means it: [(kind, text, tokens)], then how it ends."""
    return draw(st.lists(st.tuples(KINDS, TEXT, st.integers(0, 6)), min_size=0, max_size=14))


@st.composite
def wire(draw, meant):
    """The body's bytes of ``meant``, in some dialect, one bytes object an event."""
    end = draw(ENDS)
    prefix = draw(st.sampled_from([b"data: ", b"data:", b"id: 3\ndata: ", b"event: message\ndata: "]))
    prefix = prefix.replace(b"\n", end)
    ascii_only = draw(st.booleans())
    noise = draw(st.booleans())
    done = 0
    out = []

    def frame(value):
        payload = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":")).encode("utf-8", "replace")
        out.append(prefix + payload + end * 2)

    def chunk(delta, finish=None, **more):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        frame({"id": "x", "model": "m", "choices": [choice], "usage": counts(done), **more})

    chunk({"role": "assistant", "content": ""})
    for kind, text, tokens in meant:
        done += tokens
        chunk({kind: text})
        if noise:
            out.append(b": ping" + end * 2)
    chunk({}, "length")
    frame({"id": "x", "choices": [], "usage": counts(done)})
    out.append(prefix + b"[DONE]" + end * 2)
    return out


def counts(done):
    return {"prompt_tokens": 3, "total_tokens": 3 + done, "completion_tokens": done}


@st.composite
def framed(draw, body):
    """Body bytes as an HTTP reply, chunked anyhow."""
    if draw(st.booleans()):
        return HEAD + b"".join(b"%x\r\n" % len(part) + part + b"\r\n" for part in body) + b"0\r\n\r\n"
    data = b"".join(body)
    size = draw(st.integers(1, 40))
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    return HEAD + b"".join(b"%x\r\n" % len(part) + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


def read(data, cuts, short=True):
    """The sample of ``data`` read in pieces that end at ``cuts``; the clock ticks once a read."""
    sample = Sample("x")
    reply = Reply(sample)
    if not short:
        reply._chat._learned = chat.MAX_LEARNED
    edges = sorted({0, *cuts, len(data)})
    for tick, (start, stop) in enumerate(itertools.pairwise(edges)):
        if reply.feed(tick * 1000, data[start:stop]):
            return sample
    reply.eof(len(edges) * 1000)
    return sample


def untimed(sample):
    """Everything of a sample that does not depend on when its bytes came."""
    plain = {name: getattr(sample, name) for name in sample.__slots__ if not name.endswith("_s")}
    plain["events"] = [count for _, count in sample.events]
    return plain


def expected(meant):
    texts = "".join(text for kind, text, _ in meant if kind == "content")
    thoughts = "".join(text for kind, text, _ in meant if kind != "content")
    return texts, thoughts, sum(tokens for _, _, tokens in meant)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_any_split_of_any_stream_gives_the_same_sample(data):
    meant = data.draw(events())
    reply = data.draw(framed(data.draw(wire(meant))))
    cuts = data.draw(st.lists(st.integers(0, len(reply)), max_size=30))
    sample = read(reply, cuts)
    texts, thoughts, tokens = expected(meant)
    assert (sample.status, sample.error) == ("ok", None)
    assert (sample.text, sample.reasoning, sample.completion_tokens) == (texts, thoughts, tokens)
    carrying = [event for event in meant if event[1] or event[2]]
    assert len(sample.events) == len(carrying)
    assert untimed(sample) == untimed(read(reply, range(len(reply))))
    assert untimed(sample) == untimed(read(reply, []))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_the_short_way_reads_what_the_long_way_reads(data):
    meant = data.draw(st.lists(st.tuples(st.just("content"), PLAIN, st.integers(0, 6)), min_size=6, max_size=25))
    body = data.draw(wire(meant))
    reply = HEAD + b"".join(b"%x\r\n" % len(part) + part + b"\r\n" for part in body) + b"0\r\n\r\n"
    edges, at = [], len(HEAD)
    for part in body:
        edges.append(at)
        at += len(b"%x\r\n" % len(part)) + len(part) + 2
    edges.append(at)
    short, long = read(reply, edges), read(reply, edges, short=False)
    assert short.to_json() == long.to_json()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_stream_is_never_a_crash_and_never_a_false_success(data):
    """Bytes changed, taken out or put in: the sample is settled; when ok, its reply did say why it ended."""
    meant = data.draw(events())
    reply = bytearray(data.draw(framed(data.draw(wire(meant)))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(reply) - 1)))
        what = data.draw(st.sampled_from(["change", "remove", "insert", "cut"]))
        if what == "cut":
            del reply[at:]
        elif what == "remove":
            del reply[at : at + data.draw(st.integers(1, 30))]
        elif what == "insert":
            reply[at:at] = data.draw(st.binary(min_size=1, max_size=8))
        elif reply:
            reply[at] = data.draw(st.integers(0, 255))
    sample = read(bytes(reply), data.draw(st.lists(st.integers(0, len(reply)), max_size=10)))
    check_settled(sample)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n\r\n", HEAD]), st.lists(st.integers(0, 500)))
def test_random_bytes_settle_without_a_figure(noise, head, cuts):
    sample = read(head + noise, [cut for cut in cuts if cut <= len(head) + len(noise)])
    check_settled(sample)
    assert sample.status == "failed"


ANSWER = [
    "choices",
    "delta",
    "content",
    "usage",
    "completion_tokens",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "index",
]
OTHER = ["finish_reason", "error", "message", "reasoning", "reasoning_details", "text", "id", "model", "token_ids", "x"]
NAMES = st.sampled_from(ANSWER + OTHER)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.dictionaries(NAMES, JSON, max_size=5), max_size=6))
def test_any_json_with_the_protocols_names_is_read_without_a_crash(values):
    body = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)
    sample = read(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body, [])
    check_settled(sample)


def check_settled(sample):
    assert sample.status in ("ok", "failed")
    assert (sample.error_kind is None) == (sample.status == "ok")
    plain = sample.to_json()
    json.dumps(plain, allow_nan=False).encode("utf-8")
    assert (plain["decode_tok_s"] is None) != (plain["decode_invalid_reason"] is None)
    if sample.status == "ok":
        assert sample.finish_reason
    else:
        assert plain["decode_tok_s"] is None
        assert sample.error
    for name in ("completion_tokens", "prompt_tokens", "cached_tokens"):
        count = getattr(sample, name)
        assert count is None or (type(count) is int and count >= 0)


def test_a_body_of_blanks_without_a_type_does_not_grow_for_ever():
    sample = Sample("x")
    reply = Reply(sample, limit=100_000)
    reply.feed(0, b"HTTP/1.1 200 OK\r\n\r\n")
    fed = 0
    while not reply.feed(1, b"\n" * 1000):
        fed += 1000
        assert fed < 200_000
    assert sample.error_kind == "bad_event"


def test_a_captured_stream_of_a_speculating_engine():
    """vLLM 0.29.0, ngram speculation: 120 tokens in far fewer events."""
    body = CAPTURE.read_bytes()
    data = HEAD + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    whole = read(data, [])
    assert (whole.status, whole.completion_tokens, whole.prompt_tokens, whole.cached_tokens) == ("ok", 120, 69, 0)
    assert whole.finish_reason == "length"
    assert whole.first_event_tokens == 1
    assert len(whole.events) < 60
    assert whole.text.startswith("The cat sat on the mat")
    assert whole.system_fingerprint == "vllm-0.29.0-53a61494"
    for size in (1, 2, 3, 7, 64, 1000):
        assert untimed(read(data, range(0, len(data), size))) == untimed(whole)


def test_the_short_way_is_taken_on_a_captured_stream():
    """Every event of the capture in a read and a chunk of its own: most take the short way, and nothing is lost."""
    sample = Sample("x")
    reply = Reply(sample)
    reply.feed(0, HEAD)
    events = [event + b"\n\n" for event in CAPTURE.read_bytes().split(b"\n\n")[:-1]]
    for number, event in enumerate(events):
        reply.feed(number, b"%x\r\n" % len(event) + event + b"\r\n")
    assert (sample.status, sample.completion_tokens) == ("ok", 120)
    assert untimed(sample) == untimed(read(HEAD + b"%x\r\n" % sum(map(len, events)) + b"".join(events) + b"\r\n", []))
    long = reply._chat.seen
    assert len(events) - 1 - long > 25
