# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A read-only registry over the data of the one on the host, for ``dockerd --registry-mirror``."""

from __future__ import annotations

import http.server
import json
import os
import re
import sys
import time

from . import faults

ROOT = os.environ.get("BOX_REGISTRY_DATA", "/srv/registry")
V2 = os.path.join(ROOT, "docker", "registry", "v2")
PATH = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/(?P<what>manifests|blobs)/(?P<reference>[A-Za-z0-9._:-]+)")


def blob(digest: str) -> str:
    """The file of a blob."""
    kind, _, hexa = digest.partition(":")
    return os.path.join(V2, "blobs", kind, hexa[:2], hexa, "data")


def manifest_digest(name: str, reference: str) -> str | None:
    """The digest that a tag or digest of a repository stands for; None where it is not there."""
    base = os.path.join(V2, "repositories", name, "_manifests")
    if reference.startswith("sha256:"):
        known = os.path.exists(os.path.join(base, "revisions", "sha256", reference[7:], "link"))
        return reference if known else None
    try:
        with open(os.path.join(base, "tags", reference, "current", "link"), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    """GET and HEAD of manifests and blobs."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """As GET, without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """One request."""
        on = faults.active()
        if "registry-down" in on:
            self.close_connection = True
            return
        if self.path.rstrip("/") == "/v2":
            self._send(200, b"{}", "application/json", "")
            return
        match = PATH.fullmatch(self.path)
        if not match:
            self._missing("NAME_UNKNOWN")
        elif match["what"] == "manifests":
            self._manifest(match["name"], match["reference"], lie="registry-lies" in on)
        else:
            self._blob(match["reference"], on)

    def _manifest(self, name: str, reference: str, lie: bool) -> None:
        digest = manifest_digest(name, reference)
        if digest is None:
            self._missing("MANIFEST_UNKNOWN")
            return
        with open(blob(digest), "rb") as file:
            data = file.read()
        if lie:
            data += b"\n"
        kind = json.loads(data).get("mediaType", "application/vnd.docker.distribution.manifest.v2+json")
        self._send(200, data, kind, digest)

    def _blob(self, digest: str, on: dict[str, str]) -> None:
        try:
            size = os.stat(blob(digest)).st_size
        except OSError:
            self._missing("BLOB_UNKNOWN")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if self.command == "HEAD":
            return
        with open(blob(digest), "rb") as file:
            if "registry-cuts" in on and size > 2000:
                self.wfile.write(file.read(size // 2))
                self.close_connection = True
            elif "registry-slow" in on and size > 2000:
                self._trickle(file.read(), faults.number(on, "registry-slow", 10))
            else:
                self._whole(file.fileno(), size)

    def _whole(self, fd: int, size: int) -> None:
        sent = 0
        while sent < size:
            sent += os.sendfile(self.wfile.fileno(), fd, sent, size - sent)

    def _trickle(self, data: bytes, seconds: float) -> None:
        step = max(len(data) // 20, 1)
        for i in range(0, len(data), step):
            self.wfile.write(data[i : i + step])
            time.sleep(seconds / 20)

    def _missing(self, code: str) -> None:
        self._send(
            404,
            json.dumps({"errors": [{"code": code, "message": "unknown", "detail": self.path}]}).encode(),
            "application/json",
            "",
        )

    def _send(self, status: int, data: bytes, kind: str, digest: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """One line a request, on standard error."""
        sys.stderr.write(f"{self.command} {self.path} {args[1] if len(args) > 1 else ''}\n")


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", 5000), Handler).serve_forever()
