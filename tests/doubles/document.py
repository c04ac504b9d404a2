#!/usr/bin/env python3
# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the fault tables of docs/doubles.md anew from the switches themselves."""

from __future__ import annotations

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "engine"), str(HERE / "box/rootfs/opt/spike")]
import spike_box.faults
import spike_engine.faults


def table(faults: dict[str, str]) -> str:
    """The switches as a Markdown table."""
    rows = [f"| `{name}` | {text} |" for name, text in faults.items()]
    return "\n".join(["| switch | what it plays |", "|---|---|", *rows])


def main() -> None:
    """Replaces what stands between the markers."""
    page = HERE.parents[1] / "docs" / "doubles.md"
    text = page.read_text()
    for name, faults in (("engine", spike_engine.faults.FAULTS), ("box", spike_box.faults.FAULTS)):
        mark = re.compile(rf"(<!-- {name} faults -->\n).*?(<!-- end -->)", re.DOTALL)
        text = mark.sub(lambda found, faults=faults: found[1] + table(faults) + "\n" + found[2], text)
    page.write_text(text)


if __name__ == "__main__":
    main()
