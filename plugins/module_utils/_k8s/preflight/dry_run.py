# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would a batch reach its end? Who the user is, what the user may do, and a strict dry run of what would change.

Nothing is written. Objects that are provably as desired cost no request of their own, as in the batch itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Collection, Iterable

from ..api.errors import ApiFault, Fault, seen_or_told
from ..api.kinds import Kinds, Resource
from ..api.snapshot import fetch_group, get_object, list_objects
from ..api.transport import Connection
from ..batch.awaited import run
from ..batch.session import CONFIGURED, CREATED, DELETED, BatchError, BatchRequest, BatchResult, Change
from ..objects.duplicates import cilium_beside, duplicates, names_of_duplicates, renamed_by_cilium
from ..objects.gpu_driver import waiting_gpu_drivers
from ..objects.inventory import inventory_key
from ..objects.objects import Json, Key, read_waves
from ..objects.operators import of_other_release
from ..objects.readiness import what_holds
from .access import Missing, missing_rights, who_am_i
from .operators import AS_DEPLOYMENTS, DEPLOYMENTS
from .pod_trials import Templates, try_pods
from .rights import (
    LEASE_GROUP,
    WRITES,
    Find,
    Need,
    Needs,
    device_needs,
    diagnosis_needs,
    grouped,
    joining_needs,
    labelling_needs,
    proof_needs,
    push_needs,
    refused_need,
    release_needs,
    removal_needs,
    rollout_needs,
)

_VERBS = {CREATED: ("create", "patch"), CONFIGURED: ("patch",), DELETED: ("delete",)}
_NEXT_STEP = "next: grant them, or bind the ClusterRole {role}, which this collection ships (docs/rights.md)"
_PUSH, _ROLLOUT = "rdma-fabric-push", "rdma-fabric-rollout"
_FOR_THE_PUSH = (
    f"{_PUSH} (and rdma-fabric-controllers where the policy deploys controllers, rdma-fabric-webhook where it has"
    " nvIpam.enableWebhook)"
)
_HELM = "rdma-fabric-helm (Secrets by a Role of the namespace)"
_DAEMON_SETS, _AS_DAEMON_SETS = Key("apps/v1", "DaemonSet", "", ""), Resource("daemonsets", True)
_JOIN, _LABELS, _PROOF = "rdma-fabric-join", "rdma-fabric-labels", "rdma-fabric-proof"


@dataclass(frozen=True)
class DryRun:
    """The user's name, what would keep the batch from its end, and what is to be known besides.

    ``changes`` are those of a batch that would reach it.
    """

    user: str
    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


def dry_run(connection: Connection, request: BatchRequest, templates: Templates) -> DryRun:
    """Look whether the batch would reach its end, and its pods would be admitted, which ``templates`` finds.

    Raises :class:`ApiFault` where the server gives no answer or does not know the user, :class:`InvalidInput` for waves
    that are wrong by themselves.
    """
    user = who_am_i(connection)
    kinds = Kinds(lambda path: fetch_group(connection, path))
    items = read_waves(request.waves)
    kinds.learn(item.body for item in items)
    keys = [item.key for item in items]
    needs = push_needs(keys, kinds.find, request.set_name, request.inventory_namespace)
    besides = diagnosis_needs(keys) if request.wait else {}
    missing = missing_rights(connection, {**besides, **needs})
    lacking = missing.needs & set(needs)
    notices = _notices(user, missing.needs - lacking, missing.unknown)
    if any(need.verb == "list" and need in _reads(keys, kinds.find) for need in lacking):
        # What is there can't be seen, so nothing tells which of the other rights this run would not use.
        return DryRun(user, [_lacks(user, _without_pruning(lacking), _FOR_THE_PUSH)], notices)
    try:
        result, failures = run(connection, replace(request, check=True, wait=False)), []
    except BatchError as err:
        result, failures = err.result, err.result.failures
    used = _used(result, kinds.find)
    problems: list[str] = []
    refused: set[Need] = set()
    ending: set[str] = set()
    for key, fault in failures:
        need = refused_need(fault)
        if key is not None and fault.has_cause("NamespaceTerminating"):
            ending.add(key.namespace)
            continue
        if need is None:
            problems.append(str(fault))
            continue
        refused.add(need)
        used.add(need)
        if need.verb in WRITES:
            # The server names the first one that is missing of the two that an apply takes.
            used |= {replace(need, verb=verb) for verb in WRITES}
    if used:
        # Who writes anything writes the set's inventory and takes its Lease.
        own = push_needs([], kinds.find, request.set_name, request.inventory_namespace)
        used |= {need for need in _without_pruning(own) if need.namespace}
    lacked = (used & lacking) | refused
    refused_pods, untold = try_pods(connection, result.changes, templates)
    problems = [*([_lacks(user, lacked, _FOR_THE_PUSH)] if lacked else []), *problems, *refused_pods]
    problems += [_held_up(connection, kinds, namespace) for namespace in sorted(ending)]
    return DryRun(user, problems, [*notices, *result.notices, *untold], [] if problems else result.changes)


def _held_up(connection: Connection, kinds: Kinds, namespace: str) -> str:
    """Return what keeps a namespace that is being deleted, which takes nothing new."""

    def look() -> list[str]:
        return what_holds(get_object(connection, kinds, Key("v1", "Namespace", "", namespace)) or {})

    held, unseen = seen_or_told(look, "what holds it was not read")
    holders = "; ".join([*(held or []), *unseen]) or "nothing holds it any more"
    step = "see what should remove these finalizers, wait until it is gone, then run again"
    return f"the namespace {namespace} is being deleted and takes no objects: {holders} ({step})"


def dry_run_removal(connection: Connection, request: BatchRequest, *, nodes: bool = False) -> tuple[DryRun, list[Json]]:
    """Look whether the removal of a set would reach its end, by a dry run of every deletion.

    Return that, and the objects that would be deleted. ``nodes``: labels are taken off nodes, too. Raises
    :class:`ApiFault` where the server gives no answer or does not know the user.
    """
    user = who_am_i(connection)
    kinds = Kinds(lambda path: fetch_group(connection, path))
    try:
        result, failures = run(connection, replace(request, absent=True, check=True, wait=False)), []
    except BatchError as err:
        result, failures = err.result, err.result.failures
    deleted = [change for change in result.changes if change.action == DELETED]
    refused = {need for need in (refused_need(fault) for _key, fault in failures) if need is not None}
    problems = [str(fault) for _key, fault in failures if refused_need(fault) is None]
    keys = [change.key for change in deleted]
    # What was refused is to go all the same, and the inventory, which comes after it, was not tried then.
    refused_keys = [key for key, fault in failures if key is not None and refused_need(fault) is not None]
    keys += [*refused_keys, inventory_key(request.set_name, request.inventory_namespace)] if refused_keys else []
    needs = removal_needs(keys, kinds.find, request.set_name, request.inventory_namespace, nodes=nodes)
    missing = missing_rights(connection, needs) if needs else Missing()
    lacked = missing.needs | refused
    notices = [*_notices(user, frozenset(), missing.unknown), *result.notices]
    found = DryRun(user, [*([_lacks(user, lacked, f"{_PUSH} and {_ROLLOUT}")] if lacked else []), *problems], notices)
    return found, [change.before for change in deleted if change.before is not None]


def dry_run_rollout(connection: Connection, namespace: str, *, removes: bool = False) -> DryRun:
    """Look whether nodes can be drained and slots be taken in a namespace; raises :class:`ApiFault`.

    A run that ``removes`` may find the namespace gone: where no host has anything of ours, no slot is needed either.
    """
    user = who_am_i(connection)
    missing = missing_rights(connection, rollout_needs([namespace]))
    problems = [_lacks(user, missing.needs, _ROLLOUT)] if missing.needs else []
    notices: list[str] = []
    try:
        connection.request("get", f"/api/v1/namespaces/{namespace}", what=f"the namespace {namespace}")
    except ApiFault as fault:
        # Who may not look at it can have slots in it all the same.
        if fault.fault is Fault.NOT_FOUND and removes:
            notices = [f"there is no namespace {namespace}: a host that has to be interrupted finds no slot there"]
        elif fault.fault is Fault.NOT_FOUND:
            problems.append(f"there is no namespace {namespace}, where the slots are kept (run rdma.fabric.site first)")
        elif fault.fault is not Fault.FORBIDDEN:
            raise
    return DryRun(user, problems, [*notices, *_notices(user, frozenset(), missing.unknown)])


def dry_run_joining(connection: Connection, nodes: Iterable[str]) -> DryRun:
    """Look whether the nodes of these names can be tainted, marked and looked at; raises :class:`ApiFault`."""
    return _check_rights(connection, joining_needs(nodes), _JOIN)


def dry_run_labelling(connection: Connection, *, drivers: bool) -> DryRun:
    """Look whether nodes can be labelled, with ``drivers`` by the pods of drivers too; raises :class:`ApiFault`."""
    return _check_rights(connection, labelling_needs(drivers=drivers), _LABELS)


def say_device_rights(connection: Connection, namespaces: Iterable[str]) -> list[str]:
    """Say what keeps pods of the SR-IOV device plugin from being started anew, as notices; raises ApiFault."""
    found = _check_rights(connection, device_needs(namespaces), "rdma-fabric-devices")
    why = "where this run changes VFs it could not start the device plugin anew"
    return [*(f"{why}: {problem}" for problem in found.problems), *found.notices]


def dry_run_release(connection: Connection, release: str, namespace: str) -> DryRun:
    """Look whether a release of Helm can be kept in a namespace, and no other operator is there; raises ApiFault."""
    found = _check_rights(connection, release_needs(namespace), _HELM)
    if found.problems:
        return found
    others = of_other_release(list_objects(connection, DEPLOYMENTS, AS_DEPLOYMENTS, {}), release, namespace)
    step = "name its release with rdma_fabric_helm_release and rdma_fabric_namespace, or remove it"
    problems = [
        f"a Network Operator runs that is not of the release {release} in {namespace}: {each} (next: {step})"
        for each in others
    ]
    return replace(found, problems=problems)


def seen_or_said(look: Callable[[], list[str]], what: str) -> list[str]:
    """Return what there is to say after a look, or that it was not checked where the user may not; raises ApiFault."""
    found, untold = seen_or_told(look, f"not checked {what}")
    return [*(found or []), *untold]


def say_other_daemon_sets(connection: Connection, objects: Collection[Json]) -> list[str]:
    """Name the DaemonSets that do beside a push what its objects would do, as notices; raises ApiFault.

    So are those of a GPU driver that wait for what is not deployed. Nothing is asked where the push deploys nothing
    that a cluster may have from elsewhere.
    """
    names = names_of_duplicates(objects)
    if not names:
        return []

    def look() -> list[str]:
        live = list(list_objects(connection, _DAEMON_SETS, _AS_DAEMON_SETS, {}))
        cilium = cilium_beside(objects, live)
        renamed = [] if cilium is None else _say_renamed(connection, cilium)
        return [*duplicates(objects, live), *renamed, *waiting_gpu_drivers(objects, live)]

    return seen_or_said(look, f"whether the cluster has another {' or '.join(names)}")


def _say_renamed(connection: Connection, config: Key) -> list[str]:
    """Say that Cilium renames the configuration of Multus, or that this was not checked; raises ApiFault."""

    def look() -> list[str]:
        found = get_object(connection, Kinds(lambda path: fetch_group(connection, path)), config) or {}
        return renamed_by_cilium(config, found.get("data") or {})

    return seen_or_said(look, "whether Cilium renames the CNI configuration of Multus (cni.exclusive)")


def dry_run_proof(connection: Connection, namespaces: Iterable[str]) -> DryRun:
    """Look whether nodes can be tested on the wire, with pods in these namespaces; raises :class:`ApiFault`."""
    return _check_rights(connection, proof_needs(namespaces), _PROOF)


def _check_rights(connection: Connection, needs: Needs, role: str) -> DryRun:
    user = who_am_i(connection)
    missing = missing_rights(connection, needs)
    problems = [_lacks(user, missing.needs, role)] if missing.needs else []
    return DryRun(user, problems, _notices(user, frozenset(), missing.unknown))


def _reads(keys: Iterable[Key], find: Find) -> set[Need]:
    """Return the rights without which nobody can see what is there."""
    return {need for need in push_needs(keys, find, "", "") if need.verb == "list"}


def _without_pruning(needs: Iterable[Need]) -> set[Need]:
    """Return the rights that a run takes that deletes nothing but its Lease."""
    return {need for need in needs if need.verb != "delete" or need.group == LEASE_GROUP}


def _used(result: BatchResult, find: Find) -> set[Need]:
    """Return the rights that the changes of a dry run would take."""
    found: set[Need] = set()
    for change in result.changes:
        verbs = _VERBS.get(change.action, ())
        found |= {need for need in push_needs([change.key], find, "", "") if need.verb in verbs}
    return found


def _lacks(user: str, needs: Iterable[Need], role: str) -> str:
    who = f"the user {user}" if user else "the user"
    lines = "".join(f"\n      {line}" for line in grouped(needs))
    return f"{who} lacks rights that this run uses:{lines}\n      {_NEXT_STEP.format(role=role)}"


def _notices(user: str, besides: frozenset[Need], unknown: frozenset[Need]) -> list[str]:
    found = []
    if not user:
        found.append(
            "the API server is older than 1.28 and does not report the user's name; the rights were checked anyway"
        )
    if besides:
        rights = "; ".join(grouped(besides))
        unsaid = "nobody can tell why, or that its node is not Ready"
        found.append(f"should a pod not start, {unsaid}: the user lacks {rights}")
    if unknown:
        found.append(f"the server does not say whether the user has these rights: {'; '.join(grouped(unknown))}")
    return found
