# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.results.progress import job_ended


@pytest.mark.parametrize(
    ("job", "ended"),
    [
        ({"started": 1, "finished": 0, "ansible_job_id": "j1"}, False),
        ({"started": 1, "finished": 0, "ansible_job_id": "j1", "child_pid": os.getpid()}, False),
        ({"started": 1, "finished": 0, "ansible_job_id": "j1", "child_pid": 2**22 + 5}, True),
        ({"started": 1, "finished": 1, "msg": "Timeout exceeded"}, True),
        ({"changed": False, "results_path": "/x"}, True),
        ([], False),
    ],
)
def test_a_job_has_ended_when_its_file_holds_a_result_or_its_process_is_gone(tmp_path, job, ended):
    (tmp_path / "j1").write_text(json.dumps(job))
    assert job_ended(str(tmp_path / "j1")) is ended


def test_a_job_file_that_is_not_there_yet_or_half_written_is_a_job_that_runs(tmp_path):
    assert job_ended(str(tmp_path / "none")) is False
    (tmp_path / "half").write_text('{"changed": fal')
    assert job_ended(str(tmp_path / "half")) is False
