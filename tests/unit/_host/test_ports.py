# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An operation finds the interface that it means by the address of its PCI function, whatever it is called by then."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.ports import (
    NoPort,
    fill,
    port_of,
    virtual_function,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PF, VF, VIRTIO = "0000:18:00.0", "0000:18:00.2", "0000:01:00.0"
BUS = "/sys/bus/pci/devices"
AT = {PF: f"/sys/devices/pci0/{PF}", VF: f"/sys/devices/pci0/{VF}", VIRTIO: f"/sys/devices/pci1/{VIRTIO}"}


def kernel(*netdevs: tuple[str, str], **port_names: str) -> Kernel:
    """A host with the interfaces (name, where its directory is) and what they say is the name of their port."""
    document: dict[str, Any] = {"files": {}, "links": {}, "dirs": list(AT.values())}
    for address, place in AT.items():
        document["links"][f"{BUS}/{address}"] = f"../../..{place.replace('/sys', '', 1)}"
    for name, place in netdevs:
        document["files"][f"{place}/net/{name}/mtu"] = "1500\n"
        document["links"][f"/sys/class/net/{name}"] = f"../..{place.replace('/sys', '', 1)}/net/{name}"
        if name in port_names:
            document["files"][f"{place}/net/{name}/phys_port_name"] = f"{port_names[name]}\n"
    document["dirs"].append("/sys/class/net")
    document["links"][f"{AT[PF]}/virtfn3"] = f"../{VF}"
    return Kernel(document)


def test_the_name_is_the_one_of_this_moment() -> None:
    host = kernel(("ens1", AT[PF]), ("v0", AT[VF]))
    argument = f"{{port:{PF}}} and {{vf:{PF}:3}}"
    assert fill(argument, host) == "ens1 and v0"
    host.tree.move(f"{AT[PF]}/net/ens1", f"{AT[PF]}/net/rail0")
    assert fill(argument, host) == "rail0 and v0"
    assert fill("ens1 {other} {port:x}", host) == "ens1 {other} {port:x}"


def test_representors_share_the_function_and_are_not_meant() -> None:
    assert port_of(kernel(("ens1", AT[PF]), ("ens1_0", AT[PF]), ens1="p0", ens1_0="pf0vf0"), PF) == "ens1"


def test_partitions_of_ipoib_share_the_function_and_are_not_meant() -> None:
    host = kernel(("ib0", AT[PF]), ("ib0.8001", AT[PF]))
    for name in ("ib0", "ib0.8001"):
        host.tree.add_file(f"{AT[PF]}/net/{name}/type", "32\n")
    host.tree.add_file(f"{AT[PF]}/net/ib0.8001/parent", "ib0\n")
    assert port_of(host, PF) == "ib0"


def test_a_sub_function_is_not_the_port_of_its_parent() -> None:
    host = kernel(("sub0", f"{AT[PF]}/mlx5_core.sf.4"), ("v0", AT[VF]))
    with pytest.raises(NoPort, match="no network interface here"):
        port_of(host, PF)


def test_a_driver_with_a_device_in_between_is_seen_through() -> None:
    assert port_of(kernel(("enp1s0", f"{AT[VIRTIO]}/virtio0"), ("ens1", AT[PF])), VIRTIO) == "enp1s0"


@pytest.mark.parametrize(
    ("netdevs", "address", "why"),
    [
        ([], PF, "no network interface here"),
        ([("ens1", AT[PF]), ("ens1d1", AT[PF])], PF, "2 network interfaces (ens1, ens1d1)"),
        ([], "0000:99:00.0", "there is no PCI function 0000:99:00.0"),
    ],
)
def test_a_function_without_one_interface_is_told(netdevs: list[tuple[str, str]], address: str, why: str) -> None:
    with pytest.raises(NoPort) as refused:
        port_of(kernel(*netdevs), address)
    assert why in str(refused.value)


def test_an_rdma_device_is_the_functions_own_or_one_on_its_interface() -> None:
    host = kernel(("ens1", AT[PF]), ("v0", AT[VF]))
    host.tree.add_file("/sys/class/infiniband/rxe0/parent", "ens1\n")
    host.tree.add_file("/sys/class/infiniband/rxe1/parent", "v0\n")
    host.tree.add_dir("/sys/class/infiniband/mlx5_0")
    assert fill(f"{{rdma:{PF}}}", host) == "rxe0"
    host.tree.add_dir(f"{AT[PF]}/infiniband/mlx5_0")
    assert fill(f"{{rdma:{PF}}}", host) == "mlx5_0"
    with pytest.raises(NoPort, match="0 RDMA devices"):
        fill(f"{{rdma:{VIRTIO}}}", host)


def test_a_virtual_function_that_is_not_there_is_told() -> None:
    assert virtual_function(kernel(), PF, 3) == VF
    with pytest.raises(NoPort, match="no VF 4"):
        virtual_function(kernel(), PF, 4)
