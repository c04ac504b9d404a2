# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of the process: arguments, boot, serving, and the exit code."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket

from . import cli, texts
from .boot import Boot, BootEnd
from .bootlog import API
from .faults import Faults
from .host import DIRECTORY
from .http import Connection
from .server import Server
from .truth import Truth

LAUNCH_FRAMES = ["entrypoints/cli/serve.py", "entrypoints/openai/launcher.py"]


def speeds() -> dict[str, float]:
    """How much faster than the real box each part runs.

    SPIKE_SPEEDUP counts for all; SPIKE_SPEEDUP_BOOT, SPIKE_SPEEDUP_PREFILL and SPIKE_SPEEDUP_DECODE for one.
    """
    defaults = {"boot": 180.0, "prefill": 100.0, "decode": 4.0}
    common = os.environ.get("SPIKE_SPEEDUP")
    return {
        name: float(os.environ.get(f"SPIKE_SPEEDUP_{name.upper()}") or common or value)
        for name, value in defaults.items()
    }


def _take_faults(argv: list[str]) -> tuple[list[str], Faults]:
    rest, named = [], [os.environ.get("SPIKE_FAULTS", "")]
    items = iter(argv)
    for item in items:
        if item == "--fault":
            named.append(next(items, ""))
        elif item.startswith("--fault="):
            named.append(item.partition("=")[2])
        else:
            rest.append(item)
    return rest, Faults(",".join(named))


async def _reset_early(port: int) -> asyncio.AbstractServer:
    """Accepts and resets, as docker's proxy does while nothing listens behind it."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        Connection(reader, writer).reset()

    return await asyncio.start_server(refuse, "0.0.0.0", port)


async def main(argv: list[str]) -> int:
    """Boots, serves until stopped, and returns the exit code."""
    rest, faults = _take_faults(argv)
    if faults.on("die-at-boot-argument"):
        rest.append("--mamba-cash-mode")
    if rest[:1] == ["serve"]:
        rest = rest[1:]
    settings = cli.parse(rest)
    path = os.environ.get("SPIKE_TRUTH")
    if path is None and os.path.isdir(os.path.join(DIRECTORY, "truth")):
        path = os.path.join(DIRECTORY, "truth", f"{socket.gethostname()}.jsonl")
    speed = speeds()
    server = Server(settings, faults, speed, Truth(path or None))
    loop = asyncio.get_running_loop()
    booting = asyncio.ensure_future(_boot_and_serve(server))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.terminate)
    stopped = asyncio.ensure_future(server.stop.wait())
    await asyncio.wait([booting, stopped], return_when=asyncio.FIRST_COMPLETED)
    if booting.done():
        return booting.result()
    booting.cancel()
    await asyncio.sleep(0.05)
    return server.exit_code


async def _boot_and_serve(server: Server) -> int:
    settings, faults = server.settings, server.faults
    port = settings.port or 8000
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    early = None
    problem = _parser_problem(settings)
    if problem:
        server.console.bare_traceback(API, LAUNCH_FRAMES, problem)
        return 1
    if faults.on("reset-before-ready"):
        early = await _reset_early(port)
    else:
        try:
            listener.bind((settings.host or "0.0.0.0", port))
        except OSError as error:
            server.console.bare_traceback(
                API,
                LAUNCH_FRAMES,
                f"OSError: [Errno {error.errno}] {error.strerror}",
            )
            return 1
    try:
        await Boot(settings, server.arm, faults, server.console, server.host, server.truth, server.speed["boot"]).run(
            port
        )
    except BootEnd as end:
        return end.code
    if early:
        early.close()
        listener.bind((settings.host or "0.0.0.0", port))
    listening = await asyncio.start_server(server.serve, sock=listener, backlog=2048, limit=2**20)
    server.truth.note("ready", port=port)
    background = [asyncio.ensure_future(server.core.run()), asyncio.ensure_future(server.stats())]
    try:
        await asyncio.wait(background, return_when=asyncio.FIRST_EXCEPTION)
        for task in background:
            if task.done():
                task.result()
    finally:
        listening.close()
        for task in background:
            task.cancel()
    return 1


def _parser_problem(settings: argparse.Namespace) -> str | None:
    """The KeyError that a parser name unknown to vLLM ends with."""
    for kind, name, known in (
        ("tool call", settings.tool_call_parser, cli.TOOL_PARSERS),
        ("reasoning", settings.reasoning_parser, cli.REASONING_PARSERS),
    ):
        if name and name not in known:
            return texts.bad_parser(kind, name, known)
    return None
