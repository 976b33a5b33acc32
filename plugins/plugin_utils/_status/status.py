# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts, their nodes and the objects of a fabric are like now, against what is asked for. Pure.

Hosts in the same state are one class. What needs attention is in ``attention``, with what to do about it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.readiness import is_ready, is_workload
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import (
    counted,
    natural_key,
    port_state,
    rail_rows,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

from .counters import counter_lines
from .gpus import gpu_lines
from .service import service_attention, service_lines

MATCHING, PENDING, REBOOT, CONSENT, REFUSED = "matching", "pending", "reboot", "needs consent", "refused"
UNREACHABLE, FAILED = "unreachable", "failed"
_WORST_FIRST = (FAILED, UNREACHABLE, REFUSED, CONSENT, PENDING, REBOOT, MATCHING)
_STATUS_STATES = (("refused", REFUSED), ("needs_consent", CONSENT), ("planned", PENDING), ("needs_reboot", REBOOT))
_NEXT = {
    FAILED: "its own error above says why",
    UNREACHABLE: "fix it, or leave it out with --limit",
    REFUSED: "rdma.fabric.site --check --diff says why of each step",
    CONSENT: "rdma.fabric.site --check --diff names the variable of each step",
    PENDING: "rdma.fabric.site applies it",
    REBOOT: "rdma.fabric.site -e rdma_fabric_allow_reboot=true, or reboot them yourself",
}
_CREATED, _UNCHANGED = "created", "unchanged"
_DIFFERING = (_CREATED, "configured", "deleted")
_NETWORK = "NetworkAttachmentDefinition"
_MOST_NAMED = 6
_MOST_CLASSES = 12


def host_classes(documents: Iterable[Json], unfinished: Mapping[str, str], spec: Mapping[str, Any]) -> list[Json]:
    """Return hosts in the same state as one entry each, those that need attention first.

    ``documents`` are host documents, ``unfinished`` has why other hosts have none, ``spec`` is the validated input.
    """
    found: dict[tuple[Any, ...], list[str]] = {}
    for document in documents:
        desired = (spec.get("hosts") or {}).get(document["host"]) or {}
        steps = Counter((step["status"], step["concern"]) for step in document["plan"]["steps"])
        statuses = {status for status, _concern in steps}
        state = next((state for status, state in _STATUS_STATES if status in statuses), MATCHING)
        detail = ", ".join(f"{count} {_words(status, concern)}" for (status, concern), count in sorted(steps.items()))
        reboot = "needs_reboot" in statuses
        links = tuple(links_down(document["facts"], desired))
        found.setdefault((state, detail, reboot, links), []).append(document["host"])
    for host, why in unfinished.items():
        state, _colon, reason = why.partition(": ")
        known = state in (UNREACHABLE, FAILED)
        key = (state if known else FAILED, one_line(reason if known else why), False, ())
        found.setdefault(key, []).append(host)
    classes = [
        {"state": state, "detail": detail, "reboot": reboot, "links_down": list(links), "hosts": hosts}
        for (state, detail, reboot, links), hosts in found.items()
    ]
    for each in classes:
        each["hosts"].sort(key=natural_key)
    return sorted(classes, key=lambda each: (_WORST_FIRST.index(each["state"]), not each["links_down"], each["hosts"]))


def _words(status: str, concern: str) -> str:
    name = concern.replace("_", " ")
    return name if status == "planned" else f"{name} ({status.replace('_', ' ')})"


def links_down(facts: Json, desired: Mapping[str, Any]) -> list[str]:
    """Return the ports without a link among the rails of a host and the interfaces that are asked to be up."""
    names = {str(nic["address"]): one_line(", ".join(nic["netdevs"])) for nic in facts["nics"]}
    by_name = {str(netdev["name"]): str(netdev["pci"]) for netdev in facts["netdevs"] if netdev["pci"]}
    wanted = {str(rail["nic"]): f"rail {rail['rail']}" for rail in rail_rows(facts)}
    for entry in desired.get("interfaces") or ():
        name = entry.get("name") or entry.get("current_name") or ""
        pci = entry.get("pci") or by_name.get(entry.get("current_name") or "") or by_name.get(name)
        if pci in names and (entry.get("state") == "up" or pci in wanted):
            wanted[pci] = name or wanted.get(pci, pci)
    down = [(pci, label) for pci, label in sorted(wanted.items()) if port_state(facts, pci)["state"] == "down"]
    return [f"{label} ({names.get(pci) or pci})" if names.get(pci) != label else label for pci, label in down]


def cluster_state(result: Mapping[str, Any], nodes: Sequence[Json], resources: Sequence[str], ours: set[str]) -> Json:
    """Return what the cluster is like: ``result`` of a dry run of the batch, its nodes, and the resources asked for.

    ``ours`` are the names of the nodes of the hosts.
    """
    rows = result.get("results") or []
    waits = result.get("waits") or []
    missing = [
        {"name": _named(row), "reason": "not in the cluster"}
        for row in rows
        if row["action"] == _CREATED and is_workload(row["kind"])
    ]
    not_ready = [{"name": _named(wait), "reason": str(wait["reason"] or "")} for wait in waits if not wait["ready"]]
    offered = [offer_of(node, resources) for node in nodes]
    anywhere = {name for offer in offered for name, amount in offer.items() if amount != "0"}
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, offer in zip(nodes, offered):
        if offer or node["metadata"]["name"] in ours:
            groups.setdefault(tuple(sorted(offer.items())), []).append(str(node["metadata"]["name"]))
    return {
        "objects": {
            "total": sum(row["action"] != "deleted" for row in rows),
            "matching": sum(row["action"] == _UNCHANGED for row in rows),
            "differing": [f"{_named(row)} ({row['action']})" for row in rows if row["action"] in _DIFFERING],
        },
        "components": {
            "total": len(waits) + len(missing),
            "ready": sum(bool(wait["ready"]) for wait in waits),
            "not_ready": [*not_ready, *missing],
        },
        "resources": [{"nodes": sorted(names), "allocatable": dict(offer)} for offer, names in sorted(groups.items())],
        "not_offered": [name for name in resources if name not in anywhere],
        "nodes_not_ready": sorted(
            str(node["metadata"]["name"]) for node in nodes if node["metadata"]["name"] in ours and not is_ready(node)
        ),
        "networks": [
            {"name": _named(row), "state": "missing" if row["action"] == _CREATED else "there"}
            for row in rows
            if row["kind"] == _NETWORK and row["action"] != "deleted"
        ],
    }


def offer_of(node: Json, resources: Sequence[str]) -> dict[str, str]:
    """Return how much of each of these resources pods may take of a node."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {name: str(allocatable[name]) for name in resources if name in allocatable}


def _named(row: Mapping[str, Any]) -> str:
    place = f"{row['namespace']}/" if row.get("namespace") else ""
    return f"{row['kind']} {place}{row['name']}"


def attention_of(classes: Sequence[Json], cluster: Mapping[str, Any] | None) -> list[str]:
    """Return everything that needs attention, each with the next step; nothing where everything matches."""
    found = []
    for state in _WORST_FIRST[:-1]:
        hosts = [host for each in classes if each["state"] == state for host in each["hosts"]]
        if hosts:
            found.append(f"{state}: {listed(hosts)}; next: {_NEXT[state]}")
    waiting = [host for each in classes if each["reboot"] and each["state"] != REBOOT for host in each["hosts"]]
    if waiting:
        found.append(f"reboot as well: {listed(waiting)}; next: {_NEXT[REBOOT]}")
    down = [
        f"{host} {', '.join(each['links_down'])}" for each in classes if each["links_down"] for host in each["hosts"]
    ]
    if down:
        found.append(f"links down: {listed(down)}; next: look at cable, transceiver and switch port")
    if cluster is None:
        return found
    if cluster.get("error"):
        return [*found, f"the cluster: {cluster['error']}"]
    differing, components = cluster["objects"]["differing"], cluster["components"]
    if differing:
        found.append(f"{counted(len(differing), 'object')} to be changed: {listed(differing)}; next: rdma.fabric.site")
    if components["not_ready"]:
        step = "rdma.fabric.site waits for their pods and says why"
        found.append(f"not ready: {listed([each['name'] for each in components['not_ready']])}; next: {step}")
    found += [*(cluster.get("kept_off") or []), *(cluster.get("stale") or [])]
    if cluster["nodes_not_ready"]:
        found.append(f"nodes not ready: {listed(cluster['nodes_not_ready'])}; next: look at their kubelet")
    if cluster["not_offered"]:
        step = "look at the device plugin's pods, and whether the interfaces that it selects are there"
        found.append(f"no node offers {listed(cluster['not_offered'])}; next: {step}")
    return [*found, *service_attention(cluster)]


def screen(status: Mapping[str, Any]) -> list[str]:
    """Return the status as lines of one screen: hosts, cluster, and the block with result and next step."""
    lines = [f"hosts: {status['hosts']['total']}"]
    lines += _class_lines(status["hosts"]["classes"])
    lines += counter_lines(status.get("counters"))
    lines += gpu_lines(status.get("gpus"))
    lines += [f"  {one_line(text)}" for text in status.get("devices") or []]
    if status.get("release"):
        lines.append(f"engine: helm, {one_line(status['release'])}")
    lines += _cluster_lines(status["cluster"])
    attention = status["attention"]
    if not attention:
        return [*lines, "result: everything matches the input; next: nothing to do"]
    noun = "thing needs" if len(attention) == 1 else "things need"
    return [*lines, f"result: {len(attention)} {noun} a person", *(f"  - {text}" for text in attention)]


def _class_lines(classes: Sequence[Json]) -> list[str]:
    """Return a line for each group of hosts, of each state the first few, and one for the hosts of the others.

    What hosts fail by may differ from host to host: ssh names the address that it can't reach.
    """
    lines = []
    for state in dict.fromkeys(each["state"] for each in classes):
        own = [each for each in classes if each["state"] == state]
        for each in own[:_MOST_CLASSES]:
            said = [each["detail"]] if each["detail"] else []
            said += [f"link down: {', '.join(each['links_down'])}"] if each["links_down"] else []
            lines.append(_class_line(state, each["hosts"], "; ".join(said)))
        others = [host for each in own[_MOST_CLASSES:] for host in each["hosts"]]
        lines += [_class_line(state, others, f"in {len(own) - _MOST_CLASSES} other ways")] if others else []
    return lines


def _class_line(state: str, hosts: Sequence[str], said: str) -> str:
    return f"{len(hosts):>6}  {state:<13} {listed(hosts)}{'; ' if said else ''}{said}"


def _cluster_lines(cluster: Mapping[str, Any] | None) -> list[str]:
    if cluster is None:
        return ["cluster: not contacted, with hosts only; rdma_fabric_kubeconfig has nodes out of service shown"]
    if cluster.get("error"):
        return ["cluster: not read, see below"]
    objects, components, networks = cluster["objects"], cluster["components"], cluster["networks"]
    there = sum(each["state"] == "there" for each in networks)
    lines = [
        f"cluster: {cluster['server']}",
        f"  objects     {objects['matching']} of {objects['total']} matching",
        f"  components  {components['ready']} of {components['total']} ready",
    ]
    lines += [f"              {each['name']}: {each['reason']}" for each in components["not_ready"]]
    for each in cluster["resources"]:
        offer = ", ".join(f"{name} {amount}" for name, amount in each["allocatable"].items()) or "none"
        lines.append(f"  resources   {counted(len(each['nodes']), 'node')}: {offer} ({listed(each['nodes'])})")
    lines += [f"  resources   no node: {listed(cluster['not_offered'])}"] if cluster["not_offered"] else []
    return [*lines, f"  networks    {there} of {len(networks)} there", *service_lines(cluster)]


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    return named([one_line(name) for name in names], _MOST_NAMED)
