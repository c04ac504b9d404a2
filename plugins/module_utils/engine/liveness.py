# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the engine alive? One judgement for boots and for long phases, from everything that can be seen.

``moving``             something visible happened lately (log lines in a boot, tokens in a phase), or nothing is to do
``silent_but_moving``  nothing visible, but the engine works: its KV cache fills step by step (the log and the token
                       counters stand still during the prefill of one long prompt), or its processes compute or compile
``stalled``            work in hand and nothing that can be seen moved for the limit
``dead``               the container ended, or the server says or shows that its engine is gone
``unknown``            nothing could be seen: not a stall, and not movement either

What is no evidence: a silent log; /health with 200 (it is 200 during a hang); a scrape that failed (busy, not idle);
low CPU in a phase (the device works); high CPU in a phase (a hung engine may spin).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .metrics import Exposition
from .processes import Tree

MOVING = "moving"
SILENT = "silent_but_moving"
STALLED = "stalled"
DEAD = "dead"
UNKNOWN = "unknown"

_CPU_WINDOW_S = 10.0
_RSS_STEP = 4 * 1024 * 1024
_VISIBLE = ("log", "tokens", "iterations")
_LABELS = {
    "log": "log lines",
    "tokens": "token counters",
    "iterations": "engine steps with output",
    "kv_usage": "kv_cache_usage_perc",
    "queue": "requests running and waiting",
    "cpu": "CPU of the container's processes",
    "compilers": "compiler processes",
    "memory": "pages and memory of the container's processes",
}


@dataclass(frozen=True)
class Limits:
    """``quiet_s``: how long visible movement counts as lately. ``stall_s``: nothing moved for this long is a stall.

    ``idle_cpu_percent`` of one core, over ten seconds, is the least that counts as computing.
    """

    quiet_s: float = 20.0
    stall_s: float = 300.0
    idle_cpu_percent: float = 5.0

    @classmethod
    def of(cls, stall_s: float) -> Limits:
        """The usual limits with another for a stall; a short one shortens what counts as lately as well."""
        return cls(min(cls.quiet_s, stall_s), stall_s)


@dataclass(frozen=True)
class Signals:
    """What was seen at one moment; None is "not seen", never "zero". Times are seconds of one monotonic clock.

    ``container`` is docker's word for its state. ``health`` and ``scrape`` are "ok", "refused", "timeout", "failed" or
    an HTTP status as text. ``in_hand`` is how many requests the caller waits for, None if it does not know.
    """

    now_s: float
    booting: bool = False
    container: str | None = None
    exit_code: int | None = None
    log_lines: int | None = None
    stage: str | None = None
    health: str | None = None
    scrape: str | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    tokens: float | None = None
    iterations: float | None = None
    in_hand: int | None = None
    tree: Tree | None = None


def phase_signals(
    now_s: float,
    exposition: Exposition | None,
    scrape: str = "ok",
    in_hand: int | None = None,
    health: str | None = None,
    container: str | None = None,
    exit_code: int | None = None,
    tree: Tree | None = None,
) -> Signals:
    """The signals of a phase from one scrape of /metrics; a scrape that failed is None with ``scrape`` saying how."""
    if exposition is None:
        return Signals(
            now_s, container=container, exit_code=exit_code, health=health, in_hand=in_hand, tree=tree,
            scrape="failed" if scrape == "ok" else scrape,
        )  # fmt: skip
    counted = [exposition.value(name) for name in ("prompt_tokens", "generation_tokens")]
    known = [value for value in counted if value is not None]
    steps = exposition.histogram("iteration_tokens")
    return Signals(
        now_s,
        container=container,
        exit_code=exit_code,
        health=health,
        scrape="ok",
        running=exposition.value("requests_running"),
        waiting=exposition.value("requests_waiting"),
        kv_usage=exposition.value("kv_cache_usage"),
        tokens=sum(known) if known else None,
        iterations=steps[1] if steps else None,
        in_hand=in_hand,
        tree=tree,
    )


@dataclass(frozen=True)
class Judgement:
    """``state``, for how many seconds nothing has moved, and the evidence as sentences."""

    state: str
    still_s: float
    stage: str | None
    stage_s: float | None
    evidence: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Plain data; seconds to a tenth."""
        return {
            "state": self.state,
            "still_s": round(self.still_s, 1),
            "stage": self.stage,
            "stage_s": None if self.stage_s is None else round(self.stage_s, 1),
            "evidence": list(self.evidence),
        }


@dataclass
class _Track:
    value: object
    moved_s: float
    seen_s: float


class Watch:
    """Remembers when each signal last moved; ``observe`` judges. Pure: the same signals give the same judgement."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._tracks: dict[str, _Track] = {}
        self._cpu: deque[tuple[float, float]] = deque()
        self._cpu_percent: float | None = None
        self._start_s: float | None = None
        self._stage: tuple[str | None, float] = (None, 0.0)

    def observe(self, now: Signals) -> Judgement:
        """Take what is seen now and judge."""
        if self._start_s is None:
            self._start_s = now.now_s
            self._stage = (now.stage, now.now_s)
        if now.stage != self._stage[0]:
            self._stage = (now.stage, now.now_s)
        self._see(now)
        still_s = now.now_s - self._last_moved(now)
        state = self._state(now, still_s)
        stage_s = now.now_s - self._stage[1] if now.stage is not None else None
        return Judgement(state, still_s, now.stage, stage_s, self._evidence(now, state))

    def _state(self, now: Signals, still_s: float) -> str:
        if _why_dead(now) is not None:
            return DEAD
        if _idle(now):
            self._begin_again(now.now_s)
            return MOVING
        moved = {name: now.now_s - track.moved_s for name, track in self._counted(now).items()}
        if any(moved[name] <= self.limits.quiet_s for name in _VISIBLE if name in moved):
            return MOVING
        if not moved or (now.booting and "cpu" not in moved):
            return UNKNOWN  # a boot may be silent for long: without its processes in sight silence says nothing
        return SILENT if still_s < self.limits.stall_s else STALLED

    def _begin_again(self, now_s: float) -> None:
        """An idle engine owes nothing: the stillness of the next request is counted from here."""
        for track in self._tracks.values():
            track.moved_s = now_s

    def _last_moved(self, now: Signals) -> float:
        counted = self._counted(now)
        start_s = now.now_s if self._start_s is None else self._start_s
        return max((track.moved_s for track in counted.values()), default=start_s)

    def _counted(self, now: Signals) -> dict[str, _Track]:
        """The signals that are evidence now, and were seen lately enough to say anything."""
        names = {"log", "cpu", "compilers", "memory"} if now.booting else {"tokens", "iterations", "kv_usage", "queue"}
        if not now.booting and now.scrape not in (None, "ok"):
            # Gauges are out of sight: that the processes compute is then the best evidence there is.
            names |= {"cpu"}
        fresh = max(self.limits.quiet_s, self.limits.stall_s / 2)
        return {n: t for n, t in self._tracks.items() if n in names and now.now_s - t.seen_s <= fresh}

    def _see(self, now: Signals) -> None:
        self._track("log", now.log_lines, now.now_s)
        self._track("tokens", now.tokens, now.now_s)
        self._track("iterations", now.iterations, now.now_s)
        self._track("kv_usage", now.kv_usage, now.now_s)
        if now.running is not None or now.waiting is not None:
            self._track("queue", (now.running, now.waiting), now.now_s)
        if now.tree is None:
            return
        self._see_cpu(now.tree, now.now_s)
        memory = (now.tree.page_ins, now.tree.rss_bytes // _RSS_STEP)
        self._track("memory", memory, now.now_s)
        compilers = self._tracks.setdefault("compilers", _Track(now.tree.compilers, now.now_s, now.now_s))
        compilers.seen_s, compilers.value = now.now_s, now.tree.compilers

    def _see_cpu(self, tree: Tree, now_s: float) -> None:
        if self._cpu and tree.cpu_s < self._cpu[-1][1]:
            self._cpu.clear()  # a process ended and took its time with it
        self._cpu.append((now_s, tree.cpu_s))
        while len(self._cpu) > 2 and now_s - self._cpu[1][0] >= _CPU_WINDOW_S:
            self._cpu.popleft()
        span = now_s - self._cpu[0][0]
        track = self._tracks.setdefault("cpu", _Track(None, now_s, now_s))
        track.seen_s = now_s
        if span <= 0:
            return
        self._cpu_percent = (tree.cpu_s - self._cpu[0][1]) / span * 100
        busy = self._cpu_percent >= self.limits.idle_cpu_percent
        if busy:
            track.moved_s = now_s
        # A compiler that waits for the disk or a lock counts only while something among its kind computes.
        if busy and tree.compilers and "compilers" in self._tracks:
            self._tracks["compilers"].moved_s = now_s

    def _track(self, name: str, value: object, now_s: float) -> None:
        if value is None:
            return
        track = self._tracks.get(name)
        if track is None:
            self._tracks[name] = _Track(value, now_s, now_s)
            return
        if track.value != value:
            track.value, track.moved_s = value, now_s
        track.seen_s = now_s

    def _evidence(self, now: Signals, state: str) -> list[str]:
        said = []
        dead = _why_dead(now)
        if dead is not None:
            said.append(dead)
        if state == MOVING and _idle(now):
            said.append("Idle: no request is running or waiting.")
        if now.stage is not None and now.booting:
            said.append(f"The boot has been at {now.stage} for {now.now_s - self._stage[1]:.0f} s.")
        for name, track in sorted(self._counted(now).items()):
            if name == "compilers":
                said.append(_compilers(now.tree))
            elif name == "cpu":
                said.append(self._cpu_sentence(track, now.now_s))
            else:
                ago = now.now_s - track.moved_s
                moved = f"last moved {ago:.0f} s ago" if ago < self.limits.stall_s else f"did not move for {ago:.0f} s"
                value = f" (now {_short(track.value)})" if name in ("kv_usage", "queue") else ""
                said.append(f"The {_LABELS[name]}{value} {moved}.")
        if now.scrape not in (None, "ok"):
            said.append(f"The engine did not give its metrics ({now.scrape}): that is not idleness.")
        if now.health == "ok" and state in (STALLED, UNKNOWN):
            said.append("/health answers 200, which it does during a hang as well.")
        if state == UNKNOWN:
            said.append("Nothing that shows movement could be read.")
        return said

    def _cpu_sentence(self, track: _Track, now_s: float) -> str:
        if self._cpu_percent is None:
            return "The CPU of the container's processes was seen only once."
        sentence = f"The container's processes use {self._cpu_percent:.1f} % of one core"
        quiet_s = now_s - track.moved_s
        below = f"below {self.limits.idle_cpu_percent:g} %"
        return f"{sentence}, {below} for {quiet_s:.0f} s." if quiet_s > 0 else f"{sentence}."


def _idle(now: Signals) -> bool:
    if now.booting or now.in_hand:
        return False
    return now.scrape in (None, "ok") and now.running == 0 and now.waiting in (0, None)


def _why_dead(now: Signals) -> str | None:
    if now.container is not None and now.container not in ("running", "paused", "created"):
        code = "" if now.exit_code is None else f" with exit code {now.exit_code}"
        zero = " (a server whose engine died exits with 0)" if now.exit_code == 0 else ""
        return f"The container is {now.container}{code}{zero}."
    if now.booting:
        return None
    if now.health == "503":
        return "/health answers 503: the server says that its engine is dead."
    if "refused" in (now.health, now.scrape):
        return "The server's port refuses connections although it had been ready."
    return None


def _compilers(tree: Tree | None) -> str:
    if tree is None or not tree.compilers:
        count = "" if tree is None else f" among its {tree.processes} processes"
        return f"No compiler is running{count}."
    names = sorted(set(tree.compilers))
    return f"{len(tree.compilers)} compiler processes are running ({', '.join(names[:5])}): code is being built."


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return " and ".join("?" if v is None else f"{v:g}" for v in value)
    return str(value)
