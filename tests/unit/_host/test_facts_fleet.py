# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of the recorded fleet, held to the published values its hosts were composed of."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost, load_recording
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET, RECORDINGS
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import EMPTY_GID, Port

FEATURE = "feature.node.kubernetes.io"
# Rail, GPU, NIC, RDMA device, interface, NUMA node and way of an 8-GPU H100 node, as published.
RAILS = [
    (0, "0000:1b:00.0", "0000:18:00.0", "mlx5_0", "ibp24s0", 0, "PXB"),
    (1, "0000:43:00.0", "0000:40:00.0", "mlx5_3", "ibp64s0", 0, "PXB"),
    (2, "0000:52:00.0", "0000:4f:00.0", "mlx5_4", "ibp79s0", 0, "PXB"),
    (3, "0000:61:00.0", "0000:5e:00.0", "mlx5_5", "ibp94s0", 0, "PXB"),
    (4, "0000:9d:00.0", "0000:9a:00.0", "mlx5_6", "ibp154s0", 1, "PXB"),
    (5, "0000:c3:00.0", "0000:c0:00.0", "mlx5_9", "ibp192s0", 1, "PXB"),
    (6, "0000:d1:00.0", "0000:ce:00.0", "mlx5_10", "ibp206s0", 1, "PXB"),
    (7, "0000:df:00.0", "0000:dc:00.0", "mlx5_11", "ibp220s0", 1, "PXB"),
]
STORAGE = {
    "0000:29:00.0": ("mlx5_1", "enp41s0f0np0"),
    "0000:29:00.1": ("mlx5_2", "enp41s0f1np1"),
    "0000:aa:00.0": ("mlx5_7", "enp170s0f0np0"),
    "0000:aa:00.1": ("mlx5_8", "enp170s0f1np1"),
}


@lru_cache(maxsize=None)
def facts(name: str) -> Any:
    return gather(RecordedHost(load_recording((RECORDINGS / f"{name}.json.gz").read_bytes())))


def by(entries: list[Any], key: str) -> Any:
    return {entry[key]: entry for entry in entries}


@pytest.mark.parametrize("name", FLEET)
def test_the_recordings_are_what_the_composer_writes(name: str) -> None:
    kept = load_recording((RECORDINGS / f"{name}.json.gz").read_bytes())
    assert kept == FLEET[name]().document(), "write them again: see tests/fixtures/hosts/fleet.py"
    assert "Composed" in kept["stand_in"], "a composed recording says that it is none of a real machine"


def test_no_recording_is_left_of_a_host_that_is_gone() -> None:
    assert {path.name for path in RECORDINGS.iterdir()} == {f"{name}.json.gz" for name in FLEET}


@pytest.mark.parametrize("name", FLEET)
def test_facts_are_plain_data_and_the_same_every_time(name: str) -> None:
    again = gather(RecordedHost(load_recording((RECORDINGS / f"{name}.json.gz").read_bytes())))
    assert json.dumps(again, sort_keys=True) == json.dumps(facts(name), sort_keys=True)
    assert facts(name)["unreadable"] == []


def test_the_rails_of_an_h100_node_are_the_published_ones() -> None:
    node = facts("dgx-h100-01")
    nics = by(node["nics"], "address")
    found = [
        (rail["rail"], rail["gpu"], rail["nic"], *nics[rail["nic"]]["rdma"], *nics[rail["nic"]]["netdevs"])
        for rail in node["rails"]
    ]
    assert found == [row[:5] for row in RAILS]
    assert [nics[row[2]]["numa_node"] for row in RAILS] == [row[5] for row in RAILS]
    assert [rail["distance"] for rail in node["rails"]] == [row[6] for row in RAILS]


def test_distances_know_switches_sockets_and_host_bridges() -> None:
    distances = facts("dgx-h100-01")["distances"]
    first = {"0000:1b:00.0": "PXB", **{row[1]: "NODE" if row[5] == 0 else "SYS" for row in RAILS[1:]}}
    assert distances["0000:18:00.0"] == first
    assert set(distances["0000:29:00.0"].values()) == {"NODE", "SYS"}, "storage is near no GPU"
    assert Counter(way for ways in distances.values() for way in ways.values())["PXB"] == 8
    assert set(distances) == {row[2] for row in RAILS} | set(STORAGE), "the management port is no fabric"


def test_a_rail_card_has_the_published_values() -> None:
    nic = by(facts("dgx-h100-01")["nics"], "address")["0000:18:00.0"]
    assert nic == {
        "address": "0000:18:00.0",
        "vendor": "15b3",
        "device": "1021",
        "subsystem": "15b3:0041",
        "class": "020700",
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
            "offset": 1,
            "stride": 1,
        },
        "netdevs": ["ibp24s0"],
        "rdma": ["mlx5_0"],
        "link_layer": "InfiniBand",
        "iommu": {"group": 40, "type": "identity"},
        "path": ["pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:18:00.0"],
    }


def test_a_rail_port_has_the_published_values() -> None:
    node = facts("dgx-h100-01")
    assert by(node["rdma"], "name")["mlx5_0"] == {
        "name": "mlx5_0",
        "pci": "0000:18:00.0",
        "netdev": "ibp24s0",
        "node_guid": "a088:c203:00b1:7e26",
        "system_image_guid": "a088:c203:00b1:7e26",
        "firmware": "28.39.3560",
        "psid": "MT_0000000838",
        "sub_function": None,
        "hca_type": "MT4129",
        "ports": [
            {
                "port": 1,
                "state": "ACTIVE",
                "physical": "LinkUp",
                "rate_gbps": 400,
                "link_layer": "InfiniBand",
                "lid": 0x2A,
                "sm_lid": 1,
                "rocev2_gid_index": None,
            }
        ],
    }
    netdev = by(node["netdevs"], "name")["ibp24s0"]
    assert netdev["mac"] == "00:00:10:29:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:b1:7e:26"
    assert (netdev["link_type"], netdev["mtu"], netdev["name_origin"]) == ("infiniband", 4092, "predictable")


def test_storage_cards_are_ethernet_with_the_numbering_holes_of_the_table() -> None:
    node = facts("dgx-h100-01")
    nics = by(node["nics"], "address")
    for address, (device, netdev) in STORAGE.items():
        assert (nics[address]["rdma"], nics[address]["netdevs"]) == ([device], [netdev])
        assert (nics[address]["family"], nics[address]["link_layer"]) == ("BlueField-3", "Ethernet")
    assert [device["name"] for device in node["rdma"]] == [f"mlx5_{number}" for number in range(12)]


def test_the_driver_stack_of_each_class_is_told_by_what_is_loaded() -> None:
    stacks = {name: facts(name)["stack"] for name in FLEET}
    assert stacks["dgx-h100-01"] == {
        "flavour": "doca-ofed",
        "version": "23.10-1.1.9",
        "installed": "OFED-internal-23.10-1.1.9",
        "gpu_driver": "535.161.08",
        "gpu_driver_flavour": "open",
        "peer_memory": "nvidia-peermem",
    }
    assert (stacks["egx-01"]["flavour"], stacks["egx-01"]["version"]) == ("mlnx-ofed", "5.0-2.1.8")
    assert stacks["egx-01"]["peer_memory"] == "nv_peer_mem"
    assert stacks["egx-01"]["gpu_driver_flavour"] == "proprietary"
    # Linux 4.15 gives its own mlx5_core a version, 5.0-0: no vendor's.
    assert (stacks["egx-02"]["flavour"], stacks["egx-02"]["version"]) == ("inbox", None)
    assert facts("egx-02")["modules"]["mlx5_core"]["version"] == "5.0-0"
    assert stacks["roce-h100-01"]["flavour"] == stacks["vm-vf-01"]["flavour"] == "inbox"
    assert stacks["cpu-01"]["flavour"] == "none"


def test_users_of_a_module_are_read_as_lsmod_prints_them() -> None:
    modules = facts("egx-01")["modules"]
    assert modules["ib_core"]["refcount"] == 11
    assert "nv_peer_mem" in modules["ib_core"]["users"]
    assert modules["nvidia"]["users"] == ["nvidia_uvm", "nv_peer_mem", "nvidia_modeset"]
    assert modules["nv_peer_mem"] == {
        "loaded": True,
        "builtin": False,
        "refcount": 0,
        "users": [],
        "version": "1.0-9",
        "srcversion": None,
        "out_of_tree": True,
    }


def test_the_egx_servers_are_those_of_the_walkthrough() -> None:
    node = facts("egx-01")
    assert (node["system"]["hostname"], facts("egx-02")["system"]["hostname"]) == ("ubuntu", "ubuntu00")
    assert (node["system"]["os"]["id"], node["system"]["os"]["version_id"]) == ("ubuntu", "18.04")
    assert node["system"]["kernel"] == "4.15.0-109-generic"
    assert [gpu["address"] for gpu in node["gpus"]] == [f"0000:{bus}:00.0" for bus in ("12", "86", "af", "d8")]
    assert {gpu["name"] for gpu in node["gpus"]} == {"T4"}
    links = {device["name"]: (device["netdev"], device["ports"][0]["state"]) for device in node["rdma"]}
    assert links == {
        "mlx5_0": ("ens2f0", "ACTIVE"),
        "mlx5_1": ("ens2f1", "DOWN"),
        "mlx5_2": ("eno5", "DOWN"),
        "mlx5_3": ("eno6", "DOWN"),
    }
    assert by(node["nics"], "address")["0000:37:00.0"]["family"] == "ConnectX-5"
    assert by(node["netdevs"], "name")["ens2f0"]["mtu"] == 1500
    assert by(node["nics"], "address")["0000:37:00.0"]["link"]["speed_gts"] == 8.0, "old kernels write 8 GT/s"


def test_a_gpu_across_the_sockets_has_no_rail() -> None:
    node = facts("egx-01")
    assert node["rails"] == [{"rail": 0, "nic": "0000:37:00.0", "gpu": "0000:12:00.0", "distance": "NODE"}]
    assert node["distances"]["0000:37:00.0"]["0000:86:00.0"] == "SYS"


@pytest.mark.parametrize(
    ("name", "netdev"),
    [("dgx-h100-01", "eno3"), ("roce-h100-01", "eno3"), ("egx-01", "eno1"), ("vm-vf-01", "enp1s0"), ("cpu-01", "ens3")],
)
def test_the_uplink_is_the_default_route(name: str, netdev: str) -> None:
    uplinks = facts(name)["uplinks"]
    assert [uplink["netdev"] for uplink in uplinks] == [netdev]
    assert uplinks[0]["reasons"] == ["default route"]
    assert uplinks[0]["pci"] == by(facts(name)["netdevs"], "name")[netdev]["pci"]


def test_labels_are_those_of_feature_discovery() -> None:
    assert facts("egx-01")["labels"] == {
        f"{FEATURE}/kernel-version.full": "4.15.0-109-generic",
        f"{FEATURE}/network-sriov.capable": "true",
        f"{FEATURE}/pci-10de.present": "true",
        f"{FEATURE}/pci-15b3.present": "true",
        f"{FEATURE}/system-os_release.ID": "ubuntu",
        f"{FEATURE}/system-os_release.VERSION_ID": "18.04",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "ubuntu",
        "kubernetes.io/os": "linux",
    }
    assert f"{FEATURE}/pci-15b3.present" in facts("vm-vf-01")["labels"]
    assert f"{FEATURE}/network-sriov.capable" not in facts("vm-vf-01")["labels"], "a guest has VFs alone"
    assert f"{FEATURE}/network-sriov.capable" not in facts("cpu-01")["labels"]
    assert not [key for key in facts("cpu-01")["labels"] if "/pci-" in key], "a host without NIC gets none"


def test_a_guest_sees_virtual_functions_whose_family_the_firmware_tells() -> None:
    node = facts("vm-vf-01")
    functions = [nic for nic in node["nics"] if nic["vendor"] == "15b3"]
    assert [(nic["function"], nic["pf"], nic["sriov"]) for nic in functions] == [("vf", None, None)] * 2
    assert {nic["family"] for nic in functions} == {"ConnectX-7"}
    assert {nic["numa_node"] for nic in functions} == {None}
    unset = by(node["rdma"], "name")["mlx5_1"]
    assert (unset["node_guid"], unset["ports"][0]["rate_gbps"]) == ("0000:0000:0000:0000", None)


def test_each_roce_rail_has_its_own_gid_index() -> None:
    node = facts("roce-h100-01")
    indexes = {device["netdev"]: device["ports"][0]["rocev2_gid_index"] for device in node["rdma"]}
    assert indexes["enp24s0np0"] == 3
    assert indexes["enp94s0np0"] == 5, "an IPv6 address came first"
    assert indexes["enp41s0f1np1"] is None, "no cable, no address"
    assert {netdev["port_name"] for netdev in node["netdevs"] if netdev["name"].startswith("enp24")} == {"p0"}


def test_the_second_node_has_its_three_flaws_and_no_other() -> None:
    good, bad = facts("dgx-h100-01"), facts("dgx-h100-02")
    ports = {device["name"]: device["ports"][0] for device in bad["rdma"]}
    polling = {name for name, port in ports.items() if port["physical"] == "Polling" and name != "mlx5_2"}
    assert polling - {"mlx5_8"} == {"mlx5_5"}
    assert ports["mlx5_5"]["rate_gbps"] is None, "a port without link prints 10 Gb/s all the same"
    slow = {nic["address"] for nic in bad["nics"] if nic["link"]["speed_gts"] != nic["link"]["max_speed_gts"]}
    assert slow == {"0000:c0:00.0"}
    old = {device["name"] for device in bad["rdma"] if device["firmware"].startswith("28.36")}
    assert old == {"mlx5_10"}
    assert bad["rails"] == good["rails"]


def test_facts_stay_small() -> None:
    """A host with ten network functions fits in 16 KiB; the H100 node has thirteen, and eight GPUs."""
    sizes = {name: len(json.dumps(facts(name), separators=(",", ":"))) for name in FLEET}
    assert max(sizes.values()) <= 24 * 1024
    tree = FLEET["dgx-h100-01"]()
    dropped = ("0000:29:00.1", "0000:aa:00.1", "0000:0b:00.0", *(row[1] for row in RAILS))
    for address in dropped:
        del tree.links[f"/sys/bus/pci/devices/{address}"]
    for name in ("enp41s0f1np1", "enp170s0f1np1", "eno3"):
        del tree.links[f"/sys/class/net/{name}"]
    for name in ("mlx5_2", "mlx5_8"):
        del tree.links[f"/sys/class/infiniband/{name}"]
    ten = gather(RecordedHost(tree.document()))
    assert len(ten["nics"]) == 10
    assert len(json.dumps(ten, separators=(",", ":"))) <= 16 * 1024


class CountingHost(RecordedHost):
    """A recorded host that counts what it is asked."""

    def __init__(self, document: Any) -> None:
        super().__init__(document)
        self.asked: Counter[str] = Counter()

    def read(self, path: str) -> str:
        self.asked["read"] += 1
        self.asked[path] += 1
        return super().read(path)

    def run(self, argv: Any, timeout: float) -> Any:
        self.asked["run"] += 1
        return super().run(argv, timeout)


@pytest.mark.parametrize(("name", "programs"), [("dgx-h100-01", 2), ("roce-h100-01", 0), ("cpu-01", 0)])
def test_a_host_is_read_once_and_sparingly(name: str, programs: int) -> None:
    host = CountingHost(FLEET[name]().document())
    gather(host)
    repeated = {path: count for path, count in host.asked.items() if path.startswith("/") and count > 1}
    assert repeated == {}
    assert host.asked["run"] == programs
    gids = sum(count for path, count in host.asked.items() if "/gids/" in path)
    assert gids <= 8 * 12, "the 256 slots of a port are not all read"
    assert host.asked["read"] <= 900


def test_of_ports_without_an_address_few_slots_are_read() -> None:
    """A host has hundreds of them: VFs that no pod has, or whose interface is in a pod."""
    tree = FLEET["roce-h100-01"]()
    ports = sorted({path.partition("/gids/")[0] for path in tree.files if "/gids/" in path})
    for port in ports:
        tree.port(port, Port(link_layer="Ethernet", gids=((EMPTY_GID, "", ""),) * 248))
    host = CountingHost(tree.document())
    gather(host)
    slots = Counter(path.partition("/gids/")[0] for path in host.asked if "/gids/" in path)
    assert len(slots) == len(ports) > 0
    assert max(slots.values()) <= 8
