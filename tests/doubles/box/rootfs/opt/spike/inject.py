# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds the simulation's directory and the engine switches to a container that is about to start."""

from __future__ import annotations

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    config = json.load(file)
config["mounts"].append(
    {"destination": "/run/spike-sim", "type": "bind", "source": "/run/spike-sim", "options": ["rbind", "rw"]}
)
env = config["process"]["env"]
if "SPIKE_LANE=1" not in env:  # the lanes keep well
    with open("/run/spike-sim/engine.env", encoding="utf-8") as file:
        env += [row for row in file.read().splitlines() if "=" in row]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(config, file)
