# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short way for the many events of a stream that differ from the last one in nothing but text and counts.

The client runs on the box it measures, so its own CPU is an error of the measurement; decoding JSON is most of it.
``Likeness.learn`` takes an event that was read the long way, cuts its bytes at the text and at the counts, and *proves*
the cut: with other text and other counts put in, the event must decode to the same object with just those leaves
changed. Since JSON is compositional, that then holds for every text without quote, escape or control character (an
escaped line feed is undone here) and for every count. An event that does not match byte for byte goes the long way;
nothing is ever guessed.
"""

from __future__ import annotations

import json
from typing import Any

_TEXT_KEYS = ("content", "reasoning", "reasoning_content")
_PROBE_TEXT = "zq"
_PROBE_COUNTS = {"completion_tokens": 918273645, "total_tokens": 918273646}


class Likeness:
    """The parts of an event that stay: ``head`` text ``parts[0]`` count ``parts[1]`` count ... ``parts[-1]``.

    ``counts`` names the counts in the order they stand, ``usage`` is the usage they belong to (None without one), and
    ``reasoning`` says what the text is.
    """

    __slots__ = ("_after", "_head", "_head_size", "_quoted", "counts", "reasoning", "usage")

    def __init__(
        self, head: bytes, parts: list[bytes], counts: list[str], usage: dict[str, Any] | None, reasoning: bool
    ) -> None:
        self._head = head
        self._head_size = len(head)
        self._quoted = parts[0]
        self._after = parts[1:]
        self.counts = counts
        self.usage = usage
        self.reasoning = reasoning

    @classmethod
    def learn(cls, payload: bytes, value: dict[str, Any]) -> Likeness | None:
        """From an event and what it decoded to; None when it is not of the plain kind."""
        found = _plain(value)
        if found is None or b"\n" in payload or b"\r" in payload:
            return None
        key, text, usage = found
        places = [_place(payload, key, quoted=True)]
        names = [name for name in _PROBE_COUNTS if usage is not None and name in usage]
        places += [_place(payload, name, quoted=False) for name in names]
        if any(place is None for place in places):
            return None
        (start, end), *numbers = [place for place in places if place is not None]
        ordered = sorted(zip(numbers, names, strict=True))
        if payload[start:end] != text.encode() or any(place[0] < end for place, _ in ordered):
            return None
        parts: list[bytes] = []
        at = end
        for (count_start, count_end), _ in ordered:
            parts.append(payload[at:count_start])
            at = count_end
        parts.append(payload[at:])
        counts = [name for _, name in ordered]
        own = None if usage is None else dict(usage)
        likeness = cls(payload[:start], parts, counts, own, key != "content")
        return likeness if likeness._proven(value, key) else None

    def _proven(self, value: dict[str, Any], key: str) -> bool:
        probe = self._head + _PROBE_TEXT.encode() + self._quoted
        for name, part in zip(self.counts, self._after, strict=True):
            probe += b"%d" % _PROBE_COUNTS[name] + part
        try:
            decoded = json.loads(probe)
            expected = json.loads(json.dumps(value))
        except ValueError:
            return False
        expected["choices"][0]["delta"][key] = _PROBE_TEXT
        for name in self.counts:
            expected["usage"][name] = _PROBE_COUNTS[name]
        return bool(decoded == expected)

    def match(self, data: bytes, start: int, end: int) -> tuple[str, list[int]] | None:
        """Text and counts of the event ``data[start:end]``, or None when it has to go the long way."""
        if not data.startswith(self._head, start):
            return None
        start += self._head_size
        quote = data.find(b'"', start, end)
        if quote < 0 or not data.startswith(self._quoted, quote):
            return None
        try:
            text = data[start:quote].decode()
        except UnicodeDecodeError:
            return None
        if not text or not text.isprintable():
            return None
        if "\\" in text:
            # An escaped line feed is too common to go the long way; any other escape goes it.
            if text.count("\\") != text.count("\\n"):
                return None
            text = text.replace("\\n", "\n")
        at = quote + len(self._quoted)
        numbers: list[int] = []
        for part in self._after:
            stop = data.find(part[:1], at, end)
            digits = data[at:stop]
            if stop < 0 or not digits.isdigit() or len(digits) > 15 or (digits[0] == 48 and len(digits) > 1):
                return None
            if not data.startswith(part, stop):
                return None
            numbers.append(int(digits))
            at = stop + len(part)
        return (text, numbers) if at == end else None


def _plain(value: dict[str, Any]) -> tuple[str, str, dict[str, Any] | None] | None:
    """(text key, text, usage or None) of an event that only adds text: one choice, one text, nothing that ends."""
    choices = value.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    delta = choice.get("delta")
    if choice.get("index") != 0 or choice.get("finish_reason") is not None or choice.get("token_ids") is not None:
        return None
    if not isinstance(delta, dict) or value.get("metrics") is not None or value.get("error") is not None:
        return None
    filled = [key for key, part in delta.items() if part not in (None, "", []) and key != "role"]
    if len(filled) != 1 or filled[0] not in _TEXT_KEYS:
        return None
    text = delta[filled[0]]
    if not isinstance(text, str) or not text or not text.isprintable() or '"' in text or "\\" in text:
        return None
    usage = value.get("usage")
    if usage is None:
        return filled[0], text, None
    if not isinstance(usage, dict) or type(usage.get("completion_tokens")) is not int:
        return None
    if any(type(usage[name]) is not int for name in _PROBE_COUNTS if name in usage):
        return None
    return filled[0], text, usage


def _place(payload: bytes, key: str, quoted: bool) -> tuple[int, int] | None:
    """Where the only value under ``key`` stands: between its quotes, or its digits."""
    mark = b'"%b":' % key.encode()
    at = payload.find(mark)
    if at < 0 or payload.find(mark, at + 1) >= 0:
        return None
    at += len(mark)
    if payload[at : at + 1] == b" ":
        at += 1
    if quoted:
        end = payload.find(b'"', at + 1)
        return (at + 1, end) if payload[at : at + 1] == b'"' and end > 0 else None
    end = at
    while payload[end : end + 1].isdigit():
        end += 1
    return (at, end) if end > at else None
