# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guests are nodes of a real cluster: pods run, reach each other and the API, and see what a node's cards have."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.programs import KUBERNETES_VERSION

IMAGE = "docker.io/mellanox/rping-test:latest"
NAMESPACE = "lab-test"
POD_SECONDS = 600  # an emulated guest on a busy machine takes its time
CARD = "$(dirname /sys/bus/pci/drivers/igb/0000:*/sriov_totalvfs)"
# A client as programs in pods are: the service's address from the environment, the pod's own token and authority.
IN_CLUSTER_CLIENT = """
import json, os, pathlib, ssl, urllib.request
secret = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
address = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    "https://%s:%s/apis/authentication.k8s.io/v1/selfsubjectreviews" % address, json.dumps(body).encode(),
    {"Authorization": "Bearer " + (secret / "token").read_text(), "Content-Type": "application/json"})
context = ssl.create_default_context(cafile=str(secret / "ca.crt"))
answer = json.load(urllib.request.urlopen(request, context=context, timeout=60))
print(address[0], answer["status"]["userInfo"]["username"])
"""


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(1)


def pod(node: str) -> dict[str, Any]:
    """Give a plain pod on a node; the node's own programs are below /usr, for Python."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"on-{node}", "namespace": NAMESPACE},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "3600"],
                    "volumeMounts": [{"name": "host", "mountPath": "/host", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "host", "hostPath": {"path": "/usr"}}],
        },
    }


@pytest.fixture(scope="module")
def pods(cluster_lab: Lab) -> Iterator[dict[str, str]]:
    """A running pod on every node: its name by node."""
    done(cluster_lab.kubectl("create", "namespace", NAMESPACE))
    try:
        manifests = {"apiVersion": "v1", "kind": "List", "items": [pod(node) for node in cluster_lab.guests]}
        # The controller manager makes the namespace's service account in its own time.
        create = json.dumps(manifests)
        until(lambda: cluster_lab.kubectl("apply", "-f", "-", stdin=create).returncode == 0, 30, "pods are taken")
        wait = ("wait", "--for=condition=Ready", "pod", "--all", f"--namespace={NAMESPACE}")
        done(cluster_lab.kubectl(*wait, f"--timeout={POD_SECONDS}s", timeout=2 * POD_SECONDS))
        yield {node: f"on-{node}" for node in cluster_lab.guests}
    finally:
        delete = ("delete", "namespace", NAMESPACE, f"--timeout={POD_SECONDS}s")
        cluster_lab.kubectl(*delete, timeout=2 * POD_SECONDS)


def inside(lab: Lab, name: str, *command: str) -> str:
    """Run a command in a pod."""
    return done(lab.kubectl("exec", f"--namespace={NAMESPACE}", name, "--", *command))


def test_every_guest_is_a_ready_node_with_an_address_of_its_own(cluster_lab: Lab) -> None:
    assert cluster_lab.nodes() == dict.fromkeys(cluster_lab.guests, True)
    items = json.loads(done(cluster_lab.kubectl("get", "nodes", "-o", "json")))["items"]
    addresses = {
        address["address"]
        for node in items
        for address in node["status"]["addresses"]
        if address["type"] == "InternalIP"
    }
    assert len(addresses) == len(cluster_lab.guests)
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in items} == {f"v{KUBERNETES_VERSION}"}
    assert all(node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://") for node in items)


def test_the_inventory_names_the_nodes_and_the_cluster(cluster_lab: Lab) -> None:
    everywhere = json.loads(cluster_lab.inventory.read_text(encoding="utf-8"))["all"]
    assert set(everywhere["children"]["rdma_fabric"]["hosts"]) == set(cluster_lab.nodes())
    assert everywhere["vars"]["rdma_fabric_kubeconfig"] == str(cluster_lab.kubeconfig)


def test_pods_run_where_they_shall_and_ping_each_other(cluster_lab: Lab, pods: dict[str, str]) -> None:
    addresses = {}
    for node, name in pods.items():
        item = json.loads(done(cluster_lab.kubectl("get", "pod", name, f"--namespace={NAMESPACE}", "-o", "json")))
        assert item["spec"]["nodeName"] == node
        addresses[node] = item["status"]["podIP"]
    assert len(set(addresses.values())) == len(pods)
    first, second = cluster_lab.guests[:2]
    assert " 0% packet loss" in inside(cluster_lab, pods[first], "ping", "-c", "3", addresses[second])


def test_a_client_in_a_pod_reaches_the_api_as_its_service_account(cluster_lab: Lab, pods: dict[str, str]) -> None:
    loader = ("/host/lib64/ld-linux-x86-64.so.2", "--library-path", "/host/lib/x86_64-linux-gnu")
    python = (*loader, "/host/bin/python3", "-I", "-S", "-c")
    home = "import sys; sys.path[:0] = sorted(map(str, __import__('pathlib').Path('/host/lib').glob('python3.*')))\n"
    said = inside(
        cluster_lab,
        pods[cluster_lab.guests[0]],
        "env",
        "PYTHONHOME=/host",
        *python,
        home + IN_CLUSTER_CLIENT,
    )
    assert said.split() == ["10.96.0.1", f"system:serviceaccount:{NAMESPACE}:default"]


def test_containers_see_soft_rdma_below_the_card_and_the_hosts_sys_stays_real(
    cluster_lab: Lab, pods: dict[str, str]
) -> None:
    for node, name in pods.items():
        card = done(cluster_lab.ssh(node, f"basename {CARD}")).strip()
        assert inside(cluster_lab, name, "ls", f"/sys/bus/pci/devices/{card}/infiniband") == "rxe0\n"
        assert inside(cluster_lab, name, "cat", f"/sys/bus/pci/devices/{card}/sriov_totalvfs") == "7\n"
        assert cluster_lab.ssh(node, f"test -e {CARD}/infiniband").returncode == 1


def test_virtual_functions_of_different_nodes_have_different_addresses(cluster_lab: Lab) -> None:
    seen: list[str] = []
    try:
        for node in cluster_lab.guests:
            done(cluster_lab.ssh(node, f"echo 2 > {CARD}/sriov_numvfs && udevadm settle"))
            found = done(cluster_lab.ssh(node, f"cat {CARD}/virtfn*/net/*/address")).split()
            assert len(found) == 2
            seen += found
            assert done(cluster_lab.ssh(node, "lsmod | grep -c ^igbvf")).strip() == "1"
    finally:
        for node in cluster_lab.guests:
            done(cluster_lab.ssh(node, f"echo 0 > {CARD}/sriov_numvfs"))
    assert len(set(seen)) == 2 * len(cluster_lab.guests)


def test_a_pulled_wire_takes_the_carrier_away_on_every_node_until_it_is_plugged_in(cluster_lab: Lab) -> None:
    def carriers() -> set[str]:
        return {done(cluster_lab.ssh(node, f"cat {CARD}/net/*/carrier")).strip() for node in cluster_lab.guests}

    until(lambda: carriers() == {"1"}, 60, "every card has a carrier")
    cluster_lab.pull_wire(0)
    try:
        until(lambda: carriers() == {"0"}, 30, "no card has a carrier")
        assert "state DOWN" in done(cluster_lab.ssh(cluster_lab.guests[0], "rdma link show rxe0/1"))
        assert all(cluster_lab.nodes().values())
    finally:
        cluster_lab.plug_wire(0)
    until(lambda: carriers() == {"1"}, 60, "every card has a carrier again")


def test_the_hosts_own_network_has_nothing_but_the_forwarder(cluster_lab: Lab) -> None:
    port = re.search(r":(\d+)$", json.loads(cluster_lab.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    assert port is not None
    listening = done(subprocess.run(["ss", "-Hltn"], check=False, capture_output=True, text=True))
    local = {line.split()[3] for line in listening.splitlines()}
    assert f"127.0.0.1:{port.group(1)}" in local
    assert not [each for each in local if each.endswith(":6443") or each.startswith("192.168.77.")]
