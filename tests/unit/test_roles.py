# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's defaults and its argument specification name the same variables; neither can drift alone."""

from __future__ import annotations

import pathlib

import pytest
import yaml

ROLES = sorted((pathlib.Path(__file__).parents[2] / "roles").iterdir())


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_and_specification_agree(role):
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    entries = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    specified = {name for entry in entries.values() for name, option in entry["options"].items()}
    required = {name for e in entries.values() for name, option in e["options"].items() if option.get("required")}
    assert set(defaults) | required == specified
    assert not set(defaults) & required


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_has_a_readme_and_every_option_a_type_and_a_meaning(role):
    assert (role / "README.md").read_text().startswith(f"# {role.name}")
    for entry in yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"].values():
        assert entry["description"]
        for name, option in entry["options"].items():
            assert option["type"], name
            assert option["description"], name
            assert name.startswith(role.name)
