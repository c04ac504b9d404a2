# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays the catalogue over HTTP: ``http://127.0.0.1:PORT/s/NAME/v1/chat/completions``, or ``model: NAME``.

One thread and one epoll loop; every step goes out at its time after the request was read. GET /played tells, for every
request, by how much the server itself was late: that is not the client's error.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import heapq
import itertools
import json
import select
import socket
import struct
import sys
import time
from http import HTTPStatus
from typing import Any

from .catalogue import CATALOGUE, Play, Step
from .script import encode

NS = 1_000_000_000
READ_BYTES = 256 * 1024


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def wire(play: Play) -> list[Step]:
    """The writes of a reply as they go over the connection: head, framing, pieces."""
    steps = sorted(play.steps, key=lambda step: step.at_s)
    if play.framing == "raw":
        return steps
    total = sum(len(step.data) for step in steps)
    headers = dict(play.headers)
    if play.content_type is not None:
        headers["Content-Type"] = play.content_type
    if play.framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
    elif play.framing == "length":
        headers["Content-Length"] = str(total)
    else:
        headers["Connection"] = "close"
    reason = HTTPStatus(play.status).phrase
    lines = [f"HTTP/1.1 {play.status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    out = [Step(steps[0].at_s if play.head_at_s is None else play.head_at_s, head)]
    for step in steps:
        pieces = [step.data]
        if play.cut is not None:
            pieces = [step.data[i : i + play.cut] for i in range(0, len(step.data), play.cut)]
        for piece in pieces:
            out.append(Step(step.at_s, chunked(piece) if play.framing == "chunked" else piece))
        if step.end:
            out.append(Step(step.at_s, b"", step.end))
    if play.framing == "chunked" and play.terminated:
        out.append(Step(out[-1].at_s, b"0\r\n\r\n"))
    if play.framing == "close" and play.terminated:
        out.append(Step(out[-1].at_s, b"", "close"))
    return out


class Client:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.buffer = bytearray()
        self.pending = bytearray()
        self.steps: list[Step] = []
        self.position = 0
        self.start_ns = 0
        self.record: dict[str, Any] = {}
        self.end = ""  # end the connection this way once everything pending is out


class Server:
    """``run`` until the process is ended. ``port`` is known once it is made."""

    def __init__(self, port: int = 0) -> None:
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.epoll = select.epoll()
        self.epoll.register(self.listener, select.EPOLLIN)
        self.clients: dict[int, Client] = {}
        self.due: list[tuple[int, int, Client]] = []  # when a connection's next step is
        self.unanswered: collections.deque[tuple[Client, str, str, bytes, int]] = collections.deque()
        self.order = itertools.count()
        self.played: list[dict[str, Any]] = []
        self.wires: dict[tuple[str, bool], list[Step]] = {}

    def run(self) -> None:
        while True:
            wait = max(0.0, (self.due[0][0] - time.monotonic_ns()) / NS) if self.due else -1
            if self.unanswered:
                wait = 0.0
            for fd, mask in self.epoll.poll(wait):
                client = self.clients.get(fd)
                if fd == self.listener.fileno():
                    self.accept()
                elif client is not None:
                    if mask & select.EPOLLOUT:
                        self.flush(client)
                    if mask & ~select.EPOLLOUT and client.fd >= 0:
                        self.read(client)
            self.play()
            # Requests are stamped in a rush and looked at afterwards: none is late for another's sake.
            if self.unanswered:
                self.answer(*self.unanswered.popleft())

    def accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self.listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client = Client(sock)
                self.clients[client.fd] = client
                self.epoll.register(client.fd, select.EPOLLIN)

    def play(self) -> None:
        # One step at a time, so that what falls due at the same moment on other connections is not held up by one.
        while self.due:
            now = time.monotonic_ns()
            due_ns, _, client = self.due[0]
            if due_ns > now:
                return
            heapq.heappop(self.due)
            if client.fd < 0:
                continue
            record = client.record
            record["late_s"] = max(record["late_s"], (now - due_ns) / NS)
            step = client.steps[client.position]
            client.position += 1
            client.pending += step.data
            client.end = client.end or step.end
            self.flush(client)
            self.schedule(client)

    def flush(self, client: Client) -> None:
        before = bool(client.pending)
        try:
            while client.pending:
                sent = client.sock.send(memoryview(client.pending)[:READ_BYTES])
                del client.pending[:sent]
        except BlockingIOError:
            self.epoll.modify(client.fd, select.EPOLLIN | select.EPOLLOUT)
            return
        except OSError:
            self.drop(client)
            return
        if before:
            self.epoll.modify(client.fd, select.EPOLLIN)
        if client.end:
            self.drop(client, reset=client.end == "reset")

    def drop(self, client: Client, reset: bool = False) -> None:
        self.clients.pop(client.fd, None)
        client.fd = -1
        if reset:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sock.close()

    def read(self, client: Client) -> None:
        try:
            data = client.sock.recv(READ_BYTES)
            now = time.monotonic_ns()
        except BlockingIOError:
            return
        except OSError:
            data, now = b"", 0
        if not data:
            self.drop(client)
            return
        client.buffer += data
        head, blank, body = bytes(client.buffer).partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        length = next((line.split(":")[1] for line in lines if line.lower().startswith("content-length:")), "0")
        if len(body) < int(length):
            return
        client.buffer.clear()
        method, path = lines[0].split(" ")[:2]
        self.unanswered.append((client, method, path, body, now))

    def schedule(self, client: Client) -> None:
        if client.position < len(client.steps):
            due_ns = client.start_ns + int(client.steps[client.position].at_s * NS)
            heapq.heappush(self.due, (due_ns, next(self.order), client))

    def answer(self, client: Client, method: str, path: str, body: bytes, now: int) -> None:
        name = path.split("/")[2] if path.startswith("/s/") else ""
        if method == "POST" and path.endswith("/completions"):
            try:
                asked = json.loads(body)
            except ValueError:
                asked = {}
            name = name or str(asked.get("model"))
            if name in CATALOGUE and asked.get("stream"):
                self.begin(client, name, bool((asked.get("stream_options") or {}).get("continuous_usage_stats")), now)
                return
            choices = [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]
            self.reply(client, {"object": "chat.completion", "choices": choices, "usage": Play.counts(1)})
        elif path == "/played":
            self.reply(client, self.played)
        elif path.endswith("/models"):
            names = [name] if name else list(CATALOGUE)
            self.reply(client, {"object": "list", "data": [{"id": each, "object": "model"} for each in names]})
        else:
            self.reply(client, {})

    def reply(self, client: Client, value: object) -> None:
        body = encode(value)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        client.pending += head + body
        self.flush(client)

    def begin(self, client: Client, name: str, running: bool, now: int) -> None:
        steps = self.wires.get((name, running))
        if steps is None:
            steps = self.wires[name, running] = wire(CATALOGUE[name].play(running))
        client.record = {"stream": name, "late_s": 0.0}
        self.played.append(client.record)
        client.steps, client.position, client.start_ns = steps, 0, now
        self.schedule(client)


def serve(port: int) -> None:
    """Run in this process; prints READY and the port."""
    server = Server(port)
    gc.disable()  # a collection would be a hole in the schedule
    for name in CATALOGUE:  # written out before the first request, so that none waits for it
        for running in (False, True):
            server.wires[name, running] = wire(CATALOGUE[name].play(running))
    sys.stdout.write(f"READY {server.port}\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
