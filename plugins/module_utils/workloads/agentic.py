# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Agents at work: each turn one file is read into a growing context, at the end three facts must be recalled."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..client import ChatRequest, Loop, Sample
from ..client.figures import decode_rate, observed_rate, percentile
from ..results.window import Clocks
from . import agent
from .plans import AgenticPlan, Common, fits
from .run import Measured, Run, planned, reused
from .server import CHAT_PATH, Server, chat_body

# Tool calls are short: about 30 tokens. Their rate is a burst rate, kept under its own name, never the decode figure.
BURST_MIN_TOKENS = 8
TURN_OVERHEAD_TOKENS = 150
CHARS_PER_LINE_TOKEN = 3.0


def result_name(plan: AgenticPlan) -> str:
    """``agentic-<sessions>``."""
    return f"agentic-{plan.sessions}"


def plan_only(plan: AgenticPlan, common: Common) -> dict[str, Any]:
    """What check mode returns."""
    requests = plan.sessions * (plan.turns + 1)
    tokens = {"final_prompt_tokens_about": plan.turns * (plan.tool_result_tokens + TURN_OVERHEAD_TOKENS)}
    return planned("agentic", result_name(plan), plan, common, requests, tokens)


def run(plan: AgenticPlan, common: Common, clocks: Clocks | None = None, salt: str | None = None) -> dict[str, Any]:
    """Run all sessions side by side. A failed request ends its session; the others go on."""
    earlier = reused("agentic", plan, common)
    if earlier is not None:
        return earlier
    server = Server.discover(common)
    salt = salt or os.urandom(8).hex()
    tokens_per_line, counted = _tokens_per_line(plan, server)
    fits(
        "turns" if plan.turns > 1 else "tool_result_tokens",
        plan.turns * (plan.tool_result_tokens + TURN_OVERHEAD_TOKENS) + _base_tokens(plan, common, server),
        plan.max_tokens,
        server.max_model_len,
    )
    # Everything is written before the first request: nothing but the sockets holds up the loop.
    scripts = [agent.script(plan, salt, number, tokens_per_line) for number in range(1, plan.sessions + 1)]
    total = plan.sessions * (plan.turns + 1)
    with Run("agentic", result_name(plan), plan, common, server, total, "requests", clocks or Clocks()) as phase:
        phase.workload = {
            "salt": salt,
            "tokens_per_line": round(tokens_per_line, 3),
            "counted_by": "the engine's /tokenize" if counted else "an assumption of 3 characters per token",
            "fact_places": [[file.at for file in script.files] for script in scripts],
        }
        sessions = [_Session(phase, plan, script) for script in scripts]
        measured = phase.around(result_name(plan), lambda: _drive(phase, plan, sessions))
        # Exactly the requests that were sent: a session that failed early sends fewer than planned.
        phase.keep(measured, forced_tokens=None, thinking=False, extra=_extra, count_text=False)
        _note(phase, sessions)
        return phase.finish(_summary(plan, sessions))


@dataclass
class _Turn:
    sample: Sample
    verdict: agent.Verdict
    substituted: bool


@dataclass
class _Session:
    """One session's state: its messages (encoded once each) and what came of its turns."""

    phase: Run
    plan: AgenticPlan
    script: agent.Script
    turns: list[_Turn] = field(default_factory=list)
    final: Sample | None = None
    final_verdict: agent.Verdict | None = None
    recall: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        body = chat_body(
            self.phase.server,
            [],
            max_tokens=self.plan.max_tokens,
            forced=False,
            thinking=False,
            extra_body=self.phase.common.extra_body,
        )
        del body["messages"]
        body["tools"] = agent.TOOLS
        # A context of 118,000 tokens is half a megabyte: encoding it again for each turn would delay other streams.
        self._tail = b"]," + json.dumps(body, ensure_ascii=False).encode("utf-8")[1:]
        self._parts: list[bytes] = []
        self._results = [json.dumps(file.content).encode("ascii") for file in self.script.files]
        self._add(agent.system_message(self.plan, self.script))
        self._add(agent.turn_message(self.script.files[0]))

    def request(self) -> ChatRequest:
        """The next request: the turn that is due, or the final one."""
        turn = len(self.turns) + 1
        label = f"s{self.script.number}-t{turn}" if turn <= self.plan.turns else f"s{self.script.number}-final"
        return ChatRequest(
            body=b'{"messages":[' + b",".join(self._parts) + self._tail, label=label, path=CHAT_PATH, streamed=True
        )

    def take(self, sample: Sample) -> bool:
        """Judge an answer and go on; False when the session is over."""
        if len(self.turns) == self.plan.turns:
            self.final = sample
            if sample.status == "ok":
                self.final_verdict, self.recall = agent.judge_finish(sample, self.script)
            return False
        file = self.script.files[len(self.turns)]
        if sample.status != "ok":
            self.turns.append(_Turn(sample, agent.Verdict("failed", sample.error_kind), False))
            return False
        verdict = agent.judge_read(sample, file.path)
        self.turns.append(_Turn(sample, verdict, not verdict.valid))
        self._append_call(sample, verdict, file)
        following = len(self.turns)
        self._add(
            agent.turn_message(self.script.files[following])
            if following < self.plan.turns
            else agent.final_message(self.script)
        )
        return True

    def _append_call(self, sample: Sample, verdict: agent.Verdict, file: agent.File) -> None:
        # After a wrong answer the right call takes its place, so that every session reads the same files.
        call_id = f"call_{self.script.number}_{len(self.turns)}"
        arguments = json.dumps({"path": file.path})
        if verdict.valid:
            call = sample.tool_calls[0]
            call_id, arguments = call["id"] or call_id, call["arguments"] or arguments
        function = {"name": "read_file", "arguments": arguments}
        calls = [{"id": call_id, "type": "function", "function": function}]
        self._add({"role": "assistant", "content": "", "tool_calls": calls})
        content = self._results[len(self.turns) - 1]
        self._parts.append(
            b'{"role":"tool","tool_call_id":' + json.dumps(call_id).encode("ascii") + b',"content":' + content + b"}"
        )

    def _add(self, message: dict[str, Any]) -> None:
        self._parts.append(json.dumps(message).encode("ascii"))


def _drive(phase: Run, plan: AgenticPlan, sessions: list[_Session]) -> list[Sample]:
    hook = phase.progressing()
    samples: list[Sample] = []
    failed = tokens = 0
    most = len(sessions) * (plan.turns + 1)
    with Loop(phase.server.endpoint, phase.common.request_timeout_s, phase.stall()) as loop:
        phase.guard(loop)
        connections = [loop.connect() for session in sessions]

        def follow(index: int) -> Callable[[Sample], None]:
            def done(sample: Sample) -> None:
                nonlocal failed, tokens
                samples.append(sample)
                failed += sample.status != "ok"
                tokens += sample.completion_tokens or 0
                if sessions[index].take(sample) and not phase.stopping():
                    loop.submit(connections[index], sessions[index].request(), follow(index))
                elif len(samples) < most:
                    phase.apart(partial(_keep_part, phase, plan, sessions, samples))
                hook({"done": len(samples), "tokens": tokens, "failed": failed})

            return done

        first = [loop.prepare(connections[i], session.request(), follow(i)) for i, session in enumerate(sessions)]
        loop.settle()
        for exchange in first:
            loop.start(exchange)
        loop.run()
    return samples


def _keep_part(phase: Run, plan: AgenticPlan, sessions: list[_Session], samples: list[Sample]) -> None:
    """A session has ended: keep it, and where the others are. Runs in a process of its own."""
    part = Measured(result_name(plan), samples, None, None, None, 0.0)
    phase.keep(part, forced_tokens=None, thinking=False, extra=_extra, count_text=False)
    phase.save_partial(_summary(plan, sessions))


def _extra(sample: Sample) -> dict[str, Any]:
    burst, reason = observed_rate(sample, BURST_MIN_TOKENS)
    return {"burst_tok_s": burst, "burst_invalid_reason": reason}


def _turn_json(sample: Sample, verdict: str, detail: str | None) -> dict[str, Any]:
    ok = sample.status == "ok"
    burst = observed_rate(sample, BURST_MIN_TOKENS)[0]
    rate, reason = decode_rate(sample, sample.forced_tokens)
    return {
        "label": sample.label,
        "prompt_tokens": sample.prompt_tokens if ok else None,
        "cached_tokens": sample.cached_tokens if ok else None,
        "ttft_s": sample.ttft_s if ok else None,
        "decode_tok_s": rate,
        "decode_invalid_reason": reason,
        "burst_tok_s": burst,
        "completion_tokens": sample.completion_tokens if ok else None,
        "wall_s": sample.end_s if ok else None,
        "verdict": verdict,
        "detail": detail,
        "thinking": agent.thought(sample),
        "error": sample.error,
    }


def _session_json(session: _Session) -> dict[str, Any]:
    final = session.final
    verdict = session.final_verdict
    finished = final is not None and final.status == "ok"
    last = None
    if final is not None:
        last = _turn_json(final, verdict.name if verdict else "failed", verdict.detail if verdict else final.error_kind)
    return {
        "session": session.script.number,
        "wall_s": _wall_s(_samples(session)) if finished else None,
        "turns": [
            {**_turn_json(turn.sample, turn.verdict.name, turn.verdict.detail), "substituted": turn.substituted}
            for turn in session.turns
        ],
        "final": last,
        "recall": session.recall
        or {w: {"expected": f.budget, "got": None, "passed": False} for w, f in session.script.asked_for().items()},
    }


def _summary(plan: AgenticPlan, sessions: list[_Session]) -> dict[str, Any]:
    turns = [turn for session in sessions for turn in session.turns]
    good = [turn.sample for turn in turns if turn.sample.status == "ok"]
    ttfts = [sample.ttft_s for sample in good if sample.ttft_s is not None]
    rates = [rate for rate in (decode_rate(s, s.forced_tokens)[0] for s in good) if rate is not None]
    bursts = [rate for rate in (observed_rate(s, BURST_MIN_TOKENS)[0] for s in good) if rate is not None]
    tokens = [float(s.completion_tokens) for s in good if s.completion_tokens is not None]
    detail = [_session_json(session) for session in sessions]
    whole = all(entry["wall_s"] is not None for entry in detail)
    return {
        "sessions": plan.sessions,
        "turns": plan.turns,
        "tool_calls_valid": sum(turn.verdict.valid for turn in turns),
        "tool_calls_total": plan.sessions * plan.turns,
        "recall_passed": sum(fact["passed"] for entry in detail for fact in entry["recall"].values()),
        "recall_total": plan.sessions * len(agent.WHEN),
        "verdicts": _tally([turn.verdict.name for turn in turns]),
        "thinking_turns": sum(agent.thought(sample) for sample in good),
        "wall_s": _wall_s([sample for session in sessions for sample in _samples(session)]) if whole else None,
        "ttft_s_p50": percentile(ttfts, 50),
        "ttft_s_max": max(ttfts, default=None),
        "decode_tok_s_p50": percentile(rates, 50),
        "decode_tok_s_min": min(rates, default=None),
        "burst_tok_s_p50": percentile(bursts, 50),
        "burst_tok_s_min": min(bursts, default=None),
        "decode_tokens_per_turn": percentile(tokens, 50),
        "final_prompt_tokens_max": max(
            (s.final.prompt_tokens for s in sessions if s.final is not None and s.final.prompt_tokens is not None),
            default=None,
        ),
        "sessions_detail": detail,
    }


def _samples(session: _Session) -> list[Sample]:
    return [turn.sample for turn in session.turns] + ([session.final] if session.final is not None else [])


def _wall_s(samples: list[Sample]) -> float | None:
    """From the first t0 to the last end."""
    spans = [(s.t0_ns, s.t0_ns + int(s.end_s * 1e9)) for s in samples if s.t0_ns is not None and s.end_s is not None]
    return (max(span[1] for span in spans) - min(span[0] for span in spans)) / 1e9 if spans else None


def _tally(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}


def _note(phase: Run, sessions: list[_Session]) -> None:
    phase.notes.append("rates of tool calls are burst rates over few tokens (burst_tok_s), not sustained decode")
    for session in sessions:
        sent = len(session.turns) + (session.final is not None)
        if sent < session.plan.turns + 1:
            phase.notes.append(f"session {session.script.number} ended after {sent} requests: one failed")
        substituted = sum(turn.substituted for turn in session.turns)
        if substituted:
            phase.notes.append(
                f"session {session.script.number}: {substituted} wrong answers were replaced by the right call"
            )


def _tokens_per_line(plan: AgenticPlan, server: Server) -> tuple[float, bool]:
    sample = agent.sample_lines(plan.seed)
    lines = sample.count("\n") + 1
    count = server.count_text(sample)
    if count is None:
        return len(sample) / CHARS_PER_LINE_TOKEN / lines, False
    return max(1.0, count / lines), True


def _base_tokens(plan: AgenticPlan, common: Common, server: Server) -> int:
    messages = [{"role": "system", "content": plan.system_prompt}, {"role": "user", "content": "."}]
    body = chat_body(server, messages, max_tokens=1, forced=False, thinking=False, extra_body=common.extra_body)
    return server.count_messages(messages, {**body, "tools": agent.TOOLS}) or 500
