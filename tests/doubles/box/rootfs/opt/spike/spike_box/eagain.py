# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One file whose every read answers EAGAIN, by the kernel's FUSE protocol: a sensor of a device that sleeps."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import time

SENSOR = "/sys/class/thermal/thermal_zone1/temp"
HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, FORGET = 3, 14, 15, 18, 25, 26, 2
DIRECT_IO = 1


def mount(path: str) -> int:
    """Mounts over path and returns the descriptor that its requests come from."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode={stat.S_IFREG | 0o444:o},user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"sensor", path.encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount", path)
    return fd


def attributes() -> bytes:
    """fuse_attr_out of a small read-only file."""
    now = int(time.time())
    attr = struct.pack(
        "<QQQQQQIIIIIIIIII", 1, 4096, 8, now, now, now, 0, 0, 0, stat.S_IFREG | 0o444, 1, 0, 0, 0, 4096, 0
    )
    return struct.pack("<QII", 1, 0, 0) + attr


def answer(opcode: int) -> tuple[int, bytes]:
    """Error number (0 for none) and body for a request."""
    if opcode == INIT:
        body = struct.pack("<IIIIHHIIHHI", 7, 31, 0, 0, 8, 6, 4096, 1, 1, 0, 0)
        return 0, body.ljust(64, b"\0")
    if opcode == GETATTR:
        return 0, attributes()
    if opcode == OPEN:
        return 0, struct.pack("<QII", 0, DIRECT_IO, 0)
    if opcode == READ:
        return errno.EAGAIN, b""
    return (0, b"") if opcode in (RELEASE, FLUSH) else (errno.ENOSYS, b"")


def main() -> None:
    """Serves until it is unmounted."""
    fd = mount(SENSOR)
    while True:
        try:
            request = os.read(fd, 1 << 17)
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.ECONNABORTED):
                return
            raise
        _, opcode, unique, *_ = HEADER.unpack_from(request)
        if opcode == FORGET:
            continue
        number, body = answer(opcode)
        os.write(fd, struct.pack("<IiQ", 16 + len(body), -number, unique) + body)


if __name__ == "__main__":
    main()
