# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ground truth: an OpenAI-compatible streaming server that says to the nanosecond what it did when.

One process, one epoll loop, events encoded beforehand. The schedule is absolute (event i is due at request + ttft +
i * itl), so a late event does not push the next one, and what counts is not the schedule but the record: the time of
CLOCK_MONOTONIC, which is the same for every process of the machine, just before the first and the last token were
handed to the kernel. A client's error is its own time minus the record's.

    python3 server.py --port 0 --ttft 0.15 --itl 0.05 --tokens 256

prints ``READY <port>``. A request's ``max_tokens`` overrides ``--tokens``; so do the fields ``truth_ttft_s``,
``truth_itl_s`` and ``truth_tokens_per_event``. GET /truth returns the records, POST /truth/reset forgets them:

    {"request_id": str|null, "received_ns": int, "first_ns": int, "last_ns": int, "end_ns": int, "tokens": int,
     "events": int, "body_bytes": int, "first_byte_ns": int}

``first_byte_ns`` is when the first bytes of the request were read, ``received_ns`` when its last byte was.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import heapq
import itertools
import json
import resource
import select
import signal
import socket
import sys
import time
from functools import lru_cache

NS = 1_000_000_000
READ_BYTES = 256 * 1024
CREATED = 1_767_225_600

now_ns = time.monotonic_ns


def chunk(payload: bytes) -> bytes:
    """One event as one HTTP chunk."""
    event = b"data: " + payload + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
    b"Cache-Control: no-cache\r\n\r\n"
)


@lru_cache(maxsize=64)
def script(tokens: int, per_event: int, prompt: int, running: bool, final: bool, model: str) -> tuple[bytes, ...]:
    """The writes of one stream: head and role event, each token event, then finish, usage and [DONE] together."""
    base = {"id": "chatcmpl-truth", "object": "chat.completion.chunk", "created": CREATED, "model": model}

    def usage(done: int) -> dict[str, int]:
        return {"prompt_tokens": prompt, "total_tokens": prompt + done, "completion_tokens": done}

    def event(delta: dict[str, str], done: int, finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": None}
        value: dict[str, object] = {**base, "choices": [choice]}
        if running:
            value["usage"] = usage(done)
        return chunk(compact(value))

    writes = [HEAD + event({"role": "assistant", "content": ""}, 0, None)]
    done = 0
    while done < tokens:
        count = min(per_event, tokens - done)
        text = "".join(f" t{i % 1000}" for i in range(done, done + count))
        done += count
        writes.append(event({"content": text}, done, "length" if done == tokens else None))
    if not tokens:
        writes.append(event({}, 0, "length"))
    tail = chunk(compact({**base, "choices": [], "usage": usage(tokens)})) if final else b""
    return (*writes, tail + chunk(b"[DONE]") + b"0\r\n\r\n")


class Stream:
    """One connection, and the reply it is being sent."""

    __slots__ = (
        "body_left",
        "buffer",
        "due_ns",
        "fd",
        "first_byte_ns",
        "itl_ns",
        "pending",
        "position",
        "record",
        "send",
        "sock",
        "writes",
    )

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.send = sock.send
        self.buffer = bytearray()
        self.body_left = -1  # bytes of the request still to come, -1 before its head is complete
        self.first_byte_ns = 0
        self.pending = b""  # what the kernel did not take
        self.writes: tuple[bytes, ...] = ()
        self.position = 0
        self.due_ns = 0
        self.itl_ns = 0
        self.record: dict[str, object] = {}


class Server:
    """The loop. ``defaults`` has ttft_s, itl_s, tokens, per_event, prompt_tokens, model."""

    def __init__(self, port: int, defaults: argparse.Namespace) -> None:
        self.defaults = defaults
        self.listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.epoll = select.epoll()
        self.epoll.register(self.listener.fileno(), select.EPOLLIN)
        self.streams: dict[int, Stream] = {}
        self.due: list[tuple[int, int, Stream]] = []
        self.order = itertools.count()
        self.unanswered: collections.deque[tuple[Stream, bytes, int]] = collections.deque()
        self.records: list[dict[str, object]] = []

    def run(self) -> None:
        gc.disable()  # a collection would be a hole in the schedule
        while True:
            wait = -1.0
            if self.unanswered:
                wait = 0.0
            elif self.due:
                wait = max(0.0, (self.due[0][0] - now_ns()) / NS)
            for fd, mask in self.epoll.poll(wait):
                if fd == self.listener.fileno():
                    self.accept()
                    continue
                stream = self.streams.get(fd)
                if stream is None:
                    continue
                if mask & select.EPOLLOUT and stream.pending:
                    self.write(stream, b"")
                if mask & ~select.EPOLLOUT:
                    self.read(stream)
            self.play()
            self.answer_some()

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = Stream(sock)
            self.streams[stream.fd] = stream
            self.epoll.register(stream.fd, select.EPOLLIN)

    def play(self) -> None:
        """Send every event that is due; ``first_ns`` and ``last_ns`` are read just before the send."""
        due = self.due
        while due and due[0][0] <= now_ns():
            _, _, stream = heapq.heappop(due)
            if stream.fd < 0 or not stream.writes:
                continue
            position, writes = stream.position, stream.writes
            if position == 0:
                # The role event is written on its own, the first token right behind it, as vLLM does.
                self.write(stream, writes[0])
                stream.position = position = 1
            last = len(writes) - 2
            t_ns = now_ns()
            if position == 1:
                stream.record["first_ns"] = t_ns
            if position == last:
                stream.record["last_ns"] = t_ns
            self.write(stream, writes[position])
            if position == last:
                self.write(stream, writes[-1])
                stream.record["end_ns"] = now_ns()
                stream.writes = ()
                self.records.append(stream.record)
                continue
            stream.position = position + 1
            stream.due_ns += stream.itl_ns
            heapq.heappush(due, (stream.due_ns, next(self.order), stream))

    def write(self, stream: Stream, data: bytes) -> None:
        if stream.fd < 0:
            return
        if stream.pending:
            data = stream.pending + data
        try:
            sent = stream.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.drop(stream)
            return
        rest = data[sent:]
        if bool(rest) != bool(stream.pending):
            self.epoll.modify(stream.fd, select.EPOLLIN | (select.EPOLLOUT if rest else 0))
        stream.pending = rest

    def drop(self, stream: Stream) -> None:
        self.streams.pop(stream.fd, None)
        stream.fd = -1
        stream.sock.close()

    def read(self, stream: Stream) -> None:
        try:
            data = stream.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop(stream)
            return
        if not stream.buffer:
            stream.first_byte_ns = now_ns()
        stream.buffer += data
        if stream.body_left < 0:
            end = stream.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(stream.buffer[:end]).decode("latin-1").lower()
            length = next((line[15:] for line in head.split("\r\n") if line.startswith("content-length:")), "0")
            stream.body_left = int(length) + end + 4
            if "expect: 100-continue" in head:
                self.write(stream, b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(stream.buffer) >= stream.body_left:
            received_ns = now_ns()
            request = bytes(stream.buffer)
            stream.buffer.clear()
            stream.body_left = -1
            self.unanswered.append((stream, request, received_ns))

    def answer_some(self) -> None:
        """Requests are stamped in a rush and looked at afterwards, so that none is stamped late for another's sake."""
        for _ in range(min(8, len(self.unanswered))):
            self.answer(*self.unanswered.popleft())

    def answer(self, stream: Stream, request: bytes, received_ns: int) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        method, target = head.split(b" ", 2)[:2]
        path = target.decode("latin-1").partition("?")[0]
        model = self.defaults.model
        if method == b"POST" and path.endswith("/chat/completions"):
            self.begin(stream, body, received_ns)
        elif path == "/truth":
            self.reply(stream, self.records)
        elif path == "/truth/reset":
            self.records = []
            self.reply(stream, {})
        elif path.endswith("/models"):
            self.reply(stream, {"object": "list", "data": [{"id": model, "object": "model", "max_model_len": 1 << 20}]})
        elif path.endswith("/health") or path == "/":
            self.reply(stream, {})
        else:
            self.reply(stream, {"error": {"message": "not served here", "code": 404}}, b"404 Not Found")

    def reply(self, stream: Stream, value: object, status: bytes = b"200 OK") -> None:
        body = compact(value)
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self.write(stream, head + body)

    def begin(self, stream: Stream, body: bytes, received_ns: int) -> None:
        try:
            asked = json.loads(body)
        except ValueError:
            self.reply(stream, {"error": {"message": "the body is not JSON", "code": 400}}, b"400 Bad Request")
            return
        defaults = self.defaults
        tokens = asked.get("max_completion_tokens") or asked.get("max_tokens") or defaults.tokens
        options = asked.get("stream_options") or {}
        model = asked.get("model") or defaults.model
        if not asked.get("stream"):
            # Some tools try the endpoint with a plain request first; it is not part of the truth.
            message = {"role": "assistant", "content": "ok"}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            usage = {"prompt_tokens": defaults.prompt_tokens, "completion_tokens": 1, "total_tokens": 1}
            self.reply(
                stream, {"id": "truth", "object": "chat.completion", "model": model, "choices": choices, "usage": usage}
            )
            return
        per_event = int(asked.get("truth_tokens_per_event") or defaults.per_event)
        stream.writes = script(
            int(tokens),
            per_event,
            defaults.prompt_tokens,
            bool(options.get("continuous_usage_stats")),
            bool(options.get("include_usage")),
            str(model),
        )
        stream.position = 0
        stream.itl_ns = int(float(asked.get("truth_itl_s", defaults.itl)) * NS)
        stream.due_ns = received_ns + int(float(asked.get("truth_ttft_s", defaults.ttft)) * NS)
        stream.record = {
            "request_id": asked.get("request_id") or asked.get("user"),
            "first_byte_ns": stream.first_byte_ns,
            "received_ns": received_ns,
            "tokens": int(tokens),
            "events": len(stream.writes) - 2,
            "body_bytes": len(body),
        }
        heapq.heappush(self.due, (stream.due_ns, next(self.order), stream))


def main() -> int:
    parser = argparse.ArgumentParser(description="Ground-truth streaming server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ttft", type=float, default=0.15, help="seconds to the first token")
    parser.add_argument("--itl", type=float, default=0.05, help="seconds between events")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--per-event", type=int, default=1, help="tokens in each event")
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--model", default="truth")
    options = parser.parse_args()
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = Server(options.port, options)
    # Written out beforehand: the first request must not wait for it, nor those behind it.
    for running in (False, True):
        script(options.tokens, options.per_event, options.prompt_tokens, running, True, options.model)

    def stop(*_: object) -> None:
        raise SystemExit(0)  # a flag would not end a poll that waits for ever

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    sys.stdout.write(f"READY {server.port}\n")
    sys.stdout.flush()
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
