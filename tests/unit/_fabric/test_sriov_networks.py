# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks of the SR-IOV operator become the attachments that it makes of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.sriov_networks import OPEN_VSWITCH
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_text, resource

HEAD: dict[str, Any] = {"cniVersion": "1.0.0", "name": "net"}
SRIOV: dict[str, Any] = {"type": "sriov", "vlan": 0, "vlanQoS": 0, "logLevel": "info", "ipam": {}}
IPAM: dict[str, Any] = {"type": "whereabouts", "range": "192.168.8.0/24"}
DEVICE = "k8s.v1.cni.cncf.io/resourceName"


def given(kind: str, spec: dict[str, Any], **metadata: Any) -> Fabric:
    return Fabric([resource(kind, "net", {"resourceName": "vfs", **spec}, **metadata)], [])


def attachment_of(fabric: Fabric) -> dict[str, Any]:
    objects = objects_of(render(fabric.accepted().spec))
    found: dict[str, Any] = next(each for each in objects if each["kind"] == "NetworkAttachmentDefinition")
    return found


def config_of(kind: str, **spec: Any) -> Any:
    return json.loads(attachment_of(given(kind, spec))["spec"]["config"])


@pytest.mark.parametrize(
    ("kind", "spec", "config"),
    [
        ("SriovNetwork", {}, {**HEAD, **SRIOV}),
        ("SriovNetwork", {"ipam": json.dumps(IPAM, indent=2)}, {**HEAD, **SRIOV, "ipam": IPAM}),
        (
            "SriovNetwork",
            {"minTxRate": 0, "maxTxRate": 0, "logLevel": ""},
            {**HEAD, "type": "sriov", "vlan": 0, "vlanQoS": 0, "min_tx_rate": 0, "max_tx_rate": 0, "ipam": {}},
        ),
        ("SriovNetwork", {"metaPlugins": '{"type": "vrf"}'}, {**HEAD, "plugins": [SRIOV, {"type": "vrf"}]}),
        (
            "SriovNetwork",
            {
                "vlan": 100,
                "vlanQoS": 5,
                "vlanProto": "802.1ad",
                "spoofChk": "off",
                "trust": "on",
                "linkState": "auto",
                "minTxRate": 10,
                "maxTxRate": 1000,
                "capabilities": '{"mac": true, "ips": true}',
                "logLevel": "debug",
                "logFile": "/var/log/sriov.log",
            },
            {
                **HEAD,
                "type": "sriov",
                "vlan": 100,
                "spoofchk": "off",
                "trust": "on",
                "vlanQoS": 5,
                "vlanProto": "802.1ad",
                "min_tx_rate": 10,
                "max_tx_rate": 1000,
                "capabilities": {"mac": True, "ips": True},
                "link_state": "auto",
                "logLevel": "debug",
                "logFile": "/var/log/sriov.log",
                "ipam": {},
            },
        ),
        ("SriovIBNetwork", {}, {**HEAD, "type": "ib-sriov", "ipam": {}}),
        (
            "SriovIBNetwork",
            {"linkState": "enable", "capabilities": '{"infinibandGUID": true}', "ipam": json.dumps(IPAM)},
            {
                **HEAD,
                "type": "ib-sriov",
                "capabilities": {"infinibandGUID": True},
                "link_state": "enable",
                "ipam": IPAM,
            },
        ),
        ("OVSNetwork", {"mtu": 1500}, {**HEAD, "type": "ovs", "mtu": 1500, "ipam": {}}),
        (
            "OVSNetwork",
            {
                "capabilities": '{"mac": true}',
                "bridge": "br-rail",
                "vlan": 100,
                "mtu": 1500,
                "trunk": [{"id": 120}, {"minID": 500, "maxID": 550}],
                "interfaceType": "netdev",
            },
            {
                **HEAD,
                "type": "ovs",
                "capabilities": {"mac": True},
                "bridge": "br-rail",
                "vlan": 100,
                "mtu": 1500,
                "trunk": [{"id": 120}, {"minID": 500, "maxID": 550}],
                "interface_type": "netdev",
                "ipam": {},
            },
        ),
    ],
)
def test_the_configuration_is_the_operators(kind: str, spec: dict[str, Any], config: dict[str, Any]) -> None:
    found = config_of(kind, **spec)
    assert found == config
    assert list(found) == list(config)


def test_pods_get_their_device_from_the_resource_with_the_vendors_prefix() -> None:
    annotations = attachment_of(given("SriovNetwork", {}))["metadata"]["annotations"]
    assert annotations == {DEVICE: "nvidia.com/vfs"}


@pytest.mark.parametrize(
    ("spec", "metadata", "namespace"),
    [
        ({"networkNamespace": "ai"}, {"namespace": "nvidia-network-operator"}, "ai"),
        ({}, {"namespace": "tenant"}, "tenant"),
        ({}, {}, "default"),
    ],
)
def test_the_attachment_lies_where_the_network_says_or_beside_it(
    spec: dict[str, Any], metadata: dict[str, str], namespace: str
) -> None:
    fabric = given("SriovNetwork", spec, **metadata)
    assert attachment_of(fabric)["metadata"]["namespace"] == namespace
    assert not [notice for notice in fabric.notices if notice.path.endswith("amespace")]


@pytest.mark.parametrize(("namespace", "named"), [("", False), ("sriov-network-operator", False), ("tenant", True)])
def test_a_network_outside_the_operators_namespace_that_gives_another_one_is_named(namespace: str, named: bool) -> None:
    fabric = given("SriovNetwork", {"networkNamespace": "ai"}, namespace=namespace)
    assert ["spec.networkNamespace"] * named == [each.path for each in fabric.notices if "namespace" in each.problem]


@pytest.mark.parametrize(
    ("kind", "spec", "path", "words"),
    [
        ("SriovNetwork", {"resourceName": ""}, "spec.resourceName", "is empty"),
        ("SriovNetwork", {"resourceName": "nvidia.com/vfs"}, "spec.resourceName", "is put in front"),
        ("SriovNetwork", {"spoofchk": "on"}, "spec.spoofchk", "did you mean spoofChk"),
        ("SriovNetwork", {"trust": True}, "spec.trust", "not text"),
        ("SriovNetwork", {"vlan": 4095}, "spec.vlan", "0 to 4094"),
        ("SriovNetwork", {"vlanQoS": 3}, "spec.vlanQoS", "a vlan other than 0"),
        ("SriovNetwork", {"vlanProto": "802.1AD"}, "spec.vlanProto", "a vlan other than 0"),
        ("SriovNetwork", {"minTxRate": 20, "maxTxRate": 10}, "spec.minTxRate", "above the highest rate 10"),
        ("SriovNetwork", {"capabilities": '{"mac": "yes"}'}, "spec.capabilities -> mac", "true or false"),
        ("SriovNetwork", {"capabilities": "[1]"}, "spec.capabilities", "not a mapping"),
        ("SriovNetwork", {"capabilities": "{"}, "spec.capabilities", "is not valid JSON"),
        ("SriovNetwork", {"ipam": '{"type": "whereabouts", "range": "x"}'}, "spec.ipam -> range", "not a network"),
        ("SriovNetwork", {"metaPlugins": '{"typ": "sbr"}'}, "spec.metaPlugins -> [0].type", "must name a CNI plugin"),
        ("SriovNetwork", {"metaPlugins": '[{"type": "sbr"}]'}, "spec.metaPlugins", "without"),
        ("SriovIBNetwork", {"vlan": 5}, "spec.vlan", "unknown field in SriovIBNetwork"),
        ("SriovIBNetwork", {"linkState": "up"}, "spec.linkState", "not one of auto, enable, disable"),
        ("OVSNetwork", {"trunk": [{"id": 1, "minID": 2}]}, "spec.trunk[0]", "neither one VLAN nor a range"),
        ("OVSNetwork", {"trunk": [{"minID": 3, "maxID": 2}]}, "spec.trunk[0]", "minID above"),
    ],
)
def test_what_the_server_or_the_plugin_refuses_is_refused(
    kind: str, spec: dict[str, Any], path: str, words: str
) -> None:
    assert words in given(kind, spec).wrong(path).sentence()


@pytest.mark.parametrize(
    ("kind", "component", "image"),
    [
        ("SriovNetwork", "sriov-cni", "sriov-cni"),
        ("SriovIBNetwork", "ib-sriov-cni", "ib-sriov-cni"),
        ("OVSNetwork", "ovs-cni", "ovs-cni-plugin"),
    ],
)
def test_networks_bring_their_program_to_every_node(kind: str, component: str, image: str) -> None:
    fabric = given(kind, {}).accepted()
    found = {each["metadata"]["name"]: each for each in objects_of(render(fabric.spec)) if each["kind"] == "DaemonSet"}
    assert [name for name in found if name.endswith("-cni-ds")] == [f"{component}-ds"]
    assert not [notice for notice in fabric.notices if "names the program" in notice.problem]
    pod = found[f"{component}-ds"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"nvcr.io/nvidia/mellanox/{image}:network-operator-v26.7.0"
    assert pod["tolerations"][0] == {"operator": "Exists"}
    assert pod.get("nodeSelector", {}) == {}


@pytest.mark.parametrize("kind", ["SriovNetwork", "HostDeviceNetwork"])
def test_a_network_that_moves_the_rdma_device_brings_the_program_for_it(kind: str) -> None:
    spec = {"resourceName": "vfs", "metaPlugins": '{"type": "rdma"}'}
    fabric = Fabric([resource(kind, "net", spec)], []).accepted()
    assert not [notice for notice in fabric.notices if "names the program rdma" in notice.problem]
    sets = [each for each in objects_of(render(fabric.spec)) if each["metadata"]["name"] == "rdma-cni-ds"]
    (container,) = sets[0]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "nvcr.io/nvidia/mellanox/rdma-cni:network-operator-v26.7.0"
    assert container["volumeMounts"] == [{"mountPath": "/host/opt/cni/bin", "name": "cnibin"}]


class TestOpenVSwitch:
    """ovs-cni, whose image has nothing that copies its programs."""

    def test_that_the_nodes_need_it_is_said_once(self) -> None:
        networks = [resource("OVSNetwork", name, {"resourceName": "vfs", "bridge": "br0"}) for name in ("a", "b")]
        said = Fabric(networks, []).accepted().said("needs Open vSwitch on the nodes")
        assert (said.path, "/var/run/openvswitch/db.sock" in said.hint) == ("spec", True)
        assert not [each for each in given("SriovNetwork", {}).notices if "Open vSwitch" in each.problem]

    def test_a_mirror_behind_another_network_brings_it_too(self) -> None:
        spec = {"resourceName": "vfs", "metaPlugins": '{"type": "ovs-mirror-producer", "bridge": "br0", "mirrors": []}'}
        fabric = Fabric([resource("SriovNetwork", "net", spec)], []).accepted()
        assert fabric.said("needs Open vSwitch on the nodes").path == "spec.metaPlugins -> [0].type"
        assert "ovs-cni-ds" in {each["metadata"]["name"] for each in objects_of(render(fabric.spec))}

    def test_its_pod_puts_the_programs_in_place_of_older_ones_and_ends_when_told_to(self, tmp_path: Path) -> None:
        image, folder = tmp_path / "image", tmp_path / "bin"
        for directory, text in ((image, "new"), (folder, "old")):
            directory.mkdir()
            for program in OPEN_VSWITCH:
                (directory / program).write_text(text)
        sleep = tmp_path / "sleep"
        sleep.write_text("#!/bin/sh\necho asleep\nexec /bin/sleep infinity\n")
        sleep.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        with (folder / "ovs").open() as running, subprocess.Popen(
            self.command(image, folder), env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as pod:
            try:
                assert pod.stdout is not None
                assert pod.stdout.readline() == "asleep\n"
                assert {each.name: each.read_text() for each in folder.iterdir()} == dict.fromkeys(OPEN_VSWITCH, "new")
                assert running.read() == "old"
                pod.terminate()
                assert pod.wait(60) == 0
            finally:
                os.killpg(pod.pid, signal.SIGKILL)

    def test_its_pod_fails_where_a_program_is_missing(self, tmp_path: Path) -> None:
        found = subprocess.run(self.command(tmp_path, tmp_path), check=False, capture_output=True)
        assert found.returncode != 0

    @staticmethod
    def command(image: Path, folder: Path) -> list[str]:
        """Return what the container runs, with other folders for those of the image and of the node."""
        objects = objects_of(render(given("OVSNetwork", {}).accepted().spec))
        (body,) = (each for each in objects if each["metadata"]["name"] == "ovs-cni-ds")
        (container,) = body["spec"]["template"]["spec"]["containers"]
        shell, option, script = container["command"]
        script = script.replace("/host/opt/cni/bin", str(folder)).replace(" /ovs", f" {image}/ovs")
        return [shell, option, script]


def test_an_attachment_given_as_such_brings_no_program() -> None:
    config = json.dumps({"cniVersion": "1.0.0", "type": "sriov"})
    variables = {"network_attachments": {"net": {"config": config, "annotations": {DEVICE: "nvidia.com/vfs"}}}}
    fabric = of_text(variables=variables).accepted()
    assert fabric.said("names the program sriov,")
    assert not [each for each in objects_of(render(fabric.spec)) if each["kind"] == "DaemonSet"]


def test_addresses_are_held_against_other_networks_of_the_same_functions() -> None:
    networks = [
        resource("SriovNetwork", name, {"resourceName": "vfs", "ipam": json.dumps({**IPAM, "range": cidr})})
        for name, cidr in (("one", "10.1.0.0/16"), ("two", "10.1.8.0/24"))
    ]
    assert "overlaps" in Fabric(networks, []).wrong("spec.ipam -> ipam").problem


def test_the_group_of_the_kinds_is_the_sriov_operators() -> None:
    text = "apiVersion: mellanox.com/v1alpha1\nkind: SriovNetwork\nmetadata: {name: a}\nspec: {resourceName: a}\n"
    assert "sriovnetwork.openshift.io/v1" in of_text(text).wrong("apiVersion").hint
