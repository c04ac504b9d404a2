# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The telemetry recorder: a program of its own, started detached on the box and stopped by its pid and token.

It imports nothing of this collection, since the module that starts it is gone a second later. It appends to files in
its folder, all times being the box's monotonic clock in nanoseconds:

``tegrastats.log``   ``<t> <line>``, or ``<t>~ <line>`` for a line that was cut when its source died;
``sysfs.jsonl``      one JSON object per interval, see ``Sampler.sample``;
``kernel.log``       ``<t> <record of /dev/kmsg>``, continuation lines left out; not made where it may not be read;
``events.jsonl``     ``{"t", "u", "event", ...}``: sources that start, die or fall silent, records lost, clock steps,
                     the box suspended;
``recorder.json``    who it is and what it can read; written last when it starts, and again when it ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

SCHEMA = "lobes.spike/recorder/1"
# A step of the UTC clock against the monotonic one between two samples; slewing stays far below.
CLOCK_STEP_NS = 200_000_000
RESTART_WAITS_S = (1.0, 2.0, 5.0, 10.0, 30.0)
# A source is silent when nothing came for three intervals, and for this long.
SILENCE_S = 10.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def now() -> tuple[int, int]:
    """(monotonic, UTC since 1970) in nanoseconds, the second being the nearer of two readings around the first."""
    before = time.time_ns()
    t = time.monotonic_ns()
    return t, (before + time.time_ns()) // 2


def asleep_ns() -> int:
    """How long the box was suspended since it started: the one clock counts that time, the other does not."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


def give(path: str) -> None:
    """Let a file that root made belong to the owner of its folder, who keeps the evidence."""
    if os.geteuid() == 0:
        owner = os.stat(os.path.dirname(path) or ".")
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


class Log:
    """An append-only file. A full disk loses lines, counts them, and is told once it is over."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        give(path)
        self.lost = 0
        self._torn = False

    def write(self, text: str) -> int:
        """Append one line; returns how many lines were lost before this one could be written."""
        data = text.encode("utf-8", "replace") + b"\n"
        if self._torn:
            data = b"\n" + data
        try:
            written = os.write(self.fd, data)
        except OSError:
            self.lost += 1
            return 0
        # What was written of a line that did not fit is closed by the newline of the next.
        self._torn = written != len(data)
        lost, self.lost = self.lost, int(self._torn)
        return lost


class Sensor:
    """One file of sysfs or /proc, kept open: reading it anew costs one system call."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def read(self, size: int = 64) -> bytes:
        """The file's content now, empty when it will not be read (a GPU that is off answers EAGAIN)."""
        try:
            return os.pread(self.fd, size, 0)
        except OSError:
            return b""

    def number(self) -> int | None:
        """The integer in it, or None."""
        try:
            return int(self.read())
        except ValueError:
            return None


def sensor(path: str) -> Sensor | None:
    """A sensor, or None where there is no such file or it may not be opened."""
    try:
        return Sensor(path)
    except OSError:
        return None


def text_of(path: str) -> str:
    """A short file without its newline; empty when there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read(4096).strip().strip("\0")
    except OSError:
        return ""


def names(path: str, start: str) -> list[str]:
    """Paths of a directory's entries that begin with ``start``."""
    try:
        return sorted(os.path.join(path, name) for name in os.listdir(path) if name.startswith(start))
    except OSError:
        return []


class Sampler:
    """Temperatures, cooling states, over-current counters, fan, rails, memory, swap and CPU, without any tool."""

    def __init__(self, root: str = "") -> None:
        self.zones = self._typed(f"{root}/sys/class/thermal", "thermal_zone", "temp")
        self.cooling = self._typed(f"{root}/sys/class/thermal", "cooling_device", "cur_state")
        self.counters: dict[str, Sensor] = {}
        self.fan: dict[str, Sensor] = {}
        self.rails: dict[str, tuple[Sensor, Sensor | None]] = {}
        for path in names(f"{root}/sys/class/hwmon", "hwmon"):
            self._hwmon(path, text_of(f"{path}/name"))
        self.meminfo = sensor(f"{root}/proc/meminfo")
        self.vmstat = sensor(f"{root}/proc/vmstat")
        self.stat = sensor(f"{root}/proc/stat")
        policies = names(f"{root}/sys/devices/system/cpu/cpufreq", "policy")
        self.clocks = [s for s in (sensor(f"{p}/cpuinfo_cur_freq") for p in policies) if s]

    @staticmethod
    def _typed(base: str, start: str, file: str) -> dict[str, Sensor]:
        """Sensors by the type of their device; numbers change from boot to boot, types do not."""
        found: dict[str, Sensor] = {}
        for path in names(base, start):
            kind, made = text_of(f"{path}/type"), sensor(f"{path}/{file}")
            if kind and made:
                found[kind if kind not in found else f"{kind}#{path.rsplit('/', 1)[1]}"] = made
        return found

    def _hwmon(self, path: str, name: str) -> None:
        def add(table: dict[str, Sensor], key: str, file: str) -> None:
            made = sensor(f"{path}/{file}")
            if made:
                table[key] = made

        if name == "soctherm_oc":
            for counter in names(path, "oc"):
                file = os.path.basename(counter)
                if file.endswith("_event_cnt"):
                    add(self.counters, file[: -len("_event_cnt")], file)
        elif name == "pwmfan":
            add(self.fan, "pwm", "pwm1")
        elif name == "pwm_tach":
            add(self.fan, "rpm", "rpm")
            if "rpm" not in self.fan:
                add(self.fan, "rpm", "fan1_input")
        elif name == "ina3221":
            for channel in (1, 2, 3):
                label = text_of(f"{path}/in{channel}_label")
                volts, amperes = sensor(f"{path}/in{channel}_input"), sensor(f"{path}/curr{channel}_input")
                if label and volts and amperes:
                    self.rails[label] = (volts, amperes)
        elif name == "ina238":
            watts = sensor(f"{path}/power1_input")
            if watts:
                self.rails[text_of(f"{path}/power1_label") or text_of(f"{path}/in1_label") or "VIN"] = (watts, None)

    def inventory(self) -> dict[str, list[str]]:
        """The names of all that is sampled: what a sample lacks and this names was there and could not be read."""
        return {
            "zones": sorted(self.zones),
            "cooling": sorted(self.cooling),
            "over_current": sorted(self.counters),
            "fan": sorted(self.fan),
            "rails": sorted(self.rails),
        }

    def sample(self) -> dict[str, Any]:
        """``{z: {zone: millidegrees|null}, c: {cooling device: state, zeros left out}, oc: {channel: events},
        fan: {pwm, rpm}, p: {rail: milliwatts}, mem: {kB}, vm: {pages since boot}, cpu: [jiffies since boot],
        khz: slowest CPU|null}``.
        """
        rails = {}
        for label, (first, second) in self.rails.items():
            a, b = first.number(), second.number() if second else 1
            if a is not None and b is not None:
                rails[label] = a * b // 1000
        clocks = [value for value in (clock.number() for clock in self.clocks) if value is not None]
        return {
            "z": {name: zone.number() for name, zone in self.zones.items()},
            "c": {name: state for name, device in self.cooling.items() if (state := device.number()) != 0},
            "oc": {name: counter.number() for name, counter in self.counters.items()},
            "fan": {name: value.number() for name, value in self.fan.items()},
            "p": rails,
            "mem": fields(self.meminfo, (b"MemTotal", b"MemAvailable", b"SwapTotal", b"SwapFree"), b":"),
            "vm": fields(self.vmstat, (b"pswpin", b"pswpout", b"oom_kill"), b" "),
            "cpu": [int(word) for word in (self.stat.read(256) if self.stat else b"").split(b"\n")[0].split()[1:]],
            "khz": min(clocks) if clocks else None,
        }


def fields(source: Sensor | None, wanted: Sequence[bytes], mark: bytes) -> dict[str, int]:
    """Some numbers of a ``name mark number`` file; what is not in it is left out."""
    data = b"\n" + source.read(16384) if source else b""
    found = {}
    for name in wanted:
        at = data.find(b"\n" + name + mark)
        if at >= 0:
            words = data[at + len(name) + 2 : at + len(name) + 42].split(None, 1)
            if words and words[0].isdigit():
                found[name.decode()] = int(words[0])
    return found


class Tool:
    """tegrastats as a child: its lines, and whether it still lives. Restarted when it dies or falls silent."""

    def __init__(self, argv: Sequence[str], silence_s: float) -> None:
        self.argv, self.silence_s = list(argv), silence_s
        self.pid = self.fd = -1
        self.rest = b""
        self.failures = 0
        self.heard = self.retry_at = 0.0

    def start(self, clock: float) -> None:
        """Start it; raises nothing: a program that cannot be run dies at once with 127."""
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(theirs, 1)
                os.set_blocking(1, True)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                os.execvpe(self.argv[0], self.argv, {"PATH": PATH, "LC_ALL": "C"})
            finally:
                os._exit(127)
        os.close(theirs)
        self.pid, self.fd, self.rest, self.heard = pid, ours, b"", clock

    def lines(self, clock: float) -> tuple[list[bytes], bool]:
        """(whole lines that arrived, whether it has ended)."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return [], False
        except OSError:
            data = b""
        if not data:
            return [], True
        self.heard = clock
        *whole, self.rest = (self.rest + data).split(b"\n")
        self.rest = self.rest[-(1 << 16) :]
        if whole:
            self.failures = 0
        return whole, False

    def end(self, clock: float) -> int | None:
        """Make sure it is gone and plan the next start; returns its exit status, negative for a signal."""
        status = self._reap(0.0)
        for sent in (signal.SIGTERM, signal.SIGKILL):
            if status is None:
                os.kill(self.pid, sent)
                status = self._reap(0.5)
        os.close(self.fd)
        self.pid = self.fd = -1
        self.retry_at = clock + RESTART_WAITS_S[min(self.failures, len(RESTART_WAITS_S) - 1)]
        self.failures += 1
        return status

    def _reap(self, patience_s: float) -> int | None:
        """The child's exit status, or None while it lives."""
        until = time.monotonic() + patience_s
        while True:
            done, code = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(code)
            if time.monotonic() >= until:
                return None
            time.sleep(0.01)


class KernelLog:
    """/dev/kmsg, followed by sequence number; what the ring lost before it was read is told."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.last = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.device = stat.S_ISCHR(os.fstat(self.fd).st_mode)

    def records(self) -> tuple[list[str], int]:
        """(new records' first lines, number of records that were lost before them)."""
        data = self._device() if self.device else self._file()
        found, lost = [], 0
        for line in data:
            head = line.split(b",", 2)
            if len(head) < 3 or not head[1].isdigit():
                continue  # a continuation line
            sequence = int(head[1])
            if sequence <= self.last:
                continue
            if 0 <= self.last < sequence - 1:
                lost += sequence - 1 - self.last
            self.last = sequence
            found.append(line.decode("utf-8", "replace"))
        return found, lost

    def _device(self) -> list[bytes]:
        lines: list[bytes] = []
        while len(lines) < 5000:
            try:
                lines.append(os.read(self.fd, 16384).split(b"\n", 1)[0])
            except BrokenPipeError:
                continue  # overwritten while we slept; the sequence numbers tell how many
            except OSError:
                break
        return lines

    def _file(self) -> list[bytes]:
        """A log in the same format that is a plain file (a simulated box), and may be replaced."""
        try:
            with open(self.path, "rb") as handle:
                return handle.read().split(b"\n")
        except OSError:
            return []


class Recorder:
    """Samples at an interval, follows its sources between the samples, and writes down what goes wrong."""

    def __init__(self, folder: str, token: str, interval_s: float, limit_s: float, root: str = "") -> None:
        self.folder, self.token, self.interval_s, self.limit_s = folder, token, interval_s, limit_s
        self.samples, self.events = Log(f"{folder}/sysfs.jsonl"), Log(f"{folder}/events.jsonl")
        self.lines: Log | None = None
        self.kernel_lines: Log | None = None
        self.sampler = Sampler(root)
        self.offset: int | None = None
        self.asleep = asleep_ns()
        self.stopping = False
        milliseconds = str(max(1, round(interval_s * 1000)))
        self.tool: Tool | None = None
        if any(os.access(f"{folder_}/tegrastats", os.X_OK) for folder_ in PATH.split(":")):
            self.tool = Tool(["tegrastats", "--interval", milliseconds], max(3 * interval_s, SILENCE_S))
            self.lines = Log(f"{folder}/tegrastats.log")
        self.kernel: KernelLog | None = None
        self.kernel_refusal: str | None = None
        try:
            self.kernel = KernelLog(f"{root}/dev/kmsg")
            self.kernel_lines = Log(f"{folder}/kernel.log")
        except OSError as exc:
            self.kernel_refusal = os.strerror(exc.errno or 0)

    def event(self, name: str, **facts: Any) -> None:
        """Write down that something happened."""
        t, u = now()
        self.events.write(json.dumps({"t": t, "u": u, "event": name, **facts}, separators=(",", ":")))

    def put(self, log: Log, text: str, what: str) -> None:
        """Append a line and tell of those that a full disk took."""
        lost = log.write(text)
        if lost:
            self.event("lines_lost", log=what, lines=lost)

    def describe(self, **more: Any) -> None:
        """Write ``recorder.json``, whole or not at all."""
        t, u = now()
        about = {
            "schema": SCHEMA,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "token": self.token,
            "boot_id": text_of("/proc/sys/kernel/random/boot_id"),
            "uid": os.geteuid(),
            "interval_s": self.interval_s,
            "limit_s": self.limit_s,
            "page_bytes": os.sysconf("SC_PAGE_SIZE"),
            "cpus": os.cpu_count(),
            "tegrastats": self.tool is not None,
            "kernel_log": self.kernel is not None,
            "kernel_log_refusal": self.kernel_refusal,
            "sampled": self.sampler.inventory(),
            "started": {"t": t, "u": u},
            "stopped": None,
            **more,
        }
        temporary = f"{self.folder}/recorder.json.tmp"
        with open(temporary, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as handle:
            json.dump(about, handle)
            handle.flush()
            os.fsync(handle.fileno())
        give(temporary)
        os.replace(temporary, f"{self.folder}/recorder.json")

    def tick(self) -> None:
        """One sample."""
        t, u = now()
        slept = asleep_ns() - self.asleep
        if slept > CLOCK_STEP_NS:
            self.event("suspended", suspended_s=round(slept / 1e9, 3))
            self.asleep += slept
        else:
            slept = 0
        if self.offset is not None and abs(u - t - self.offset - slept) > CLOCK_STEP_NS:
            self.event("clock_step", step_ns=u - t - self.offset - slept)
        self.offset = u - t
        self.put(self.samples, json.dumps({"t": t, "u": u, **self.sampler.sample()}, separators=(",", ":")), "sysfs")

    def follow_tool(self, clock: float) -> None:
        """Take tegrastats' lines; start it again when it ended or fell silent."""
        tool, log = self.tool, self.lines
        if tool is None or log is None:
            return
        if tool.pid < 0:
            if clock >= tool.retry_at:
                tool.start(clock)
                self.event("source_started", source="tegrastats", pid=tool.pid)
            return
        lines, ended = tool.lines(clock)
        t = time.monotonic_ns()
        for line in lines:
            self.put(log, f"{t} {line.decode('utf-8', 'replace')}", "tegrastats")
        silent = clock - tool.heard
        if not ended and silent <= tool.silence_s:
            return
        if tool.rest:
            self.put(log, f"{t}~ {tool.rest.decode('utf-8', 'replace')}", "tegrastats")
        status = tool.end(clock)
        if ended:
            self.event("source_died", source="tegrastats", exit_status=status)
        else:
            self.event("source_silent", source="tegrastats", silent_s=round(silent, 1))

    def follow_kernel(self) -> None:
        """Take the kernel's new messages."""
        if self.kernel is None or self.kernel_lines is None:
            return
        records, lost = self.kernel.records()
        t = time.monotonic_ns()
        if lost:
            self.event("kernel_lost", records=lost)
        for record in records:
            self.put(self.kernel_lines, f"{t} {record}", "kernel")

    def run(self, wake: int) -> None:
        """Record until SIGTERM or the time limit; ``wake`` is the read end of the signal pipe."""
        self.follow_kernel()
        self.describe()
        started = now()
        self.event("started", pid=os.getpid())
        begin = due = time.monotonic()
        while not self.stopping:
            clock = time.monotonic()
            if clock >= due:
                self.tick()
                missed = int((clock - due) // self.interval_s)
                if missed:
                    self.event("samples_missed", samples=missed)
                due += (missed + 1) * self.interval_s
            self.follow_tool(clock)
            self.follow_kernel()
            if clock - begin > self.limit_s:
                self.event("limit_reached", limit_s=self.limit_s)
                break
            self._wait(wake, due)
        if self.tool and self.tool.pid >= 0:
            self.tool.end(time.monotonic())
        self.tick()
        t, u = now()
        self.event("stopped")
        self.describe(started={"t": started[0], "u": started[1]}, stopped={"t": t, "u": u})

    def _wait(self, wake: int, due: float) -> None:
        """Sleep until the next sample, a line, a kernel message or a signal."""
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        until = due
        if self.tool and self.tool.fd >= 0:
            poll.register(self.tool.fd, select.POLLIN)
            until = min(until, self.tool.heard + self.tool.silence_s + 0.01)
        elif self.tool:
            until = min(until, self.tool.retry_at)
        if self.kernel and self.kernel.device:
            poll.register(self.kernel.fd, select.POLLIN)
        ready = poll.poll(max(1, int((until - time.monotonic()) * 1000 + 1)))
        self.stopping = any(fd == wake for fd, _event in ready)
        if self.kernel and any(fd == self.kernel.fd and not event & select.POLLIN for fd, event in ready):
            self.event("kernel_log_closed")
            self.kernel = None


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its pid this names one process and no later one."""
    text = text_of(f"/proc/{pid}/stat")
    words = text.rpartition(")")[2].split()
    return int(words[19]) if len(words) > 19 else None


def on_signal(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up pipe tells the loop."""


def main(argv: Sequence[str], make: Callable[..., Recorder] = Recorder) -> None:
    """``recorder.py --token=T --folder=F --interval-s=5 --limit-s=604800``."""
    asked = dict(arg[2:].split("=", 1) for arg in argv if arg.startswith("--") and "=" in arg)
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    recorder = make(asked["folder"], asked["token"], float(asked["interval-s"]), float(asked["limit-s"]))
    recorder.run(read_end)


if __name__ == "__main__":
    main(sys.argv[1:])
