# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many requests at once: connections first, then a common start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .endpoint import Endpoint
from .failure import bad_input
from .loop import NS, Exchange, Loop, Stall
from .request import ChatRequest
from .sample import Sample

OnProgress = Callable[[dict[str, Any]], None]
"""Gets {done, total, failed, tokens, elapsed_s}: after every sample, and once a second while nothing finishes."""

CONNECT_AHEAD_S = 1.0  # open loop: how long before its start a request's connection is opened
TICK_S = 1.0
SENDS_PER_LOOK = 16


def run_batch(
    endpoint: Endpoint,
    requests: Sequence[ChatRequest],
    request_timeout_s: float | None = None,
    arrivals_s: Sequence[float] | None = None,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
    stall: Stall | None = None,
) -> list[Sample]:
    """Send all ``requests`` and return their samples in the same order, failed ones included.

    All connections are opened first; then the requests are sent back to back. With ``arrivals_s`` (seconds from the
    start, one for each request) each is sent at its time, whatever the others do; ``late_s`` of a sample tells by how
    much that failed. ``should_stop`` is asked once a second; a True ends what is unfinished as failed (``stopped``).
    """
    if arrivals_s is not None:
        if len(arrivals_s) != len(requests):
            raise bad_input("arrivals_s", len(arrivals_s), f"Give one start for each of the {len(requests)} requests.")
        for start in arrivals_s:
            if not 0 <= start < float("inf"):
                raise bad_input("arrivals_s", start, "A start is a number of seconds, 0 or more.")
    with Loop(endpoint, request_timeout_s, stall) as loop:
        batch = _Batch(loop, requests, on_progress, should_stop)
        if arrivals_s is None:
            batch.start_together()
        else:
            batch.start_at(arrivals_s)
        loop.run()
        return batch.samples()


class _Batch:
    def __init__(
        self,
        loop: Loop,
        requests: Sequence[ChatRequest],
        on_progress: OnProgress | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self._loop = loop
        self._requests = requests
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._samples: list[Sample | None] = [None] * len(requests)
        self._done = self._failed = self._tokens = 0
        self._start_ns = loop.now()
        self._stopped = False
        if on_progress is not None or should_stop is not None:
            loop.call_later(TICK_S, self._tick, hold=False)

    def start_together(self) -> None:
        exchanges = [self._prepare(i) for i in range(len(self._requests))]
        self._loop.settle()
        self._start_ns = self._loop.now()
        for i, exchange in enumerate(exchanges):
            self._loop.start(exchange)
            if i % SENDS_PER_LOOK == SENDS_PER_LOOK - 1:
                self._loop.turn(wait=False)  # the first replies do not wait for the last requests

    def start_at(self, arrivals_s: Sequence[float]) -> None:
        # The earliest request's connection has to be open before the clock of the arrivals starts.
        lead_s = CONNECT_AHEAD_S if len(self._requests) else 0.0
        self._start_ns = self._loop.now() + int(lead_s * NS)
        for i, start_s in enumerate(arrivals_s):
            due_ns = self._start_ns + int(start_s * NS)
            self._loop.call_at(due_ns - int(CONNECT_AHEAD_S * NS), self._opener(i, due_ns))

    def samples(self) -> list[Sample]:
        return [
            sample if sample is not None else _never_sent(request)
            for sample, request in zip(self._samples, self._requests, strict=True)
        ]

    def _prepare(self, i: int) -> Exchange:
        def done(sample: Sample) -> None:
            self._samples[i] = sample
            self._done += 1
            self._failed += sample.status != "ok"
            self._tokens += sample.completion_tokens or 0
            self._report()

        return self._loop.prepare(None, self._requests[i], done)

    def _opener(self, i: int, due_ns: int) -> Callable[[], None]:
        def start(exchange: Exchange) -> None:
            if not self._stopped:
                self._loop.start(exchange)

        def open_connection() -> None:
            if self._stopped:
                return
            exchange = self._prepare(i)
            exchange.due_ns = due_ns
            self._loop.call_at(due_ns, lambda: start(exchange))

        return open_connection

    def _tick(self) -> None:
        if self._should_stop is not None and not self._stopped and self._should_stop():
            self._stopped = True
            self._loop.stop()
            return
        self._report()
        self._loop.call_later(TICK_S, self._tick, hold=False)

    def _report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(
                {
                    "done": self._done,
                    "total": len(self._requests),
                    "failed": self._failed,
                    "tokens": self._tokens,
                    "elapsed_s": round((self._loop.now() - self._start_ns) / NS, 3),
                }
            )


def _never_sent(request: ChatRequest) -> Sample:
    return Sample(label=request.label, error="stopped before it was sent", error_kind="stopped")
