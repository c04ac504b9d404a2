# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tegrastats lines of every release, board, privilege and power state that is known."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box.tegrastats import Parser, parse_line
from hypothesis import given
from hypothesis import strategies as st

CPUS = ",".join(["0%@972"] * 14)
# R38.4, root, GPU switched off, swap on.
ROOT_OFF = (
    f"05-17-2026 10:00:32 RAM 4208/125773MB (lfb 31x4MB) SWAP 0/2048MB (cached 0MB) CPU [1%@972,{CPUS[7:]}] "
    "EMC_FREQ 0%@665 GR3D_FREQ @[0,0,0] NVENC0_FREQ @0 VIC off OFA_FREQ @0 PVA0_FREQ off APE 300 cpu@35.25C "
    "tj@36.031C soc012@36.062C VDD_GPU 0mW/0mW VDD_CPU_SOC_MSS 4165mW/4165mW VIN_SYS_5V0 4126mW/4126mW\n"
)
# R38.4, root, GPU awake, no swap.
ROOT_AWAKE = (
    f"04-21-2026 15:50:52 RAM 105265/125772MB (lfb 34x4MB) CPU [{CPUS}] EMC_FREQ 0%@2750 GR3D_FREQ @[314,314,314] "
    "NVENC0_FREQ @314 VIC off APE 300 cpu@37.343C tj@38.875C soc012@37.468C gpu@38.875C soc345@37.406C "
    "VDD_GPU 1962mW/1962mW VDD_CPU_SOC_MSS 5887mW/5887mW VIN_SYS_5V0 5635mW/5635mW VIN 19780mW/19780mW\n"
)
# R39.2, no root: three numbers a rail.
R39 = (
    f"07-02-2026 13:45:44 RAM 36529/125749MB (lfb 12x4MB) SWAP 11/4096MB (cached 9MB) CPU [{CPUS}] cpu@60.406C "
    "tj@63.281C gpu@62.906C VDD_GPU 37528mW/37528mW/37528mW VIN 87426mW/43713mW/87426mW\n"
)
ORIN = (
    "05-09-2026 18:42:06 RAM 18207/62841MB (lfb 466x4MB) SWAP 86/31420MB (cached 0MB) CPU [14%@2188,off,off] "
    "EMC_FREQ 3%@2133 GR3D_FREQ 7%@[0,0] NVENC 79%@166 NVDEC off NVDLA0 off APE 174 cpu@52.562C/50C soc2@48C "
    "tj@52.562C VDD_GPU_SOC 2412mW/2412mW VDD_CPU_CV 1607mW/1607mW VIN_SYS_5V0 4707mW/4707mW\n"
)
ALL = [ROOT_OFF, ROOT_AWAKE, R39, ORIN]


def parsed(line: str) -> dict:  # type: ignore[type-arg]
    found = parse_line(line)
    assert found is not None
    return found


def test_gpu_switched_off() -> None:
    found = parsed(ROOT_OFF)
    assert found["time_local"] == "2026-05-17T10:00:32"
    assert found["ram"] == {"used_mb": 4208, "total_mb": 125773}
    assert found["swap"] == {"used_mb": 0, "total_mb": 2048, "cached_mb": 0}
    assert len(found["cpus"]) == 14
    assert "gpu" not in found["temps_c"]  # absent, not zero
    assert found["temps_c"]["tj"] == 36.031
    assert found["power_mw"] == {"VDD_GPU": 0, "VDD_CPU_SOC_MSS": 4165, "VIN_SYS_5V0": 4126}
    assert "VIN" not in found["power_mw"]
    assert found["clocks"]["GR3D_FREQ"] == {"load_pct": None, "mhz": [0, 0, 0]}
    assert found["clocks"]["VIC"] is None


def test_gpu_awake_without_swap() -> None:
    found = parsed(ROOT_AWAKE)
    assert found["swap"] is None
    assert found["temps_c"]["gpu"] == 38.875
    assert found["power_mw"]["VIN"] == 19780
    assert found["clocks"]["EMC_FREQ"] == {"load_pct": 0, "mhz": [2750]}


def test_the_first_number_of_a_rail_is_now() -> None:
    assert parsed(R39)["power_mw"] == {"VDD_GPU": 37528, "VIN": 87426}


def test_orin_has_a_load_and_cores_that_are_off() -> None:
    found = parsed(ORIN)
    assert found["clocks"]["GR3D_FREQ"] == {"load_pct": 7, "mhz": [0, 0]}
    assert found["cpus"] == [{"load_pct": 14, "mhz": 2188}, None, None]
    assert found["temps_c"]["cpu"] == 52.562
    assert found["temps_c"]["soc2"] == 48.0


def test_a_sensor_that_is_off_is_left_out() -> None:
    assert parsed("RAM 1/2MB gpu@-256C tj@-5.5C\n")["temps_c"] == {"tj": -5.5}


def test_a_rail_printed_twice() -> None:
    assert parsed("RAM 1/2MB VIN 5mW/5mW VIN 7mW/7mW\n")["power_mw"] == {"VIN": 7}


def test_upper_case_zone_names() -> None:
    assert parsed("RAM 1/2MB CPU@40C GPU@41.5C\n")["temps_c"] == {"cpu": 40.0, "gpu": 41.5}


@pytest.mark.parametrize("line", ALL)
def test_a_cut_line_never_has_a_number_the_whole_one_has_not(line: str) -> None:
    whole = parsed(line)
    for end in range(len(line)):
        found = parse_line(line[:end])
        if found is None:
            continue
        assert found["power_mw"].items() <= whole["power_mw"].items(), line[:end]
        assert found["temps_c"].items() <= whole["temps_c"].items(), line[:end]
        assert found["ram"] in (None, whole["ram"])
        assert found["swap"] in (None, whole["swap"]) or found["swap"]["cached_mb"] is None
        assert found["cpus"] in (None, whole["cpus"])
        for name, clock in found["clocks"].items():
            assert whole["clocks"][name] == clock, line[:end]


@pytest.mark.parametrize("line", ["", "\n", "\0\0\0", "hello", "NVRM: nothing", "@C/ [ ] mW"])
def test_not_tegrastats(line: str) -> None:
    assert parse_line(line) is None


def numbers_of(value: object) -> list[float]:
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers_of(v)]
    if isinstance(value, list):
        return [n for v in value for n in numbers_of(v)]
    return [value] if isinstance(value, (int, float)) else []


TOKENS = st.one_of(
    st.sampled_from(re.findall(r"\S+", "".join(ALL))),
    st.text(alphabet="RAMSWCPU[]@/%,.-0123456789mWCoffVIN_ ", max_size=12),
)


@given(st.lists(TOKENS, max_size=30), st.booleans())
def test_any_line_is_survived_and_no_number_is_made_up(tokens: list[str], ended: bool) -> None:
    line = " ".join(tokens) + ("\n" if ended else "")
    found = parse_line(line)
    if found is None:
        return
    there = {float(n) for n in re.findall(r"\d+(?:\.\d+)?", line)}
    for number in numbers_of({k: v for k, v in found.items() if k != "time_local"}):
        assert abs(number) in there


@given(
    st.lists(
        st.tuples(st.sampled_from(ALL), st.lists(st.tuples(st.integers(0, 400), st.integers(-300, 99999)), max_size=6)),
        max_size=8,
    ),
    st.lists(st.lists(TOKENS, max_size=12), max_size=4),
)
def test_the_quick_parser_answers_the_same(
    runs: list[tuple[str, list[tuple[int, int]]]], garbage: list[list[str]]
) -> None:
    lines = [" ".join(tokens) + "\n" for tokens in garbage]
    for line, changes in runs:
        for place, number in changes:
            # Another number, or a fraction of one, in the place of some number.
            numbers = list(re.finditer(r"\d+(?:\.\d+)?", line))
            chosen = numbers[place % len(numbers)]
            line = line[: chosen.start()] + str(number if place % 3 else number / 8) + line[chosen.end() :]
        lines.append(line)
    parser = Parser()
    for line in lines * 2:
        whole = parse_line(line)
        assert parser.parse(line) == whole, line
        assert parser.kept(line) == (None if whole is None else part_of(whole)), line


def part_of(whole: dict[str, Any]) -> tuple[Any, ...]:
    """What telemetry keeps of a line."""
    load = (whole["clocks"].get("GR3D_FREQ") or {}).get("load_pct")
    return whole["temps_c"], whole["power_mw"], (whole["ram"] or {}).get("used_mb"), load


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    parse_line(text)
