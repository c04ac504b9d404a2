# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501  # log texts stay whole, so that a search for one finds it
"""The boot log of vLLM 0.29.0 for an arm, as events on the real box's clock.

Texts are what a log reader has to match; ``file:line`` are those of 0.29.0, which differ in other releases.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass

from .arm import CONSUMED_GIB, DRAFTER_GIB, FREE_GIB, GRAPHS_GIB, PEAK_GIB, TOTAL_GIB, WEIGHTS_GIB, Arm
from .faults import Faults

API, CORE, RAW = "APIServer", "EngineCore", ""
ROUTES = (
    ("/openapi.json", "GET, HEAD"),
    ("/docs", "GET, HEAD"),
    ("/docs/oauth2-redirect", "GET, HEAD"),
    ("/redoc", "GET, HEAD"),
    ("/load", "GET"),
    ("/version", "GET"),
    ("/health", "GET"),
    ("/metrics", "GET"),
    ("/tokenize", "POST"),
    ("/detokenize", "POST"),
    ("/v1/models", "GET"),
    ("/ping", "GET"),
    ("/ping", "POST"),
    ("/invocations", "POST"),
    ("/is_paused", "GET"),
    ("/v1/chat/completions", "POST"),
    ("/v1/chat/completions/batch", "POST"),
    ("/v1/responses", "POST"),
    ("/v1/responses/{response_id}", "GET"),
    ("/v1/responses/{response_id}/cancel", "POST"),
    ("/v1/completions", "POST"),
    ("/v1/messages", "POST"),
    ("/v1/messages/count_tokens", "POST"),
    ("/generative_scoring", "POST"),
    ("/scale_elastic_ep", "POST"),
    ("/is_scaling_elastic_ep", "POST"),
    ("/v1/chat/completions/render", "POST"),
    ("/v1/messages/render", "POST"),
    ("/v1/completions/render", "POST"),
    ("/v1/chat/completions/derender", "POST"),
    ("/v1/completions/derender", "POST"),
    ("/inference/v1/generate", "POST"),
)
DEV_ROUTES = tuple(
    (f"/{name}", method)
    for name, method in (
        ("reset_prefix_cache", "POST"),
        ("reset_mm_cache", "POST"),
        ("reset_encoder_cache", "POST"),
        ("pause", "POST"),
        ("resume", "POST"),
        ("abort_requests", "POST"),
        ("collective_rpc", "POST"),
        ("server_info", "GET"),
        ("sleep", "POST"),
        ("wake_up", "POST"),
        ("is_sleeping", "GET"),
        ("init_weight_transfer_engine", "POST"),
        ("start_weight_update", "POST"),
        ("start_draft_weight_update", "POST"),
        ("update_weights", "POST"),
        ("finish_weight_update", "POST"),
        ("update_weight_version", "POST"),
        ("weight_info", "GET"),
        ("get_world_size", "GET"),
    )
)
LOGO = (
    "",
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
    "",
)


@dataclass(frozen=True)
class Line:
    """One thing to print. after_s is the real box's time since the line before; source '' is a bare print."""

    after_s: float
    process: str
    text: str
    source: str = ""
    level: str = "INFO"
    stderr: bool = False
    stage: str = ""  # set where a fault can stop the boot or a caller wants to know


def version(faults: Faults) -> str:
    """The release that the double plays."""
    return "0.27.1" if faults.on("log-old") else "0.32.0" if faults.on("log-new") else "0.29.0"


def settings_line(s: argparse.Namespace, arm: Arm, version: str) -> str:
    """The long line of resolved settings that the core prints."""
    spec = "None"
    if arm.spec_method:
        spec = f"SpeculativeConfig(method={arm.spec_method!r}, model={arm.spec_model!r}, num_spec_tokens={arm.spec_k})"
    kv = "fp8" if arm.kv_asked == "fp8" else arm.kv_dtype
    parser = s.reasoning_parser or ""
    return (
        f"Initializing a V1 LLM engine (v{version}) with config: model={arm.model!r}, speculative_config={spec}, "
        f"tokenizer={arm.model!r}, skip_tokenizer_init=False, tokenizer_mode=auto, revision={s.revision}, "
        f"tokenizer_revision=None, trust_remote_code={s.trust_remote_code}, dtype=torch.bfloat16, max_seq_len={arm.max_len}, "
        f"download_dir={s.download_dir!r}, load_format=auto, tensor_parallel_size=1, pipeline_parallel_size=1, "
        "data_parallel_size=1, decode_context_parallel_size=1, dcp_comm_backend=ag_rs, disable_custom_all_reduce=False, "
        f"quantization=modelopt_mixed, quantization_config=None, enforce_eager={s.enforce_eager}, "
        f"enable_return_routed_experts=False, kv_cache_dtype={kv}, device_config=cuda, "
        "structured_outputs_config=StructuredOutputsConfig(backend='auto', disable_any_whitespace=False, "
        f"disable_additional_properties=False, reasoning_parser={parser!r}, reasoning_parser_plugin='', "
        "enable_in_reasoning=False), observability_config=ObservabilityConfig(show_hidden_metrics_for_version=None, "
        "otlp_traces_endpoint=None, collect_detailed_traces=None, "
        f"per_request_spec_decode_metrics={s.per_request_spec_decode_metrics or 'none'!r}, kv_cache_metrics=False, "
        "kv_cache_metrics_sample=0.01, cudagraph_metrics=False, enable_layerwise_nvtx_tracing=False, enable_mfu_metrics=False, "
        "enable_mm_processor_stats=False, enable_logging_iteration_details=False, jit_monitor_mode='warn', "
        f"jit_monitor_verbose=False), seed=0, served_model_name={arm.served}, "
        f"enable_prefix_caching={not s.no_enable_prefix_caching}, enable_chunked_prefill=True, pooler_config=None, "
        "compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'debug_dump_path': None, 'cache_dir': '', "
        "'compile_cache_save_format': 'binary', 'backend': 'inductor', 'custom_ops': ['none'], 'splitting_ops': "
        "['vllm::unified_attention', 'vllm::unified_attention_with_output', 'vllm::mamba_mixer2', 'vllm::short_conv'], "
        "'compile_mm_encoder': False, 'compile_sizes': [], 'compile_ranges_endpoints': "
        f"[{s.max_num_batched_tokens or 8192}], 'inductor_compile_config': "
        "{'enable_auto_functionalized_v2': False, 'combo_kernels': True, 'benchmark_combo_kernel': True}, "
        "'inductor_passes': {}, 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'cudagraph_num_of_warmups': 1, "
        f"'cudagraph_capture_sizes': {[1, 2, 4, *range(8, 513, 8)]}, 'cudagraph_copy_inputs': False, "
        "'cudagraph_specialize_lora': True, 'max_cudagraph_capture_size': 512, 'static_all_moe_layers': [], "
        "'fast_moe_cold_start': True}"
    )


def _bars(process: str, name: str, total: int, seconds: float) -> Iterator[Line]:
    for done in range(total + 1):
        rate = "?it/s" if not done else f"{seconds / total:5.2f}s/it"
        at = seconds * done / total
        bar = (
            f"{name}: {100 * done // total:3d}% Completed | {done}/{total} "
            f"[00:{int(at):02d}<{'?' if not done else f'00:{int(seconds - at):02d}'}, {rate}]"
        )
        yield Line(0 if not done else seconds / total, process, "\r" + bar, stderr=True)
    yield Line(0, process, "\r" + bar, stderr=True)
    yield Line(0, process, "", stderr=True)


def _capture(seconds: float, kinds: tuple[str, ...]) -> Iterator[Line]:
    """tqdm's own progress: many updates in one line, parted by carriage returns."""
    for kind in kinds:
        updates = "".join(
            f"\rCapturing CUDA graphs ({kind}): {p:3d}%|{'█' * (p // 10):<10}| {p * 67 // 100}/67"
            for p in range(0, 101, 10)
        )
        yield Line(seconds / len(kinds), CORE, updates, stderr=True)


def script(
    s: argparse.Namespace,
    arm: Arm,
    faults: Faults,
    warm_caches: bool,
    startup_plan: bool,
    logo: bool,
    dev_mode: bool,
    port: int,
    api_pid: int,
) -> Iterator[Line]:
    """The lines of a boot that gets ready, in order. Stages mark where a fault may end it."""
    new, old = faults.on("log-new"), faults.on("log-old")
    rng = random.Random(arm.max_len)  # a little life in the figures, the same at every boot of an arm

    def api(after: float, source: str, text: str, level: str = "INFO", stage: str = "") -> Line:
        return Line(after, API, text, source, level, stage=stage)

    def core(after: float, source: str, text: str, level: str = "INFO", stage: str = "") -> Line:
        return Line(after, CORE, text, source, level, stage=stage)

    yield Line(3.0, RAW, "INFO {stamp} [__init__.py:225] Automatically detected platform cuda.")
    if logo:
        for row in LOGO:
            yield api(
                5.0 if row == LOGO[0] else 0, "api_utils.py:347", row.format(model=arm.model, version=version(faults))
            )
    yield api(0.2, "api_utils.py:286", f"non-default args: {s.given}", stage="args")
    yield api(4.0, "model.py:684", "Resolved architecture: NemotronHForCausalLM", stage="config")
    yield api(0.1, "model.py:2021", f"Using max model len {arm.max_len}")
    if not new:
        for text in (
            "fp8 checkpoint (quant_algo=FP8). ",
            "NVFP4 checkpoint (quant_algo=NVFP4). ",
            "NVFP4 checkpoint (quant_algo=W4A16_NVFP4). ",
            "MXFP8 checkpoint. ",
        ):
            yield api(
                0,
                "modelopt.py:1026",
                f"Detected ModelOpt {text}Please note that the format is experimental and could change.",
                "WARNING",
            )
    yield api(
        0,
        "config.py:438",
        f"Mamba cache mode is set to '{s.mamba_cache_mode or 'align'}' for NemotronHForCausalLM by default when prefix caching is enabled",
    )
    yield api(
        0,
        "config.py:447",
        "Warning: Prefix caching in Mamba cache 'align' mode is currently enabled. Its support for Mamba layers is experimental.",
        "WARNING",
    )
    if arm.spec_method == "dspark":
        yield api(2.0, "model.py:684", "Resolved architecture: Qwen3DSparkModel")
        yield api(0.1, "model.py:2021", f"Using max model len {arm.max_len}")
        yield api(
            0,
            "arg_utils.py:2404",
            "Hybrid model with EAGLE speculative decoding: defaulting prefix_cache_retention_interval to dense checkpointing.",
        )
    yield api(0.1, "vllm.py:1275", "Asynchronous scheduling is enabled.")
    yield api(
        0,
        "config.py:621",
        f"Setting attention block size to {arm.block} tokens to ensure that attention page size is >= mamba page size.",
    )
    if faults.on("log-noise"):
        yield Line(
            0,
            RAW,
            "[W1130 04:12:27.782779935 utils.cpp:68] Warning: NUMA binding: Using MEMBIND policy (function init_cpu_memory_env)",
            stderr=True,
        )
        yield Line(0, RAW, "WARNING {stamp} [importing.py:45] Triton kernels may\rreload; this is harmless.")
    yield core(14.0, "core.py:123", settings_line(s, arm, version(faults)), stage="core")
    if faults.on("log-long-line"):
        yield core(0, "core.py:140", "Resolved environment: " + ", ".join(f"VLLM_KNOB_{i}=default" for i in range(900)))
    yield core(
        1.5,
        "parallel_state.py:1775",
        "world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:39415 backend=nccl",
    )
    yield core(
        0.5,
        "parallel_state.py:2119",
        "rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, EP rank 0, EPLB rank N/A",
        stage="device",
    )
    yield core(0.2, "gpu_worker.py:429", "Using V2 Model Runner")
    yield core(0.3, "model_runner.py:382", "Loading model from scratch...")
    yield core(
        0.2,
        "nvfp4.py:304",
        "Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['FLASHINFER_TRTLLM', 'FLASHINFER_CUTEDSL', 'FLASHINFER_CUTLASS', 'VLLM_CUTLASS', 'MARLIN', 'EMULATION'].",
    )
    yield core(
        0,
        "cuda.py:492",
        "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN', 'FLEX_ATTENTION'].",
    )
    yield core(
        0.2,
        "weight_utils.py:863",
        "Filesystem type for checkpoints: EXT4. Checkpoint size: 20.42 GiB. Available RAM: 86.36 GiB.",
        stage="load",
    )
    load = 18.1 + rng.uniform(-0.2, 0.2)
    yield from _bars(CORE, "Loading safetensors checkpoint shards", 5, load)
    yield core(0, "default_loader.py:430", f"Loading weights took {load:.2f} seconds")
    if arm.spec_method == "dspark":
        yield core(0.2, "model_runner.py:391", "Loading drafter model...")
        yield core(
            0,
            "cuda.py:492",
            "Using TRITON_ATTN attention backend out of potential backends: ['TRITON_ATTN', 'FLEX_ATTENTION'].",
        )
        yield from _bars(CORE, "Loading safetensors checkpoint shards", 1, 1.4)
        yield core(0, "default_loader.py:430", "Loading weights took 1.42 seconds")
    yield core(
        0,
        "marlin_utils_fp4.py:204",
        "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. Weight-only FP4 compression will be used leveraging the Marlin kernel. This may degrade performance for compute-heavy workloads.",
        "WARNING",
    )
    if faults.on("kv-scale-notices"):
        yield core(
            0,
            "kv_cache.py:97",
            "Checkpoint does not provide a q scaling factor. Setting it to k_scale. This only matters for FP8 Attention backends (flash-attn or flashinfer).",
            "WARNING",
        )
        yield core(
            0,
            "kv_cache.py:150",
            "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale scaling factors are properly set in the checkpoint.",
            "WARNING",
        )
    if arm.kv_asked == "fp8":
        yield core(
            0,
            "kv_cache.py:185",
            "Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention. This may cause accuracy issues. Please make sure q/prob scaling factors are available in the fp8 checkpoint.",
            "WARNING",
        )
    weights = WEIGHTS_GIB + (DRAFTER_GIB if arm.spec_method else 0)
    memory = "GiB" if old else "GiB memory"
    yield core(
        0.4,
        "model_runner.py:404",
        f"Model loading took {weights:.2f} {memory} and {load + 0.42:.6f} seconds",
        stage="loaded",
    )
    if warm_caches:
        yield core(
            1.5,
            "decorators.py:631",
            "Directly load AOT compilation from path /root/.cache/vllm/torch_compile_cache/torch_aot_compile/2f1cbe60ad/rank_0_0/model",
        )
        yield core(0.5, "monitor.py:53", "torch.compile took 2.03 s in total", stage="compiled")
    else:
        yield core(
            1.0,
            "backends.py:1069",
            "Using cache directory: /root/.cache/vllm/torch_compile_cache/2f1cbe60ad/rank_0_0/backbone for vLLM's torch.compile",
        )
        yield core(
            arm.compile_s * 0.4, "backends.py:1128", f"Dynamo bytecode transform time: {arm.compile_s * 0.4:.2f} s"
        )
        yield core(
            arm.compile_s * 0.5,
            "backends.py:390",
            f"Compiling a graph for compile range (1, {s.max_num_batched_tokens or 8192}) takes {arm.compile_s * 0.5:.2f} s",
        )
        yield core(
            arm.compile_s * 0.1, "monitor.py:53", f"torch.compile took {arm.compile_s:.2f} s in total", stage="compiled"
        )
    warm = 91.0 + rng.uniform(-0.3, 0.3)
    if not startup_plan:
        yield core(1.0, "mamba_mixer2.py:597", "Warming up Mamba2 SSD Triton kernels...", stage="mamba")
        yield core(warm, "monitor.py:81", f"Initial profiling/warmup run took {warm:.2f} s", stage="profiled")
    yield core(2.0, "ssu_dispatch.py:310", f"Using {s.mamba_backend or 'flashinfer'} Mamba SSU backend.")
    if arm.spec_method:
        yield core(
            1.0,
            "compilation.py:1465",
            "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend FlashInferBackend (support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE",
            "WARNING",
        )
    kinds = ("PIECEWISE",) if arm.spec_method else ("PIECEWISE", "FULL")
    if not startup_plan:
        yield from _capture(max(arm.to_pool_s - 4, 1), kinds)
        yield core(
            0.5,
            "model_runner.py:960",
            f"Graph capturing finished in {max(arm.to_pool_s - 2, 1):.0f} secs, took {GRAPHS_GIB:.2f} GiB",
        )
    yield core(1.0, "gpu_worker.py:625", f"Available KV cache memory: {arm.available_gib:.2f} GiB", stage="memory")
    if not startup_plan:
        effective = arm.utilization - GRAPHS_GIB / TOTAL_GIB
        yield core(
            0,
            "gpu_worker.py:640",
            f"CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization={arm.utilization:.4f} is equivalent to --gpu-memory-utilization={effective:.4f} without CUDA graph memory profiling.",
        )
    pool = f"GPU KV cache size: {arm.pool_tokens:,} tokens"
    ceiling = f"Maximum concurrency for {arm.max_len:,} tokens per request: {arm.concurrency:.2f}x"
    if old:
        yield core(0, "kv_cache_utils.py:1307", pool)
        yield core(0, "kv_cache_utils.py:1312", ceiling, stage="pool")
    else:
        yield core(0, "kv_cache_utils.py:2032", f"{pool}, {ceiling}", stage="pool")
    rest = arm.to_ready_s * (faults.number("slow-boot", 4) if faults.on("slow-boot") else 1.0)
    jit, tune, graphs = rest * 0.2, rest * 0.35, rest * 0.4
    yield core(0.2, "kernel_warmup.py:124", "JIT kernel warmup starting.", stage="warmup")
    yield core(jit, "kernel_warmup.py:131", f"JIT kernel warmup finished in {jit:.2f}s.")
    yield core(
        0.1, "kernel_warmup.py:287", f"Running FlashInfer autotune with {s.max_num_batched_tokens or 8192} tokens."
    )
    for i in range(4):
        yield core(tune / 4, "autotuner.py:262", f"[Autotuner]: Tuning profile {i + 1}/4", stage="tuning")
    yield core(0.1, "kernel_warmup.py:309", "Warming up FlashInfer attention.")
    yield from _capture(graphs, kinds)
    yield core(
        0.2, "model_runner.py:960", f"Graph capturing finished in {graphs:.0f} secs, took {GRAPHS_GIB * 0.75:.2f} GiB"
    )
    yield core(
        0,
        "gpu_worker.py:797",
        f"CUDA graph pool memory: {GRAPHS_GIB * 0.75:.2f} GiB (actual), {GRAPHS_GIB:.2f} GiB (estimated), difference: {GRAPHS_GIB * 0.25:.2f} GiB (33.3%).",
    )
    if not s.kv_cache_memory and not startup_plan:
        yield core(
            rest * 0.04,
            "gpu_worker.py:860",
            (
                f"Free memory on device ({FREE_GIB}/{TOTAL_GIB} GiB) on startup. Desired GPU memory utilization is ({arm.utilization}, "
                f"{arm.utilization * TOTAL_GIB:.2f} GiB). Actual usage is {CONSUMED_GIB + weights - WEIGHTS_GIB:.2f} GiB for consumed memory "
                f"(weights + non-torch), {PEAK_GIB} GiB for peak activation, and {GRAPHS_GIB * 0.75:.2f} GiB for CUDAGraph memory. Replace "
                f"gpu_memory_utilization config with `--kv-cache-memory={int(arm.available_gib * 2**30)}` ({arm.available_gib:.2f} GiB) to fit into "
                f"requested memory, or `--kv-cache-memory={int(arm.available_gib * 1.12 * 2**30)}` ({arm.available_gib * 1.12:.2f} GiB) to fully utilize gpu memory."
            ),
        )
    yield core(
        rest * 0.01,
        "core.py:361",
        f"init engine (profile, create kv cache, warmup model) took {arm.init_s:.2f} s (compilation: {arm.compile_s:.2f} s)",
        stage="engine",
    )
    if faults.on("log-noise"):
        yield Line(0.5, CORE, "Engine core handshake done.", "core.py:914", stage="late")
    yield api(1.5, "entry.py:135", "Supported tasks: ['generate']", stage="early")
    if dev_mode:
        yield api(
            0,
            "__init__.py:44",
            "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in production!",
            "WARNING",
        )
    if s.enable_auto_tool_choice:
        yield api(0, "parser_manager.py:36", '"auto" tool choice has been enabled.')
    yield api(
        0.2,
        "serving.py:210",
        "Default vLLM sampling parameters overridden by model's generation_config.json: {'temperature': 1.0, 'top_p': 0.95}. If this is not intended, please relaunch vLLM instance with `--generation-config vllm`.",
        "WARNING",
    )
    yield api(
        1.5,
        "hf.py:547",
        "Detected the chat template content format to be 'string'. You can set `--chat-template-content-format` to override this.",
    )
    yield api(0.3, "entry.py:139", f"Starting vLLM server on http://{s.host or '0.0.0.0'}:{port}")
    yield api(0, "launcher.py:61", "Available routes are:")
    for path, methods in (*ROUTES[:12], *(DEV_ROUTES if dev_mode else ()), *ROUTES[12:]):
        yield api(0, "launcher.py:70", f"Route: {path}, Methods: {methods}")
    yield Line(0, API, f"INFO:     Started server process [{api_pid}]", stderr=True)
    yield Line(0, API, "INFO:     Waiting for application startup.", stderr=True)
    yield Line(0.2, API, "INFO:     Application startup complete.", stderr=True, stage="ready")


@dataclass(frozen=True)
class Death:
    """How a boot dies: before which stage, in which process, what is printed, with what exit code."""

    stage: str
    process: str
    error: str
    code: int = 1
    where: str = "gpu_worker.py:412"
    proc_status: str = "{'EngineCore': 1}"


def deaths(arm: Arm, free_gib: float) -> dict[str, Death]:
    """The boot failures by fault name."""
    want = f"({arm.utilization}, {arm.utilization * TOTAL_GIB:.2f} GiB)"
    return {
        "die-at-boot-memory": Death(
            "load",
            CORE,
            f"ValueError: Free memory on device cuda:0 ({free_gib:.2f}/{TOTAL_GIB} GiB) on startup is less than desired GPU memory utilization {want}. Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        ),
        "die-at-boot-kv": Death(
            "pool",
            CORE,
            f"ValueError: To serve at least one request with the model's max seq len ({arm.max_len}), ({arm.need_gib:.2f} GiB KV cache is needed, which is larger than the available KV cache memory ({min(arm.available_gib, arm.need_gib * 0.6):.2f} GiB). Based on the available memory, the estimated maximum model length is {int(arm.max_len * 0.6)}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        ),
        "die-at-boot-blocks": Death(
            "pool",
            CORE,
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        ),
        "die-at-boot-profiling": Death(
            "memory",
            CORE,
            f"AssertionError: Error in memory profiling. Initial free memory {free_gib:.2f} GiB, current free memory {free_gib + 20:.2f} GiB. This happens when other processes sharing the same container release GPU memory while vLLM is profiling during initialization. To fix this, ensure consistent GPU memory allocation or isolate vLLM in its own container.",
        ),
        "die-at-boot-oom": Death(
            "loaded",
            CORE,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.38 GiB. GPU 0 has a total capacity of 122.82 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 17.11 GiB memory in use.",
        ),
        "die-at-boot-killed": Death("loaded", CORE, "", proc_status="{'EngineCore': -9}"),
        "die-at-boot-parser": Death(
            "args",
            API,
            "KeyError: 'invalid tool call parser: qwen9_coder (chose from { deepseek_v3,hermes,qwen3_coder,qwen3_xml })'",
        ),
        "die-at-boot-port": Death("args", API, "OSError: [Errno 98] Address already in use"),
        "die-at-boot-unsupported": Death(
            "config",
            API,
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, Model architectures ['NemotronXForCausalLM'] are not supported for now. Supported architectures: dict_keys(['LlamaForCausalLM', 'NemotronHForCausalLM'])",
        ),
        "die-at-boot-config": Death(
            "config",
            API,
            "RuntimeError: Failed to load the model config. If the model is a custom model not yet available in the HuggingFace transformers library, consider setting `trust_remote_code=True` in LLM or using the `--trust-remote-code` flag in the CLI.",
        ),
        "die-at-boot-quant": Death("config", API, "ValueError: Missing 'quant_algo' in quantization config"),
        "die-at-boot-file": Death(
            "loaded",
            CORE,
            "FileNotFoundError: Weight files referenced in index but missing: {'model-00003-of-00005.safetensors'}",
        ),
        "die-at-boot-shard": Death(
            "loaded",
            CORE,
            "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        ),
        "die-at-boot-locks": Death(
            "config",
            API,
            f"PermissionError: [Errno 13] Permission denied: '/root/.cache/huggingface/hub/.locks/models--{arm.model.replace('/', '--')}/4f2a.lock'",
        ),
        "die-at-boot-space": Death(
            "compiled",
            CORE,
            "OSError: [Errno 28] No space left on device: '/root/.cache/vllm/torch_compile_cache/2f1cbe60ad'",
        ),
        "die-at-boot-exit-0": Death("profiled", API, "", code=0),
    }
