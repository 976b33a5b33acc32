# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may push: the shipped ClusterRole is enough for a whole run, and no rule of it can be left away unnoticed."""

from __future__ import annotations

import uuid
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Iterator
from urllib.parse import quote

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.cluster_facts import read_cluster_facts
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import key_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.readiness import is_ready
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.access import missing_rights
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.dry_run import (
    DryRun,
    dry_run,
    dry_run_joining,
    dry_run_labelling,
    say_device_rights,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.operators import look_for_operators, say_left
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.rights import (
    LEFT_NEEDS,
    Need,
    address_needs,
    comparison_needs,
    diagnosis_needs,
    grouped,
    held_rules,
    is_granted,
    joining_needs,
    proof_needs,
    push_needs,
    rollout_needs,
)
from ansible_collections.rdma.fabric.tests.integration.cert_manager import cert_manager_kinds
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, stored
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.lab.servers import SERVICE_RANGE
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS
from ansible_collections.rdma.fabric.tests.unit.plugins import test_node_devices
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from tools.fleet import INVENTORY
from tools.rights import BESIDE, FILE, finder

Json = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
ROLES: dict[str, Json] = {
    each["metadata"]["name"]: each for each in yaml.safe_load(FILE.read_text(encoding="utf-8"))["items"]
}
PUSH, PROOF, ROLLOUT, JOIN, LABELS, DEVICES, DRIFT = (
    ROLES[f"rdma-fabric-{name}"]["rules"] for name in ("push", "proof", "rollout", "join", "labels", "devices", "drift")
)
# No object takes them: they are for what address ranges are held against.
OF_ADDRESSES = [rule for rule in PUSH if rule["resources"] in (["services"], ["servicecidrs"])]
# Nor these, by which is seen what operators have left.
OF_OPERATORS = [rule for rule in PUSH if rule["apiGroups"][0] in {need.group for need in LEFT_NEEDS}]
FURTHER = {name: ROLES[role]["rules"] for name, role in BESIDE.items()}


def person(cluster: ControlPlane, *rules: Json) -> Path:
    """Return the kubeconfig of somebody new who may do what the rules say, once the server knows of it."""
    name = f"person-{uuid.uuid4().hex[:8]}"
    role = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}
    binding = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": name}],
    }
    for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        cluster.api.apply(f"/apis/{GROUP}/v1/{plural}/{quote(name)}", body)
    kubeconfig = cluster.client_kubeconfig(name)
    needs = {
        Need(group, resource, "", verb): names_of(rule)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    until(
        lambda: not missing_rights(connection_of(kubeconfig), needs).needs,
        said="the server takes no notice of a new ClusterRole",
        every=0.05,
    )
    return kubeconfig


def names_of(rule: Json) -> frozenset[str]:
    """Return the objects that a rule is limited to, none where it is not."""
    return frozenset(rule.get("resourceNames") or [])


def connection_of(kubeconfig: Path) -> Connection:
    return Connection(Client({"kubeconfig": str(kubeconfig)}))


def request_of(spec: Json, **options: Any) -> BatchRequest:
    """Return the push of a spec as ``site`` asks for it, but for waiting: there are no nodes here."""
    namespace = spec.get("namespace") or "nvidia-network-operator"
    given = {"set_name": "rdma-fabric", "inventory_namespace": namespace, "wait": False, **options}
    return BatchRequest(waves=render(spec), **given)


@lru_cache(maxsize=1)
def objects_of_all_specs() -> list[Json]:
    return [body for make in SPECS.values() for body in objects_of(render(make()))]


@pytest.fixture(scope="module")
def pusher(fleet_cluster: ControlPlane) -> Path:
    """Somebody who has the shipped ClusterRole, and nothing else."""
    return person(fleet_cluster, *PUSH)


@pytest.fixture(scope="module")
def pushers(fleet_cluster: ControlPlane, pusher: Path) -> dict[str, Path]:
    """Who pushes each spec: somebody who has the role beside that of the push where the spec takes one."""
    others = {name: person(fleet_cluster, *PUSH, *rules) for name, rules in FURTHER.items()}
    return {name: others.get(name, pusher) for name in SPECS}


@pytest.fixture(scope="module")
def bare(fleet_cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster with the namespaces of every spec and cert-manager's kinds: a dry run judges what goes there."""
    names = {body["metadata"].get("namespace") for body in objects_of_all_specs()}
    there = set(fleet_cluster.kubectl("get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split())
    for name in sorted(filter(None, names - there)):
        fleet_cluster.create_namespace(name)
    with cert_manager_kinds(fleet_cluster):
        yield fleet_cluster


def concerned(rule: Json, *makes: Callable[[], Json]) -> tuple[Json, list[str]]:
    """Return the first of some specs that takes something of a rule, and the resources of the rule that it takes."""
    for make in makes:
        objects = objects_of(render(make()))
        keys = [key_of(body) for body in objects]
        needs = {**push_needs(keys, finder(objects), "rdma-fabric", "any"), **diagnosis_needs(keys)}
        held = [
            Need(group, resource, "", verb)
            for each in held_rules(objects)
            for group in each.get("apiGroups") or []
            for resource in each.get("resources") or []
            for verb in each["verbs"]
        ]
        # What is only deleted is deleted by no first run.
        wanted = [
            need for need in [*needs, *held] if need.verb != "delete" and is_granted(need, names_of(rule), [rule])
        ]
        if wanted:
            return make(), sorted({need.resource for need in wanted})
    raise AssertionError(f"no spec needs {rule}")


@pytest.mark.parametrize(
    "rule",
    [rule for rule in PUSH if rule not in (*OF_ADDRESSES, *OF_OPERATORS)],
    ids=lambda rule: f"{rule['apiGroups'][0]}-{rule['resources'][0]}",
)
def test_each_rule_of_the_push_is_missed_by_name(bare: ControlPlane, rule: Json) -> None:
    spec, resources = concerned(rule, *(make for name, make in SPECS.items() if name not in BESIDE))
    somebody = person(bare, *(each for each in PUSH if each != rule))
    found = dry_run(connection_of(somebody), request_of(spec, wait=True), lambda _body: ())
    text = "\n".join([*found.problems, *found.notices])
    assert [name for name in resources if name not in text] == [], text


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        pytest.param(name, rule, id=f"{name}-{rule['apiGroups'][0]}-{rule['resources'][0]}-{len(rule['verbs'])}")
        for name, rules in FURTHER.items()
        for rule in rules
    ],
)
def test_each_rule_beside_those_of_the_push_is_missed_by_name(bare: ControlPlane, name: str, rule: Json) -> None:
    # Without objects of the user's own, whose rights would be missed first.
    spec, resources = concerned(rule, lambda: {**SPECS[name](), "objects": []})
    somebody = person(bare, *PUSH, *(each for each in FURTHER[name] if each != rule))
    found = dry_run(connection_of(somebody), request_of(spec, wait=True), lambda _body: ())
    text = "\n".join([*found.problems, *found.notices])
    assert [name for name in resources if name not in text] == [], text


@pytest.mark.parametrize("rule", OF_ADDRESSES, ids=lambda rule: rule["resources"][0])
def test_each_rule_that_shows_addresses_is_missed_by_name(bare: ControlPlane, rule: Json) -> None:
    somebody = person(bare, *(each for each in PUSH if each != rule))
    lines = "\n".join(grouped(missing_rights(connection_of(somebody), address_needs()).needs))
    assert [name for name in rule["resources"] if name not in lines] == []


def test_the_addresses_of_a_cluster_are_seen_by_who_has_only_the_shipped_role(bare: ControlPlane, pusher: Path) -> None:
    found = read_cluster_facts(connection_of(pusher))
    assert (found.services, found.unknown) == ([("ServiceCIDR kubernetes", SERVICE_RANGE)], [])
    somebody = person(bare, *(each for each in PUSH if each["resources"] != ["servicecidrs"]))
    (notice,) = read_cluster_facts(connection_of(somebody)).unknown
    assert "not held against the network of services" in notice
    assert "servicecidrs" in notice


def test_who_may_not_look_for_operators_is_told_so(bare: ControlPlane, pusher: Path) -> None:
    assert look_for_operators(connection_of(pusher)) == (frozenset(), [])
    assert say_left(connection_of(pusher), frozenset()) == []
    somebody = person(bare, *(each for each in PUSH if "deployments" not in each["resources"]))
    programs, (notice,) = look_for_operators(connection_of(somebody))
    assert programs is None
    assert "not checked whether an operator runs" in notice
    assert "deployments" in notice
    (notice,) = say_left(connection_of(person(bare, *(each for each in PUSH if each not in OF_OPERATORS))), frozenset())
    assert "not checked what operators that are gone have left" in notice


@pytest.mark.parametrize("rule", PROOF, ids=lambda rule: f"{rule['apiGroups'][0]}-{rule['resources'][0]}")
def test_each_rule_of_the_proof_is_missed_by_name(bare: ControlPlane, rule: Json) -> None:
    somebody = person(bare, *(each for each in PROOF if each != rule))
    lines = "\n".join(grouped(missing_rights(connection_of(somebody), proof_needs(["default"])).needs))
    assert [name for name in rule["resources"] if name not in lines] == []


@pytest.mark.parametrize("rule", DRIFT, ids=lambda rule: f"{rule['apiGroups'][0]}-{rule['resources'][0]}")
def test_each_rule_of_a_comparison_is_missed_by_name(bare: ControlPlane, rule: Json) -> None:
    somebody = person(bare, *(each for each in DRIFT if each != rule))
    objects = objects_of_all_specs()
    keys = [key_of(body) for body in objects]
    needs = comparison_needs(keys, finder(objects), "rdma-fabric", "nvidia-network-operator")
    lines = "\n".join(grouped(missing_rights(connection_of(somebody), needs).needs))
    assert [name for name in rule["resources"] if name not in lines] == []


def test_a_comparison_is_refused_nothing_that_it_reads(bare: ControlPlane) -> None:
    reader = person(bare, *DRIFT)
    mark = bare.audit.mark()
    for make in SPECS.values():
        found = run(connection_of(reader), request_of(make(), check=True, tolerant=True))
        assert "created" in {change.action for change in found.changes}
    asked = bare.audit.requests(mark, user=pusher_name(reader))
    assert {each.verb for each in asked if each.code == 403} == {"patch"}
    assert [each.uri for each in asked if each.verb == "patch" and not each.dry_run] == []


@pytest.mark.parametrize("name", SPECS)
def test_the_role_is_enough_to_make_change_prune_and_remove_each_spec(
    bare: ControlPlane, pushers: dict[str, Path], name: str
) -> None:
    spec, pusher = SPECS[name](), pushers[name]
    found: DryRun = dry_run(connection_of(pusher), request_of(spec), lambda _body: ())
    assert found.problems == []
    assert found.user.startswith("person-")
    mark = bare.audit.mark()
    made = run(connection_of(pusher), request_of(spec))
    assert "created" in {change.action for change in made.changes}
    fewer = [{**wave, "objects": wave["objects"][:1]} for wave in render(spec)]
    request = request_of(spec)
    pruned = run(connection_of(pusher), BatchRequest(**{**vars(request), "waves": fewer}))
    assert "deleted" in {change.action for change in pruned.changes}
    run(connection_of(pusher), request_of(spec, absent=True))
    user = pusher_name(pusher)
    assert [each.uri for each in bare.audit.requests(mark, user=user) if each.code == 403] == []


def test_a_drain_within_a_slot_uses_all_of_the_shipped_role_and_nothing_else(
    bare: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig, node, namespace = person(bare, *ROLLOUT), "rights-node", "nvidia-network-operator"
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(kubeconfig))
    container = {"name": "c", "image": "registry.example/c:1"}
    template = {
        "metadata": {"labels": {"app": "rights"}},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]},
    }
    daemons = {"selector": {"matchLabels": {"app": "rights"}}, "template": template}
    of_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "rights"}, "spec": daemons}
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rights-alone"}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    apply_nodes(bare.api, [kwok_node(node)])
    try:
        bare.api.call("POST", f"/apis/apps/v1/namespaces/{namespace}/daemonsets", of_set)
        bare.api.call("POST", pods, {**alone, "spec": {"nodeName": node, "containers": [container]}})
        until(lambda: len(bare.api.call("GET", pods, query={"fieldSelector": f"spec.nodeName={node}"})["items"]) == 2)
        mark = bare.audit.mark()
        slot = {"node": node, "namespace": namespace, "run": "rights", "timeout": 60}
        other = {**slot, "node": "another-node"}
        assert run_action("node_slot", other)["changed"]
        assert "no slot" in run_action("node_slot", {**slot, "timeout": 1})["msg"]
        run_action("node_slot", {**other, "state": "given_back"})
        given = {"node": node, "run": "rights", "timeout": 120, "pods": "all", "force": True}
        results = [
            run_action("node_slot", slot),
            run_action("node_drain", given),
            run_action("node_slot", {**slot, "state": "failed", "reason": "rights"}),
            run_action("node_drain", {**given, "state": "uncordoned", "wait": False}),
            run_action("node_slot", {**slot, "state": "given_back"}),
        ]
        assert [result.get("msg") for result in results if result.get("failed")] == []
        user = pusher_name(kubeconfig)
        # A watch shows when it has ended.
        until(lambda: any(each.verb == "watch" for each in bare.audit.requests(mark, user=user)))
        asked = bare.audit.requests(mark, user=user)
    finally:
        bare.api.request("DELETE", f"/apis/apps/v1/namespaces/{namespace}/daemonsets/rights")
        bare.api.request("DELETE", f"{pods}/rights-alone")
        delete_nodes(bare.api, {node})
    used = {
        (each.api_group, f"{each.resource}/{each.subresource}" if each.subresource else each.resource, each.verb)
        for each in asked
        if each.api_group != "authentication.k8s.io"
    }
    assert used == {(need.group, need.resource, need.verb) for need in rollout_needs(["any"])}


@pytest.mark.parametrize("rule", JOIN, ids=lambda rule: f"{rule['apiGroups'][0]}-{rule['resources'][0]}")
def test_each_rule_of_joining_is_missed_by_name(bare: ControlPlane, rule: Json) -> None:
    somebody = person(bare, *(each for each in JOIN if each != rule))
    (problem,) = dry_run_joining(connection_of(somebody), ["new-07"]).problems
    assert [name for name in rule["resources"] if name not in problem] == []
    assert dry_run_joining(connection_of(person(bare, *JOIN)), ["new-07"]).problems == []


def test_a_node_that_joins_uses_all_of_the_shipped_role_and_nothing_else(
    bare: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig, node = person(bare, *JOIN), "rights-of-joining"
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(kubeconfig))
    apply_nodes(bare.api, [kwok_node(node)])
    mark = bare.audit.mark()
    given = {"node": node, "taint": "rights:NoSchedule"}
    try:
        results = [
            run_action("node_join", given),
            run_action("node_join", {**given, "state": "failed", "reason": "rights"}),
            run_action("node_join", {**given, "state": "joined", "timeout": 60}),
        ]
        assert [result["changed"] for result in results] == [True] * 3, results
        asked = bare.audit.requests(mark, user=pusher_name(kubeconfig))
    finally:
        delete_nodes(bare.api, {node})
    used = {(each.api_group, each.resource, each.verb) for each in asked if each.api_group != "authentication.k8s.io"}
    assert used == {(need.group, need.resource, need.verb) for need in joining_needs([node])}


def pusher_name(kubeconfig: Path) -> str:
    """Return the name under which the server knows the user of a kubeconfig."""
    api = Api.from_kubeconfig(kubeconfig)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    api.close()
    return str(answer["status"]["userInfo"]["username"])


def test_a_whole_site_passes_for_who_has_only_the_shipped_role(
    fleet_cluster: ControlPlane, pusher: Path, tmp_path: Path
) -> None:
    user = User(tmp_path / "user")
    try:
        for arguments in (("--check",), (), ()):
            outcome = user.run("site", *arguments, inventory=INVENTORY, cluster=fleet_cluster, kubeconfig=pusher)
            outcome.succeeded()
        assert outcome.changed["localhost"] == 0
        assert stored(fleet_cluster, "daemonset", "kube-multus-ds", "nvidia-network-operator")
    finally:
        namespace = "nvidia-network-operator"
        gone = BatchRequest([], set_name="rdma-fabric", inventory_namespace=namespace, absent=True, wait=False)
        run(connection_of(pusher), gone)


def test_the_right_to_label_nodes_is_missed_by_name_and_is_all_that_it_takes(
    bare: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    (problem,) = dry_run_labelling(connection_of(person(bare)), drivers=True).problems
    assert "nodes" in problem
    assert "rdma-fabric-labels" in problem
    kubeconfig = person(bare, *LABELS)
    assert dry_run_labelling(connection_of(kubeconfig), drivers=True).problems == []
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(kubeconfig))
    apply_nodes(bare.api, [kwok_node("rights-of-labels")])
    results = {"rdma_fabric_host_result": {"summary": {"labels": {"feature.node.kubernetes.io/x": "true"}}}}
    variables = {"hostvars": {"rights-of-labels": results}, "groups": {"all": ["rights-of-labels"], "ungrouped": []}}
    try:
        found = run_action("node_labels", {"hosts": ["rights-of-labels"]}, task_vars=variables)
        assert found["nodes"] == ["rights-of-labels"], found
    finally:
        delete_nodes(bare.api, {"rights-of-labels"})


def test_the_right_to_start_a_device_plugin_anew_is_missed_by_name_and_is_all_that_it_takes(
    bare: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugin, namespace = test_node_devices.PLUGIN, test_node_devices.NAMESPACE
    (notice,) = say_device_rights(connection_of(person(bare)), [namespace])
    assert f"delete, list pods in the namespace {namespace}" in notice and "rdma-fabric-devices" in notice
    kubeconfig = person(bare, *DEVICES)
    assert say_device_rights(connection_of(kubeconfig), [namespace]) == []
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(kubeconfig))
    pods, names = f"/api/v1/namespaces/{namespace}/pods", ("a", "b")
    selector = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*names]}]}
    template = plugin["spec"]["template"]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [selector]}}}
    spec = {"containers": [{"name": "c", "image": "registry.example/c:1"}], "affinity": affinity}
    body = {**plugin, "spec": {**plugin["spec"], "template": {**template, "spec": spec}}}
    apply_nodes(bare.api, [kwok_node(name, allocatable={test_node_devices.RESOURCE: "2"}) for name in names])

    def there() -> dict[str, str]:
        found = bare.api.call("GET", pods, query={"labelSelector": "app=sriovdp"})["items"]
        ready = [pod for pod in found if is_ready(pod) and not pod["metadata"].get("deletionTimestamp")]
        return {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in ready}

    try:
        bare.api.call("POST", f"/apis/apps/v1/namespaces/{namespace}/daemonsets", body)
        until(lambda: len(there()) == len(names))
        before = there()
        hosts = {"a": test_node_devices.executed("vfs:0000:18:00.0"), "b": test_node_devices.executed()}
        result = test_node_devices.run(tmp_path, hosts)
        assert result["pods"] == [{"node": "a", "pod": before["a"]}], result
        after = there()
        assert (after["a"] != before["a"], after["b"]) == (True, before["b"])
    finally:
        bare.api.call("DELETE", f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{plugin['metadata']['name']}")
        delete_nodes(bare.api, set(names))
