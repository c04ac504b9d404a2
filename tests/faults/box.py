# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the box double: the product's own modules, run on a simulated box by the box's own Python.

The modules and what they import are put on the box once, as Ansible would for each task; what only Ansible can show (a
role, a lost connection) is played over ssh.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ansible

from .catalogue import DOUBLES, Row

ROOT = DOUBLES.parents[1]
BOX = DOUBLES / "box/box.sh"
PRODUCT = "/run/product"
SPIKE = "/root/lightning-spike"
CACHE = "/root/.cache/huggingface"
WORKER = "model-gear-vllm-worker"
MODEL = "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"
REVISION = "bee7596271d1"
NEEDS = {
    "docker_runtime": "nvidia", "port": 8090, "min_disk_free_gib": 1, "hf_cache_writable": True, "lanes": [WORKER],
    "memory_utilization": 0.7,
}  # fmt: skip
# What Ansible's wrapper does around a module's code.
WRAPPER = """
import runpy, sys
sys.path.insert(0, "{product}")
from ansible.module_utils import basic
basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = sys.stdin.buffer.read(), "legacy"
runpy.run_module("ansible_collections.lobes.spike.plugins.modules.{name}", run_name="__main__", alter_sys=True)
"""
# A phase that only waits, with its result document: what is attributed is what the box did meanwhile.
WINDOW = """
import json, os, subprocess, time
def moment():
    return time.monotonic_ns(), time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
start, start_utc = moment()
for command in {during!r}:
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)
time.sleep({seconds})
end, end_utc = moment()
os.makedirs("{spike}/results", exist_ok=True)
json.dump({{"schema": "lobes.spike/result/1", "phase": "needle", "name": "w", "context": {{"arm": "B"}},
  "window": {{"start_monotonic_ns": start, "end_monotonic_ns": end, "start_utc": start_utc, "end_utc": end_utc}}}},
  open("{spike}/results/B.w.json", "w"))
"""
# Prompts for a lane, one after the other, until it is killed.
LOAD = """
import json, random, urllib.request
while True:
    words = " ".join(random.choice("abcdefgh") * 3 + str(random.random()) for _ in range(3000))
    body = json.dumps({"messages": [{"role": "user", "content": words}], "max_tokens": 200, "min_tokens": 200})
    ask = urllib.request.Request("http://127.0.0.1:8000/v1/chat/completions", body.encode(),
                                 {"Content-Type": "application/json"})
    urllib.request.urlopen(ask).read()
"""
PULL = """
- hosts: boxes
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: lobes.spike.engine_image, tasks_from: pull}
"""


class Box:
    """A simulated box with the product on it. One that is up already under this name is used and left up."""

    def __init__(self) -> None:
        name, _, port = os.environ.get("FAULTS_BOX", "").partition(":")
        self.name, self.port = name or "spike-faults", int(port or _free_port())

    def __enter__(self) -> Box:
        running = subprocess.run(["docker", "ps", "-q", "--filter", f"name=^/{self.name}$"], **CAPTURED)
        self._was_up = bool(running.stdout.strip())
        subprocess.run([BOX, "up", self.name, str(self.port)], check=True, timeout=400, stdout=subprocess.DEVNULL)
        subprocess.run(["docker", "cp", "-", f"{self.name}:/run"], input=_product(), check=True, capture_output=True)
        self.engine = (ROOT / "build/sim/engine.digest").read_text(encoding="ascii").strip()
        self.port = json.loads((ROOT / f"build/sim/{self.name}.json").read_text(encoding="ascii"))["port"]
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._was_up:
            subprocess.run([BOX, "down", self.name], check=False, capture_output=True)

    def shell(self, command: str, check: bool = True) -> str:
        """What a command on the box prints."""
        done = subprocess.run(["docker", "exec", self.name, "sh", "-c", command], **CAPTURED)
        if check and done.returncode:
            raise AssertionError(f"{command}: {done.stderr.decode('utf-8', 'replace')[-2000:]}")
        return done.stdout.decode("utf-8", "replace")

    def load(self) -> None:
        """Have the worker lane work until ``rest``."""
        command = f"echo $$ >/run/load.pid; exec python3 -c {shlex.quote(LOAD)}"
        subprocess.run(["docker", "exec", "-d", self.name, "sh", "-c", command], check=True, capture_output=True)

    def rest(self) -> None:
        """End the load."""
        self.shell("kill $(cat /run/load.pid); rm /run/load.pid", check=False)

    def fault(self, given: str) -> None:
        """Switch faults on."""
        self.shell(f"box fault {' '.join(map(shlex.quote, given.split(',')))}")

    def heal(self) -> None:
        """Take every fault back."""
        self.shell("box heal")

    def module(self, name: str, **options: Any) -> dict[str, Any]:
        """What a module of the collection returns on the box; its message is in ``msg`` when it fails."""
        arguments = {
            "ANSIBLE_MODULE_ARGS": {"_ansible_remote_tmp": "/tmp", "_ansible_keep_remote_files": False, **options}
        }
        command = ["docker", "exec", "-i", "-e", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        wrapper = WRAPPER.format(product=PRODUCT, name=name)
        done = subprocess.run(
            [*command, self.name, "python3", "-c", wrapper],
            input=json.dumps(arguments).encode(),
            timeout=180,
            **CAPTURED,
        )
        try:
            found = json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"{name}: {done.stdout!r} {done.stderr.decode('utf-8', 'replace')[-2000:]}") from None
        return dict(found)

    def ansible(self, *argv: str, folder: Path) -> str:
        """What an ansible command prints that reaches the box by ssh, whether it succeeds or not."""
        variables = {
            "ansible_host": "127.0.0.1", "ansible_port": self.port, "ansible_user": "root",
            "ansible_ssh_private_key_file": str(ROOT / "build/sim/id_ed25519"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            "ansible_python_interpreter": "/usr/bin/python3",
        }  # fmt: skip
        (folder / "hosts.yml").write_text(json.dumps({"boxes": {"hosts": {"thor": variables}}}), encoding="utf-8")
        program = Path(sys.executable).parent / argv[0]
        done = subprocess.run(
            [program, "-i", folder / "hosts.yml", *argv[1:]],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1", "COLUMNS": "9999"},
            stdin=subprocess.DEVNULL,
            timeout=180,
            **CAPTURED,
        )
        return (done.stdout + done.stderr).decode("utf-8", "replace")


CAPTURED: dict[str, Any] = {"check": False, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _product() -> bytes:
    """What a module needs on the box, as an archive: Ansible's own utilities and the collection's."""
    own = Path(ansible.__file__).parent
    plugins = "product/ansible_collections/lobes/spike/plugins"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("product/ansible/__init__.py"))
        for source, name in (
            (own / "module_utils", "product/ansible/module_utils"),
            (ROOT / "plugins/module_utils", f"{plugins}/module_utils"),
            (ROOT / "plugins/modules", f"{plugins}/modules"),
        ):
            tar.add(source, name, filter=lambda entry: None if "__pycache__" in entry.name else entry)
    return archive.getvalue()


def look(row: Row, folder: Path, box: Box) -> dict[str, Any]:
    """Play a row and heal the box."""
    folder.mkdir(parents=True, exist_ok=True)
    spike = f"{SPIKE}/{folder.name}"
    try:
        return LOOKS[row.look](row, folder, box, spike)
    finally:
        box.heal()


def box_info(row: Row, folder: Path, box: Box, spike: str) -> dict[str, Any]:
    """As preflight looks at a box and judges it."""
    box.fault(row.given)
    time.sleep(row.options.get("wait_s", 0.3))
    found = box.module(
        "box_info", lane=WORKER, hf_cache=CACHE, disk_paths=row.options.get("disks", [SPIKE]),
        require={**NEEDS, "drop_caches": row.options.get("drop_caches", False)},
    )  # fmt: skip
    problems = found.get("problems") or []
    found["fields"] = [one["field"] for one in problems]
    found["problems"] = [f"{one['field']}: {one['found']}. {one['remedy']}" for one in problems]
    found["zones"] = {zone["type"]: zone["temp_c"] for zone in found["box"]["thermal"]["zones"]}
    found["unreadable"] = [f"{path}: {why}" for path, why in found["box"]["unreadable"].items()]
    return found


def model_info(row: Row, folder: Path, box: Box, spike: str) -> dict[str, Any]:
    """As the image's role looks for the checkpoint, and inspects what is there."""
    box.fault(row.given)
    found = box.module("model_info", hf_cache=CACHE, model=MODEL, revision=REVISION)
    if found.get("present"):
        found["inspected"] = box.module(
            "checkpoint_info", snapshot=found["checkpoint"]["snapshot_path"], revision=REVISION
        )
    return found


def witness(row: Row, folder: Path, box: Box, spike: str) -> dict[str, Any]:
    """Telemetry around one window, and what attribution says of it."""
    options = row.options
    during = [f"box fault {item}" for item in row.given.split(",")] if options.get("inside") else []
    window = WINDOW.format(spike=spike, seconds=options.get("seconds", 1.2), during=during)
    if not during:
        box.fault(row.given)
    if options.get("load"):
        box.load()
    try:
        time.sleep(options.get("wait_s", 0))
        if options.get("earlier"):
            box.shell(f"python3 -c {shlex.quote(window)}")
        recorder = box.module("telemetry", path=f"{spike}/telemetry", interval_s=0.2)
        time.sleep(0.4)
        if not options.get("earlier"):
            box.shell(f"python3 -c {shlex.quote(window)}")
            time.sleep(0.4)
        return {"began": recorder.get("recorder"), **_attributed(box, spike)}
    finally:
        if options.get("load"):
            box.rest()


def _attributed(box: Box, spike: str) -> dict[str, Any]:
    ended = box.module("telemetry", path=f"{spike}/telemetry", state="stopped")
    box.module("attribution", path=spike)
    document: dict[str, Any] = json.loads(box.shell(f"cat {spike}/telemetry/attribution.json"))
    (window,) = document["windows"]
    # A name with a dot cannot be a step of a path.
    for part in ("series", "sources"):
        window[part] = {name.replace(".", " "): found for name, found in window[part].items()}
    return {
        "ended": ended.get("recorder"),
        "verdict": window["verdict"],
        "alerts": window["alerts"],
        "over_current": window["over_current"],
        "series": window["series"],
        "names": sorted(window["series"]),
        "gaps": window["gaps"],
        "sources": window["sources"],
        "incidents": sorted({one["event"] for one in document["incidents"]}),
    }


def boot(row: Row, folder: Path, box: Box, spike: str) -> dict[str, Any]:
    """An engine started on the box, and engine_ready waiting for it."""
    options = row.options
    box.shell(f"docker image inspect {box.engine} >/dev/null 2>&1 || docker pull -q {box.engine}")
    snapshots = f"{CACHE}/hub/models--{MODEL.replace('/', '--')}/snapshots"
    revision = box.shell(f"ls {snapshots}").strip()
    if "later_s" not in options:
        box.fault(row.given)
    if options.get("witness"):
        box.module("telemetry", path=f"{spike}/telemetry", interval_s=0.2)
    environment = "".join(f" -e {key}={value}" for key, value in {"HF_HUB_OFFLINE": "1", **row.env}.items())
    try:
        box.shell(
            f"docker run -d --name lobes-spike-B --runtime nvidia -p 127.0.0.1:8090:8000 -v {CACHE}:{CACHE} "
            f"-e HF_HOME={CACHE}{environment} {box.engine} {MODEL} --revision {revision} --host 0.0.0.0 --port 8000 "
            f"--max-model-len 32768 --kv-cache-dtype fp8 --gpu-memory-utilization 0.3"
        )
        if "later_s" in options:
            box.shell(f"(sleep {options['later_s']}; box fault {row.given}) >/dev/null 2>&1 &")
        found = box.module(
            "engine_ready", container="lobes-spike-B", endpoint="http://127.0.0.1:8090", arm="B", time_limit_s=60,
            log_path=f"{spike}/results/B.boot.log", results_path=f"{spike}/results/B.boot.json",
        )  # fmt: skip
        seen = _attributed(box, spike) if options.get("witness") else {}
        return {**seen, "boot": found.get("boot"), "msg": found.get("msg")}
    finally:
        box.shell("until docker version; do sleep 0.2; done >/dev/null 2>&1; docker rm -f lobes-spike-B", check=False)


def pull(row: Row, folder: Path, box: Box, spike: str) -> dict[str, Any]:
    """The role that brings the image, over ssh."""
    box.shell(f"docker rmi -f {box.engine}", check=False)
    box.fault(row.given)
    (folder / "pull.yml").write_text(PULL, encoding="utf-8")
    began = time.monotonic()
    said = box.ansible(
        "ansible-playbook", str(folder / "pull.yml"), "-e", f"engine_image_reference={box.engine}", folder=folder
    )
    told = ("could not be pulled", "does not bear")
    messages = [line.partition("failed: ")[2] for line in said.splitlines() if any(words in line for words in told)]
    why = [message.partition("could not be pulled: ")[2] for message in messages]
    return {
        "said": said,
        "message": messages,
        "why": [re.sub(r"[\w/-]+[@:]sha256:\w+", "the image", text) for text in why],
        "recap": [line for line in said.splitlines() if "failed=" in line],
        "seconds": time.monotonic() - began,
    }


def watch(row: Row, folder: Path, box: Box, spike: str) -> dict[str, Any]:
    """A measurement over ssh, watched, while the box cannot be reached for a while."""
    options = {
        "endpoint": "http://127.0.0.1:8000", "results_path": f"{spike}/B.decode-prose.json", "detached": True,
        "poll_s": 0.5, "prompt": "Write an essay about the sea.", "max_tokens": 400, "runs": 6,
        "context": {"boot_id": "one"},
    }  # fmt: skip
    box.shell(f"(sleep 5; box fault {row.given}) >/dev/null 2>&1 &")
    said = box.ansible("ansible", "thor", "-m", "lobes.spike.decode", "-a", json.dumps(options), folder=folder)
    _head, _brace, body = said.partition("=> {")
    try:
        result = json.loads("{" + body)
    except ValueError:
        result = {}
    return {"lines": [line for line in said.splitlines() if line.startswith("thor: ")], "result": result, "said": said}


LOOKS: Mapping[str, Any] = {
    "box_info": box_info, "model_info": model_info, "telemetry": witness, "engine_ready": boot,
    "engine_image": pull, "decode over ssh": watch,
}  # fmt: skip
