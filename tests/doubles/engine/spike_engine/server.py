# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP side: routes, request checks, replies, and how the engine dies."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

from . import arm as arms
from . import perf, texts
from .answers import Reply, compose, force, swell
from .bootlog import API, CORE, Line, version
from .console import Console
from .core import Core, Job
from .faults import Faults
from .host import Host
from .http import REASONS, Connection, HttpError
from .metrics import Metrics
from .stream import FINGERPRINT, Stream, units
from .tokens import Tokenizer, render
from .truth import Truth

BIG_BODY = 200_000  # bytes; larger prompts are tokenized beside the loop, so that other streams keep flowing


class Server:
    """The double."""

    def __init__(self, settings: argparse.Namespace, faults: Faults, speed: dict[str, float], truth: Truth) -> None:
        self.settings, self.faults, self.truth, self.speed = settings, faults, truth, speed
        self.arm = arms.resolve(settings)
        self.host = Host()
        self.console = Console(faults)
        self.tokenizer = Tokenizer()
        self.wrong = set(filter(None, os.environ.get("SPIKE_WRONG", "").split(",")))
        self.dev = os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
        self.chats = self.load = 0
        self.streams: set[Stream] = set()
        self.stop = asyncio.Event()
        self.exit_code = 0
        self.served = "someone-else/another-model" if faults.on("wrong-model") else self.arm.served
        self.metrics = Metrics(self.arm.served, self.arm.spec_k, self._cache_config())
        self.core = Core(
            self.arm,
            perf.choose(self.arm.kv_dtype, self.arm.spec_method, self.arm.spec_k),
            self.metrics,
            faults,
            self.host,
            truth,
            settings.max_num_batched_tokens or 8192,
            settings.max_num_seqs or 256,
            speed["prefill"],
            speed["decode"],
            not settings.no_enable_prefix_caching,
        )

    def _cache_config(self) -> dict[str, str]:
        s, a = self.settings, self.arm
        return {
            "_block_size_resolved": "True",
            "block_size": str(a.block),
            "cache_dtype": "fp8" if a.kv_asked == "fp8" else a.kv_dtype,
            "enable_prefix_caching": str(not s.no_enable_prefix_caching),
            "gpu_memory_utilization": str(a.utilization),
            "is_attention_free": "False",
            "kv_cache_max_concurrency": str(a.concurrency),
            "kv_cache_size_tokens": str(a.pool_tokens),
            "kv_cache_memory_bytes": str(int(a.available_gib * 2**30)),
            "mamba_block_size": str(a.block),
            "mamba_cache_dtype": "auto",
            "mamba_cache_mode": s.mamba_cache_mode or "align",
            "mamba_ssm_cache_dtype": s.mamba_ssm_cache_dtype or "auto",
            "num_gpu_blocks": str(a.pool_tokens // a.block),
            "num_gpu_blocks_override": "None",
            "prefix_caching_hash_algo": "sha256",
            "sliding_window": "None",
        }

    # --- routes ----------------------------------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        connection = Connection(reader, writer)
        try:
            while not connection.gone:
                request = await connection.request()
                if request is None:
                    return
                await self._one(connection, *request)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            if not writer.transport.is_closing():
                writer.close()

    async def _one(
        self, connection: Connection, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> None:
        path = target.partition("?")[0]
        status: int | None
        self.load += 1
        try:
            if (
                self.settings.api_key
                and path.startswith(("/v1", "/v2", "/inference", "/cohere"))
                and headers.get("authorization") != f"Bearer {self.settings.api_key}"
            ):
                connection.answer(401, b'{"error":"Unauthorized"}')
                status = 401
            elif method == "POST" and path == "/v1/chat/completions":
                status = await self._chat(connection, body)
            else:
                status = await self._other(connection, method, path, body)
        except HttpError as error:
            connection.answer(error.status, json.dumps(error.body).encode())
            status = error.status
            if status in (400, 404):
                self.console.record(API, "serving.py:235", f"Error with model error={error.body['error']}", "ERROR")
        finally:
            self.load -= 1
        if status is not None:
            key = (path, method, f"{status // 100}xx")
            self.metrics.http[key] = self.metrics.http.get(key, 0) + 1
            if not self.settings.disable_uvicorn_access_log:
                self.console.put(
                    Line(
                        0,
                        API,
                        f'INFO:     {connection.peer} - "{method} {target} HTTP/1.1" '
                        f"{status} {REASONS.get(status, '')}",
                    )
                )

    async def _other(self, connection: Connection, method: str, path: str, body: bytes) -> int:
        if self.faults.on("health-hang") and path in ("/health", "/metrics"):
            await asyncio.sleep(self.faults.number("health-hang", 30))
        if path == "/metrics":
            if self.faults.on("metrics-missing"):
                raise HttpError(404, "Not Found", "NotFoundError")
            stats = not (self.settings.disable_log_stats or self.faults.on("no-log-stats"))
            connection.answer(200, self.metrics.render(stats).encode(), "text/plain; version=1.0.0; charset=utf-8")
            return 200
        if path in ("/health", "/ping"):
            status = 503 if self.core.dead else 200
            connection.answer(status, b"", "text/plain")
            return status
        simple: dict[tuple[str, str], Callable[[], Any]] = {
            ("GET", "/version"): lambda: {"version": version(self.faults)},
            ("GET", "/v1/models"): self._models,
            ("GET", "/load"): lambda: {"server_load": self.load - 1},
            ("POST", "/detokenize"): lambda: {
                "prompt": self.tokenizer.decode(json.loads(body or b"{}").get("tokens") or [])
            },
        }
        if method == "POST" and path == "/tokenize" and not self.faults.on("tokenize-missing"):
            answer: Any = await self._aside(body, lambda: self._tokenize(body))
        elif (method, path) in simple:
            answer = simple[method, path]()
        elif self.dev and method == "POST" and path == "/reset_prefix_cache":
            answer = self._reset_cache()
        elif path.startswith("/_double/"):
            answer = self._control(path, body)
        else:
            connection.answer(404, b'{"detail":"Not Found"}')
            return 404
        connection.answer(200, json.dumps(answer).encode())
        return 200

    def _control(self, path: str, body: bytes) -> Any:
        """Switches for tests, beside what vLLM has: faults while running, and what was counted."""
        if path == "/_double/faults":
            faults = Faults(json.loads(body)["faults"])
            self.faults.switches.clear()
            self.faults.switches.update(faults.switches)
            self.core.frozen = False
            self.core.wake.set()
        return {
            "faults": sorted(self.faults.switches),
            "chats": self.chats,
            "cached_blocks": len(self.core.cache.blocks),
        }

    def _models(self) -> dict[str, Any]:
        length = self.arm.max_len // 2 if self.faults.on("max-len-differs") else self.arm.max_len
        return {
            "object": "list",
            "data": [
                {
                    "id": self.served,
                    "object": "model",
                    "created": int(self.metrics.created),
                    "owned_by": "vllm",
                    "root": self.arm.model,
                    "parent": None,
                    "max_model_len": length,
                    "permission": [],
                }
            ],
        }

    def _reset_cache(self) -> dict[str, Any]:
        if self.core.running or self.faults.on("reset-busy"):
            self.console.record(
                CORE,
                "block_pool.py:785",
                "Failed to reset prefix cache because some blocks (24) are not freed yet",
                "WARNING",
            )
            return {"success": False}
        self.console.record(API, "api_router.py:39", "Resetting prefix cache...")
        self.core.cache.blocks.clear()
        self.core.hits.clear()
        self.console.record(CORE, "block_pool.py:797", "Successfully reset prefix cache")
        return {"success": True}

    async def _aside(self, body: bytes, work: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(work) if len(body) > BIG_BODY else work()

    def _prompt(self, body: dict[str, Any]) -> str:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise HttpError(400, "messages: Field required", "Bad Request")
        return render(messages, body.get("tools"), self._thinking(body), body.get("add_generation_prompt", True))

    def _thinking(self, body: dict[str, Any]) -> bool:
        if not self.settings.reasoning_parser:
            return False
        defaults = self.settings.default_chat_template_kwargs or {}
        asked = {**defaults, **(body.get("chat_template_kwargs") or {})}.get("enable_thinking", True)
        return bool(asked) and body.get("reasoning_effort") != "none"

    @staticmethod
    def _parsed(body: bytes) -> dict[str, Any]:
        try:
            parsed = json.loads(body)
        except ValueError:
            raise HttpError(
                400, "[{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error'}]", "Bad Request"
            ) from None
        if not isinstance(parsed, dict):
            raise HttpError(400, "Input should be a valid dictionary", "Bad Request")
        return parsed

    def _tokenize(self, raw: bytes) -> dict[str, Any]:
        body = self._parsed(raw)
        text = self._prompt(body) if "messages" in body else str(body.get("prompt", ""))
        ids = self.tokenizer.encode(text)
        strings = [self.tokenizer.text_of[i] for i in ids] if body.get("return_token_strs") else None
        return {"count": len(ids), "max_model_len": self.arm.max_len, "tokens": ids, "token_strs": strings}

    # --- chat ------------------------------------------------------------------------------------------------------

    def _checked(self, raw: bytes) -> tuple[dict[str, Any], str, list[int]]:
        body = self._parsed(raw)
        wanted = body.get("model")
        if wanted and wanted not in (self.arm.served, self.served):
            raise HttpError(404, f"The model `{wanted}` does not exist.", "NotFoundError", "model")
        if body.get("tools") == []:
            raise HttpError(400, "tools: Value error, `tools` must not be an empty array.", "Bad Request")
        if body.get("stream_options") and not body.get("stream"):
            raise HttpError(
                400, "Stream options can only be defined when `stream=True`.", "Bad Request", "stream_options"
            )
        prompt = self._prompt(body)
        ids = self.tokenizer.encode(prompt)
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        if len(ids) + (asked or 1) > self.arm.max_len:
            raise HttpError(400, texts.too_long(self.arm.max_len, len(ids), asked or 1), param="input_tokens")
        return body, prompt, ids

    def _reply(self, body: dict[str, Any], prompt: str, room: int, number: int) -> tuple[Reply, list[tuple[str, str]]]:
        limit = min(body.get("max_completion_tokens") or body.get("max_tokens") or room, room)
        reply = compose(body, prompt, self._thinking(body), min(limit, 4096), self.wrong, self.faults, number)
        least = body.get("min_tokens") or 0
        if body.get("ignore_eos"):
            least = max(least, limit)
        if self.faults.on("zero-tokens", number):
            return Reply(), []
        if self.faults.on("ignore-forced", number):
            least = 0
            reply.content = reply.content[: int(self.faults.number("ignore-forced", 10))]
        reply = force(reply, min(least, limit), limit)
        if self.faults.on("huge-answer", number):
            reply = swell(reply, int(self.faults.number("huge-answer", 10) * 1e6))
        said = units(reply, self.tokenizer)[:limit]
        return reply, said

    def _whole_faults(self, connection: Connection, number: int) -> int | None:
        """Faults that answer a chat request before it begins; the status, or None."""
        f = self.faults
        if f.on("http-503", number):
            raise HttpError(
                503, "The server's request queue is full. Please try again later.", "ServiceUnavailableError"
            )
        if f.on("http-500", number):
            raise HttpError(500, "Internal Server Error", "InternalServerError")
        if f.on("html-error", number):
            connection.answer(
                502, b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", "text/html"
            )
            return 502
        if f.on("json-200-error", number):
            connection.answer(200, json.dumps(HttpError(500, texts.ENGINE_ERROR, "InternalServerError").body).encode())
            return 200
        if f.on("die-exit-0", number) or (f.on("crash-on-request") and number == int(f.number("crash-on-request", 5))):
            self.die(texts.ILLEGAL_ACCESS)
        if self.core.dead:
            raise HttpError(500, texts.ENGINE_ERROR, "InternalServerError")
        return None

    async def _chat(self, connection: Connection, raw: bytes) -> int | None:
        arrived = time.monotonic()
        self.chats += 1
        number = self.chats
        if self.faults.on("counter-reset") and number == int(self.faults.number("counter-reset", 3)):
            self.metrics.reset()
        status = self._whole_faults(connection, number)
        if status is not None:
            return status
        body, prompt, ids = await self._aside(raw, lambda: self._checked(raw))
        reply, said = self._reply(body, prompt, self.arm.max_len - len(ids), number)
        self.truth.note("request", request=number, prompt=len(ids), out=len(said), stream=bool(body.get("stream")))
        if self.faults.on("hang", number):
            self.core.frozen = True
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        job = Job(
            number,
            ids,
            str(body.get("cache_salt") or ""),
            len(said),
            reply.kind,
            reply.finish,
            emit=lambda n, d: None,
            max_tokens=body.get("max_tokens") or 0,
            gone=lambda: connection.gone,
            t_arrived=arrived,
        )
        streaming = bool(body.get("stream"))
        sink = Stream(
            job,
            reply,
            said,
            body,
            self.served,
            self.faults,
            self.truth,
            connection.writer.write if streaming else lambda data: None,
            self._figures,
            self.settings.enable_prompt_tokens_details,
            lambda how: None if done.done() else done.set_result(how),
            lambda: self.die(texts.ILLEGAL_ACCESS),
        )
        job.emit = sink.emit
        self.streams.add(sink)
        if streaming:
            connection.begin_stream()
            if self.faults.on("role-early", number):
                sink.begin()
        self.core.submit(job)
        try:
            how = await self._wait(connection, sink, done)
        finally:
            self.streams.discard(sink)
        if how is None:
            return None
        if not streaming:
            return self._whole(connection, sink, how)
        return self._end_of_stream(connection, how)

    async def _wait(self, connection: Connection, sink: Stream, done: asyncio.Future[str]) -> str | None:
        """How the reply ended; None when the client went away first."""
        beat = self.settings.sse_keep_alive_interval or (0.2 if sink.on("keep-alive-comments") else None)
        while not done.done():
            await asyncio.wait([done], timeout=beat or 1.0)
            if not done.done() and connection.gone:
                sink.finish("client-gone")
                return None
            if beat and not done.done() and not sink.begun:
                sink.raw(": keep-alive\n\n")
        return done.result()

    def _end_of_stream(self, connection: Connection, how: str) -> int:
        if how == "reset":
            connection.reset()
        elif how == "cut":
            connection.writer.close()
        else:
            connection.writer.write(b"0\r\n\r\n")
        return 200

    def _figures(self, job: Job) -> dict[str, Any] | None:
        if not self.settings.enable_per_request_metrics:
            return None
        out = self.core.figures(job)
        if self.settings.per_request_spec_decode_metrics in (None, "none"):
            out.pop("speculative_decoding", None)
        return out

    def _whole(self, connection: Connection, sink: Stream, how: str) -> int:
        if how == "error":
            raise HttpError(500, texts.ENGINE_ERROR, "InternalServerError")
        reply, job = sink.reply, sink.job
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(reply.content) or None,
            "reasoning": "".join(reply.reasoning) or None,
            "tool_calls": [],
        }
        if reply.call:
            message["tool_calls"] = [
                {
                    "id": f"chatcmpl-tool-{sink.id[-12:]}",
                    "type": "function",
                    "function": {"name": reply.call[0], "arguments": reply.call[1]},
                }
            ]
        answer: dict[str, Any] = {
            "id": sink.id,
            "object": "chat.completion",
            "created": sink.created,
            "model": self.served,
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish, "stop_reason": None}
            ],
            "system_fingerprint": FINGERPRINT,
        }
        if not sink.on("no-usage"):
            answer["usage"] = sink.usage(last=True)
        figures = self._figures(job)
        if figures is not None:
            answer["metrics"] = figures
        connection.answer(200, json.dumps(answer).encode())
        return 200

    # --- life ------------------------------------------------------------------------------------------------------

    def die(self, error: str) -> None:
        """The engine dies: log, errors to every stream, and, as vLLM does, exit code 0 a little later."""
        if self.core.dead:
            return
        self.core.dead = error
        self.truth.note("death", error=error)
        self.console.traceback(
            CORE,
            "core.py:1402",
            "EngineCore encountered a fatal error.",
            ["v1/engine/core.py", "v1/worker/gpu/model_runner.py"],
            error,
        )
        self.console.record(CORE, "dump_input.py:72", "Dumping input data for V1 LLM engine (v0.29.0)", "ERROR")
        self.console.record(
            API, "core_client.py:710", "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup", "ERROR"
        )
        self.console.traceback(
            API,
            "async_llm.py:810",
            "AsyncLLM output_handler failed.",
            ["v1/engine/async_llm.py"],
            f"vllm.v1.engine.exceptions.EngineDeadError: {texts.ENGINE_ERROR}",
        )
        for stream in list(self.streams):
            self.console.record(API, "async_llm.py:640", f"Request {stream.id} failed (engine dead).")
            stream.fail()
        if os.environ.get("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH") != "1":
            asyncio.get_running_loop().call_later(5 / self.speed["boot"] + 0.5, self.stop.set)

    def terminate(self) -> None:
        """SIGTERM: a clean stop, in-flight requests aborted."""
        self.console.record(API, "launcher.py:130", "[shutdown] API server: shutdown triggered")
        self.console.record(
            API, "launcher.py:142", "[shutdown] API server: stopping engine client mode=abort timeout=0s"
        )
        self.console.record(CORE, "core.py:1190", "[shutdown] EngineCore: trigger received signal=SIGTERM")
        self.console.put(Line(0, API, "INFO:     Shutting down", stderr=True))
        self.console.put(Line(0, API, "INFO:     Waiting for application shutdown.", stderr=True))
        self.console.put(Line(0, API, "INFO:     Application shutdown complete.", stderr=True))
        self.stop.set()

    async def stats(self) -> None:
        """The 10 s line: silent after one all-zero interval, and while a single prompt is being computed."""
        interval = float(os.environ.get("VLLM_LOG_STATS_INTERVAL") or 10)
        was_idle = True
        while True:
            await asyncio.sleep(interval)
            window, core = self.core.window, self.core
            idle = not window["prompt"] and not window["generated"]
            if not (idle and was_idle) and not (self.settings.disable_log_stats or self.faults.on("no-log-stats")):
                queried = sum(q for q, _ in core.hits)
                rate = 100 * sum(h for _, h in core.hits) / queried if queried else 0.0
                text = texts.stats(window, interval, len(core.running), len(core.waiting), self.metrics.kv_usage, rate)
                self.console.record(API, "loggers.py:310", text)
                if window["drafts"]:
                    self.console.record(
                        API, "metrics.py:120", texts.speculation(window, interval, core.window_positions)
                    )
            was_idle = idle
            core.clear_window()
