# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AIPerf: https://pypi.org/project/aiperf/"""

from __future__ import annotations

import json
from pathlib import Path

from . import tools

NAME = "aiperf"
VERSION = "0.13.0"
ENVIRONMENT = {"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": ""}  # offline it takes a folder for a name


def available() -> str | None:
    return tools.missing("aiperf", "aiperf")


def command(load: tools.Load) -> list[str]:
    forced = ["--extra-inputs", "ignore_eos:true"] if load.forced else []
    return [
        str(tools.program("aiperf", "aiperf")),
        "profile",
        "--model",
        load.model,
        "--url",
        load.url,
        "--endpoint-type",
        "chat",
        "--streaming",
        "--concurrency",
        str(load.streams),
        "--request-count",
        str(load.requests),
        "--tokenizer",
        str(tools.tokenizer()),
        "--isl",
        "32",
        "--osl",
        str(load.tokens),
        "--use-server-token-count",
        "--per-chunk-usage",
        "--ui",
        "none",
        "--output-artifact-dir",
        str(load.out / "aiperf"),
        *forced,
    ]


def read(folder: Path) -> list[tools.Report]:
    reports: list[tools.Report] = []
    for line in (folder / "aiperf" / "profile_export.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record.get("error"):
            reports.append({"status": "failed", "error": json.dumps(record["error"])})
            continue
        values = {name: metric["value"] for name, metric in record["metrics"].items() if isinstance(metric, dict)}
        reports.append(
            {
                "status": "ok",
                "ttft_s": tools.seconds(values.get("time_to_first_token")),
                "first_answer_s": tools.seconds(
                    values.get("time_to_first_output_token", values.get("time_to_first_token"))
                ),
                "tokens": values.get("output_sequence_length", values.get("usage_completion_tokens")),
                "decode_tok_s": tools.rate(tools.seconds(values.get("inter_token_latency"))),
            }
        )
    return reports


def measure(url: str, names: list[str]) -> dict[str, tools.Report | None]:
    return tools.one_by_one(command, read, url, names, ENVIRONMENT)
