# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One question whose answer is known. The verdict is the controller's; the box keeps reply and expectations."""

from __future__ import annotations

from typing import Any

from ..client import ChatRequest, ClientError, Sample, post_json
from ..client.chat import MAX_CALLS
from ..client.kept import WRITTEN_CHARS
from ..client.sample import written_call
from ..client.sse import MAX_EVENT_BYTES
from ..results.window import Clocks
from .checks import split_thinking
from .plans import Common, ProbePlan, fits
from .run import Run, planned, reused
from .server import CHAT_PATH, Server, chat_body

UNSTREAMED_TIMEOUT_S = 600.0


def result_name(plan: ProbePlan) -> str:
    """``probe-<name>``."""
    return f"probe-{plan.name}"


def plan_only(plan: ProbePlan, common: Common) -> dict[str, Any]:
    """What check mode returns."""
    requests = 2 if plan.compare_unstreamed else 1
    tokens = {"output_tokens_at_most": requests * plan.max_tokens}
    return planned("probe", result_name(plan), plan, common, requests, tokens)


def run(plan: ProbePlan, common: Common, clocks: Clocks | None = None) -> dict[str, Any]:
    """Ask, once streamed and (for tool calls) once unstreamed, and keep the reply."""
    earlier = reused("probe", plan, common)
    if earlier is not None:
        return earlier
    server = Server.discover(common)
    body = _body(plan, common, server)
    if server.max_model_len is not None:
        fits("max_tokens", _prompt_tokens(plan, server, body), plan.max_tokens, server.max_model_len)
    with Run("probe", result_name(plan), plan, common, server, 1, "requests", clocks or Clocks()) as phase:
        measured = phase.send("probe", [ChatRequest(body=body, label="probe", path=CHAT_PATH)])
        sample = measured.samples[0]
        phase.keep(measured, forced_tokens=None, thinking=plan.thinking, count_text=False)
        reply = reply_of(sample) if sample.status == "ok" else None
        if sample.status == "ok" and split_thinking(sample.text)[1]:
            phase.notes.append("thinking text came in content; the answer was taken without it")
        if reply is not None and not reply["content"] and not reply["tool_calls"]:
            what = "only thinking text" if reply["reasoning"] else "neither text nor a tool call"
            phase.notes.append(f"the reply holds {what} (finish_reason {sample.finish_reason})")
        if plan.compare_unstreamed and reply is not None:
            phase.workload["unstreamed"] = _unstreamed(phase, server, body, reply)
        phase.workload["expect"] = list(plan.expect)
        return phase.finish(
            {
                "passed": None,
                "answer": answer_text(reply) if reply is not None else None,
                "reply": reply,
                "failed_expectation": None,
                "wall_s": sample.end_s if sample.status == "ok" else None,
            }
        )


def reply_of(sample: Sample) -> dict[str, Any]:
    """The reply as expectations see it; thinking text is never part of ``content``."""
    answer, thinking = split_thinking(sample.text)
    return {
        "content": answer[:WRITTEN_CHARS],
        "reasoning": "\n".join(part for part in (sample.reasoning, thinking) if part)[:WRITTEN_CHARS],
        "tool_calls": [written_call(call) for call in sample.tool_calls],
        "finish_reason": sample.finish_reason,
    }


def answer_text(reply: dict[str, Any]) -> str:
    """The reply in one line of text: its content, or its calls as ``name(arguments)``."""
    calls = [f"{call.get('name')}({call.get('arguments') or ''})" for call in reply["tool_calls"]]
    return "; ".join([*([reply["content"]] if reply["content"] else []), *calls])[:WRITTEN_CHARS]


def _body(plan: ProbePlan, common: Common, server: Server) -> dict[str, Any]:
    body = chat_body(
        server,
        plan.messages,
        max_tokens=plan.max_tokens,
        forced=False,
        thinking=plan.thinking,
        extra_body=common.extra_body,
        temperature=plan.temperature,
    )
    if plan.tools:
        body["tools"] = list(plan.tools)
    if plan.tool_choice is not None:
        body["tool_choice"] = plan.tool_choice
    return body


def _prompt_tokens(plan: ProbePlan, server: Server, body: dict[str, Any]) -> int:
    # A probe is short; without a tokenizer endpoint the engine itself will refuse one that is not.
    return server.count_messages(plan.messages, body) or 0


def _unstreamed(phase: Run, server: Server, body: dict[str, Any], streamed: dict[str, Any]) -> dict[str, Any]:
    """The same question unstreamed: another parser in the engine, which may be broken alone."""
    single = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
    timeout = phase.common.request_timeout_s or UNSTREAMED_TIMEOUT_S
    try:
        asked = {**single, "stream": False}
        answer = post_json(server.endpoint, CHAT_PATH, asked, timeout_s=timeout, max_bytes=MAX_EVENT_BYTES)
    except ClientError as exc:
        phase.notes.append(f"the same question unstreamed failed: {exc}")
        return {"error": str(exc), "same_calls": None}
    calls = [written_call(call) for call in _message_calls(answer)[:MAX_CALLS]]
    same = calls == [{"name": call.get("name"), "arguments": call.get("arguments")} for call in streamed["tool_calls"]]
    if not same:
        phase.notes.append("streamed and unstreamed replies call tools differently")
    return {"error": None, "same_calls": same, "tool_calls": calls}


def _message_calls(answer: Any) -> list[dict[str, Any]]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    functions = [call.get("function") for call in calls or [] if isinstance(call, dict)]
    return [
        {"name": function.get("name"), "arguments": function.get("arguments")}
        for function in functions
        if isinstance(function, dict)
    ]
