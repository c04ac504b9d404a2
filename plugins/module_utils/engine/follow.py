# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container followed through docker's command line: its state, and its log as it grows.

The log is asked for in pieces (``docker logs --timestamps --since``), so that nothing has to keep running and a lost
session loses nothing. Both streams are merged by docker's timestamps; what was read is on disk at once.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ..errors import PlanError, SpikeError
from .records import clean, redact, split_docker_time

RunCommand = Callable[[Sequence[str]], "tuple[int, bytes, bytes]"]

# Lines of the two streams may reach docker's log a little out of order: each piece begins this much earlier.
_OVERLAP = timedelta(seconds=1)


@dataclass(frozen=True)
class ContainerState:
    """What ``docker inspect`` says. ``started_at`` is docker's text, UTC; ``pid`` is 0 when it does not run.

    ``args`` are the command's arguments without keys; of the environment only the names are kept.
    """

    id: str
    name: str
    status: str
    exit_code: int | None
    oom_killed: bool
    error: str
    started_at: str
    finished_at: str
    pid: int
    args: list[str]
    env_names: list[str]

    @property
    def boot_id(self) -> str:
        """12 hex digits of the container's id, @, its start: one for each boot."""
        return f"{self.id[:12]}@{self.started_at}"


def inspect(run: RunCommand, container: str) -> ContainerState:
    """The state of a container by name or id. Raises PlanError when there is none, SpikeError when docker fails."""
    rc, out, err = run(["docker", "inspect", "--type", "container", container])
    if rc != 0:
        reason = clean(err.decode("utf-8", "replace")) or f"exit code {rc}"
        if "No such" in reason:
            raise PlanError("container", container, "There is no container of this name or id on the box.")
        raise SpikeError(f"docker inspect {container} failed: {reason}")
    try:
        found = json.loads(out)[0]
        state = found["State"]
        return ContainerState(
            id=str(found["Id"]),
            name=str(found.get("Name", "")).lstrip("/"),
            status=str(state["Status"]),
            exit_code=_integer(state.get("ExitCode")),
            oom_killed=bool(state.get("OOMKilled")),
            error=clean(str(state.get("Error") or "")),
            started_at=str(state.get("StartedAt", "")),
            finished_at=str(state.get("FinishedAt", "")),
            pid=_integer(state.get("Pid")) or 0,
            args=without_keys([str(arg) for arg in found.get("Args") or []]),
            env_names=sorted(str(e).partition("=")[0] for e in (found.get("Config") or {}).get("Env") or []),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise SpikeError(f"docker inspect {container} did not answer as expected: {exc}") from exc


def without_keys(args: Sequence[str]) -> list[str]:
    """Arguments with the values of keys and tokens replaced: both ``--api-key X`` and ``--api-key=X``."""
    kept: list[str] = []
    hide = False
    for arg in args:
        secret = re.fullmatch(r"(--?(?:api[-_]key|hf[-_]token)s?)(=.*)?", arg, re.DOTALL)
        if secret is not None:
            kept.append(secret.group(1) + ("=(redacted)" if secret.group(2) else ""))
        else:
            kept.append("(redacted)" if hide and not arg.startswith("-") else arg)
        hide = secret is not None and not secret.group(2)
    return kept


def docker_runner(run_command: Callable[..., Any], time_limit_s: int = 60) -> RunCommand:
    """``AnsibleModule.run_command`` as a ``RunCommand`` of bytes; a docker that hangs is given up after the limit."""

    def run(argv: Sequence[str]) -> tuple[int, bytes, bytes]:
        try:
            rc, out, err = run_command(
                ["timeout", "-k", "5", str(time_limit_s), *argv],
                environ_update={"LC_ALL": "C"},
                encoding=None,
                expand_user_and_vars=False,
                handle_exceptions=False,
            )
        except OSError as exc:
            raise SpikeError(f"{argv[0]} cannot be run on the box: {exc}") from exc
        return int(rc), bytes(out), bytes(err)

    return run


class LogFollower:
    """The log of one boot, in pieces. ``since`` is the container's start: earlier boots of it are left out.

    Everything read is appended to ``path`` (mode 0600, the file is begun anew) as the engine wrote it, without docker's
    timestamps and without keys; ``path`` None keeps no copy. ``readable`` turns False when docker cannot give the log.
    """

    def __init__(self, run: RunCommand, container: str, since: str, path: str | None) -> None:
        self._run = run
        self._container = container
        self._since = since
        self._path = path
        self._seen: Counter[tuple[str, int, bytes]] = Counter()
        self.lines = 0
        self.bytes = 0
        self.readable = True
        self.reason: str | None = None
        if path is not None:
            _begin(path)

    def poll(self, last: bool = False) -> list[tuple[str | None, str]]:
        """The lines that came since the poll before, in docker's order: (docker's UTC time or None, text).

        ``last``: the container ended, so an unfinished last line is taken as it is.
        """
        argv = ["docker", "logs", "--timestamps", "--since", self._since, self._container]
        rc, out, err = self._run(argv)
        if rc != 0:
            self.readable = False
            self.reason = clean(err.decode("utf-8", "replace")) or f"docker logs ended with {rc}"
            return []
        entries = _entries(out, 0, last) + _entries(err, 1, last)
        entries.sort(key=lambda entry: entry[0])
        fresh = self._fresh(entries)
        if entries:
            self._move_on(entries)
        self._keep([text for _stamp, _stream, text in fresh])
        return [(stamp or None, text.decode("utf-8", "replace")) for stamp, _stream, text in fresh]

    def _fresh(self, entries: list[tuple[str, int, bytes]]) -> list[tuple[str, int, bytes]]:
        known = Counter(self._seen)
        fresh = []
        for entry in entries:
            if known[entry] > 0:
                known[entry] -= 1
            else:
                fresh.append(entry)
        return fresh

    def _move_on(self, entries: list[tuple[str, int, bytes]]) -> None:
        latest = _time(entries[-1][0])
        if latest is None:  # an engine that gives no timestamps: all of the log is read each time
            self._seen = Counter(entries)
            return
        since = _text(latest - _OVERLAP)
        if since > self._since:
            self._since = since
        self._seen = Counter(entry for entry in entries if entry[0] >= self._since)

    def _keep(self, texts: list[bytes]) -> None:
        self.lines += len(texts)
        if self._path is None or not texts:
            return
        data = b"".join(without_keys_in_line(text) + b"\n" for text in texts)
        self.bytes += len(data)
        try:
            with open(self._path, "ab") as handle:
                handle.write(data)
                handle.flush()
        except OSError as exc:
            raise SpikeError(f"the boot log could not be written to {self._path}: {exc.strerror or exc}") from exc


def _entries(data: bytes, stream: int, last: bool) -> list[tuple[str, int, bytes]]:
    lines = data.split(b"\n")
    rest = lines.pop()
    if rest and last:
        lines.append(rest)
    entries = []
    for line in lines:
        stamp, text = split_docker_time(line)
        entries.append((stamp or "", stream, text))
    return entries


def without_keys_in_line(text: bytes) -> bytes:
    """A raw line of the log without keys and tokens; a line that cannot hold one is returned as it is."""
    lowered = text[:20_000].lower()
    if b"api" not in lowered and b"token" not in lowered and b"secret" not in lowered and b"password" not in lowered:
        return text
    return redact(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _begin(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.close(descriptor)
    except OSError as exc:
        raise PlanError("log_path", path, f"It cannot be written ({exc.strerror or exc}).") from exc


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(stamp: str) -> datetime | None:
    try:
        return datetime.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def _text(moment: datetime) -> str:
    # Nine digits as docker writes them, so that texts sort as times do.
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
