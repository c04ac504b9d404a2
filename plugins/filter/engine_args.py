# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.lobes.spike.plugins.plugin_utils.plan import command_line


class FilterModule:
    """Offers the filter ``lobes.spike.engine_args``."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name the filters of this file."""
        return {"engine_args": command_line}
