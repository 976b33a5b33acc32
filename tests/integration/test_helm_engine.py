# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine helm: a real Helm installs a chart, and its operator is given the custom resources as they are."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.after_site import push
from ansible_collections.rdma.fabric.tests.integration.charts import (
    NAMESPACE,
    WAIT_SECONDS,
    HelmUser,
    make_chart,
    operator,
    pack,
    releases,
    repository,
)
from ansible_collections.rdma.fabric.tests.integration.guides import guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User, stored, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from tools.rights import FILE

Json = dict[str, Any]
NAMESPACES, RBAC = "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1"
EXTENSIONS = "/apis/apiextensions.k8s.io/v1"
SHARED = '{"configList": [{"resourceName": "shared", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}'
INPUT: Json = {
    "rdma_fabric_engine": "helm",
    "rdma_fabric_helm_chart": "network-operator",
    "rdma_fabric_helm_values": {"operator": {"mood": "curious"}},
    "rdma_fabric_helm_set": ["nfd.enabled=true"],
    "rdma_fabric_nic_cluster_policy": {"rdmaSharedDevicePlugin": {"config": SHARED}, "nvIpam": {}},
    "rdma_fabric_macvlan_networks": {"rail0": {"master": "rail0", "ipam": '{"type": "nv-ipam", "poolName": "rail0"}'}},
    "rdma_fabric_ip_pools": {"rail0": {"subnet": "192.168.0.0/20", "perNodeBlockSize": 24, "gateway": "192.168.0.1"}},
    "rdma_fabric_wait_timeout": 60,
}
GIVEN = {
    "nicclusterpolicy/nic-cluster-policy": INPUT["rdma_fabric_nic_cluster_policy"],
    "macvlannetwork/rail0": INPUT["rdma_fabric_macvlan_networks"]["rail0"],
    "ippool/rail0": INPUT["rdma_fabric_ip_pools"]["rail0"],
}


class Emptied:
    """A cluster that serves one test after another, as if it were new for each."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self._own = self._groups(), self._names(NAMESPACES)

    def empty(self) -> None:
        """Take away the definitions, roles and namespaces that were made, all that is in them, and the node."""
        self._delete(f"{EXTENSIONS}/customresourcedefinitions")
        for kind in ("clusterroles", "clusterrolebindings"):
            self._delete(f"{RBAC}/{kind}", labelSelector="kubernetes.io/bootstrapping!=rbac-defaults")
        for name in self._names(NAMESPACES) - self._own[1]:
            self._delete(f"{NAMESPACES}/{name}")
        until(
            lambda: (self._groups(), self._names(NAMESPACES)) == self._own, WAIT_SECONDS, "what a test made does not go"
        )
        delete_nodes(self.cluster.api, ["gpu-01"])

    def _delete(self, path: str, **query: str) -> None:
        self.cluster.api.call("DELETE", path, query=query)

    def _names(self, path: str) -> set[str]:
        return {each["metadata"]["name"] for each in self.cluster.api.call("GET", path)["items"]}

    def _groups(self) -> set[str]:
        """Return the groups that the server tells clients of, which it does for a moment after they went."""
        return {each["name"] for each in self.cluster.api.call("GET", "/apis")["groups"]}


@pytest.fixture(scope="module")
def emptied(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emptied]:
    with ControlPlane(tmp_path_factory.mktemp("helm-engine"), programs=lab_programs) as running:
        yield Emptied(running)


@pytest.fixture
def cluster(emptied: Emptied) -> Iterator[ControlPlane]:
    """A cluster of one node, and nothing else but what the server makes."""
    apply_nodes(emptied.cluster.api, [kwok_node("gpu-01")])
    yield emptied.cluster
    emptied.empty()


@pytest.fixture
def user(tmp_path: Path) -> User:
    found = HelmUser(tmp_path)
    make_chart(found.here / "network-operator")
    return found


def given(cluster: ControlPlane) -> dict[str, Json]:
    """Return the specs of the custom resources as the API server stores them."""
    named = {name: name.partition("/")[::2] for name in GIVEN}
    return {name: stored(cluster, kind, found, NAMESPACE)["spec"] for name, (kind, found) in named.items()}


@dataclass(frozen=True)
class Installed:
    """A cluster with the chart that a user has installed, what check mode said of that, and the releases it left."""

    cluster: ControlPlane
    user: User
    foretold: Outcome
    releases_before: Json


@pytest.fixture(scope="module")
def installed(emptied: Emptied, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """What the first tests of the file have in common; the last one of them takes it back."""
    cluster, user = emptied.cluster, HelmUser(tmp_path_factory.mktemp("installed"))
    make_chart(user.here / "network-operator")
    apply_nodes(cluster.api, [kwok_node("gpu-01")])
    foretold, before = user.run("site", "--check", "--diff", variables=INPUT, cluster=cluster), releases(cluster)
    with operator(cluster):
        user.run("site", variables=INPUT, cluster=cluster).succeeded()
    return Installed(cluster, user, foretold, before)


def test_the_chart_is_installed_and_given_what_the_user_gave(installed: Installed) -> None:
    cluster, user, foretold = installed.cluster, installed.user, installed.foretold.succeeded()
    assert installed.releases_before == {}
    assert "mood: curious" in foretold.output
    assert "would be installed" in foretold.output

    assert given(cluster) == GIVEN
    (labels,) = releases(cluster).values()
    assert (labels["name"], labels["status"]) == ("network-operator", "deployed")
    pod = stored(cluster, "deployment", "network-operator", NAMESPACE)["spec"]["template"]
    assert pod["metadata"]["labels"]["mood"] == "curious"

    mark = cluster.audit.mark()
    again = user.run("site", variables=INPUT, cluster=cluster).succeeded()
    assert again.changed["localhost"] == 0, again.output
    assert stored_writes(cluster.audit, mark) == []
    assert user.report()["asked"]["engine"] == "helm"
    notices = user.report()["notices"]
    assert any("network-operator matches the input" in each for each in notices), notices
    user.run("drift", variables=INPUT, cluster=cluster).succeeded()


DIRECT = {"rdma_fabric_nic_cluster_policy": {"rdmaSharedDevicePlugin": {"config": SHARED}}, "rdma_fabric_nfd": False}


def test_the_engine_direct_and_another_release_take_nothing_of_it(installed: Installed) -> None:
    cluster, user = installed.cluster, installed.user
    mark = cluster.audit.mark()
    for playbook in ("site", "teardown"):
        consent = {"rdma_fabric_allow_teardown": True, "rdma_fabric_wait": False}
        refused = user.run(playbook, variables={**DIRECT, **consent}, cluster=cluster).refused()
        assert "was made by the engine helm, not direct" in refused.message
    other = {**INPUT, "rdma_fabric_helm_release": "other", "rdma_fabric_namespace": "other", "rdma_fabric_set": "other"}
    refused = user.run("site", variables=other, cluster=cluster).refused()
    theirs = "nvidia-network-operator/network-operator (Helm's release network-operator in nvidia-network-operator)"
    assert f"that is not of the release other in other: {theirs}" in refused.message
    assert "rdma_fabric_helm_release and rdma_fabric_namespace" in refused.message
    assert stored_writes(cluster.audit, mark) == []


def test_the_shipped_role_is_enough_where_the_release_is_as_wanted(installed: Installed) -> None:
    """Who installs the chart holds what it makes; who brings another network does not have to."""
    cluster, user = installed.cluster, installed.user
    ci = cluster.client_kubeconfig("ci")
    refused = user.run("site", variables=INPUT, cluster=cluster, kubeconfig=ci).refused()
    assert "secrets" in refused.message
    assert "rdma-fabric-helm" in refused.message
    cluster.kubectl("apply", f"--filename={FILE}")
    cluster.kubectl("create", "clusterrolebinding", "ci", "--clusterrole=rdma-fabric-helm", "--user=ci")
    section = guide("rights.md").partition("## With the engine helm")[2]
    for line in re.findall(r"^kubectl .*$", section.partition("## ")[0], re.MULTILINE):
        cluster.kubectl(*shlex.split(line)[1:])
    networks = {"rail0": {**INPUT["rdma_fabric_macvlan_networks"]["rail0"], "mtu": 9000}}
    other = {**INPUT, "rdma_fabric_macvlan_networks": networks}
    user.run("site", variables=other, cluster=cluster, kubeconfig=ci).succeeded()
    assert stored(cluster, "macvlannetwork", "rail0")["spec"]["mtu"] == 9000
    shown = user.run("status", variables=other, cluster=cluster, kubeconfig=ci).refused()
    assert shown.message.startswith("no node offers rdma/shared;"), shown.output
    assert "were not read" not in shown.output
    assert "engine: helm, release network-operator in nvidia-network-operator" in shown.output


def test_another_value_upgrades_and_a_teardown_takes_all_of_it_back(installed: Installed) -> None:
    cluster, user = installed.cluster, installed.user
    other = {**INPUT, "rdma_fabric_helm_values": {"operator": {"mood": "bright"}}}
    foretold = user.run("site", "--check", "--diff", variables=other, cluster=cluster).succeeded()
    assert re.search(r"^-\s+mood: curious$", foretold.output, re.MULTILINE), foretold.output
    assert foretold.changed["localhost"]
    assert "would be upgraded (from network-operator-26.7.0)" in foretold.output
    assert "without the plugin helm-diff" in foretold.output
    user.run("site", variables=other, cluster=cluster).succeeded()
    assert stored(cluster, "deployment", "network-operator", NAMESPACE)["spec"]["template"]["metadata"]["labels"] == {
        "app": "operator",
        "mood": "bright",
    }
    assert {labels["version"] for labels in releases(cluster).values()} == {"1", "2"}

    consents = {"rdma_fabric_allow_teardown": True, "rdma_fabric_delete_definitions": True}
    user.run("teardown", variables={**other, **consents}, cluster=cluster).succeeded()
    assert releases(cluster) == {}
    left = cluster.kubectl("get", "nicclusterpolicies,macvlannetworks", "--output=name")
    assert left == ""
    assert f"namespace/{NAMESPACE}" not in cluster.kubectl("get", "namespaces", "--output=name")


def test_the_engine_helm_takes_nothing_that_direct_has_made(cluster: ControlPlane, user: User) -> None:
    push(cluster, NAMESPACE, DIRECT, wait=False)
    mark = cluster.audit.mark()
    refused = user.run("site", variables=INPUT, cluster=cluster).refused()
    assert "was made by the engine direct, not helm" in refused.message
    assert "rdma.fabric.teardown and rdma_fabric_engine: direct" in refused.message
    assert stored_writes(cluster.audit, mark) == []


def test_a_release_that_failed_is_upgraded_again(cluster: ControlPlane, user: User) -> None:
    hopeless = {
        **INPUT,
        "rdma_fabric_helm_values": {"operator": {"nodeSelector": {"nowhere": "true"}}},
        "rdma_fabric_wait_timeout": 3,
    }
    refused = user.run("site", variables=hopeless, cluster=cluster).refused()
    assert "helm: " in refused.message
    assert {labels["status"] for labels in releases(cluster).values()} == {"failed"}
    cluster.kubectl("label", "node", "gpu-01", "nowhere=true")
    with operator(cluster):
        user.run("site", variables={**hopeless, "rdma_fabric_wait_timeout": 60}, cluster=cluster).succeeded()
    assert [labels["status"] for labels in releases(cluster).values()].count("deployed") == 1


def test_kinds_that_nobody_brings_are_named(cluster: ControlPlane, user: User) -> None:
    refused = user.run("site", variables={**INPUT, "rdma_fabric_wait_timeout": 15}, cluster=cluster).refused()
    assert "the cluster lacks IPPool (nv-ipam.nvidia.com/v1alpha1), which an operator installs" in refused.message
    assert "check that the operator runs" in refused.message
    assert (
        stored(cluster, "nicclusterpolicy", "nic-cluster-policy")["spec"]
        == GIVEN["nicclusterpolicy/nic-cluster-policy"]
    )


def test_a_repository_and_an_archive_serve_as_well_as_a_folder(cluster: ControlPlane, user: User) -> None:
    """The archive of a repository, and the same archive as a file, are one release."""
    shelf = user.here / "shelf"
    pack(user.here / "network-operator", shelf)
    given = {
        name: INPUT[name] for name in ("rdma_fabric_engine", "rdma_fabric_helm_values", "rdma_fabric_wait_timeout")
    }
    with repository(shelf) as address:
        user.run("site", variables={**given, "rdma_fabric_helm_chart_repository": address}, cluster=cluster).succeeded()
        refused = user.run(
            "site",
            variables={
                **given,
                "rdma_fabric_helm_chart_repository": address,
                "rdma_fabric_helm_chart_version": "26.4.9",
            },
            cluster=cluster,
        ).refused()
    assert "rdma_fabric_helm_chart, _repository and _version" in refused.message
    archive = str(next(shelf.glob("*.tgz")))
    again = user.run("site", variables={**given, "rdma_fabric_helm_chart": archive}, cluster=cluster).succeeded()
    assert again.changed["localhost"] == 0, again.output
    assert len(releases(cluster)) == 1


def test_what_would_be_installed_is_rendered_without_a_cluster(user: User) -> None:
    variables = {**INPUT, "rdma_fabric_render_dir": "objects"}
    user.run("render", variables=variables).succeeded()
    bodies = [yaml.safe_load(path.read_text("utf-8")) for path in sorted((user.here / "objects").glob("*/*.yaml"))]
    kinds = [body["kind"] for body in bodies]
    assert kinds[0] == "Namespace"
    assert kinds.index("CustomResourceDefinition") < kinds.index("Deployment") < kinds.index("MacvlanNetwork")
    assert {"NicClusterPolicy", "IPPool"} < set(kinds)
    (deployment,) = [body for body in bodies if body["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["metadata"]["labels"]["mood"] == "curious"
    again = user.run("render", variables=variables).succeeded()
    assert again.changed["localhost"] == 0


def test_without_helm_nothing_is_begun(cluster: ControlPlane, tmp_path: Path) -> None:
    nobody = User(tmp_path / "nobody")
    make_chart(nobody.here / "network-operator")
    mark = cluster.audit.mark()
    refused = nobody.run("site", variables=INPUT, cluster=cluster).refused()
    assert "the controller has no program helm on PATH" in refused.message
    assert stored_writes(cluster.audit, mark) == []


def test_what_operator_and_host_would_both_do_is_refused_with_all_that_is_wrong(user: User, tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    host = {
        "rdma_fabric_driver": {"flavour": "inbox"},
        "rdma_fabric_netns_mode": "shared",
        "rdma_fabric_interfaces": [{"pci": "0000:18:00.0", "name": "rail0", "vfs": 8}],
    }
    inventory.write_text(yaml.safe_dump({"rdma_fabric": {"hosts": {"gpu-01": host}}}), encoding="utf-8")
    functions = {"resourceName": "rail0", "numVfs": 8, "nodeSelector": {"a": "b"}, "nicSelector": {"vendor": "15b3"}}
    variables = {
        **INPUT,
        "rdma_fabric_helm_chart": "./gone.tgz",
        "rdma_fabric_helm_chart_version": ">=26",
        "rdma_fabric_helm_release": "No Name",
        "rdma_fabric_nic_cluster_policy": {"ofedDriver": {"version": "doca3.4.0-26.04-0.8.9.0-0"}},
        "rdma_fabric_sriov_node_policies": {"rail0": functions},
        "rdma_fabric_sriov_pool_configs": {"all": {"rdmaMode": "exclusive"}},
    }
    found = user.run("preflight", inventory=inventory, variables=variables).refused().violations()
    assert {each["source"] for each in found} == {
        "host gpu-01: rdma_fabric_driver",
        "host gpu-01: rdma_fabric_interfaces",
        "host gpu-01: rdma_fabric_netns_mode",
        "rdma_fabric_helm_chart",
        "rdma_fabric_helm_chart_version",
        "rdma_fabric_helm_release",
    }
    kept = {**functions, "externallyManaged": True}
    apart = {
        **INPUT,
        "rdma_fabric_sriov_node_policies": {"rail0": kept},
        "rdma_fabric_nic_cluster_policy": INPUT["rdma_fabric_nic_cluster_policy"],
    }
    user.run("preflight", inventory=inventory, variables=apart).succeeded()
