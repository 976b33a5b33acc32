# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a proof: which nodes are tested on which networks, in which rounds, what forbids it. Pure.

Everything that keeps a proof from starting is found here, all of it at once, before any pod is made.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import Any, Collection, Dict, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, named

from ..parity import ends_of, located
from ..schedule import SCHEDULES, most_rounds, pair_count, rounds
from .endpoint import Choice
from .gpu import ways_of
from .pair import TESTS
from .side import GPU_TEST, Known

Plan = Dict[str, Any]

AT_ONCE = 16
"""Requests about test pods that are under way at the same time, unless more or fewer are asked for."""
MOST_AT_ONCE = 256
"""Each takes a thread here, and a stream of the API server and of a kubelet: with its descriptors this many stay below
the usual limit of 1024 of a process."""
MOST_PAIRS = 100_000
"""Pairs of one run, over all networks, which the report reads whole: one that fails has some 4 kB in a file."""
LEAF_LABEL = "network.topology.nvidia.com/leaf"
"""The leaf switch of a node, as Topograph labels it (NVIDIA/topograph, pkg/topology)."""
_SOURCE = "verify"
_MARGIN = 300
_SECONDS_OF_A_TABLE = 0.01
_MOST_NAMED = 8
_MOST_USERS = 3


class ProofOptions(NamedTuple):
    """What is asked for: networks by name (empty: all), resources by network, the schedule, a namespace for the pods.

    ``ready_timeout`` and ``test_timeout`` are in seconds. ``gpu`` is the resource of a GPU that each pod gets as well;
    without it no GPU memory is tested. ``seed`` gives the order of pairs. ``per_leaf`` pairs of a leaf meet at once,
    all of a round with 0.
    """

    networks: Sequence[str]
    resources: Mapping[str, Sequence[str]]
    schedule: str
    namespace: str | None
    ready_timeout: int
    test_timeout: int
    gpu: str = ""
    seed: int = 0
    per_leaf: int = 0

    @property
    def tests(self) -> list[str]:
        """The tests of each pair, in order."""
        return [test for test in TESTS if self.gpu or test != GPU_TEST]


class Surroundings(NamedTuple):
    """What is there.

    ``networks`` are those of the fabric as ``_fabric`` gives them, ``nodes`` the cluster's (:func:`node_row`),
    ``attachments`` and ``namespaces`` the names of live ones, ``hosts`` the facts by inventory host (None: not read),
    ``names`` the node of a host where that is given, ``users`` the pods with a resource by node: a node with those of a
    network is not tested on it. ``ports`` are the names of ports by network and host (:func:`parity.ports_of`).
    """

    networks: Sequence[dict[str, Any]]
    nodes: Sequence[dict[str, Any]]
    attachments: Sequence[str]
    namespaces: Sequence[str]
    hosts: Mapping[str, dict[str, Any] | None]
    addresses: Mapping[str, str]
    names: Mapping[str, str] = MappingProxyType({})
    users: Mapping[str, Mapping[str, Sequence[str]]] = MappingProxyType({})
    ports: Mapping[str, Mapping[str, Sequence[str]]] = MappingProxyType({})


def make_plan(options: ProofOptions, around: Surroundings) -> Plan:
    """Return ``{"schedule", "seed", "networks", "left_out", "tests"}``; raises InvalidInput with all that forbids it.

    Each network has ``network, namespace, resources, resource, rail, mtu, nodes, rounds, wave, deadline``:
    ``resources`` that a pod asks for, ``resource`` the same in words, ``nodes`` mapping node names to inventory hosts,
    ``wave`` the same number for networks that are tested at once, ``deadline`` the seconds after which its pods end
    themselves.
    """
    violations: list[Violation] = []
    if options.schedule not in SCHEDULES:
        hint = f"one of {', '.join(SCHEDULES)}"
        violations.append(Violation(_SOURCE, "pairs", f"{options.schedule!r} is not a schedule", hint))
    wanted = _wanted(options, around, violations)
    node_of, left_out = _nodes_of_hosts(around)
    networks, pairs = [], 0
    for network in wanted:
        planned, flaws, without = _planned(options, around, network, node_of)
        networks.append(planned)
        violations += flaws
        left_out += without
        pairs += _pairs(options, planned["nodes"], planned["leaves"])
    violations += _too_many(pairs)
    if violations:
        raise InvalidInput(violations)
    _take_turns(options, around, networks)
    return {
        "schedule": options.schedule,
        "seed": options.seed,
        "networks": networks,
        "left_out": left_out,
        "tests": options.tests,
    }


def _pairs(options: ProofOptions, nodes: Collection[str], leaves: Mapping[str, str]) -> int:
    """Return how many pairs of these nodes a schedule has."""
    apart = len(nodes) - len(leaves) + len(set(leaves.values()))
    return pair_count(options.schedule, len(nodes), apart) if options.schedule in SCHEDULES else 0


def _too_many(pairs: int) -> list[Violation]:
    if pairs <= MOST_PAIRS:
        return []
    hint = "test fewer networks in one run (rdma_fabric_verify_networks), or rdma_fabric_verify_pairs: hunt"
    return [Violation(_SOURCE, "pairs", f"{pairs:,} pairs are more than the {MOST_PAIRS:,} of one run", hint)]


def networks_to_test(options: ProofOptions, around: Surroundings) -> list[dict[str, Any]]:
    """Return the networks that are asked for, each with the ``resources`` of its pods, whatever nodes there are.

    Raises InvalidInput with everything that is wrong with them.
    """
    violations: list[Violation] = []
    found = [{**network, "resources": _resources(options, network)} for network in _wanted(options, around, violations)]
    for network in found:
        violations += _missing(network, options.namespace or network["namespace"], around)
        violations += [] if network["resources"] else [_no_resource(network)]
    if violations:
        raise InvalidInput(violations)
    return found


def _wanted(options: ProofOptions, around: Surroundings, violations: list[Violation]) -> list[dict[str, Any]]:
    if not around.networks:
        hint = "give a MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork or NetworkAttachmentDefinition"
        violations.append(Violation(_SOURCE, "networks", "the fabric has no secondary network to test", hint))
    known = [network["network"] for network in around.networks]
    for name in options.resources:
        if not _matching(name, around.networks):
            violations.append(_unknown("resources", name, known))
    if not options.networks:
        return list(around.networks)
    found: list[dict[str, Any]] = []
    for name in options.networks:
        matching = _matching(name, around.networks)
        if not matching:
            violations.append(_unknown("networks", name, known))
        elif len(matching) > 1:
            hint = f"one of {', '.join(each['network'] for each in matching)}"
            violations.append(Violation(_SOURCE, "networks", f"{name} is in several namespaces", hint))
        else:
            found += [each for each in matching if each not in found]
    return found


def _matching(name: str, networks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [network for network in networks if name in (network["network"], network["name"])]


def _unknown(option: str, name: str, known: Sequence[str]) -> Violation:
    hint = f"the fabric has {', '.join(known)}" if known else ""
    return Violation(_SOURCE, option, f"{name!r} is not a network of the fabric", hint)


def _nodes_of_hosts(around: Surroundings) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the inventory host of each node that can take a pod, and hosts that are left out with the reason.

    Of several hosts the one with the node's name has it: a machine that was cloned may have the hostname of another.
    """
    node_of: dict[str, str] = {}
    left_out: list[dict[str, str]] = []
    by_name, by_address = _index(around.nodes)
    for host in sorted(around.hosts, key=lambda each: (around.names.get(each, each) not in by_name, each)):
        node = _node_of(host, around, by_name, by_address)
        if node is None:
            left_out.append({"host": host, "network": "", "why": "no node of the cluster has its name or address"})
        elif not node["ready"]:
            left_out.append({"host": host, "network": "", "why": f"{_the_node(node, host)} is not Ready"})
        elif node["unschedulable"]:
            left_out.append({"host": host, "network": "", "why": f"{_the_node(node, host)} is cordoned"})
        elif node["name"] in node_of:
            why = f"{_the_node(node, host)} is found by its hostname or address, and is that of {node_of[node['name']]}"
            left_out.append({"host": host, "network": "", "why": why})
        else:
            node_of[node["name"]] = host
    return node_of, sorted(left_out, key=lambda each: each["host"])


def _the_node(node: Mapping[str, Any], host: str) -> str:
    """Return how the node of a host is called: without its name where that is the host's, as for others like it."""
    return "the node" if node["name"] == host else f"the node {node['name']}"


def _index(nodes: Sequence[dict[str, Any]]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the first node of each name (its own or its host's) and of each address."""
    by_name: dict[str, dict[str, Any]] = {}
    by_address: dict[str, dict[str, Any]] = {}
    for node in nodes:
        for name in (node["name"], node["hostname"]):
            by_name.setdefault(name, node)
        for address in node["addresses"]:
            by_address.setdefault(address, node)
    return by_name, by_address


def _node_of(
    host: str,
    around: Surroundings,
    by_name: Mapping[str, dict[str, Any]],
    by_address: Mapping[str, dict[str, Any]],
) -> dict[str, Any] | None:
    facts = around.hosts[host] or {}
    hostname = str((facts.get("system") or {}).get("hostname") or "")
    given = around.names.get(host)
    names = [given] if given else [name for name in (host, hostname, hostname.partition(".")[0]) if name]
    found = next((by_name[name] for name in names if name in by_name), None)
    address = around.addresses.get(host)
    return found or (by_address.get(address) if address else None)


def _planned(
    options: ProofOptions, around: Surroundings, network: dict[str, Any], node_of: Mapping[str, str]
) -> tuple[dict[str, Any], list[Violation], list[dict[str, str]]]:
    """Return the plan of one network, what forbids it, and the hosts it leaves out."""
    name = network["network"]
    namespace = options.namespace or network["namespace"]
    flaws = _missing(network, namespace, around)
    resources = _resources(options, network)
    resource = " and ".join(resources)
    leaf_of = _with_resources(around, resources, node_of) if resources else {}
    busy = {node: _users(around, node, [each for each in resources if each != options.gpu]) for node in leaf_of}
    nodes = sorted(node for node in leaf_of if not busy[node])
    problem = _all_busy(name, resource, nodes, busy) or _resource_problem(name, network, resource, nodes, node_of)
    if problem:
        flaws.append(problem)
    without = sorted(set(node_of).difference(nodes)) if resources else []
    lacks = f"the kubelet offers no {resource}"
    left_out = [{"host": node_of[node], "network": name, "why": busy.get(node) or lacks} for node in without]
    members = {node: node_of[node] for node in nodes}
    ends = ends_of(members, around.hosts, around.ports.get(name, {}))
    places = {node: place for node, ports in ends.items() if (place := located(ports))}
    leaves = _leaves(nodes, leaf_of, places)
    # More pairs than a run may have are refused by their number: made, they would take gigabytes.
    turns = _named_rounds(options, nodes, leaves) if 0 < _pairs(options, nodes, leaves) <= MOST_PAIRS else []
    parts = [apart(turn, leaves, options.per_leaf) for turn in turns]
    more = most_rounds("hunt", len(nodes)) - 1 if options.schedule == "hunt" else 0
    planned = {
        "network": name,
        "kind": network["kind"],
        "namespace": namespace,
        "resources": resources,
        "resource": resource,
        "master": network["master"],
        "rail": _rail(network["master"], around, [node_of[node] for node in nodes]),
        "mtu": network["mtu"],
        "nodes": members,
        "places": places,
        "leaves": leaves,
        "per_leaf": options.per_leaf,
        "rounds": [part for those in parts for part in those],
        "more_rounds": more * max(map(len, parts), default=1),
    }
    return planned, flaws, left_out


def _leaves(nodes: Sequence[str], labels: Mapping[str, str], places: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the leaf of each node: the switches of its ports where that is told of all, else what its label says."""
    cabled = {node: " and ".join(places[node]["switches"]) for node in nodes if node in places}
    if len(cabled) == len(nodes) and all(cabled.values()):
        return cabled
    return {node: labels[node] for node in nodes if labels[node]}


def _named_rounds(options: ProofOptions, nodes: Sequence[str], leaves: Mapping[str, str]) -> list[list[list[str]]]:
    own = {number: leaves[node] for number, node in enumerate(nodes) if node in leaves}
    turns = rounds(options.schedule, range(len(nodes)), seed=options.seed, leaves=own)
    return [[[nodes[one], nodes[other]] for one, other in turn] for turn in turns]


def slots_of(network: Mapping[str, Any]) -> int:
    """Return how many rounds a network of a plan has at most."""
    return len(network["rounds"]) + int(network["more_rounds"])


def apart(turn: Sequence[Sequence[str]], leaves: Mapping[str, str], most: int) -> list[list[Sequence[str]]]:
    """Return a round as several, in each of which no leaf has more than so many pairs; 0 is without limit.

    Nodes whose leaf is not known count as those of one leaf.
    """
    parts: list[list[Sequence[str]]] = []
    counts: list[Counter[str]] = []
    for pair in turn:
        ends = {leaves.get(node, "") for node in pair}
        fits = (place for place, of in enumerate(counts) if not most or all(of[end] < most for end in ends))
        place = next(fits, len(parts))
        if place == len(parts):
            parts.append([])
            counts.append(Counter())
        parts[place].append(pair)
        counts[place].update(ends)
    return parts


def _take_turns(options: ProofOptions, around: Surroundings, networks: Sequence[dict[str, Any]]) -> None:
    """Give each network its wave, and a deadline by what the waves take.

    Two that may share a port would halve each other's rate, and two pods of a node need a device each: networks are
    tested at once where each has a master of its own and every node has devices for all of them. A GPU is for one pod.
    """
    waves: list[list[dict[str, Any]]] = []
    for network in networks:
        wave = next((each for each in waves if _at_once([*each, network], around) and not options.gpu), None)
        if wave is None:
            waves.append([network])
        else:
            wave.append(network)
    for number, wave in enumerate(waves):
        more = max(each["more_rounds"] for each in wave)
        slots = max(len(each["rounds"]) for each in wave) + more
        telling = 2 * lead(sum(len(each["nodes"]) for each in wave), options.test_timeout) * (1 + more)
        for network in wave:
            network["wave"] = number
            network["deadline"] = options.ready_timeout + round(telling) + slots * options.test_timeout + _MARGIN


def _at_once(networks: Sequence[dict[str, Any]], around: Surroundings) -> bool:
    masters = [network["master"] for network in networks]
    wanted = Counter(resource for network in networks for resource in network["resources"])
    nodes = {name for network in networks for name in network["nodes"]}
    offered = [node["allocatable"] for node in around.nodes if node["name"] in nodes]
    enough = all(each.get(resource, 0) >= count for each in offered for resource, count in wanted.items())
    return None not in masters and len(set(masters)) == len(masters) and enough


def lead(pods: int, slot: int) -> float:
    """Return the seconds before the first slot, in which every pod is sent its table."""
    return max(1.0, slot / 20) + pods * _SECONDS_OF_A_TABLE


def _resources(options: ProofOptions, network: Mapping[str, Any]) -> list[str]:
    own = [network["resource"]] if network["resource"] else []
    found = list(options.resources.get(network["network"]) or options.resources.get(network["name"]) or own)
    return [*found, options.gpu] if found and options.gpu and options.gpu not in found else found


def _missing(network: Mapping[str, Any], namespace: str, around: Surroundings) -> list[Violation]:
    found, name = [], network["network"]
    if name not in around.attachments:
        problem = f"there is no NetworkAttachmentDefinition {name} in the cluster"
        found.append(Violation(_SOURCE, name, problem, "run rdma.fabric.site first, which makes it"))
    if namespace not in around.namespaces:
        hint = "make it, or give another one (rdma_fabric_verify_namespace)"
        found.append(Violation(_SOURCE, name, f"there is no namespace {namespace} for the test pods", hint))
    if network["isolated"] and namespace != network["namespace"]:
        problem = f"Multus does not give it to pods of {namespace} (namespaceIsolation)"
        hint = f"leave rdma_fabric_verify_namespace out, or add {network['namespace']} to Multus' globalNamespaces"
        found.append(Violation(_SOURCE, name, problem, hint))
    return found


def _with_resources(around: Surroundings, resources: Sequence[str], node_of: Mapping[str, str]) -> dict[str, str]:
    """Return the leaf of each node that can take a pod, empty where it is not known."""
    able = [node for node in around.nodes if all(node["allocatable"].get(each, 0) > 0 for each in resources)]
    return {node["name"]: node["leaf"] for node in able if node["name"] in node_of}


def _users(around: Surroundings, node: str, resources: Sequence[str]) -> str:
    """Return which pods on a node use what is tested, as the reason why the node is not."""
    users = around.users.get(node) or {}
    pods = list(dict.fromkeys(pod for resource in resources for pod in users.get(resource, ())))
    return f"pods there use {' and '.join(resources)}: {named(pods, _MOST_USERS)}" if pods else ""


def _all_busy(name: str, resource: str, nodes: Sequence[str], busy: Mapping[str, str]) -> Violation | None:
    if len(nodes) > 1 or not any(busy.values()):
        return None
    problem = f"pods use {resource} on all but {len(nodes)} of the {len(busy)} nodes that offer it"
    hint = "wait for them, or test such nodes as well (rdma_fabric_verify_busy_nodes), which slows their pods"
    return Violation(_SOURCE, name, problem, hint)


def _resource_problem(
    name: str, network: dict[str, Any], resource: str, nodes: Sequence[str], node_of: Mapping[str, str]
) -> Violation | None:
    if not resource:
        return _no_resource(network)
    if not node_of:
        hint = "compare the inventory's names with kubectl get nodes; cordoned and not Ready nodes do not count"
        return Violation(_SOURCE, name, "no host of the inventory is a Ready node of the cluster", hint)
    if not nodes:
        hint = "look at the device plugin's pods and configuration, and at kubectl describe node"
        return Violation(_SOURCE, name, f"no node offers {resource}", hint)
    if len(nodes) == 1:
        hint = "a proof takes two nodes"
        return Violation(_SOURCE, name, f"only the node {nodes[0]} offers {resource}", hint)
    return None


def _no_resource(network: Mapping[str, Any]) -> Violation:
    several = ", ".join(network["candidates"])
    problem = f"several resources fit: {several}" if several else "no device plugin of the fabric offers a resource"
    hint = f"name the one a pod asks for: rdma_fabric_verify_resources: {{{network['network']}: rdma/...}}"
    return Violation(_SOURCE, str(network["network"]), problem, hint)


def _rail(master: str | None, around: Surroundings, hosts: Sequence[str]) -> int | None:
    """Return the number of the rail that a network's interface is of, where the facts of a host tell it."""
    for host in hosts:
        facts = around.hosts.get(host) or {}
        address = next((each["pci"] for each in facts.get("netdevs") or [] if master and each["name"] == master), None)
        for rail in facts.get("rails") or []:
            if address and rail["nic"] == address:
                return int(rail["rail"])
    return None


def node_row(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the plan reads of a live Node."""
    metadata, status = node["metadata"], node.get("status") or {}
    ready = [each for each in status.get("conditions") or [] if each.get("type") == "Ready"]
    return {
        "name": str(metadata["name"]),
        "hostname": str((metadata.get("labels") or {}).get("kubernetes.io/hostname") or ""),
        "leaf": str((metadata.get("labels") or {}).get(LEAF_LABEL) or ""),
        "ready": bool(ready) and ready[0].get("status") == "True",
        "unschedulable": bool((node.get("spec") or {}).get("unschedulable")),
        "addresses": [str(each.get("address")) for each in status.get("addresses") or []],
        "allocatable": {str(name): count_of(amount) for name, amount in (status.get("allocatable") or {}).items()},
    }


def count_of(quantity: Any) -> int:
    """Return a count of devices; device plugins advertise whole numbers, which may be written as ``1k``."""
    text = str(quantity)
    factors = {"k": 1000, "M": 1000**2}
    digits, factor = (text[:-1], factors[text[-1]]) if text[-1:] in factors else (text, 1)
    return int(digits) * factor if digits.isascii() and digits.isdigit() else 0


def device_limits(facts: Mapping[str, Any] | None, choice: Choice) -> Known:
    """Return what the facts of a host know of a device of one of its pods.

    A VF has no PCIe link of its own: its PF's counts.
    """
    if not facts:
        return Known()
    nics = {nic["address"]: nic for nic in facts.get("nics") or []}
    device = next((each for each in facts.get("rdma") or [] if each["name"] == choice.device), None)
    nic = nics.get(choice.pci or "") or nics.get((device or {}).get("pci") or "")
    if nic and nic.get("function") == "vf":
        nic = nics.get(nic.get("pf") or "") or nic
    port = next((each for each in (device or {}).get("ports") or [] if each["port"] == choice.port), None)
    rate = port.get("rate_gbps") if port else None
    return Known(rate, nic.get("link"), ways_of(facts, nic["address"])) if nic else Known(rate)


def _further(network: Mapping[str, Any]) -> str:
    more = network["more_rounds"]
    return f", and at most {more} more, of those not decided on by then" if more else ""


def plan_lines(plan: Plan, image: str) -> list[str]:
    """Return the plan as a person reads it."""
    lines = [f"image of the test pods: {image}", f"tests of each pair: {', '.join(plan['tests'])}"]
    for network in plan["networks"]:
        pairs = sum(len(turn) for turn in network["rounds"])
        rail = "" if network["rail"] is None else f", rail {network['rail']}"
        lines.append(
            f"{network['network']}{rail}: {len(network['nodes'])} pods in {network['namespace']}, each with one "
            f"{network['resource']}; {pairs} pairs in {len(network['rounds'])} rounds{_further(network)}"
        )
        lines += [
            f"  round {number}: {named([' - '.join(pair) for pair in turn], _MOST_NAMED)}"
            for number, turn in enumerate(network["rounds"], 1)
        ]
    return lines
