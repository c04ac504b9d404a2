# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dmesg and journalctl over the driver's ring."""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
import sys
import time

from . import faults
from .faults import SIM

Record = tuple[int, int, float, str]  # priority, sequence, seconds on the kernel's clock, text


def records() -> list[Record]:
    """What the ring holds, oldest first."""
    out = []
    with open(os.path.join(SIM, "kmsg"), encoding="utf-8") as file:
        for row in file:
            head, _, text = row.rstrip("\n").partition(";")
            priority, sequence, micros, _ = head.split(",", 3)
            out.append((int(priority), int(sequence), int(micros) / 1e6, text))
    return out


def wall(seconds: float) -> float:
    """UTC seconds of a time on the kernel's clock."""
    return time.time() - time.monotonic() + seconds


def iso(seconds: float, micros: bool) -> str:
    """Local time with its offset, as dmesg (comma and microseconds) or the journal write it."""
    moment = datetime.datetime.fromtimestamp(wall(seconds)).astimezone()
    if micros:
        return moment.isoformat(timespec="microseconds").replace(".", ",")
    return moment.strftime("%Y-%m-%dT%H:%M:%S%z")


def dmesg(argv: list[str]) -> int:
    """dmesg with -T, --time-format, -r, -x, --since; root only, as Ubuntu has it."""
    if os.geteuid() != 0 or "dmesg-denied" in faults.active():
        sys.stderr.write("dmesg: read kernel buffer failed: Operation not permitted\n")
        return 1
    style = "ctime" if {"-T", "--ctime"} & set(argv) else "raw" if {"-r", "--raw"} & set(argv) else "plain"
    for i, item in enumerate(argv):
        if item.startswith("--time-format"):
            style = item.partition("=")[2] or argv[i + 1]
    for priority, _, seconds, text in records():
        stamps = {
            "plain": f"[{seconds:12.6f}] ",
            "reltime": f"[{seconds:12.6f}] ",
            "raw": f"<{priority}>[{seconds:12.6f}] ",
            "notime": "",
            "ctime": time.strftime("[%a %b %e %H:%M:%S %Y] ", time.localtime(wall(seconds))),
            "iso": iso(seconds, True) + " ",
        }
        sys.stdout.write(stamps.get(style, stamps["plain"]) + text + "\n")
    return 0


def _since(argv: list[str]) -> float | None:
    for i, item in enumerate(argv):
        name, equals, value = item.partition("=")
        if name in ("--since", "-S"):
            value = value if equals else argv[i + 1]
            if value.startswith("@"):
                return float(value[1:])
            utc = value.endswith(" UTC")
            moment = datetime.datetime.fromisoformat(re.sub(r" UTC$", "", value))
            return moment.replace(tzinfo=datetime.timezone.utc).timestamp() if utc else moment.timestamp()
    return None


def journalctl(argv: list[str]) -> int:
    """journalctl -k with -o short*, json, cat; --since; -n; empty for those who may not see it."""
    on = faults.active()
    if "no-journal" in on:
        sys.stderr.write("bash: journalctl: command not found\n")
        return 127
    if "-k" not in argv and "--dmesg" not in argv:
        sys.stdout.write("-- No entries --\n")
        return 0
    if os.geteuid() != 0 or "dmesg-denied" in on:
        sys.stderr.write("No journal files were opened due to insufficient permissions.\n")
        return 1
    style, limit, since = "short", None, _since(argv)
    for i, item in enumerate(argv):
        name, equals, value = item.partition("=")
        if name in ("-o", "--output"):
            style = value if equals else argv[i + 1]
        elif name in ("-n", "--lines"):
            limit = value if equals else argv[i + 1]
    rows = [r for r in records() if since is None or wall(r[2]) >= since]
    if limit and limit.startswith("+"):
        rows = rows[: int(limit)]
    elif limit:
        rows = rows[-int(limit) :]
    for row in rows:
        sys.stdout.write(_entry(style, row) + "\n")
    return 0


def _entry(style: str, record: Record) -> str:
    priority, _, seconds, text = record
    host = socket.gethostname()
    if style == "json":
        return json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(round(wall(seconds) * 1e6)),
                "__MONOTONIC_TIMESTAMP": str(round(seconds * 1e6)),
                "_SOURCE_MONOTONIC_TIMESTAMP": str(round(seconds * 1e6)),
                "_TRANSPORT": "kernel",
                "_HOSTNAME": host,
                "PRIORITY": str(priority),
                "SYSLOG_IDENTIFIER": "kernel",
                "MESSAGE": text,
            }
        )
    stamp = {
        "short-monotonic": f"[{seconds:12.6f}]",
        "short-unix": f"{wall(seconds):.6f}",
        "short-iso": iso(seconds, False),
        "short-iso-precise": datetime.datetime.fromtimestamp(wall(seconds))
        .astimezone()
        .strftime("%Y-%m-%dT%H:%M:%S.%f%z"),
    }.get(style, time.strftime("%b %d %H:%M:%S", time.localtime(wall(seconds))))
    return text if style == "cat" else f"{stamp} {host} kernel: {text}"
