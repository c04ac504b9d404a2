# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one set of arguments means on a Thor: KV pool, memory ledger, speculation, model name."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

GIB = 2**30
TOTAL_GIB = 122.82
FREE_GIB = 94.49
WEIGHTS_GIB, DRAFTER_GIB = 17.82, 1.62
CONSUMED_GIB, PEAK_GIB, GRAPHS_GIB = 22.84, 2.92, 1.87
SMALL_GIB = 1.4  # weights and all of an embedding or reranking model
DERIVED_MAX_LEN = 1048576
# (kv dtype, speculation, max_model_len): GiB available and pool tokens, as the seed's four boots printed them.
SEED_POOLS = {
    ("fp8", False, 128000): (60.21, 18346666),
    ("fp8", False, 1048576): (59.44, 20431534),
    ("fp8", True, 1048576): (56.27, 17911473),
    ("bfloat16", False, 1048576): (60.01, 10392269),
}
# The same boots' seconds: warm-up to KV pool, KV pool to 'init engine took', torch.compile, and that line's figure.
SEED_TIMES = {
    ("fp8", False, 128000): (51.0, 142.0, 14.36, 301.61),
    ("fp8", False, 1048576): (51.0, 314.0, 14.82, 473.29),
    ("fp8", True, 1048576): (74.0, 127.0, 45.01, 309.09),
    ("bfloat16", False, 1048576): (118.0, 194.0, 14.45, 419.93),
}


@dataclass(frozen=True)
class Arm:
    """The resolved settings of one boot. Sizes in GiB and tokens, times in the real box's seconds."""

    served: str
    model: str
    max_len: int
    kv_asked: str
    kv_dtype: str
    utilization: float
    spec_method: str | None
    spec_model: str | None
    spec_k: int
    block: int
    available_gib: float
    pool_tokens: int
    need_gib: float  # for one request of max_len
    to_pool_s: float
    to_ready_s: float
    compile_s: float
    init_s: float

    @property
    def concurrency(self) -> float:
        """How many requests of max_len the pool holds: the capacity ceiling."""
        return self.pool_tokens / self.max_len


def resolve(s: argparse.Namespace) -> Arm:
    """The arm that these settings make."""
    spec = s.speculative_config or {}
    method = spec.get("method")
    k = int(spec.get("num_speculative_tokens") or 0)
    max_len = s.max_model_len or DERIVED_MAX_LEN
    asked = s.kv_cache_dtype or "auto"
    kv = "fp8_e4m3" if asked == "auto" else asked  # the checkpoint declares an fp8 KV scheme
    family = "bfloat16" if kv in ("bfloat16", "float16") else "fp8"
    utilization = s.gpu_memory_utilization or 0.92
    key = (family, bool(method), max_len)
    per_token = 6144 if family == "bfloat16" else 3072
    # A request needs its tokens and, on this hybrid, one Mamba state; a drafter adds its own KV.
    need = (per_token * max_len * (1.081 if method else 1.0)) / GIB + 0.0505
    held = SMALL_GIB if re.search(r"0\.\d+B", s.model) else CONSUMED_GIB + PEAK_GIB + 0.77
    available = utilization * TOTAL_GIB - held - (DRAFTER_GIB + 1.55 if method else 0)
    pool = int(max(available, 0) / need * max_len)
    if key in SEED_POOLS and utilization == 0.7:
        available, pool = SEED_POOLS[key]
    times = SEED_TIMES.get(key) or SEED_TIMES[(family, bool(method) and family == "fp8", DERIVED_MAX_LEN)]
    return Arm(
        s.served_model_name or s.model,
        s.model,
        max_len,
        asked,
        kv,
        utilization,
        method,
        spec.get("model"),
        k,
        544 if s.mamba_cache_mode == "align" else 16,
        round(available, 2),
        pool,
        need,
        *times,
    )
