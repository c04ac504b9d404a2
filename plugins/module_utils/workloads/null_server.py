# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server in a process of its own that streams tokens on a known schedule and keeps when it really sent each one.

It speaks just enough of the chat protocol for the client. ``time.monotonic_ns`` is one clock for all processes of a
box, so its times and the client's can be subtracted.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import select
import signal
import socket
import time
from typing import Any

# It ends by itself when its parent is gone, and in any case after this long.
LIFETIME_S = 900.0
_LOOK_S = 0.2
_NEAR_S = 0.002
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
_END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}}\n\ndata: [DONE]\n\n'
)


def event(count: int) -> bytes:
    """The event of token number ``count``."""
    return (
        b'data: {"model":"null","choices":[{"index":0,"delta":{"content":"so "},"finish_reason":null}],'
        b'"usage":{"prompt_tokens":1,"completion_tokens":%d}}\n\n' % count
    )


class NullServer:
    """Use as a context: ``url`` is its base. ``schedule`` in a request's body says what it sends when."""

    def __init__(self) -> None:
        self._pid = 0
        self.url = ""

    def __enter__(self) -> NullServer:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                _detach_output()
                _Loop(listener, parent).run()
            finally:
                os._exit(0)
        listener.close()
        self._pid = pid
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def schedule(label: str, first_s: float, interval_s: float, tokens: int) -> dict[str, Any]:
    """A request body: the first token ``first_s`` after the request has arrived, then one each ``interval_s``."""
    return {
        "model": "null",
        "stream": True,
        "max_tokens": tokens,
        "min_tokens": tokens,
        "ignore_eos": True,
        "schedule": {"label": label, "first_s": first_s, "interval_s": interval_s},
    }


def _detach_output() -> None:
    # Whoever reads the module's output waits for it to close; this process must not hold it open.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


class _Stream:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = b""
        self.label = ""
        self.interval_ns = 0
        self.tokens = 0
        self.due_ns = 0
        self.sent_ns: list[int] = []


class _Loop:
    def __init__(self, listener: socket.socket, parent: int) -> None:
        self._listener, self._parent = listener, parent
        self._epoll = select.epoll()
        self._streams: dict[int, _Stream] = {}
        self._due: list[tuple[int, int]] = []
        self._truth: dict[str, list[int]] = {}
        self._events: list[bytes] = []
        listener.setblocking(False)
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def run(self) -> None:
        until = time.monotonic() + LIFETIME_S
        look = 0.0
        while True:
            now = time.monotonic()
            if now >= look:
                look = now + _LOOK_S
                if os.getppid() != self._parent or now > until:
                    return
            self._send_due()
            for fd, _mask in self._epoll.poll(self._wait_s()):
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._streams:
                    self._read(self._streams[fd])

    def _wait_s(self) -> float:
        if not self._due:
            return _LOOK_S
        left = (self._due[0][0] - time.monotonic_ns()) / 1e9
        # epoll waits in whole milliseconds: the last ones are spent looking.
        return 0.0 if left < _NEAR_S else min(_LOOK_S, left - _NEAR_S / 2)

    def _accept(self) -> None:
        while True:
            try:
                sock = self._listener.accept()[0]
            except OSError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._streams[sock.fileno()] = _Stream(sock)
            self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _close(self, stream: _Stream) -> None:
        self._streams.pop(stream.sock.fileno(), None)
        stream.sock.close()

    def _read(self, stream: _Stream) -> None:
        try:
            data = stream.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(stream)
            return
        stream.received += data
        head, found, body = stream.received.partition(b"\r\n\r\n")
        if not found:
            return
        if head.startswith(b"GET "):
            self._answer(stream, head.split(b" ", 2)[1])
            return
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _colon, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        if len(body) >= length:
            self._begin(stream, body)

    def _answer(self, stream: _Stream, path: bytes) -> None:
        reply = _MISSING
        if path == b"/truth":
            text = json.dumps(self._truth).encode("ascii")
            self._truth = {}
            reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(text) + text
        with contextlib.suppress(OSError):
            stream.sock.setblocking(True)
            stream.sock.sendall(reply)
        self._close(stream)

    def _begin(self, stream: _Stream, body: bytes) -> None:
        arrived_ns = time.monotonic_ns()
        wanted = json.loads(body)
        plan = wanted["schedule"]
        stream.received = b""
        stream.label, stream.tokens = plan["label"], wanted["max_tokens"]
        stream.interval_ns = int(plan["interval_s"] * 1e9)
        stream.due_ns = arrived_ns + int(plan["first_s"] * 1e9)
        while len(self._events) < stream.tokens:
            self._events.append(event(len(self._events) + 1))
        stream.sock.send(_HEAD)
        heapq.heappush(self._due, (stream.due_ns, stream.sock.fileno()))

    def _send_due(self) -> None:
        due = self._due
        while due and due[0][0] <= time.monotonic_ns():
            fd = heapq.heappop(due)[1]
            stream = self._streams.get(fd)
            if stream is None:
                continue
            stream.sent_ns.append(time.monotonic_ns())
            try:
                stream.sock.send(self._events[len(stream.sent_ns) - 1])
            except OSError:
                self._close(stream)
                continue
            if len(stream.sent_ns) < stream.tokens:
                stream.due_ns += stream.interval_ns
                heapq.heappush(due, (stream.due_ns, fd))
                continue
            self._truth[stream.label] = stream.sent_ns
            with contextlib.suppress(OSError):
                stream.sock.send(_END % stream.tokens)
            self._close(stream)
