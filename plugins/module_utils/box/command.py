# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module's ``run_command``, made safe for looking at a box: bounded in time, silent about missing programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from .source import COMMAND_TIME_LIMIT_S, RunCommand

# The box's own tools live here, and a session over ssh often does not look here.
_EXTRA_PATH = "/usr/local/bin:/usr/sbin:/sbin"


def runner(run_command: Callable[..., Any], time_limit_s: int = COMMAND_TIME_LIMIT_S) -> RunCommand:
    """``AnsibleModule.run_command`` -> a ``RunCommand``: rc 127 for a missing program, 124 when it took too long."""

    def run(argv: Sequence[str], /) -> tuple[int, str, str]:
        environment = {"LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_EXTRA_PATH}"}
        try:
            rc, out, err = run_command(
                ["timeout", "-k", "5", str(time_limit_s), *argv],
                environ_update=environment,
                errors="surrogate_then_replace",
                expand_user_and_vars=False,
                handle_exceptions=False,
            )
        except OSError as exc:
            return 127, "", str(exc)
        return int(rc), str(out), str(err)

    return run
