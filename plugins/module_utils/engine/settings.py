# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's resolved settings, from the one line in which the engine core prints them.

That line is the best single source: what was asked for (``auto``) has become what is used. Notices elsewhere in the log
are not used for settings.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from .records import clean

Setting: TypeAlias = "str | int | float | bool | None"

KEPT = (
    "model", "tokenizer", "revision", "served_model_name", "dtype", "quantization", "kv_cache_dtype", "max_seq_len",
    "load_format", "device_config", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "seed",
    "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "trust_remote_code",
)  # fmt: skip
_NESTED = (
    ("compilation_mode", re.compile(r"'mode': <CompilationMode\.(\w{1,60})")),
    ("cudagraph_mode", re.compile(r"'cudagraph_mode': <CUDAGraphMode\.(\w{1,60})")),
    ("moe_backend", re.compile(r"\bmoe_backend='([^']{1,60})'")),
    ("reasoning_parser", re.compile(r"\breasoning_parser='([^']{0,60})'")),
)
_UNQUANTISED = ("bfloat16", "float16", "float32", "half", "float")
_OPEN, _CLOSE = "([{<", ")]}>"


def read_settings(config: str) -> dict[str, object]:
    """The settings in ``config`` (the text after "with config: ").

    Values are typed where the text is plainly a number, a truth value or None. ``speculative`` is None without a
    drafter, else {method, model, num_spec_tokens}. ``kv_cache_quantised`` is None when the line leaves the type to
    ``auto``: only a resolved type answers the question. A setting that is not in the line is not in the result.
    """
    pairs = top_level(config)
    settings: dict[str, object] = {name: value_of(pairs[name]) for name in KEPT if name in pairs}
    for name, pattern in _NESTED:
        match = pattern.search(config)
        if match is not None and match.group(1):
            settings[name] = match.group(1)
    if "speculative_config" in pairs:
        settings["speculative"] = _speculative(pairs["speculative_config"])
    if "kv_cache_dtype" in settings:
        settings["kv_cache_quantised"] = _quantised(settings["kv_cache_dtype"])
    return settings


def top_level(text: str) -> dict[str, str]:
    """Split "a=1, b=f(c=2, d='x, y')" at its outermost commas. A text that was cut gives the pairs that are whole."""
    pairs: dict[str, str] = {}
    depth, quote, start, index = 0, "", 0, 0
    while index <= len(text):
        char = text[index] if index < len(text) else ""
        if quote:
            if char == "\\":
                index += 1
            elif char == quote or not char:
                quote = ""
        elif char and char in "'\"":
            quote = char
        elif char and char in _OPEN:
            depth += 1
        elif char and char in _CLOSE:
            depth -= 1
        elif (char == "," or not char) and depth <= 0:
            name, equals, value = text[start:index].strip().partition("=")
            if equals and name.isidentifier():
                pairs[name] = value
            start, depth = index + 1, 0
        index += 1
    return pairs


def value_of(text: str) -> Setting:
    """A Python literal of the simple kinds as that value, anything else as cleaned text."""
    text = text.strip()
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,15}", text):
        return float(text)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return clean(text, 200)


def _speculative(text: str) -> dict[str, Setting] | None:
    if text.strip() == "None":
        return None
    inner = top_level(text.partition("(")[2].rpartition(")")[0])
    return {name: value_of(inner[name]) for name in ("method", "model", "num_spec_tokens") if name in inner}


def _quantised(dtype: object) -> bool | None:
    if not isinstance(dtype, str) or dtype == "auto":
        return None
    return dtype.removeprefix("torch.") not in _UNQUANTISED
