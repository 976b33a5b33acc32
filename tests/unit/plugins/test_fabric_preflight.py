# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_preflight: what would keep a run from its end is told before it changes a host."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.action import fabric_preflight as fabric_preflight_action
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import DEFAULT_NAMESPACE
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Patience
from ansible_collections.rdma.fabric.plugins.modules import fabric_preflight
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import SEEDS
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import failure, good
from ansible_collections.rdma.fabric.tests.unit._k8s.reviewer import Reviewer, rule
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

POLICY = SEEDS / "guide" / "nic-cluster-policy.yaml"
SMALL = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own leads to a cluster."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST"):
        monkeypatch.delenv(name, raising=False)


def spec(*objects: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = run_action("fabric_input", {})["spec"]
    return {**found, "objects": list(objects)}


def kubeconfig(path: Path, server: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@dataclass
class Server:
    """An address, what answers there, and the status that it answers to everything instead, if any."""

    address: str
    behind: Reviewer
    refusal: tuple[int, str] | None = None


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server("", Reviewer(user="alice"))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            reply = found.behind.send(self.command, self.path, self.rfile.read(length), None)
            code, body = reply.code, reply.body
            if found.refusal is not None:
                code, body = found.refusal[0], json.dumps({"kind": "Status", "message": found.refusal[1]}).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_what: Any) -> None:
            """Say nothing."""

    for method in ("POST", "PATCH", "DELETE", "PUT"):
        setattr(Handler, f"do_{method}", Handler.do_GET)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        found.address = f"http://127.0.0.1:{listening.server_address[1]}"
        yield found
        listening.shutdown()
        thread.join()


def ready(server: Server, folder: Path, *objects: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Run the module for some objects."""
    path = kubeconfig(folder / "k", server.address)
    found: dict[str, Any] = run_action("fabric_preflight", {"spec": spec(*objects), "kubeconfig": path, **options})
    return found


def test_hosts_alone_need_no_cluster_and_that_is_said(tmp_path: Path) -> None:
    result = run_action("fabric_preflight", {"spec": spec(), "run_dir": str(tmp_path / "run")})
    assert (result.get("failed"), result["changed"], result["objects"], result["server"]) == (None, False, 0, "")
    assert "with hosts only, no cluster is contacted" in result["notices"][0]
    assert (tmp_path / "run").is_dir()
    # A run that leaves the cluster objects to another one says nothing of them.
    assert run_action("fabric_preflight", {"spec": spec(), "push": False})["notices"] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no kubeconfig"), ("{", "makes no connection"), ("", "makes no connection")],
)
def test_a_kubeconfig_that_is_missing_or_broken_is_told(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    result = run_action("fabric_preflight", {"spec": spec(SMALL), "kubeconfig": str(path)})
    assert result["failed"]
    assert result["msg"].startswith("prerequisites are not met, so no host was changed:\n  - the cluster: ")
    assert said in result["msg"]
    assert str(path) in result["msg"]


def test_a_context_that_the_kubeconfig_does_not_have_is_told(tmp_path: Path) -> None:
    arguments = {
        "spec": spec(SMALL),
        "kubeconfig": kubeconfig(tmp_path / "k", "http://127.0.0.1:9"),
        "context": "there",
    }
    result = run_action("fabric_preflight", arguments)
    assert result["failed"]
    assert "there" in result["msg"]
    assert "check kubeconfig, context" in result["msg"]


def test_the_user_is_named_and_nothing_is_written(tmp_path: Path, server: Server) -> None:
    result = ready(server, tmp_path, SMALL)
    assert not result.get("failed"), result
    # The namespace of the object is wanted as well.
    assert (result["server"], result["user"], result["objects"]) == (server.address, "alice", 2)
    assert server.behind.written() == []
    # Who is it, and what may it do?
    assert result["requests"]["post"] == 2


@pytest.mark.parametrize(
    ("is_openshift", "said", "words"),
    [
        (True, {}, "it is OpenShift"),
        (True, {"openshift": False}, "next: set rdma_fabric_openshift: true"),
        (True, {"openshift": True}, ""),
        (False, {"openshift": True}, "it is not OpenShift, as it has no clusterversions.config.openshift.io"),
        (False, {"openshift": False}, ""),
    ],
)
def test_what_is_said_of_openshift_is_held_against_the_cluster(
    tmp_path: Path, server: Server, is_openshift: bool, said: dict[str, bool], words: str
) -> None:
    listed = good({"resources": [{"name": "clusterversions", "kind": "ClusterVersion", "namespaced": False}]})
    answers = {"/apis/config.openshift.io/v1": listed} if is_openshift else {}
    server.behind.intercept = lambda _number, _method, path: answers.get(path)
    wanted: dict[str, Any] = run_action("fabric_input", said)["spec"]
    arguments = {"spec": {**wanted, "objects": [SMALL]}, "kubeconfig": kubeconfig(tmp_path / "k", server.address)}
    for groups in (None, ["apps/v1", *(["config.openshift.io/v1"] if is_openshift else [])]):
        server.behind.groups = groups
        result = run_action("fabric_preflight", arguments)
        assert bool(result.get("failed")) is bool(words)
        assert words in result.get("msg", "")


def test_groups_that_the_server_does_not_list_are_not_asked_for(tmp_path: Path, server: Server) -> None:
    server.behind.groups = ["apps/v1", "sriovnetwork.openshift.io/v1"]
    assert not ready(server, tmp_path, SMALL).get("failed")
    asked = [path for _method, path, _query in server.behind.requests]
    assert asked.count("/apis") == 1
    assert asked.count("/apis/sriovnetwork.openshift.io/v1") == 1
    assert {"/apis/mellanox.com/v1alpha1", "/apis/config.openshift.io/v1"} & set(asked) == set()


@pytest.mark.parametrize(("version", "noticed"), [("v1.31.4", True), ("v1.35.1", False)])
def test_a_server_that_is_old_is_noticed(tmp_path: Path, server: Server, version: str, noticed: bool) -> None:
    server.behind.version = version
    assert any("older" in notice for notice in ready(server, tmp_path, SMALL)["notices"]) is noticed


def test_who_may_not_ask_for_the_version_is_told(tmp_path: Path, server: Server) -> None:
    refusal = failure(403, "Forbidden", "/version is forbidden")
    server.behind.intercept = lambda _number, _method, path: refusal if path == "/version" else None
    found = ready(server, tmp_path, SMALL)
    assert any(each.startswith("the version of the server was not checked: ") for each in found["notices"]), found


@pytest.mark.parametrize("code", [401, 403])
def test_a_user_that_the_server_does_not_know_is_told(tmp_path: Path, server: Server, code: int) -> None:
    server.refusal = (code, "no")
    message = ready(server, tmp_path, SMALL)["msg"]
    assert message.startswith("prerequisites are not met, so no host was changed:\n  - the cluster: ")
    assert ("renew the token or client certificate" if code == 401 else "grant the user this verb") in message


def test_a_user_without_rights_is_told_all_that_are_missing_in_one_error(tmp_path: Path, server: Server) -> None:
    server.behind.rules = {"": [rule("", "namespaces", "get list")]}
    message = ready(server, tmp_path, *({**SMALL, "metadata": {"name": str(n), "namespace": "b"}} for n in range(9)))
    lines = message["msg"].splitlines()
    own = "nvidia-network-operator"
    assert lines[1:-1] == [
        "  - the cluster: the user alice lacks rights that this run uses:",
        f"      create, delete, get, update leases.coordination.k8s.io in the namespace {own}",
        f"      create, get, list, patch configmaps in the namespaces b, {own}",
        "      create, patch namespaces in the whole cluster",
    ]
    assert "ClusterRole rdma-fabric-push" in lines[-1]


def test_an_object_that_the_server_refuses_is_told_before_the_hosts(tmp_path: Path, server: Server) -> None:
    refusal = failure(422, "Invalid", "ConfigMap b/a: data.k: Invalid value")
    refused = {"/api/v1/namespaces/b/configmaps/a": refusal}
    server.behind.put("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}})
    server.behind.intercept = lambda _number, method, path: refused.get(path) if method == "PATCH" else None
    message = ready(server, tmp_path, SMALL)["msg"]
    assert "data.k: Invalid value" in message
    assert "no host was changed" in message


def test_a_change_of_a_pool_that_moves_nodes_to_other_addresses_is_noticed(tmp_path: Path, server: Server) -> None:
    server.behind.plurals["ippools"] = "IPPool"
    pool: dict[str, Any] = {
        "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": "rail0", "namespace": "b"},
        "spec": {"subnet": "192.168.0.0/24", "perNodeBlockSize": 20},
    }
    server.behind.put("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}})
    apply(server.behind, wave(pool), inventory_namespace=DEFAULT_NAMESPACE)
    allocation = {"nodeName": "n1", "startIP": "192.168.0.21", "endIP": "192.168.0.40"}
    server.behind.objects[("ippools", "b", "rail0")]["status"] = {"allocations": [allocation]}
    others = [{**pool, "spec": {**pool["spec"], "perNodeBlockSize": size}} for size in (20, 10)]
    said = [ready(server, tmp_path, each, set="web")["notices"] for each in others]
    (notice,) = set(said[1]) - set(said[0])
    assert notice.startswith(
        "IPPool b/rail0: the change moves nodes to other addresses (n1). Pods that run keep theirs"
    )


def test_what_is_dropped_is_no_matter_where_nothing_is_pruned(tmp_path: Path, server: Server) -> None:
    found = ready(server, tmp_path, SMALL, prune=False, set="web", force_conflicts=False)
    assert not found.get("failed"), found


SLICE = {"awx_workflow_job_name": "site", "awx_job_template_name": "site"}
AT_LOCALHOST = {"groups": {"all": ["gpu-01", "localhost"]}}


class TestSlicesOfAwx:
    """A slice may be without localhost, and what an inventory sets for it alone is unknown there."""

    def look(self, server: Server, folder: Path, task_vars: dict[str, Any], **options: Any) -> dict[str, Any]:
        other = {**SMALL, "metadata": {"name": "other", "namespace": "b"}}
        server.behind.put("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}})
        apply(server.behind, wave(SMALL, other), inventory_namespace=DEFAULT_NAMESPACE)
        arguments = {"spec": spec(SMALL), "kubeconfig": kubeconfig(folder / "k", server.address), "set": "web"}
        return run_action("fabric_preflight", {**arguments, **options}, task_vars=task_vars)

    def test_one_without_localhost_deletes_nothing(self, tmp_path: Path, server: Server) -> None:
        found = self.look(server, tmp_path, SLICE)
        assert "this job may be a slice of its template" in found["msg"]
        assert "It would delete ConfigMap b/other (next: rdma_fabric_prune: false" in found["msg"]

    @pytest.mark.parametrize(
        "task_vars",
        [{}, {**SLICE, **AT_LOCALHOST}, {**SLICE, "awx_workflow_job_name": "nightly"}],
        ids=["no job of AWX", "with localhost", "a workflow of another name"],
    )
    def test_others_do(self, tmp_path: Path, server: Server, task_vars: dict[str, Any]) -> None:
        assert not self.look(server, tmp_path, task_vars).get("failed")

    def test_one_that_deletes_nothing_goes_on(self, tmp_path: Path, server: Server) -> None:
        assert not self.look(server, tmp_path, SLICE, prune=False).get("failed")

    @pytest.mark.parametrize(("name", "refused"), [("site", True), ("nightly", False)])
    def test_none_takes_the_cluster_side_down(self, tmp_path: Path, server: Server, name: str, refused: bool) -> None:
        task_vars = {**SLICE, **AT_LOCALHOST, "tower_job_template_name": "site", "awx_workflow_job_name": name}
        found = self.look(server, tmp_path, task_vars, state="absent", allow_teardown=True)
        assert ("tear down with a template without slices" in str(found.get("msg"))) == refused


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    arguments = {"spec": spec(SMALL), "run_dir": str(tmp_path / "file" / "run"), "kubeconfig": str(tmp_path / "none")}
    message = run_action("fabric_preflight", arguments)["msg"]
    assert f"the run directory {tmp_path / 'file'}" in message
    assert "there is no kubeconfig" in message


def test_what_can_not_be_rendered_is_told_before_the_hosts(tmp_path: Path) -> None:
    result = run_action("fabric_preflight", {"spec": spec(SMALL, SMALL)})
    assert result["failed"]
    assert result["violations"]


def test_the_examples_run(tmp_path: Path, server: Server) -> None:
    _load, task, _teardown = (task for task in yaml.safe_load(fabric_preflight.EXAMPLES))
    arguments = task["rdma.fabric.fabric_preflight"]
    arguments["spec"] = run_action("fabric_input", {"manifests": [str(POLICY)]})["spec"]
    arguments["run_dir"] = str(tmp_path / arguments["run_dir"])
    arguments["kubeconfig"] = kubeconfig(tmp_path / "k", server.address)
    assert run_action("fabric_preflight", arguments)["objects"] > 10


POOL = {"rail-0": {"subnet": "10.1.0.0/16", "perNodeBlockSize": 8}}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-01"},
    "spec": {"podCIDRs": ["10.244.0.0/24", "fd00::/64"]},
    "status": {
        "addresses": [{"type": "Hostname", "address": "10.1.0.9"}, {"type": "InternalIP", "address": "10.2.0.5"}]
    },
}
SHARED = {"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}
SERVICE_CIDR = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {"name": "kubernetes"},
    "spec": {"cidrs": ["10.96.0.0/16"]},
}
API_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "spec": {"clusterIPs": ["10.97.0.1"]},
}


class TestAddressRanges:
    """Ranges of networks are held against what the cluster has, before a host is changed."""

    def look(self, server: Server, folder: Path, subnet: str = "10.1.0.0/16", **variables: Any) -> dict[str, Any]:
        server.behind.put("nodes", NODE)
        server.behind.plurals.update(servicecidrs="ServiceCIDR", services="Service")
        server.behind.put("servicecidrs", SERVICE_CIDR)
        server.behind.put("services", API_SERVICE)
        pool = {"rail-0": {**POOL["rail-0"], "subnet": subnet}}
        given = {"ip_pools": pool, "nic_cluster_policy": {"nvIpam": {}}, **variables}
        wanted = run_action("fabric_input", given)["spec"]
        arguments = {"spec": wanted, "kubeconfig": kubeconfig(folder / "k", server.address)}
        found: dict[str, Any] = run_action("fabric_preflight", arguments)
        return found

    @pytest.mark.parametrize(
        ("subnet", "words"),
        [
            ("10.2.0.0/16", "assigns addresses that hosts have: 10.2.0.5 (node gpu-01)"),
            ("10.244.0.0/16", "overlaps the network of the cluster's pods: 10.244.0.0/24 (node gpu-01)"),
            ("10.96.128.0/24", "overlaps the network of the cluster's services: 10.96.0.0/16 (ServiceCIDR kubernetes)"),
        ],
    )
    def test_what_the_cluster_has_is_refused(self, tmp_path: Path, server: Server, subnet: str, words: str) -> None:
        message = self.look(server, tmp_path, subnet)["msg"]
        assert "no host was changed" in message
        assert f"rdma_fabric_ip_pools: IPPool/rail-0 spec: {subnet} {words}" in message

    def test_other_ranges_are_no_matter(self, tmp_path: Path, server: Server) -> None:
        found = self.look(server, tmp_path)
        assert not found.get("failed"), found["msg"]
        assert [notice for notice in found["notices"] if "address ranges" in notice] == []

    def test_a_route_over_networks_of_the_cluster_is_a_notice(self, tmp_path: Path, server: Server) -> None:
        policy: dict[str, Any] = {"secondaryNetwork": {"multus": {}, "cniPlugins": {}}}
        net = {"master": "rail0", "ipam": json.dumps({"type": "static", "routes": [{"dst": "10.0.0.0/8"}]})}
        found = self.look(server, tmp_path, ip_pools={}, nic_cluster_policy=policy, macvlan_networks={"rail": net})
        assert not found.get("failed"), found["msg"]
        (notice,) = (each for each in found["notices"] if "narrower route" in each)
        assert "10.0.0.0/8 takes pods in 10.244.0.0/24 (node gpu-01) and services in 10.96.0.0/16 (" in notice
        assert "from pods of MacvlanNetwork/rail unless" in notice

    def test_an_older_server_tells_services_by_the_one_of_its_own(self, tmp_path: Path, server: Server) -> None:
        server.behind.unserved.add("servicecidrs")
        message = self.look(server, tmp_path, "10.97.0.0/16")["msg"]
        assert "overlaps the network of the cluster's services: 10.97.0.1 (Service kubernetes)" in message

    @pytest.mark.parametrize(
        ("refused", "words"),
        [("nodes", "nodes"), ("servicecidrs", "network of services")],
    )
    def test_what_the_user_may_not_read_is_named(
        self, tmp_path: Path, server: Server, refused: str, words: str
    ) -> None:
        refusal = failure(403, "Forbidden", f"{refused} is forbidden")
        server.behind.intercept = lambda _number, _method, path: refusal if path.endswith(f"/{refused}") else None
        found = self.look(server, tmp_path, "10.2.0.0/16" if refused == "nodes" else "10.96.0.0/16")
        assert not found.get("failed"), found["msg"]
        (notice,) = (notice for notice in found["notices"] if "address ranges" in notice)
        assert f"address ranges are not held against the {words}: " in notice
        assert f"{refused} is forbidden" in notice

    def test_without_a_range_nothing_is_asked(self, tmp_path: Path, server: Server) -> None:
        assert not ready(server, tmp_path, SMALL).get("failed")
        assert [path for _method, path, _query in server.behind.requests if "nodes" in path or "service" in path] == []


class TestFolders:
    """CNI programs go where the nodes' runtime looks for them."""

    POLICY: ClassVar[dict[str, Any]] = {"secondaryNetwork": {"multus": {}, "cniPlugins": {}}}

    def look(
        self,
        server: Server,
        folder: Path,
        policy: dict[str, Any],
        *,
        version: str = "v1.31.4+k3s1",
        **settings: Any,
    ) -> dict[str, Any]:
        labels = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
        node = {**NODE, "metadata": {"name": "gpu-01", "labels": labels}}
        server.behind.put(
            "nodes",
            {**node, "status": {**NODE["status"], "nodeInfo": {"kubeletVersion": version, "architecture": "arm64"}}},
        )
        wanted = run_action("fabric_input", {"nic_cluster_policy": policy, **settings})["spec"]
        arguments = {"spec": wanted, "kubeconfig": kubeconfig(folder / "k", server.address)}
        found: dict[str, Any] = run_action("fabric_preflight", arguments)
        return found

    def test_those_of_k3s_are_asked_for_by_name(self, tmp_path: Path, server: Server) -> None:
        message = self.look(server, tmp_path, self.POLICY)["msg"]
        assert "no host was changed" in message
        assert "the cluster: k3s (of the nodes gpu-01) has its CNI programs in /var/lib/rancher/k3s/data/cni" in message
        assert "next: rdma_fabric_cni_conf_dir: /var/lib/rancher/k3s/agent/etc/cni/net.d" in message

    def test_given_ones_are_followed(self, tmp_path: Path, server: Server) -> None:
        conf = "/var/lib/rancher/k3s/agent/etc/cni/net.d"
        found = self.look(server, tmp_path, self.POLICY, cni_bin_dir="/data/k3s/data/cni", cni_conf_dir=conf)
        assert not found.get("failed"), found["msg"]
        (notice,) = (notice for notice in found["notices"] if "k3s" in notice)
        assert "the input says /data/k3s/data/cni" in notice
        # No network assigns addresses.
        assert [path for _method, path, _query in server.behind.requests if "networking" in path] == []

    def test_what_k0s_does_not_use_and_images_of_another_architecture_are_named(
        self, tmp_path: Path, server: Server
    ) -> None:
        pool = {"resourceName": "vfs", "selectors": {"vendors": ["15b3"]}}
        functions = {"config": json.dumps({"resourceList": [pool]})}
        policy = {**self.POLICY, "sriovDevicePlugin": {**functions, "image": "sriov-network-device-plugin-stig-fips"}}
        found = self.look(server, tmp_path, policy, version="v1.35.3+k0s.0")
        assert not found.get("failed"), found["msg"]
        (folder,) = (notice for notice in found["notices"] if "k0s" in notice)
        assert "pods of network-operator-sriov-device-plugin mount /var/lib/kubelet/plugins_registry" in folder
        (image,) = (notice for notice in found["notices"] if "built for" in notice)
        assert image.startswith(
            "gpu-01 is arm64, and the image nvcr.io/nvidia/mellanox/sriov-network-device-plugin-stig"
        )

    def test_without_their_users_no_node_is_looked_at(self, tmp_path: Path, server: Server) -> None:
        assert not self.look(server, tmp_path, {"nicFeatureDiscovery": {}}).get("failed")
        assert [path for _method, path, _query in server.behind.requests if path.endswith("/nodes")] == []


class TestNodePolicies:
    """A node follows one NicNodePolicy at most, which the labels of the nodes tell."""

    def look(self, server: Server, folder: Path, labels: list[dict[str, str]], **selectors: Any) -> dict[str, Any]:
        for number, held in enumerate(labels):
            server.behind.put("nodes", {**NODE, "metadata": {"name": f"gpu-{number:02}", "labels": held}})
        plugin = {"config": json.dumps({"configList": [SHARED]})}
        policies = {
            name: {"nodeSelector": wanted, "rdmaSharedDevicePlugin": plugin} for name, wanted in selectors.items()
        }
        wanted = run_action("fabric_input", {"nic_node_policies": policies})["spec"]
        found: dict[str, Any] = run_action(
            "fabric_preflight", {"spec": wanted, "kubeconfig": kubeconfig(folder / "k", server.address)}
        )
        return found

    def test_nodes_that_two_select_are_named_with_both(self, tmp_path: Path, server: Server) -> None:
        labels = [{"rack": "a"}, {"rack": "a", "gpu": "h100"}, {"gpu": "h100"}, {"rack": "a", "gpu": "h100", "b": "c"}]
        found = self.look(server, tmp_path, labels, racks={"rack": "a"}, cards={"gpu": "h100"})
        assert "no host was changed" in found["msg"]
        assert "at most, and cards and racks select the same: gpu-01, gpu-03 (next: set different" in found["msg"]

    def test_where_no_node_has_both_labels_nothing_is_wrong(self, tmp_path: Path, server: Server) -> None:
        found = self.look(
            server, tmp_path, [{"rack": "a"}, {"gpu": "h100"}], racks={"rack": "a"}, cards={"gpu": "h100"}
        )
        assert not found.get("failed"), found["msg"]

    def test_for_one_policy_no_node_is_looked_at(self, tmp_path: Path, server: Server) -> None:
        assert not self.look(server, tmp_path, [{"rack": "a"}], racks={"rack": "a"}).get("failed")
        assert [path for _method, path, _query in server.behind.requests if path.endswith("/nodes")] == []


class TestPartsOfPools:
    """A pool of nv-ipam keeps parts for nodes by their names."""

    def look(self, server: Server, folder: Path, *nodes: str) -> list[str]:
        for node in nodes:
            server.behind.put("nodes", {**NODE, "metadata": {"name": node}})
        pool = {
            "cidr": "192.168.0.0/16",
            "perNodeNetworkPrefix": 24,
            "staticAllocations": [
                {"nodeName": "gpu-01", "prefix": "192.168.1.0/24"},
                {"nodeName": "gpu-O2", "prefix": "192.168.2.0/24"},
                {"prefix": "192.168.3.0/24"},
            ],
        }
        given = {"nic_cluster_policy": {"nvIpam": {}}, "cidr_pools": {"rail0": pool}}
        found = run_action(
            "fabric_preflight",
            {
                "spec": run_action("fabric_input", given)["spec"],
                "kubeconfig": kubeconfig(folder / "k", server.address),
            },
        )
        assert not found.get("failed"), found["msg"]
        return [notice for notice in found["notices"] if "staticAllocations" in notice]

    def test_nodes_that_the_cluster_does_not_have_are_named(self, tmp_path: Path, server: Server) -> None:
        (notice,) = self.look(server, tmp_path, "gpu-01", "gpu-02")
        assert notice.startswith("CIDRPool rail0: staticAllocations keep parts for gpu-O2, and the cluster has no node")

    def test_those_that_it_has_are_not(self, tmp_path: Path, server: Server) -> None:
        assert self.look(server, tmp_path, "gpu-01", "gpu-O2") == []

    def test_a_pool_that_is_too_small_for_the_nodes_is_named(self, tmp_path: Path, server: Server) -> None:
        for node in ("gpu-01", "gpu-02"):
            server.behind.put("nodes", {**NODE, "metadata": {"name": node}})
        pool = {"cidr": "192.168.0.0/24", "perNodeNetworkPrefix": 24}
        given = {"nic_cluster_policy": {"nvIpam": {}}, "cidr_pools": {"rail0": pool}}
        arguments = {"kubeconfig": kubeconfig(tmp_path / "k", server.address)}
        found = run_action("fabric_preflight", {"spec": run_action("fabric_input", given)["spec"], **arguments})
        (notice,) = (notice for notice in found["notices"] if "has parts" in notice)
        assert notice.startswith("CIDRPool rail0: it has parts for 1 of 2 nodes")


class TestGpuSide:
    """What nodes lack of the GPU side is said, and nothing of it keeps a run from beginning."""

    def test_nodes_whose_gpus_nobody_offers_are_named(self, tmp_path: Path, server: Server) -> None:
        labels = {"feature.node.kubernetes.io/pci-10de.present": "true"}
        calico = {"projectcalico.org/IPv4Address": "192.168.7.1/24"}
        server.behind.put("nodes", {**NODE, "metadata": {"name": "gpu-01", "labels": labels, "annotations": calico}})
        wanted = run_action("fabric_input", {"nic_cluster_policy": {"secondaryNetwork": {"multus": {}}}})["spec"]
        found = run_action(
            "fabric_preflight", {"spec": wanted, "kubeconfig": kubeconfig(tmp_path / "k", server.address)}
        )
        assert not found.get("failed"), found["msg"]
        assert sum("no device plugin offers the GPUs of the nodes gpu-01" in each for each in found["notices"]) == 1
        assert sum("the node's own: gpu-01 (192.168.7.1)" in each for each in found["notices"]) == 1
        assert server.behind.written() == []


class TestTeardown:
    """What keeps a removal from beginning."""

    def test_it_needs_a_consent_that_check_mode_only_names(self, tmp_path: Path, server: Server) -> None:
        given = {"spec": spec(SMALL), "state": "absent", "kubeconfig": kubeconfig(tmp_path / "k", server.address)}
        refused = run_action("fabric_preflight", given)
        assert "which needs the consent rdma_fabric_allow_teardown: true" in refused["msg"]
        shown = run_action("fabric_preflight", given, check=True)
        assert "will need the consent rdma_fabric_allow_teardown: true" in shown["notices"][0]
        assert run_action("fabric_preflight", {**given, "allow_teardown": True})["notices"] == []

    @pytest.mark.parametrize(("name", "value"), [("sealed", True), ("plan_file", "plan.json")])
    def test_plans_for_approval_are_refused(self, tmp_path: Path, server: Server, name: str, value: Any) -> None:
        given = {"spec": spec(SMALL), "kubeconfig": kubeconfig(tmp_path / "k", server.address), name: value}
        given["allow_teardown"] = True
        assert "leave it out" in run_action("fabric_preflight", {**given, "state": "absent"})["msg"]
        assert not run_action("fabric_preflight", given).get("failed")

    def test_without_anything_for_a_cluster_none_is_asked_not_even_about_drains(self) -> None:
        given = {"spec": spec(), "state": "absent", "allow_teardown": True, "rollout": True}
        result = run_action("fabric_preflight", given)
        assert (result["server"], result["requests"]) == ("", {})

    def test_hosts_whose_nodes_are_drained_have_turns_even_without_anything_for_a_cluster(
        self, tmp_path: Path, server: Server
    ) -> None:
        given = {"spec": {**spec(), "hosts": {"gpu01": {}}}, "state": "absent", "allow_teardown": True, "rollout": True}
        given["kubeconfig"] = kubeconfig(tmp_path / "k", server.address)
        drained = {"hostvars": {"gpu01": {"rdma_fabric_drain": "true"}}}
        alone, found = (run_action("fabric_preflight", given, task_vars=each) for each in (None, drained))
        assert (alone["server"], found["server"]) == ("", server.address)
        (said,) = alone["notices"]
        assert "none is drained; cordons, slots and objects that an earlier run left in a cluster stay" in said
        assert "rdma_fabric_drain: true" in said
        assert not [notice for notice in found["notices"] if "no cluster is contacted" in notice]


TAINT = "example.com/joining:NoSchedule"
JOINS = [rule("", "nodes", "get patch", "node-a", "b"), rule("", "pods", "list"), rule("", "events", "create")]


def joins(server: Server, folder: Path, taint: str = TAINT, **options: Any) -> dict[str, Any]:
    """Look ahead at a run in which the nodes of two hosts join, a third one being outside of its limit."""
    given = spec()
    given = {**given, "hosts": {name: {} for name in "abc"}, "settings": {**given["settings"], "join_taint": taint}}
    groups = {"all": ["a", "b", "c"]}
    task_vars = {"hostvars": {"a": {"rdma_fabric_node_name": "node-a"}}, "groups": groups, "ansible_limit": "a,b"}
    arguments = {"spec": given, "kubeconfig": kubeconfig(folder / "k", server.address), "joins": True, **options}
    found: dict[str, Any] = run_action("fabric_preflight", arguments, task_vars=task_vars)
    return found


class TestJoins:
    def test_rights_to_the_nodes_of_the_run_are_enough(self, server: Server, tmp_path: Path) -> None:
        server.behind = Reviewer({"": JOINS}, user="alice")
        result = joins(server, tmp_path)
        assert (result.get("failed"), result["user"]) == (None, "alice"), result
        other = [rule("", "nodes", "get patch", "node-a", "c"), *JOINS[1:]]
        server.behind = Reviewer({"": other}, user="alice")
        message = joins(server, tmp_path)["msg"]
        assert "get, patch nodes in the whole cluster" in message
        assert "rdma-fabric-join" in message

    def test_without_a_taint_the_next_step_is_told_with_all_else(self, server: Server, tmp_path: Path) -> None:
        server.behind = Reviewer({"": []}, user="alice")
        message = joins(server, tmp_path, taint="", sealed=True, plan_file="plan.json")["msg"]
        assert "rdma_fabric_join_taint is not set" in message
        assert "group_vars/all, to example.com/joining:NoSchedule" in message
        assert "rdma_fabric_sealed_plan: a sealed plan is one of site or upgrade, not of join" in message
        assert "rdma_fabric_plan_file" in message
        assert "create events in the namespace default" in message


class TestWire:
    """What the wire test of a turn needs is looked at where a host of the run asks for it."""

    NETWORK: ClassVar[dict[str, Any]] = {"networkNamespace": "b", "master": "rail0", "mode": "bridge", "ipam": "{}"}
    RESOURCES: ClassVar[dict[str, Any]] = {"wire_resources": {"rail0": "rdma/a"}}

    def look(self, server: Server, folder: Path, *, tested: bool = True, **options: Any) -> dict[str, Any]:
        server.behind.plurals = {
            **server.behind.plurals,
            "network-attachment-definitions": "NetworkAttachmentDefinition",
        }
        for plural, api, kind, namespace, name in (
            ("namespaces", "v1", "Namespace", "", "b"),
            ("namespaces", "v1", "Namespace", "", "nvidia-network-operator"),
            ("network-attachment-definitions", "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "b", "rail0"),
        ):
            metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
            server.behind.put(plural, {"apiVersion": api, "kind": kind, "metadata": metadata})
        task_vars = {"hostvars": {"gpu01": {"rdma_fabric_wire_test": tested}}, "groups": {"all": ["gpu01"]}}
        given = {"macvlan_networks": {"rail0": self.NETWORK}, "hosts": ["gpu01"]}
        found = run_action("fabric_input", given, task_vars=task_vars)["spec"]
        arguments = {
            "spec": found,
            "push": False,
            "rollout": True,
            "kubeconfig": kubeconfig(folder / "k", server.address),
        }
        return run_action("fabric_preflight", {**arguments, **options}, task_vars=task_vars)

    def test_pods_are_tried_and_none_is_made(self, tmp_path: Path, server: Server) -> None:
        result = self.look(server, tmp_path, **self.RESOURCES)
        assert not result.get("failed"), result["msg"]
        assert result["requests"]["patch"] == 1
        assert server.behind.written() == []

    def test_pods_are_tried_in_the_runtime_class_that_is_given(
        self, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send, tried = server.behind.send, []

        def seen(method: str, path: str, body: bytes | None, content_type: str | None) -> Any:
            tried.extend([json.loads(body)["spec"]] if method == "PATCH" and body else [])
            return send(method, path, body, content_type)

        monkeypatch.setattr(server.behind, "send", seen)
        self.look(server, tmp_path, wire_runtime_class="nvidia", **self.RESOURCES)
        assert [spec["runtimeClassName"] for spec in tried] == ["nvidia"]

    def test_nothing_of_it_is_asked_where_no_host_wants_it_or_has_a_turn(self, tmp_path: Path, server: Server) -> None:
        assert self.look(server, tmp_path, tested=False)["requests"].get("patch") is None
        assert self.look(server, tmp_path, rollout=False, push=True).get("failed") is None

    def test_a_network_without_a_resource_is_told(self, tmp_path: Path, server: Server) -> None:
        message = self.look(server, tmp_path)["msg"]
        assert "the wire test: verify: b/rail0: no device plugin of the fabric offers a resource" in message
        assert "no host was changed" in message

    def test_rights_that_are_missing_are_told_with_the_role_that_has_them(self, tmp_path: Path, server: Server) -> None:
        server.behind.rules = {
            "": [rule("", "nodes namespaces pods", "get list patch"), rule("", "pods/eviction events", "create")]
        }
        message = self.look(server, tmp_path, **self.RESOURCES)["msg"]
        assert "create, get pods/exec in the namespace b" in message
        assert "rdma-fabric-proof" in message

    @pytest.mark.parametrize("tested", [True, False])
    def test_a_proxy_that_commands_can_not_go_through_is_told(
        self, tested: bool, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(fabric_preflight_action, "_PATIENCE", Patience(total=0.0))
        given = {"kubeconfig": None, "host": "https://192.0.2.1", "api_key": "t", "proxy": "https://127.0.0.1:9"}
        message = self.look(server, tmp_path, tested=tested, **given, **self.RESOURCES)["msg"]
        said = "  - the wire test: commands in pods can't go through a proxy of the kind https:// (127.0.0.1)"
        assert (said in message, "give an http:// proxy" in message) == (tested, tested)

    def test_a_pod_that_the_server_refuses_is_told(self, tmp_path: Path, server: Server) -> None:
        refusal = failure(403, "Forbidden", "violates PodSecurity: IPC_LOCK")
        server.behind.intercept = lambda _number, method, path: refusal if method == "PATCH" else None
        message = self.look(server, tmp_path, **self.RESOURCES)["msg"]
        assert "the wire test: " in message
        assert "violates PodSecurity: IPC_LOCK" in message


class TestControllerNodes:
    """Hosts that the run stands on are told before anything is touched; what refuses them is what was planned."""

    IS_IT = (
        "gpu01: node cp runs the API server (it is the only node of the control plane), so it is not interrupted: set "
        "rdma_fabric_allow_controller_node: true for its host"
    )

    def look(self, server: Server, folder: Path, own: dict[str, Any], **options: Any) -> dict[str, Any]:
        labels = {"node-role.kubernetes.io/control-plane": ""}
        for name, metadata in (("cp", {"labels": labels}), ("gpu02", {})):
            server.behind.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}})
        namespace = {"name": "nvidia-network-operator"}
        server.behind.put("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
        variables = {"gpu01": {"rdma_fabric_node_name": "cp", **own}, "gpu02": {}}
        task_vars = {"hostvars": variables, "groups": {"all": list(variables)}}
        found = run_action("fabric_input", {"hosts": list(variables)}, task_vars=task_vars)["spec"]
        place = kubeconfig(folder / "k", server.address)
        given = {"spec": {**found, "objects": [SMALL]}, "kubeconfig": place, **options}
        result = run_action("fabric_preflight", given, task_vars=task_vars)
        assert not result.get("failed"), result["msg"]
        return result

    def test_a_run_in_turns_names_them(self, tmp_path: Path, server: Server) -> None:
        result = self.look(server, tmp_path, {}, rollout=True)
        assert result["api_servers"] == {"cp": "it is the only node of the control plane"}
        assert self.IS_IT in result["notices"]
        allowed = self.look(server, tmp_path, {"rdma_fabric_allow_controller_node": True}, rollout=True)
        assert "not interrupted" not in str(allowed["notices"])

    def test_a_slot_that_a_gone_operator_keeps_ends_a_run_in_turns_before_it_waits(
        self, tmp_path: Path, server: Server
    ) -> None:
        metadata = {"name": "gpu02", "labels": {"nvidia.com/ofed-driver-upgrade-state": "drain-required"}}
        server.behind.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        place = kubeconfig(tmp_path / "k", server.address)
        given = {"spec": spec(), "push": False, "rollout": True, "kubeconfig": place}
        refused = run_action("fabric_preflight", given)
        assert "kubectl label nodes --all nvidia.com/ofed-driver-upgrade-state-" in refused["msg"]
        container = {"name": "manager", "image": "nvcr.io/nvidia/cloud-native/network-operator:v26.4.1"}
        server.behind.put(
            "deployments",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "operator", "namespace": "ns"},
                "spec": {"template": {"spec": {"containers": [container]}}},
            },
        )
        assert "upgrade-state" not in run_action("fabric_preflight", given)["msg"]

    @pytest.mark.parametrize("consent", ["rdma_fabric_allow_reboot", "rdma_fabric_allow_driver_reload"])
    def test_another_run_does_where_a_host_has_a_consent(self, consent: str, tmp_path: Path, server: Server) -> None:
        assert self.IS_IT in self.look(server, tmp_path, {consent: True})["notices"]
        assert self.IS_IT in self.look(server, tmp_path, {consent: True}, push=False, rollout=True)["notices"]

    def test_where_no_host_can_be_interrupted_no_node_is_asked_for(self, tmp_path: Path, server: Server) -> None:
        result = self.look(server, tmp_path, {})
        assert (result["api_servers"], "not interrupted" in str(result["notices"])) == ({}, False)
        assert "/api/v1/nodes" not in [path for _method, path, _query in server.behind.requests]

    def test_so_is_a_host_with_a_local_connection(self, tmp_path: Path, server: Server) -> None:
        local = {"rdma_fabric_node_name": "gpu01", "ansible_connection": "local"}
        said = "gpu01: node gpu01 runs this controller, so it is not interrupted: run from another machine, or set "
        assert said in str(self.look(server, tmp_path, local, rollout=True)["notices"])
        (tmp_path / "gpu01.json.gz").write_bytes(b"")
        recorded = {**local, "rdma_fabric_recording": str(tmp_path / "gpu01.json.gz")}
        assert said not in str(self.look(server, tmp_path, recorded, rollout=True)["notices"])

    def test_who_may_not_list_nodes_is_told_what_that_hides(self, tmp_path: Path, server: Server) -> None:
        server.behind.rules = {"": [rule("", "namespaces configmaps", "*"), rule("coordination.k8s.io", "leases", "*")]}
        result = self.look(server, tmp_path, {"rdma_fabric_allow_reboot": True})
        (said,) = [notice for notice in result["notices"] if "API server" in notice]
        assert said.startswith("whether a host of this run runs the API server is not known: ")
        assert "nodes is forbidden" in said


def test_a_limit_that_leaves_out_hosts_whose_nodes_have_the_drivers_container_is_refused(tmp_path: Path) -> None:
    given = {"nic_cluster_policy": {"ofedDriver": {}}, "driver_source": "container"}
    found = {**run_action("fabric_input", given)["spec"], "hosts": {"gpu01": {}, "gpu02": {}}}
    groups = {"all": ["gpu01", "gpu02"], "ungrouped": []}
    variables = {"hostvars": {"gpu01": {}, "gpu02": {}}, "groups": groups, "ansible_limit": "gpu01"}
    options = {"spec": found, "kubeconfig": str(tmp_path / "none")}
    refused = run_action("fabric_preflight", options, task_vars=variables)
    assert "were not read: gpu02" in refused["msg"] and "without a limit" in refused["msg"]
    whole = run_action("fabric_preflight", options, task_vars={**variables, "ansible_limit": None})
    assert "were not read" not in whole["msg"]
