# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SriovNetworkNodePolicy and SriovNetworkPoolConfig in the input: checked, and what each one asks of hosts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import are_met
from ansible_collections.rdma.fabric.plugins.module_utils._needs import ESWITCH, SRIOV, modules_of, needs_of
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line

from ..checks import nad
from ..checks import sriov_policies as rules
from ..checks.cni import RESOURCE_NAME
from ..checks.devplugin import plain_resources, rdma_resources
from ..checks.devplugin_ports import OF_PORTS
from ..checks.sriov_networks import RESOURCE_PREFIX
from ..checks.versions import sriov_resource_problems
from ..common.features import DEVICE_LABELS, FEATURES, SRIOV_LABEL
from ..common.findings import Place
from ..common.names import is_alternative
from ..common.objects import mapping_of
from .attachments import Network
from .models_sriov import NODE_POLICY, POOL_CONFIG
from .policy import Policy, plugin_config
from .pools import note
from .resources import Resource

_LINK_LAYERS = {"ether": "Ethernet", "infiniband": "InfiniBand"}
_MOST_NAMED = 6
# Releases before v1.3 made one of this name themselves, about nothing.
_IGNORED_NAME = "default"
_WITH_WEBHOOK = "the operator's webhook writes this, unless SriovOperatorConfig has enableOperatorWebhook: false"
_WITHOUT_WEBHOOK = "SriovOperatorConfig has enableOperatorWebhook: false, so no webhook completes policies"
_KNOWN_PREFIXES = (
    "kubernetes.io/",
    f"{FEATURES}kernel-version",
    f"{FEATURES}system-os",
)


@dataclass(frozen=True)
class FunctionPolicy:
    """One SriovNetworkNodePolicy. ``entry`` is what a FabricSpec holds of it, ``place`` where its spec stands."""

    name: str
    entry: dict[str, Any]
    place: Place
    valid: bool

    @property
    def spec(self) -> dict[str, Any]:
        """The fields that are right."""
        spec: dict[str, Any] = self.entry["spec"]
        return spec

    @property
    def resource(self) -> str:
        """The extended resource that pods ask for."""
        return f"{RESOURCE_PREFIX}/{self.spec.get('resourceName', '')}"


def read_function_policy(resource: Resource) -> FunctionPolicy | None:
    """Check one policy on its own; None for one that the operator passes over as well, whatever it says."""
    place, known = resource.spec_place, len(resource.place.findings.violations)
    if resource.name == _IGNORED_NAME:
        hint = "the operator passes over a policy called default as well: take it out, or rename it"
        place.notice("has no effect here", hint)
        return None
    spec = NODE_POLICY.read(resource.spec, place)
    if len(place.findings.violations) == known:
        note(rules.check(spec), place)
    valid = bool(resource.name) and len(place.findings.violations) == known
    if valid:
        _remark(resource, spec)
    entry = {"name": resource.name, "spec": spec, "source": resource.source}
    return FunctionPolicy(resource.name, entry, place, valid)


def _remark(resource: Resource, spec: Mapping[str, Any]) -> None:
    place = resource.spec_place
    for remark in rules.foreign_vendor(spec):
        place.at("nicSelector", "vendor").remark(remark)
    for index, text in enumerate(spec["nicSelector"].get("pfNames") or []):
        if is_alternative(rules.port_of(text).name):
            problem = "can't be an interface's own name, which has at most 15 bytes: alternative names are ignored"
            hint = "write the name that comes first in ip link show, or select by rootDevices"
            place.at("nicSelector", "pfNames", index).notice(problem, hint)
    if spec.get("externallyManaged"):
        hint = "whoever makes them sets their number, MTU, driver and GUIDs; rdma_fabric_interfaces can"
        place.at("externallyManaged").notice("leaves hosts as they are: VFs are only offered to pods", hint)
    elif not spec["numVfs"]:
        hint = "to remove VFs set vfs: 0 in rdma_fabric_interfaces"
        place.at("numVfs").notice("is 0: hosts are left as they are, and the ports themselves are offered", hint)
        for key in OF_PORTS:
            if spec["nicSelector"].get(key):
                problem = "finds VFs of ports, and with numVfs 0 there are none: nothing is offered"
                hint = "select whole ports by vendor and deviceID, or by pciAddresses in sriovDevicePlugin.config"
                place.at("nicSelector", key).notice(problem, hint)


def completed(policies: Sequence[FunctionPolicy], *, webhook: bool) -> list[FunctionPolicy]:
    """Return the policies as the operator's webhook stores them where it runs; say where that decides something."""
    why = _WITH_WEBHOOK if webhook else _WITHOUT_WEBHOOK
    whole = [replace(policy, entry={**policy.entry, "spec": rules.completed(policy.spec)}) for policy in policies]
    counting = [pair for pair in zip(policies, whole) if pair[0].valid]
    for policy, stored in counting:
        if stored.spec.get("isRdma") and not policy.spec.get("isRdma"):
            problem = "is true for linkType ib" if webhook else "is false, and pods get no RDMA device"
            policy.place.at("isRdma").notice(f"{problem}: {why}", "give isRdma: true")
    for one, other in combinations(counting, 2):
        given, stored_pair = zip(one, other)
        if not _may_compete(*given):
            continue
        orders = [[each["name"] for each in rules.in_order([a.entry, b.entry])] for a, b in (stored_pair, given)]
        if orders[0] != orders[1]:
            problem = f"is not given, so {orders[not webhook][1]} counts for ports that both select: {why}"
            for policy in [each for each in given if "priority" not in each.spec]:
                policy.place.at("priority").notice(problem, "give each a priority; 0 counts most")
    return whole if webhook else list(policies)


def _may_compete(one: FunctionPolicy, other: FunctionPolicy) -> bool:
    return rules.may_meet(one.spec, other.spec) and rules.may_share(one.spec, other.spec)


def check(
    policies: Sequence[FunctionPolicy], cluster: Policy | None, nodes: Sequence[Policy], *, webhook: bool
) -> None:
    """Hold the policies against each other and against the device plugins of the other policies.

    What the operator's webhook alone refuses is refused where it is taken to run, and named where it is not.
    """
    valid = [policy for policy in policies if policy.valid]
    for policy in valid:
        for problem in rules.webhook_problems(policy.spec):
            _say(policy.place.at(problem.path), problem.problem, problem.hint, webhook)
    for one, other in combinations(valid, 2):
        _check_pair(one, other, webhook)
    for policy in valid:
        for owner in ([cluster] if cluster else []) + list(nodes):
            _check_against(policy, owner)


def _say(place: Place, problem: str, hint: str, refused: bool) -> None:
    if refused:
        place.violation(problem, hint)
    else:
        place.notice(problem, hint)


def _check_pair(one: FunctionPolicy, other: FunctionPolicy, webhook: bool) -> None:
    """Refuse what no device plugin can offer: the policies of each group of nodes are one plugin's."""
    if not rules.may_meet(one.spec, other.spec):
        return
    for name in ("excludeTopology", "vdpaType") if one.resource == other.resource else ():
        if (one.spec.get(name) or None) != (other.spec.get(name) or None):
            hint = f"{one.entry['source']} ({one.name}) says otherwise of the same resource"
            other.place.at(name).violation("differs between policies of one resource", hint)
    managed = [bool(each.spec.get("externallyManaged")) for each in (one, other)]
    for port in sorted(rules.common_ports(one.spec, other.spec)) if managed[0] != managed[1] else ():
        hint = f"have all VFs of a port made here, or none ({one.entry['source']}, {one.name})"
        problem = f"differs between policies of the port {port}: who makes its VFs makes all of them"
        _say(other.place.at("externallyManaged"), problem, hint, webhook)
    if managed[0] != managed[1] and not rules.common_ports(one.spec, other.spec) and _may_compete(one, other):
        problem = f"is not that of {one.name}, which may select the same ports: then their VFs are made here"
        other.place.at("externallyManaged").notice(problem, f"select others ({one.entry['source']}, {one.name})")
    if (one.spec.get("nodeSelector") or {}) == (other.spec.get("nodeSelector") or {}):
        _check_ports(one, other, webhook)
        return
    hint = f"give both the same nodeSelector, or different values of one label ({one.entry['source']}, {one.name})"
    if one.resource == other.resource:
        problem = f"may select nodes where {one.name} offers {one.resource} too"
        other.place.at("nodeSelector").violation(problem, hint)
    elif rules.may_share(one.spec, other.spec):
        problem = f"may select VFs that {one.name} offers on the same nodes"
        other.place.at("nodeSelector").violation(problem, hint)


def _check_ports(one: FunctionPolicy, other: FunctionPolicy, webhook: bool) -> None:
    """Refuse functions that two policies of one plugin name: the one that counts gets them, unsaid."""
    for key, index, text, refused in rules.shared_ports(one.spec, other.spec):
        problem = f"{text} has VFs that {one.name} offers as {one.resource}"
        hint = f"give each its own range, such as ens1f0#0-3 and ens1f0#4-7 ({one.entry['source']}, {one.name})"
        place = other.place.at("nicSelector", key, index)
        if refused and webhook:
            place.violation(problem, f"{hint}; or have no webhook (enableOperatorWebhook: false)")
        elif one.resource != other.resource:
            place.notice(f"{problem}: one of both resources lacks them", hint)


def _check_against(policy: FunctionPolicy, owner: Policy) -> None:
    labels = {"nodeSelector": owner.spec.get("nodeSelector") or {}}
    if not rules.may_meet(policy.spec, labels):
        return
    for section, names in owner.resources().items():
        if policy.resource in names:
            hint = f"{owner.source} ({section}) offers it; kubelet takes each resource from one plugin"
            problem = f"offers {policy.resource}, which another plugin offers"
            policy.place.at("resourceName").violation(problem, hint)
        elif section == "sriovDevicePlugin":
            problem = "may select VFs that a SriovNetworkNodePolicy offers as well"
            hint = f"keep its selectors apart from those of {policy.name}: two plugins give one VF to two pods"
            owner.at(section).notice(problem, hint)


def check_release(policies: Sequence[FunctionPolicy], version: str) -> None:
    """Refuse what a release of the device plugin would not offer of the policies."""
    by_entry = {policy.name: policy for policy in policies if policy.valid}
    for _selector, group in rules.by_nodes([policy.entry for policy in by_entry.values()]):
        for problem in sriov_resource_problems(rules.plugin_config(group), version):
            by_entry[group[-1]["name"]].place.violation(f"{problem.path} {problem.problem}", problem.hint)


def offered(policies: Iterable[FunctionPolicy]) -> list[str]:
    """Return the extended resources that the policies offer."""
    return [policy.resource for policy in policies if policy.valid]


def plain(policies: Sequence[FunctionPolicy], sections: Iterable[Policy]) -> set[str]:
    """Return the resources of policies and of device plugins that give pods interfaces and no RDMA devices."""
    rdma: set[str] = set()
    found: set[str] = set()
    for policy in policies:
        spec = policy.spec
        is_netdev = (spec.get("deviceType") or "netdevice") == "netdevice" and not spec.get("vdpaType")
        is_ours = mapping_of(spec.get("nicSelector")).get("vendor") in (None, "", "15b3")
        # The webhook of the operator lets linkType: ib imply it.
        is_rdma = spec.get("isRdma") or str(spec.get("linkType")).lower() == "ib"
        (rdma if is_rdma or not (is_netdev and is_ours) else found).add(policy.resource)
    for each in sections:
        config = plugin_config(each.spec, "sriovDevicePlugin") or {"resourceList": []}
        rdma.update(rdma_resources(config))
        found.update(plain_resources(config))
    return found - rdma


def check_hosts(policies: Iterable[FunctionPolicy], hosts: Mapping[str, Mapping[str, Any]]) -> None:
    """Say when no host can be found by a policy's labels; ``hosts`` are the desired states by inventory name."""
    for policy in policies:
        if policy.valid and host_request(policy) is not None:
            remark_nodes(policy.spec, policy.place, hosts, "makes no VFs")


def remark_nodes(spec: Mapping[str, Any], place: Place, hosts: Mapping[str, Mapping[str, Any]], idle: str) -> None:
    """Say when no host can be found by the node selector of a spec, and what it then does: ``idle``."""
    if not hosts:
        place.notice(f"{idle}: the inventory has no hosts", "put the nodes into the inventory (group rdma_fabric)")
        return
    labels = {key for desired in hosts.values() for key in desired.get("node_labels") or {}}
    for key in spec.get("nodeSelector") or {}:
        if key not in labels and key not in (*DEVICE_LABELS, SRIOV_LABEL) and not key.startswith(_KNOWN_PREFIXES):
            problem = f"is a label that no host of the inventory is known to have: it {idle}"
            place.at("nodeSelector", key).notice(problem, "set it in rdma_fabric_node_labels of the hosts meant")


def host_requests(policies: Iterable[FunctionPolicy]) -> list[dict[str, Any]]:
    """Return what the policies ask of hosts, in the order in which they are applied: of two, the later one counts."""
    by_name = {id(policy.entry): policy for policy in policies if policy.valid}
    ordered = rules.in_order([policy.entry for policy in by_name.values()])
    found = [host_request(by_name[id(entry)]) for entry in ordered]
    return [request for request in found if request is not None]


def host_request(policy: FunctionPolicy) -> dict[str, Any] | None:
    """Return what a policy asks of the hosts with its labels; None when it leaves them as they are."""
    spec = policy.spec
    if spec.get("externallyManaged") or not spec["numVfs"]:
        return None
    selector = spec["nicSelector"]
    ports = [rules.port_of(text) for text in selector.get("pfNames") or []]
    functions = {
        "vendor": selector.get("vendor") or None,
        "device": selector.get("deviceID") or None,
        "pci": selector.get("rootDevices") or [],
        "ports": [{"name": port.name, "range": list(port.functions) if port.functions else None} for port in ports],
        "priority": spec.get("priority") or 0,
        "resource": policy.resource,
        "vfs": spec["numVfs"],
        "mtu": spec.get("mtu"),
        "vf_driver": spec.get("deviceType") or "netdevice",
        "rdma": bool(spec.get("isRdma")),
        "link_layer": _LINK_LAYERS.get(rules.link_of(spec)),
        "eswitch_mode": spec.get("eSwitchMode"),
    }
    return {
        "source": f"{NODE_POLICY.name}/{policy.name}",
        "node_selector": spec.get("nodeSelector") or {},
        "driver": None,
        "peer_memory": None,
        "functions": functions,
        "kernel_modules": modules_of(SRIOV, spec).get("", []),
    }


@dataclass(frozen=True)
class PoolConfig:
    """One SriovNetworkPoolConfig: what it asks of hosts, the requirements on its nodes, and where its spec stands.

    One that ``offloads`` is for Open vSwitch, and no pool of nodes; ``of_pools`` are its fields that only a pool has.
    """

    request: dict[str, Any]
    requirements: list[Mapping[str, Any]]
    place: Place
    offloads: bool
    of_pools: Sequence[str]


def read_pool_config(resource: Resource) -> PoolConfig:
    """Check a SriovNetworkPoolConfig; its request asks of hosts with its labels for nothing without a ``rdmaMode``."""
    place = resource.spec_place
    spec = POOL_CONFIG.read(resource.spec, place)
    offloads = bool((spec.get("ovsHardwareOffloadConfig") or {}).get("name"))
    if offloads and spec.get("rdmaMode"):
        problem = "has no effect: the operator takes a pool config with ovsHardwareOffloadConfig for no pool of nodes"
        place.at("rdmaMode").notice(problem, "give it in a SriovNetworkPoolConfig of its own")
    if "rdmaMode" not in spec:
        place.notice("has no effect here", "it asks for no rdmaMode")
    selector = spec.get("nodeSelector") or {}
    labels, terms = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    request = {
        "source": f"{POOL_CONFIG.name}/{resource.name}",
        "node_selector": dict(labels),
        **({"node_terms": [terms]} if terms else {}),
        "driver": None,
        "peer_memory": None,
        "netns_mode": None if offloads else spec.get("rdmaMode"),
    }
    of_labels = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    of_pools = [key for key in ("nodeSelector", "maxUnavailable") if key in spec]
    return PoolConfig(request, [*of_labels, *terms], place, offloads, of_pools)


def check_pools(configs: Sequence[PoolConfig], *, webhook: bool) -> None:
    """Refuse a pool whose nodes are all of another one: the operator changes no node of two pools.

    Nodes that only happen to have the labels of both are told where hosts were read. It passes over those for Open
    vSwitch (``findNodePoolConfig``), and its webhook refuses those that select nodes.
    """
    for config in configs:
        for key in config.of_pools if config.offloads else ():
            problem = "is not taken by the operator's webhook beside ovsHardwareOffloadConfig.name"
            _say(config.place.at(key), problem, "give it in a SriovNetworkPoolConfig of its own", webhook)
    for one, other in combinations([config for config in configs if not config.offloads], 2):
        if _implies(one.requirements, other.requirements) or _implies(other.requirements, one.requirements):
            problem = f"selects nodes of {one.request['source']}, and a node is of one pool"
            other.place.at("nodeSelector").violation(problem, "give them different values of one label")


def _implies(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a node that meets one list of requirements, if there can be any, meets another."""
    is_possible = implied = True
    for key in {str(each["key"]) for each in (*one, *other)}:
        ours, theirs = ([each for each in some if each["key"] == key] for some in (one, other))
        # Values that none of them names are alike.
        values = {str(value) for each in (*ours, *theirs) for value in each.get("values") or []} | {"-"}
        nodes = [{}, *({key: value} for value in values)]
        meeting = [labels for labels in nodes if are_met(ours, labels)]
        is_possible = is_possible and bool(meeting)
        implied = implied and all(are_met(theirs, labels) for labels in meeting)
    return is_possible and implied


def read_node_state(resource: Resource) -> dict[str, Any]:
    """Return what the operator wants of the ports of a node by its own record, and how far it is."""
    hint = "it is compared with the plan of the node's host, which has its name; take it out once the operator is gone"
    resource.place.at("kind").notice("is the SR-IOV operator's own record of a node: it asks for nothing", hint)
    return node_state(resource.name, resource.content)


def node_state(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what :func:`read_node_state` does of an object as it is in the input or in a cluster.

    The operator wrote it, so what has another shape is passed over.
    """
    spec, status = (mapping_of(content.get(key)) for key in ("spec", "status"))
    ports = [
        {
            "pci": each["pciAddress"],
            "name": str(each.get("name") or ""),
            "vfs": _number(each.get("numVfs")),
            "mtu": _number(each.get("mtu")),
            "vfio": [
                str(group.get("vfRange") or "")
                for group in map(mapping_of, _list(each.get("vfGroups")))
                if group.get("deviceType") == rules.VFIO
            ],
        }
        for each in map(mapping_of, _list(spec.get("interfaces")))
        if isinstance(each.get("pciAddress"), str)
    ]
    states = {key: str(status.get(field) or "") for key, field in (("sync", "syncStatus"), ("error", "lastSyncError"))}
    return {"node": name, "ports": ports, **states}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def check_moved(
    policies: Iterable[FunctionPolicy],
    configs: Iterable[PoolConfig],
    hosts: Mapping[str, Mapping[str, Any]],
    networks: Iterable[Network],
    sections: Iterable[Policy],
) -> None:
    """Name networks whose pods get no RDMA device: with exclusive RDMA somebody has to move it to where the pod is.

    Sources: the READMEs of rdma-cni and ib-sriov-cni. ``hosts`` are the desired states by inventory name, ``sections``
    the policies that may have a SR-IOV device plugin.
    """
    exclusive = [config.request["source"] for config in configs if config.request["netns_mode"] == "exclusive"]
    exclusive += [
        f"host {one_line(host)}" for host, desired in hosts.items() if desired.get("netns_mode") == "exclusive"
    ]
    if not exclusive:
        return
    resources = {policy.resource for policy in policies if policy.valid and policy.spec.get("isRdma")}
    for each in sections:
        resources.update(rdma_resources(plugin_config(each.spec, "sriovDevicePlugin") or {"resourceList": []}))
    for network in networks:
        step = nad.step_to_move_rdma_device(nad.plugins_in(network.config)) if network.valid else ""
        if step and network.annotations.get(RESOURCE_NAME) in resources:
            problem = f"leaves pods without a usable RDMA device: RDMA is exclusive ({named(exclusive, _MOST_NAMED)})"
            network.place.notice(problem, step)


def check_legacy_settings(policies: Iterable[FunctionPolicy], networks: Iterable[Network]) -> None:
    """Name settings of functions that mlx5 does not take in switchdev mode: pods with them do not start.

    Sources: the kernel's mlx5 esw/legacy.c and eswitch.c, ``ApplyVFConfig`` of sriov-cni; a VLAN 0 is taken.
    """
    modes: dict[str, set[str]] = {}
    for policy in policies:
        if policy.valid:
            modes.setdefault(policy.resource, set()).add(policy.spec.get("eSwitchMode") or "legacy")
    for network in networks:
        found = modes.get(network.annotations.get(RESOURCE_NAME, ""), set()) if network.valid else set()
        plugins = nad.plugins_in(network.config) if "switchdev" in found else []
        for plugin in plugins:
            needs = needs_of(str(plugin.get("type")), plugin)
            given = [need.when for need in needs if need.kind == ESWITCH and need.when]
            if given:
                problem = f"sets {', '.join(given)}, which functions in switchdev mode do not take: pods do not start"
                hint = "leave it out: representors and their rules (tc, OVS) do this there, for example an OVSNetwork"
                say = network.place.violation if found == {"switchdev"} else network.place.notice
                say(problem, hint)


def check_modes(configs: Iterable[PoolConfig], cluster: Policy | None) -> None:
    """Refuse exclusive RDMA while the shared device plugin, which does not start with it, is on every node."""
    if cluster is None or not cluster.spec.get("rdmaSharedDevicePlugin") or cluster.spec.get("nodeAffinity"):
        return
    for config in configs:
        if config.request["netns_mode"] == "exclusive":
            problem = "is exclusive, and the RDMA shared device plugin (rdmaSharedDevicePlugin) does not start there"
            hint = "use shared, or the SR-IOV device plugin; or keep the plugin off these nodes with nodeAffinity"
            config.place.at("rdmaMode").violation(problem, hint)
