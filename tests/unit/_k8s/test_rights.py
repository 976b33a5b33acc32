# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights a run needs, and how missing ones are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import Kinds
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.prune import is_kept_kind
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key, key_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.rights import (
    Need,
    diagnosis_needs,
    grouped,
    held_rules,
    is_granted,
    proof_needs,
    push_needs,
    refused_need,
    removal_needs,
    role_rules,
    status_needs,
)
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import config_map, daemon_set, definition
from ansible_collections.rdma.fabric.tests.unit._k8s.reviewer import ALL, rule
from tools.rights import BESIDE, FILE, finder

NO_NAMES: frozenset[str] = frozenset()
SHIPPED = {role["metadata"]["name"]: role["rules"] for role in yaml.safe_load(FILE.read_text())["items"]}
FULL = {"create", "delete", "get", "list", "patch"}


def needs_of(*bodies: dict[str, Any], set_name: str = "") -> dict[tuple[str, str], set[str]]:
    """Return the verbs of a push by (resource, namespace)."""
    kinds = Kinds(lambda _path: None)
    kinds.learn(bodies)
    found: dict[tuple[str, str], set[str]] = {}
    for need in push_needs([key_of(body) for body in bodies], kinds.find, set_name, "own"):
        found.setdefault((need.what, need.namespace), set()).add(need.verb)
    return found


def test_needs_do_not_grow_with_objects_but_with_kinds_and_namespaces() -> None:
    many = [config_map(f"c{number}", f"n{number % 2}") for number in range(100)]
    assert needs_of(*many) == {("configmaps", "n0"): FULL, ("configmaps", "n1"): FULL}


def test_a_set_needs_its_inventory_its_lease_and_their_namespace() -> None:
    assert needs_of(set_name="web") == {
        ("configmaps", "own"): FULL,
        ("namespaces", ""): FULL - {"delete"},
        ("leases.coordination.k8s.io", "own"): {"create", "delete", "get", "update"},
    }


def test_definitions_are_never_deleted_and_their_kinds_are_known() -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "ns"}}
    assert needs_of(definition("Thing", "thingies"), thing) == {
        ("customresourcedefinitions.apiextensions.k8s.io", ""): FULL - {"delete"},
        ("thingies.example.com", "ns"): FULL,
    }


def test_an_object_without_a_namespace_is_looked_for_where_it_goes() -> None:
    body = config_map("a")
    del body["metadata"]["namespace"]
    assert set(needs_of(body)) == {("configmaps", "default")}


def test_only_workloads_need_to_be_explained() -> None:
    keys = [key_of(config_map("a", "elsewhere")), key_of(daemon_set("d"))]
    pods = {Need("", "events", "ns", "list"), Need("", "pods", "ns", "list")}
    assert set(diagnosis_needs(keys)) == {*pods, Need("", "nodes", "", "list")}
    assert set(diagnosis_needs([replace(key, kind="Deployment") for key in keys[1:]])) == pods


def test_commands_in_pods_are_needed_by_the_proof_alone() -> None:
    needed = {need.resource for need in proof_needs(["a", "b", "a"]) if need.namespace == "b"}
    assert needed == {"pods", "pods/exec", "pods/log", "events"}
    assert "pods/exec" not in {need.resource for need in push_needs([], Kinds(lambda _path: None).find, "web", "own")}


@pytest.mark.parametrize(
    ("granted", "yes"),
    [
        (ALL, True),
        (rule("", "configmaps", "get patch"), True),
        (rule("*", "*", "patch"), True),
        (rule("", "configmaps", "get"), False),
        (rule("apps", "configmaps", "patch"), False),
        (rule("", "secrets", "patch"), False),
        (rule("", "configmaps", "patch", "a", "b", "c"), True),
        (rule("", "configmaps", "patch", "a"), False),
    ],
)
def test_a_rule_grants_a_need_for_all_names_or_for_those_that_it_is_needed_for(
    granted: dict[str, Any], yes: bool
) -> None:
    assert is_granted(Need("", "configmaps", "ns", "patch"), frozenset({"a", "b"}), [granted]) is yes


def test_what_can_not_be_given_by_name_is_not_granted_by_a_rule_with_names() -> None:
    assert not is_granted(Need("", "configmaps", "ns", "list"), NO_NAMES, [rule("", "configmaps", "list", "a")])


def test_a_subresource_is_granted_by_itself_by_its_name_or_by_everything() -> None:
    need = Need("", "pods/exec", "ns", "create")
    found = [is_granted(need, NO_NAMES, [rule("", what, "create")]) for what in ("pods", "pods/exec", "*/exec", "*")]
    assert found == [False, True, True, True]


def test_the_rules_of_roles_are_held_as_well_and_those_with_names_stand_apart() -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": [
            rule("", "pods", "get watch"),
            rule("", "secrets", "get", "one"),
            rule("", "pods", "get", "covered"),
            {"apiGroups": ["k8s.cni.cncf.io"], "resources": ["*"], "verbs": ["*"]},
        ],
    }
    found = role_rules([Need("", "pods", "a", "list")], held_rules([role, config_map("c")]))
    assert found == [
        rule("", "pods", "get list watch"),
        {"apiGroups": ["k8s.cni.cncf.io"], "resources": ["*"], "verbs": ["*"]},
        rule("", "secrets", "get", "one"),
    ]


def test_missing_rights_are_few_lines() -> None:
    needs = [Need("", "configmaps", place, verb) for place in ("b", "a") for verb in ("patch", "create")]
    needs += [Need("rbac.authorization.k8s.io", "roles", place, verb) for place in "ab" for verb in ("create", "patch")]
    needs += [Need("", "nodes", "", "list")]
    assert grouped(needs) == [
        "create, patch configmaps, roles.rbac.authorization.k8s.io in the namespaces a, b",
        "list nodes in the whole cluster",
    ]


def test_a_refusal_of_the_server_is_read_as_the_right_that_is_missing() -> None:
    text = 'roles.rbac.authorization.k8s.io "b" is forbidden: User "some" cannot patch resource "roles" in API group '
    inside = ApiFault(Fault.FORBIDDEN, f'{text}"rbac.authorization.k8s.io" in the namespace "x"')
    assert refused_need(inside) == Need("rbac.authorization.k8s.io", "roles", "x", "patch")
    assert refused_need(ApiFault(Fault.FORBIDDEN, f'{text}"" at the cluster scope')) == Need("", "roles", "", "patch")
    assert refused_need(ApiFault(Fault.FORBIDDEN, "attempting to grant RBAC permissions not currently held")) is None
    assert refused_need(ApiFault(Fault.INVALID, f'{text}""')) is None


def test_a_kind_that_nobody_knows_needs_nothing_the_batch_names_it() -> None:
    assert push_needs([Key("example.com/v1", "Thing", "", "t")], Kinds(lambda _path: None).find, "", "") == {}


@pytest.mark.parametrize("name", SPECS)
def test_the_shipped_roles_of_push_and_rollout_are_enough_for_a_teardown(name: str) -> None:
    objects = objects_of(render(SPECS[name]()))
    keys = [key for key in map(key_of, objects) if not is_kept_kind(key)]
    more = SHIPPED[BESIDE[name]] if name in BESIDE else []
    rules = [*SHIPPED["rdma-fabric-push"], *more, *SHIPPED["rdma-fabric-rollout"]]
    needs = removal_needs(keys, finder(objects), "rdma-fabric", "any", nodes=True)
    assert {need.verb for need in needs} >= {"delete", "list", "patch", "update"}
    assert [need for need, names in needs.items() if not is_granted(need, names, rules)] == []


def test_the_shipped_role_of_the_push_is_enough_for_the_nodes_and_slots_of_a_status() -> None:
    rules = SHIPPED["rdma-fabric-push"]
    needs = status_needs("any")
    assert {need.what for need in needs} == {"nodes", "leases.coordination.k8s.io"}
    assert [need for need, names in needs.items() if not is_granted(need, names, rules)] == []


def test_a_removal_of_nothing_needs_nothing() -> None:
    assert removal_needs([], finder([]), "rdma-fabric", "any", nodes=True) == {}
