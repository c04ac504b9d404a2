# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tokenizer without a vocabulary: word pieces, numbered as they are first seen."""

from __future__ import annotations

import json
import re
from typing import Any

PIECE = re.compile(r"<\|?[a-z_]{2,12}\|>|</?think>| ?[^\W\d_]{1,7}| ?\d{1,3}| ?[^\w\s]|_|\s")
LONG = 200_000  # characters


class Tokenizer:
    """Text to ids and back. The same text always gives the same number of tokens."""

    def __init__(self) -> None:
        self.id_of: dict[str, int] = {}
        self.text_of: list[str] = []
        # A needle is counted, sent cold and sent warm: the same long text, and a second of Python each time.
        self.recent: dict[str, list[int]] = {}

    def pieces(self, text: str) -> list[str]:
        """The word pieces of text, whose join is text again."""
        return PIECE.findall(text)

    def encode(self, text: str) -> list[int]:
        """The ids of text."""
        if text in self.recent:
            return self.recent[text]
        pieces, known = PIECE.findall(text), self.id_of
        for piece in dict.fromkeys(pieces):
            if piece not in known:
                known[piece] = len(self.text_of)
                self.text_of.append(piece)
        ids = [known[piece] for piece in pieces]
        if len(text) > LONG:
            while len(self.recent) >= 4:
                del self.recent[next(iter(self.recent))]
            self.recent[text] = ids
        return ids

    def decode(self, ids: list[int]) -> str:
        """The text of ids; unknown ids are skipped."""
        return "".join(self.text_of[i] for i in ids if 0 <= i < len(self.text_of))


def content_text(content: Any) -> str:
    """A message's content as text: a string, a list of text parts, or nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return ""


def render(messages: list[dict[str, Any]], tools: list[Any] | None, thinking: bool, generation_prompt: bool) -> str:
    """The chat template: one prompt text, a prefix of the next turn's prompt."""
    parts = []
    if tools:
        parts.append("<|im_start|>system\n# Tools\n" + "\n".join(json.dumps(t) for t in tools) + "<|im_end|>\n")
    for message in messages:
        body = content_text(message.get("content"))
        for call in message.get("tool_calls") or []:
            function = call.get("function") or {}
            body += f"<tool_call>\n{function.get('name')}\n{function.get('arguments')}\n</tool_call>"
        parts.append(f"<|im_start|>{message.get('role')}\n{body}<|im_end|>\n")
    if generation_prompt:
        parts.append("<|im_start|>assistant\n" + ("<think>\n" if thinking else "<think></think>"))
    return "".join(parts)
