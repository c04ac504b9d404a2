# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Under which conditions figures were measured. Figures of other conditions are neither averaged nor compared.

A condition that nobody recorded is ``not recorded``, which is like nothing but itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ..evidence import ArmEvidence, Evidence, mapping, number, rows, text, value
from .words import clean

NOT_RECORDED: Final = "not recorded"
NOT_SET: Final = "not set"
RULE: Final = (
    "figures are comparable when all of these are alike: box or double, kind of box, L4T, driver, power mode, engine "
    "digest, model and revision, and of the arm max_model_len and every flag; and of the figure itself the workload's "
    "plan and whether it was cold or warm"
)

Conditions = Mapping[str, str]


def of_box(evidence: Evidence) -> dict[str, str]:
    """What holds for all figures of one spike: the box, its software, the engine and the model."""
    spike, box = evidence.spike, evidence.box
    image = text(spike, "image") or text(evidence.image, "image") or ""
    models = [row for row in evidence.models if text(row, "role") in (None, "model")]
    revision = next((found for row in models if (found := text(row, "revision"))), text(spike, "model_revision"))
    known: dict[str, Any] = {
        "made on": "a double" if evidence.simulated else "a box",
        "kind of box": text(box, "identity", "model"),
        "L4T": value(box, "identity", "l4t", "release"),
        "driver": _driver(box),
        "power mode": value(box, "power", "mode"),
        "engine digest": image.partition("@")[2] or text(evidence.image, "digest") or text(spike, "endpoint"),
        "model": text(spike, "model"),
        "model revision": revision,
    }
    return {name: _said(found) for name, found in known.items()}


def of_arm(arm: ArmEvidence) -> dict[str, str]:
    """What holds for all figures of one arm: its window and its flags."""
    flags = {f"--{clean(name, 60)}": _said(found) for name, found in mapping(arm.plan, "args").items()}
    flags.pop("--max-model-len", None)
    return {"max_model_len": _said(_window(arm)), **flags}


def differences(ours: Conditions, theirs: Conditions, there: str) -> list[str]:
    """One sentence for every condition that is not alike; ``there`` names the other side."""
    return [
        f"{name}: {_shown(ours, name)} here, {_shown(theirs, name)} {there}"
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) != theirs.get(name)
    ]


def _driver(box: Mapping[str, Any]) -> Any:
    found = value(box, "gpu", "driver")
    return found or next((text(gpu, "driver") for gpu in rows(box, "gpu", "gpus")), None)


def _window(arm: ArmEvidence) -> Any:
    """The window that was served, as far as it is known, else the one that was asked for."""
    booted = number(arm.boot.kv_pool[0], "max_model_len") if arm.boot is not None else None
    served = next((found for result in arm.results if (found := number(result.data, "max_model_len"))), None)
    return booted or served or value(arm.plan, "args", "max-model-len")


def _said(found: Any) -> str:
    if found is None or found == "":
        return NOT_RECORDED
    return clean(found if isinstance(found, str) else json.dumps(found, sort_keys=True, ensure_ascii=False), 160)


def _shown(found: Conditions, name: str) -> str:
    return found.get(name, NOT_SET if name.startswith("--") else NOT_RECORDED)
