# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server that is measured: what it serves, its tokenizer, its counters, its bodies. Nothing is timed here."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..client import ClientError, Endpoint, ask, get_json, post_json
from ..engine.liveness import Signals, phase_signals
from ..engine.metrics import Exposition, parse
from ..errors import PlanError, SpikeError
from .plans import Common

CHAT_PATH = "/v1/chat/completions"
LIST_TIMEOUT_S = 30.0
SCRAPE_TIMEOUT_S = 10.0
# The engine may need many seconds for a million tokens on a slow box; it is not being measured here.
TOKENIZE_TIMEOUT_S = 900.0


def read_api_key(common: Common) -> str | None:
    """The key from the file or the environment of the box; None when none is configured. The value is never shown."""
    if common.api_key_env is not None:
        key = os.environ.get(common.api_key_env, "").strip()
        if not key:
            raise PlanError("api_key_env", common.api_key_env, "This variable is not set where the module runs.")
        return key
    if common.api_key_file is None:
        return None
    try:
        with open(os.path.expanduser(common.api_key_file), encoding="utf-8") as handle:
            key = handle.read(65536).strip()
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is not text"
        raise PlanError("api_key_file", common.api_key_file, f"The key cannot be read: {why}.") from None
    if not key:
        raise PlanError("api_key_file", common.api_key_file, "The file is empty.")
    return key


@dataclass
class Server:
    """An endpoint and what it said about itself; None where it did not say (or did not answer: ``unreachable``)."""

    endpoint: Endpoint
    model: str
    model_requested: str | None
    model_served: str | None
    max_model_len: int | None
    unreachable: str | None = None
    notes: list[str] = field(default_factory=list)
    _tokenizes: bool | None = None
    _exports: bool | None = None

    @classmethod
    def discover(cls, common: Common) -> Server:
        """Ask the server what it serves.

        A server that cannot be reached is not an error here: its requests will fail, each with its reason.

        Raises:
            PlanError: the asked model is not served, or none was asked and none (or no single one) can be chosen.
        """
        endpoint = Endpoint.parse(common.endpoint, api_key=read_api_key(common))
        try:
            listing = get_json(endpoint, "/v1/models", timeout_s=LIST_TIMEOUT_S)
        except ClientError as exc:
            if exc.http_status in (404, 405, 501):
                if common.model is None:
                    remedy = "This server does not list its models: name the one to measure."
                    raise PlanError("model", None, remedy) from exc
                notes = ["the server does not list its models"]
                return cls(endpoint, common.model, common.model, None, None, notes=notes)
            return cls(endpoint, common.model or "unknown", common.model, None, None, unreachable=str(exc))
        return cls._from_listing(endpoint, common.model, _models(listing))

    @classmethod
    def _from_listing(cls, endpoint: Endpoint, wanted: str | None, models: list[dict[str, Any]]) -> Server:
        ids = [model["id"] for model in models]
        if wanted is None:
            if not ids:
                raise PlanError("model", None, "This server lists no model: name the one to measure.")
            chosen = models[0]
        else:
            matches = [model for model in models if model["id"] == wanted]
            if not matches:
                raise PlanError("model", wanted, f"This server serves {', '.join(ids) or 'no model'}.")
            chosen = matches[0]
        length = chosen.get("max_model_len")
        window = length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else None
        server = cls(endpoint, chosen["id"], wanted, chosen["id"], window)
        if wanted is None and len(ids) > 1:
            server.notes.append(f"the server lists {len(ids)} models; the first one was measured")
        if window is None:
            server.notes.append("the server does not say its max_model_len: nothing was refused for its length")
        return server

    # --- tokenizer -------------------------------------------------------------------------------------------------

    def count_messages(self, messages: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> int | None:
        """Prompt tokens of a chat as the engine will see it, template included; None without a tokenizer endpoint."""
        request: dict[str, Any] = {"model": self.model, "messages": list(messages), "add_generation_prompt": True}
        for key in ("chat_template_kwargs", "tools"):
            if body.get(key):
                request[key] = body[key]
        return self._count(request)

    def count_text(self, text: str) -> int | None:
        """Tokens of a bare text, without special tokens; None without a tokenizer endpoint."""
        return self._count({"model": self.model, "prompt": text, "add_special_tokens": False})

    def _count(self, request: Mapping[str, Any]) -> int | None:
        if self._tokenizes is False or self.unreachable is not None:
            return None
        try:
            answer = post_json(self.endpoint, "/tokenize", request, timeout_s=TOKENIZE_TIMEOUT_S)
        except ClientError as exc:
            if exc.http_status in (404, 405, 501) and self._tokenizes is None:
                self._tokenizes = False
                return None
            raise SpikeError(f"the engine's /tokenize failed: {exc}") from exc
        count = answer.get("count") if isinstance(answer, dict) else None
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            self._tokenizes = False
            return None
        self._tokenizes = True
        return count

    # --- counters --------------------------------------------------------------------------------------------------

    def scrape(self) -> Exposition | None:
        """The engine's metrics now; None where it exports none or does not answer."""
        if self._exports is False or self.unreachable is not None:
            return None
        return self._metrics()[0]

    def _metrics(self) -> tuple[Exposition | None, str]:
        how, text = ask(self.endpoint, "/metrics", SCRAPE_TIMEOUT_S)
        if how == "ok" or how.isdigit():
            self._exports = text is not None
        return None if text is None else parse(text), how

    def look(self, in_hand: int) -> tuple[Exposition | None, Signals]:
        """One request for what can be judged of a phase with ``in_hand`` requests: its metrics, else its health."""
        exposition, scrape, health = None, "404", None
        if self._exports is not False:
            exposition, scrape = self._metrics()
        else:
            health = ask(self.endpoint, "/health", SCRAPE_TIMEOUT_S)[0]
        return exposition, phase_signals(time.monotonic(), exposition, scrape, in_hand, health)


def _models(listing: object) -> list[dict[str, Any]]:
    entries = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def chat_body(
    server: Server,
    messages: Sequence[Mapping[str, Any]],
    *,
    max_tokens: int,
    forced: bool,
    thinking: bool | None,
    extra_body: Mapping[str, Any],
    temperature: float = 0.0,
) -> dict[str, Any]:
    """A streamed chat request with usage on every event.

    ``forced`` makes the engine write exactly ``max_tokens`` tokens. ``thinking`` None leaves the model's default.
    ``extra_body`` is laid over it; a null there takes a field out (for a server that refuses one it does not know).
    """
    body: dict[str, Any] = {
        "model": server.model,
        "messages": list(messages),
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if forced:
        body["min_tokens"] = max_tokens
        body["ignore_eos"] = True
    if thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": thinking}
    for key, value in extra_body.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(body.get(key), dict):
            body[key] = {**body[key], **value}
        else:
            body[key] = value
    return body
