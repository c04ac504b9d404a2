# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent reads and what it must do: files with one fact each, and the scoring of its calls. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..client import Sample
from . import text
from .checks import split_thinking
from .plans import AgenticPlan

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Return the whole text of one file of the repository.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "Path of the file, exactly as it was named."}},
                "required": ["path"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "finish",
            "description": "Report three retry budgets and end the task.",
            "parameters": {
                "type": "object",
                "properties": {
                    when: {"type": "integer", "description": f"Retry budget stated in the {when} file."}
                    for when in ("early", "middle", "late")
                },
                "required": ["early", "middle", "late"],
            },
        },
    },
]

WHEN = ("early", "middle", "late")
_AREAS = ("billing", "search", "ledger", "gateway", "mailer", "catalog", "session", "metrics", "export", "audit")
_PARTS = ("client", "worker", "store", "router", "policy", "loader", "parser", "writer", "pool", "monitor")


@dataclass(frozen=True)
class File:
    """One file: its path, its text, and the retry budget stated in it at ``at`` (share of its lines)."""

    path: str
    content: str
    budget: int
    at: float


@dataclass(frozen=True)
class Script:
    """One session, written before it begins."""

    number: int
    tag: str
    files: tuple[File, ...]

    def asked_for(self) -> dict[str, File]:
        """The files whose budgets the agent must report: the first, the one past the middle, the last."""
        last = len(self.files) - 1
        return {"early": self.files[0], "middle": self.files[min(len(self.files) // 2, last)], "late": self.files[last]}


@dataclass(frozen=True)
class Verdict:
    """``name`` is valid, wrong_tool, wrong_path, malformed_arguments, text_instead, no_call or several_calls."""

    name: str
    detail: str | None = None

    @property
    def valid(self) -> bool:
        """The right tool with exactly the right arguments, once."""
        return self.name == "valid"


def script(plan: AgenticPlan, salt: str, number: int, tokens_per_line: float) -> Script:
    """Session ``number``; with another ``salt`` its texts share nothing with any other run's."""
    source = text.rng("agentic", plan.seed, salt, number)
    lines = max(12, round(plan.tool_result_tokens / tokens_per_line))
    budgets = source.sample(range(101, 1000), plan.turns) if plan.turns <= 899 else range(101, 101 + plan.turns)
    files = tuple(_file(source, turn, budget, lines) for turn, budget in enumerate(budgets, 1))
    return Script(number, text.tag("agentic", plan.seed, salt, number), files)


def sample_lines(seed: int, count: int = 240) -> str:
    """A piece of such a file, to find out how many tokens its lines have."""
    return "\n".join(islice(text.source_lines(text.rng("agentic-sample", seed)), count))


def _file(source: Any, turn: int, budget: int, lines: int) -> File:
    path = f"services/{source.choice(_AREAS)}/{source.choice(_PARTS)}_{turn:03d}.py"
    body = list(islice(text.source_lines(source), lines))
    place = source.randrange(1, len(body))
    body.insert(place, f"RETRY_BUDGET = {budget}  # the retry budget of this file is {budget} attempts")
    return File(path, f"# {path}\n" + "\n".join(body), budget, round(place / len(body), 4))


def system_message(plan: AgenticPlan, script: Script) -> dict[str, Any]:
    """The system prompt, with the session's tag first so that no other session shares its beginning."""
    return {"role": "system", "content": f"Session {script.tag}. {plan.system_prompt}"}


def turn_message(file: File) -> dict[str, Any]:
    """The user names a file."""
    return {"role": "user", "content": f"Read the file {file.path} now."}


def final_message(script: Script) -> dict[str, Any]:
    """The user asks for the three budgets."""
    asked = script.asked_for()
    named = ", ".join(f"the one stated in {asked[when].path} as {when}" for when in WHEN)
    return {"role": "user", "content": f"All files are read. Call finish with three retry budgets: {named}."}


def judge_read(sample: Sample, path: str) -> Verdict:
    """Score one turn: it must be one read_file call with exactly this path."""
    verdict, arguments = _one_call(sample, "read_file")
    if verdict is not None:
        return verdict
    got = arguments.get("path")
    if not isinstance(got, str) or set(arguments) != {"path"}:
        return Verdict("malformed_arguments", f"read_file was given {_short(arguments)}")
    return Verdict("valid") if got == path else Verdict("wrong_path", f"{_short(got)} instead of {path}")


def judge_finish(sample: Sample, script: Script) -> tuple[Verdict, dict[str, Any]]:
    """Score the last call; also {early|middle|late: {expected, got, passed}}."""
    verdict, arguments = _one_call(sample, "finish")
    recall = {}
    for when, file in script.asked_for().items():
        got = arguments.get(when)
        recall[when] = {
            "expected": file.budget,
            "got": got if isinstance(got, (int, float, str)) else None,
            # true == 1 in Python, never in an answer.
            "passed": not isinstance(got, bool) and got == file.budget,
        }
    if verdict is None:
        whole = all(isinstance(arguments.get(w), int) and not isinstance(arguments.get(w), bool) for w in WHEN)
        verdict = Verdict("valid") if whole else Verdict("malformed_arguments", f"finish was given {_short(arguments)}")
    return verdict, recall


def thought(sample: Sample) -> bool:
    """Did thinking text come, wherever the engine put it?"""
    return bool(sample.reasoning or sample.reasoning_tokens or split_thinking(sample.text)[1])


def _one_call(sample: Sample, tool: str) -> tuple[Verdict | None, dict[str, Any]]:
    """(what is wrong with the call or None, its arguments)."""
    calls = sample.tool_calls
    if not calls:
        said = split_thinking(sample.text)[0]
        if said:
            return Verdict("text_instead", _short(said)), {}
        return Verdict("no_call", f"finish_reason {sample.finish_reason}"), {}
    if len(calls) > 1:
        return Verdict("several_calls", ", ".join(str(call["name"]) for call in calls[:8])), {}
    call = calls[0]
    if call["name"] != tool:
        return Verdict("wrong_tool", f"{_short(call['name'])} instead of {tool}"), {}
    try:
        arguments = json.loads(call["arguments"] or "")
    except (ValueError, RecursionError):
        return Verdict("malformed_arguments", f"not JSON: {_short(call['arguments'])}"), {}
    if not isinstance(arguments, dict):
        return Verdict("malformed_arguments", f"not an object: {_short(call['arguments'])}"), {}
    return None, arguments


def _short(value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    shown = "".join(char if char.isprintable() else " " for char in shown[:161])
    return shown if len(shown) <= 160 else shown[:160] + "..."
