# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernels of an engine's image can do on this device, beside what a boot chose, and what follows."""

from __future__ import annotations

import json
from typing import Any


def read_answer(output: str) -> dict[str, Any] | None:
    """The facts in what the facts script printed in the image: its last line that is such an object, else None."""
    for line in reversed(output.splitlines()[-50:]):
        if line.startswith("{") and len(line) < 100_000:
            try:
                facts = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(facts, dict) and str(facts.get("schema", "")).startswith("lobes.spike/image-facts/"):
                return facts
    return None


def fp4_conclusions(
    facts: dict[str, Any], checkpoint: dict[str, Any] | None = None, moe_backend: str | None = None
) -> list[str]:
    """The sentences that the image's facts support about FP4 on this device.

    ``checkpoint`` is what ``inspect_checkpoint`` returns, ``moe_backend`` what a boot chose; either may be unknown.
    """
    capability, number = facts.get("capability"), facts.get("capability_int")
    fp4 = facts.get("fp4") or {}
    scaled = fp4.get("cutlass_scaled_mm_supports_fp4")
    if capability is None:
        return ["The image sees no CUDA device here: its FP4 kernels could not be asked."]
    said = []
    here = scaled.get(str(number)) if isinstance(scaled, dict) else None
    if here is True:
        said.append(
            f"The CUTLASS FP4 kernels report support for capability {capability}: a notice of missing native FP4 "
            "support is not a statement about this device."
        )
    elif here is False:
        said.append(f"The CUTLASS FP4 kernels report no support for capability {capability}.")
    else:
        said.append(f"Whether the CUTLASS FP4 kernels support capability {capability} could not be asked.")
    kinds = (checkpoint or {}).get("kinds") or {}
    weight_only = bool(kinds.get("experts.*.weight_scale")) and not kinds.get("experts.*.input_scale")
    if weight_only and here is True:
        chosen = f" ({moe_backend} was chosen)" if moe_backend else ""
        said.append(
            "The experts carry no activation scales, so the weight-only path is taken for the checkpoint's sake, not "
            f"for the device's{chosen}: there is no native FP4 speed-up to unlock with this checkpoint."
        )
    elif moe_backend and moe_backend.upper() == "MARLIN" and here is True and kinds.get("experts.*.input_scale"):
        said.append("MARLIN was chosen although device and checkpoint would allow native FP4: worth an arm of its own.")
    return said
