# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 -m faults`` (from the tests folder): play faults, say what the product says of them, write the page."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from .catalogue import Outcome, Row, rows
from .page import page
from .play import Player


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 when a row is wrong."""
    parser = argparse.ArgumentParser(prog="python3 -m faults")
    parser.add_argument("--double", action="append", choices=("engine", "box"), help="default: both")
    parser.add_argument("--fault", action="append", help="only this one; may be given again")
    parser.add_argument("--json", type=Path, help="write {row: [what was said, what is wrong]} into this file")
    parser.add_argument("--markdown", type=Path, help="write the page into this file")
    options = parser.parse_args(argv)
    chosen = [row for double in options.double or ("engine", "box") for row in rows(double)]
    if options.fault:
        chosen = [row for row in chosen if row.fault in options.fault]
    found: list[tuple[Row, Outcome]] = []
    with Player() as player:
        player.ahead(chosen)
        for row in chosen:
            began = time.monotonic()
            outcome = player.play(row)
            found.append((row, outcome))
            spent = time.monotonic() - began
            sys.stdout.write(f"{'WRONG' if outcome.wrong else 'right'} {spent:5.1f} s {row.id}: {outcome.said}\n")
            if outcome.wrong:
                sys.stdout.write(f"      {outcome.wrong}\n")
            sys.stdout.flush()
    wrong = sum(1 for _row, outcome in found if outcome.wrong)
    sys.stdout.write(f"{len(found) - wrong} of {len(found)} right\n")
    if options.json is not None:
        kept = {row.id: [outcome.said, outcome.wrong] for row, outcome in found}
        options.json.write_text(json.dumps(kept), encoding="utf-8")
    if options.markdown is not None:
        options.markdown.write_text(page(found), encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
