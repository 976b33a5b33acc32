# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an empty cluster to pods by SriovNetworkNodePolicy alone, on a booted node with two cards of igb and an IOMMU.

The tests build on each other, in the order of the file. The kernel's drivers, vfio and IOMMU groups are real, as are
the SR-IOV device plugin, kubelet, Multus and host-device, which is the CNI here: the module of sriov-cni is refused by
the Go proxy. The first card has VFs of two drivers; the second one goes into pods whole.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.guests.conftest import started
from ansible_collections.rdma.fabric.tests.guests.disturbed import calm_run, disturbed, problem_after
from ansible_collections.rdma.fabric.tests.guests.host_runs import FUNCTION, differences
from ansible_collections.rdma.fabric.tests.guests.pods import (
    NETWORKS,
    Json,
    addresses,
    create,
    delete,
    inside,
    links,
    on_guest,
    rdma_pod,
    until,
)
from ansible_collections.rdma.fabric.tests.guests.rolled_out import Fleet
from ansible_collections.rdma.fabric.tests.guests.site_runs import await_offer
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.lab import Options
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state
from ansible_collections.rdma.fabric.tests.lab.guests.topology import GUARDED
from ansible_collections.rdma.fabric.tests.lab.writing_calls import KILL
from ansible_collections.rdma.fabric.tests.sweeps import whole

GUEST = "rdma-1"
PORT, PORT_ADDRESS, PORT_MAC = "rail1", "0000:02:00.0", "52:54:00:78:01:01"
AT_HOME = {"name": PORT, "mtu": 9000, "addresses": ["10.77.1.1/24"]}
PLAIN, GIVEN, WHOLE = "nvidia.com/plain_vf", "nvidia.com/given_vf", "nvidia.com/whole_port"


def policy(resource: str, selector: Json, **others: Any) -> Json:
    """Give a policy for the ports of every node that match a selector."""
    return {
        "resourceName": resource,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "nicSelector": selector,
        **others,
    }


POLICIES = {
    "plain": policy("plain_vf", {"pfNames": ["enp1s0#0-1"]}, numVfs=4, mtu=9000, deviceType="netdevice"),
    "given": policy("given_vf", {"pfNames": ["enp1s0#2-3"]}, numVfs=4, deviceType="vfio-pci"),
    # The ports of the vendor that have no VFs.
    "port": policy("whole_port", {"vendor": "8086", "deviceID": "10c9"}, numVfs=0, externallyManaged=True),
}


def network(resource: str, number: int) -> Json:
    """Give a network that puts a device of a resource into pods."""
    ipam = {"type": "host-local", "subnet": f"192.168.{number}.0/24"}
    return {"networkNamespace": "default", "resourceName": resource, "ipam": json.dumps(ipam)}


VARIABLES = {
    "rdma_fabric_nfd": False,
    "rdma_fabric_nic_cluster_policy": {"secondaryNetwork": {"cniPlugins": {}, "multus": {}}},
    "rdma_fabric_sriov_node_policies": POLICIES,
    "rdma_fabric_host_device_networks": {"vf": network("plain_vf", 220), "port": network("whole_port", 221)},
    # What the policies do not ask for: how the second port is called.
    "rdma_fabric_interfaces": [{"pci": PORT_ADDRESS, "name": PORT, "mtu": AT_HOME["mtu"], "state": "up"}],
}
WISH = {
    "interfaces": [
        {"pci": FUNCTION, "mtu": 9000, "vfs": 4, "vf_driver": {"2-3": "vfio-pci"}, "vf_mtu": {"0-1": 9000}},
    ],
    "consents": {"vf_reset": True},
}
CONCERNS = {"vfs", "mtu", "boot"}
# What Multus has written for itself, which docs/guide-teardown.md says.
LEFT = "files /etc/cni/net.d/multus.d"
# Of each VF, in order: its driver, its group, and the MTU of its interface, if it has one.
LOOK = f"""
for each in /sys/bus/pci/devices/{FUNCTION}/virtfn*; do
    echo $(basename $(readlink $each/driver)) $(basename $(readlink $each/iommu_group)) $(cat $each/net/*/mtu)
done 2>/dev/null
"""


@pytest.fixture(scope="module")
def guarded(capable: None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab of one node behind an IOMMU: one that was named, or one of the file's own."""
    named = os.environ.get("RDMA_FABRIC_LAB")
    if named and read_state(Path(named))["topology"] == GUARDED:
        yield Lab(Path(named))
        return
    options = Options(tmp_path_factory.mktemp("guarded"), guests=1, rails=2, topology=GUARDED)
    for directory in started(options, pytestconfig):
        yield Lab(directory)


def test_wherever_a_write_of_mixed_functions_is_killed_the_next_run_gets_there(guarded: Lab) -> None:
    with disturbed(guarded.directory, GUEST, WISH) as host:
        calm = calm_run(GUEST, host, CONCERNS)
        assert sorted(calm.there["drivers"].values()).count(["vfio-pci", "vfio-pci"]) == 2
        points = [point for point in calm.points if whole() or point.path.startswith("/sys/bus/pci/drivers/")]
        points += [point for point in calm.points if point.path.endswith("/driver_override")][-1:]
        assert len(points) > 1
        assert {point: found for point in points if (found := problem_after(calm, point, KILL))} == {}


class Policies(Fleet):
    """The node, what it was before the first run, and somebody who runs the playbooks."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        inventory = folder / "inventory.yml"  # the lab's guest, with nothing asked of it
        inventory.write_text(lab.inventory.read_text(encoding="utf-8"), encoding="utf-8")
        super().__init__(lab, User(folder / "user"), inventory)
        self.reboot()  # earlier tests leave modules that only a start unloads
        self.before = self.snapshots()[GUEST]

    def site(self, **variables: Any) -> dict[str, int]:
        """Run ``site``; it has to succeed. Give how much it has changed, by host."""
        return dict(self.run("site", **{**VARIABLES, **variables}).succeeded().changed)

    def functions(self) -> list[list[str]]:
        """Give the driver, group and MTU of each VF."""
        lines = on_guest(self.lab, GUEST, LOOK).splitlines()
        return [line.split() for line in lines if line.strip()]  # a blank one where there is no VF

    def port(self) -> dict[str, Any]:
        """Give the second port as the host has it, if it has it."""
        shown = json.loads(on_guest(self.lab, GUEST, "ip -json address show"))
        place = "basename $(readlink -f /sys/class/net/{}/device)"
        ports = [
            link for link in shown if self.lab.ssh(GUEST, place.format(link["ifname"])).stdout == f"{PORT_ADDRESS}\n"
        ]
        return {"name": ports[0]["ifname"], "mtu": ports[0]["mtu"], "addresses": addresses(ports[0])} if ports else {}


@pytest.fixture(scope="module")
def fleet(guarded: Lab, tmp_path_factory: pytest.TempPathFactory) -> Policies:
    return Policies(guarded, tmp_path_factory.mktemp("policies"))


def assert_mixed(fleet: Policies) -> None:
    """Fail unless the VFs are what the policies ask for, and the node offers all of them."""
    found = fleet.functions()
    assert [[driver, *mtu] for driver, _group, *mtu in found] == [["igbvf", "9000"]] * 2 + [["vfio-pci"]] * 2
    assert len({group for _driver, group, *_mtu in found}) == len(found)
    for resource, amount in ((PLAIN, 2), (GIVEN, 2), (WHOLE, 1)):
        await_offer(fleet.lab, resource, amount)


def test_policies_alone_make_functions_of_two_drivers_and_a_node_that_offers_them(fleet: Policies) -> None:
    fleet.site()
    assert_mixed(fleet)
    assert set(fleet.site().values()) == {0}


def test_after_a_reboot_functions_and_offers_are_there_without_a_run(fleet: Policies) -> None:
    fleet.reboot()
    assert_mixed(fleet)
    assert set(fleet.site().values()) == {0}


def pod(name: str, resource: str, attached: str = "") -> Json:
    """Give a pod with a device of a resource, on a network where one is named."""
    found = rdma_pod(name, GUEST, attached, resource)
    if not attached:
        del found["metadata"]["annotations"][NETWORKS]
    return found


@pytest.fixture(scope="module")
def pods(fleet: Policies) -> Iterator[Lab]:
    """A pod with a VF as its interface, and one with a VF for a driver of its own."""
    names = ("with-interface", "with-group")
    try:
        create(fleet.lab, [pod(names[0], PLAIN, "vf"), pod(names[1], GIVEN)])
        yield fleet.lab
    finally:
        delete(fleet.lab, *names)


def given(lab: Lab, name: str) -> dict[str, str]:
    """Give the devices that a pod's environment names, by variable."""
    lines = inside(lab, name, "env").splitlines()
    found = dict(line.split("=", 1) for line in lines if line.startswith("PCIDEVICE_"))
    return {variable: value for variable, value in found.items() if not variable.endswith("_INFO")}


def test_a_pod_gets_the_group_of_its_function_and_no_other(fleet: Policies, pods: Lab) -> None:
    ((variable, function),) = given(pods, "with-group").items()
    assert variable == "PCIDEVICE_NVIDIA_COM_GIVEN_VF"
    groups = [group for driver, group, *_mtu in fleet.functions() if driver == "vfio-pci"]
    group = on_guest(pods, GUEST, f"basename $(readlink /sys/bus/pci/devices/{function}/iommu_group)").strip()
    assert inside(pods, "with-group", "ls", "/dev/vfio").split() == sorted([group, "vfio"])
    (other,) = {*groups} - {group}
    opened = "exec 3<>{} && echo open"
    assert inside(pods, "with-group", "bash", "-c", opened.format(f"/dev/vfio/{group}")) == "open\n"
    # A node that the pod could have made itself is refused by its control group.
    made = f"""
        for each in $(pgrep -x sleep); do
            [ -e /proc/$each/root/dev/vfio/{group} ] && cp -a /dev/vfio/{other} /proc/$each/root/other
        done
        true
    """
    on_guest(pods, GUEST, made)
    refused = pods.kubectl("exec", "with-group", "--", "bash", "-c", opened.format("/other"))
    assert "/other: Operation not permitted" in refused.stderr


def test_a_pod_gets_a_function_as_its_interface(fleet: Policies, pods: Lab) -> None:
    (variable,) = given(pods, "with-interface")
    assert variable == "PCIDEVICE_NVIDIA_COM_PLAIN_VF"
    link = links(pods, "with-interface")["net1"]
    assert link["mtu"] == 9000
    assert addresses(link)[0].startswith("192.168.220.")
    assert pods.kubectl("exec", "with-interface", "--", "ls", "/dev/vfio").returncode != 0
    assert [driver for driver, _group, *mtu in fleet.functions() if mtu] == ["igbvf"]


def test_the_function_is_back_on_the_host_after_its_pod(fleet: Policies, pods: Lab) -> None:
    delete(pods, "with-interface", "with-group")
    until(lambda: [len(each) for each in fleet.functions()] == [3, 3, 2, 2], 60, lambda: f"{fleet.functions()}")
    assert_mixed(fleet)


@pytest.fixture
def port_in_a_pod(fleet: Policies) -> Iterator[Lab]:
    """A pod that has the whole second port, which is back on the host after it."""
    assert fleet.port() == AT_HOME
    try:
        create(fleet.lab, [pod("with-port", WHOLE, "port")])
        yield fleet.lab
    finally:
        delete(fleet.lab, "with-port")
    until(lambda: fleet.port() == AT_HOME, 60, lambda: f"{fleet.port()}")


def test_a_run_leaves_a_port_alone_that_a_pod_has_whole(fleet: Policies, port_in_a_pod: Lab) -> None:
    assert given(port_in_a_pod, "with-port") == {"PCIDEVICE_NVIDIA_COM_WHOLE_PORT": PORT_ADDRESS}
    assert links(port_in_a_pod, "with-port")["net1"]["mtu"] == AT_HOME["mtu"]
    assert fleet.port() == {}
    assert set(fleet.site().values()) == {0}


def test_a_port_comes_back_from_a_pod_that_is_killed_hard(fleet: Policies, port_in_a_pod: Lab) -> None:
    # The pod and its network namespace end, and nobody gives the port back: kubelet would, and start the pod anew.
    command = f"""
        systemctl stop kubelet
        for each in $(pgrep -x pause); do
            nsenter --target $each --net ip link show net1 2>/dev/null | grep -q {PORT_MAC} && found=$each
        done
        space=$(readlink /proc/$found/ns/net)
        for each in /run/netns/*; do
            if [ "net:[$(stat -c %i $each)]" = "$space" ]; then umount $each && rm $each; fi
        done
        for each in $(pgrep -x 'sleep|pause'); do
            if [ "$(readlink /proc/$each/ns/net)" = "$space" ]; then kill -9 $each; fi
        done
    """
    try:
        on_guest(port_in_a_pod, GUEST, command)
        until(lambda: fleet.port() == AT_HOME, 60, lambda: f"{fleet.port()}")
    finally:
        on_guest(port_in_a_pod, GUEST, "systemctl start kubelet")


def test_a_port_comes_back_when_its_node_is_rebooted_with_it_in_a_pod(fleet: Policies, port_in_a_pod: Lab) -> None:
    fleet.reboot()


def test_after_a_teardown_the_node_is_what_it_was_before_the_first_run(fleet: Policies) -> None:
    consents = {"rdma_fabric_allow_teardown": True, "rdma_fabric_allow_vf_reset": True}
    fleet.run("teardown", **VARIABLES, **consents).succeeded()
    assert fleet.functions() == []
    fleet.reboot()
    assert [line for line in differences(fleet.before, fleet.snapshots()[GUEST]) if not line.startswith(LEFT)] == []
