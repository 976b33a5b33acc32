# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans MTUs in an order in which no virtual function ever exceeds its physical one. Private: it may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import NETDEV_DRIVER, Netdev, Nic
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context, Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.sriov.functions import new_functions
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import NOTHING, NOW, Step, make_step, refused_step

MLX5_ETHERNET_MAX = 9978
IPOIB_2K_MAX = 2044
IPOIB_DATAGRAM_MAX = 4092
IPOIB_CONNECTED_MAX = 65520
DEFAULT_ETHERNET_MTU = 1500
ROCE_HEADERS = 96
IB_MTUS = (4096, 2048, 1024, 512, 256)
# Ends the key of a step that is about all virtual functions of one physical one.
FUNCTIONS = ":vfs"

# What stands on another device (virtual functions, VLANs) goes down before it and up after it; this order holds for
# all of them at once.
_LOWER_VF, _LOWER_PF, _RAISE_PF, _RAISE_VF = range(4)
_PHASES = {
    # stands on another device, is lowered
    (True, True): _LOWER_VF,
    (False, True): _LOWER_PF,
    (False, False): _RAISE_PF,
    (True, False): _RAISE_VF,
}


@dataclass(frozen=True)
class _Change:
    """One MTU change with its place in the order."""

    phase: int
    step: Step


def roce_mtu(mtu: int) -> int:
    """Return the InfiniBand MTU that RoCE uses over an Ethernet ``mtu`` (bytes); 0 when none fits.

    The kernel takes the largest that leaves room for the transport headers (iboe_get_mtu, include/rdma/ib_addr.h).
    """
    return next((ib_mtu for ib_mtu in IB_MTUS if ib_mtu <= mtu - ROCE_HEADERS), 0)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each device whose MTU differs from the wanted one, and hints on what RoCE makes of it."""
    changes: list[_Change] = []
    notices: list[str] = []
    final = _final_mtus(context)
    for interface in context.interfaces:
        if interface.netdev is None:
            continue
        changes.extend(_interface_change(context, interface, interface.netdev, final))
        notices.extend(_roce_hint(context, interface, interface.netdev))
        if interface.nic is not None and interface.nic["function"] == "pf":
            vf_changes, vf_notices = _functions_change(context, interface, interface.nic, final)
            changes.extend(vf_changes)
            notices.extend(vf_notices)
    changes.sort(key=lambda change: (change.phase, change.step["id"]))
    return [change.step for change in changes], notices


def _final_mtus(context: Context) -> dict[str, int]:
    """Return the MTU that each wanted physical function has once the plan is done, by PCI address."""
    final = {}
    for interface in context.interfaces:
        netdev, wanted = interface.netdev, interface.wanted.get("mtu")
        if netdev is None or interface.nic is None:
            continue
        applies = wanted is not None and not _refusal(context, interface.nic, netdev, wanted)
        final[interface.key] = wanted if wanted is not None and applies else netdev["mtu"]
    return final


def _limit_problem(nic: Nic | None, netdev: Netdev, wanted: int) -> str:
    """Return why the device can't have this MTU. Other drivers' limits are only known to their kernel."""
    if netdev["link_type"] == "infiniband":
        if wanted > IPOIB_CONNECTED_MAX:
            return f"IPoIB carries at most {IPOIB_CONNECTED_MAX}"
        if wanted > IPOIB_DATAGRAM_MAX >= netdev["mtu"]:
            return (
                f"IPoIB in datagram mode carries at most {IPOIB_DATAGRAM_MAX} ({IPOIB_2K_MAX} on a fabric with an MTU "
                "of 2K); RDMA itself uses the MTU of the subnet manager, whatever is set here"
            )
    elif nic is not None and nic["driver"] == NETDEV_DRIVER and wanted > MLX5_ETHERNET_MAX:
        return f"mlx5 carries at most {MLX5_ETHERNET_MAX}"
    return ""


def _refusal(context: Context, nic: Nic | None, netdev: Netdev, wanted: int) -> str:
    if wanted == netdev["mtu"]:
        return ""
    master = context.actual.netdevs.get(netdev.get("master") or "", {})
    if master.get("kind") == "bond":
        return f"it belongs to {master['name']}, which sets the MTU of its members; set it there"
    return _limit_problem(nic, netdev, wanted) or context.uplink_refusal(nic, netdev)


def _interface_change(context: Context, interface: Interface, netdev: Netdev, final: dict[str, int]) -> list[_Change]:
    wanted = interface.wanted.get("mtu")
    if wanted is None:
        return []
    nic, now = interface.nic, int(netdev["mtu"])
    stands_on_other = netdev["kind"] != "physical" or (nic is not None and nic["function"] == "vf")
    refusal = _refusal(context, nic, netdev, wanted) or (_above_parent(context, nic, wanted, final) if nic else "")
    if wanted == now and not refusal:
        return []
    phase = _PHASES[stands_on_other, wanted < now]
    wording: dict[str, Any] = {
        "target": context.target_of(interface),
        "action": f"set the MTU to {wanted} (now {now})",
        "before": now,
        "after": wanted,
        "reason": f"rdma_fabric_interfaces asks for an MTU of {wanted}",
    }
    if refusal:
        return [_Change(phase, refused_step("mtu", interface.key, **wording, detail=refusal))]
    name = context.name_of(netdev)
    step = make_step(
        "mtu",
        interface.key,
        **wording,
        interrupts=f"traffic on {name} for a moment: the driver rebuilds its queues" if netdev["up"] else NOTHING,
        undo=f"set the MTU to {now}",
        when=NOW,
        detail=_partition_hint(netdev, wanted),
    )
    return [_Change(phase, step)]


def _above_parent(context: Context, nic: Nic, wanted: int, final: dict[str, int]) -> str:
    parent = context.actual.nics.get(nic.get("pf") or "")
    port = context.actual.port_of(parent) if parent else None
    if parent is None or port is None:
        return ""
    most = final[parent["address"]] if parent["address"] in final else int(port["mtu"])
    if wanted <= most:
        return ""
    return f"its physical function {parent['address']} carries {most}; give that one mtu {wanted}"


def _partition_hint(netdev: Netdev, wanted: int) -> str:
    if netdev["link_type"] == "infiniband" and netdev["mtu"] <= IPOIB_2K_MAX < wanted:
        return f"above {IPOIB_2K_MAX} only when the subnet manager's partition allows an MTU of 4K"
    return ""


def _roce_hint(context: Context, interface: Interface, netdev: Netdev) -> list[str]:
    wanted, nic = interface.wanted.get("mtu"), interface.nic
    if wanted is None or nic is None or netdev["link_type"] != "ether" or not nic["rdma"]:
        return []
    ib_mtu = roce_mtu(wanted)
    if ib_mtu >= IB_MTUS[0]:
        return []
    return [
        f"{context.target_of(interface)}: an MTU of {wanted} leaves RoCE an InfiniBand MTU of {ib_mtu}; "
        f"{IB_MTUS[0]} needs at least {IB_MTUS[0] + ROCE_HEADERS}, usually 4200 or 9000"
    ]


def _functions_change(
    context: Context, interface: Interface, nic: Nic, final: dict[str, int]
) -> tuple[list[_Change], list[str]]:
    """Plan the virtual functions of one physical function: those that exist, or those the plan creates."""
    vf_mtu, most = interface.wanted.get("vf_mtu"), final[interface.key]
    new = new_functions(context, interface.key)
    if new is not None:
        return _new_functions(context, interface, nic, most, new)
    wrong = differing_functions(context, interface)
    if vf_mtu is None:
        to = most
        reason = f"no virtual function may exceed the MTU {most} of its physical one"
    else:
        to = vf_mtu
        reason = f"rdma_fabric_interfaces asks for a vf_mtu of {vf_mtu}"
    if not wrong:
        unused = vf_mtu is not None and not context.actual.vf_addresses(nic)
        text = f"{context.target_of(interface)}: vf_mtu has no effect, there are no virtual functions"
        return [], [text] if unused else []
    phase = _LOWER_VF if interface.netdev and most < interface.netdev["mtu"] else _RAISE_VF
    refusal = _vf_limit(interface, to, most) or next(
        filter(None, (_refusal(context, vf, port, to) for vf, port in wrong)), ""
    )
    names = ", ".join(context.name_of(port) for _vf, port in wrong)
    busy = [context.name_of(port) for _vf, port in wrong if port["up"]]
    wording: dict[str, Any] = {
        "target": context.target_of(interface),
        "action": f"set the MTU of {names} to {to}",
        "before": sorted({port["mtu"] for _vf, port in wrong}),
        "after": to,
        "reason": reason,
    }
    key = f"{interface.key}{FUNCTIONS}"
    if refusal:
        return [_Change(phase, refused_step("mtu", key, **wording, detail=refusal))], []
    step = make_step(
        "mtu",
        key,
        **wording,
        interrupts=f"traffic on {', '.join(busy)} for a moment" if busy else NOTHING,
        undo="set the former MTUs: " + ", ".join(f"{port['name']} {port['mtu']}" for _vf, port in wrong),
        when=NOW,
    )
    return [_Change(phase, step)], []


def differing_functions(context: Context, interface: Interface) -> list[tuple[Nic, Netdev]]:
    """Return the virtual functions, with their ports, whose MTU differs from what their physical one asks for.

    Those that are wanted interfaces with an MTU themselves are left out. Where nothing is asked of them, a function
    above its physical one differs: it would lose its larger frames.
    """
    if interface.nic is None:
        return []
    own = {other.key for other in context.interfaces if other.wanted.get("mtu") is not None}
    functions = [vf for vf in context.actual.vfs_of(interface.nic) if vf["address"] not in own]
    ports = [(vf, port) for vf in functions for port in [context.actual.port_of(vf)] if port is not None]
    vf_mtu, most = interface.wanted.get("vf_mtu"), _final_mtus(context)[interface.key]
    if vf_mtu is None:
        return [(vf, port) for vf, port in ports if port["mtu"] > most]
    return [(vf, port) for vf, port in ports if port["mtu"] != vf_mtu]


def _vf_limit(interface: Interface, wanted: int, most: int) -> str:
    if wanted <= most:
        return ""
    if interface.wanted.get("mtu") is None:
        return f"the physical function carries {most}; give it mtu {wanted} as well"
    return f"the physical function stays at {most}, as its own change is refused"


def _new_functions(
    context: Context, interface: Interface, nic: Nic, most: int, count: int
) -> tuple[list[_Change], list[str]]:
    vf_mtu = interface.wanted.get("vf_mtu")
    is_default = nic["link_layer"] == "Ethernet" and vf_mtu == DEFAULT_ETHERNET_MTU
    if vf_mtu is None or not count or is_default:
        return [], []
    wording: dict[str, Any] = {
        "target": context.target_of(interface),
        "action": f"set the MTU of its {count} new virtual functions to {vf_mtu}",
        "before": None,
        "after": vf_mtu,
        "reason": f"rdma_fabric_interfaces asks for a vf_mtu of {vf_mtu}; new functions start with their driver's own",
    }
    key = f"{interface.key}{FUNCTIONS}"
    refusal = _vf_limit(interface, vf_mtu, most)
    if refusal:
        return [_Change(_RAISE_VF, refused_step("mtu", key, **wording, detail=refusal))], []
    return [_Change(_RAISE_VF, make_step("mtu", key, **wording, undo="removing the functions ends it", when=NOW))], []
