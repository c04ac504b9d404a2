# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV pool as the engine's metrics give it: machine-readable, so preferred to the boot log's sentence."""

from __future__ import annotations

from .bootlog import CAPACITY_LABEL
from .metrics import Exposition
from .settings import Setting, value_of

KEPT = (
    "block_size", "cache_dtype", "enable_prefix_caching", "gpu_memory_utilization", "kv_cache_max_concurrency",
    "kv_cache_memory_bytes", "kv_cache_size_tokens", "mamba_block_size", "mamba_cache_dtype", "mamba_cache_mode",
    "mamba_ssm_cache_dtype", "num_gpu_blocks", "prefix_cache_retention_interval", "sliding_window",
)  # fmt: skip


def read_pool(exposition: Exposition | None) -> dict[str, object] | None:
    """What ``vllm:cache_config_info`` says, or None where the engine does not export it.

    {label, tokens, capacity_ceiling_requests, max_model_len, memory_bytes, settings}; ``tokens`` over
    ``capacity_ceiling_requests`` is the ``max_model_len`` that the figure belongs to: pool tokens of different context
    lengths are not comparable (on a hybrid model the share of the state caches depends on it).
    """
    labels = exposition.info("cache_config_info") if exposition is not None else None
    if labels is None:
        return None
    settings: dict[str, Setting] = {name: value_of(labels[name]) for name in KEPT if name in labels}
    tokens, requests = settings.get("kv_cache_size_tokens"), settings.get("kv_cache_max_concurrency")
    return {
        "label": CAPACITY_LABEL,
        "tokens": tokens if isinstance(tokens, int) else None,
        "capacity_ceiling_requests": requests if isinstance(requests, (int, float)) else None,
        "max_model_len": _length(tokens, requests),
        "memory_bytes": settings.get("kv_cache_memory_bytes"),
        "settings": settings,
    }


def _length(tokens: Setting, requests: Setting) -> int | None:
    """The max_model_len that makes these requests of these tokens, when both are exact enough to tell."""
    if not isinstance(tokens, int) or not isinstance(requests, (int, float)) or requests <= 0:
        return None
    length = tokens / requests
    return round(length) if abs(length - round(length)) < 0.001 else None


def comparable(one: dict[str, object] | None, other: dict[str, object] | None) -> bool:
    """May the tokens of two pools be compared? Only for the same, known max_model_len."""
    if one is None or other is None:
        return False
    length = one.get("max_model_len")
    return length is not None and length == other.get("max_model_len")
