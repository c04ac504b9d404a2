# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of what a model says is kept. An answer may be of any length; memory and results may not."""

from __future__ import annotations

import hashlib
from typing import Any

JUDGED_CHARS = 1 << 18
"""Of one text so much is kept in memory, and judged: 64 thousand tokens."""

WRITTEN_CHARS = 1 << 16
"""Of one text so much is written into a result: 16 thousand tokens. Its length and sha256 say what the rest was."""

MAX_PIECES = 1 << 12
"""Pieces of a text that wait to be joined. Such a piece came in an event of at most ``MAX_PLAIN_EVENT`` bytes."""

MAX_PLAIN_EVENT = 1 << 12
MAX_PENDING_CHARS = 1 << 20


class Text:
    """A text that comes in pieces: its beginning, and of the whole its length and its sha256.

    ``parts`` may be appended to directly with short pieces, up to ``MAX_PIECES``; ``add`` takes any piece and folds
    what waits.
    """

    __slots__ = ("_folded", "_head", "_pending", "_sha256", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._pending = self._folded = 0
        self._head = ""
        self._sha256 = hashlib.sha256()

    def add(self, piece: str) -> None:
        """One more piece."""
        self.parts.append(piece)
        self._pending += len(piece)
        if self._pending > MAX_PENDING_CHARS or len(self.parts) > MAX_PIECES:
            self._fold()

    def _fold(self) -> None:
        text = "".join(self.parts)
        self.parts.clear()
        self._pending = 0
        self._folded += len(text)
        self._sha256.update(text.encode("utf-8", "surrogatepass"))
        self._head += text[: JUDGED_CHARS - len(self._head)]

    def ended(self) -> tuple[str, dict[str, Any] | None]:
        """(the beginning that is kept, ``{characters, sha256}`` of the whole when more came than is written)."""
        if not self._folded and sum(map(len, self.parts)) <= WRITTEN_CHARS:
            return "".join(self.parts), None
        self._fold()
        if self._folded <= WRITTEN_CHARS:
            return self._head, None
        return self._head, {"characters": self._folded, "sha256": self._sha256.hexdigest()}
