# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that the measuring modules share, as data for an argument_spec; the measurement fragment documents them."""

from __future__ import annotations

from typing import Any

COMMON_OPTIONS: dict[str, dict[str, Any]] = {
    "endpoint": {"type": "str", "default": "http://127.0.0.1:8090"},
    "model": {"type": "str"},
    "results_path": {"type": "path"},
    "request_timeout_s": {"type": "float"},
    "stall_time_limit_s": {"type": "float"},
    "time_limit_s": {"type": "float"},
    "extra_body": {"type": "dict", "default": {}},
    "context": {"type": "dict", "default": {}},
    # Names of places, not keys: hiding them would hide them wherever they occur in a result.
    "api_key_file": {"type": "path", "no_log": False},
    "api_key_env": {"type": "str", "no_log": False},
    "remeasure": {"type": "bool", "default": False},
    "detached": {"type": "bool", "default": False},
    "poll_s": {"type": "float", "default": 5.0},
    "reconnect_limit_s": {"type": "float", "default": 900.0},
    "telemetry_path": {"type": "path"},
    "active_model_bytes": {"type": "float"},
    "memory_bandwidth_bytes_s": {"type": "float"},
}
