# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One chat reply on the wire: chunks in vLLM's shape, and every way a stream can be odd."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

from . import texts
from .answers import Reply
from .core import Job
from .faults import Faults
from .tokens import Tokenizer
from .truth import Truth

FINGERPRINT = "vllm-0.29.0-5d0ab1e7"
Unit = tuple[str, str]  # channel (r, c, t or h for hidden) and text


def units(reply: Reply, tokenizer: Tokenizer) -> list[Unit]:
    """The reply as tokens, each with the channel its text goes to."""
    out: list[Unit] = [("r", t) for t in reply.reasoning]
    if reply.reasoning and (reply.content or reply.call):
        out.append(("h", "</think>"))
    out += [("c", t) for t in reply.content]
    if reply.call:
        name, arguments = reply.call
        # The parser shows a call only when its opening markup is whole: those tokens have no delta of their own.
        out += [("h", ""), ("h", ""), ("h", ""), ("h", ""), ("t", name)]
        out += [("t", piece) for piece in tokenizer.pieces(arguments)]
        out += [("h", ""), ("h", "")]
    return out


class Stream:
    """Sends one reply. write belongs to the connection; on_done is called once, when nothing more will come."""

    def __init__(
        self,
        job: Job,
        reply: Reply,
        said: list[Unit],
        body: dict[str, Any],
        served: str,
        faults: Faults,
        truth: Truth,
        write: Callable[[bytes], None],
        figures: Callable[[Job], dict[str, Any] | None],
        details: bool,
        on_done: Callable[[str], None],
        die: Callable[[], None],
    ) -> None:
        self.job, self.reply, self.said, self.faults, self.truth = job, reply, said, faults, truth
        self.write, self.figures, self.details, self.on_done, self.die = write, figures, details, on_done, die
        options = body.get("stream_options") or {}
        self.usage_last = bool(options.get("include_usage")) and not self.on("no-usage")
        self.usage_each = (
            self.usage_last and bool(options.get("continuous_usage_stats")) and not self.on("usage-last-only")
        )
        self.id = f"chatcmpl-{body.get('request_id') or uuid.uuid4().hex[:16]}"
        self.created = int(time.time())
        self.served = served
        self.sent = 0
        self.reasoning_tokens = 0
        self.named = False
        self.begun = self.over = False
        self.held: list[bytes] = []
        self.parity = 0
        self.events: list[tuple[int, int]] = []
        self.queue: list[tuple[int, bool]] = []
        self.paused_until = 0.0

    def on(self, name: str) -> bool:
        """Whether a fault applies to this request."""
        return self.faults.on(name, self.job.number)

    # --- wire ------------------------------------------------------------------------------------------------------

    def raw(self, text: str, last: bool = False) -> None:
        """Text onto the wire as one chunk of the body, or several where a fault cuts or merges."""
        if self.on("crlf"):
            text = text.replace("\n", "\r\n")
        if self.on("no-space"):
            text = text.replace("data: ", "data:")
        data = text.encode()
        if self.on("merged-writes") and not last:
            self.held.append(data)
            if len(self.held) < self.faults.number("merged-writes", 4):
                return
            data = b""
        if self.held:
            data, self.held = b"".join(self.held) + data, []
        if self.on("split-writes"):
            for i in range(0, len(data), 7):
                self._chunk(data[i : i + 7])
        else:
            self._chunk(data)

    def _chunk(self, data: bytes) -> None:
        if data:
            self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None, **more: Any) -> None:
        """One event of the stream."""
        payload: dict[str, Any] = {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.served,
            "choices": choices,
        }
        if usage is not None:
            payload["usage"] = usage
        payload.update(more)
        if self.on("keep-alive-comments"):
            self.raw(": keep-alive\n\n")
        self.raw("data: " + json.dumps(payload, ensure_ascii=False, separators=(",", ":")) + "\n\n")
        self.events.append((time.monotonic_ns(), self.sent))

    def usage(self, last: bool) -> dict[str, Any]:
        """The usage so far, or the closing one with its details."""
        factor = 3 if self.on("degenerate") else 1
        count = self.sent * factor
        reasoning = {"reasoning_tokens": self.reasoning_tokens} if self.reply.reasoning else None
        out: dict[str, Any] = {
            "prompt_tokens": self.job.prompt,
            "total_tokens": self.job.prompt + count,
            "completion_tokens": count,
            "completion_tokens_details": reasoning,
        }
        if last:
            known = self.details and not self.on("cache-details-missing")
            out["prompt_tokens_details"] = (
                {"cached_tokens": self.job.cached, "created_cache_tokens": self.job.prompt - self.job.cached}
                if known
                else None
            )
        return out

    # --- reply -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The role chunk, which vLLM sends with the engine's first output."""
        self.begun = True
        self.event(
            [self._choice({"role": "assistant", "content": ""})],
            self.usage(last=False) if self.usage_each else None,
            prompt_token_ids=None,
            prompt_text=None,
        )

    @staticmethod
    def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        out: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if finish:
            out["stop_reason"] = None
        return {**out, "token_ids": None}

    def emit(self, tokens: int, done: bool) -> None:
        """The engine has made more tokens."""
        if self.over:
            return
        if self.queue or time.monotonic() < self.paused_until:
            self.queue.append((tokens, done))
            return
        if not self.begun:
            self.begin()
        self._deltas(tokens, done)
        if not self.over and self._odd_end():
            return
        if done and not self.over:
            self._end()

    def _deltas(self, tokens: int, done: bool) -> None:
        part = self.said[self.sent : self.sent + tokens]
        self.sent += tokens
        self.reasoning_tokens += sum(1 for channel, _ in part if channel == "r")
        delta: dict[str, Any] = {}
        for channel, key in (("r", "reasoning"), ("c", "content")):
            text = "".join(t for c, t in part if c == channel)
            if text:
                delta[key] = text
        call = [t for c, t in part if c == "t"]
        if call:
            delta["tool_calls"] = [self._call(call)]
        finish = None
        if done:
            finish = self.reply.finish if not self.on("no-finish") else None
        self.parity += 1
        if self.on("empty-deltas") and self.parity % 2 == 0:
            self.event([self._choice({"content": ""})], self.usage(last=False) if self.usage_each else None)
        if delta or finish or (self.job.total_out == 0 and done):
            self.event(
                [self._choice(delta or {"content": ""}, finish)], self.usage(last=False) if self.usage_each else None
            )

    def _call(self, pieces: list[str]) -> dict[str, Any]:
        if self.named:
            return {"index": 0, "function": {"arguments": "".join(pieces)}}
        self.named = True
        return {
            "index": 0,
            "id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}",
            "type": "function",
            "function": {"name": pieces[0], "arguments": "".join(pieces[1:])},
        }

    def _odd_end(self) -> bool:
        """Plays the faults that break a stream in its middle; True when the reply is over."""
        f = self.faults
        for name in ("die-mid-stream", "error-mid-stream", "cut-stream", "reset-stream", "stall"):
            if not self.on(name):
                continue
            if name == "stall":
                if self.sent >= max(self.job.total_out // 2, 1) and not self.paused_until:
                    self._pause(f.number("stall", 3))
                continue
            if self.sent < min(f.number(name, 20), max(self.job.total_out - 1, 1)):
                continue
            if name in ("die-mid-stream", "error-mid-stream"):
                self.fail()
                if name == "die-mid-stream":
                    self.die()
            else:
                self.finish("reset" if name == "reset-stream" else "cut")
            return True
        return False

    def _pause(self, seconds: float) -> None:
        self.paused_until = time.monotonic() + seconds
        asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        self.paused_until, queued = 1e-9, self.queue
        self.queue = []
        for tokens, done in queued:
            self.emit(tokens, done)

    def fail(self) -> None:
        """The engine died under this stream: an error event, and then [DONE] all the same."""
        if self.over:
            return
        error = {"error": {"message": texts.ENGINE_ERROR, "type": "InternalServerError", "param": None, "code": 500}}
        self.raw("data: " + json.dumps(error) + "\n\n", last=True)
        self.raw("data: [DONE]\n\n", last=True)
        self.finish("error")

    def _end(self) -> None:
        if self.usage_last and self.on("usage-late"):
            asyncio.get_running_loop().call_later(self.faults.number("usage-late", 0.3), self._close)
        else:
            self._close()

    def _close(self) -> None:
        if self.over:
            return
        figures = self.figures(self.job)
        more = {"metrics": figures} if figures is not None else {}
        if self.usage_last:
            self.event([], self.usage(last=True), system_fingerprint=FINGERPRINT, **more)
        if not self.on("no-done"):
            self.raw("data: [DONE]\n\n", last=True)
        else:
            self.raw("", last=True)
        self.finish("done")

    def finish(self, how: str) -> None:
        """Nothing more will be sent."""
        if self.over:
            return
        self.over = True
        first = self.events[0][0] if self.events else None
        self.truth.note(
            "stream",
            request=self.job.number,
            how=how,
            prompt=self.job.prompt,
            cached=self.job.cached,
            sent=self.sent,
            finish=self.reply.finish,
            arrived_ns=int(self.job.t_arrived * 1e9),
            first_event_ns=first,
            events=[[t - first, n] for t, n in self.events] if first else [],
        )
        self.on_done(how)
