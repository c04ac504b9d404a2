# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device, which is there where the stand-in nvidia runtime has been."""

from __future__ import annotations

import os
from types import SimpleNamespace


def is_available() -> bool:
    """Whether the runtime brought the device in."""
    return os.path.isdir("/run/spike-sim")


def device_count() -> int:
    """One or none."""
    return int(is_available())


def get_arch_list() -> list[str]:
    """The architectures of the build."""
    return ["sm_80", "sm_90", "sm_100", "sm_110", "sm_120"]


def get_device_name(index: int = 0) -> str:
    """The device's name."""
    return "NVIDIA Thor"


def get_device_capability(index: int = 0) -> tuple[int, int]:
    """Its compute capability."""
    return (11, 0)


def get_device_properties(index: int = 0) -> SimpleNamespace:
    """Its memory."""
    return SimpleNamespace(total_memory=128790092 * 1024, name="NVIDIA Thor", major=11, minor=0)
