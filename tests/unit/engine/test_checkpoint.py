"""Checkpoints on disk: whole, cut, too long, foreign; what their tensors and their layer table support."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.engine import kernels
from ansible_collections.lobes.spike.plugins.module_utils.engine.checkpoint import (
    NotACheckpoint,
    inspect_checkpoint,
    kind_of,
    read_header,
    read_quantisation,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

REVISION = "bee7596271d1" + "0" * 28


def shard(path: Path, tensors: list[str], size: int = 4) -> None:
    header = {"__metadata__": {"format": "pt"}}
    for number, name in enumerate(tensors):
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [number * size, (number + 1) * size]}  # type: ignore[assignment,dict-item]
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"\0" * (size * len(tensors)))


def lightning(root: Path, kv_scales: bool = False, expert_input_scales: bool = False) -> Path:
    """A small checkpoint of the seed's shape: FP8 projections, NVFP4 experts, two files."""
    snapshot = root / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    first = [
        f"backbone.layers.0.mixer.{p}.{leaf}" for p in ("in_proj", "out_proj") for leaf in ("weight", "input_scale")
    ]
    leaves = ["weight", "weight_scale", "weight_scale_2"] + (["input_scale"] if expert_input_scales else [])
    second = [f"backbone.layers.1.mixer.experts.{e}.up_proj.{leaf}" for e in range(8) for leaf in leaves]
    if kv_scales:
        second += ["backbone.layers.5.mixer.k_proj.k_scale", "backbone.layers.5.mixer.v_proj.v_scale"]
    names = {"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}
    for name, tensors in names.items():
        shard(snapshot / name, tensors)
    index = {"metadata": {"total_size": 1}, "weight_map": {t: n for n, ts in names.items() for t in ts}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (snapshot / "config.json").write_text(
        json.dumps({"architectures": ["NemotronHForCausalLM"], "max_position_embeddings": 1048576})
    )
    layers = {f"l{n}": {"quant_algo": "W4A16_NVFP4"} for n in range(8)} | {"in": {"quant_algo": "FP8"}}
    legacy = {
        "producer": {"name": "modelopt", "version": "0.44.0rc5"},
        "quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": layers},
    }
    (snapshot / "hf_quant_config.json").write_text(json.dumps(legacy))
    return snapshot


def test_a_whole_checkpoint_and_what_follows_from_it(tmp_path: Path) -> None:
    read = inspect_checkpoint(str(lightning(tmp_path)), "bee7596271d1")
    assert read["whole"] is True
    assert read["problems"] == []
    assert read["revision"]["equal"] is True
    assert read["kinds"]["experts.*.weight"] == 8
    assert read["kinds"]["in_proj.input_scale"] == 1
    assert "experts.*.input_scale" not in read["kinds"]
    assert read["scales"]["input_scale"] == 2
    assert (read["scales"]["k_scale"], read["scales"]["v_scale"]) == (0, 0)
    quantisation = read["quantisation"]
    assert quantisation["algorithm"] == "MIXED_PRECISION"
    assert quantisation["layers_by_algorithm"] == {"W4A16_NVFP4": 8, "FP8": 1}
    assert quantisation["auto_kv_cache_dtype"] == "fp8_e4m3"
    assert quantisation["producer"] == "modelopt 0.44.0rc5"
    text = " ".join(read["conclusions"])
    assert "weight-only ones (Marlin) are this checkpoint's path on any device" in text
    assert "no K and V scales" in text
    assert "auto is fp8_e4m3 here" in text
    assert "8 W4A16_NVFP4, 1 FP8" in text


def test_scales_that_are_there_change_the_conclusions(tmp_path: Path) -> None:
    text = " ".join(inspect_checkpoint(str(lightning(tmp_path, True, True)), None)["conclusions"])
    assert "2 K and V scales are in the checkpoint" in text
    assert "8 expert projections carry activation scales" in text
    assert "Marlin" not in text


def test_cut_long_and_missing_files(tmp_path: Path) -> None:
    snapshot = lightning(tmp_path)
    one, two = sorted(snapshot.glob("*.safetensors"))
    whole = one.read_bytes()
    one.write_bytes(whole[:-3])
    read = inspect_checkpoint(str(snapshot), None)
    assert read["whole"] is False
    assert "it is cut" in read["problems"][0]
    one.write_bytes(whole + b"x" * 7)
    assert "7 bytes beyond the end" in inspect_checkpoint(str(snapshot), None)["problems"][0]
    one.write_bytes(whole)
    two.unlink()
    assert inspect_checkpoint(str(snapshot), None)["problems"] == [f"{two.name}: it is referenced but not there"]
    shard(two, ["other.tensor"])
    assert "26 tensors" not in inspect_checkpoint(str(snapshot), None)["problems"][0]
    assert "that the index puts there are not in it" in inspect_checkpoint(str(snapshot), None)["problems"][0]


def test_another_revision_is_a_problem(tmp_path: Path) -> None:
    read = inspect_checkpoint(str(lightning(tmp_path)), "cc84af2fe716")
    assert read["revision"]["equal"] is False
    assert read["whole"] is False
    assert "pinned is cc84af2fe716" in read["problems"][0]
    assert inspect_checkpoint(str(lightning(tmp_path / "b")), None)["revision"]["equal"] is None


def test_links_into_a_blob_store_are_followed(tmp_path: Path) -> None:
    snapshot = lightning(tmp_path)
    for path in sorted(snapshot.glob("*.safetensors")):
        blob = tmp_path / f"blob-{path.name}"
        path.rename(blob)
        path.symlink_to(blob)
    assert inspect_checkpoint(str(snapshot), REVISION)["whole"] is True


def test_a_single_file_without_an_index(tmp_path: Path) -> None:
    shard(tmp_path / "model.safetensors", ["model.layers.0.self_attn.q_proj.weight", "lm_head.weight"])
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    read = inspect_checkpoint(str(tmp_path), None)
    assert read["whole"] is True
    assert read["quantisation"] is None
    assert read["kinds"] == {"lm_head.weight": 1, "q_proj.weight": 1}
    assert read["conclusions"][0] == "The one file is whole by its header."
    assert "declares no quantised KV cache" in " ".join(read["conclusions"])


def test_what_is_no_checkpoint_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(NotACheckpoint, match="not a directory"):
        inspect_checkpoint(str(tmp_path / "absent"), None)
    with pytest.raises(NotACheckpoint, match="holds neither"):
        inspect_checkpoint(str(tmp_path), None)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "../../etc/passwd"}}')
    with pytest.raises(NotACheckpoint, match="outside of it"):
        inspect_checkpoint(str(tmp_path), None)
    index.write_text('{"weight_map": ')
    with pytest.raises(NotACheckpoint, match="cannot be read as JSON"):
        inspect_checkpoint(str(tmp_path), None)


def test_config_json_wins_over_the_legacy_file() -> None:
    own = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}
    legacy = {"quantization": {"quant_algo": "NVFP4", "quantized_layers": {"a": {"quant_algo": "NVFP4"}}}}
    read = read_quantisation(own, legacy)
    assert read is not None
    assert (read["declared_in"], read["algorithm"], read["auto_kv_cache_dtype"]) == ("config.json", "FP8", None)
    scheme = {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}}
    read = read_quantisation(scheme, None)
    assert read is not None
    assert read["auto_kv_cache_dtype"] == "fp8_e4m3"
    assert read_quantisation({}, None) is None


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        ("backbone.layers.3.mixer.experts.17.up_proj.weight", "experts.*.weight"),
        ("backbone.layers.3.mixer.shared_experts.up_proj.weight", "up_proj.weight"),
        ("backbone.layers.3.mixer.in_proj.input_scale", "in_proj.input_scale"),
        ("lm_head.weight", "lm_head.weight"),
        ("backbone.layers.3.mixer.A_log", "mixer.A_log"),
        ("x", "x"),
    ],
)
def test_kinds(tensor: str, kind: str) -> None:
    assert kind_of(tensor) == kind


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_no_bytes_crash_the_header_reader(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "f.safetensors"
    path.write_bytes(data)
    read = read_header(str(path))
    assert read["bytes"] == len(data)
    assert read["problem"] is not None or read["expected_bytes"] == len(data)


THOR = {
    "schema": "lobes.spike/image-facts/1", "capability": "11.0", "capability_int": 110,
    "fp4": {"cutlass_scaled_mm_supports_fp4": {"100": True, "110": True}, "cutlass_fp4_supported": True},
}  # fmt: skip


def test_what_the_kernels_support_is_not_what_the_notice_says(tmp_path: Path) -> None:
    checkpoint = inspect_checkpoint(str(lightning(tmp_path)), None)
    text = " ".join(kernels.fp4_conclusions(THOR, checkpoint, "MARLIN"))
    assert "support for capability 11.0" in text
    assert "not a statement about this device" in text
    assert "no native FP4 speed-up to unlock" in text
    able = inspect_checkpoint(str(lightning(tmp_path / "b", expert_input_scales=True)), None)
    assert "worth an arm of its own" in " ".join(kernels.fp4_conclusions(THOR, able, "MARLIN"))
    cpu: dict[str, Any] = {"capability": None, "fp4": {}}
    assert kernels.fp4_conclusions(cpu) == ["The image sees no CUDA device here: its FP4 kernels could not be asked."]


def test_the_answer_is_found_among_other_output() -> None:
    noise = 'INFO something\n{"not": "it"}\n' + json.dumps(THOR) + "\nException ignored in: <x>\n"
    assert kernels.read_answer(noise) == THOR
    assert kernels.read_answer("nothing") is None
