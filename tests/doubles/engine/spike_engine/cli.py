# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of ``vllm serve``, as far as recipes use it, with vLLM's own rules."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any, NoReturn

TOOL_PARSERS = (
    "deepseek_v3",
    "glm45",
    "hermes",
    "llama3_json",
    "mistral",
    "openai",
    "pythonic",
    "qwen3_coder",
    "qwen3_xml",
    "step3",
)
REASONING_PARSERS = ("deepseek_r1", "glm45", "nemotron_v3", "olmo3", "qwen3", "step3")
SUFFIXES = {"k": 1000, "m": 10**6, "g": 10**9, "K": 1024, "M": 2**20, "G": 2**30}


class Parser(argparse.ArgumentParser):
    """argparse with the program name and exit code of vLLM's."""

    def error(self, message: str) -> NoReturn:
        """Usage, then the error, exit code 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"vllm serve: error: {message}\n")


def size(text: str) -> int:
    """A length such as 1048576, 128k (thousands) or 1M (2**20)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"invalid length: {text!r}")
    return int(float(match.group(1)) * SUFFIXES.get(match.group(2), 1))


def build() -> Parser:
    """The parser."""
    p = Parser(prog="vllm serve", usage="vllm serve [model_tag] [options]", add_help=True, allow_abbrev=False)
    p.add_argument("model_tag", nargs="?")
    value: dict[str, Any] = {
        "model": str,
        "host": str,
        "port": int,
        "api-key": str,
        "served-model-name": str,
        "revision": str,
        "tokenizer": str,
        "tokenizer-mode": str,
        "tokenizer-revision": str,
        "code-revision": str,
        "hf-overrides": str,
        "download-dir": str,
        "dtype": str,
        "seed": int,
        "max-model-len": size,
        "gpu-memory-utilization": float,
        "kv-cache-memory": size,
        "kv-cache-memory-bytes": size,
        "max-num-batched-tokens": size,
        "max-num-seqs": int,
        "block-size": int,
        "swap-space": float,
        "quantization": str,
        "load-format": str,
        "attention-backend": str,
        "moe-backend": str,
        "mamba-ssu-algorithm": str,
        "mamba-cache-philox-rounds": int,
        "chat-template": str,
        "generation-config": str,
        "tensor-parallel-size": int,
        "pipeline-parallel-size": int,
        "data-parallel-size": int,
        "uvicorn-log-level": str,
        "stream-interval": int,
        "sse-keep-alive-interval": float,
        "shutdown-timeout": float,
        "prefix-cache-retention-interval": int,
        "compilation-config": str,
        "speculative-config": str,
        "scheduling-policy": str,
        "safetensors-load-strategy": str,
        "max-logprobs": int,
        "root-path": str,
        "distributed-executor-backend": str,
        "cpu-offload-gb": float,
        "limit-mm-per-prompt": str,
        "default-chat-template-kwargs": str,
        "tool-call-parser": str,
        "reasoning-parser": str,
    }
    choice = {
        "kv-cache-dtype": ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "nvfp4"),
        "mamba-backend": ("triton", "flashinfer", "cpu"),
        "mamba-cache-mode": ("all", "align", "none"),
        "mamba-ssm-cache-dtype": ("auto", "float32", "float16", "bfloat16"),
        "mamba-cache-dtype": ("auto", "float32", "float16"),
        "per-request-spec-decode-metrics": ("none", "summary", "detailed"),
    }
    flag = (
        "enable-prefix-caching",
        "no-enable-prefix-caching",
        "enable-chunked-prefill",
        "enable-mamba-cache-stochastic-rounding",
        "enable-auto-tool-choice",
        "trust-remote-code",
        "enforce-eager",
        "enable-prompt-tokens-details",
        "enable-per-request-metrics",
        "enable-server-load-tracking",
        "disable-log-stats",
        "disable-log-requests",
        "enable-log-requests",
        "no-enable-log-requests",
        "disable-uvicorn-access-log",
        "enable-request-id-headers",
        "enable-logging-iteration-details",
        "enable-tokenizer-info-endpoint",
        "async-scheduling",
        "kv-cache-metrics",
        "enable-sleep-mode",
        "language-model-only",
    )
    for name, kind in value.items():
        p.add_argument(f"--{name}", type=kind)
    for name, allowed in choice.items():
        p.add_argument(f"--{name}", choices=allowed)
    for name in flag:
        p.add_argument(f"--{name}", action="store_true")
    return p


def normalise(argv: list[str]) -> list[str]:
    """Underscores in flag names become dashes, and --a.b value pairs become --a '{json}', as vLLM does."""
    out: list[str] = []
    dotted: dict[str, dict[str, Any]] = {}
    i = 0
    while i < len(argv):
        item = argv[i]
        if not item.startswith("--"):
            out.append(item)
            i += 1
            continue
        name, equals, given = item.partition("=")
        head, dot, rest = name.partition(".")
        head = head.replace("_", "-")
        if not dot:
            out.append(head + equals + given)
            i += 1
            continue
        if not equals:
            i += 1
            given = argv[i] if i < len(argv) else ""
        try:
            parsed = json.loads(given)
        except ValueError:
            parsed = given
        dotted.setdefault(head, {})[rest] = parsed
        i += 1
    for head, values in dotted.items():
        out += [head, json.dumps(values)]
    return out


def parse(argv: list[str]) -> argparse.Namespace:
    """Settings from the arguments after ``serve``. Exits with 2 on a bad one, as argparse does."""
    parser = build()
    settings = parser.parse_args(normalise(argv))
    settings.model = settings.model_tag or settings.model or "Qwen/Qwen3-0.6B"
    for name in ("speculative_config", "compilation_config", "default_chat_template_kwargs"):
        text = getattr(settings, name)
        if text:
            try:
                setattr(settings, name, json.loads(text))
            except ValueError:
                parser.error(
                    f"argument --{name.replace('_', '-')}: Value {text} cannot be converted to <function loads>."
                )
    given = parser.parse_args(normalise(argv))
    settings.given = {k: v for k, v in vars(given).items() if v not in (None, False)}
    return settings
