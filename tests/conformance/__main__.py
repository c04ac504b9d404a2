# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 -m conformance`` (from the tests folder): serve, run, export. See README.md."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .catalogue import CATALOGUE, table
from .judge import verdict
from .server import serve

HERE = Path(__file__).resolve().parent
TABLE = HERE / "expected.json"
TOOLS = ("ours", "vllm_bench", "guidellm", "aiperf")
PLAIN = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Results = dict[str, dict[str, tuple[str, str]]]
"""Tool -> stream -> (verdict, details)."""


@contextmanager
def playing() -> Iterator[str]:
    """The server in a process of its own; gives its URL."""
    command = [sys.executable, "-m", "conformance", "serve"]
    process = subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
    finally:
        process.terminate()
        process.wait(10)


def lateness(url: str) -> dict[str, float]:
    """Stream -> the most the server was late in it, in seconds."""
    with PLAIN.open(f"{url}/played", timeout=10) as reply:
        played = json.load(reply)
    late: dict[str, float] = {}
    for record in played:
        late[record["stream"]] = max(late.get(record["stream"], 0.0), record["late_s"])
    return late


def run(tool: str, names: list[str], tries: int = 3) -> dict[str, tuple[str, str]]:
    """Play ``names`` to ``tool`` and judge what it says; what was wrong is played again, ``tries`` times in all.

    A busy machine can hold up any process for longer than the tolerance; a fault is wrong every time.
    """
    verdicts: dict[str, tuple[str, str]] = {}
    left = names
    for _ in range(tries):
        verdicts.update(_run_once(tool, left))
        left = [name for name in left if verdicts[name][0] != "right"]
        if not left:
            break
    return verdicts


def _run_once(tool: str, names: list[str]) -> dict[str, tuple[str, str]]:
    """Play each once: the heavy ones one by one, the others as the tool likes."""
    adapter = importlib.import_module(f".adapters.{tool}", __package__)
    together = [name for name in names if not CATALOGUE[name].apart]
    apart = [[name] for name in names if CATALOGUE[name].apart]
    reports: dict[str, Any] = {}
    with playing() as url:
        for group in ([together] if together else []) + apart:
            reports.update(adapter.measure(url, group))
        late = lateness(url)
    return {name: verdict(CATALOGUE[name].expect, reports.get(name), late.get(name, 0.0)) for name in names}


def show(results: Results, titles: dict[str, str]) -> str:
    """The verdicts as a Markdown table and the details below it."""
    tools = list(results)
    lines = ["| stream | " + " | ".join(titles[tool] for tool in tools) + " |", "|---" * (len(tools) + 1) + "|"]
    names = [name for name in CATALOGUE if any(name in results[tool] for tool in tools)]
    for name in names:
        cells = [results[tool].get(name, ("not run", ""))[0] for tool in tools]
        lines.append(f"| `{name}`: {CATALOGUE[name].about} | " + " | ".join(cells) + " |")
    for tool in tools:
        outcome = [what for what, _ in results[tool].values()]
        lines.append("")
        lines.append(f"**{titles[tool]}**: {outcome.count('right')} of {len(outcome)} right.")
        details = [(name, what, why) for name, (what, why) in results[tool].items() if what != "right"]
        lines += [""] if details else []
        lines += [f"- `{name}`: {what}{': ' + why if why else ''}" for name, what, why in details]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m conformance")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="play the streams until ended").add_argument("--port", type=int, default=0)
    runner = commands.add_parser("run", help="judge tools; exit status 1 when ours is wrong anywhere")
    runner.add_argument("--tool", action="append", choices=TOOLS, help="default: all that are installed")
    runner.add_argument(
        "--stream", action="append", choices=list(CATALOGUE), help="default: all for ours, core for others"
    )
    runner.add_argument("--all", action="store_true", help="all streams for every tool")
    runner.add_argument("--tries", type=int, default=3, help="how often a stream that was wrong is played")
    runner.add_argument("--results", type=Path, help="keep the verdicts as JSON, added to those already there")
    runner.add_argument("--markdown", type=Path, help="write the table into this file")
    commands.add_parser("export", help="write expected.json")
    options = parser.parse_args(argv)
    if options.command == "serve":
        serve(options.port)
        return 0
    if options.command == "export":
        TABLE.write_text(json.dumps(table(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        return 0
    kept: dict[str, Any] = {"results": {}, "titles": {}}
    if options.results is not None and options.results.exists():
        kept = json.loads(options.results.read_text(encoding="utf-8"))
    for tool in options.tool or TOOLS:
        adapter = importlib.import_module(f".adapters.{tool}", __package__)
        reason = adapter.available()
        if reason is not None:
            sys.stdout.write(f"{adapter.NAME}: skipped, {reason}\n")
            continue
        names = options.stream or [n for n, s in CATALOGUE.items() if tool == "ours" or options.all or s.core]
        kept["titles"][tool] = f"{adapter.NAME} {adapter.VERSION}".strip()
        kept["results"].setdefault(tool, {}).update(run(tool, names, options.tries))
        if options.results is not None:
            options.results.write_text(json.dumps(kept, ensure_ascii=False, indent=1), encoding="utf-8")
    text = show(kept["results"], kept["titles"])
    sys.stdout.write(text)
    if options.markdown is not None:
        options.markdown.write_text(HEAD + text, encoding="utf-8")
    return int(any(what != "right" for what, _ in kept["results"].get("ours", {}).values()))


HEAD = """# Conformance of clients that measure streaming chat completions

Generated by `make conformance`; the set is in `tests/conformance/`, its README says how to run another tool against it.
Every stream is played on a known schedule; a verdict is *right* when the status and every figure the tool
reports are those of `expected.json` (times within 20 ms, rates within 2 %, plus what the server itself was late by), in
one of three tries: a busy machine can hold up any process, a fault is wrong every time. A figure that a tool does not
report is not judged.

"""

if __name__ == "__main__":
    sys.exit(main())
