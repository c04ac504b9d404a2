"""Fixtures of the document's tests: evidence to read, and a collection whose modules are stubs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
EVIDENCE = REPOSITORY / "tests" / "fixtures" / "evidence"

STUB = '''
import json, os, pathlib, shutil
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    """Returns the JSON file it is told to; can copy a folder first, and serve another file from the second call on."""
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args = self._task.args
        if "copy" in args:
            shutil.copytree(args["copy"], args["to"], dirs_exist_ok=True)
        if "kill" in args:
            os.kill(os.getppid(), 9)
        path = pathlib.Path(args["returns"])
        calls = pathlib.Path(str(path) + ".calls")
        if "then" in args and calls.exists():
            path = pathlib.Path(args["then"])
        calls.touch()
        result.update(json.loads(path.read_text()))
        return result
'''
STUBBED = (
    "plan", "box_info", "lane", "engine_ready", "probe", "decode", "needle", "sweep", "agentic", "calibrate",
    "measurement_info", "evidence",
)  # fmt: skip


@pytest.fixture
def sim_small(tmp_path: Path) -> Path:
    """A copy of the small simulated spike that a test may change."""
    return Path(shutil.copytree(EVIDENCE / "sim-small", tmp_path / "sim-small"))


@pytest.fixture
def stub_collection(tmp_path: Path) -> Path:
    """A collections path on which lobes.spike has our callback and documents, and stubs in place of its modules."""
    root = tmp_path / "collections" / "ansible_collections" / "lobes" / "spike"
    actions = root / "plugins" / "action"
    actions.mkdir(parents=True)
    for name in ("galaxy.yml", "meta"):
        os.symlink(REPOSITORY / name, root / name)
    for name in ("callback", "plugin_utils", "module_utils"):
        os.symlink(REPOSITORY / "plugins" / name, root / "plugins" / name)
    for name in STUBBED:
        (actions / f"{name}.py").write_text(STUB, encoding="utf-8")
    shutil.copy(REPOSITORY / "plugins" / "action" / "transcript_info.py", actions)
    return tmp_path / "collections"


@pytest.fixture
def run_playbook(tmp_path: Path, stub_collection: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a playbook with the callback enabled, callback errors being fatal, and give back what came of it."""

    def run(playbook: str, *arguments: str, hosts: str = "box1,", **environment: str) -> Any:
        path = tmp_path / "play.yml"
        path.write_text(playbook, encoding="utf-8")
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", hosts, str(path), *arguments]
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(stub_collection),
            "ANSIBLE_CALLBACKS_ENABLED": "lobes.spike.transcript",
            "_ANSIBLE_CALLBACK_DISPATCH_ERROR_BEHAVIOR": "error",
            "ANSIBLE_NOCOLOR": "1",
            **environment,
        }
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)

    return run
