# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real SR-IOV device plugin offers the devices that reports say, of policies and of guides.

This release of the plugin reads one set of selectors of a resource: each further set is a resource of its own here,
whose devices are added. A device is of the first set that takes it either way.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterable, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import Function
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import Offer, offers_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._needs import SRIOV
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.functions import functions_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import devices_of
from ansible_collections.rdma.fabric.tests.integration.device_plugin_host import found_by, host_tree
from ansible_collections.rdma.fabric.tests.integration.isolated import apart
from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.node_programs import SRIOV_DEVICE_PLUGIN
from ansible_collections.rdma.fabric.tests.lab.programs import built, to_standard_error
from ansible_collections.rdma.fabric.tests.unit.plugin_utils.test_needs_of_guides import (
    INFINIBAND,
    ROCE,
    VFS,
    document,
)
from ansible_collections.rdma.fabric.tests.unit.test_sriov_operator import ROWS, vfs_of

MADE = [row for row in ROWS if not row.get("refused")]


@pytest.fixture(scope="module")
def plugin() -> Path:
    try:
        return built(SRIOV_DEVICE_PLUGIN, os.environ, to_standard_error) / "sriovdp"
    except ProgramsUnavailable as reason:
        do_without(f"no device plugin: {reason}")


def placed(functions: Iterable[Function]) -> list[Function]:
    """Return the functions, with addresses for VFs that a plan only makes."""
    return [
        each._replace(address=f"0000:a{n // 64}:{n // 8 % 8:02x}.{n % 8}") if "#" in each.address else each
        for n, each in enumerate(functions)
    ]


def theirs(plugin: Path, place: Path, offers: Sequence[Offer], functions: Sequence[Function]) -> dict[str, set[str]]:
    """Return the devices of each resource by the real plugin."""
    host_tree(place, functions)
    sets = {f"r{n}_{m}": each for n, offer in enumerate(offers) for m, each in enumerate(offer.selectors)}
    found = found_by(plugin, apart("net", "mount"), place, sets)
    return {
        offer.resource: set().union(*(found[f"r{n}_{m}"] for m in range(len(offer.selectors))))
        for n, offer in enumerate(offers)
    }


def ours(offers: Sequence[Offer], functions: Sequence[Function]) -> dict[str, set[str]]:
    """Return the devices of each resource as the report counts them."""
    left = list(functions)
    found: dict[str, set[str]] = {}
    for offer in offers:
        taken = [each for each in left if offer.has(each)]
        found[offer.resource] = {each.address for each in taken}
        left = [each for each in left if each not in taken]
    return found


@pytest.mark.parametrize("row", MADE, ids=[row["about"] for row in MADE])
def test_resources_of_policies_have_the_devices_that_the_report_counts(
    plugin: Path, tmp_path: Path, row: dict[str, Any]
) -> None:
    offers, vfs = vfs_of(row)
    ports = [
        Function(
            *(port["pciAddress"], port["vendor"], port["deviceID"], port["driver"], port["name"]),
            *({"IB": "infiniband", "ETH": "ether"}[port["linkType"]], port["vendor"] == "15b3"),
            has_vfs=any(each.port and each.port[1] == port["pciAddress"] for each in vfs),
        )
        for port in row["ports"]
    ]
    functions = placed([*ports, *vfs])
    expected = ours(offers, functions)
    assert theirs(plugin, tmp_path, offers, functions) == expected
    assert row.get("said") or any(expected.values())


@pytest.mark.parametrize("host", [ROCE, INFINIBAND, VFS])
@pytest.mark.parametrize("guide", ["sriov", "host-device"])
def test_resources_of_guides_have_the_devices_that_the_report_counts(
    plugin: Path, tmp_path: Path, guide: str, host: str
) -> None:
    spec, read = document(guide, host)
    functions = placed(functions_of(read))
    offers = [each for each in offers_of(objects_of(render(spec))) if each.plugin == SRIOV]
    found = theirs(plugin, tmp_path, offers, functions)
    assert found == ours(offers, functions)
    assert {name: len(each) for name, each in found.items()} == devices_of(offers, read)
