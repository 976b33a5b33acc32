# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input held against what is in the cluster: networks beside it, nodes of policies, pools of nv-ipam.

Every IPAM plugin remembers what it has assigned by a name: whereabouts by ``network_name`` (``IPPoolName`` and
``NormalizeIP`` of its pkg/storage/kubernetes), nv-ipam by the pool, host-local by the network. By another name it
assigns the same addresses once more, while the pods that run keep theirs. So it is in another namespace: whereabouts
has its IPPools in that of its DaemonSet (script/install-cni.sh), nv-ipam the parts of nodes in the status of a pool.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import REQUIRED, selects
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from . import nad, nv_ipam
from .ipam import Claim, shared_addresses
from .nad import Attachment
from .nv_ipam import entries
from .nv_ipam_parts import losing_nodes, parts_of

Body = Mapping[str, Any]


def assigned_twice(changes: Iterable[tuple[Body | None, Body | None]]) -> list[str]:
    """Return a notice for each network that would assign addresses that pods of one before have.

    ``changes`` are live objects with what becomes of them, None where there is nothing.
    """
    pairs = list(changes)
    known, coming = (nv_ipam.claims_of(list(_pools(pair[side] for pair in pairs))) for side in (0, 1))
    held = [(_held(one, known), _held(other, coming)) for one, other in pairs if one is not other]
    before = [each for old, _new in held for each in old]
    found: dict[str, str] = {}
    for wire, network, claim in (each for _old, new in held for each in new):
        for former_wire, former, other in before:
            kept = (claim.memory or claim.pool) == (other.memory or other.pool)
            if wire == former_wire and not kept and shared_addresses(claim, other):
                said = (
                    f"{network} would assign addresses of {claim.text} once more that pods have of {other.text}, by "
                    f"{'what it is now' if former == network else former}: the new name that they are assigned by has "
                    "no record of those (next: keep network_name, pool or name and the range, take another range, or "
                    "end the pods on it first)"
                )
                found.setdefault(network, said)
    return [*_moved_records(pairs), *found.values()]


def _moved_records(pairs: Sequence[tuple[Body | None, Body | None]]) -> Iterator[str]:
    """Yield a notice for whereabouts and each pool of nv-ipam that begin anew in another namespace."""
    left, made = (_records([pair[side] for pair in pairs if pair[1 - side] is None]) for side in (0, 1))
    for kind, name in sorted(left.keys() & made.keys()):
        yield (
            f"{kind} {left[kind, name]}/{name} moves to the namespace {made[kind, name]}, where nothing is recorded of "
            "the addresses that pods have: others may get them, too (next: keep the namespace, or end the pods on its "
            "networks first)"
        )


def _records(bodies: Sequence[Body | None]) -> dict[tuple[str, str], str]:
    """Return the namespaces of what has its record of addresses there, by kind and name."""
    recording = {("DaemonSet", "whereabouts"), *((pool["kind"], pool["name"]) for pool in _pools(bodies))}
    known = [
        ((str(body.get("kind")), body["metadata"]["name"]), body["metadata"]) for body in bodies if body is not None
    ]
    return {key: str(its.get("namespace")) for key, its in known if key in recording}


def _held(body: Body | None, pools: Mapping[nv_ipam.PoolKey, Claim]) -> list[tuple[tuple[str, ...], str, Claim]]:
    """Return (wire, network, claim) of what an attachment assigns."""
    if body is None or body.get("kind") != nad.KIND:
        return []
    metadata = body["metadata"]
    name = f"{nad.KIND} {metadata.get('namespace')}/{metadata['name']}"
    config = (body.get("spec") or {}).get("config") or ""
    attachment = Attachment(name, metadata["name"], str(config), metadata.get("annotations") or {})
    return [(wire, name, claim) for wire, held in nad.claims_by_wire(attachment, pools) for claim in held]


def _pools(bodies: Iterable[Body | None]) -> Iterator[Body]:
    for body in bodies:
        if (
            body is not None
            and body.get("kind") in nv_ipam.POOL_KINDS
            and body.get("apiVersion") == nv_ipam.API_VERSION
        ):
            yield {"kind": body["kind"], "name": body["metadata"]["name"], "spec": body.get("spec") or {}}


# The nodes that more than one NicNodePolicy selects.
#
# The Network Operator judges that by the labels that nodes have, and does nothing where two meet
# (``pkg/policyoverlap``). Selectors of which one selects all nodes of the other are refused with the input.
_HINT = "set different values of one label in their nodeSelectors, or take a label off the nodes"


def may_meet(spec: Mapping[str, Any]) -> bool:
    """Return whether a FabricSpec has policies that could select the same node."""
    return len(spec.get("node_policies") or []) > 1


def meetings(spec: Mapping[str, Any], nodes: Iterable[tuple[str, Mapping[str, str]]]) -> list[str]:
    """Return which nodes, given as (name, labels), are selected by which policies, where those are several."""
    selectors = {
        str(policy["name"]): {str(key): str(value) for key, value in (policy["spec"].get("nodeSelector") or {}).items()}
        for policy in spec.get("node_policies") or []
    }
    found: dict[tuple[str, ...], list[str]] = {}
    for node, labels in nodes:
        selecting = tuple(sorted(name for name, wanted in selectors.items() if wanted.items() <= labels.items()))
        if len(selecting) > 1:
            found.setdefault(selecting, []).append(node)
    return [
        f"a node follows one NicNodePolicy at most, and {' and '.join(policies)} select the same: {named(names)} "
        f"(next: {_HINT})"
        for policies, names in sorted(found.items())
    ]


_GROUP = "nv-ipam.nvidia.com/"
_POOLS = ("IPPool", "CIDRPool")
_MOST_NAMED = 6


def moved_parts(changes: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """Return a notice for each pool whose change takes from nodes the part that they have.

    ``changes`` are live objects with what becomes of them. The daemons of nodes know of the pods of their own node
    only, so nothing keeps an address from the node that gets it next.
    """
    found = []
    for before, after in changes:
        kind = str(before.get("kind"))
        if kind not in _POOLS or not str(before.get("apiVersion")).startswith(_GROUP):
            continue
        nodes = losing_nodes(kind, after["spec"], (before.get("status") or {}).get("allocations") or [])
        if nodes:
            pool = f"{kind} {before['metadata'].get('namespace')}/{before['metadata']['name']}"
            found.append(
                f"{pool}: the change moves nodes to other addresses ({named(nodes, _MOST_NAMED)}). "
                "Pods that run keep theirs, and nv-ipam gives these to pods of other nodes, too (next: make a pool of "
                "another name, or end the pods on its networks first)"
            )
    return found


def names_nodes(pools: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a pool ``{"kind", "name", "spec"}`` keeps a part for a node by its name."""
    return any(_named_nodes(pool["spec"]) for pool in pools)


def absent_nodes(pools: Iterable[Mapping[str, Any]], nodes: Collection[str]) -> list[str]:
    """Return a notice for each pool that keeps parts for nodes which the cluster does not have; ``nodes`` are its own.

    The controller gives such a part to nobody, and the node that was meant gets any other one
    (``getNewAllocationForNode`` of nvidia-k8s-ipam, ``pkg/ipam-controller/controllers/cidrpool``).
    """
    found = []
    for pool in pools:
        absent = [node for node in _named_nodes(pool["spec"]) if node not in nodes]
        if absent:
            found.append(
                f"{pool['kind']} {pool['name']}: staticAllocations keep parts for {named(absent, _MOST_NAMED)}, and "
                "the cluster has no node of that name: no node gets them (fine for nodes that join later; next: "
                "kubectl get nodes shows the names)"
            )
    return found


def pools_too_small(pools: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a notice for each pool with fewer parts than nodes that it selects; ``nodes`` are those of the cluster.

    The controller tells it by an event of the pool alone (``NoFreeRanges`` and ``NoFreePrefixes`` of nvidia-k8s-ipam,
    ``pkg/ipam-controller/controllers``), and which nodes are left out depends on the order in which it sees them.
    """
    known, found = list(nodes), []
    for pool in pools:
        given = parts_of(pool["kind"], pool["spec"]).given
        meant = {"affinity": {"nodeAffinity": {REQUIRED: pool["spec"].get("nodeSelector")}}}
        selected = sum(selects(meant, node) for node in known)
        if selected > given:
            size = "a smaller perNodeBlockSize" if pool["kind"] == "IPPool" else "a longer perNodeNetworkPrefix"
            found.append(
                f"{pool['kind']} {pool['name']}: it has parts for {given} of {selected} nodes, so pods of its networks "
                f"get no address on the others (next: a larger network, {size}, or a nodeSelector of fewer nodes)"
            )
    return found


def _named_nodes(spec: Mapping[str, Any]) -> list[str]:
    return [str(entry["nodeName"]) for _where, entry in entries(spec, "staticAllocations") if entry.get("nodeName")]
