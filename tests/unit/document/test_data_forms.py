"""results.json and results.csv: what other programs read."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document import build, render
from ansible_collections.lobes.spike.plugins.plugin_utils.document.data import COLUMNS, results_csv
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import load

REPOSITORY = Path(__file__).resolve().parents[3]
EVIDENCE = REPOSITORY / "tests" / "fixtures" / "evidence"
SPIKES = ["sim-small", "2026-09-13-lightning-thor"]


@pytest.mark.parametrize("spike", SPIKES)
def test_results_json_follows_its_schema(spike: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((REPOSITORY / "docs" / "schema" / "results.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(render(load(EVIDENCE / spike))["results.json"]), schema)


def test_nothing_at_all_follows_the_schema_too(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((REPOSITORY / "docs" / "schema" / "results.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(render(load(tmp_path))["results.json"]), schema)


@pytest.mark.parametrize("spike", SPIKES)
def test_csv_and_json_hold_the_same_figures(spike: str) -> None:
    forms = render(load(EVIDENCE / spike))
    figures: list[dict[str, Any]] = json.loads(forms["results.json"])["figures"]
    lines = list(csv.DictReader(io.StringIO(forms["results.csv"])))
    assert len(lines) == len(figures) > 100
    for line, figure in zip(lines, figures, strict=True):
        assert list(line) == list(COLUMNS)
        assert line["value"] == ("" if figure["value"] is None else json.dumps(figure["value"]))
        assert (line["path"], line["pointer"]) == (figure["path"], figure["pointer"])


def test_a_spreadsheet_meets_no_formula(sim_small: Path) -> None:
    path = sim_small / "results" / "B.needle-16384-cold.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    result["summary"].update(decode_tok_s=None, decode_invalid_reason='=HYPERLINK("http://x")')
    path.write_text(json.dumps(result), encoding="utf-8")
    text = results_csv(build(load(sim_small)))
    assert "'=HYPERLINK" in text
    assert not [cell for row in csv.reader(io.StringIO(text)) for cell in row if cell.startswith("=")]


def test_heat_stands_beside_every_figure() -> None:
    figures = json.loads(render(load(EVIDENCE / SPIKES[1]))["results.json"])["figures"]
    told = {figure["heat"] for figure in figures if figure["arm"] == "D" and figure["workload"] == "needle 1040000"}
    assert told == {"under 238 alerts", "clean"}
