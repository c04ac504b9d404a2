"""The facts script runs inside the engine's image: one JSON line, nulls for what is not there, never a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[3] / "roles" / "engine_image" / "files" / "engine_facts.py"

TORCH = """
import types, sys
__version__ = "2.13.0+{kind}"
print("noise on stdout from an import")
class _Version: cuda = {cuda!r}
version = _Version()
bfloat16 = "bf16"
class _T:
    def t(self): return self
    def __matmul__(self, other): return self
    def float(self): return self
    def cpu(self): return self
    def __eq__(self, other): return self
    def all(self): return {right}
def ones(*shape, dtype, device):
    assert device == {device!r}
    return _T()
class cuda:
    get_arch_list = staticmethod(lambda: ["sm_80", "sm_110"])
    is_available = staticmethod(lambda: {available})
    device_count = staticmethod(lambda: 1)
    get_device_name = staticmethod(lambda n: "NVIDIA Thor")
    get_device_capability = staticmethod(lambda n: (11, 0))
    class _P: total_memory = 131881054208
    get_device_properties = staticmethod(lambda n: cuda._P)
"""


def run(path: Path | None) -> dict[str, Any]:
    command = [sys.executable, "-c", SCRIPT.read_text(encoding="utf-8")]
    environment = {"PYTHONPATH": str(path or ""), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert done.stdout.count("\n") == 1
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def torch(path: Path, **changes: Any) -> Path:
    known = {"kind": "cu130", "cuda": "13.0", "available": True, "right": True, "device": "cuda"} | changes
    (path / "torch.py").write_text(TORCH.format(**known))
    (path / "vllm-0.29.0.dist-info").mkdir()
    (path / "vllm-0.29.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0\n")
    return path


def test_an_image_without_an_engine() -> None:
    facts = run(None)
    assert facts["engine_version"] is None
    assert facts["torch"] is None
    assert "torch" in facts["errors"]
    assert facts["fp4"] == {
        "cutlass_fp4_supported": None, "cutlass_scaled_mm_supports_fp4": None, "flashinfer_cutlass_fused_moe": None,
    }  # fmt: skip


def test_a_build_without_cuda_has_nulls_and_no_errors(tmp_path: Path) -> None:
    facts = run(torch(tmp_path, kind="cpu", cuda=None, available=False, device="cpu"))
    assert facts["engine_version"] == "0.29.0"
    assert facts["torch"] == "2.13.0+cpu"
    assert [facts[k] for k in ("cuda", "arch_list", "device", "capability", "capability_int")] == [None] * 5
    assert (facts["matmul_ok"], facts["matmul_device"]) == (True, "cpu")
    assert facts["errors"] == {}


def test_a_thor(tmp_path: Path) -> None:
    path = torch(tmp_path)
    (path / "vllm").mkdir()
    (path / "vllm" / "__init__.py").write_text("")
    (path / "vllm" / "_custom_ops.py").write_text("def cutlass_scaled_mm_supports_fp4(n): return n != 121\n")
    facts = run(path)
    assert facts["arch_list"] == ["sm_80", "sm_110"]
    assert (facts["device"], facts["capability"], facts["capability_int"]) == ("NVIDIA Thor", "11.0", 110)
    assert facts["fp4"]["cutlass_scaled_mm_supports_fp4"] == {"100": True, "110": True, "120": True, "121": False}
    assert facts["fp4"]["flashinfer_cutlass_fused_moe"] is None
    assert "flashinfer_cutlass_fused_moe" in facts["errors"]
    assert facts["matmul_ok"] is True


def test_a_product_that_is_wrong_is_said(tmp_path: Path) -> None:
    assert run(torch(tmp_path, right=False))["matmul_ok"] is False
