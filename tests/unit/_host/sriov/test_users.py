# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a VF is seen, named and left alone: pods, guests, programs, and the host's own network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.unit._host import mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import INFINIBAND
from ansible_collections.rdma.fabric.tests.unit._host.families import PF as PORT
from ansible_collections.rdma.fabric.tests.unit._host.igb import (
    ALLOWED,
    PF,
    VF0,
    VF1,
    applied,
    functions,
    wish,
    with_functions,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack, vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

# What may stand on an interface, and whether it is its master then.
UPPERS = {"storage": False, "mac0": False, "bond7": True, "br0": True, "vrf-gpu": True, "ovs-system": True}


def process(kernel: Kernel, pid: int, comm: str, namespace: str, cgroup: str = "0::/init.scope") -> str:
    base = f"/proc/{pid}"
    kernel.tree.add_link(f"{base}/ns/net", f"net:[{namespace}]")
    kernel.tree.add_file(f"{base}/comm", f"{comm}\n")
    kernel.tree.add_file(f"{base}/cgroup", f"{cgroup}\n")
    return base


def stand_on(kernel: Kernel, lower: str, upper: str, master: bool) -> None:
    """Let a virtual interface that is down stand on another one."""
    stack.add_virtual(kernel, upper, mtu="1500", flags="0x1002", address="02:00:00:00:00:0a", type="1", uevent="")
    place = f"/sys/devices/virtual/net/{upper}"
    kernel.tree.add_link(f"/sys/class/net/{lower}/upper_{upper}", place)
    kernel.tree.add_link(f"{place}/lower_{lower}", f"/sys/class/net/{lower}")
    if master:
        kernel.tree.add_link(f"/sys/class/net/{lower}/master", place)


class TestUsers:
    """A function in use is not destroyed by any consent, and who uses it is named."""

    def refusal(self, kernel: Kernel, count: int = 2, **entry: Any) -> str:
        outcome = applied(kernel, wish({"pci": PF, "vfs": count, **entry}, **ALLOWED))
        steps = [step for step in outcome["plan"]["steps"] if step["concern"] == "vfs"]
        assert [step["status"] for step in steps] == ["refused"], steps
        assert kernel.mutations == []
        return str(steps[0]["detail"])

    def test_a_function_in_a_pod_is_named_with_its_pod(self) -> None:
        kernel = with_functions(4)
        name = vfs.to_another_namespace(kernel, VF1)
        uid = "0c1d2e3f-1111-2222-3333-444455556666"
        process(kernel, 1, "systemd", "1")
        kernel.tree.add_link("/proc/self/ns/net", "net:[1]")
        slice_name = f"0::/kubepods.slice/kubepods-besteffort-pod{uid.replace('-', '_')}.slice/cri-containerd-ab.scope"
        base = process(kernel, 4711, "pause", "2", slice_name)
        kernel.tree.add_file(f"{base}/root{vfs.PCI}/{VF1}/net/{name}/address", "02:00:00:00:00:01\n")
        kernel.tree.add_dir(f"/var/log/pods/training_worker-0_{uid}")
        assert self.refusal(kernel) == f"{VF1}: its interface is in the network namespace of pod training/worker-0"

    def test_a_function_in_the_namespace_of_a_process_is_named_with_the_process(self) -> None:
        kernel = with_functions(4)
        name = vfs.to_another_namespace(kernel, VF0)
        process(kernel, 1, "systemd", "1")
        kernel.tree.add_link("/proc/self/ns/net", "net:[1]")
        base = process(kernel, 815, "sleep", "3")
        kernel.tree.add_dir(f"{base}/root{vfs.PCI}/{VF0}/net/{name}")
        assert self.refusal(kernel, 0) == f"{VF0}: its interface is in the network namespace of sleep (pid 815)"

    def test_a_namespace_without_a_process_is_told_with_the_names_the_host_has(self) -> None:
        kernel = with_functions(4)
        vfs.to_another_namespace(kernel, VF0)
        kernel.tree.add_file("/run/netns/blue", "")
        assert self.refusal(kernel) == f"{VF0}: its interface is in another network namespace (this host names blue)"

    def test_a_function_of_a_virtual_machine_is_refused(self) -> None:
        kernel = with_functions(2)
        vfs.to_another_namespace(kernel, VF1)
        kernel.tree.discard(f"{vfs.PCI}/{VF1}/driver")
        kernel.tree.add_file(
            f"{vfs.PCI}/{VF1}/uevent", kernel.read(f"{vfs.PCI}/{VF1}/uevent").replace("igbvf", "vfio-pci")
        )
        assert self.refusal(kernel, 4).startswith(f"{VF1}: it is bound to vfio-pci")

    @pytest.mark.parametrize(
        ("table", "line"),
        [
            ("/proc/net/route", "{name}\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"),
            ("/proc/net/if_inet6", "20010db8000000000000000000000001 05 40 00 80 {name:>8}\n"),
            ("/proc/net/if_inet6", "20010db8000000000000000000000001 05 80 00 80 {name:>8}\n"),
        ],
    )
    def test_an_interface_with_addresses_is_refused(self, table: str, line: str) -> None:
        kernel = with_functions(2)
        name = functions(kernel)[VF0]
        kernel.tree.add_file(f"/sys/class/net/{name}/flags", "0x1003\n")
        kernel.tree.add_file(table, kernel.read(table) + line.format(name=name))
        assert self.refusal(kernel, 4) == f"{VF0}: its interface {name} is up and has addresses"

    def test_an_address_without_a_route_counts_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = with_functions(2)
        name = functions(kernel)[VF0]
        entry = {"ifname": name, "addr_info": [{"family": "inet", "local": "10.9.0.11", "prefixlen": 32}]}
        shown = CommandResult(0, json.dumps([entry]), "")
        real = Kernel.run
        monkeypatch.setattr(
            Kernel, "run", lambda *call: shown if " ".join(call[1]) == "ip -json address show" else real(*call)
        )
        kernel.tree.add_file(f"/sys/class/net/{name}/flags", "0x1003\n")
        assert self.refusal(kernel, 4) == f"{VF0}: its interface {name} is up and has addresses"

    def test_an_interface_that_is_up_without_an_address_is_nobodys(self) -> None:
        kernel = with_functions(2)
        name = functions(kernel)[VF0]
        kernel.tree.add_file(f"/sys/class/net/{name}/flags", "0x1003\n")
        table = "/proc/net/if_inet6"
        link_local = f"fe80000000000000000000000000000{1} 05 40 20 80 {name:>8}\n"
        kernel.tree.add_file(table, kernel.read(table) + link_local)
        assert not applied(kernel, wish({"pci": PF, "vfs": 4}, **ALLOWED)).get("failed")
        assert len(functions(kernel)) == 4

    @pytest.mark.parametrize(("upper", "master"), UPPERS.items())
    def test_an_interface_that_another_one_stands_on_is_refused(self, upper: str, master: bool) -> None:
        kernel = with_functions(2)
        name = functions(kernel)[VF0]
        stand_on(kernel, name, upper, master)
        assert self.refusal(kernel, 4) == f"{VF0}: its interface {name} carries {upper}"

    def test_a_master_that_tells_of_no_members_counts_too(self) -> None:
        kernel = with_functions(2)
        name = functions(kernel)[VF0]
        kernel.tree.add_link(f"/sys/class/net/{name}/master", "../../../../../virtual/net/bond7")
        assert self.refusal(kernel, 4) == f"{VF0}: its interface {name} carries bond7"

    def test_a_macvlan_of_a_pod_is_told_by_its_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The pod's files are not opened for it: what a container shows as its sysfs may lead anywhere on the host."""
        kernel = with_functions(2)
        name = functions(kernel)[VF0]
        own = kernel.read(f"/sys/class/net/{name}/address").strip()
        entries = [{"ifname": name, "mac": mac} for mac in ("33:33:00:00:00:01", own, "0a:58:0a:f4:01:07")]
        real = Kernel.run
        given = {"bridge -json fdb show": CommandResult(0, json.dumps(entries), "")}
        monkeypatch.setattr(Kernel, "run", lambda *call: given.get(" ".join(call[1])) or real(*call))
        detail = f"{VF0}: its interface {name} carries the address 0a:58:0a:f4:01:07 of a pod or guest"
        assert self.refusal(kernel, 4) == detail
        given["bridge -json fdb show"] = CommandResult(0, json.dumps(entries[:2]), "")
        assert not applied(kernel, wish({"pci": PF, "vfs": 4}, **ALLOWED)).get("failed")

    def test_an_rdma_program_is_named(self) -> None:
        kernel = with_functions(2)
        place = kernel.realpath(f"{vfs.PCI}/{VF0}")
        kernel.tree.add_file(f"{place}/infiniband/mlx5_9/ports/1/link_layer", "Ethernet\n")
        kernel.tree.add_link("/sys/class/infiniband/mlx5_9", f"../../{place[5:]}/infiniband/mlx5_9")
        kernel.tree.add_file("/sys/class/infiniband_verbs/uverbs4/ibdev", "mlx5_9\n")
        process(kernel, 99, "ib_write_bw", "1")
        kernel.tree.add_link("/proc/99/fd/3", "/dev/infiniband/uverbs4")
        process(kernel, 98, "bash", "1")
        kernel.tree.add_link("/proc/98/fd/0", "/dev/pts/0")
        assert self.refusal(kernel, 0) == f"{VF0}: its RDMA device is used by ib_write_bw (pid 99)"

    def test_a_new_address_does_not_reach_into_a_function_in_use(self) -> None:
        kernel = with_functions(2)
        stand_on(kernel, functions(kernel)[VF1], "vlan20", master=False)
        detail = self.refusal(kernel, 2, vf_settings={"mac": "deterministic"})
        assert detail.startswith(f"{VF1}: its interface ")


class TestInfiniBand:
    """An InfiniBand function has an interface where ib_ipoib is in use, and in exclusive mode its device is hidden."""

    def host(self) -> Kernel:
        kernel = mlx5.booted(link_layer=INFINIBAND)
        mlx5.done(kernel, mlx5.wish(vfs=2))
        return kernel

    def without(self, *parts: str) -> Kernel:
        kernel = self.host()
        for address in (PORT, *mlx5.functions(kernel)):
            vfs.to_another_namespace(kernel, address, parts)
        return kernel

    def refusals(self, kernel: Kernel, **entry: Any) -> list[str]:
        outcome = mlx5.applied(kernel, mlx5.wish(ALLOWED, **entry))
        return [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]

    @pytest.mark.parametrize("parts", [("net",), ("net", "infiniband")], ids=["shared", "exclusive"])
    @pytest.mark.parametrize("entry", [{"vfs": 0}, {"vfs": 1}, {"vfs": 2, "vf_guids": "deterministic"}])
    def test_a_function_in_a_pod_is_left_alone(self, parts: tuple[str, ...], entry: dict[str, Any]) -> None:
        kernel = self.host()
        function = mlx5.functions(kernel)[1]
        vfs.to_another_namespace(kernel, function, parts)
        assert self.refusals(kernel, **entry) == [f"{function}: its interface is in another network namespace"]
        assert kernel.mutations == []

    def test_one_whose_interface_is_in_a_vrf_is_left_alone(self) -> None:
        kernel = self.host()
        (name,) = kernel.list(f"{vfs.PCI}/{mlx5.functions(kernel)[1]}/net")
        stand_on(kernel, name, "vrf-gpu", master=True)
        assert self.refusals(kernel, vfs=0) == [f"{mlx5.functions(kernel)[1]}: its interface {name} carries vrf-gpu"]

    def test_a_partition_of_its_interface_counts(self) -> None:
        kernel = self.host()
        for number, function in enumerate(mlx5.functions(kernel), 11):
            (name,) = kernel.list(f"{vfs.PCI}/{function}/net")
            for key in ("ifindex", "iflink"):
                kernel.tree.add_file(f"/sys/class/net/{name}/{key}", f"{number}\n")
        stack.add_virtual(kernel, "part8001", type="32", flags="0x1002", ifindex="20", iflink="12", uevent="")
        assert self.refusals(kernel, vfs=0) == [f"{function}: its interface {name} carries part8001"]

    def test_one_that_alone_of_its_port_has_no_rdma_device_is_left_alone(self) -> None:
        kernel = self.without("net")
        function = mlx5.functions(kernel)[1]
        process(kernel, 1, "systemd", "1")
        kernel.tree.add_link("/proc/self/ns/net", "net:[1]")
        base = process(kernel, 815, "ib_write_bw", "3")
        kernel.tree.move(f"{vfs.PCI}/{function}/infiniband", f"{base}/root{vfs.PCI}/{function}/infiniband")
        (device,) = kernel.list(f"{base}/root{vfs.PCI}/{function}/infiniband")
        kernel.tree.discard(f"/sys/class/infiniband/{device}")
        who = "its RDMA device is in the network namespace of ib_write_bw (pid 815)"
        assert self.refusals(kernel, vfs=0) == [f"{function}: {who}"]

    @pytest.mark.parametrize("parts", [("net",), ("net", "infiniband")], ids=["ib_ipoib", "mlx5_ib"])
    def test_what_no_function_of_a_port_has_is_not_missed(self, parts: tuple[str, ...]) -> None:
        kernel = self.without(*parts)
        assert self.refusals(kernel, vfs=1) == []
        assert len(mlx5.functions(kernel)) == 1

    def test_a_function_without_driver_is_nobodys(self) -> None:
        kernel = self.host()
        kernel.set_attribute(f"{vfs.PCI}/{PORT}/virtfn1/driver/unbind", mlx5.functions(kernel)[1], 1)
        assert self.refusals(kernel, vfs=1) == []
