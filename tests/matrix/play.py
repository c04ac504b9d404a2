# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays a row: a clean box, a short spike, the fault at its moment, what is run afterwards, and what is left of it all.

One box double is used for all rows, reached as ``inventories/sim`` reaches it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .catalogue import Outcome, Row

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv/bin"
BOX = ROOT / "tests/doubles/box/box.sh"
NAME, PORT = os.environ.get("MATRIX_BOX", "spike-matrix"), os.environ.get("MATRIX_PORT", "2243")
LIMIT_S = 300.0
"""Longer than any row takes; what is at work then is ended and the row is wrong."""
# One result before the fault, and a phase that is long enough for a fault to fall into it.
DECODE = [
    {"name": "prose", "prompt": "Write an essay about the tides.", "max_tokens": 128, "runs": 1},
    {
        "name": "code",
        "prompt": "Write a Python module with a class for an interval tree.",
        "max_tokens": 256,
        "runs": 4,
    },
]
# Slow enough that a fault can fall into a phase: a run of decode takes about three seconds.
ENGINE = {"SPIKE_SPEEDUP_BOOT": "180", "SPIKE_SPEEDUP_PREFILL": "100", "SPIKE_SPEEDUP_DECODE": "1"}
WORKER, OTHERS = "model-gear-vllm-worker", "model-gear-vllm-embed model-gear-vllm-rerank"
STARTED = f"docker inspect -f '{{{{.State.StartedAt}}}}' {OTHERS}"
CLEAN = f"""
box heal; box engine; umount /tmp /proc/sys/kernel/random/boot_id 2>/dev/null
docker ps -aq --filter label=lobes.spike.arm | xargs -r docker rm -f
docker start {WORKER} {OTHERS}
rm -rf ~/lightning-spike
"""
# Results that are whole; what is set aside counts as kept.
RESULTS = (
    "cd ~/lightning-spike 2>/dev/null && find . -path '*/results*/*.json*' ! -name '*.progress' ! -name '*.partial'"
)
FILLER = "fills-the-disk"
RECORDER = """python3 - <<'END'
import glob, json, os
for about in glob.glob(os.path.expanduser("~/lightning-spike/*/telemetry/recorder.json")):
    found = json.load(open(about))
    try:
        fields = open("/proc/%d/stat" % found["pid"]).read().rpartition(")")[2].split()
    except OSError:
        continue
    if fields[0] != "Z":
        print(found["pid"])
END"""


@dataclass
class Run:
    """A run of the playbook that has ended: its exit status (negative: the signal) and all that it said."""

    code: int
    said: str


class Player:
    """Has a box double while the block lasts, and plays rows on it."""

    def __enter__(self) -> Player:
        subprocess.run([BOX, "up", NAME, PORT], check=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_failure: object) -> None:
        subprocess.run([BOX, "down", NAME], check=False, stdout=subprocess.DEVNULL)

    def play(self, row: Row, keep: Path | None = None) -> Outcome:
        """Play a row; its evidence and what was said go to ``keep`` where one is given."""
        folder = Path(tempfile.mkdtemp(prefix="matrix-"))
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            played = _Play(row, folder)
            if row.small_disk:
                stack.enter_context(_small_disk(played.evidence))
            if keep is not None:
                ignore = shutil.ignore_patterns("cp", FILLER)
                stack.callback(shutil.copytree, folder, keep / row.name, dirs_exist_ok=True, ignore=ignore)
            return played.outcome()


class _Play:
    def __init__(self, row: Row, folder: Path) -> None:
        self.row, self.folder = row, folder
        self.wrong: list[str] = []
        self.sockets = folder / "cp"
        self.sockets.mkdir()
        self.evidence = folder / "evidence"

    def outcome(self) -> Outcome:
        """Play it and judge."""
        row = self.row
        on_box(CLEAN)
        if row.before:
            on_box(row.before)
        lanes = on_box(STARTED)
        first, measured, other = self._first()
        if row.heal:
            on_box(row.heal)
        (self.evidence / FILLER).unlink(missing_ok=True)
        happened = [_ended("the spike", first)]
        self._exit("the spike", first, row.exit)
        self._says("the spike", first.said, row.says)
        if other is not None:
            self._says("the other run", other.said, row.other)
        again = self._then()
        if again is not None:
            happened.append(_ended("the same command" if row.then == "again" else "cleanup.yml", again))
            self._exit("the run after it", again, row.then_exit)
            self._says("the run after it", again.said, row.then_says)
        happened += self._document()
        lost = self._lost(measured)
        happened.append(
            f"{len(measured)} results measured before the fault" if measured else "nothing was measured yet"
        )
        self._box_is_left_well(lanes)
        quotes = [*self._quotes(first, row.says), *(self._quotes(again, row.then_says) if again else ())]
        return Outcome("; ".join([*happened, *quotes]), ", ".join(lost), "; ".join(self.wrong))

    # The spike and its fault.

    def command(self, *more: str) -> list[str]:
        row = self.row
        container = {"runtime": "nvidia", "ipc_mode": "host", "env": {**ENGINE, **row.env}}
        variables = {
            "ansible_port": int(PORT), "worker_lane_approval": "thor", "spike_evidence_dir": str(self.evidence),
            "spike_arms": "B", "spike_phases": row.phases, "spike_container": container,
            "spike_telemetry_interval_s": 1, "measure_decode": DECODE, **row.variables,
        }  # fmt: skip
        return [
            str(BIN / "ansible-playbook"), "playbooks/lightning-spike.yml", "-i", "inventories/sim", "-l", "thor",
            "-e", json.dumps(variables), *more,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        # Its own control sockets, so that a row that kills a connection kills no other's.
        return {**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.sockets), "ANSIBLE_NOCOLOR": "1"}

    def _first(self) -> tuple[Run, dict[str, str], Run | None]:
        row, log = self.row, self.folder / "first.log"
        measured: dict[str, str] = {}
        other = None
        with _started(self.command(), self.environment(), log) as process:
            if row.when and self._moment(process):
                measured = sums()
                other = self._inject(process)
            code = _wait(process)
        if code is None:
            self.wrong.append(f"the spike was at work after {LIMIT_S:.0f} s")
            code = -signal.SIGKILL
        return Run(code, log.read_text(errors="replace")), measured, other

    def _moment(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for it; False when the spike ended before."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and process.poll() is None:
            if "said" in self.row.when:
                there = self.row.when["said"] in (self.folder / "first.log").read_text(errors="replace")
            elif "partial" in self.row.when:
                partial = next(self.evidence.glob("*/thor/transcript.partial.txt"), None)
                there = partial is not None and self.row.when["partial"] in partial.read_text(errors="replace")
            else:
                # Waited for on the box itself: each look from outside would be a process there.
                glob = f"~/lightning-spike/{self.row.when['file']}"
                there = on_box(f"for i in $(seq 50); do ls {glob} 2>/dev/null && break; sleep 0.1; done") != ""
            if there:
                time.sleep(float(self.row.when.get("later_s", 0)))
                return True
            time.sleep(0.2)
        self.wrong.append(f"the moment of the fault never came: {dict(self.row.when)}")
        return False

    def _inject(self, process: subprocess.Popen[bytes]) -> Run | None:
        """Do what is to be done, to whom."""
        for whom, what in self.row.inject.items():
            if whom == "box":
                on_box(what)
            elif whom == "process":
                process.send_signal(signal.Signals[what])
            elif whom == "group":
                os.killpg(process.pid, signal.Signals[what])
            elif whom == "connection":
                os.kill(self._master(), signal.Signals[what])
            elif whom == "evidence":
                subprocess.run(["dd", "if=/dev/zero", f"of={self.evidence / FILLER}", "bs=4k"], capture_output=True)
            elif whom == "host":
                subprocess.run(what.format(name=NAME), shell=True, check=True, capture_output=True)
                subprocess.run([BOX, "up", NAME, PORT], check=True, stdout=subprocess.DEVNULL)
            elif whom == "operator":
                done = subprocess.run(
                    self.command("-e", what), cwd=ROOT, env=self.environment(), stdin=subprocess.DEVNULL,
                    capture_output=True, text=True, timeout=LIMIT_S,
                )  # fmt: skip
                return Run(done.returncode, done.stdout + done.stderr)
            else:
                raise ValueError(f"{self.row.name}: nobody is called {whom}")
        return None

    def _master(self) -> int:
        """The pid of the shared ssh connection of this spike."""
        for socket in self.sockets.iterdir():
            done = subprocess.run(
                ["ssh", "-o", f"ControlPath={socket}", "-O", "check", "box"], capture_output=True, text=True
            )
            found = re.search(r"pid=(\d+)", done.stderr + done.stdout)
            if found:
                return int(found.group(1))
        raise AssertionError("the spike has no shared connection")

    def _then(self) -> Run | None:
        command = {
            "again": self.command(),
            "cleanup": [
                str(BIN / "ansible-playbook"), "playbooks/cleanup.yml", "-i", "inventories/sim", "-l", "thor",
                "-e", f"ansible_port={PORT}",
            ],
        }.get(self.row.then)  # fmt: skip
        if command is None:
            return None
        log = self.folder / "then.log"
        with _started(command, self.environment(), log) as process:
            code = _wait(process)
        if code is None:
            self.wrong.append(f"the run after it was at work after {LIMIT_S:.0f} s")
            code = -signal.SIGKILL
        return Run(code, log.read_text(errors="replace"))

    # What is held against what must be.

    def _exit(self, who: str, run: Run, wanted: str) -> None:
        right = {"any": True, "ok": run.code == 0, "failed": run.code > 0, "killed": run.code != 0}[wanted]
        if not right:
            self.wrong.append(f"{who} ended with {run.code}, not {wanted}: {_tail(run.said)}")

    def _says(self, who: str, said: str, wanted: Sequence[str]) -> None:
        self.wrong += [f"{who} does not say {words!r}" for words in wanted if not re.search(words, said)]

    def _quotes(self, run: Run, wanted: Sequence[str]) -> Iterator[str]:
        for words in wanted:
            found = re.search(rf"{words}[^\n\"]*", run.said)
            if found:
                yield f"'{found.group()[:160]}'"

    def _document(self) -> list[str]:
        row = self.row
        home = next(self.evidence.glob("*/thor"), None)
        if row.document == "none":
            if home is not None and (home / "transcript.txt").exists():
                self.wrong.append("a transcript was written although nothing was begun")
            return ["no transcript, nothing was begun"]
        name = "transcript.txt" if row.document == "final" else "transcript.partial.txt"
        if home is None or not (home / name).exists():
            self.wrong.append(f"there is no {name}")
            return [f"no {name}"]
        if row.after:
            subprocess.run(["bash", "-c", row.after], cwd=home, check=True)
        text = (home / name).read_text(encoding="utf-8", errors="replace")
        self._says("the transcript", text, row.document_says)
        stray = sorted({f"U+{ord(c):04X}" for c in text if not c.isprintable() and c != "\n"})
        if stray:
            self.wrong.append(f"the transcript holds raw {', '.join(stray)}")
        quotes = [f"the transcript: {quote}" for quote in self._quotes(Run(0, text), row.document_says)]
        if row.document != "final":
            return ["partial transcript readable", *quotes]
        done = subprocess.run(
            [str(BIN / "ansible"), "localhost", "-m", "lobes.spike.transcript_info", "-a", f"evidence_dir={home}"],
            cwd=ROOT, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, capture_output=True, text=True,
        )  # fmt: skip
        said = done.stdout + done.stderr
        (self.folder / "verify.log").write_text(said)
        if row.document_refused:
            if done.returncode == 0:
                self.wrong.append("transcript_info does not refuse it")
            self._says("transcript_info", said, row.document_refused)
            return ["transcript_info refuses the evidence", *self._quotes(Run(1, said), row.document_refused)]
        if done.returncode:
            self.wrong.append(f"transcript_info refuses the transcript: {_tail(said)}")
        return ["final transcript whole", *quotes]

    def _lost(self, measured: Mapping[str, str]) -> list[str]:
        """Results that had been measured and are neither on the box nor in the evidence with the same bytes."""
        kept = set(sums().values()) if measured else set()
        for path in self.evidence.rglob("*.json*"):
            kept.add(hashlib.sha256(path.read_bytes()).hexdigest())
        return [path.rpartition("/")[2] for path, digest in measured.items() if digest not in kept]

    def _box_is_left_well(self, lanes: str) -> None:
        row = self.row
        found = {
            "engines of ours": on_box("docker ps -aq --filter label=lobes.spike.arm"),
            "recorders at work": on_box(RECORDER),
            "a lock": on_box("ls ~/lightning-spike/spike.lock 2>/dev/null || :"),
        }
        self.wrong += [f"left on the box: {what} ({text.strip()})" for what, text in found.items() if text.strip()]
        status = on_box(f"docker inspect -f '{{{{.State.Status}}}}' {WORKER}").strip()
        if not re.fullmatch(row.worker, status):
            self.wrong.append(f"the worker lane is {status}, not {row.worker}")
        if row.lanes == "untouched" and on_box(STARTED) != lanes:
            self.wrong.append("another lane was restarted")
        for command, wanted in row.box.items():
            said = on_box(command)
            if not re.search(wanted, said):
                self.wrong.append(f"on the box, {command!r} says {said.strip()[:200]!r}, not {wanted!r}")


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """A small file system of its own, which this machine's disk does not notice when it is full."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def on_box(command: str) -> str:
    """What a command of the box's root prints; a failure of it is no failure of ours."""
    done = subprocess.run([BOX, "ssh", NAME, command], capture_output=True, text=True, timeout=120)
    return done.stdout


def sums() -> dict[str, str]:
    """sha256 by path of every result on the box."""
    lines = on_box(f"{RESULTS} -type f -print0 | xargs -0r sha256sum").splitlines()
    return {path: digest for digest, _, path in (line.partition("  ") for line in lines)}


@contextlib.contextmanager
def _started(command: list[str], env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a process group of its own, which is gone when the block ends."""
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(process: subprocess.Popen[Any]) -> int | None:
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        return None


def _ended(who: str, run: Run) -> str:
    if run.code < 0:
        return f"{who} ended by {signal.Signals(-run.code).name}"
    return f"{who} ended with exit {run.code}"


def _tail(said: str) -> str:
    lines = [line for line in said.splitlines() if re.search(r"\[ERROR\]|fatal:|msg", line)] or said.splitlines()
    return " / ".join(lines[-2:])[-400:]
