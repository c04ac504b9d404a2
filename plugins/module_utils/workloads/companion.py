# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A companion process that keeps the progress file fresh and watches the engine's gauges.

It is a process and not a thread: reading /metrics takes the engine 10 to 60 ms (seconds when it is saturated), and
nothing but the sockets may hold up the loop that takes the times.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import time
from collections.abc import Mapping
from typing import Any

from ..client import Sample
from ..engine.liveness import DEAD, STALLED, UNKNOWN, Limits, Watch
from ..results import store
from ..results.window import utc_text
from .cache import pool_tokens
from .server import Server

INTERVAL_S = 2.0
WRITE_S = 1.0
_TICK_S = 0.25
_FRESH_S = 4 * INTERVAL_S
_SIZE = 64 * 1024
_HALF = _SIZE // 2
_HEAD = struct.Struct("<II")


class _Slot:
    """One direction of the shared page: the last whole JSON object written to it."""

    def __init__(self, page: mmap.mmap, offset: int) -> None:
        self._page, self._offset = page, offset
        self._turn = 0

    def put(self, value: Mapping[str, Any]) -> None:
        data = json.dumps(value, separators=(",", ":")).encode("utf-8")
        if len(data) > _HALF - _HEAD.size:
            return
        self._turn += 1
        start = self._offset + _HEAD.size
        # An odd turn says "being written"; a reader that sees one, or two different ones, keeps what it had.
        _HEAD.pack_into(self._page, self._offset, self._turn * 2 - 1, len(data))
        self._page[start : start + len(data)] = data
        _HEAD.pack_into(self._page, self._offset, self._turn * 2, len(data))

    def get(self) -> dict[str, Any] | None:
        turn, length = _HEAD.unpack_from(self._page, self._offset)
        if not turn or turn % 2:
            return None
        start = self._offset + _HEAD.size
        data = bytes(self._page[start : start + length])
        if _HEAD.unpack_from(self._page, self._offset) != (turn, length):
            return None
        try:
            value = json.loads(data)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


class Companion:
    """Start it with the progress file's fixed part; ``update`` what is done; ``stop`` it. Usable as a context.

    ``scrape`` makes it read the engine's gauges every two seconds and judge by them whether the engine lives: for a
    lone prefill or a stall limit only, since each reading costs the engine a few milliseconds. ``stall_s`` is how long
    nothing may move. Without a path and without ``scrape`` there is no process at all.
    """

    def __init__(
        self, path: str | None, base: Mapping[str, Any], server: Server, scrape: bool, stall_s: float | None = None
    ) -> None:
        self._path, self._base, self._server, self._scrape = path, dict(base), server, scrape
        self._limits = Limits.of(stall_s or Limits.stall_s)
        self._page = mmap.mmap(-1, _SIZE)
        self._state = _Slot(self._page, 0)
        self._seen = _Slot(self._page, _HALF)
        self._started_ns = time.monotonic_ns()
        self._pid = 0
        self._last: dict[str, Any] = {}

    def start(self) -> Companion:
        """Write the first progress and fork."""
        self.update(done=0)
        if self._path is not None:
            store.write_quick(self._path, self._document(self._last, {}))
        if self._path is None and not self._scrape:
            return self
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            # Whatever happens here must not fall back into the measuring code.
            try:
                self._run(parent)
            finally:
                os._exit(0)
        self._pid = pid
        return self

    def update(self, **state: Any) -> None:
        """Merge what is known now (done, tokens, ...); cheap enough for every event."""
        self._last.update(state)
        self._state.put(self._last)

    def judgement(self, now_ns: int) -> dict[str, Any] | None:
        """The latest judgement of the engine, None when it is too old to count or says nothing."""
        seen = self._seen.get()
        if not seen or now_ns - seen["judged_ns"] > _FRESH_S * 1e9 or seen["judgement"]["state"] == UNKNOWN:
            return None
        judgement: dict[str, Any] = seen["judgement"]
        return judgement

    def stop(self) -> None:
        """End the process and remove the progress file: the result takes its place."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            if self._path is not None:
                store.remove(f"{self._path}.tmp-{self._pid}")
            self._pid = 0
        if self._path is not None:
            store.remove(self._path)

    def __enter__(self) -> Companion:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _run(self, parent: int) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            # The controller waits for the module's output to close; this process must not hold it open.
            os.dup2(null, descriptor)
        gauges: dict[str, Any] = {}
        watch = Watch(self._limits)
        first: tuple[float | None, float | None] | None = None
        due = scrape_due = 0.0
        state = dict(self._last)
        while os.getppid() == parent:
            earlier, state = state, self._state.get() or state
            now = time.monotonic()
            if now >= due or state != earlier:
                due = now + WRITE_S
                if self._scrape and now >= scrape_due:
                    scrape_due = now + INTERVAL_S
                    exposition, signals = self._server.look(state.get("in_hand") or 0)
                    if exposition is not None:
                        usage, pool = exposition.value("kv_cache_usage"), pool_tokens(exposition)
                        first = first or (usage, pool)
                        prefilled = _prefilled(first[0], usage, pool, state.get("prompt_tokens"))
                        gauges["kv_cache_usage"], gauges["prefill_tokens_estimate"] = usage, prefilled
                        gauges["read_utc"] = utc_text(time.time())
                    gauges["judgement"] = watch.observe(signals).to_json()
                    gauges["judged_ns"] = time.monotonic_ns()
                    self._seen.put(gauges)
                if self._path is not None:
                    store.write_quick(self._path, self._document(state, gauges))
            time.sleep(_TICK_S)

    def _document(self, state: Mapping[str, Any], gauges: Mapping[str, Any]) -> dict[str, Any]:
        now_ns = time.monotonic_ns()
        return {
            **self._base,
            **state,
            "kv_cache_usage": gauges.get("kv_cache_usage"),
            "prefill_tokens_estimate": gauges.get("prefill_tokens_estimate"),
            "gauges_read_utc": gauges.get("read_utc"),
            "judgement": gauges.get("judgement"),
            "elapsed_s": round((now_ns - self._started_ns) / 1e9, 3),
            "updated_utc": utc_text(time.time()),
        }


class StallWatch:
    """The client's stall hook: no event for ``limit_s``, and the companion judges that nothing moved just as long.

    Where it cannot judge, silence on the wire decides (a keep-alive comment is no silence).
    """

    def __init__(self, companion: Companion, limit_s: float) -> None:
        self.quiet_s = limit_s
        self._companion = companion

    def __call__(self, sample: Sample, event_s: float, byte_s: float) -> str | None:
        judgement = self._companion.judgement(time.monotonic_ns())
        if judgement is not None:
            if judgement["state"] not in (STALLED, DEAD):
                return None
            evidence = " ".join(judgement["evidence"])
            return f"no event for {event_s:.0f} s, and the engine is {judgement['state']}: {evidence}"
        if byte_s < self.quiet_s:
            return None
        return f"no byte for {byte_s:.0f} s, and the engine's gauges could not be read"


def _prefilled(first: float | None, usage: float | None, pool: float | None, prompt_tokens: object) -> int | None:
    """Prompt tokens that the KV gauge says are in the pool: its rise since the start times the pool's size."""
    if first is None or usage is None or pool is None:
        return None
    tokens = max(0, round((usage - first) * pool))
    return min(tokens, prompt_tokens) if isinstance(prompt_tokens, int) else tokens
