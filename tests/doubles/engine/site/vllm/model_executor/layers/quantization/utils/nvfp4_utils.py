# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether NVFP4 has native kernels here."""

import torch


def cutlass_fp4_supported() -> bool:
    """On Thor it has."""
    return torch.cuda.is_available()
