# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The streaming client: what is measured, it measures here.

``run_batch`` sends requests together and returns a ``Sample`` each; ``Loop`` is for requests that follow from answers.
"""

from __future__ import annotations

from .batch import run_batch
from .endpoint import Endpoint
from .failure import ClientError
from .loop import Loop, Stall
from .plain import ask, get_json, get_text, post_json
from .request import ChatRequest
from .sample import Sample, unpack_events

__all__ = [
    "ChatRequest",
    "ClientError",
    "Endpoint",
    "Loop",
    "Sample",
    "Stall",
    "ask",
    "get_json",
    "get_text",
    "post_json",
    "run_batch",
    "unpack_events",
]
