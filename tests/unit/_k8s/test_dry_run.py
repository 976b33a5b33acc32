# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would a batch reach its end? Nothing is written, what is unchanged costs nothing, all that is missing is told."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.objects import component_labels
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.dry_run import (
    DryRun,
    dry_run,
    say_other_daemon_sets,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    config_map,
    connect,
    daemon_set,
    definition,
    failure,
    namespace_object,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.gpu_operator import gpu_driver
from ansible_collections.rdma.fabric.tests.unit._k8s.reviewer import ALL, Reviewer, rule

READS = rule("*", "*", "get list")
LEASES = rule("coordination.k8s.io", "leases", "create get update delete")


def look(server: Reviewer, *waves: Any, **options: Any) -> DryRun:
    given = {"set_name": "web", "inventory_namespace": "ns", **options}
    return dry_run(connect(server), BatchRequest(waves=list(waves), **given), lambda _body: ())


def patches(server: Reviewer) -> list[str]:
    return [path for method, path, _query in server.requests if method == "PATCH"]


def test_an_administrator_is_told_nothing_and_nothing_is_written() -> None:
    server = Reviewer()
    found = look(server, *BASE)
    assert (found.user, found.problems) == ("some", [])
    assert server.written() == []
    assert len(patches(server)) == 3


def test_reviews_do_not_grow_with_objects_nor_do_requests_where_nothing_changes() -> None:
    counts = []
    for number in (2, 200):
        server, many = Reviewer(), wave(*(config_map(f"c{each}") for each in range(number)))
        apply(server, many)
        server.requests.clear()
        assert look(server, many).problems == []
        counts.append((len(server.requests), len(server.reviews)))
    assert counts[0] == counts[1]
    # Who is it, what may it do; the LIST of its kind.
    assert counts[0] == (1, 2)


def test_who_may_read_only_is_told_what_the_changes_take() -> None:
    server = Reviewer({"": [READS]})
    found = look(server, *BASE)
    (problem,) = found.problems
    assert problem.splitlines()[1:-1] == [
        "      create, delete, update leases.coordination.k8s.io in the namespace ns",
        "      create, patch configmaps, daemonsets.apps in the namespace ns",
    ]


def test_who_may_read_only_passes_where_nothing_changes() -> None:
    server = Reviewer()
    apply(server, *BASE)
    server.rules = {"": [READS]}
    assert look(server, *BASE).problems == []


def test_who_may_not_delete_is_told_where_something_is_dropped_and_only_there() -> None:
    server = Reviewer()
    apply(server, *BASE)
    server.rules = {"": [READS, LEASES, rule("*", "*", "create patch")]}
    assert look(server, *BASE, wave(config_map("c"))).problems == []
    (problem,) = look(server, wave(config_map("a"))).problems
    assert "delete configmaps, daemonsets.apps in the namespace ns" in problem
    assert look(server, wave(config_map("a")), prune=False).problems == []


@pytest.mark.parametrize(
    ("bodies", "lacks"),
    [
        ([config_map("a"), config_map("b")], False),
        ([config_map("a"), config_map("b"), config_map("c")], True),
        ([config_map("a"), config_map("b", k="other")], True),
        ([config_map("a")], True),
    ],
    ids=["unchanged", "created", "configured", "deleted"],
)
def test_who_may_write_objects_and_no_lease_is_told_where_one_is_written(
    bodies: list[dict[str, Any]], lacks: bool
) -> None:
    server = Reviewer()
    apply(server, wave(config_map("a"), config_map("b")))
    server.rules = {"": [READS, rule("", "*", "create patch delete")]}
    problems = look(server, wave(*bodies)).problems
    assert ["leases.coordination.k8s.io in the namespace ns" in problem for problem in problems] == [True] * lacks


def test_objects_of_no_set_take_no_lease() -> None:
    server = Reviewer({"": [READS, rule("", "configmaps", "create patch")]})
    assert look(server, wave(config_map("a")), set_name="").problems == []


def test_who_may_make_a_namespace_and_nothing_in_it_is_told_though_its_objects_are_not_tried() -> None:
    server = Reviewer({"": [READS, LEASES, rule("", "namespaces", "*")], "ns": [rule("", "configmaps", "*")]})
    (problem,) = look(server, wave(namespace_object("new")), wave(config_map("a", "new"))).problems
    assert "      create, patch configmaps in the namespace new" in problem.splitlines()


def test_who_may_not_write_a_kind_that_the_batch_brings_is_told() -> None:
    server = Reviewer({"": [READS, LEASES, rule("", "*", "*"), rule("apiextensions.k8s.io", "*", "*")]})
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "ns"}}
    (problem,) = look(server, wave(definition("Thing", "things")), wave(thing)).problems
    assert "      create, patch things.example.com in the namespace ns" in problem.splitlines()


def test_who_may_read_nothing_is_told_everything_that_a_first_run_takes() -> None:
    server = Reviewer({})
    (problem,) = look(server, *BASE).problems
    assert "create, get, list, patch configmaps, daemonsets.apps in the namespace ns" in problem
    assert server.requests == []


def test_a_kind_of_something_dropped_that_nobody_asked_about_is_named_by_the_refusal() -> None:
    server = Reviewer()
    apply(server, *BASE, wave({**config_map("s"), "kind": "Secret"}))
    server.rules = {"": [READS, LEASES, rule("", "configmaps", "create patch delete")]}
    (problem,) = look(server, *BASE).problems
    assert "      delete secrets in the namespace ns" in problem


def test_what_the_server_refuses_is_told_beside_missing_rights() -> None:
    server = Reviewer({"": [READS, LEASES, rule("", "configmaps", "create patch")]})
    server.intercept = lambda _number, method, path: (
        failure(422, "Invalid", "data.k: Invalid value") if method == "PATCH" and path.endswith("/b") else None
    )
    lacking, refused = look(server, *BASE).problems
    assert "create, patch daemonsets.apps in the namespace ns" in lacking
    assert "ConfigMap ns/b" in refused
    assert "Invalid value" in refused


def test_a_new_namespace_is_named_and_not_judged() -> None:
    found = look(Reviewer(), wave(namespace_object("new")), wave(config_map("a", "new")))
    assert found.problems == []
    assert any("ConfigMap new/a" in notice and "would be created by this run" in notice for notice in found.notices)


def test_a_namespace_that_is_being_deleted_is_told_once_with_what_holds_it() -> None:
    server = Reviewer()
    server.objects[("namespaces", "", "ns")]["metadata"]["finalizers"] = ["example.com/hold"]
    cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
    server.intercept = lambda _number, method, path: (
        failure(403, "Forbidden", "because it is being terminated", causes=[cause]) if method == "PATCH" else None
    )
    (problem,) = look(server, *BASE).problems
    assert problem.startswith("the namespace ns is being deleted and takes no objects: example.com/hold (")


def test_a_webhook_that_takes_no_dry_run_is_named_and_no_problem() -> None:
    server = Reviewer()
    text = 'admission webhook "pools.example.com" does not support dry run'
    server.intercept = lambda _number, method, path: (
        failure(400, "BadRequest", text) if method == "PATCH" and path.endswith("/a") else None
    )
    found = look(server, *BASE)
    assert found.problems == []
    assert any("ConfigMap ns/a" in notice and "takes no dry run" in notice for notice in found.notices)


def test_a_binding_to_a_role_of_the_same_run_is_named_and_no_problem() -> None:
    server = Reviewer()
    server.plurals["clusterrolebindings"] = "ClusterRoleBinding"
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"},
    }
    missing = failure(404, "NotFound", 'clusterrolebindings.rbac.authorization.k8s.io "b" not found')
    server.intercept = lambda _number, method, path: (
        missing if method == "PATCH" and path.endswith("clusterrolebindings/b") else None
    )
    found = look(server, wave(role, binding))
    assert found.problems == []
    assert any("the ClusterRole r would be created by this run" in notice for notice in found.notices)
    (problem,) = look(server, wave(binding)).problems
    assert "not found" in problem


@pytest.mark.parametrize("wait", [True, False])
def test_who_may_not_look_at_pods_is_told_that_a_wait_says_less(wait: bool) -> None:
    granted = [rule("", "configmaps namespaces", "*"), rule("apps", "daemonsets", "*"), LEASES]
    found = look(Reviewer({"": granted}), wave(daemon_set("d")), wait=wait)
    assert found.problems == []
    assert any("list events, pods in the namespace ns" in notice for notice in found.notices) is wait


def test_rights_that_nobody_can_judge_are_said() -> None:
    server = Reviewer()
    server.without = {f"/apis/authorization.k8s.io/v1/selfsubject{kind}reviews" for kind in ("rules", "access")}
    found = look(server, *BASE)
    assert found.problems == []
    assert any("does not say whether the user has these rights" in notice for notice in found.notices)


def test_a_server_that_tells_no_names_is_said() -> None:
    server = Reviewer({"": [ALL]})
    server.without = {f"/apis/authentication.k8s.io/{each}/selfsubjectreviews" for each in ("v1", "v1beta1")}
    found = look(server, *BASE)
    assert (found.user, found.problems) == ("", [])
    assert any("older than 1.28" in notice for notice in found.notices)


def of_component(component: str) -> dict[str, Any]:
    body = daemon_set("ours")
    return {**body, "metadata": {**body["metadata"], "labels": component_labels(component)}}


def test_daemon_sets_of_the_whole_cluster_are_listed_once_for_what_is_pushed_and_may_be_there_already() -> None:
    server = Reviewer()
    server.put("daemonsets", daemon_set("rke2-multus", "kube-system", "rancher/hardened-multus-cni:v4.2.1"))
    server.put("daemonsets", gpu_driver())
    other, waiting = say_other_daemon_sets(connect(server), [of_component("multus"), of_component("nfd")])
    assert "DaemonSet kube-system/rke2-multus (rancher/hardened-multus-cni:v4.2.1) is another Multus" in other
    assert "GPU_DIRECT_RDMA_ENABLED without USE_HOST_MOFED" in waiting
    assert server.requests == [("GET", "/apis/apps/v1/daemonsets", {"limit": "500"})]


@pytest.mark.parametrize(
    ("data", "component", "said"),
    [
        ({"cni-exclusive": "true"}, "multus", ["ConfigMap kube-system/cilium-config has cni-exclusive"]),
        ({"cni-exclusive": "false"}, "multus", []),
        ({}, "multus", []),
        (None, "multus", []),
        ({"cni-exclusive": "true"}, "nfd", []),
    ],
)
def test_a_cilium_that_renames_the_configuration_of_multus_is_named_with_the_way_out(
    data: dict[str, str] | None, component: str, said: list[str]
) -> None:
    """The chart of cilium/cilium: cni.exclusive is true by default, and cni-exclusive of its ConfigMap."""
    server = Reviewer()
    agent = daemon_set("cilium", "kube-system", "quay.io/cilium/cilium:v1.17.4")
    server.put("daemonsets", {**agent, "metadata": {**agent["metadata"], "labels": {"k8s-app": "cilium"}}})
    if data is not None:
        server.put("configmaps", {**config_map("cilium-config", "kube-system"), "data": data})
    notices = say_other_daemon_sets(connect(server), [of_component(component)])
    assert (
        [notice.startswith(start) for notice, start in zip(notices, said)]
        == [True] * len(said)
        == [True] * len(notices)
    )
    assert all("next: set cni.exclusive: false" in notice for notice in notices)
    assert len(server.requests) == 1 + (component == "multus")
    server.rules = {"": [rule("apps", "daemonsets", "list")]}
    told = say_other_daemon_sets(connect(server), [of_component("multus")])
    assert [text.startswith("not checked whether Cilium renames") for text in told] == [True]


def test_nothing_is_listed_where_nothing_is_pushed_that_may_be_there_already() -> None:
    server = Reviewer()
    assert say_other_daemon_sets(connect(server), [config_map("a"), of_component("cni-plugins"), daemon_set("d")]) == []
    assert server.requests == []


def test_who_may_not_list_daemon_sets_is_told_that_nobody_looked_and_an_outage_is_one() -> None:
    server = Reviewer({"": []})
    (notice,) = say_other_daemon_sets(connect(server), [of_component("multus"), of_component("nfd")])
    assert notice.startswith("not checked whether the cluster has another Multus or Node Feature Discovery: ")
    assert "daemonsets" in notice
    server.intercept = lambda _number, _method, _path: failure(500, "InternalError", "no etcd")
    server.rules = {"": [ALL]}
    with pytest.raises(ApiFault, match="no etcd"):
        say_other_daemon_sets(connect(server), [of_component("nfd")])
