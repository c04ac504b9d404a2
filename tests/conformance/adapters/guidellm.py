# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GuideLLM: https://pypi.org/project/guidellm/"""

from __future__ import annotations

import json
from pathlib import Path

from . import tools

NAME = "guidellm"
VERSION = "0.8.1"


def available() -> str | None:
    return tools.missing("guidellm", "guidellm")


def command(load: tools.Load) -> list[str]:
    return [
        str(tools.program("guidellm", "guidellm")),
        "run",
        "--backend",
        f"kind=openai_http,target={load.url},model={load.model}",
        "--profile",
        f"kind=concurrent,streams={load.streams}",
        "--constraint",
        f"kind=max_requests,count={load.requests}",
        "--data",
        f"kind=synthetic_text,prompt_tokens=32,output_tokens={load.tokens}",
        "--tokenizer",
        f"kind=huggingface_auto,model={tools.tokenizer()}",
        "--output",
        f"kind=json,path={load.out / 'guidellm.json'}",
        "--disable-console",
    ]


def read(folder: Path) -> list[tools.Report]:
    data = json.loads((folder / "guidellm.json").read_text())
    requests = data["benchmarks"][0]["requests"]
    reports: list[tools.Report] = []
    for request in requests["successful"]:
        reports.append(
            {
                "status": "ok",
                "ttft_s": tools.seconds(request["time_to_first_token_ms"]),
                "first_answer_s": tools.seconds(request["time_to_first_output_token_ms"]),
                "tokens": request["output_tokens"],
                "decode_tok_s": tools.rate(tools.seconds(request["inter_token_latency_ms"])),
                "text": request["output"] or "",
            }
        )
    for request in requests["errored"]:
        error = (request.get("info") or {}).get("error")
        reports.append({"status": "failed", "error": error, "ttft_s": None})
    return reports


def measure(url: str, names: list[str]) -> dict[str, tools.Report | None]:
    return tools.one_by_one(command, read, url, names)
