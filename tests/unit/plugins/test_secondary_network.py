# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task for one secondary network, as far as it goes without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

IPAM = '{"type": "whereabouts", "range": "192.168.111.0/24"}'


def rendered(**arguments: Any) -> dict[str, Any]:
    return run_action("secondary_network", {"state": "rendered", "name": "rdma-net", **arguments})


def test_a_network_in_the_vendor_s_shape_becomes_an_attachment() -> None:
    result = rendered(kind="MacvlanNetwork", spec={"master": "ens2f0", "mtu": 9000, "ipam": IPAM})
    assert result["changed"] is False
    assert result["config"] == {
        "cniVersion": "0.3.1",
        "name": "rdma-net",
        "type": "macvlan",
        "master": "ens2f0",
        "mtu": 9000,
        "ipam": {"type": "whereabouts", "range": "192.168.111.0/24"},
    }
    assert result["object"]["metadata"]["namespace"] == "default"


def test_a_device_network_carries_its_resource() -> None:
    result = rendered(kind="HostDeviceNetwork", spec={"resourceName": "hostdev"}, namespace="hpc")
    metadata = result["object"]["metadata"]
    assert metadata["namespace"] == "hpc"
    assert metadata["annotations"] == {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/hostdev"}


def test_configuration_text_is_stored_unchanged() -> None:
    text = '{ "cniVersion":"0.3.1",\n"type":"macvlan", "master": "ens3f0" }'
    result = rendered(config=text, annotations={"a": "b"})
    assert result["object"]["spec"]["config"] == text
    assert result["object"]["metadata"]["annotations"] == {"a": "b"}
    assert rendered(config={"type": "macvlan", "master": "x"})["config"] == {"type": "macvlan", "master": "x"}


def test_the_namespace_may_come_from_the_spec_but_not_from_two_sides() -> None:
    spec = {"master": "a", "networkNamespace": "hpc"}
    assert rendered(kind="MacvlanNetwork", spec=spec)["object"]["metadata"]["namespace"] == "hpc"
    assert rendered(kind="MacvlanNetwork", spec=spec, namespace="hpc")["object"]["metadata"]["namespace"] == "hpc"
    result = rendered(kind="MacvlanNetwork", spec=spec, namespace="other")
    assert result["violations"][0]["path"] == "namespace"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "neither kind nor config"),
        ({"kind": "MacvlanNetwork", "config": "{}"}, "mutually exclusive"),
        ({"spec": {}}, "kind"),
        ({"kind": "VlanNetwork"}, "MacvlanNetwork"),
        ({"kind": "MacvlanNetwork", "spec": {"mastr": "a"}}, "master"),
        ({"kind": "MacvlanNetwork", "spec": {"ipam": "{"}}, "not valid JSON"),
        ({"kind": "IPoIBNetwork", "spec": {}}, "master"),
        ({"config": "{"}, "not valid JSON"),
        ({"config": {"type": "macvlan", "mode": "brigde"}}, "bridge"),
        ({"config": "{}", "name": "Not_A_Name"}, "name"),
        ({"config": "{}", "namespace": "a.b"}, "namespace"),
    ],
)
def test_flaws_are_told(arguments: dict[str, Any], words: str) -> None:
    result = rendered(**arguments)
    assert result["failed"]
    assert words in result["msg"]


def test_what_will_surprise_is_a_notice() -> None:
    result = rendered(kind="MacvlanNetwork", spec={})
    assert any("default route" in notice for notice in result["notices"])
    result = rendered(config={"cniVersion": "0.3.1", "type": "ib-sriov", "ibKubernetesEnabled": True})
    assert any("pkey" in notice for notice in result["notices"])


def test_a_flaw_is_placed_in_the_task_s_own_arguments() -> None:
    result = rendered(kind="MacvlanNetwork", spec={"ipam": '{"type": "whereabouts", "range": "x"}'})
    assert [(each["source"], each["path"]) for each in result["violations"]] == [("arguments", "ipam -> range")]
    result = rendered(config='{"type": "macvlan", "mtu": -1}', name="a.b")
    assert [(each["source"], each["path"]) for each in result["violations"]] == [("arguments", "config -> mtu")]
