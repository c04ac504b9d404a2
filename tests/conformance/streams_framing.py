# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Streams that are right but odd: framing, line ends, characters, fields. Each must read as the everyday one does."""

from __future__ import annotations

import gzip
import json

from .script import EVERY, FIRST, LAST, TOKENS, USAGE_AFTER, Play, encode, failed, ok, stream, words

DONE_S = LAST + USAGE_AFTER


def everyday(play: Play) -> None:
    play.role()
    play.tokens()
    play.clean_tail()


@stream("clean", "one token an event, usage 0.3 s after the last token", "tried: vllm bench 0.29", core=True, **ok())
def _(play: Play) -> None:
    everyday(play)


@stream(
    "split-utf8",
    "a character cut between two reads",
    "vllm#38732",
    core=True,
    **ok(text="日本" * 16, ttft_s=0.52, first_answer_s=0.52, decode_tok_s=15 / 1.48),
)
def _(play: Play) -> None:
    play.role()
    play.done_tokens = 1
    event = play.frame(encode(play.chunk({"content": "日本"})))
    cut = event.index("日".encode()) + 1
    play.at(0.5, event[:cut])
    play.at(0.52, event[cut:])
    for i in range(1, TOKENS):
        play.done_tokens += 1
        play.send(FIRST + i * EVERY, play.chunk({"content": "日本"}))
    play.clean_tail()


@stream("bytewise", "every byte in a write and a chunk of its own", "vllm#38732", **ok())
def _(play: Play) -> None:
    play.cut = 1
    everyday(play)


@stream("recut-7", "a proxy that cuts the body anew every 7 bytes", "aibrix#2653", **ok())
def _(play: Play) -> None:
    play.cut = 7
    everyday(play)


@stream("burst", "five events in one write", "urllib3.future#344", core=True, **ok(max_gap_s=0.5, decode_tok_s=10.0))
def _(play: Play) -> None:
    play.role()
    for group in (range(1), range(1, 6), range(6, 11), range(11, 16)):
        events = [play.chunk({"content": words(i, 1)}) for i in group]
        play.send(FIRST + group[-1] * EVERY, *events)
    play.done_tokens = TOKENS
    play.clean_tail()


@stream(
    "comments", "a comment every 0.1 s while the prompt is read, and between tokens", "sglang#37986", core=True, **ok()
)
def _(play: Play) -> None:
    for i in range(4):
        play.at(0.05 + i * 0.1, b": keep-alive\n\n" if i % 2 else b":\n\n")
    everyday(play)
    play.at(0.85, b": ping\n\n")


@stream("other-fields", "event, id and retry fields, three events in one write", "perf_analyzer#176", **ok())
def _(play: Play) -> None:
    play.at(0.1, b"retry: 5000\n\n")
    play.prefix = b"event: message\nid: 1\nretry: 5\ndata: "
    everyday(play)


@stream(
    "id-then-ping", "a comment after an event with an id must not become an empty event", "hermes-agent#3316", **ok()
)
def _(play: Play) -> None:
    play.prefix = b"id: 7\ndata:"
    everyday(play)
    play.at(0.75, b": ping\n\n")


@stream("multi-line", "one event in several data lines", "term-llm#454", **ok())
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        head, _, tail = encode(play.chunk({"content": words(i, 1)})).partition(b'"choices":')
        play.at(FIRST + i * EVERY, b"data: " + head + b'"choices":\ndata: ' + tail + b"\n\n")
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("no-space", "data: without the space", "tried: vllm bench", core=True, **ok())
def _(play: Play) -> None:
    play.prefix = b"data:"
    everyday(play)


@stream("two-spaces", "only the first space after data: belongs to the format", **ok())
def _(play: Play) -> None:
    play.prefix = b"data:  "
    everyday(play)


@stream("crlf", "lines ended by CRLF", "tried: vllm bench", core=True, **ok())
def _(play: Play) -> None:
    play.line_end = b"\r\n"
    everyday(play)


@stream("crlf-split", "CRLF line ends cut between CR and LF", **ok())
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        event = b"data: " + encode(play.chunk({"content": words(i, 1)})) + b"\r\n\r"
        play.at(FIRST + i * EVERY, event)
        play.at(FIRST + i * EVERY + 0.01, b"\n")
    play.done_tokens = TOKENS
    play.line_end = b"\r\n"
    play.clean_tail(LAST + 0.011)


@stream("cr", "lines ended by CR alone", "HTML standard 9.2.6", **ok())
def _(play: Play) -> None:
    play.line_end = b"\r"
    everyday(play)


@stream("mixed-ends", "LF, CRLF and CR in one stream", **ok())
def _(play: Play) -> None:
    play.role()
    ends = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n")
    for i in range(TOKENS):
        play.at(FIRST + i * EVERY, b"data: " + encode(play.chunk({"content": words(i, 1)})) + ends[i % len(ends)])
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("bom", "a byte order mark at the start", "HTML standard 9.2.6", **ok())
def _(play: Play) -> None:
    play.at(0.1, b"\xef\xbb\xbf")
    everyday(play)


@stream("blank-lines", "more blank lines than needed", **ok())
def _(play: Play) -> None:
    play.at(0.1, b"\n\n\n")
    play.role()
    play.tokens()
    play.at(0.75, b"\n\n")
    play.clean_tail()


@stream("empty-data", "data: with nothing, as a heartbeat", **ok())
def _(play: Play) -> None:
    play.at(0.1, b"data:\n\n")
    everyday(play)
    play.at(0.75, b"data: \n\ndata\n\n")


@stream("ping-event", "a named event with a JSON object that is no chunk", **ok())
def _(play: Play) -> None:
    play.at(0.1, b'event: ping\ndata: {"type": "ping"}\n\n')
    everyday(play)


@stream("chunk-odd", "chunk extensions, capital hex, leading zeros, a trailer", "RFC 9112 7.1", **ok())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    inner = Play()
    everyday(inner)
    for i, step in enumerate(inner.steps):
        size = b"%04X" % len(step.data) + (b";ext=1" if i % 2 else b"")
        play.at(step.at_s, size + b"\r\n" + step.data + b"\r\n")
    play.at(DONE_S, b"0;last\r\nX-Trailer: yes\r\n\r\n")


@stream(
    "chunk-split",
    "each event spread over three chunks, 5 ms apart",
    **ok(ttft_s=0.51, first_answer_s=0.51, last_token_s=2.01),
)
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        event = play.frame(encode(play.chunk({"content": words(i, 1)})))
        for part in range(3):
            third = len(event) // 3
            cut = event[part * third : (part + 1) * third if part < 2 else None]
            play.at(FIRST + i * EVERY + part * 0.005, cut)
    play.done_tokens = TOKENS
    play.clean_tail(LAST + 0.011)


@stream("until-close", "no length: the body ends with the connection", **ok())
def _(play: Play) -> None:
    play.framing = "close"
    everyday(play)


@stream("content-length", "a stream with a Content-Length", **ok())
def _(play: Play) -> None:
    play.framing = "length"
    everyday(play)


@stream("http-1.0", "an HTTP/1.0 reply", **ok())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    everyday(play)
    play.at(DONE_S, b"", "close")


@stream("interim", "100 and 103 replies before the real one", "RFC 9110 15.2", **ok())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.0, b"HTTP/1.1 100 Continue\r\n\r\n")
    play.at(0.1, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
    play.at(0.2, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    everyday(play)
    play.at(DONE_S, b"", "close")


@stream("head-lf", "a head whose lines end in LF", "RFC 9112 2.2", **ok())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 200 OK\nContent-Type: text/event-stream\nConnection: close\n\n")
    everyday(play)
    play.at(DONE_S, b"", "close")


@stream("no-type", "no Content-Type", **ok())
def _(play: Play) -> None:
    play.content_type = None
    everyday(play)


@stream("plain-type", "Content-Type text/plain", **ok())
def _(play: Play) -> None:
    play.content_type = "text/plain"
    everyday(play)


@stream("no-done", "no [DONE], finish_reason present", "tried", core=True, **ok())
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish()
    play.usage()


@stream("no-last-blank", "[DONE] without its blank line", **ok())
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish()
    play.usage()
    play.at(DONE_S, b"data: [DONE]\n")


@stream("unfinished-event", "the usage event without its blank line, then the body's end", **ok())
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish()
    play.at(DONE_S, b"data: " + encode(play.chunk(None, usage=play.counts(TOKENS))))


@stream("held-open", "[DONE], then the connection stays open", **ok())
def _(play: Play) -> None:
    everyday(play)
    play.terminated = False


@stream("after-done", "an event after [DONE]", **ok())
def _(play: Play) -> None:
    everyday(play)
    play.send(DONE_S + 0.1, play.chunk({"content": " late"}))


@stream("unterminated", "finish_reason and usage seen, then closed without the last chunk", **ok())
def _(play: Play) -> None:
    everyday(play)
    play.steps.pop()
    play.terminated = False
    play.at(DONE_S, b"", "close")


@stream("escapes", "escaped characters, a surrogate pair, an escaped newline", **ok(text='é"\\\n😀/' * 16))
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        payload = encode(play.chunk({"content": "@"})).replace(b"@", rb"\u00e9\"\\\n\ud83d\ude00\/")
        play.send(FIRST + i * EVERY, payload)
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("surrogates-apart", "the two halves of an escaped pair in two events", **ok(text="😀" * 8))
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        half = rb"\ude00" if i % 2 else rb"\ud83d"
        play.send(FIRST + i * EVERY, encode(play.chunk({"content": "@"})).replace(b"@", half))
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("lone-surrogate", "half of a pair and never the other", **ok(text="\ufffd" * 16))
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        play.send(FIRST + i * EVERY, encode(play.chunk({"content": "@"})).replace(b"@", rb"\ud83d"))
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("bad-utf8", "bytes that are no UTF-8 inside the text", **ok(text="\ufffd" * 16))
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        play.send(FIRST + i * EVERY, encode(play.chunk({"content": "@"})).replace(b"@", b"\xff"))
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("unknown-fields", "fields nobody knows, at every level", **ok())
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        value = play.chunk({"content": words(i, 1), "x": {"content": "no"}}, x=[1, {"choices": []}])
        value["choices"][0]["x"] = {"delta": {"content": "no"}}
        play.send(FIRST + i * EVERY, value)
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("changing-shape", "events whose other fields change all the time", **ok())
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        play.send(FIRST + i * EVERY, {"n": i, **play.chunk({"content": words(i, 1)}), "created": i * 1000})
    play.done_tokens = TOKENS
    play.clean_tail()


@stream(
    "decoy", "text that looks like the protocol", **ok(text='"},"usage":{"completion_tokens":99}' * 8 + "[DONE]" * 8)
)
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        text = '"},"usage":{"completion_tokens":99}' if i < 8 else "[DONE]"
        play.done_tokens += 1
        play.send(FIRST + i * EVERY, play.chunk({"content": text}, usage=play.counts(play.done_tokens)))
    play.clean_tail()


@stream("pretty", "pretty-printed JSON over many data lines", **ok())
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        lines = json.dumps(play.chunk({"content": words(i, 1)}), indent=2).encode().split(b"\n")
        play.at(FIRST + i * EVERY, b"".join(b"data: " + line + b"\n" for line in lines) + b"\n")
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("event-1mb", "one event of 1 MB (token ids of a long prompt)", "llama-benchy#12", core=True, **ok())
def _(play: Play) -> None:
    play.send(0.2, play.chunk({"role": "assistant", "content": ""}, prompt_token_ids="7" * 1_000_000))
    play.tokens()
    play.clean_tail()


@stream(
    "event-20mb",
    "one event of 20 MB",
    "llama-benchy#12",
    apart=True,
    **ok(ttft_s=2.0, first_answer_s=2.0, last_token_s=3.5),
)
def _(play: Play) -> None:
    play.send(0.05, play.chunk({"role": "assistant", "content": ""}, prompt_token_ids="7" * 20_000_000))
    play.clean_tail(play.tokens(2.0))


@stream(
    "events-200kb", "events of 200 KB: the clock is read before they are decoded", "tokenomics#16", apart=True, **ok()
)
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        play.send(FIRST + i * EVERY, play.chunk({"content": words(i, 1)}, padding="x" * 200_000))
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("drip", "the first event dripped out over 0.3 s", **ok(ttft_s=0.8, first_answer_s=0.8, decode_tok_s=15 / 1.2))
def _(play: Play) -> None:
    play.role()
    event = play.frame(encode(play.chunk({"content": words(0, 1)}, **play.running_usage(1))))
    for part in range(31):
        size = len(event) // 30
        play.at(FIRST + part * 0.01, event[part * size : (part + 1) * size if part < 30 else None])
    play.done_tokens = 1
    play.tokens(FIRST + 4 * EVERY, TOKENS - 1, 1.1 / 14)
    play.clean_tail()


@stream("compressed", "a gzip body that was not asked for", "RFC 9110 8.4", **failed())
def _(play: Play) -> None:
    inner = Play()
    everyday(inner)
    play.framing = "raw"
    body = gzip.compress(b"".join(step.data for step in inner.steps))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: "
    play.at(0.2, head + b"%d\r\n\r\n" % len(body) + body)
