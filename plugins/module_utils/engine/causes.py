# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a boot failed: the line of the real cause, not of the wrapper around it.

A failing engine prints its exception in the process where it happened, then each process above reports that something
below failed ("EngineCore failed to start", "Engine core initialization failed. See root cause above"). The first line
that states a known cause wins; without one, the last exception of the first traceback. Text to match comes from the
facts on the engine, part 2.3; file names and line numbers are never used.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .records import Record, clean

KINDS = (
    "memory", "kv_too_small", "unsupported", "file", "port", "argument", "killed", "exited_0", "wedge", "timeout",
    "unknown",
)  # fmt: skip


class Cause(NamedTuple):
    """A root cause: ``kind`` (one of KINDS), ``text`` of the line, the boot ``stage`` it fell in, a ``remedy``."""

    kind: str
    text: str
    stage: str
    remedy: str


_FREE_MEMORY = (
    "Free memory on the box (stop what else uses it, drop the page cache) or lower gpu-memory-utilization, "
    "then boot again."
)
_SHORTER = "Lower max-model-len, raise gpu-memory-utilization, or choose a smaller KV cache type."
_OTHER_BACKEND = (
    "This engine cannot serve this model in this way on this device: change the flag it names, or the image."
)
_RUNTIME = "The container sees no GPU: it needs the nvidia runtime on a box with a GPU (lobes.spike.box_info shows it)."
_FETCH = "Fetch the pinned revision into the HF cache before the boot, and check it with lobes.spike.checkpoint_info."
_PORT = "Another process holds the port: free it, or choose another spike_port."
_FIX_ARGUMENT = "Correct the arm's arguments in the inventory."
_SHM = "Give the container more shared memory (shm_size) or share the host's IPC namespace."
_UNKNOWN = "Read the boot log above this line."

# (kind, pattern searched in the message, remedy). The first row that matches gives the kind of a line.
_RULES: list[tuple[str, re.Pattern[str], str]] = [
    (kind, re.compile(pattern), remedy)
    for kind, pattern, remedy in (
        ("memory", r"No space left on device.{0,40}(?:/dev/shm|psm_)|/dev/shm.{0,200}No space left", _SHM),
        ("memory", r"unable to (?:write to file </torch_|(?:open|allocate|mmap) shared memory)|Bus error", _SHM),
        ("memory", r"Free memory on device .{0,60} is less than desired GPU memory utilization", _FREE_MEMORY),
        (
            "memory",
            r"Error in memory profiling",
            "Something freed memory on the box while the engine measured it (another lane stopping, a cache being "
            "dropped): leave the box alone during a boot, then boot again.",
        ),
        ("kv_too_small", r"No available memory for the cache blocks", _SHORTER),
        ("kv_too_small", r"To serve at least one request with the model's max seq len", _SHORTER),
        ("memory", r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError|CUDA error: out of memory", _FREE_MEMORY),
        ("memory", r"CUBLAS_STATUS_ALLOC_FAILED|NV_ERR_NO_MEMORY|NVML_SUCCESS == r|std::bad_alloc", _FREE_MEMORY),
        ("memory", r"^MemoryError\b|\[Errno 12\]|Cannot allocate memory", _FREE_MEMORY),
        ("port", r"\[Errno 98\]|[Aa]ddress already in use|port is already allocated", _PORT),
        ("argument", r"\berror: (?:unrecognized arguments|argument |the following arguments)", _FIX_ARGUMENT),
        ("argument", r"^(?:vllm|api_server\.py)(?: [a-z]+)?: error: ", _FIX_ARGUMENT),
        ("argument", r"invalid (?:tool call|reasoning) parser", _FIX_ARGUMENT),
        ("argument", r"User-specified max_model_len .{0,40} is greater than the derived", _SHORTER),
        ("unsupported", r"Model architectures? .{0,200}(?:not supported|failed to be inspected)", _OTHER_BACKEND),
        ("unsupported", r"Failed to load the model config", _OTHER_BACKEND),
        ("unsupported", r"No \S{1,40} MoE backend supports|No valid attention backend", _OTHER_BACKEND),
        (
            "unsupported",
            r"Missing 'quant_algo'|Unsupported ModelOpt|MIXED_PRECISION quant_algo requires",
            _OTHER_BACKEND,
        ),
        ("unsupported", r"Stochastic rounding for Mamba cache|Mamba SSU algorithm selection is only", _OTHER_BACKEND),
        (
            "unsupported",
            r"requires? (?:a )?(?:GPU with )?(?:minimum )?(?:compute )?capability|no kernel image is available",
            _OTHER_BACKEND,
        ),
        (
            "unsupported",
            r"device kernel image is invalid|Unknown runtime specified|could not select device driver",
            _OTHER_BACKEND,
        ),
        (
            "unsupported",
            r"libcuda\.so|No CUDA GPUs are available|no NVIDIA driver|Failed to infer device type",
            _RUNTIME,
        ),
        ("unsupported", r"CUDA driver version is insufficient", _OTHER_BACKEND),
        ("unsupported", r"^NotImplementedError\b|is not supported (?:for|on|by|with) ", _OTHER_BACKEND),
        ("file", r"Weight files referenced in index but missing|Cannot find any model weights", _FETCH),
        ("file", r"SafetensorError|MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader", _FETCH),
        ("file", r"LocalEntryNotFoundError|OfflineModeIsEnabled|couldn't connect to .{0,60}huggingface", _FETCH),
        ("file", r"is not a local folder and is not a valid model identifier|HFValidationError", _FETCH),
        ("file", r"Can't load (?:the configuration|tokenizer|the model)|Repository Not Found|RevisionNotFound", _FETCH),
        (
            "file",
            r"PermissionError|\[Errno 13\]",
            "Give the user that the engine runs as the right to read (and, for caches and locks, to write) that path.",
        ),
        ("file", r"\[Errno 28\]|No space left on device", "Free disk space for the caches and results."),
        ("file", r"FileNotFoundError|\[Errno 2\]|\[Errno 5\]|Input/output error", _FETCH),
        (
            "argument",
            r"[Vv]alidation error for |^Value error, |Invalid value for|unexpected keyword argument",
            _FIX_ARGUMENT,
        ),
    )
]

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]{0,120}\.)?[A-Z]\w{0,80}(?:Error|Exception|Exit|Interrupt|Invalid|Failure)\b(?::|$)"
)
_OTHER_CAUSE = re.compile(
    r"Value error, |\[Errno [0-9]{1,3}\]|vllm(?: [a-z]+)?: error: |api_server\.py: error: |docker: |Bus error|"
    r"Segmentation fault|terminate called after|what\(\):|Fatal Python error"
)
_WRAPPER = re.compile(
    r"Engine core initialization failed|Frontend process failed during|EngineCore failed to start|EngineDeadError|"
    r"EngineCore encountered|WorkerProc (?:failed|initialization failed)|Worker failed with error|"
    r"Engine process failed to start|MPClient|engine core exited"
)
_AFTERMATH = re.compile(r"See (?:root cause|stack trace)|SystemExit|KeyboardInterrupt|CancelledError")
_VALIDATION = "validation error"
_TRACEBACK = "Traceback (most recent call last):"
_CORES = re.compile(r"Failed core proc\(s\): \{[^}]{0,200}?: (-?[0-9]{1,3})\b")
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


class CauseFinder:
    """Watches the lines of a log for the first one that states the cause of a failure."""

    def __init__(self) -> None:
        self._known: Cause | None = None
        self._exception: Cause | None = None
        self._first_process: tuple[str | None, int | None] | None = None
        self._closed = False
        self._unsaid: tuple[str | None, int | None] | None = None
        self.core_exit: int | None = None
        self.engine_died = False
        self.told_to_stop = False

    def feed(self, record: Record, stage: str) -> None:
        """Take one record; ``stage`` is the boot's stage at that line."""
        message = record.message
        if self._unsaid is not None:
            self._complete(record)
        if message.startswith("[shutdown]"):
            self.engine_died = self.engine_died or "exited unexpectedly" in message
            # A server whose engine has died takes itself down in the same words.
            self.told_to_stop = self.told_to_stop or ("shutdown triggered" in message and not self.engine_died)
            return
        if record.level in ("INFO", "WARNING", "DEBUG"):
            # Healthy engines quote errors in notices: no cause is taken from these.
            return
        if "rror" not in message and "xception" not in message and not _OTHER_CAUSE.match(message):
            return
        if "Failed core proc" in message:
            self.core_exit = _core_exit(message)
        wrapper = _WRAPPER.search(message) is not None
        if wrapper or _AFTERMATH.search(message):
            self._closed = self._exception is not None
            self.engine_died = self.engine_died or wrapper
            return
        text = message.strip()
        if self._known is None or (_VALIDATION in self._known.text and text.startswith("Value error, ")):
            # A validation error says in its second line what was wrong.
            self._known = _known(text, stage) or self._known
        if self._known is None and not self._closed and (_EXCEPTION.match(text) or _OTHER_CAUSE.match(text)):
            origin = (record.process, record.pid)
            if self._first_process is None:
                self._first_process = origin
            if origin == self._first_process:
                self._exception = Cause("unknown", clean(text, 500), stage, _UNKNOWN)
                self._unsaid = origin if text.endswith(":") else None

    @property
    def waits(self) -> bool:
        """Does the next line matter, whatever it looks like? The message of an exception may begin on it."""
        return self._unsaid is not None

    def _complete(self, record: Record) -> None:
        text = record.message.strip()
        if not text:
            return
        if (record.process, record.pid) == self._unsaid and self._exception is not None and text != _TRACEBACK:
            self._exception = self._exception._replace(text=clean(f"{self._exception.text} {text}", 500))
        self._unsaid = None

    def found(self) -> Cause | None:
        """The root cause, or None when the log states none."""
        return self._known or self._exception


def _known(text: str, stage: str) -> Cause | None:
    # A line of a stack ('File "...", line 3') or of source code is not a statement of the cause.
    if text.startswith(("File ", "raise ", "return ", "^", _TRACEBACK)):
        return None
    if not (_EXCEPTION.match(text) or _OTHER_CAUSE.match(text)):
        return None
    for kind, pattern, remedy in _RULES:
        if pattern.search(text):
            return Cause(kind, clean(text, 500), stage, remedy)
    return None


def _core_exit(message: str) -> int | None:
    match = _CORES.search(message)
    return int(match.group(1)) if match is not None else None


def text_cause(text: str, stage: str) -> Cause:
    """The cause in one line from elsewhere, e.g. docker's reason for not starting a container."""
    for kind, pattern, remedy in _RULES:
        if pattern.search(text):
            return Cause(kind, clean(text, 500), stage, remedy)
    return Cause("unknown", clean(text, 500), stage, _UNKNOWN)


def boot_failure(
    log_cause: Cause | None,
    core_exit: int | None,
    stage: str,
    exit_code: int | None,
    oom_killed: bool,
    told_to_stop: bool = False,
) -> Cause:
    """The cause of a container that ended before it was ready.

    What the log states comes first; then a kill (of the container, or of its engine core as the server reports it), or
    that the server was told to stop; then an exit with 0, which is a failure all the same: the server exits 0 when its
    engine has died.
    """
    if log_cause is not None and log_cause.kind != "unknown":
        return log_cause
    if oom_killed:
        remedy = "Free memory on the box, or raise the container's memory limit."
        return Cause("killed", "the kernel killed the container for memory (OOMKilled)", stage, remedy)
    if core_exit is not None and core_exit < 0:
        return _killed(f"the engine core was killed by {_signal(-core_exit)}", -core_exit, stage)
    if exit_code is not None and exit_code > 128:
        number = exit_code - 128
        return _killed(f"the container was killed by {_signal(number)} (exit code {exit_code})", number, stage)
    if log_cause is not None:
        return log_cause
    if told_to_stop:
        remedy = "Somebody stopped the container, or the container engine ended or restarted: look at its log."
        return Cause("killed", "the engine was told to stop (SIGTERM) during its boot", stage, remedy)
    if exit_code == 0:
        text = "the container exited with code 0 before it was ready"
        return Cause("exited_0", text, stage, "An engine that dies may exit 0: read the end of the boot log.")
    if exit_code == 2:
        return Cause("argument", "the engine refused its arguments (exit code 2)", stage, _FIX_ARGUMENT)
    code = "an unknown code" if exit_code is None else f"code {exit_code}"
    return Cause("unknown", f"the container exited with {code}; its log states no cause", stage, _UNKNOWN)


def _killed(text: str, number: int, stage: str) -> Cause:
    remedy = (
        "Look for an out-of-memory kill in the kernel log; nothing on the box may stop the container during a boot."
        if number in (9, 15)
        else "The engine crashed in native code: look at the last lines of the boot log, and at the driver's messages."
    )
    return Cause("killed", text, stage, remedy)


def _signal(number: int) -> str:
    return _SIGNALS.get(number, f"signal {number}")
