# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that is the same on every box for the same seed, and never the same for two seeds."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

_ADJECTIVES = (
    "grey", "quiet", "early", "narrow", "broken", "salted", "northern", "patient", "copper", "hollow", "level", "steep",
    "distant", "careful", "faded", "heavy", "ordinary", "amber", "spare", "windy", "shallow", "brisk", "wooden",
    "plain", "late", "crowded", "polished", "damp", "modest", "sudden", "bright", "idle",
)  # fmt: skip
_THINGS = (
    "ledger", "anchor", "lantern", "barge", "crate", "signal", "harbour chart", "rope", "engine", "ferry", "compass",
    "warehouse", "beacon", "cargo", "pump", "bridge", "tide table", "pilot boat", "gauge", "hull", "mooring", "crane",
    "letter", "barrel", "sail", "pier", "manifest", "whistle", "depth sounder", "chain", "ladder", "clock",
)  # fmt: skip
_ACTIONS = (
    "was repaired by", "was counted by", "was moved past", "was painted for", "was weighed by", "was left beside",
    "was returned to", "was borrowed from", "was measured by", "was found by", "was towed around", "was signed for by",
    "was inspected by", "was traded with", "was hidden from", "was described to", "was cleaned by", "was loaded by",
    "was promised to", "was listed by", "was insured for", "was sketched by", "was delayed by", "was lifted over",
    "was requested by", "was sealed by", "was tested by", "was carried to", "was sold to", "was renamed by",
    "was photographed by", "was sorted by",
)  # fmt: skip
_PEOPLE = (
    "the harbour master", "two apprentices", "the night watch", "a visiting surveyor", "the cook", "the ferry crew",
    "an old pilot", "the customs clerk", "the rope maker", "a young diver", "the lighthouse keeper", "three sailors",
    "the dock foreman", "a chart maker", "the radio operator", "the fish buyer", "the ship's doctor", "a welder",
    "the crane driver", "the tide observer", "a retired captain", "the postmaster", "the boat builder", "a stoker",
    "the quartermaster", "the net mender", "a passing merchant", "the school class", "the port engineer", "a painter",
    "the bell ringer", "the insurance agent",
)  # fmt: skip
_ENDINGS = (
    "before the tide turned", "while the fog lifted", "on the second bell", "after a long delay", "near the east gate",
    "without much talk", "under a low sky", "in the usual order", "at the far slip", "against all advice",
    "for the third time", "behind the old mill", "as the rain began", "along the outer wall", "with some relief",
    "by the light of one lamp",
)  # fmt: skip
_OPENINGS = (
    "The", "That morning the", "Soon a", "Later the", "As noted, the", "Once more a", "By noon the", "Again the",
)  # fmt: skip


def rng(*parts: object) -> random.Random:
    """A generator that depends on every part (order matters) and on nothing else."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8")).digest()
    return random.Random(int.from_bytes(digest, "big"))


def tag(*parts: object) -> str:
    """Twelve hex digits that depend on every part: put first in a prompt, no other prompt shares its beginning."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8")).hexdigest()[:12]


def sentences(source: random.Random, count: int) -> str:
    """``count`` sentences of a harbour's log book. One draw of 32 bits each: a million tokens take well under 2 s."""
    out = []
    for _number in range(count):
        bits = source.getrandbits(32)
        out.append(
            f"{_OPENINGS[bits & 7]} {_ADJECTIVES[bits >> 3 & 31]} {_THINGS[bits >> 8 & 31]} "
            f"{_ACTIONS[bits >> 13 & 31]} {_PEOPLE[bits >> 18 & 31]} {_ENDINGS[bits >> 23 & 15]}."
        )
    return " ".join(out)


def paragraphs(source: random.Random, per_paragraph: int = 6) -> Iterator[str]:
    """An endless log book, one numbered entry (about 110 tokens) after the other."""
    number = 0
    while True:
        number += 1
        yield f"Entry {number}. {sentences(source, per_paragraph)}"


_VERBS = ("load", "merge", "flush", "route", "decode", "lease", "retry", "index", "drain", "verify", "patch", "batch")
_NOUNS = (
    "queue",
    "cursor",
    "shard",
    "ticket",
    "packet",
    "window",
    "record",
    "socket",
    "cache",
    "header",
    "span",
    "quota",
)


def source_lines(source: random.Random) -> Iterator[str]:
    """Endless lines of a plain program, about twelve tokens each. No line of it states a retry budget."""
    number = 0
    while True:
        bits = source.getrandbits(32)
        verb, noun = _VERBS[bits % 12], _NOUNS[(bits >> 4) % 12]
        other, limit = _NOUNS[(bits >> 8) % 12], bits >> 16 & 1023
        number += 1
        yield f"def {verb}_{noun}_{number}({other}, limit={limit}):"
        yield f"    # {_ADJECTIVES[bits >> 26 & 31]} {noun} of the {_THINGS[bits >> 21 & 31]}"
        yield f"    if len({other}) > limit:"
        yield f'        raise ValueError("{noun} {number} is over {limit}")'
        yield f"    return [{noun} for {noun} in {other} if {noun} % {limit % 17 + 2}]"
        yield ""
