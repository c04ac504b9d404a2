# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a fleet costs its controller: ``python3 -m bench.scale`` (from the tests folder), or `make bench-scale`.

One spike on the box double is recorded at the connection; then as many boxes as asked answer the same, each at once, so
that what is left is the controller's own work. The double's answers are real, its time is taken away.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BOX, NAME, PORT = ROOT / "tests/doubles/box/box.sh", "spike-scale", "2247"
SPIKE, ARMS = "2026-01-01-scale-thor", ("B", "C")
HEAD = """# What a fleet costs its controller

Written by `make bench-scale`. One spike of {arms} arms with all phases on the simulated Thor was recorded at the
connection ({tasks} commands and files); then so many boxes answered the same, each at once, in one run of
`lightning-spike.yml`. What is left is the controller's work: CPU time of ansible-playbook with its workers (no ssh
clients, which the recording has none of), the highest resident size of its main process, and the highest sum of what
all its processes hold for themselves and their share of what they share (PSS), looked at every two seconds. `forks` is
50, as in `ansible.cfg`.

| boxes | finished | wall s | CPU s | CPU s a box and arm | main process MB | MB each box more | all processes MB |
|---|---|---|---|---|---|---|---|
"""
TAIL = """
A single box pays alone for the start of ansible-playbook and for the templates' first reading. Goals: under 10 s of CPU
a box and arm; under 100 MB and 2 MB a box for the main process. Numbers of boxes that are not in the table were not
measured.
"""


@dataclass(frozen=True)
class Cost:
    """One run: of how many boxes, how many wrote a transcript, what it took."""

    boxes: int
    finished: int
    wall_s: float
    cpu_s: float
    main_mb: float
    all_mb: float


class Watch(threading.Thread):
    """The highest memory of a process and its descendants, MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.main_mb, self.all_mb, self.over = pid, 0.0, 0.0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(2):
            self.main_mb = max(self.main_mb, _field(self.pid, "status", "VmHWM"))
            self.all_mb = max(self.all_mb, sum(_field(pid, "smaps_rollup", "Pss") for pid in _family(self.pid)))


def _field(pid: int, file: str, name: str) -> float:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.M)
    except (OSError, ProcessLookupError):
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def _family(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (OSError, ProcessLookupError):
            continue
        children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, at = [pid], 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def record(answers: Path) -> None:
    """A whole spike on the box double, its answers kept."""
    subprocess.run([BOX, "up", NAME, PORT], check=True, stdout=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            command = _command(Path(folder), ["thor"], "recorded")
            subprocess.run(command, cwd=ROOT, env=_environment(answers, Path(folder)), check=True)
    finally:
        subprocess.run([BOX, "down", NAME], check=False, stdout=subprocess.DEVNULL)


def replay(answers: Path, boxes: int) -> Cost:
    """The same spike for so many boxes at once."""
    with tempfile.TemporaryDirectory(prefix="scale-") as folder, open(Path(folder) / "said", "wb") as said:
        here = Path(folder)
        names = [f"thor-{n + 1}" for n in range(boxes)]
        began = time.monotonic()
        process = subprocess.Popen(
            _command(here, names, "replayed"), cwd=ROOT, env=_environment(answers, here), stdin=subprocess.DEVNULL,
            stdout=said, stderr=said,
        )  # fmt: skip
        watch = Watch(process.pid)
        watch.start()
        _pid, status, usage = os.wait4(process.pid, 0)
        watch.over.set()
        watch.join()
        wall_s = time.monotonic() - began
        finished = len(list((here / "evidence").glob(f"{SPIKE}/*/transcript.txt")))
        if status:
            tail = (here / "said").read_text(errors="replace").splitlines()[-40:]
            sys.stderr.write("\n".join(tail) + "\n")
        return Cost(boxes, finished, wall_s, usage.ru_utime + usage.ru_stime, watch.main_mb, watch.all_mb)


def _command(folder: Path, names: list[str], connection: str) -> list[str]:
    inventory = folder / "inventory"
    shutil.copytree(ROOT / "inventories/sim/group_vars", inventory / "group_vars")
    variables = {
        **yaml.safe_load((ROOT / "inventories/sim/hosts.yml").read_text())["boxes"]["vars"],
        "ansible_connection": connection,
        "ansible_port": int(PORT),
        "ansible_ssh_private_key_file": str(ROOT / "build/sim/id_ed25519"),
    }
    (inventory / "hosts.yml").write_text(json.dumps({"boxes": {"hosts": dict.fromkeys(names), "vars": variables}}))
    extra = {
        "worker_lane_approval": names, "spike_id": SPIKE, "spike_arms": ",".join(ARMS),
        "spike_evidence_dir": str(folder / "evidence"),
        "spike_image": (ROOT / "build/sim/engine.digest").read_text().strip(),
    }  # fmt: skip
    return [
        str(ROOT / ".venv/bin/ansible-playbook"), "playbooks/lightning-spike.yml", "-i", str(inventory),
        "-e", json.dumps(extra),
    ]  # fmt: skip


def _environment(answers: Path, folder: Path) -> dict[str, str]:
    places = folder / "places"
    places.mkdir()
    return {
        **os.environ, "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).parent / "connection"), "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        "SCALE_ANSWERS": str(answers), "SCALE_PLACES": str(places),
    }  # fmt: skip


def page(costs: list[Cost], tasks: int, machine: str) -> str:
    """The page ``docs/scale.md``."""
    out = HEAD.format(arms=len(ARMS), tasks=tasks)
    base = costs[0].main_mb
    for cost in costs:
        each = "-" if cost is costs[0] else f"{(cost.main_mb - base) / (cost.boxes - costs[0].boxes):.2f}"
        out += (
            f"| {cost.boxes} | {cost.finished} | {cost.wall_s:.0f} | {cost.cpu_s:.0f} | "
            f"{cost.cpu_s / cost.boxes / len(ARMS):.1f} | {cost.main_mb:.0f} | {each} | {cost.all_mb:.0f} |\n"
        )
    return f"{out}\n{machine}\n{TAIL}"


def main() -> int:
    """Exit status 1 when a box did not finish."""
    parser = argparse.ArgumentParser(prog="python3 -m bench.scale")
    parser.add_argument("--boxes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--answers", type=Path, default=ROOT / ".cache/scale", help="a recording that is there is used")
    options = parser.parse_args()
    if not options.answers.exists():
        options.answers.mkdir(parents=True)
        record(options.answers)
    costs = []
    for boxes in options.boxes:
        costs.append(replay(options.answers, boxes))
        sys.stdout.write(f"{costs[-1]}\n")
        sys.stdout.flush()
    if options.markdown:
        machine = (
            f"Two shared cores of a virtual machine, Python {sys.version.split()[0]}, {time.strftime('%Y-%m-%d')}."
        )
        options.markdown.write_text(page(costs, len(list(options.answers.iterdir())), machine), encoding="utf-8")
    return int(any(cost.finished != cost.boxes for cost in costs))


if __name__ == "__main__":
    sys.exit(main())
