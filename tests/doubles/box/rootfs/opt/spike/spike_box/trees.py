# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake sysfs and procfs: what is written once, and what changes with the box's state."""

from __future__ import annotations

import os
import shutil
from typing import Any

TOTAL_KB = 128790092  # 122.82 GiB
SWAP_KB = 62496768  # 59.6 GiB
ZONES = ("cpu-thermal", "gpu-thermal", "soc012-thermal", "soc345-thermal", "tj-thermal")
CPUS = 14
COOLING = (
    *[(f"cpufreq-cpu{i}", 48) for i in range(7)],
    ("pwm-fan", 4),
    *[(f"cpufreq-cpu{i}", 48) for i in range(7, 13)],
    ("cpu-throttle-alert", 2),
    ("gpu-throttle-alert", 2),
    ("soc012-throttle-alert", 2),
    ("soc345-throttle-alert", 2),
    ("devfreq-gpu-gpc-0", 169),
    ("devfreq-gpu-nvd-0", 182),
)
HWMON = ("nvme", "pwmfan", "tmp451", "pwm_tach", "ina3221", "ina238", "soctherm_oc")
MODEL = "NVIDIA Jetson AGX Thor Developer Kit"
COMPATIBLE = "nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0"
SERIAL = "1420525000000"


def put(path: str, text: str) -> None:
    """Replaces a small file's content in place: bind mounts and open readers keep seeing it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        data = text.encode()
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def thermal(root: str) -> None:
    """Zones with their trips, cooling devices."""
    trips: dict[str, list[tuple[str, int]]] = {zone: [("critical", 114500)] for zone in ZONES}
    trips["tj-thermal"] = [*(("active", t) for t in (80000, 86000, 91000, 100000)), ("critical", 114500)]
    trips["gpu-thermal"] = [("passive", 109000), ("critical", 114500)]
    for i, zone in enumerate(ZONES):
        base = f"{root}/thermal_zone{i}"
        put(f"{base}/type", zone + "\n")
        put(f"{base}/mode", "enabled\n")
        put(f"{base}/policy", "step_wise\n")
        put(f"{base}/temp", "45000\n")
        for n, (kind, temp) in enumerate(trips[zone]):
            put(f"{base}/trip_point_{n}_type", kind + "\n")
            put(f"{base}/trip_point_{n}_temp", f"{temp}\n")
            put(f"{base}/trip_point_{n}_hyst", "0\n")
    for i, (kind, top) in enumerate(COOLING):
        put(f"{root}/cooling_device{i}/type", kind + "\n")
        put(f"{root}/cooling_device{i}/max_state", f"{top}\n")
        put(f"{root}/cooling_device{i}/cur_state", "0\n")


def hwmon_order(renumbered: bool) -> dict[str, int]:
    """The number of each hwmon device on this boot."""
    names = HWMON[3:] + HWMON[:3] if renumbered else HWMON
    return {name: i for i, name in enumerate(names)}


def hwmon(root: str, renumbered: bool = False) -> None:
    """The hwmon devices with their constant files."""
    for folder in os.listdir(root) if os.path.isdir(root) else []:
        shutil.rmtree(f"{root}/{folder}")
    for name, i in hwmon_order(renumbered).items():
        base = f"{root}/hwmon{i}"
        put(f"{base}/name", name + "\n")
        if name == "ina3221":
            for n, label in enumerate(("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"), 1):
                put(f"{base}/in{n}_label", label + "\n")
        elif name == "soctherm_oc":
            for n in (1, 2, 3):
                put(f"{base}/oc{n}_event_cnt", "0\n")
                put(f"{base}/oc{n}_throt_en", f"{int(n == 3)}\n")
        elif name == "tmp451":
            put(f"{base}/temp1_input", "38000\n")
            put(f"{base}/temp1_label", "ext\n")
        elif name == "nvme":
            put(f"{base}/temp1_input", "41850\n")
            put(f"{base}/temp1_label", "Composite\n")


def cpus(root: str, pinned: bool = False) -> None:
    """/sys/devices/system/cpu: who is online and at what clock."""
    for name in ("online", "possible", "present"):
        put(f"{root}/{name}", f"0-{CPUS - 1}\n")
    for i in range(CPUS):
        base = f"{root}/cpufreq/policy{i}"
        values = {
            "scaling_governor": "schedutil",
            "scaling_min_freq": "972000",
            "scaling_max_freq": "2601000",
            "cpuinfo_min_freq": "54000",
            "cpuinfo_max_freq": "2601000",
            "related_cpus": str(i),
            "scaling_cur_freq": "2601000" if pinned else "972000",
            "cpuinfo_cur_freq": "242000" if pinned else "972000",
        }
        for name, value in values.items():
            put(f"{base}/{name}", value + "\n")
        os.makedirs(f"{root}/cpu{i}", exist_ok=True)
        link = f"{root}/cpu{i}/cpufreq"
        if not os.path.lexists(link):
            os.symlink(f"../cpufreq/policy{i}", link)


def device_tree(root: str) -> None:
    """/sys/firmware/devicetree/base: NUL-terminated strings."""
    put(f"{root}/model", MODEL + "\0")
    put(f"{root}/compatible", COMPATIBLE)
    put(f"{root}/serial-number", SERIAL + "\0")


def meminfo(free_kb: int, available_kb: int, cached_kb: int, swap_total_kb: int, swap_free_kb: int) -> str:
    """/proc/meminfo, always the same length so that a reader never sees half of two."""
    rows = {
        "MemTotal": TOTAL_KB,
        "MemFree": free_kb,
        "MemAvailable": available_kb,
        "Buffers": 214032,
        "Cached": cached_kb,
        "SwapCached": 0,
        "Active": cached_kb // 2,
        "Inactive": cached_kb // 2,
        "Active(anon)": 2210432,
        "Inactive(anon)": 820112,
        "Active(file)": cached_kb // 2,
        "Inactive(file)": cached_kb // 2,
        "Unevictable": 64180,
        "Mlocked": 64180,
        "SwapTotal": swap_total_kb,
        "SwapFree": swap_free_kb,
        "Dirty": 412,
        "Writeback": 0,
        "AnonPages": 2980100,
        "Mapped": 1204324,
        "Shmem": 88120,
        "KReclaimable": 612400,
        "Slab": 1423212,
        "SReclaimable": 612400,
        "SUnreclaim": 810812,
        "KernelStack": 24112,
        "PageTables": 61200,
        "CommitLimit": TOTAL_KB // 2 + swap_total_kb,
        "Committed_AS": 18233412,
        "VmallocTotal": 133143461888,
        "VmallocUsed": 301240,
        "VmallocChunk": 0,
        "Percpu": 21280,
        "HugePages_Total": 0,
        "HugePages_Free": 0,
        "Hugepagesize": 2048,
        "Hugetlb": 0,
    }
    return "".join(
        f"{key + ':':<15} {max(value, 0):>12d}{'' if key.startswith('HugePages') else ' kB'}\n"
        for key, value in rows.items()
    )


def live(sim: str, state: dict[str, Any], renumbered: bool) -> None:
    """The files that follow the state: temperatures, rails, fan, counters."""
    thermal_root, hwmon_root = f"{sim}/class/thermal", f"{sim}/class/hwmon"
    for i, zone in enumerate(ZONES):
        put(f"{thermal_root}/thermal_zone{i}/temp", f"{round(state['temp'][zone.split('-')[0]] * 1000)}\n")
    for i, (kind, _) in enumerate(COOLING):
        put(f"{thermal_root}/cooling_device{i}/cur_state", f"{state['cooling'].get(kind, 0)}\n")
    at = {name: f"{hwmon_root}/hwmon{i}" for name, i in hwmon_order(renumbered).items()}
    for n, rail in enumerate(("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"), 1):
        put(f"{at['ina3221']}/in{n}_input", "20000\n" if n < 3 else "5000\n")
        put(f"{at['ina3221']}/curr{n}_input", f"{round(state['rails'][rail] / (20 if n < 3 else 5))}\n")
    put(f"{at['ina238']}/power1_input", f"{state['rails']['VIN'] * 1000}\n")
    put(f"{at['pwmfan']}/pwm1", f"{state['pwm']}\n")
    put(f"{at['pwmfan']}/pwm1_enable", f"{int(state['pwm'] > 0)}\n")
    put(f"{at['pwm_tach']}/rpm", f"{state['rpm']}\n")
    put(f"{at['soctherm_oc']}/oc3_event_cnt", f"{state['oc3']}\n")
