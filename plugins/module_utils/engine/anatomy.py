# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot anatomy: where a boot's time and memory went, and how two boots differ.

A phase is named by the milestone that ends it and begins at the anchor before it that the log has. Phases are compared
only when both boots have them with the same beginning; memory only where both engines printed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Milestones that end a phase, in order, with the phase's name.
ANCHORS: tuple[tuple[str, str], ...] = (
    ("engine_config", "start of server and engine core"),
    ("model_loaded", "loading the model"),
    ("mamba_warmup", "compilation before the Mamba warm-up"),
    ("profiled", "first profiling run"),
    ("graphs_profiled", "throw-away graph capture for memory"),
    ("kv_pool", "sizing of the KV pool"),
    ("graphs_captured", "warm-up, autotuning and capture of the serving graphs"),
    ("engine_init", "end of the engine core's start"),
    ("http_start", "start of the HTTP server"),
)

# What is laid side by side: (key in facts.memory, name). GiB.
LEDGER: tuple[tuple[str, str], ...] = (
    ("checkpoint_gib", "checkpoint on disk"),
    ("model_gib", "model in memory"),
    ("consumed_gib", "weights and non-torch memory"),
    ("activation_gib", "peak activation"),
    ("graphs_profiled_gib", "throw-away graphs"),
    ("graphs_captured_gib", "serving graphs"),
    ("kv_memory_gib", "KV pool"),
    ("free_gib", "free at start"),
)


def phases(
    milestones: Sequence[Mapping[str, Any]], ready_s: float | None, before_log_s: float | None = None
) -> list[dict[str, Any]]:
    """[{name, begins, ends, start_s, end_s, seconds}] of one boot, in seconds of the log's clock from its first line.

    ``weights_loaded`` stands in for ``model_loaded`` where the engine does not print the latter (CPU build). The last
    phase, to /health, is there when ``ready_s`` (seconds from the container's start) is known, and the time before the
    first log line when ``before_log_s`` is; these two are not of the log's clock and have no times on it.
    """
    reached: dict[str, float] = {}
    for milestone in milestones:
        name = "model_loaded" if milestone["name"] == "weights_loaded" else milestone["name"]
        if milestone["t_s"] is not None:
            # The last of a repeated step: a drafter's weights come after the model's.
            reached[name] = float(milestone["t_s"])
    out: list[dict[str, Any]] = []
    if before_log_s is not None:
        out.append(_untimed("container start to first log line", "container start", "first log line", before_log_s))
    begins, start_s = "first log line", 0.0
    for name, title in ANCHORS:
        if name in reached:
            end_s = max(start_s, reached[name])
            out.append(_phase(title, begins, name, start_s, end_s))
            begins, start_s = name, end_s
    if ready_s is not None:
        out.append(_untimed("container start to /health", "container start", "ready", ready_s))
    return out


def _untimed(title: str, begins: str, ends: str, seconds: float) -> dict[str, Any]:
    span = {"start_s": None, "end_s": None, "seconds": round(max(0.0, seconds), 3)}
    return {"name": title, "begins": begins, "ends": ends, **span}


def _phase(title: str, begins: str, ends: str, start_s: float, end_s: float) -> dict[str, Any]:
    seconds = round(end_s - start_s, 3)
    return {"name": title, "begins": begins, "ends": ends, "start_s": start_s, "end_s": end_s, "seconds": seconds}


def compare(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Lay the boot document ``other`` beside ``one``.

    {phases: [{name, one_s, other_s, difference_s}], memory: [{name, one_gib, other_gib, difference_gib}],
    kv_pool: {comparable, reason, one_tokens, other_tokens, difference_tokens}, sentences: [str]}. A difference is
    ``other - one`` and None where one of them is not known. Pool tokens are compared only for the same max_model_len.
    """
    rows = _phase_rows(one, other)
    ledger = _ledger_rows(one, other)
    pool = _pool_row(one, other)
    sentences = [f"{r['difference_s']:+.0f} s in {r['name']}" for r in rows if _tells(r["difference_s"], 1.0)]
    sentences += [f"{r['difference_gib']:+.2f} GiB {r['name']}" for r in ledger if _tells(r["difference_gib"], 0.05)]
    if pool["comparable"] and _tells(pool["difference_tokens"], 1):
        sentences.append(f"{pool['difference_tokens']:+,d} tokens of KV-pool capacity ceiling")
    return {"phases": rows, "memory": ledger, "kv_pool": pool, "sentences": sentences}


def _phase_rows(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    left, right = _phases_of(one), _phases_of(other)
    names = list(left) + [name for name in right if name not in left]
    rows = []
    for name in names:
        a, b = left.get(name), right.get(name)
        same = a is not None and b is not None and a["begins"] == b["begins"]
        rows.append(
            {
                "name": name,
                "one_s": a["seconds"] if a else None,
                "other_s": b["seconds"] if b else None,
                "difference_s": round(b["seconds"] - a["seconds"], 3) if same and a and b else None,
            }
        )
    return rows


def _phases_of(boot: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {phase["name"]: phase for phase in boot.get("phases") or []}


def _ledger_rows(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    left, right = (dict((boot.get("facts") or {}).get("memory") or {}) for boot in (one, other))
    rows = []
    for key, name in LEDGER:
        a, b = left.get(key), right.get(key)
        if a is not None or b is not None:
            difference = round(b - a, 3) if a is not None and b is not None else None
            rows.append({"name": name, "one_gib": a, "other_gib": b, "difference_gib": difference})
    return rows


def _pool_row(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    left, right = ((boot.get("facts") or {}).get("kv_pool") or {} for boot in (one, other))
    a, b = left.get("tokens"), right.get("tokens")
    reason = None
    if a is None or b is None:
        reason = "one of the two boots has no KV pool figure"
    elif left.get("max_model_len") is None or left.get("max_model_len") != right.get("max_model_len"):
        reason = "the two pools belong to different max_model_len: their tokens are not comparable"
    return {
        "comparable": reason is None,
        "reason": reason,
        "one_tokens": a,
        "other_tokens": b,
        "difference_tokens": b - a if reason is None and a is not None and b is not None else None,
    }


def _tells(difference: float | None, least: float) -> bool:
    return difference is not None and abs(difference) >= least
