# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
import os
import tarfile

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.record import file_sha256, pack, write_manifest


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "2026-01-01-x-y"
    (path / "results").mkdir(parents=True)
    (path / "spike.json").write_text("{}")
    (path / "results" / "B.sweep.json").write_text("[1]")
    (path / "results" / "B.needle.json.progress").write_text("passing")
    os.symlink("/etc/passwd", path / "link")
    return path


def test_the_manifest_has_every_file_of_the_record_and_nothing_else(folder):
    sealed = write_manifest(str(folder))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert sorted(manifest["files"]) == ["results/B.sweep.json", "spike.json"] == sorted(sealed.names)
    assert manifest["files"]["spike.json"] == {"sha256": hashlib.sha256(b"{}").hexdigest(), "bytes": 2}
    assert (folder / "manifest.json").stat().st_mode & 0o777 == 0o600


def test_sealing_again_gives_the_same_manifest(folder):
    first = write_manifest(str(folder)).sha256
    assert write_manifest(str(folder)).sha256 == first
    (folder / "spike.json").write_text("{ }")
    assert write_manifest(str(folder)).sha256 != first


def test_the_pack_holds_what_was_sealed(folder):
    packed = pack(str(folder), write_manifest(str(folder)))
    with tarfile.open(packed.path) as archive:
        assert archive.getnames() == ["results/B.sweep.json", "spike.json", "manifest.json"]
    assert packed.sha256 == file_sha256(packed.path)
    assert os.stat(packed.path).st_mode & 0o777 == 0o600


def test_a_folder_that_is_gone_is_told(tmp_path):
    with pytest.raises(SpikeError, match="could not be sealed"):
        write_manifest(str(tmp_path / "none"))
