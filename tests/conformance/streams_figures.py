# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Streams about what is measured: the first token, the number of tokens, the rate, the gaps."""

from __future__ import annotations

from .script import EVERY, FIRST, LAST, TOKENS, USAGE_AFTER, Play, ok, stream, words

DONE_S = LAST + USAGE_AFTER
HALF = TOKENS // 2


# The first token.


@stream("role-early", "the role event at 50 ms, the first token at 500", "vllm#3768, vllm#15106", core=True, **ok())
def _(play: Play) -> None:
    play.role(0.05)
    play.tokens()
    play.clean_tail()


@stream("no-role", "no role event at all", **ok())
def _(play: Play) -> None:
    play.tokens()
    play.clean_tail()


@stream("role-with-text", "the role in the same event as the first text", **ok())
def _(play: Play) -> None:
    play.send(FIRST, play.chunk({"role": "assistant", "content": words(0, 1)}, **play.running_usage(1)))
    play.done_tokens = 1
    play.tokens(FIRST + EVERY, TOKENS - 1)
    play.clean_tail()


@stream("empty-first", "empty and null contents before the first text", **ok())
def _(play: Play) -> None:
    play.role(0.05)
    play.send(0.1, play.chunk({"content": ""}), play.chunk({"content": None}), play.chunk({}))
    play.tokens()
    play.clean_tail()


@stream("space-first", "the first text is a line feed: text all the same", **ok(text="\n" + words(1, 15)))
def _(play: Play) -> None:
    play.role(0.05)
    play.send(FIRST, play.chunk({"content": "\n"}, **play.running_usage(1)))
    play.done_tokens = 1
    play.tokens(FIRST + EVERY, TOKENS - 1)
    play.clean_tail()


@stream("head-early", "the head long before the first event: no rate counts from there", "codex-router#195", **ok())
def _(play: Play) -> None:
    play.head_at_s = 0.02
    play.role()
    play.tokens()
    play.clean_tail()


THOUGHT = {"text": words(8, 8), "reasoning": words(0, 8), "first_answer_s": 1.3}


@stream("reasoning", "8 tokens in reasoning, then 8 in content", "guidellm#737", core=True, **ok(**THOUGHT))
def _(play: Play) -> None:
    play.role()
    play.tokens(FIRST, HALF, key="reasoning")
    play.tokens(FIRST + HALF * EVERY, HALF)
    play.clean_tail()


@stream("reasoning-content", "the same under the name of old", "vllm#50624", core=True, **ok(**THOUGHT))
def _(play: Play) -> None:
    play.role()
    play.tokens(FIRST, HALF, key="reasoning_content")
    play.tokens(FIRST + HALF * EVERY, HALF)
    play.clean_tail()


@stream("reasoning-twice", "the same text under both names counts once", "genai-bench#164", **ok(**THOUGHT))
def _(play: Play) -> None:
    play.role()
    for i in range(HALF):
        text = words(i, 1)
        both = {"reasoning": text, "reasoning_content": text, "content": None}
        play.send(FIRST + i * EVERY, play.chunk(both, **play.running_usage(i + 1)))
    play.done_tokens = HALF
    play.tokens(FIRST + HALF * EVERY, HALF)
    play.clean_tail()


@stream("reasoning-details", "reasoning as a list of parts", "evalscope#1700", **ok(**THOUGHT))
def _(play: Play) -> None:
    play.role()
    for i in range(HALF):
        part = {"type": "reasoning.text", "text": words(i, 1)}
        delta = {"content": "", "reasoning_details": [part]}
        play.send(FIRST + i * EVERY, play.chunk(delta, **play.running_usage(i + 1)))
    play.done_tokens = HALF
    play.tokens(FIRST + HALF * EVERY, HALF)
    play.clean_tail()


@stream(
    "reasoning-only",
    "nothing but reasoning, cut by length: no answer token",
    "inference-perf#559",
    **ok(text="", reasoning=words(0, 16), first_answer_s=None, finish_reason="length"),
)
def _(play: Play) -> None:
    play.role()
    play.tokens(key="reasoning")
    play.clean_tail(reason="length")


CALL = [{"id": "call-1", "name": "read_file", "arguments": '{"path": "a/b.py"}'}]
OTHER = {"id": "call-2", "name": "finish", "arguments": "{}"}


def fragment(index: int, arguments: str, **more: object) -> dict[str, object]:
    """A piece of a tool call; a name makes it the first one."""
    name = more.pop("name", None)
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"index": index, **more, "function": function}


@stream(
    "tool-call",
    "a tool call in fragments and no content",
    "tried: inference-perf, genai-bench",
    core=True,
    **ok(text="", tool_calls=CALL, finish_reason="tool_calls"),
)
def _(play: Play) -> None:
    play.role(0.05)
    first = fragment(0, "", id="call-1", type="function", name="read_file")
    play.send(FIRST, play.chunk({"tool_calls": [first]}))
    arguments = CALL[0]["arguments"]
    for i in range(1, TOKENS):
        end = None if i == TOKENS - 1 else i
        play.send(FIRST + i * EVERY, play.chunk({"tool_calls": [fragment(0, arguments[i - 1 : end])]}))
    play.done_tokens = TOKENS
    play.clean_tail(reason="tool_calls")


PARALLEL = {"text": "", "tool_calls": [*CALL, OTHER], "finish_reason": "tool_calls", "tokens": 5, "last_token_s": 0.9}


@stream("tools-parallel", "two calls, their fragments interleaved", **ok(**PARALLEL, decode_tok_s=10.0))
def _(play: Play) -> None:
    play.role(0.05)
    half = len(CALL[0]["arguments"]) // 2
    pieces = [
        [fragment(0, "", id="call-1", type="function", name="read_file")],
        [fragment(0, CALL[0]["arguments"][:half]), fragment(1, "", id="call-2", type="function", name="finish")],
        [fragment(1, "{")],
        [fragment(0, CALL[0]["arguments"][half:])],
        [fragment(1, "}")],
    ]
    for i, calls in enumerate(pieces):
        play.send(FIRST + i * EVERY, play.chunk({"tool_calls": calls}))
    play.done_tokens = 5
    play.clean_tail(0.9, "tool_calls")


@stream("tools-index-0", "two calls, both numbered 0, told apart by id", **ok(**PARALLEL, decode_tok_s=10.0))
def _(play: Play) -> None:
    play.role(0.05)
    half = len(CALL[0]["arguments"]) // 2
    pieces = [
        fragment(0, "", id="call-1", type="function", name="read_file"),
        fragment(0, CALL[0]["arguments"][:half]),
        fragment(0, CALL[0]["arguments"][half:]),
        fragment(0, "{", id="call-2", type="function", name="finish"),
        fragment(0, "}"),
    ]
    for i, call in enumerate(pieces):
        play.send(FIRST + i * EVERY, play.chunk({"tool_calls": [call]}))
    play.done_tokens = 5
    play.clean_tail(0.9, "tool_calls")


@stream(
    "tool-name-again",
    "id and name repeated with every fragment",
    **ok(**{**PARALLEL, "tool_calls": CALL, "tokens": 4, "last_token_s": 0.8, "decode_tok_s": 10.0}),
)
def _(play: Play) -> None:
    play.role(0.05)
    arguments = CALL[0]["arguments"]
    for i, piece in enumerate(("", arguments[:3], arguments[3:9], arguments[9:])):
        call = fragment(0, piece, id="call-1", type="function", name="read_file")
        play.send(FIRST + i * EVERY, play.chunk({"tool_calls": [call]}))
    play.done_tokens = 4
    play.clean_tail(0.8, "tool_calls")


# The number of tokens.


@stream("usage-on-finish", "usage on the finish event", "litellm#25410", **ok())
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish(usage=play.counts(TOKENS))
    play.done(LAST)


@stream("usage-each", "usage on every event, from 0", "vllm#7262", core=True, **ok())
def _(play: Play) -> None:
    play.send(FIRST, play.chunk({"role": "assistant", "content": ""}, usage=play.counts(0)))
    play.tokens(usage=True)
    play.finish(usage=play.counts(TOKENS))
    play.usage()
    play.done()


@stream("usage-null", "usage null on every event but the last", "vllm#36379", **ok())
def _(play: Play) -> None:
    play.send(FIRST, play.chunk({"role": "assistant", "content": ""}, usage=None))
    for i in range(TOKENS):
        play.send(FIRST + i * EVERY, play.chunk({"content": words(i, 1)}, usage=None))
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("usage-twice", "the usage event sent twice", **ok())
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish()
    play.usage(LAST + 0.1)
    play.usage()
    play.done()


@stream(
    "no-usage",
    "no usage at all: tokens unknown, no rate",
    "vllm-swift#19",
    core=True,
    **ok(tokens=None, decode_tok_s=None),
)
def _(play: Play) -> None:
    play.role()
    play.tokens(usage=False)
    play.finish()
    play.done(LAST)


@stream(
    "spec-2",
    "2 tokens an event, 8 events",
    "vllm#35471, vllm#46652",
    core=True,
    **ok(last_token_s=1.2, decode_tok_s=20.0),
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(sizes=[2] * 8))


VARIED = [1, 5, 2, 6, 1, 1, 4, 3, 6, 2]


@stream(
    "spec-varied",
    "1, 5, 2, 6, 1, 1, 4, 3, 6, 2 tokens an event",
    "vllm#46652",
    **ok(tokens=31, last_token_s=1.4, decode_tok_s=30 / 0.9, text=words(0, 31)),
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(sizes=VARIED))


@stream(
    "spec-first-6",
    "6 tokens in the first event: (n - 6) over the span, not (n - 1)",
    "evalscope#721",
    core=True,
    **ok(tokens=24, last_token_s=2.3, decode_tok_s=10.0, text=words(0, 24)),
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(sizes=[6] + [1] * 18))


@stream(
    "spec-blind",
    "2 tokens an event and usage at the end only: the first event's share is unknown",
    **ok(last_token_s=1.2, decode_tok_s=None),
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(sizes=[2] * 8, usage=False))


@stream("token-ids", "no running usage, but token ids on each event", **ok(last_token_s=1.2, decode_tok_s=20.0))
def _(play: Play) -> None:
    play.role()
    for i in range(8):
        event = play.chunk({"content": words(2 * i, 2)})
        event["choices"][0]["token_ids"] = [2 * i, 2 * i + 1]
        play.send(FIRST + i * EVERY, event)
    play.done_tokens = TOKENS
    play.clean_tail(1.2)


@stream(
    "hidden-tokens",
    "tokens that come without text (held back by a parser) in mid-stream",
    **ok(text=words(0, 6) + words(10, 6)),
)
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        text = "" if 6 <= i < 10 else words(i, 1)
        play.send(FIRST + i * EVERY, play.chunk({"content": text}, usage=play.counts(i + 1)))
    play.done_tokens = TOKENS
    play.clean_tail()


@stream(
    "special-only",
    "an event that is a special token only",
    "vllm#12288",
    **ok(text=words(0, 15) + "<|im_end|>"),
)
def _(play: Play) -> None:
    play.role()
    play.tokens(FIRST, TOKENS - 1)
    play.done_tokens = TOKENS
    play.send(LAST, play.chunk({"content": "<|im_end|>"}))
    play.clean_tail()


@stream(
    "short-of-asked",
    "40 tokens where more were asked for: 40",
    "sglang#10746",
    core=True,
    **ok(tokens=40, text=words(0, 40), last_token_s=FIRST + 39 * 0.04, max_gap_s=0.04, decode_tok_s=25.0),
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(count=40, every_s=0.04))


NOTHING = {
    "ttft_s": None,
    "first_answer_s": None,
    "last_token_s": None,
    "decode_tok_s": None,
    "max_gap_s": None,
    "text": "",
}


@stream(
    "zero", "end of sequence at once: a success with nothing to time", "tried", core=True, **ok(**NOTHING, tokens=0)
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(FIRST)


@stream(
    "one",
    "one token: a first token and no rate",
    "optimum-benchmark#223",
    core=True,
    **ok(tokens=1, text=" w00", last_token_s=FIRST, decode_tok_s=None, max_gap_s=None),
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(count=1))


@stream(
    "two",
    "two tokens: one gap",
    "ipex-llm#12271",
    **ok(tokens=2, text=words(0, 2), last_token_s=1.5, max_gap_s=1.0, decode_tok_s=1.0),
)
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(count=2, every_s=1.0))


@stream("all-at-once", "16 tokens in one event: no rate", **ok(last_token_s=FIRST, decode_tok_s=None, max_gap_s=None))
def _(play: Play) -> None:
    play.role()
    play.clean_tail(play.tokens(sizes=[TOKENS]))


@stream(
    "usage-wrong-types", "counts that are strings, floats, negative: no counts", **ok(tokens=None, decode_tok_s=None)
)
def _(play: Play) -> None:
    play.role()
    play.tokens(usage=False)
    play.finish()
    play.send(DONE_S, play.chunk(None, usage={"completion_tokens": "16", "prompt_tokens": -1, "total_tokens": 1.5}))
    play.done()


@stream("usage-no-object", "usage that is a number", **ok(tokens=None, decode_tok_s=None))
def _(play: Play) -> None:
    play.role()
    play.tokens(usage=False)
    play.finish()
    play.send(DONE_S, play.chunk(None, usage=16))
    play.done()


@stream("usage-falls", "running usage that goes down: no rate", **ok(decode_tok_s=None))
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        count = i - 4 if i == 8 else i + 1
        play.send(FIRST + i * EVERY, play.chunk({"content": words(i, 1)}, usage=play.counts(count)))
    play.done_tokens = TOKENS
    play.clean_tail()


@stream("usage-disagrees", "running usage ends at 16, final usage says 40: no rate", **ok(tokens=40, decode_tok_s=None))
def _(play: Play) -> None:
    play.role()
    play.tokens(usage=True)
    play.finish()
    play.usage(done=40)
    play.done()


@stream("cached", "cached and reasoning tokens in the details", **ok(prompt_tokens=12, cached_tokens=8))
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish()
    details = {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 3}}
    play.usage(**details)
    play.done()


@stream("cached-null", "details null: unknown, not 0", **ok(prompt_tokens=12, cached_tokens=None))
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish()
    play.usage(prompt_tokens_details=None)
    play.done()


# Gaps and ends.


@stream(
    "stall",
    "a hole of 1.0 s in mid-stream",
    "tried: guidellm, aiperf",
    core=True,
    **ok(last_token_s=3.0, max_gap_s=1.1, decode_tok_s=6.0),
)
def _(play: Play) -> None:
    play.role()
    play.tokens(FIRST, HALF)
    play.tokens(FIRST + (HALF - 1) * EVERY + 1.1, HALF)
    play.clean_tail(3.0)


@stream(
    "late-finish", "finish_reason 0.5 s after the last token: the token is the end of decoding", "vllm#55508", **ok()
)
def _(play: Play) -> None:
    play.role()
    play.tokens()
    play.finish(LAST + 0.5)
    play.usage(LAST + 0.6)
    play.done(LAST + 0.6)


@stream("finish-with-text", "finish_reason in the same event as the last text", **ok(finish_reason="length"))
def _(play: Play) -> None:
    play.role()
    play.tokens(count=TOKENS - 1)
    play.done_tokens = TOKENS
    play.send(LAST, play.chunk({"content": words(15, 1)}, "length", **play.running_usage(TOKENS)))
    play.usage()
    play.done()


@stream("two-choices", "a second choice beside the first", **ok(decode_tok_s=None, tokens=32))
def _(play: Play) -> None:
    play.role()
    for i in range(TOKENS):
        event = play.chunk({"content": words(i, 1)})
        event["choices"].append({"index": 1, "delta": {"content": " no"}, "finish_reason": None})
        play.send(FIRST + i * EVERY, event)
    play.finish()
    play.usage(done=32)
    play.done()
