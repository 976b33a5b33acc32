# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide has every row of both tables of the driver, each with its source: what stands on it, and its kernels."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.module_graph import CLIENTS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_version import (
    COMPILES,
    kernel_limit,
    parse_driver_version,
)
from tools.checkout import CHECKOUT

GUIDE = (CHECKOUT / "docs" / "guide-drivers.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without their marks of code."""
    lines = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n|---|")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def test_the_guide_lists_what_stands_on_the_driver_with_a_source_for_each() -> None:
    shown = rows("What stands on the driver")
    assert [row[:3] for row in shown] == [
        [", ".join(client.modules), client.title, client.package or "none"] for client in CLIENTS
    ]
    assert [row[0] for row in shown if not row[3]] == []


def test_the_guide_lists_the_kernels_of_the_releases_with_a_source_for_each() -> None:
    shown = rows("Kernels of the releases")
    assert [row[:3] for row in shown] == [list(row) for row in COMPILES]
    assert [row[0] for row in shown if not row[3]] == []


def test_the_rows_of_releases_are_in_order() -> None:
    since = [parse_driver_version(row[0]) for row in COMPILES]
    fields = [release.fields for release in since if release is not None]
    assert fields == sorted(fields) and len(fields) == len(COMPILES)


@pytest.mark.parametrize(
    ("release", "kernel", "fails", "said"),
    [
        ("25.04-0.6.1.0", "6.17.0-5-generic", True, "does not compile for Linux 6.15 or newer, such as 6.17.0-5"),
        ("24.10-1.1.4.0", "6.15.0-1-amd64", True, "next: ask for 25.10-3.1.8, or boot an older kernel"),
        ("25.04-0.6.1.0", "6.14.0-24-generic", False, "is compiled by NVIDIA for Linux up to 6.11"),
        ("25.07-0.9.7.0", "6.17.0-5-generic", False, "up to 6.14, and not known to compile for 6.17.0-5-generic"),
        ("26.07-0.7.3.0", "7.1.0-1-generic", False, "next: ask for a newer release"),
        ("25.04-0.6.1.0", "6.11.0-1007-nvidia", False, ""),
        ("26.10-0.4.3.0", "7.2.0-1-generic", False, ""),
        ("5.8-2.0.3.0", "6.17.0-5-generic", False, ""),
        ("23.10-4.0.9.1", "6.17.0-5-generic", False, ""),
        ("25.04-0.6.1.0", "6.18.0-55.el10.x86_64", False, ""),
        ("25.04-0.6.1.0", "", False, ""),
    ],
)
def test_a_release_is_judged_by_the_kernel_that_it_would_be_built_for(
    release: str, kernel: str, fails: bool, said: str
) -> None:
    version = parse_driver_version(release)
    assert version is not None
    found, text = kernel_limit(version, kernel)
    assert found is fails
    assert said in text and bool(said) == bool(text)
