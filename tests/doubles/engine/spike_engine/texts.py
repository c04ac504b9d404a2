# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501  # log texts stay whole, so that a search for one finds it
"""Sentences of vLLM 0.29.0 that are built from figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ENGINE_ERROR = "EngineCore encountered an issue. See stack trace (above) for the root cause."
ILLEGAL_ACCESS = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def stats(
    window: Mapping[str, float], interval: float, running: int, waiting: int, kv_usage: float, hit_rate: float
) -> str:
    """The stats line. interval in seconds, kv_usage 0..1, hit_rate in percent."""
    return (
        f"Engine 000: Avg prompt throughput: {window['prompt'] / interval:.1f} tokens/s, Avg generation throughput: {window['generated'] / interval:.1f} tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {kv_usage * 100:.1f}%, Prefix cache hit rate: {hit_rate:.1f}%"
    )


def speculation(window: Mapping[str, float], interval: float, accepted_at: Sequence[int]) -> str:
    """The line on speculation; only for a window with drafts."""
    drafts, drafted, accepted = window["drafts"], window["drafted"], window["accepted"]
    each = ", ".join(f"{n / drafts:.3f}" for n in accepted_at)
    return (
        f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted throughput: {accepted / interval:.2f} tokens/s, Drafted throughput: {drafted / interval:.2f} tokens/s, "
        f"Accepted: {accepted:.0f} tokens, Drafted: {drafted:.0f} tokens, Per-position acceptance rate: {each}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
    )


def too_long(limit: int, prompt: int, output: int) -> str:
    """A request beyond the context. The tokenizer stops early, so a long prompt's count is only a bound."""
    least = "at least " if prompt > limit else ""
    shown = min(prompt, limit + 1)
    return (
        f"This model's maximum context length is {limit} tokens. However, you requested {output} output tokens and your prompt contains {least}{shown} input tokens, for a total of {least}{shown + output} tokens. "
        "Please reduce the length of the input prompt or the number of requested output tokens."
    )


def beyond_derived(asked: int) -> str:
    """max_model_len above what the model was made for."""
    return f"ValueError: User-specified max_model_len ({asked}) is greater than the derived max_model_len (max_position_embeddings=1048576 or model_max_length=None in model's config.json)."


def nothing_speculated() -> str:
    """Figures of the speculation were asked for where there is none."""
    return "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n  Value error, --per-request-spec-decode-metrics requires speculative decoding to be enabled (via --speculative-config). [type=value_error, input_value=ArgsKwargs((), {'model_co...transfer_config': None}), input_type=ArgsKwargs]"


def not_cached(model: str) -> str:
    """Offline, and the checkpoint is not in the cache."""
    return f"huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the specified revision on the local disk ({model}) and outgoing traffic has been disabled. To enable repo look-ups and downloads online, pass 'local_files_only=False' as input."


def wrapper(failed: str) -> str:
    """What the API server says of a core that failed; the cause stands above it."""
    return f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {failed}"


def bad_parser(kind: str, name: str, known: Sequence[str]) -> str:
    """A parser name that vLLM does not know. kind is 'tool call' or 'reasoning'."""
    return f"KeyError: 'invalid {kind} parser: {name} (chose from {{ {','.join(known)} }})'"
