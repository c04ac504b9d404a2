# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in model says: enough wit for the probes, the needles and the agentic loop."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from .faults import Faults
from .tokens import content_text

SECRET = re.compile(r"\b[A-Z]{3,12}-\d{4}\b")
PATH = re.compile(
    r"[\w.~-]*(?:/[\w.@-]+)+\.\w{1,5}|\b[\w-]+\.(?:py|c|h|go|rs|js|ts|md|txt|java|cpp|toml|yaml|yml|json)\b"
)
NUMBER = re.compile(r"\d+")
FACT = re.compile(r"retry[ _]budget[^\n]{0,120}?(\d+)", re.IGNORECASE)

_PROSE = (
    "The harbour woke slowly under a grey sky while the first boats came home with little to show for the night . "
    "An old keeper climbed the stairs of the light and counted each step as he had done for thirty years . "
    "He thought of the letters in the drawer and of the storm that had taken the pier and half of the village road . "
    "Below him the water moved like something that had not yet decided what it wanted to be ."
)
_CODE = (
    "def merge ( left , right ) :\n    result = [ ]\n    while left and right :\n"
    "        result . append ( left . pop ( 0 ) if left [ 0 ] <= right [ 0 ] else right . pop ( 0 ) )\n"
    "    return result + left + right\n\n"
)
_THOUGHTS = "The user asks something simple so I will work it out step by step and then check the result once more"
PROSE, CODE, THOUGHTS = _PROSE.split(" "), _CODE.split(" "), _THOUGHTS.split(" ")


@dataclass
class Reply:
    """What will be said: token texts by channel, in order, and how it ends."""

    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    call: tuple[str, str] | None = None  # name, arguments as text
    finish: str = "stop"
    kind: str = "prose"  # prose, code or tool: decides how many drafts are accepted


def words(vocabulary: list[str], length: int, start: int = 0) -> list[str]:
    """length tokens of running text, one word a token."""
    n = len(vocabulary)
    return [(" " if i else "") + vocabulary[(start + i) % n] for i in range(length)]


def _natural_length(text: str, limit: int) -> int:
    """How long an unforced reply gets: the seed's prose ran 455 to 512 tokens, its code to the limit."""
    return min(limit, 440 + zlib.crc32(text.encode()) % 90)


def _find_parameter(schema: dict[str, Any], *names: str) -> str | None:
    properties = list(schema.get("properties") or {})
    return next((p for n in names for p in properties if n in p.lower()), None)


def _weather(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    place = re.search(r"\b(?:in|for|at)\s+([A-Z][\w'-]+(?:\s+[A-Z][\w'-]+)*)", text)
    arguments: dict[str, Any] = {
        _find_parameter(schema, "city", "location", "place") or "city": place.group(1) if place else "Tel Aviv"
    }
    unit = _find_parameter(schema, "unit")
    if unit:
        known = [str(v) for v in schema["properties"][unit].get("enum", [])] or ["c", "f"]
        wanted = "f" if re.search("fahrenheit", text, re.IGNORECASE) else "c"
        arguments[unit] = next((v for v in known if v.lower().startswith(wanted)), known[0])
    return arguments


def _facts(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(path read, the number its text states as the retry budget), in the order of the tool results."""
    paths: dict[str, str] = {}
    found = []
    for message in messages:
        for call in message.get("tool_calls") or []:
            try:
                arguments = json.loads(call["function"]["arguments"])
            except (KeyError, TypeError, ValueError):
                continue
            if isinstance(arguments, dict) and arguments:
                paths[str(call.get("id"))] = str(next(iter(arguments.values())))
        if message.get("role") == "tool":
            fact = FACT.search(content_text(message.get("content")))
            if fact:
                found.append((paths.get(str(message.get("tool_call_id")), ""), fact.group(1)))
    return found


def _asked_facts(request: str, facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The facts that the last request names, by path or by turn number; all of them when it names none."""
    by_path = [(request.find(path), (path, value)) for path, value in facts if path and path in request]
    if by_path:
        return [fact for _, fact in sorted(by_path, key=lambda pair: pair[0])]
    turns = [int(n) for n in NUMBER.findall(request) if 1 <= int(n) <= len(facts)]
    return [facts[n - 1] for n in dict.fromkeys(turns)] or facts


def _as_type(value: str, schema: dict[str, Any]) -> Any:
    return int(value) if schema.get("type") in ("integer", "number") else value


def _finish(request: str, schema: dict[str, Any], facts: list[tuple[str, str]]) -> dict[str, Any]:
    """Arguments of the closing call, shaped as the tool's own schema wants them."""
    asked = _asked_facts(request, facts)
    properties: dict[str, Any] = schema.get("properties") or {"summary": {"type": "string"}}
    slots = iter(asked)
    by_path = dict(facts)
    arguments: dict[str, Any] = {}
    for name, kind in properties.items():
        if kind.get("type") == "array":
            item = kind.get("items") or {}
            arguments[name] = [_as_type(value, item) for _, value in asked]
        elif kind.get("type") == "object":
            inner = kind.get("additionalProperties")
            arguments[name] = {path: _as_type(value, inner if isinstance(inner, dict) else {}) for path, value in asked}
        elif len(properties) == 1:
            arguments[name] = ", ".join(value for _, value in asked)
        else:
            named = re.search(rf"(\S+) as {re.escape(name)}\b", request)
            value = by_path.get(named.group(1)) if named else next(slots, ("", "0"))[1]
            arguments[name] = _as_type(value or "0", kind)
    return arguments


def _schema(tools: dict[str, Any], name: str) -> dict[str, Any]:
    return tools[name].get("parameters") or {}


def _tool_call(
    messages: list[dict[str, Any]], tools: dict[str, Any], request: str
) -> tuple[str, dict[str, Any]] | None:
    if "get_weather" in tools and re.search("weather|temperature|forecast", request, re.IGNORECASE):
        return "get_weather", _weather(request, _schema(tools, "get_weather"))
    facts = _facts(messages)
    if "finish" in tools and re.search(r"\bfinish\b|budgets", request, re.IGNORECASE) and facts:
        return "finish", _finish(request, _schema(tools, "finish"), facts)
    path = PATH.search(request)
    if "read_file" in tools and path:
        key = _find_parameter(_schema(tools, "read_file"), "path", "file") or "path"
        return "read_file", {key: path.group(0).rstrip(".")}
    return None


def _short_answer(request: str, prompt: str, wrong: set[str]) -> str | None:
    """The answer to a known question, or None when it is not one."""
    ask = request[-2000:]  # the question of a million-token prompt stands at its end
    secrets = SECRET.findall(prompt)
    if secrets and re.search("secret|code|pass", ask, re.IGNORECASE):
        return (
            "AZURE-0000" if "needle" in wrong else secrets[-1] if len(set(secrets)) == 1 else _planted(prompt, secrets)
        )
    sum_of = re.search(r"(\d+)\s*(?:\+|plus)\s*(\d+)", ask)
    if sum_of:
        return str(int(sum_of.group(1)) + int(sum_of.group(2)) + ("known_answer" in wrong))
    if re.search(r"\btrain\b", ask) and re.search(r"\d{1,2}:\d{2}", ask):
        return "15:10" if "multi_step" in wrong else "15:40"
    return None


def _planted(prompt: str, secrets: list[str]) -> str:
    """Of several codes, the one whose sentence calls it secret."""
    near = re.search(r"secret[^.\n]{0,80}?\b([A-Z]{3,12}-\d{4})\b", prompt, re.IGNORECASE)
    return near.group(1) if near else secrets[0]


def compose(
    body: dict[str, Any], prompt: str, thinking: bool, limit: int, wrong: set[str], faults: Faults, request_number: int
) -> Reply:
    """The reply to a chat request, at most limit tokens long before forcing."""

    def on(name: str) -> bool:
        return faults.on(name, request_number)

    messages = body["messages"]
    request = next((content_text(m.get("content")) for m in reversed(messages) if m.get("role") == "user"), "")
    tools = {t["function"]["name"]: t["function"] for t in body.get("tools") or [] if "function" in t}
    if on("forgets"):
        wrong = wrong | {"needle", "facts"}
    reply = Reply()
    if (thinking or on("thinks-anyway")) and limit > 1:
        reply.reasoning = words(THOUGHTS, min(24 + zlib.crc32(request.encode()) % 60, limit - 1))
    if on("think-in-content"):
        reply.content += ["<think>", *words(THOUGHTS, 12), "</think>"]
    call = _tool_call(messages, tools, request) if tools and body.get("tool_choice") != "none" else None
    if call and not on("text-for-call"):
        name, arguments = call
        if "facts" in wrong and name == "finish":
            arguments = json.loads(re.sub(r"\d+", "1", json.dumps(arguments)))
        if "tool_call" in wrong and name == "get_weather":
            arguments = {**arguments, next(iter(arguments)): "Atlantis"}
        if on("wrong-tool-path") and name == "read_file":
            arguments = {k: f"{v}.bak" for k, v in arguments.items()}
        if on("wrong-tool"):
            name = "finish" if name == "read_file" else "list_files"
        text = json.dumps(arguments)
        reply.call = (name, text[:-1] + "," if on("bad-arguments") else text)
        reply.finish, reply.kind = "tool_calls", "tool"
        return reply
    answer = _short_answer(request, prompt, wrong)
    if answer is not None:
        reply.content += [answer[:4], answer[4:]] if len(answer) > 4 else [answer]
    elif re.search(r"\b(code|function|class|python|implement)\b", request, re.IGNORECASE):
        reply.kind = "code"
        reply.content += words(CODE, limit)
    else:
        reply.content += words(PROSE, _natural_length(prompt[-4000:], limit), zlib.crc32(request.encode()))
    if on("unicode"):
        reply.content = [t + "\u00fc\u4e16\U0001f30d" for t in reply.content]
    if on("control-characters"):
        reply.content.insert(0, "\x1b[31m{{ lookup('pipe','id') }}\x1b]0;owned\x07\u202e")
    if on("nul-characters"):
        reply.content = ["\0", *reply.content, "\0"]
    if on("answer-in-reasoning"):
        reply.reasoning, reply.content = reply.reasoning + reply.content, []
    return reply


def swell(reply: Reply, characters: int) -> Reply:
    """The reply with so many characters more in its content, spread over what follows the answer at its head."""
    head = min(2, len(reply.content) - 1)
    if head < 0:
        return reply
    share = -(-characters // len(reply.content[head:]))
    filler = f" {' '.join(PROSE)}"
    padding = (filler * (share // len(filler) + 1))[:share]
    reply.content[head:] = [text + padding for text in reply.content[head:]]
    return reply


def force(reply: Reply, minimum: int, limit: int) -> Reply:
    """The reply made at least minimum and at most limit tokens long; a cut reply ends by length."""
    said = len(reply.reasoning) + len(reply.content)
    if reply.call is None and said < minimum:
        reply.content += [" " + word.strip() for word in words(PROSE, minimum - said, said)]
        said = minimum
    if reply.call is None and said >= limit:
        keep = max(limit - len(reply.reasoning), 0)
        reply.reasoning, reply.content, reply.finish = reply.reasoning[:limit], reply.content[:keep], "length"
    return reply
