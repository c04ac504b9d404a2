# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiny snapshots with the real checkpoints' shape: every tensor by its name, one byte each.

The target has the counts of the seed's index (18,487 tensors; 6,144 expert weights, no expert input scale, 23 input
scales on in_proj and on out_proj) and the layer plan and quantisation of the public config.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator

TARGET = "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"
# 40 hex digits that begin as the two known commits of the target do; the rest of them was never recorded.
PINNED = {TARGET: ("bee7596271d1", "cc84af2fe716")}
ATTENTION = (5, 12, 19, 26, 33, 42)
LAYERS, EXPERTS = 52, 128
# The tensors of the MTP layer that are not expert weights, which bring the total to the seed's.
MTP_REST = 28


def full_revision(model: str, asked: str | None) -> str:
    """The commit that a revision stands for: refs/main is the newest one, a short one is completed."""
    begin = (
        PINNED.get(model, ("", hashlib.sha1(model.encode()).hexdigest()[:12]))[1] if asked in (None, "main") else asked
    )
    rest = hashlib.sha1(f"{model}@{begin}".encode()).hexdigest()
    return (begin + rest)[:40]


def layers() -> list[str]:
    """mamba, moe or attention for each layer."""
    kinds = iter(["mamba", "moe"] * LAYERS)
    return ["attention" if i in ATTENTION else next(kinds) for i in range(LAYERS)]


def _mixer(layer: int, kind: str) -> Iterator[str]:
    base = f"backbone.layers.{layer}.mixer"
    if kind == "mamba":
        for name in ("in_proj", "out_proj"):
            yield from (f"{base}.{name}.{part}" for part in ("weight", "weight_scale", "input_scale"))
        yield from (
            f"{base}.{part}" for part in ("A_log", "D", "dt_bias", "conv1d.weight", "conv1d.bias", "norm.weight")
        )
    elif kind == "attention":
        yield from (f"{base}.{name}_proj.weight" for name in "qkvo")
    else:
        yield from (f"{base}.gate.weight", f"{base}.gate.e_score_correction_bias")
        owners = [f"{base}.experts.{e}" for e in range(EXPERTS)] + [f"{base}.shared_experts"]
        for owner in owners:
            for name in ("up_proj", "down_proj"):
                yield from (f"{owner}.{name}.{part}" for part in ("weight", "weight_scale", "weight_scale_2"))


def tensors(kv_scales: bool = False) -> Iterator[str]:
    """Every tensor name of the target."""
    yield from ("backbone.embeddings.weight", "backbone.norm_f.weight", "lm_head.weight")
    for layer, kind in enumerate(layers()):
        yield f"backbone.layers.{layer}.norm.weight"
        yield from _mixer(layer, kind)
        if kv_scales and kind == "attention":
            yield from (f"backbone.layers.{layer}.mixer.{name}_proj.{name}_scale" for name in "kv")
    for expert in range(EXPERTS):
        yield from (f"mtp.layers.1.mixer.experts.{expert}.{name}.weight" for name in ("up_proj", "down_proj"))
    yield from (f"mtp.layers.0.tensor_{i}.weight" for i in range(MTP_REST))


def safetensors(names: list[str]) -> bytes:
    """A whole safetensors file with one byte for each name."""
    header = {name: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, name in enumerate(names)}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + bytes(len(names))


def _quantisation() -> dict[str, object]:
    quantized: dict[str, dict[str, object]] = {"lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}
    for layer, kind in enumerate(layers()):
        base = f"backbone.layers.{layer}.mixer"
        if kind == "mamba":
            quantized.update({f"{base}.{name}": {"quant_algo": "FP8"} for name in ("in_proj", "out_proj")})
        elif kind == "moe":
            owners = [f"{base}.experts.{e}" for e in range(EXPERTS)] + [f"{base}.shared_experts"]
            quantized.update(
                {
                    f"{owner}.{name}": {"quant_algo": "W4A16_NVFP4", "group_size": 16}
                    for owner in owners
                    for name in ("up_proj", "down_proj")
                }
            )
    return {
        "producer": {"name": "modelopt", "version": "0.44.0rc5"},
        "quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": quantized},
    }


def target(kv_scales: bool = False) -> dict[str, bytes]:
    """The files of the target's snapshot."""
    pattern = "".join({"mamba": "M", "moe": "E", "attention": "*"}[kind] for kind in layers())
    config = {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "hidden_size": 2688,
        "num_hidden_layers": LAYERS,
        "hybrid_override_pattern": pattern,
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": 6,
        "n_shared_experts": 1,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "ssm_state_size": 128,
        "vocab_size": 131072,
        "max_position_embeddings": 1048576,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
        "mamba_ssm_cache_dtype": "float32",
        "num_nextn_predict_layers": 1,
        "mtp_layers_block_type": ["attention", "moe"],
    }
    names = list(tensors(kv_scales))
    shards = [names[i::5] for i in range(5)]
    files = {f"model-{i + 1:05d}-of-00005.safetensors": safetensors(part) for i, part in enumerate(shards)}
    where = {name: file for file, part in zip(files, shards, strict=True) for name in part}
    files["config.json"] = json.dumps(config, indent=1).encode()
    files["hf_quant_config.json"] = json.dumps(_quantisation()).encode()
    files["generation_config.json"] = json.dumps({"temperature": 1.0, "top_p": 0.95}).encode()
    files["tokenizer_config.json"] = json.dumps({"model_max_length": 1048576}).encode()
    files["model.safetensors.index.json"] = json.dumps(
        {"metadata": {"total_size": len(names)}, "weight_map": where}
    ).encode()
    return files


def drafter(architecture: str = "Qwen3DSparkModel") -> dict[str, bytes]:
    """The files of a small model in one weight file."""
    names = [
        f"layers.{i}.{part}.weight"
        for i in range(6)
        for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj")
    ]
    config = {"architectures": [architecture], "num_hidden_layers": 6, "max_position_embeddings": 1048576}
    return {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors(names)}


def files(model: str, kv_scales: bool = False) -> dict[str, bytes]:
    """The snapshot of any model."""
    return target(kv_scales) if model == TARGET else drafter()
