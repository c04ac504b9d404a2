# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors a module turns into one clear failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SpikeError(Exception):
    """A failure the operator is told about in one sentence.

    ``partial`` holds what is known so far (returned beside ``msg``), so that nothing measured is lost.
    """

    def __init__(self, message: str, partial: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.partial: dict[str, Any] = dict(partial or {})


class PlanError(SpikeError):
    """A plan that cannot be carried out; raised before anything is sent or touched.

    ``field`` is the option's name, ``value`` what it held, ``remedy`` what to write instead (a sentence).
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        shown = repr(value)
        if len(shown) > 200:
            shown = shown[:200] + "..."
        super().__init__(f"{field}: {shown} cannot be used. {remedy}")
