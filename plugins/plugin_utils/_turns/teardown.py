# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a teardown may begin with, how far it goes, and what it takes off a cluster beside the objects of the set."""

from __future__ import annotations

import json
from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import WAIT_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nfd_rules import pruning_patch
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.removal import offered_by
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import leases, nodes
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.node_labels import unlabelling_patch
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.operators import NETWORK_OPERATOR, SRIOV_OPERATOR
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.joining import to_forget
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import FINISHED, NETWORKS, asked_for
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    GPU_STATE_LABEL,
    GROUP_LABEL,
    IDLE_STATES,
    STATE_LABEL,
    removable,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.variable import PREFIX

CONSENT, IN_USE_CONSENT = f"{PREFIX}allow_teardown", f"{PREFIX}allow_teardown_in_use"
_MOST_NAMED = 10
_NFD = ("Deployment", "nfd-master")
_DRIVERS = ("ServiceAccount", "ofed-driver")


class Written(NamedTuple):
    """What a run has written to nodes.

    They are labels of Node Feature Discovery, labels of its own, marks of joined nodes, and whether a driver is ready.
    """

    nfd: bool
    labels: bool
    marks: bool
    drivers: bool


def why_the_cluster_stays(hosts: Sequence[str], within: Sequence[str]) -> str:
    """Return why the cluster objects are left as they are, an empty string where they go.

    ``within`` are those ``hosts`` of the fabric that a limit leaves in. One that leaves all of them out names localhost
    alone, which stands for the cluster objects.
    """
    inside = set(within)
    others = [host for host in hosts if host not in inside]
    if not others or not inside:
        return ""
    return (
        f"the cluster objects stay, as hosts that the limit leaves out need them: {named(others, _MOST_NAMED)}; a run "
        "without a limit, or with --limit localhost, removes it"
    )


def objections(sealed: bool, plan_file: str, playbook: str = "a teardown") -> list[str]:
    """Return what a run of ``playbook`` is asked for and can't do."""
    found = []
    if sealed:
        found.append(f"{PREFIX}sealed_plan: a sealed plan is one of site or upgrade, not of {playbook}; leave it out")
    if plan_file.strip():
        found.append(f"{PREFIX}plan_file: only site --check writes a plan; leave it out")
    return found


def without_consent(check: bool) -> str:
    """Return what is said where nobody has consented to the teardown."""
    what = "takes hosts and the cluster back to what they were before the first run"
    return f"this run {what}, {'which will need' if check else 'which needs'} the consent {CONSENT}: true"


def in_use(
    connection: Connection, bodies: Iterable[Mapping[str, Any]], staying: Iterable[Mapping[str, Any]] = ()
) -> list[str]:
    """Return the pods that use what the live objects offer, and those ``staying`` do not; raises ApiFault.

    That takes one LIST of all pods, and none where nothing is offered.
    """
    offered, kept = offered_by(bodies), offered_by(staying)
    networks, resources = offered.networks - kept.networks, offered.resources - kept.resources
    if not (networks or resources):
        return []
    return users_of(nodes.all_pods(connection), networks, resources)


def say_in_use(users: Sequence[str]) -> str:
    """Return who uses what is to be removed, and why that matters."""
    noun, verb = ("pod", "uses") if len(users) == 1 else ("pods", "use")
    return (
        f"{len(users)} {noun} still {verb} networks or devices of this set: {named(list(users), _MOST_NAMED)}; without "
        "the programs of the networks no such pod starts, and one that ends gives back neither its addresses nor its "
        "functions"
    )


def say_lost(users: Sequence[str]) -> str:
    """Return who uses what a push removes or gives another name, and what becomes of them."""
    noun, verb = ("pod", "uses") if len(users) == 1 else ("pods", "use")
    return (
        f"{len(users)} {noun} {verb} networks or resources that this push removes or renames: "
        f"{named(list(users), _MOST_NAMED)}; they keep running, but no new pod that asks for these starts (next: first "
        "change what creates these pods, or keep the networks and resources)"
    )


def next_step_of_users() -> str:
    """Return what to do about pods that use what is to be removed."""
    return f"end them (scale what makes them to 0) and run again, or consent with {IN_USE_CONSENT}: true"


def labels_nodes(waves: list[dict[str, Any]]) -> bool:
    """Return whether the set brings the Node Feature Discovery that labels the nodes."""
    return any((body["kind"], body["metadata"]["name"]) == _NFD for body in objects_of(waves))


def has_drivers(waves: list[dict[str, Any]]) -> bool:
    """Return whether the set brings the driver's container, after which nodes are labelled."""
    return any((body["kind"], body["metadata"]["name"]) == _DRIVERS for body in objects_of(waves))


def clean_nodes(connection: Connection, written: Written, *, check: bool) -> list[str]:
    """Take what was written to nodes off them; return their names. Raises ApiFault."""
    found = []
    for node in nodes.all_nodes(connection) if any(written) else []:
        name = str(node["metadata"]["name"])

        def attempt(live: Mapping[str, Any], name: str = name) -> bool | None:
            patch = _cleaning_patch(live, written)
            if patch is None:
                return False
            return True if nodes.patch_node(connection, name, patch, dry_run=check) is not None else None

        if nodes.write_node(connection, name, attempt, node):
            found.append(name)
    return found


def _cleaning_patch(node: Mapping[str, Any], written: Written) -> dict[str, Any] | None:
    """Return the one merge patch that takes all of it off a node; None where there is nothing."""
    patches = [
        pruning_patch(node) if written.nfd else None,
        unlabelling_patch(node) if written.labels else None,
        to_forget(node).patch if written.marks else None,
        _without_wait(node) if written.drivers else None,
    ]
    merged: dict[str, Any] = {}
    for patch in patches:
        for name, value in patch["metadata"].items() if patch else ():
            merged[name] = {**merged.get(name, {}), **value} if isinstance(value, Mapping) else value
    return {"metadata": merged} if merged else None


def _without_wait(node: Mapping[str, Any]) -> dict[str, Any] | None:
    labelled = WAIT_LABEL in (node["metadata"].get("labels") or {})
    return {"metadata": {"labels": {WAIT_LABEL: None}}} if labelled else None


def delete_slots(connection: Connection, namespace: str, *, check: bool) -> tuple[list[str], list[str]]:
    """Delete the Leases of free slots; return their names, and notices of those that stay. Raises ApiFault."""
    groups, held = removable(leases.leases_of(connection, namespace, GROUP_LABEL).read())
    gone = []
    for group in groups:
        for lease in group:
            if not leases.delete_lease(connection, lease, dry_run=check):
                # Somebody takes slots of the group just now; those below stay what they are.
                break
            gone.append(str(lease["metadata"]["name"]))
    notices = [f"the slots in {namespace} stay, as nodes have some: {named([str(slot) for slot in held], _MOST_NAMED)}"]
    return gone, notices if held else []


# What operators leave on nodes that nobody takes off once they are gone. Pure.
#
# Sources: NVIDIA/k8s-operator-libs (states of upgrades), Mellanox/network-operator#508 (labels of waits),
# k8snetworkplumbingwg/sriov-network-operator, ``pkg/consts/constants.go`` (state of its drain) and its #429 (nodes that
# a drain leaves cordoned).
_SLOT = "each counts as a taken slot"
_WAITS = "pods that select false are not placed there"


class _Mark(NamedTuple):
    """What programs put on nodes: whose it is, where it stands, values that keep nobody, and what others do."""

    programs: tuple[str, ...]
    part: str
    key: str
    harmless: tuple[str, ...]
    means: str


_MARKS = (
    _Mark((NETWORK_OPERATOR,), "labels", STATE_LABEL, IDLE_STATES, _SLOT),
    _Mark(("gpu-operator",), "labels", GPU_STATE_LABEL, IDLE_STATES, _SLOT),
    _Mark((NETWORK_OPERATOR,), "labels", WAIT_LABEL, ("false",), _WAITS),
    _Mark(
        (NETWORK_OPERATOR, "nic-configuration-operator"),
        "labels",
        "network.nvidia.com/operator.nic-configuration.wait",
        ("false",),
        _WAITS,
    ),
    _Mark((SRIOV_OPERATOR,), "annotations", "sriovnetwork.openshift.io/state", ("Idle",), "its drain has not ended"),
)


def left_on_nodes(
    nodes: Sequence[Mapping[str, Any]], programs: Collection[str], *, drivers: bool
) -> tuple[list[str], list[str]]:
    """Return what is left of upgrades that keep slots, and of other work, each with the step.

    ``programs`` are those that run in the cluster; with ``drivers`` this collection sets the label of their wait.
    """
    slots: list[str] = []
    others: list[str] = []
    for mark in _MARKS:
        if not (set(mark.programs) & set(programs) or (drivers and mark.key == WAIT_LABEL)):
            told = _told(mark, nodes)
            (slots if mark.means == _SLOT else others).extend(told)
    return slots, others


def _told(mark: _Mark, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        value = (node["metadata"].get(mark.part) or {}).get(mark.key)
        if value is not None and value not in mark.harmless:
            found.setdefault(value, []).append(node)
    verb = "label" if mark.part == "labels" else "annotate"
    return [
        f"{named([node['metadata']['name'] for node in marked])}: {mark.key} is {value}, of the {mark.programs[0]}, "
        f"which does not run: {mark.means} (next: kubectl {verb} nodes --all {mark.key}-{_uncordon(marked)})"
        for value, marked in sorted(found.items())
    ]


def _uncordon(nodes: Sequence[Mapping[str, Any]]) -> str:
    cordoned = [str(node["metadata"]["name"]) for node in nodes if (node.get("spec") or {}).get("unschedulable")]
    return f", and where the cordon is its own kubectl uncordon {' '.join(cordoned)}" if cordoned else ""


def users_of(pods: Iterable[Json], networks: Collection[str], resources: Collection[str]) -> list[str]:
    """Return the pods on a node that use one of the networks (``namespace/name``) or resources, each with what it uses.

    A pod that has finished, or that no node runs yet, uses nothing.
    """
    found = []
    for pod in pods:
        if not (pod.get("spec") or {}).get("nodeName") or (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        used = [
            *(f"network {name}" for name in sorted(networks_of(pod).intersection(networks))),
            *(f"resource {name}" for name in sorted(asked_for(pod["spec"]).intersection(resources))),
        ]
        if used:
            found.append(f"{pod['metadata'].get('namespace') or 'default'}/{pod['metadata']['name']} ({used[0]})")
    return sorted(found)


def networks_of(pod: Json) -> set[str]:
    """Return the secondary networks that the annotations of a pod name, as ``namespace/name``.

    Both forms of the multi-network specification: a list with commas (``namespace/name@interface``), and JSON. What
    can't be read names none, as Multus does not start such a pod either.
    """
    annotations, own = pod["metadata"].get("annotations") or {}, str(pod["metadata"].get("namespace") or "default")
    found: set[str] = set()
    for key in NETWORKS:
        text = str(annotations.get(key) or "").strip()
        found |= _of_json(text, own) if text.startswith("[") else _of_words(text, own)
    return found


def _of_words(text: str, own: str) -> set[str]:
    found = set()
    for word in text.split(","):
        namespace, slash, name = word.strip().partition("@")[0].rpartition("/")
        if name:
            found.add(f"{namespace if slash else own}/{name}")
    return found


def _of_json(text: str, own: str) -> set[str]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return {
        f"{entry.get('namespace') or own}/{entry['name']}"
        for entry in entries
        if isinstance(entry, dict) and entry.get("name")
    }
