# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's Prometheus exposition: parsed once, read by meaning.

Names of vLLM metrics change between releases (``gpu_cache_usage_perc`` became ``kv_cache_usage_perc``), counters come
with and without ``_total``, every counter has a ``_created`` twin that is a time and not a count, and each engine core
has its own series. ``ALIASES`` maps a *meaning* to the names that carry it, best first; the first one present is used
and the others are never added to it.

Absent is ``None``, never 0: a metric that the engine does not export was not measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# Meaning -> names without "vllm:" and without "_total", newest first.
ALIASES: dict[str, tuple[str, ...]] = {
    "requests_running": ("num_requests_running",),
    "requests_waiting": ("num_requests_waiting",),
    "kv_cache_usage": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    "prompt_tokens": ("prompt_tokens",),
    "prompt_tokens_cached": ("prompt_tokens_cached",),
    "prompt_tokens_by_source": ("prompt_tokens_by_source",),
    "generation_tokens": ("generation_tokens",),
    "prefix_cache_queries": ("prefix_cache_queries", "gpu_prefix_cache_queries"),
    "prefix_cache_hits": ("prefix_cache_hits", "gpu_prefix_cache_hits"),
    "preemptions": ("num_preemptions",),
    "requests_finished": ("request_success",),
    "spec_drafts": ("spec_decode_num_drafts",),
    "spec_draft_tokens": ("spec_decode_num_draft_tokens",),
    "spec_accepted_tokens": ("spec_decode_num_accepted_tokens",),
    "spec_accepted_per_pos": ("spec_decode_num_accepted_tokens_per_pos",),
    # Histograms: read through histogram(), which uses their _sum and _count.
    "ttft_s": ("time_to_first_token_seconds",),
    "inter_token_s": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    "e2e_s": ("e2e_request_latency_seconds",),
    "queue_s": ("request_queue_time_seconds",),
    "prefill_s": ("request_prefill_time_seconds",),
    "decode_s": ("request_decode_time_seconds",),
    "prefill_computed_tokens": ("request_prefill_kv_computed_tokens",),
    "iteration_tokens": ("iteration_tokens_total",),
}

# The process metrics of the API server carry no prefix.
PROCESS_CPU = "process_cpu_seconds"

MAX_TEXT_CHARS = 64 * 1024 * 1024
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_VALUE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[Ii]nf|NaN)")
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Series:
    """One sample line: its full name, its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass
class Family:
    """All series under one name. ``kind`` is the TYPE line's word, ``untyped`` without one."""

    name: str
    kind: str = "untyped"
    series: list[Series] = field(default_factory=list)


class Exposition:
    """A parsed scrape.

    ``families`` maps the exact name of a series (``vllm:prompt_tokens_total``) to its family;
    ``skipped`` counts lines that were neither comment, blank nor sample (a cut or foreign body).
    """

    def __init__(self, families: dict[str, Family], skipped: int) -> None:
        self.families = families
        self.skipped = skipped

    def series(self, name: str, **labels: str) -> list[Series]:
        """All series of the exact ``name`` that carry ``labels``."""
        family = self.families.get(name)
        if family is None:
            return []
        return [s for s in family.series if all(s.labels.get(key) == want for key, want in labels.items())]

    def value(self, name: str, **labels: str) -> float | None:
        """Sum over the matching series of ``name`` (a meaning, or a metric's name with or without ``vllm:`` and
        ``_total``), over engines and every label not given. None when there is none, or when one is not a number."""
        for candidate in _candidates(name, ("", "_total")):
            if candidate in self.families:
                return _total(self.series(candidate, **labels))
        return None

    def by_label(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """``value`` split by one label, e.g. accepted tokens by ``position``. Empty when the metric is absent."""
        for candidate in _candidates(name, ("", "_total")):
            if candidate in self.families:
                found = [s for s in self.series(candidate, **labels) if label in s.labels]
                keys = sorted({s.labels[label] for s in found}, key=_natural)
                sums = {key: _total([s for s in found if s.labels[label] == key]) for key in keys}
                return {key: total for key, total in sums.items() if total is not None}
        return {}

    def histogram(self, name: str, **labels: str) -> tuple[float, float] | None:
        """(sum, count) of a histogram over engines, or None when it is absent or incomplete."""
        for base in _candidates(name, ("",)):
            if f"{base}_sum" in self.families and f"{base}_count" in self.families:
                total = _total(self.series(f"{base}_sum", **labels))
                count = _total(self.series(f"{base}_count", **labels))
                return None if total is None or count is None else (total, count)
        return None

    def info(self, name: str) -> dict[str, str] | None:
        """The labels of an info metric (value 1), e.g. ``cache_config_info``; the first engine's."""
        for candidate in _candidates(name, ("", "_info")):
            found = self.series(candidate)
            if found:
                return dict(found[0].labels)
        return None


def parse(text: str) -> Exposition:
    """Parse a Prometheus text exposition. Total: a line that is not a sample is counted, never an error.

    A body over 64 Mi characters is cut there: nothing an engine exports is that long.
    """
    families: dict[str, Family] = {}
    kinds: dict[str, str] = {}
    skipped = 0
    for line in _lines(text[:MAX_TEXT_CHARS]):
        if line.startswith("#"):
            words = line.split(None, 3)
            if len(words) == 4 and words[1] == "TYPE":
                kinds[words[2]] = words[3].strip()
            continue
        series = _sample(line)
        if series is None:
            skipped += 1
            continue
        family = families.get(series.name)
        if family is None:
            family = families[series.name] = Family(series.name, _kind(series.name, kinds))
        family.series.append(series)
    return Exposition(families, skipped)


def counter_delta(before: Exposition | None, after: Exposition | None, name: str, **labels: str) -> float | None:
    """How much a counter rose. None when either scrape lacks it or when it fell (the engine was restarted)."""
    if before is None or after is None:
        return None
    return _risen(before.value(name, **labels), after.value(name, **labels))


def histogram_delta(
    before: Exposition | None, after: Exposition | None, name: str, **labels: str
) -> tuple[float, float] | None:
    """(sum, count) that a histogram gained between two scrapes; None as in ``counter_delta``."""
    if before is None or after is None:
        return None
    old, new = before.histogram(name, **labels), after.histogram(name, **labels)
    if old is None or new is None:
        return None
    total, count = _risen(old[0], new[0]), _risen(old[1], new[1])
    return None if total is None or count is None else (total, count)


def delta(before: Exposition | None, after: Exposition | None) -> dict[str, object]:
    """What the engine's counters say happened between two scrapes, by meaning; None = not exported.

    Tokens are tokens, ``*_s`` are seconds, ``kv_cache_usage_after`` is a share 0..1. ``spec_mean_acceptance_length``
    is 1 + accepted / drafts (tokens per engine step, the bonus token included); ``spec_acceptance_per_pos`` is, per
    draft position, the share of drafts accepted there. ``restarted`` is True when a counter fell or the engine's
    series were created anew: the deltas are then meaningless and all None.
    """
    restarted = _restarted(before, after)
    if restarted:
        before = None
    counters = (
        "prompt_tokens", "prompt_tokens_cached", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits",
        "preemptions", "spec_drafts", "spec_draft_tokens", "spec_accepted_tokens",
    )  # fmt: skip
    out: dict[str, object] = {name: counter_delta(before, after, name) for name in counters}
    computed = histogram_delta(before, after, "prefill_computed_tokens")
    out["prefill_computed_tokens"] = computed[0] if computed else None
    for name in ("ttft_s", "queue_s", "prefill_s", "decode_s", "e2e_s", "inter_token_s"):
        gained = histogram_delta(before, after, name)
        out[f"{name}_sum"], out[f"{name}_count"] = gained if gained else (None, None)
    out["requests_finished"] = _split_delta(before, after, "requests_finished", "finished_reason")
    out["prompt_tokens_by_source"] = _split_delta(before, after, "prompt_tokens_by_source", "source")
    drafts, accepted = _number(out["spec_drafts"]), _number(out["spec_accepted_tokens"])
    out["spec_mean_acceptance_length"] = 1 + accepted / drafts if drafts and accepted is not None else None
    per_pos = _split_delta(before, after, "spec_accepted_per_pos", "position")
    out["spec_acceptance_per_pos"] = [v / drafts for v in per_pos.values()] if drafts and per_pos else None
    out["kv_cache_usage_after"] = after.value("kv_cache_usage") if after is not None else None
    out["restarted"] = restarted
    return out


def _restarted(before: Exposition | None, after: Exposition | None) -> bool:
    if before is None or after is None:
        return False
    for name in ("prompt_tokens", "generation_tokens"):
        old, new = before.value(name), after.value(name)
        if old is not None and new is not None and new < old:
            return True
        born, reborn = before.value(f"vllm:{name}_created"), after.value(f"vllm:{name}_created")
        if born is not None and reborn is not None and reborn != born:
            return True
    return False


def _split_delta(before: Exposition | None, after: Exposition | None, name: str, label: str) -> dict[str, float] | None:
    if before is None or after is None:
        return None
    old, new = before.by_label(name, label), after.by_label(name, label)
    if not new:
        return None
    # A label value that was not there before counts from 0: its parent metric was exported.
    gained = {key: _risen(old.get(key, 0.0) if old else None, value) for key, value in new.items()}
    known = {key: value for key, value in gained.items() if value is not None}
    return known if len(known) == len(new) else None


def _risen(old: float | None, new: float | None) -> float | None:
    return None if old is None or new is None or new < old else new - old


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _candidates(name: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    bare = name[5:] if name.startswith("vllm:") else name
    stem = bare[:-6] if bare.endswith("_total") and name not in ALIASES else bare
    for base in ALIASES.get(bare, (bare, stem) if stem != bare else (bare,)):
        # A histogram may itself be called ..._total (iteration_tokens_total); no suffix is put on a suffix.
        for suffix in suffixes:
            yield f"vllm:{base}{suffix}"
    if bare not in ALIASES:
        for suffix in suffixes:
            yield f"{stem}{suffix}"


def _total(series: list[Series]) -> float | None:
    if not series or any(not math.isfinite(s.value) for s in series):
        return None
    return sum(s.value for s in series)


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isascii() and text.isdigit() and len(text) < 10 else (1, 0, text)


def _lines(text: str) -> Iterator[str]:
    # Only \n and \r end a line here; splitlines() would also cut at characters that may stand in a label.
    for line in re.split(r"[\r\n]+", text):
        line = line.strip(" \t")
        if line:
            yield line


def _sample(line: str) -> Series | None:
    match = _NAME.match(line)
    if match is None:
        return None
    name, rest = match.group(), line[match.end() :]
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        position = 1
        while position < len(rest) and rest[position : position + 1] != "}":
            label = _LABEL.match(rest, position)
            if label is None:
                return None
            labels[label.group(1)] = _ESCAPE.sub(_unescape, label.group(2))
            position = label.end()
        if position >= len(rest):
            return None
        rest = rest[position + 1 :]
    elif not rest[:1].isspace():
        return None
    words = rest.split()
    # A timestamp may follow the value, and an OpenMetrics exemplar after a '#'.
    if not words or (len(words) > 2 and "#" not in words[1:3]):
        return None
    # float() alone would also read "1_0" and other scripts' digits as numbers.
    return Series(name, labels, float(words[0])) if _VALUE.fullmatch(words[0]) else None


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match.group(1) == "n" else match.group(1)


def _kind(name: str, kinds: Mapping[str, str]) -> str:
    for suffix in ("", "_total", "_bucket", "_sum", "_count", "_created", "_info"):
        base = name[: -len(suffix)] if suffix and name.endswith(suffix) else name
        if base in kinds and (suffix == "" or base != name):
            return kinds[base]
    return "untyped"
