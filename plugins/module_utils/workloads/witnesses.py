# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three witnesses of one measurement: the client's clock, the engine's figures per request, the engine's counters.

They are kept side by side; where two differ by more than the stated error, the difference is named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..client import Sample

# The stated error: 2 % or 5 ms, whichever is more. Token counts have none.
SHARE = 0.02
FLOOR_S = 0.005

Disagreement = dict[str, Any]


def _ok(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.status == "ok"]


def per_request(sample: Sample) -> list[Disagreement]:
    """The engine's own figures of this request (``--enable-per-request-metrics``) against the client's."""
    own = sample.engine_metrics
    if sample.status != "ok" or not own:
        return []
    out = []
    first, queue = _ms(own.get("time_to_first_token_ms")), _ms(own.get("queue_time_ms"))
    if first is not None and sample.ttft_s is not None:
        engine_s = first + (queue or 0.0)
        client_s = _within(engine_s, sample.ttft_s - (sample.upload_s or 0.0), sample.ttft_s)
        out += _time("ttft_s", sample.label, "client", client_s, "engine (queue + first token)", engine_s)
    generation = _ms(own.get("generation_time_ms"))
    if generation is not None and sample.events and sample.completion_tokens and sample.completion_tokens > 1:
        span = (sample.events[-1][0] - sample.events[0][0]) / 1e9
        out += _time("generation_s", sample.label, "client", span, "engine", generation)
    return out


def counters(samples: Sequence[Sample], deltas: Mapping[str, Any] | None, label: str) -> list[Disagreement]:
    """The counters' movement around these requests against the sum of what their replies said."""
    good = _ok(samples)
    if not deltas:
        return []
    if deltas.get("restarted"):
        return [_entry("engine", label, "client", None, "counters", None, "the engine was restarted in this window")]
    finished = deltas.get("requests_finished")
    ended = sum(finished.values()) if isinstance(finished, Mapping) else None
    if ended is not None and ended != len(samples):
        text = f"the engine finished {ended:.0f} requests in this window, ours were {len(samples)}"
        if ended > len(samples):
            # Somebody else's requests are in every sum below; comparing would blame the wrong one.
            text += ": it was not ours alone"
        return [_entry("requests", label, "client", len(samples), "counters", ended, text)]
    if len(good) != len(samples) or not good:
        return []
    out = []
    for name, attribute in (("generation_tokens", "completion_tokens"), ("prompt_tokens", "prompt_tokens")):
        values = [getattr(sample, attribute) for sample in good]
        moved = deltas.get(name)
        if moved is None or any(value is None for value in values):
            continue
        if sum(values) != moved:
            text = f"usage adds up to {sum(values)} {name.replace('_', ' ')}, the counter rose by {moved:.0f}"
            out.append(_entry(name, label, "usage", sum(values), "counters", moved, text))
    out += _histogram("ttft_s", label, [sample.ttft_s for sample in good], deltas, [s.upload_s for s in good])
    spans = [(s.events[-1][0] - s.events[0][0]) / 1e9 if len(s.events) > 1 else None for s in good]
    out += _histogram("decode_s", label, spans, deltas)
    return out


def in_words(found: Sequence[Disagreement]) -> list[str]:
    """One sentence for each figure and pair of witnesses: how often they differ, and where most."""
    groups: dict[tuple[str, tuple[str, ...]], list[Disagreement]] = {}
    for entry in found:
        groups.setdefault((entry["what"], tuple(entry["witnesses"])), []).append(entry)
    out = []
    for (what, *_pair), entries in groups.items():
        worst = max(entries, key=_size)
        often = "" if len(entries) == 1 else f" in {len(entries)} places, most in"
        out.append(f"witnesses differ on {what}{often or ' in'} {worst['label']}: {worst['text']}")
    return out


def _size(entry: Disagreement) -> float:
    one, other = entry["values"]
    return abs(one - other) if one is not None and other is not None else math.inf


def _within(engine_s: float, low_s: float, high_s: float) -> float:
    """The client's time that is nearest to the engine's.

    The engine's clock starts somewhere between the first and the last byte of the upload, ours at the first: the
    client knows a range and not a point, and a difference inside it is none.
    """
    return min(max(engine_s, low_s), high_s)


def _histogram(
    name: str,
    label: str,
    values: Sequence[float | None],
    deltas: Mapping[str, Any],
    uploads: Sequence[float | None] = (),
) -> list[Disagreement]:
    total, count = deltas.get(f"{name}_sum"), deltas.get(f"{name}_count")
    known = [value for value in values if value is not None]
    if not known or total is None or count is None or count != len(values) or len(known) != len(values):
        return []
    mean = math.fsum(known) / len(known)
    upload = math.fsum(value or 0.0 for value in uploads) / len(known)
    client = _within(total / count, mean - upload, mean)
    return _time(name, label, "client (mean)", client, "counters (mean)", total / count)


def _time(what: str, label: str, one: str, a: float, other: str, b: float) -> list[Disagreement]:
    if abs(a - b) <= max(FLOOR_S, SHARE * max(a, b)):
        return []
    return [_entry(what, label, one, a, other, b, f"{one} {a:.4f} s, {other} {b:.4f} s: {a - b:+.4f} s apart")]


def _entry(what: str, label: str, one: str, a: float | None, other: str, b: float | None, text: str) -> Disagreement:
    return {
        "what": what,
        "label": label,
        "witnesses": [one, other],
        "values": [_rounded(a), _rounded(b)],
        "stated_error": "2 % or 5 ms" if what.endswith("_s") else "none",
        "text": text,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _ms(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return value / 1000
