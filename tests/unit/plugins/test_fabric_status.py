# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which resources the status looks for on nodes: those that every kind of policy has a device plugin offer."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rdma.fabric.plugins.action.fabric_status import resources_of
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG


def functions(name: str, resource_name: str, **fields: Any) -> Any:
    spec = {"resourceName": resource_name, "numVfs": 4, "nodeSelector": {"pool": name}, **fields}
    document = resource("SriovNetworkNodePolicy", name, {"nicSelector": {"vendor": "15b3"}, **spec}, f"{name}.yaml")
    document.content["apiVersion"] = "sriovnetwork.openshift.io/v1"
    return document


def test_resources_of_policies_for_functions_are_looked_for_as_well() -> None:
    sections = {
        "rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)},
        "sriovDevicePlugin": {"config": json.dumps(SRIOV_CONFIG)},
    }
    documents = [
        resource("NicClusterPolicy", "nic-cluster-policy", sections),
        functions("a", "rail0"),
        functions("b", "rail0"),
        functions("c", "rail1", numVfs=0),
        functions("default", "ignored"),
    ]
    found = resources_of(Fabric(documents, []).accepted().spec)
    assert found[-2:] == ["nvidia.com/rail0", "nvidia.com/rail1"]
    assert "nvidia.com/hostdev" in found and len(found) == len(set(found)) == 4


def test_policies_for_functions_alone_are_enough() -> None:
    spec = Fabric([functions("a", "rail0")], []).accepted().spec
    assert resources_of(spec) == ["nvidia.com/rail0"]
