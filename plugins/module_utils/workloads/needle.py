# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret in a long text: recall, prefill of an exact number of tokens (cold or warm), decode at that depth."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from ..client import ChatRequest, Sample, run_batch
from ..client.figures import decode_rate
from ..engine import patience
from ..errors import SpikeError
from ..results import store
from ..results.window import Clocks
from . import cache, haystack, text
from .checks import answer_of, repetitive
from .plans import Common, NeedlePlan, fits
from .run import Measured, Run, planned, reused
from .server import CHAT_PATH, Server, chat_body

# The secret must stand at the head of the answer: with forced tokens a story follows it.
HEAD_CHARS = 200
ANSWER_TOKENS = 64
WITHIN = 0.001

Counters = tuple[Callable[[haystack.Messages], int], Callable[[str], int], bool]
"""(count a chat, count a text, are the counts the engine's own)."""


def result_name(plan: NeedlePlan) -> str:
    """``needle-<target>-<cold|warm>``: what was meant; what it was is in the summary's ``cache``."""
    return f"needle-{plan.prompt_tokens}-{plan.expect}"


def plan_only(plan: NeedlePlan, common: Common) -> dict[str, Any]:
    """What check mode returns."""
    requests = 2 if plan.decode_apart else 1
    tokens = {"prompt_tokens": plan.prompt_tokens * requests, "output_tokens": _output_tokens(plan)}
    return planned("needle", result_name(plan), plan, common, requests, tokens)


def run(plan: NeedlePlan, common: Common, clocks: Clocks | None = None) -> dict[str, Any]:
    """Build the prompt, send it, judge recall, cache state and speed."""
    earlier = reused("needle", plan, common)
    if earlier is not None:
        return earlier
    server = Server.discover(common)
    fits("prompt_tokens", plan.prompt_tokens, _output_tokens(plan), server.max_model_len)
    count_messages, count_text, exact = _counters(plan, common, server)
    haystack.least(plan, count_messages)
    total = 2 if plan.decode_apart else 1
    with Run(
        "needle", result_name(plan), plan, common, server, total, "requests", clocks or Clocks(), scrape=True
    ) as phase:
        phase.companion.update(stage="building the prompt", prompt_tokens=plan.prompt_tokens)
        needle = haystack.build(plan, count_messages, count_text)
        phase.workload = {
            "target_tokens": plan.prompt_tokens,
            "built_tokens": needle.tokens,
            "counted_by": "the engine's /tokenize" if exact else "tokens per character of a sample, by usage",
            "whole_counts": needle.counts,
            "entries": needle.entries,
            "secret_entry": needle.secret_entry,
            "prompt_sha256": needle.sha256,
        }
        foretold = _foretold(plan, common, needle.tokens)
        expected = None if foretold is None else foretold.to_json()
        phase.companion.update(stage="prefill and answer", prompt_tokens=needle.tokens, expected=expected)
        recall_forced = 0 if plan.decode_apart else plan.forced_tokens
        recall = _send(phase, plan, needle, "needle", recall_forced)
        decode = recall
        if plan.decode_apart and plan.forced_tokens and recall.samples[0].status == "ok":
            phase.companion.update(stage="decode at depth", expected=None)
            decode = _send(phase, plan, needle, "decode-at-depth", plan.forced_tokens)
        summary = _summary(plan, phase, recall, decode)
        return phase.finish({**summary, "foretold": _compared(phase, foretold, summary)})


def _foretold(plan: NeedlePlan, common: Common, tokens: int) -> patience.Prediction | None:
    """How long this cold prefill should take, by those measured beside it in the same boot; None when unknown."""
    boot_id = common.context.get("boot_id")
    if plan.expect != "cold" or not boot_id or common.results_path is None:
        return None
    return patience.predict(patience.cold_points(store.beside(common.results_path), boot_id), tokens)


def _compared(phase: Run, foretold: patience.Prediction | None, summary: dict[str, Any]) -> dict[str, Any] | None:
    """The prediction beside what came; only a prefill that was cold indeed says how good it was."""
    if foretold is None or summary["ttft_s"] is None or summary["cache"]["state"] != "cold":
        return None if foretold is None else foretold.to_json()
    if summary["ttft_s"] > foretold.late_s:
        phase.notes.append(
            f"this prefill took {summary['ttft_s']:.1f} s: later than {foretold.late_s:.1f} s, which is all that the "
            f"shorter ones of this boot explain ({foretold.rule})"
        )
    return patience.error(foretold, summary["ttft_s"])


def _output_tokens(plan: NeedlePlan) -> int:
    return max(plan.forced_tokens, ANSWER_TOKENS if plan.decode_apart else 0) or ANSWER_TOKENS


def _body(plan: NeedlePlan, common: Common, server: Server, messages: haystack.Messages, forced: int) -> dict[str, Any]:
    return chat_body(
        server,
        messages,
        max_tokens=forced or ANSWER_TOKENS,
        forced=forced > 0,
        thinking=False,
        extra_body=common.extra_body,
    )


def _send(phase: Run, plan: NeedlePlan, needle: haystack.Needle, label: str, forced: int) -> Measured:
    body = _body(plan, phase.common, phase.server, needle.messages, forced)
    measured = phase.send(label, [ChatRequest(body=body, label=label, path=CHAT_PATH)])
    # The cache must be judged and kept with the sample it belongs to.
    phase.keep(
        measured,
        forced_tokens=forced or None,
        thinking=False,
        extra=lambda sample: {"cache": measured.cache(sample).to_json(None) if sample.status == "ok" else None},
    )
    return measured


def _summary(plan: NeedlePlan, phase: Run, recall: Measured, decode: Measured) -> dict[str, Any]:
    sample = recall.samples[0]
    ok = sample.status == "ok"
    answer = answer_of(sample) if ok else None
    head = answer[:HEAD_CHARS] if answer is not None else None
    failed = cache.CacheVerdict("unproven", None, None, None, {"why": "the request failed"})
    verdict = recall.cache(sample) if ok else failed
    prefill, prefill_reason = cache.prefill_rate(verdict, sample.ttft_s if ok else None)
    rate, rate_reason = decode_rate(decode.samples[0], plan.forced_tokens or None)
    kept = verdict.to_json(plan.expect)
    _note(plan, phase, sample, verdict, kept)
    return {
        "passed": plan.secret in head if head is not None else None,
        "answer": head,
        "prompt_tokens": sample.prompt_tokens if ok else None,
        "target_tokens": plan.prompt_tokens,
        "depth": plan.depth,
        "ttft_s": sample.ttft_s if ok else None,
        "prefill_tok_s": prefill,
        "prefill_invalid_reason": prefill_reason,
        "decode_tok_s": rate,
        "decode_invalid_reason": rate_reason,
        "completion_tokens": decode.samples[0].completion_tokens if decode.samples[0].status == "ok" else None,
        "cache": kept,
    }


def _note(plan: NeedlePlan, phase: Run, sample: Sample, verdict: cache.CacheVerdict, kept: dict[str, Any]) -> None:
    if sample.status != "ok":
        return
    if kept["as_expected"] is False:
        phase.notes.append(
            f"this sample was meant {plan.expect} and was {verdict.state} by the engine's own evidence "
            f"({verdict.cached_tokens} of {sample.prompt_tokens} prompt tokens cached): it counts as what it was"
        )
    elif verdict.state == "unproven":
        phase.notes.append(f"cold or warm is unproven: {verdict.evidence.get('why')}")
    if verdict.disagreement:
        phase.notes.append(f"cache evidence differs: {verdict.disagreement}")
    if sample.prompt_tokens is not None and abs(sample.prompt_tokens - plan.prompt_tokens) > max(
        1.0, plan.prompt_tokens * WITHIN
    ):
        phase.notes.append(f"{plan.prompt_tokens} prompt tokens were asked for, the engine says {sample.prompt_tokens}")
    if repetitive(sample.text):
        phase.notes.append("the text after the answer repeats itself: degenerate output?")


def _counters(plan: NeedlePlan, common: Common, server: Server) -> Counters:
    """How to count: by the engine's tokenizer, else by what usage says of two tiny requests (then not exact)."""
    probe = _body(plan, common, server, [{"role": "user", "content": "."}], 0)
    if server.unreachable is not None:
        # Nothing will be answered; the request itself shall fail and be kept with its reason.
        return _by_characters(0.25, 0)
    if server.count_messages(probe["messages"], probe) is not None:
        return (
            lambda messages: _known(server.count_messages(messages, probe)),
            lambda piece: _known(server.count_text(piece)),
            True,
        )
    entries = "\n\n".join(islice(text.paragraphs(text.rng("usage-sample", plan.seed)), haystack.SAMPLE_ENTRIES))
    small = _usage_of(plan, common, server, ".")
    large = _usage_of(plan, common, server, entries)
    return _by_characters((large - small) / len(entries), small)


def _by_characters(per_character: float, overhead: int) -> Counters:
    def count_text(piece: str) -> int:
        return round(len(piece) * per_character)

    def count_messages(messages: haystack.Messages) -> int:
        return overhead + sum(count_text(str(message["content"])) for message in messages)

    return count_messages, count_text, False


def _usage_of(plan: NeedlePlan, common: Common, server: Server, content: str) -> int:
    body = _body(plan, common, server, [{"role": "user", "content": content}], 0)
    request = ChatRequest(body={**body, "max_tokens": 1}, label="count", path=CHAT_PATH)
    sample = run_batch(server.endpoint, [request], request_timeout_s=common.request_timeout_s)[0]
    if sample.status != "ok" or sample.prompt_tokens is None:
        why = sample.error or "its usage has no prompt_tokens"
        raise SpikeError(f"the prompt cannot be sized: the server has no /tokenize, and a small request says: {why}")
    return sample.prompt_tokens


def _known(count: int | None) -> int:
    if count is None:
        raise SpikeError("the engine's /tokenize stopped answering while the prompt was built")
    return count
