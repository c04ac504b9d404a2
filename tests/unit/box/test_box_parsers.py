# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers of what a box prints, on the forms that boxes really print."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import (
    fan,
    gpu,
    hwmon,
    identity,
    memory,
    ports,
    power,
    thermal,
)
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source
from hypothesis import given
from hypothesis import strategies as st

MakeSource = Callable[..., Source]

TEGRA_RELEASE = (
    "# R38 (release), REVISION: 2.0, GCID: 41844464, BOARD: generic, EABI: aarch64, "
    "DATE: Fri Aug 22 00:55:42 UTC 2025\n# KERNEL_VARIANT: oot\nTARGET_USERSPACE_LIB_DIR=nvidia\n"
)


def test_meminfo_is_in_bytes_and_knows_the_page_cache() -> None:
    found = memory.parse_meminfo(
        "MemTotal:       128790092 kB\nMemFree:  1000 kB\nMemAvailable:    9000 kB\nBuffers: 10 kB\nCached: 500 kB\n"
        "Shmem: 100 kB\nSReclaimable: 30 kB\nSwapTotal: 0 kB\n"
    )
    assert found["total_bytes"] == 128790092 * 1024
    assert found["available_bytes"] == 9000 * 1024
    assert found["page_cache_bytes"] == 440 * 1024
    assert found["swap_total_bytes"] == 0
    assert found["swap_free_bytes"] is None


def test_absent_memory_lines_are_none_not_zero() -> None:
    assert set(memory.parse_meminfo("").values()) == {None}
    assert memory.parse_vmstat("pswpin 4\nfoo 9\n") == {
        "swapped_in_pages": 4,
        "swapped_out_pages": None,
        "oom_kills": None,
    }


@pytest.mark.parametrize(
    ("release", "jetpack"), [("R38", "7.0"), ("R39", "7.2"), ("R38.4", "7.1"), ("R35", None)], ids=str
)
def test_tegra_release(release: str, jetpack: str | None) -> None:
    major, _, minor = release.partition(".")
    text = TEGRA_RELEASE.replace("R38", major)
    if minor or major == "R39":
        text = text.replace("REVISION: 2.0", f"REVISION: {minor or 2}.0")
    found = identity.parse_tegra_release(text)
    assert found is not None
    assert found["jetpack"] == jetpack
    assert found["gcid"] == "41844464"
    assert found["kernel_variant"] == "oot"
    assert found["date"] == "Fri Aug 22 00:55:42 UTC 2025"


def test_no_tegra_release() -> None:
    assert identity.parse_tegra_release("NAME=Debian\n") is None


def test_identity_reads_the_nul_terminated_model(make_source: MakeSource) -> None:
    tree = "/sys/firmware/devicetree/base"
    source = make_source(
        {
            f"{tree}/model": "NVIDIA Jetson AGX Thor Developer Kit\0",
            f"{tree}/compatible": "nvidia,p4071-0000+p3834-0008\0nvidia,tegra264\0",
            "/etc/nv_tegra_release": TEGRA_RELEASE,
            "/etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
        }
    )
    found = identity.read_identity(source)
    assert found["model"] == "NVIDIA Jetson AGX Thor Developer Kit"
    assert found["compatible"] == ["nvidia,p4071-0000+p3834-0008", "nvidia,tegra264"]
    assert found["l4t"]["jetpack"] == "7.0"
    assert found["os"] == {"id": "ubuntu", "version_id": "24.04", "pretty_name": "Ubuntu 24.04.3 LTS"}


@pytest.mark.parametrize(
    ("text", "mode", "number", "known"),
    [
        ("NV Power Mode: MAXN\n0\n", "MAXN", 0, True),
        ("NV Power Mode: 120W\n1\n", "120W", 1, True),
        ("NVPM WARN: fan mode is not set\nNV Power Mode: MODE_30W\n2\n", "MODE_30W", 2, True),
        ("NVPM ERROR: cannot open config\n", None, None, False),
        ("", None, None, False),
    ],
)
def test_nvpmodel(text: str, mode: str | None, number: int | None, known: bool) -> None:
    found = power.parse_nvpmodel(text)
    assert (found["mode"], found["mode_id"], found["reason"] is None) == (mode, number, known)


def test_pinned_cpu_is_seen_behind_the_lying_governor(make_source: MakeSource) -> None:
    base = "/sys/devices/system/cpu/cpufreq/policy0"
    source = make_source(
        {
            f"{base}/scaling_cur_freq": "2601000\n",
            f"{base}/cpuinfo_cur_freq": "242000\n",
            f"{base}/scaling_min_freq": "242000\n",
            f"{base}/cpuinfo_max_freq": "2601000\n",
        }
    )
    found = power.read_cpu(source)
    assert found["policies"][0]["hardware_khz"] == 242000
    assert found["policies"][0]["scaling_khz"] == 2601000
    assert found["pinned"] is False


CONF = """POLLING_INTERVAL 2
<FAN 1> {
    TMARGIN ENABLED
    FAN_GOVERNOR cont { STEP_SIZE 10 }
    FAN_CONTROL close_loop { RPM_TOLERANCE 100 }
    FAN_PROFILE cool { #TEMP HYST PWM RPM
        0 0 255 5371
        45 0 77 1750
    }
    FAN_PROFILE quiet {
        0 0 255 4000
    }
    FAN_DEFAULT_CONTROL close_loop
    FAN_DEFAULT_PROFILE cool
    FAN_DEFAULT_GOVERNOR cont
}
"""


def test_fan_conf() -> None:
    found = fan.parse_conf(CONF)
    assert found["tmargin"] is True
    assert (found["control"], found["profile"], found["governor"]) == ("close_loop", "cool", "cont")
    assert found["profiles"]["cool"][0] == {"temp_c": 0, "hysteresis_c": 0, "pwm": 255, "rpm": 5371}
    assert len(found["profiles"]["quiet"]) == 1


def test_fan_query_as_root_and_not() -> None:
    good = fan.parse_query("FAN1:FAN_PROFILE:cool\nFAN1:FAN_GOVERNOR:cont\nFAN1:FAN_CONTROL:close_loop\n")
    assert good["fans"] == [{"fan": 1, "profile": "cool", "governor": "cont", "control": "close_loop"}]
    refused = fan.parse_query("NVFAN ERROR: Sudo permissions are required to execute nvfancontrol user daemon\n")
    assert refused["fans"] == []
    assert "Sudo permissions" in refused["reason"]


def test_fan_status_outlives_an_edited_conf(make_source: MakeSource) -> None:
    source = make_source({"/etc/nvfancontrol.conf": CONF, "/var/lib/nvfancontrol/status": "FAN1:FAN_PROFILE:quiet\n"})
    found = fan.read_fan(source)
    assert found["status"]["profile"] == "quiet"
    assert found["stale_conf"] is True
    assert "no nvfancontrol" in found["query"]["reason"]


def test_nvidia_smi_of_a_thor() -> None:
    line = "0, NVIDIA Thor, 00000000:01:00.0, 580.00, [N/A], [N/A], Not Supported, 85, N/A, [N/A]\n"
    (found,) = gpu.parse_query(line)
    assert found["name"] == "NVIDIA Thor"
    assert found["driver"] == "580.00"
    assert found["utilization_pct"] == 85
    assert [found[k] for k in ("memory_total_mib", "memory_used_mib", "memory_free_mib", "temp_c", "power_w")] == [
        None
    ] * 5


def test_nvidia_smi_of_r39_prints_units() -> None:
    (found,) = gpu.parse_query("0, NVIDIA Thor, 00000000:01:00.0, 595.78, [N/A], [N/A], [N/A], 3 %, 35C, 1W\n")
    assert (found["temp_c"], found["power_w"], found["utilization_pct"]) == (35, 1, 3)


def test_nvidia_smi_processes_keep_the_row_whose_memory_is_unknown() -> None:
    found = gpu.parse_processes("1234, /usr/bin/python3, 8000\n77, a, b, [N/A]\nNo running processes found\n")
    assert found == [
        {"pid": 1234, "name": "/usr/bin/python3", "used_mib": 8000},
        {"pid": 77, "name": "a, b", "used_mib": None},
    ]


def test_thermal_zone_that_answers_eagain_is_no_reading(
    make_source: MakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "/sys/class/thermal"
    source = make_source(
        {
            f"{base}/thermal_zone0/type": "cpu-thermal\n",
            f"{base}/thermal_zone0/temp": "35250\n",
            f"{base}/thermal_zone1/type": "gpu-thermal\n",
            f"{base}/thermal_zone1/temp": "0\n",
            f"{base}/thermal_zone1/trip_point_10_type": "critical\n",
            f"{base}/thermal_zone1/trip_point_10_temp": "114500\n",
            f"{base}/thermal_zone1/trip_point_2_type": "passive\n",
            f"{base}/thermal_zone1/trip_point_2_temp": "109000\n",
            f"{base}/thermal_zone2/type": "soc012-thermal\n",
            f"{base}/thermal_zone2/temp": "-256000\n",
        }
    )
    real = os.read

    def refusing(fd: int, size: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").endswith("thermal_zone1/temp"):
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real(fd, size)

    monkeypatch.setattr(os, "read", refusing)
    zones = thermal.read_zones(source)
    assert [(z["type"], z["temp_c"]) for z in zones] == [
        ("cpu-thermal", 35.25),
        ("gpu-thermal", None),
        ("soc012-thermal", None),
    ]
    assert [t["temp_c"] for t in zones[1]["trips"]] == [109.0, 114.5]
    assert "temporarily" in source.unreadable[f"{base}/thermal_zone1/temp"]


def test_cooling_devices_by_type_whatever_their_number(make_source: MakeSource) -> None:
    base = "/sys/class/thermal"
    kinds = {2: ("pwm-fan", 2, 4), 10: ("gpu-throttle-alert", 1, 2), 7: ("cpufreq-cpu0", 0, 48)}
    files = {}
    for number, (kind, state, most) in kinds.items():
        files[f"{base}/cooling_device{number}/type"] = f"{kind}\n"
        files[f"{base}/cooling_device{number}/cur_state"] = f"{state}\n"
        files[f"{base}/cooling_device{number}/max_state"] = f"{most}\n"
    cooling = thermal.read_cooling(make_source(files))
    assert [c["type"] for c in cooling] == ["cpufreq-cpu0", "gpu-throttle-alert", "pwm-fan"]
    # A turning fan is not throttling.
    assert thermal.throttling(cooling) == {
        "active": [{"type": "gpu-throttle-alert", "state": 1, "max_state": 2}],
        "known": True,
    }
    assert thermal.throttling([]) == {"active": [], "known": False}


def test_hwmon_by_name(make_source: MakeSource) -> None:
    base = "/sys/class/hwmon"
    source = make_source(
        {
            f"{base}/hwmon3/name": "soctherm_oc\n",
            f"{base}/hwmon3/oc1_event_cnt": "0\n",
            f"{base}/hwmon3/oc3_event_cnt": "813\n",
            f"{base}/hwmon3/oc3_throt_en": "1\n",
            f"{base}/hwmon1/name": "ina3221\n",
            f"{base}/hwmon1/in1_label": "VDD_GPU\n",
            f"{base}/hwmon1/in1_input": "12000\n",
            f"{base}/hwmon1/curr1_input": "5000\n",
            f"{base}/hwmon2/name": "ina238\n",
            f"{base}/hwmon2/power1_input": "101000000\n",
            f"{base}/hwmon0/name": "pwmfan\n",
            f"{base}/hwmon0/pwm1": "75\n",
        }
    )
    found = hwmon.read_hwmon(source)
    assert found["over_current"] == [
        {"channel": 1, "events": 0, "enabled": None},
        {"channel": 3, "events": 813, "enabled": True},
    ]
    assert found["rails"] == [{"name": "VDD_GPU", "power_w": 60.0}, {"name": "VIN", "power_w": 101.0}]
    assert found["fan"] == {"pwm": 75, "pwm_enable": None, "rpm": None}


def test_no_over_current_counters_is_not_zero_events(make_source: MakeSource) -> None:
    assert hwmon.read_hwmon(make_source())["over_current"] is None


TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F9A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F9B 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   2: junk
"""
TCP6 = """  sl  local_address
   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 13 1 0 100 0 0 10 0
"""


def test_listeners_only() -> None:
    assert ports.parse_listeners(TCP) == [{"address": "127.0.0.1", "port": 8090, "inode": "11"}]
    assert ports.parse_listeners(TCP6) == [{"address": "::", "port": 22, "inode": "13"}]


def test_holder_of_a_port(make_source: MakeSource) -> None:
    listeners = ports.read_listeners(make_source({"/proc/net/tcp": TCP, "/proc/net/tcp6": TCP6}))
    assert ports.holders(8090, listeners, [])[0]["kind"] == "process"
    assert ports.holders(8091, listeners, []) == []
    container = {
        "name": "other",
        "id": "abc",
        "running": True,
        "labels": {},
        "ports": [{"port": 8090, "protocol": "tcp", "address": "127.0.0.1", "container_port": 8000}],
    }
    (held,) = ports.holders(8090, listeners, [container])
    assert (held["kind"], held["name"]) == ("container", "other")
    assert ports.holders(8090, [], [{**container, "running": False}]) == []


@given(st.text())
def test_no_text_crashes_a_parser(text: str) -> None:
    memory.parse_meminfo(text)
    memory.parse_vmstat(text)
    identity.parse_tegra_release(text)
    identity.parse_os_release(text)
    power.parse_nvpmodel(text)
    fan.parse_query(text)
    fan.parse_conf(text)
    fan.parse_status(text)
    gpu.parse_query(text)
    gpu.parse_processes(text)
    gpu.parse_cuda_version(text)
    ports.parse_listeners(text)
