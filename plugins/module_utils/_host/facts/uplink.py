# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the uplink: the interfaces that must not be cut off, and the node addresses given to the kubelet.

The command line of the running kubelet is the best source. If the kubelet is part of another program or not running,
the files are read in which distributions of Kubernetes keep its arguments: kubeadm, Debian's and Red Hat's packages,
kubespray, MicroK8s, Canonical Kubernetes, k0s, k3s and RKE2. Only processes of its systemd service are examined, not
all of the host.

Sources: the routing tables (proc(5) and the kernel's net/ipv6/route.c) name the interface of the default route; the
address Ansible connects to and the node addresses are looked up among the host's own addresses. An interface that
carries a file system or swap of the host is an uplink too: it is found by the interface or address to which the
connection is bound, else by the route to the server.

For a route with several next hops, the tables in /proc only name the first one (net/ipv4/fib_trie.c,
fib_route_seq_show; for IPv6, if the hops are an object of their own). Before changes, the others are read with ip(8).
"""

from __future__ import annotations

import fnmatch
import ipaddress
import itertools
import re
from types import MappingProxyType
from typing import Collection, Iterable, Iterator, NamedTuple, Sequence

from ..machine.host_files import KUBELETS
from ..machine.probe import GARBAGE, NET, Address, Probe, address_of, natural, objects, parse_int, parsed, printable
from .netdev import Netdev, carriers_of, switched_carriers_of
from .remote_storage import Storage, Way, parse_address
from .shapes import Uplink

ARGUMENT = "--node-ip="
_FILES = (
    "/var/lib/kubelet/kubeadm-flags.env",
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/kubernetes/kubelet.env",
    "/var/snap/microk8s/current/args/kubelet",
    "/var/snap/k8s/common/args/kubelet",
    "/etc/rancher/k3s/config.yaml",
    "/etc/rancher/rke2/config.yaml",
)
_UNITS = tuple(f"/etc/systemd/system/{service}.service" for service in KUBELETS)
# Directories, with the suffix of the files that are read.
_DIRECTORIES = (
    *((f"{unit}.d", ".conf") for unit in _UNITS),
    ("/etc/rancher/k3s/config.yaml.d", ".yaml"),
    ("/etc/rancher/rke2/config.yaml.d", ".yaml"),
)
# The processes of the kubelet's service: cgroup v2 and v1, in the usual slices.
_PROCESSES = tuple(
    f"/sys/fs/cgroup/{place}.slice/kubelet.service/cgroup.procs"
    for place in ("system", "runtime", "systemd/system", "systemd/runtime")
)
_ARGUMENTS = "/proc/{}/cmdline"
_MOST_PROCESSES = 8
_MOST_MENTIONS = 32
# As an argument (--node-ip=A,B), or as a YAML key (node-ip: A, "node-ip": [A, B] or with a list below it).
_TITLE = "Iface"
_NAME = re.compile(r"(?<![\w-])-{0,2}node-ip(?!\w)")
_BETWEEN = re.compile(r"""(?:[\s\0=:\\"',\[\]+-]|#[^\n]*\n)*""")
_ADDRESS = re.compile(r"[0-9A-Fa-f][0-9A-Fa-f.:]{1,44}")

ROUTE = "/proc/net/route"
IPV6_ROUTE = "/proc/net/ipv6_route"
IPV6_ADDRESSES = "/proc/net/if_inet6"
IP_ADDRESSES = ("ip", "-json", "address", "show")
DEFAULT_ROUTES = MappingProxyType(
    {version: ("ip", "-json", f"-{version}", "route", "show", "default") for version in (4, 6)}
)
ROUTE_TO = ("ip", "-json", "route", "get")
# Each server costs a command; for further ones only the tables are used.
_MOST_ASKED = 32
NAMED = "named in rdma_fabric_protected_interfaces"
# What the traffic of an uplink depends on.
IPV4, IPV6, ADVERTISED = "ipv4", "ipv6", "router advertisements"
_FAMILIES = MappingProxyType({4: IPV4, 6: IPV6})
# No gateway, or the mask of a default route.
_NONE = "00000000"
_UNICAST = "unicast"
_RTF_UP = 0x1
_RTF_REJECT = 0x200
_RTF_ADDRCONF = 0x40000
# The scope of link-local addresses in /proc/net/if_inet6 (include/net/ipv6.h, IPV6_ADDR_LINKLOCAL).
_LINK_SCOPE = 0x20
_CONF = "/proc/sys/net/ipv4/conf"
_POINT_TO_POINT = 30
Network = ipaddress.IPv4Network


class Carried(NamedTuple):
    """An interface that carries storage of the host, the reason in words, and what its traffic depends on."""

    netdev: str
    reason: str
    needs: frozenset[str]


class Route(NamedTuple):
    """A usable IPv4 route: its network and its interface."""

    network: ipaddress.IPv4Network
    netdev: str
    direct: bool


class Tables(NamedTuple):
    """Usable IPv4 routes, and what the default routes through each interface depend on."""

    routes: list[Route]
    defaults: dict[str, set[str]]

    @property
    def addressed(self) -> frozenset[str]:
        """Return the interfaces with IPv4 routes: by default, an address adds the route of its network."""
        return frozenset(printable(route.netdev) for route in self.routes)


class _Uplink(NamedTuple):
    reasons: list[str]
    needs: set[str]


def read_node_addresses(probe: Probe) -> list[str]:
    """Return every node address given to the kubelet of this host, each once."""
    # A process may end while it is read.
    texts = (probe.content(path, ("ESRCH",)) or "" for path in _sources(probe))
    return list(dict.fromkeys(address for text in texts for address in node_addresses_in(text)))


def is_source(path: str) -> bool:
    """Return whether node addresses are read from a file; its other content may be secret."""
    below = (f"{directory}/*{suffix}" for directory, suffix in _DIRECTORIES)
    patterns = (*_FILES, *_UNITS, *below, _ARGUMENTS.format("[0-9]*"))
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def public_part(text: str) -> str:
    """Return the part of a source that may be recorded: it has the same addresses and nothing else."""
    return "".join(f"{ARGUMENT}{address}\n" for address in node_addresses_in(text))


def node_addresses_in(text: str) -> list[str]:
    """Return the addresses after each ``node-ip``, up to the first word that is not an address."""
    mentions = itertools.islice(_NAME.finditer(text), _MOST_MENTIONS)
    return list(dict.fromkeys(address for mention in mentions for address in _addresses_from(text, mention.end())))


def read_tables(probe: Probe, every_hop: bool) -> Tables:
    """Read the routing tables; ``every_hop`` costs a command for each family that has a default route."""
    content = probe.content(ROUTE) or _TITLE
    routes = parse_routes(content)
    if not content.startswith(_TITLE):
        probe.note(ROUTE, GARBAGE)
    families = {
        4: {route.netdev: {IPV4} for route in routes if route.network.prefixlen == 0},
        6: parse_ipv6_default(probe.content(IPV6_ROUTE) or ""),
    }
    defaults: dict[str, set[str]] = {}
    for version, found in families.items():
        hops = parse_hops(probe.json(*DEFAULT_ROUTES[version]) or "") if found and every_hop else ()
        for name, needs in (*found.items(), *((name, {_FAMILIES[version]}) for name in hops)):
            defaults.setdefault(name, set()).update(needs)
    return Tables(routes, defaults)


def parse_routes(text: str) -> list[Route]:
    """Parse /proc/net/route; addresses are hexadecimal in the machine's byte order (here little-endian).

    Only default routes and direct routes are returned: a large cluster has thousands of others.
    """
    routes = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or _NONE not in (fields[2], fields[7]):
            continue
        numbers = [parse_int(fields[column], 16) for column in (1, 7, 2, 3)]
        destination, mask, gateway, flags = (-1 if number is None else number for number in numbers)
        network = _network(destination, mask)
        if network is not None and flags & _RTF_UP and not flags & _RTF_REJECT:
            routes.append(Route(network, fields[0], gateway == 0))
    return routes


def parse_ipv6_default(text: str) -> dict[str, set[str]]:
    """Parse /proc/net/ipv6_route and return what the default routes through each interface depend on.

    ``lo`` only has the reject route.
    """
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 10 or fields[0].strip("0") or fields[1] != "00" or fields[9] == "lo":
            continue
        flags = parse_int(fields[8], 16) or 0
        if flags & _RTF_UP and not flags & _RTF_REJECT:
            found.setdefault(fields[9], {IPV6}).update({ADVERTISED} if flags & _RTF_ADDRCONF else ())
    return found


def parse_hops(text: str) -> list[str]:
    """Parse ``ip -json route show default`` and return the interface of every next hop."""
    hops = []
    for route in objects(parsed(text)):
        if route.get("type", _UNICAST) == _UNICAST:
            hops += [route, *objects(route.get("nexthops"))]
    return [hop["dev"] for hop in hops if isinstance(hop.get("dev"), str)]


def read_carried(probe: Probe, tables: Tables, storage: Sequence[Storage]) -> list[Carried]:
    """Return the interfaces that carry ``storage``; if a route is ambiguous, all candidates."""
    carried = []
    for number, (way, reason) in enumerate(storage):
        end = parse_address(way.server) or parse_address(way.own)
        needs = frozenset() if end is None else frozenset([_FAMILIES[end.version]])
        names = netdevs_of(probe, tables, way, asks=number < _MOST_ASKED)
        carried += [Carried(name, reason, needs) for name in names]
    return carried


def netdevs_of(probe: Probe, tables: Tables, way: Way, *, asks: bool = True) -> list[str]:
    """Return the interfaces that the path to a server may take; ``asks`` costs a command."""
    server, own, scope = parse_address(way.server), parse_address(way.own), way.server.partition("%")[2]
    bound = [name for name in (way.netdev, scope) if name and probe.names(f"{NET}/{name}")]
    names = bound or (_netdevs_of(probe, tables.routes, own) if own else [])
    if names or server is None or server.is_loopback:
        return names
    return _netdevs_to(probe, tables, server, asks=asks)


def read_uplinks(
    probe: Probe,
    tables: Tables,
    netdevs: list[Netdev],
    connection_address: str | None,
    named: Iterable[str],
    *,
    carried: Iterable[Carried],
) -> list[Uplink]:
    """Return the interfaces to protect with all reasons; for a bond, bridge or VLAN, also its hardware.

    ``needs`` is what their traffic depends on, empty for interfaces that only carry others. ``named`` are those in a
    variable; names that are not in ``netdevs`` are left out. Their needs are looked up: IPv6 if they have an IPv6
    address, advertisements if one of their default routes came from one. ``carried`` is the result of ``read_carried``.
    """
    pci = {netdev.raw_name: netdev.pci_parent for netdev in netdevs}
    uplinks: dict[str, _Uplink] = {}
    for name in sorted(tables.defaults, key=natural):
        _protect(probe, uplinks, name, "default route", tables.defaults[name])
    wanted = _addresses(probe, connection_address)
    owners = {address: _netdevs_of(probe, tables.routes, address) for address in dict(wanted)}
    for address, reason in wanted:
        for name in owners[address]:
            _protect(probe, uplinks, name, reason, {_FAMILIES[address.version]})
    for name, reason, needs in carried:
        _protect(probe, uplinks, name, reason, needs)
    for name in named:
        if name in pci:
            _protect(probe, uplinks, name, NAMED, _needs_of_named(probe, name))
    return [
        {
            "netdev": printable(name),
            "pci": pci.get(name),
            "reasons": uplinks[name].reasons,
            "needs": sorted(uplinks[name].needs),
        }
        for name in sorted(uplinks, key=natural)
    ]


def parse_ip_addresses(text: str) -> dict[str, str]:
    """Parse ``ip -json address show`` and return the interface of every address."""
    owners: dict[str, str] = {}
    for link in objects(parsed(text)):
        name = link.get("ifname")
        if isinstance(name, str):
            addresses = (entry.get("local") for entry in objects(link.get("addr_info")))
            owners.update((address, name) for address in addresses if isinstance(address, str))
    return owners


def shared_networks(places: Iterable[tuple[Network, str]]) -> dict[Network, list[str]]:
    """Return the interfaces that share a network with another one, by network, without point-to-point networks."""
    members: dict[Network, set[str]] = {}
    for network, name in places:
        if not network.is_link_local and network.prefixlen <= _POINT_TO_POINT:
            members.setdefault(network, set()).add(name)
    return {network: sorted(found) for network, found in sorted(members.items()) if len(found) > 1}


def read_shared_subnets(probe: Probe, routes: Iterable[Route], names: Collection[str]) -> dict[str, list[str]]:
    """Return the interfaces that share a network, by network, if one of them answers for the others.

    Networks are those of direct routes. The kernel answers ARP for any of its addresses on every interface unless the
    larger of ``conf/all/arp_ignore`` and the interface's own is above 0 (Documentation/networking/ip-sysctl.rst).
    """
    shared = shared_networks(
        (route.network, route.netdev) for route in routes if route.direct and route.netdev in names
    )
    of_all = probe.number(f"{_CONF}/all/arp_ignore") if shared else None
    return {
        str(network): found
        for network, found in shared.items()
        if of_all == 0 and any(probe.number(f"{_CONF}/{name}/arp_ignore") == 0 for name in found)
    }


def _addresses_from(text: str, position: int) -> Iterator[str]:
    while True:
        between = _BETWEEN.match(text, position)
        word = _ADDRESS.match(text, between.end() if between else position)
        if word is None or address_of(word.group()) is None:
            return
        yield word.group()
        position = word.end()


def _sources(probe: Probe) -> Iterator[str]:
    for path in _PROCESSES:
        processes = (probe.content(path) or "").split()
        yield from (_ARGUMENTS.format(process) for process in processes[:_MOST_PROCESSES] if process.isdecimal())
    yield from _FILES
    yield from _UNITS
    for directory, suffix in _DIRECTORIES:
        yield from (f"{directory}/{name}" for name in probe.names(directory) if name.endswith(suffix))


def _network(destination: int, mask: int) -> ipaddress.IPv4Network | None:
    try:
        address, netmask = (ipaddress.IPv4Address(number.to_bytes(4, "little")) for number in (destination, mask))
        return ipaddress.IPv4Network(f"{address}/{netmask}", strict=False)
    except (OverflowError, ValueError):
        return None


def _netdevs_to(probe: Probe, tables: Tables, server: Address, asks: bool) -> list[str]:
    """Return the interface of the route to a server from ip(8), else the candidates in the tables."""
    result = probe.command(*ROUTE_TO, str(server)) if asks else None
    if result is not None and result.rc == 0:
        return parse_hops(result.stdout)
    direct = [route for route in tables.routes if route.direct and _is_subnet(route) and server in route.network]
    longest = max((route.network.prefixlen for route in direct), default=0)
    family = _FAMILIES[server.version]
    near = [route.netdev for route in direct if route.network.prefixlen == longest]
    return near or [name for name, needs in tables.defaults.items() if family in needs]


def _needs_of_named(probe: Probe, name: str) -> set[str]:
    """Return what an interface in the variable depends on besides its default routes; includes IPv6 if unknown."""
    content = probe.content(IPV6_ADDRESSES)
    if content is None:
        return {IPV4, IPV6}
    for fields in map(str.split, content.splitlines()):
        if len(fields) >= 6 and fields[5] == name and parse_int(fields[3], 16) != _LINK_SCOPE:
            return {IPV4, IPV6}
    return {IPV4}


def _protect(probe: Probe, uplinks: dict[str, _Uplink], name: str, reason: str, needs: Iterable[str]) -> None:
    through = f"{reason} through {printable(name)}"
    found = {
        **dict.fromkeys(switched_carriers_of(probe, name), f"{through} (Open vSwitch)"),
        **dict.fromkeys(carriers_of(probe, name), through),
        name: reason,
    }
    for member, text in found.items():
        known = uplinks.setdefault(member, _Uplink([], set())).reasons
        if text not in known:
            known.append(text)
    uplinks[name].needs.update(needs)


def _addresses(probe: Probe, connection_address: str | None) -> list[tuple[Address, str]]:
    wanted = [(connection_address, "Ansible connection")] if connection_address else []
    wanted += [(text, "kubelet node address") for text in read_node_addresses(probe)]
    found = [(address_of(text), reason) for text, reason in wanted]
    known = [(address, reason) for address, reason in found if address is not None]
    return [(address, reason) for address, reason in known if not address.is_loopback and not address.is_unspecified]


def _netdevs_of(probe: Probe, routes: Iterable[Route], address: Address) -> list[str]:
    """Return the interface that has the address; if unknown, all interfaces whose network contains it."""
    if isinstance(address, ipaddress.IPv6Address):
        return _ipv6_owner(probe.content(IPV6_ADDRESSES) or "", address)
    names = sorted(
        {route.netdev for route in routes if route.direct and address in route.network and _is_subnet(route)}
    )
    if len(names) == 1:
        return names
    owner = parse_ip_addresses(probe.json(*IP_ADDRESSES) or "").get(str(address))
    return [owner] if owner else names


def _is_subnet(route: Route) -> bool:
    return route.network.prefixlen > 0


def _ipv6_owner(text: str, address: ipaddress.IPv6Address) -> list[str]:
    wanted = f"{int(address):032x}"
    return [fields[5] for fields in map(str.split, text.splitlines()) if len(fields) >= 6 and fields[0] == wanted]
