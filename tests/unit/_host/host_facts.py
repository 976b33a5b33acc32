# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Literal facts and desired states of hosts for the planner's tests, and what a host looks like after a plan."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.files import unit_text
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.kernel.modules import LOAD_FILE, load_file
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.files import name_file, rdma_file
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import Interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE, UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interfaces import nothing
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.persisted import boot_spec_text

Facts = Any


def nic(address: str, name: str | None = None, **changes: Any) -> Any:
    """A ConnectX-7 in Ethernet mode with 16 possible VFs."""
    return {
        "address": address,
        "vendor": "15b3",
        "device": "1021",
        "subsystem": "15b3:0041",
        "class": "020000",
        "family": "ConnectX-7",
        "function": "pf",
        "pf": None,
        "driver": "mlx5_core",
        "numa_node": 0,
        "link": {"speed_gts": 32.0, "width": 16, "max_speed_gts": 32.0, "max_width": 16},
        "sriov": {
            "total": 16,
            "enabled": 0,
            "vf_device": "101e",
            "autoprobe": True,
            "vfs": [],
            "settings": None,
        },
        "netdevs": [name] if name else [],
        "rdma": ["mlx5_0"],
        "link_layer": "Ethernet",
        "iommu": None,
        "path": ["pci0000:15", address],
        **changes,
    }


def vf(address: str, pf: str | None, name: str | None = None, **changes: Any) -> Any:
    """A VF; without ``pf`` it is what a guest sees."""
    return nic(address, name, **{"device": "101e", "function": "vf", "pf": pf, "sriov": None, **changes})


def netdev(name: str, pci: str | None, **changes: Any) -> Any:
    """An Ethernet interface that is up with an MTU of 1500."""
    return {
        "name": name,
        "mac": "a0:88:c2:47:11:d0",
        "mtu": 1500,
        "up": True,
        "operstate": "up",
        "carrier": True,
        "speed_mbps": 400000,
        "link_type": "ether",
        "pci": pci,
        "port_name": "p0",
        "switch_id": None,
        "name_origin": "predictable",
        "master": None,
        "kind": "physical",
        "lower": [],
        **changes,
    }


def ipoib(name: str, pci: str, **changes: Any) -> Any:
    """An IPoIB interface in datagram mode on a 4K fabric."""
    mac = "00:00:10:29:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:b1:7e:26"
    return netdev(name, pci, **{"mac": mac, "mtu": 4092, "link_type": "infiniband", "port_name": None, **changes})


def gpu(address: str) -> Any:
    """An H100."""
    return {
        "address": address,
        "vendor": "10de",
        "device": "2330",
        "name": "H100 SXM5 80GB",
        "driver": "nvidia",
        "numa_node": 0,
        "link": {"speed_gts": 32.0, "width": 16, "max_speed_gts": 32.0, "max_width": 16},
        "path": ["pci0000:15", address],
    }


def module(*, loaded: bool = True, builtin: bool = False) -> Any:
    """A kernel module."""
    state = {"refcount": 0, "users": [], "version": None, "srcversion": None, "out_of_tree": False}
    return {"loaded": loaded, "builtin": builtin, **state}


def facts(nics: list[Any] | None = None, netdevs: list[Any] | None = None, **changes: Any) -> Facts:
    """A host with the given NICs on the inbox driver; of ``boot`` and ``stack`` only what is given changes."""
    base: Facts = {
        "format": 1,
        "system": {
            "hostname": "gpu01",
            "machine": "x86_64",
            "kernel": "6.8.0-45-generic",
            "os": {"id": "ubuntu", "id_like": ["debian"], "version_id": "24.04", "name": "Ubuntu 24.04"},
            "cmdline": "ro quiet",
            "secure_boot": False,
            "lockdown": None,
            "ostree": False,
            "iommu": {"active": None, "firmware": None},
            "numa_nodes": 2,
        },
        "nics": nics or [],
        "gpus": [],
        "netdevs": netdevs or [],
        "rdma": [],
        "modules": {"mlx5_core": module()},
        "stack": {
            "flavour": "inbox",
            "version": None,
            "installed": None,
            "gpu_driver": None,
            "gpu_driver_flavour": None,
            "peer_memory": None,
        },
        "pcie": {"functions": {}, "bridges": {}, "virtual": False, "passed_through": []},
        "distances": {},
        "rails": [],
        "uplinks": [],
        "labels": {"kubernetes.io/arch": "amd64", "feature.node.kubernetes.io/pci-15b3.present": "true"},
        "boot": {
            "files": {},
            "managers": {},
            "unit": {"enabled": False, "programs": []},
            "python": "/usr/bin/python3",
            "result": None,
            "guard": None,
            "awaited": {},
            "set_elsewhere": {},
        },
        "naming": {
            "udev": True,
            "rdma": "/usr/sbin/rdma",
            "initramfs": None,
            "references": {},
            "others": {},
            "link_files": {},
        },
        "owners": {},
        "vf_users": {},
        "eswitch": {},
        "firmware": {"tool": None, "set_since_boot": {}, "cards": {}},
        "firmware_images": {"tool": None, "cards": {}, "files": {}},
        "guids": {},
        "queues": {},
        "interrupts": {},
        "settings": {},
        "routing": {},
        "unreadable": [],
    }
    parts = {key: {**base[key], **changes[key]} for key in ("boot", "stack") if key in changes}
    return {**base, **changes, **parts}


def two_ports(**changes: Any) -> Facts:
    """Two Ethernet ports, ``ens1`` and ``ens2``, and an onboard uplink ``eno1`` of another vendor."""
    return facts(
        nics=[
            nic("0000:18:00.0", "ens1"),
            nic("0000:40:00.0", "ens2"),
            nic("0000:02:00.0", "eno1", vendor="8086", device="1521", driver="igb", rdma=[], sriov=None),
        ],
        netdevs=[
            netdev("ens1", "0000:18:00.0"),
            netdev("ens2", "0000:40:00.0", mac="a0:88:c2:47:11:d1"),
            netdev("eno1", "0000:02:00.0", mac="3c:ec:ef:00:00:01", port_name=None),
        ],
        uplinks=[{"netdev": "eno1", "pci": "0000:02:00.0", "reasons": ["default route"]}],
        **changes,
    )


def with_functions(state: Facts, pf: str, count: int, mtu: int = 1500) -> Facts:
    """The same host with ``count`` VFs on ``pf``, each with an interface."""
    state = copy.deepcopy(state)
    physical = next(entry for entry in state["nics"] if entry["address"] == pf)
    gone = set(physical["sriov"]["vfs"])
    state["nics"] = [entry for entry in state["nics"] if entry["address"] not in gone]
    state["netdevs"] = [entry for entry in state["netdevs"] if entry["pci"] not in gone]
    addresses = [f"{pf[:-1]}{number + 1}" if number < 6 else f"{pf[:-4]}01.{number - 6}" for number in range(count)]
    physical = next(entry for entry in state["nics"] if entry["address"] == pf)
    physical["sriov"].update(enabled=count, vfs=addresses, settings=[vf_settings() for _address in addresses])
    for number, address in enumerate(addresses):
        name = f"v{pf[5:7]}n{number}"
        state["nics"].append(vf(address, pf, name))
        state["netdevs"].append(netdev(name, address, mtu=mtu, up=False, port_name=None, mac="02:00:00:00:00:01"))
    return state


def vf_settings(**changes: Any) -> Any:
    """How a driver sets up a new VF."""
    settings = {"mac": "00:00:00:00:00:00", "vlan": 0, "trust": False, "spoofchk": True, "max_tx_rate": 0}
    return {**settings, "link_state": "auto", **changes}


def interface(**wanted: Any) -> Any:
    """One entry of HostSpec.interfaces."""
    return {**nothing(), **wanted}


def desired(*interfaces: Any, consents: dict[str, bool] | None = None, **changes: Any) -> Any:
    """A HostSpec that asks for nothing but the given interfaces and ``changes``."""
    nothing = parse_host_variables("gpu01", {})[0]
    return {
        **nothing,
        "interfaces": list(interfaces),
        "consents": {**nothing["consents"], **(consents or {})},
        **changes,
    }


def request(source: str = "NicClusterPolicy/nic-cluster-policy", **changes: Any) -> Any:
    """A host request; give ``driver`` or ``peer_memory``."""
    return {"source": source, "node_selector": {}, "driver": None, "peer_memory": None, **changes}


def ofed(version: str, image: str = "doca-driver") -> Any:
    """An ofedDriver section."""
    return {"repository": "nvcr.io/nvidia/mellanox", "image": image, "version": version}


def steps_of(plan: Any, concern: str) -> list[Any]:
    """The plan's steps of one concern."""
    return [step for step in plan["steps"] if step["concern"] == concern]


def facts_after(plan: Any, before: Facts) -> Facts:
    """The host after every executable step, and after the reboot that steps at boot wait for."""
    state = copy.deepcopy(before)
    for step in plan["steps"]:
        if step["status"] == "planned":
            state = _AFTER[step["concern"]](state, step)
    return state


def _address(step: Any) -> str:
    return str(step["id"].split(":", 1)[1])


def _netdevs_of(state: Facts, address: str) -> list[Any]:
    return [entry for entry in state["netdevs"] if entry["pci"] == address]


def _loaded(state: Facts, step: Any) -> Facts:
    name = _address(step)
    if name != LOAD_FILE:
        state["modules"].setdefault(name, module())["loaded"] = True
        listed = [line for line in state["boot"]["files"].get(LOAD_FILE, "").splitlines() if "#" not in line]
        state["boot"]["files"][LOAD_FILE] = load_file({*listed, name})
    return state


def _renamed(state: Facts, step: Any) -> Facts:
    address = _address(step)
    files = state["boot"]["files"]
    if address.startswith("/"):
        files.pop(address, None)
        return state
    physical = next(entry for entry in state["nics"] if address in (entry["address"], f"{entry['address']}:rdma"))
    if address.endswith(":rdma"):
        physical["rdma"] = [step["to"]]
        files.update(rdma_file(physical["address"], step["to"], state["naming"]["rdma"]))
        return state
    for entry in _netdevs_of(state, address):
        entry["name"] = step["to"]
        files.update(name_file(Interface(nothing(), physical, entry), step["to"]))
    physical["netdevs"] = [step["to"]]
    for uplink in state["uplinks"]:
        if uplink["pci"] == address:
            uplink["netdev"] = step["to"]
    return state


def _with_mtu(state: Facts, step: Any) -> Facts:
    address = _address(step)
    if address.endswith(":vfs"):
        address = address[: -len(":vfs")]
        physical = next(entry for entry in state["nics"] if entry["address"] == address)
        targets = {physical["sriov"]["vfs"][int(number)]: mtu for number, mtu in step["to"].items()}
    else:
        targets = {address: step["to"]}
    for target, mtu in targets.items():
        for entry in _netdevs_of(state, target):
            entry["mtu"] = mtu
    return state


def _with_state(state: Facts, step: Any) -> Facts:
    for entry in _netdevs_of(state, _address(step)):
        entry["up"] = step["to"] == "up"
    return state


def _with_count(state: Facts, step: Any) -> Facts:
    address = _address(step)
    if not address.endswith(":settings"):
        return with_functions(state, address, step["to"])
    physical = next(entry for entry in state["nics"] if f"{entry['address']}:settings" == address)
    for number, settings in step["to"].items():
        physical["sriov"]["settings"][int(number)].update(settings)
    return state


def _kept(state: Facts, step: Any) -> Facts:
    boot, path = state["boot"], _address(step)
    if not path.startswith("/"):
        return state
    if path != UNIT_FILE:
        boot["files"][path] = step["to"]
        return state
    boot.update(unit={"enabled": bool(step["to"]), "programs": [program_path()] if step["to"] else []}, result=None)
    for name, text in (
        (BOOT_SPEC_FILE, boot_spec_text(step["to"] or [])),
        (UNIT_FILE, unit_text(PYTHON, program_path(), step["to"] or [])),
    ):
        boot["files"].pop(name, None)
        if step["to"]:
            boot["files"][name] = text
    return state


def _removed(state: Facts, step: Any) -> Facts:
    state["boot"]["files"].pop(step["target"], None)
    return state


def _changed_elsewhere(state: Facts, _step: Any) -> Facts:
    """What these facts do not show: packages, builds, the initial RAM disk."""
    return state


PYTHON = "/usr/bin/python3"
_AFTER = {
    "driver": _changed_elsewhere,
    "peer_memory": _changed_elsewhere,
    "boot": _kept,
    "leftovers": _removed,
    "modules": _loaded,
    "naming": _renamed,
    "vfs": _with_count,
    "mtu": _with_mtu,
    "link": _with_state,
}
