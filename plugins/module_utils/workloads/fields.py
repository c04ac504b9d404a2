# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks on one option each; every one raises PlanError naming the field, its value and a remedy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import PlanError

MAX_TOKENS = 16_777_216
MAX_SAMPLES = 100_000


def whole(field: str, value: object, low: int, high: int, unit: str = "") -> int:
    """A whole number in [low, high]. ``True`` is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlanError(field, value, f"Write a whole number from {low} to {high}{unit and ' ' + unit}.")
    if not low <= value <= high:
        raise PlanError(field, value, f"Write a whole number from {low} to {high}{unit and ' ' + unit}.")
    return value


def positive(field: str, value: object, unit: str) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise PlanError(field, value, f"Write a number above 0 ({unit}), or leave it out.")
    return float(value)


def optional_positive(field: str, value: object, unit: str) -> float | None:
    """``positive``, or None for an option that was left out."""
    return None if value is None else positive(field, value, unit)


def text(field: str, value: object, longest: int = 4_000_000) -> str:
    """A text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise PlanError(field, value, "Write a text that is not empty.")
    if len(value) > longest:
        raise PlanError(field, value[:40], f"Write at most {longest} characters; this has {len(value)}.")
    return value


def name(field: str, value: object) -> str:
    """A short name that is safe in a file's name."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= 64
        or not value[0].isalnum()
        or not all(char.isascii() and (char.isalnum() or char in "-_.") for char in value)
    ):
        raise PlanError(field, value, "Write 1 to 64 letters, digits, '-', '_' or '.', with a letter or digit first.")
    return value


def one_of(field: str, value: object, known: Sequence[str]) -> str:
    """One of the known words."""
    if not isinstance(value, str) or value not in known:
        raise PlanError(field, value, f"Write one of {', '.join(known)}.")
    return value


def mapping(field: str, value: object) -> dict[str, Any]:
    """A mapping with text keys (None is an empty one)."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise PlanError(field, value, "Write a mapping.")
    return dict(value)


def percent_depth(field: str, value: object) -> float:
    """A depth in percent; a value below 1 is read as a share (0.37 is 37 %)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise PlanError(field, value, "Write a percentage from 0 to below 100, such as 37.")
    depth = value * 100 if 0 < value < 1 else float(value)
    if not 0 <= depth < 100:
        raise PlanError(field, value, "Write a percentage from 0 to below 100: at 100 % nothing follows the secret.")
    return round(depth, 6)
