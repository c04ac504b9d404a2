# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.lobes.spike.plugins.plugin_utils.plan import is_digest_reference


class TestModule:
    """Offers the test ``lobes.spike.digest_reference``."""

    def tests(self) -> dict[str, Callable[..., Any]]:
        """Name the tests of this file."""
        return {"digest_reference": is_digest_reference}
