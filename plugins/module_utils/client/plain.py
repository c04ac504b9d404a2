# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests outside the timed path: models, tokenize, metrics. Blocking, with the time limit the caller gives."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import Any

from .endpoint import Endpoint
from .failure import ClientError, printable

MAX_BODY = 256 * 1024 * 1024  # token ids of a 1M prompt are about 8 MB


def get_text(endpoint: Endpoint, path: str, timeout_s: float | None = 10) -> str:
    """The body of a GET as text. Raises ``ClientError`` for anything but status 200.

    ``timeout_s`` bounds each wait for the server, None is no limit. No proxy, no redirect, no second try.
    """
    return _request(endpoint, "GET", path, None, timeout_s).decode("utf-8", "replace")


def get_json(endpoint: Endpoint, path: str, timeout_s: float | None = 10) -> Any:
    """The JSON value a GET answers with; see ``get_text``."""
    return _parse(_request(endpoint, "GET", path, None, timeout_s), endpoint, path)


def ask(endpoint: Endpoint, path: str, timeout_s: float = 5) -> tuple[str, str | None]:
    """("ok", body) of a GET, or how it failed, without a body: "refused", "timeout", "failed" or the HTTP status."""
    try:
        return "ok", get_text(endpoint, path, timeout_s)
    except ClientError as exc:
        if exc.http_status is not None:
            return str(exc.http_status), None
        return {"connect_refused": "refused", "timeout": "timeout"}.get(exc.kind or "", "failed"), None


def post_json(
    endpoint: Endpoint, path: str, value: Any, timeout_s: float | None = 60, max_bytes: int = MAX_BODY
) -> Any:
    """The JSON value a POST of ``value`` as JSON answers with; see ``get_text``."""
    body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return _parse(_request(endpoint, "POST", path, body, timeout_s, max_bytes), endpoint, path)


def _request(
    endpoint: Endpoint, method: str, path: str, body: bytes | None, timeout_s: float | None, max_bytes: int = MAX_BODY
) -> bytes:
    target = endpoint.target(path)
    tls = endpoint.tls()
    connection: http.client.HTTPConnection
    if tls is None:
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
    else:
        connection = http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=timeout_s, context=tls)
    headers = endpoint.headers()
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, target, body=body, headers=headers)
        response = connection.getresponse()
        data = response.read(max_bytes + 1)
    except ConnectionRefusedError as exc:
        raise _failure(endpoint, path, "connect_refused", exc) from None
    except TimeoutError as exc:
        raise _failure(endpoint, path, "timeout", exc) from None
    except (socket.gaierror, ssl.SSLError) as exc:
        raise _failure(endpoint, path, "connect_failed", exc) from None
    except (OSError, http.client.HTTPException) as exc:
        raise _failure(endpoint, path, "early_close", exc) from None
    finally:
        connection.close()
    if len(data) > max_bytes:
        raise ClientError(f"{endpoint.url}{path}: the answer is larger than {max_bytes} bytes", kind="bad_event")
    if response.status != 200:
        text = printable(data[:2000].decode("utf-8", "replace").strip())
        raise ClientError(
            f"{endpoint.url}{path}: status {response.status}: {text}", kind="http_status", http_status=response.status
        )
    return data


def _parse(data: bytes, endpoint: Endpoint, path: str) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        text = printable(data[:2000].decode("utf-8", "replace"), 200)
        raise ClientError(f"{endpoint.url}{path}: the answer is not JSON: {text}", kind="not_a_stream") from None


def _failure(endpoint: Endpoint, path: str, kind: str, exc: Exception) -> ClientError:
    return ClientError(f"{endpoint.url}{path}: {kind}: {printable(str(exc) or type(exc).__name__)}", kind=kind)
