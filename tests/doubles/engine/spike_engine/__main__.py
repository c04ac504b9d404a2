# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point: ``vllm serve`` as the double plays it."""

from __future__ import annotations

import asyncio
import sys

from .faults import listing
from .process import main

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--list-faults" in arguments:
        sys.stdout.write(listing() + "\n")
        sys.exit(0)
    sys.exit(asyncio.run(main(arguments)))
