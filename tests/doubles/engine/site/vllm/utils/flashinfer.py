# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What FlashInfer offers."""

import torch  # noqa: F401  # as the real module, this one is nothing without it


def has_flashinfer_cutlass_fused_moe() -> bool:
    """It is there."""
    return True
