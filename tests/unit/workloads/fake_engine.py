# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small engine for these tests: chat streaming with usage, a tokenizer, counters, a prefix cache, tool calls.

Tokens are words and single punctuation marks; a block of 16 tokens is the unit of its prefix cache.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BLOCK = 16
TEMPLATE_TOKENS = 5


def tokens_of(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


@dataclass
class Reply:
    """What to answer: words (one token each), or tool calls, or thinking before the words."""

    words: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    status: int = 200
    error_after: int | None = None


@dataclass
class FakeEngine:
    """Start it as a context; `base` is its endpoint. `answer` decides each reply from the request body."""

    answer: Callable[[dict[str, Any]], Reply] | None = None
    model: str = "fake"
    max_model_len: int | None = 1_048_576
    tokenizes: bool = True
    exports: bool = True
    details: bool = True
    forces: bool = True
    metrics: bool = False
    per_event: int = 1
    token_s: float = 0.0
    prefill_s: float = 0.0
    models_status: int = 200

    def __post_init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.lock = threading.Lock()
        self.cached: set[tuple[str, ...]] = set()
        self.hashes: set[int] = set()
        self.count: dict[str, float] = dict.fromkeys(
            ("prompt", "generation", "finished", "computed", "hits", "queries", "ttft_sum", "ttft_count", "running"),
            0.0,
        )
        self.open: set[BaseHTTPRequestHandler] = set()
        self.most_open = 0

    def __enter__(self) -> FakeEngine:
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                engine.get(self)

            def do_POST(self) -> None:
                engine.post(self)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *args: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        self.paths.append(handler.path)
        if handler.path == "/v1/models":
            if self.models_status != 200:
                self.send(handler, {"error": "no"}, self.models_status)
                return
            entry: dict[str, Any] = {"id": self.model, "object": "model"}
            if self.max_model_len is not None:
                entry["max_model_len"] = self.max_model_len
            self.send(handler, {"object": "list", "data": [entry]})
        elif handler.path == "/metrics" and self.exports:
            self.send_bytes(handler, self.exposition().encode(), 200, "text/plain")
        else:
            self.send(handler, {"detail": "Not Found"}, 404)

    def post(self, handler: BaseHTTPRequestHandler) -> None:
        self.paths.append(handler.path)
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        if handler.path == "/tokenize" and self.tokenizes:
            if "messages" in body:
                count = TEMPLATE_TOKENS + len(self.prompt_of(body))
            else:
                count = len(tokens_of(body["prompt"]))
            self.send(handler, {"count": count, "max_model_len": self.max_model_len, "tokens": [1] * min(count, 10)})
        elif handler.path == "/v1/chat/completions":
            self.chat(handler, body)
        else:
            self.send(handler, {"detail": "Not Found"}, 404)

    @staticmethod
    def prompt_of(body: dict[str, Any]) -> list[str]:
        words: list[str] = []
        for message in body["messages"]:
            words += tokens_of(str(message.get("content") or ""))
            for call in message.get("tool_calls") or []:
                words += tokens_of(call["function"]["arguments"])
        return words

    def chat(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self.lock:
            self.requests.append(body)
            self.open.add(handler)
            self.most_open = max(self.most_open, len(self.open))
        try:
            self.chat_now(handler, body)
        finally:
            self.leave(handler)

    def leave(self, handler: BaseHTTPRequestHandler) -> None:
        """Count a request as over. Before its last bytes: a client may send its next as soon as it has them."""
        with self.lock:
            self.open.discard(handler)

    def chat_now(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        began = time.monotonic()
        prompt = self.prompt_of(body)
        total = TEMPLATE_TOKENS + len(prompt)
        cached = self.look_up(prompt)
        reply = self.answer(body) if self.answer else Reply(["Well", "then", "."])
        if reply.status != 200:
            self.send(handler, {"error": {"message": "told to fail", "code": reply.status}}, reply.status)
            return
        words = list(reply.words)
        finish = "tool_calls" if reply.calls else "stop"
        limit = body["max_tokens"]
        if self.forces and body.get("ignore_eos") and body.get("min_tokens"):
            words = (words + [f"word{i % 7}" for i in range(limit)])[:limit]
            finish = "length"
        elif len(words) >= limit:
            words, finish = words[:limit], "length"
        pieces = [{"reasoning": f"{word} "} for word in reply.reasoning] + [{"content": f"{word} "} for word in words]
        for index, (name, arguments) in enumerate(reply.calls):
            pieces.append(
                {"tool_calls": [{"index": index, "id": f"c{index}", "function": {"name": name, "arguments": ""}}]}
            )
            for start in range(0, len(arguments), 5):
                part = {"index": index, "function": {"arguments": arguments[start : start + 5]}}
                pieces.append({"tool_calls": [part]})
        usage: dict[str, Any] = {"prompt_tokens": total, "completion_tokens": 0, "total_tokens": total}
        if self.details:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        time.sleep(self.prefill_s)
        if not body.get("stream"):
            self.whole(handler, pieces, reply, finish, usage)
            self.book(total, len(pieces), cached, began, time.monotonic())
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        self.event(handler, {"role": "assistant", "content": ""}, None, usage)
        first = time.monotonic()
        done = 0
        for start in range(0, len(pieces), self.per_event):
            group = pieces[start : start + self.per_event]
            done += len(group)
            usage = {**usage, "completion_tokens": done}
            self.event(handler, merged(group), None, usage)
            if reply.error_after is not None and done >= reply.error_after:
                self.leave(handler)
                handler.wfile.write(b'data: {"error":{"message":"EngineCore died","code":500}}\n\ndata: [DONE]\n\n')
                return
            if self.token_s:
                time.sleep(self.token_s * len(group))
        self.event(handler, {}, finish, usage)
        self.book(total, done, cached, began, first)
        last: dict[str, Any] = {"choices": [], "usage": usage, "model": self.model}
        if self.metrics:
            last["metrics"] = {
                "time_to_first_token_ms": (first - began) * 1e3,
                "queue_time_ms": 0.0,
                "generation_time_ms": (time.monotonic() - first) * 1e3,
            }
        self.leave(handler)
        handler.wfile.write(b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")

    def whole(
        self, handler: Any, pieces: list[dict[str, Any]], reply: Reply, finish: str, usage: dict[str, Any]
    ) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": " ".join(reply.words)}
        if reply.calls:
            message["tool_calls"] = [
                {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for i, (name, arguments) in enumerate(reply.calls)
            ]
        usage = {**usage, "completion_tokens": len(pieces)}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        self.leave(handler)
        self.send(handler, {"choices": [choice], "usage": usage, "model": self.model})

    def look_up(self, prompt: list[str]) -> int:
        """Cached tokens of this prompt (whole blocks, never its last token); the prompt is cached from now on."""
        cached, state, hit = 0, 0, True
        with self.lock:
            for start in range(0, (len(prompt) - 1) // BLOCK * BLOCK, BLOCK):
                state = hash((state, tuple(prompt[start : start + BLOCK])))
                hit = hit and state in self.hashes
                cached += BLOCK if hit else 0
                self.hashes.add(state)
        return cached

    def book(self, total: int, generated: int, cached: int, began: float, first: float) -> None:
        with self.lock:
            for key, value in (
                ("prompt", total), ("generation", generated), ("finished", 1), ("computed", total - cached),
                ("hits", cached), ("queries", total), ("ttft_sum", first - began), ("ttft_count", 1),
            ):  # fmt: skip
                self.count[key] += value

    def exposition(self) -> str:
        c = self.count
        engine = 'engine="0",model_name="fa\\"ke"'
        return (
            f"# TYPE vllm:prompt_tokens_total counter\n"
            f"vllm:prompt_tokens_total{{{engine}}} {c['prompt']}\n"
            f"vllm:generation_tokens_total{{{engine}}} {c['generation']}\n"
            f'vllm:request_success_total{{{engine},finished_reason="stop"}} {c["finished"]}\n'
            f"vllm:num_requests_running{{{engine}}} {c['running']}\n"
            f"vllm:num_requests_waiting{{{engine}}} 0.0\n"
            f"vllm:kv_cache_usage_perc{{{engine}}} 0.01\n"
            f"vllm:prefix_cache_queries_total{{{engine}}} {c['queries']}\n"
            f"vllm:prefix_cache_hits_total{{{engine}}} {c['hits']}\n"
            f"vllm:request_prefill_kv_computed_tokens_sum{{{engine}}} {c['computed']}\n"
            f"vllm:request_prefill_kv_computed_tokens_count{{{engine}}} {c['finished']}\n"
            f"vllm:time_to_first_token_seconds_sum{{{engine}}} {c['ttft_sum']}\n"
            f"vllm:time_to_first_token_seconds_count{{{engine}}} {c['ttft_count']}\n"
            f'vllm:cache_config_info{{{engine},block_size="{BLOCK}",kv_cache_size_tokens="100000"}} 1.0\n'
        )

    def event(self, handler: Any, delta: dict[str, Any], finish: str | None, usage: dict[str, Any]) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        data = json.dumps({"choices": [choice], "usage": usage, "model": self.model}, separators=(",", ":"))
        handler.wfile.write(b"data: " + data.encode() + b"\n\n")
        handler.wfile.flush()

    def send(self, handler: Any, value: dict[str, Any], status: int = 200) -> None:
        self.send_bytes(handler, json.dumps(value).encode(), status, "application/json")

    @staticmethod
    def send_bytes(handler: Any, data: bytes, status: int, kind: str) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


def merged(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for piece in pieces:
        for key, value in piece.items():
            out[key] = out[key] + value if key in out else value
    return out
