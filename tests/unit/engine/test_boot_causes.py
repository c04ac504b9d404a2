# ruff: noqa: E501  (log lines stand as they are printed)
"""The root cause of a failed boot is the line above the wrapper, with its kind."""

from __future__ import annotations

import engine_samples as samples
import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine.bootlog import BootLog
from ansible_collections.lobes.spike.plugins.module_utils.engine.causes import KINDS, Cause, boot_failure, text_cause


def failure(text: str, exit_code: int | None = 1, oom_killed: bool = False) -> Cause:
    log = BootLog()
    log.feed(text.encode())
    log.close()
    return boot_failure(log.cause(), log.core_exit, log.stage, exit_code, oom_killed, log.told_to_stop)


CAUSES = [
    ("memory", "ValueError: Free memory on device cuda:0 (40.1/122.82 GiB) on startup is less than desired GPU memory utilization (0.7, 85.97 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."),
    ("memory", "AssertionError: Error in memory profiling. Initial free memory 90.1 GiB, current free memory 110.3 GiB. This happens when other processes sharing the same container release GPU memory"),
    ("kv_too_small", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."),
    ("kv_too_small", "ValueError: To serve at least one request with the model's max seq len (1048576), (6.00 GiB KV cache is needed, which is larger than the available KV cache memory (2.10 GiB). Based on the available memory, the estimated maximum model length is 367000."),
    ("memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("memory", "torch.AcceleratorError: CUDA error: out of memory"),
    ("memory", "OSError: [Errno 28] No space left on device: '/psm_8c1d'"),
    ("file", "OSError: [Errno 28] No space left on device: '/root/.cache/vllm/x'"),
    ("file", "FileNotFoundError: Weight files referenced in index but missing: {'model-00003-of-00005.safetensors'}"),
    ("file", "RuntimeError: Cannot find any model weights with `nvidia/Lightning`"),
    ("file", "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"),
    ("file", "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache"),
    ("file", "PermissionError: [Errno 13] Permission denied: '/root/.cache/huggingface/hub/.locks/models--x/y.lock'"),
    ("unsupported", "ValueError: No NvFp4 MoE backend supports the deployment configuration."),
    ("unsupported", "ValueError: No valid attention backend found for cuda with head_size 128"),
    ("unsupported", "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys(['A'])"),
    ("unsupported", "RuntimeError: Failed to load the model config. If the model is a custom model not yet available in the HuggingFace transformers library, consider setting `trust_remote_code=True`"),
    ("unsupported", "ValueError: Stochastic rounding for Mamba cache with triton backend requires compute capability 10.0"),
    ("unsupported", "ValueError: MIXED_PRECISION quant_algo requires a non-empty 'quantized_layers' mapping"),
    ("argument", "KeyError: 'invalid tool call parser: qwen9 (chose from { hermes,qwen3_coder })'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "line"), CAUSES)
def test_the_cause_stands_above_the_wrapper(kind: str, line: str) -> None:
    cause = failure(samples.failed(line))
    assert (cause.kind, cause.text) == (kind, line)
    assert cause.stage == "model_runner"
    assert cause.remedy


@pytest.mark.parametrize("version", ["0.27.1", "0.29.0", "0.33.0"])
def test_every_release(version: str) -> None:
    assert failure(samples.failed(CAUSES[0][1], version=version)).kind == "memory"


def test_an_unknown_exception_is_named_and_not_its_wrapper() -> None:
    cause = failure(samples.failed("SomeLibraryError: flux capacitor missing"))
    assert (cause.kind, cause.text) == ("unknown", "SomeLibraryError: flux capacitor missing")


def test_an_unknown_exception_does_not_hide_a_kill() -> None:
    text = samples.traceback("EngineCore", 182, "21:52:30", "FooError: on the way down")
    assert failure(text, exit_code=137).kind == "killed"
    assert failure(text, exit_code=1).text == "FooError: on the way down"


def test_the_last_exception_of_the_first_process_counts() -> None:
    text = samples.traceback(
        "Worker", 9, "21:52:29", "AError: first", "", "During handling of the above", "BError: raised"
    )
    text += samples.traceback("APIServer", 1, "21:52:31", "CError: what the server made of it")
    assert failure(text).text == "BError: raised"


def test_a_message_that_begins_on_the_next_line() -> None:
    text = samples.traceback(
        "APIServer", 25, "21:50:40", "    raise RuntimeError('''", "RuntimeError: ", "",
        "        An attempt has been made to start a new process before the",
        "        current process has finished its bootstrapping phase.", error_level=False,
    )  # fmt: skip
    cause = failure(text)
    assert cause.text == "RuntimeError: An attempt has been made to start a new process before the"


def test_a_worker_below_the_core_is_the_root() -> None:
    worker = samples.traceback("Worker_TP0", 9, "21:52:29", '  File "z.py", line 1, in h', "XError: the root")
    rest = samples.failed("Exception: WorkerProc initialization failed due to an exception in a background process.")
    assert failure(worker + rest).text == "XError: the root"


def test_a_real_failure_three_processes_deep() -> None:
    cause = failure((samples.DATA / "vllm-0.32.0-cpu-failed.log").read_text(encoding="utf-8"))
    assert cause.text == "ModuleNotFoundError: No module named 'compressed_tensors'"
    assert cause.stage == "load_start"


def test_port_arguments_and_validation() -> None:
    port = samples.traceback(
        "APIServer",
        1,
        "21:50:35",
        "    sock.bind(addr)",
        "OSError: [Errno 98] Address already in use",
        error_level=False,
    )
    assert failure(port).kind == "port"
    assert (
        failure("ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): in use\n").kind
        == "port"
    )
    usage = "usage: vllm serve [model_tag] [options]\nvllm serve: error: unrecognized arguments: --max-modle-len 5\n"
    cause = failure(usage, exit_code=2)
    assert (cause.kind, cause.stage) == ("argument", "none")
    assert "--max-modle-len" in cause.text
    validation = samples.traceback(
        "APIServer", 1, "21:50:35",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, User-specified max_model_len (2000000) is greater than the derived max_model_len "
        "(max_position_embeddings=1048576).",
        error_level=False,
    )  # fmt: skip
    cause = failure(validation)
    assert cause.kind == "argument"
    assert cause.text.startswith("Value error, User-specified max_model_len (2000000)")


def test_kills_and_exits() -> None:
    boot = samples.thor(until="Mamba2 SSD")
    wrapped = boot + samples.traceback(
        "APIServer", 1, "21:53:00",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}",
    )  # fmt: skip
    cause = failure(wrapped)
    assert cause.kind == "killed"
    assert "SIGKILL" in cause.text
    assert cause.stage == "mamba_warmup"
    assert failure(boot, exit_code=137).kind == "killed"
    assert failure(boot, exit_code=137, oom_killed=True).text.endswith("(OOMKilled)")
    assert "SIGSEGV" in failure(boot, exit_code=139).text
    assert failure(boot, exit_code=0).kind == "exited_0"
    assert failure(boot, exit_code=2).kind == "argument"
    assert failure(boot, exit_code=1).kind == "unknown"
    assert failure(boot, exit_code=None).kind == "unknown"


def test_a_server_that_was_told_to_stop() -> None:
    boot = samples.thor(until="Mamba2 SSD")
    stop = "(APIServer pid=1) INFO 09-13 21:53:00 [launcher.py:130] [shutdown] API server: shutdown triggered\n"
    died = (
        "(APIServer pid=1) ERROR 09-13 21:53:00 [core_client.py:710] [shutdown] MPClient: engine core exited "
        "unexpectedly; starting cleanup\n"
    )
    assert failure(boot + stop, exit_code=0) == (
        "killed", "the engine was told to stop (SIGTERM) during its boot", "mamba_warmup",
        "Somebody stopped the container, or the container engine ended or restarted: look at its log.",
    )  # fmt: skip
    assert failure(boot + died + stop, exit_code=0).kind == "exited_0"


def test_quoted_errors_and_client_mistakes_are_no_cause() -> None:
    log = BootLog()
    log.feed(samples.real("plain"))
    log.close()
    assert log.cause() is None
    assert failure(samples.thor(), exit_code=0).kind == "exited_0"
    warning = (
        "(APIServer pid=1) WARNING 09-13 21:50:30 [a.py:1] This can cause `OSError: [Errno 24] Too many open files`\n"
    )
    assert failure(warning, exit_code=0).kind == "exited_0"


def test_native_crashes() -> None:
    text = "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: out of memory\n"
    cause = failure(text, exit_code=134)
    assert cause.kind == "memory"
    assert "out of memory" in cause.text


def test_dockers_own_reasons() -> None:
    assert text_cause("driver failed: Bind for 127.0.0.1:8090 failed: port is already allocated", "none").kind == "port"
    assert text_cause("listen tcp4 127.0.0.1:8090: bind: address already in use", "none").kind == "port"
    assert text_cause("Unknown runtime specified nvidia", "none").kind == "unsupported"
    assert text_cause("something else", "none").kind == "unknown"


def test_kinds_are_the_ones_of_the_contract() -> None:
    assert {kind for kind, _ in CAUSES} <= set(KINDS)
