# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of many boxes: which folders belong to a campaign, and its fleet page on the disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError

from .document.fleet import Box, lay_together, look
from .document.fleet_forms import render
from .events import EVENTS_NAME, read_events
from .evidence import DOCUMENT_NAMES, Evidence, from_events, load, text

SPIKE_NAME: Final = "spike.json"
_CAMPAIGN: Final = re.compile(r"(\d{4}-\d{2}-\d{2})-(.+)")


class FleetError(SpikeError):
    """The evidence root or the campaign is not what was asked for."""


@dataclass(frozen=True)
class Campaign:
    """A campaign's folders, one for each box: its last run. ``earlier`` are the runs that a later one replaced."""

    name: str
    folders: tuple[Path, ...]
    earlier: tuple[str, ...]


def find(root: Path, campaign: str | None = None) -> Campaign:
    """The folders of a campaign, by default of the newest; none of them when there is no evidence at all.

    A campaign is named ``YYYY-MM-DD-<name>``; its spikes are ``<campaign>-<host>``, numbered from the second on.

    Raises:
        FleetError: ``root`` is no folder, or ``campaign`` is no such name.
    """
    if not root.is_dir():
        raise FleetError(
            f"evidence_dir: {str(root)!r} is no directory. Give the folder that the spikes' folders lie in."
        )
    if campaign is not None and not _CAMPAIGN.fullmatch(campaign):
        raise FleetError(f"campaign: {campaign!r} is no campaign. Give its date and name, as 2026-09-13-lightning.")
    found = list(_folders(root))
    if campaign is None:
        campaign = _newest(found)
    runs: dict[str, list[tuple[int, Path]]] = {}
    for name, run, folder in found:
        if name == campaign:
            runs.setdefault(folder.name, []).append((run, folder))
    last = {host: max(own) for host, own in sorted(runs.items())}
    earlier = [_below(root, folder) for host, own in runs.items() for run, folder in own if (run, folder) != last[host]]
    return Campaign(campaign, tuple(folder for _run, folder in last.values()), tuple(sorted(earlier)))


def forms(root: Path, campaign: Campaign, dest: Path) -> dict[str, str]:
    """Every form of the fleet page, by file name. One box's evidence is in memory at a time."""
    boxes = [_box(root, folder) for folder in campaign.folders]
    up = Path(os.path.relpath(root, dest)).as_posix()
    return render(lay_together(campaign.name, boxes, campaign.earlier), up)


def default_dest(root: Path, campaign: Campaign) -> Path:
    """Where the page is put when nothing else is asked: beside the spikes' folders."""
    return root / f"fleet-{campaign.name}"


def _box(root: Path, folder: Path) -> Box:
    lying = sorted(name for name in DOCUMENT_NAMES if (folder / name).is_file())
    return look(_read(folder), folder.name, _below(root, folder), lying)


def _read(folder: Path) -> Evidence:
    """The evidence that was brought home, else what the run told while it went on."""
    if not (folder / SPIKE_NAME).is_file() and (folder / EVENTS_NAME).is_file():
        return from_events(read_events(folder / EVENTS_NAME).events)
    return load(folder, with_curve=False)


def _newest(found: list[tuple[str, int, Path]]) -> str:
    """The campaign of the last date, of several that day the one that a box began last."""
    last = max((name[:10] for name, _run, _folder in found), default="")
    that_day = [(_begun(folder), name) for name, _run, folder in found if name.startswith(last)]
    return max(that_day, default=("", ""))[1]


def _begun(folder: Path) -> str:
    """When a run began, as its record has it; empty where it does not say."""
    try:
        spike = json.loads((folder / SPIKE_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        spike = None
    said = text(spike, "started_utc") if isinstance(spike, dict) else None
    if said is None and (folder / EVENTS_NAME).is_file():
        said = next((event.utc for event in read_events(folder / EVENTS_NAME).events), None)
    return said or ""


def _below(root: Path, folder: Path) -> str:
    return folder.relative_to(root).as_posix()


def _folders(root: Path) -> Iterator[tuple[str, int, Path]]:
    """Campaign, number of the run and folder of everything that looks like one box's evidence."""
    for folder in sorted(root.glob("*/*")):
        if not folder.is_dir():
            continue
        match = re.fullmatch(rf"(.+)-{re.escape(folder.name)}(?:\.(\d{{1,6}}))?", folder.parent.name)
        if match and _CAMPAIGN.fullmatch(match[1]) and _holds_evidence(folder):
            yield match[1], int(match[2] or 1), folder


def _holds_evidence(folder: Path) -> bool:
    return (folder / SPIKE_NAME).is_file() or (folder / EVENTS_NAME).is_file()
