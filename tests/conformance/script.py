# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a stream is written down: what is sent when, and what a right client says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

CREATED = 1_767_225_600
PROMPT_TOKENS = 12

# The everyday schedule, in seconds after the request was read.
FIRST = 0.5
EVERY = 0.1
TOKENS = 16
LAST = FIRST + (TOKENS - 1) * EVERY
USAGE_AFTER = 0.3


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def words(first: int, count: int) -> str:
    """The text of ``count`` tokens, of which ``first`` is the number of the first."""
    return "".join(f" w{number:02d}" for number in range(first, first + count))


@dataclass(frozen=True)
class Step:
    """At ``at_s`` after the request: send ``data``, then ``end`` the connection ("close" or "reset") if given."""

    at_s: float
    data: bytes = b""
    end: str = ""


@dataclass
class Play:
    """Writes the steps of one stream. ``running`` is whether the request asked for usage on every event."""

    running: bool = False
    steps: list[Step] = field(default_factory=list)
    status: int = 200
    content_type: str | None = "text/event-stream; charset=utf-8"
    framing: str = "chunked"  # chunked | close (until the connection closes) | length | raw (the steps are the reply)
    headers: dict[str, str] = field(default_factory=dict)
    head_at_s: float | None = None  # None: with the first step
    cut: int | None = None  # cut every write into pieces of so many bytes, each its own chunk
    pause_s: float = 0.0  # between those pieces
    line_end: bytes = b"\n"
    prefix: bytes = b"data: "
    terminated: bool = True  # send the last chunk (chunked only)
    done_tokens: int = 0
    id: str = "chatcmpl-conformance"

    def at(self, at_s: float, data: bytes, end: str = "") -> None:
        """Bytes of the body (of the whole reply when raw)."""
        self.steps.append(Step(at_s, data, end))

    def frame(self, payload: bytes) -> bytes:
        """A payload as an event in this stream's dialect."""
        return self.prefix + payload + self.line_end * 2

    def send(self, at_s: float, *values: object) -> None:
        """Events, in one write."""
        payloads = [value if isinstance(value, bytes) else encode(value) for value in values]
        self.at(at_s, b"".join(self.frame(payload) for payload in payloads))

    def chunk(self, delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
        """An event object; ``delta`` None makes it one without choices."""
        choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        head = {"id": self.id, "object": "chat.completion.chunk", "created": CREATED, "model": "conformance"}
        return {**head, "choices": choices, **more}

    @staticmethod
    def counts(done: int, **more: Any) -> dict[str, Any]:
        return {
            "prompt_tokens": PROMPT_TOKENS,
            "total_tokens": PROMPT_TOKENS + done,
            "completion_tokens": done,
            **more,
        }

    def running_usage(self, done: int) -> dict[str, Any]:
        """The usage field of a token event, when it was asked for."""
        return {"usage": self.counts(done)} if self.running else {}

    def role(self, at_s: float = FIRST) -> None:
        self.send(at_s, self.chunk({"role": "assistant", "content": ""}))

    def tokens(
        self,
        at_s: float = FIRST,
        count: int = TOKENS,
        every_s: float = EVERY,
        sizes: list[int] | None = None,
        key: str = "content",
        usage: bool | None = None,
    ) -> float:
        """Token events, ``sizes`` tokens in each (one by default). Returns the time of the last."""
        when = at_s
        with_usage = self.running if usage is None else usage
        for index, size in enumerate(sizes or [1] * count):
            when = at_s + index * every_s
            text = words(self.done_tokens, size)
            self.done_tokens += size
            more: dict[str, Any] = {"usage": self.counts(self.done_tokens)} if with_usage else {}
            self.send(when, self.chunk({key: text}, **more))
        return when

    def finish(self, at_s: float = LAST, reason: str | None = "stop", **more: Any) -> None:
        self.send(at_s, self.chunk({}, reason, **more))

    def usage(self, at_s: float = LAST + USAGE_AFTER, done: int | None = None, **more: Any) -> None:
        self.send(at_s, self.chunk(None, usage=self.counts(self.done_tokens if done is None else done, **more)))

    def done(self, at_s: float = LAST + USAGE_AFTER) -> None:
        self.send(at_s, b"[DONE]")

    def clean_tail(self, last_s: float = LAST, reason: str = "stop") -> None:
        """finish_reason with the last token; usage and [DONE] later, as servers under load do."""
        self.finish(last_s, reason)
        self.usage(last_s + USAGE_AFTER)
        self.done(last_s + USAGE_AFTER)


@dataclass(frozen=True)
class Stream:
    """One entry of the catalogue. ``expect`` holds what is true; a key that is left out is not judged."""

    name: str
    about: str
    source: str
    write: Callable[[Play], None]
    expect: dict[str, Any]
    core: bool = False  # in the short set that other tools are run against
    apart: bool = False  # heavy: not to be played beside others

    def play(self, running: bool) -> Play:
        play = Play(running)
        self.write(play)
        return play


CATALOGUE: dict[str, Stream] = {}


def stream(
    name: str, about: str, source: str = "", core: bool = False, apart: bool = False, **expect: Any
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    """Register a writer under ``name``."""

    def register(write: Callable[[Play], None]) -> Callable[[Play], None]:
        CATALOGUE[name] = Stream(name, about, source, write, expect, core, apart)
        return write

    return register


def ok(**changes: Any) -> dict[str, Any]:
    """What is true of the everyday stream, with changes."""
    truth: dict[str, Any] = {
        "status": "ok",
        "ttft_s": FIRST,
        "first_answer_s": FIRST,
        "last_token_s": LAST,
        "tokens": TOKENS,
        "decode_tok_s": (TOKENS - 1) / (LAST - FIRST),
        "max_gap_s": EVERY,
        "text": words(0, TOKENS),
        "reasoning": "",
        "tool_calls": [],
        "finish_reason": "stop",
    }
    return {**truth, **changes}


def failed(*message: str) -> dict[str, Any]:
    """A failed request: no figure, and an error that keeps these words of the server's."""
    return {"status": "failed", "ttft_s": None, "tokens": None, "decode_tok_s": None, "error_has": list(message)}


def table() -> dict[str, Any]:
    """The expected samples as plain data, for any tool."""
    return {
        "schema": "lobes.spike/conformance/1",
        "about": "Seconds count from the first byte of the request. null means: must not be reported.",
        "formulas": {
            "ttft_s": "request to the first event with text (content, reasoning or tool call)",
            "first_answer_s": "request to the first event with content or a tool call",
            "last_token_s": "request to the last event that carries tokens",
            "tokens": "completion tokens the server generated",
            "decode_tok_s": "tokens after the first token event / (last - first token event)",
            "max_gap_s": "longest time between two token events",
            "error_has": "words of the server's message that the error keeps",
        },
        "streams": {
            name: {"about": entry.about, "source": entry.source, "core": entry.core, "expect": entry.expect}
            for name, entry in CATALOGUE.items()
        },
    }
