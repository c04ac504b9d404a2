# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a needle of 1,040,000 tokens costs to build, without the engine's counting: prints {build_s, rss_mb, tokens}."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.lobes.spike.plugins.module_utils.workloads import haystack
from ansible_collections.lobes.spike.plugins.module_utils.workloads.plans import NeedlePlan

TARGET = 1_040_000
CHARACTERS_PER_TOKEN = 4


def count(text: str) -> int:
    """Stands in for the engine's tokenizer at no cost."""
    return len(text) // CHARACTERS_PER_TOKEN


def main() -> None:
    plan = NeedlePlan.from_options(
        {
            "prompt_tokens": TARGET,
            "depth": 37,
            "secret": "MAROON-4817",
            "question": "What is the code?",
            "statement": "The code is {secret}.",
        }
    )
    started = time.monotonic()
    needle = haystack.build(plan, lambda messages: 9 + count(messages[0]["content"]), count)
    build_s = time.monotonic() - started
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"build_s": build_s, "rss_mb": rss_mb, "tokens": needle.tokens}))


if __name__ == "__main__":
    main()
