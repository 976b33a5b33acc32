# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver is reloaded on a booted guest with real igb cards, and its network comes back: VFs, VLAN, bond, routes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.tests.guests import nvme_over_rdma
from ansible_collections.rdma.fabric.tests.guests.disturbed import LEAVES
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from tools.checkout import CHECKOUT, COLLECTIONS

Run = Callable[[str, str], "subprocess.CompletedProcess[str]"]

GUEST = "rdma-1"
ADDRESS = "10.77.0.1"
PLACE = "/run/driver-reload"
JOURNAL = "/run/rdma-fabric-driver-reload.json"
CARD = "$(dirname $(ls -d /sys/bus/pci/drivers/igb/0000:*/sriov_totalvfs | head -1))"
# The room of the host runs there as it is: its own reading, its own operations, on the driver that the guest has.
PROGRAM = """
import sys
sys.path.insert(0, "{place}")
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveMachine
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.stack import read_snapshot
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.reload import Reload, reload_work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.execute import filled, perform
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe

machine, clock = LiveMachine(), SystemClock()
facts = gather(machine)
snapshot = read_snapshot(Probe(machine), "igb", facts["nics"], facts["netdevs"])
work = reload_work(Reload(("igb",), ("igb",)), snapshot)
for operation in work.do:
    perform(filled(operation, machine), machine, clock)
problem = work.verify(machine)
if problem:
    sys.exit(problem)
"""
SET_UP = f"""
set -e
card={CARD}
port=$(ls $card/net | head -1)
echo 2 > $card/sriov_numvfs
udevadm settle
ip link set dev $port vf 0 mac 02:00:00:00:77:01 spoofchk off
first=$(basename $(readlink -f $card/virtfn0))
echo $first > /sys/bus/pci/drivers/igbvf/unbind
echo $first > /sys/bus/pci/drivers/igbvf/bind
udevadm settle
ip link set dev $port mtu 3000
ip link set dev $port up
ip link add link $port name vlan20 type vlan id 20
ip link set dev vlan20 mtu 2000 up
ip address add 10.20.0.5/24 broadcast 10.20.0.255 dev vlan20
ip address add 10.21.0.5/24 dev $port
ip route add 10.30.0.0/16 via 10.21.0.9 dev $port metric 77
ip -6 route add fd30::/64 dev vlan20 metric 78
ip link add bond7 type bond mode active-backup
function=$(ls $card/virtfn1/net | head -1)
ip link set dev $function down
ip link set dev $function master bond7
ip link set dev bond7 up
"""
CLEAN_UP = f"""
card={CARD}
ip route del 10.30.0.0/16
ip link del bond7
ip link del vlan20
port=$(ls $card/net | head -1)
ip address del 10.21.0.5/24 dev $port
ip link set dev $port mtu 1500
echo 0 > $card/sriov_numvfs
echo 1 > $card/sriov_drivers_autoprobe
modprobe -r bonding
rm -rf {PLACE} {JOURNAL}
rdma link show rxe0/1 >/dev/null 2>&1 || rdma link add rxe0 type rxe netdev $port # soft RDMA goes with its interface
true
"""


def answer(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


@pytest.fixture
def room(lab: Path, run: Run) -> Callable[[], subprocess.CompletedProcess[str]]:
    """Bring the room's code to the guest; return what reloads igb there."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for inside in ("plugins/module_utils/_host", *LEAVES):
            archive.add(CHECKOUT / inside, f"ansible_collections/rdma/fabric/{inside}")
    argv = ssh_argv(lab, GUEST, [f"mkdir -p {PLACE} && tar -x -C {PLACE}"])
    subprocess.run(argv, input=packed.getvalue(), check=True, timeout=120)
    argv = ssh_argv(lab, GUEST, ["python3 -"])
    program = PROGRAM.format(place=PLACE)
    return lambda: subprocess.run(argv, input=program, check=False, capture_output=True, text=True, timeout=600)


def network(run: Run) -> dict[str, Any]:
    """Everything of the guest's network that a reload takes away, without what the kernel numbers anew."""
    links = json.loads(answer(run(GUEST, "ip -json -details address show")))
    kept = ("mtu", "address", "master", "link", "vfinfo_list")
    shown = {
        entry["ifname"]: {
            **{key: entry.get(key) for key in kept},
            "up": "UP" in entry["flags"],
            "addresses": sorted(a["local"] for a in entry["addr_info"] if a["scope"] == "global"),
        }
        for entry in links
    }
    routes = json.loads(answer(run(GUEST, "ip -json route show"))) + json.loads(
        answer(run(GUEST, "ip -json -6 route show"))
    )
    lasting = [route for route in routes if route.get("protocol") != "kernel"]
    keys = ("dst", "gateway", "dev", "metric")
    return {"links": shown, "routes": sorted(str({key: route.get(key) for key in keys}) for route in lasting)}


def test_the_network_survives_a_reload_of_its_driver(
    run: Run, room: Callable[[], subprocess.CompletedProcess[str]]
) -> None:
    try:
        answer(run(GUEST, SET_UP))
        before = network(run)
        index = answer(run(GUEST, f"cat {CARD}/net/*/ifindex"))
        answer(room())
        assert answer(run(GUEST, f"cat {CARD}/net/*/ifindex")) != index, "igb was not reloaded"
        after = network(run)
        assert after["routes"] == before["routes"]
        assert after["links"] == before["links"]
        answer(run(GUEST, f"test ! -e {JOURNAL}"))
    finally:
        run(GUEST, CLEAN_UP)


@pytest.fixture
def module(lab: Path) -> Callable[..., dict[str, Any]]:
    """Run a module of the collection on the guest; return its result."""

    def on_guest(name: str, **arguments: Any) -> dict[str, Any]:
        argv = [str(Path(sys.executable).with_name("ansible")), "-i", str(lab / "inventory.yml"), GUEST]
        done = subprocess.run(
            [*argv, "-m", f"rdma.fabric.{name}", *(["-a", json.dumps(arguments)] if arguments else [])],
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
                "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
                "ANSIBLE_NOCOLOR": "1",
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.stdout, done.stderr
        output = json.loads("{" + f"\n{done.stdout}".split("\n{\n", 1)[1])
        result: dict[str, Any] = output["plays"][0]["tasks"][0]["hosts"][GUEST]
        return result

    return on_guest


def test_a_program_with_an_open_verbs_device_and_a_mounted_disk_are_named(
    run: Run, module: Callable[..., dict[str, Any]]
) -> None:
    answer(run(GUEST, f"mkdir {PLACE}; {nvme_over_rdma.mount(PLACE, ADDRESS)}"))
    pid = answer(run(GUEST, nvme_over_rdma.open_verbs("rxe0"))).strip()
    try:
        blockers = {each["name"]: each["text"] for each in module("mofed_driver_info")["summary"]["reload_blockers"]}
        assert f"{nvme_over_rdma.PROGRAM} (pid {pid}) has /dev/infiniband/uverbs0 open" in blockers.values()
        assert f"{PLACE}/mounted" in blockers["nvme_rdma"]
        assert "rdma_rxe" in blockers
    finally:
        answer(run(GUEST, f"kill {pid}; {nvme_over_rdma.unmount(PLACE)} rmdir {PLACE}"))


def test_the_inbox_driver_is_loaded_now_and_at_boot_and_given_back(
    run: Run, module: Callable[..., dict[str, Any]]
) -> None:
    listed = "/etc/modules-load.d/rdma-fabric-driver.conf"
    try:
        first = module("mofed_driver", flavour="inbox")
        assert (first["changed"], first.get("failed")) == (True, None), first["msg"]
        assert answer(run(GUEST, "cat /sys/module/mlx5_core/refcnt"))
        state = module("mofed_driver_info")
        assert state["summary"]["running"]["flavour"] == "inbox"
        # Debian's kernels have no srcversion: the build id in the packed file on the disk tells.
        assert state["driver"]["on_disk"]["mlx5_core"]["build_id"]
        assert state["summary"]["runs_what_is_installed"] is True
        assert module("mofed_driver", flavour="inbox")["changed"] is False
        answer(run(GUEST, f"systemd-analyze cat-config modules-load.d | grep mlx5_ib && test -e {listed}"))
        assert module("mofed_driver", state="absent")["changed"] is True
        answer(run(GUEST, f"test ! -e {listed}"))
    finally:
        run(GUEST, f"rm -f {listed}; modprobe -r mlx5_ib mlx5_core")
