# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes playbooks/files/cluster-roles.yaml, the ClusterRoles for who runs the playbooks, from what is rendered.

The specs of the tests make every component render every object it has; the rights are those that readiness asks for.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tools.checkout import CHECKOUT
from tools.generated import yaml_text

FILE = CHECKOUT / "playbooks" / "files" / "cluster-roles.yaml"
PUSH, PROOF, ROLLOUT = "rdma-fabric-push", "rdma-fabric-proof", "rdma-fabric-rollout"
DRIFT, JOIN, LABELS = "rdma-fabric-drift", "rdma-fabric-join", "rdma-fabric-labels"
SUPPORT = "rdma-fabric-support"
HELM = "rdma-fabric-helm"
BESIDE = {"controllers": "rdma-fabric-controllers", "nv_ipam_webhook": "rdma-fabric-webhook"}
"""The specs that take a ClusterRole beside that of the push: these grant much, and few policies need them."""
SET = "rdma-fabric"
_COLLECTION = "ansible_collections.rdma.fabric"
HEAD = """# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What the playbooks site and status (push, with controllers and webhook where the policy has such), verify (proof),
# drift, support and join, labels of nodes, drains and slots (rollout), and custom resources for an operator (helm), may
# do with a cluster, and no more. docs/rights.md tells how to bind them.
# Written by `python -m tools.generated`.
"""


def roles() -> list[dict[str, Any]]:
    """Return the ClusterRoles."""
    rights = importlib.import_module(f"{_COLLECTION}.plugins.module_utils._k8s.preflight.rights")
    specs = importlib.import_module(f"{_COLLECTION}.tests.unit._fabric.specs").SPECS
    plain = rendered(*(name for name in specs if name not in BESIDE))
    special = {beside: rendered(name) for name, beside in BESIDE.items()}
    objects = [*plain, *(body for bodies in special.values() for body in bodies)]
    keys = importlib.import_module(f"{_COLLECTION}.plugins.module_utils._k8s.objects.objects").key_of
    wanted = [keys(body) for body in objects]
    find = finder(objects)
    looks = {**rights.address_needs(), **rights.OPERATOR_NEEDS, **rights.DOUBLE_NEEDS, **rights.USER_NEEDS}
    status = rights.status_needs("any")
    looks.update(status)
    push = rules_of(rights, [keys(body) for body in plain], find, rights.held_rules(plain), looks)
    further = [
        role(beside, beyond(rights, push, rules_of(rights, [*map(keys, bodies)], find, rights.held_rules(bodies))))
        for beside, bodies in special.items()
    ]
    return [
        role(PUSH, push),
        *further,
        role(PROOF, rights.role_rules(rights.proof_needs(["any"]))),
        role(ROLLOUT, rights.role_rules(rights.rollout_needs(["any"]))),
        role(JOIN, rights.role_rules(rights.joining_needs(["any"]))),
        role(LABELS, rights.role_rules(rights.labelling_needs(drivers=True))),
        role(
            HELM,
            rights.role_rules({**rights.push_needs(custom(), find, SET, "any"), **rights.OPERATOR_NEEDS, **status}),
        ),
        role(DRIFT, rights.role_rules(rights.comparison_needs(wanted, find, SET, "any"))),
        role(SUPPORT, rights.role_rules(rights.support_needs([*wanted, *custom()], find, SET, "any"))),
    ]


def custom() -> list[Any]:
    """Return a key of each kind that an operator of the chart reads, and of network attachments."""
    objects = importlib.import_module(f"{_COLLECTION}.plugins.module_utils._k8s.objects.objects")
    resources = importlib.import_module(f"{_COLLECTION}.plugins.module_utils._fabric.input.resources")
    return [objects.Key(version, kind, "any", "any") for kind, version in resources.API_VERSIONS.items()]


def rules_of(
    rights: Any, keys: list[Any], find: Any, held: list[dict[str, Any]], besides: Any = None
) -> list[dict[str, Any]]:
    """Return the rules that a push of some objects takes, and what is to be granted ``besides``."""
    needs = {**rights.push_needs(keys, find, SET, "any"), **rights.diagnosis_needs(keys), **(besides or {})}
    found: list[dict[str, Any]] = rights.role_rules(needs, held)
    return found


def beyond(rights: Any, push: list[dict[str, Any]], rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what rules grant beyond those of the push."""
    needs = [need for need in needs_of(rights, rules) if not rights.is_granted(need, frozenset(), push)]
    found: list[dict[str, Any]] = rights.role_rules(needs)
    return found


def needs_of(rights: Any, rules: list[dict[str, Any]]) -> list[Any]:
    """Return every single right that rules without names grant."""
    return [
        rights.Need(group, resource, "", verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def rendered(*names: str) -> list[dict[str, Any]]:
    """Return every object that the collection renders of the specs of these names."""
    render = importlib.import_module(f"{_COLLECTION}.plugins.module_utils._fabric.rendering.render")
    specs = importlib.import_module(f"{_COLLECTION}.tests.unit._fabric.specs").SPECS
    return [body for name in names for body in render.objects_of(render.render(specs[name]()))]


def finder(objects: list[dict[str, Any]]) -> Any:
    """Return what finds the resource of a kind: built in, or of a CustomResourceDefinition among the objects.

    The kinds of cert-manager are somebody else's, and follow the rule of plurals.
    """
    kinds = importlib.import_module(f"{_COLLECTION}.plugins.module_utils._k8s.api.kinds")
    known = kinds.Kinds(lambda _path: None)
    known.learn(objects)

    def find(key: Any) -> Any:
        return known.find(key) or kinds.Resource(kinds.plural_of(key.kind), True)

    return find


def role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one ClusterRole."""
    labels = {"app.kubernetes.io/part-of": "rdma-fabric"}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": rules,
    }


def text() -> str:
    """Return the text of the file."""
    # ansible-test takes one document in a file.
    both = {"apiVersion": "v1", "kind": "List", "items": roles()}
    return f"{HEAD}---\n{yaml_text(both)}"


def files() -> dict[Path, str]:
    """Return the file with its text."""
    return {FILE: text()}
