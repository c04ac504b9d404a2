# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints and requests: bad input is one clear message, before anything is sent."""

from __future__ import annotations

import json

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.client import ChatRequest, ClientError, Endpoint, run_batch


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8090",
        "ftp://x",
        "http://",
        "http://host:99999",
        "http://host:0",
        "http://host:x",
        "http://user:pw@host",
        "http://host/?a=1",
        "http://host/#a",
        "http://host/v1",
        "http://host/v1/",
        "http://ho st",
        "http://host/\r\nX: y",
        None,
    ],
)
def test_an_endpoint_that_is_none_is_refused_by_name(url):
    with pytest.raises(ClientError) as caught:
        Endpoint.parse(url)
    assert caught.value.field == "endpoint"
    assert caught.value.remedy
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "a\nb", "clé"])
def test_a_bad_key_is_refused_and_not_shown(key):
    with pytest.raises(ClientError) as caught:
        Endpoint.parse("http://host", api_key=key)
    assert caught.value.field == "api_key"
    assert not key or key not in str(caught.value)


def test_a_bundle_that_cannot_be_read_is_found_at_once(tmp_path):
    with pytest.raises(ClientError) as caught:
        Endpoint.parse("https://host", ca_file=str(tmp_path / "none.pem"))
    assert caught.value.field == "ca_file"


def test_the_request_as_it_goes_out():
    endpoint = Endpoint.parse("http://[::1]:8090/proxy/", api_key="s3cret")
    data = endpoint.post("/v1/chat/completions", b"{}")
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /proxy/v1/chat/completions HTTP/1.1"
    assert {"Host: [::1]:8090", "Content-Length: 2", "Authorization: Bearer s3cret"} <= set(lines)
    assert "Accept-Encoding: identity" in lines
    assert body == b"{}"
    assert "s3cret" not in repr(endpoint)
    assert endpoint.url == "http://[::1]:8090/proxy"


@pytest.mark.parametrize("path", ["v1", "/a b", "/a\r\nX: y", "/é"])
def test_a_path_cannot_smuggle_headers(path):
    with pytest.raises(ClientError):
        Endpoint.parse("http://host").post(path, b"")


def test_a_dict_is_encoded_once_and_read_for_what_it_forces():
    body = {"stream": True, "max_tokens": 512, "min_tokens": 512, "ignore_eos": True, "x": "é"}
    request = ChatRequest(body)
    assert json.loads(request.encoded) == body
    assert (request.forced_tokens, request.streamed) == (512, True)
    assert ChatRequest({**body, "min_tokens": 1}).forced_tokens is None
    assert ChatRequest({**body, "ignore_eos": False}).forced_tokens is None
    assert ChatRequest({"max_tokens": 5}).streamed is False
    assert ChatRequest(b"{}").streamed is True


@pytest.mark.parametrize("body", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}, "text"])
def test_a_body_that_is_no_json_is_refused(body):
    with pytest.raises(ClientError) as caught:
        ChatRequest(body)
    assert caught.value.field == "body"


@pytest.mark.parametrize(
    ("arrivals", "timeout"), [([0.0], None), ([-1.0, 0.0], None), ([0.0, float("nan")], None), (None, 0)]
)
def test_a_bad_batch_is_refused_before_anything_is_sent(arrivals, timeout):
    requests = [ChatRequest({}), ChatRequest({})]
    with pytest.raises(ClientError):
        run_batch(Endpoint.parse("http://127.0.0.1:1"), requests, timeout, arrivals_s=arrivals)
