# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the engine double as a process of its own, quick enough for unit tests."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from ansible_collections.lobes.spike.plugins.module_utils.client import (
    ChatRequest,
    Endpoint,
    Sample,
    get_json,
    post_json,
    run_batch,
)

DOUBLES = pathlib.Path(__file__).resolve().parents[2] / "doubles"
MODEL = "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"
RECIPE = [
    "--gpu-memory-utilization", "0.7", "--max-num-batched-tokens", "16384", "--enable-prefix-caching",
    "--reasoning-parser", "nemotron_v3", "--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder",
    "--trust-remote-code", "--mamba-backend", "flashinfer", "--mamba-ssm-cache-dtype", "float16",
    "--enable-mamba-cache-stochastic-rounding", "--mamba-cache-philox-rounds", "5", "--mamba-cache-mode", "align",
    "--enable-prompt-tokens-details", "--enable-per-request-metrics",
]  # fmt: skip
PLAIN = ["--max-model-len", "128000", "--kv-cache-dtype", "fp8"]
DSPARK = [
    "--max-model-len", "1048576", "--kv-cache-dtype", "fp8", "--speculative_config.method", "dspark",
    "--speculative_config.model", f"{MODEL}-DSpark", "--speculative_config.num_speculative_tokens", "5",
    "--per-request-spec-decode-metrics", "summary",
]  # fmt: skip


def start(cache: pathlib.Path, arguments: list[str], faults: str = "", **env: str) -> tuple[subprocess.Popen[str], int]:
    """The process and its port. Its output goes to a pipe, standard error with standard output."""
    cache.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(DOUBLES / "engine"), "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "SPIKE_TRUTH": str(cache / "truth.jsonl"), "SPIKE_SPEEDUP": "1000", "SPIKE_SPEEDUP_BOOT": "20000",
        "SPIKE_SPEEDUP_DECODE": "20", "SPIKE_FAULTS": faults, "HF_HOME": str(cache / "hf"), **env,
    }  # fmt: skip
    command = [sys.executable, "-m", "spike_engine", "serve", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return process, port


class Engine:
    """A double that serves."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port
        self.endpoint = Endpoint.parse(f"http://127.0.0.1:{port}")

    def ready(self, limit_s: float = 30.0) -> None:
        """Waits until it answers."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise AssertionError(f"not ready: {self.process.communicate()[0][-2000:]}")

    def faults(self, spec: str) -> None:
        """Switches faults while it runs; '' heals it."""
        post_json(self.endpoint, "/_double/faults", {"faults": spec}, timeout_s=10)

    def get(self, path: str) -> Any:
        """A JSON answer."""
        return get_json(self.endpoint, path, timeout_s=10)

    def chat(self, content: str | list[dict[str, Any]], timeout_s: float = 20.0, **body: Any) -> Sample:
        """One streamed chat without thinking, seen by the product's own client."""
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        whole = {
            "messages": messages, "stream": True, "max_tokens": 100,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "chat_template_kwargs": {"enable_thinking": False}, **body,
        }  # fmt: skip
        (sample,) = run_batch(self.endpoint, [ChatRequest(body=json.dumps(whole).encode(), label="t")], timeout_s)
        return sample

    def forced(self, tokens: int = 100, timeout_s: float = 20.0, **body: Any) -> Sample:
        """One chat of exactly so many tokens."""
        options = {"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True, **body}
        return self.chat("Write an essay about the sea.", timeout_s, **options)


@contextlib.contextmanager
def serving(cache: pathlib.Path, arguments: list[str], faults: str = "", **env: str) -> Iterator[Engine]:
    """An engine that serves until the block ends."""
    process, port = start(cache, arguments, faults, **env)
    engine = Engine(process, port)
    try:
        engine.ready()
        yield engine
    finally:
        process.kill()
        process.communicate()
