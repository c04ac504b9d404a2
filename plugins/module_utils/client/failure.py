# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the client tells a caller that asked for something impossible or got no answer."""

from __future__ import annotations

from ..errors import SpikeError

MAX_SHOWN = 500


def printable(text: str, limit: int = MAX_SHOWN) -> str:
    """``text`` from a server made safe to show: control characters become spaces, at most ``limit`` characters."""
    shown = "".join(char if char.isprintable() else " " for char in text[: limit + 1])
    return shown if len(shown) <= limit else shown[:limit] + "..."


class ClientError(SpikeError):
    """An endpoint that cannot be used, or an untimed request that got no usable answer.

    ``field``, ``value`` and ``remedy`` are set when the caller's input is at fault. ``kind`` is one of the error kinds
    of a ``Sample``, and ``http_status`` the answer's status, when a request was made.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        value: object = None,
        remedy: str | None = None,
        kind: str | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.value = value
        self.remedy = remedy
        self.kind = kind
        self.http_status = http_status


def bad_input(field: str, value: object, remedy: str) -> ClientError:
    """The error of an input that cannot be used: names the field, shows the value, says what to write instead."""
    return ClientError(
        f"{field}: {printable(repr(value), 200)} cannot be used. {remedy}", field=field, value=value, remedy=remedy
    )
