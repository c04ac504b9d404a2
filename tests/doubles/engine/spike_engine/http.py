# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP/1.1 by hand: enough for one client a connection, with the timing of each write under control."""

from __future__ import annotations

import asyncio
import socket
import struct

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class HttpError(Exception):
    """An answer that is an error object, as vLLM shapes it."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


class Connection:
    """One client connection: reads requests, writes answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        sock = writer.get_extra_info("socket")
        if sock is not None:
            # Each event leaves at once, as uvicorn's do: asyncio does so only on a socket made with a protocol.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = writer.get_extra_info("peername") or ("?", 0)
        self.peer = f"{peer[0]}:{peer[1]}"

    async def request(self) -> tuple[str, str, dict[str, str], bytes] | None:
        """Method, target, headers (lower case) and body; None when the client is gone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            return None
        first, *rows = head.decode("latin-1").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3:
            return None
        headers = {k.strip().lower(): v.strip() for k, _, v in (row.partition(":") for row in rows if row)}
        if headers.get("expect", "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = await self._body(headers)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return None
        return parts[0], parts[1], headers, body

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            out = b""
            while size := int((await self.reader.readline()).split(b";")[0], 16):
                out += await self.reader.readexactly(size)
                await self.reader.readline()
            await self.reader.readline()
            return out
        return await self.reader.readexactly(int(headers.get("content-length") or 0))

    def answer(self, status: int, body: bytes, kind: str = "application/json", extra: str = "") -> None:
        """A whole answer."""
        head = (
            f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\nserver: uvicorn\r\ncontent-length: {len(body)}\r\n"
            f"content-type: {kind}\r\n{extra}\r\n"
        )
        self.writer.write(head.encode() + body)

    def begin_stream(self) -> None:
        """The head of an event stream."""
        self.writer.write(
            b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )

    def reset(self) -> None:
        """Breaks the connection with a RST."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    @property
    def gone(self) -> bool:
        """Whether the client has hung up."""
        return self.writer.transport.is_closing()
