# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``vllm bench serve``, from the image in ``SPIKE_VLLM_IMAGE`` (any with vLLM), else the engine's that is here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from . import tools

NAME = "vllm bench serve"
VERSION = os.environ.get("SPIKE_VLLM_VERSION", "0.29.0")


def image() -> str | None:
    """The image asked for, else this project's CPU build of the engine when it is here."""
    given = os.environ.get("SPIKE_VLLM_IMAGE")
    if given or shutil.which("docker") is None:
        return given
    command = ["docker", "images", "--format", "{{.Repository}} {{.ID}}"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = (line.split() for line in listed.splitlines() if "vllm-openai-cpu" in line)
    return next((each[1] for each in found), None)


def available() -> str | None:
    if image() is None:
        return "no image: set SPIKE_VLLM_IMAGE"
    return None if tools.tokenizer() else "no tokenizer: set SPIKE_PEERS_TOKENIZER"


def command(load: tools.Load) -> list[str]:
    forced = ["--ignore-eos"] if load.forced else []
    inner = ["vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", load.url, "--model", load.model]
    inner += ["--endpoint", "/v1/chat/completions", "--tokenizer", "/tokenizer", "--dataset-name", "random"]
    inner += ["--random-input-len", "32", "--random-output-len", str(load.tokens), "--disable-tqdm"]
    inner += ["--num-prompts", str(load.requests), "--max-concurrency", str(load.streams), *forced]
    inner += ["--save-result", "--save-detailed", "--result-dir", "/out", "--result-filename", "vllm.json"]
    run = ["docker", "run", "--rm", "--network", "host", "-v", f"{tools.tokenizer()}:/tokenizer:ro"]
    run += ["-v", f"{load.out}:/out", "--entrypoint", "python3", str(image())]
    # The CPU is spent in the container, so it is counted there.
    return [*run, "-c", tools.CPU, "/out/inside.json", *inner]


def read(folder: Path) -> list[tools.Report]:
    data = json.loads((folder / "vllm.json").read_text())
    reports: list[tools.Report] = []
    for index, error in enumerate(data["errors"]):
        gaps, ttft, tokens = data["itls"][index], data["ttfts"][index], data["output_lens"][index]
        if error:
            reports.append({"status": "failed", "error": error})
            continue
        # Its TPOT is (end - first token) / (tokens - 1); the end is the sum of the gaps.
        span = sum(gaps)
        reports.append(
            {
                "status": "ok",
                "ttft_s": ttft,
                "tokens": tokens,
                "decode_tok_s": (tokens - 1) / span if tokens > 1 and span else None,
                "max_gap_s": max(gaps, default=None),
                "text": data["generated_texts"][index],
            }
        )
    return reports


def cpu_s(folder: Path) -> float | None:
    """The CPU seconds inside the container."""
    path = folder / "inside.json"
    return json.loads(path.read_text())["cpu_s"] if path.exists() else None


def measure(url: str, names: list[str]) -> dict[str, tools.Report | None]:
    return tools.one_by_one(command, read, url, names)
