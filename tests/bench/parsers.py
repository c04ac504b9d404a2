# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 -m bench.parsers``: the time and memory that a night of tegrastats and a huge boot log take to read.

Everything is read as it streams in. Each part runs in a process of its own, whose peak memory is told.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.lobes.spike.plugins.module_utils.box.telemetry import read_tegrastats
from ansible_collections.lobes.spike.plugins.module_utils.engine.bootlog import BootLog

LINES, LOG_BYTES = 1_000_000, 200_000_000
PIECE = 65536
DATA = Path(__file__).resolve().parents[1] / "unit/engine/data"
GOALS = {"tegrastats": "1,000,000 lines: < 20 s, < 200 MB", "boot log": "200 MB: < 10 s"}


def tegrastats() -> Iterator[str]:
    """Lines of a Thor's tegrastats as the recorder keeps them, the GPU asleep in some; a thousand, over and over."""
    chance = random.Random(1)
    kept = []
    for number in range(1000):
        awake = number % 50 > 3
        cpus = ",".join(f"{chance.randrange(100)}%@972" for _ in range(14))
        degrees = [f"{chance.uniform(40, 110):.3f}C" for _ in range(5)]
        milliwatts = [chance.randrange(1000, 99000) for _ in range(4)]
        kept.append(
            f"09-13-2026 21:{number // 60 % 60:02d}:{number % 60:02d} RAM {chance.randrange(125772)}/125772MB "
            f"(lfb 34x4MB) SWAP 0/2048MB (cached 0MB) CPU [{cpus}] EMC_FREQ 0%@2750 GR3D_FREQ @[314,314,314] "
            f"NVENC0_FREQ @314 NVDEC0_FREQ @314 VIC off OFA_FREQ @315 PVA0_FREQ off APE 300 cpu@{degrees[0]} "
            f"tj@{degrees[1]} soc012@{degrees[2]} {f'gpu@{degrees[3]} ' if awake else ''}soc345@{degrees[4]} "
            f"VDD_GPU {milliwatts[0]}mW/{milliwatts[0]}mW VDD_CPU_SOC_MSS {milliwatts[1]}mW/{milliwatts[1]}mW "
            f"VIN_SYS_5V0 {milliwatts[2]}mW/{milliwatts[2]}mW VIN {milliwatts[3]}mW/{milliwatts[3]}mW\n"
        )
    for number in range(LINES):
        yield f"{number * 10**9} {kept[number % 1000]}"


def boot_log() -> Iterator[bytes]:
    """A boot that does not end: a real engine's log up to its last milestone, over and over, in pieces."""
    whole = (DATA / "vllm-0.29.0-cpu-plain.log").read_bytes()
    begin = whole[: whole.index(b"Supported tasks")].rpartition(b"\n")[0] + b"\n"
    data = begin * (LOG_BYTES // len(begin) // 20 + 1)
    pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
    sent = 0
    for piece in itertools.cycle(pieces):
        if sent >= LOG_BYTES:
            return
        sent += len(piece)
        yield piece


def part(name: str) -> None:
    """One part, alone in this process."""
    begin = time.process_time()
    if name == "tegrastats":
        count = sum(1 for _ in read_tegrastats(tegrastats()))
        assert count == LINES
    else:
        log = BootLog(2026)
        for piece in boot_log():
            log.feed(piece)
        assert not log.ready
    spent = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"cpu_s": round(spent, 2), "peak_mb": round(peak, 1)}) + "\n")


def main() -> None:
    """Both parts, one after the other."""
    for name, goal in GOALS.items():
        done = subprocess.run(
            [sys.executable, "-m", "bench.parsers", name], check=True, capture_output=True, text=True, env=os.environ
        )
        sys.stdout.write(f"{name} ({goal}): {done.stdout}")


if __name__ == "__main__":
    if sys.argv[1:]:
        part(sys.argv[1])
    else:
        main()
