# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to send: a request made ready before its start is timed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .chat import OnEvent
from .failure import bad_input, printable


@dataclass
class ChatRequest:
    """A POST of ``body`` to ``path``. The body goes out as it is; a dict is encoded once, here.

    ``forced_tokens`` and ``streamed`` are read off a dict; for a body given as bytes, state them. ``on_event`` gets
    each event as it is parsed (nanoseconds since t0, the event); it runs inside the loop, so it must be quick.
    """

    body: dict[str, Any] | bytes
    label: str = ""
    path: str = "/v1/chat/completions"
    on_event: OnEvent | None = None
    forced_tokens: int | None = None
    streamed: bool | None = None
    encoded: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.body, bytes):
            self.encoded = self.body
            self.streamed = True if self.streamed is None else self.streamed
            return
        if not isinstance(self.body, dict):
            raise bad_input("body", type(self.body).__name__, "A body is a dict, or JSON as bytes.")
        try:
            self.encoded = json.dumps(self.body, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (TypeError, ValueError) as exc:
            raise bad_input("body", printable(str(exc), 100), "A body holds JSON values only.") from None
        if self.streamed is None:
            self.streamed = bool(self.body.get("stream"))
        if self.forced_tokens is None:
            self.forced_tokens = forced_by(self.body)


def forced_by(body: dict[str, Any]) -> int | None:
    """The number of tokens a body forces (min_tokens = max_tokens with ignore_eos), or None when it forces none."""
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool):
        return None
    if body.get("ignore_eos") is True and body.get("min_tokens") == most:
        return most
    return None
