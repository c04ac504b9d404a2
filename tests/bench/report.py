# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a run -> the page in docs/: pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OURS = "lobes.spike"
Rows = list[dict[str, Any]]


def number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:+.3f} %"


def table(rows: Rows) -> list[str]:
    lines = [
        "| streams | tokens an event | tool | TTFT inflation, mean ms | p99 ms | decode rate error | tokens right "
        "| failed | streams reached | CPU s | of it starting | load before |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["per_event"], row["streams"])):
        right = {True: "yes", False: "**no**", None: "-"}[row["tokens_right"]]
        cells = [
            str(row["streams"]),
            str(row["per_event"]),
            row["tool"],
            number(row["inflation_ms"], 2),
            number(row["inflation_p99_ms"], 2),
            percent(row["rate_error"]),
            right,
            "-" if row["failed"] is None else str(row["failed"]),
            "-" if row["reached"] is None else str(row["reached"]),
            number(row["cpu_s"], 2),
            number(row["cpu_start_s"], 2),
            number(row["load"]) + (f" ({row['note']})" if row["note"] else ""),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def at(rows: Rows, streams: int, per_event: int = 1) -> tuple[dict[str, Any] | None, Rows]:
    """(our row, the peers' rows) of a level."""
    level = [row for row in rows if row["streams"] == streams and row["per_event"] == per_event]
    return next((row for row in level if row["tool"] == OURS), None), [row for row in level if row["tool"] != OURS]


def best(rows: Rows, key: str) -> dict[str, Any] | None:
    known = [row for row in rows if row[key] is not None]
    return min(known, key=lambda row: row[key]) if known else None


def without_start(row: dict[str, Any]) -> float | None:
    """CPU seconds spent on the requests alone."""
    if row["cpu_s"] is None or row["cpu_start_s"] is None:
        return None
    return float(row["cpu_s"] - row["cpu_start_s"])


def goals(rows: Rows, needle: dict[str, Any] | None) -> list[str]:
    """Each goal of the project's plan, what was measured, met or missed."""
    lines = ["| goal | measured | |", "|---|---|---|"]

    def line(goal: str, measured: str, met: bool | None) -> None:
        lines.append(f"| {goal} | {measured} | {'not measured' if met is None else 'met' if met else '**missed**'} |")

    def limit(streams: int, key: str, most: float, what: str, unit: str = "ms") -> None:
        ours, _ = at(rows, streams)
        value = ours and ours[key]
        line(
            f"{what}, {streams} streams: <= {most:g} {unit}",
            f"{number(value, 2)} {unit}",
            None if value is None else value <= most,
        )

    for streams, most in ((32, 1.5), (256, 6.0), (1024, 40.0)):
        limit(streams, "inflation_ms", most, "TTFT inflation, mean")
    for streams in (32, 256, 1024):
        ours, peers = at(rows, streams)
        peer = best(peers, "inflation_ms")
        if ours and peer and ours["inflation_ms"] is not None:
            share = ours["inflation_ms"] / peer["inflation_ms"]
            line(
                f"at most half of the best peer's, {streams} streams",
                f"{share:.2f} of {peer['tool']}'s {number(peer['inflation_ms'], 2)} ms",
                share <= 0.5,
            )
    for streams, most in ((32, 3.0), (256, 12.0)):
        limit(streams, "inflation_p99_ms", most, "TTFT inflation, p99")
    for streams in (32, 256):
        ours, _ = at(rows, streams)
        error = ours and ours["rate_error"]
        line(
            f"decode rate error, {streams} streams: <= 0.1 %",
            percent(error),
            None if error is None else abs(error) <= 0.001,
        )
    shares: list[tuple[int, float, Callable[[dict[str, Any]], float | None], str]] = [
        (32, 1 / 20, lambda row: row["cpu_s"], "client CPU, whole process"),
        (256, 1 / 10, lambda row: row["cpu_s"], "client CPU, whole process"),
        (32, 1 / 20, without_start, "client CPU without what starting costs"),
        (256, 1 / 10, without_start, "client CPU without what starting costs"),
    ]
    for streams, most, cost, what in shares:
        ours, peers = at(rows, streams)
        known = [(cost(row), row["tool"]) for row in peers if cost(row)]
        own = cost(ours) if ours else None
        if own is not None and known:
            peer_cost, tool = min((value, tool) for value, tool in known if value is not None)
            line(
                f"{what}, {streams} streams: <= 1/{1 / most:.0f} of the best peer's",
                f"{number(own, 2)} s, 1/{peer_cost / own:.1f} of {tool}'s {number(peer_cost, 1)} s",
                own <= peer_cost * most,
            )
    ours, _ = at(rows, 32, 5)
    if ours:
        error = ours["rate_error"]
        exact = ours["tokens_right"] and error is not None and abs(error) <= 0.001
        line(
            "5 tokens an event: tokens and rates exact",
            f"tokens {'right' if ours['tokens_right'] else 'wrong'}, rate {percent(error)}",
            exact,
        )
    if needle:
        measured = (
            f"{number(needle['build_s'], 2)} s, {number(needle['rss_mb'], 0)} MB resident ({needle['tokens']:,} tokens)"
        )
        met = needle["build_s"] < 3 and needle["rss_mb"] < 200
        line("needle for 1,040,000 tokens, without the engine's part: < 3 s, < 200 MB", measured, met)
    return lines


def alone(rows: Rows) -> list[str]:
    """The client by itself: what it can do when nothing else has the cores."""
    return [
        "",
        "## The client alone",
        "",
        "The same measurement of this client only, server and client at real-time priority, so that whatever else runs",
        "on the machine does not hold them up (`python3 -m bench --alone`, as root).",
        "",
        *goals(rows, None),
        "",
        *table(rows),
    ]


def render(results: dict[str, Any]) -> str:
    """The page."""
    where = results["machine"]
    load = f"{where['load'][0]} before and {where.get('load_after', ['?'])[0]} after"
    versions = ", ".join(f"{tool} {version}" for tool, version in results["versions"].items()) or "no peers"
    head = f"""# The client against ground truth, beside the public tools

Generated by `{results["command"]}` on {where["date"]}: {where["cores"]} cores of {where["cpu"]}, Python
{where["python"]}, loopback, load average {load}. Peers: {versions}.

The server (`tests/doubles/truth`) is a process of its own on the same machine and clock. Each request: 150 ms to the
first token, then a token every 50 ms, 256 tokens; two rounds of all streams. *Inflation* is the tool's time to first
token minus the server's own (request read to first token written), mean against mean and p99 against p99 (type 7).
*Decode rate error* compares the mean of the per-request rates with the server's. *CPU* is user + system of the tool's
whole process tree; *of it starting* is the same tool with two requests of two tokens. *Streams reached* is how many
requests the server had open at once. The rows are taken one after the other; the server, the tool and whatever else the
machine was doing share its cores, and the last column says how busy it was before each row.

A client that falls behind reads many events at once, which makes it cheap per event: compare CPU only beside the
inflation of the same row. This client reads every event when it comes, which at 256 streams costs it two thirds of its
CPU in system calls and the loop around them.

"""
    rows = results["rows"]
    lines = ["## Goals", "", *goals(rows, results.get("needle")), "", "## All rows", "", *table(rows)]
    if results.get("alone"):
        lines += alone(results["alone"])
    return head + "\n".join(lines) + "\n"
