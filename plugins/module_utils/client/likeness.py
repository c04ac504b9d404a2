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
from collections.abc import Callable
from typing import Any

from .kept import MAX_PIECES, MAX_PLAIN_EVENT

Path = tuple[str, ...]
Take = Callable[[int, bytes, int, int], bool]

COMPLETION: Path = ("completion_tokens",)

_TEXT_KEYS = ("content", "reasoning", "reasoning_content")
_PROBE_TEXT = "zq"
_PROBE_COUNTS: dict[Path, int] = {
    COMPLETION: 918273645,
    ("total_tokens",): 918273646,
    ("completion_tokens_details", "reasoning_tokens"): 918273647,
}


class Likeness:
    """What stays: ``head`` text ``parts[0]`` count ``parts[1]`` count ... ``parts[-1]``.

    ``counts`` names the counts in the order they stand; ``usage`` is the usage they belong to, None without one.
    ``reasoning`` says what the text is.
    """

    __slots__ = ("counts", "head", "parts", "reasoning", "usage")

    def __init__(
        self, head: bytes, parts: list[bytes], counts: list[Path], usage: dict[str, Any] | None, reasoning: bool
    ) -> None:
        self.head = head
        self.parts = parts
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
        counts = [path for path in _PROBE_COUNTS if usage is not None and _is_count(_at(usage, path))]
        places = [_place(payload, key, quoted=True), *(_place(payload, path[-1], quoted=False) for path in counts)]
        known = [place for place in places if place is not None]
        if len(known) != len(places):
            return None
        (start, end), *numbers = known
        ordered = sorted(zip(numbers, counts, strict=True))
        if payload[start:end] != text.encode() or any(place[0] < end for place, _ignored in ordered):
            return None
        parts: list[bytes] = []
        at = end
        for (count_start, count_end), _ignored in ordered:
            parts.append(payload[at:count_start])
            at = count_end
        parts.append(payload[at:])
        own = None if usage is None else json.loads(json.dumps(usage))
        likeness = cls(payload[:start], parts, [path for _ignored, path in ordered], own, key != "content")
        return likeness if likeness._proven(value, key) else None

    def _proven(self, value: dict[str, Any], key: str) -> bool:
        probe = self.head + _PROBE_TEXT.encode() + self.parts[0]
        for path, part in zip(self.counts, self.parts[1:], strict=True):
            probe += b"%d" % _PROBE_COUNTS[path] + part
        try:
            decoded = json.loads(probe)
            expected = json.loads(json.dumps(value))
        except ValueError:
            return False
        expected["choices"][0]["delta"][key] = _PROBE_TEXT
        for path in self.counts:
            _put(expected["usage"], path, _PROBE_COUNTS[path])
        return bool(decoded == expected)

    def taker(self, events: list[tuple[int, int | None]], texts: list[str], last: list[list[int]]) -> Take:
        """A function that takes an event ``data[start:end]`` that came at ``t_ns``, or says that it cannot.

        It appends (time, completion tokens) to ``events`` and the text to ``texts``, and leaves the event's counts in
        ``last[0]``. Everything it needs is bound beforehand: it runs for every token of every stream.
        """
        head, quoted = self.head, self.parts[0]
        head_size, quoted_size = len(head), len(quoted)
        after = [(part[:1], part, len(part)) for part in self.parts[1:]]
        which = self.counts.index(COMPLETION) if self.counts else -1
        add_event, add_text = events.append, texts.append
        largest, most = MAX_PLAIN_EVENT, MAX_PIECES

        def take(t_ns: int, data: bytes, start: int, end: int) -> bool:
            # A large piece, or one too many, goes the long way, where texts are kept within bounds.
            if not data.startswith(head, start) or end - start > largest or len(texts) >= most:
                return False
            start += head_size
            at = data.find(b'"', start, end)
            if not data.startswith(quoted, at):
                return False
            try:
                text = data[start:at].decode()
            except UnicodeDecodeError:
                return False
            if not text or not text.isprintable():
                return False
            if "\\" in text:
                # An escaped line feed is too common to go the long way; any other escape goes it.
                if text.count("\\") != text.count("\\n"):
                    return False
                text = text.replace("\\n", "\n")
            at += quoted_size
            numbers: list[int] = []
            for mark, part, size in after:
                stop = data.find(mark, at, end)
                digits = data[at:stop]
                if not data.startswith(part, stop) or not digits.isdigit() or len(digits) > 15:
                    return False
                if digits[0] == 48 and len(digits) > 1:  # JSON has no leading zeros
                    return False
                numbers.append(int(digits))
                at = stop + size
            if at != end:
                return False
            last[0] = numbers
            add_event((t_ns, numbers[which] if numbers else None))
            add_text(text)
            return True

        return take

    def usage_of(self, numbers: list[int]) -> dict[str, Any] | None:
        """The usage of an event with these counts."""
        if self.usage is not None:
            for path, number in zip(self.counts, numbers, strict=True):
                _put(self.usage, path, number)
        return self.usage


def _is_count(value: Any) -> bool:
    """Whether JSON holds a whole number here; true is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _at(holder: dict[str, Any], path: Path) -> Any:
    value: Any = holder
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _put(holder: dict[str, Any], path: Path, value: int) -> None:
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value


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
    if not isinstance(usage, dict) or not _is_count(usage.get("completion_tokens")):
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
