# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that refuses: one error that says what was applied and what was not; the next run converges."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.after_site import push
from ansible_collections.rdma.fabric.tests.integration.batch_objects import USER_AGENT
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    Json,
    Outcome,
    User,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.lab.servers import NOBODYS_PORT
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import daemon_set
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from tools.fleet import RECORDINGS, SUFFIX


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


@pytest.fixture
def fabric(tmp_path: Path, namespace: str) -> Json:
    """The variables of a few cluster objects: a ConfigMap that comes first and a Role that comes last."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": namespace},
        "data": {"k": "v"},
    }
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "b", "namespace": namespace},
        "rules": [rule],
    }
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all([config, role]), encoding="utf-8")
    return {"rdma_fabric_manifests": [str(path)], "rdma_fabric_namespace": namespace, "rdma_fabric_set": namespace}


def kubeconfig_for(cluster: ControlPlane, path: Path, server: str) -> Path:
    """Write the administrator's kubeconfig with another address."""
    document = json.loads(cluster.kubeconfig.read_text(encoding="utf-8"))
    document["clusters"][0]["cluster"]["server"] = server
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """An inventory of one recorded host, so that a run has somebody to come to before the cluster."""
    recording = RECORDINGS / f"egx-01{SUFFIX}"
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"rdma_fabric": {"hosts": {"egx-01": {"rdma_fabric_recording": str(recording)}}}}))
    return path


def before_any_host(outcome: Outcome, user: User) -> str:
    """Return the message of a run that was refused before it came to a host, and left nothing behind."""
    message = outcome.refused().message
    assert message.startswith("prerequisites are not met, so no host was changed:\n")
    assert "egx-01" not in outcome.counts
    assert user.files() == []
    return message


def look(cluster: ControlPlane, fabric: Json, *, kubeconfig: Path | None = None, **options: Any) -> Json:
    """Return what a run finds before it comes to a host, in this process."""
    given = {name.removeprefix("rdma_fabric_"): value for name, value in fabric.items()}
    asked = {"set": given.pop("set"), "kubeconfig": str(kubeconfig or cluster.kubeconfig), **options}
    return run_action("fabric_preflight", {"spec": run_action("fabric_input", given)["spec"], **asked})


def notices(cluster: ControlPlane, fabric: Json) -> str:
    """Return what a run that is not refused says before it comes to a host."""
    found = look(cluster, fabric)
    assert "notices" in found, found.get("msg")
    return str(found["notices"])


def refused(cluster: ControlPlane, fabric: Json, **options: Any) -> str:
    """Return why a run is refused before it comes to a host."""
    message = str(look(cluster, fabric, **options)["msg"])
    assert message.startswith("prerequisites are not met, so no host was changed:\n")
    return message


def test_a_refused_connection_is_told_after_some_tries(
    control_plane: ControlPlane, fabric: Json, tmp_path: Path
) -> None:
    address = f"https://127.0.0.1:{NOBODYS_PORT}"
    message = refused(control_plane, fabric, kubeconfig=kubeconfig_for(control_plane, tmp_path / "nowhere", address))
    assert re.search(r"Connection refused; tried \d+ times in \d+ s", message)
    assert address in message
    assert "check the server's address" in message


def test_what_the_end_of_the_run_needs_is_looked_at(control_plane: ControlPlane, fabric: Json) -> None:
    mark = control_plane.audit.mark()
    message = refused(control_plane, fabric, context="elsewhere", run_dir="/dev/null/run")
    assert "elsewhere" in message
    assert "the run directory /dev/null" in message
    assert stored_writes(control_plane.audit, mark) == []


@pytest.mark.first
def test_hosts_alone_need_no_cluster(user: User, host: Path) -> None:
    given = {"rdma_fabric_kubeconfig": "/dev/null"}
    outcome = user.run("site", inventory=host, variables=given).succeeded()
    assert outcome.counts["egx-01"]["ok rdma.fabric.rdma_host"] == 1
    assert "with hosts only, no cluster is contacted" in " ".join(outcome.output.split())
    assert [each for each in user.report()["notices"] if each.startswith("with hosts only, no cluster is contacted")]
    assert user.report()["cluster"]["skipped"] == "the input has nothing for a cluster, so none was contacted"


@pytest.mark.first
def test_a_user_without_rights_is_told_all_of_them_before_a_host_is_changed(
    control_plane: ControlPlane, fabric: Json, user: User, host: Path, namespace: str
) -> None:
    nobody, mark = control_plane.client_kubeconfig("nobody"), control_plane.audit.mark()
    outcome = user.run("site", inventory=host, variables=fabric, cluster=control_plane, kubeconfig=nobody)
    head, *lines, step = before_any_host(outcome, user).splitlines()[1:]
    assert head == "  - the cluster: the user nobody lacks rights that this run uses:"
    assert [line.strip() for line in lines] == [
        f"create, delete, get, update leases.coordination.k8s.io in the namespace {namespace}",
        f"create, get, list, patch configmaps, roles.rbac.authorization.k8s.io in the namespace {namespace}",
        "create, get, list, patch namespaces in the whole cluster",
    ]
    assert "ClusterRole rdma-fabric-push" in step
    assert stored_writes(control_plane.audit, mark, user="nobody") == []
    # Who is it; what may it do, in the whole cluster and in the namespace; may it do everything; is the cluster
    # OpenShift; how old is the server; does an operator run? Whose DaemonSets are there is not asked: it
    # pushes none.
    assert len(control_plane.audit.requests(mark, user="nobody")) == 7


def test_a_proof_without_a_cluster_is_told_in_the_report(fabric: Json, user: User, host: Path) -> None:
    message = user.run("verify", inventory=host, variables=fabric).refused().message
    summary = user.report()["summary"]
    assert (summary["verdict"], summary["failed"]) == ("attention", ["proof"])
    assert summary["not_done"][0] == {"what": "The proof on the wire", "why": f"it failed: {message}"}


def test_an_operator_that_runs_is_named(control_plane: ControlPlane, fabric: Json, namespace: str) -> None:
    image = "nvcr.io/nvidia/cloud-native/network-operator:v26.4.1"
    control_plane.kubectl("create", "deployment", "--namespace", namespace, "its-name", f"--image={image}")
    said = f"the operator {namespace}/its-name runs, and does what its custom resources ask for"
    assert said in notices(control_plane, fabric)


@pytest.fixture
def alone(lab_programs: Programs, tmp_path: Path) -> Iterator[ControlPlane]:
    """A cluster of its own: what is deployed there has one name in a cluster, whatever the set."""
    with ControlPlane(tmp_path / "cluster", programs=lab_programs) as running:
        running.create_namespace("discovery")
        yield running


def test_feature_discovery_of_somebody_else_is_named_where_the_run_deploys_its_own(alone: ControlPlane) -> None:
    namespace = "discovery"
    name, image = "gpu-operator-node-feature-discovery-worker", "registry.k8s.io/nfd/node-feature-discovery:v0.16.6"
    alone.api.apply(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}", daemon_set(name, namespace, image))
    variables = {
        "rdma_fabric_nic_cluster_policy": {"secondaryNetwork": {"cniPlugins": {}}},
        "rdma_fabric_namespace": namespace,
        "rdma_fabric_set": namespace,
    }
    said = f"DaemonSet {namespace}/{name} ({image}) is another Node Feature Discovery"
    for wanted, asked in ((True, 1), (False, 0)):
        mark = alone.audit.mark()
        told = notices(alone, {**variables, "rdma_fabric_nfd": wanted})
        assert [text in told for text in (said, "set rdma_fabric_nfd: false, or remove")] == [wanted] * 2
        listed = [
            each
            for each in alone.audit.requests(mark, user_agent=USER_AGENT)
            if (each.verb, each.resource, each.namespace) == ("list", "daemonsets", "")
        ]
        # The batch's own LISTs are of what carries a set's label.
        assert len([each for each in listed if "labelSelector" not in each.parameters]) == asked


def test_pods_that_the_namespace_would_not_admit_are_told_before_a_host_is_changed(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    most = {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": most}
    control_plane.api.apply(f"/api/v1/namespaces/{namespace}/limitranges/most", limits)
    body = daemon_set("large", namespace, "registry.example/large:1")
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "2Mi"}}
    path = tmp_path / "large.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    mark = control_plane.audit.mark()
    given = {"rdma_fabric_manifests": [str(path)], "rdma_fabric_namespace": namespace, "rdma_fabric_set": namespace}
    problem = refused(control_plane, given)
    assert f"no pod of DaemonSet {namespace}/large is admitted: the pod is forbidden: maximum memory usage" in problem
    assert stored_writes(control_plane.audit, mark) == []


def test_pods_with_a_resource_that_a_push_renames_are_named(control_plane: ControlPlane, namespace: str) -> None:
    name = namespace.replace("-", "_")
    image = {"repository": "registry.example", "image": "k8s-rdma-shared-dev-plugin", "version": "v1.5.3"}

    def serving(resource: str) -> Json:
        entry = {"resourceName": resource, "rdmaHcaMax": 8, "selectors": {"vendors": ["15b3"]}}
        plugin = {**image, "config": json.dumps({"configList": [entry]})}
        return {"rdma_fabric_nic_cluster_policy": {"rdmaSharedDevicePlugin": plugin}, "rdma_fabric_nfd": False}

    push(control_plane, namespace, serving(name), set=namespace, wait=False)
    devices = {"limits": {f"rdma/{name}": "1"}, "requests": {f"rdma/{name}": "1"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "registry.example/c", "resources": devices}]},
    }
    control_plane.api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    said = "1 pod uses networks or resources that this push removes or renames: "
    said += f"{namespace}/trainer (resource rdma/{name})"
    for resource, asked in ((f"{name}_2", 1), (name, 0)):
        mark = control_plane.audit.mark()
        fabric = {**serving(resource), "rdma_fabric_namespace": namespace, "rdma_fabric_set": namespace}
        assert (said in notices(control_plane, fabric)) is bool(asked)
        requests = control_plane.audit.requests(mark, user_agent=USER_AGENT)
        listed = [each for each in requests if (each.verb, each.resource, each.namespace) == ("list", "pods", "")]
        assert len(listed) == asked


def test_who_grants_more_than_is_held_is_told(control_plane: ControlPlane, fabric: Json, namespace: str) -> None:
    name = f"{namespace}-all"
    resources = "configmaps,namespaces,roles.rbac.authorization.k8s.io,leases.coordination.k8s.io"
    verbs = "get,list,create,patch,update,delete"
    control_plane.kubectl("create", "clusterrole", name, f"--verb={verbs}", f"--resource={resources}")
    control_plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=granting")
    message = refused(control_plane, fabric, kubeconfig=control_plane.client_kubeconfig("granting"))
    assert "attempting to grant RBAC permissions not currently held" in message
    assert "or the verb escalate" in message


def test_an_object_that_the_server_refuses_is_told(
    control_plane: ControlPlane, fabric: Json, tmp_path: Path, namespace: str
) -> None:
    wrong = tmp_path / "wrong.yaml"
    flawed: Json = {"port": {"ports": [{"port": 70000}]}, "typo": {"prots": []}}
    bodies = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        for name, spec in flawed.items()
    ]
    wrong.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    given = {**fabric, "rdma_fabric_manifests": [*fabric["rdma_fabric_manifests"], str(wrong)]}
    message = refused(control_plane, given)
    assert "spec.ports[0].port: Invalid value: 70000" in message
    assert "spec.prots" in message


# Whom the kubeconfig names, and what is said of it.
NOBODIES: dict[str, tuple[Json, str]] = {
    "nothing": ({}, "it got no credentials"),
    "missing plugin": ({"exec": {"command": "no-such-plugin"}}, "no-such-plugin"),
    "failing plugin": (
        {"exec": {"command": "false"}},
        "the credential plugin of the kubeconfig gives no credentials",
    ),
    "stale token": ({"token": "stale"}, "renew the token or client certificate"),
}


@pytest.mark.parametrize("person", NOBODIES)
def test_credentials_that_are_none_are_told(control_plane: ControlPlane, tmp_path: Path, person: str) -> None:
    credentials, said = NOBODIES[person]
    document = json.loads(control_plane.kubeconfig.read_text(encoding="utf-8"))
    if "exec" in credentials:
        version = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
        credentials = {"exec": {**version, **credentials["exec"]}}
    document["users"][0]["user"] = credentials
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    pushed = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "none"}}
    given = {"spec": {"version": 1, "objects": [pushed]}, "kubeconfig": str(path)}
    assert said in str(run_action("fabric_preflight", given)["msg"])


def test_without_any_cluster_it_says_where_it_looked_and_how_one_is_given(fabric: Json, user: User) -> None:
    message = user.run("site", variables=fabric).refused().message
    where = f"there is no kubeconfig {user.home}/.kube/config (the default, as nothing names another one)"
    assert where in message
    assert (
        "name another one by the option kubeconfig (rdma_fabric_kubeconfig for the roles), K8S_AUTH_KUBECO" in message
    )
