# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.hub import fetch_command, find_snapshot

REVISION = "bee7596271d1" + "0" * 28


@pytest.fixture
def snapshot(tmp_path):
    folder = tmp_path / "hub" / "models--owner--name"
    path = folder / "snapshots" / REVISION
    path.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(REVISION)
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(b"x" * 10)
    return path


def look(tmp_path, revision="bee7596271d1"):
    return find_snapshot(str(tmp_path), "owner/name", revision)


def test_a_shortened_revision_finds_the_full_one(tmp_path, snapshot):
    found = look(tmp_path)
    assert (found.present, found.revision, found.path, found.files, found.size_bytes) == (
        True,
        REVISION,
        str(snapshot),
        2,
        12,
    )


def test_without_a_revision_main_is_what_counts(tmp_path, snapshot):
    assert look(tmp_path, None).revision == REVISION
    (tmp_path / "hub/models--owner--name/refs/main").unlink()
    assert "refs/main" in look(tmp_path, None).reason


def test_two_snapshots_of_one_prefix_are_not_guessed_between(tmp_path, snapshot):
    (snapshot.parent / ("bee7596271d1" + "1" * 28)).mkdir()
    assert "2 snapshots match" in look(tmp_path).reason


def test_another_revision_is_not_the_pinned_one(tmp_path, snapshot):
    found = look(tmp_path, "cc84af2fe716")
    assert not found.present
    assert "there: bee7596271d1" in found.reason


def test_an_empty_cache_is_a_reason_and_no_error(tmp_path):
    assert look(tmp_path).reason == "no snapshot of it: No such file or directory"
    assert look(tmp_path).fetched_bytes is None


def test_a_file_that_the_index_names_must_be_there(tmp_path, snapshot):
    (snapshot / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "model-2.safetensors"}}))
    assert look(tmp_path).reason == "the index names files that are missing: model-2.safetensors"
    (snapshot / "model-2.safetensors").touch()
    assert look(tmp_path).present
    (snapshot / "model.safetensors.index.json").write_text("[")
    assert "cannot be read" in look(tmp_path).reason


@pytest.mark.parametrize(
    ("gone", "reason"), [("config.json", "config.json is missing"), ("model.safetensors", "no weights")]
)
def test_a_snapshot_without_its_parts_is_not_whole(tmp_path, snapshot, gone, reason):
    (snapshot / gone).unlink()
    assert look(tmp_path).reason == reason


def test_the_fetch_runs_as_the_caches_owner():
    command = fetch_command("/c", "owner/name", "bee7596271d1", "1000:1000")
    assert "--user 1000:1000" in command
    assert "snapshot_download('owner/name', revision='bee7596271d1')" in command
