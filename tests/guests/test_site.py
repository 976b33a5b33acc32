# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``site`` on the guests: the programs that it deploys run, and pods get their networks and devices from them.

The tests build on each other, in the order of the file: the first release's policy, network and test pods; that of
``inventories/lab``, in the shape of the guide's, in their place; a second run; pods. Its policy stays for other files.
"""

from __future__ import annotations

import ipaddress
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Iterator, Sequence

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import NIC_LABEL
from ansible_collections.rdma.fabric.tests.bench.site import per_host
from ansible_collections.rdma.fabric.tests.guests.pods import (
    GONE_SECONDS,
    Json,
    addresses,
    await_ready,
    create,
    delete,
    get,
    inside,
    items,
    kubectl,
    links,
    name_of,
    networks,
    on_guest,
    rdma_pod,
    until,
)
from ansible_collections.rdma.fabric.tests.guests.site_runs import CARD as CARD_FOLDER
from ansible_collections.rdma.fabric.tests.guests.site_runs import (
    FUNCTIONS,
    await_offer,
    functions,
    rollouts,
    run_site,
    watched,
)
from ansible_collections.rdma.fabric.tests.integration.playbooks import SEEDS, Outcome, User, stored_writes
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.lab import POLICY

RESOURCE, FIRST_RESOURCE = "rdma/rdma_shared_device_a", "rdma/hca_shared_devices_a"
FUNCTION_RESOURCE = "nvidia.com/hostdev"
CARD = "enp1s0"
EGX, GUIDE = SEEDS / "egx-v0.1.0", SEEDS / "guide"
MTU = 9000
COUNT = f"{CARD_FOLDER}/sriov_numvfs"
PODS = ("first", "second")  # one on each guest
FIRST_PODS = ("rdma-test-pod-1", "rdma-test-pod-2")
MULTUS_KUBECONFIG = "/etc/cni/net.d/multus.d/multus.kubeconfig"
MULTUS_CONFIG = "/etc/cni/net.d/00-multus.conf*"
# Where Ansible and the connection keep what is theirs.
ANSIBLES_OWN = ("/root/.ansible/", "/run/sshd", "/run/utmp")


def adapted(source: Path, folder: Path, names: dict[str, str]) -> Path:
    """Write a file of a seed with the names of this place in those of its author's."""
    text = source.read_text(encoding="utf-8")
    for theirs, ours in names.items():
        text = text.replace(theirs, ours)
    path = folder / source.name
    path.write_text(text, encoding="utf-8")
    return path


def policy_of_the_first_release(folder: Path) -> Path:
    """Write the first release's policy, with what its users deployed beside it."""
    path = adapted(EGX / "nic-cluster-policy.yaml", folder, {"ens2f0": CARD})
    policy = yaml.safe_load(path.read_text(encoding="utf-8"))
    guide = yaml.safe_load((GUIDE / "nic-cluster-policy.yaml").read_text(encoding="utf-8"))
    policy["spec"]["secondaryNetwork"] = guide["spec"]["secondaryNetwork"]
    path.write_text(yaml.safe_dump(policy), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def egx(cluster_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab on which ``site`` ran with the first release's policy and network, and its test pods are Ready."""
    folder = tmp_path_factory.mktemp("egx")
    inventory = folder / "inventory.yml"  # the lab's guests as they are, with other cluster objects
    inventory.write_text(cluster_lab.inventory.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "group_vars").mkdir()
    shutil.copy(POLICY / "rdma_fabric.yml", folder / "group_vars")
    network = adapted(EGX / "rdma-net-cr-whereabouts-ipam.yml", folder, {"ens2f0": CARD})
    manifests = [str(policy_of_the_first_release(folder)), str(network)]
    run_site(cluster_lab, User(folder / "user"), inventory=inventory, rdma_fabric_manifests=manifests)
    await_offer(cluster_lab, FIRST_RESOURCE, 1000)
    names = dict(zip(("ubuntu00", "ubuntu"), reversed(cluster_lab.guests)))
    try:
        for number in (1, 2):
            kubectl(cluster_lab, "create", "-f", str(adapted(EGX / f"rdma-test-pod{number}.yml", folder, names)))
        await_ready(cluster_lab, FIRST_PODS)
        yield cluster_lab
    finally:
        delete(cluster_lab, *FIRST_PODS)


def test_every_program_of_the_first_releases_policy_runs_on_every_node(egx: Lab) -> None:
    assert_rolled_out(egx, "mlnx-network-operator")
    (plugin,) = pods_of(egx, "mlnx-network-operator", "rdma-shared-dp-ds")[0]["spec"]["containers"]
    assert plugin["image"] == "mellanox/k8s-rdma-shared-dev-plugin:v1.0.0"


def test_its_test_pods_have_a_second_interface_with_an_address_and_mtu_of_the_network(egx: Lab) -> None:
    assert_networked(egx, FIRST_PODS, "net1", "192.168.111.0/24")


def assert_rolled_out(lab: Lab, namespace: str) -> None:
    """Fail unless every workload of the collection is in the namespace, and comes to have all its pods Ready.

    An NFD that moves to another namespace forgets its labels until its workers report; nodes are without
    device plugins until then.
    """
    found = rollouts(lab)
    assert {name.split("/")[1] for name in found} == {namespace}
    assert {name.split("/")[2] for name in found} >= {
        *("kube-multus-ds", "cni-plugins-ds", "whereabouts", "rdma-shared-dp-ds"),
        *("nfd-worker", "nfd-master", "nfd-gc"),
    }
    counts = {"DaemonSet": len(lab.guests), "Deployment": 1}
    wanted = {name: (counts[name.split("/")[0]],) * 2 for name in found}
    until(lambda: rollouts(lab) == wanted, GONE_SECONDS, lambda: f"{rollouts(lab)}, not {wanted}")


def pods_of(lab: Lab, namespace: str, workload: str) -> list[Json]:
    """Give the pods of a DaemonSet."""
    return [each for each in items(lab, "pods", f"--namespace={namespace}") if name_of(each).startswith(f"{workload}-")]


def assert_networked(lab: Lab, pods: Sequence[str], interface: str, subnet: str) -> None:
    """Fail unless each pod has the cluster's interface, and a second one of the network; each has its own address."""
    seen = []
    for pod in pods:
        told, found = networks(lab, pod), links(lab, pod)
        assert {"lo", "eth0", interface} <= set(found)
        assert told["eth0"]["ips"] == [get(lab, "pod", pod)["status"]["podIP"]]
        assert found[interface]["mtu"] == MTU
        assert found[interface]["linkinfo"]["info_kind"] == "macvlan"
        (address,) = addresses(found[interface])
        assert told[interface]["ips"] == [address.split("/")[0]]
        assert ipaddress.ip_interface(address).network == ipaddress.ip_network(subnet)
        seen.append(address)
    assert len(set(seen)) == len(pods)
    far = seen[1].split("/")[0]
    ping = f"ping -I {interface} -M do -s {MTU - 28}"
    # The first packet to a new neighbour may be lost. The shell of busybox would take its own ping.
    said = inside(lab, pods[0], "bash", "-c", f"{ping} -c 1 {far} >/dev/null; {ping} -c 3 {far}")
    assert " 0% packet loss" in said


@dataclass
class Deployed:
    """The lab's own policy on its guests, and the user who ran it."""

    lab: Lab
    user: User
    first: Outcome

    @property
    def audit(self) -> AuditLog:
        """The requests of the API server."""
        return AuditLog(self.lab.audit_log, partial(self.lab.api.request, "GET"))


@pytest.fixture(scope="module")
def deployed(cluster_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """The guests in the state that ``inventories/lab`` asks for, with the guide's network beside it."""
    user = User(tmp_path_factory.mktemp("site"))
    adapted(GUIDE / "rdma-macvlan.yaml", user.here, {"ens3f0": CARD})
    return Deployed(cluster_lab, user, again(cluster_lab, user))


def again(lab: Lab, user: User) -> Outcome:
    """Run ``site`` with the lab's own inventory and the guide's network."""
    return run_site(lab, user, rdma_fabric_manifests=[str(user.here / "rdma-macvlan.yaml")])


def test_every_program_of_the_labs_policy_runs_in_the_place_of_the_one_before(deployed: Deployed) -> None:
    await_offer(deployed.lab, RESOURCE, 63)
    assert_rolled_out(deployed.lab, "nvidia-network-operator")
    guide = yaml.safe_load((GUIDE / "nic-cluster-policy.yaml").read_text(encoding="utf-8"))["spec"]
    # The device plugin is that of the lab's own release.
    wanted = {f"{each['repository']}/{each['image']}:{each['version']}" for each in guide["secondaryNetwork"].values()}
    pods = items(deployed.lab, "pods", "--namespace=nvidia-network-operator")
    assert wanted <= {container["image"] for pod in pods for container in pod["spec"]["containers"]}


def test_nfd_labels_the_nodes_with_what_they_are(deployed: Deployed) -> None:
    for node in items(deployed.lab, "nodes"):
        labels, kernel = node["metadata"]["labels"], node["status"]["nodeInfo"]["kernelVersion"].replace("+", "_")
        assert labels[NIC_LABEL] == "true"
        assert labels["feature.node.kubernetes.io/pci-8086.present"] == "true"
        assert labels["feature.node.kubernetes.io/kernel-version.full"] == kernel


def test_kubelet_offers_the_virtual_functions_that_the_sriov_plugin_found(deployed: Deployed) -> None:
    for guest in deployed.lab.guests:
        assert len(functions(deployed.lab, guest)) == FUNCTIONS
    await_offer(deployed.lab, FUNCTION_RESOURCE, FUNCTIONS)


def test_a_second_run_costs_one_module_per_host_and_writes_nothing_anywhere(deployed: Deployed) -> None:
    lab, mark = deployed.lab, deployed.audit.mark()
    with ExitStack() as watchers:
        changes = {guest: watchers.enter_context(watched(lab, guest)) for guest in lab.guests}
        outcome = again(lab, deployed.user)
    assert set(outcome.changed.values()) == {0}
    costs = per_host(outcome.counts)
    assert (costs["site.steady.modules_per_host"], costs["site.steady.skipped_per_host"]) == (1, 0)
    assert stored_writes(deployed.audit, mark) == []
    elsewhere = {
        guest: [each for each in found if not each["path"].startswith(ANSIBLES_OWN)] for guest, found in changes.items()
    }
    assert elsewhere == {guest: [] for guest in lab.guests}


def test_the_watcher_sees_what_a_run_would_have_written(deployed: Deployed) -> None:
    lab = deployed.lab
    (guest, *_others) = lab.guests
    with watched(lab, guest) as changes:
        on_guest(lab, guest, f"touch /etc/seen && rm /etc/seen && cat {COUNT} | tee {COUNT}")
    assert {"/etc/seen"} <= {each["path"] for each in changes}
    assert [each["path"] for each in changes if each["path"].endswith("/sriov_numvfs")]


@pytest.fixture(scope="module")
def pods(deployed: Deployed) -> Iterator[Lab]:
    """A pod on each guest, on the lab's network and the guide's."""
    lab = deployed.lab
    try:
        create(lab, [shared_pod(pod, guest) for pod, guest in zip(PODS, lab.guests)])
        yield lab
    finally:
        delete(lab, *PODS)


def shared_pod(name: str, guest: str) -> Json:
    """Give a pod with the shared resource, on the lab's network and the guide's."""
    return rdma_pod(name, guest, "rdma-shared, ai-training/rdma-macvlan", RESOURCE)


def test_pods_have_the_interfaces_that_they_ask_for_and_soft_rdma_on_the_labs_own(pods: Lab) -> None:
    assert_networked(pods, PODS, "net1", "192.168.210.0/24")
    for pod in PODS:
        assert networks(pods, pod)["net2"]["name"] == "ai-training/rdma-macvlan"
        assert inside(pods, pod, "ls", "/sys/class/infiniband").split() == ["rxe0"]
        assert "uverbs0" in inside(pods, pod, "ls", "/dev/infiniband").split()


def test_with_a_new_multus_a_new_pod_starts_and_gets_the_address_of_the_one_that_is_gone(pods: Lab) -> None:
    pod, guest = PODS[0], pods.guests[0]
    address = networks(pods, pod)["net1"]["ips"]
    before = on_guest(pods, guest, f"cat {MULTUS_KUBECONFIG}")
    delete(pods, pod)
    (multus,) = (
        name_of(each)
        for each in pods_of(pods, "nvidia-network-operator", "kube-multus-ds")
        if each["spec"]["nodeName"] == guest
    )
    delete(pods, multus, namespace="nvidia-network-operator", grace=10)  # its token ends with it

    def renewed() -> bool:
        found = pods.ssh(guest, f"ls {MULTUS_CONFIG} >/dev/null && cat {MULTUS_KUBECONFIG}")
        return found.returncode == 0 and found.stdout != before

    until(renewed, GONE_SECONDS, lambda: f"no new {MULTUS_KUBECONFIG}: {pods.kubectl('get', 'pods', '-A').stdout}")
    create(pods, [shared_pod(pod, guest)])
    assert networks(pods, pod)["net1"]["ips"] == address
    assert_networked(pods, PODS, "net1", "192.168.210.0/24")


def test_a_pod_gets_a_virtual_function_and_gives_it_back(deployed: Deployed) -> None:
    lab, pod = deployed.lab, "passed-through"
    delete(lab, *PODS)  # soft RDMA is one pod's at a time
    (guest, *_others) = lab.guests
    before = functions(lab, guest)
    try:
        create(lab, [rdma_pod(pod, guest, "rdma-vf", FUNCTION_RESOURCE)])
        link = links(lab, pod)["net1"]
        assert link["address"] in before
        assert functions(lab, guest) == {mac: name for mac, name in before.items() if mac != link["address"]}
        (address,) = addresses(link)
        assert ipaddress.ip_interface(address).network == ipaddress.ip_network("192.168.220.0/24")
    finally:
        delete(lab, pod)
    until(lambda: functions(lab, guest) == before, 60, lambda: f"{functions(lab, guest)}, not {before}")
