# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens on which TCP port, from /proc."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from .source import Source

_LISTEN = "0A"
# A listener on one of these is in the way of 127.0.0.1.
_IN_THE_WAY = ("127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1")


def parse_address(text: str) -> tuple[str, int]:
    """``0100007F:1F9A`` (/proc/net/tcp: 32-bit words in host order) -> ``("127.0.0.1", 8090)``. Raises ValueError."""
    hexed, _mark, port = text.partition(":")
    raw = bytes.fromhex(hexed)
    if len(raw) not in (4, 16):
        raise ValueError(f"not an address: {text!r}")
    swapped = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, swapped), int(port, 16)


def parse_listeners(text: str) -> list[dict[str, Any]]:
    """/proc/net/tcp or tcp6 -> ``[{address, port, inode}]`` of the sockets that listen."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 10 or words[3] != _LISTEN:
            continue
        try:
            address, port = parse_address(words[1])
        except ValueError:
            continue
        found.append({"address": address, "port": port, "inode": words[9]})
    return found


def _owners(source: Source, inodes: set[str]) -> dict[str, dict[str, Any]]:
    """The processes behind sockets, as far as this user may look into them."""
    owners: dict[str, dict[str, Any]] = {}
    for pid in source.names("/proc"):
        if not pid.isdigit() or len(owners) == len(inodes):
            continue
        folder = source.path(f"/proc/{pid}/fd")
        try:
            links = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
        except OSError:
            continue  # another user's process, or gone meanwhile
        for link in links:
            inode = link[8:-1] if link.startswith("socket:[") else ""
            if inode in inodes:
                name = source.line(f"/proc/{pid}/comm")
                owners.setdefault(inode, {"pid": int(pid), "process": name})
    return owners


def read_listeners(source: Source) -> list[dict[str, Any]]:
    """``[{address, port, pid, process}]`` of every listening TCP socket; pid and process None when not readable."""
    found = [entry for table in ("tcp", "tcp6") for entry in parse_listeners(source.read(f"/proc/net/{table}") or "")]
    owners = _owners(source, {entry["inode"] for entry in found})
    unknown = {"pid": None, "process": None}
    rows = [{"address": e["address"], "port": e["port"], **owners.get(e["inode"], unknown)} for e in found]
    return sorted(rows, key=lambda row: (row["port"], row["address"]))


def holders(
    port: int, listeners: Sequence[dict[str, Any]], containers: Sequence[dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """Who keeps 127.0.0.1:port from being published: ``[{kind: container|process, name, ...}]``, empty when free.

    A container comes before the proxy process that listens for it, and is found even where there is no such proxy.
    """
    found: list[dict[str, Any]] = []
    for container in containers or []:
        published = any(
            p["port"] == port and p["protocol"] == "tcp" and p["address"] in _IN_THE_WAY for p in container["ports"]
        )
        if container["running"] and published:
            row = {"kind": "container", "name": container["name"], "id": container["id"], "labels": container["labels"]}
            found.append(row)
    if found:
        return found
    for listener in listeners:
        if listener["port"] == port and listener["address"] in _IN_THE_WAY:
            name = listener["process"]
            found.append({"kind": "process", "name": name, "pid": listener["pid"], "address": listener["address"]})
    return found
