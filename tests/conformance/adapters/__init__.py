# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One module for each tool. Each has NAME, VERSION and

- ``available() -> str | None``: why it cannot run here, None when it can;
- ``measure(url, names) -> {name: report}`` for the conformance set;
- ``command(load) -> list[str]`` and ``read(folder) -> list[report]``, one report a request, for the benchmark.

A report has the keys of the table that the tool reports, in the table's units; a figure it says it does not have is
None, one that it never reports is left out. A report of None means the tool wrote none.
"""
