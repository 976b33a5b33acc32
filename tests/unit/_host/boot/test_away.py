# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An interface that is away while a run comes has what is kept of it for the next boot afterwards."""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Netdev
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.boot.test_losses import APPLY, done, kept
from ansible_collections.rdma.fabric.tests.unit._host.igb import ALLOWED, OTHER, PF, VF0, booted, guest, wish
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.managers.test_managers import NETWORKD, NM

DEVICE = f"/sys/bus/pci/devices/{PF}"
GONE = (DEVICE, f"{DEVICE}/net")
SELECTORS = ({"pci": PF}, {"mac": "52:54:00:77:01:00"}, {"current_name": "enp1s0f0"})
SETTINGS: dict[str, Any] = {"vfs": 2, "mtu": 9000, "state": "up"}
NEIGHBOUR = {"pci": OTHER, "vfs": 1}
NETWORK = "/etc/systemd/network/20-rail.network"
DROP_IN = f"{NETWORK}.d/90-rdma-fabric.conf"


def taken_away(kernel: Kernel, gone: str) -> Kernel:
    kernel.tree.discard(gone)
    kernel.tree.discard("/sys/class/net/enp1s0f0")
    return kernel


def left_alone(kernel: Kernel, *entries: Mapping[str, Any]) -> None:
    """Run while a function is gone, which is refused, or while a pod has the interface of one by its address."""
    by_address = any(entry.get("pci") == PF for entry in entries)
    is_lent = by_address and kernel.exists(DEVICE) and not kernel.exists(f"{DEVICE}/net")
    outcome = igb.applied(kernel, wish(*map(dict, entries), **ALLOWED), APPLY)
    assert bool(outcome.get("failed")) is not is_lent
    kernel.revive()


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("selector", SELECTORS)
def test_the_boot_unit_keeps_its_settings(selector: dict[str, str], gone: str) -> None:
    kernel = booted()
    entry = {**selector, **SETTINGS}
    done(kernel, wish(entry, NEIGHBOUR))
    before = kernel.read(BOOT_SPEC_FILE)
    taken_away(kernel, gone)
    left_alone(kernel, entry, NEIGHBOUR)
    assert kernel.read(BOOT_SPEC_FILE) == before


@pytest.mark.parametrize("selector", SELECTORS[1:])
def test_it_keeps_those_of_a_port_that_it_knows_by_its_name(selector: dict[str, str]) -> None:
    """Two ports of one function, of which one is away: there is nothing else that tells them apart at boot."""
    tree = guest()
    tree.netdev(PF, Netdev("enp1s0f0d1", "52:54:00:77:01:09", 1500, speed=1000))
    kernel = booted(tree)
    entry = {**selector, **SETTINGS, "name": "rail0"}
    done(kernel, wish(entry, NEIGHBOUR))
    before = kernel.read(BOOT_SPEC_FILE)
    assert {"current_name": "rail0", **SETTINGS} in kept(kernel)
    kernel.tree.discard(f"{DEVICE}/net/rail0")
    kernel.tree.discard("/sys/class/net/rail0")
    left_alone(kernel, entry, NEIGHBOUR)
    assert kernel.read(BOOT_SPEC_FILE) == before


def test_it_keeps_those_of_its_functions() -> None:
    kernel = booted()
    function = {"pci": VF0, "mtu": 9000}
    done(kernel, wish({"pci": PF, **SETTINGS}))
    done(kernel, wish({"pci": PF, **SETTINGS}, function))
    before = kernel.read(BOOT_SPEC_FILE)
    assert [one["pci"] for one in kept(kernel)] == [PF, VF0]
    kernel.tree.discard(f"/sys/bus/pci/devices/{VF0}")
    kernel.tree.discard("/sys/class/net/enp1s0f0v0")
    left_alone(taken_away(kernel, DEVICE), {"pci": PF, **SETTINGS}, function)
    assert kernel.read(BOOT_SPEC_FILE) == before


def test_what_nothing_asks_for_any_more_goes() -> None:
    kernel = booted()
    done(kernel, wish({"pci": PF, **SETTINGS}, NEIGHBOUR))
    taken_away(kernel, f"{DEVICE}/net")
    left_alone(kernel, {"pci": PF, "vfs": 2, "state": "up"}, NEIGHBOUR)
    assert kept(kernel)[0] == {"pci": PF, "state": "up", "vfs": 2}
    done(kernel, wish(NEIGHBOUR, **ALLOWED))
    assert [one["pci"] for one in kept(kernel)] == [OTHER]


@pytest.mark.parametrize("gone", GONE)
def test_the_file_of_a_network_manager_stays(gone: str) -> None:
    tree = guest()
    tree.files.update({NETWORKD: "", NETWORK: "[Match]\nName=enp1s0f0\n"})
    kernel = booted(tree)
    done(kernel, wish({"pci": PF, "mtu": 9000}))
    before = kernel.read(DROP_IN)
    left_alone(taken_away(kernel, gone), {"pci": PF, "mtu": 9000})
    assert kernel.read(DROP_IN) == before
    done(kernel, wish())
    assert not kernel.exists(DROP_IN)


OF_ONE = "/run/systemd/network/10-netplan-{}.network"
PORTS = ("enp1s0f0", "enp1s0f1")
STANZAS = "source /etc/network/interfaces.d/*\n" + "".join(f"auto {name}\niface {name} inet manual\n" for name in PORTS)
MANAGERS = {
    "/etc/netplan/90-rdma-fabric.yaml": {
        NETWORKD: "",
        **{OF_ONE.format(name): f"[Match]\nName={name}\n" for name in PORTS},
    },
    "/etc/NetworkManager/conf.d/90-rdma-fabric.conf": {NM: ""},
    "/etc/network/interfaces.d/rdma-fabric": {
        "/etc/systemd/system/multi-user.target.wants/networking.service": "",
        "/etc/network/interfaces": STANZAS,
    },
}


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("path", MANAGERS)
def test_its_part_of_a_file_stays_when_that_of_another_interface_changes(path: str, gone: str) -> None:
    tree = guest()
    tree.files.update(MANAGERS[path])
    kernel = booted(tree)
    mine, other = {"pci": PF, "mtu": 9000}, {"pci": OTHER, "mtu": 9000}
    done(kernel, wish(mine, other))
    before = kernel.read(path)
    assert before.count("9000") == 2
    left_alone(taken_away(kernel, gone), mine, {**other, "mtu": 4000})
    assert kernel.read(path) == "4000".join(before.rsplit("9000", 1))
    done(kernel, wish({**other, "mtu": 4000}))
    assert "enp1s0f0" not in kernel.read(path).replace("enp1s0f0v", "")


@pytest.mark.parametrize("path", MANAGERS)
def test_the_part_of_an_interface_that_is_there_goes_when_nothing_asks_for_it(path: str) -> None:
    tree = guest()
    tree.files.update(MANAGERS[path])
    kernel = booted(tree)
    done(kernel, wish({"pci": PF, "mtu": 9000}, {"pci": OTHER, "mtu": 9000}))
    left_alone(kernel, {"pci": PF}, {"pci": OTHER, "mtu": 4000}, {"mac": "52:54:00:00:00:99", "mtu": 9000})
    assert "9000" not in kernel.read(path)
