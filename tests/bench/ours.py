# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This project's client as a program: ``python3 ours.py URL STREAMS REQUESTS TOKENS RESULTS.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.lobes.spike.plugins.module_utils.client import ChatRequest, Endpoint, run_batch


def request(label: str, tokens: int) -> ChatRequest:
    body = {
        "model": "truth",
        "messages": [{"role": "user", "content": "Count. " * 12}],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "max_tokens": tokens,
        "min_tokens": tokens,
        "ignore_eos": True,
        "request_id": label,
    }
    return ChatRequest(body, label=label)


def main() -> None:
    url, streams, requests, tokens, results = sys.argv[1:]
    endpoint = Endpoint.parse(url)
    samples = []
    for batch in range(int(requests) // int(streams)):
        labels = [f"{batch}-{i}" for i in range(int(streams))]
        samples += run_batch(endpoint, [request(label, int(tokens)) for label in labels])
    Path(results).write_text(json.dumps([sample.to_json() for sample in samples]))


if __name__ == "__main__":
    main()
