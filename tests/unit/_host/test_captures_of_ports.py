# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of ports, functions and their places over values of real hosts, laid out as kernel and programs show them.

``tests/fixtures/captures.yml`` has the values, and says of each where it was published.
"""

from __future__ import annotations

from typing import Any, cast

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import devices, eswitch, functions, topology
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.netdev import read_netdevs
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.queues import interrupts_of_functions
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.rdma import read_rdma
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.topology import NODES
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine import pci_config
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import qos_values
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import EMPTY_GID, Ids, Link, Model, Netdev, Port, Tree
from ansible_collections.rdma.fabric.tests.unit._host import printed
from ansible_collections.rdma.fabric.tests.unit._host.families import PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import CONNECTX7
from ansible_collections.rdma.fabric.tests.unit.captures import Facts, each_of

DEVICE = "mlx5_9"
CONNECTX = Model("28.42.1000", "MT_0000000838", "MT4129")
# What sysfs has for the words of ibstat: the kernel's infiniband/core/sysfs.c (state_show, phys_state_show).
STATES = {"Active": "4: ACTIVE", "Down": "1: DOWN"}
PHYSICAL = {"LinkUp": "5: LinkUp", "Disabled": "3: Disabled"}
VERSIONS = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}


def device_with(port: Port, model: Model = CONNECTX, netdev: str | None = None) -> dict[str, Any]:
    """A device with one port, as it is read; ``netdev`` is the port's interface, which has an address."""
    tree = Tree("gpu01", "one RDMA device of a capture")
    tree.function(f"pci0000:15/{PF}", Ids("15b3", "1021", "020000"), "mlx5_core", 0)
    if netdev is not None:
        tree.netdev(PF, Netdev(netdev, "a0:88:c2:11:d0:12"))
    tree.hca(PF, DEVICE, "a088:c203:0011:d012", model, port)
    probe = Probe(RecordedHost(tree.document()))
    (found,) = read_rdma(probe, read_netdevs(probe), [netdev] if netdev else [])
    return {**found}


@each_of("ibstat")
def test_a_device_and_its_port_are_as_ibstat_tells(facts: Facts) -> None:
    told = facts.get("port", {})
    port = Port(
        state=STATES[told.get("state", "Active")],
        physical=PHYSICAL[told.get("physical", "LinkUp")],
        rate=f"{told.get('rate', 100)} Gb/sec (4X HDR)",
        link_layer=told.get("link_layer", "Ethernet"),
        lid=f"0x{told.get('lid', 0):x}",
        sm_lid=f"0x{told.get('sm_lid', 0):x}",
    )
    found = device_with(port, Model(facts.get("firmware", ""), facts.get("psid", ""), f"MT{facts.get('part', 0)}"))
    shown = found["ports"][0]
    assert (found["firmware"], found["psid"]) == (facts.get("firmware"), facts.get("psid"))
    expected = {"rate_gbps" if key == "rate" else key: value for key, value in told.items()}
    if told.get("physical") == "Disabled":
        expected["rate_gbps"] = None
    assert {**{key: shown[key] for key in expected}, "state": (shown["state"] or "").capitalize()} == {
        **expected,
        "state": told.get("state", "Active"),
    }
    if "part" in facts:
        identity = devices.PciId("15b3", f"{facts['part']:04x}", "", "020000")
        assert devices.nic_family(identity, None, facts["firmware"]) == facts["family"]


@each_of("show_gids")
def test_the_slot_of_roce_v2_over_ipv4(facts: Facts) -> None:
    slots = {slot: (gid, VERSIONS[version], "net1") for slot, gid, version in facts["rows"]}
    gids = tuple(slots.get(slot, (EMPTY_GID, "", "")) for slot in range(max(slots) + 1))
    found = device_with(Port(link_layer="Ethernet", gids=gids), netdev="net1")
    assert found["ports"][0]["rocev2_gid_index"] == facts["index"]


@each_of("ip_link")
def test_virtual_functions_are_as_ip_shows_them(facts: Facts) -> None:
    shown = functions.parse_port_settings(printed.ip_link("enp101s0f0", facts["functions"])).functions
    assert shown == [{**function, "max_tx_rate": None} for function in facts["functions"]]


@each_of("devlink")
def test_the_mode_of_an_eswitch(facts: Facts) -> None:
    mode, inline, encapsulation = facts["shown"].values()
    assert eswitch.parse(printed.devlink_eswitch(PF, facts["shown"]), PF) == {
        "mode": mode,
        "inline_mode": inline,
        "encap_mode": encapsulation,
        "problem": "",
    }


@each_of("devlink_param")
def test_the_flow_steering_mode_of_an_eswitch(facts: Facts) -> None:
    text = printed.devlink_param(PF, "flow_steering_mode", facts["value"])
    assert (eswitch.parse_steering(text, PF), eswitch.parse_steering(text[:-9], PF)) == (facts["value"], None)


@each_of("mlnx_qos")
def test_pfc_and_shares_of_a_port(facts: Facts) -> None:
    assert qos_values.bits_of(",".join(map(str, facts["pfc"]))) == facts["enabled"]
    priorities = {priority: number for number, (own, _kind, _share) in enumerate(facts["classes"]) for priority in own}
    assert qos_values.ets_state(printed.dcb_ets(facts["classes"])) == {
        "prio_tc": [priorities[priority] for priority in range(8)],
        "tc_tsa": [kind for _own, kind, _share in facts["classes"]],
        "tc_bw": [share or 0 for _own, _kind, share in facts["classes"]],
    }


@each_of("traffic_class")
def test_the_class_that_the_driver_gives_every_queue_pair(facts: Facts) -> None:
    assert qos_values.traffic_class_of(f"{facts['text']}\n") == facts["value"]


@each_of("pause")
def test_global_pause_is_read_beside_what_was_negotiated(facts: Facts) -> None:
    assert qos_values.pause_of(printed.ethtool_pause("eth2", facts["lines"])) == facts["read"]


@each_of("lspci")
def test_registers_are_what_lspci_decodes(facts: Facts) -> None:
    space = printed.config_space(facts)
    found: dict[str, Any] = {**pci_config.registers(space)}
    device = facts.get("device", dict.fromkeys(("relaxed_ordering", "max_payload", "max_read_request")))
    assert {key: found[key] for key in device} == device
    if "flags" not in facts:
        assert found["acs"] is None
        return
    redirects = pci_config.REQUEST_REDIRECT | pci_config.COMPLETION_REDIRECT
    assert bool(found["acs"] & redirects) is ("ReqRedir" in facts["flags"])
    assert bool(found["acs"] & pci_config.UPSTREAM_FORWARDING) is ("UpstreamFwd" in facts["flags"])
    if "acs" in facts:
        assert pci_config.offset_of(space, pci_config.ACS_CONTROL) == facts["acs"] + 6


def gathered(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = {**gather(RecordedHost(tree.document()))}
    return found


@each_of("pci_link")
def test_the_link_of_a_function(facts: Facts) -> None:
    tree = host_with(CONNECTX7)
    link = Link(facts["speed"], facts["width"], facts["speed"], facts["width"])
    tree.function("pci0000:15/0000:0c:00.0", Ids("15b3", "101b", "020700"), "mlx5_core", 0, link=link)
    (nic,) = [nic for nic in gathered(tree)["nics"] if nic["address"] == "0000:0c:00.0"]
    assert nic["link"] == {
        "speed_gts": facts["gts"],
        "width": facts["width"],
        "max_speed_gts": facts["gts"],
        "max_width": facts["width"],
    }


@each_of("pci_tree")
def test_the_distance_between_a_nic_and_a_gpu(facts: Facts) -> None:
    ids = {"vendor": "10de", "device": "1db5", "numa_node": 0}
    nic, *gpus = (cast("Any", {**ids, "path": path}) for path in (facts["nic"], *facts["gpus"]))
    assert {topology.distance(nic, gpu) for gpu in gpus} == {facts["distance"]}


@each_of("numa")
def test_nodes_that_are_memory_alone_do_not_count(facts: Facts) -> None:
    tree = host_with(CONNECTX7)
    for node in (*facts["processors"], *facts["memory"]):
        tree.files[f"{NODES}/node{node}/cpulist"] = f"{facts['processors'].get(node, '')}\n"
    tree.files[f"{NODES}/has_cpu"] = f"0-{max(facts['processors'])}\n"
    assert gathered(tree)["system"]["numa_nodes"] == len(facts["processors"])


@each_of("numa")
def test_a_gpu_in_a_node_of_memory_lies_with_the_processors_that_it_is_nearest_to(facts: Facts) -> None:
    tree = host_with(CONNECTX7)
    nodes = sorted((*facts["processors"], *facts["memory"]))
    tree.files[f"{NODES}/has_cpu"] = f"0-{max(facts['processors'])}\n"
    for number, (node, nearest) in enumerate(facts["gpus"].items()):
        tree.function(f"pci000{number}:01/000{number}:01:00.0", Ids("10de", "2941", "030200"), "nvidia", node)
        far = [10 if other == node else 80 if other == nearest else 120 for other in nodes]
        tree.files[f"{NODES}/node{node}/distance"] = f"{' '.join(map(str, far))}\n"
    tree.dirs += [f"{NODES}/node{node}" for node in nodes]
    assert [gpu["numa_node"] for gpu in gathered(tree)["gpus"]] == list(facts["gpus"].values())
    for node in facts["gpus"]:
        del tree.files[f"{NODES}/node{node}/distance"]
    assert {gpu["numa_node"] for gpu in gathered(tree)["gpus"]} == {None}, "unknown is no affinity"


@each_of("c2c")
def test_gpus_on_nvlink_c2c_have_the_nics_of_their_processor(facts: Facts) -> None:
    """Four GPUs of two processors; each has two NICs of the fabric and one of the host's own network, its uplink."""
    devices = [
        {"vendor": "15b3", "device": device, "numa_node": number // 3, "address": f"mlx5_{number}", "pf": None}
        for number, device in enumerate(("1021", "1021", "a2dc") * 2)
    ]
    nics = cast("Any", [{**nic, "rdma": [nic["address"]], "path": [f"pci{i}", "nic"]} for i, nic in enumerate(devices)])
    gpus = cast(
        "Any",
        [
            {"vendor": "10de", "device": "2941", "numa_node": i // 2, "address": f"gpu{i}", "path": [f"pci{i}8", "gpu"]}
            for i in range(4)
        ],
    )
    for order in (nics, [*nics[2:3], *nics[:2], *nics[5:], *nics[3:5]]):
        found = topology.rails(order, gpus, {"mlx5_2", "mlx5_5"})
        assert [rail["nic"] for rail in found] == facts["rails"]
        assert {rail["distance"] for rail in found} == {"C2C"}


@each_of("interrupts")
def test_interrupts_in_use_with_the_processors_that_serve_them(facts: Facts) -> None:
    tree = Tree("gpu01", "the interrupts of a capture")
    address = facts["rows"][0][1].partition("pci:")[2]
    unused = 500
    for number, name, processors in (*facts["rows"], (unused, None, "0-31")):
        tree.files[f"/sys/bus/pci/devices/{address}/msi_irqs/{number}"] = "msix\n"
        for file in ("smp_affinity_list", "effective_affinity_list"):
            tree.files[f"/proc/irq/{number}/{file}"] = f"{processors}\n"
        tree.dirs += [f"/proc/irq/{number}/{name}"] if name else []
    found: dict[str, Any] = {**interrupts_of_functions(Probe(RecordedHost(tree.document())), [address])}
    assert found["interfaces"][address]["irqs"] == {str(number): where for number, _name, where in facts["rows"]}
