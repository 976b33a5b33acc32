# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide for OpenShift: its files and commands, as they are printed and in their order.

The cluster is a Kubernetes with those kinds of OpenShift that the guide speaks of. Nothing here admits pods as
OpenShift does: that accounts have what it asks for is read off the objects.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.operated import ATTACHMENTS, definition
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, run_bounded, stored
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL, apply_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from tools.checkout import CHECKOUT, PROGRAMS

Json = dict[str, Any]
PAGE = guide("guide-openshift.md")
FILES = ("hosts.yml", "scc.yaml", "pod.yaml")
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"^```shell\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
NAMESPACE = "nvidia-network-operator"
NODES = ("worker-1", "worker-2")
KINDS = (
    definition("config.openshift.io", "ClusterVersion", "clusterversions", "Cluster", "v1"),
    definition("security.openshift.io", "SecurityContextConstraints", "securitycontextconstraints", "Cluster", "v1"),
    definition(*ATTACHMENTS, "Namespaced", "v1"),
)
# Whose privileged pods OpenShift would not admit without a binding.
PRIVILEGED = {"rdma-shared", "nv-ipam-node", "nfd-worker"}


@pytest.fixture(scope="module")
def cluster(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with kinds of OpenShift, which come with objects like SecurityContextConstraints at the root."""
    with ControlPlane(tmp_path_factory.mktemp("openshift-guide"), programs=lab_programs) as running:
        for kind in KINDS:
            schema = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["x-kubernetes-preserve-unknown-fields"] = True
            running.api.apply(
                f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind['metadata']['name']}", kind
            )
        names = [f"crd/{kind['metadata']['name']}" for kind in KINDS]
        running.kubectl("wait", "--for=condition=Established", "--timeout=90s", *names)
        apply_nodes(running.api, [kwok_node(name, NIC_LABEL) for name in NODES])
        yield running


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    """Somebody with the files that the guide shows, in the place of a checkout's."""
    found = User(tmp_path_factory.mktemp("openshift-user"))
    for name, block in zip(FILES, blocks_of(PAGE)):
        (found.here / name).write_text(block, encoding="utf-8")
    (found.here / "playbooks").symlink_to(CHECKOUT / "playbooks")
    return found


def do(words: list[str], cluster: ControlPlane, user: User) -> str:
    """Do one command of the guide; playbooks run as the user whom it gives the rights to."""
    program, *arguments = words
    if program == "kubectl":
        return cluster.kubectl(*(str(user.here / each) if (user.here / each).is_file() else each for each in arguments))
    kubeconfig = cluster.client_kubeconfig("ci")
    argv = [str(PROGRAMS / program), *arguments]
    status, output = run_bounded(argv, user.here, user.environment(cluster, kubeconfig))
    assert status == 0, output
    return output


def offer(cluster: ControlPlane) -> None:
    """Have the nodes offer what the rendered configuration of the device plugin names."""
    config = json.loads(stored(cluster, "configmap", "rdma-devices", NAMESPACE)["data"]["config.json"])
    amounts = {f"rdma/{each['resourceName']}": "63" for each in config["configList"]}
    patch = json.dumps({"status": {"allocatable": amounts, "capacity": amounts}})
    for node in NODES:
        cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)


def listed(cluster: ControlPlane, kind: str) -> dict[str, Json]:
    items = json.loads(cluster.kubectl("get", kind, "--namespace", NAMESPACE, "-o", "json"))["items"]
    return {item["metadata"]["name"]: item for item in items}


def test_every_block_is_one_that_is_done() -> None:
    assert len(blocks_of(PAGE)) == len(FILES)
    assert all(f"`{name}`" in PAGE for name in FILES)
    assert len(re.findall(r"^```\w+$", PAGE, re.MULTILINE)) == len(FILES) + 5


def test_every_command_of_the_guide_does_what_it_says(cluster: ControlPlane, user: User) -> None:
    printed: list[tuple[str, str]] = []
    for words in COMMANDS:
        if words[:3] == ["kubectl", "get", "nodes"]:
            offer(cluster)
            assert_admitted(cluster)
        printed.append((" ".join(words), do(words, cluster, user)))
    (bindings,) = [output for command, output in printed if "get rolebindings" in command]
    assert set(bindings.split()) >= PRIVILEGED
    (nodes,) = [output for command, output in printed if "get nodes" in command]
    assert [line.split() for line in nodes.splitlines()[1:]] == [[node, "63"] for node in NODES]
    assert any(command.startswith("kubectl wait") and "condition met" in output for command, output in printed)
    assert listed(cluster, "daemonsets") == listed(cluster, "rolebindings") == {}
    kinds = cluster.kubectl("get", "crd", "-o", "name")
    assert all(kind["metadata"]["name"] in kinds for kind in KINDS)


def assert_admitted(cluster: ControlPlane) -> None:
    """What ran is what the guide says is done here, and each privileged pod's account may be privileged."""
    daemons = listed(cluster, "daemonsets")
    assert not {"kube-multus-ds", "cni-plugins-ds", "whereabouts"} & set(daemons)
    pods = {name: body["spec"]["template"]["spec"] for name, body in daemons.items()}
    assert {pod["serviceAccountName"] for pod in pods.values()} == PRIVILEGED
    folders = {each["name"]: each["hostPath"]["path"] for each in pods["nv-ipam-node"]["volumes"]}
    assert folders["cnibin"] == "/var/lib/cni/bin"
    roles, bindings = listed(cluster, "roles"), listed(cluster, "rolebindings")
    for account in PRIVILEGED:
        assert bindings[account]["roleRef"]["name"] == account
        assert [subject["name"] for subject in bindings[account]["subjects"]] == [account]
        granted = [rule for rule in roles[account]["rules"] if rule["apiGroups"] == ["security.openshift.io"]]
        assert [(rule["resourceNames"], rule["verbs"]) for rule in granted] == [(["privileged"], ["use"])]


def test_without_the_variable_nothing_is_changed(cluster: ControlPlane, user: User, tmp_path: Path) -> None:
    text = (user.here / "hosts.yml").read_text(encoding="utf-8")
    (tmp_path / "hosts.yml").write_text(text.replace("      rdma_fabric_openshift: true\n", ""), encoding="utf-8")
    refused = user.run(
        "site", inventory=tmp_path / "hosts.yml", cluster=cluster, kubeconfig=cluster.client_kubeconfig("ci")
    ).refused()
    assert "it is OpenShift, which would reject these privileged pods" in refused.message
    assert "it is OpenShift, which would reject these privileged pods" in PAGE
    assert listed(cluster, "daemonsets") == {}
