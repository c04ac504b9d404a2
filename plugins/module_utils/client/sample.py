# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request and everything that was seen of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .figures import decode_rate
from .kept import WRITTEN_CHARS

ERROR_KINDS = (
    "connect_refused",  # nobody listens there
    "connect_failed",  # any other way of not getting a connection: no route, unknown host, TLS
    "timeout",  # the caller's own request_timeout_s
    "stall",  # the stall watch saw neither bytes nor movement of the engine
    "http_status",  # the status is not 200
    "server_error",  # an error object in a reply of status 200
    "early_close",  # the connection ended before the reply did
    "no_finish_reason",  # the reply ended properly, but no choice said why it ended
    "not_a_stream",  # the reply is no HTTP, no event stream and no chat completion
    "bad_event",  # an event that is no JSON object, or larger than the stated limit
    "empty",  # status 200 and no event at all
    "stopped",  # the caller's should_stop
)


@dataclass(slots=True)
class Sample:
    """What one request showed. Times ending in ``_s`` are seconds since ``t0_ns`` unless said otherwise.

    Absent is None: an engine that sends no usage leaves token counts None, a reply without text leaves ``ttft_s`` None.
    A failed sample keeps what it had seen, and none of it may enter a figure.
    """

    label: str
    status: str = "failed"  # ok | failed
    error: str | None = None
    error_kind: str | None = None
    http_status: int | None = None
    t0_ns: int | None = None  # CLOCK_MONOTONIC: the first byte is handed to the kernel, on an open connection
    connect_s: float | None = None  # how long the connection took to open (TLS included); None when it was reused
    late_s: float | None = None  # open loop only: t0 minus the scheduled start
    upload_s: float | None = None  # the last byte of the request is handed to the kernel
    headers_s: float | None = None
    first_event_s: float | None = None  # first event of any kind, the role-only one included
    ttft_s: float | None = None  # first non-empty text: content, reasoning or tool call
    first_answer_s: float | None = None  # first content or tool call
    last_token_s: float | None = None  # last event that carried tokens
    end_s: float | None = None  # [DONE], the end of the body, or the failure
    usage: dict[str, Any] | None = None  # the last one sent
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    first_event_tokens: int | None = None  # tokens in the first event that carried any
    forced_tokens: int | None = None  # what the request forced (min_tokens = max_tokens, ignore_eos)
    finish_reason: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    engine_metrics: dict[str, Any] | None = None  # the engine's own per-request figures, as sent
    reasoning_field: str | None = None  # reasoning | reasoning_content | reasoning_details | both
    text: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, str | None]] = field(default_factory=list)  # {id, name, arguments}
    # {text | reasoning | arguments of call N: {characters, sha256}} of texts that are longer than a result holds.
    cut: dict[str, dict[str, Any]] = field(default_factory=dict)
    keepalives: int = 0  # comment lines and empty events: the server is alive, nothing more
    # Events that carried tokens: (nanoseconds since t0, cumulative completion tokens or None when not sent).
    events: list[tuple[int, int | None]] = field(default_factory=list)
    max_gap_s: float | None = None  # longest time between two of those events
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Note an oddity once."""
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def characters(self) -> int:
        """How long reasoning and text were, also where only their beginning was kept."""
        texts = {"text": self.text, "reasoning": self.reasoning}
        return sum(self.cut[name]["characters"] if name in self.cut else len(kept) for name, kept in texts.items())

    @property
    def whole_text(self) -> bool:
        """Whether reasoning and text are all there, to be counted again."""
        return self.characters == len(self.text) + len(self.reasoning)

    def to_json(self) -> dict[str, Any]:
        """Plain data, compact: times in seconds to the microsecond, events as differences.

        ``events`` is {"t_us": [...], "tok": [...]}: differences between neighbours, the first one from 0; ``tok`` holds
        None where no count was sent (the next count is again a difference from the last one known). Of long texts the
        beginning is given; ``cut`` says how long they were.
        ``decode_tok_s`` and ``decode_invalid_reason`` are added: exactly one of them is None.
        """
        out: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            out[name] = round(value, 6) if isinstance(value, float) else value
        out["text"], out["reasoning"] = self.text[:WRITTEN_CHARS], self.reasoning[:WRITTEN_CHARS]
        out["tool_calls"] = [written_call(call) for call in self.tool_calls]
        out["events"] = pack_events(self.events)
        rate, reason = decode_rate(self, self.forced_tokens)
        out["decode_tok_s"] = None if rate is None else round(rate, 4)
        out["decode_invalid_reason"] = reason
        return out


def written_call(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call as a result holds it."""
    return {name: part[:WRITTEN_CHARS] if isinstance(part, str) else part for name, part in call.items()}


def pack_events(events: list[tuple[int, int | None]]) -> dict[str, list[int | None]]:
    """Events as differences; see ``Sample.to_json``."""
    times: list[int | None] = []
    tokens: list[int | None] = []
    last_us, last_tokens = 0, 0
    for t_ns, cumulative in events:
        t_us = t_ns // 1000
        times.append(t_us - last_us)
        last_us = t_us
        if cumulative is None:
            tokens.append(None)
        else:
            tokens.append(cumulative - last_tokens)
            last_tokens = cumulative
    return {"t_us": times, "tok": tokens}


def unpack_events(packed: dict[str, list[int | None]]) -> list[tuple[int, int | None]]:
    """The inverse of ``pack_events``, to the microsecond: [(nanoseconds since t0, cumulative tokens or None)]."""
    events: list[tuple[int, int | None]] = []
    t_us, cumulative = 0, 0
    for step, count in zip(packed["t_us"], packed["tok"], strict=True):
        t_us += step or 0
        if count is None:
            events.append((t_us * 1000, None))
        else:
            cumulative += count
            events.append((t_us * 1000, cumulative))
    return events
