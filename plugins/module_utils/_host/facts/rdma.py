# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read RDMA devices, their ports and links, and compare links with earlier ones."""

from __future__ import annotations

import re
from typing import Collection, List, Mapping, Sequence, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from ..machine.probe import INFINIBAND, Probe, natural, parse_int, pci_address_in, printable
from .netdev import Netdev, port_of
from .shapes import Facts, RdmaDevice, RdmaPort

_LAYERS = re.compile(r"InfiniBand|Ethernet|Un\w+")
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
_SUB_FUNCTION = re.compile(r"/([a-z0-9_]{1,32}\.sf\.\d{1,10})/")
_IPV4_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
# mlx5 has 256 GID slots per port, each of which is a file of its own (linux-rdma/rdma-core pull request 828). The
# kernel fills the first free one, and the slot of a removed address stays empty (infiniband/core/cache.c: find_gid,
# del_gid).
_MOST_SLOTS = 256
# Without an expected address, a run of empty slots ends the search.
_EMPTY_RUN = 8

_SHAPE: Mapping[str, tuple[type, ...]] = {
    "pci": (str,),
    "port": (int,),
    "name": (str,),
    "link_layer": (str, type(None)),
    "rate_gbps": (int, float, type(None)),
    "rocev2_gid_index": (int, type(None)),
}
_SOURCE = "links"
_HINT = "give what rdma_host returned as links before the host was changed"


class Link(TypedDict):
    """A port that is up, with its capabilities; the rate is in Gb/s."""

    pci: str
    port: int
    name: str
    link_layer: str | None
    rate_gbps: float | None
    rocev2_gid_index: int | None


def read_rdma(probe: Probe, netdevs: Sequence[Netdev], addressed: Collection[str]) -> list[RdmaDevice]:
    """Return the facts of every RDMA device, ``mlx5_2`` before ``mlx5_10``.

    ``addressed`` are the interfaces with IPv4 addresses, according to their routes: all GID slots of these are
    searched, while ports of others, possibly hundreds of VFs, cost a few reads each.
    """
    names = sorted(probe.names(INFINIBAND), key=natural)
    return [_device(probe, name, netdevs, addressed) for name in names]


def links_of(facts: Facts) -> list[Link]:
    """Return the ports that are up, with their capabilities; rates are in Gb/s.

    Left out are VFs of a physical one on this host, which come and go with plans, and software devices,
    which have no link.
    """
    ours = {nic["address"] for nic in facts["nics"] if not nic["pf"]}
    return [
        {
            "pci": device["pci"],
            "port": port["port"],
            "name": device["netdev"] or device["name"],
            "link_layer": port["link_layer"],
            "rate_gbps": port["rate_gbps"],
            "rocev2_gid_index": port["rocev2_gid_index"],
        }
        for device in facts["rdma"]
        if device["pci"] in ours
        for port in device["ports"]
        if _is_up(port)
    ]


def lost_links(before: Sequence[Link], facts: Facts, shut: Collection[str] = ()) -> list[str]:
    """Return one line for each port that is worse than ``before``: gone, down, slower or without its GID.

    Ports are identified by PCI address and number, not by name. Ports that are ``shut`` (PCI addresses whose interface
    is to be down) are skipped, and so are ports whose link layer has changed.
    """
    ports = {(device["pci"], port["port"]): port for device in facts["rdma"] for port in device["ports"]}
    found = []
    for link in before:
        now = ports.get((link["pci"], link["port"]))
        if link["pci"] in shut or (now is not None and now["link_layer"] != link["link_layer"]):
            continue
        missing = _missing(link, now)
        if missing:
            found.append(f"port {link['port']} of {link['pci']} ({link['name']}) {missing}")
    return found


def check_links(value: object) -> list[Link]:
    """Return links in the form of ``links_of``; raises ``InvalidInput`` with all violations."""
    if not isinstance(value, list):
        raise InvalidInput([Violation(_SOURCE, "", "is not a list", _HINT)])
    flaws = []
    for number, link in enumerate(value):
        if not isinstance(link, Mapping):
            flaws.append(Violation(_SOURCE, f"[{number}]", "is not a mapping", _HINT))
            continue
        wrong = [key for key, kinds in _SHAPE.items() if key not in link or not isinstance(link[key], kinds)]
        if wrong:
            flaws.append(
                Violation(_SOURCE, f"[{number}]", f"lacks {', '.join(wrong)}, or has another type there", _HINT)
            )
    if flaws:
        raise InvalidInput(flaws)
    return cast(List[Link], value)


def _device(probe: Probe, name: str, netdevs: Sequence[Netdev], addressed: Collection[str]) -> RdmaDevice:
    base = f"{INFINIBAND}/{name}"
    place = probe.target(base) or ""
    # Only Soft RoCE has ``parent``, which names its interface. It has no bus device, or with old kernels is below the
    # NIC of that interface (rxe_dma_device in drivers/infiniband/sw/rxe).
    parent = probe.text(f"{base}/parent", limit=64) or None
    sub_function = None if parent else _sub_function(place)
    pci = None if parent or sub_function else pci_address_in(place)
    numbers = sorted(filter(None, (parse_int(port) for port in probe.names(f"{base}/ports"))))
    netdev = _netdev(probe, base, numbers, port_of(netdevs, pci, numbers[0]) if pci and numbers else None) or parent
    return {
        "name": printable(name),
        "pci": pci,
        "sub_function": sub_function,
        "netdev": netdev,
        "node_guid": probe.text(f"{base}/node_guid", limit=64),
        "system_image_guid": probe.text(f"{base}/sys_image_guid", limit=64),
        "firmware": probe.text(f"{base}/fw_ver", limit=64) or None,
        "psid": probe.text(f"{base}/board_id", limit=64) or None,
        "hca_type": probe.text(f"{base}/hca_type", limit=64) or None,
        "ports": [_port(probe, f"{base}/ports/{number}", number, netdev, netdev in addressed) for number in numbers],
    }


def _sub_function(place: str) -> str | None:
    """Return ``0000:18:00.0/mlx5_core.sf.4`` for the device of a sub-function, which is not that of the PCI function.

    It is on the auxiliary bus below the physical or VF that carries it (linux-rdma/rdma-core pull request
    1741).
    """
    found = _SUB_FUNCTION.search(place)
    return f"{pci_address_in(place)}/{found.group(1)}" if found else None


def _netdev(probe: Probe, base: str, ports: list[int], own: Netdev | None) -> str | None:
    """Return the interface of the first port; a RoCE bond represents its members (``mlx5_bond_0``)."""
    if own is not None and own.facts["master"] is None:
        return own.facts["name"]
    attached = probe.text(f"{base}/ports/{ports[0]}/gid_attrs/ndevs/0", ("EINVAL",), 64) if ports else None
    if own is None:
        return attached or None
    return attached if attached == own.facts["master"] else own.facts["name"]


def _port(probe: Probe, base: str, number: int, netdev: str | None, has_address: bool) -> RdmaPort:
    link_layer = probe.text(f"{base}/link_layer", limit=32, form=_LAYERS)
    physical = _state(probe, f"{base}/phys_state")
    return {
        "port": number,
        "state": _state(probe, f"{base}/state"),
        "physical": physical,
        # A port without a link has a rate too (10 or 40), which is meaningless.
        "rate_gbps": _rate(probe, f"{base}/rate") if physical == "LinkUp" else None,
        "link_layer": link_layer,
        "lid": probe.number(f"{base}/lid", base=16),
        "sm_lid": probe.number(f"{base}/sm_lid", base=16),
        "rocev2_gid_index": _rocev2_index(probe, base, netdev, has_address) if link_layer == "Ethernet" else None,
    }


def _state(probe: Probe, path: str) -> str | None:
    """Return the word in ``4: ACTIVE``."""
    text = probe.text(path, limit=64)
    return text.partition(":")[2].strip() or text if text else None


def _rate(probe: Probe, path: str) -> int | float | None:
    """Return Gb/s from ``400 Gb/sec (4X NDR)``, as an integer if it is one (``2.5`` exists)."""
    found = _RATE.match(probe.text(path, ("EINVAL",), 64) or "")
    if not found:
        return None
    rate = float(found.group(1))
    return int(rate) if rate.is_integer() else rate


def _rocev2_index(probe: Probe, base: str, netdev: str | None, has_address: bool) -> int | None:
    """Return the first slot with a RoCE v2 GID made from an IPv4 address of this port's own interface.

    For an interface that ``has_address`` all slots are searched, for others those before a run of empty ones.
    """
    empty = 0
    for slot in range(_MOST_SLOTS):
        gid = probe.text(f"{base}/gids/{slot}", ("EINVAL",), 64)
        if gid is None or gid == _EMPTY_GID:
            empty += 1
            if gid is None or (empty >= _EMPTY_RUN and not has_address):
                return None
            continue
        empty = 0
        if not gid.startswith(_IPV4_MAPPED):
            continue
        if probe.text(f"{base}/gid_attrs/types/{slot}", ("EINVAL",), 32) != "RoCE v2":
            continue
        if netdev is None or probe.text(f"{base}/gid_attrs/ndevs/{slot}", ("EINVAL",), 64) == netdev:
            return slot
    return None


def _missing(before: Link, now: RdmaPort | None) -> str:
    """Return what a port has lost, as the end of a sentence about it; empty if nothing."""
    rate = before["rate_gbps"]
    was = f"was up at {rate} Gb/s" if rate else "was up"
    if now is None:
        return f"{was}, and this RDMA port no longer exists"
    if not _is_up(now):
        return f"{was} and is {now['state'] or 'unreadable'} ({now['physical'] or 'no physical state'})"
    if rate and now["rate_gbps"] and now["rate_gbps"] < rate:
        return f"{was} and is up at {now['rate_gbps']} Gb/s"
    if before["rocev2_gid_index"] is not None and now["rocev2_gid_index"] is None:
        return f"had a RoCE v2 GID of an IPv4 address (index {before['rocev2_gid_index']}) and has none"
    return ""


def _is_up(port: RdmaPort) -> bool:
    return port["state"] == "ACTIVE" and port["physical"] in ("LinkUp", None)
