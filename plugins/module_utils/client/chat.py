# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of one chat completion -> a Sample. Knows JSON and the protocol; no sockets, no HTTP, no clock.

What the server says is untrusted: a value of the wrong type is absent with a warning, never a crash or a figure.
Tokens come from usage (or token ids), never from the number of events: under speculation one event carries several.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from typing import Any

from .failure import printable
from .kept import Text
from .likeness import Likeness, Take
from .sample import Sample

DONE = b"[DONE]"
LEARN_AT = 4  # text events read the long way before one is learned from: not in the rush of first tokens
MAX_LEARNED = 8  # a stream whose events keep changing is read the long way
MAX_EVENTS = 1 << 20  # of one reply: as many as the longest window has tokens
MAX_CALLS = 64
MAX_NAME = 1000  # characters of a tool call's name or id
OnEvent = Callable[[int, dict[str, Any]], None]
"""Called with nanoseconds since t0 and the event as parsed."""

_REASONING = ("reasoning", "reasoning_content")


class BadEvent(Exception):
    """A payload that is not a JSON object."""


def parse_object(payload: bytes) -> tuple[dict[str, Any], bool]:
    """The JSON object in ``payload`` and whether it was valid UTF-8. Raises ``BadEvent``."""
    clean = True
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        text, clean = payload.decode("utf-8", "replace"), False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise BadEvent(f"not JSON ({printable(str(exc), 100)}): {printable(text, 200)}") from None
    if not isinstance(value, dict):
        raise BadEvent(f"not a JSON object: {printable(text, 200)}")
    return value, clean


def error_message(value: dict[str, Any]) -> str | None:
    """The message of an error object in any of the shapes servers send, or None when this is no error."""
    error = value.get("error")
    if error is None or error is False or error == "" or error == {}:
        if value.get("object") == "error":  # vLLM before 0.10
            return printable(str(value.get("message") or json.dumps(value)))
        return None
    if isinstance(error, dict):
        text = error.get("message")
        shown = text if isinstance(text, str) and text else json.dumps(error)
        code = error.get("code")
        return printable(shown) + (f" (code {printable(str(code), 40)})" if code is not None else "")
    return printable(error if isinstance(error, str) else json.dumps(error))


def token_count(value: object) -> int | None:
    """A count as JSON should hold it, else None: a bool, a float, a string or a negative number is no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class ChatReader:
    """Feeds one Sample from the events of one reply. ``event`` returns True when nothing more needs to be read."""

    __slots__ = (
        "_calls",
        "_cumulative",
        "_finished",
        "_learned",
        "_likeness",
        "_long",
        "_on_event",
        "_reasoning",
        "_seen",
        "_taken",
        "_text",
        "done",
        "sample",
        "take",
    )

    def __init__(self, sample: Sample, on_event: OnEvent | None = None) -> None:
        self.sample = sample
        self.done = False  # [DONE] was read
        self._on_event = on_event
        self._text = Text()
        self._reasoning = Text()
        self._calls: list[_ToolCall] = []
        self._cumulative: int | None = None  # running completion tokens, once the server sends any
        self._seen = 0
        self._finished = False  # a finish_reason was read
        self._likeness: Likeness | None = None
        self._long = 0  # text events read the long way since one was last learned from
        self._learned = 0
        self._taken: list[list[int]] = [[]]  # the counts of the event last taken the short way
        self.take: Take | None = None  # takes an event like the last ones; see ``likeness``

    def event(self, t_ns: int, payload: bytes, name: str = "") -> bool:
        """One event, complete ``t_ns`` after t0. After a True the sample is decided: do not feed it further."""
        if not name and self.take is not None and self.take(t_ns, payload, 0, len(payload)):
            return False
        if payload == DONE or payload.strip() == DONE:
            self.done = True
            return True
        if not payload.strip():
            self.sample.keepalives += 1
            return False
        try:
            value, clean = parse_object(payload)
        except BadEvent as exc:
            if name == "error":
                self._fail("server_error", printable(payload.decode("utf-8", "replace")))
            else:
                self._fail("bad_event", f"an event is {exc}")
            return True
        if not clean:
            self.sample.warn("an event is not valid UTF-8")
        self._seen += 1
        if self.sample.first_event_s is None:
            self.sample.first_event_s = t_ns / 1e9
        message = error_message(value)
        if message is None and name == "error":
            message = printable(json.dumps(value))
        if message is not None:
            self._fail("server_error", message)
            return True
        count = len(self.sample.events)
        self._read(t_ns, value)
        if self._on_event is not None:
            self._on_event(t_ns, value)
        elif clean and len(self.sample.events) > count:
            self._learn(payload, value)
        return self.sample.error_kind is not None

    def message(self, value: dict[str, Any]) -> None:
        """A whole chat completion (a reply that was not streamed): no event times, so no first-token figure."""
        self._seen += 1
        self._identify(value)
        self._usage(value.get("usage"))
        for choice in self._choices(value):
            body = choice.get("message")
            part = body if isinstance(body, dict) else {"content": choice.get("text")}
            self._take(part)
            self._finish_reason(choice)

    def close(self, end_ns: int) -> None:
        """No more events: settle the sample. Calls that decide failure (early close) come before this one."""
        self._catch_up()
        sample = self.sample
        sample.end_s = end_ns / 1e9
        sample.text = self._kept("text", self._text)
        sample.reasoning = self._kept("reasoning", self._reasoning)
        sample.tool_calls = [call.to_json(self._kept) for call in self._calls]
        sample.usage = None if sample.usage is None else kept(sample.usage)
        sample.engine_metrics = None if sample.engine_metrics is None else kept(sample.engine_metrics)
        usage = sample.usage or {}
        sample.prompt_tokens = self._count(usage, "prompt_tokens")
        sample.completion_tokens = self._count(usage, "completion_tokens")
        if sample.completion_tokens is None:
            sample.completion_tokens = self._cumulative
        sample.cached_tokens = self._detail(usage, "prompt_tokens_details", "cached_tokens")
        sample.reasoning_tokens = self._detail(usage, "completion_tokens_details", "reasoning_tokens")
        if sample.events:
            sample.last_token_s = sample.events[-1][0] / 1e9
        times = [t_ns for t_ns, _ignored in sample.events]
        if len(times) > 1:
            sample.max_gap_s = max(map(operator.sub, times[1:], times)) / 1e9
        counts = [count for _ignored, count in sample.events if count is not None]
        if any(map(operator.lt, counts[1:], counts)):
            sample.warn("running usage went down")
        if sample.error_kind is None:
            if not self._seen:
                self._fail("empty", "status 200, but the reply holds no event")
            elif not self._finished:
                self._fail("no_finish_reason", "the reply ended without finish_reason")
        self._first_event_tokens()
        sample.status = "ok" if sample.error_kind is None else "failed"

    @property
    def finished(self) -> bool:
        """A choice said why it ended."""
        return self._finished

    @property
    def seen(self) -> int:
        """How many JSON events were read the long way."""
        return self._seen

    def _kept(self, name: str, text: Text) -> str:
        """What is kept of a text; where a result holds only its beginning, ``sample.cut`` tells of the whole."""
        head, cut = text.ended()
        if cut is not None:
            self.sample.cut[name] = cut
        return whole(head)

    def _fail(self, kind: str, message: str) -> None:
        if self.sample.error_kind is None:
            self.sample.error_kind = kind
            self.sample.error = message

    def _learn(self, payload: bytes, value: dict[str, Any]) -> None:
        self._long += 1
        if self._long < LEARN_AT or self._learned >= MAX_LEARNED:
            return
        likeness = Likeness.learn(payload, value)
        if likeness is not None:
            texts = self._reasoning if likeness.reasoning else self._text
            self._taken = [[]]
            self.take = likeness.taker(self.sample.events, texts.parts, self._taken)
            self._likeness = likeness
            self._learned += 1
            self._long = 0

    def _catch_up(self) -> None:
        """Take over the counts of the events that went the short way."""
        numbers = self._taken[0]
        if numbers and self._likeness is not None:
            self._taken[0] = []
            self.sample.usage = self._likeness.usage_of(numbers)
            self._cumulative = self.sample.events[-1][1]

    def _read(self, t_ns: int, value: dict[str, Any]) -> None:
        self._catch_up()
        self._identify(value)
        before = self._cumulative
        self._usage(value.get("usage"))
        choices = self._choices(value)
        if not choices:
            return
        finished = self._finished
        carried = False
        ids = 0
        ids_seen = False
        for choice in choices:
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                delta = {"content": choice.get("text")}
            if self._take(delta, t_ns):
                carried = True
            token_ids = choice.get("token_ids")
            if isinstance(token_ids, list):
                ids_seen = True
                ids += len(token_ids)
            self._finish_reason(choice)
        counted = value.get("usage") is not None
        if not counted and ids_seen:
            self._cumulative = (before or 0) + ids
            counted = True
        after = self._cumulative
        # Tokens can come without text (a parser holds it back); a count that rises where a count was known shows them.
        rose = counted and before is not None and after is not None and after > before and not finished
        if ids or carried or rose:
            self._token_event(t_ns, after if counted else None)

    def _token_event(self, t_ns: int, cumulative: int | None) -> None:
        self.sample.events.append((t_ns, cumulative))
        if len(self.sample.events) > MAX_EVENTS:
            self._fail("bad_event", f"the reply has more than {MAX_EVENTS} events that carry tokens")

    def _identify(self, value: dict[str, Any]) -> None:
        sample = self.sample
        if sample.model is None and isinstance(value.get("model"), str):
            sample.model = printable(value["model"], 300)
        if sample.system_fingerprint is None and isinstance(value.get("system_fingerprint"), str):
            sample.system_fingerprint = printable(value["system_fingerprint"], 300)
        if isinstance(value.get("metrics"), dict):
            sample.engine_metrics = value["metrics"]

    def _usage(self, usage: object) -> None:
        if usage is None:
            return
        if not isinstance(usage, dict):
            self.sample.warn("usage is not an object")
            return
        count = self._count(usage, "completion_tokens")
        if count is not None:
            self._cumulative = count
        self.sample.usage = usage

    def _choices(self, value: dict[str, Any]) -> list[dict[str, Any]]:
        choices = value.get("choices")
        if choices is None:
            return []
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            self.sample.warn("choices is not a list of objects")
            return []
        first = [choice for choice in choices if choice.get("index", 0) in (0, None)]
        if len(first) != len(choices):
            self.sample.warn("choices beyond the first are counted by usage, their text is not kept")
        return first

    def _finish_reason(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason is None or reason == "":
            return
        if not isinstance(reason, str):
            self.sample.warn("finish_reason is not a string")
            return
        self.sample.finish_reason = printable(reason, 100)
        self._finished = True
        if reason in ("error", "abort"):
            self._fail("server_error", f"the engine ended the request with finish_reason {reason}")

    def _take(self, delta: dict[str, Any], t_ns: int | None = None) -> bool:
        """Collect the text of a delta; True when there was any."""
        reasoning = self._reasoning_of(delta)
        answer = _text_of(delta.get("content")) or _text_of(delta.get("refusal"))
        calls = self._tool_calls(delta)
        if reasoning:
            self._reasoning.add(reasoning)
        if answer:
            self._text.add(answer)
        if t_ns is not None and (reasoning or answer or calls):
            sample = self.sample
            if sample.ttft_s is None:
                sample.ttft_s = t_ns / 1e9
            if sample.first_answer_s is None and (answer or calls):
                sample.first_answer_s = t_ns / 1e9
        return bool(reasoning or answer or calls)

    def _reasoning_of(self, delta: dict[str, Any]) -> str:
        """Reasoning text under whichever name; text given twice under two names counts once."""
        found = {name: text for name in _REASONING if (text := _text_of(delta.get(name)))}
        if not found:
            details = delta.get("reasoning_details")
            text = _text_of(details) if isinstance(details, list) else ""
            if text:
                found = {"reasoning_details": text}
        if not found:
            return ""
        name = "both" if len(found) == 2 else next(iter(found))
        if self.sample.reasoning_field not in (None, name):
            name = "both"
        self.sample.reasoning_field = name
        return next(iter(found.values()))

    def _tool_calls(self, delta: dict[str, Any]) -> bool:
        """Collect fragments of tool calls, by index; True when any had text."""
        fragments = delta.get("tool_calls")
        if fragments is None:
            single = delta.get("function_call")  # the older form
            fragments = [{"index": 0, "function": single}] if isinstance(single, dict) else []
        if not isinstance(fragments, list):
            self.sample.warn("tool_calls is not a list")
            return False
        text = False
        for position, fragment in enumerate(fragments):
            if not isinstance(fragment, dict):
                self.sample.warn("a tool call is not an object")
                continue
            index = token_count(fragment.get("index"))
            text |= self._call_for(fragment, position if index is None else index).add(fragment, self.sample)
        return text

    def _call_for(self, fragment: dict[str, Any], index: int) -> _ToolCall:
        """The call a fragment belongs to. A new id under an old index is a new call: some servers number them all 0."""
        known = next((call for call in reversed(self._calls) if call.index == index), None)
        call_id = fragment.get("id")
        if known is not None and not (isinstance(call_id, str) and call_id and known.id not in (None, call_id)):
            return known
        call = _ToolCall(index)
        if len(self._calls) < MAX_CALLS:
            self._calls.append(call)
        else:
            self.sample.warn(f"more than {MAX_CALLS} tool calls; the rest is not kept")
        return call

    def _count(self, holder: dict[str, Any], name: str) -> int | None:
        value = holder.get(name)
        count = token_count(value)
        if count is None and value is not None:
            self.sample.warn(f"usage.{name} is not a count")
        return count

    def _detail(self, usage: dict[str, Any], group: str, name: str) -> int | None:
        details = usage.get(group)
        return self._count(details, name) if isinstance(details, dict) else None

    def _first_event_tokens(self) -> None:
        sample = self.sample
        if not sample.events:
            return
        first = sample.events[0][1]
        running = any(count is not None for _ignored, count in sample.events)
        if not running and len(sample.events) == sample.completion_tokens:
            # Each event carries at least one token, so as many events as tokens means one each.
            first = 1
            sample.warn("no running usage; as many token events as tokens, so each carries one")
        sample.first_event_tokens = first


class _ToolCall:
    """One call, put together from fragments."""

    __slots__ = ("_arguments", "id", "index", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | None = None
        self.name: str | None = None
        self._arguments: Text | None = None

    def add(self, fragment: dict[str, Any], sample: Sample) -> bool:
        """Take a fragment; True when it held a name or argument text."""
        call_id = fragment.get("id")
        if isinstance(call_id, str) and call_id:
            self.id = call_id[:MAX_NAME]
        function = fragment.get("function")
        if not isinstance(function, dict):
            return False
        name, arguments = function.get("name"), function.get("arguments")
        text = False
        if isinstance(name, str) and name:
            # Sent once, in pieces, or again with every fragment.
            self.name = (name if self.name in (None, name) else f"{self.name}{name}")[:MAX_NAME]
            text = True
        if arguments is not None:
            self._arguments = self._arguments or Text()
            if not isinstance(arguments, str):
                sample.warn("tool call arguments are not a string")
            self._arguments.add(arguments if isinstance(arguments, str) else json.dumps(arguments))
            text |= arguments != ""
        return text

    def to_json(self, kept: Callable[[str, Text], str]) -> dict[str, str | None]:
        """{id, name, arguments}; absent parts are None, arguments are the text as sent."""
        arguments = None if self._arguments is None else kept(f"arguments of call {self.index}", self._arguments)
        return {"id": self.id, "name": self.name, "arguments": arguments}


def kept(value: Any, depth: int = 8) -> Any:
    """A server's JSON fit to be written again: numbers finite (else None), text whole, at most ``depth`` levels."""
    if isinstance(value, dict) and depth:
        return {whole(name): kept(part, depth - 1) for name, part in value.items()}
    if isinstance(value, list) and depth:
        return [kept(part, depth - 1) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return whole(value)
    return value if value is None or isinstance(value, int) else None


def whole(text: str) -> str:
    """Text without halves of surrogate pairs: joined where both came, else replaced. JSON may escape them apart."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _text_of(value: object) -> str:
    """Text of a field that is a string, or a list of parts with ``text``; anything else is no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""
