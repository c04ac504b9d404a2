# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers by themselves: HTTP responses and event streams."""

from __future__ import annotations

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client.http1 import MAX_HEAD, NotHttp, ResponseParser
from ansible_collections.lobes.spike.plugins.module_utils.client.sse import EventTooLarge, SseParser


def body_of(data: bytes, size: int = 1) -> tuple[bytes, ResponseParser]:
    parser = ResponseParser()
    return b"".join(parser.feed(data[i : i + size]) for i in range(0, len(data), size)), parser


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_chunks_extensions_and_trailers(size):
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\n"
    body, parser = body_of(data, size)
    assert (body, parser.complete, parser.closes) == (b"abc0123456789", True, False)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_stated_length_and_what_comes_after_it(size):
    body, parser = body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcde", size)
    assert (body, parser.complete, parser.surplus) == (b"abc", True, True)


def test_a_body_until_close_is_complete_only_then():
    body, parser = body_of(b"HTTP/1.0 200 OK\r\n\r\nabc")
    assert (body, parser.complete) == (b"abc", False)
    parser.eof()
    assert parser.complete


def test_a_truncated_body_is_never_complete():
    for data in (b"Content-Length: 9\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc"):
        _, parser = body_of(b"HTTP/1.1 200 OK\r\n" + data)
        parser.eof()
        assert not parser.complete


def test_chunked_wins_over_a_length():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
    body, parser = body_of(head + b"3\r\nabc\r\n0\r\n\r\n")
    assert (body, parser.complete) == (b"abc", True)


def test_many_interim_replies_in_one_read():
    body, parser = body_of(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000 + b"HTTP/1.1 200 OK\r\n\r\nx", 1 << 20)
    assert (body, parser.status) == (b"x", 200)


def test_headers_are_lower_case_and_joined():
    _, parser = body_of(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a:2\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n")
    assert parser.headers["x-a"] == "1, 2"
    assert parser.closes
    assert parser.complete


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * MAX_HEAD,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5;" + b"y" * 20_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"y" * 20_000,
    ],
)
def test_what_is_not_http_is_said_to_be_so(data):
    with pytest.raises(NotHttp):
        body_of(data, 4096)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\n\n", [(b"a", "")]),
        (b"data:a\ndata: b\n\n", [(b"a\nb", "")]),
        (b"data\n\n", [(b"", "")]),
        (b"data:  a\n\n", [(b" a", "")]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [(b"a", "x")]),
        (b"event: x\n\ndata: a\n\n", [(b"a", "")]),  # a name without data does not stick
        (b"id: 1\n\n: ping\n\n", []),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [(b"a", ""), (b"b", ""), (b"c", "")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"a", "")]),
        (b"\n\n\ndata: a\n\n\n\n", [(b"a", "")]),
        (b"data: a", []),
        (b"data: a\n", []),
        (b"dat: a\n\n", []),
    ],
)
def test_events(data, expected, size):
    parser = SseParser()
    events = [event for i in range(0, len(data), size) for event in parser.feed(data[i : i + size])]
    assert events == expected


def test_the_unfinished_last_event_is_given_when_asked_for():
    parser = SseParser()
    assert parser.feed(b"data: a\ndata: b") == []
    assert parser.flush() == [(b"a\nb", "")]
    assert parser.flush() == []


def test_comments_and_unknown_lines_are_counted():
    parser = SseParser()
    parser.feed(b": a\n:\n\nnonsense\n\n")
    assert (parser.comments, parser.ignored) == (2, 1)


@pytest.mark.parametrize("step", [1000, 100, 7])
@pytest.mark.parametrize("line", [b"data: " + b"x" * 2000, b"data: x\n" * 300, b": " + b"x" * 2000])
def test_memory_is_bounded_by_the_limit(line, step):
    parser = SseParser(limit=1000)
    pieces = [line[i : i + step] for i in range(0, len(line), step)]
    with pytest.raises(EventTooLarge):
        [parser.feed(piece) for piece in pieces]
