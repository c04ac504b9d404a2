# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans: what a phase will measure, checked whole before anything is sent.

``from_options`` takes a module's options (a mapping); every fault is a PlanError with field, value and remedy.
``to_json`` is the ``plan`` of the result document: equal plans measure the same thing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PlanError
from . import fields

# What a phase decides itself; extra_body may not contradict it.
RESERVED_BODY = {
    "model": "Use the option model.",
    "messages": "Use the phase's own prompt options.",
    "stream": "Every measured request is streamed.",
    "stream_options": "Usage is asked for on every event; without it no rate can be computed.",
    "n": "One answer per request is measured.",
    "max_tokens": "Use the phase's own token option.",
    "max_completion_tokens": "Use the phase's own token option.",
    "min_tokens": "Use the phase's own token option.",
}


@dataclass(frozen=True)
class Common:
    """Options that all measuring modules share.

    The three limits are None when there is none (the default: a cold million-token prefill is silent for half an
    hour). ``active_model_bytes`` is what one decode step must read; with ``memory_bandwidth_bytes_s`` it bounds a
    rate that can be true.
    """

    endpoint: str
    model: str | None
    results_path: str | None
    request_timeout_s: float | None
    stall_time_limit_s: float | None
    time_limit_s: float | None
    extra_body: dict[str, Any]
    context: dict[str, Any]
    api_key_file: str | None
    api_key_env: str | None
    active_model_bytes: float | None
    memory_bandwidth_bytes_s: float | None
    remeasure: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Common:
        """Check the shared options. Raises PlanError."""
        extra = fields.mapping("extra_body", options.get("extra_body"))
        for key, remedy in RESERVED_BODY.items():
            if key in extra:
                raise PlanError(f"extra_body.{key}", extra[key], remedy)
        model = options.get("model")
        if options.get("api_key_file") and options.get("api_key_env"):
            raise PlanError("api_key_env", options["api_key_env"], "Give api_key_file or api_key_env, not both.")
        return cls(
            endpoint=fields.text("endpoint", options.get("endpoint") or "http://127.0.0.1:8090", 2000),
            model=None if model is None else fields.text("model", model, 500),
            results_path=options.get("results_path"),
            request_timeout_s=fields.optional_positive(
                "request_timeout_s", options.get("request_timeout_s"), "seconds"
            ),
            stall_time_limit_s=fields.optional_positive(
                "stall_time_limit_s", options.get("stall_time_limit_s"), "seconds"
            ),
            time_limit_s=fields.optional_positive("time_limit_s", options.get("time_limit_s"), "seconds"),
            extra_body=extra,
            context=fields.mapping("context", options.get("context")),
            api_key_file=options.get("api_key_file"),
            api_key_env=options.get("api_key_env"),
            active_model_bytes=fields.optional_positive(
                "active_model_bytes", options.get("active_model_bytes"), "bytes read per decode step"
            ),
            memory_bandwidth_bytes_s=fields.optional_positive(
                "memory_bandwidth_bytes_s", options.get("memory_bandwidth_bytes_s"), "bytes per second"
            ),
            remeasure=bool(options.get("remeasure")),
        )


def plan_json(plan: Any, common: Common) -> dict[str, Any]:
    """The plan as the document keeps it: the phase's options, and the shared ones that change what is sent."""
    out: dict[str, Any] = _plain(dataclasses.asdict(plan))
    out["model"] = common.model
    out["extra_body"] = common.extra_body
    return out


def fits(field: str, prompt_tokens: int, output_tokens: int, max_model_len: int | None) -> None:
    """Refuse what the engine would refuse: prompt and output must fit the served window together."""
    if max_model_len is None or prompt_tokens + output_tokens <= max_model_len:
        return
    raise PlanError(
        field,
        prompt_tokens,
        f"With {output_tokens} output tokens that is {prompt_tokens + output_tokens} tokens, beyond the served "
        f"max_model_len of {max_model_len}. Ask for at most {max(0, max_model_len - output_tokens)}.",
    )


@dataclass(frozen=True)
class ProbePlan:
    """One question. ``expect`` is judged on the controller; here it is only kept with the reply."""

    name: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    tool_choice: Any
    max_tokens: int
    temperature: float
    thinking: bool | None
    compare_unstreamed: bool
    expect: tuple[dict[str, Any], ...]

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> ProbePlan:
        """Check a probe's options. Raises PlanError."""
        prompt, messages = options.get("prompt"), options.get("messages")
        if (prompt is None) == (messages is None):
            raise PlanError("prompt", prompt, "Give exactly one of prompt (a text) and messages (a list).")
        if messages is None:
            messages = [{"role": "user", "content": fields.text("prompt", prompt)}]
        tools = tuple(_objects("tools", options.get("tools")))
        choice = options.get("tool_choice")
        if choice is not None and not tools:
            raise PlanError("tool_choice", choice, "Give tools as well, or leave tool_choice out.")
        compare = options.get("compare_unstreamed")
        return cls(
            name=fields.name("name", options.get("name")),
            messages=_messages(messages),
            tools=tools,
            tool_choice=choice,
            max_tokens=fields.whole("max_tokens", options.get("max_tokens", 1024), 1, fields.MAX_TOKENS, "tokens"),
            temperature=_temperature(options.get("temperature", 0.0)),
            thinking=options.get("thinking"),
            # Streamed and unstreamed tool calls take different parsers in the engine; either may be broken alone.
            compare_unstreamed=bool(tools) if compare is None else bool(compare),
            expect=tuple(_objects("expect", options.get("expect"))),
        )


@dataclass(frozen=True)
class DecodePlan:
    """The same prompt ``runs`` times, one after the other, each answer forced to ``max_tokens`` tokens."""

    name: str
    prompt: str
    max_tokens: int
    runs: int
    warmup_runs: int
    forced: bool

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> DecodePlan:
        """Check the options of decode. Raises PlanError."""
        return cls(
            name=fields.name("name", options.get("name", "prose")),
            prompt=fields.text("prompt", options.get("prompt")),
            max_tokens=fields.whole("max_tokens", options.get("max_tokens", 512), 1, fields.MAX_TOKENS, "tokens"),
            runs=fields.whole("runs", options.get("runs", 3), 1, 1000, "runs"),
            warmup_runs=fields.whole("warmup_runs", options.get("warmup_runs", 0), 0, 100, "runs"),
            forced=bool(options.get("forced", True)),
        )


@dataclass(frozen=True)
class NeedlePlan:
    """A secret at ``depth`` percent of a text of exactly ``prompt_tokens`` tokens (chat template included)."""

    prompt_tokens: int
    depth: float
    expect: str
    forced_tokens: int
    decode_apart: bool
    secret: str
    statement: str
    question: str
    seed: int

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> NeedlePlan:
        """Check the options of needle. Raises PlanError."""
        secret = fields.text("secret", options.get("secret"), 200)
        statement = fields.text("statement", options.get("statement"), 2000)
        if "{secret}" not in statement:
            raise PlanError("statement", statement, "Write {secret} where the secret goes.")
        question = fields.text("question", options.get("question"), 4000)
        if secret in question:
            raise PlanError("question", question, "The question must not give the secret away.")
        return cls(
            prompt_tokens=fields.whole("prompt_tokens", options.get("prompt_tokens"), 1, fields.MAX_TOKENS, "tokens"),
            depth=fields.percent_depth("depth", options.get("depth", 37)),
            expect=fields.one_of("expect", options.get("expect", "cold"), ("cold", "warm")),
            forced_tokens=fields.whole(
                "forced_tokens", options.get("forced_tokens", 256), 0, fields.MAX_TOKENS, "tokens"
            ),
            decode_apart=bool(options.get("decode_apart", False)),
            secret=secret,
            statement=statement,
            question=question,
            seed=fields.whole("seed", options.get("seed", 1), 0, 2**63 - 1),
        )


@dataclass(frozen=True)
class SweepPlan:
    """Levels of simultaneous requests, and optionally open-loop arrival rates."""

    concurrency: tuple[int, ...]
    requests_per_level: int | None
    max_tokens: int
    prompt: str
    shared_prefix: str | None
    repeats: int
    arrival_rates: tuple[float, ...]
    goodput_ttft_s: float | None
    goodput_token_s: float | None
    seed: int

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> SweepPlan:
        """Check the options of sweep. Raises PlanError."""
        levels = options.get("concurrency")
        rates = options.get("arrival_rates") or []
        if levels is None:
            levels = [1, 2, 4]
        if not isinstance(levels, Sequence) or isinstance(levels, str) or not (levels or rates):
            raise PlanError("concurrency", levels, "Write a list of whole numbers such as [1, 2, 4].")
        per_level = options.get("requests_per_level")
        if per_level is not None:
            fields.whole("requests_per_level", per_level, 1, fields.MAX_SAMPLES, "requests")
        checked = tuple(fields.whole("concurrency", level, 1, 4096, "requests at once") for level in levels)
        if len(set(checked)) != len(checked):
            raise PlanError("concurrency", list(checked), "Write each level once; use repeats to measure it again.")
        for level in checked:
            if per_level is not None and per_level < level:
                raise PlanError("requests_per_level", per_level, f"Write at least the level, {level}.")
        if rates and per_level is None:
            raise PlanError("requests_per_level", per_level, "Say how many requests each arrival rate sends.")
        return cls(
            concurrency=checked,
            requests_per_level=per_level,
            max_tokens=fields.whole("max_tokens", options.get("max_tokens", 512), 1, fields.MAX_TOKENS, "tokens"),
            prompt=fields.text("prompt", options.get("prompt")),
            shared_prefix=options.get("shared_prefix"),
            repeats=fields.whole("repeats", options.get("repeats", 1), 1, 100, "repeats"),
            arrival_rates=tuple(fields.positive("arrival_rates", rate, "requests per second") for rate in rates),
            goodput_ttft_s=fields.optional_positive("goodput_ttft_s", options.get("goodput_ttft_s"), "seconds"),
            goodput_token_s=fields.optional_positive(
                "goodput_token_s", options.get("goodput_token_s"), "seconds per output token"
            ),
            seed=fields.whole("seed", options.get("seed", 1), 0, 2**63 - 1),
        )


@dataclass(frozen=True)
class AgenticPlan:
    """``sessions`` agents at once, each reading ``turns`` files and then reporting three facts."""

    sessions: int
    turns: int
    tool_result_tokens: int
    max_tokens: int
    system_prompt: str
    seed: int

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> AgenticPlan:
        """Check the options of agentic. Raises PlanError."""
        return cls(
            sessions=fields.whole("sessions", options.get("sessions", 1), 1, 256, "sessions"),
            turns=fields.whole("turns", options.get("turns", 12), 1, 1000, "turns"),
            tool_result_tokens=fields.whole(
                "tool_result_tokens", options.get("tool_result_tokens", 8000), 64, 1_000_000, "tokens"
            ),
            max_tokens=fields.whole("max_tokens", options.get("max_tokens", 512), 1, fields.MAX_TOKENS, "tokens"),
            system_prompt=fields.text("system_prompt", options.get("system_prompt"), 100_000),
            seed=fields.whole("seed", options.get("seed", 1), 0, 2**63 - 1),
        )


@dataclass(frozen=True)
class CalibratePlan:
    """The instrument against a server whose every byte's time is known, at these numbers of streams."""

    concurrency: tuple[int, ...]
    tokens: int
    first_token_s: float
    tokens_per_s: float
    rates_hz: tuple[int, ...]

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> CalibratePlan:
        """Check the options of calibrate. Raises PlanError."""
        levels = options.get("concurrency") or []
        if not isinstance(levels, Sequence) or isinstance(levels, str) or not levels:
            raise PlanError("concurrency", levels, "Write a list of whole numbers such as [1, 4, 32].")
        rates = options.get("rates_hz")
        if not isinstance(rates, Sequence) or isinstance(rates, str):
            raise PlanError("rates_hz", rates, "Write a list of events per second such as [1000, 5000].")
        return cls(
            concurrency=tuple(fields.whole("concurrency", level, 1, 4096, "streams") for level in levels),
            tokens=fields.whole("tokens", options.get("tokens", 32), 2, 100_000, "tokens"),
            first_token_s=fields.positive("first_token_s", options.get("first_token_s", 0.02), "seconds"),
            tokens_per_s=fields.positive("tokens_per_s", options.get("tokens_per_s", 50.0), "tokens per second"),
            rates_hz=tuple(fields.whole("rates_hz", rate, 10, 1_000_000, "events per second") for rate in rates),
        )


def _temperature(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 2:
        raise PlanError("temperature", value, "Write a number from 0 to 2.")
    return float(value)


def _objects(field: str, value: object) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, Mapping) for v in value):
        raise PlanError(field, value, "Write a list of mappings.")
    return [dict(entry) for entry in value]


def _messages(value: object) -> tuple[dict[str, Any], ...]:
    entries = _objects("messages", value)
    if not entries:
        raise PlanError("messages", value, "Write at least one message.")
    for index, entry in enumerate(entries):
        if not isinstance(entry.get("role"), str) or "content" not in entry:
            raise PlanError(f"messages[{index}]", entry, "Each message has a role and a content.")
    return tuple(entries)


def _plain(value: Any) -> Any:
    """Tuples as lists: what the JSON on disk will hold, so that the hash is of that."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value
