# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside the engine's image (python3 -c or as a file) and prints one line of JSON: what the engine is and sees.

A fact that does not exist here (a build without CUDA, no device) is null; one that should exist and could not be
read is null and its reason stands in "errors". Nothing is imported that a fact does not need, and nothing raises.
"""

import json
import os
import sys

FACTS = {
    "schema": "lobes.spike/image-facts/1",
    "engine_version": None,
    "python": ".".join(str(part) for part in sys.version_info[:3]),
    "torch": None,
    "cuda": None,
    "arch_list": None,
    "device": None,
    "device_count": None,
    "capability": None,
    "capability_int": None,
    "device_memory_bytes": None,
    "driver": None,
    "matmul_ok": None,
    "matmul_device": None,
    "fp4": {
        "cutlass_fp4_supported": None,
        "cutlass_scaled_mm_supports_fp4": None,
        "flashinfer_cutlass_fused_moe": None,
    },
    "errors": {},
}


def take(name, read):
    """Run read(); keep the reason if it fails. Returns its value or None."""
    try:
        return read()
    except BaseException as exc:  # an engine's import may even raise SystemExit
        FACTS["errors"][name] = f"{type(exc).__name__}: {exc}"[:300]
        return None


def engine_version():
    from importlib import metadata

    try:
        return metadata.version("vllm")
    except metadata.PackageNotFoundError:
        import vllm

        return vllm.__version__


def read_torch():
    import torch

    FACTS["torch"] = str(torch.__version__)
    FACTS["cuda"] = torch.version.cuda
    if torch.version.cuda is not None:
        FACTS["arch_list"] = list(torch.cuda.get_arch_list()) or None
    return torch


def read_device(torch):
    # A build without CUDA, or a container without a device: there is nothing to read.
    if torch.version.cuda is None or not torch.cuda.is_available():
        return
    FACTS["device_count"] = torch.cuda.device_count()
    FACTS["device"] = torch.cuda.get_device_name(0)
    major, minor = torch.cuda.get_device_capability(0)
    FACTS["capability"] = f"{major}.{minor}"
    FACTS["capability_int"] = major * 10 + minor
    FACTS["device_memory_bytes"] = torch.cuda.get_device_properties(0).total_memory


def read_driver():
    try:
        with open("/proc/driver/nvidia/version", errors="replace") as handle:
            return handle.readline().strip()[:200] or None
    except OSError:
        return None


def matmul(torch):
    """One product whose result is known: ones(64, 128) x ones(128, 64) is 128 everywhere, exactly, in bfloat16 too."""
    device = "cuda" if FACTS["device"] else "cpu"
    FACTS["matmul_device"] = device
    left = torch.ones(64, 128, dtype=torch.bfloat16, device=device)
    product = (left @ left.t()).float().cpu()
    return bool((product == 128.0).all())


def supports_fp4():
    from vllm._custom_ops import cutlass_scaled_mm_supports_fp4

    known = sorted({100, 110, 120, 121, FACTS["capability_int"]})
    return {str(number): bool(cutlass_scaled_mm_supports_fp4(number)) for number in known}


def fp4_supported():
    try:
        from vllm.model_executor.layers.quantization.utils.nvfp4_utils import cutlass_fp4_supported
    except ImportError:
        from vllm.model_executor.layers.quantization.utils.quant_utils import cutlass_fp4_supported
    return bool(cutlass_fp4_supported())


def fused_moe():
    from vllm.utils.flashinfer import has_flashinfer_cutlass_fused_moe

    return bool(has_flashinfer_cutlass_fused_moe())


def main():
    # Whatever an import prints goes to stderr: stdout carries the one line.
    sys.stdout.flush()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    FACTS["engine_version"] = take("engine_version", engine_version)
    torch = take("torch", read_torch)
    if torch is not None:
        take("device", lambda: read_device(torch))
        FACTS["matmul_ok"] = take("matmul_ok", lambda: matmul(torch))
    FACTS["driver"] = take("driver", read_driver)
    if FACTS["capability_int"] is not None:
        fp4 = FACTS["fp4"]
        fp4["cutlass_scaled_mm_supports_fp4"] = take("cutlass_scaled_mm_supports_fp4", supports_fp4)
        fp4["cutlass_fp4_supported"] = take("cutlass_fp4_supported", fp4_supported)
        fp4["flashinfer_cutlass_fused_moe"] = take("flashinfer_cutlass_fused_moe", fused_moe)
    answer.write(json.dumps(FACTS, sort_keys=True) + "\n")
    answer.flush()
    # Some engines leave threads behind that would hold the process open.
    os._exit(0)


main()
