# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each module as Ansible runs it: options on stdin, JSON on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_engine import FakeEngine

ROOT = Path(__file__).resolve().parents[3]
MODULES = {
    "probe": {"name": "sum", "prompt": "17+25?", "expect": [{"query": "content", "contains": "42"}]},
    "decode": {"max_tokens": 70, "runs": 1},
    "needle": {"prompt_tokens": 2000, "forced_tokens": 64},
    "sweep": {"concurrency": [1, 2], "max_tokens": 64},
    "agentic": {"turns": 2, "tool_result_tokens": 300},
    "calibrate": {"concurrency": [4], "rates_hz": [200], "tokens": 4, "tokens_per_s": 200},
}


def run(module: str, options: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "plugins/modules" / f"{module}.py")],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": options}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def documented(module: str) -> dict[str, Any]:
    source = (ROOT / "plugins/modules" / f"{module}.py").read_text()
    found: dict[str, Any] = yaml.safe_load(source.split('RETURN = r"""')[1].split('"""')[0])
    return found


@pytest.mark.parametrize("module", sorted(MODULES))
def test_it_measures_and_returns_what_it_documents(module: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with FakeEngine() as engine:
        shared = {"endpoint": engine.base, "results_path": str(path), "context": {"arm": "B"}}
        found = run(module, {**MODULES[module], **shared})
    assert found.get("failed", 0) == 0 or found["failed"] is False, found
    assert (found["changed"], found["status"]) == (False, "complete")
    assert json.loads(path.read_text())["context"] == {"arm": "B"}
    own = set(found) - {"changed", "invocation"}
    conditional = {"rates"} if module == "sweep" else set()
    assert own == set(documented(module)) - {"planned"} - conditional


@pytest.mark.parametrize("module", sorted(MODULES))
def test_check_mode_returns_the_plan_and_sends_nothing(module: str, tmp_path: Path) -> None:
    with FakeEngine() as engine:
        shared = {"endpoint": engine.base, "results_path": str(tmp_path / "r.json"), "_ansible_check_mode": True}
        found = run(module, {**MODULES[module], **shared})
        assert engine.paths == []
    assert (found["status"], found["changed"], found["planned"]["phase"]) == ("planned", False, module)
    assert len(found["planned"]["plan_sha256"]) == 64
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "options", "field"),
    [
        ("sweep", {"concurrency": [-1]}, "concurrency"),
        ("sweep", {"max_tokens": 0}, "max_tokens"),
        ("needle", {"depth": 100}, "depth"),
        ("decode", {"runs": 0}, "runs"),
        ("agentic", {"sessions": 0}, "sessions"),
        ("calibrate", {"concurrency": []}, "concurrency"),
        ("probe", {"temperature": 9}, "temperature"),
        ("decode", {"endpoint": "ftp://x"}, "endpoint"),
    ],
)
def test_a_bad_plan_fails_with_one_message(module: str, options: dict[str, Any], field: str) -> None:
    found = run(module, {**MODULES[module], **options, "_ansible_check_mode": field < "d"})
    assert found["failed"] is True
    assert found["msg"].startswith(f"{field}: ")


def test_measurement_info_never_fails(tmp_path: Path) -> None:
    found = run("measurement_info", {"path": str(tmp_path / "nothing.json")})
    assert (found["state"], found["finished"], found["changed"]) == ("absent", False, False)
    assert set(found) - {"changed", "invocation"} == set(documented("measurement_info"))


@pytest.mark.parametrize("module", sorted([*MODULES, "measurement_info"]))
def test_a_module_is_thin(module: str) -> None:
    source = (ROOT / "plugins/modules" / f"{module}.py").read_text()
    code = source.split('RETURN = r"""')[1].split('"""', 1)[1]
    assert len(code.splitlines()) < 60
