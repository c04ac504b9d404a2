# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stand-in this is depends on the name it is called by: ``python3 -m spike_box NAME [ARGUMENTS]``."""

from __future__ import annotations

import signal
import sys

from . import control, kernel_log, tegrastats, tools

TOOLS = {
    "tegrastats": tegrastats.main,
    "dmesg": kernel_log.dmesg,
    "journalctl": kernel_log.journalctl,
    "nvpmodel": tools.nvpmodel,
    "nvfancontrol": tools.nvfancontrol,
    "jetson_clocks": tools.jetson_clocks,
    "nvidia-smi": tools.nvidia_smi,
    "systemctl": tools.systemctl,
    "box": control.main,
}

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(TOOLS[sys.argv[1]](sys.argv[2:]))
