# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the table of docs/needs.md: what each component of the cluster side needs of a host, with the source."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdma.fabric.plugins.module_utils._needs import NEEDS, Need, Release
from tools.checkout import CHECKOUT
from tools.generated import below, table

_HEAD = "Component | Needs | If it is missing | Source"


def files() -> dict[Path, str]:
    """Return the page with its text."""
    path = CHECKOUT / "docs" / "needs.md"
    return {path: below(path, f"| {_HEAD}", table(_HEAD, map(row, NEEDS)))}


def row(need: Need) -> list[str]:
    """Return a row of the page."""
    releases = " ".join(
        f"{word} {number(bound)}" for word, bound in (("since", need.since), ("before", need.until)) if bound
    )
    names = ", ".join(f"`{each}`" for each in need.components) + (f" {releases}" if releases else "")
    names += f", with `{need.when}`" if need.when else ""
    return [names, need.text.replace("|", "\\|"), need.step, need.source]


def number(release: Release) -> str:
    """Return a release as its tag has it."""
    return f"v{'.'.join(map(str, release))}"
