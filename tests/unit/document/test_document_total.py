"""Whatever lies in an evidence folder, the document is rendered: damage is told, never raised."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document import Stopped, render, render_partial
from ansible_collections.lobes.spike.plugins.plugin_utils.document import fleet_forms as fleet
from ansible_collections.lobes.spike.plugins.plugin_utils.document.baseline import keep
from ansible_collections.lobes.spike.plugins.plugin_utils.document.fleet import lay_together, look
from ansible_collections.lobes.spike.plugins.plugin_utils.events import Event
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import from_events, load

EVIDENCE = Path(__file__).resolve().parents[2] / "fixtures" / "evidence"
ODD: list[Any] = [None, True, -1, 0, 1.5, 1e308, "", "x\x1b[2J", [], {}, [None], [{}], {"a": 1}, ["x"], "9" * 400]


def bent(content: Any, source: random.Random) -> Any:
    """The same JSON with some of its values replaced by something else, or left out."""
    if source.random() < 0.03:
        return source.choice(ODD)
    if isinstance(content, dict):
        return {key: bent(value, source) for key, value in content.items() if source.random() > 0.02}
    if isinstance(content, list):
        return [bent(value, source) for value in content if source.random() > 0.02]
    return content


@pytest.mark.parametrize("seed", range(25))
def test_bent_evidence_is_rendered(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    spike = source.choice(["sim-small", "2026-09-13-lightning-thor"])
    home = Path(shutil.copytree(EVIDENCE / spike, tmp_path / "home"))
    for path in sorted(home.rglob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        changed = bent(content, source)
        if isinstance(changed, dict) and isinstance(content, dict) and "schema" in content:
            changed["schema"] = content["schema"]
        path.write_text(json.dumps(changed), encoding="utf-8")
    forms = render(load(home))
    assert forms == render(load(home))
    # As one of a fleet, and as the baseline of a spike that is bent otherwise.
    laid = fleet.render(
        lay_together("2026-11-30-x", [look(load(home), "thor", "x/thor"), look(load(home), "b", "y/b")])
    )
    whole = Path(shutil.copytree(EVIDENCE / spike, tmp_path / "whole"))
    (whole / "baseline.json").write_text(json.dumps(bent(keep(load(home)), source)), encoding="utf-8")
    forms = {**forms, **laid, **{f"beside {name}": form for name, form in render(load(whole)).items()}}
    for name, text in forms.items():
        assert "\x1b" not in text, name
        text.encode("utf-8")


@pytest.mark.parametrize("seed", range(10))
def test_bent_events_are_rendered(seed: int) -> None:
    source = random.Random(seed)
    stored = load(EVIDENCE / "sim-small")
    parts: list[dict[str, Any]] = [{"spike": dict(stored.spike)}, {"box": dict(stored.box)}]
    parts += [{"boot": dict(arm.boot.data)} for arm in stored.arms if arm.boot is not None]
    parts += [{"result": dict(result.data)} for arm in stored.arms for result in arm.results]
    events = [Event(n, "result", "2026-11-30T08:00:00Z", "t", bent(part, source)) for n, part in enumerate(parts, 1)
              if isinstance(part, dict)]  # fmt: skip
    events = [event for event in events if isinstance(event.data, dict)]
    assert "PARTIAL" in render_partial(from_events(events), Stopped("task 't'", "2026-11-30T08:00:00Z"))
