# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The earlier spike that a spike is laid beside: found, held against its manifest, reduced to what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .document.baseline import keep
from .document.words import clean
from .evidence import EvidenceError, load


def read(directory: Path, host: str) -> dict[str, Any]:
    """What is kept of the spike in ``directory``, which is the folder of a box or one that holds ``host``'s.

    Raises:
        EvidenceError: there is no evidence of that box, it is not as it was sealed, or it holds no figure.
    """
    folder = next((place for place in (directory, directory / host) if (place / "spike.json").is_file()), None)
    if folder is None:
        raise EvidenceError(
            f"spike_baseline is {str(directory)!r}: there is no spike.json in it, nor in its folder {host!r}. "
            "Give <evidence>/<spike id>/<host>, or <evidence>/<spike id>."
        )
    evidence = load(folder, with_curve=False)
    if evidence.manifest.ok is False:
        raise EvidenceError(
            f"spike_baseline is {str(directory)!r}: its evidence is not what was sealed, and nothing is compared: "
            f"{clean(evidence.manifest.problems[0])}. Give another one, or the files as they were."
        )
    kept = keep(evidence)
    if not kept["figures"] and not kept["checks"]:
        raise EvidenceError(f"spike_baseline is {str(directory)!r}: it holds no figure. Give a spike that measured.")
    return kept
