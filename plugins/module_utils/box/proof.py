# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box before against the box after: every difference, and which of the spike's recorded actions explains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .containers import changed_parts
from .lane import ENGINE_LABEL, started_since

SCHEMA = "lobes.spike/measure-only/1"

Box = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was; ``explained_by`` is None when no recorded action explains it."""

    what: str
    before: str | None
    after: str | None
    explained_by: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """As it lies in the evidence."""
        return {"what": self.what, "before": self.before, "after": self.after, "explained_by": self.explained_by}


@dataclass(frozen=True)
class Actions:
    """What the spike says it did: the lane's record, the images it pulled, whether it dropped the page cache."""

    lane: Mapping[str, Any]
    images: Sequence[str] = ()
    dropped_caches: bool = False

    @property
    def lane_name(self) -> str | None:
        """The lane that was stopped behind an approval and was left so, or None."""
        stopped = self.lane.get("disposition") == "stopped" and self.lane.get("approval")
        return str(self.lane["name"]) if stopped else None

    def stopped_lane(self) -> str:
        """The sentence that explains the stopped lane."""
        approval = self.lane.get("approval") or {}
        return f"stopped at {self.lane.get('stopped_utc')}, approved by {approval.get('approved_by')}"


def compare(before: Box, after: Box, actions: Actions) -> list[Difference]:
    """Every difference between two looks at a box that a spike could have caused, in reading order."""
    return [
        *_containers(before, after, actions),
        *_images(before, after, actions),
        *_names("network", before, after),
        *_names("volume", before, after),
        *_ports(before, after, actions),
        *_values("power mode", _pick(before, "power", "mode"), _pick(after, "power", "mode")),
        *_values("fan profile", _fan(before), _fan(after)),
        *_mapping("sysctl", before.get("sysctls"), after.get("sysctls"), _sysctl_reason(actions)),
        *_mapping("file", before.get("configuration_files"), after.get("configuration_files"), {}),
        *_values("boot of the box", _pick(before, "identity", "boot_id"), _pick(after, "identity", "boot_id")),
    ]


def unknown(before: Box, after: Box) -> list[str]:
    """What could not be compared, since one of the looks does not know it."""
    sections = ("containers", "docker", "ports", "power", "fan", "sysctls", "configuration_files", "identity")
    found = [name for name in sections if before.get(name) is None or after.get(name) is None]
    if not found and not (before["docker"]["reachable"] and after["docker"]["reachable"]):
        found.append("docker")
    return found


def _pick(box: Box, *path: str) -> Any:
    value: Any = box
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _values(what: str, before: object, after: object, reason: str | None = None) -> list[Difference]:
    """One value that both looks know and that differs. What one of them does not know is no difference."""
    if before is None or after is None or before == after:
        return []
    return [Difference(what, _text(before), _text(after), reason)]


def _mapping(
    what: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, reasons: Mapping[str, str]
) -> list[Difference]:
    found = []
    for name in sorted({*(before or {}), *(after or {})}):
        a, b = (before or {}).get(name), (after or {}).get(name)
        found += _values(f"{what} {name}", a, b, reasons.get(name))
    return found


def _sysctl_reason(actions: Actions) -> dict[str, str]:
    return {"vm.drop_caches": "the page cache was dropped before a boot"} if actions.dropped_caches else {}


def _fan(box: Box) -> Any:
    status, fans = _pick(box, "fan", "status"), _pick(box, "fan", "query", "fans")
    return (
        (status or {}).get("profile")
        or (fans[0].get("profile") if fans else None)
        or _pick(box, "fan", "conf", "profile")
    )


def _containers(before: Box, after: Box, actions: Actions) -> list[Difference]:
    if before.get("containers") is None or after.get("containers") is None:
        return []
    then = {c["name"]: c for c in before["containers"]}
    now = {c["name"]: c for c in after["containers"]}
    found = []
    for name in sorted({*then, *now}):
        a, b = then.get(name), now.get(name)
        what = f"container {name}"
        if a is None and b is not None:
            found.append(Difference(what, None, f"{b['state']}, image {b['image']}"))
        elif a is not None and b is None:
            # The engine of a spike that was cut short is the spike's own to remove.
            ours = "an engine of an earlier run of the spike" if ENGINE_LABEL in a["labels"] else None
            found.append(Difference(what, f"{a['state']}, image {a['image']}", None, ours))
        elif a is not None and b is not None:
            found += _container(what, a, b, actions)
    return found


def _container(what: str, a: Mapping[str, Any], b: Mapping[str, Any], actions: Actions) -> list[Difference]:
    found = []
    if a["configuration_hash"] != b["configuration_hash"]:
        parts = ", ".join(changed_parts(a["configuration_parts"], b["configuration_parts"]))
        found += _values(f"{what}: configuration ({parts})", a["configuration_hash"][:12], b["configuration_hash"][:12])
    found += _values(f"{what}: id", str(a["id"])[:12], str(b["id"])[:12])
    lane = a["name"] == actions.lane_name
    if lane and started_since(actions.lane, b):
        # Whatever its state is now, also that of one which fails to start for want of memory.
        since = f"stopped by the spike at {actions.lane['stopped_utc']}"
        return [
            *found,
            Difference(f"{what}: started by someone else", since, f"{b['state']}, since {b['started_utc']}"),
        ]
    stopped = actions.stopped_lane() if lane and a["running"] and not b["running"] else None
    if a["state"] != b["state"]:
        found += _values(f"{what}: state", a["state"], b["state"], stopped)
    elif a["running"]:
        found += _values(f"{what}: running since", a["started_utc"], b["started_utc"])
    return found


def _references(box: Box) -> dict[str, str]:
    return {str(image["reference"]): str(image["id"]) for image in _pick(box, "docker", "images") or []}


def _images(before: Box, after: Box, actions: Actions) -> list[Difference]:
    if _pick(before, "docker", "images") is None or _pick(after, "docker", "images") is None:
        return []
    then, now = _references(before), _references(after)
    found = []
    for reference in sorted({*then, *now}):
        a, b = then.get(reference), now.get(reference)
        if a == b:
            continue
        ours = "pulled by the spike, by digest" if a is None and reference in actions.images else None
        found.append(Difference(f"image {reference}", a, b, ours))
    return found


def _names(kind: str, before: Box, after: Box) -> list[Difference]:
    a, b = _pick(before, "docker", f"{kind}s"), _pick(after, "docker", f"{kind}s")
    if a is None or b is None:
        return []
    gone = [Difference(f"{kind} {name}", "there", None) for name in sorted({*a} - {*b})]
    return gone + [Difference(f"{kind} {name}", None, "there") for name in sorted({*b} - {*a})]


def _ports(before: Box, after: Box, actions: Actions) -> list[Difference]:
    if before.get("ports") is None or after.get("ports") is None:
        return []

    def sockets(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], str]:
        return {(r["address"], r["port"]): r["process"] or "a process" for r in rows}

    then, now = sockets(before["ports"]), sockets(after["ports"])
    lane = next((c for c in before.get("containers") or [] if c["name"] == actions.lane_name), None)
    published = {p["port"] for p in (lane or {}).get("ports", [])}
    found = []
    for address, port in sorted({*then, *now}):
        a, b = then.get((address, port)), now.get((address, port))
        if (a is None) == (b is None):
            continue
        closed = (
            f"the lane {actions.lane_name} published it; {actions.stopped_lane()}" if port in published and a else None
        )
        found.append(Difference(f"listening on {address} port {port}", a, b, closed))
    return found
