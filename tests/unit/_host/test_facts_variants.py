# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of nodes that are not as they should be: every flaw is a value, none ends the reading."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.module_graph import CLIENT_MODULES, THIRD_PARTY
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan, plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import dgx, roce
from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import eui64, ipv4_gid
from ansible_collections.rdma.fabric.tests.fixtures.hosts.small import cpu
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import EMPTY_GID, Ids, Link, Model, Netdev, Port, Tree
from ansible_collections.rdma.fabric.tests.unit._host import igb

RAIL0 = "0000:18:00.0"
VF_IDS = Ids("15b3", "101e", "020700", "15b3:0041")
MODEL = Model("28.39.3560", "MT_0000000838", "MT4126")


@pytest.fixture
def node() -> Tree:
    return dgx("node", 1, "composed for a test")


@pytest.fixture
def ethernet() -> Tree:
    return roce("node", 1, "composed for a test")


def facts_of(tree: Tree, *modules: str) -> Any:
    return gather(RecordedHost(tree.document()), None, modules)


def nic(facts: Any, address: str) -> Any:
    return next(entry for entry in facts["nics"] if entry["address"] == address)


def device(facts: Any, name: str) -> Any:
    return next(entry for entry in facts["rdma"] if entry["name"] == name)


def netdev(facts: Any, name: str) -> Any:
    return next(entry for entry in facts["netdevs"] if entry["name"] == name)


def test_a_loopback_interface_is_no_port_wherever_its_link_leads(node: Tree) -> None:
    document = node.document()
    document["links"]["/sys/class/net/lo"] = f"../../../devices/pci0000:00/{RAIL0}"
    assert "lo" not in [each["name"] for each in gather(RecordedHost(document))["netdevs"]]


def test_a_port_without_subnet_manager(node: Tree) -> None:
    node.port(f"{node.place(RAIL0)}/infiniband/mlx5_0/ports/1", Port(state="2: INIT", lid="0x0", sm_lid="0x0"))
    port = device(facts_of(node), "mlx5_0")["ports"][0]
    assert (port["state"], port["physical"], port["sm_lid"], port["rate_gbps"]) == ("INIT", "LinkUp", 0, 400)


def test_virtual_functions_with_and_without_guid(node: Tree) -> None:
    for index, guid in enumerate(("0000:0000:0000:0000", "a088:c203:00b1:8000")):
        vf = f"0000:18:00.{index + 1}"
        node.virtual_function(RAIL0, vf, index, VF_IDS, "mlx5_core")
        node.hca(vf, f"mlx5_{20 + index}", guid, MODEL, Port.down("InfiniBand"))
    facts = facts_of(node)
    parent, first = nic(facts, RAIL0), nic(facts, "0000:18:00.1")
    assert parent["sriov"]["vfs"] == ["0000:18:00.1", "0000:18:00.2"]
    assert parent["sriov"]["enabled"] == 2
    assert (first["function"], first["pf"], first["sriov"]) == ("vf", RAIL0, None)
    assert first["family"] == "ConnectX-7", "101e belongs to seven families: the PF decides"
    assert device(facts, "mlx5_20")["node_guid"] == "0000:0000:0000:0000"
    assert "0000:18:00.1" not in facts["distances"], "it is where its PF is"
    assert len(facts["rails"]) == 8


def test_the_order_of_virtual_functions_is_that_of_their_numbers(node: Tree) -> None:
    for index in range(12):
        vf = f"0000:18:{(index + 1) // 8:02x}.{(index + 1) % 8}"
        node.virtual_function(RAIL0, vf, index, VF_IDS, None)
    vfs = nic(facts_of(node), RAIL0)["sriov"]["vfs"]
    assert vfs[10] == "0000:18:01.3", "virtfn10 comes after virtfn9, not after virtfn1"


@pytest.mark.parametrize(
    ("family_id", "family"), [("101f", "ConnectX-6 Lx"), ("a2d6", "BlueField-2"), ("1023", "ConnectX-8")]
)
def test_the_shared_id_never_tells_a_family(node: Tree, family_id: str, family: str) -> None:
    base = node.place(RAIL0)
    node.files[f"{base}/uevent"] = node.files[f"{base}/uevent"].replace("15B3:1021", f"15B3:{family_id.upper()}")
    node.virtual_function(RAIL0, "0000:18:00.1", 0, VF_IDS, None)
    facts = facts_of(node)
    assert nic(facts, RAIL0)["family"] == nic(facts, "0000:18:00.1")["family"] == family


def test_a_card_that_is_given_to_a_guest(node: Tree) -> None:
    """Bound to vfio-pci it has neither interface nor RDMA device, but it is there."""
    base = node.place(RAIL0)
    node.files[f"{base}/uevent"] = node.files[f"{base}/uevent"].replace("DRIVER=mlx5_core", "DRIVER=vfio-pci")
    del node.links["/sys/class/net/ibp24s0"], node.links["/sys/class/infiniband/mlx5_0"]
    found = nic(facts_of(node), RAIL0)
    assert (found["driver"], found["netdevs"], found["rdma"]) == ("vfio-pci", [], [])
    assert found["link_layer"] == "InfiniBand", "its class tells"


def test_an_unbound_card(node: Tree) -> None:
    base = node.place(RAIL0)
    node.files[f"{base}/uevent"] = node.files[f"{base}/uevent"].replace("DRIVER=mlx5_core\n", "")
    assert nic(facts_of(node), RAIL0)["driver"] is None


def test_a_card_whose_firmware_has_sr_iov_switched_off(node: Tree) -> None:
    for name in [path for path in node.files if path.startswith(f"{node.place(RAIL0)}/sriov_")]:
        del node.files[name]
    found = nic(facts_of(node), RAIL0)
    assert (found["function"], found["sriov"]) == ("pf", None)


def test_no_numa_node_is_no_affinity(node: Tree) -> None:
    node.files[f"{node.place(RAIL0)}/numa_node"] = "-1\n"
    facts = facts_of(node)
    assert nic(facts, RAIL0)["numa_node"] is None
    assert facts["distances"][RAIL0]["0000:1b:00.0"] == "PXB"
    assert set(facts["distances"][RAIL0].values()) == {"PXB", "SYS"}


@pytest.mark.parametrize(
    ("speed", "width", "expected"),
    [
        ("16.0 GT/s PCIe", "16", (16.0, 16)),
        ("32.0 GT/s PCIe", "8", (32.0, 8)),
        ("8 GT/s", "16", (8.0, 16)),
        ("2.5 GT/s PCIe", "1", (2.5, 1)),
        ("Unknown", "0", (None, None)),
        ("Unknown speed", "255", (None, None)),
        ("", "x16", (None, None)),
    ],
)
def test_pcie_links_of_every_kind(node: Tree, speed: str, width: str, expected: tuple[Any, Any]) -> None:
    node.attributes(node.place(RAIL0), {"current_link_speed": speed, "current_link_width": width})
    link = nic(facts_of(node), RAIL0)["link"]
    assert (link["speed_gts"], link["width"]) == expected
    assert (link["max_speed_gts"], link["max_width"]) == (32.0, 16)


GEN5 = "32.0 GT/s PCIe"
GEN4 = "16.0 GT/s PCIe"


@pytest.mark.parametrize(
    ("slot", "own", "expected"),
    [
        (Link(GEN4, 16, GEN4, 16), (GEN4, 16), {"slot_speed_gts": 16.0}),
        (Link(GEN5, 8, GEN5, 8), (GEN5, 8), {"slot_width": 8}),
        (Link(GEN4, 8, GEN4, 8), (GEN4, 8), {"slot_speed_gts": 16.0, "slot_width": 8}),
        (Link(GEN5, 16, "64.0 GT/s PCIe", 32), (GEN5, 16), {}),
        # What a port shows that is not the other end of the link, or has none, says nothing.
        (Link(GEN4, 16, GEN4, 16), (GEN5, 16), {}),
        (Link(GEN4, 8, GEN4, 8), (GEN4, 16), {}),
        (Link("Unknown", 0, GEN4, 8), (GEN4, 8), {}),
        (Link(GEN4, 8, "Unknown", 255), (GEN4, 8), {}),
        (None, (GEN4, 8), {}),
    ],
)
def test_what_the_slot_can_is_told_where_that_is_less(
    node: Tree, slot: Link | None, own: tuple[str, int], expected: dict[str, Any]
) -> None:
    node.attributes(node.place(RAIL0), {"current_link_speed": own[0], "current_link_width": own[1]})
    if slot:
        node.slot(RAIL0, slot)
    facts = facts_of(node)
    link = nic(facts, RAIL0)["link"]
    assert {key: value for key, value in link.items() if key.startswith("slot_")} == expected
    assert (link["max_speed_gts"], link["max_width"]) == (32.0, 16), "of the VF itself"
    assert facts["unreadable"] == []


# A BlueField-3 behind a switch on its own card: root port 0000:26:01.0, switch 0000:27:00.0 and 0000:28:00.0.
OWN_SWITCH = "0000:29:00.0"
GEN5_LINK = {"speed_gts": 32.0, "width": 16, "max_speed_gts": 32.0, "max_width": 16}


@pytest.mark.parametrize(
    ("slot", "switch", "expected"),
    [
        (Link(), Link(), {}),
        (Link(GEN4, 16, GEN4, 16), Link(GEN4), {"speed_gts": 16.0, "slot_speed_gts": 16.0}),
        (Link(GEN5, 8, GEN5, 8), Link(GEN5, 8), {"width": 8, "slot_width": 8}),
        (Link(GEN4), Link(GEN4), {"speed_gts": 16.0}),
        # What is wider than the way on the card holds nothing back.
        (Link("64.0 GT/s PCIe", 16), Link("64.0 GT/s PCIe", 16), {}),
        (Link(), Link("Unknown", 0), {}),
        (None, Link(GEN4), {"speed_gts": 16.0}),
    ],
)
def test_the_slot_of_a_card_is_the_one_above_its_own_switch(
    node: Tree, slot: Link | None, switch: Link, expected: dict[str, Any]
) -> None:
    node.slot(OWN_SWITCH, Link(), above=1)
    node.slot(OWN_SWITCH, switch, above=2)
    if slot:
        node.slot(OWN_SWITCH, slot, above=3)
    facts = facts_of(node)
    assert nic(facts, OWN_SWITCH)["link"] == {**GEN5_LINK, **expected}
    assert nic(facts, RAIL0)["link"] == GEN5_LINK, "its switch is not part of a card"
    assert facts["unreadable"] == []


def test_on_a_bluefield_there_is_no_slot_above_its_switch(node: Tree) -> None:
    node.slot(OWN_SWITCH, Link(GEN4), above=2)
    node.attributes(node.place("0000:26:01.0"), {"vendor": "0x15b3"})
    assert nic(facts_of(node), OWN_SWITCH)["link"] == GEN5_LINK


def test_the_slots_of_a_virtual_machine_are_made_up(node: Tree) -> None:
    node.attributes(node.place(RAIL0), {"current_link_speed": GEN4})
    node.slot(RAIL0, Link(GEN4, 16, GEN4, 16))
    node.files["/proc/cpuinfo"] = "flags\t\t: fpu hypervisor\n"
    assert "slot_speed_gts" not in nic(facts_of(node), RAIL0)["link"]


def test_a_translating_iommu_and_none(node: Tree) -> None:
    node.files["/sys/kernel/iommu_groups/40/type"] = "DMA\n"
    del node.links[f"{node.place('0000:40:00.0')}/iommu_group"]
    facts = facts_of(node)
    assert nic(facts, RAIL0)["iommu"] == {"group": 40, "type": "DMA"}
    assert nic(facts, "0000:40:00.0")["iommu"] is None


def test_an_interface_that_is_down_tells_neither_carrier_nor_speed(ethernet: Tree) -> None:
    ethernet.netdev(RAIL0, Netdev("enp24s0np0", "a0:88:c2:b1:01:00", up=False, port_name="p0"))
    base = f"{ethernet.place(RAIL0)}/net/enp24s0np0"
    del ethernet.files[f"{base}/carrier"], ethernet.files[f"{base}/speed"]
    ethernet.errors[f"{base}/name_assign_type"] = "EINVAL"
    del ethernet.files[f"{base}/name_assign_type"]
    facts = facts_of(ethernet)
    found = netdev(facts, "enp24s0np0")
    assert (found["up"], found["carrier"], found["speed_mbps"], found["name_origin"]) == (False, None, None, "unknown")
    assert facts["unreadable"] == [], "these failures are states"


def test_representors_and_sub_functions_are_not_the_port(ethernet: Tree) -> None:
    """In switchdev mode the directory of the PF lists them beside it."""
    for index, port_name in enumerate(("pf0vf0", "pf0vf1", "pf0sf88")):
        ethernet.netdev(RAIL0, Netdev(f"rep{index}", f"fa:16:3e:00:00:0{index}", port_name=port_name))
    ethernet.netdev(RAIL0, Netdev("sub0", "fa:16:3e:00:01:00", dev_port=0), between="mlx5_core.sf.4")
    base = f"{ethernet.place(RAIL0)}/net/enp24s0np0/phys_switch_id"
    del ethernet.errors[base]
    ethernet.files[base] = "00b17e2600c288a0\n"
    facts = facts_of(ethernet)
    assert nic(facts, RAIL0)["netdevs"] == ["enp24s0np0"]
    assert device(facts, "rocep24s0")["netdev"] == "enp24s0np0"
    kinds = {entry["name"]: entry["kind"] for entry in facts["netdevs"] if entry["pci"] == RAIL0}
    assert kinds == {
        "enp24s0np0": "physical",
        "rep0": "representor",
        "rep1": "representor",
        "rep2": "representor",
        "sub0": "sub-function",
    }
    assert netdev(facts, "enp24s0np0")["switch_id"] == "00b17e2600c288a0"


def test_the_rdma_device_of_a_sub_function_is_not_that_of_its_port(ethernet: Tree) -> None:
    """As rdma-core pull request 1741 has its place; a port with it may be renamed and given a ToS all the same."""
    between = "mlx5_core.sf.4"
    ethernet.netdev(RAIL0, Netdev("sub0", "fa:16:3e:00:01:00", dev_port=0), between=between)
    own = Port(link_layer="Ethernet", gids=((ipv4_gid("10.9.0.1"), "RoCE v2", "sub0"),))
    ethernet.hca(RAIL0, "mlx5_12", "fa16:3eff:fe00:0100", MODEL, own, between=between)
    facts = facts_of(ethernet)
    assert nic(facts, RAIL0)["rdma"] == ["rocep24s0"]
    found = device(facts, "mlx5_12")
    assert (found["pci"], found["sub_function"], found["netdev"]) == (None, f"{RAIL0}/{between}", "sub0")
    entry = {"pci": RAIL0, "rdma_name": "rail0", "qos": {"tos": 104}}
    wanted = igb.wish(entry, rdma_fabric_roce_qos={"tos": 104})
    plan, _context = plan_with_context(wanted, gather(RecordedHost(ethernet.document()), desired=wanted))
    refused = [step["detail"] for step in plan["steps"] if step["status"] == "refused"]
    assert not [detail for detail in refused if "several RDMA devices" in detail or "no RDMA device" in detail], refused


def test_an_interface_of_another_partition_is_not_the_port(node: Tree) -> None:
    child = Netdev("ibp24s0.8001", "00:00:10:2a:fe:80", arp_type=32, extra={"parent": "ibp24s0"})
    node.netdev(RAIL0, child)
    facts = facts_of(node)
    assert netdev(facts, "ibp24s0.8001")["kind"] == "ipoib-child"
    assert nic(facts, RAIL0)["netdevs"] == ["ibp24s0"]


def test_two_ports_on_one_function_are_told_apart_by_their_number(ethernet: Tree) -> None:
    """ConnectX-3 and IPoIB have two interfaces on one PCI function."""
    ethernet.netdev(RAIL0, Netdev("second", "a0:88:c2:b1:01:01", dev_port=1))
    assert device(facts_of(ethernet), "rocep24s0")["netdev"] == "enp24s0np0"


def bonded(tree: Tree) -> None:
    """Make a RoCE bond of the first two rails, as mlx5 does: one RDMA device, both interfaces with a master."""
    joined(tree, {"enp24s0np0": RAIL0, "enp64s0np0": "0000:40:00.0"})
    for name in ("rocep24s0", "rocep64s0"):
        del tree.links[f"/sys/class/infiniband/{name}"]
    gids = tuple((gid, kind, "bond0") for gid in (ipv4_gid("10.9.9.9"),) for kind in ("IB/RoCE v1", "RoCE v2"))
    port = Port(rate="800 Gb/sec (8X NDR)", link_layer="Ethernet", gids=gids)
    tree.hca(RAIL0, "mlx5_bond_0", eui64("a0:88:c2:b1:01:00"), MODEL, port)


def joined(tree: Tree, ports: dict[str, str]) -> None:
    """Make a bond of interfaces, by name, with their addresses."""
    tree.interface(
        "/sys/devices/virtual/net/bond0", Netdev("bond0", "a0:88:c2:b1:01:00", extra={"uevent": "DEVTYPE=bond"})
    )
    for name, address in ports.items():
        base = f"{tree.place(address)}/net/{name}"
        tree.links[f"{base}/master"] = "/sys/devices/virtual/net/bond0"
        tree.links[f"{base}/upper_bond0"] = "/sys/devices/virtual/net/bond0"
        tree.links[f"/sys/devices/virtual/net/bond0/lower_{name}"] = base


def test_a_roce_bond_answers_for_its_members(ethernet: Tree) -> None:
    bonded(ethernet)
    facts = facts_of(ethernet)
    bond = device(facts, "mlx5_bond_0")
    assert (bond["netdev"], bond["ports"][0]["rocev2_gid_index"]) == ("bond0", 1)
    assert netdev(facts, "bond0")["kind"] == "bond"
    assert netdev(facts, "enp24s0np0")["master"] == netdev(facts, "enp64s0np0")["master"] == "bond0"
    assert netdev(facts, "bond0")["lower"] == ["enp24s0np0", "enp64s0np0"]
    assert netdev(facts, "enp24s0np0")["lower"] == []
    assert nic(facts, "0000:40:00.0")["rdma"] == []


def test_functions_of_a_port_take_its_roce_bond_apart_by_consent(ethernet: Tree) -> None:
    def steps(vfs: int, **consents: bool) -> list[Any]:
        given = {"rdma_fabric_interfaces": [{"pci": RAIL0, "vfs": vfs}], **consents}
        desired, _violations, _notices = parse_host_variables("a", given)
        return list(make_plan(desired, facts_of(ethernet))["steps"])

    bonded(ethernet)
    (step, *_boot) = steps(4)
    assert (step["id"], step["status"]) == (f"vfs:{RAIL0}", "needs_consent")
    assert "rdma_fabric_allow_vf_reset" in str(step["consent"])
    assert step["interrupts"].startswith("RDMA over mlx5_bond_0: ")
    assert steps(4, rdma_fabric_allow_vf_reset=True)[0]["status"] == "planned"
    assert steps(0) == []


def test_an_uplink_on_a_bond_protects_bond_and_members(ethernet: Tree) -> None:
    bonded(ethernet)
    ethernet.files["/proc/net/route"] = ethernet.files["/proc/net/route"].replace("eno3", "bond0")
    reasons = {uplink["netdev"]: (uplink["pci"], uplink["reasons"]) for uplink in facts_of(ethernet)["uplinks"]}
    assert reasons == {
        "bond0": (None, ["default route"]),
        "enp24s0np0": (RAIL0, ["default route through bond0"]),
        "enp64s0np0": ("0000:40:00.0", ["default route through bond0"]),
    }


def test_the_gid_of_another_interface_is_not_taken(ethernet: Tree) -> None:
    """VLAN and macvlan interfaces put their addresses in the same table, and removed ones leave holes."""
    name = "enp24s0np0"
    table = (
        ("fe80:0000:0000:0000:a288:c2ff:feb1:0100", "IB/RoCE v1", name),
        ("fe80:0000:0000:0000:a288:c2ff:feb1:0100", "RoCE v2", name),
        (ipv4_gid("10.7.0.1"), "RoCE v2", f"{name}.100"),
        ("0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2", ""),
        (ipv4_gid("10.7.0.2"), "IB/RoCE v1", name),
        (ipv4_gid("10.7.0.2"), "RoCE v2", name),
    )
    ethernet.port(f"{ethernet.place(RAIL0)}/infiniband/rocep24s0/ports/1", Port(link_layer="Ethernet", gids=table))
    assert device(facts_of(ethernet), "rocep24s0")["ports"][0]["rocev2_gid_index"] == 5


def with_late_address(tree: Tree, slot: int) -> None:
    """Have the address of the first rail behind slots whose addresses are gone: those of interfaces of deleted pods."""
    name = "enp24s0np0"
    empty = ((EMPTY_GID, "", ""),) * (slot - 3)
    own = tuple(
        (gid, kind, name)
        for gid in ("fe80:0000:0000:0000:a288:c2ff:feb1:0100", ipv4_gid("10.7.0.2"))
        for kind in ("IB/RoCE v1", "RoCE v2")
    )
    gids = (*own[:2], *empty, *own[2:])
    tree.port(f"{tree.place(RAIL0)}/infiniband/rocep24s0/ports/1", Port(link_layer="Ethernet", gids=gids))


@pytest.mark.parametrize("slot", [11, 67, 255])
def test_the_gid_of_an_address_is_found_behind_empty_slots(ethernet: Tree, slot: int) -> None:
    with_late_address(ethernet, slot)
    network = "enp24s0np0\t0000070A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    ethernet.files["/proc/net/route"] += network
    assert device(facts_of(ethernet), "rocep24s0")["ports"][0]["rocev2_gid_index"] == slot


def test_a_software_device_of_an_old_kernel_is_not_that_of_the_nic_it_is_below(ethernet: Tree) -> None:
    """Old kernels register rxe below the device of its interface (drivers/infiniband/sw/rxe: rxe_dma_device)."""
    base = f"{ethernet.place(RAIL0)}/infiniband/rxe0"
    ethernet.links["/sys/class/infiniband/rxe0"] = base
    ethernet.attributes(base, {"parent": "enp24s0np0", "node_guid": "a288:c2ff:feb1:0100", "fw_ver": ""})
    ethernet.port(f"{base}/ports/1", Port(rate="2.5 Gb/sec (1X SDR)", link_layer="Ethernet", gids=()))
    facts = facts_of(ethernet)
    found = device(facts, "rxe0")
    assert (found["pci"], found["sub_function"], found["netdev"]) == (None, None, "enp24s0np0")
    assert device(facts, "rocep24s0")["pci"] == RAIL0


def test_a_software_device_hangs_on_its_parent() -> None:
    tree = cpu("node", "composed for a test")
    base = "/sys/devices/virtual/infiniband/rxe0"
    tree.links["/sys/class/infiniband/rxe0"] = "../../devices/virtual/infiniband/rxe0"
    tree.attributes(base, {"parent": "ens3", "node_guid": "5054:00ff:fe00:0001", "fw_ver": ""})
    tree.port(f"{base}/ports/1", Port(rate="2.5 Gb/sec (1X SDR)", link_layer="Ethernet", gids=()))
    found = device(facts_of(tree), "rxe0")
    assert (found["pci"], found["netdev"], found["firmware"], found["hca_type"]) == (None, "ens3", None, None)
    assert found["ports"][0]["rate_gbps"] == 2.5
    (carrier,) = [entry for entry in facts_of(tree)["nics"] if entry["netdevs"] == ["ens3"]]
    assert (carrier["rdma"], carrier["link_layer"]) == (["rxe0"], "Ethernet")


@pytest.mark.parametrize(
    ("modules", "flavour"),
    [
        ("ib_core 1 1 rdma_rxe, Live 0x0\nrdma_rxe 1 0 - Live 0x0\n", "inbox"),
        ("ib_core 1 1 irdma, Live 0x0 (OE)\nirdma 1 0 - Live 0x0\nmlx_compat 1 1 ib_core, Live 0x0\n", "mlnx-ofed"),
        ("igb 1 0 - Live 0x0\n", "none"),
    ],
)
def test_the_stack_of_a_host_without_a_driver_for_nvidias_nics(modules: str, flavour: str) -> None:
    tree = cpu("node", "composed for a test")
    tree.files["/proc/modules"] = modules
    assert facts_of(tree)["stack"]["flavour"] == flavour


@pytest.mark.parametrize(
    ("version", "told", "flavour"),
    [
        ("24.07-0.6.1", "MLNX_OFED_LINUX-24.07-0.6.1.0", "mlnx-ofed"),
        ("24.07-0.6.1", "OFED-internal-24.07-0.6.1", "doca-ofed"),
        # It was installed, and tells nothing that is understood.
        ("24.07-0.6.1", "no release", "mlnx-ofed"),
        ("25.04-0.6.1", "no release", "doca-ofed"),
    ],
)
def test_both_stacks_of_the_vendor_are_told_apart(node: Tree, version: str, told: str, flavour: str) -> None:
    node.files["/sys/module/mlx5_core/version"] = f"{version}\n"
    node.commands["/usr/bin/ofed_info -s"] = {"rc": 0, "stdout": f"{told}:\n", "stderr": ""}
    stack = facts_of(node)["stack"]
    assert (stack["flavour"], stack["version"]) == (flavour, version)


def test_every_module_that_holds_the_core_is_told_of(node: Tree) -> None:
    names = (*THIRD_PARTY, *CLIENT_MODULES)
    node.files["/proc/modules"] = "".join(f"{name} 1 0 - Live 0x0\n" for name in names)
    assert set(names) <= set(facts_of(node)["modules"])


def test_a_driver_that_is_installed_but_not_loaded(ethernet: Tree) -> None:
    ethernet.files["/usr/bin/ofed_info"] = ""
    ethernet.commands["/usr/bin/ofed_info -s"] = {"rc": 0, "stdout": "MLNX_OFED_LINUX-24.10-1.1.4.0:\n", "stderr": ""}
    stack = facts_of(ethernet)["stack"]
    assert (stack["flavour"], stack["version"]) == ("inbox", None)
    assert stack["installed"] == "MLNX_OFED_LINUX-24.10-1.1.4.0"


@pytest.mark.parametrize(
    ("version", "taint", "flavour"),
    [
        ("23.10-1.1.9", "OE", "mlnx-ofed"),
        ("24.07-0.6.1", "OE", "doca-ofed"),
        ("25.07-0.9.7", "OE", "doca-ofed"),
        ("25.07-0.9.7", "", "doca-ofed"),
        ("5.0-0", "", "inbox"),
        ("", "", "inbox"),
        ("", "OE", "mlnx-ofed"),
    ],
)
def test_the_loaded_driver_without_its_program(ethernet: Tree, version: str, taint: str, flavour: str) -> None:
    """A driver container leaves nothing on the disk; the installer of MLNX_OFED leaves this program."""
    ethernet.attributes("/sys/module/mlx5_core", {"version": version, "taint": taint})
    assert facts_of(ethernet)["stack"]["flavour"] == flavour


def test_modules_that_are_built_in_or_asked_for(node: Tree) -> None:
    node.files["/lib/modules/5.15.0-1047-nvidia/modules.builtin"] = "kernel/net/bridge/br-netfilter.ko\n"
    node.dirs.append("/sys/module/rds_rdma")
    modules = facts_of(node, "br-netfilter", "nvme_tcp", "ixgbe")["modules"]
    states = {name: (modules[name]["loaded"], modules[name]["builtin"]) for name in modules}
    assert states["br_netfilter"] == (True, True)
    assert states["rds_rdma"] == (True, True), "a directory without a line in /proc/modules"
    assert states["nvme_tcp"] == (False, False)
    assert states["ixgbe"] == (True, False)
    assert "ib_cm" not in facts_of(node)["modules"], "nobody asked"


@pytest.mark.parametrize("kernel", ["../../etc", "6.8/../../../etc"])
def test_the_path_of_a_module_list_is_not_made_of_any_text(node: Tree, kernel: str) -> None:
    node.files["/proc/sys/kernel/osrelease"] = f"{kernel}\n"
    node.files["/etc/modules.builtin"] = "kernel/rds_rdma.ko\n"
    assert "rds_rdma" not in facts_of(node)["modules"]


@pytest.mark.parametrize(
    ("variable", "efi", "expected"),
    [
        ("BgAAAAE=", True, True),
        ("BgAAAAA=", True, False),
        (None, True, None),
        (None, False, False),
        ("AQ==", True, None),
    ],
)
def test_secure_boot(variable: str | None, efi: bool, expected: bool | None) -> None:
    tree = cpu("node", "composed for a test")
    tree.binary.clear()
    if efi:
        tree.dirs.append("/sys/firmware/efi")
    if variable:
        tree.binary["/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"] = variable
    assert facts_of(tree)["system"]["secure_boot"] is expected


@pytest.mark.parametrize(
    ("told", "count"), [("0-1\n", 2), ("0\n", 1), ("0,8\n", 2), ("0-1,4-5\n", 4), ("\n", 34), (None, 34)]
)
def test_memory_without_processors_is_no_numa_node(node: Tree, told: str | None, count: int) -> None:
    """GB200: node0 and node1 have processors, the others GPU memory (Documentation/ABI/stable/sysfs-devices-node)."""
    node.dirs += [f"/sys/devices/system/node/node{number}" for number in range(34)]
    if told is not None:
        node.files["/sys/devices/system/node/has_cpu"] = told
    assert facts_of(node)["system"]["numa_nodes"] == count


def test_what_restricts_a_host(node: Tree) -> None:
    node.files["/sys/kernel/security/lockdown"] = "none [integrity] confidentiality\n"
    node.files["/run/ostree-booted"] = ""
    system = facts_of(node)["system"]
    assert (system["lockdown"], system["ostree"], system["numa_nodes"]) == ("integrity", True, 2)
    assert "no_securityfs" not in system


@pytest.mark.parametrize(("mounted", "told"), [(["/sys/kernel/security/lsm"], {}), ([], {"no_securityfs": True})])
def test_lockdown_that_is_not_told(node: Tree, mounted: list[str], told: dict[str, bool]) -> None:
    """A kernel without lockdown is no kernel whose securityfs nobody mounted."""
    del node.files["/sys/kernel/security/lockdown"]
    node.files.update(dict.fromkeys(mounted, "capability,yama\n"))
    system = facts_of(node)["system"]
    assert {key: value for key, value in system.items() if key == "no_securityfs"} == told
    assert system["lockdown"] is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID=rhel\nVERSION_ID='9.4'\nID_LIKE=\"fedora centos\"\n", ("rhel", "9.4", ["fedora", "centos"])),
        ('# ID=wrong\n\nID="sles"\nnonsense\nVERSION_ID="15.6\n', ("sles", "", [])),
        ("NAME=Own\n", ("linux", "", [])),
        ("", ("", "", [])),
        ("ID={{ lookup('pipe', 'id') }}\n", ("{{ lookup(pipe, id) }}", "", [])),
    ],
)
def test_distributions(node: Tree, text: str, expected: tuple[str, str, list[str]]) -> None:
    node.files["/usr/lib/os-release"] = text
    os = facts_of(node)["system"]["os"]
    assert (os["id"], os["version_id"], os["id_like"]) == expected


def test_a_kernel_name_that_is_no_label_is_cleaned_or_left_out(node: Tree) -> None:
    node.files["/proc/sys/kernel/osrelease"] = "6.6.31+rpt-rpi_v8+\n"
    node.files["/usr/lib/os-release"] = f"ID='no label'\nVERSION_ID={'9' * 70}\n"
    labels = facts_of(node)["labels"]
    assert labels["feature.node.kubernetes.io/kernel-version.full"] == "6.6.31_rpt-rpi_v8"
    assert not [key for key in labels if "os_release" in key]


def test_secrets_of_the_kernel_command_line_are_masked(node: Tree) -> None:
    node.files["/proc/cmdline"] = 'ro rd.luks.key=/k "api_token=a b" iommu=pt url=https://me:pw@host/x passwd="x y"\n'
    cmdline = facts_of(node)["system"]["cmdline"]
    assert "iommu=pt" in cmdline
    assert not any(secret in cmdline for secret in ("/k", "a b", "pw", "x y"))


def test_reads_that_are_refused_are_named_and_end_nothing(node: Tree) -> None:
    base = node.place(RAIL0)
    for name, code in (("numa_node", "EACCES"), ("sriov_numvfs", "EIO"), ("current_link_speed", "EPERM")):
        del node.files[f"{base}/{name}"]
        node.errors[f"{base}/{name}"] = code
    facts = facts_of(node)
    found = nic(facts, RAIL0)
    assert (found["numa_node"], found["sriov"]["enabled"], found["link"]["speed_gts"]) == (None, None, None)
    meanings = {entry["path"].rsplit("/", 1)[-1]: (entry["error"], entry["meaning"]) for entry in facts["unreadable"]}
    assert meanings["numa_node"] == ("EACCES", "needs root")
    assert meanings["sriov_numvfs"] == ("EIO", "the device does not answer")
    assert meanings["current_link_speed"][0] == "EPERM"


def test_a_broken_host_does_not_fill_the_facts_with_failures(node: Tree) -> None:
    for path in [path for path in node.files if path.startswith("/sys/devices") and not path.endswith("uevent")]:
        del node.files[path]
        node.errors[path] = "EIO"
    facts = facts_of(node)
    assert len(facts["nics"]) == 13
    assert len(facts["unreadable"]) > len(as_returned(facts)["unreadable"]) == 24


def test_a_function_that_goes_away_while_it_is_read(node: Tree) -> None:
    base = node.place(RAIL0)
    for path in [path for path in node.files if path.startswith(f"{base}/")]:
        del node.files[path]
        node.errors[path] = "ENODEV"
    assert RAIL0 not in [entry["address"] for entry in facts_of(node)["nics"]]


def test_ids_without_uevent(node: Tree) -> None:
    complete = nic(facts_of(node), RAIL0)
    del node.files[f"{node.place(RAIL0)}/uevent"]
    assert nic(facts_of(node), RAIL0) == complete


def test_an_empty_host() -> None:
    facts = gather(RecordedHost({"files": {}}))
    assert (facts["nics"], facts["gpus"], facts["netdevs"], facts["rails"], facts["uplinks"]) == ([], [], [], [], [])
    assert facts["labels"] == {"kubernetes.io/os": "linux"}
    assert facts["unreadable"] == []


def test_hostile_text_stays_bounded_text(node: Tree) -> None:
    """Templates, control characters and endless files of a host are data, one line each."""
    template = "{{ lookup('pipe','id') }}"
    node.files["/proc/sys/kernel/hostname"] = f"{template}\x1b[2J\u202e\n" + "x" * 10_000_000
    node.files[f"{node.place(RAIL0)}/infiniband/mlx5_0/fw_ver"] = "28.39\x00\x07.1\n" * 1_000_000
    node.interface(f"{node.place(RAIL0)}/net/{{{{7*7}}}}", Netdev("{{7*7}}", "02:00:00:00:00:01\x1b"))
    node.interface(f"{node.place(RAIL0)}/net/a\x01b", Netdev("a\x01b", "02:00:00:00:00:02"))
    facts = facts_of(node)
    assert facts["system"]["hostname"].startswith(template + "\\x1b[2J\\u202e")
    assert "kubernetes.io/hostname" not in facts["labels"]
    names = [entry["name"] for entry in facts["netdevs"]]
    assert "{{7*7}}" in names
    assert "a\\x01b" in names, "spelled out, so that it can't be taken for ab"
    assert netdev(facts, "{{7*7}}")["mac"] is None, "no kernel writes such an address"

    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for pair in value.items() for part in pair for text in texts(part)]
        if isinstance(value, list):
            return [text for part in value for text in texts(part)]
        return [value] if isinstance(value, str) else []

    assert all(text.isprintable() and len(text) <= 4096 for text in texts(facts))
    assert len(json.dumps(facts)) < 40_000


def test_numbers_that_are_none(node: Tree) -> None:
    base = node.place(RAIL0)
    node.attributes(base, {"sriov_numvfs": "many", "numa_node": "9" * 5000, "sriov_vf_device": "0x"})
    node.attributes(f"{base}/net/ibp24s0", {"mtu": "", "flags": "up", "speed": "4294967295"})
    facts = facts_of(node)
    found = nic(facts, RAIL0)
    assert (found["sriov"]["enabled"], found["numa_node"], found["sriov"]["vf_device"]) == (None, None, None)
    interface = netdev(facts, "ibp24s0")
    # Flags that can't be read may be those of a link that carries traffic.
    assert (interface["mtu"], interface["up"], interface["speed_mbps"]) == (None, True, None)


def test_gpus_without_driver_and_without_entry_in_the_table(node: Tree) -> None:
    first, second = node.place("0000:1b:00.0"), node.place("0000:43:00.0")
    node.files[f"{first}/uevent"] = node.files[f"{first}/uevent"].replace("DRIVER=nvidia\n", "")
    node.files[f"{second}/uevent"] = node.files[f"{second}/uevent"].replace("10DE:2330", "10DE:3182")
    node.files["/proc/driver/nvidia/gpus/0000:43:00.0/information"] = "Model: \t\t NVIDIA B300 SXM6 AC\nIRQ: 1\n"
    gpus = facts_of(node)["gpus"]
    assert (gpus[0]["driver"], gpus[0]["name"]) == (None, "H100 SXM5 80GB")
    assert gpus[1]["name"] == "NVIDIA B300 SXM6 AC"


def test_interfaces_of_containers_are_left_out(node: Tree) -> None:
    for number in range(200):
        node.interface(f"/sys/devices/virtual/net/veth{number}", Netdev(f"veth{number}", "02:00:00:00:00:09"))
    assert len(facts_of(node)["netdevs"]) == 13
