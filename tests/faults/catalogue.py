# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the table, read from ``engine.yml`` and ``box.yml``, and what makes a row right.

A row is ``{fault, look, right, says}`` and, where needed, ``with`` (the switches as given, when they are more than the
fault's name), ``options`` (of the look), ``env`` (of the engine) and ``slow``. ``right`` maps paths into what the look
found (``sample.error_kind``, ``samples.0.status``) to what must be there:

- a text that begins with ``~``: a regular expression that is found in it; ``!~``: one that is not;
- ``"> 2"``, ``"< 2"``: a number above or below; ``present``: anything but null;
- anything else, null included: this value.

``says`` are the paths whose values are shown as what the product said.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
DOUBLES = HERE.parent / "doubles"
SHOWN = 220


@dataclass(frozen=True)
class Row:
    """One fault: how it is switched on, who looks at it, and what must be in the answer."""

    double: str
    fault: str
    look: str
    right: Mapping[str, Any]
    says: Sequence[str]
    given: str
    options: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False

    @property
    def id(self) -> str:
        """Its name in a test run."""
        return f"{self.double}-{self.fault}"


@dataclass(frozen=True)
class Outcome:
    """What the product said, and what is wrong with it (empty when nothing is)."""

    said: str
    wrong: str


def rows(double: str) -> list[Row]:
    """The rows of a double, in the order of its file."""
    entries = yaml.safe_load((HERE / f"{double}.yml").read_text(encoding="utf-8"))
    return [
        Row(
            double,
            entry["fault"],
            entry["look"],
            entry["right"],
            entry["says"],
            entry.get("with", entry["fault"]),
            entry.get("options", {}),
            entry.get("env", {}),
            entry.get("slow", False),
        )
        for entry in entries
    ]


def listed(double: str) -> list[str]:
    """The switches that the double itself lists."""
    command = {
        "engine": [sys.executable, "-m", "spike_engine", "--list-faults"],
        "box": [str(DOUBLES / "box/box.sh"), "--list-faults"],
    }[double]
    done = subprocess.run(command, cwd=DOUBLES / "engine", check=True, capture_output=True, text=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]


def outcome(row: Row, found: Mapping[str, Any]) -> Outcome:
    """Hold what was found against what must be there."""
    wrong = []
    for path, wanted in row.right.items():
        value = at(found, path)
        if not _holds(value, wanted):
            wrong.append(f"{path} is {_text(value)[:300]} and not {wanted!r}")
    said = "; ".join(_named(path, at(found, path)) for path in row.says)
    return Outcome(plain(said), "; ".join(wrong))


def at(found: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none. A name before a number is a member, else an index."""
    for name in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, Sequence) and not isinstance(found, str) and name.lstrip("-").isdigit():
            found = found[int(name)] if -len(found) <= int(name) < len(found) else None
        else:
            return None
    return found


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        if wanted == "present":
            return value is not None
        if wanted.startswith(("~", "!~")):
            found = value is not None and re.search(wanted.lstrip("!~"), _text(value)) is not None
            return found != wanted.startswith("!")
        if wanted[:2] in ("> ", "< ") and isinstance(value, (int, float)):
            limit = float(wanted[2:])
            return value > limit if wanted[0] == ">" else value < limit
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _named(path: str, value: Any) -> str:
    """Sentences speak for themselves; states, figures and null are shown with their name."""
    text = _text(value)
    *_others, parent, name = ["", *path.split(".")]
    # A figure's name is that of what it is the text, or one entry, of.
    name = parent if name in ("text", "0") else name
    return text if " " in text.replace(" | ", "") and not isinstance(value, Mapping) else f"{name} {text}"


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping) and {"n", "p50", "max"} <= set(value):
        return ", ".join(f"{name} {_text(value[name])}" for name in ("n", "p50", "max"))
    if isinstance(value, Sequence):
        return " | ".join(_text(entry) for entry in value) or "nothing"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def plain(text: str) -> str:
    """One line for a table's cell: no control characters, no markup, not too long."""
    text = "".join(c if c.isprintable() else " " for c in text.replace("|", "/"))
    text = re.sub(r"\s+", " ", text).strip()
    text = text if len(text) <= SHOWN else text[: SHOWN - 4].rstrip() + " ..."
    return text.replace("<", "&lt;").replace("{{", "{ {").replace("`", "'").replace("*", "\\*").replace("_", "\\_")
