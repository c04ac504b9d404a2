# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tokenizer without a vocabulary: word pieces, numbered as they are first seen."""

from __future__ import annotations

import json
import re
from typing import Any

PIECE = re.compile(r"<\|?[a-z_]{2,12}\|>|</?think>| ?[^\W\d_]{1,7}| ?\d{1,3}| ?[^\w\s]|_|\s")
ROLES = ("system", "user", "assistant", "tool", "developer")


class Tokenizer:
    """Text to ids and back. The same text always gives the same number of tokens."""

    def __init__(self) -> None:
        self.id_of: dict[str, int] = {}
        self.text_of: list[str] = []

    def pieces(self, text: str) -> list[str]:
        """The word pieces of text, whose join is text again."""
        return PIECE.findall(text)

    def encode(self, text: str) -> list[int]:
        """The ids of text."""
        ids, known, texts = [], self.id_of, self.text_of
        for piece in PIECE.findall(text):
            number = known.get(piece)
            if number is None:
                number = known[piece] = len(texts)
                texts.append(piece)
            ids.append(number)
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
