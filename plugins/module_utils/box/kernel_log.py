# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's messages: read by whatever means the rights allow, with the oldest one known, and what they mean.

All times are seconds on the kernel log's own clock. It starts with the box like the monotonic one, but is not corrected
with it; ``clocks.py`` measures the difference.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .source import Source

THROTTLE, RELEASE, OVER_CURRENT, CLAMP, OOM, NVRM = "throttle", "release", "over_current", "cpu_clamp", "oom", "nvrm"
# These slow a box down, so they taint a figure; the others are told beside it.
ALERTS = (THROTTLE, OVER_CURRENT, CLAMP)

_COOLING = re.compile(r"([\w-]+-alert) cooling state: (\d+) -> (\d+)")
_X86 = re.compile(r"(?:Core|Package) temperature above threshold, cpu clock throttled")
_CURRENT = re.compile(
    r"\bsoctherm\b.*\boc\d?\b|over[- ]?current.*(?:throttl|alarm|event)|\boc[123] (?:event|alarm)", re.I
)
_CLAMP = re.compile(r"cpufreq: cpu\d+,cur:(\d+),set:(\d+),")
_OOM = re.compile(r"Out of memory: Killed process|oom-kill:|invoked oom-killer|Memory cgroup out of memory")
_NVRM = re.compile(r"\bNVRM: .*(?:NV_ERR_|Assertion failed|Check failed|Xid)", re.I)
_FIRST = re.compile(r"^(?:Booting Linux|Linux version|Command line:)")
_DMESG = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\](?:\[[^\]]*\])? ?(.*)$")


@dataclass(frozen=True)
class Entry:
    """One message: ``t_s`` on the kernel log's clock, its text, and its sequence number where that is known."""

    t_s: float
    text: str
    sequence: int | None = None


@dataclass(frozen=True)
class KernelLog:
    """What could be read. ``covers_from_s`` is None when nothing could, else messages before it are unknown.

    ``covers_to_s`` None stands for "until it was read". ``holes`` are spans (from, to) in which messages were lost.
    ``offset_s`` is the monotonic clock minus the log's, as far as the source tells.
    """

    source: str | None
    reason: str | None = None
    entries: Sequence[Entry] = ()
    covers_from_s: float | None = None
    covers_to_s: float | None = None
    holes: Sequence[tuple[float, float]] = field(default_factory=tuple)
    offset_s: float | None = None


def classify(text: str) -> str | None:
    """What a message means, or None. A cooling state that falls is a release, not an alert."""
    found = _COOLING.search(text)
    if found:
        return THROTTLE if int(found[3]) > int(found[2]) else RELEASE
    if _X86.search(text):
        return THROTTLE
    if _CLAMP.search(text):
        return CLAMP
    if _OOM.search(text):
        return OOM
    if _NVRM.search(text):
        return NVRM
    return OVER_CURRENT if _CURRENT.search(text) else None


def parse_kmsg(lines: Iterable[str]) -> list[Entry]:
    """Records of /dev/kmsg: ``priority,sequence,microseconds,flags[,...];text``; anything else is left out."""
    found = []
    for line in lines:
        head, mark, text = line.partition(";")
        parts = head.split(",")
        if mark and len(parts) >= 4 and parts[1].isdigit() and parts[2].isdigit():
            found.append(Entry(int(parts[2]) / 1e6, text.rstrip("\n"), int(parts[1])))
    return found


def parse_dmesg(text: str) -> list[Entry]:
    """``dmesg``: ``[  seconds] text``."""
    found = []
    for line in text.splitlines():
        match = _DMESG.match(line)
        if match:
            found.append(Entry(float(match[1]), match[2]))
    return found


def parse_journal(text: str) -> tuple[list[Entry], float | None]:
    """``journalctl -k -o json`` -> (messages on the kernel's clock, monotonic clock minus the kernel's).

    The journal notes when it got a message; the smallest delay over all of them is the difference of the clocks, as
    good as the fastest message.
    """
    found, delays = [], []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if not isinstance(row, dict) or row.get("_TRANSPORT", "kernel") != "kernel":
            continue
        said = row.get("MESSAGE")
        if isinstance(said, list):  # a message that is not UTF-8 comes as bytes
            said = bytes(b for b in said if isinstance(b, int) and 0 <= b < 256).decode("utf-8", "replace")
        own, got = _micros(row.get("_SOURCE_MONOTONIC_TIMESTAMP")), _micros(row.get("__MONOTONIC_TIMESTAMP"))
        when = own if own is not None else got
        if when is None or not isinstance(said, str):
            continue
        found.append(Entry(when, said))
        if own is not None and got is not None:
            delays.append(got - own)
    return found, min(delays) if delays else None


def _micros(value: object) -> float | None:
    return int(value) / 1e6 if isinstance(value, str) and value.isdigit() else None


def covers_from(entries: Sequence[Entry]) -> float | None:
    """Since when nothing is missing: since boot when the first message is the first one, else since the first."""
    if not entries:
        return None
    first = entries[0]
    from_boot = first.sequence == 0 or (_FIRST.match(first.text) is not None)
    return 0.0 if from_boot else first.t_s


def read_kmsg(path: str) -> list[Entry]:
    """All that the ring holds. Raises OSError when it may not be read."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISCHR(os.fstat(fd).st_mode):
            with open(fd, encoding="utf-8", errors="replace", closefd=False) as handle:
                return parse_kmsg(handle.read().splitlines())
        lines: list[str] = []
        while True:
            try:
                record = os.read(fd, 16384)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            if not record:
                break
            lines.append(record.split(b"\n", 1)[0].decode("utf-8", "replace"))
        return parse_kmsg(lines)
    finally:
        os.close(fd)


def read_journal(source: Source, since_utc_s: float | None) -> tuple[KernelLog | None, str]:
    """The journal's kernel messages of this boot, or why there are none. ``since_utc_s`` spares reading a long boot."""
    query = ["journalctl", "-k", "-b", "0", "-o", "json", "--no-pager", "-q"]
    since = [] if since_utc_s is None else ["--since", f"@{since_utc_s:.0f}"]
    rc, out, err = source.run([*query, *since])
    if rc != 0:
        return None, f"journalctl: {_why(rc, err)}"
    entries, offset = parse_journal(out)
    if not entries:
        return None, "the journal holds no kernel message that this user may see"
    begin = covers_from(entries)
    if since:
        # The oldest entry tells that what lies between it and the first one read was read over, not missing.
        rc, out, _err = source.run([*query, "-n", "+1"])
        oldest = parse_journal(out)[0] if rc == 0 else []
        if oldest and oldest[0].t_s <= entries[0].t_s:
            begin = covers_from(oldest)
    return KernelLog("journal", None, entries, begin, offset_s=offset), ""


def read_ring(source: Source) -> tuple[KernelLog | None, str]:
    """The kernel's ring buffer by /dev/kmsg, else by dmesg, or why neither will do."""
    try:
        entries = read_kmsg(source.path("/dev/kmsg"))
        if entries:
            return KernelLog("kmsg", None, entries, covers_from(entries), holes=_holes(entries)), ""
        refusal = "/dev/kmsg is empty"
    except OSError as exc:
        refusal = f"/dev/kmsg: {os.strerror(exc.errno or 0)}"
    rc, out, err = source.run(["dmesg"])
    entries = parse_dmesg(out) if rc == 0 else []
    if entries:
        return KernelLog("dmesg", None, entries, covers_from(entries)), ""
    return None, f"{refusal}; dmesg: {_why(rc, err) if rc else 'no message'}"


def read_kernel_log(source: Source, since_utc_s: float | None = None) -> KernelLog:
    """The messages of this boot, from every place that lets itself be read; ``reason`` when none does."""
    journal, no_journal = read_journal(source, since_utc_s)
    ring, no_ring = read_ring(source)
    if journal and ring:
        return merge(journal, ring)
    return journal or ring or KernelLog(None, f"{no_journal}; {no_ring}")


def _why(rc: int, err: str) -> str:
    return "not there" if rc == 127 else (err.strip().splitlines() or [f"ended with {rc}"])[0][:200]


def _holes(entries: Sequence[Entry]) -> list[tuple[float, float]]:
    """Where sequence numbers jump, messages were lost."""
    return [
        (a.t_s, b.t_s)
        for a, b in pairwise(entries)
        if a.sequence is not None and b.sequence is not None and b.sequence > a.sequence + 1
    ]


def parse_followed(text: str) -> tuple[list[Entry], float | None]:
    """The recorder's ``kernel.log`` -> (messages, monotonic clock minus the kernel's).

    The first batch was in the ring already when the recorder came; messages after it arrived while it looked, and the
    smallest delay among these is the difference of the clocks.
    """
    entries: list[Entry] = []
    delays: list[float] = []
    first_batch: str | None = None
    for line in text.splitlines():
        arrived, _mark, record = line.partition(" ")
        parsed = parse_kmsg([record])
        if not arrived.isdigit() or not parsed:
            continue
        entries += parsed
        first_batch = first_batch or arrived
        if arrived != first_batch:
            delays.append(int(arrived) / 1e9 - parsed[0].t_s)
    return entries, min(delays) if delays else None


def read_followed(text: str, from_s: float | None, until_s: float) -> KernelLog:
    """What the recorder saw go by, between its start and its end (monotonic seconds).

    It covers that span even when nothing was said in it, and before it what the ring still held. ``from_s`` None stands
    for a recorder that followed nothing.
    """
    if from_s is None:
        return KernelLog(None, "no recorder followed the kernel log")
    entries, offset = parse_followed(text)
    begin = from_s - (offset or 0.0)
    # A recorder that was started again read the ring again.
    unique = sorted({(e.sequence, e.t_s, e.text): e for e in entries}.values(), key=lambda e: (e.t_s, e.sequence or 0))
    oldest = covers_from(unique)
    begin = begin if oldest is None else min(begin, oldest)
    return KernelLog("recorder", None, unique, begin, until_s - (offset or 0.0), _holes(unique), offset)


def covers(log: KernelLog, from_s: float, to_s: float) -> bool:
    """Whether the log holds every message of a span (on its own clock), as far as its end was read."""
    if log.covers_from_s is None or from_s < log.covers_from_s:
        return False
    if log.covers_to_s is not None and to_s > log.covers_to_s:
        return False
    return not any(start < to_s and from_s < end for start, end in log.holes)


def merge(first: KernelLog, second: KernelLog) -> KernelLog:
    """Two readings of the same log as one: what either covers is covered, and a hole is one only if both have it."""
    if first.covers_from_s is None:
        return second
    if second.covers_from_s is None:
        return first
    # The same message has the same time and text, whoever read it.
    entries = {(round(e.t_s, 6), e.text): e for log in (second, first) for e in log.entries}
    early, late = sorted((first, second), key=lambda log: log.covers_from_s or 0.0)
    holes = [hole for hole in first.holes if not covers(second, *hole)]
    holes += [hole for hole in second.holes if not covers(first, *hole)]
    if early.covers_to_s is not None and late.covers_from_s is not None and late.covers_from_s > early.covers_to_s:
        holes.append((early.covers_to_s, late.covers_from_s))
    ends = [log.covers_to_s for log in (first, second)]
    return KernelLog(
        f"{first.source} and {second.source}",
        None,
        sorted(entries.values(), key=lambda e: e.t_s),
        min(first.covers_from_s, second.covers_from_s),
        None if None in ends else max(end for end in ends if end is not None),
        sorted(holes),
        first.offset_s if first.offset_s is not None else second.offset_s,
    )


def to_json(log: KernelLog, now_s: float | None = None) -> dict[str, Any]:
    """A reading for the evidence: the coverage and the telling messages; ordinary ones are counted only.

    ``now_s`` (on the log's clock) is when it was read, which is where its coverage ends.
    """
    return {
        "source": log.source,
        "reason": log.reason,
        "covers_from_s": log.covers_from_s,
        "covers_to_s": log.covers_to_s if log.covers_to_s is not None else now_s,
        "holes_s": [list(hole) for hole in log.holes],
        "offset_s": log.offset_s,
        "messages": len(log.entries),
        "telling": [[e.t_s, e.text[:500]] for e in log.entries if classify(e.text)],
    }


def from_json(saved: Mapping[str, Any]) -> KernelLog:
    """The reading that ``to_json`` saved."""
    return KernelLog(
        saved.get("source"),
        saved.get("reason"),
        [Entry(float(t), str(text)) for t, text in saved.get("telling") or []],
        saved.get("covers_from_s"),
        saved.get("covers_to_s"),
        [(float(a), float(b)) for a, b in saved.get("holes_s") or []],
        saved.get("offset_s"),
    )
