# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in command lines: what may be shown and recorded of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"
# The last word of a flag decides: --api-key and --hf-token hold a secret, --max-num-batched-tokens does not.
_SECRET_FLAG = re.compile(
    r"^--?(?:[\w.]+[-_.])*(?:api[-_]?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE
)
_INLINE = re.compile(
    r"(?i)((?:^|[\s\"'])(?:--?(?:[\w.]+[-_.])*|\w*)(?:api[-_]?key|token|secret|password|passwd)[=\s]+)([^\s\"']+)"
)
_KNOWN = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|nvapi-[A-Za-z0-9_-]{16,})")
_URL = re.compile(r"(\w+://)[^/\s:@]+:[^/\s@]+@")


def masked_args(args: Sequence[str]) -> list[str]:
    """A command line with the values of secret flags, known token shapes and URL credentials replaced by ``***``.

    A secret flag may take several values (vLLM's ``--api-key a b``): all up to the next flag are masked.
    """
    shown: list[str] = []
    hiding = False
    for arg in args:
        flag, equals, _value = arg.partition("=")
        if _SECRET_FLAG.match(flag):
            shown.append(f"{flag}={MASK}" if equals else arg)
            hiding = not equals
            continue
        if arg.startswith("-"):
            hiding = False
        if hiding:
            shown.append(MASK)
            continue
        arg = _URL.sub(rf"\1{MASK}@", _KNOWN.sub(MASK, arg))
        # A whole shell command in one argument (sh -c "...").
        shown.append(_INLINE.sub(rf"\1{MASK}", arg) if " " in arg else arg)
    return shown
