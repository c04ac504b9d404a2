# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``box``: switches the faults of this box and the environment of its engines."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

from . import eagain, faults, trees
from .faults import SIM

CACHE = "/root/.cache/huggingface"
CONF = "/etc/nvfancontrol.conf"
STATUS = "/var/lib/nvfancontrol/status"
ENGINE_ENV = os.path.join(SIM, "engine.env")
HOLD_PORT = """
import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8090))
s.listen()
time.sleep(1e6)
"""
USAGE = """usage: box fault NAME[:ARG]... | box heal [NAME]... | box faults | box --list-faults
       box engine [KEY=VALUE]...   the environment of engines started from now on, beside their own; none: clear it
       box kmsg TEXT               a kernel message, now
"""


def _write(on: dict[str, str]) -> None:
    trees.put(faults.FILE, "".join(f"{name}:{arg}\n" if arg else f"{name}\n" for name, arg in on.items()))


def _fan(profile_conf: str, profile_status: str) -> None:
    with open(CONF, encoding="ascii") as file:
        rows = [f"\tFAN_DEFAULT_PROFILE {profile_conf}\n" if "FAN_DEFAULT_PROFILE" in row else row for row in file]
    trees.put(CONF, "".join(rows))
    trees.put(STATUS, f"FAN1:FAN_PROFILE:{profile_status}\nFAN1:FAN_GOVERNOR:cont\nFAN1:FAN_CONTROL:close_loop\n")


def _hide(path: str, hidden: bool) -> None:
    away = path + ".hidden"
    if hidden and os.path.lexists(path) and not os.path.lexists(away):
        os.rename(path, away)
    elif not hidden and os.path.lexists(away):
        os.rename(away, path)  # over what stood in for it


def _daemon(name: str, argv: list[str] | None) -> None:
    """Starts a helper process that a fault needs, or ends it; its pid is kept."""
    pidfile = os.path.join(SIM, f"{name}.pid")
    if argv:
        child = subprocess.Popen(
            argv, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        trees.put(pidfile, str(child.pid))
        return
    with contextlib.suppress(OSError, ValueError):
        with open(pidfile, encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        os.unlink(pidfile)


def _cache(kind: str, broken: bool) -> None:
    """Breaks the model's snapshot, or makes it whole again."""
    hub = os.path.join(CACHE, "hub")
    if not broken:
        if kind == "cache-full":
            subprocess.run(["umount", hub], check=False)
        for folder, _, _ in os.walk(CACHE):
            os.chown(folder, 0, 0)
        subprocess.run(["spike-box-cache"], check=True, capture_output=True)
        return
    if kind == "cache-empty":
        shutil.rmtree(hub, ignore_errors=True)
        return
    if kind == "cache-full":
        shutil.rmtree(hub, ignore_errors=True)
        os.makedirs(hub)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", hub], check=True)
        return
    if kind == "cache-other-revision":
        _other_revision(hub)
        return
    if kind == "cache-locks-foreign":
        for folder, _, _ in os.walk(CACHE):
            os.chown(folder, 1000, 1000)
        os.makedirs(os.path.join(hub, ".locks"), exist_ok=True)
        os.chown(os.path.join(hub, ".locks"), 0, 0)
        os.chmod(os.path.join(hub, ".locks"), 0o755)
        return
    for folder, _, names in os.walk(hub):
        for name in sorted(names):
            if name == "model-00003-of-00005.safetensors":
                path = os.path.join(folder, name)
                if kind == "cache-missing-shard":
                    os.unlink(path)
                else:
                    os.truncate(os.path.realpath(path), os.path.getsize(path) // 2)


def _other_revision(hub: str) -> None:
    """The public commit of the checkpoint instead of the one that the seed's night used."""
    for folder in os.listdir(hub):
        snapshots = os.path.join(hub, folder, "snapshots")
        for name in os.listdir(snapshots) if os.path.isdir(snapshots) else []:
            if name.startswith("bee7596271d1"):
                os.rename(os.path.join(snapshots, name), os.path.join(snapshots, "cc84af2fe716" + name[12:]))


def _restart_docker(seconds: float) -> None:
    with open("/run/docker.pid", encoding="ascii") as file:
        pid = int(file.read())
    os.kill(pid, signal.SIGTERM)
    while os.path.exists(f"/proc/{pid}/exe") and os.path.exists("/run/docker.pid"):
        time.sleep(0.05)
    code = f"sleep {seconds}; exec dockerd --registry-mirror=http://127.0.0.1:5000 >>/var/log/dockerd.log 2>&1"
    subprocess.Popen(["sh", "-c", code], start_new_session=True, stdin=subprocess.DEVNULL)


def _apply(name: str, arg: str, broken: bool) -> None:
    """The side of a fault that is not in the driver or the tools."""
    if name == "tegrastats-absent":
        _hide("/usr/bin/tegrastats", broken)
    elif name == "tegrastats-not-executable":
        _hide("/usr/bin/tegrastats", broken)
        if broken:
            trees.put("/usr/bin/tegrastats", "#!/bin/sh\n")
    elif name == "no-journal":
        _hide("/usr/local/bin/journalctl", broken)
    elif name == "dmesg-denied":
        _hide("/dev/kmsg", broken)
    elif name == "cpu-pinned":
        trees.cpus(f"{SIM}/cpu", broken)
    elif name == "fan-quiet":
        _fan(*(("quiet", "quiet") if broken else ("cool", "cool")))
    elif name == "fan-stale":
        _fan("cool", "quiet" if broken else "cool")
    elif name == "gpu-asleep":
        _gpu_temp(broken)
    elif name.startswith("cache-"):
        _cache(name, broken)
    elif name == "no-runtime":
        _runtime(not broken)
    elif name == "docker-restarts" and broken:
        _restart_docker(float(arg or 2))
    elif name == "docker-down":
        with open("/run/docker.pid", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGSTOP if broken else signal.SIGCONT)
    elif name == "port-process":
        _daemon("port", ["python3", "-c", HOLD_PORT] if broken else None)
        time.sleep(0.2)
    elif name == "port-container":
        _port_container(broken)
    elif name == "disk-full":
        _disk(broken)
    elif name == "host-wedge" and broken:
        subprocess.Popen(["python3", "-m", "spike_box", "box", "wedge", arg or "60"], start_new_session=True)


def _gpu_temp(asleep: bool) -> None:
    """A railgated GPU's sensor cannot be read: EAGAIN, or EIO where the machine has no FUSE."""
    path = f"{SIM}/class/thermal/thermal_zone1/temp"
    if not asleep:
        subprocess.run(["umount", "-l", eagain.SENSOR], check=False, stderr=subprocess.DEVNULL)
        if os.path.islink(path):
            os.unlink(path)
    elif os.path.exists("/dev/fuse"):
        _daemon("eagain", ["python3", "-m", "spike_box.eagain"])
        time.sleep(0.3)
    else:
        os.unlink(path)
        os.symlink("/proc/self/mem", path)


def _runtime(present: bool) -> None:
    _hide("/etc/docker/daemon.json", not present)
    if not present:
        trees.put("/etc/docker/daemon.json", '{"runtimes": {}}\n')
    with open("/run/docker.pid", encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGHUP)
    time.sleep(0.3)


def _port_container(broken: bool) -> None:
    if broken:
        image = subprocess.run(
            ["docker", "inspect", "-f", "{{.Image}}", "model-gear-vllm-embed"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        subprocess.run(
            [
                "docker",
                "run",
                "-d",
                "--name",
                "squatter",
                "-p",
                "127.0.0.1:8090:8000",
                "--entrypoint",
                "sleep",
                image,
                "1000000",
            ],
            check=True,
        )
    else:
        subprocess.run(["docker", "rm", "-f", "squatter"], check=False)


def _disk(broken: bool) -> None:
    """The spike's directory becomes a file system of a few kilobytes that are taken."""
    path = "/root/lightning-spike"
    if broken:
        os.makedirs(path, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path], check=True)
        with contextlib.suppress(OSError), open(os.path.join(path, "ballast"), "wb") as file:
            file.write(bytes(128 * 1024))
    else:
        subprocess.run(["umount", path], check=False)


def _wedge(seconds: float) -> int:
    """Stops every process of ssh sessions and the ssh server itself, then lets them go on."""
    stopped = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as file:
            if file.read().strip() in ("sshd", "dockerd"):
                os.kill(int(pid), signal.SIGSTOP)
                stopped.append(int(pid))
    time.sleep(seconds)
    for number in stopped:
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGCONT)
    return 0


def main(argv: list[str]) -> int:
    """The command."""
    verb, rest = (argv[0], argv[1:]) if argv else ("", [])
    on = faults.active()
    if verb == "--list-faults":
        sys.stdout.write(faults.listing() + "\n")
    elif verb == "faults":
        sys.stdout.write("".join(f"{name}:{arg}\n" if arg else f"{name}\n" for name, arg in on.items()))
    elif verb == "fault" and rest:
        for item in rest:
            name, _, arg = item.partition(":")
            if name not in faults.FAULTS:
                sys.stderr.write(f"box: unknown fault '{name}'; box --list-faults shows the known ones\n")
                return 2
            on[name] = arg
            _write(on)
            _apply(name, arg, broken=True)
    elif verb == "heal":
        for name in rest or list(on):
            arg = on.pop(name, "")
            _write(on)
            _apply(name, arg, broken=False)
    elif verb == "engine":
        trees.put(ENGINE_ENV, "".join(item + "\n" for item in rest))
    elif verb == "kmsg" and rest:
        trees.put(os.path.join(SIM, "say"), " ".join(rest))
    elif verb == "wedge" and rest:
        return _wedge(float(rest[0]))
    else:
        sys.stderr.write(USAGE)
        return 2
    return 0
