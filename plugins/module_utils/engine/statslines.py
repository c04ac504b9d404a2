# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's periodic log lines: throughput and speculation, as far as they can be trusted.

They are a witness of second rank: the throughput line is silent during the prefill of one long prompt and then books
the whole prompt in one window, its hit rate is over the last 1000 requests, and builds differ in the fields that they
print. Figures come from the metrics; these lines are kept as the engine's own account.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .records import Record

_ENGINE = re.compile(r"Engine ([0-9]{1,4}): (?=.{0,40}throughput)")
_SPEC = re.compile(r"SpecDecoding metrics: ")
# "Name: 12.3 unit", "Name: 6.2%" or "Name: 0.7, 0.5"; the next name begins at ", " and a letter.
_FIELD = re.compile(
    r"([A-Za-z][A-Za-z ]{2,50}): ([0-9][0-9.,% ]{0,400}?)(?: ?(tokens/s|reqs|tokens|%))?(?=, [A-Za-z]|\.?\s*$|\n)"
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")

# Field of the line -> name here. Unknown fields are left out: one fork or the next release adds some.
_NAMES: Mapping[str, str] = {
    "avg prompt throughput": "prompt_tok_s",
    "avg generation throughput": "generation_tok_s",
    "running": "running",
    "waiting": "waiting",
    "deferred": "deferred",
    "preemptions": "preemptions",
    "prefix cache hit rate": "prefix_hit_percent",
    "mean acceptance length": "mean_acceptance_length",
    "accepted throughput": "accepted_tok_s",
    "drafted throughput": "drafted_tok_s",
    "accepted": "accepted_tokens",
    "drafted": "drafted_tokens",
    "avg draft acceptance rate": "draft_acceptance_percent",
}


def read_stats(message: str) -> dict[str, float | list[float]] | None:
    """One periodic line as {name: number}, or None when it is not one.

    ``*_tok_s`` are tokens per second of the window, ``*_percent`` per cent, ``acceptance_per_position`` a list of
    shares. ``kv_usage_percent`` is under whatever name the release gives the device.
    """
    if _ENGINE.match(message) is None and _SPEC.match(message) is None:
        return None
    out: dict[str, float | list[float]] = {}
    body = message[message.index(": ") + 2 :]
    for match in _FIELD.finditer(body):
        field, numbers = match.group(1).strip().lower(), [float(n) for n in _NUMBER.findall(match.group(2))]
        if field == "per-position acceptance rate" or not numbers:
            continue
        if field.endswith("kv cache usage"):
            out["kv_usage_percent"] = numbers[0]
        elif field in _NAMES:
            out[_NAMES[field]] = numbers[0]
    per_position = re.search(r"[Pp]er-position acceptance rate: ((?:[0-9.]+(?:, )?)+)", body)
    if per_position is not None:
        out["acceptance_per_position"] = [float(n) for n in _NUMBER.findall(per_position.group(1))]
    return out


class StatsLines:
    """Gathers the periodic lines of a log: how many there were, the last of each kind, and the highest figures."""

    def __init__(self) -> None:
        self._windows = 0
        self._last: dict[str, object] = {}
        self._most: dict[str, float] = {}
        self._spec: dict[str, object] = {}

    def feed(self, record: Record) -> None:
        """Take one record of the log."""
        read = read_stats(record.message)
        if read is None:
            return
        if "mean_acceptance_length" in read:
            self._spec = {"log_time": record.log_time, **read}
            return
        self._windows += 1
        self._last = {"log_time": record.log_time, **read}
        for name in ("prompt_tok_s", "generation_tok_s", "running", "waiting", "kv_usage_percent"):
            value = read.get(name)
            if isinstance(value, float):
                self._most[name] = max(value, self._most.get(name, value))

    def to_json(self) -> dict[str, object]:
        """{windows, last, highest, last_speculation}; empty objects where the log has no such line."""
        return {
            "windows": self._windows,
            "last": self._last,
            "highest": self._most,
            "last_speculation": self._spec,
        }
