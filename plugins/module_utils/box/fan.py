# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fan: what nvfancontrol is told, what it does, and what the hardware turns at."""

from __future__ import annotations

import re
from typing import Any

from .source import Source

_BLOCK = re.compile(r"<FAN (\d+)>\s*\{")
_DEFAULT = re.compile(r"^\s*FAN_DEFAULT_(CONTROL|PROFILE|GOVERNOR)\s+(\S+)", re.MULTILINE)
_PROFILE = re.compile(r"FAN_PROFILE\s+(\w+)\s*\{([^}]*)\}")
_ANSWER = re.compile(r"^\s*FAN(\d+):FAN_(PROFILE|GOVERNOR|CONTROL):\s*(\S+)\s*$", re.MULTILINE)
_STATUS = re.compile(r"^\s*(?:FAN_)?(?:DEFAULT_)?(PROFILE|GOVERNOR|CONTROL)\s*[: ]\s*(\S+)\s*$", re.MULTILINE)


def parse_query(text: str) -> dict[str, Any]:
    """``nvfancontrol -q`` -> ``{fans: [{fan, profile, governor, control}], reason}``; refused without root."""
    fans: dict[int, dict[str, Any]] = {}
    for number, name, value in _ANSWER.findall(text):
        fans.setdefault(int(number), {"fan": int(number), "profile": None, "governor": None, "control": None})[
            name.lower()
        ] = value
    complaint = re.search(r"^NVFAN ERROR:\s*(.*)$", text, re.MULTILINE)
    reason = None if fans else (complaint[1].strip() if complaint else "no fan in the answer")
    return {"fans": [fans[number] for number in sorted(fans)], "reason": reason}


def parse_conf(text: str) -> dict[str, Any]:
    """/etc/nvfancontrol.conf -> the defaults and the profiles' points.

    ``{tmargin: bool|None, control, profile, governor, profiles: {name: [{temp_c, hysteresis_c, pwm, rpm}]}}``.
    With ``tmargin`` the first column is degrees of head-room, so a small number is hot.
    """
    text = re.sub(r"#[^\n]*", "", text)
    block = _BLOCK.search(text)
    body = text[block.end() :] if block else text
    margin = re.search(r"^\s*TMARGIN\s+(\w+)", body, re.MULTILINE)
    defaults = {name.lower(): value for name, value in _DEFAULT.findall(body)}
    profiles: dict[str, list[dict[str, int]]] = {}
    for name, points in _PROFILE.findall(body):
        numbers = [int(n) for n in re.findall(r"-?\d+", points)]
        rows = [numbers[i : i + 4] for i in range(0, len(numbers) - len(numbers) % 4, 4)]
        profiles.setdefault(name, [{"temp_c": t, "hysteresis_c": h, "pwm": p, "rpm": r} for t, h, p, r in rows])
    return {
        "tmargin": margin[1].upper() == "ENABLED" if margin else None,
        "control": defaults.get("control"),
        "profile": defaults.get("profile"),
        "governor": defaults.get("governor"),
        "profiles": profiles,
    }


def parse_status(text: str) -> dict[str, str | None]:
    """/var/lib/nvfancontrol/status -> ``{profile, governor, control}``: what stays in force until it is removed."""
    found = {name.lower(): value for name, value in _STATUS.findall(re.sub(r"FAN\d+:", "", text))}
    return {key: found.get(key) for key in ("profile", "governor", "control")}


def read_fan(source: Source) -> dict[str, Any]:
    """Configuration, persisted status and present answer of nvfancontrol; ``stale_conf`` when the first two disagree.

    A conf edited after the status was written is ignored by the daemon, so the status is what counts.
    """
    conf_text = source.read("/etc/nvfancontrol.conf")
    status_text = source.read("/var/lib/nvfancontrol/status")
    conf = parse_conf(conf_text) if conf_text is not None else None
    status = parse_status(status_text) if status_text is not None else None
    rc, out, err = source.run(["nvfancontrol", "-q"])
    if rc == 127:
        query: dict[str, Any] = {"fans": [], "reason": "there is no nvfancontrol on this box"}
    else:
        query = parse_query(f"{out}\n{err}")
    stale = None
    if conf and status and conf["profile"] and status["profile"]:
        stale = conf["profile"] != status["profile"]
    return {"conf": conf, "status": status, "query": query, "stale_conf": stale}
