# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.module_utils.errors import SpikeError
from ansible_collections.lobes.spike.plugins.module_utils.results import store
from ansible_collections.lobes.spike.plugins.module_utils.results.document import Document
from ansible_collections.lobes.spike.plugins.module_utils.results.window import Window


def document(**changes: object) -> dict[str, object]:
    window = Window(1, "2026-09-13T22:00:00.000000Z", 2, "2026-09-13T22:00:01.000000Z")
    made = Document(
        phase="decode", name="decode-prose", context={}, plan={"runs": 1}, endpoint="http://127.0.0.1:8090",
        model_requested=None, model_served="m", max_model_len=None, window=window, status="complete", reason=None,
        summary={},
    ).to_json()  # fmt: skip
    return {**made, **changes}


def test_what_is_written_is_read_back_whole_and_private(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    digest = store.write_atomic(path, store.encode(document()))
    assert len(digest) == 64
    assert store.read(path).document == document()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b'{"schema": "lobes.spike/result/1", "pha', "cut short"),
        (b"[]", "not a lobes.spike/result/1"),
        (b'{"schema": "other"}', "not a lobes.spike/result/1"),
        (b'{"schema": "lobes.spike/result/1"}', "lacks phase"),
        (b"\xff\xfe{}", "cut short"),
        (b"[" * 100_000, "cut short"),
    ],
)
def test_a_half_written_file_is_set_aside_and_never_a_result(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    found = store.read(str(path))
    assert found.kind == "broken"
    assert why in str(found.why)
    notes = store.prepare(str(path))
    assert not path.exists()
    assert "set aside as a.json.broken-" in notes[0]
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [content]


def test_every_cut_of_a_result_is_broken(tmp_path: Path) -> None:
    whole = store.encode(document())
    path = tmp_path / "a.json"
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        assert store.read(str(path)).kind == "broken"


def test_an_earlier_result_is_kept_aside_even_twice_in_a_second(tmp_path: Path) -> None:
    path = str(tmp_path / "a.json")
    for number in range(3):
        store.prepare(path)
        store.write_atomic(path, store.encode(document(name=f"run-{number}")))
    kept = sorted(json.loads(entry.read_text())["name"] for entry in tmp_path.iterdir())
    assert kept == ["run-0", "run-1", "run-2"]


def test_a_dead_writers_leftover_is_set_aside_and_a_living_ones_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.json.tmp-4194303").write_bytes(b"{")
    (tmp_path / f"a.json.tmp-{os.getpid()}").write_bytes(b"{")
    notes = store.prepare(str(tmp_path / "a.json"))
    assert len(notes) == 1
    assert (tmp_path / f"a.json.tmp-{os.getpid()}").exists()


def test_a_directory_or_an_unusable_place_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SpikeError, match=r"results_path: .* is a directory"):
        store.prepare(str(tmp_path))
    (tmp_path / "file").write_text("x")
    with pytest.raises(SpikeError, match="cannot be made"):
        store.prepare(str(tmp_path / "file" / "a.json"))
    with pytest.raises(SpikeError, match="could not be written"):
        store.write_atomic(str(tmp_path / "nowhere" / "a.json"), b"x")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.json")
    store.write_atomic(path, store.encode(document()))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpikeError, match="No space left on device"):
        store.write_atomic(path, b"new")
    assert store.read(path).kind == "result"
    assert os.listdir(tmp_path) == ["a.json"]


def test_nan_is_no_figure_and_a_lone_surrogate_is_no_crash() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        store.encode({"ttft_s": float("nan")})
    assert json.loads(store.encode({"text": "\ud800x"})) == {"text": "?x"}
