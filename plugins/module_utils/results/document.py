# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The envelope that every phase's result shares (``docs/schema/result.schema.json``)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .window import Window

SCHEMA = "lobes.spike/result/1"
PHASES = ("probe", "decode", "needle", "sweep", "agentic", "calibrate")
STATUSES = ("complete", "partial", "failed")

# The same as galaxy.yml (a test compares): a result says which measuring code made it.
COLLECTION_VERSION = "1.0.0"

TEXT_LIMIT = 4000
"""Longest text that a module hands back; the file on disk keeps more of it (``client.kept``)."""


def plan_sha256(phase: str, plan: Mapping[str, Any]) -> str:
    """Identity of a measurement: the same phase with the same options has the same hash on every box."""
    canonical = json.dumps([phase, plan], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


@dataclass
class Document:
    """One result. ``samples`` are already in their JSON form; ``summary`` follows the phase's Interface."""

    phase: str
    name: str
    context: Mapping[str, Any]
    plan: Mapping[str, Any]
    endpoint: str
    model_requested: str | None
    model_served: str | None
    max_model_len: int | None
    window: Window
    status: str
    reason: str | None
    summary: Mapping[str, Any]
    samples: Sequence[Mapping[str, Any]] = ()
    workload: Mapping[str, Any] = field(default_factory=dict)
    engine_metrics: Mapping[str, Any] | None = None
    disagreements: Sequence[Mapping[str, Any]] = ()
    checks: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The document as it lies on disk."""
        return {
            "schema": SCHEMA,
            "phase": self.phase,
            "name": self.name,
            "context": dict(self.context),
            "plan": dict(self.plan),
            "plan_sha256": plan_sha256(self.phase, self.plan),
            "collection_version": COLLECTION_VERSION,
            "endpoint": self.endpoint,
            "model_requested": self.model_requested,
            "model_served": self.model_served,
            "max_model_len": self.max_model_len,
            "window": self.window.to_json(),
            "status": self.status,
            "reason": self.reason,
            "summary": dict(self.summary),
            "workload": dict(self.workload),
            "samples": list(self.samples),
            "witnesses": {
                "engine_metrics": dict(self.engine_metrics) if self.engine_metrics is not None else None,
                "disagreements": list(self.disagreements),
            },
            "checks": list(self.checks),
            "notes": list(self.notes),
        }


def status_of(ok: int, failed: int) -> str:
    """``complete`` when nothing failed, ``failed`` when nothing succeeded, else ``partial``."""
    if ok == 0:
        return "failed"
    return "partial" if failed else "complete"


def for_return(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without per-event arrays and with long texts cut, small enough to cross to the controller.

    A cut text ends in a mark saying how long it was. Nothing else is changed.
    """
    lean: dict[str, Any] = _cut({key: value for key, value in document.items() if key != "samples"})
    lean["samples"] = [_cut_sample(_without_events(sample)) for sample in document.get("samples", ())]
    return lean


def task_result(document: Mapping[str, Any], path: str | None, sha256: str | None, reused: bool) -> dict[str, Any]:
    """What a measuring module returns for a result document, wherever it comes from.

    The summary's count ``failed`` is returned as ``failed_runs``: in a task's result it would fail the task.
    """
    out = {"failed_runs" if key == "failed" else key: value for key, value in document["summary"].items()}
    if document["phase"] == "decode":
        out["samples"] = [_without_events(sample) for sample in document["samples"]]
    return {
        **out,
        **{key: document[key] for key in ("status", "reason", "name")},
        "results_path": path,
        "results_sha256": sha256,
        "reused": reused,
        "result": for_return(document),
    }


def _without_events(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sample.items() if key != "events"}


def _cut_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample whose texts may have been cut before: their marks say how long they were as the model wrote them."""
    lean: dict[str, Any] = _cut(sample)
    for name, facts in (sample.get("cut") or {}).items():
        if name in ("text", "reasoning"):
            lean[name] = _marked(sample[name], facts["characters"])
    return lean


def _marked(text: str, characters: int) -> str:
    return f"{text[:TEXT_LIMIT]}... [cut: {characters} characters in all]"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_LIMIT else _marked(value, len(value))
    if isinstance(value, Mapping):
        return {key: _cut(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(entry) for entry in value]
    return value
