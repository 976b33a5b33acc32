# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recording tells the same facts as its host, and nothing that identifies it or that is secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import Host, HostError, LiveHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    RecordedHost,
    dump_recording,
    load_recording,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET, RECORDINGS
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import dgx
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Netdev, Tree

# Where the facts hold what a recording replaces.
REPLACED = {"mac", "node_guid", "system_image_guid", "switch_id", "hostname", "kubernetes.io/hostname", "cmdline"}
RAIL0 = "0000:18:00.0"


def on_disk(tree: Tree, root: Path) -> LiveHost:
    """Lay a host out as real files, with procfs as it really is: its network tables belong to the reading process."""
    for path, text in tree.files.items():
        place = root / path[1:].replace("proc/net/", "proc/4711/net/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for path, data in tree.binary.items():
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).write_bytes(base64.b64decode(data))
    for directory in tree.dirs:
        (root / directory[1:]).mkdir(parents=True, exist_ok=True)
    for path, target in {**tree.links, "/proc/self": "4711", "/proc/net": "self/net"}.items():
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).symlink_to(target)
    return LiveHost(str(root))


def replay(host: Host, name: str = "replacement") -> RecordedHost:
    return RecordedHost(load_recording(dump_recording(record(host, name), compress=True)))


def differing_keys(one: Any, other: Any, key: str = "") -> set[str]:
    """The keys under which two facts hold other values."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {found for name in one for found in differing_keys(one[name], other[name], name)}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return {found for pair in zip(one, other) for found in differing_keys(*pair, key)}
    return set() if one == other else {key}


@pytest.fixture
def secretive() -> Tree:
    """A host with everything that must not leave it."""
    tree = dgx("gpu7.customer.example", 1, "composed for a test")
    tree.files["/proc/cmdline"] = (
        "ro root=/dev/mapper/gpu7-root api_key=hunter2 ip=10.0.0.11 luks.uuid=4c1f7c52-0000-4000-8000-1234567890ab\n"
    )
    tree.files["/etc/machine-id"] = "0123456789abcdef0123456789abcdef\n"
    tree.files["/var/lib/kubelet/kubeadm-flags.env"] = (
        'KUBELET_KUBEADM_ARGS="--bootstrap-token=hunter2 --hostname-override=gpu7 --node-ip=10.0.0.11"\n'
    )
    # Links lead to the second, as snaps have them.
    tree.files["/etc/rancher/k3s/config.yaml"] = "token: hunter2\nnode-ip: 10.0.0.11\n"
    tree.links["/etc/rancher/rke2/config.yaml"] = "/srv/rke2.yaml"
    tree.files["/srv/rke2.yaml"] = "node-ip: [10.0.0.11]\ntoken: hunter2\n"
    tree.files["/sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs"] = "77\n"
    tree.files["/proc/77/cmdline"] = "kubelet\0--bootstrap-token=hunter2\0--node-ip=10.0.0.11\0"
    tree.files["/etc/NetworkManager/system-connections/Customer HQ.nmconnection"] = "psk=hunter2\n"
    tree.files["/etc/netplan/50-cloud-init.yaml"] = "password: hunter2\n"
    tree.files["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (admin@gpu7)\n"
    )
    tree.netdev(RAIL0, Netdev("enxa088c2471234", "a0:88:c2:47:12:34"))
    tree.files["/proc/net/route"] = tree.files["/proc/net/route"].replace("eno3", "enxa088c2471234")
    shown = json.loads(tree.commands["ip -json address show"]["stdout"])
    shown[1].update(ifname="enxa088c2471234", link="br-customer", permaddr="a0:88:c2:47:12:34", txqlen=1000)
    tree.commands["ip -json address show"]["stdout"] = json.dumps(shown)
    return tree


IDENTITY = [
    "gpu7",
    "customer",
    "Customer",
    "hunter2",
    "0123456789abcdef",
    "471234",
    "47:12:34",
    "b1:7e:26",
    "00b1:7e26",
    "1234567890ab",
    "10.0.0.11",
    "0B00000A",
    "bootstrap",
    "admin@",
]


@pytest.mark.parametrize("name", FLEET)
def test_a_recording_tells_the_facts_of_its_host(name: str) -> None:
    host = RecordedHost(FLEET[name]().document())
    original, replayed = gather(host, None, ["bonding", "ixgbe"]), gather(replay(host), None, ["bonding", "ixgbe"])
    assert differing_keys(original, replayed) <= REPLACED
    assert replayed["system"]["hostname"] == "replacement"


def test_this_machine_can_be_recorded_and_replayed() -> None:
    """The one real host every test has: sysfs and procfs as a kernel makes them."""
    found = [gather(LiveHost()), gather(replay(LiveHost()))]
    original, replayed = ({**facts, "unreadable": [entry["error"] for entry in facts["unreadable"]]} for facts in found)
    assert differing_keys(original, replayed) <= REPLACED


def test_a_host_on_a_disk_is_recorded_like_one_in_memory(tmp_path: Path, secretive: Tree) -> None:
    live = on_disk(secretive, tmp_path)
    original, replayed = gather(live), gather(replay(live))
    assert len(original["nics"]) == 13
    assert [uplink["reasons"] for uplink in replayed["uplinks"]] == [["default route", "kubelet node address"]]
    assert differing_keys(original, replayed) <= REPLACED | {"name", "netdev", "netdevs"}


@pytest.mark.parametrize("on_a_disk", [True, False])
def test_nothing_that_identifies_or_is_secret_is_in_a_recording(
    tmp_path: Path, secretive: Tree, on_a_disk: bool
) -> None:
    host: Host = on_disk(secretive, tmp_path) if on_a_disk else RecordedHost(secretive.document())
    text = json.dumps(record(host, "replacement"))
    assert [word for word in IDENTITY if word in text] == []
    assert "4711" not in text, "the number of the recording process"


def test_what_planning_needs_is_in_a_recording(secretive: Tree) -> None:
    document = record(RecordedHost(secretive.document()), "replacement")
    files = document["files"]
    base = secretive.place(RAIL0)
    assert files[f"{base}/sriov_offset"] == "1\n"
    assert "iommu=pt" not in files["/proc/cmdline"]
    assert files["/proc/cmdline"].startswith("ro root=/dev/mapper/replacement-root api_key=******** ip=10.")
    assert document["errors"]["/etc/netplan/50-cloud-init.yaml"] == "ENODATA", "there, without its content"
    ((profile, kept),) = [item for item in files.items() if item[0].startswith("/etc/NetworkManager/")]
    assert (profile.endswith(".nmconnection"), kept) == (True, ""), "there, with nothing but what tells owners"
    replayed = RecordedHost(document)
    assert replayed.list("/etc/netplan") == ["50-cloud-init.yaml"]
    with pytest.raises(HostError, match="ENODATA"):
        replayed.read("/etc/netplan/50-cloud-init.yaml")


def test_addresses_of_a_recording_still_fit_together(secretive: Tree) -> None:
    """The connection's address is found in the recorded tables by its replacement."""
    document = record(RecordedHost(secretive.document()), "replacement")
    shown = json.loads(document["commands"]["ip -json address show"]["stdout"])
    assert [set(link) for link in shown] == [{"ifname", "addr_info"}] * 2
    address = shown[1]["addr_info"][0]["local"]
    uplinks = gather(RecordedHost(document), address)["uplinks"]
    assert [(uplink["netdev"], "Ansible connection" in uplink["reasons"]) for uplink in uplinks] == [
        (shown[1]["ifname"], True)
    ]


def test_the_next_hops_of_a_default_route_are_in_a_recording(secretive: Tree) -> None:
    hops = [{"gateway": "10.0.0.11", "dev": name} for name in ("enxa088c2471234", "bond7")]
    shown = json.dumps([{"dst": "default", "nexthops": hops}])
    secretive.commands["ip -json -4 route show default"] = {"rc": 0, "stdout": shown, "stderr": ""}
    document = record(RecordedHost(secretive.document()), "replacement")
    assert [word for word in IDENTITY if word in json.dumps(document)] == []
    uplinks = gather(RecordedHost(document), desired=check_spec({}))["uplinks"]
    assert [(uplink["pci"], uplink["reasons"][0]) for uplink in uplinks] == [
        (None, "default route"),
        (RAIL0, "default route"),
    ]


@pytest.mark.parametrize(("scope", "needs"), [("00", ["ipv4", "ipv6"]), ("20", ["ipv4"])])
def test_the_ipv6_that_a_named_uplink_rests_on_is_in_a_recording(secretive: Tree, scope: str, needs: list[str]) -> None:
    address = "20010db800000000a288c2fffe471234"
    secretive.files["/proc/net/if_inet6"] = f"{address} 05 40 {scope} 80 enxa088c2471234\n"
    secretive.files["/proc/net/ipv6_route"] = ""
    document = record(RecordedHost(secretive.document()), "replacement")
    assert [word for word in IDENTITY if word in json.dumps(document)] == []
    (name,) = [nic["netdevs"][0] for nic in gather(RecordedHost(document))["nics"] if nic["address"] == RAIL0]
    uplinks = gather(RecordedHost(document), desired=check_spec({"protected_interfaces": [name]}))["uplinks"]
    assert [uplink["needs"] for uplink in uplinks if uplink["netdev"] == name] == [needs]


def test_what_plans_about_cards_need_is_in_a_recording() -> None:
    host = RecordedHost(FLEET["roce-h100-01"]().document())
    again = RecordedHost(record(host, "gpu01"))
    entry = {"pci": "0000:29:00.0", "eswitch_mode": "switchdev", "firmware": {"NUM_OF_VFS": 16}}
    desired = check_spec({"interfaces": [entry]})
    wanted, found = (gather(recorded, desired=desired) for recorded in (host, again))
    assert found["firmware"] == wanted["firmware"] and found["firmware"]["cards"]["0000:29:00"]["parameters"]
    assert found["eswitch"] == wanted["eswitch"] and found["eswitch"]["0000:29:00.0"]["mode"] == "legacy"


def test_an_unchanged_host_gives_the_same_bytes(secretive: Tree) -> None:
    first = dump_recording(record(RecordedHost(secretive.document()), "node"), compress=True)
    secretive.files["/proc/net/ipv6_route"] = secretive.files["/proc/net/ipv6_route"].replace(
        "00000001 00000000", "0000004f 00001234"
    )
    second = dump_recording(record(RecordedHost(secretive.document()), "node"), compress=True)
    assert first == second, "counters of the routing table are no change"
    secretive.files[f"{secretive.place(RAIL0)}/sriov_numvfs"] = "4\n"
    assert dump_recording(record(RecordedHost(secretive.document()), "node"), compress=True) != first


def test_the_machine_s_id_makes_the_replacements_and_is_not_recorded(secretive: Tree) -> None:
    def mac() -> str:
        facts = gather(RecordedHost(record(RecordedHost(secretive.document()), "node")))
        return str(facts["netdevs"][0]["mac"])

    one = mac()
    secretive.files["/etc/machine-id"] = "fedcba9876543210fedcba9876543210\n"
    assert mac() != one


def test_a_recording_can_be_recorded(secretive: Tree) -> None:
    first = replay(RecordedHost(secretive.document()), "one")
    assert differing_keys(gather(first), gather(replay(first, "two"))) <= REPLACED | {"name", "netdev", "netdevs"}


def test_only_what_is_read_is_recorded(secretive: Tree) -> None:
    secretive.files["/etc/shadow"] = "root:secret\n"
    secretive.files[f"{secretive.place(RAIL0)}/vpd"] = "SN=MT2315X00001\n"
    document = record(RecordedHost(secretive.document()), "node")
    text = json.dumps(document)
    assert not any(word in text for word in ("shadow", "MT2315", "/vpd"))
    assert "/etc/os-release" in document["links"]


def test_a_recording_says_which_release_made_it() -> None:
    galaxy = yaml.safe_load((RECORDINGS.parents[2] / "galaxy.yml").read_text())
    document = record(RecordedHost(FLEET["cpu-01"]().document()), "node")
    assert document["recorded_by"] == f"rdma.fabric {galaxy['version']}"


def test_a_name_that_is_part_of_other_words_is_not_torn_out_of_them() -> None:
    tree = FLEET["egx-01"]()
    tree.files["/proc/cmdline"] = "root=/dev/mapper/ubuntu--vg-root xubuntux ubuntu ro\n"
    document = record(RecordedHost(tree.document()), "node")
    assert "ID=ubuntu" in document["files"]["/usr/lib/os-release"], "the distribution is not the host's name"
    assert document["files"]["/proc/cmdline"] == "root=/dev/mapper/node--vg-root xubuntux node ro\n"
