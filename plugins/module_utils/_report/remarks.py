# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health remarks derived from the facts of a fleet: what deserves a look before traffic runs. Pure.

A remark is ``{"kind", "severity", "host", "devices": [{"address", "name", "seen"}]}``: one per host and kind. What a
kind means and what to do about it is said once, in ``KINDS``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Collection, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._pcie_links import lacking, possible

from .hosts import counted, device_model, natural_key, nic_name, port_state, rdma_functions
from .ipoib import too_old_for_ipoib
from .missing_devices import missing_devices
from .outliers import outliers
from .topology import pcie_text

ATTENTION = "attention"
NOTE = "note"
UNFINISHED = "unfinished"

KINDS: dict[str, dict[str, str]] = {
    "rail_down": {
        "severity": ATTENTION,
        "title": "A rail has no link",
        "meaning": "The NIC beside a GPU carries no traffic, so collectives of that GPU take a detour or fail. "
        "Polling means that the port sees no partner: cable, transceiver or switch port.",
        "next": "Check the cable and the switch port; compare with a rail that is up.",
    },
    "no_subnet_manager": {
        "severity": ATTENTION,
        "title": "An InfiniBand port waits for a subnet manager",
        "meaning": "The link is trained, but the port stays in INIT until a subnet manager gives it a LID; "
        "no RDMA traffic passes until then.",
        "next": "Start or reach a subnet manager (opensm, UFM or the switch's own) on this fabric.",
    },
    "no_rdma_device": {
        "severity": ATTENTION,
        "title": "A NIC has no RDMA device",
        "meaning": "mlx5_core drives it, but there is no RDMA device of it: programs and device plugins find none. "
        "Mostly mlx5_ib is not loaded, or not installed.",
        "next": "Load mlx5_ib (packages linux-modules-extra or kernel-modules, where the kernel's own driver runs), or "
        "read the kernel's log for why it failed; then restart the device plugin.",
    },
    "device_missing": {
        "severity": ATTENTION,
        "title": "A GPU or NIC is missing",
        "meaning": "Many machines that are otherwise built like this one have it. It has fallen off the bus (Xid 79), "
        "or the BIOS switched its slot off after errors.",
        "next": "Read the kernel's log (Xid, AER, pciehp) and that of the BMC, and power cycle the machine. Nothing to "
        "do where it was built without.",
    },
    "pcie_degraded": {
        "severity": ATTENTION,
        "title": "A NIC's PCIe link runs below what NIC and slot can do",
        "meaning": "The bandwidth of the NIC is cut by its link to the machine, whatever the network link says. "
        "Typical causes are a card that is not seated well, a riser, or a BIOS limit.",
        "next": "Reseat the card or lift the limit, then read the host again. Virtual machines and recordings of older "
        "releases do not tell what the slot can do: nothing to do there where it is built for less.",
    },
    "gpu_lanes_lost": {
        "severity": ATTENTION,
        "title": "A GPU's PCIe link has fewer lanes than GPU and slot have",
        "meaning": "What the GPU exchanges with its NIC and the processor is cut by these lanes. Its speed tells "
        "nothing: an idle GPU slows its link down by itself.",
        "next": "Reseat the card, then look at riser and BIOS. Virtual machines do not tell what the slot has: nothing "
        "to do there where it is built for less.",
    },
    "rail_across_cpus": {
        "severity": ATTENTION,
        "title": "A rail's GPU and NIC sit on different CPUs",
        "meaning": "Traffic between this GPU and its NIC crosses the link between CPUs (SYS), "
        "where GPUDirect RDMA is slow or switched off.",
        "next": "Move the card to a slot on the GPU's CPU, or accept the lower bandwidth of this rail.",
    },
    "rail_through_cpu": {
        "severity": NOTE,
        "title": "A rail's GPU and NIC share no PCIe switch",
        "meaning": "Traffic between this GPU and its NIC passes through the CPU (PHB, NODE): it works, below the rate "
        "of a NIC under the GPU's own switch.",
        "next": "Nothing to do when the machine is built that way.",
    },
    "slot_below_nic": {
        "severity": NOTE,
        "title": "A NIC's slot is slower or narrower than the NIC",
        "meaning": "The PCIe link runs at all that its slot can do, which is less than the NIC can.",
        "next": "Nothing to do when the machine is built that way; otherwise look at the slot's settings in the BIOS "
        "(link speed, bifurcation), or move the card.",
    },
    "gpu_without_rail": {
        "severity": NOTE,
        "title": "A GPU has no NIC of its own",
        "meaning": "Its traffic shares the NIC of another GPU.",
        "next": "Nothing to do when the machine is built that way.",
    },
    "firmware_differs": {
        "severity": ATTENTION,
        "title": "Firmware differs from that of its siblings",
        "meaning": "NICs of one family and one board (PSID) usually run one firmware across a fleet; "
        "a mix makes results differ from host to host.",
        "next": "Bring the odd ones to the version of the others in a maintenance window.",
    },
    "link_rate_differs": {
        "severity": ATTENTION,
        "title": "Link rate differs from that of its siblings",
        "meaning": "On machines built alike this port runs at another rate. The slowest rail holds back every "
        "collective. Typical causes are a cable or a switch port of another speed, and lanes lost in training.",
        "next": "Compare cable, transceiver and switch port with those of the other machines.",
    },
    "pcie_differs": {
        "severity": ATTENTION,
        "title": "PCIe link differs from that of its siblings",
        "meaning": "Slot and card agree on a link that is slower, narrower or faster than on machines built alike: "
        "another slot, riser, card or BIOS setting.",
        "next": "Compare the slot and its BIOS settings (bifurcation, link speed) with another machine.",
    },
    "mtu_differs": {
        "severity": ATTENTION,
        "title": "MTU differs from that of its siblings",
        "meaning": "A port drops frames that are larger than its MTU, and RDMA takes the smaller MTU of two ports.",
        "next": "Set the MTU of the fabric in the inventory (rdma_fabric_interfaces), for all of them.",
    },
    "driver_differs": {
        "severity": ATTENTION,
        "title": "Driver differs from that of its siblings",
        "meaning": "Defaults and defects differ with the version; a mix makes results differ from host to host.",
        "next": "Upgrade the odd ones, or wait for the rollout to reach them.",
    },
    "zero_guid": {
        "severity": ATTENTION,
        "title": "An RDMA device has a zero GUID",
        "meaning": "A VF has no node GUID until one is set; RDMA connections over it fail.",
        "next": "Set vf_settings: {mac: deterministic} in the entry of its port (rdma_fabric_interfaces), or "
        "vf_guids: deterministic on InfiniBand. In a guest its host does so.",
    },
    "functions_down": {
        "severity": NOTE,
        "title": "VFs of an InfiniBand port have no link, the port has one",
        "meaning": "Their ports come up when they have GUIDs and the subnet manager allows virtual ports; until then a "
        "pod gets a device that sends nothing.",
        "next": "Give them GUIDs (vf_guids) and let the subnet manager allow virtual ports (OpenSM: virt_enabled 2). "
        "Nothing to do where a CNI plugin gives each VF its GUID with a pod.",
    },
    "iommu_translated": {
        "severity": NOTE,
        "title": "The IOMMU translates the DMA of a NIC",
        "meaning": "Peer-to-peer transfers between NIC and GPU go through the root complex and lose bandwidth.",
        "next": "Boot with iommu=pt (identity mapping; on Arm iommu.passthrough=1) unless isolation is wanted.",
    },
    "port_down": {
        "severity": NOTE,
        "title": "A port outside the rails has no link",
        "meaning": "Nothing is plugged in, or the interface is down.",
        "next": "Nothing to do when the port is meant to be unused.",
    },
    "ipoib_within_host": {
        "severity": NOTE,
        "title": "Pods of one host may not reach each other by IPoIB",
        "meaning": "With a driver as old as this one, IPoIB in enhanced mode may carry no traffic between two pods of "
        "the same host; between hosts it works.",
        "next": "Take Linux 5.8 or MLNX_OFED 5.1, or newer; or switch the enhanced mode off, at the cost of bandwidth "
        "(MLNX_OFED: ipoib_enhanced=0 of ib_ipoib), where pods of one host talk to each other.",
    },
    "virtual_functions_differ": {
        "severity": NOTE,
        "title": "Number of VFs differs from that of its siblings",
        "meaning": "The scheduler finds another number of devices on this node.",
        "next": "Nothing to do when the inventory asks for it.",
    },
    "kernel_differs": {
        "severity": NOTE,
        "title": "Kernel differs from that of its siblings",
        "meaning": "Drivers are built for a kernel, and its network stack changes with it.",
        "next": "Nothing to do during a rollout; bring the odd ones to the kernel of the others after it.",
    },
    "os_differs": {
        "severity": NOTE,
        "title": "Operating system differs from that of its siblings",
        "meaning": "Packages and drivers come from another repository.",
        "next": "Nothing to do during a rollout.",
    },
    "unreadable": {
        "severity": NOTE,
        "title": "Some facts could not be read",
        "meaning": "The report is silent about what these files would have said.",
        "next": "Read the host with the rights to see them (root), or accept the gap.",
    },
    UNFINISHED: {
        "severity": ATTENTION,
        "title": "A host did not succeed",
        "meaning": "The run failed on this host, or did not reach it. "
        "What the report shows of the host may be from an earlier run.",
        "next": "Fix what is said here and run again, or leave the host out (--limit).",
    },
    "not_read": {
        "severity": ATTENTION,
        "title": "A host of the inventory was not read",
        "meaning": "There is no file of this host in the run directory: it did not answer, or the run was limited.",
        "next": "Reach the host and run again.",
    },
    "not_in_spec": {
        "severity": NOTE,
        "title": "A host outside this run's inventory",
        "meaning": "Its file in the run directory is from an earlier run or from another slice of the inventory.",
        "next": "Delete the file when the host is gone.",
    },
}
DRIVER, RDMA_DRIVER = "mlx5_core", "mlx5_ib"
_ZERO_GUID = "0000:0000:0000:0000"
_IDENTITY = ("identity", "passthrough")


def fleet_remarks(
    documents: list[dict[str, Any]],
    expected_hosts: list[str] | None,
    unfinished: Mapping[str, str],
    built_alike: Iterable[Sequence[str]],
    *,
    left_out: Collection[str] = (),
    over_ipoib: bool = False,
) -> list[dict[str, Any]]:
    """Return the remarks on all hosts, those that need attention first.

    ``expected_hosts`` are the hosts of the spec; None when there is no spec to compare with. ``unfinished`` says
    why the run did not bring a host to the end, by its name. ``built_alike`` are groups of hosts. ``left_out`` are
    hosts that the run was not to read. ``over_ipoib``: pods get networks over IPoIB.
    """
    usual = _usual_firmware(documents)
    groups = list(built_alike)
    facts_of = {document["host"]: document["facts"] for document in documents}
    odd, missing = outliers(facts_of, groups), missing_devices(facts_of, groups)
    remarks: list[dict[str, Any]] = []
    for document in documents:
        facts = document["facts"]
        found = {
            **_link_remarks(facts),
            "no_rdma_device": _without_rdma(facts),
            "device_missing": missing.get(document["host"], []),
            "pcie_degraded": _degraded(facts),
            "gpu_lanes_lost": _narrow_gpus(facts),
            "rail_across_cpus": _far_rails(facts, ("SYS",)),
            "rail_through_cpu": _far_rails(facts, ("PHB", "NODE")),
            "slot_below_nic": _in_lesser_slots(facts),
            "gpu_without_rail": _lonely_gpus(facts),
            "firmware_differs": _odd_firmware(facts, usual),
            **odd.get(document["host"], {}),
            "zero_guid": _zero_guids(facts),
            "functions_down": _functions_down(facts),
            "iommu_translated": _translated(facts),
            "ipoib_within_host": _by_old_ipoib(facts) if over_ipoib else [],
            "unreadable": [_device("", item["path"], item["error"]) for item in facts["unreadable"]],
        }
        remarks += [_remark(kind, document["host"], devices) for kind, devices in found.items() if devices]
    remarks += [_remark(UNFINISHED, host, [_device("", "", why)]) for host, why in unfinished.items()]
    if expected_hosts is not None:
        read = {document["host"] for document in documents}
        told = {*read, *unfinished, *left_out}
        remarks += [_remark("not_read", name, []) for name in expected_hosts if name not in told]
        remarks += [_remark("not_in_spec", name, []) for name in read if name not in expected_hosts]
    order = list(KINDS)
    remarks.sort(key=lambda r: (r["severity"] != ATTENTION, order.index(r["kind"]), natural_key(r["host"])))
    return remarks


def _remark(kind: str, host: str, devices: list[dict[str, str]]) -> dict[str, Any]:
    return {"kind": kind, "severity": KINDS[kind]["severity"], "host": host, "devices": devices}


def _device(address: str, name: str, seen: str) -> dict[str, str]:
    return {"address": address, "name": name, "seen": seen}


def _link_remarks(facts: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {"rail_down": [], "no_subnet_manager": [], "port_down": []}
    rails = {rail["nic"]: rail["rail"] for rail in facts["rails"]}
    for nic in rdma_functions(facts):
        address = nic["address"]
        link = port_state(facts, address)
        if link["state"] in ("up", "unknown"):
            continue
        device = _device(address, nic_name(nic), _seen_link(link, rails.get(address)))
        if link["state"] == "init":
            found["no_subnet_manager"].append(device)
        else:
            found["rail_down" if address in rails else "port_down"].append(device)
    return found


def _seen_link(link: dict[str, Any], rail: int | None) -> str:
    states = {"init": "INIT", "partial": "one port of several down", "down": "down"}
    words = [] if rail is None else [f"rail {rail}"]
    words.append(states[link["state"]])
    if link["physical"]:
        words.append(link["physical"])
    return ", ".join(words)


def _without_rdma(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Return functions of mlx5_core that have none; ports of a bond share one, and a pod may have it and the netdev."""
    netdevs = {netdev["name"]: netdev for netdev in facts["netdevs"]}
    is_loaded = bool(facts["rdma"]) or facts["modules"].get(RDMA_DRIVER, {}).get("loaded", False)
    found = []
    for nic in rdma_functions(facts):
        masters = {netdevs[name]["master"] for name in nic["netdevs"] if name in netdevs}
        bonded = any(netdevs[name]["kind"] == "bond" for name in masters if name in netdevs)
        if nic["driver"] == DRIVER and not nic["rdma"] and (not is_loaded or (nic["netdevs"] and not bonded)):
            found.append(_device(nic["address"], nic_name(nic), "" if is_loaded else f"{RDMA_DRIVER} is not loaded"))
    return found


def _degraded(facts: dict[str, Any]) -> list[dict[str, str]]:
    found = []
    for nic in rdma_functions(facts):
        link = nic["link"]
        if lacking(link):
            best = pcie_text(possible(link))
            found.append(_device(nic["address"], nic_name(nic), f"{pcie_text(link)} of {best}"))
    return found


def _narrow_gpus(facts: dict[str, Any]) -> list[dict[str, str]]:
    """Return GPUs on fewer lanes than they could; the memory of one on NVLink-C2C does not go over its own."""
    on_c2c = {gpu for ways in facts.get("distances", {}).values() for gpu, way in ways.items() if way == "C2C"}
    return [
        _device(gpu["address"], device_model(gpu), f"x{gpu['link']['width']} of x{possible(gpu['link'])['width']}")
        for gpu in facts["gpus"]
        if gpu["address"] not in on_c2c and "width" in lacking(gpu["link"])
    ]


def _in_lesser_slots(facts: dict[str, Any]) -> list[dict[str, str]]:
    found = []
    for nic in rdma_functions(facts):
        link = nic["link"]
        slot, own = possible(link), {"speed_gts": link["max_speed_gts"], "width": link["max_width"]}
        if slot != own and not lacking(link):
            seen = f"slot {pcie_text(slot)}, NIC {pcie_text(own)}"
            found.append(_device(nic["address"], nic_name(nic), seen))
    return found


def _far_rails(facts: dict[str, Any], distances: tuple[str, ...]) -> list[dict[str, str]]:
    names = {nic["address"]: nic_name(nic) for nic in facts["nics"]}
    found = []
    for rail in facts["rails"]:
        if rail["distance"] in distances:
            seen = f"rail {rail['rail']}: {rail['distance']} to GPU {rail['gpu']}"
            found.append(_device(rail["nic"], names.get(rail["nic"], ""), seen))
    return found


def _lonely_gpus(facts: dict[str, Any]) -> list[dict[str, str]]:
    if not rdma_functions(facts):
        return []
    served = {rail["gpu"] for rail in facts["rails"]}
    return [
        _device(gpu["address"], device_model(gpu), "no rail") for gpu in facts["gpus"] if gpu["address"] not in served
    ]


def _boards(facts: dict[str, Any]) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """Return the RDMA devices that have firmware of their own, each under its family and board."""
    nics = {nic["address"]: nic for nic in facts["nics"] if nic["function"] != "vf"}
    return [
        ((device_model(nics[device["pci"]]), device["psid"] or ""), device)
        for device in facts["rdma"]
        if device["pci"] in nics and device["firmware"]
    ]


def _usual_firmware(documents: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the firmware that most devices of a family and board run; of equals the newest."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for document in documents:
        for board, device in _boards(document["facts"]):
            found.setdefault(board, Counter())[device["firmware"]] += 1
    return {
        board: max(versions, key=lambda version: (versions[version], natural_key(version)))
        for board, versions in found.items()
    }


def _odd_firmware(facts: dict[str, Any], usual: dict[tuple[str, str], str]) -> list[dict[str, str]]:
    return [
        _device(device["pci"], device["name"], f"{device['firmware']}, {board[0]} elsewhere {usual[board]}")
        for board, device in _boards(facts)
        if device["firmware"] != usual[board]
    ]


def _zero_guids(facts: dict[str, Any]) -> list[dict[str, str]]:
    return [
        _device(device["pci"] or "", device["name"], f"node GUID {_ZERO_GUID}")
        for device in facts["rdma"]
        if device["node_guid"] == _ZERO_GUID
    ]


def _by_old_ipoib(facts: dict[str, Any]) -> list[dict[str, str]]:
    driver = too_old_for_ipoib(facts)
    return [_device("", "", driver)] if driver else []


def _functions_down(facts: dict[str, Any]) -> list[dict[str, str]]:
    states: dict[str, list[str]] = {}
    for nic in facts["nics"]:
        if nic["function"] == "vf" and nic["pf"] and nic["rdma"]:
            states.setdefault(nic["pf"], []).append(port_state(facts, nic["address"])["state"])
    found = []
    for nic in rdma_functions(facts):
        down = [state for state in states.get(nic["address"], []) if state == "down"]
        port = port_state(facts, nic["address"])
        if down and port["state"] == "up" and port["layer"] == "InfiniBand":
            seen = f"{len(down)} of {counted(len(states[nic['address']]), 'VF')}"
            found.append(_device(nic["address"], nic_name(nic), seen))
    return found


def _translated(facts: dict[str, Any]) -> list[dict[str, str]]:
    found = []
    for nic in rdma_functions(facts):
        iommu = nic.get("iommu")
        kind = iommu.get("type") if isinstance(iommu, dict) else None
        if kind and kind not in _IDENTITY:
            found.append(_device(nic["address"], nic_name(nic), f"IOMMU group type {kind}"))
    return found
