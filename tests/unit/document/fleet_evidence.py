"""Evidence of many boxes, made from the small simulated spike by other names and shifted figures."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "fixtures" / "evidence" / "sim-small"
DATE = "2026-11-30"
CAMPAIGN = f"{DATE}-lightning"
SPEED = re.compile(r"(decode|aggregate|prefill|burst)_tok_s(_p50|_min)?")
TIME = re.compile(r"(ttft_s|wall_s)(_mean|_p50|_max)?")


def shifted(content: Any, factor: float, name: str = "") -> Any:
    """Every speed times ``factor``, every time divided by it; the instrument's own error stays."""
    if isinstance(content, dict):
        return {key: shifted(part, factor, key) for key, part in content.items()}
    if isinstance(content, list):
        return [shifted(part, factor, name) for part in content]
    if isinstance(content, bool) or not isinstance(content, (int, float)):
        return content
    if SPEED.fullmatch(name):
        return round(content * factor, 6)
    return round(content / factor, 6) if TIME.fullmatch(name) else content


def edit(path: Path, how: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file in place."""
    content = json.loads(path.read_text(encoding="utf-8"))
    how(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def seal(folder: Path) -> None:
    """Write the manifest anew."""
    files = {
        path.relative_to(folder).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    (folder / "manifest.json").write_text(json.dumps({"schema": "lobes.spike/manifest/1", "files": files}))


def make_box(
    root: Path, host: str, factor: float = 1.0, arms: Iterable[str] = ("B",), campaign: str = CAMPAIGN
) -> Path:
    """A box whose every arm is the fixture's arm B, all of it measured, at ``factor`` times its speed."""
    spike_id = f"{campaign}-{host}"
    folder = root / spike_id / host
    shutil.copytree(SOURCE, folder)
    shutil.rmtree(folder / "results-spec")
    source = folder / "results"
    documents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(source.glob("*.json"))}
    shutil.rmtree(source)
    for arm in arms:
        home = folder / f"results-{arm}"
        home.mkdir()
        for name, document in documents.items():
            made = json.loads(json.dumps(document if ".calibrate" in name else shifted(document, factor)))
            if "arm" in made:
                made["arm"] = arm
            if "context" in made:
                made["context"].update(arm=arm, box=host, spike_id=spike_id)
            (home / f"{arm}{name[1:]}").write_text(json.dumps(made), encoding="utf-8")
    names = list(arms)

    def rename(spike: dict[str, Any]) -> None:
        plan = spike["arms"][0]
        spike.update(spike_id=spike_id, host=host, baseline_arm=names[0])
        spike["arms"] = [{**plan, "name": arm, "results_dir": f"results-{arm}"} for arm in names]

    def rows(attribution: dict[str, Any]) -> None:
        own = [row for row in attribution["windows"] if row["arm"] == "B"]
        attribution["windows"] = [
            {**row, "arm": arm, "path": row["path"].replace("results/B", f"results-{arm}/{arm}")}
            for arm in names
            for row in own
        ]

    edit(folder / "spike.json", rename)
    edit(folder / "telemetry" / "attribution.json", rows)
    seal(folder)
    return folder
