# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of an interface in the spec: a record for each but the selectors (``syntax.SELECTORS``).

What depends on a key asks its record; no other list of keys exists. ``interfaces.py`` has their types and checks.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, NamedTuple

# Suffixes of the keys of steps about the VFs of a port: their settings, their driver,
# the MTU of their interfaces. The key of the step about their number is the port's address.
SETTINGS = ":settings"
DRIVER = ":driver"
FUNCTIONS = ":vfs"
# That of the step about the flow steering mode of an e-switch.
STEERING = ":steering"
# The parts of a port that the SR-IOV operator may own, and what NVIDIA's NIC configuration operator sets.
OF_NUMBER, OF_ESWITCH, OF_MTU, OF_FUNCTIONS, OF_NIC = "number", "eswitch", "mtu", "functions", "nic"
# What keeps a key across a reboot: the boot unit; a network manager where one configures the interface, else the boot
# unit; the boot unit, with the settings of the whole host merged in; only a network manager.
UNIT, MANAGER_OR_UNIT, MERGED, MANAGER = "unit", "manager or unit", "merged", "manager"
# Most steps wait for new interfaces and for one command of a minute: a timeout ends the steps of their port.
ONE_WAIT = 100


class Key(NamedTuple):
    """A key of an interface.

    ``concern`` and ``suffix`` make the id of the step that sets it now. ``part``: what operators call the part of a
    port that it belongs to.

    ``keeper`` is what keeps it across a reboot, empty if the device or a file of its concern does. ``name`` is the key
    in words, for what the boot unit restores, ``plural`` if these are in the plural. ``through_interface``: it is set
    through the network interface of a port, which may appear after the driver. ``held``: it is not kept while its step
    is refused or needs consent. ``seconds`` is the longest wait of its step; a test compares their sum with the time
    limits of the steps. Dropping it makes all VFs anew (``makes_vfs``), or those that have it (``renews_vfs``).

    ``unique``: no two interfaces may have the same value. ``of_arm``: the Arm side of a BlueField may own it.
    """

    concern: str
    suffix: str = ""
    part: str = ""
    keeper: str = ""
    name: str = ""
    plural: bool = False
    through_interface: bool = True
    held: bool = False
    seconds: int = ONE_WAIT
    makes_vfs: bool = False
    renews_vfs: bool = False
    unique: bool = False
    of_arm: bool = False

    @property
    def of_vfs(self) -> bool:
        """Return whether it is about the VFs of a port, so that it is lost with them."""
        return self.part in (OF_NUMBER, OF_FUNCTIONS)

    def step_id(self, device: str) -> str:
        """Return the id of the step that sets it on a device now."""
        return f"{self.concern}:{device}{self.suffix}"


KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "name": Key("naming", unique=True),
        "rdma_name": Key("naming", ":rdma", unique=True),
        "mtu": Key("mtu", "", OF_MTU, MANAGER_OR_UNIT, "the MTU"),
        "state": Key("link", "", "", MANAGER_OR_UNIT, "the link state"),
        "vfs": Key("vfs", "", OF_NUMBER, UNIT, "the VFs", through_interface=False, seconds=400, makes_vfs=True),
        "vf_mtu": Key("mtu", FUNCTIONS, OF_FUNCTIONS, UNIT, "the MTU of the VFs", held=True),
        "vf_settings": Key(
            "vfs",
            SETTINGS,
            OF_FUNCTIONS,
            UNIT,
            "the settings of the VFs",
            plural=True,
            held=True,
            renews_vfs=True,
            of_arm=True,
        ),
        "vf_driver": Key(
            "vfs",
            DRIVER,
            OF_FUNCTIONS,
            UNIT,
            "the driver of the VFs",
            through_interface=False,
            held=True,
            renews_vfs=True,
        ),
        "vf_guids": Key(
            "guids",
            "",
            OF_FUNCTIONS,
            UNIT,
            "the GUIDs of the VFs",
            plural=True,
            held=True,
            seconds=200,
            renews_vfs=True,
            of_arm=True,
        ),
        "eswitch_mode": Key(
            "eswitch",
            "",
            OF_ESWITCH,
            UNIT,
            "the e-switch mode",
            through_interface=False,
            seconds=700,
            makes_vfs=True,
            of_arm=True,
        ),
        "flow_steering_mode": Key(
            "eswitch", STEERING, OF_ESWITCH, UNIT, "the flow steering mode", through_interface=False, held=True
        ),
        "representor_prefix": Key("naming", ":representors"),
        "firmware": Key("firmware", part=OF_NIC),
        "firmware_image": Key("firmware_image", part=OF_NIC, of_arm=True),
        "qos": Key("qos", "", OF_NIC, MERGED, "the QoS settings", plural=True, seconds=250, of_arm=True),
        "queues": Key("queues", "", OF_NIC, UNIT, "the rings and channels", plural=True, held=True),
        "irq_affinity": Key("irq_affinity", "", "", UNIT, "the CPUs of the interrupts", plural=True, held=True),
        "routes": Key("routing", keeper=MANAGER),
        "routing-policy": Key("routing", keeper=MANAGER),
    }
)
# Those that the boot unit sets.
KEPT: Mapping[str, Key] = MappingProxyType({key: each for key, each in KEYS.items() if each.name})
# Those in the files of network managers.
OF_MANAGERS = tuple(key for key, each in KEYS.items() if each.keeper in (MANAGER_OR_UNIT, MANAGER))
