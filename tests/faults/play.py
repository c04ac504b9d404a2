# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays rows and judges what the product said of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import engine
from .catalogue import Outcome, Row, outcome

TRIES = 2
# Boots wait more than they work.
AT_ONCE = 4


class Player:
    """Use it as a context: what the rows share is started with the first that needs it and ended with the block."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._engine: engine.Process | None = None
        self._played: dict[str, Outcome] = {}

    def __enter__(self) -> Player:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def play(self, row: Row) -> Outcome:
        """What the product says of one fault. A row that is wrong is played again: a busy machine is wrong once."""
        if row.id not in self._played:
            self._played[row.id] = self._tried(row)
        return self._played[row.id]

    def ahead(self, rows: Sequence[Row]) -> None:
        """Play boots of the engine double beside one another, so that their turn costs nothing."""
        boots = [row for row in rows if row.double == "engine" and row.look == "boot"]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._played.update(zip([row.id for row in boots], pool.map(self._tried, boots), strict=True))

    def _tried(self, row: Row) -> Outcome:
        for number in range(TRIES):
            found = outcome(row, self._look(row)(row, self._folder / f"{row.id}-{number}"))
            if not found.wrong:
                break
        return found

    def _look(self, row: Row) -> Callable[[Row, Path], dict[str, Any]]:
        if row.look != "boot" and self._engine is None and not row.options.get("own"):
            self._engine = self._stack.enter_context(engine.serving(self._folder / "engine"))
        return lambda asked, folder: engine.look(asked, folder, self._engine)
