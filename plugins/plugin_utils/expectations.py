# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Did the reply hold what the probe expects? The one place where a verdict is given.

The probe's action plugin asks it for a synchronous call, the document asks it again from the evidence:
same reply and same expectations, same verdict.

An expectation is a mapping with ``query`` (a JMESPath expression on the reply) and exactly one of

- ``equals``: the JSON value found is this one (``2`` equals ``2.0``, never ``true``);
- ``matches``: the string found matches this regular expression somewhere;
- ``contains``: the string found has this part; the list found has this element; the object found has
  these members (nested objects likewise).

A reply is ``{content, reasoning, tool_calls: [{id, name, arguments}], finish_reason}``. Tool-call arguments
arrive as text; where that text is JSON, the query sees the parsed value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ansible_collections.lobes.spike.plugins.module_utils.errors import PlanError, SpikeError

try:
    import jmespath  # type: ignore[import-untyped,unused-ignore]
    from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped,unused-ignore]
    from jmespath.functions import Functions  # type: ignore[import-untyped,unused-ignore]
except ImportError:
    # The transcript must be written all the same; only its verdicts are missing then, and say why.
    jmespath = None  # type: ignore[assignment,unused-ignore]
    JMESPathError = ValueError  # type: ignore[misc,assignment,unused-ignore]

OPERATORS: Final = ("equals", "matches", "contains")


@dataclass(frozen=True)
class Expectation:
    """One compiled expectation."""

    query: str
    operator: str
    wanted: Any
    compiled: Any
    pattern: re.Pattern[str] | None

    def to_json(self) -> dict[str, Any]:
        """The expectation as the inventory wrote it."""
        return {"query": self.query, self.operator: self.wanted}


@dataclass(frozen=True)
class Check:
    """One expectation against one reply; ``note`` says why nothing could be compared, else it is empty."""

    expectation: Expectation
    passed: bool
    found: Any
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """``{query, <operator>: wanted, found, note?}``."""
        shown = {**self.expectation.to_json(), "found": self.found}
        if self.note:
            shown["note"] = self.note
        return shown


@dataclass(frozen=True)
class Verdict:
    """``passed`` is true when every expectation held; ``checks`` are in the order they were written."""

    passed: bool
    checks: tuple[Check, ...]

    @property
    def failed_expectation(self) -> dict[str, Any] | None:
        """The first expectation that did not hold, with what was found; None when all held."""
        return next((check.to_json() for check in self.checks if not check.passed), None)


def compile_expectations(expect: object, field: str = "expect") -> tuple[Expectation, ...]:
    """Check and compile a probe's ``expect`` list before anything is sent.

    Raises:
        PlanError: not a list, an unknown or missing member, an expression or a pattern that cannot be read.
        SpikeError: jmespath is not there.
    """
    if jmespath is None:
        raise SpikeError("Probes cannot be judged: install jmespath for the Python that runs Ansible.")
    if not isinstance(expect, Sequence) or isinstance(expect, (str, bytes)):
        raise PlanError(field, expect, "Write a list of {query, equals|matches|contains}.")
    if not expect:
        raise PlanError(field, expect, "A probe without an expectation has no verdict: write at least one.")
    return tuple(_compile_one(entry, f"{field}[{index}]") for index, entry in enumerate(expect))


def judge(reply: Mapping[str, Any], expect: object, field: str = "expect") -> Verdict:
    """Hold ``reply`` against ``expect`` (a raw list, or what `compile_expectations` returned).

    Raises:
        PlanError, SpikeError: as `compile_expectations`.
    """
    if isinstance(expect, tuple) and all(isinstance(entry, Expectation) for entry in expect):
        expectations: tuple[Expectation, ...] = expect
    else:
        expectations = compile_expectations(expect, field)
    readable = _with_parsed_arguments(reply)
    checks = tuple(_check(expectation, readable) for expectation in expectations)
    return Verdict(all(check.passed for check in checks), checks)


def _compile_one(entry: object, field: str) -> Expectation:
    if not isinstance(entry, Mapping):
        raise PlanError(field, entry, "Write {query, equals|matches|contains}.")
    operators = [name for name in OPERATORS if name in entry]
    unknown = sorted(str(name) for name in entry if name not in OPERATORS and name != "query")
    if unknown or len(operators) != 1:
        raise PlanError(field, dict(entry), "Give 'query' and exactly one of equals, matches, contains; nothing else.")
    query = entry.get("query")
    if not isinstance(query, str) or not query.strip():
        raise PlanError(f"{field}.query", query, "Write a JMESPath expression such as content or tool_calls[0].name.")
    operator, wanted = operators[0], entry[operators[0]]
    return Expectation(
        query=query,
        operator=operator,
        wanted=wanted,
        compiled=_compile_query(query, f"{field}.query"),
        pattern=_compile_pattern(wanted, f"{field}.matches") if operator == "matches" else None,
    )


def _compile_query(query: str, field: str) -> Any:
    try:
        compiled = jmespath.compile(query)
    except JMESPathError as exc:
        reason = " ".join(str(exc).split())
        raise PlanError(field, query, f"This is not a JMESPath expression: {reason[:200]}.") from exc
    _check_functions(compiled.parsed, query, field)
    return compiled


def _check_functions(node: Mapping[str, Any], query: str, field: str) -> None:
    """JMESPath meets an unknown function only when it runs; an operator should meet it in the plan."""
    if node.get("type") == "function_expression" and node["value"] not in Functions.FUNCTION_TABLE:
        raise PlanError(field, query, f"There is no JMESPath function {node['value']!r}.")
    for child in node.get("children") or ():
        if isinstance(child, Mapping):
            _check_functions(child, query, field)


def _compile_pattern(wanted: object, field: str) -> re.Pattern[str]:
    if not isinstance(wanted, str):
        raise PlanError(field, wanted, "Write a regular expression as a string.")
    try:
        return re.compile(wanted)
    except re.error as exc:
        raise PlanError(field, wanted, f"This is not a regular expression: {exc}.") from exc


def _with_parsed_arguments(reply: Mapping[str, Any]) -> dict[str, Any]:
    readable = dict(reply)
    calls = reply.get("tool_calls")
    if isinstance(calls, list):
        readable["tool_calls"] = [
            {**call, "arguments": _parsed(call.get("arguments"))} if isinstance(call, Mapping) else call
            for call in calls
        ]
    return readable


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _check(expectation: Expectation, reply: dict[str, Any]) -> Check:
    try:
        found = expectation.compiled.search(reply)
    except JMESPathError as exc:
        return Check(expectation, False, None, "the query does not apply to this reply: " + " ".join(str(exc).split()))
    if expectation.pattern is not None:
        if not isinstance(found, str):
            return Check(expectation, False, found, "a pattern needs a string")
        return Check(expectation, expectation.pattern.search(found) is not None, found)
    if expectation.operator == "equals":
        return Check(expectation, _same(found, expectation.wanted), found)
    return Check(expectation, _contains(found, expectation.wanted), found)


def _same(found: Any, wanted: Any) -> bool:
    """Equality of JSON values: Python's, except that true is not 1."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return isinstance(found, bool) and isinstance(wanted, bool) and found == wanted
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return found.keys() == wanted.keys() and all(_same(found[key], wanted[key]) for key in wanted)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    return bool(found == wanted)


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, str):
        return isinstance(wanted, str) and wanted in found
    if isinstance(found, list):
        return any(_same(element, wanted) for element in found)
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return all(
            key in found and (_contains(found[key], value) if isinstance(value, Mapping) else _same(found[key], value))
            for key, value in wanted.items()
        )
    return False
