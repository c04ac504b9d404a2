# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 -m bench`` (from the tests folder): measure, and write docs/benchmark.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conformance.adapters import aiperf, guidellm, tools, vllm_bench

from .report import render

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TRUTH = HERE.parent / "doubles" / "truth" / "server.py"
PLAIN = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PEERS = {"guidellm": guidellm, "aiperf": aiperf, "vllm bench serve": vllm_bench}
OURS = "lobes.spike"
TTFT_S, ITL_S, TOKENS, ROUNDS = 0.15, 0.05, 256, 2


@dataclass
class Row:
    """One tool at one level. Times in ms; ``inflation`` is the tool's figure minus the server's own."""

    tool: str
    streams: int
    per_event: int
    requests: int
    failed: int | None = None
    inflation_ms: float | None = None
    inflation_p99_ms: float | None = None
    rate_error: float | None = None  # relative, of the mean of the per-request rates
    tokens_right: bool | None = None
    cpu_s: float | None = None  # the whole process tree, start included
    cpu_start_s: float | None = None  # the same tool sending next to nothing
    rss_mb: float | None = None
    reached: int | None = None  # most requests the server saw at once
    load: float | None = None  # the machine's one-minute load average before
    note: str = ""


def percentile(values: list[float], q: float) -> float:
    """Type 7, as everywhere in this project."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low = int(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


@contextmanager
def truth(per_event: int) -> Iterator[str]:
    """A fresh ground-truth server; gives its URL."""
    command = [sys.executable, str(TRUTH), "--ttft", str(TTFT_S), "--itl", str(ITL_S), "--tokens", str(TOKENS)]
    process = subprocess.Popen([*command, "--per-event", str(per_event)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
    finally:
        process.terminate()
        process.wait(10)


def records(url: str) -> list[dict[str, Any]]:
    with PLAIN.open(f"{url}/truth", timeout=60) as reply:
        found: list[dict[str, Any]] = json.load(reply)
    return found


def overlap(truths: list[dict[str, Any]]) -> int:
    """The most requests that were open at the server at one time."""
    edges = sorted([(t["received_ns"], 1) for t in truths] + [(t["last_ns"], -1) for t in truths])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def run_ours(url: str, streams: int, requests: int, tokens: int, out: Path) -> tuple[list[tools.Report], float | None]:
    results = out / "ours.json"
    command = [sys.executable, str(HERE / "ours.py"), url, str(streams), str(requests), str(tokens), str(results)]
    cost = tools.execute(command, out)
    return json.loads(results.read_text()), cost and cost["cpu_s"]


def run_peer(
    name: str, url: str, streams: int, requests: int, tokens: int, out: Path
) -> tuple[list[tools.Report], float | None]:
    adapter = PEERS[name]
    load = tools.Load(url, "truth", streams, requests, tokens, out)
    cost = tools.execute(adapter.command(load), out, getattr(adapter, "ENVIRONMENT", None))
    inside = adapter.cpu_s(out) if hasattr(adapter, "cpu_s") else None
    return adapter.read(out), inside if inside is not None else cost and cost["cpu_s"]


def run(name: str, url: str, streams: int, requests: int, tokens: int) -> tuple[list[tools.Report], float | None]:
    """Reports of one run and its CPU seconds. Raises what a tool without results raises."""
    with tempfile.TemporaryDirectory() as folder:
        if name == OURS:
            return run_ours(url, streams, requests, tokens, Path(folder))
        return run_peer(name, url, streams, requests, tokens, Path(folder))


def measure(name: str, streams: int, per_event: int) -> Row:
    """One tool at one level, against a server of its own."""
    row = Row(name, streams, per_event, streams * ROUNDS, load=round(os.getloadavg()[0], 1))
    with truth(per_event) as url:
        try:
            reports, row.cpu_s = run(name, url, streams, row.requests, TOKENS)
        except (OSError, ValueError, KeyError, TypeError, IndexError) as exc:
            row.note = f"no result ({type(exc).__name__})"
            return row
        truths = [record for record in records(url) if record["tokens"] == TOKENS]
    good = [report for report in reports if report["status"] == "ok"]
    row.failed = len(reports) - len(good)
    row.reached = overlap(truths)
    ttfts = [report["ttft_s"] * 1e3 for report in good if report.get("ttft_s") is not None]
    true_ttfts = [(record["first_ns"] - record["received_ns"]) / 1e6 for record in truths]
    rates = [report["decode_tok_s"] for report in good if report.get("decode_tok_s")]
    first = per_event
    true_rates = [(record["tokens"] - first) / ((record["last_ns"] - record["first_ns"]) / 1e9) for record in truths]
    counts = [report.get("completion_tokens", report.get("tokens")) for report in good]
    row.tokens_right = bool(counts) and all(count == TOKENS for count in counts)
    if ttfts and true_ttfts:
        row.inflation_ms = sum(ttfts) / len(ttfts) - sum(true_ttfts) / len(true_ttfts)
        row.inflation_p99_ms = percentile(ttfts, 99) - percentile(true_ttfts, 99)
    if rates and true_rates:
        row.rate_error = (sum(rates) / len(rates)) / (sum(true_rates) / len(true_rates)) - 1
    return row


def starting_cost(name: str) -> float | None:
    """CPU seconds of a tool that sends two short requests: what it costs to start."""
    with truth(1) as url:
        try:
            return run(name, url, 1, 2, 2)[1]
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None


def needle() -> dict[str, Any]:
    """What the largest needle costs, in a process of its own."""
    found = subprocess.run([sys.executable, str(HERE / "needle.py")], capture_output=True, text=True, check=True)
    cost: dict[str, Any] = json.loads(found.stdout)
    return cost


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "")
    return {
        "cpu": model or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench")
    parser.add_argument("--tool", action="append", choices=[OURS, *PEERS], help="default: all that are installed")
    parser.add_argument("--level", action="append", type=int, help="streams; default 32, 256 and 1024")
    parser.add_argument("--results", type=Path, default=ROOT / ".cache" / "bench.json")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmark.md")
    parser.add_argument(
        "--add", action="store_true", help="keep the rows of the last results, replacing what is run anew"
    )
    parser.add_argument(
        "--alone", action="store_true", help="only this client, server and client at real-time priority (needs root)"
    )
    parser.add_argument("--render", action="store_true", help="only write the page from the results that are there")
    options = parser.parse_args(argv)
    if options.alone:
        kept = json.loads(options.results.read_text()) if options.results.exists() else {"versions": {}, "rows": []}
        kept.update({"machine": kept.get("machine", machine()), "command": "make bench"})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))  # the server and the client inherit it
        plan = [(streams, 1) for streams in options.level or [32, 256, 1024]] + [(32, 5)]
        kept["alone"] = [asdict(measure(OURS, streams, per_event)) for streams, per_event in plan]
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        options.results.write_text(json.dumps(kept, indent=1))
    elif not options.render:
        chosen = options.tool or [OURS, *PEERS]
        names = []
        for name in chosen:
            reason = None if name == OURS else PEERS[name].available()
            if reason is None:
                names.append(name)
            else:
                sys.stdout.write(f"{name}: skipped, {reason}\n")
        kept: dict[str, Any] = {"machine": machine(), "command": "make bench", "rows": [], "versions": {}}
        if options.add and options.results.exists():
            kept = json.loads(options.results.read_text())
        kept["versions"].update({name: PEERS[name].VERSION for name in names if name != OURS})
        kept["needle"] = needle()
        plan = [(streams, 1) for streams in options.level or [32, 256, 1024]] + [(32, 5)]
        for name in names:
            start_s = starting_cost(name)
            for streams, per_event in plan:
                row = measure(name, streams, per_event)
                row.cpu_start_s = start_s
                same = (name, streams, per_event)
                kept["rows"] = [r for r in kept["rows"] if (r["tool"], r["streams"], r["per_event"]) != same]
                kept["rows"].append(asdict(row))
                sys.stdout.write(json.dumps(kept["rows"][-1]) + "\n")
                sys.stdout.flush()
                options.results.parent.mkdir(parents=True, exist_ok=True)
                options.results.write_text(json.dumps(kept, indent=1))
        kept["machine"]["load_after"] = [round(value, 1) for value in os.getloadavg()]
        options.results.write_text(json.dumps(kept, indent=1))
    options.output.write_text(render(json.loads(options.results.read_text())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
