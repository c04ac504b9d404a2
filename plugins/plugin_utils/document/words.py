# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Strings and numbers as the document writes them: no locale, no control character, nothing of unbounded length.

Everything that an engine, a model, a log or a box said passes through `clean` or `quote` before it is written.
"""

from __future__ import annotations

import datetime
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

ABSENT: Final = "—"
"""Not measured, or not recorded. Never a zero, never an empty cell."""

# A whole escape sequence goes, so that its letters do not stay behind as text.
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])?"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Characters that reorder or hide what stands beside them are shown by their number instead.
_DECEIVERS: Final = re.compile(r"[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]")


def _visible(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def harmless(raw: str) -> str:
    """Take control characters out (line ends and tabs stay) and make deceiving ones visible."""
    return _DECEIVERS.sub(_visible, _CONTROLS.sub("", _ESCAPES.sub("", raw)))


def clean(raw: object, limit: int = 300) -> str:
    """One line of plain text; longer ones are cut with a mark saying how long they were."""
    line = " ".join(harmless(str(raw)[: 4 * limit + 1000]).split())
    return _cut(line, limit, len(str(raw)))


def quote(raw: str | None, limit: int = 240, characters: int | None = None) -> str:
    """What somebody else wrote, in double quotes on one line, escaped, cut with a mark.

    ``characters`` is how long it was, where only its beginning was kept.
    """
    if raw is None:
        return "(nothing)"
    kept = harmless(raw[: 4 * limit + 1000])
    shown = json.dumps(kept[:limit], ensure_ascii=False)
    return shown if len(kept) <= limit else f"{shown} ... [cut: {characters or len(raw):,} characters in all]"


def _cut(line: str, limit: int, length: int) -> str:
    return line if len(line) <= limit else f"{line[:limit]} ... [cut: {length:,} characters in all]"


def sentence(raw: object, limit: int = 300) -> str:
    """One line of plain text that ends with a full stop, whatever it ended with."""
    return f"{clean(raw, limit).rstrip('. ')}."


def decimal(value: float | None, places: int = 2) -> str:
    """A number rounded to ``places``, trailing zeros dropped but for the first: 73.7, 75.0, 1687.85."""
    if value is None:
        return ABSENT
    whole, _dot, fraction = f"{value:.{places}f}".partition(".")
    shown = f"{whole}.{fraction.rstrip('0') or '0'}" if places else whole
    return shown.removeprefix("-") if float(shown) == 0 else shown


def fixed(value: float | None, places: int = 2) -> str:
    """A number with exactly ``places`` decimals and grouped thousands: 1,687.85."""
    return ABSENT if value is None else f"{value:,.{places}f}"


def grouped(value: float | None) -> str:
    """A count with grouped thousands: 1,048,576."""
    return ABSENT if value is None else f"{value:,.0f}"


def gib(size_bytes: float | None) -> str:
    """Bytes as GiB with one decimal."""
    return ABSENT if size_bytes is None else f"{size_bytes / 2**30:,.1f} GiB"


def ratio(value: float | None, base: float | None) -> str:
    """``1.79x``; absent when there is nothing to divide by."""
    return ABSENT if value is None or not base else f"{value / base:.2f}x"


def percent(value: float, base: float) -> str:
    """The signed difference of ``value`` from ``base``: ``+34.7%``; absent when there is nothing to compare with."""
    return f"{(value / base - 1) * 100:+.1f}%" if base else ABSENT


def clock(utc: str | None) -> str:
    """The time of day of a UTC stamp (``22:04:27``); absent stays absent."""
    match = re.search(r"T(\d{2}:\d{2}:\d{2})", utc or "")
    return match[1] if match else ABSENT


def seconds(utc: str | None) -> float | None:
    """A UTC stamp as seconds since 1970; None when it is none."""
    try:
        stamp = datetime.datetime.fromisoformat((utc or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return stamp.timestamp() if stamp.tzinfo is not None else None


def time_of_day(utc_s: float | None) -> str:
    """Seconds since 1970 as ``22:04:27`` UTC."""
    if utc_s is None:
        return ABSENT
    minutes, second = divmod(int(utc_s), 60)
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}:{second:02d}"


def wrapped(sentence: str, width: int = 96, first: str = "", rest: str = "") -> list[str]:
    """A sentence in lines of ``width``; a word longer than that stands alone."""
    return textwrap.wrap(
        sentence,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def columns(head: Sequence[str], lines: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """Aligned columns divided by bars; cells that look like numbers stand to the right."""
    table = [list(head), *[list(line) for line in lines]]
    widths = [max(len(row[index]) for row in table) for index in range(len(head))]
    return [
        (indent + " | ".join(_aligned(cell, width, head_row) for cell, width in zip(row, widths, strict=True))).rstrip()
        for head_row, row in zip([True, *[False] * len(table)], table, strict=False)
    ]


def _aligned(cell: str, width: int, head: bool) -> str:
    return cell.rjust(width) if not head and re.match(r"^[-+]?[\d.,]+$", cell) else cell.ljust(width)


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; bars inside cells are escaped."""
    rows = [list(head), ["---"] * len(head), *[[cell.replace("|", "\\|") for cell in line] for line in lines]]
    return [f"| {' | '.join(row)} |" if index != 1 else f"|{'|'.join(row)}|" for index, row in enumerate(rows)]
