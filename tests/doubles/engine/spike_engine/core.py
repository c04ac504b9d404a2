# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler: chunked prefill, batched decode, prefix cache and KV gauge, step by step on scaled time."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .arm import TOTAL_GIB, Arm
from .faults import Faults
from .host import Host
from .metrics import Metrics
from .perf import CODE_ACCEPTED, PROSE_ACCEPTED, Perf
from .truth import Truth

# Chance that a draft token is accepted after the one before it was, giving the seed's mean acceptance lengths.
ACCEPT = {"prose": 0.5, "code": 0.75, "tool": 1.0}
MEAN = {"prose": PROSE_ACCEPTED, "code": CODE_ACCEPTED, "tool": 6.0}
# A first token that is late by a fault comes after so many steps.
SLOW_STEPS = 20


class PrefixCache:
    """Blocks of prompts seen before, least recently used first out."""

    def __init__(self, block: int, capacity_tokens: int) -> None:
        self.block, self.capacity = block, max(capacity_tokens // block, 1)
        self.blocks: OrderedDict[int, None] = OrderedDict()

    def _hashes(self, ids: list[int], salt: str) -> list[int]:
        out, last = [], hash(salt)
        for i in range(0, len(ids) - self.block + 1, self.block):
            last = hash((last, *ids[i : i + self.block]))
            out.append(last)
        return out

    def look_up(self, ids: list[int], salt: str) -> int:
        """Tokens of the longest cached prefix, in whole blocks; the last token is always computed."""
        found = 0
        for key in self._hashes(ids[:-1], salt):
            if key not in self.blocks:
                break
            self.blocks.move_to_end(key)
            found += self.block
        return found

    def keep(self, ids: list[int], salt: str) -> None:
        """The blocks of this prompt are cached now; the oldest go when there is no room."""
        for key in self._hashes(ids, salt):
            self.blocks[key] = None
            self.blocks.move_to_end(key)
        while len(self.blocks) > self.capacity:
            self.blocks.popitem(last=False)


@dataclass(eq=False)
class Job:
    """One request inside the engine. Calls emit(new_tokens, finished) for each step that gives it tokens."""

    number: int
    ids: list[int]
    salt: str
    total_out: int
    kind: str
    finish: str
    emit: Callable[[int, bool], None]
    max_tokens: int = 0
    gone: Callable[[], bool] = lambda: False
    cached: int = 0
    computed: int = 0
    produced: int = 0
    drafts: int = 0
    accepted: int = 0
    t_arrived: float = field(default_factory=time.monotonic)
    t_scheduled: float = 0.0
    t_first: float = 0.0
    t_last: float = 0.0
    charged: bool = False
    credit_s: float = 0.0

    @property
    def prompt(self) -> int:
        """Prompt tokens."""
        return len(self.ids)


class Core:
    """The engine. prefill_speedup and decode_speedup divide the real box's seconds."""

    def __init__(
        self,
        arm: Arm,
        perf: Perf,
        metrics: Metrics,
        faults: Faults,
        host: Host,
        truth: Truth,
        budget: int,
        max_seqs: int,
        prefill_speedup: float,
        decode_speedup: float,
        caching: bool,
    ) -> None:
        self.arm, self.perf, self.metrics, self.faults, self.host, self.truth = arm, perf, metrics, faults, host, truth
        self.budget, self.max_seqs, self.caching = budget, max_seqs, caching
        self.prefill_speedup, self.decode_speedup = prefill_speedup, decode_speedup
        self.cache = PrefixCache(arm.block, arm.pool_tokens)
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.wake = asyncio.Event()
        self.dead: str | None = None
        self.frozen = False
        self.window: dict[str, float] = {}
        self.hits: list[tuple[int, int]] = []
        self.clear_window()

    def clear_window(self) -> None:
        """Starts the next interval of the stats line."""
        self.window = dict.fromkeys(("prompt", "generated", "drafts", "drafted", "accepted"), 0.0)
        self.window_positions = [0] * self.arm.spec_k

    def submit(self, job: Job) -> None:
        """A request arrives."""
        job.credit_s = time.monotonic() - job.t_arrived
        self.waiting.append(job)
        self._gauges()
        self.wake.set()

    def _gauges(self) -> None:
        used = sum(j.computed + j.produced for j in self.running)
        flat = self.faults.on("kv-gauge-flat")
        self.metrics.running, self.metrics.waiting = len(self.running), len(self.waiting)
        self.metrics.kv_usage = 0.0 if flat else min(used / max(self.arm.pool_tokens, 1), 1.0)
        prefilling = any(j.computed < j.prompt for j in self.running)
        busy = 0.0 if not self.running else 1.0 if prefilling else 0.6 + 0.3 * min(len(self.running) / 32, 1)
        self.host.report(
            stage="serving",
            gib=self.arm.utilization * TOTAL_GIB,
            busy=0.0 if self.frozen else busy,
            running=len(self.running),
            prefill=prefilling,
        )

    def _drop_gone(self) -> None:
        for job in [j for j in (*self.running, *self.waiting) if j.gone()]:
            (self.running if job in self.running else self.waiting).remove(job)
            self.metrics.add("request_success", label="abort")
            self.truth.note("abort", request=job.number)

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.max_seqs:
            job = self.waiting.pop(0)
            if self.faults.on("evicts", job.number):
                self.cache.blocks.clear()
            job.cached = self.cache.look_up(job.ids, job.salt) if self.caching else 0
            if self.faults.on("always-warm", job.number):
                job.cached = (job.prompt - 1) // self.arm.block * self.arm.block
            job.computed = job.cached
            job.t_scheduled = time.monotonic()
            self.metrics.add("prefix_cache_queries", job.prompt if self.caching else 0)
            self.metrics.add("prefix_cache_hits", job.cached)
            self.hits = [*self.hits[-999:], (job.prompt, job.cached)]
            self.running.append(job)

    def _plan(self) -> tuple[float, list[tuple[Job, int]], list[Job]]:
        """Seconds of the next step, the prefill chunks in it, and the requests that decode in it."""
        decoding = [j for j in self.running if j.computed >= j.prompt]
        room, chunks, seconds = self.budget - len(decoding), [], 0.0
        for job in self.running:
            left = job.prompt - job.computed
            if left <= 0 or room <= 0:
                continue
            size = min(left, room)
            if self.faults.on("slow-first-token", job.number):
                # In steps, each of which the gauge shows.
                whole = max(job.prompt - job.cached, 1)
                size = min(size, -(-whole // SLOW_STEPS))
                seconds += self.faults.number("slow-first-token", 5) * self.prefill_speedup * size / whole
            room -= size
            if not job.charged:
                job.charged = True
                seconds += self.perf.admission(job.cached)
            chunks.append((job, size))
            cost = self.perf.prefill(job.computed, job.computed + size)
            # What reading the prompt has cost here is part of the time that the model gives it.
            paid = min(job.credit_s * self.prefill_speedup, cost)
            job.credit_s -= paid / self.prefill_speedup
            seconds += cost - paid
        if chunks and not decoding:
            seconds += self.perf.base_s
        step = self.perf.step([j.prompt + j.produced for j in decoding])
        if decoding and self.faults.on("slow-decode", decoding[0].number):
            step *= self.faults.number("slow-decode", 30)
        return seconds / self.prefill_speedup + step / self.decode_speedup, chunks, decoding

    async def run(self) -> None:
        """Steps for ever."""
        clock = asyncio.get_running_loop().time
        deadline = clock()
        while True:
            if self.frozen or self.dead or not (self.running or self.waiting):
                self._gauges()
                self.wake.clear()
                await self.wake.wait()
                deadline = clock()
            if self.frozen or self.dead:
                continue
            self._drop_gone()
            self._admit()
            seconds, chunks, decoding = self._plan()
            if not chunks and not decoding:
                continue
            self._gauges()
            deadline += seconds
            late = clock() - deadline
            if late > 0.25:  # the machine was elsewhere: a real engine would not catch up either
                deadline = clock()
            await asyncio.sleep(max(0.0, -late))
            if not self.frozen and not self.dead:
                self._apply(chunks, decoding)

    def _apply(self, chunks: list[tuple[Job, int]], decoding: list[Job]) -> None:
        outputs = 0
        for job, size in chunks:
            job.computed += size
            self.truth.note("prefill", request=job.number, computed=job.computed, cached=job.cached, prompt=job.prompt)
            if job.computed >= job.prompt and job in self.running:
                self._first_token(job)
                outputs += 1
        for job in decoding:
            if job in self.running:
                outputs += self._decode(job)
        if outputs:
            self.metrics.observe("iteration_tokens_total", sum(size for _, size in chunks) + outputs)
        self._gauges()

    def _first_token(self, job: Job) -> None:
        if self.caching:
            self.cache.keep(job.ids, job.salt)
        m, computed = self.metrics, job.prompt - job.cached
        m.add("prompt_tokens", job.prompt)
        m.add("prompt_tokens_cached", job.cached)
        m.add("prompt_tokens_by_source", computed, "local_compute")
        m.add("prompt_tokens_by_source", job.cached, "local_cache_hit")
        self.window["prompt"] += computed
        job.t_first = job.t_last = time.monotonic()
        m.observe("time_to_first_token_seconds", job.t_first - job.t_arrived)
        self._give(job, min(1, job.total_out))

    def _decode(self, job: Job) -> int:
        k = self.arm.spec_k
        tokens = 1
        if k:
            rng = random.Random(job.number * 1_000_003 + job.produced)
            chance = ACCEPT[job.kind]
            while tokens <= k and rng.random() < chance:
                tokens += 1
            self._count_drafts(job, k, tokens - 1)
        tokens = min(tokens, job.total_out - job.produced)
        now = time.monotonic()
        self.metrics.observe("inter_token_latency_seconds", now - job.t_last)
        job.t_last = now
        self._give(job, tokens)
        return tokens

    def _count_drafts(self, job: Job, drafted: int, accepted: int) -> None:
        for name, amount in zip(
            ("num_drafts", "num_draft_tokens", "num_accepted_tokens"), (1, drafted, accepted), strict=True
        ):
            self.metrics.add(f"spec_decode_{name}", amount)
        for i in range(accepted):
            self.metrics.accepted_at[i] += 1
            self.window_positions[i] += 1
        job.drafts += 1
        job.accepted += accepted
        self.window["drafts"] += 1
        self.window["drafted"] += drafted
        self.window["accepted"] += accepted

    def _give(self, job: Job, tokens: int) -> None:
        job.produced += tokens
        self.metrics.add("generation_tokens", tokens)
        self.window["generated"] += tokens
        done = job.produced >= job.total_out
        if done:
            self.running.remove(job)
            self._finished(job)
        job.emit(tokens, done)

    def _finished(self, job: Job) -> None:
        m, end = self.metrics, job.t_last
        m.add("request_success", label="length" if job.finish == "length" else "stop")
        m.observe("request_prompt_tokens", job.prompt)
        m.observe("request_generation_tokens", job.produced)
        m.observe("request_max_num_generation_tokens", job.produced)
        m.observe("request_params_n", 1)
        m.observe("request_params_max_tokens", job.max_tokens)
        m.observe("e2e_request_latency_seconds", end - job.t_arrived)
        m.observe("request_queue_time_seconds", job.t_scheduled - job.t_arrived)
        m.observe("request_inference_time_seconds", end - job.t_scheduled)
        m.observe("request_prefill_time_seconds", job.t_first - job.t_scheduled)
        m.observe("request_decode_time_seconds", end - job.t_first)
        m.observe("request_prefill_kv_computed_tokens", job.prompt - job.cached)
        if job.produced > 1:
            m.observe("request_time_per_output_token_seconds", (end - job.t_first) / (job.produced - 1))

    def figures(self, job: Job) -> dict[str, Any]:
        """The engine's own figures of a request, as --enable-per-request-metrics gives them."""
        lie = 2.0 if self.faults.on("gauge-lies", job.number) else 1.0
        decode = job.t_last - job.t_first
        steps = max(job.produced - 1, 1)
        out: dict[str, Any] = {
            "time_to_first_token_ms": (job.t_first - job.t_scheduled) * 1e3 * lie,
            "generation_time_ms": decode * 1e3 * lie,
            "queue_time_ms": (job.t_scheduled - job.t_arrived) * 1e3,
            "mean_itl_ms": decode * 1e3 / steps * lie,
            "tokens_per_second": job.produced / max(job.t_last - job.t_scheduled, 1e-9) / lie,
        }
        if self.arm.spec_k and job.drafts:
            out["speculative_decoding"] = {
                "mean_acceptance_length": 1 + job.accepted / job.drafts,
                "draft_acceptance_rate": job.accepted / (job.drafts * self.arm.spec_k),
                "num_drafts": job.drafts,
            }
        return out
