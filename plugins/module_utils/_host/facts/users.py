# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the users of VFs and RDMA devices, which would lose them if these were removed.

The kernel does not check for users before it destroys a function or an RDMA device, and an interface in another network
namespace is not visible from here. All processes are examined, so this is only done if a step would take something
away. Interfaces of pods on a port are not visible either, but their addresses are: a macvlan makes its port accept its
address (macvlan_open, drivers/net/macvlan.c), through VLANs as well, in any network namespace.
"""

from __future__ import annotations

import base64
import contextlib
import re
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..machine.probe import ENDED, NET, PCI, Probe, natural, objects, parsed, printable
from ..spec.by_range import VFIO
from .devices import VFIO_DRIVERS
from .host_state import HostState
from .module_graph import CLIENT_MODULES, MODULES_OF_MOUNTS
from .netdev import ARPHRD_INFINIBAND, carriers_of
from .owners import POD_LOGS
from .remote_storage import rdma_connections
from .settings import parse_addresses
from .shapes import Facts, Nic, ReadNetdev
from .uplink import IP_ADDRESSES, IPV6_ADDRESSES, ROUTE, netdevs_of, read_tables

FILTERS = ("bridge", "-json", "fdb", "show")
# A unicast address: the lowest bit of its first octet is not set.
_UNICAST = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
_MOST_STATIONS = 3
# Drivers that pass a function through to a program or guest, so that it has no interface.
USER_SPACE_DRIVERS = (*VFIO_DRIVERS, "uio_pci_generic", "igb_uio")
# Their entries are named as the device files, and each names its RDMA device.
_CLASSES = ("/sys/class/infiniband_verbs", "/sys/class/infiniband_mad")
RDMA_FILES = "/dev/infiniband/"
# Among users by RDMA device: those whose device can't be told, who count as users of each.
ANY_DEVICE = ""
# Its connections name the module that a queue pair of rdma_cm is for (rdma_create_id, include/rdma/rdma_cm.h).
RESOURCES = tuple(("rdma", "-j", "resource", "show", kind) for kind in ("qp", "cm_id"))
NAMED_NAMESPACES = "/run/netns"
# The kernel opens these on every RDMA device for itself.
_OF_EVERY_DEVICE = ("ib_core", "ib_cm", "rdma_cm", "ib_ipoib", "mlx5_ib", "rdma_rxe")
_POD = re.compile(r"pod([0-9a-f]{8}([_-]?)[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12})")
# What the kubelet's device manager keeps, and device files in the answers of device plugins.
_CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
_GIVEN = re.compile(rb"/dev/infiniband/(uverbs\d+)")
_LINK_LOCAL = "fe80"
# Of these a reference says nothing: they work without RDMA as well.
_OVER_TCP = ("cifs", "ksmbd")
_MOST_NAMED = 4
_MOST_USERS = 12
# The parts of a function that may be in another network namespace, by the directory that is empty here in that case.
_INTERFACE, _RDMA_DEVICE = "net", "infiniband"
_WORDS = {_INTERFACE: "interface", _RDMA_DEVICE: "RDMA device"}
Users = Dict[str, List[str]]


def stations_of_others(probe: Probe, ports: Iterable[str], netdevs: Iterable[ReadNetdev]) -> dict[str, str]:
    """Return, as text by port, the addresses in the filters of Ethernet ports that no interface here has."""
    known = list(netdevs)
    own = {netdev["mac"] for netdev in known}
    ethernet = {netdev["name"] for netdev in known if netdev["link_type"] == "ether"}.intersection(ports)
    found: dict[str, list[str]] = {}
    for entry in objects(parsed(probe.json(*FILTERS) or "")) if ethernet else []:
        port, address = str(entry.get("ifname")), str(entry.get("mac"))
        if port in ethernet and address not in own and _UNICAST.fullmatch(address):
            found.setdefault(port, []).append(address)
    return {port: named(addresses, _MOST_STATIONS) for port, addresses in found.items()}


class _Process(NamedTuple):
    pid: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def read_users(
    probe: Probe,
    functions: Sequence[Nic],
    nics: Sequence[Nic],
    netdevs: Mapping[str, ReadNetdev],
) -> Users:
    """Return the users of each VF as text, by its PCI address, without unused functions.

    A function whose driver passes it through, but which no process has open, is included without users.

    ``functions`` are some of ``nics``, all NICs of the host, and ``netdevs`` are interfaces by name; all as facts.
    """
    if not functions:
        return {}
    users: Users = {nic["address"]: [] for nic in functions}
    passed_through = _note_passed_through(probe, users, functions)
    _note_network(probe, users, functions, netdevs)
    _note_namespaces(probe, users, {nic["address"]: _missing_part(nic, nics) for nic in functions})
    _note_rdma(probe, users, functions)
    return {address: found for address, found in users.items() if found or address in passed_through}


def in_another_namespace(nic: Nic, nics: Iterable[Nic]) -> str:
    """Return the text for a function with a part in another network namespace; empty if there is none."""
    part = _missing_part(nic, nics)
    return f"its {_WORDS[part]} is in another network namespace" if part else ""


def _missing_part(nic: Nic, nics: Iterable[Nic]) -> str | None:
    """Return the part that a function lacks here although its driver makes one: interface or RDMA device.

    Every Ethernet function has an interface. An InfiniBand one has it if ib_ipoib is in use, and its RDMA device is
    hidden in the exclusive mode of namespaces (netns_mode of ib_core): its port and the port's other functions show
    which applies.
    """
    if nic["driver"] is None or nic["driver"] in USER_SPACE_DRIVERS:
        return None
    if nic["class"].startswith("0200"):
        return None if nic["netdevs"] else _INTERFACE
    if nic["pf"] is None or not nic["class"].startswith("0207"):
        return None
    family = [other for other in nics if nic["pf"] in (other["address"], other["pf"])]
    if not nic["netdevs"] and any(other["netdevs"] for other in family):
        return _INTERFACE
    if not nic["rdma"] and any(other["rdma"] for other in family):
        return _RDMA_DEVICE
    return None


def has_driver(driver: str | None, vf_driver: str) -> bool:
    """Return whether a function has the driver that ``vf_driver`` selects: vfio-pci, or any but those of user space."""
    return driver == VFIO if vf_driver == VFIO else driver not in USER_SPACE_DRIVERS


def bound_to_user_space(nic: Nic) -> str:
    """Return the text for a function that is bound to a passthrough driver."""
    return f"it is bound to {nic['driver']}, a virtual machine or a DPDK program may hold it"


def _note_passed_through(probe: Probe, users: Users, functions: Sequence[Nic]) -> set[str]:
    """Note which processes have functions without interface open; return those functions.

    Without permission to examine other processes, or on a recorded host, this is unknown, and the function counts as
    used.
    """
    passed_through = [nic for nic in functions if nic["driver"] in USER_SPACE_DRIVERS]
    if not passed_through:
        return set()
    nodes = {node: nic["address"] for nic in passed_through for node in _vfio_nodes(probe, nic)}
    sees_processes = bool(probe.names("/proc/1/fd", ("EACCES",)))
    for nic in passed_through:
        if not sees_processes or nic["address"] not in nodes.values():
            users[nic["address"]].append(bound_to_user_space(nic))
    holders = _holders_of(probe, nodes) if sees_processes else {}
    for address, who in holders.items():
        users[address].append(f"it is held by {', '.join(who)} through vfio")
    return {nic["address"] for nic in passed_through}


def _vfio_nodes(probe: Probe, nic: Nic) -> list[str]:
    """Return the device files of a vfio function: its group's and, since Linux 6.6, its own."""
    group = nic["iommu"]["group"] if nic["iommu"] is not None else None
    own = probe.names(f"{PCI}/{nic['address']}/vfio-dev")
    return [f"/dev/vfio/{group}"] * (group is not None) + [f"/dev/vfio/devices/{name}" for name in own]


def _holders_of(probe: Probe, nodes: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the processes that have a device file open, by the address of its function."""
    found: dict[str, dict[str, None]] = {}
    for pid, paths in open_files(probe) if nodes else ():
        for path in paths & nodes.keys():
            found.setdefault(nodes[path], {})[str(_process(probe, pid))] = None
    return {address: list(who) for address, who in found.items()}


def open_files(probe: Probe) -> Iterator[tuple[str, set[str]]]:
    """Yield the number of each process with what it has open; one that ends meanwhile is left out."""
    for pid in _processes(probe):
        numbers = probe.names(f"/proc/{pid}/fd", ENDED)
        yield pid, {probe.target(f"/proc/{pid}/fd/{number}", ENDED) or "" for number in numbers}


def _processes(probe: Probe) -> list[str]:
    return sorted((name for name in probe.names("/proc") if name.isdecimal()), key=natural)


def _note_network(
    probe: Probe,
    users: Users,
    functions: Sequence[Nic],
    netdevs: Mapping[str, ReadNetdev],
) -> None:
    """Note interfaces with others on top, and those that are up and have a route or an address of their own."""
    ports = {name: nic["address"] for nic in functions for name in nic["netdevs"] if name in netdevs}
    carried = _carried(probe, ports, netdevs)
    addressed = _addressed(probe) if ports else set()
    for name, address in ports.items():
        if carried[name]:
            users[address].append(f"its interface {name} carries {', '.join(carried[name])}")
        elif netdevs[name]["up"] and name in addressed:
            users[address].append(f"its interface {name} is up and has addresses")


def _addressed(probe: Probe) -> set[str]:
    """Return the interfaces with a route or an address; IPv6 link-local addresses do not count.

    Only ``ip`` reports an IPv4 address without a network (/32) or with routes in another table.
    """
    lines = [line.split() for line in (probe.content(ROUTE) or "").splitlines()[1:]]
    names = {fields[0] for fields in lines if fields}
    lines = [line.split() for line in (probe.content(IPV6_ADDRESSES) or "").splitlines()]
    names |= {fields[5] for fields in lines if len(fields) >= 6 and not fields[0].startswith(_LINK_LOCAL)}
    by_name = parse_addresses(probe.json(*IP_ADDRESSES) or "") or {}
    return names | {name for name, addresses in by_name.items() if addresses}


def _carried(probe: Probe, ports: Iterable[str], netdevs: Mapping[str, ReadNetdev]) -> dict[str, dict[str, None]]:
    """Return what is on top of each interface: VLANs, bonds, bridges, VRFs, and macvlans of pods.

    No link in sysfs leads to an IPoIB partition, but its ``iflink`` is the index of the interface below. Interfaces of
    pods are only known by address: files shown by a container are its own, and may be links to anywhere on this host.
    """
    carried: dict[str, dict[str, None]] = {name: {} for name in ports}
    for name, uppers in carried.items():
        uppers.update((upper, None) for upper, netdev in netdevs.items() if name in netdev["lower"])
        master = netdevs[name]["master"]
        uppers.update({master: None} if master else {})
    numbers = {probe.number(f"{NET}/{name}/ifindex"): name for name in carried}
    for partition, number in _partitions(probe) if carried else []:
        if number in numbers:
            carried[numbers[number]][partition] = None
    for name, addresses in stations_of_others(probe, carried, netdevs.values()).items():
        if not carried[name]:
            carried[name][f"the address {addresses} of a pod or guest"] = None
    return carried


def _partitions(probe: Probe) -> list[tuple[str, int]]:
    """Return the IPoIB interfaces on top of another one, each with that one's index (``iflink``)."""
    found = []
    for name in probe.names(NET):
        base = f"{NET}/{name}"
        if probe.number(f"{base}/type") == ARPHRD_INFINIBAND:
            number = probe.number(f"{base}/iflink")
            if number is not None and number != probe.number(f"{base}/ifindex"):
                found.append((printable(name), number))
    return found


def _note_namespaces(probe: Probe, users: Users, away: Mapping[str, str | None]) -> None:
    """Note the functions with a part in another network namespace; ``away`` has the part by address."""
    lost = {address: part for address, part in away.items() if part is not None}
    if not lost:
        return
    holders = _namespace_holders(probe, lost)
    names = probe.names(NAMED_NAMESPACES)[:_MOST_NAMED]
    hint = f" (this host names {', '.join(printable(name, 64) for name in names)})" if names else ""
    for address, part in lost.items():
        who = holders.get(address)
        where = f"the network namespace of {who}" if who else f"another network namespace{hint}"
        users[address].append(f"its {_WORDS[part]} is in {where}")


def _namespace_holders(probe: Probe, lost: Mapping[str, str]) -> dict[str, str]:
    """Return the pod or process whose namespace has the part of a function, by PCI address.

    The sysfs that a container mounts shows the devices of its own namespace below the same PCI functions. Only names
    are read and no file is opened there, as files shown by a container may be its own.
    """
    own = probe.target("/proc/self/ns/net")
    holders: dict[str, str] = {}
    seen = {own}
    for pid in _processes(probe):
        namespace = probe.target(f"/proc/{pid}/ns/net", ENDED)
        if not namespace or namespace in seen:
            continue
        found = [a for a, part in lost.items() if probe.names(f"/proc/{pid}/root{PCI}/{a}/{part}", ENDED)]
        # A process without its own sysfs shows nothing; another one of the same namespace may.
        if found:
            seen.add(namespace)
        holders.update((address, _pod(probe, pid) or str(_process(probe, pid))) for address in found)
    return holders


def _pod(probe: Probe, pid: str) -> str:
    """Return the pod of a process, with its name if the kubelet's logs have it; empty if it has none."""
    uid = _pod_uid(probe, pid)
    return _pod_of(probe, uid) if uid else ""


def _pod_uid(probe: Probe, pid: str) -> str:
    found = _POD.search(probe.content(f"/proc/{pid}/cgroup", ENDED) or "")
    return found.group(1).replace("_", "-") if found is not None else ""


def _pod_of(probe: Probe, uid: str) -> str:
    for entry in probe.names(POD_LOGS):
        namespace, _underscore, rest = entry.partition("_")
        if rest.endswith(f"_{uid}"):
            return f"pod {printable(namespace, 64)}/{printable(rest[: -len(uid) - 1], 256)}"
    return f"pod {uid}"


def _note_rdma(probe: Probe, users: Users, functions: Sequence[Nic]) -> None:
    devices = {name: nic["address"] for nic in functions for name in nic["rdma"]}
    if not devices:
        return
    found = _programs(probe)
    for device, module in kernel_users(probe) or ():
        found.setdefault(device, {})[f"the kernel module {module}"] = None
    for device, users_of in found.items():
        if device in devices:
            users[devices[device]].append(f"its RDMA device is used by {', '.join(users_of)}")


def _programs(probe: Probe) -> dict[str, dict[str, None]]:
    """Return the programs that have RDMA devices open, by device, each with its pod."""
    found: dict[str, dict[str, None]] = {}
    nodes = _nodes(probe)
    for pid, paths in open_files(probe):
        entries = {path[len(RDMA_FILES) :] for path in paths if path.startswith(RDMA_FILES)}
        # rdma_cm is one file for all devices; who uses one through it has that one open, too.
        for device in {nodes.get(entry) or ANY_DEVICE for entry in entries - {"rdma_cm"} or entries}:
            pod = _pod(probe, pid)
            found.setdefault(device, {})[f"{_process(probe, pid)}{f' of {pod}' if pod else ''}"] = None
    return found


def _nodes(probe: Probe) -> dict[str, str | None]:
    """Return the RDMA devices by the names of their device files."""
    places = [f"{place}/{entry}" for place in _CLASSES for entry in probe.names(place)]
    return {place.rpartition("/")[2]: probe.text(f"{place}/ibdev", limit=64) for place in places}


def _pods(probe: Probe) -> list[tuple[str, str]]:
    """Return the devices whose files a device plugin gave to running pods, each with the pod.

    The kubelet keeps the answer of the plugin, which has the paths (Kubernetes, pkg/kubelet/cm/devicemanager), also
    after a pod has ended and has no process any longer.
    """
    document = parsed(probe.content(_CHECKPOINT) or "")
    data = document.get("Data") if isinstance(document, dict) else None
    given: dict[str, set[bytes]] = {}
    for entry in objects(data.get("PodDeviceEntries")) if isinstance(data, dict) else []:
        with contextlib.suppress(ValueError):
            files = _GIVEN.findall(base64.b64decode(str(entry.get("AllocResp"))))
            given.setdefault(str(entry.get("PodUID")), set()).update(files)
    running = {_pod_uid(probe, pid) for pid in _processes(probe)} if any(given.values()) else set()
    nodes = _nodes(probe)
    found = [(nodes.get(file.decode()), uid) for uid in sorted(running & given.keys()) for file in given[uid]]
    return [(device, _pod_of(probe, uid)) for device, uid in found if device]


def kernel_users(probe: Probe) -> list[tuple[str, str]] | None:
    """Return the devices with queue pairs or connections of kernel modules, and those; None if rdma can't tell."""
    found: dict[tuple[str, str], None] = {}
    for command in RESOURCES:
        shown = parsed(probe.output(*command))
        if not isinstance(shown, list):
            return None
        for entry in objects(shown):
            device, name = entry.get("ifname"), entry.get("comm")
            if isinstance(device, str) and isinstance(name, str) and "pid" not in entry:
                module = printable(name.strip("[]"), 64)
                if module not in _OF_EVERY_DEVICE:
                    found[device, module] = None
    return list(found)


def read_rdma_users(probe: Probe, facts: Facts) -> Users:
    """Return the users of each RDMA device as text: programs, pods that were given it, and storage with its mounts.

    Storage is on the devices of the interface of its connection, or else on those that its module uses.
    """
    found = _programs(probe)
    for device, pod in _pods(probe):
        if not any(who.endswith(pod) for who in found.get(device, ())):
            found.setdefault(device, {})[pod] = None
    kernel = kernel_users(probe)
    connected: set[tuple[str, str]] = set()
    # Without default routes: a device that is only guessed is not told.
    tables = read_tables(probe, every_hop=False)._replace(defaults={})
    for way, uses in rdma_connections(probe).items():
        module = MODULES_OF_MOUNTS[way.over]
        text = f"{module} to {way.server}" + (f" with {', '.join(uses)} on it" if uses else "")
        devices = _devices_of(probe, facts, netdevs_of(probe, tables, way))
        devices = devices or [device for device, name in kernel or () if name == module] or [ANY_DEVICE]
        for device in devices:
            found.setdefault(device, {})[text] = None
            connected.add((device, module))
    if kernel is None:
        modules, seen = facts["modules"], {module for _device, module in connected}
        clients = [name for name in CLIENT_MODULES if name in modules and name not in _OVER_TCP]
        busy = [name for name in clients if modules[name]["refcount"]]
        kernel = [(ANY_DEVICE, name) for name in busy if name not in seen]
    for device, module in kernel:
        if (device, module) not in connected:
            found.setdefault(device, {})[f"the kernel module {module}"] = None
    return {device: list(who) for device, who in found.items()}


def _devices_of(probe: Probe, facts: Facts, names: Iterable[str]) -> list[str]:
    """Return the RDMA devices of interfaces and of those that carry them."""
    wanted = {each for name in names for each in (name, *carriers_of(probe, name))}
    return [device["name"] for device in facts["rdma"] if device["netdev"] in wanted]


def named_users(users: Users, devices: Sequence[str]) -> str:
    """Return who uses any of these RDMA devices, in words; empty if nobody does."""
    known = list(dict.fromkeys(who for device in devices for who in users.get(device, [])))
    others = users.get(ANY_DEVICE, []) if devices else []
    more = [f"{len(known) - _MOST_USERS} more"] if len(known) > _MOST_USERS else []
    found = [*known[:_MOST_USERS], *more, *others[:_MOST_USERS]]
    return ", ".join(found) + (" (it can't be told on which RDMA device)" if others else "")


def _process(probe: Probe, pid: str) -> _Process:
    return _Process(pid, probe.text(f"/proc/{pid}/comm", ENDED, 32) or "?")


def held(actual: HostState, functions: Iterable[Nic]) -> str:
    """Return the users of these functions as text, each with its function; empty if none are known."""
    return "; ".join(filter(None, (_held(actual, nic) for nic in functions)))


def given_away(actual: HostState, nic: Nic) -> str:
    """Return the pod or guest that has a VF, judging by missing parts; empty if there is none."""
    if nic["driver"] in USER_SPACE_DRIVERS or in_another_namespace(nic, actual.nics.values()):
        return _held(actual, nic)
    return ""


def _held(actual: HostState, nic: Nic) -> str:
    users = actual.facts["vf_users"].get(nic["address"])
    if users is not None:
        return f"{nic['address']}: {', '.join(users)}" if users else ""
    # Facts that were gathered for another spec have no users; the function's own state is enough to refuse.
    if nic["driver"] in USER_SPACE_DRIVERS:
        return f"{nic['address']}: {bound_to_user_space(nic)}"
    away = in_another_namespace(nic, actual.nics.values())
    return f"{nic['address']}: {away}" if away else ""
