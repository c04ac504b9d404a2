# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 -m matrix`` (from the tests folder): hit whole spikes with faults, say what is left, write the page."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from .catalogue import Outcome, rows
from .page import page
from .play import Player

RESULTS = Path(__file__).resolve().parents[2] / ".cache/fault-matrix.json"


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 when a row that was played is wrong."""
    parser = argparse.ArgumentParser(prog="python3 -m matrix")
    parser.add_argument(
        "--only", action="append", help="only this row; may be given again, they are played in this order"
    )
    parser.add_argument("--markdown", type=Path, help="write the page into this file")
    parser.add_argument("--keep", type=Path, help="keep each row's evidence and output in this folder")
    parser.add_argument("--results", type=Path, default=RESULTS, help="what was found, of earlier runs too, as JSON")
    options = parser.parse_args(argv)
    known = {row.name: row for row in rows()}
    chosen = [known[name] for name in options.only or known]
    found = _read(options.results)
    bad = 0
    with Player() as player:
        for row in chosen:
            began = time.monotonic()
            outcome = None if row.not_played else player.play(row, options.keep)
            if outcome is not None:
                found[row.name] = outcome
                _write(options.results, found)
            word = "not played" if outcome is None else "WRONG" if outcome.wrong or outcome.lost else "right"
            sys.stdout.write(f"{word} {time.monotonic() - began:5.1f} s {row.name}: {outcome or row.not_played}\n")
            sys.stdout.flush()
            bad += int(outcome is not None and bool(outcome.wrong or outcome.lost))
    if options.markdown is not None:
        # Rows that were played one by one are on the page together.
        shown = [(row, None if row.not_played else found.get(row.name)) for row in rows()]
        options.markdown.write_text(page(shown), encoding="utf-8")
    return int(bad > 0)


def _read(path: Path) -> dict[str, Outcome]:
    try:
        return {name: Outcome(**entry) for name, entry in json.loads(path.read_text(encoding="utf-8")).items()}
    except FileNotFoundError:
        return {}


def _write(path: Path, found: dict[str, Outcome]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: asdict(one) for name, one in found.items()}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
