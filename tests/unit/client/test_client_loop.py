# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop against real sockets: connecting, sending, waiting, ending."""

from __future__ import annotations

import gc
import socket
import threading
import time

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client import (
    ChatRequest,
    ClientError,
    Endpoint,
    Loop,
    get_json,
    get_text,
    post_json,
    run_batch,
)

BODY = {"stream": True, "model": "m", "messages": []}


def requests(count, **more):
    return [ChatRequest({**BODY, **more}, label=str(i)) for i in range(count)]


def quick(peer):
    while peer.request() is not None:
        peer.answer()


def silent(peer):
    peer.request()
    peer.head()
    peer.event()
    peer.request()  # until the client hangs up


def test_a_batch_keeps_the_order_and_every_time(scripted):
    samples = run_batch(scripted(quick), requests(5))
    assert [sample.label for sample in samples] == list("01234")
    for sample in samples:
        assert (sample.status, sample.text, sample.completion_tokens, sample.http_status) == ("ok", "xxx", 3, 200)
        times = [
            sample.upload_s,
            sample.headers_s,
            sample.first_event_s,
            sample.ttft_s,
            sample.last_token_s,
            sample.end_s,
        ]
        assert times == sorted(times)
        assert sample.connect_s > 0
    assert gc.isenabled()


def test_refused_is_a_failed_sample():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    samples = run_batch(Endpoint.parse(f"http://127.0.0.1:{port}"), requests(2))
    assert {(sample.status, sample.error_kind) for sample in samples} == {("failed", "connect_refused")}
    assert str(port) in samples[0].error
    assert samples[0].t0_ns is None
    assert samples[0].end_s is None


def test_a_name_without_an_address_is_a_failed_sample():
    sample = run_batch(Endpoint.parse("http://no-such-host.invalid:80"), requests(1))[0]
    assert sample.error_kind == "connect_failed"
    assert "no-such-host.invalid" in sample.error


def test_the_next_address_is_tried(scripted):
    """localhost may be ::1 first, where nobody listens."""
    port = scripted(quick).port
    assert run_batch(Endpoint.parse(f"http://localhost:{port}"), requests(2))[1].status == "ok"


def test_all_connections_are_open_before_the_first_request(scripted):
    """150 streams at once, and no pool that lets through a hundred."""
    together = threading.Barrier(150)

    def handler(peer):
        together.wait(20)  # breaks unless all 150 are connected at the same time
        quick(peer)

    samples = run_batch(scripted(handler), requests(150), request_timeout_s=30)
    assert [sample.error for sample in samples if sample.status != "ok"] == []


def test_a_big_body_does_not_hold_up_the_other_streams(scripted):
    def handler(peer):
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        first = peer.sock.recv(4096)
        if b'"pad"' in first:  # read 5 MB slowly
            while not first.endswith(b'"}'):
                time.sleep(0.01)
                first = peer.sock.recv(65536)[-2:]
            peer.answer()
            return
        peer.head()
        for i in range(40):
            peer.event("x", i + 1, "length" if i == 39 else None)
            time.sleep(0.01)
        peer.done()

    big = ChatRequest({**BODY, "pad": "x" * 5_000_000}, label="big")
    small, large = run_batch(scripted(handler), [*requests(1), big], request_timeout_s=60)
    assert (small.status, large.status) == ("ok", "ok")
    assert large.upload_s > 0.1
    assert small.upload_s < 0.05
    assert small.max_gap_s < 0.08


def test_the_callers_time_limit_ends_one_and_keeps_the_others(scripted):
    def handler(peer):
        body = peer.request()
        if b"slow" in body:
            peer.head()
            peer.event("x", 1)
            peer.request()
        else:
            peer.answer()

    batch = [*requests(1), ChatRequest({**BODY, "slow": 1}, label="slow")]
    fast, slow = run_batch(scripted(handler), batch, request_timeout_s=0.3)
    assert fast.status == "ok"
    assert (slow.status, slow.error_kind, slow.text) == ("failed", "timeout", "x")
    assert 0.3 <= slow.end_s < 1


def test_the_limit_bounds_connecting_too():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]  # a full backlog drops what comes
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        sample = run_batch(Endpoint.parse(f"http://127.0.0.1:{port}"), requests(1), request_timeout_s=0.3)[0]
        for filler in fillers:
            filler.close()
    assert sample.error_kind == "timeout"


class Hook:
    def __init__(self, quiet_s, answers):
        self.quiet_s, self.answers, self.asked = quiet_s, answers, []

    def __call__(self, sample, event_s, byte_s):
        self.asked.append((event_s, byte_s))
        return self.answers.pop(0) if self.answers else None


def test_the_stall_hook_decides(scripted):
    hook = Hook(0.1, [None, "the engine's gauges are flat"])
    sample = run_batch(scripted(silent), requests(1), stall=hook)[0]
    assert (sample.error_kind, sample.error) == ("stall", "the engine's gauges are flat")
    assert len(hook.asked) == 2
    assert hook.asked[0][0] >= 0.1


def test_comments_are_bytes_but_no_events(scripted):
    def handler(peer):
        peer.request()
        peer.head()
        for _ in range(30):
            peer.chunk(b": keep-alive\n\n")
            time.sleep(0.01)
        peer.event("x", 1, "stop")
        peer.done()

    hook = Hook(0.15, [])
    sample = run_batch(scripted(handler), requests(1), stall=hook)[0]
    assert (sample.status, sample.keepalives) == ("ok", 30)
    event_s, byte_s = hook.asked[0]
    assert event_s >= 0.15
    assert byte_s < 0.1


def test_no_hook_is_asked_while_tokens_come(scripted):
    hook = Hook(0.2, ["wrong"])

    def handler(peer):
        peer.request()
        peer.head()
        for i in range(50):
            peer.event("x", i + 1, "length" if i == 49 else None)
            time.sleep(0.01)
        peer.done()

    assert run_batch(scripted(handler), requests(1), stall=hook)[0].status == "ok"
    assert hook.asked == []


def test_stopping_keeps_what_was_measured(scripted):
    def handler(peer):
        (peer.answer if b'"fast"' in peer.request() else lambda: silent_tail(peer))()

    def silent_tail(peer):
        peer.head()
        peer.event("x", 1)
        peer.request()

    batch = [ChatRequest({**BODY, "fast": 1}), *requests(1)]
    reports = []
    fast, slow = run_batch(scripted(handler), batch, on_progress=reports.append, should_stop=lambda: True)
    assert (fast.status, slow.error_kind, slow.text) == ("ok", "stopped", "x")
    assert reports[0]["done"] == 1
    assert reports[-1] == {**reports[-1], "done": 2, "total": 2, "failed": 1, "tokens": 4}


def test_stopping_while_connecting_leaves_nothing_to_wait_for():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        samples = []
        with Loop(Endpoint.parse(f"http://127.0.0.1:{port}")) as loop:
            loop.submit(None, requests(1)[0], samples.append)
            loop.call_later(0.1, loop.stop)
            loop.run()
            loop.settle()  # would wait for ever for a connection that was given up
        for filler in fillers:
            filler.close()
    assert [sample.error_kind for sample in samples] == ["stopped"]


def test_stopping_an_open_loop_does_not_wait_for_its_last_arrival(scripted):
    started = time.monotonic()
    samples = run_batch(
        scripted(quick), requests(2), arrivals_s=[0, 3600], should_stop=lambda: time.monotonic() > started + 1.2
    )
    assert [sample.error_kind for sample in samples] == [None, "stopped"]
    assert time.monotonic() - started < 10


def test_arrivals_are_kept_whatever_the_others_do(scripted):
    starts = [0.0, 0.05, 0.05, 0.2]
    samples = run_batch(scripted(quick), requests(4), arrivals_s=starts)
    first = samples[0].t0_ns - samples[0].late_s * 1e9
    for sample, start in zip(samples, starts, strict=True):
        assert sample.late_s < 0.05
        assert abs((sample.t0_ns - first) / 1e9 - start - sample.late_s) < 1e-3


def test_a_refusal_in_the_middle_of_the_upload_is_read(scripted):
    def handler(peer):
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        peer.sock.recv(1024)
        peer.sock.sendall(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much")
        time.sleep(0.3)

    sample = run_batch(scripted(handler), [ChatRequest({**BODY, "pad": "x" * 5_000_000})])[0]
    assert (sample.error_kind, sample.http_status) == ("http_status", 413)
    assert "too much" in sample.error


def conversation(endpoint, turns, pause=0.0):
    """Turns on one connection, each sent from the last one's answer."""
    samples = []
    with Loop(endpoint) as loop:
        connection = loop.connect()

        def follow(sample):
            samples.append(sample)
            if len(samples) < turns:
                loop.call_later(pause, lambda: loop.submit(connection, requests(1)[0], follow))

        loop.submit(connection, requests(1)[0], follow)
        loop.run()
    return samples


def test_a_connection_is_used_again(scripted):
    first, second, third = conversation(scripted(quick), 3)
    assert (first.status, second.status, third.status) == ("ok", "ok", "ok")
    assert first.connect_s is not None
    assert second.connect_s is None
    assert second.warnings == []


def test_an_idle_connection_that_the_server_closed_is_replaced_and_said(scripted):
    def once(peer):
        peer.request()
        peer.answer()

    first, second = conversation(scripted(once), 2, pause=0.1)
    assert (first.status, second.status) == ("ok", "ok")
    assert second.connect_s is not None
    assert "closed the idle connection" in second.warnings[0]


def test_a_connection_takes_one_request_at_a_time(scripted):
    with Loop(scripted(quick)) as loop:
        connection = loop.connect()
        loop.prepare(connection, requests(1)[0], print)
        with pytest.raises(ValueError, match="promised"):
            loop.prepare(connection, requests(1)[0], print)


def test_dead_peers_are_looked_for(scripted):
    with Loop(scripted(quick)) as loop:
        connection = loop.connect()
        loop.settle()
        with socket.socket(fileno=socket.dup(connection.fd)) as sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert sock.gettimeout() is None or sock.gettimeout() == 0


def test_an_error_in_the_callers_code_is_the_callers(scripted):
    def bad(_):
        raise RuntimeError("mine")

    with Loop(scripted(quick)) as loop:
        loop.submit(None, requests(1)[0], bad)
        with pytest.raises(RuntimeError, match="mine"):
            loop.run()
    assert gc.isenabled()


def test_events_are_handed_on_as_they_come(scripted):
    seen = []
    request = ChatRequest(BODY, on_event=lambda t_ns, event: seen.append((t_ns, event["usage"]["completion_tokens"])))
    sample = run_batch(scripted(quick), [request])[0]
    assert [count for _, count in seen] == [0, 1, 2, 3]
    assert seen[1][0] == sample.events[0][0]


def test_a_reply_that_was_not_asked_to_stream(scripted):
    def handler(peer):
        peer.request()
        call = b'{"id":"a","function":{"name":"f","arguments":"{}"}}'
        body = b'{"choices":[{"message":{"content":"hi","tool_calls":[' + call + b"]},"
        body += b'"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}'
        peer.sock.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )

    sample = run_batch(scripted(handler), [ChatRequest({"messages": []})])[0]
    assert (sample.status, sample.text, sample.completion_tokens, sample.finish_reason) == ("ok", "hi", 2, "tool_calls")
    assert sample.tool_calls == [{"id": "a", "name": "f", "arguments": "{}"}]
    assert (sample.ttft_s, sample.events, sample.to_json()["decode_tok_s"]) == (None, [], None)


def test_tls_with_the_given_authority_and_not_without(scripted, certificate):
    context, pem = certificate
    endpoint = scripted(quick, tls=context, ca_file=pem)
    samples = run_batch(endpoint, [*requests(3), ChatRequest({**BODY, "pad": "x" * 1_000_000})], request_timeout_s=20)
    assert [sample.error for sample in samples] == [None] * 4
    assert samples[0].connect_s > 0
    assert get_status(Endpoint.parse(endpoint.url)) == "connect_failed"
    refused = run_batch(Endpoint.parse(endpoint.url), requests(1))[0]
    assert refused.error_kind == "connect_failed"
    assert "certificate" in refused.error.lower()


def get_status(endpoint):
    with pytest.raises(ClientError) as caught:
        get_text(endpoint, "/health")
    return caught.value.kind


def serving(status, body):
    def handler(peer):
        peer.request()
        peer.sock.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)

    return handler


def test_untimed_helpers(scripted, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # a proxy that nobody may ask
    assert get_json(scripted(serving(200, b'{"a": 1}')), "/v1/models") == {"a": 1}
    assert get_text(scripted(serving(200, b"m 1\n")), "/metrics") == "m 1\n"
    assert post_json(scripted(serving(200, b"[1]")), "/tokenize", {"prompt": "é"}) == [1]


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [(404, b"nope\x1b[31m", "http_status", "404: nope"), (200, b"<html>", "not_a_stream", "not JSON")],
)
def test_untimed_helpers_say_what_went_wrong(scripted, status, body, kind, words):
    with pytest.raises(ClientError) as caught:
        get_json(scripted(serving(status, body)), "/v1/models")
    assert caught.value.kind == kind
    assert words in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_untimed_helpers_end_at_their_time_limit(scripted):
    with pytest.raises(ClientError) as caught:
        get_json(scripted(lambda peer: (peer.request(), peer.request())), "/health", timeout_s=0.2)
    assert caught.value.kind == "timeout"
    with pytest.raises(ClientError) as caught:
        get_json(Endpoint.parse("http://127.0.0.1:1"), "/health")
    assert caught.value.kind == "connect_refused"


FORCED = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, "ignore_eos": True}


@pytest.mark.parametrize("per_event", [1, 5])
def test_against_the_ground_truth(truth, per_event):
    """Tokens and rates exact whatever the number of tokens in an event; first tokens never before they were sent."""
    endpoint = truth(ttft=0.1, itl=0.01, per_event=per_event)
    batch = [
        ChatRequest({**BODY, **FORCED, "max_tokens": 130, "min_tokens": 130, "request_id": str(i)}, label=str(i))
        for i in range(32)
    ]
    samples = run_batch(endpoint, batch, request_timeout_s=60)
    records = {record["request_id"]: record for record in get_json(endpoint, "/truth")}
    for sample in samples:
        record = records[sample.label]
        assert (sample.status, sample.completion_tokens, sample.first_event_tokens) == ("ok", 130, per_event)
        assert len(sample.events) == record["events"]
        first_ns = sample.t0_ns + sample.events[0][0]
        assert first_ns >= record["first_ns"]  # an effect is not seen before its cause
        assert sample.t0_ns <= record["received_ns"]
        if per_event == 1:
            true_rate = (130 - 1) / ((record["last_ns"] - record["first_ns"]) / 1e9)
            assert sample.to_json()["decode_tok_s"] == pytest.approx(true_rate, rel=0.05)
