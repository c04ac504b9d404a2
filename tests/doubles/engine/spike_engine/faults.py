# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults this double can play, by name, and the switch that turns them on.

Switches: ``--fault NAME`` (repeatable) or ``SPIKE_FAULTS=NAME,NAME``; ``NAME:ARG`` gives the fault an argument,
``NAME@N``, ``NAME@N-M`` or ``NAME@N-`` limits it to those chat requests, counted from 1.
"""

from __future__ import annotations

from dataclasses import dataclass

FAULTS: dict[str, str] = {
    # boot
    "die-at-boot-memory": "free memory below utilization x total: ValueError in EngineCore, wrapper below it, exit 1",
    "die-at-boot-kv": "KV pool too small for one request: ValueError in EngineCore, exit 1",
    "die-at-boot-blocks": "no memory left for cache blocks: ValueError in EngineCore, exit 1",
    "die-at-boot-profiling": "another process frees memory while profiling: AssertionError, exit 1",
    "die-at-boot-oom": "CUDA out of memory while loading: torch.OutOfMemoryError, exit 1",
    "die-at-boot-killed": "the core is SIGKILLed while loading: no core-side line, failed core proc -9, exit 1",
    "die-at-boot-argument": "unrecognized argument: usage and error as argparse prints them, exit 2",
    "die-at-boot-parser": "unknown tool-call parser: KeyError, exit 1",
    "die-at-boot-port": "the port is taken: OSError errno 98 before the engine loads, exit 1",
    "die-at-boot-unsupported": "model architecture not supported, exit 1",
    "die-at-boot-config": "model config cannot be loaded, exit 1",
    "die-at-boot-quant": "quantization config without quant_algo, exit 1",
    "die-at-boot-file": "weight file named by the index is missing: FileNotFoundError, exit 1",
    "die-at-boot-shard": "truncated shard: SafetensorError MetadataIncompleteBuffer, exit 1",
    "die-at-boot-locks": "lock file of the HF cache not writable: PermissionError errno 13, exit 1",
    "die-at-boot-space": "no space left while writing the compile cache: OSError errno 28, exit 1",
    "die-at-boot-exit-0": "the process ends with code 0 before it is ready, without an error line",
    "wedge-at-mamba": "silence for ever after 'Warming up Mamba2 SSD Triton kernels...', port never listens",
    "compile-storm": "long silence at the same line as the wedge, but busy child processes (ARG seconds, default 20)",
    "slow-boot": "JIT warm-up phase takes ARG times longer (default 4), alive all the while",
    "never-ready": "autotune progress for ever, never listens",
    # log shape
    "log-old": "a 0.27.1: two KV lines, 'Model loading took' without 'memory'",
    "log-new": "a 0.32.0: prefix inside the record, progress bars bare, no ModelOpt notice",
    "log-ansi": "coloured log, as on a terminal",
    "log-debug": "relative paths instead of base names in [file:line]",
    "log-long-line": "one log line over 16 KiB while booting",
    "log-noise": "unprefixed C++ and import lines, CR inside lines, clocks going backwards between processes",
    "clock-skew": "log timestamps off by ARG seconds (default 7200)",
    "kv-scale-notices": "the k/v scale and q scale notices of an uncalibrated fp8 checkpoint",
    # before and beside requests
    "reset-before-ready": "accept and reset connections while booting, as docker's proxy does",
    "health-hang": "/health and /metrics answer only after ARG seconds (default 30): a saturated server",
    "metrics-missing": "/metrics answers 404",
    "no-log-stats": "no vllm: metric and no stats line, as --disable-log-stats",
    "max-len-differs": "/v1/models reports half of the asked max_model_len",
    "tokenize-missing": "/tokenize answers 404",
    "wrong-model": "/v1/models and replies carry another model's name",
    # whole requests
    "http-500": "chat requests answer 500 with an error object",
    "http-503": "chat requests answer 503, queue full",
    "html-error": "chat requests answer 502 with an HTML page",
    "json-200-error": "chat requests answer 200 with a JSON error object instead of a stream",
    "crash-on-request": "the engine dies on chat request ARG (default 5) with a CUDA illegal access",
    "die-exit-0": "the engine dies when a chat request arrives: 500s, then the process ends with code 0",
    "hang": "requests are accepted and never move; /health stays 200, gauges stay flat",
    # streams
    "die-mid-stream": "after ARG tokens (default 20) error event, [DONE], and the process ends with code 0",
    "error-mid-stream": "after ARG tokens (default 20) error event and [DONE]; the server lives on",
    "cut-stream": "after ARG tokens (default 20) the connection is closed without [DONE]",
    "reset-stream": "after ARG tokens (default 20) the connection is reset",
    "no-done": "the stream ends after finish_reason without [DONE]",
    "no-finish": "[DONE] without any finish_reason",
    "stall": "a hole of ARG seconds (default 3) in the middle of the stream",
    "slow-decode": "decode ARG times slower (default 30)",
    "slow-first-token": "ARG more seconds (default 5) before the first token, kv gauge moving",
    "no-usage": "usage nowhere, though asked for",
    "usage-last-only": "usage only in the last chunk, though asked for on each",
    "usage-late": "the usage chunk comes ARG seconds (default 0.3) after the last token",
    "role-early": "the role chunk comes at once, long before the first token",
    "empty-deltas": "every second chunk is an empty delta",
    "keep-alive-comments": "comment lines while waiting and between chunks",
    "crlf": "CRLF line ends in the stream",
    "no-space": "'data:' without a space",
    "split-writes": "events cut into small TCP writes, inside UTF-8 characters and line ends",
    "unicode": "text of multi-byte characters",
    "merged-writes": "several events in one write: ARG events (default 4)",
    # what the model says
    "ignore-forced": "min_tokens and ignore_eos are ignored: answers of ARG tokens (default 10)",
    "zero-tokens": "end of text at once: no token at all",
    "degenerate": "usage counts far more tokens than the text holds",
    "forgets": "needle not found, facts wrong",
    "wrong-tool-path": "read_file with another path than the one asked for",
    "wrong-tool": "another tool than the one asked for",
    "bad-arguments": "tool-call arguments that are not JSON",
    "text-for-call": "plain text where a tool call belongs",
    "thinks-anyway": "reasoning although thinking is off",
    "think-in-content": "<think> text inside content",
    "answer-in-reasoning": "the answer only in reasoning, content null",
    "control-characters": "terminal escapes and template marks in the reply",
    "nul-characters": "a NUL (\\u0000) before and behind the reply",
    "huge-answer": "an answer of ARG MB (default 10) in as many tokens as ever, streamed or not",
    # cache and counters
    "cache-details-missing": "cached_tokens null although the flag is given",
    "evicts": "the prefix cache forgets everything between requests",
    "always-warm": "another client has filled the cache: every prompt is found in it",
    "reset-busy": "/reset_prefix_cache answers success false",
    "kv-gauge-flat": "kv_cache_usage_perc stays 0 during prefill",
    "counter-reset": "counters start again from 0 at chat request ARG (default 3), as after a restart",
    "gauge-lies": "the engine's own per-request figures disagree with the stream by a factor of 2",
}


@dataclass(frozen=True)
class Switch:
    """One fault that is on: its argument (text after the colon) and the chat requests it applies to."""

    name: str
    arg: str | None = None
    first: int = 1
    last: int | None = None

    def hits(self, request: int | None) -> bool:
        """Whether the switch applies to this chat request; None stands for anything but a chat request."""
        return request is None or (self.first <= request and (self.last is None or request <= self.last))


class Faults:
    """The faults that are on."""

    def __init__(self, spec: str = "") -> None:
        self.switches: dict[str, Switch] = {}
        for item in filter(None, (s.strip() for s in spec.split(","))):
            switch = parse(item)
            self.switches[switch.name] = switch

    def on(self, name: str, request: int | None = None) -> bool:
        """Whether fault name is on (for this chat request, counted from 1)."""
        switch = self.switches.get(name)
        return switch is not None and switch.hits(request)

    def number(self, name: str, default: float) -> float:
        """The argument of fault name as a number."""
        switch = self.switches.get(name)
        return float(switch.arg) if switch and switch.arg else default


def parse(item: str) -> Switch:
    """One switch from its text. ValueError names an unknown fault or a bad range."""
    rest, _, window = item.partition("@")
    name, _, arg = rest.partition(":")
    if name not in FAULTS:
        raise ValueError(f"unknown fault {name!r}; --list-faults shows the known ones")
    if not window:
        return Switch(name, arg or None)
    low, dash, high = window.partition("-")
    return Switch(name, arg or None, int(low), int(high) if high else (None if dash else int(low)))


def listing() -> str:
    """The table that --list-faults prints."""
    width = max(map(len, FAULTS))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in FAULTS.items())
