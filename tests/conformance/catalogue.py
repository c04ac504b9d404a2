# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue: every stream of the set, in the order it is shown."""

from __future__ import annotations

from . import streams_failures, streams_figures, streams_framing
from .script import CATALOGUE, Play, Step, Stream, table

__all__ = ["CATALOGUE", "Play", "Step", "Stream", "streams_failures", "streams_figures", "streams_framing", "table"]
