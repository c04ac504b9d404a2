# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of lobes.spike.calibrate."""

from __future__ import annotations

from ansible_collections.lobes.spike.plugins.plugin_utils.measuring import MeasuringAction


class ActionModule(MeasuringAction):
    """See the module of the same name for what it measures."""

    MODULE = "lobes.spike.calibrate"
