# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small tools of a Jetson, each answering as the real one does for these rights."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from . import faults
from .faults import SIM


def state() -> dict[str, Any]:
    """What the driver wrote last."""
    for _ in range(20):
        try:
            with open(os.path.join(SIM, "state.json"), encoding="utf-8") as file:
                return json.load(file)  # type: ignore[no-any-return]
        except ValueError:  # caught in the middle of a write
            continue
    raise SystemExit(1)


def nvpmodel(argv: list[str]) -> int:
    """nvpmodel -q."""
    on = faults.active()
    if "nvpmodel-fails" in on:
        sys.stdout.write(
            "NVPM ERROR: failed to read PARAM GPU_POWER_CONTROL_ENABLE: ARG GPU_PWR_CNTL_EN: PATH /sys/devices\n"
        )
        return 255
    sys.stdout.write("NV Power Mode: 120W\n1\n" if "power-120w" in on else "NV Power Mode: MAXN\n0\n")
    return 0


def nvfancontrol(argv: list[str]) -> int:
    """nvfancontrol -q, root only."""
    if os.geteuid() != 0:
        sys.stdout.write("NVFAN ERROR: Sudo permissions are required to execute nvfancontrol user daemon\n")
        return 1
    with open("/var/lib/nvfancontrol/status", encoding="ascii") as file:
        profile = re.search(r"FAN_PROFILE:(\w+)", file.read())
    name = profile.group(1) if profile else "cool"
    sys.stdout.write(f"FAN1:FAN_PROFILE:{name}\nFAN1:FAN_GOVERNOR:cont\nFAN1:FAN_CONTROL:close_loop\n")
    return 0


def jetson_clocks(argv: list[str]) -> int:
    """jetson_clocks --show, root only."""
    if os.geteuid() != 0:
        sys.stdout.write("Error: Run this script(/usr/bin/jetson_clocks) as a root user\n")
        return 1
    sys.stdout.write("SOC family:tegra264  Machine:NVIDIA Jetson AGX Thor Developer Kit\nOnline CPUs: 0-13\n")
    return 0


def _pids(name: str) -> list[int]:
    """Processes of the container with this short id."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
                if name in file.read():
                    out.append(int(pid))
        except OSError:
            continue
    return sorted(out)


def nvidia_smi(argv: list[str]) -> int:
    """nvidia-smi with the queries that work on a Thor and the N/A's of those that do not."""
    now = state()
    query = next((a.partition("=")[2].split(",") for a in argv if a.startswith("--query-gpu=")), None)
    values = {
        "index": "0",
        "name": "NVIDIA Thor",
        "driver_version": "580.00",
        "pci.bus_id": "00000000:01:00.0",
        "gpu_bus_id": "00000000:01:00.0",
        "utilization.gpu": str(now["utilization"]),
        "uuid": "GPU-5a1d0b1e-0000-0000-0000-000000000000",
    }
    if query:
        units = {"utilization.gpu": " %"} if not any("nounits" in a for a in argv) else {}
        if not any("noheader" in a for a in argv):
            sys.stdout.write(", ".join(query) + "\n")
        sys.stdout.write(", ".join(values.get(q.strip(), "[N/A]") + units.get(q.strip(), "") for q in query) + "\n")
    elif any(a.startswith("--query-compute-apps=") for a in argv):
        for engine in now["engines"]:
            pids = _pids(engine["name"])
            if pids and engine.get("gib"):
                sys.stdout.write(f"{pids[0]}, VLLM::EngineCore, {round(float(engine['gib']) * 1024)}\n")
    elif "-L" in argv:
        sys.stdout.write(f"GPU 0: NVIDIA Thor (UUID: {values['uuid']})\n")
    else:
        sys.stdout.write(
            "+-----------------------------------------------------------------------------------------+\n"
            "| NVIDIA-SMI 580.00                 Driver Version: 580.00         CUDA Version: 13.0     |\n"
            "|   0  NVIDIA Thor                    Off |   00000000:01:00.0 Off |                  N/A |\n"
            "| N/A   N/A  N/A             N/A /  N/A   |     Not Supported       "
            f"| {now['utilization']:6d}%      Default |\n"
            "+-----------------------------------------------------------------------------------------+\n"
        )
    return 0


def systemctl(argv: list[str]) -> int:
    """is-active of the few services that a Jetson has."""
    if argv[:1] == ["is-active"]:
        known = {"nvfancontrol", "docker", "ssh", "nvfancontrol.service", "docker.service", "ssh.service"}
        names = [a for a in argv[1:] if not a.startswith("-")]
        for name in names:
            sys.stdout.write(("active" if name in known else "inactive") + "\n")
        return 0 if set(names) <= known else 3
    sys.stderr.write("System has not been booted with systemd as init system (PID 1). Can't operate.\n")
    return 1
