# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights does a run need, and which of them do a user's rules grant?

Pure: objects in, needs out. What asks the server is in ``access``; the ClusterRoles that are shipped are made of the
same needs (``tools/rights.py``), so that they can't fall behind what a run does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Mapping

from ..api.errors import ApiFault, Fault
from ..api.kinds import CRD_GROUP
from ..batch.lease import lease_key
from ..batch.prune import is_kept_kind
from ..objects.inventory import inventory_key
from ..objects.objects import DEFAULT_NAMESPACE, Key
from ..objects.operators import RESOURCES_OF_OPERATORS
from ..objects.readiness import is_workload

Rule = Dict[str, Any]
# What finds the resource of a kind: a ``kinds.Resource``, None for an unknown kind.
Find = Callable[[Key], Any]

RBAC_GROUP = "rbac.authorization.k8s.io"
LEASE_GROUP = "coordination.k8s.io"
READS = ("get", "list")
# A server-side apply of an object that is not there is judged as "create" too (k8s.io/apiserver, handlers/patch.go).
WRITES = ("create", "patch")
_OF_A_LEASE = ("create", "delete", "get", "update")
_ROLE_KINDS = ("ClusterRole", "Role")
# k8s.io/apiserver, authorization: what every 403 of an authorizer says.
_REFUSED = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


@dataclass(frozen=True)
class Need:
    """The right to one verb on one resource, in one namespace or, where that is empty, in the whole cluster.

    ``resource`` is the plural, ``pods/exec`` for a subresource.
    """

    group: str
    resource: str
    namespace: str
    verb: str

    @property
    def where(self) -> str:
        """The place as an error names it."""
        return f"in the namespace {self.namespace}" if self.namespace else "in the whole cluster"

    @property
    def what(self) -> str:
        """The resource with its group, as kubectl writes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


# The names of the objects for which a right is needed; none where it can't be given by name (list, create).
Needs = Dict[Need, "frozenset[str]"]


OPERATOR_NEEDS: Needs = {Need("apps", "deployments", "", "list"): frozenset()}
"""What looking for an operator needs; without it a push says that it was not checked."""
LEFT_NEEDS: Needs = {
    Need("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "list"): frozenset(),
    Need("admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "list"): frozenset(),
    **{
        Need(version.partition("/")[0], name, "", "list"): frozenset()
        for version, names in RESOURCES_OF_OPERATORS.items()
        for name in names
    },
}
"""What looking for the rest of operators that are gone needs; without it, the same."""
DOUBLE_NEEDS: Needs = {Need("apps", "daemonsets", "", "list"): frozenset()}
"""What looking for somebody else's DaemonSets needs that do what a push deploys; without it, the same."""
TRIAL_NEEDS: Needs = {Need("", "pods", "", "create"): frozenset()}
"""What trying the pods of a push by a dry run needs; without it, the same."""
USER_NEEDS: Needs = {Need("", "pods", "", "list"): frozenset()}
"""What looking for pods needs that use what a push removes; without it, the same."""


def push_needs(keys: Iterable[Key], find: Find, set_name: str, namespace: str) -> Needs:
    """Return what a push of the objects needs, at its first run or any later one, pruning included.

    ``namespace`` holds the set's inventory and its Lease. Namespaces and CRDs are never pruned, so that the right to
    delete them is not among it.
    """
    wanted = list(keys)
    if set_name:
        wanted += [inventory_key(set_name, namespace), Key("v1", "Namespace", "", namespace)]
    found: dict[Need, set[str]] = {}
    for key in wanted:
        resource = find(key)
        if resource is None:
            continue
        place = (key.namespace or DEFAULT_NAMESPACE) if resource.namespaced else ""
        verbs = [*READS, *WRITES, *([] if is_kept_kind(key) else ["delete"])]
        for verb in verbs:
            names = found.setdefault(Need(key.group, resource.plural, place, verb), set())
            names.update([key.name] if verb in ("get", "patch", "delete") else [])
    if set_name:
        lease = lease_key(set_name, namespace)
        for verb in _OF_A_LEASE:
            found[Need(lease.group, "leases", namespace, verb)] = set() if verb == "create" else {lease.name}
    return {need: frozenset(names) for need, names in found.items()}


def comparison_needs(keys: Iterable[Key], find: Find, set_name: str, namespace: str) -> Needs:
    """Return what comparing the objects needs: what a push reads, without its Lease."""
    needs = push_needs(keys, find, set_name, namespace)
    return {need: names for need, names in needs.items() if need.verb in READS and need.group != LEASE_GROUP}


def status_needs(namespace: str) -> Needs:
    """Return what a status reads beside the objects: nodes and, in a namespace, slots.

    Without the nodes there is no status of the cluster; without the slots it says that they were not read.
    """
    return dict.fromkeys([Need("", "nodes", "", "list"), Need(LEASE_GROUP, "leases", namespace, "list")], frozenset())


def support_needs(keys: Iterable[Key], find: Find, set_name: str, namespace: str) -> Needs:
    """Return what packing a support bundle reads: what a comparison does but Secrets, and what explains the objects.

    Each of them is told as not read where the user may not.
    """
    needs = comparison_needs((key for key in keys if key.kind != "Secret"), find, set_name, namespace)
    found = [Need("", what, "", "list") for what in ("events", "nodes", "pods")]
    found += [Need("", "pods/log", "", "get"), Need(CRD_GROUP, "customresourcedefinitions", "", "list")]
    return {**needs, **dict.fromkeys(found, frozenset())}


def diagnosis_needs(keys: Iterable[Key]) -> Needs:
    """Return what is needed to say why a workload does not become ready.

    Without it the wait says less, and fails where a node of a DaemonSet is not Ready.
    """
    workloads = [key for key in keys if is_workload(key.kind)]
    places = sorted({key.namespace for key in workloads})
    found = [Need("", what, place, "list") for place in places for what in ("events", "pods")]
    nodes = [Need("", "nodes", "", "list")] if any(key.kind == "DaemonSet" for key in workloads) else []
    return dict.fromkeys([*found, *nodes], frozenset())


def address_needs() -> Needs:
    """Return what is needed to hold address ranges and CNI folders against the cluster; without it a notice says so."""
    found = [Need("", "nodes", "", "list"), Need("networking.k8s.io", "servicecidrs", "", "list")]
    return dict.fromkeys([*found, Need("", "services", DEFAULT_NAMESPACE, "get")], frozenset())


def proof_needs(namespaces: Iterable[str]) -> Needs:
    """Return what the proof on the wire needs, with test pods in the given namespaces."""
    found = [Need("", "nodes", "", "list"), Need("", "namespaces", "", "get"), Need("", "pods", "", "list")]
    found.append(Need("k8s.cni.cncf.io", "network-attachment-definitions", "", "get"))
    for place in sorted(set(namespaces)):
        found += [
            Need("", "pods", place, verb) for verb in ("create", "delete", "deletecollection", "get", "list", "patch")
        ]
        found.append(Need("", "pods/log", place, "get"))
        # A stream is opened by a GET; since Kubernetes 1.35 the server asks for "create" as well.
        found += [Need("", "pods/exec", place, verb) for verb in ("create", "get")]
        found.append(Need("", "events", place, "list"))
    return dict.fromkeys(found, frozenset())


def rollout_needs(namespaces: Iterable[str]) -> Needs:
    """Return what drains of nodes and slots of the given namespaces need: evictions, never deletions of pods."""
    found = [Need("", "nodes", "", verb) for verb in ("get", "list", "patch")]
    found += [Need("", "pods", "", "list"), Need("", "pods/eviction", "", "create")]
    found.append(Need("apps", "daemonsets", "", "get"))
    found.append(Need("", "events", DEFAULT_NAMESPACE, "create"))
    for place in sorted(set(namespaces)):
        found += [Need(LEASE_GROUP, "leases", place, verb) for verb in ("create", "list", "update", "watch")]
    return dict.fromkeys(found, frozenset())


def joining_needs(names: Iterable[str]) -> Needs:
    """Return what letting the nodes of these names join needs."""
    nodes = frozenset(names)
    found = {Need("", "nodes", "", verb): nodes for verb in ("get", "patch")}
    return {
        **found,
        Need("", "pods", "", "list"): frozenset(),
        Need("", "events", DEFAULT_NAMESPACE, "create"): frozenset(),
    }


def labelling_needs(*, drivers: bool) -> Needs:
    """Return what labelling nodes needs, with ``drivers`` by the pods of drivers too."""
    pods = [Need("", "pods", "", "list")] if drivers else []
    return dict.fromkeys([*(Need("", "nodes", "", verb) for verb in ("get", "list", "patch")), *pods], frozenset())


def device_needs(namespaces: Iterable[str]) -> Needs:
    """Return what it takes to start pods of the SR-IOV device plugin, in the given namespaces, anew, and to wait."""
    pods = [Need("", "pods", place, verb) for place in sorted(set(namespaces)) for verb in ("delete", "list")]
    return dict.fromkeys([Need("", "nodes", "", "list"), *pods], frozenset())


def release_needs(namespace: str) -> Needs:
    """Return what a release of Helm in a namespace needs to be kept there, and to be told from other operators.

    What its chart makes is beside that.
    """
    kept = [Need("", "secrets", namespace, verb) for verb in ("create", "delete", "get", "list", "update")]
    return {**dict.fromkeys(kept, frozenset()), **OPERATOR_NEEDS}


def removal_needs(keys: Iterable[Key], find: Find, set_name: str, namespace: str, *, nodes: bool = False) -> Needs:
    """Return what the removal of these objects of a set needs, beside reading them.

    ``namespace`` holds the set's inventory, its Lease, and the slots of rollouts. With ``nodes`` labels are taken off
    nodes.
    """
    found: dict[Need, set[str]] = {}
    for key in keys:
        resource = find(key)
        if resource is not None:
            place = (key.namespace or DEFAULT_NAMESPACE) if resource.namespaced else ""
            found.setdefault(Need(key.group, resource.plural, place, "delete"), set()).add(key.name)
    if found:
        inventory, lease = inventory_key(set_name, namespace), lease_key(set_name, namespace)
        for verb in WRITES:
            # What finalizers hold stays recorded.
            found[Need("", "configmaps", namespace, verb)] = set() if verb == "create" else {inventory.name}
        for verb in ("create", "get", "update"):
            found[Need(lease.group, "leases", namespace, verb)] = set() if verb == "create" else {lease.name}
        for verb in ("delete", "list"):
            found[Need(lease.group, "leases", namespace, verb)] = set()
        found[Need("", "pods", "", "list")] = set()
        for verb in ("list", "patch") if nodes else ():
            found[Need("", "nodes", "", verb)] = set()
    return {need: frozenset(names) for need, names in found.items()}


def is_granted(need: Need, names: frozenset[str], rules: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether RBAC rules grant a need: for every name, or for each of the ``names`` that it is needed for."""
    by_name: set[str] = set()
    for rule in rules:
        if not (_covers(rule, "apiGroups", need.group) and _covers(rule, "verbs", need.verb)):
            continue
        if not (_covers(rule, "resources", need.resource) or _covers_subresource(rule, need.resource)):
            continue
        limited = rule.get("resourceNames") or []
        if not limited:
            return True
        by_name.update(limited)
    return bool(names) and names <= by_name


def _covers(rule: Mapping[str, Any], part: str, wanted: str) -> bool:
    listed = rule.get(part) or []
    return "*" in listed or wanted in listed


def _covers_subresource(rule: Mapping[str, Any], resource: str) -> bool:
    """Tell whether ``*/exec`` of a rule means the subresource."""
    return "/" in resource and f"*/{resource.partition('/')[2]}" in (rule.get("resources") or [])


def held_rules(objects: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """Return the rules of all ClusterRoles and Roles among the objects.

    The API server lets only those make a role who hold its rights themselves, or have the verb ``escalate``, and only
    those bind it who hold them or have ``bind`` (k8s.io/kubernetes, registry/rbac/escalation_check.go).
    """
    roles = [body for body in objects if body.get("kind") in _ROLE_KINDS and RBAC_GROUP in str(body.get("apiVersion"))]
    return [rule for role in roles for rule in role.get("rules") or []]


def role_rules(needs: Iterable[Need], held: Iterable[Rule] = ()) -> list[Rule]:
    """Return the rules of a ClusterRole that grants the needs in every namespace, and holds the given rules.

    One rule per API group and set of verbs, in one order.
    """
    verbs: dict[tuple[str, str], set[str]] = {}
    for need in needs:
        verbs.setdefault((need.group, need.resource), set()).add(need.verb)
    apart: list[Rule] = []
    for rule in held:
        if rule.get("resourceNames") or rule.get("nonResourceURLs"):
            apart += [_sorted_rule(rule)] if _sorted_rule(rule) not in apart else []
            continue
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                verbs.setdefault((group, resource), set()).update(rule["verbs"])
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), listed in sorted(verbs.items()):
        together.setdefault((group, ("*",) if "*" in listed else tuple(sorted(listed))), []).append(resource)
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": list(listed)}
        for (group, listed), resources in sorted(together.items())
    ]
    return rules + sorted(
        (rule for rule in apart if not _is_within(rule, rules)),
        key=str,
    )


def _sorted_rule(rule: Rule) -> Rule:
    return {name: sorted(value) for name, value in sorted(rule.items()) if value}


def _is_within(rule: Rule, rules: list[Rule]) -> bool:
    """Tell whether a rule that is limited to names is granted without that limit by others."""
    wanted = [
        Need(group, resource, "", verb)
        for group in rule.get("apiGroups") or []
        for resource in rule.get("resources") or []
        for verb in rule["verbs"]
    ]
    return bool(wanted) and all(is_granted(need, frozenset(), rules) for need in wanted)


def refused_need(fault: ApiFault) -> Need | None:
    """Return the right that the server says is missing, None where the fault is about something else."""
    found = _REFUSED.search(fault.message) if fault.fault is Fault.FORBIDDEN else None
    if found is None:
        return None
    return Need(found["group"], found["resource"], found["namespace"] or "", found["verb"])


def grouped(needs: Iterable[Need]) -> list[str]:
    """Return missing rights in few lines: one for each place and set of verbs, with all resources of it."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for need in needs:
        verbs.setdefault((need.where, need.what), set()).add(need.verb)
    resources: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for (where, what), listed in verbs.items():
        resources.setdefault((tuple(sorted(listed)), where), set()).add(what)
    places: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (words, where), whats in sorted(resources.items()):
        places.setdefault((words, tuple(sorted(whats))), []).append(where)
    return [
        f"{', '.join(listed)} {', '.join(whats)} {_places(wheres)}"
        for (listed, whats), wheres in sorted(places.items())
    ]


def _places(wheres: list[str]) -> str:
    inside = [where.rpartition(" ")[2] for where in wheres if where.startswith("in the namespace ")]
    if len(inside) == len(wheres) and len(inside) > 1:
        return f"in the namespaces {', '.join(inside)}"
    return " and ".join(wheres)
