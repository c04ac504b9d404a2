# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every phase does around its requests: room for the result, the window, progress, counters, the document."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..client import ChatRequest, Endpoint, Loop, Sample, run_batch
from ..client.kept import WRITTEN_CHARS
from ..engine.metrics import Exposition, delta
from ..errors import SpikeError
from ..results import progress as progress_files
from ..results import store
from ..results.document import COLLECTION_VERSION, Document, plan_sha256, status_of, task_result
from ..results.window import Clocks, Window
from . import cache, checks, witnesses
from .companion import Companion, StallWatch
from .plans import Common, plan_json
from .server import Server

# The engine books a request a moment after its last byte; it gets this long to do so.
SETTLE_S = 2.0
_SETTLE_STEP_S = 0.05
_LOOK_S = 1.0
TOLD_CUTS = 3


@dataclass
class Measured:
    """Requests that were sent together, and what the engine's counters did around them."""

    label: str
    samples: list[Sample]
    before: Exposition | None
    after: Exposition | None
    deltas: dict[str, Any] | None
    client_cpu_s: float

    @property
    def alone(self) -> bool:
        """Did the counters move for one request only?"""
        return cache.was_alone(self.before, self.deltas)

    @property
    def tokens_per_step(self) -> float | None:
        """Mean tokens per engine step under speculation, None without."""
        value = (self.deltas or {}).get("spec_mean_acceptance_length")
        return float(value) if isinstance(value, (int, float)) else None

    def cache(self, sample: Sample) -> cache.CacheVerdict:
        """Cold or warm, for one of these samples."""
        return cache.judge(
            sample.prompt_tokens, sample.cached_tokens, self.deltas, self.alone, cache.block_size(self.after)
        )


@dataclass
class Run:
    """One phase in progress. Make it, ``send`` (any number of times), then ``finish``."""

    phase: str
    name: str
    plan: Any
    common: Common
    server: Server
    total: int
    unit: str
    clocks: Clocks = field(default_factory=Clocks)
    scrape: bool = False
    samples: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    disagreements: list[dict[str, Any]] = field(default_factory=list)
    engine_metrics: dict[str, Any] | None = None
    workload: dict[str, Any] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    ok: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self._done = self._tokens = self._failed_requests = 0
        self.plan_json = plan_json(self.plan, self.common)
        self.notes += self.server.notes
        self._sha256 = plan_sha256(self.phase, self.plan_json)
        self.stop_reason: str | None = None
        self._began = time.monotonic()
        self._handler: Any = None
        self._children: list[int] = []
        path = self.common.results_path
        if path is not None:
            self.notes += _claim(path, stale(self.phase, self.plan_json, self.common), self._sha256)
        self._begun_ns, self._begun_utc = self.clocks.now()
        self._windowed = False
        base = {
            "schema": progress_files.SCHEMA,
            "phase": self.phase,
            "name": self.name,
            "context": self.common.context,
            "plan_sha256": self._sha256,
            "started_utc": self._begun_utc,
            "total": self.total,
            "unit": self.unit,
            **progress_files.own_identity(),
        }
        watch = (self.scrape or self.common.stall_time_limit_s is not None) and self.server.unreachable is None
        self.companion = Companion(
            None if path is None else progress_files.progress_path(path),
            base,
            self.server,
            scrape=watch,
            stall_s=self.common.stall_time_limit_s,
        )

    def __enter__(self) -> Run:
        self.companion.start()
        if threading.current_thread() is threading.main_thread():
            # Told to go away, a measurement keeps what it has. The companion was forked before this and is not touched.
            self._handler = signal.signal(signal.SIGTERM, self._terminated)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
        self.companion.stop()

    # --- stopping and going on -------------------------------------------------------------------------------------

    def _terminated(self, *_: object) -> None:
        self.stop_reason = self.stop_reason or "told to stop (SIGTERM)"

    def stopping(self) -> bool:
        """Has it been told to stop, or is its time over? Nothing new is begun then."""
        limit = self.common.time_limit_s
        if self.stop_reason is None and limit is not None and time.monotonic() - self._began >= limit:
            self.stop_reason = f"stopped at time_limit_s = {limit:g}"
        return self.stop_reason is not None

    def guard(self, loop: Loop) -> None:
        """Make a loop of the caller's end when this phase is to stop."""

        def look() -> None:
            if self.stopping():
                loop.stop(self.stop_reason or "stopped")
            loop.call_later(_LOOK_S, look, hold=False)

        loop.call_later(_LOOK_S, look, hold=False)

    def earlier(self) -> dict[str, Any] | None:
        """What an interrupted run of the same plan finished on the same boot of the engine, else None.

        A part of another plan or boot is set aside. What is returned is taken over: checks, witnesses, window start.
        """
        path = self.common.results_path
        if path is None:
            return None
        partial = progress_files.partial_path(path)
        found = store.read(partial)
        if found.kind == "absent":
            return None
        document = found.document
        same = document is not None and (
            document["plan_sha256"] == plan_sha256(self.phase, self.plan_json)
            and document["context"] == self.common.context
            and bool(self.common.context.get("boot_id"))
            and document["model_served"] == self.server.model_served
        )
        if document is None or not same:
            why = "it is of another plan or boot" if document is not None else found.why
            self.notes.append(f"an unfinished part was set aside as {store.set_aside(path, 'earlier', partial)}: {why}")
            return None
        self._windowed = True
        self._begun_ns = document["window"]["start_monotonic_ns"]
        self._begun_utc = document["window"]["start_utc"]
        self.checks = list(document["checks"])
        self.disagreements = list(document["witnesses"]["disagreements"])
        self.engine_metrics = document["witnesses"]["engine_metrics"]
        ended = document["window"]["end_utc"]
        self.notes.append(f"resumed: this part was measured until {ended}, was interrupted, and was not measured again")
        return document

    def take_over(self, samples: Sequence[Mapping[str, Any]]) -> None:
        """Samples of an earlier part, in their JSON form."""
        for sample in samples:
            self.samples.append(dict(sample))
            self._done += 1
            self._tokens += sample["completion_tokens"] or 0
            if sample["status"] == "ok":
                self.ok += 1
            else:
                self.failed += 1
                self._failed_requests += 1
                self.errors.append(f"{sample['label']}: {sample['error_kind']}: {sample['error']}")

    # --- sending ---------------------------------------------------------------------------------------------------

    def send(self, label: str, requests: Sequence[ChatRequest], arrivals_s: Sequence[float] | None = None) -> Measured:
        """Send requests at once (or at their arrival times) and read the counters around them."""
        return self.around(label, lambda: self.batch(requests, arrivals_s))

    def around(self, label: str, do: Callable[[], list[Sample]]) -> Measured:
        """Read the counters, ``do``, read them again once the engine has booked the requests."""
        if not self._windowed:
            # The window is that of the requests: building a prompt before them is not part of it.
            self._windowed = True
            self._begun_ns, self._begun_utc = self.clocks.now()
        before = self.server.scrape()
        self.companion.update(in_hand=1)  # one at least: an engine that shows none of them is not idle
        cpu = time.process_time()
        samples = do()
        cpu = time.process_time() - cpu
        self.companion.update(in_hand=0)
        self._reap()
        after, deltas = self._settled(before, sum(sample.status == "ok" for sample in samples))
        return Measured(label, samples, before, after, deltas, cpu)

    def batch(self, requests: Sequence[ChatRequest], arrivals_s: Sequence[float] | None = None) -> list[Sample]:
        """Send requests under this phase's limits and progress, without reading the counters."""
        return run_batch(
            self.server.endpoint,
            list(requests),
            request_timeout_s=self.common.request_timeout_s,
            arrivals_s=None if arrivals_s is None else list(arrivals_s),
            on_progress=self.progressing(),
            should_stop=self.stopping,
            stall=self.stall(),
        )

    def progressing(self) -> Callable[[Mapping[str, Any]], None]:
        """A client's progress hook for one more batch; its counts are added to what is done already."""
        done, tokens, failed = self._done, self._tokens, self._failed_requests

        def hook(progress: Mapping[str, Any]) -> None:
            self._done = done + progress["done"]
            self._tokens = tokens + progress["tokens"]
            self._failed_requests = failed + progress["failed"]
            self.companion.update(done=self._done, tokens=self._tokens, failed=self._failed_requests)

        return hook

    def stall(self) -> StallWatch | None:
        """The client's stall watch, or None without a limit."""
        limit = self.common.stall_time_limit_s
        return None if limit is None else StallWatch(self.companion, limit)

    def _settled(self, before: Exposition | None, succeeded: int) -> tuple[Exposition | None, dict[str, Any] | None]:
        if before is None:
            return None, None
        deadline = time.monotonic() + SETTLE_S
        while True:
            after = self.server.scrape()
            deltas = None if after is None else delta(before, after)
            finished = (deltas or {}).get("requests_finished")
            booked = isinstance(finished, Mapping) and sum(finished.values()) >= succeeded
            if after is None or booked or time.monotonic() >= deadline:
                return after, deltas
            time.sleep(_SETTLE_STEP_S)

    # --- judging ---------------------------------------------------------------------------------------------------

    def keep(
        self,
        measured: Measured,
        *,
        forced_tokens: int | None,
        thinking: bool | None,
        extra: Callable[[Sample], Mapping[str, Any]] | None = None,
        count_text: bool = True,
    ) -> None:
        """Take samples into the result: their checks, the witnesses, their JSON form (``extra`` is added to it)."""
        text_tokens = self._text_tokens(measured.samples) if count_text else {}
        for sample in measured.samples:
            self.checks += checks.asked_and_got(
                sample, model=self.server.model, forced_tokens=forced_tokens, thinking=thinking
            )
            self.checks += checks.plausible(sample, self.common, measured.tokens_per_step, text_tokens.get(id(sample)))
            self.disagreements += witnesses.per_request(sample)
            if sample.status == "ok":
                self.ok += 1
            else:
                self.failed += 1
                self.errors.append(f"{sample.label}: {sample.error_kind}: {sample.error}")
            self.samples.append({**sample.to_json(), **(extra(sample) if extra else {})})
        self.notes += _cut_texts(measured.samples)
        self.disagreements += witnesses.counters(measured.samples, measured.deltas, measured.label)
        if measured.deltas is not None:
            self.engine_metrics = {**(self.engine_metrics or {}), measured.label: measured.deltas}

    def check_texts(self, measured: Measured) -> None:
        """Check the sum of the texts' tokens against the sum of usage, in one call to the tokenizer."""
        good = [s for s in measured.samples if s.status == "ok" and s.completion_tokens and s.whole_text]
        text = "\n".join(sample.reasoning + sample.text for sample in good)
        usage = sum(sample.completion_tokens or 0 for sample in good)
        count = self._count_text(text) if text.strip() else None
        if count is not None and abs(count - usage) > 0.2 * usage:
            doubt = f"the texts are {count} tokens long, usage says {usage}: degenerate output?"
            self.checks.append(
                {
                    "check": "plausible",
                    "label": measured.label,
                    "asked": usage,
                    "found": count,
                    "ok": False,
                    "text": doubt,
                }
            )

    def _text_tokens(self, samples: Sequence[Sample]) -> dict[int, int]:
        """The engine's own count of each reply's text, where it has a tokenizer and the reply is all plain text."""
        out: dict[int, int] = {}
        for sample in samples:
            if sample.status == "ok" and sample.completion_tokens and not sample.tool_calls and sample.whole_text:
                text = sample.reasoning + sample.text
                count = self._count_text(text) if text else 0
                if count is None:
                    break
                out[id(sample)] = count
        return out

    def _count_text(self, text: str) -> int | None:
        try:
            return self.server.count_text(text)
        except SpikeError as exc:
            # What was measured must not be lost because it could not be checked.
            self.notes.append(f"the texts were not counted again: {exc}")
            return None

    # --- the document ----------------------------------------------------------------------------------------------

    def document(
        self, summary: Mapping[str, Any], status: str | None = None, reason: str | None = None
    ) -> dict[str, Any]:
        """The document as of now."""
        ended_ns, ended_utc = self.clocks.now()
        notes = list(dict.fromkeys([*self.notes, *checks.failed_checks(self.checks)]))
        notes += witnesses.in_words(self.disagreements)
        return Document(
            phase=self.phase,
            name=self.name,
            context=self.common.context,
            plan=self.plan_json,
            endpoint=self.server.endpoint.url,
            model_requested=self.server.model_requested,
            model_served=self.server.model_served,
            max_model_len=self.server.max_model_len,
            window=Window(self._begun_ns, self._begun_utc, ended_ns, ended_utc),
            status=status or self._status(),
            reason=reason or self._reason(),
            summary=summary,
            workload=self.workload,
            samples=self.samples,
            engine_metrics=self.engine_metrics,
            disagreements=self.disagreements,
            checks=self.checks,
            notes=notes,
        ).to_json()

    def _status(self) -> str:
        if self.stop_reason is not None:
            return "partial" if self.ok else "failed"
        return status_of(self.ok, self.failed)

    def _reason(self) -> str | None:
        if self.stop_reason is not None:
            return f"{self.stop_reason}; {self.ok} requests were whole by then, {self.failed} failed or were cut"
        if not self.failed:
            return None
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        return f"{self.failed} of {self.ok + self.failed} requests failed; {self.errors[0]}{more}"

    def save_partial(self, summary: Mapping[str, Any]) -> None:
        """Keep what is finished so far on disk, as a valid document with status ``partial``."""
        path = self.common.results_path
        if path is not None:
            document = self.document(summary, "partial", "not finished: this is what was measured so far")
            store.write_atomic(progress_files.partial_path(path), store.encode(document))

    def apart(self, action: Callable[[], None]) -> None:
        """Do in a forked process, which sees what is known now, what would hold up the loop here (a synced write)."""
        if self.common.results_path is None:
            return
        pid = os.fork()
        if pid == 0:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                action()
            finally:
                os._exit(0)
        self._children.append(pid)

    def _reap(self) -> None:
        for pid in self._children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._children = []

    def finish(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Write the result and return what the module returns."""
        document = self.document(summary)
        path, digest = self.common.results_path, None
        if path is not None:
            digest = store.write_atomic(path, store.encode(document))
            store.remove(progress_files.partial_path(path))
        return task_result(document, path, digest, False)


def _cut_texts(samples: Sequence[Sample]) -> list[str]:
    """A sentence for each of the first texts of which a result holds the beginning only, and one for the others."""
    told = [
        f"{sample.label}: the {name} is {facts['characters']} characters long (sha256 {facts['sha256']}); "
        f"its first {WRITTEN_CHARS} are kept"
        for sample in samples
        for name, facts in sample.cut.items()
    ]
    more = len(told) - TOLD_CUTS
    return (
        told if more <= 0 else [*told[:TOLD_CUTS], f"{more} more texts were cut; their samples say how long they were"]
    )


def reused(phase: str, plan: Any, common: Common) -> dict[str, Any] | None:
    """What the module returns when the same plan was measured whole on the same boot already; None when it was not.

    Nothing is sent then. ``remeasure`` forces a new measurement.
    """
    path = common.results_path
    if path is None or progress_files.inspect(path)["state"] == "running":
        return None
    document = store.read(path).document
    if document is None or stale(phase, plan_json(plan, common), common) is not None:
        return None
    return task_result(document, path, store.sha256_of(path), True)


def stale(phase: str, plan: Mapping[str, Any], common: Common) -> str | None:
    """Why the result at the results path is not what would be measured now; None when it is, or none is there."""
    document = None if common.results_path is None else store.read(common.results_path).document
    if document is None:
        return None
    if common.remeasure:
        return "it was to be measured again"
    context = document["context"] if isinstance(document.get("context"), Mapping) else {}
    differing = sorted(key for key in {*context, *common.context} if context.get(key) != common.context.get(key))
    reasons = (
        (document["plan_sha256"] != plan_sha256(phase, dict(plan)), "its plan was another"),
        (bool(differing), f"it is of another {', '.join(differing)}"),
        (not common.context.get("boot_id"), "no boot_id says that the engine is the same"),
        (document.get("collection_version") != COLLECTION_VERSION, "another version of the collection measured it"),
        (document["status"] != "complete", f"it is {document['status']}"),
    )
    return next((why for is_so, why in reasons if is_so), None)


def _claim(path: str, why: str | None, sha256: str) -> list[str]:
    """Make room at ``path``, unless a measurement is at work there; ``at_work`` tells that it is the same one."""
    seen = progress_files.inspect(path)
    if seen["state"] == "running":
        running = seen["progress"]
        same = running.get("plan_sha256") == sha256
        other = "" if same else ", another plan"
        raise SpikeError(
            f"results_path: a measurement ({running.get('name')}, pid {running.get('pid')}{other}) is at work on "
            f"{path} since {running.get('started_utc')}. Watch it with lobes.spike.measurement_info, or end it first "
            "(playbooks/cleanup.yml).",
            {"at_work": True} if same else None,
        )
    return store.prepare(path, why)


def planned(
    phase: str, name: str, plan: Any, common: Common, requests: int, tokens: Mapping[str, Any]
) -> dict[str, Any]:
    """What check mode returns: the plan, and what it would send. Nothing has been sent, not even to list models."""
    Endpoint.parse(common.endpoint)
    body = plan_json(plan, common)
    return {
        "name": name,
        "status": "planned",
        "results_path": common.results_path,
        "planned": {
            "phase": phase,
            "plan": body,
            "plan_sha256": plan_sha256(phase, body),
            "requests": requests,
            **tokens,
        },
    }
