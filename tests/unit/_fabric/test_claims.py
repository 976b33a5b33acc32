# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of Dynamic Resource Allocation for functions that are offered by a device plugin here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES, of_text

GUIDE = (FIXTURES / "neighbours" / "claimed-functions.yaml").read_text(encoding="utf-8")
CLASS = {"deviceClassName": "sriovnetwork.k8snetworkplumbingwg.io"}
OTHER = {"deviceClassName": "gpu.nvidia.com"}
WAITS = "pods stay Pending without it"


def noted(kind: str, spec: Any, version: str = "v1", name: str = "a") -> list[str]:
    body = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return [each.path for each in of_text(json.dumps(body)).accepted().notices if WAITS in each.problem]


def test_the_guide_of_the_operator_is_told_that_its_claim_waits_for_nobody() -> None:
    notice = of_text(GUIDE).accepted().said(WAITS)
    assert notice.path == "spec.spec.devices.requests[0].exactly.deviceClassName"
    assert notice.hint == "have pods ask for nvidia.com/NAME of their network, in place of the claim"
    alone = "---".join(GUIDE.split("---")[2:])
    assert "or offer functions to pods" in of_text(alone).accepted().said(WAITS).hint
    plugin = {"config": json.dumps({"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["15b3"]}}]})}
    beside = of_text(alone, variables={"nic_cluster_policy": {"sriovDevicePlugin": plugin}})
    assert beside.accepted().said(WAITS).hint == notice.hint


@pytest.mark.parametrize(
    ("request_of", "where"),
    [
        (CLASS, "deviceClassName"),
        ({"exactly": CLASS}, "exactly.deviceClassName"),
        ({"firstAvailable": [OTHER, CLASS]}, "firstAvailable[1].deviceClassName"),
    ],
)
def test_a_claim_is_looked_at_wherever_it_names_a_class(request_of: Any, where: str) -> None:
    spec = {"devices": {"requests": [{"exactly": OTHER}, request_of]}}
    assert noted("ResourceClaim", spec, "v1beta1") == [f"spec.devices.requests[1].{where}"]
    assert noted("ResourceClaimTemplate", {"spec": spec}) == [f"spec.spec.devices.requests[1].{where}"]


def test_a_class_of_ones_own_is_named_where_it_is_of_the_drivers_devices() -> None:
    spec = {"selectors": [{"cel": {"expression": "device.driver == 'sriovnetwork.k8snetworkplumbingwg.io'"}}]}
    assert noted("DeviceClass", spec) == ["spec.selectors[0].cel.expression"]
    assert noted("DeviceClass", spec, name="sriovnetwork.k8snetworkplumbingwg.io") == []


@pytest.mark.parametrize("spec", [None, 3, {"devices": []}, {"devices": {"requests": [1, OTHER, {"exactly": 2}]}}])
def test_other_claims_are_not_named(spec: Any) -> None:
    assert noted("ResourceClaim", spec) == noted("ResourceClaimTemplate", {"spec": spec}) == []
    assert noted("DeviceClass", spec) == noted("ResourceSlice", spec) == []
