# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes playbooks/files/cluster-roles.yaml, the ClusterRoles for who runs the playbooks, from what is rendered.

The specs of the tests make every component render every object it has; the rights are those that readiness asks for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.resources import API_VERSIONS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import Kinds, Resource, plural_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key, key_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight import rights
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS
from tools.checkout import CHECKOUT
from tools.generated import below, yaml_text

FILE = CHECKOUT / "playbooks" / "files" / "cluster-roles.yaml"
PUSH, PROOF, ROLLOUT = "rdma-fabric-push", "rdma-fabric-proof", "rdma-fabric-rollout"
DRIFT, JOIN = "rdma-fabric-drift", "rdma-fabric-join"
BESIDE = {"controllers": "rdma-fabric-controllers", "nv_ipam_webhook": "rdma-fabric-webhook"}
"""The specs that take a ClusterRole beside that of the push: these grant much, and few policies need them."""
SET = "rdma-fabric"


def roles() -> list[dict[str, Any]]:
    """Return the ClusterRoles."""
    plain = rendered(*(name for name in SPECS if name not in BESIDE))
    special = {beside: rendered(name) for name, beside in BESIDE.items()}
    objects = [*plain, *(body for bodies in special.values() for body in bodies)]
    find, wanted = finder(objects), [*map(key_of, objects)]
    # What an operator of the chart reads, and network attachments.
    custom = [Key(version, kind, "any", "any") for kind, version in API_VERSIONS.items()]
    status = rights.status_needs("any")
    found = rights.OPERATOR_NEEDS, rights.DOUBLE_NEEDS, rights.LEFT_NEEDS
    besides = *found, rights.TRIAL_NEEDS, rights.USER_NEEDS, status
    looks = {need: names for needs in (rights.address_needs(), *besides) for need, names in needs.items()}
    push = rules_of(plain, find, looks)
    needs: dict[str, rights.Needs] = {
        PROOF: rights.proof_needs(["any"]),
        ROLLOUT: rights.rollout_needs(["any"]),
        JOIN: rights.joining_needs(["any"]),
        "rdma-fabric-labels": rights.labelling_needs(drivers=True),
        "rdma-fabric-devices": rights.device_needs(["any"]),
        "rdma-fabric-helm": {**rights.push_needs(custom, find, SET, "any"), **rights.OPERATOR_NEEDS, **status},
        DRIFT: rights.comparison_needs(wanted, find, SET, "any"),
        "rdma-fabric-support": rights.support_needs([*wanted, *custom], find, SET, "any"),
    }
    return [
        role(PUSH, push),
        *(role(beside, beyond(push, rules_of(bodies, find, {}))) for beside, bodies in special.items()),
        *(role(name, rights.role_rules(each)) for name, each in needs.items()),
    ]


def rules_of(bodies: list[dict[str, Any]], find: rights.Find, besides: rights.Needs) -> list[rights.Rule]:
    """Return the rules that a push of some objects takes, and what is to be granted ``besides``."""
    keys = [*map(key_of, bodies)]
    needs = {**rights.push_needs(keys, find, SET, "any"), **rights.diagnosis_needs(keys), **besides}
    return rights.role_rules(needs, rights.held_rules(bodies))


def beyond(push: list[rights.Rule], rules: list[rights.Rule]) -> list[rights.Rule]:
    """Return what rules without names grant beyond those of the push."""
    needs = [
        rights.Need(group, resource, "", verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    return rights.role_rules(need for need in needs if not rights.is_granted(need, frozenset(), push))


def rendered(*names: str) -> list[dict[str, Any]]:
    """Return every object that the collection renders of the specs of these names."""
    return [body for name in names for body in objects_of(render(SPECS[name]()))]


def finder(objects: list[dict[str, Any]]) -> rights.Find:
    """Return what finds the resource of a kind: built in, or of a CustomResourceDefinition among the objects.

    The kinds of cert-manager are somebody else's, and follow the rule of plurals.
    """
    known = Kinds(lambda _path: None)
    known.learn(objects)
    return lambda key: known.find(key) or Resource(plural_of(key.kind), True)


def role(name: str, rules: list[rights.Rule]) -> dict[str, Any]:
    """Return one ClusterRole."""
    metadata = {"name": name, "labels": {"app.kubernetes.io/part-of": "rdma-fabric"}}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    return {**kind, "metadata": metadata, "rules": rules}


def files() -> dict[Path, str]:
    """Return the file with its text."""
    # ansible-test takes one document in a file.
    both = {"apiVersion": "v1", "kind": "List", "items": roles()}
    return {FILE: below(FILE, "---", f"---\n{yaml_text(both, words_in_line=True)}")}
