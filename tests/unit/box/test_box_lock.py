# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a box's lock is, and what becomes of one that was left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.action import spike_lock
from ansible_collections.lobes.spike.plugins.module_utils.box import lock
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError

ME = {"owner": "ada", "controller": "desk", "pid_namespace": "pid:[1]", "pid": 10, "pid_start": 100}
OTHER = {**ME, "owner": "bob", "controller": "rack", "pid": 20}
HERE = "boot-1"


def held_by(holder: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema": lock.SCHEMA, "spike_id": "s-thor", **holder, "boot_id": HERE, "since_utc": "T", **more}


@pytest.mark.parametrize(
    ("found", "runs", "alive", "state", "words"),
    [
        (None, False, None, "free", "there is no lock"),
        ({}, False, None, "stale", "cannot be read"),
        (held_by(ME), True, None, "ours", "this very run"),
        (held_by({**ME, "pid": 11}), True, None, "held", "held by spike s-thor of ada from desk"),
        (held_by({**ME, "pid_namespace": "pid:[2]"}), True, None, "held", "held by"),
        (held_by(OTHER), True, None, "held", "of bob from rack"),
        (held_by(OTHER), False, None, "stale", "nothing of that spike runs"),
        (held_by(OTHER), False, True, "held", "held by"),
        (held_by(OTHER), True, False, "stale", "the run that took it is gone"),
        (held_by(OTHER, boot_id="boot-0"), True, True, "stale", "started anew"),
    ],
)
def test_whose_it_is(found: dict[str, Any] | None, runs: bool, alive: bool | None, state: str, words: str) -> None:
    verdict = lock.judge(found, ME, HERE, runs, alive)
    assert verdict.state == state
    assert words in verdict.why


def test_taken_kept_refused_and_given_back(tmp_path: Path) -> None:
    root = str(tmp_path / "spikes")
    first = lock.acquire(root, "s-thor", ME, None, False, 0.0)
    assert (first["changed"], first["was"]) == (True, "free")
    assert lock.acquire(root, "s-thor", ME, None, False, 1.0)["changed"] is False
    with pytest.raises(SpikeError, match="nothing was touched") as refused:
        lock.acquire(root, "s-thor", OTHER, True, False, 2.0)
    assert refused.value.partial["held"]["owner"] == "ada"
    assert lock.release(root, OTHER)["changed"] is False, "another's lock is not given back"
    taken = lock.acquire(root, "s-thor", OTHER, True, True, 3.0)
    assert (taken["was"], taken["lock"]["owner"]) == ("held", "bob")
    assert lock.release(root, OTHER)["changed"] is True
    assert lock.read(root) is None


def test_half_a_lock_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / lock.NAME).write_text(json.dumps(held_by(OTHER))[:40])
    assert lock.acquire(str(tmp_path), "s-thor", ME, None, False, 0.0)["was"] == "stale"


def test_only_a_run_whose_process_numbers_are_ours_is_known_to_be_gone() -> None:
    me = spike_lock.own_identity()
    alive = {**me, "pid": os.getpid(), "pid_start": spike_lock.process_identity(os.getpid())}
    assert spike_lock.is_alive(alive, me) is True
    assert spike_lock.is_alive({**alive, "pid_start": -1}, me) is False
    assert spike_lock.is_alive({**alive, "controller": "elsewhere"}, me) is None
    assert spike_lock.is_alive({**alive, "pid_namespace": "pid:[0]"}, me) is None
    assert spike_lock.is_alive({**alive, "pid": True}, me) is None
