# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP/1.1 response read in pieces: bytes in, body bytes out. No sockets, no clock."""

from __future__ import annotations

MAX_HEAD = 64 * 1024
MAX_LINE = 16 * 1024
MAX_SIZES = 10_000

SIZES: dict[bytes, int] = {}
"""Chunk sizes met so far, by their digits: the same few hundred in every stream."""

_HEAD, _LENGTH, _CHUNK, _TRAILER, _UNTIL_CLOSE, _DONE = range(6)
_HEX = frozenset(b"0123456789abcdefABCDEF")


class NotHttp(Exception):
    """The bytes are not an HTTP/1.1 response; the message says where they stop being one."""


class ResponseParser:
    """Feed it what the socket gave; it returns the body bytes that are complete so far.

    ``status`` and ``headers`` (names in lower case, repeated ones joined by ", ") are set once the head is read.
    ``complete`` is True when the body ended as the head said it would. Interim (1xx) responses are skipped.
    """

    __slots__ = ("_buf", "_left", "_state", "closes", "complete", "headers", "status", "surplus")

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self.closes = False  # the connection cannot carry another request after this response
        self.surplus = False  # bytes came after the end of the body
        self._state = _HEAD
        self._buf = b""  # an unfinished line, or the unfinished head
        self._left = 0  # bytes of the body (or chunk) still to come; -1: the line end after a chunk

    def feed(self, data: bytes) -> bytes:
        """Body bytes newly known, b"" when none. Raises ``NotHttp``; the parser is of no use after that."""
        state = self._state
        if state == _CHUNK:
            return self._chunks(data)
        if state == _HEAD:
            return self._head(data)
        if state == _UNTIL_CLOSE:
            return data
        if state == _LENGTH:
            return self._length(data)
        if state == _TRAILER:
            self._trailer(data)
            return b""
        self.surplus = self.closes = True
        return b""

    @property
    def between_chunks(self) -> bool:
        """The next byte is the first of a chunk's size line."""
        return self._state == _CHUNK and not self._left and not self._buf

    def eof(self) -> None:
        """The peer closed. A body that is delimited by closing is complete now; any other is left incomplete."""
        if self._state == _UNTIL_CLOSE:
            self._done()
        self.closes = True

    def _done(self) -> None:
        self._state = _DONE
        self.complete = True

    def _head(self, data: bytes) -> bytes:
        buf = self._buf + data if self._buf else data
        while True:
            # The head ends at an empty line; a lone LF is accepted as a line end (RFC 9112, 2.2).
            end, width = buf.find(b"\n\r\n"), 3
            bare = buf.find(b"\n\n", 0, end + 1 if end >= 0 else len(buf))
            if bare >= 0:
                end, width = bare, 2
            if end < 0:
                if len(buf) > MAX_HEAD:
                    raise NotHttp(f"the response head is larger than {MAX_HEAD} bytes")
                if b"HTTP/"[: len(buf)] != buf[:5]:
                    raise NotHttp("the reply does not begin with HTTP/")
                self._buf = buf
                return b""
            status = self._read_head(buf[:end])
            buf = buf[end + width :]
            if status >= 200 or status == 101:
                break
            self.headers = {}
        self._buf = b""
        self.status = status
        self._choose_body()
        return self.feed(buf) if buf else b""

    def _read_head(self, head: bytes) -> int:
        lines = head.decode("latin-1").replace("\r\n", "\n").removesuffix("\r").split("\n")
        parts = lines[0].split(" ", 2)
        if (
            len(parts) < 2
            or parts[0] not in ("HTTP/1.1", "HTTP/1.0")
            or not (len(parts[1]) == 3 and parts[1].isdigit())
        ):
            raise NotHttp(f"the status line is not one: {lines[0][:100]!r}")
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise NotHttp(f"a header line is not one: {line[:100]!r}")
            name, value = name.lower(), value.strip()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        connection = self.headers.get("connection", "").lower()
        self.closes = "close" in connection or (parts[0] == "HTTP/1.0" and "keep-alive" not in connection)
        return int(parts[1])

    def _choose_body(self) -> None:
        if self.status in (204, 304):
            self._done()
            return
        coding = self.headers.get("transfer-encoding", "").lower()
        if coding:
            if coding.split(",")[-1].strip() != "chunked":
                raise NotHttp(f"transfer encoding {coding[:100]!r} is not understood")
            self._state = _CHUNK
            return
        length = self.headers.get("content-length")
        if length is None:
            self._state = _UNTIL_CLOSE
            self.closes = True
            return
        values = {value.strip() for value in length.split(",")}
        text = values.pop()
        if values or not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise NotHttp(f"content length {length[:100]!r} is not one number")
        self._left = int(text)
        self._state = _LENGTH
        if not self._left:
            self._done()

    def _length(self, data: bytes) -> bytes:
        if len(data) > self._left:
            self.surplus = self.closes = True
            data = data[: self._left]
        self._left -= len(data)
        if not self._left:
            self._done()
        return data

    def _chunks(self, data: bytes) -> bytes:
        buf = self._buf + data if self._buf else data
        out: list[bytes] = []
        pos, size = 0, len(buf)
        left = self._left
        while True:
            if left > 0:
                piece = buf[pos : pos + left]
                out.append(piece)
                pos += len(piece)
                left -= len(piece)
                if left:
                    self._buf = b""
                    break
                left = -1
            eol = buf.find(b"\n", pos)
            if eol < 0:
                self._buf = buf[pos:]
                if len(self._buf) > MAX_LINE:
                    raise NotHttp(f"a chunk size line is longer than {MAX_LINE} bytes")
                break
            line = buf[pos:eol]
            pos = eol + 1
            if left < 0:
                if line not in (b"\r", b""):
                    raise NotHttp("a chunk is longer than its stated size")
                left = 0
                continue
            left = chunk_size(line)
            if left == 0:
                self._buf = b""
                self._left = 0
                self._state = _TRAILER
                self._trailer(buf[pos:])
                return b"".join(out)
            if pos == size:
                self._buf = b""
                break
        self._left = left
        return out[0] if len(out) == 1 else b"".join(out)

    def _trailer(self, data: bytes) -> None:
        buf = self._buf + data
        while True:
            eol = buf.find(b"\n")
            if eol < 0:
                if len(buf) > MAX_LINE:
                    raise NotHttp(f"a trailer line is longer than {MAX_LINE} bytes")
                self._buf = buf
                return
            line, buf = buf[:eol].rstrip(b"\r"), buf[eol + 1 :]
            if not line:
                self._buf = b""
                self._done()
                if buf:
                    self.surplus = self.closes = True
                return


def chunk_size(line: bytes) -> int:
    """The size of a chunk from its line (extensions ignored); ``int`` alone would take signs and underscores."""
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
        raise NotHttp(f"a chunk size is not a hexadecimal number: {line[:40]!r}")
    size = int(digits, 16)
    if len(SIZES) < MAX_SIZES:
        SIZES[digits] = size
    return size
