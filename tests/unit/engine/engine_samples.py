# ruff: noqa: E501  (log lines stand as they are printed)
"""Boot logs for tests: the times and figures of a hand-made spike on a Thor, in the line forms of several releases."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"


def real(name: str) -> bytes:
    """A captured log of the real vLLM 0.29.0 (CPU build): plain or ngram."""
    return (DATA / f"vllm-0.29.0-cpu-{name}.log").read_bytes()


CONFIG = (
    "Initializing a V1 LLM engine (v{version}) with config: model='nvidia/Lightning', "
    "speculative_config={speculative}, tokenizer='nvidia/Lightning', revision=bee7596271d1, trust_remote_code=True, "
    "dtype=torch.bfloat16, max_seq_len=1048576, load_format=auto, tensor_parallel_size=1, "
    "quantization=modelopt_mixed, enforce_eager=False, kv_cache_dtype={kv}, device_config=cuda, "
    "structured_outputs_config=StructuredOutputsConfig(backend='auto', reasoning_parser='nemotron_v3', x=[1, 2]), "
    "seed=0, served_model_name=nvidia/Lightning, enable_prefix_caching=True, enable_chunked_prefill=True, "
    "compilation_config={{'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': "
    "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'splitting_ops': ['a', 'b, c']}}, "
    "kernel_config=KernelConfig(moe_backend='auto', linear_backend='auto')"
)


def thor(
    version: str = "0.29.0", *, kv: str = "fp8", drafter: bool = False, date: str = "09-13", until: str | None = None
) -> str:
    """A Thor's boot in the line forms of ``version``, cut after the first line that holds ``until``."""
    minor = int(version.split(".")[1])
    speculative = "SpeculativeConfig(method='dspark', model='nvidia/D', num_spec_tokens=5)" if drafter else "None"
    api: list[tuple[str, str, str]] = [
        ("I", "21:50:33", f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}"),
        (
            "I",
            "21:50:33",
            "non-default args: {'model': 'nvidia/Lightning', 'api_key': ['s3cr3t'], 'max_model_len': 1048576}",
        ),
        ("I", "21:50:40", "Resolved architecture: NemotronHForCausalLM"),
        ("I", "21:50:40", "Using max model len 1048576"),
    ]
    if drafter:
        api.append(("I", "21:50:41", "Resolved architecture: Qwen3DSparkModel"))
    if minor < 30:
        api += [
            (
                "W",
                "21:50:41",
                "Detected ModelOpt fp8 checkpoint (quant_algo=FP8). Please note that the format is experimental",
            ),
            ("W", "21:50:41", "Detected ModelOpt NVFP4 checkpoint (quant_algo=NVFP4). Please note"),
            ("W", "21:50:41", "Detected ModelOpt NVFP4 checkpoint (quant_algo=W4A16_NVFP4). Please note"),
        ]
    tag = "[backbone] " if minor >= 32 else ""
    memory = " memory" if minor >= 28 else ""
    core: list[tuple[str, str, str]] = [
        ("I", "21:51:10", CONFIG.format(version=version, kv=kv, speculative=speculative)),
        ("I", "21:51:20", "Using V2 Model Runner"),
        ("I", "21:51:20", "Loading model from scratch..."),
        ("I", "21:51:42", "Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['FLASHINFER_TRTLLM', 'MARLIN']."),
        ("I", "21:51:42", "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN']."),
        ("I", "21:51:42", "Filesystem type for checkpoints: EXT4. Checkpoint size: 20.42 GiB. Available RAM: 86.36 GiB."),
        ("", "", "\rLoading safetensors checkpoint shards:   0% Completed | 0/5 [00:00<?, ?it/s]"),
        ("", "", "\rLoading safetensors checkpoint shards: 100% Completed | 5/5 [00:18<00:00,  3.62s/it]"),
        ("", "", "\rLoading safetensors checkpoint shards: 100% Completed | 5/5 [00:18<00:00,  3.62s/it]"),
        ("", "", ""),
        ("I", "21:51:59", "Loading weights took 18.10 seconds"),
        ("W", "21:51:59", "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. "
         "Weight-only FP4 compression will be used leveraging the Marlin kernel. This may degrade performance"),
        ("W", "21:51:59", "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale"),
    ]  # fmt: skip
    if kv == "fp8":
        core.append(
            ("W", "21:51:59", "Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention. This may")
        )
    core += [
        ("I", "21:52:00", f"Model loading took 17.82 GiB{memory} and 18.520412 seconds"),
        ("I", "21:52:02", f"{tag}Using cache directory: /root/.cache/vllm/torch_compile_cache/ab12/rank_0_0/backbone for vLLM's torch.compile"),
        ("I", "21:52:05", f"{tag}Dynamo bytecode transform time: 3.07 s"),
        ("I", "21:52:14", f"{tag}Compiling a graph for compile range (1, 16384) takes 9.10 s"),
        ("I", "21:52:15", f"{tag}torch.compile took 14.82 s in total"),
        ("I", "21:52:15", "Warming up Mamba2 SSD Triton kernels..."),
        ("I", "21:53:46", f"{tag}Initial profiling/warmup run took 90.83 s"),
        ("I", "21:53:48", "Using flashinfer Mamba SSU backend."),
        ("", "", "Capturing CUDA graphs (FULL):  50%|█████     | 2/4 [00:20<00:20]\rCapturing CUDA graphs (FULL): 100%|████| 4/4"),
        ("I", "21:54:37", "Graph capturing finished in 49 secs, took 1.87 GiB"),
        ("I", "21:54:38", "Available KV cache memory: 59.44 GiB"),
        ("I", "21:54:38", "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.7"),
    ]  # fmt: skip
    if minor <= 27:
        core += [
            ("I", "21:54:38", "GPU KV cache size: 20,431,534 tokens"),
            ("I", "21:54:38", "Maximum concurrency for 1,048,576 tokens per request: 19.49x"),
        ]
    else:
        host = " + host" if minor >= 30 else ""
        core.append(
            ("I", "21:54:38", f"GPU KV cache size: 20,431,534 tokens{host}, Maximum concurrency for 1,048,576 tokens "
             "per request: 19.49x")
        )  # fmt: skip
    core += [
        ("I", "21:54:39", "JIT kernel warmup starting."),
        ("I", "21:55:20", "JIT kernel warmup finished in 41.22s."),
        ("I", "21:55:21", "Running FlashInfer autotune with 16384 tokens."),
        ("", "", "2026-09-13 21:55:22,692 - INFO - autotuner.py:262 - flashinfer.jit: [Autotuner]: Autotuning process starts ..."),
        ("I", "21:59:40", "Graph capturing finished in 122 secs, took 4.10 GiB"),
        ("I", "21:59:40", "CUDA graph pool memory: 4.10 GiB (actual), 1.87 GiB (estimated), difference: 2.23 GiB (54.4%)."),
        ("I", "21:59:41", "Free memory on device (94.49/122.82 GiB) on startup. Desired GPU memory utilization is (0.7, 85.97 GiB). "
         "Actual usage is 22.84 GiB for consumed memory (weights + non-torch), 2.92 GiB for peak activation, and 4.1 GiB "
         "for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=63000000000`"),
        ("I", "21:59:52", "init engine (profile, create kv cache, warmup model) took 473.29 s (compilation: 14.82 s)"),
    ]  # fmt: skip
    tail: list[tuple[str, str, str]] = [
        ("I", "21:59:51", "Supported tasks: ['generate']"),  # a second before the core's last line: really seen
        ("I", "21:59:53", "Starting vLLM server on http://0.0.0.0:8000"),
        ("I", "21:59:53", "Available routes are:"),
        *(("I", "21:59:53", f"Route: /r{n}, Methods: POST") for n in range(60)),
    ]
    lines = ["WARNING 09-13 21:50:30 [importing.py:45] Triton is installed, but doesn't include CPU backend."]
    lines += [_line("APIServer", 1, *row, minor=minor) for row in api]
    lines += ["[W913 21:51:05.738493403 utils.cpp:68] Warning: a C++ line"]
    lines += [_line("EngineCore", 182, *row, minor=minor) for row in core]
    lines += [_line("APIServer", 1, *row, minor=minor) for row in tail]
    prefix = "(APIServer pid=1) " if minor <= 30 else ""
    lines += [f"{prefix}INFO:     Application startup complete."]
    kept: list[str] = []
    for line in lines:
        kept.append(line.replace("09-13", date))
        if until is not None and until in line:
            break
    return "\n".join(kept) + "\n"


def _line(process: str, pid: int, level: str, time: str, message: str, minor: int) -> str:
    prefix = f"({process} pid={pid}) "
    if not level:
        # A bare print: prefixed by the wrapper of 0.20 to 0.30, alone from 0.31 on.
        return f"{prefix if minor <= 30 else ''}{message}"
    word = {"I": "INFO", "W": "WARNING"}[level]
    # The file and line change with every release; nothing may depend on them.
    return f"{prefix}{word} 09-13 {time} [file_{minor}.py:{minor * 7}] {message}\r"


def traceback(process: str, pid: int, time: str, *lines: str, error_level: bool = True) -> str:
    """A traceback as a process prints it, each line with its prefix."""
    head = f"({process} pid={pid}) " + (f"ERROR 09-13 {time} [core.py:1374] " if error_level else "")
    return "".join(f"{head}{line}\n" for line in ("Traceback (most recent call last):", *lines))


def failed(
    cause: str, *, after: str = "Using V2 Model Runner", version: str = "0.29.0", codes: str = "{'EngineCore': 1}"
) -> str:
    """A boot whose engine core ended with ``cause``, with the wrapper's lines below it."""
    return (
        thor(version, until=after)
        + "(EngineCore pid=182) ERROR 09-13 21:52:30 [core.py:1374] EngineCore failed to start.\n"
        + traceback(
            "EngineCore", 182, "21:52:30",
            '  File "/usr/lib/python3.12/dist-packages/vllm/v1/engine/core.py", line 1345, in run_engine_core',
            "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
            "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "    raise ValueError(",
            cause,
        )
        + "(EngineCore pid=182) Process EngineCore:\n"
        + traceback("EngineCore", 182, "21:52:30", '  File "x.py", line 3, in f', cause, error_level=False)
        + traceback(
            "APIServer", 1, "21:52:31", '  File "y.py", line 9, in g',
            f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {codes}",
            error_level=False,
        )
    )  # fmt: skip
