# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two spikes on the real vLLM, one left alone and one interrupted at random moments: are their documents the same?

``python tests/real/interruptions.py FOLDER`` (`make real-interruptions`) takes half an hour. Evidence that is there
already is compared by ``--compare-only``. Timings and incidents may differ, nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Whom the signal reaches: a terminal's Ctrl-C all, a service manager's or an operator's kill the one.
WAYS = (("group", signal.SIGINT), ("process", signal.SIGTERM), ("group", signal.SIGKILL), ("process", signal.SIGKILL))
NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")


def spike(evidence: Path, log: Path) -> subprocess.Popen[bytes]:
    """The spike as `make spike-cpu` runs it, begun."""
    with open(log, "ab") as said:
        return subprocess.Popen(
            [ROOT / "tools/spike.sh", "cpu", "cpu", "-e", f"spike_evidence_dir={evidence}"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said, process_group=0,
        )  # fmt: skip


def clean() -> None:
    """Forget the last spike's record on the box, so that the next one is not taken for its continuation."""
    shutil.rmtree(ROOT / "build/cpu/lightning-spike", ignore_errors=True)


def alone(folder: Path) -> float:
    """A spike that nobody interrupts; how long it took, seconds."""
    clean()
    began = time.monotonic()
    code = spike(folder / "alone", folder / "alone.log").wait()
    assert code == 0, f"the spike ended with {code}; see {folder / 'alone.log'}"
    return time.monotonic() - began


def interrupted(folder: Path, length_s: float, seed: int) -> list[str]:
    """A spike hit five times, the same command again each time; what was done to it and when."""
    clean()
    chance = random.Random(seed)
    moments = sorted(chance.uniform(0.02, 0.98) * length_s for _ in range(5))
    done, at_work_s = [], 0.0
    for moment in moments:
        began = time.monotonic()
        process = spike(folder / "interrupted", folder / "interrupted.log")
        whom, how = chance.choice(WAYS)
        time.sleep(moment - at_work_s)
        at_work_s = moment
        ended = process.poll()
        if ended is not None:
            # The same command would begin another spike.
            assert ended == 0, [*done, f"after {moment:.0f} s the spike had ended, with {ended}"]
            return done
        (os.killpg if whom == "group" else os.kill)(process.pid, how)
        code = process.wait()
        done.append(f"after {moment:.0f} s of work {how.name} to the {whom}, which ended with {code}")
        sys.stdout.write(f"{done[-1]} ({time.monotonic() - began:.0f} s in this run)\n")
        sys.stdout.flush()
        time.sleep(chance.uniform(0, 15))
    code = spike(folder / "interrupted", folder / "interrupted.log").wait()
    assert code == 0, f"the spike ended with {code} at last; see {folder / 'interrupted.log'}"
    return done


def kept(results: dict[str, Any]) -> dict[str, Any]:
    """What two documents must share: all but times, rates, heat and incidents, and what is computed of them."""
    figures = {}
    for figure in results["figures"]:
        key = " ".join(str(figure[part]) for part in ("arm", "workload", "measure", "state", "run"))
        counted = figure["measure"].endswith("_tokens") and not figure["measure"].startswith("cpu_s")
        figures[key] = [
            figure["value"] if counted else figure["value"] is not None,
            figure["n"],
            masked(figure["reason"] or ""),
        ]
    findings = {k: v for k, v in results["findings"].items() if k != "incidents"}
    tables = [
        {**table, "rows": [[row["label"], *map(masked, row["cells"])] for row in table["rows"]]}
        for table in results["tables"]
    ]
    return {
        **{part: results[part] for part in ("image", "model", "model_revision", "verdict", "rule", "definitions")},
        "arms": [[arm["name"], arm["ready"]] for arm in results["arms"]],
        "probes": results["probes"], "workloads": [ranking["workload"] for ranking in results["rankings"]],
        "figures": figures, "findings": findings, "tables": tables,
    }  # fmt: skip


def masked(text: str) -> str:
    """A text without its numbers."""
    return NUMBER.sub("#", text)


def differences(a: Any, b: Any, where: str = "") -> Iterator[str]:
    """Every place where two documents differ, by its path."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            if key not in a or key not in b:
                yield f"{where}/{key}: only in the {'interrupted' if key in b else 'other'} one"
            else:
                yield from differences(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for n, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(one, other, f"{where}/{n}")
    elif a != b:
        yield f"{where}: {a!r} alone, {b!r} interrupted"


def document(evidence: Path) -> dict[str, Any]:
    """The only spike's results.json below a folder."""
    (path,) = evidence.glob("*/cpu/results.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Exit status 1 when the documents differ."""
    parser = argparse.ArgumentParser(description="Interrupt a spike on the real engine five times.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--length-s", type=float, help="how long the spike takes that FOLDER holds already")
    parser.add_argument("--compare-only", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not options.compare_only:
        length_s = options.length_s or alone(folder)
        sys.stdout.write(f"alone: {length_s:.0f} s; seed {options.seed}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{len(interrupted(folder, length_s, options.seed))} interruptions\n")
    found = list(differences(kept(document(folder / "alone")), kept(document(folder / "interrupted"))))
    for line in found:
        sys.stdout.write(f"{line[:400]}\n")
    sys.stdout.write(f"{len(found)} differences beside timings and incidents\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
