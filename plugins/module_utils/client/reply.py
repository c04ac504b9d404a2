# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of one reply -> a Sample: HTTP, then events or JSON, then the chat protocol. No sockets, no clock."""

from __future__ import annotations

import json

from .chat import DONE, BadEvent, ChatReader, OnEvent, error_message, parse_object
from .failure import printable
from .http1 import SIZES, NotHttp, ResponseParser
from .likeness import Take
from .sample import Sample
from .sse import MAX_EVENT_BYTES, EventTooLarge, SseParser

MAX_ERROR_BODY = 64 * 1024
MAX_BLANK = 4096  # white space before a body shows what it is

_UNDECIDED, _EVENTS, _WHOLE = range(3)


class Reply:
    """Feed it (nanoseconds since t0, bytes); when it says so, ``sample`` is settled.

    The time given with bytes is the time of every event they complete: it is read before anything is parsed.
    """

    __slots__ = (
        "_body",
        "_body_size",
        "_chat",
        "_http",
        "_limit",
        "_mode",
        "_sse",
        "_streamed",
        "_take_chunk",
        "sample",
        "settled",
    )

    def __init__(
        self,
        sample: Sample,
        streamed: bool = True,
        on_event: OnEvent | None = None,
        limit: int = MAX_EVENT_BYTES,
    ) -> None:
        self.sample = sample
        self.settled = False
        self._http = ResponseParser()
        self._sse = SseParser(limit)
        self._chat = ChatReader(sample, on_event)
        self._limit = limit
        self._take_chunk: Take | None = None  # between two chunks and two events: the short way is open
        self._streamed = streamed
        self._mode = _UNDECIDED
        self._body: list[bytes] = []  # of a reply that is read whole: errors, JSON, and the head of anything undecided
        self._body_size = 0

    def feed(self, t_ns: int, data: bytes) -> bool:
        """Bytes read from the connection. True when the sample is settled."""
        take = self._take_chunk
        if take is not None:
            # The everyday read is one chunk that is one event like the last ones. What is taken holds no line end, so
            # the event ends where the chunk does.
            eol = data.find(b"\r\n", 0, 18)
            end = len(data) - 4
            if (
                SIZES.get(data[:eol]) == end - eol
                and data.startswith(b"data: ", eol + 2)
                and data.endswith(b"\n\n\r\n")
                and take(t_ns, data, eol + 8, end)
            ):
                return False
        settled = self._feed(t_ns, data)
        ready = not settled and self._mode == _EVENTS and self._http.between_chunks and self._sse.between_events
        self._take_chunk = self._chat.take if ready else None
        return settled

    def _feed(self, t_ns: int, data: bytes) -> bool:
        try:
            body = self._http.feed(data)
        except NotHttp as exc:
            return self.fail(t_ns, "not_a_stream", f"not an HTTP/1.1 reply: {exc}")
        if self.sample.headers_s is None and self._http.status is not None:
            self.sample.headers_s = t_ns / 1e9
            self.sample.http_status = self._http.status
            self._mode = self._choose()
            coding = self._http.headers.get("content-encoding", "identity").strip().lower()
            if coding not in ("identity", ""):
                message = f"the reply is compressed ({printable(coding, 40)}), which was not asked for"
                return self.fail(t_ns, "not_a_stream", message)
        if body and self._take(t_ns, body):
            return True
        return self._end_of_body(t_ns) if self._http.complete else False

    def eof(self, t_ns: int, cause: str = "the connection was closed") -> bool:
        """The peer closed, or the connection broke (``cause``). Always settles the sample."""
        self._http.eof()
        if self._http.complete:
            return self._end_of_body(t_ns)
        if self._http.status is None:
            return self.fail(t_ns, "early_close", f"{cause} before the reply began")
        if self._http.status != 200:
            return self._bad_status(t_ns)
        if self._chat.finished:
            # Every token came and the reply said why it ended; only the framing is missing.
            self.sample.warn(f"{cause} before the body's end")
            return self._settle(t_ns)
        return self.fail(t_ns, "early_close", f"{cause} before the reply's end")

    def fail(self, t_ns: int, kind: str, message: str) -> bool:
        """End the sample as failed, keeping what it has seen. The first failure is the one that is kept."""
        if self.sample.error_kind is None:
            self.sample.error_kind = kind
            self.sample.error = message
        return self._settle(t_ns)

    @property
    def reusable(self) -> bool:
        """The connection can carry another request."""
        return self._http.complete and not self._http.closes

    @property
    def draining(self) -> bool:
        """The sample is settled and the end of the body may still come."""
        return self.sample.status == "ok" and not self._http.complete

    @property
    def last_event_ns(self) -> int:
        """When the last event that carried anything came, in nanoseconds since t0; 0 before the first."""
        sample = self.sample
        if sample.events:
            return sample.events[-1][0]
        return int(sample.first_event_s * 1e9) if sample.first_event_s is not None else 0

    def drain(self, data: bytes) -> bool:
        """Bytes after the sample was settled; True when the body has ended or cannot be followed."""
        try:
            self._http.feed(data)
        except NotHttp:
            self._http.closes = True
            return True
        return self._http.complete

    def _choose(self) -> int:
        if self.sample.http_status != 200:
            return _WHOLE
        kind = self._http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            return _EVENTS
        return _WHOLE if kind.endswith("json") else _UNDECIDED

    def _take(self, t_ns: int, body: bytes) -> bool:
        if self._mode == _UNDECIDED:
            # No content type that says it: an event stream begins with a field or a comment.
            self._keep(body)
            head = b"".join(self._body).lstrip(b"\xef\xbb\xbf\r\n\t ")
            if not head:
                self._mode = _WHOLE if self._body_size > MAX_BLANK else _UNDECIDED
                return False
            if any(head.startswith(field[: len(head)]) for field in (b"data:", b"event:", b"id:", b"retry:", b":")):
                if b":" not in head:
                    return False
                self._mode = _EVENTS
                body = b"".join(self._body)
                self._body = []
                self._body_size = 0
            else:
                self._mode = _WHOLE
                return False
        if self._mode == _WHOLE:
            if not self._keep(body):
                return self.fail(t_ns, "bad_event", f"the reply is larger than {self._limit} bytes")
            if self.sample.http_status != 200 and self._body_size > MAX_ERROR_BODY:
                return self._bad_status(t_ns)
            return False
        if not self._chat.seen and self._body_size < 2048:
            self._keep(body)
        try:
            events = self._sse.feed(body)
        except EventTooLarge as exc:
            return self.fail(t_ns, "bad_event", str(exc))
        for payload, name in events:
            if self._chat.event(t_ns, payload, name):
                return self._settle(t_ns)
        return False

    def _keep(self, body: bytes) -> bool:
        self._body.append(body)
        self._body_size += len(body)
        return self._body_size <= self._limit

    def _end_of_body(self, t_ns: int) -> bool:
        if self.sample.http_status != 200:
            return self._bad_status(t_ns)
        if self._mode == _EVENTS:
            return self._end_of_events(t_ns)
        return self._whole(t_ns)

    def _end_of_events(self, t_ns: int) -> bool:
        # The standard drops an event without its blank line; servers have forgotten it, so a whole one is taken.
        for payload, name in self._sse.flush():
            if payload.strip() != DONE:
                try:
                    parse_object(payload)
                except BadEvent:
                    continue
            self.sample.warn("the last event has no blank line after it")
            self._chat.event(t_ns, payload, name)
        if not self._chat.seen and not self._chat.done and self.sample.error_kind is None and self._body_size:
            return self._whole(t_ns)
        if not self._chat.done and self.sample.error_kind is None and self._chat.finished:
            self.sample.warn("no [DONE]")
        return self._settle(t_ns)

    def _whole(self, t_ns: int) -> bool:
        """A reply of status 200 that is no event stream: an error, a whole completion, or something else."""
        body = b"".join(self._body)
        if not body.strip():
            return self.fail(t_ns, "empty", "status 200 with an empty body")
        try:
            value, _ignored = parse_object(body)
        except BadEvent:
            kind = self._http.headers.get("content-type", "no content type")
            if self._mode == _EVENTS and self._sse.comments and not self._sse.ignored:
                return self.fail(t_ns, "empty", "the stream holds comments only")
            text = printable(body[:2000].decode("utf-8", "replace"))
            return self.fail(t_ns, "not_a_stream", f"status 200 ({printable(kind, 100)}), not an event stream: {text}")
        message = error_message(value)
        if message is not None:
            return self.fail(t_ns, "server_error", message)
        if self._streamed:
            return self.fail(t_ns, "not_a_stream", "a stream was asked for, one JSON object came")
        if not isinstance(value.get("choices"), list):
            text = printable(json.dumps(value))
            return self.fail(t_ns, "not_a_stream", f"the reply is no chat completion: {text}")
        self._chat.message(value)
        return self._settle(t_ns)

    def _bad_status(self, t_ns: int) -> bool:
        body = b"".join(self._body)
        message: str | None = None
        try:
            value, _ignored = parse_object(body)
            message = error_message(value) or printable(json.dumps(value))
        except BadEvent:
            message = printable(body[:2000].decode("utf-8", "replace").strip())
        location = self._http.headers.get("location")
        if location:
            message = f"{message} (redirected to {printable(location, 200)}; redirects are not followed)"
        return self.fail(t_ns, "http_status", f"status {self.sample.http_status}: {message}")

    def _settle(self, t_ns: int) -> bool:
        if not self.settled:
            self.settled = True
            self.sample.keepalives += self._sse.comments
            self._chat.close(t_ns)
        return True
