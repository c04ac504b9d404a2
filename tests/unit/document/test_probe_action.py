"""The probe's action plugin in a real playbook run: the verdict is added where the library is, bad plans go nowhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# These run ansible-playbook, which takes seconds; make check leaves them out.
pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]
REPOSITORY = Path(__file__).resolve().parents[3]

MODULE = """#!/usr/bin/python
import pathlib
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(
    argument_spec={"expect": {"type": "list", "elements": "dict"}, "reply": {"type": "dict"}, "touch": {"type": "path"},
                   "status": {"default": "complete"}},
    supports_check_mode=True,
)
pathlib.Path(module.params["touch"]).touch()
module.exit_json(changed=False, passed=None, failed_expectation=None, reply=module.params["reply"],
                 status=module.params["status"])
"""


@pytest.fixture
def ask(run_playbook: Run, stub_collection: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run one probe task and give back its result."""
    plugins = stub_collection / "ansible_collections" / "lobes" / "spike" / "plugins"
    shutil.copy(REPOSITORY / "plugins" / "action" / "probe.py", plugins / "action" / "probe.py")
    (plugins / "modules").mkdir()
    (plugins / "modules" / "probe.py").write_text(MODULE, encoding="utf-8")

    def run(*options: str, **arguments: Any) -> dict[str, Any]:
        tasks = [
            {"name": "Ask", "lobes.spike.probe": {"touch": str(tmp_path / "sent"), **arguments}, "register": "answer",
             "ignore_errors": True},
            {"name": "Keep", "check_mode": False,
             "ansible.builtin.copy": {"content": "{{ answer | to_json }}", "dest": str(tmp_path / "answer")}},
        ]  # fmt: skip
        play = {"hosts": "all", "gather_facts": False, "connection": "local", "tasks": tasks,
                "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}}  # fmt: skip
        done = run_playbook(json.dumps([play]), *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads((tmp_path / "answer").read_text(encoding="utf-8")))

    return run


def test_the_verdict_is_added(ask: Callable[..., dict[str, Any]]) -> None:
    expect = [{"query": "content", "matches": "^42$"}]
    assert ask(expect=expect, reply={"content": "42"})["passed"] is True
    failed = ask(expect=expect, reply={"content": "43"})
    assert failed["passed"] is False
    assert failed["failed"] is False, "a wrong answer is data, not a failed task"
    assert failed["failed_expectation"] == {"query": "content", "matches": "^42$", "found": "43"}


def test_without_a_reply_there_is_no_verdict(ask: Callable[..., dict[str, Any]]) -> None:
    assert (
        ask(expect=[{"query": "content", "equals": "42"}], status="failed", reply={"content": "42"})["passed"] is None
    )


def test_a_bad_expression_is_refused_before_anything_is_sent(
    ask: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    refused = ask(expect=[{"query": "content[", "equals": "42"}], reply={"content": "42"})
    assert refused["failed"] is True
    assert "expect[0].query" in refused["msg"]
    assert not (tmp_path / "sent").exists()
