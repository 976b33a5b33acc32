# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Index the facts of one host for planning, with its uplinks; pair entries of the spec with their devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Iterable

from .devices import MELLANOX
from .kernel import is_loaded
from .netdev import is_of_the_device
from .shapes import Facts, FunctionSettings, Netdev, Nic
from .topology import fabric_of
from .uplink import NAMED

if TYPE_CHECKING:
    from ..spec.interfaces import InterfaceSpec

NETDEV_DRIVER = "mlx5_core"


def pci_id(value: object) -> str:
    """Return a PCI id as four lower-case hex digits, however it was written."""
    text = str(value or "").lower()
    return text[2:] if text.startswith("0x") else text


class HostState:
    """The indexed facts of one host and its uplinks: the interfaces that a change must not cut off."""

    def __init__(self, facts: Facts, named_uplinks: Iterable[str] = ()) -> None:
        self.facts = facts
        self.nics: dict[str, Nic] = {
            nic["address"]: nic for nic in sorted(facts["nics"], key=lambda nic: nic["address"])
        }
        # An unknown MTU differs from any of a spec; steps about its interface are refused then (run/holds.py).
        self.netdevs: dict[str, Netdev] = {
            netdev["name"]: {**netdev, "mtu": netdev["mtu"] or 0}
            for netdev in sorted(facts["netdevs"], key=lambda netdev: netdev["name"])
        }
        nvlink = facts.get("nvlink")
        self.switch_managers = frozenset(nvlink["managers"] if nvlink is not None else ())
        self.modules = facts["modules"]
        self.stack = facts["stack"]
        self._uplink_names: dict[str, str] = {}
        self._uplink_addresses: dict[str, str] = {}
        self._collect_uplinks(named_uplinks)

    def _collect_uplinks(self, named: Iterable[str]) -> None:
        for uplink in sorted(self.facts["uplinks"], key=lambda uplink: uplink["netdev"]):
            self._add_uplink(uplink["netdev"], uplink["pci"], ", ".join(uplink["reasons"]))
        for name in named:
            if NAMED not in self._uplink_names.get(name, ""):
                self._add_uplink(name, None, NAMED)
        grown = True
        while grown:
            grown = False
            for name, netdev in self.netdevs.items():
                master = netdev["master"]
                if master is not None and master in self._uplink_names and name not in self._uplink_names:
                    self._add_uplink(name, None, f"part of {master}: {self._uplink_names[master]}")
                    grown = True

    def _add_uplink(self, name: str, address: str | None, reason: str) -> None:
        known = self._uplink_names.get(name)
        reason = reason if known is None or known == reason else f"{known}, {reason}"
        self._uplink_names[name] = reason
        known_netdev = self.netdevs.get(name)
        address = address or (known_netdev["pci"] if known_netdev is not None else None)
        if address:
            self._uplink_addresses[address] = reason

    @property
    def uplink_names(self) -> tuple[str, ...]:
        """Return the names of all uplinks, including those that only a variable names."""
        return tuple(sorted(self._uplink_names))

    def is_loaded(self, module: str) -> bool:
        """Return whether a kernel module is loaded or built in."""
        return is_loaded(self.modules, module)

    def uplink_of(self, name: str) -> str | None:
        """Return why a change of the named interface could cut off the node; ``None`` if it could not."""
        return self._uplink_names.get(name)

    def uplink_reason(self, nic: Nic | None, netdev: Netdev | None) -> str | None:
        """Return why a change of this device could cut off the node; ``None`` if it could not.

        A PF carries the traffic of its VFs, so it is an uplink if one of them is.
        """
        if netdev is not None and netdev["name"] in self._uplink_names:
            return self._uplink_names[netdev["name"]]
        if nic is None:
            return None
        for address in (nic["address"], *self.vf_addresses(nic)):
            if address in self._uplink_addresses:
                return self._uplink_addresses[address]
        return None

    def uplink_reason_with_members(self, nic: Nic | None, netdev: Netdev | None) -> str | None:
        """Return the same for a change that a bond or bridge passes on to its members, which may be uplinks."""
        members = [each for each in self.netdevs.values() if netdev is not None and each["master"] == netdev["name"]]
        devices = [(nic, netdev), *((self.nics.get(each["pci"] or ""), each) for each in members)]
        reasons = (self.uplink_reason(*device) for device in devices)
        return next((reason for reason in reasons if reason is not None), None)

    def vf_addresses(self, nic: Nic | None) -> list[str]:
        """Return the addresses of the existing VFs, in order."""
        return list(nic["sriov"]["vfs"]) if nic is not None and nic["sriov"] is not None else []

    def vfs_of(self, nic: Nic | None) -> list[Nic]:
        """Return the VFs of ``nic`` that the facts describe."""
        return [self.nics[address] for address in self.vf_addresses(nic) if address in self.nics]

    def unbound_functions(self, nic: Nic | None) -> list[int]:
        """Return the VFs that have no driver although the kernel binds them automatically.

        A run that was killed between unbind and bind leaves a function in this state.
        """
        if not binds_functions(nic):
            return []
        known = self.nics
        addresses = enumerate(self.vf_addresses(nic))
        return [number for number, address in addresses if address in known and not known[address]["driver"]]

    def ports_of(self, nic: Nic) -> list[Netdev]:
        """Return the interfaces of the function itself, without representors of its VFs."""
        netdevs = [self.netdevs[name] for name in sorted(nic["netdevs"]) if name in self.netdevs]
        return [netdev for netdev in netdevs if is_of_the_device(netdev["port_name"])]

    def port_of(self, nic: Nic) -> Netdev | None:
        """Return the interface of the function if it has exactly one."""
        ports = self.ports_of(nic)
        return ports[0] if len(ports) == 1 else None

    def roce_bond(self, nic: Nic | None) -> str:
        """Return the RDMA device of the bond that a port of mlx5 is in (``mlx5_bond_0``), empty without one."""
        if nic is None or nic["driver"] != NETDEV_DRIVER:
            return ""
        masters = {port["master"] for port in self.ports_of(nic) if port["master"]}
        return next((device["name"] for device in self.facts["rdma"] if device["netdev"] in masters), "")

    def rdma_of(self, nic: Nic | None) -> list[str]:
        """Return the RDMA devices of a function and of the bond that it is in."""
        bond = self.roce_bond(nic)
        own = nic["rdma"] if nic is not None else []
        return [*own, bond] if bond and bond not in own else list(own)

    def fabric_nics(self) -> list[Nic]:
        """Return the NICs of the fabric, without those that manage NVSwitches."""
        return fabric_of(nic for nic in self.nics.values() if nic["address"] not in self.switch_managers)

    def nvidia_nics(self) -> list[Nic]:
        """Return the NICs that an NVIDIA driver stack drives."""
        return [nic for nic in self.nics.values() if pci_id(nic["vendor"]) == MELLANOX]


def is_guest_function(nic: Nic) -> bool:
    """Return whether ``nic`` is a VF whose PF is on another system, as in a VM."""
    return nic["function"] == "vf" and not nic["pf"]


class Unknown:
    """A fact that could not be read (null in JSON), which is neither nothing nor zero."""

    def __bool__(self) -> bool:
        """Raise TypeError."""
        raise TypeError("this fact is not known")


UNKNOWN: Final = Unknown()


def enabled_functions(nic: Nic | None) -> int | Unknown:
    """Return the current number of VFs of a NIC as its driver tells it."""
    if nic is None or nic["sriov"] is None:
        return 0
    enabled = nic["sriov"]["enabled"]
    return UNKNOWN if enabled is None else enabled


def seen_functions(nic: Nic | None) -> int:
    """Return the same number, or that of the functions that are seen if it is not known."""
    enabled = enabled_functions(nic)
    if isinstance(enabled, int):
        return enabled
    return len(nic["sriov"]["vfs"]) if nic is not None and nic["sriov"] is not None else 0


def most_functions(nic: Nic) -> int:
    """Return the maximum number of VFs of a NIC."""
    return (nic["sriov"]["total"] or 0) if nic["sriov"] is not None else 0


def settings_of(nic: Nic | None) -> list[FunctionSettings] | None:
    """Return the settings of a NIC's VFs; ``None`` if unknown."""
    return nic["sriov"]["settings"] if nic is not None and nic["sriov"] is not None else None


def binds_functions(nic: Nic | None) -> bool:
    """Return whether the kernel binds new VFs to drivers automatically, which is its default."""
    return nic is None or nic["sriov"] is None or nic["sriov"]["autoprobe"] is not False


@dataclass(frozen=True)
class Interface:
    """An interface of the spec and the device it selects; ``nic`` is None if the device has no PCI function."""

    wanted: InterfaceSpec
    nic: Nic | None
    netdev: Netdev | None

    @property
    def key(self) -> str:
        """Return the key of its steps: the PCI address, which no rename changes, else the interface name."""
        if self.nic is not None:
            return self.nic["address"]
        return self.netdev["name"] if self.netdev else ""

    @property
    def name(self) -> str:
        """Return the name of its network interface, empty if it has none."""
        return self.netdev["name"] if self.netdev is not None else ""

    @property
    def driver(self) -> str | None:
        """Return the driver of its PCI function."""
        return self.nic["driver"] if self.nic is not None else None

    @property
    def has_switch(self) -> bool:
        """Return whether it has a switch id, as in switchdev mode; ports of mlx5 have one in legacy mode too."""
        return self.netdev is not None and bool(self.netdev["switch_id"])

    @property
    def functions(self) -> int:
        """Return its current number of VFs, of those that are seen if it is not known."""
        return seen_functions(self.nic)

    @property
    def is_up(self) -> bool:
        """Return whether it has a network interface that is up."""
        return self.netdev is not None and self.netdev["up"]
