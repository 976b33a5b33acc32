# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MTUs of networks, held against those that hosts are asked to give their interfaces."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import HostReading
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource


def attachment(plugin: dict[str, Any]) -> Document:
    config = json.dumps({"cniVersion": "0.3.1", "name": "n", "plugins": [plugin]})
    content = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    return Document("nad.yaml", {**content, "metadata": {"name": "n"}, "spec": {"config": config}})


@pytest.mark.parametrize(
    ("mtu", "version", "count"),
    [
        (1496, "v1.2.2", 1),
        (1496, "network-operator-v26.4.1", 1),
        (1496, "network-operator-v26.7.0", 0),
        (0, "v1.2.2", 0),
    ],
)
def test_one_that_the_release_of_ipoib_passes_over_is_told(mtu: int, version: str, count: int) -> None:
    """A report of the operator (Mellanox/network-operator#1664): pods had 2044 beside a master with 1496."""
    policy = resource("NicClusterPolicy", "p", {"secondaryNetwork": {"ipoib": {"version": version}}})
    network = attachment({"type": "ipoib", "master": "ib0", "mtu": mtu})
    notices = Fabric([policy, network], []).accepted().notices
    found = [each.path for each in notices if f"is not known to ipoib-cni {version}" in each.problem]
    assert found == ["spec.config -> plugins[0].mtu"] * count


class TestMtuOfMasters:
    """What pods get on an interface is no larger than what hosts are asked to give that interface."""

    HOSTS: ClassVar[dict[str, HostReading]] = {
        "a": ({"interfaces": [{"pci": "0000:18:00.0", "name": "rail0", "mtu": 4200}]}, [], []),
        "b": ({"interfaces": [{"current_name": "rail0", "mtu": 1500}, {"name": "rail1"}]}, [], []),
        "c": ({"interfaces": [{"pci": "0000:18:00.0", "name": "rail0", "mtu": 9000}]}, [], []),
        "d": ({}, [], []),
    }

    def said(self, document: Document) -> list[str]:
        fabric = Fabric([document], [], hosts=self.HOSTS).accepted()
        return [notice.sentence() for notice in fabric.notices if "rdma_fabric_interfaces asks" in notice.sentence()]

    def test_a_larger_one_of_a_network_is_told_with_the_hosts(self) -> None:
        assert self.said(resource("MacvlanNetwork", "n", {"master": "rail0", "mtu": 9000})) == [
            "p.yaml: spec.mtu: is 9000, and rdma_fabric_interfaces asks rail0 for 1500 to 4200 on b, a: no pod with "
            "this network starts there (at most 1500 here, or a larger mtu of rail0)"
        ]
        (told,) = self.said(resource("MacvlanNetwork", "n", {"master": "rail0", "mtu": 4200}))
        assert "asks rail0 for 1500 on b: " in told

    def test_one_of_an_attachment_is_told_inside_its_configuration(self) -> None:
        (told,) = self.said(attachment({"type": "macvlan", "master": "rail0", "mtu": 2000, "ipam": {}}))
        assert told.startswith("nad.yaml: spec.config -> plugins[0].mtu: is 2000, and ")

    @pytest.mark.parametrize(
        "spec", [{"master": "rail0", "mtu": 1500}, {"master": "rail0"}, {"master": "rail1", "mtu": 9000}, {"mtu": 9000}]
    )
    def test_what_fits_or_is_not_known_is_no_matter(self, spec: dict[str, Any]) -> None:
        assert self.said(resource("MacvlanNetwork", "n", spec)) == []
