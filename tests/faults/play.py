# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays rows and judges what the product said of them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import box, engine
from .catalogue import HERE, Outcome, Row, outcome

TRIES = 2
# Boots wait more than they work.
AT_ONCE = 4


class Player:
    """Use it as a context: what the rows share is started with the first that needs it and ended with the block."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._engine: engine.Process | None = None
        self._box: box.Box | None = None
        self._beside: subprocess.Popen[bytes] | None = None
        self._played: dict[str, Outcome] = {}

    def __enter__(self) -> Player:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        return self

    def __exit__(self, *exc: object) -> None:
        if self._beside is not None:
            self._beside.terminate()
            self._beside.wait(60)
        self._stack.close()

    def ahead(self, rows: Sequence[Row]) -> None:
        """Begin what waits more than it works, so that its turn costs nothing: the box's rows in a process beside this
        one (where there are others too), the engine's boots beside one another.
        """
        boxed = [row for row in rows if row.double == "box"]
        if boxed and len(boxed) < len(rows):
            chosen = [part for row in boxed for part in ("--fault", row.fault)]
            command = [sys.executable, "-m", "faults", "--double", "box", "--json", str(self._folder / "box.json")]
            self._beside = subprocess.Popen([*command, *chosen], cwd=HERE.parent, stdout=subprocess.DEVNULL)
        boots = [row for row in rows if row.double == "engine" and row.look == "boot"]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._played.update(zip([row.id for row in boots], pool.map(self._tried, boots), strict=True))

    def play(self, row: Row) -> Outcome:
        """What the product says of one fault. A row that is wrong is played again: a busy machine is wrong once."""
        if row.double == "box" and self._beside is not None:
            self._join()
        if row.id not in self._played:
            self._played[row.id] = self._tried(row)
        return self._played[row.id]

    def _join(self) -> None:
        assert self._beside is not None
        self._beside.wait()
        self._beside = None
        found = self._folder / "box.json"
        if found.exists():
            kept = json.loads(found.read_text(encoding="utf-8"))
            self._played.update({name: Outcome(said, wrong) for name, (said, wrong) in kept.items()})

    def _tried(self, row: Row) -> Outcome:
        for number in range(TRIES):
            try:
                found = outcome(row, self._look(row)(row, self._folder / f"{row.id}-{number}"))
            except Exception as exc:  # one row that breaks down must not hide the others
                found = Outcome("", f"{type(exc).__name__}: {exc}")
            if not found.wrong:
                break
        return found

    def _look(self, row: Row) -> Callable[[Row, Path], dict[str, Any]]:
        if row.double == "box":
            made = self._box = self._box or self._stack.enter_context(box.Box())
            return lambda asked, folder: box.look(asked, folder, made)
        if row.look != "boot" and self._engine is None and not row.options.get("own"):
            self._engine = self._stack.enter_context(engine.serving(self._folder / "engine"))
        return lambda asked, folder: engine.look(asked, folder, self._engine)
