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
POLICY = {
    "apiVersion": "sriovnetwork.k8snetworkplumbingwg.io/v1alpha1",
    "kind": "SriovResourcePolicy",
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {},
}


def noted(kind: str, spec: Any, version: str = "v1", name: str = "a") -> list[str]:
    body = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return [each.path for each in of_text(json.dumps(body)).accepted().notices if WAITS in each.problem]


def test_the_guide_of_the_operator_is_told_that_its_claim_waits_for_nobody() -> None:
    notice = of_text(GUIDE).accepted().said(WAITS)
    assert notice.path == "spec.spec.devices.requests[0].exactly.deviceClassName"
    assert notice.hint == "have pods ask for nvidia.com/NAME of their network, in place of the claim"
    alone = "---".join(GUIDE.split("---")[2:])
    assert "or offer VFs to pods" in of_text(alone).accepted().said(WAITS).hint
    plugin = {"config": json.dumps({"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["15b3"]}}]})}
    beside = of_text(alone, variables={"nic_cluster_policy": {"sriovDevicePlugin": plugin}})
    assert beside.accepted().said(WAITS).hint == notice.hint


def given(*bodies: Any) -> list[str]:
    """Return the notices about the driver beside these objects."""
    text = "---\n".join([*(json.dumps(each) + "\n" for each in bodies), json.dumps(POLICY)])
    return [each.problem for each in of_text(GUIDE + "---\n" + text).accepted().notices if "DRA driver" in each.problem]


def driver(image: str) -> Any:
    containers = [{"name": "plugin", "image": image}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "n"}, "spec": spec}


def test_nothing_waits_for_a_driver_that_is_given_as_well() -> None:
    of_claim, of_policy = given()
    assert ("nor is the definition of its kind" in of_policy, WAITS in of_claim) == (True, True)
    for image in ("quay.io/schseba/dra-driver-sriov:v1.0.0", "ghcr.io/k8snetworkplumbingwg/dra-driver-sriov"):
        assert given(driver(image)) == []
    assert len(given(driver("ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0"))) == 2


def test_a_definition_of_the_drivers_kinds_is_not_missed_where_it_is_given() -> None:
    names = {"kind": POLICY["kind"], "plural": "sriovresourcepolicies", "singular": "sriovresourcepolicy"}
    spec = {"group": CLASS["deviceClassName"], "names": names, "scope": "Namespaced", "versions": []}
    name = f"{names['plural']}.{spec['group']}"
    kind = "CustomResourceDefinition"
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    (of_policy,) = [each for each in given(definition) if WAITS not in each]
    assert of_policy.endswith("which is not deployed here")


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
