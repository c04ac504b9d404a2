# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop: one thread, one epoll, any number of streams, one clock.

Bytes are read and stamped first; they are parsed when no socket has anything to read, so that no stream waits for
another one's JSON, be it in a burst of a thousand first tokens. Nothing has a time limit that the caller did not set,
nothing is sent twice, and neither a proxy nor the environment is consulted.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import heapq
import itertools
import resource
import select
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from .connection import Address, Connection, resolve
from .endpoint import Endpoint
from .failure import bad_input, printable
from .reply import Reply
from .request import ChatRequest
from .sample import Sample

NS = 1_000_000_000
OnDone = Callable[[Sample], None]

# Stamped reads wait for a quiet moment to be parsed: at most so many, at most so many bytes, and so many at a time.
MAX_UNPARSED = 2048
MAX_UNPARSED_BYTES = 16 * 1024 * 1024
PARSE_AT_ONCE = 32

_READ = select.EPOLLIN
_WRITE = select.EPOLLOUT


class Stall(Protocol):
    """Asked about a stream that sent no event for ``quiet_s`` seconds, and again while that lasts.

    ``event_s`` is how long no event came, ``byte_s`` how long no byte (keep-alive comments are bytes). The answer is
    None to wait on, or why this is a stall (it becomes the sample's error). It runs in the loop: it answers at once.
    """

    quiet_s: float

    def __call__(self, sample: Sample, event_s: float, byte_s: float) -> str | None: ...


class Exchange:
    """One request on its way: the bytes still to send and the reply so far."""

    __slots__ = ("active_ns", "connection", "due_ns", "left", "on_done", "reply", "sample", "t0_ns", "writing")

    def __init__(self, connection: Connection, request: bytes, reply: Reply, on_done: OnDone) -> None:
        self.connection = connection
        self.left: memoryview | None = memoryview(request)
        self.writing = False  # the kernel took only a part: epoll tells when it takes more
        self.reply = reply
        self.sample = reply.sample
        self.on_done = on_done
        self.t0_ns: int | None = None
        self.due_ns: int | None = None  # open loop: when it was meant to start
        self.active_ns = 0  # the last time a byte went or came


class Loop:
    """Runs requests against one endpoint; one thread, not to be shared. Use as a context manager or call ``close``.

    ``request_timeout_s`` counts from t0 (and bounds connecting); None is no limit at all. ``stall``: see ``Stall``.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        request_timeout_s: float | None = None,
        stall: Stall | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if request_timeout_s is not None and not request_timeout_s > 0:
            raise bad_input("request_timeout_s", request_timeout_s, "Give seconds above 0, or nothing for no limit.")
        self.endpoint = endpoint
        self._timeout_s = request_timeout_s
        self._stall = stall
        self._clock = clock
        self._tls = endpoint.tls()
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._active: set[Exchange] = set()  # started and not settled
        self._timers: list[tuple[int, int, bool, Callable[[], None]]] = []
        self._order = itertools.count()
        self._unparsed: collections.deque[tuple[Connection, int, bytes]] = collections.deque()
        self._unparsed_bytes = 0
        self._holds = 0  # timers that keep the loop running
        self._connecting = 0
        self._addresses: list[Address] = []
        self._unresolved: str | None = None
        try:
            self._addresses = resolve(endpoint.host, endpoint.port)
        except OSError as exc:
            self._unresolved = f"{endpoint.host}: {exc.strerror or exc}"

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; requests that are not settled are dropped."""
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()
        self._active.clear()
        self._epoll.close()

    # What a caller asks for.

    def connect(self) -> Connection:
        """A connection that begins to open now. When it fails, the request given to it will say so."""
        _allow_files(len(self._connections) + 64)
        connection = Connection(self._addresses, self.endpoint.host, self._tls, self._clock())
        self._connecting += 1
        if self._unresolved is not None:
            self._open_failed(connection, "connect_failed", self._unresolved)
        else:
            self._begin(connection)
        if self._timeout_s is not None:
            self.call_later(self._timeout_s, lambda: self._opening_too_long(connection), hold=False)
        return connection

    def prepare(self, connection: Connection | None, request: ChatRequest, on_done: OnDone) -> Exchange:
        """Do everything about a request that can be done before its start. A connection takes one at a time."""
        if connection is None:
            connection = self.connect()
        if connection.exchange is not None:
            raise ValueError("the connection is promised to another request")
        data = self.endpoint.post(request.path, request.encoded)
        sample = Sample(label=request.label, forced_tokens=request.forced_tokens)
        exchange = Exchange(connection, data, Reply(sample, bool(request.streamed), request.on_event), on_done)
        connection.exchange = exchange
        return exchange

    def start(self, exchange: Exchange) -> None:
        """Send a prepared request: at once on an open connection, else as soon as it opens."""
        self._active.add(exchange)
        connection = exchange.connection
        gone = connection.ended or (connection.opened_ns is not None and not connection.ready)
        if gone or connection.draining is not None:
            # The server hung up while it was idle, or has not ended the last reply yet. Nothing was sent on it, so
            # opening another one is no second try.
            if connection.draining is None:
                exchange.sample.warn("the server had closed the idle connection; another one was opened")
            connection.exchange = None
            connection = exchange.connection = self.connect()
            connection.exchange = exchange
        if connection.ready:
            self._send_first(exchange)
        elif connection.failure is not None:
            # Settled inside the loop, never inside the caller's call.
            kind, message = connection.failure
            self.call_later(0, lambda: self._settle_failed(exchange, kind, message), hold=False)

    def submit(self, connection: Connection | None, request: ChatRequest, on_done: OnDone) -> None:
        """Send ``request`` on ``connection``, or on a new one. ``on_done`` gets the settled Sample inside the loop."""
        self.start(self.prepare(connection, request, on_done))

    def call_later(self, delay_s: float, action: Callable[[], None], hold: bool = True) -> None:
        """Run ``action`` inside the loop after ``delay_s``. With ``hold``, ``run`` does not return before it."""
        self.call_at(self._clock() + int(delay_s * NS), action, hold)

    def call_at(self, t_ns: int, action: Callable[[], None], hold: bool = True) -> None:
        """Run ``action`` inside the loop at ``t_ns`` on its clock."""
        self._holds += hold
        heapq.heappush(self._timers, (t_ns, next(self._order), hold, action))

    def run(self) -> None:
        """Until every started request is settled and every holding timer has run."""
        with _no_collector():
            while self._active or self._holds:
                self.turn()

    def settle(self) -> None:
        """Until every connection has opened or failed to."""
        with _no_collector():
            while self._connecting:
                self.turn()

    def stop(self, reason: str = "stopped by the caller") -> None:
        """End every started request as failed (kind ``stopped``) and forget every timer."""
        self._timers.clear()
        self._holds = 0
        self._parse_all()
        for exchange in list(self._active):
            self._settle_failed(exchange, "stopped", reason)

    def turn(self, wait: bool = True) -> None:
        """One turn: read and stamp what there is; parse when there is nothing to read; run what is due."""
        connections = self._connections
        unparsed = self._unparsed
        happened = self._epoll.poll(0 if unparsed or not wait else self._until_timer())
        for fd, mask in happened:
            connection = connections.get(fd)
            if connection is None:
                continue
            if mask == _READ and connection.ready:
                self._read(connection)
            else:
                self._other(connection, mask)
        if unparsed:
            if not happened:
                self._parse(PARSE_AT_ONCE)
            elif len(unparsed) > MAX_UNPARSED or self._unparsed_bytes > MAX_UNPARSED_BYTES:
                self._parse(max(PARSE_AT_ONCE, len(unparsed) - MAX_UNPARSED))
        if self._timers:
            self._run_timers()

    def _read(self, connection: Connection) -> None:
        """Take what has arrived and stamp it; the parsing can wait, the time cannot."""
        try:
            data = connection.read()
        except BlockingIOError:
            return
        except OSError as exc:
            connection.broke = exc.with_traceback(None)  # its frames would hold the connection
            data = b""
        self._unparsed.append((connection, self._clock(), data))
        if data:
            self._unparsed_bytes += len(data)
            return
        # The end is queued behind what came before it; epoll would tell it for ever.
        self._epoll.unregister(connection.fd)
        connection.ended = True

    def _parse(self, most: int) -> None:
        """Parse what was read earliest, ``most`` reads of it."""
        unparsed = self._unparsed
        while most and unparsed:
            most -= 1
            connection, t_ns, data = unparsed.popleft()
            self._unparsed_bytes -= len(data)
            exchange = connection.exchange
            if exchange is None or exchange.t0_ns is None:
                self._idle_received(connection, data)
                continue
            since_ns = t_ns - exchange.t0_ns
            if since_ns < 0:
                self._settle_failed(exchange, "not_a_stream", "the server sent bytes before it was sent the request")
                continue
            exchange.active_ns = t_ns
            if data:
                settled = exchange.reply.feed(since_ns, data)
            else:
                broke = connection.broke
                how = "was closed" if broke is None else f"broke ({printable(broke.strerror or str(broke))})"
                settled = exchange.reply.eof(since_ns, f"the connection {how}")
            if settled:
                self._settled(exchange)

    def _parse_all(self) -> None:
        """Before a verdict that rests on what has come so far."""
        self._parse(len(self._unparsed))

    def _other(self, connection: Connection, mask: int) -> None:
        """Anything but bytes to read on an open connection: it opens, takes more to send, hangs up or broke."""
        if not connection.ready:
            self._advance(connection)
            return
        if mask != _WRITE:  # reading tells the end from an error, and takes what came before either
            self._read(connection)
        if mask & _WRITE and connection.exchange is not None and connection.exchange.left is not None:
            self._send_more(connection.exchange)

    # Time.

    def now(self) -> int:
        """The loop's clock, in nanoseconds."""
        return self._clock()

    def _until_timer(self) -> float | None:
        if not self._timers:
            return None
        return max(0.0, (self._timers[0][0] - self._clock()) / NS)

    def _run_timers(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._clock():
            _ignored, _ignored, hold, action = heapq.heappop(timers)
            self._holds -= hold
            action()

    def _opening_too_long(self, connection: Connection) -> None:
        if connection.opened_ns is None and connection.failure is None:
            self._close(connection)
            self._open_failed(connection, "timeout", f"not open within {self._timeout_s:g} s")

    def _out_of_time(self, exchange: Exchange) -> None:
        self._parse_all()
        self._settle_failed(exchange, "timeout", f"not finished within request_timeout_s = {self._timeout_s:g} s")

    def _watch(self, exchange: Exchange) -> None:
        """Ask the stall hook when the stream has been quiet for its time; look again when it could be."""
        stall = self._stall
        self._parse_all()
        if stall is None or exchange not in self._active or exchange.t0_ns is None:
            return
        now = self._clock()
        event_ns = exchange.t0_ns + exchange.reply.last_event_ns
        quiet_s = (now - event_ns) / NS
        if quiet_s >= stall.quiet_s:
            reason = stall(exchange.sample, quiet_s, (now - exchange.active_ns) / NS)
            if reason is not None:
                self._settle_failed(exchange, "stall", reason)
                return
            wait_s = min(stall.quiet_s, 1.0)
        else:
            wait_s = stall.quiet_s - quiet_s
        self.call_later(wait_s, lambda: self._watch(exchange), hold=False)

    # Opening.

    def _begin(self, connection: Connection) -> None:
        while True:
            try:
                connection.begin()
            except OSError as exc:
                if connection.has_untried:
                    continue
                self._open_failed(connection, *_why(exc))
                return
            self._connections[connection.fd] = connection
            self._epoll.register(connection.fd, _WRITE)
            return

    def _advance(self, connection: Connection) -> None:
        try:
            wanted = connection.advance()
        except OSError as exc:
            self._close(connection)
            if connection.has_untried:
                self._begin(connection)
            else:
                self._open_failed(connection, *_why(exc))
            return
        if wanted:
            self._epoll.modify(connection.fd, _READ if wanted == "r" else _WRITE)
            return
        connection.opened_ns = self._clock()
        self._connecting -= 1
        self._epoll.modify(connection.fd, _READ)
        if connection.address is not None and connection.address != self._addresses[0]:
            self._addresses.remove(connection.address)
            self._addresses.insert(0, connection.address)
        exchange = connection.exchange
        if exchange is not None and exchange in self._active:
            self._send_first(exchange)

    def _open_failed(self, connection: Connection, kind: str, cause: str) -> None:
        self._connecting -= 1
        connection.failure = kind, f"cannot connect to {self.endpoint.url}: {printable(cause)}"
        exchange = connection.exchange
        if exchange is not None and exchange in self._active:
            self._settle_failed(exchange, *connection.failure)

    def _close(self, connection: Connection) -> None:
        if connection.fd >= 0:
            self._connections.pop(connection.fd, None)
            connection.close()  # closing takes it out of epoll
        connection.draining = None

    # Sending and receiving.

    def _send_first(self, exchange: Exchange) -> None:
        connection, sample = exchange.connection, exchange.sample
        if not connection.used and connection.opened_ns is not None:
            sample.connect_s = (connection.opened_ns - connection.started_ns) / NS
        connection.used = True
        t0_ns = self._clock()
        exchange.t0_ns = sample.t0_ns = exchange.active_ns = t0_ns
        self._send_more(exchange)
        if exchange.due_ns is not None:
            sample.late_s = (t0_ns - exchange.due_ns) / NS
        if self._timeout_s is not None:
            self.call_later(self._timeout_s, lambda: self._out_of_time(exchange), hold=False)
        if self._stall is not None:
            self.call_later(self._stall.quiet_s, lambda: self._watch(exchange), hold=False)

    def _send_more(self, exchange: Exchange) -> None:
        connection, left = exchange.connection, exchange.left
        if left is None or exchange.t0_ns is None or connection.ended:
            return
        try:
            left = left[connection.write(left) :]
        except BlockingIOError:
            pass
        except OSError:
            # The reply may say why the rest is not wanted; reading finds that, or the end of the connection.
            exchange.left = None
            self._epoll.modify(connection.fd, _READ)
            return
        now = exchange.active_ns = self._clock()
        if left:
            exchange.left = left
            if not exchange.writing:
                exchange.writing = True
                self._epoll.modify(connection.fd, _READ | _WRITE)
            return
        if exchange.sample.upload_s is None:
            exchange.sample.upload_s = (now - exchange.t0_ns) / NS
        exchange.left = None
        if exchange.writing:
            exchange.writing = False
            self._epoll.modify(connection.fd, _READ)

    def _idle_received(self, connection: Connection, data: bytes) -> None:
        """Bytes nobody asked for: the end of a body whose sample is settled, or the server hanging up."""
        reply = connection.draining
        if reply is not None and data:
            if not reply.drain(data):
                return
            if reply.reusable:
                connection.draining = None
                return
        self._close(connection)

    def _settle_failed(self, exchange: Exchange, kind: str, message: str) -> None:
        if exchange not in self._active:
            return
        now = self._clock()
        exchange.reply.fail(now - exchange.t0_ns if exchange.t0_ns is not None else 0, kind, message)
        if exchange.t0_ns is None:
            exchange.sample.end_s = None  # nothing was sent, so there is no time to count from
        self._settled(exchange)

    def _settled(self, exchange: Exchange) -> None:
        connection = exchange.connection
        self._active.discard(exchange)
        connection.exchange = None
        if connection.opened_ns is None and connection.failure is None:
            self._connecting -= 1
            connection.failure = "stopped", "given up while it was being opened"
        if exchange.left is None and exchange.reply.draining:
            connection.draining = exchange.reply
        elif exchange.left is not None or not exchange.reply.reusable:
            self._close(connection)
        exchange.on_done(exchange.sample)


def _why(exc: OSError) -> tuple[str, str]:
    """(error kind, cause) of a connection that could not be opened."""
    kind = "connect_refused" if isinstance(exc, ConnectionRefusedError) else "connect_failed"
    return kind, str(exc) if isinstance(exc, ssl.SSLError) else exc.strerror or str(exc)


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the cycle collector away: it would stop the loop for milliseconds, and nothing here makes cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _allow_files(wanted: int) -> None:
    """Raise the soft limit on open files when it is in the way; what the hard limit forbids fails at connecting."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    most = wanted * 2 if hard == resource.RLIM_INFINITY else min(wanted * 2, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
