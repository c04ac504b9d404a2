# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the server is: one base URL, checked once, and the bytes of a request to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .failure import bad_input

AGENT = "lobes-spike"


@dataclass(frozen=True)
class Endpoint:
    """A server's base URL. Paths of requests are appended to ``base_path``; nothing is read from the environment."""

    scheme: str
    host: str
    port: int
    base_path: str = ""
    api_key: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    @classmethod
    def parse(cls, url: str, api_key: str | None = None, ca_file: str | None = None) -> Endpoint:
        """Check ``url`` (``http://host:port`` or ``https://...``, without ``/v1``).

        ``api_key`` is sent as a bearer token. ``ca_file`` is a PEM bundle that replaces the system's authorities.
        Raises ``ClientError`` naming ``endpoint``, ``api_key`` or ``ca_file``, before any connection is made.
        """
        example = "Give the server's base URL, for example http://127.0.0.1:8090."
        if not isinstance(url, str) or not url.strip() or any(c.isspace() or not c.isprintable() for c in url.strip()):
            raise bad_input("endpoint", url, example)
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise bad_input("endpoint", url, "The port is a number from 1 to 65535. " + example) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise bad_input("endpoint", url, example)
        if parts.username is not None or parts.password is not None:
            raise bad_input("endpoint", f"{parts.scheme}://...@{parts.hostname}", "Credentials go into the API key.")
        if parts.query or parts.fragment:
            raise bad_input("endpoint", url, "Leave out everything after '?' or '#'. " + example)
        if port == 0:
            raise bad_input("endpoint", url, "The port is a number from 1 to 65535. " + example)
        base_path = parts.path.rstrip("/")
        if base_path.endswith("/v1"):
            raise bad_input("endpoint", url, "Leave out the trailing /v1: it is part of each request's path.")
        if not base_path.isascii() or not parts.hostname.isascii():
            raise bad_input("endpoint", url, "Write the host in ASCII and escape the path with %XX.")
        if api_key is not None and (not api_key or not api_key.isascii() or not api_key.isprintable()):
            # The key itself is never shown.
            raise bad_input("api_key", "(hidden)", "An API key is one line of printable ASCII characters.")
        endpoint = cls(
            scheme=parts.scheme,
            host=parts.hostname,
            port=port or (443 if parts.scheme == "https" else 80),
            base_path=base_path,
            api_key=api_key,
            ca_file=ca_file,
        )
        if ca_file is not None:
            endpoint.tls()  # a bundle that cannot be read is found now, not in the middle of a run
        return endpoint

    @property
    def url(self) -> str:
        """The base URL, without any key."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.base_path}"

    def tls(self) -> ssl.SSLContext | None:
        """A verifying TLS context for ``https``, else None."""
        if self.scheme != "https":
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as exc:
            raise bad_input("ca_file", self.ca_file, f"It must be a readable PEM bundle ({exc}).") from None

    def headers(self) -> dict[str, str]:
        """The headers every request carries. Compression is refused: it would hide when each event was sent."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.scheme == "https" else 80
        headers = {
            "Host": host if self.port == default else f"{host}:{self.port}",
            "User-Agent": AGENT,
            "Accept-Encoding": "identity",
        }
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers

    def post(self, path: str, body: bytes, accept: str = "text/event-stream, application/json") -> bytes:
        """The bytes of a POST of a JSON body to ``path``; raises ``ClientError`` for a path that is not one."""
        return (
            self._head(
                "POST", path, {"Accept": accept, "Content-Type": "application/json", "Content-Length": str(len(body))}
            )
            + body
        )

    def get(self, path: str) -> bytes:
        """The bytes of a GET of ``path``."""
        return self._head("GET", path, {"Accept": "*/*"})

    def _head(self, method: str, path: str, extra: dict[str, str]) -> bytes:
        target = self.target(path)
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in {**self.headers(), **extra}.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    def target(self, path: str) -> str:
        """``path`` under the base path, checked: it starts with '/' and holds no space or control character."""
        bad = not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path
        if bad:
            raise bad_input("path", path, "A path starts with '/' and has no spaces, for example /v1/chat/completions.")
        return self.base_path + path
