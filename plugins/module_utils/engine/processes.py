# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a container, read from the box's /proc: how busy they are and whether compilers are among them."""

from __future__ import annotations

import os
from dataclasses import dataclass

# Names as the kernel keeps them (15 characters): what JIT compilation of kernels and graphs runs.
COMPILERS = frozenset(
    (
        "cicc", "nvcc", "ptxas", "cudafe++", "fatbinary", "nvlink", "cc1", "cc1plus", "gcc", "g++", "c++", "clang",
        "clang++", "ninja", "collect2", "ld", "lto1", "ccache", "triton",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """A process and its descendants at one moment.

    ``cpu_s`` is their CPU time so far (ended children that were waited for included), ``compilers`` the names of
    compilers among them, ``page_ins`` pages fetched from disk so far, ``rss_bytes`` their resident memory (what a GPU
    holds is not in it).
    """

    processes: int
    cpu_s: float
    compilers: tuple[str, ...]
    page_ins: int
    rss_bytes: int


def read_tree(root: int, proc: str = "/proc") -> Tree | None:
    """The tree under process ``root``, or None when it is gone or cannot be read."""
    stats = _all(proc)
    if root not in stats:
        return None
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    found: list[_Stat] = []
    todo, seen = [root], set[int]()
    while todo:
        pid = todo.pop()
        if pid not in seen:
            seen.add(pid)
            found.append(stats[pid])
            todo += children.get(pid, [])
    return Tree(
        processes=len(found),
        cpu_s=sum(s.ticks for s in found) / os.sysconf("SC_CLK_TCK"),
        compilers=tuple(sorted(s.name for s in found if s.name in COMPILERS)),
        page_ins=sum(s.major_faults for s in found),
        rss_bytes=sum(s.rss_pages for s in found) * os.sysconf("SC_PAGE_SIZE"),
    )


@dataclass(frozen=True)
class _Stat:
    name: str
    parent: int
    ticks: int
    major_faults: int
    rss_pages: int


def parse_stat(text: str) -> _Stat | None:
    """Read one /proc/<pid>/stat; the name may hold blanks and brackets. None when it is not one."""
    head, closing, tail = text.rpartition(")")
    fields = tail.split()
    if not closing or "(" not in head or len(fields) < 22:
        return None
    name = head.partition("(")[2]
    try:
        # Fields after the name, counted from 0: 1 ppid, 9 majflt, 10 cmajflt, 11 to 14 CPU ticks, 21 rss.
        ticks = sum(int(fields[i]) for i in (11, 12, 13, 14))
        return _Stat(name, int(fields[1]), ticks, int(fields[9]) + int(fields[10]), max(0, int(fields[21])))
    except ValueError:
        return None


def _all(proc: str) -> dict[int, _Stat]:
    stats: dict[int, _Stat] = {}
    try:
        names = os.listdir(proc)
    except OSError:
        return stats
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/stat", encoding="utf-8", errors="replace") as handle:
                stat = parse_stat(handle.read(4096))
        except OSError:  # it ended meanwhile
            continue
        if stat is not None:
            stats[int(name)] = stat
    return stats
