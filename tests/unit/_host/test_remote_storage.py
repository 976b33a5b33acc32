# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What carries a file system or swap of the host is an uplink, whichever way the storage comes."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.remote_storage import SWAPS, read_mounts
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import MOUNTS
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import public_part
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec

NONE: Mapping[str, str] = MappingProxyType({})
# As fs/proc_namespace.c writes it, with the options of fs/nfs/super.c.
LOCAL = "28 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"
OPTIONS = "rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard"
SESSION = "/sys/devices/platform/host15/session3"
ISCSI_DISK = f"{SESSION}/target15:0:0/15:0:0:1/block/sdb"
SUBSYSTEM = "/sys/devices/virtual/nvme-subsystem/nvme-subsys1"
CTL = "/sys/devices/virtual/nvme-fabrics/ctl"


def nfs(point: str, server: str, proto: str = "tcp", kind: str = "nfs4") -> str:
    options = f"{OPTIONS},proto={proto},timeo=600,retrans=2,sec=sys,clientaddr=192.0.2.9,local_lock=none,addr={server}"
    return f"90 28 0:52 / {point} rw,relatime shared:50 - {kind} filer:/export {options}\n"


def iscsi(*, own: str = "", netdev: str = "<NULL>", driver: str = "iscsi_tcp") -> tuple[dict[str, str], dict[str, str]]:
    """A session with the disk sdb, laid out as open-iscsi's own log of a host shows it (issue 73)."""
    files = {
        f"{ISCSI_DISK}/sdb1/partition": "1\n",
        "/sys/class/iscsi_session/session3/targetname": "iqn.2003-01.org.example:t\n",
        "/sys/class/iscsi_connection/connection3:0/address": "10.7.0.1\n",
        "/sys/class/iscsi_connection/connection3:0/persistent_address": "10.7.0.1\n",
        "/sys/class/iscsi_host/host15/netdev": f"{netdev}\n",
        "/sys/class/iscsi_host/host15/ipaddress": f"{own}\n",
        "/sys/class/scsi_host/host15/proc_name": f"{driver}\n",
    }
    links = {
        "/sys/dev/block/8:17": f"{ISCSI_DISK}/sdb1",
        "/sys/class/block/sdb": ISCSI_DISK,
        "/sys/class/block/sdb1": f"{ISCSI_DISK}/sdb1",
    }
    return files, links


def fabrics(address: str, transport: str = "rdma", *, multipath: bool = False) -> tuple[dict[str, str], dict[str, str]]:
    """A controller with the disk nvme1n1; the address as ``nvme list -v`` shows it of real ones (nvme-cli 3633)."""
    place = f"{SUBSYSTEM if multipath else f'{CTL}/nvme1'}/nvme1n1"
    files = {
        f"{CTL}/nvme1/transport": f"{transport}\n",
        f"{CTL}/nvme1/address": f"{address}\n",
        f"{place}/size": "8\n",
    }
    if multipath:
        files["/sys/class/nvme-subsystem/nvme-subsys1/nvme1n1/size"] = "8\n"
    links = {"/sys/dev/block/259:3": place, "/sys/class/block/nvme1n1": place}
    if multipath:
        links["/sys/class/nvme-subsystem/nvme-subsys1/nvme1"] = f"{CTL}/nvme1"
    return files, links


def host(
    mounts: str,
    more: tuple[Mapping[str, str], Mapping[str, str]] = (NONE, NONE),
    routes: Mapping[str, str] = NONE,
    addresses: Mapping[str, str] = NONE,
) -> RecordedHost:
    """Two ports of a card; ``routes`` are what ip(8) says of a server, ``addresses`` those of the interfaces."""
    files = {MOUNTS: LOCAL + mounts, **more[0]}
    links = dict(more[1])
    for number in range(2):
        device = f"/sys/devices/pci0000:00/0000:00:0{number}.0"
        files[f"{device}/uevent"] = "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\n"
        files.update({f"{device}/net/eth{number}/mtu": "1500\n", f"{device}/net/eth{number}/type": "1\n"})
        links[f"/sys/class/net/eth{number}"] = f"{device}/net/eth{number}"
        links[f"/sys/bus/pci/devices/0000:00:0{number}.0"] = device
    shown = [
        {"ifname": name, "addr_info": [{"family": "inet", "local": address}]} for address, name in addresses.items()
    ]
    commands = {"ip -json address show": {"rc": 0, "stdout": json.dumps(shown), "stderr": ""}}
    for server, name in routes.items():
        entry: dict[str, Any] = {"dst": server, "dev": name, "flags": [], "uid": 0, "cache": []}
        commands[f"ip -json route get {server}"] = {"rc": 0, "stdout": json.dumps([entry]), "stderr": ""}
    return RecordedHost({"files": files, "links": links, "commands": commands})


def uplinks(*arguments: Any, **named: Any) -> dict[str, list[str]]:
    return {entry["netdev"]: entry["reasons"] for entry in gather(host(*arguments, **named))["uplinks"]}


@pytest.mark.parametrize(
    ("mounts", "server", "reason"),
    [
        (nfs("/home", "10.7.0.1"), "10.7.0.1", "NFS mount /home"),
        (nfs("/", "10.7.0.1", kind="nfs"), "10.7.0.1", "NFS mount /"),
        (nfs("/data", "10.7.0.1", "rdma"), "10.7.0.1", "NFS over RDMA mount /data"),
        (nfs("/data", "fd00::1", "rdma6"), "fd00::1", "NFS over RDMA mount /data"),
        (nfs("/a\\040b", "10.7.0.1") + nfs("/c", "10.7.0.1"), "10.7.0.1", "NFS mounts /a b, /c"),
        ("".join(nfs(f"/m{n}", "10.7.0.1") for n in range(12)), "10.7.0.1", "NFS mounts /m0, /m1, /m2 and 9 more"),
    ],
)
def test_nfs_is_carried_by_the_route_to_its_server(mounts: str, server: str, reason: str) -> None:
    assert uplinks(mounts, routes={server: "eth1"}) == {"eth1": [reason]}


def test_without_ip_the_network_of_the_server_tells_and_else_the_default_route() -> None:
    header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    default = "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    network = "eth1\t0000070A\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0\n"
    routes = ({"/proc/net/route": header + default + network}, NONE)
    assert uplinks(nfs("/home", "10.7.0.1"), routes)["eth1"] == ["NFS mount /home"]
    assert uplinks(nfs("/home", "198.51.100.7"), routes) == {"eth0": ["default route", "NFS mount /home"]}


def test_a_server_on_this_host_needs_no_interface() -> None:
    assert uplinks(nfs("/home", "127.0.0.1")) == {}


@pytest.mark.parametrize(("driver", "over"), [("iscsi_tcp", "iSCSI"), ("iscsi_iser", "iSER")])
def test_a_disk_over_iscsi_counts_where_something_of_it_is_mounted(driver: str, over: str) -> None:
    session = iscsi(driver=driver)
    assert uplinks("", session, routes={"10.7.0.1": "eth1"}) == {}
    mounted = "36 28 8:17 / /srv rw - xfs /dev/sdb1 rw\n"
    assert uplinks(mounted, session, routes={"10.7.0.1": "eth1"}) == {"eth1": [f"{over} disk of /srv"]}


def test_a_session_bound_to_an_interface_or_an_address_is_carried_by_that() -> None:
    mounted = "36 28 8:17 / /srv rw - xfs /dev/sdb1 rw\n"
    route = {"10.7.0.1": "eth0"}
    assert set(uplinks(mounted, iscsi(netdev="eth1"), routes=route)) == {"eth1"}
    assert set(uplinks(mounted, iscsi(own="10.7.0.9"), routes=route, addresses={"10.7.0.9": "eth1"})) == {"eth1"}


def test_swap_counts_and_so_does_what_the_device_mapper_makes_of_a_disk() -> None:
    files, links = iscsi()
    mapped = "/sys/devices/virtual/block/dm-0"
    files = {
        **files,
        SWAPS: "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-0 partition 8 0 -2\n",
        f"{mapped}/dm/name": "vg-swap\n",
    }
    links = {**links, "/sys/class/block/dm-0": mapped, f"{mapped}/slaves/sdb1": f"{ISCSI_DISK}/sdb1"}
    assert uplinks("", (files, links), routes={"10.7.0.1": "eth1"}) == {"eth1": ["iSCSI disk of swap"]}
    # btrfs tells no device but its source, which has the name that the device mapper was given.
    del files[SWAPS]
    btrfs = "40 28 0:30 /@ /srv rw - btrfs /dev/mapper/vg-swap rw\n"
    assert uplinks(btrfs, (files, links), routes={"10.7.0.1": "eth1"}) == {"eth1": ["iSCSI disk of /srv"]}


@pytest.mark.parametrize("multipath", [False, True])
@pytest.mark.parametrize("transport", ["rdma", "tcp"])
def test_a_disk_over_nvme_counts_below_its_controller_or_its_subsystem(transport: str, multipath: bool) -> None:
    more = fabrics("traddr=10.7.0.1,trsvcid=4420", transport, multipath=multipath)
    root = "28 1 259:3 / / rw - ext4 /dev/nvme1n1 rw\n"
    reason = f"NVMe/{transport.upper()} disk of /"
    assert uplinks(root, more, routes={"10.7.0.1": "eth1"}) == {"eth1": [reason]}


@pytest.mark.parametrize("bound", ["host_iface=eth1", "host_traddr=10.7.0.9", "src_addr=10.7.0.9"])
def test_a_controller_bound_to_an_interface_or_an_address_is_carried_by_that(bound: str) -> None:
    more = fabrics(f"traddr=10.7.0.1,trsvcid=4420,{bound}", "tcp")
    root = "28 1 259:3 / / rw - ext4 /dev/nvme1n1 rw\n"
    found = uplinks(root, more, routes={"10.7.0.1": "eth0"}, addresses={"10.7.0.9": "eth1"})
    assert set(found) == {"eth1"}


def test_what_carries_storage_is_not_cut_without_the_consent_to_that_and_the_plan_says_why() -> None:
    facts = gather(host(nfs("/home", "10.7.0.1"), routes={"10.7.0.1": "eth1"}))
    wanted = {"interfaces": [{"current_name": name, "mtu": 9000} for name in ("eth0", "eth1")]}
    steps = {step["id"]: step for step in make_plan(check_spec(wanted), facts)["steps"]}
    assert steps["mtu:0000:00:00.0"]["status"] == "planned"
    refused = steps["mtu:0000:00:01.0"]
    assert refused["status"] == "refused"
    assert "it carries the uplink (NFS mount /home)" in refused["detail"]
    allowed = check_spec({**wanted, "consents": {"uplink_change": True}})
    assert {step["status"] for step in make_plan(allowed, facts)["steps"]} == {"planned"}


def test_a_recording_holds_no_name_of_servers_exports_and_directories() -> None:
    text = (
        LOCAL + nfs("/home/secret-project", "10.7.0.1") + "60 28 253:1 / /var/lib rw - xfs /dev/mapper/node7-var rw\n"
    )
    kept = public_part(MOUNTS, text)
    assert kept is not None
    assert not any(word in kept for word in ("secret", "filer", "export", "node7", "clientaddr"))
    assert uplinks(kept, routes={"10.7.0.1": "eth1"}) == {"eth1": ["NFS mount /home"]}


LOCAL_NVME = "/sys/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1"
FILE_SYSTEMS = (
    "60 28 0:60 / /scratch/secret rw - lustre 192.0.2.200@o2ib:/scratch rw\n"
    "61 28 0:61 / /beegfs rw - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf\n"
)


@pytest.mark.parametrize(
    ("mounts", "more", "found"),
    [
        ("", (NONE, NONE), {}),
        (FILE_SYSTEMS, (NONE, NONE), {"beegfs": ["/beegfs"], "lustre": ["/scratch/secret"]}),
        (nfs("/home", "10.7.0.1") + nfs("/data", "10.7.0.1", "rdma"), (NONE, NONE), {"NFS over RDMA": ["/data"]}),
        ("36 28 8:17 / /srv rw - xfs /dev/sdb1 rw\n", iscsi(), {}),
        ("36 28 8:17 / /srv rw - xfs /dev/sdb1 rw\n", iscsi(driver="iscsi_iser"), {"iSER": ["/srv"]}),
        ("36 28 8:17 / /srv rw - xfs /dev/sdb1 rw\n", iscsi(driver="ib_srp"), {"ib_srp": ["/srv"]}),
        ("36 28 259:3 / /srv rw - xfs /dev/nvme1n1 rw\n", fabrics("traddr=10.7.0.1", "tcp"), {"nvme": ["/srv"]}),
        (
            "36 28 259:3 / /srv rw - xfs /dev/nvme1n1 rw\n",
            fabrics("traddr=10.7.0.1", multipath=True),
            {"NVMe/RDMA": ["/srv"], "nvme": ["/srv"]},
        ),
        # What the links do not tell, the name of the disk may.
        ("36 28 259:2 / /boot rw - ext4 /dev/nvme0n1p2 rw\n", (NONE, NONE), {"nvme": ["/boot"]}),
        (
            "36 28 147:0 / /srv rw - xfs /dev/drbd0 rw\n",
            (NONE, {"/sys/dev/block/147:0": "/sys/devices/virtual/block/drbd0"}),
            {"drbd": ["/srv"]},
        ),
    ],
)
def test_what_is_mounted_on_modules_of_the_stack_is_found_by_its_kind(
    mounts: str, more: Any, found: dict[str, list[str]]
) -> None:
    assert read_mounts(Probe(host(mounts, more))) == found
    # A recording keeps the kind of a file system, and the first directory.
    kept = read_mounts(Probe(host(public_part(MOUNTS, LOCAL + mounts) or "", more)))
    if "nvme0n1p2" not in mounts:
        assert kept == {kind: [point.replace("/secret", "") for point in points] for kind, points in found.items()}


def test_swap_on_a_disk_below_the_device_mapper_counts() -> None:
    mapped = "/sys/devices/virtual/block/dm-0"
    files = {SWAPS: "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-0 partition 8 0 -2\n", f"{LOCAL_NVME}/size": "8\n"}
    links = {
        "/sys/class/block/dm-0": mapped,
        f"{mapped}/slaves/nvme0n1": LOCAL_NVME,
        "/sys/class/block/nvme0n1": LOCAL_NVME,
    }
    assert read_mounts(Probe(host("", (files, links)))) == {"nvme": ["swap"]}
