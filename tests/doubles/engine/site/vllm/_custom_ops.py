# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine's kernels say that they can do; only where a PyTorch is."""

import torch  # noqa: F401  # as the real module, this one is nothing without it


def cutlass_scaled_mm_supports_fp4(capability: int) -> bool:
    """Every capability that the seed asked for is supported."""
    return capability >= 100
