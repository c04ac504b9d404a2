# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of boot milestones: which message text means which step of a boot.

Messages are found by their first words, then read by a pattern whose named groups are the numbers and names in the
line. Texts were compared over vLLM 0.20.0, 0.24.0, 0.27.1, 0.28.0 to 0.33.0 (facts on the engine, part 2.2); where
releases differ, one entry reads all forms. Nothing here looks at file names or line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_N = r"[0-9]+(?:\.[0-9]+)?"
_COUNT = r"[0-9][0-9,]*"


class Milestone(NamedTuple):
    """``name`` of the step, ``what`` it is in one phrase, the ``pattern`` of its message.

    Groups: ``seconds`` is the duration that the engine itself states; every other group is a fact of the step.
    """

    name: str
    what: str
    pattern: re.Pattern[str]


def _milestones(*rows: tuple[str, str, str]) -> list[Milestone]:
    return [Milestone(name, what, re.compile(pattern)) for name, what, pattern in rows]


# In the order of a boot. Each pattern begins with a fixed first word: that word is the index.
MILESTONES: list[Milestone] = _milestones(
    ("arguments", "the server read its arguments", r"non-default args: (?P<arguments>.*)"),
    ("api_start", "the API server started", r"vLLM API server version (?P<engine_version>\S+)"),
    ("architecture", "the model's architecture was resolved", r"Resolved architecture: (?P<architecture>\S+)"),
    ("max_model_len", "the context length was resolved", rf"Using max model len (?P<max_model_len>{_COUNT})"),
    (
        "engine_config",
        "the engine core started with its resolved configuration",
        r"Initializing a V1 LLM engine \(v(?P<engine_version>[^)\s]+)\) with config: (?P<config>.*)",
    ),
    ("model_runner", "the model runner was chosen", r"Using (?P<model_runner>V[0-9]+) Model Runner"),
    ("load_start", "loading of the model began", r"(?:Loading model from scratch|Starting to load model)"),
    (
        "moe_backend",
        "the kernel family of the expert layers was chosen",
        r"Using '?(?P<moe_backend>[\w.-]+)'? (?P<moe_quantization>[\w.-]{0,30}(?: [\w.-]{1,30})?) ?MoE backend",
    ),
    (
        "attention_backend",
        "the attention kernels were chosen",
        r"Using (?:AttentionBackendEnum\.)?(?P<attention_backend>[A-Za-z_0-9]+) attention backend",
    ),
    (
        "checkpoint",
        "the checkpoint was found on disk",
        rf"Filesystem type for checkpoints: (?P<checkpoint_filesystem>[^.\s]+)\. Checkpoint size: "
        rf"(?P<checkpoint_gib>{_N}) GiB\. Available RAM: (?P<available_ram_gib>{_N}) GiB",
    ),
    ("drafter_load", "loading of the drafter began", r"Loading drafter model"),
    ("weights_loaded", "weights were read", rf"Loading weights took (?P<seconds>{_N}) seconds"),
    (
        "model_loaded",
        "the model was in memory",
        rf"Model loading took (?P<model_gib>{_N}) GiB(?: memory)? and (?P<seconds>{_N}) seconds",
    ),
    (
        "compile_cache",
        "the compile cache was chosen",
        r"Using cache directory: (?P<compile_cache>.+?) for vLLM's torch\.compile",
    ),
    ("dynamo", "the model was traced", rf"Dynamo bytecode transform time: (?P<seconds>{_N}) s"),
    (
        "graph_compiled",
        "a graph was compiled",
        rf"Compiling a graph for (?P<compile_range>.+?) takes (?P<seconds>{_N}) s",
    ),
    (
        "compile_cached",
        "compiled code was loaded from the cache",
        r"Directly load (?:AOT compilation from path|"
        rf"the .*?compiled graph.*? from the cache, took (?P<seconds>{_N}) s)",
    ),
    ("compile_saved", "compiled code was saved to the cache", r"saved AOT compiled function to "),
    ("compiled", "compilation ended", rf"torch\.compile (?:took|takes) (?P<seconds>{_N}) s in total"),
    ("model_warmup", "warm-up of the model began", r"Warming up model for the compilation"),
    ("mamba_warmup", "warm-up of the Mamba2 kernels began", r"Warming up Mamba2 SSD Triton kernels"),
    (
        "profiled",
        "the first profiling run ended",
        rf"Initial profiling/warmup run took (?P<seconds>{_N}) s",
    ),
    ("model_warm", "warm-up of the model ended", r"Warming up done"),
    ("ssu_backend", "the Mamba state kernels were chosen", r"Using (?P<ssu_backend>\S+) Mamba SSU backend"),
    (
        "graph_estimate",
        "graph memory was estimated by the throw-away pass",
        rf"Estimated CUDA graph memory: (?P<graph_estimate_gib>{_N}) GiB",
    ),
    (
        "graphs",  # renamed by its place: see Boot
        "graph capture ended",
        rf"Graph capturing finished in (?P<seconds>{_N}) secs?, took (?P<graph_gib>-?{_N}) GiB",
    ),
    (
        "kv_memory",
        "memory for the KV pool was determined",
        rf"Available KV cache memory: (?P<kv_memory_gib>-?{_N}) GiB",
    ),
    (
        "kv_memory",
        "memory for the KV pool was set by hand",
        rf"Explicitly set \((?P<kv_memory_gib>{_N})/(?P<kv_node_total_gib>{_N})\) GiB for KV cache",
    ),
    (
        "kv_pool",
        "the KV pool was sized",
        rf"\S+ KV cache size: (?P<kv_tokens>{_COUNT}) tokens"
        rf"(?:.*?Maximum concurrency for (?P<kv_max_model_len>{_COUNT}) tokens per request: "
        rf"(?P<kv_concurrency>{_N})x)?",
    ),
    (
        "kv_concurrency",
        "the KV pool's capacity in full-length requests was printed",
        rf"Maximum concurrency for (?P<kv_max_model_len>{_COUNT}) tokens per request: (?P<kv_concurrency>{_N})x",
    ),
    ("jit_warmup_start", "warm-up of JIT kernels began", r"JIT kernel warmup starting"),
    ("jit_warmup", "warm-up of JIT kernels ended", rf"JIT kernel warmup finished in (?P<seconds>{_N}) ?s"),
    (
        "autotune",
        "autotuning of FlashInfer kernels began",
        r"(?:Running FlashInfer autotune|.{0,80}\[Autotuner\]: Autotuning process starts)",
    ),
    ("autotuned", "autotuning of FlashInfer kernels ended", r".{0,80}\[Autotuner\]: Autotuning process ends"),
    ("attention_warmup", "warm-up of the attention kernels began", r"Warming up FlashInfer attention"),
    (
        "graph_pool",
        "graph memory was compared with its estimate",
        rf"CUDA graph pool memory: (?P<graph_actual_gib>-?{_N}) GiB \(actual\), "
        rf"(?P<graph_estimated_gib>-?{_N}) GiB \(estimated\)",
    ),
    (
        "memory_ledger",
        "the engine printed its memory ledger",
        rf"Free memory on device(?: \S+)? \((?P<free_gib>{_N})/(?P<total_gib>{_N}) GiB\) on startup\. Desired GPU "
        rf"memory utilization is \((?P<utilization>{_N}), (?P<budget_gib>{_N}) GiB\)\. Actual usage is "
        rf"(?P<consumed_gib>{_N}) GiB for (?:consumed memory|weight)[^,]*, (?P<activation_gib>{_N}) GiB for peak "
        rf"activation(?:.*? and (?P<graphs_gib>-?{_N}) GiB for CUDAGraph)?",
    ),
    (
        "engine_init",
        "the engine core was ready",
        rf"init engine \(.*?\) took (?P<seconds>{_N}) s(?:econds)?(?: \(compilation: (?P<compilation_s>{_N}) s\b)?",
    ),
    ("tasks", "the API server connected to the engine core", r"Supported tasks: (?P<tasks>.*)"),
    ("http_start", "the HTTP server was started", r"Starting vLLM (?:API )?server.{0,12} on (?P<listen>https?://\S+)"),
    ("startup_complete", "the HTTP server took requests", r"Application startup complete"),
)

# Lines that are easily taken for more than they say: meaning, the words to find, what they do and do not say.
NOTICES: list[tuple[str, str, str]] = [
    (
        "fp4_weight_only",
        "Your GPU does not have native support for FP4 computation",
        "The weight-only Marlin path was chosen for FP4 weights. The line is printed whenever that path is chosen: it "
        "does not say what the device can compute.",
    ),
    (
        "kv_scale_kv",
        "Using KV cache scaling factor 1.0 for ",
        "K and V scales are 1.0: the checkpoint gave none (or gave 1.0), the FP8 KV cache is uncalibrated.",
    ),
    (
        "kv_scale_q_prob",
        "Using uncalibrated q_scale",
        "The scales of q and of the attention probabilities are 1.0. This says nothing about K and V scales, and it is "
        "printed only where kv_cache_dtype is exactly fp8: its absence proves nothing.",
    ),
    (
        "q_scale_from_k",
        "Checkpoint does not provide a q scaling factor",
        "The q scale was set to the K scale: the checkpoint has a K scale and no q scale.",
    ),
    (
        "modelopt_detected",
        "Detected ModelOpt ",
        "Printed once for each algorithm that a mixed checkpoint may hold, whether it holds it or not: not evidence of "
        "the checkpoint's quantisation. Read its index instead.",
    ),
    (
        "dense_checkpointing",
        "Hybrid model with EAGLE speculative decoding",
        "Prefix-cache retention was set to dense checkpointing for this hybrid model under speculation; warm requests "
        "cost more than without speculation.",
    ),
    (
        "cudagraph_mode",
        "CUDAGraphMode.",
        "The graph mode was changed because the attention backend does not support the one asked for.",
    ),
    ("async_scheduling_off", "Async scheduling not supported", "Asynchronous scheduling was switched off."),
    ("dev_endpoints", "SECURITY WARNING: Development endpoints", "Unauthenticated development endpoints are on."),
    (
        "graph_memory_profiling",
        "CUDA graph memory profiling is enabled",
        "Memory for graphs was estimated and taken from the KV pool.",
    ),
    (
        "worker_silent",
        "No available shared memory broadcast block found",
        "A worker did not answer for 60 s. Normal while it compiles or warms up; by itself no sign of a hang.",
    ),
    ("ulimit", "Found ulimit of ", "The limit of open files is low; many connections at once may fail."),
]
NOTICES_ANYWHERE: list[tuple[str, str, str, str]] = [
    (
        "nvrm_memory",
        "NVRM",
        "NV_ERR_NO_MEMORY",
        "The driver refused an allocation. Seen in healthy boots and in failing ones: by itself neither good nor bad.",
    ),
    ("mamba_align", "experimental", "align", "The Mamba cache mode align is experimental."),
    ("model_flag", "deprecated", "--model", "The model was given by an option that is going away."),
]


def first_word(text: str) -> str:
    """The index key of a message: its text up to the first blank or, in a name with dots, the first dot."""
    word = text[:40].partition(" ")[0]
    return word if word == "torch.compile" else word.partition(".")[0]


def _index() -> Mapping[str, list[Milestone]]:
    words: dict[str, list[Milestone]] = {}
    keys = {
        "kv_pool": ("GPU", "CPU", "XPU", "TPU", "HPU", "NPU"),
        "load_start": ("Loading", "Starting"),
        "autotune": ("Running",),
        "autotuned": (),
        "compiled": ("torch.compile",),
    }
    for milestone in MILESTONES:
        default = (first_word(milestone.pattern.pattern.replace("\\", "")),)
        for word in keys.get(milestone.name, default):
            words.setdefault(word, []).append(milestone)
    return words


BY_FIRST_WORD: Mapping[str, list[Milestone]] = _index()
AUTOTUNER = [m for m in MILESTONES if m.name in ("autotune", "autotuned")]
WHAT: Mapping[str, str] = {m.name: m.what for m in reversed(MILESTONES)} | {
    "graphs_profiled": "the memory-profiling pass captured its throw-away graphs",
    "graphs_captured": "the serving graphs were captured",
    "ready": "/health answered 200",
}


def notice(word: str, message: str, anywhere: bool) -> tuple[str, str] | None:
    """(meaning, what it says) of a message that is easily taken for more.

    ``word`` is the message's ``first_word``; ``anywhere`` looks beyond the beginning as well.
    """
    for meaning, begins, says in _NOTICES_BY_WORD.get(word, ()):
        if message.startswith(begins):
            return meaning, says
    if anywhere:
        for meaning, one, other, says in NOTICES_ANYWHERE:
            if one in message and other in message:
                return meaning, says
    return None


def dull(line: str) -> bool:
    """Can this line be passed over? True only for a line that no milestone, notice, warning or cause can be in.

    Cheap on purpose: nearly all lines of a big log are dull, and only the others are read with care.
    """
    at = line.find("] ")
    if at >= 0:
        word = first_word(line[at + 2 : at + 42])
        if word in BY_FIRST_WORD or word in _NOTICES_BY_WORD or word[:1] == "[" or "WARNING " in line[:120]:
            return False
    return not (
        "rror" in line
        or "xception" in line
        or "Application" in line
        or "version " in line
        or "Autotun" in line
        or "fault" in line
        or "terminate" in line
        or "what()" in line
        or "[shutdown]" in line
        or "NVRM" in line
    )


_NOTICES_BY_WORD: dict[str, list[tuple[str, str, str]]] = {}
for _notice in NOTICES:
    _NOTICES_BY_WORD.setdefault(first_word(_notice[1]), []).append(_notice)
