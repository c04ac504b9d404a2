# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.results import progress, store
from test_result_store import document


def write_progress(path: Path, **changes: object) -> None:
    base = {"schema": progress.SCHEMA, "phase": "needle", "name": "needle-1-cold", "done": 0, **progress.own_identity()}
    Path(progress.progress_path(str(path))).write_text(json.dumps({**base, **changes}))


def test_absent_running_finished(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    nothing = dict.fromkeys(("phase", "name", "progress", "result", "why"))
    assert progress.inspect(str(path)) == {"state": "absent", "finished": False, **nothing}
    write_progress(path)
    seen = progress.inspect(str(path))
    assert (seen["state"], seen["finished"], seen["phase"]) == ("running", False, "needle")
    store.write_atomic(str(path), store.encode(document()))
    assert progress.inspect(str(path))["state"] == "running"
    os.unlink(progress.progress_path(str(path)))
    seen = progress.inspect(str(path))
    assert (seen["state"], seen["finished"], seen["name"]) == ("finished", True, "decode-prose")
    assert seen["result"]["status"] == "complete"


@pytest.mark.parametrize(
    "changes",
    [{"pid": 4194303}, {"pid_start": "1"}, {"boot": "another"}, {"pid": None}, {"pid": True}, {"pid": -1}],
)
def test_a_dead_process_is_interrupted_and_its_part_is_kept(tmp_path: Path, changes: dict[str, object]) -> None:
    path = tmp_path / "a.json"
    write_progress(path, **changes)
    partial = store.encode(document(status="partial", reason="not finished"))
    store.write_atomic(progress.partial_path(str(path)), partial)
    seen = progress.inspect(str(path))
    assert (seen["state"], seen["finished"]) == ("interrupted", False)
    assert seen["result"]["status"] == "partial"


def test_garbage_is_broken_and_never_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"{")
    Path(progress.progress_path(str(path))).write_bytes(b"\xff")
    seen = progress.inspect(str(path))
    assert seen["state"] == "broken"
    assert "cut short" in seen["why"]
    assert progress.inspect(str(tmp_path))["state"] == "broken"
