# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that failed, most of them in ways that look like success. None of them may give a figure."""

from __future__ import annotations

from .script import EVERY, FIRST, LAST, Play, encode, failed, ok, stream

HALF_S = FIRST + 7 * EVERY
DIED = "EngineCore encountered an issue"


def half(play: Play) -> None:
    play.role()
    play.tokens(count=8)


def whole(play: Play, at_s: float, body: bytes, status: int = 200, kind: str | None = "application/json") -> None:
    """A reply that is no stream."""
    play.framing = "length"
    play.status = status
    play.content_type = kind
    play.at(at_s, body)


ERROR = {"error": {"message": DIED, "type": "InternalServerError", "param": None, "code": 500}}


@stream("error-midstream", "8 tokens, an error object, [DONE], status 200", "vllm#57519", core=True, **failed(DIED))
def _(play: Play) -> None:
    half(play)
    play.send(HALF_S + 0.1, ERROR)
    play.done(HALF_S + 0.1)


@stream("error-first", "the same with no token before it", "guidellm#743", core=True, **failed(DIED))
def _(play: Play) -> None:
    play.send(FIRST, ERROR)
    play.done(FIRST)


@stream("error-after-finish", "an error after finish_reason", **failed(DIED))
def _(play: Play) -> None:
    half(play)
    play.finish(HALF_S)
    play.send(HALF_S + 0.1, ERROR)
    play.done(HALF_S + 0.1)


@stream("error-named", "an event named error", **failed("overloaded"))
def _(play: Play) -> None:
    half(play)
    play.at(HALF_S + 0.1, b'event: error\ndata: {"message": "overloaded"}\n\n')


@stream("error-named-text", "an event named error whose data is plain text", **failed("overloaded"))
def _(play: Play) -> None:
    half(play)
    play.at(HALF_S + 0.1, b"event: error\ndata: overloaded\n\n")


@stream("error-string", "an error that is a string", **failed("backend gone"))
def _(play: Play) -> None:
    half(play)
    play.send(HALF_S + 0.1, {"error": "backend gone"})
    play.done(HALF_S + 0.1)


@stream("error-object", "an error in vLLM's older shape", **failed("out of memory"))
def _(play: Play) -> None:
    half(play)
    play.send(HALF_S + 0.1, {"object": "error", "message": "out of memory", "code": 500})
    play.done(HALF_S + 0.1)


@stream("error-null", "error: null on every event is no error", **ok())
def _(play: Play) -> None:
    play.role()
    for i in range(16):
        play.send(FIRST + i * EVERY, play.chunk({"content": f" w{i:02d}"}, error=None))
    play.done_tokens = 16
    play.clean_tail()


@stream("error-finish", "finish_reason error", **failed())
def _(play: Play) -> None:
    half(play)
    play.finish(HALF_S, "error")
    play.usage(HALF_S)
    play.done(HALF_S)


@stream("abort-finish", "finish_reason abort", **failed())
def _(play: Play) -> None:
    half(play)
    play.finish(HALF_S, "abort")
    play.usage(HALF_S)
    play.done(HALF_S)


@stream(
    "json-error-200",
    "status 200 with a JSON error as the whole body",
    "inference-perf#713",
    core=True,
    **failed("no such model"),
)
def _(play: Play) -> None:
    whole(play, 0.2, encode({"error": {"message": "no such model", "code": 404}}))


@stream("json-error-as-stream", "the same, called an event stream", **failed("no such model"))
def _(play: Play) -> None:
    whole(play, 0.2, encode({"error": {"message": "no such model"}}), kind="text/event-stream")


@stream("json-completion", "a whole completion where a stream was asked for: nothing can be timed", **failed())
def _(play: Play) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    whole(play, 0.5, encode({"object": "chat.completion", "choices": [choice], "usage": play.counts(1)}))


@stream("html-200", "status 200 with a page", **failed("Sign in"))
def _(play: Play) -> None:
    whole(play, 0.2, b"<!DOCTYPE html><html><body>Sign in</body></html>", kind="text/html")


@stream("empty-200", "status 200 with an empty body", "nvcf#1826", core=True, **failed())
def _(play: Play) -> None:
    play.at(0.2, b"")


@stream("empty-length-0", "status 200 with Content-Length: 0", **failed())
def _(play: Play) -> None:
    whole(play, 0.2, b"", kind="text/event-stream")


@stream("status-204", "204 No Content", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 204 No Content\r\n\r\n")


@stream("comments-only", "nothing but comments", **failed())
def _(play: Play) -> None:
    play.at(0.2, b": keep-alive\n\n: keep-alive\n\n")


@stream("done-only", "[DONE] and nothing else", **failed())
def _(play: Play) -> None:
    play.done(0.2)


@stream("no-finish", "8 tokens and [DONE], no finish_reason", "nvcf#1826", core=True, **failed("finish_reason"))
def _(play: Play) -> None:
    half(play)
    play.usage(HALF_S)
    play.done(HALF_S)


@stream("ends-early", "3 events and a proper end, no finish_reason, no [DONE]", "nvcf#1826", **failed("finish_reason"))
def _(play: Play) -> None:
    play.role()
    play.tokens(count=2)


@stream("cut", "closed after 8 tokens", "tried", core=True, **failed())
def _(play: Play) -> None:
    half(play)
    play.terminated = False
    play.at(HALF_S + 0.05, b"", "close")


@stream("reset", "reset after 8 tokens", **failed())
def _(play: Play) -> None:
    half(play)
    play.terminated = False
    play.at(HALF_S + 0.05, b"", "reset")


@stream("cut-until-close", "closed after 8 tokens, where closing is the only end there is", **failed())
def _(play: Play) -> None:
    play.framing = "close"
    half(play)


@stream("cut-length", "closed before the stated length", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100000\r\n\r\n")
    half(play)
    play.at(HALF_S + 0.05, b"", "close")


@stream("cut-in-event", "closed in the middle of an event", **failed())
def _(play: Play) -> None:
    half(play)
    play.terminated = False
    play.at(HALF_S + 0.05, b'data: {"choices":[{"ind', "close")


@stream("cut-before", "closed before any reply", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"", "close")


@stream("cut-in-head", "closed in the middle of the head", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 200 OK\r\nContent-Ty", "close")


@stream("reset-at-once", "accepted and reset, as a port forwarder does while nobody listens behind it", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.0, b"", "reset")


@stream("bad-json", "an event that is no JSON", **failed())
def _(play: Play) -> None:
    half(play)
    play.send(HALF_S + 0.1, b'{"choices": [}')
    play.finish(HALF_S + 0.2)
    play.done(HALF_S + 0.2)


@stream("bad-array", "an event that is a JSON array", **failed())
def _(play: Play) -> None:
    half(play)
    play.send(HALF_S + 0.1, b"[1, 2]")
    play.finish(HALF_S + 0.2)
    play.done(HALF_S + 0.2)


@stream("bad-nesting", "an event nested deeper than any parser goes", **failed())
def _(play: Play) -> None:
    half(play)
    play.send(HALF_S + 0.1, b'{"a":' * 100_000)
    play.done(HALF_S + 0.2)


@stream("bad-control", "a raw control character inside a JSON string", **failed())
def _(play: Play) -> None:
    half(play)
    play.send(HALF_S + 0.1, encode(play.chunk({"content": "@"})).replace(b"@", b"\x01"))
    play.finish(HALF_S + 0.2)
    play.done(HALF_S + 0.2)


TOO_LONG = (
    "This model's maximum context length is 4096 tokens. However, you requested 6 output tokens and your prompt "
    "contains at least 4091 input tokens"
)


@stream("status-400", "too long by a few tokens", "vllm#16420", core=True, **failed("4096", "4091"))
def _(play: Play) -> None:
    whole(play, 0.1, encode({"error": {"message": TOO_LONG, "type": "BadRequestError", "code": 400}}), 400)


@stream("status-401", "an error that is a string", **failed("Unauthorized"))
def _(play: Play) -> None:
    whole(play, 0.1, encode({"error": "Unauthorized"}), 401)


@stream("status-404", "an unknown model", **failed("does not exist"))
def _(play: Play) -> None:
    whole(play, 0.1, encode({"error": {"message": "The model `x` does not exist.", "code": 404}}), 404)


@stream("status-500", "the engine is dead", **failed(DIED))
def _(play: Play) -> None:
    whole(play, 0.1, encode(ERROR), 500)


@stream("status-502", "200 KB of HTML from a proxy", "vllm#20409", core=True, **failed("Bad Gateway"))
def _(play: Play) -> None:
    whole(play, 0.1, b"<html><h1>502 Bad Gateway</h1>" + b"<p>padding</p>" * 15_000, 502, "text/html")


@stream("status-503", "503 with an empty body", **failed("503"))
def _(play: Play) -> None:
    whole(play, 0.1, b"", 503, None)


@stream("status-503-endless", "503 whose body never ends", **failed("503"))
def _(play: Play) -> None:
    play.status = 503
    for i in range(100):
        play.at(0.1 + i * 0.01, b"busy " * 400)
    play.terminated = False


@stream("redirect", "a redirect is not followed", **failed("307"))
def _(play: Play) -> None:
    play.headers["Location"] = "http://127.0.0.1:9/v1/chat/completions"
    whole(play, 0.1, b"", 307, None)


@stream("not-http", "bytes that are no HTTP", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.1, b"SSH-2.0-OpenSSH_9.2\r\n", "close")


@stream("bad-chunk", "a chunk size that is no number", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    play.at(0.3, b"zz\r\ndata: {}\r\n", "close")


@stream("chunk-too-long", "more bytes than the chunk size says", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    play.at(0.3, b'5\r\ndata: {"choices": []}\n\n\r\n', "close")


@stream("late-garbage", "the last token, then bytes that are no chunk", **failed())
def _(play: Play) -> None:
    play.framing = "raw"
    play.at(0.2, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    event = play.frame(encode(play.chunk({"content": " w00"})))
    play.at(LAST, b"%x\r\n" % len(event) + event + b"\r\n" + b"\x00\x01\x02\x03\r\n", "close")
