# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel messages: what they mean, where they come from, what they do not cover. And the clocks they are joined by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.box import clocks, kernel_log
from ansible_collections.lobes.spike.plugins.module_utils.box.clocks import Reading
from ansible_collections.lobes.spike.plugins.module_utils.box.kernel_log import Entry, KernelLog
from ansible_collections.lobes.spike.plugins.module_utils.box.source import Source
from hypothesis import given
from hypothesis import strategies as st

MakeSource = Callable[..., Source]
S = 10**9


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("gpu-throttle-alert cooling state: 0 -> 1", "throttle"),
        ("hot-surface-alert cooling state: 0 -> 1", "throttle"),
        ("bcpu-throttle-alert cooling state: 1 -> 2", "throttle"),
        ("gpu-throttle-alert cooling state: 1 -> 0", "release"),
        ("gpu-throttle-alert cooling device registered.", None),
        ("CPU0: Core temperature above threshold, cpu clock throttled (total events = 1)", "throttle"),
        ("cpufreq: cpu0,cur:649000,set:2601000,delta:1952000,set ndiv:289", "cpu_clamp"),
        ("Out of memory: Killed process 4242 (VLLM::EngineCor) total-vm:1kB", "oom"),
        (
            "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from "
            "_memdescAllocInternal(pMemDesc) @ mem_desc.c:1359",
            "nvrm",
        ),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.00", None),
        ("soctherm: oc3 event, throttling", "over_current"),
        ("usb 1-1: new high-speed USB device", None),
    ],
)
def test_what_a_message_means(text: str, kind: str | None) -> None:
    assert kernel_log.classify(text) == kind


def test_kmsg_records_and_continuations() -> None:
    lines = ["6,0,1500000,-;Linux version 6.8", " SUBSYSTEM=x", "4,7,2000000,-,caller=T1;a;b", "junk", ""]
    assert kernel_log.parse_kmsg(lines) == [Entry(1.5, "Linux version 6.8", 0), Entry(2.0, "a;b", 7)]


def test_dmesg_lines() -> None:
    found = kernel_log.parse_dmesg("[    0.000000] Linux version\n[12345.678901] x: y\n<6>[    1.5][ T1] z\nnoise\n")
    assert found == [Entry(0.0, "Linux version"), Entry(12345.678901, "x: y"), Entry(1.5, "z")]


def journal_row(own: float, got: float, text: object, **more: str) -> str:
    row = {"_SOURCE_MONOTONIC_TIMESTAMP": str(round(own * 1e6)), "__MONOTONIC_TIMESTAMP": str(round(got * 1e6))}
    return json.dumps({**row, "MESSAGE": text, "_TRANSPORT": "kernel", **more})


def test_the_journal_measures_the_difference_of_the_clocks() -> None:
    text = "\n".join(
        [
            journal_row(0.5, 9.0, "Linux version 6.8"),  # the journal came up late
            journal_row(100.0, 100.3, "a"),
            journal_row(200.0, 200.25, [104, 105, 255]),
            journal_row(300.0, 300.1, "from elsewhere", _TRANSPORT="driver"),
            "cut {",
        ]
    )
    entries, offset = kernel_log.parse_journal(text)
    assert [e.text for e in entries] == ["Linux version 6.8", "a", "hi\ufffd"]
    assert offset == pytest.approx(0.25)


def test_coverage_begins_with_the_oldest_message() -> None:
    assert kernel_log.covers_from([]) is None
    assert kernel_log.covers_from([Entry(50.0, "some message", 812)]) == 50.0
    assert kernel_log.covers_from([Entry(0.1, "x", 0)]) == 0.0
    assert kernel_log.covers_from([Entry(0.0, "Booting Linux on physical CPU 0x0")]) == 0.0


def test_refused_everywhere_is_unknown_with_the_reasons(make_source: MakeSource) -> None:
    refused = "No journal files were opened due to insufficient permissions."
    commands = {
        ("journalctl",): (1, "", refused),
        ("dmesg",): (1, "", "dmesg: read kernel buffer failed: Operation not permitted"),
    }
    log = kernel_log.read_kernel_log(make_source({}, commands))
    assert log.source is None
    assert log.covers_from_s is None
    assert log.reason
    assert refused in log.reason
    assert "Operation not permitted" in log.reason
    assert not kernel_log.covers(log, 1, 2)


def test_journal_since_knows_the_oldest_message(make_source: MakeSource) -> None:
    base = ("journalctl", "-k", "-b", "0", "-o", "json", "--no-pager", "-q")
    commands = {
        (*base, "--since"): (0, journal_row(500, 500, "late") + "\n", ""),
        (*base, "-n", "+1"): (0, journal_row(0.1, 3, "Linux version 6.8") + "\n", ""),
    }
    log = kernel_log.read_kernel_log(make_source({}, commands), since_utc_s=1000.0)
    assert log.covers_from_s == 0.0
    # One that answers the newest where the oldest was asked for is not believed.
    commands[(*base, "-n", "+1")] = (0, journal_row(900, 900, "newest") + "\n", "")
    assert kernel_log.read_kernel_log(make_source({}, commands), since_utc_s=1000.0).covers_from_s == 500


def test_ring_by_kmsg_else_dmesg(make_source: MakeSource) -> None:
    source = make_source({"/dev/kmsg": "6,10,1000000,-;a\n6,13,4000000,-;b\n"})
    log = kernel_log.read_kernel_log(source)
    assert (log.source, log.covers_from_s, list(log.holes)) == ("kmsg", 1.0, [(1.0, 4.0)])
    other = kernel_log.read_ring(Source(lambda argv: (0, "[   5.0] x\n", ""), root="/nowhere"))[0]
    assert other
    assert (other.source, other.covers_from_s) == ("dmesg", 5.0)


def test_covers() -> None:
    log = KernelLog("x", None, [], covers_from_s=10, covers_to_s=100, holes=[(50, 60)])
    assert kernel_log.covers(log, 10, 50)
    assert kernel_log.covers(log, 60, 100)
    assert not kernel_log.covers(log, 9, 20)
    assert not kernel_log.covers(log, 40, 51)
    assert not kernel_log.covers(log, 59, 70)
    assert not kernel_log.covers(log, 90, 101)


def test_merge_covers_what_either_covers() -> None:
    followed = KernelLog("recorder", None, [Entry(11, "a"), Entry(40, "b")], 10, 50, [(20, 30)])
    later = KernelLog("kmsg", None, [Entry(40, "b"), Entry(70, "c")], 35, None)
    merged = kernel_log.merge(followed, later)
    assert [e.text for e in merged.entries] == ["a", "b", "c"]
    assert kernel_log.covers(merged, 31, 90)
    assert not kernel_log.covers(merged, 25, 26)  # lost in the recorder, before the ring's oldest
    # The ring wrapped between the recorder's end and the last look.
    gap = kernel_log.merge(followed, KernelLog("kmsg", None, [Entry(70, "c")], 65, None))
    assert not kernel_log.covers(gap, 51, 64)
    assert kernel_log.covers(gap, 66, 90)
    # What one lost, the other had.
    whole = kernel_log.merge(followed, KernelLog("journal", None, [], 0, None))
    assert kernel_log.covers(whole, 1, 90)
    assert kernel_log.merge(KernelLog(None, "no"), later) == later


def test_followed_log_measures_its_clock_and_survives_a_restart() -> None:
    first = ["6,5,1000000,-;old", "6,6,2000000,-;old2"]
    text = "".join(f"{100 * S} {r}\n" for r in first)
    text += f"{int(150.25 * S)} 6,7,150000000,-;live\n"
    # Started again: the whole ring once more.
    text += "".join(f"{200 * S} {r}\n" for r in [*first, "6,7,150000000,-;live"])
    text += f"{300 * S} 6,9,299000000,-;live2\ncut"
    log = kernel_log.read_followed(text, from_s=100.25, until_s=310.25)
    assert [e.text for e in log.entries] == ["old", "old2", "live", "live2"]
    assert log.offset_s == pytest.approx(0.25)
    assert log.covers_from_s == 1.0
    assert log.covers_to_s == pytest.approx(310.0)
    assert log.holes == [(150.0, 299.0)]


def test_a_log_that_was_followed_in_silence_is_covered() -> None:
    silent = kernel_log.read_followed("", from_s=50.0, until_s=90.0)
    assert kernel_log.covers(silent, 50, 90)
    assert not kernel_log.covers(silent, 49, 60)
    late = kernel_log.read_followed(f"{70 * S} 6,7,70000000,-;first\n", from_s=50.0, until_s=90.0)
    assert kernel_log.covers(late, 50, 90)
    assert kernel_log.read_followed("", None, 1).covers_from_s is None


def test_a_reading_is_saved_and_read_back() -> None:
    log = KernelLog("journal", None, [Entry(1, "noise"), Entry(2, "gpu-throttle-alert cooling state: 0 -> 1")], 0.0)
    saved = json.loads(json.dumps(kernel_log.to_json(log, 99.0)))
    assert saved["messages"] == 2
    again = kernel_log.from_json(saved)
    assert [e.t_s for e in again.entries] == [2]
    assert again.covers_to_s == 99.0


@given(st.text())
def test_no_text_crashes_a_reader(text: str) -> None:
    kernel_log.classify(text)
    kernel_log.parse_dmesg(text)
    kernel_log.parse_journal(text)
    kernel_log.read_followed(text, 0.0, 1.0)


def test_clocks_are_read_together() -> None:
    ticks = iter([100, 900, 1000, 1050, 2000, 2100])
    reading, error = clocks.read_clocks(lambda: next(ticks), lambda: 5 * S, tries=3)
    assert reading == Reading(1025, 5 * S)
    assert error == 26


def test_controller_offset_is_bounded_by_the_exchange() -> None:
    assert clocks.controller_offset(100.0, 163.0, 102.0) == {"offset_s": 62.0, "error_s": 1.0}


def test_drift_and_steps() -> None:
    start = Reading(0, 1000 * S)
    slewed = Reading(10_000 * S, 11_000 * S + S // 10)
    assert clocks.drift(start, slewed)["ppm"] == pytest.approx(10.0)
    assert clocks.drift(start, slewed)["stepped"] is False
    back = Reading(10_005 * S, 11_005 * S - 3600 * S)
    assert clocks.drift(slewed, back)["stepped"] is True
    assert clocks.steps([start, slewed, back]) == [
        {"monotonic_ns": back.monotonic_ns, "step_s": pytest.approx(-3600.1)}
    ]


def test_utc_to_monotonic_uses_the_nearest_reading() -> None:
    readings = [Reading(0, 1000 * S), Reading(100 * S, 5000 * S)]
    assert clocks.monotonic_of(1010 * S, readings) == 10 * S
    assert clocks.monotonic_of(5010 * S, readings) == 110 * S
    assert clocks.monotonic_of(1, []) is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.123456789Z", 1_123_456_789),
        ("1970-01-01T00:00:01Z", S),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_parse_utc(text: str | None, ns: int | None) -> None:
    assert clocks.parse_utc(text) == ns


def test_engine_log_clock_over_a_new_year_and_in_another_zone() -> None:
    turn = clocks.parse_utc("2026-12-31T23:59:59.700Z")
    assert turn is not None
    assert clocks.engine_log_offset([(turn, "12-31 23:59:59"), (turn + S, "01-01 00:00:00")])["zone_hours"] == 0
    east = clocks.engine_log_offset([(turn, "01-01 02:59:59")])
    assert east["zone_hours"] == 3
    assert clocks.engine_log_offset([(turn, "nonsense")])["offset_s"] is None


def test_kmsg_of_this_machine_does_not_hang() -> None:
    if Path("/dev/kmsg").exists():
        kernel_log.read_kernel_log(Source(lambda argv: (127, "", "")))
