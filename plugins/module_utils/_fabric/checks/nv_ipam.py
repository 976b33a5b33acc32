# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pools of nv-ipam (IPPool, CIDRPool), judged by the rules of its webhook.

Sources: nvidia-k8s-ipam ``api/v1alpha1`` (``ippool_validate.go``, ``cidrpool_validate.go``, ``validate_*.go``,
``helpers.go``) and ``pkg/cni/types``. The controller applies the same rules without the webhook, but only logs what is
wrong and assigns nothing.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch

from ..common.jsontext import Problem, parse_json
from ..common.names import dns_subdomain, label_key
from ..common.schema import flaws_of, label_map, mapping, record, text, whole
from .ipam import Claim, Interval, Network, parse_address, parse_network, without

API_VERSION = "nv-ipam.nvidia.com/v1alpha1"
POOL_KINDS = {"IPPool": "ippool", "CIDRPool": "cidrpool"}
"""The kinds of pools, with the ``poolType`` that a network names each by."""

_INT32 = 2**31 - 1


class PoolKey(NamedTuple):
    """What a network names a pool by: ``ippool`` or ``cidrpool``, and the pool's name."""

    type: str
    name: str


def check_pool(kind: str, spec: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the ``spec`` of a pool of a kind of :data:`POOL_KINDS`; paths are fields of it.

    The spec has passed the declaration of its fields.
    """
    problems = _check_ip_pool(spec) if kind == "IPPool" else _check_cidr_pool(spec)
    return problems + _check_selector(spec.get("nodeSelector") or {})


def claim_of(kind: str, name: str, spec: Mapping[str, Any]) -> Claim | None:
    """Return the addresses that a pool may assign; None where its network cannot be read."""
    text = spec.get("subnet" if kind == "IPPool" else "cidr")
    network = parse_network(text, "", strict=False)[0]
    if network is None:
        return None
    intervals: list[Interval] = [(int(network.network_address), int(network.broadcast_address))]
    for _where, entry in entries(spec, "exclusions"):
        first, last = (parse_address(entry.get(key), "")[0] for key in ("startIP", "endIP"))
        if first is not None and last is not None:
            intervals = without(intervals, (int(first), int(last)))
    return Claim("", str(text), network.version, tuple(intervals), f"nv-ipam:{POOL_KINDS[kind]}:{name}")


def keeping_back(kind: str, spec: Mapping[str, Any]) -> Callable[[int], bool]:
    """Return what tells whether a valid pool assigns an address, as an integer, of its network to nobody.

    That is the gateway, what ``perNodeExclusions`` leave out of each node's part, and parts kept from every node. Where
    a node's part of an IPPool begins is only known once it has one, so with exclusions there nothing is told.
    """
    if kind == "IPPool":
        gateway = parse_address(spec.get("gateway"), "")[0]
        return lambda address: bool(spec.get("perNodeExclusions")) or (gateway is not None and address == int(gateway))
    cidr = ipaddress.ip_network(spec["cidr"])
    size = 2 ** (cidr.max_prefixlen - int(spec["perNodeNetworkPrefix"]))
    left_out = [(entry["startIndex"], entry["endIndex"]) for _where, entry in entries(spec, "perNodeExclusions")]
    left_out += [(spec["gatewayIndex"],) * 2] if spec.get("gatewayIndex") is not None else []
    static = [entry for _where, entry in entries(spec, "staticAllocations")]
    gateways = {int(ipaddress.ip_address(entry["gateway"])) for entry in static if entry.get("gateway")}
    reserved = [ipaddress.ip_network(entry["prefix"]) for entry in static if not entry.get("nodeName")]

    def is_kept_back(address: int) -> bool:
        index = (address - int(cidr.network_address)) % size
        if address in gateways or any(first <= index <= last for first, last in left_out):
            return True
        return any(int(part.network_address) <= address <= int(part.broadcast_address) for part in reserved)

    return is_kept_back


def pools_named(ipam: Any, network: str) -> list[PoolKey]:
    """Return the pools an ``ipam`` object takes addresses from; ``network`` is the CNI name of its network.

    A network that names no pool takes the one of its own name. ``ipam`` has passed its check.
    """
    if not isinstance(ipam, dict) or ipam.get("type") != "nv-ipam":
        return []
    pool_type = str(ipam.get("poolType") or "ippool").lower()
    return [PoolKey(pool_type, name) for name in str(ipam.get("poolName") or network).split(",")]


def claims(ipam: Any, network: str, path: str, pools: Mapping[PoolKey, Claim]) -> list[Claim]:
    """Return the address claims of an ``ipam`` object on the given pools; ``network`` is the CNI name."""
    found = [pools[key] for key in pools_named(ipam, network) if key in pools]
    return [claim._replace(path=f"{path}.poolName") for claim in found]


def claims_of(pools: Sequence[Mapping[str, Any]]) -> dict[PoolKey, Claim]:
    """Return the addresses of each pool ``{"kind", "name", "spec"}`` that passed its check."""
    found = {}
    for pool in pools:
        claim = claim_of(pool["kind"], pool["name"], pool["spec"])
        if claim is not None:
            found[PoolKey(POOL_KINDS[pool["kind"]], pool["name"])] = claim
    return found


def _network(text: Any, path: str, strict: bool = True) -> tuple[Network | None, list[Problem]]:
    """Return the network a text names; to nv-ipam one of IPv4 in the form of IPv6 is of either family, by the field."""
    network, problems = parse_network(text, path, strict)
    if network is not None and getattr(network.network_address, "ipv4_mapped", None) is not None:
        hint = "write it as one of IPv4: 10.0.0.0/24, not ::ffff:10.0.0.0/120"
        return None, [Problem(path, f"{text!r} is IPv4 in the form of IPv6", hint)]
    return network, problems


def _check_ip_pool(spec: Mapping[str, Any]) -> list[Problem]:
    subnet, problems = _network(spec.get("subnet"), "subnet", strict=False)
    size = spec["perNodeBlockSize"]
    if size < 1:
        problems.append(Problem("perNodeBlockSize", mismatch(size, "1 or more")))
    else:
        if subnet is not None and size > usable(subnet):
            hint = f"{subnet} has {usable(subnet)}"
            problems.append(Problem("perNodeBlockSize", f"{size} is more than the subnet has addresses", hint))
        problems += _check_indexes(spec, size - 1)
    gateway = spec.get("gateway")
    if gateway:
        address, wrong = parse_address(gateway, "gateway")
        problems += wrong
        if address is not None and subnet is not None and address not in subnet:
            problems.append(Problem("gateway", f"{gateway} is not part of {subnet}"))
    if subnet is not None:
        problems += _check_exclusions(spec, subnet)
    return problems + _check_routes(spec, subnet, "gateway", has_gateway=bool(gateway))


def _check_cidr_pool(spec: Mapping[str, Any]) -> list[Problem]:
    cidr, problems = _network(spec.get("cidr"), "cidr")
    index = spec.get("gatewayIndex")
    prefix = _node_prefix(spec.get("perNodeNetworkPrefix"), cidr)
    if prefix is None:
        bounds = f"{cidr.prefixlen or 1} to {cidr.max_prefixlen}" if cidr is not None else "a prefix length"
        problem = mismatch(spec.get("perNodeNetworkPrefix"), bounds)
        problems.append(Problem("perNodeNetworkPrefix", problem, "it is the size of a node's part of cidr"))
    elif cidr is not None:
        node = ipaddress.ip_network(f"{cidr.network_address}/{prefix}")
        if index is not None and not _has_index(node, index):
            hint = f"1 to {usable(node)}" if node.num_addresses > 2 else f"0 to {node.num_addresses - 1}"
            problems.append(Problem("gatewayIndex", f"{index!r} lies outside of a node's /{prefix}", hint))
        problems += _check_indexes(spec, min(node.num_addresses - 1, _INT32))
        problems += _check_static(spec, cidr, prefix) or _check_static_excluded(spec)
    if cidr is not None:
        problems += _check_exclusions(spec, cidr)
    return problems + _check_routes(spec, cidr, "gatewayIndex", has_gateway=index is not None)


def _node_prefix(prefix: int | None, cidr: Network | None) -> int | None:
    """Return the prefix length of a node's part, None when it does not fit into ``cidr``."""
    if not prefix or (cidr is not None and not cidr.prefixlen <= prefix <= cidr.max_prefixlen):
        return None
    return prefix


def usable(network: Network) -> int:
    """Return how many addresses nv-ipam takes from a network: a point-to-point one has two, others lose their edges."""
    count = network.num_addresses
    return count if count <= 2 else count - (2 if network.version == 4 else 1)


def _has_index(node: Network, index: int) -> bool:
    return 0 <= index < node.num_addresses if node.num_addresses <= 2 else 1 <= index <= usable(node)


def _check_exclusions(spec: Mapping[str, Any], network: Network) -> list[Problem]:
    problems = []
    earlier: dict[str, Interval] = {}
    for where, entry in entries(spec, "exclusions"):
        ends = []
        for key in ("startIP", "endIP"):
            address, wrong = parse_address(entry.get(key), f"{where}.{key}")
            problems += wrong
            if address is not None and address not in network:
                problems.append(Problem(f"{where}.{key}", f"{address} is not part of {network}"))
            ends.append(address)
        first, last = ends
        if first is None or last is None or first.version != last.version:
            continue
        if int(last) < int(first):
            problems.append(Problem(f"{where}.endIP", "lies before startIP", "swap them"))
        problems += _overlap(where, (int(first), int(last)), earlier)
    return problems


def _check_indexes(spec: Mapping[str, Any], highest: int) -> list[Problem]:
    problems = []
    earlier: dict[str, Interval] = {}
    for where, entry in entries(spec, "perNodeExclusions"):
        first, last = entry["startIndex"], entry["endIndex"]
        for key, index in (("startIndex", first), ("endIndex", last)):
            if index > highest:
                problems.append(Problem(f"{where}.{key}", mismatch(index, f"0 to {highest}")))
        if last < first:
            problems.append(Problem(f"{where}.endIndex", "lies before startIndex", "swap them"))
        problems += _overlap(where, (first, last), earlier)
    return problems


def _overlap(where: str, found: Interval, earlier: dict[str, Interval]) -> list[Problem]:
    """Refuse an exclusion that shares addresses with an earlier one, and enter it there.

    nv-ipam's webhook and controller take both, but the daemon of a node then refuses every pod: ``invalid exclusion
    range config: subnets ... overlap`` (``pkg/ipam-node/handlers/allocate.go``).
    """
    other = next((path for path, (first, last) in earlier.items() if first <= found[1] and found[0] <= last), None)
    earlier[where] = found
    if other is None:
        return []
    return [Problem(where, f"shares addresses with {other}: nv-ipam refuses every pod then", "make one of the two")]


def _check_static(spec: Mapping[str, Any], cidr: Network, prefix: int) -> list[Problem]:
    problems: list[Problem] = []
    nodes: set[str] = set()
    prefixes: set[Network] = set()
    for where, entry in entries(spec, "staticAllocations"):
        node = entry.get("nodeName")
        if node and node in nodes:
            problems.append(Problem(f"{where}.nodeName", f"{node} has a prefix already", "a node gets one prefix"))
        nodes.add(str(node))
        part, wrong = _network(entry.get("prefix"), f"{where}.prefix")
        problems += wrong
        if part is None:
            continue
        if part.version != cidr.version or part.network_address not in cidr:
            problems.append(Problem(f"{where}.prefix", f"{part} is not part of {cidr}"))
        elif part.prefixlen != prefix:
            problems.append(Problem(f"{where}.prefix", f"{part} is not a /{prefix}", "as perNodeNetworkPrefix says"))
        elif str(part) != entry["prefix"]:
            # The controller holds the texts of prefixes against its own to see which are taken.
            problem = f"{entry['prefix']!r} is not how nv-ipam writes it: another node would get the same prefix"
            problems.append(Problem(f"{where}.prefix", problem, f"write {part}"))
        if part in prefixes:
            problems.append(Problem(f"{where}.prefix", f"{part} is given twice"))
        prefixes.add(part)
        if entry.get("gateway"):
            address, wrong = parse_address(entry["gateway"], f"{where}.gateway")
            problems += wrong
            if address is not None and address not in part:
                problems.append(Problem(f"{where}.gateway", f"{address} is not part of {part}"))
    return problems


def _check_static_excluded(spec: Mapping[str, Any]) -> list[Problem]:
    """Refuse a part of a node between the ends of an exclusion: the node's daemon then leaves nothing of it out.

    Such a part is left out as no node gets it (``buildExclusions``, ``getStaticAllocationForNodeIfExist``).
    """
    problems, over_parts = [], exclusions_over_parts(spec)
    for where, entry in entries(spec, "staticAllocations"):
        for path, first, last in over_parts if entry.get("nodeName") else ():
            part = ipaddress.ip_network(entry["prefix"])
            if first < int(part.network_address) and int(part.broadcast_address) < last:
                problem = f"{part} lies inside of {path}, and nv-ipam assigns its addresses anyway"
                problems.append(
                    Problem(f"{where}.prefix", problem, "end the exclusion at the part, or begin one there")
                )
    return problems


def exclusions_over_parts(spec: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return (path, first, last) of the exclusions of a CIDRPool with whole parts between the parts of their ends."""
    cidr = parse_network(spec.get("cidr"), "")[0]
    prefix = _node_prefix(spec.get("perNodeNetworkPrefix"), cidr)
    if cidr is None or prefix is None:
        return []
    size = 2 ** (cidr.max_prefixlen - prefix)
    found = []
    for path, entry in entries(spec, "exclusions"):
        first, last = (parse_address(entry.get(key), "")[0] for key in ("startIP", "endIP"))
        if first is not None and last is not None and int(last) // size - int(first) // size > 1:
            found.append((path, int(first), int(last)))
    return found


def exclusions_before_blocks(spec: Mapping[str, Any]) -> list[str]:
    """Return the paths of the exclusions of an IPPool that hold all of a block and leave a block behind them."""
    network = parse_network(spec.get("subnet"), "")[0]
    size = spec.get("perNodeBlockSize")
    if network is None or not isinstance(size, int) or size < 1:
        return []
    base = int(network.network_address) + (network.num_addresses > 2)
    found = []
    for path, entry in entries(spec, "exclusions"):
        first, last = (parse_address(entry.get(key), "")[0] for key in ("startIP", "endIP"))
        if first is not None and last is not None:
            start, end = -((base - int(first)) // size), (int(last) + 1 - base) // size
            found += [path] if max(start, 0) < end < usable(network) // size else []
    return found


def _check_routes(spec: Mapping[str, Any], network: Network | None, gateway: str, has_gateway: bool) -> list[Problem]:
    problems = []
    if not has_gateway:
        hint = f"set {gateway}, or drop this"
        problems += [
            Problem(key, f"needs a gateway: {gateway} is missing", hint)
            for key in ("defaultGateway", "routes")
            if spec.get(key)
        ]
    for where, entry in entries(spec, "routes"):
        target, wrong = _network(entry.get("dst"), f"{where}.dst", strict=False)
        problems += wrong
        if target is None:
            continue
        if network is not None and target.version != network.version:
            problems.append(Problem(f"{where}.dst", f"{target} is not of the address family of {network}"))
        if spec.get("defaultGateway") and target.prefixlen == 0:
            problems.append(Problem(f"{where}.dst", "is the default route beside defaultGateway", "drop one of them"))
    return problems


def _check_selector(selector: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for of_term, term in entries(selector, "nodeSelectorTerms"):
        where = f"nodeSelector.{of_term}"
        for path, requirement in entries(term, "matchExpressions"):
            problems += [
                each._replace(path=f"{where}.{path}.key") for each in label_key(str(requirement.get("key", "")))
            ]
        for path, requirement in entries(term, "matchFields"):
            problems += _check_field(requirement, f"{where}.{path}")
    return problems


def _check_field(requirement: Mapping[str, Any], path: str) -> list[Problem]:
    problems = []
    values = requirement.get("values") or []
    if requirement["operator"] not in ("In", "NotIn") or len(values) != 1:
        problems.append(Problem(path, "must be In or NotIn with one value", "fields of nodes compare no other way"))
    if requirement.get("key") != "metadata.name":
        problems.append(
            Problem(f"{path}.key", f"{requirement.get('key')!r} is an unknown field of nodes", "metadata.name")
        )
    else:
        for index, value in enumerate(values):
            problems += [each._replace(path=f"{path}.values[{index}]") for each in dns_subdomain(str(value))]
    return problems


def entries(owner: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (path, entry) of each object in the list ``key``."""
    found = owner.get(key)
    for index, entry in enumerate(found if isinstance(found, list) else []):
        if isinstance(entry, dict):
            yield f"{key}[{index}]", entry


# The configuration of nv-ipam before v0.1.0, which has its pools in one ConfigMap.
#
# Sources: nvidia-k8s-ipam v0.0.2 and v0.0.3, ``pkg/ipam-controller/config`` (shape and rules), ``README.md`` (no IPv6).
_SMALLEST_BLOCK = 2
_OF_POOL = {
    "subnet": text("a network", required=True),
    "perNodeBlockSize": whole("addresses of a node", required=True),
    "gateway": text("an address"),
}
_CONFIG = record(
    "the configuration of nv-ipam",
    {
        "pools": mapping('{"name": {"subnet": ...}}', record("a pool", _OF_POOL), keys=dns_subdomain, required=True),
        "nodeSelector": label_map("labels of nodes"),
    },
)


def read_config(given: str) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """Return the IPPool specs, by name, of a configuration, and what is wrong with it.

    The shape is ``{"pools": {name: {subnet, perNodeBlockSize, gateway}}, "nodeSelector": {label: value}}``. The
    selector goes to every pool.
    """
    config, problems = parse_json(given)
    if problems:
        return {}, problems
    problems = flaws_of(_CONFIG, _CONFIG.description, config)
    if problems or not config["pools"]:
        return {}, problems or [Problem("pools", "names no pool", '{"name": {"subnet": ...}}')]
    selector = config.get("nodeSelector") or {}
    pools: dict[str, dict[str, Any]] = {}
    for name, pool in config["pools"].items():
        problems += [each._replace(path=f"pools.{name}.{each.path}") for each in check_pool("IPPool", pool)]
        pools[name] = {**pool, **_selecting(selector)}
    return pools, problems


def config_of(pools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the configuration of IPPool specs by name, which :func:`config_problems` has nothing against."""
    labels = next((_labels(spec) for spec in pools.values()), None)
    found = {"pools": {name: {key: spec[key] for key in _OF_POOL} for name, spec in pools.items()}}
    return {**found, "nodeSelector": labels} if labels else found


def config_problems(specs: Sequence[Mapping[str, Any]], version: str) -> list[tuple[int, Problem]]:
    """Return what a release with a configuration cannot do of IPPool specs that passed their check.

    Each entry is the index of a spec, and the problem with its path there.
    """
    found = []
    labels = [_labels(spec) for spec in specs]
    shared = next((each for each in labels if each is not None), {})
    for index, spec in enumerate(specs):
        for problem in _lacking(spec, version):
            found.append((index, problem))
        if labels[index] != shared:
            text = f"is not what nv-ipam {version} can do: it selects nodes by labels, the same for every pool"
            found.append((index, Problem("nodeSelector", text, "use v0.1.1 or newer for selectors of their own")))
    return found


def _lacking(spec: Mapping[str, Any], version: str) -> list[Problem]:
    problems = []
    subnet = parse_network(spec["subnet"], "subnet", strict=False)[0]
    if subnet is not None and subnet.version != 4:
        problems.append(Problem("subnet", f"is IPv6, which nv-ipam {version} does not support", "use v0.1.1 or newer"))
    elif subnet is not None and spec["perNodeBlockSize"] > subnet.num_addresses - 2:
        problem = f"{spec['perNodeBlockSize']} is more than nv-ipam {version} takes from {subnet}"
        problems.append(Problem("perNodeBlockSize", problem, "it leaves out the first and the last address"))
    if spec["perNodeBlockSize"] < _SMALLEST_BLOCK:
        problem = f"is less than {_SMALLEST_BLOCK}, which nv-ipam {version} refuses"
        problems.append(Problem("perNodeBlockSize", problem))
    if not spec.get("gateway"):
        hint = "name an address of the subnet, or use v0.1.1 or newer"
        problems.append(Problem("gateway", f"is missing, and nv-ipam {version} refuses a pool without one", hint))
    return problems


def _labels(spec: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the labels that a pool selects nodes by, none for every node; None where it selects in another way."""
    selector = spec.get("nodeSelector")
    if selector is None:
        return {}
    terms = selector["nodeSelectorTerms"]
    wanted = terms[0].get("matchExpressions") or []
    values = {each["key"]: each.get("values") or [] for each in wanted}
    is_plain = all(each.get("operator") == "In" and len(values[each["key"]]) == 1 for each in wanted)
    if len(terms) > 1 or terms[0].get("matchFields") or not wanted or not is_plain or len(values) < len(wanted):
        return None
    return {key: str(value[0]) for key, value in sorted(values.items())}


def _selecting(labels: Mapping[str, str]) -> dict[str, Any]:
    if not labels:
        return {}
    wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(labels.items())]
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}
