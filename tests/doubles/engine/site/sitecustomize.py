# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With SPIKE_TORCH set, Python in this image finds a stand-in of PyTorch and of the engine's kernels."""

import os
import sys

if os.environ.get("SPIKE_TORCH"):
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu"))
