# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watching a measurement that runs detached on a box, without Ansible: when to look, whom to believe, when to give up.

A look is two small files read by the box's shell, since anything heavier would be seen in the figures. Only when they
say nothing new for a while is the box asked properly whether the measurement still lives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..module_utils.box.telemetry import read_tegrastats, sysfs_numbers
from .document.words import clean, grouped
from .evidence import number, text, whole

FIRST_WAIT_S: Final = 0.25
DIED: Final = "cmd"
"""What Ansible's job wrapper returns of a module that ended without a word: the command that it ran."""
TELL_S: Final = 30.0
"""A line is printed when a request ended or the stage changed, and else this often."""
GROWTH: Final = 1.3
SILENCE_S: Final = 20.0
"""The progress file is written anew every two seconds or less; this long without news is worth a question."""


class Lost(Exception):
    """The box could not be reached."""


class Box(Protocol):
    """What a watch needs of a box. Both raise `Lost`."""

    def glance(self) -> tuple[str, str, str]:
        """The job's file, the progress file and the newest line of the box's telemetry, each empty when not there."""

    def inspect(self) -> Mapping[str, Any]:
        """What lobes.spike.measurement_info returns."""


@dataclass(frozen=True)
class Timing:
    """Seconds: between looks, and how long a box may be out of reach before the watch is given up."""

    poll_s: float
    reconnect_limit_s: float


@dataclass(frozen=True)
class Seen:
    """How a watched measurement ended: what the job returned, or what the box says where it returned nothing."""

    returned: Mapping[str, Any] | None
    inspected: Mapping[str, Any] | None


def watch(
    box: Box,
    timing: Timing,
    tell: Callable[[str], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Seen:
    """Look until the measurement has ended. Raises `Lost` when the box stays out of reach too long."""
    wait, last, news, lost = min(FIRST_WAIT_S, timing.poll_s), "", clock(), None
    told: tuple[Any, ...] = ()
    while True:
        sleep(wait)
        wait = min(wait * GROWTH, timing.poll_s)
        now = clock()
        try:
            job, progress, heat = box.glance()
            returned = job_result(job)
            if returned is not None and DIED in returned:
                return Seen(None, box.inspect())
            if returned is not None:
                return Seen(returned, None)
            if progress != last:
                last, news = progress, now
                read = _object(progress)
                stand = (read.get("stage"), read.get("done"), now // TELL_S)
                if read and stand != told:
                    told = stand
                    tell(progress_line(read, circumstances(heat)))
            elif now - news >= SILENCE_S:
                news = now
                inspected = box.inspect()
                if inspected.get("ended"):
                    return Seen(None, inspected)
        except Lost as exc:
            if lost is None:
                lost = now
                tell(f"the box is out of reach ({exc}); what it measures goes on, looking again")
            if now - lost >= timing.reconnect_limit_s:
                raise
            continue
        if lost is not None:
            tell(f"the box is back after {now - lost:.0f} s")
            lost = None


def job_result(job: str) -> dict[str, Any] | None:
    """What a detached job returned, from the text of its file; None while it runs, or when the file says nothing."""
    content = _object(job)
    if not content or ("started" in content and not content.get("finished")):
        return None
    return {key: value for key, value in content.items() if not key.startswith(("ansible_", "_ansible"))}


def circumstances(line: str) -> dict[str, float]:
    """``tj_c`` and ``power_w`` from the newest line of the recorder's log, tegrastats' or sysfs', where it has them."""
    sampled = _object(line)
    numbers = sysfs_numbers(sampled, None, 0) if sampled else next((found for _t, found in read_tegrastats([line])), {})
    wanted = (("tj_c", "temp_c.tj"), ("power_w", "power_w.VIN"))
    return {name: numbers[source] for name, source in wanted if source in numbers}


def left_s(progress: Mapping[str, Any]) -> float | None:
    """Seconds that are left as was foretold, else if it goes on as so far; None while nothing can be said."""
    elapsed = number(progress, "elapsed_s")
    expected = progress.get("expected")
    foretold = number(expected, "predicted_s") if isinstance(expected, Mapping) else None
    if elapsed is not None and foretold is not None and elapsed < foretold:
        return foretold - elapsed
    pairs = (("prefill_tokens_estimate", "prompt_tokens"), ("done", "total"))
    for part, all_of_it in pairs:
        done, total = whole(progress, part), whole(progress, all_of_it)
        if elapsed and done and total and done < total:
            return elapsed * (total - done) / done
    return None


def progress_line(progress: Mapping[str, Any], circumstances: Mapping[str, float]) -> str:
    """Where a measurement stands: phase, what is done, the live figure, elapsed, an estimate, heat and power."""
    name = text(progress, "name") or text(progress, "phase") or "measurement"
    parts = []
    stage = text(progress, "stage")
    if stage:
        parts.append(clean(stage, 60))
    prompt, prefilled = whole(progress, "prompt_tokens"), whole(progress, "prefill_tokens_estimate")
    done, total = whole(progress, "done"), whole(progress, "total")
    if prompt and prefilled is not None:
        parts.append(f"prefill {grouped(prefilled)} / {grouped(prompt)} tokens {100 * prefilled / prompt:.0f} %")
    elif done is not None and total:
        parts.append(f"{done}/{total} done")
    tokens, failed = whole(progress, "tokens"), whole(progress, "failed")
    parts += [f"{grouped(tokens)} tokens"] if tokens else []
    parts += [f"{failed} failed"] if failed else []
    judged = progress.get("judgement")
    state, still = (text(judged, "state"), number(judged, "still_s")) if isinstance(judged, Mapping) else (None, None)
    if state in ("stalled", "dead"):
        parts.append(f"{state}, nothing moved for {still:.0f} s" if still else state)
    elapsed, left = number(progress, "elapsed_s"), left_s(progress)
    parts += [f"{_minutes(elapsed)} elapsed"] if elapsed is not None else []
    parts += [f"about {_minutes(left)} left"] if left is not None else []
    for words, member, unit in (("tj", "tj_c", "C"), ("power", "power_w", "W")):
        if member in circumstances:
            parts.append(f"{words} {circumstances[member]:.1f} {unit}")
    return f"{clean(name, 60)}: {', '.join(parts) or 'running'}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
