"""lobes.spike.note writes a record's files whole, and keeps what is to be kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def run(**args: Any) -> dict[str, Any]:
    module = "ansible_collections.lobes.spike.plugins.modules.note"
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": args}), capture_output=True, text=True, cwd=ROOT / ".collections",
    )  # fmt: skip
    return dict(json.loads(done.stdout))


def test_a_mapping_is_json_a_text_is_itself(tmp_path: Path) -> None:
    path = tmp_path / "box.json"
    assert run(path=str(path), content={"b": "é", "a": [1, None]})["changed"] is True
    assert json.loads(path.read_text()) == {"a": [1, None], "b": "é"}
    assert path.read_text().index('"a"') < path.read_text().index('"b"')
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(path=str(path), content={"a": [1, None], "b": "é"})["changed"] is False
    assert run(path=str(tmp_path / "mark"), content="abc")["changed"] is True
    assert (tmp_path / "mark").read_text() == "abc\n"
    assert sorted(os.listdir(tmp_path)) == ["box.json", "mark"]


def test_what_is_to_be_kept_is_kept_and_check_mode_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "box.json"
    assert run(path=str(path), content={"n": 1}, _ansible_check_mode=True)["changed"] is True
    assert not path.exists()
    run(path=str(path), content={"n": 1})
    assert run(path=str(path), content={"n": 2}, keep=True)["changed"] is False
    assert json.loads(path.read_text()) == {"n": 1}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = run(path=str(tmp_path / "no" / "box.json"), content={})
    assert found["failed"] is True
    assert "/no/box.json" in found["msg"]
