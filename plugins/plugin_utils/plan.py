# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the operator asked to a plan that can be carried out, or one message per fault.

Everything here is pure: inventory data in, a plan out. It runs on the controller before a box is touched.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..module_utils.results.document import COLLECTION_VERSION

PHASES = ("calibrate", "probes", "decode", "needle", "sweep", "agentic")
"""The phases of an arm, in the order they run."""

WORKLOADS = ("calibrate", "probes", "decode", "needles", "sweep", "agentic")

DIGEST_REFERENCE = re.compile(r"^(?P<repository>[^\s@]+)@sha256:(?P<hex>[0-9a-f]{64})$")
REVISION = re.compile(r"^[0-9a-f]{7,40}$")
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
RESULTS_DIR = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")

SECRET_FLAGS = frozenset({"api-key", "hf-token", "ssl-keyfile-password"})
"""Flags of the engine whose value is a secret."""

SPECULATION_WITNESS = "per-request-spec-decode-metrics"

# An arm's window must hold the prompt, the answer and what a chat template adds around them.
TEMPLATE_MARGIN_TOKENS = 512


@dataclass
class Problems:
    """Collects every fault of a plan, so that the operator mends them in one go."""

    found: list[str] = field(default_factory=list)

    def add(self, name: str, value: object, remedy: str) -> None:
        """Note that the variable ``name`` holds ``value`` and how to mend it."""
        self.found.append(f"{name} is {json.dumps(value, ensure_ascii=False, default=str)}: {remedy}")

    def raise_any(self) -> None:
        """Raise :class:`PlanRefused` when something was noted."""
        if self.found:
            raise PlanRefused(self.found)


class PlanRefused(Exception):
    """The plan cannot be carried out; ``problems`` has one line per fault, each with its remedy."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        head = "The plan was refused before anything was touched"
        super().__init__(f"{head} ({len(self.problems)}):\n" + "\n".join(f"  - {p}" for p in self.problems))


def is_digest_reference(reference: object) -> bool:
    """Tell whether ``reference`` names an image as ``repository@sha256:<64 hex>``."""
    return isinstance(reference, str) and DIGEST_REFERENCE.match(reference) is not None


def names(selection: object, known: Sequence[str], variable: str, problems: Problems) -> list[str]:
    """Resolve a selection such as ``"B,C"`` or ``["B", "C"]`` against ``known``; empty means all of them."""
    if selection is None or selection == "" or selection == []:
        return list(known)
    if isinstance(selection, str):
        wanted = [part.strip() for part in selection.split(",") if part.strip()]
    elif isinstance(selection, (list, tuple)):
        wanted = [str(part) for part in selection]
    else:
        problems.add(variable, selection, f"give names separated by commas; known: {', '.join(known)}")
        return []
    for unknown in [name for name in wanted if name not in known]:
        problems.add(variable, unknown, f"unknown name; known: {', '.join(known)}")
    return [name for name in known if name in wanted]


def tokens(value: object) -> int | None:
    """Read a token count as vLLM does (``1048576``, ``"1M"``, ``"128k"``); None when it is not one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", str(value).strip())
    if match is None:
        return None
    scale = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}[match[2]]
    return int(float(match[1]) * scale)


def merged_args(*layers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge flag layers (recipe, instrument, arm); a later layer wins, null or false takes a flag away."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for flag, value in (layer or {}).items():
            merged.pop(str(flag).lstrip("-").replace("_", "-"), None)
            merged[str(flag).lstrip("-").replace("_", "-")] = value
    return {flag: value for flag, value in merged.items() if value is not None and value is not False}


def command_line(args: Mapping[str, Any]) -> list[str]:
    """Render merged flags as an argument vector; true is a bare flag, a mapping becomes JSON, a list repeats values.

    >>> command_line({"max-model-len": 8192, "enable-prefix-caching": True})
    ['--max-model-len', '8192', '--enable-prefix-caching']
    """
    argv: list[str] = []
    for flag, value in args.items():
        argv.append(f"--{flag}")
        if value is True:
            continue
        if isinstance(value, (list, tuple)):
            argv.extend(str(part) for part in value)
        elif isinstance(value, Mapping):
            argv.append(json.dumps(value, separators=(",", ":"), sort_keys=True))
        else:
            argv.append(str(value))
    return argv


def choose_id(base: str, taken: Mapping[str, bool], earlier: str = "") -> tuple[str, bool]:
    """Choose the spike's id for today.

    ``taken`` maps ids that already have evidence to whether that spike ended. An unfinished one is gone on with, also
    one of the night before (``earlier`` is its base); after a finished one a new one starts, numbered. Returns
    ``(id, resumed)``.
    """
    left = [name for name, over in taken.items() if not over and earlier and re.sub(r"\.\d+$", "", name) == earlier]
    if left and base not in taken:
        return max(left), True
    number = 1
    while True:
        candidate = base if number == 1 else f"{base}.{number}"
        if candidate not in taken:
            return candidate, False
        if not taken[candidate]:
            return candidate, True
        number += 1


def _check_names(asked: Mapping[str, Any], problems: Problems) -> None:
    if not NAME.match(str(asked.get("name") or "")):
        problems.add("spike_name", asked.get("name"), "use letters, digits, dot, dash and underscore; it names folders")
    if asked.get("endpoint") is not None:
        if not re.match(r"^https?://[^\s/]+/?$", str(asked["endpoint"])):
            problems.add("spike_endpoint", asked["endpoint"], "give the server's root, as http://127.0.0.1:8000")
        return
    if not is_digest_reference(asked.get("image")):
        problems.add(
            "spike_image",
            asked.get("image"),
            "an engine is named by its digest only, as repository@sha256:<64 hex digits>; "
            "`docker image inspect --format '{{json .RepoDigests}}' IMAGE` shows it",
        )
    if not asked.get("model"):
        problems.add("spike_model", asked.get("model"), "name the model as owner/name")
    if not REVISION.match(str(asked.get("model_revision") or "")):
        problems.add(
            "spike_model_revision",
            asked.get("model_revision"),
            "pin the commit of the model as 7 to 40 hex digits, so that two spikes measure the same weights",
        )
    port = asked.get("port")
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        problems.add("spike_port", port, "give a TCP port between 1 and 65535")


def _arm(arm: Any, where: str, asked: Mapping[str, Any], phases: Sequence[str], problems: Problems) -> dict[str, Any]:
    if not isinstance(arm, Mapping) or not NAME.match(str(arm.get("name") or "")):
        problems.add(where, arm, "an arm is a mapping with at least a name of letters, digits, dash and underscore")
        return {}
    where = f"{where} ({arm['name']})"
    results_dir = arm.get("results_dir", "results")
    if not RESULTS_DIR.match(str(results_dir)):
        problems.add(f"{where}.results_dir", results_dir, "one folder name of letters, digits, dash and underscore")
    if not isinstance(arm.get("args", {}), Mapping):
        problems.add(f"{where}.args", arm.get("args"), "a mapping of flag to value, as in spike_recipe")
        return {}
    own_phases = names(arm.get("phases"), PHASES, f"{where}.phases", problems)
    args = merged_args(asked.get("recipe"), asked.get("instrument_flags"), arm.get("args"))
    if not any(flag.partition(".")[0] == "speculative-config" for flag in args):
        # vLLM 0.29 refuses to boot with it where nothing is speculated.
        args.pop(SPECULATION_WITNESS, None)
    own_workloads = arm.get("workloads") or {}
    for unknown in [name for name in own_workloads if name not in WORKLOADS]:
        problems.add(f"{where}.workloads", unknown, f"unknown workload; known: {', '.join(WORKLOADS)}")
    workloads = {**(asked.get("workloads") or {}), **own_workloads}
    for flag in sorted(SECRET_FLAGS.intersection(args)):
        problems.add(
            f"{where}.args.{flag}",
            "(not shown)",
            "a secret is no argument, which a record shows; set it in the arm's env",
        )
    env = arm.get("env") or {}
    if not isinstance(env, Mapping):
        problems.add(f"{where}.env", env, "a mapping of environment variable to value")
        env = {}
    resolved = {
        # Names only: a value may be a secret, and the plan is part of the record.
        **{name: value for name, value in arm.items() if name != "env"},
        "env_names": sorted(str(name) for name in env),
        "results_dir": results_dir,
        "title": arm.get("title") or arm["name"],
        "args": args,
        "phases": [phase for phase in phases if phase in own_phases],
        "workloads": {name: workloads[name] for name in WORKLOADS if workloads.get(name)},
    }
    _check_window(resolved, where, problems)
    return resolved


def _check_window(arm: Mapping[str, Any], where: str, problems: Problems) -> None:
    window = tokens(arm["args"]["max-model-len"]) if "max-model-len" in arm["args"] else None
    if window is None or "needle" not in arm["phases"]:
        return
    for index, needle in enumerate(arm["workloads"].get("needles", [])):
        target, forced = tokens(needle.get("prompt_tokens")), tokens(needle.get("forced_tokens") or 0)
        if target is None or forced is None:
            continue  # the needle module names a value that is no number
        if target + forced > window:
            problems.add(
                f"{where}.workloads.needles[{index}].prompt_tokens",
                target,
                f"with {forced} forced tokens this is beyond the arm's max-model-len of {window}; "
                "shorten the needle or leave it out for this arm",
            )


def _fingerprint(asked: Mapping[str, Any], arm: Mapping[str, Any]) -> str:
    """The sha256 of all that an arm's figures depend on and that the plan decides."""
    whole = {
        "collection_version": COLLECTION_VERSION,
        **{name: asked.get(name) for name in ("endpoint", "image", "model", "model_revision")},
        "arm": arm,
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()


def make_plan(asked: Mapping[str, Any], host: str, now: datetime.datetime, taken: Mapping[str, bool]) -> dict[str, Any]:
    """Make the plan of one spike on one box.

    ``asked`` holds the options of ``lobes.spike.plan``; with an ``endpoint`` the server is already there and nothing of
    an image, a model's commit or a port is asked. ``now`` is UTC; ``taken`` is for :func:`choose_id`. Returns the
    content of ``spike.json``. Raises :class:`PlanRefused` naming every faulty variable, its value and the remedy.
    """
    problems = Problems()
    _check_names(asked, problems)
    known = asked.get("known_arms")
    if not isinstance(known, list) or not known:
        problems.add("spike_known_arms", known, "list at least one arm with a name and its args")
        known = []
    known_names = [str(arm.get("name")) if isinstance(arm, Mapping) else "" for arm in known]
    for twice in sorted({name for name in known_names if known_names.count(name) > 1}):
        problems.add("spike_known_arms", twice, "two arms bear this name; results would overwrite each other")
    chosen = names(asked.get("arms"), known_names, "spike_arms", problems)
    phases = names(asked.get("phases"), PHASES, "spike_phases", problems)
    again = asked.get("remeasure")
    remeasure = names(None if again == "all" else again, PHASES, "spike_remeasure", problems) if again else []
    arms = [
        _arm(arm, f"spike_known_arms[{index}]", asked, phases, problems)
        for index, arm in enumerate(known)
        if known_names[index] in chosen
    ]
    problems.raise_any()
    for arm in arms:
        arm["sha256"] = _fingerprint(asked, arm)
    base = f"{now:%Y-%m-%d}-{asked['name']}-{host}"
    yesterday = f"{now - datetime.timedelta(days=1):%Y-%m-%d}-{asked['name']}-{host}"
    chosen_id = choose_id(base, taken, yesterday)
    spike_id, resumed = (asked["id"], asked["id"] in taken) if asked.get("id") else chosen_id
    return {
        "schema": "lobes.spike/spike/1",
        "spike_id": spike_id,
        "resumed": resumed,
        "name": asked["name"],
        "host": host,
        "started_utc": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "endpoint": asked.get("endpoint"),
        "image": asked.get("image"),
        "model": asked.get("model"),
        "model_revision": asked.get("model_revision"),
        "port": asked.get("port"),
        "recipe": dict(asked.get("recipe") or {}),
        "instrument_flags": dict(asked.get("instrument_flags") or {}),
        "arms": arms,
        "phases": phases,
        "remeasure": remeasure,
        "baseline_arm": asked.get("baseline_arm"),
        "reverses": asked.get("reverses"),
        "undecided": list(asked.get("undecided") or []),
    }


def models_of(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the checkpoints a plan needs: the model, then each distinct drafter, as ``{role, model, revision}``.

    A server that is already there brings its own, so then the list is empty.
    """
    if plan["endpoint"] is not None:
        return []
    wanted = [{"role": "model", "model": plan["model"], "revision": plan["model_revision"]}]
    for arm in plan["arms"]:
        drafter = arm.get("drafter")
        if drafter:
            entry = {"role": "drafter", "model": drafter["model"], "revision": drafter.get("revision")}
            if entry not in wanted:
                wanted.append(entry)
    return wanted
