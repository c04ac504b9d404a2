# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checkpoint on disk: is it whole, is it the pinned one, and what do its tensors say it is?

The index of tensors and the headers of the files are read, never the data. What the engine prints about a checkpoint's
quantisation is not evidence (a mixed one prints every algorithm it could hold); the tensors and the layer table are.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from typing import Any

MAX_JSON_BYTES = 256 * 1024 * 1024
# The format's own limit for a header.
MAX_HEADER_BYTES = 100_000_000
MAX_KINDS = 200
_INDEX = "model.safetensors.index.json"
_SCALES = ("input_scale", "k_scale", "v_scale", "q_scale", "weight_scale", "weight_scale_2")
_REVISION = re.compile(r"[0-9a-f]{7,40}")


class NotACheckpoint(Exception):
    """The directory holds nothing that can be read as a checkpoint; the text says why."""


def inspect_checkpoint(snapshot: str, revision: str | None) -> dict[str, Any]:
    """Read the checkpoint in the directory ``snapshot``; ``revision`` is the pinned one (7 to 40 hex digits).

    {snapshot, revision: {wanted, found, equal}, architecture, files: [{name, bytes, expected_bytes, tensors, problem}],
    bytes, tensors, kinds: {kind: count}, scales: {leaf: count}, quantisation: {...}, problems: [str], whole,
    conclusions: [str]}. ``equal`` is None when no revision was given or the directory is not named by one.
    """
    if not os.path.isdir(snapshot):
        raise NotACheckpoint(f"{snapshot} is not a directory")
    config = _json(os.path.join(snapshot, "config.json")) or {}
    weight_map, source = _weight_map(snapshot)
    files = [_file(snapshot, name, weight_map) for name in sorted(set(weight_map.values()))]
    kinds = Counter(kind_of(name) for name in weight_map)
    quantisation = read_quantisation(config, _json(os.path.join(snapshot, "hf_quant_config.json")))
    problems = [f"{f['name']}: {f['problem']}" for f in files if f["problem"]]
    found = _revision(snapshot, revision)
    if found["equal"] is False:
        problems.append(f"the snapshot is revision {found['found']}, pinned is {found['wanted']}")
    scales = {leaf: sum(n for kind, n in kinds.items() if kind.rpartition(".")[2] == leaf) for leaf in _SCALES}
    out: dict[str, Any] = {
        "snapshot": snapshot,
        "revision": found,
        "architecture": _first_text(config.get("architectures")),
        "max_position_embeddings": _integer(config.get("max_position_embeddings")),
        "index": source,
        "files": files,
        "bytes": sum(f["bytes"] or 0 for f in files),
        "tensors": len(weight_map),
        "kinds": dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:MAX_KINDS]),
        "scales": scales,
        "quantisation": quantisation,
        "problems": problems,
        "whole": not problems,
    }
    out["conclusions"] = conclusions(out)
    return out


def read_header(path: str) -> dict[str, Any]:
    """Read one safetensors file's header: {bytes, expected_bytes, names, problem}; never raises for what is on disk.

    ``expected_bytes`` is 8 + header + the largest data offset: a shorter file was cut, a longer one has bytes that
    belong to no tensor (a total-size check does not see either).
    """
    out: dict[str, Any] = {"bytes": None, "expected_bytes": None, "names": None, "problem": None}
    try:
        out["bytes"] = os.stat(path).st_size
        with open(path, "rb") as handle:
            head = handle.read(8)
            if len(head) < 8:
                return {**out, "problem": "it is too short to be a safetensors file"}
            (length,) = struct.unpack("<Q", head)
            if length > min(MAX_HEADER_BYTES, out["bytes"] - 8):
                return {
                    **out,
                    "problem": f"its header should have {length} bytes, which it cannot have: cut or corrupt",
                }
            raw = handle.read(length)
    except FileNotFoundError:
        return {**out, "problem": "it is referenced but not there"}
    except OSError as exc:
        return {**out, "problem": f"it cannot be read: {exc.strerror or exc}"}
    try:
        header = json.loads(raw)
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {**out, "problem": "its header is not the JSON of a safetensors file"}
    out["names"] = frozenset(tensors)
    out["expected_bytes"] = expected = 8 + length + end
    if out["bytes"] < expected:
        out["problem"] = f"it is cut: {out['bytes']} bytes, its header promises {expected}"
    elif out["bytes"] > expected:
        out["problem"] = f"it has {out['bytes'] - expected} bytes beyond the end that its header gives"
    return out


def kind_of(tensor: str) -> str:
    """The kind of a tensor: its module and leaf, with layer and expert numbers left out.

    "backbone.layers.3.mixer.experts.17.up_proj.weight" is "experts.*.weight", "...in_proj.input_scale" is
    "in_proj.input_scale".
    """
    parts = tensor.split(".")
    leaf = parts[-1]
    if "experts" in parts[:-1]:
        return f"experts.*.{leaf}"
    module = next((part for part in reversed(parts[:-1]) if not part.isdigit()), "")
    return f"{module}.{leaf}" if module else leaf


def read_quantisation(config: dict[str, Any], legacy: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the checkpoint declares of its quantisation, or None when it declares none.

    ``config.json`` wins; ``hf_quant_config.json`` is read where that says nothing, and for the layer table of a mixed
    checkpoint where that has none: the engine does it in this order. {declared_in, method, algorithm, kv_cache,
    auto_kv_cache_dtype, layers_by_algorithm, producer}.
    """
    own = config.get("quantization_config")
    old = legacy.get("quantization") if isinstance(legacy, dict) else None
    chosen = own if isinstance(own, dict) else old if isinstance(old, dict) else None
    if chosen is None:
        return None
    layers = chosen.get("quantized_layers")
    if not isinstance(layers, dict) and isinstance(old, dict):
        layers = old.get("quantized_layers")
    kv_cache = chosen.get("kv_cache_quant_algo")
    scheme = chosen.get("kv_cache_scheme")
    eight_bit = isinstance(scheme, dict) and scheme.get("num_bits") == 8 and scheme.get("type") == "float"
    producer = (legacy or {}).get("producer") or chosen.get("producer")
    return {
        "declared_in": "config.json" if chosen is own else "hf_quant_config.json",
        "method": _text(chosen.get("quant_method")),
        "algorithm": _text(chosen.get("quant_algo")),
        "kv_cache": _text(kv_cache) or ("8-bit float" if eight_bit else None),
        "auto_kv_cache_dtype": "fp8_e4m3" if eight_bit or str(kv_cache).upper() == "FP8" else None,
        "layers_by_algorithm": _by_algorithm(layers),
        "producer": _producer(producer),
    }


def conclusions(checkpoint: dict[str, Any]) -> list[str]:
    """The sentences that the facts support, and no more."""
    said = []
    files, kinds, scales = checkpoint["files"], checkpoint["kinds"], checkpoint["scales"]
    if checkpoint["whole"]:
        said.append(
            "The one file is whole by its header."
            if len(files) == 1
            else f"All {len(files)} files that the index names are there and whole by their headers."
        )
    else:
        said += [f"{problem[0].upper()}{problem[1:]}." for problem in checkpoint["problems"]]
    if checkpoint["revision"]["equal"]:
        said.append(f"The revision is the pinned one ({checkpoint['revision']['wanted']}).")
    quantisation = checkpoint["quantisation"]
    layers = (quantisation or {}).get("layers_by_algorithm")
    if layers:
        listed = ", ".join(f"{count:,} {name}" for name, count in layers.items())
        said.append(
            f"The layer table holds {listed}: it, not the engine's 'Detected ModelOpt' lines, says what this is."
        )
    expert_scales = kinds.get("experts.*.weight_scale", 0)
    if expert_scales:
        activations = kinds.get("experts.*.input_scale", 0)
        if activations:
            said.append(
                f"{activations:,} expert projections carry activation scales: native low-precision kernels may run."
            )
        else:
            said.append(
                "No expert projection carries an activation scale: kernels that quantise activations cannot serve the "
                "experts, weight-only ones (Marlin) are this checkpoint's path on any device."
            )
    kv_scales = scales["k_scale"] + scales["v_scale"]
    declares_kv = bool(quantisation and quantisation["kv_cache"])
    if kv_scales:
        said.append(f"{kv_scales} K and V scales are in the checkpoint: an FP8 KV cache uses them.")
    elif quantisation is not None:
        said.append("The checkpoint has no K and V scales: an FP8 KV cache runs with scale 1.0, uncalibrated.")
    if quantisation and quantisation["auto_kv_cache_dtype"]:
        said.append(
            f"It declares a quantised KV cache: kv-cache-dtype auto is {quantisation['auto_kv_cache_dtype']} here, not "
            "the model's own type."
        )
    elif not declares_kv:
        said.append("It declares no quantised KV cache: kv-cache-dtype auto is the model's own type.")
    return said


def _weight_map(snapshot: str) -> tuple[dict[str, str], str]:
    """Tensor -> file, and where that was read."""
    index = _json(os.path.join(snapshot, _INDEX))
    if index is not None:
        found = index.get("weight_map")
        if not isinstance(found, dict) or not found:
            raise NotACheckpoint(f"{_INDEX} in {snapshot} has no weight_map")
        # A name that leads out of the snapshot is refused: it is no file of this checkpoint.
        bad = sorted({str(f) for f in found.values() if os.path.basename(str(f)) != f or not f})
        if bad:
            raise NotACheckpoint(f"{_INDEX} in {snapshot} names a file outside of it: {bad[0][:100]!r}")
        return {str(tensor): str(name) for tensor, name in found.items()}, _INDEX
    names = sorted(n for n in os.listdir(snapshot) if n.endswith(".safetensors"))
    if not names:
        raise NotACheckpoint(f"{snapshot} holds neither {_INDEX} nor a .safetensors file")
    pairs: dict[str, str] = {}
    for name in names:
        for tensor in read_header(os.path.join(snapshot, name))["names"] or (f"?{name}",):
            pairs[tensor] = name
    return pairs, "the headers of the files"


def _file(snapshot: str, name: str, weight_map: dict[str, str]) -> dict[str, Any]:
    read = read_header(os.path.join(snapshot, name))
    names = read.pop("names")
    problem = read["problem"]
    if problem is None:
        missing = [tensor for tensor, file in weight_map.items() if file == name and tensor not in names]
        if missing:
            problem = f"{len(missing)} tensors that the index puts there are not in it, for example {missing[0][:120]}"
    return {"name": name, **read, "tensors": None if names is None else len(names), "problem": problem}


def _revision(snapshot: str, wanted: str | None) -> dict[str, Any]:
    base = os.path.basename(os.path.normpath(snapshot))
    found = base if _REVISION.fullmatch(base) else None
    equal = None if wanted is None or found is None else found.startswith(wanted.lower())
    return {"wanted": wanted, "found": found, "equal": equal}


def _json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as handle:
            value = json.loads(handle.read(MAX_JSON_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as exc:
        raise NotACheckpoint(f"{path} cannot be read as JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise NotACheckpoint(f"{path} is not a JSON object")
    return value


def _by_algorithm(layers: object) -> dict[str, int] | None:
    if not isinstance(layers, dict):
        return None
    counts = Counter(
        str(layer.get("quant_algo") if isinstance(layer, dict) else layer)[:60] for layer in layers.values()
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _producer(producer: object) -> str | None:
    if isinstance(producer, dict):
        return " ".join(str(producer[k])[:60] for k in ("name", "version") if producer.get(k)) or None
    return _text(producer)


def _first_text(value: object) -> str | None:
    return _text(value[0]) if isinstance(value, list) and value else None


def _text(value: object) -> str | None:
    return str(value)[:100] if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
