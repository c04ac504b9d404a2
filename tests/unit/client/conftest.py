# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small server whose every connection is handled by a function of the test."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client import Endpoint

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TRUTH = Path(__file__).resolve().parents[2] / "doubles" / "truth" / "server.py"


class Peer:
    """One accepted connection, with the few words a server needs."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""

    def request(self):
        """Read a whole request; its body, or None at the end of the connection."""
        while b"\r\n\r\n" not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.buffer += data
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        length = next(
            (int(x.split(b":")[1]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length")), 0
        )
        while len(rest) < length:
            rest += self.sock.recv(65536)
        self.buffer = rest[length:]
        return rest[:length]

    def head(self):
        self.sock.sendall(HEAD)

    def chunk(self, data):
        self.sock.sendall(b"%x\r\n" % len(data) + data + b"\r\n")

    def event(self, text=None, tokens=0, finish=None):
        delta = {"role": "assistant", "content": ""} if text is None else {"content": text}
        usage = {"prompt_tokens": 1, "completion_tokens": tokens}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.chunk(b"data: " + json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode() + b"\n\n")

    def done(self):
        end = b"data: [DONE]\n\n"
        self.sock.sendall(b"%x\r\n" % len(end) + end + b"\r\n0\r\n\r\n")

    def answer(self, tokens=3):
        """A whole short stream at once."""
        self.head()
        self.event()
        for i in range(tokens):
            self.event("x", i + 1, "stop" if i == tokens - 1 else None)
        self.done()


class Scripted:
    """Accepts on 127.0.0.1 and gives each connection to ``handler`` in a thread of its own."""

    def __init__(self, handler, tls=None):
        self.handler, self.tls = handler, tls
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with sock:
                self.handler(Peer(sock))

    def close(self):
        self.listener.close()
        for sock in self.open:
            sock.close()


@pytest.fixture
def scripted():
    """Make a server from a handler; gives its Endpoint. All are closed after the test."""
    servers = []

    def make(handler, tls=None, **more):
        server = Scripted(handler, tls)
        servers.append(server)
        return Endpoint.parse(server.url, **more)

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def truth():
    """The ground-truth server in a process of its own; gives a function of its switches that returns an Endpoint."""
    processes = []

    def make(**switches):
        command = [sys.executable, str(TRUTH)]
        for name, value in switches.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return Endpoint.parse(f"http://127.0.0.1:{process.stdout.readline().split()[1]}")

    yield make
    for process in processes:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1: (server context, path of the PEM)."""
    folder = tmp_path_factory.mktemp("tls")
    key, pem = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(pem)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return context, str(pem)
