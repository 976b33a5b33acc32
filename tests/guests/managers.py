# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Managers of the network that give a guest's two cards a bond, and the bond a VLAN, with addresses and routes.

The files know the cards by their own addresses, or by both names, so that they hold whatever the cards are called.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from ansible_collections.rdma.fabric.tests.guests.host_runs import FUNCTION

PORTS = ("52:54:00:78:00:01", "52:54:00:78:01:01")  # of the first guest, as the lab's layout has them
FUNCTIONS_OF_OTHERS = 2
# udev takes the first file that fits.
FOREIGN_LINK = "/etc/systemd/network/04-storage.link"
FOREIGN_NAME = f"[Match]\nPath=pci-{FUNCTION}\n[Link]\nName=storage0\n"


class Manager(NamedTuple):
    """A manager: its packages, its user's files, and a file of somebody who makes VFs of the first card.

    ``keeps_routes``: whether it takes routes from a file of ours; otherwise its user is told a command. ``status``: of
    a manager that takes each interface that appears, the command whose lines end with ``unmanaged`` for others.
    ``named_early``: whether the guest's initial RAM disk has the cards' driver, so that it names them first.
    """

    packages: tuple[str, ...]
    files: Mapping[str, str]
    foreign: tuple[str, str]
    keeps_routes: bool = True
    status: str = ""
    named_early: bool = False


_BOND = """[NetDev]
Name=bond0
Kind=bond

[Bond]
Mode=active-backup
MIIMonitorSec=100ms
"""
_VLAN = """[NetDev]
Name=bond0.100
Kind=vlan

[VLAN]
Id=100
"""
_NETWORKD = {
    "/etc/systemd/network/31-bond0.netdev": _BOND,
    "/etc/systemd/network/31-vlan.netdev": _VLAN,
    "/etc/systemd/network/31-ports.network": f"[Match]\nPermanentMACAddress={' '.join(PORTS)}\n[Network]\nBond=bond0\n",
    "/etc/systemd/network/32-bond0.network": """[Match]
Name=bond0

[Network]
Address=10.88.0.1/24
VLAN=bond0.100

[Route]
Destination=10.98.0.0/16
Gateway=10.88.0.254
""",
    "/etc/systemd/network/33-vlan.network": """[Match]
Name=bond0.100

[Network]
Address=10.89.0.1/24

[Route]
Destination=10.99.0.0/16
Gateway=10.89.0.254
""",
    # As images of clouds have it.
    "/etc/systemd/network/90-others.network": "[Match]\nName=en*\n[Network]\nDHCP=yes\n",
}
_FOREIGN_COUNT = f"{FOREIGN_NAME}[SR-IOV]\nVirtualFunction={FUNCTIONS_OF_OTHERS - 1}\n"

_STANZAS = "".join(
    f"iface {name} inet manual\n    bond-master bond0\n" for name in ("enp1s0", "enp2s0", "rail0", "rail1")
)
_FOREIGN_STANZA = (
    f"iface rail0 inet manual\n    up echo {FUNCTIONS_OF_OTHERS} > /sys/class/net/$IFACE/device/sriov_numvfs\n"
)
# Without an address of its own a bond takes that of the port which is there first.
_IFUPDOWN = f"""allow-hotplug enp1s0 enp2s0 rail0 rail1
{_STANZAS}
auto bond0
iface bond0 inet static
    hwaddress {PORTS[0]}
    address 10.88.0.1/24
    bond-slaves none
    bond-mode active-backup
    bond-miimon 100
    up ip route add 10.98.0.0/16 via 10.88.0.254 dev bond0

auto bond0.100
iface bond0.100 inet static
    address 10.89.0.1/24
    up ip route add 10.99.0.0/16 via 10.89.0.254 dev bond0.100
"""

_PROFILES = "/etc/NetworkManager/system-connections"
_PROFILE_PORT = """[connection]
id=port{number}
uuid=6b1c7a3c-0c7c-4f5c-9a55-7d4b8f2f001{number}
type=ethernet
controller=bond0
port-type=bond

[ethernet]
mac-address={mac}
"""
_NETWORK_MANAGER = {
    "/etc/NetworkManager/conf.d/10-lab.conf": "[keyfile]\nunmanaged-devices=interface-name:mgmt0\n",
    f"{_PROFILES}/bond0.nmconnection": f"""[connection]
id=bond0
uuid=6b1c7a3c-0c7c-4f5c-9a55-7d4b8f2f0001
type=bond
interface-name=bond0

[ethernet]
cloned-mac-address={PORTS[0]}

[bond]
mode=active-backup
miimon=100

[ipv4]
method=manual
address1=10.88.0.1/24
route1=10.98.0.0/16,10.88.0.254
""",
    f"{_PROFILES}/vlan.nmconnection": """[connection]
id=vlan
uuid=6b1c7a3c-0c7c-4f5c-9a55-7d4b8f2f0002
type=vlan
interface-name=bond0.100

[vlan]
parent=bond0
id=100

[ipv4]
method=manual
address1=10.89.0.1/24
route1=10.99.0.0/16,10.89.0.254
""",
    **{
        f"{_PROFILES}/port{number}.nmconnection": _PROFILE_PORT.format(number=number, mac=mac)
        for number, mac in enumerate(PORTS)
    },
}
_FOREIGN_PROFILE = (
    f"[connection]\nid=storage\ntype=ethernet\n[ethernet]\nmac-address={PORTS[0].upper()}\n"
    f"[sriov]\ntotal-vfs={FUNCTIONS_OF_OTHERS}\n"
)

_NETPLAN = f"""network:
  version: 2
  renderer: networkd
  ethernets:
    port0:
      match: {{macaddress: "{PORTS[0]}"}}
    port1:
      match:
        macaddress: "{PORTS[1]}"
  bonds:
    bond0:
      interfaces: [port0, port1]
      parameters:
        mode: active-backup
        mii-monitor-interval: 100
      addresses: [10.88.0.1/24]
      routes:
        - to: 10.98.0.0/16
          via: 10.88.0.254
  vlans:
    bond0.100:
      id: 100
      link: bond0
      addresses: [10.89.0.1/24]
      routes:
        - to: 10.99.0.0/16
          via: 10.89.0.254
"""
_FOREIGN_NETPLAN = (
    f"network:\n  version: 2\n  ethernets:\n    port0:\n      virtual-function-count: {FUNCTIONS_OF_OTHERS}\n"
)

MANAGERS = {
    "networkd": Manager(
        (), _NETWORKD, (FOREIGN_LINK, _FOREIGN_COUNT), status="networkctl --no-legend list", named_early=True
    ),
    "ifupdown": Manager(
        ("ifupdown", "ifenslave"),
        {"/etc/network/interfaces.d/bond": _IFUPDOWN},
        ("/etc/network/interfaces.d/storage", _FOREIGN_STANZA),
    ),
    "netplan": Manager(
        ("netplan.io",), {"/etc/netplan/50-bond.yaml": _NETPLAN}, ("/etc/netplan/60-storage.yaml", _FOREIGN_NETPLAN)
    ),
    "NetworkManager": Manager(
        ("network-manager",),
        _NETWORK_MANAGER,
        (f"{_PROFILES}/storage.nmconnection", _FOREIGN_PROFILE),
        keeps_routes=False,
        status="nmcli --terse --fields DEVICE,STATE device",
    ),
}
