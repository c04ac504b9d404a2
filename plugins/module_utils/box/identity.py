# Copyright (c) 2026 lobes.spike contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the box is: board, L4T, kernel, operating system."""

from __future__ import annotations

import re
from typing import Any

from .source import Source

# L4T release (major.minor) -> JetPack, as published by NVIDIA; a release that is not here is left unnamed.
JETPACK = {"38.2": "7.0", "38.4": "7.1", "39.2": "7.2"}

_RELEASE = re.compile(r"#\s*R(\d+)\s*\(release\)\s*,\s*REVISION:\s*([\d.]+)")
_FIELD = re.compile(r"(GCID|BOARD|EABI|DATE):\s*([^,\n]+)")


def parse_tegra_release(text: str) -> dict[str, Any] | None:
    """/etc/nv_tegra_release -> ``{release, major, revision, gcid, board, eabi, date, kernel_variant, jetpack}``.

    ``release`` is like ``38.2.0``. None when the text is not such a file.
    ``jetpack`` is None for a release this table does not know.
    """
    found = _RELEASE.search(text)
    if found is None:
        return None
    fields = {name.lower(): value.strip() for name, value in _FIELD.findall(text)}
    variant = re.search(r"KERNEL_VARIANT:\s*(\S+)", text)
    release = f"{found[1]}.{found[2]}".rstrip(".")
    return {
        "release": release,
        "major": int(found[1]),
        "revision": found[2],
        "gcid": fields.get("gcid"),
        "board": fields.get("board"),
        "eabi": fields.get("eabi"),
        "date": fields.get("date"),
        "kernel_variant": variant[1] if variant else None,
        "jetpack": JETPACK.get(".".join(release.split(".")[:2])),
    }


def parse_os_release(text: str) -> dict[str, str | None]:
    """/etc/os-release -> ``{id, version_id, pretty_name}``."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            values[name.strip()] = value.strip().strip("\"'")
    return {key: values.get(key.upper()) for key in ("id", "version_id", "pretty_name")}


def parse_device_tree_string(text: str) -> list[str]:
    """A device-tree property: NUL-terminated strings, one after another."""
    return [part.strip() for part in text.split("\0") if part.strip()]


def read_identity(source: Source) -> dict[str, Any]:
    """Model, compatible strings, L4T, kernel, operating system, name and boot id; None where the box does not say."""
    tree = "/sys/firmware/devicetree/base"
    model = parse_device_tree_string(source.read(f"{tree}/model", 1 << 16) or "")
    product = source.line("/sys/class/dmi/id/product_name")
    return {
        "hostname": source.line("/proc/sys/kernel/hostname"),
        "model": model[0] if model else product,
        "compatible": parse_device_tree_string(source.read(f"{tree}/compatible", 1 << 16) or ""),
        "l4t": parse_tegra_release(source.read("/etc/nv_tegra_release", 1 << 16) or ""),
        "kernel": source.line("/proc/sys/kernel/osrelease"),
        "os": parse_os_release(source.read("/etc/os-release", 1 << 16) or ""),
        "boot_id": source.line("/proc/sys/kernel/random/boot_id"),
    }
