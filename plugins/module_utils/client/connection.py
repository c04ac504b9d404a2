# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One non-blocking connection, plain or TLS. It moves bytes; it neither waits nor reads a clock."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import Exchange
    from .reply import Reply

READ_BYTES = 64 * 1024
WRITE_BYTES = 256 * 1024  # per turn: a 5 MB prompt must not keep the loop from the other streams

# A peer that vanished without a word is found after 60 + 8 * 15 s.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 8))

Address = tuple[int, tuple[Any, ...]]
"""(address family, socket address), as getaddrinfo gives them."""


class Connection:
    """A socket on its way to the first of ``addresses`` that accepts. The loop owns and drives it."""

    __slots__ = (
        "_host",
        "_sock",
        "_tls",
        "_untried",
        "address",
        "broke",
        "draining",
        "ended",
        "exchange",
        "failure",
        "fd",
        "opened_ns",
        "read",
        "ready",
        "started_ns",
        "used",
    )

    def __init__(self, addresses: Sequence[Address], host: str, tls: ssl.SSLContext | None, started_ns: int) -> None:
        self._untried = list(addresses)
        self._host = host
        self._tls = tls
        self._sock: socket.socket | None = None
        self.address: Address | None = None
        self.fd = -1
        self.ready = False  # open: TCP and TLS are through
        self.failure: tuple[str, str] | None = None  # (error kind, message): it will never be ready
        self.started_ns = started_ns
        self.opened_ns: int | None = None
        self.used = False  # carried a request already
        self.broke: OSError | None = None  # how it broke
        self.ended = False  # the peer hung up or it broke; what came before may still be unparsed
        self.exchange: Exchange | None = None  # the request it is promised to
        self.draining: Reply | None = None  # its sample is settled, the end of its body is not here yet
        # What has arrived, b"" at the end. Raises BlockingIOError when there is nothing, OSError when it broke.
        self.read: Callable[[], bytes] = self._closed

    def begin(self) -> None:
        """Start connecting to the next address. Raises OSError when that fails at once."""
        self.close()
        self.address = self._untried.pop(0)
        family, address = self.address
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
            code = sock.connect_ex(address)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
        except BaseException:
            sock.close()
            raise
        self._sock = sock
        self.fd = sock.fileno()

    @property
    def has_untried(self) -> bool:
        """Another address can be tried."""
        return bool(self._untried)

    def advance(self) -> str:
        """Go on opening; "" when open, else what to wait for: "r" or "w". Raises OSError (ssl.SSLError is one)."""
        sock = self._sock
        if sock is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if not isinstance(sock, ssl.SSLSocket):
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            if self._tls is None:
                self.read = partial(sock.recv, READ_BYTES)
                self.ready = True
                return ""
            sock = self._tls.wrap_socket(sock, server_hostname=self._host, do_handshake_on_connect=False)
            self._sock = sock
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            return "r"
        except ssl.SSLWantWriteError:
            return "w"
        self.read = partial(_read_tls, sock)
        self.ready = True
        return ""

    def write(self, data: memoryview) -> int:
        """Hand bytes to the kernel; how many it took. Raises BlockingIOError when none, OSError when it broke."""
        sock = self._sock
        if sock is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        try:
            return sock.send(data[:WRITE_BYTES])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def close(self) -> None:
        """Give up the socket; harmless when there is none."""
        sock, self._sock = self._sock, None
        self.ready = False
        self.fd = -1
        self.read = self._closed
        if sock is not None:
            sock.close()

    @staticmethod
    def _closed() -> bytes:
        return b""


def _read_tls(sock: ssl.SSLSocket) -> bytes:
    """One turn's worth of decrypted bytes. Each recv takes a whole record, so the rest stays where epoll sees it."""
    parts: list[bytes] = []
    try:
        while len(parts) < 16:
            part = sock.recv(READ_BYTES)
            if not part:
                break
            parts.append(part)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        if not parts:
            raise BlockingIOError from None
    except ssl.SSLEOFError:
        pass
    return b"".join(parts)


def resolve(host: str, port: int) -> list[Address]:
    """Addresses of ``host``; raises OSError (socket.gaierror) when it has none. Blocks: call it before timing."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), address) for family, *_ignored, address in found]
