# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.results.progress import job_ended

# As ansible-core writes it while the job runs: nothing of its process but the number of one that is gone already.
STARTED = {"started": True, "finished": False, "ansible_job_id": "j1001.7"}


@pytest.mark.parametrize(
    ("job", "ended"),
    [
        (STARTED, True),
        ({"started": 1, "finished": 1, "msg": "Timeout exceeded"}, True),
        ({"changed": False, "results_path": "/x"}, True),
        ([], False),
    ],
)
def test_a_job_without_a_process_has_ended(tmp_path: Path, job: object, ended: bool) -> None:
    (tmp_path / "j1001.7").write_text(json.dumps(job))
    assert job_ended(str(tmp_path / "j1001.7")) is ended


def test_a_job_runs_as_long_as_its_wrapper_does_unless_its_file_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "j1002.7"
    file.write_text(json.dumps({**STARTED, "ansible_job_id": "j1002.7"}))
    command = [sys.executable, "-c", "print(flush=True); input()", "j1002", "3600"]
    wrapper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert wrapper.stdout is not None
    wrapper.stdout.readline()  # its arguments can be read when it runs, not yet when it is being started
    try:
        assert job_ended(str(file)) is False
        assert job_ended(str(tmp_path / "j1002.8")) is False, "its file is not there yet"
        (tmp_path / "j1003.7").write_text(json.dumps(STARTED))
        assert job_ended(str(tmp_path / "j1003.7")) is True, "that is another's process"
        file.write_text(json.dumps({"changed": False}))
        assert job_ended(str(file)) is True
        file.write_text(json.dumps(STARTED))
    finally:
        wrapper.kill()
    wrapper.wait()
    assert job_ended(str(file)) is True


def test_a_job_file_that_is_not_there_yet_or_half_written_is_a_job_that_runs(tmp_path: Path) -> None:
    assert job_ended(str(tmp_path / "none")) is False
    (tmp_path / "half").write_text('{"changed": fal')
    assert job_ended(str(tmp_path / "half")) is False
