# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three booted guests on two rails, what is done to their fabric, and runs of ``verify`` on it.

A rail's wires end in a hub, where nobody could speak for it: an lldpd on the guests whose cables are never moved speaks
for the leaf. Every guest has an lldpd of its own, which listens.
"""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping

import yaml

from ansible_collections.rdma.fabric.tests.guests.installed import install
from ansible_collections.rdma.fabric.tests.guests.pods import (
    READY_SECONDS,
    TEST_PODS,
    Json,
    items,
    kubectl,
    on_guest,
    until,
)
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.lab import POLICY
from ansible_collections.rdma.fabric.tests.lab.guests.layout import card_name, monitor_socket
from ansible_collections.rdma.fabric.tests.lab.guests.monitor import execute, set_link
from ansible_collections.rdma.fabric.tests.lab.guests.packages import gather_packages
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error

CARDS = ("enp1s0", "enp2s0")
NETWORKS = ("default/rail0", "default/rail1")
RESOURCES = ("rdma/rail0", "rdma/rail1")
LEAVES = ("leaf-1", "leaf-2")
DEVICES = 63
HUB, MOVED, LAST = "rdma-1", "rdma-2", "rdma-3"
WIRE = MOVED.rpartition("-")[2]
RUN_SECONDS = 3000.0
# Of a slot a test has a fifth; a pair takes half a minute on guests that others beside them slow down.
SLOT_SECONDS = 120
# Ends once a pod of a guest tests, with the processes of that pod.
TESTING = (
    "until tested=$(pgrep -nx ib_write_bw) && "
    "pids=$(cat /sys/fs/cgroup$(cut -d: -f3- /proc/$tested/cgroup)/cgroup.procs) || ((SECONDS > 1200)); "
    'do sleep 0.3; done; [ -n "$pids" ]'
)
CONTAINER_SPECIFICATION = "/etc/containerd/base-spec.json"
KINDS_OF_GIDS = "/sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/types"


def variables() -> dict[str, Any]:
    """Give what the lab's own inventory has for one rail, for two."""
    own = yaml.safe_load((POLICY / "all.yml").read_text(encoding="utf-8"))
    policy, network = own["rdma_fabric_nic_cluster_policy"], own["rdma_fabric_macvlan_networks"]["rdma-shared"]
    shared = [
        {"resourceName": resource.partition("/")[2], "rdmaHcaMax": DEVICES, "selectors": {"ifNames": [card]}}
        for resource, card in zip(RESOURCES, CARDS)
    ]
    config = json.dumps({"periodicUpdateInterval": 300, "configList": shared})
    ranges = [json.dumps({"type": "whereabouts", "range": f"192.168.21{rail}.0/24"}) for rail in range(len(CARDS))]
    return {
        "rdma_fabric_interfaces": [{"current_name": card, "mtu": network["mtu"], "state": "up"} for card in CARDS],
        "rdma_fabric_nic_cluster_policy": {
            "rdmaSharedDevicePlugin": {"config": config},
            "secondaryNetwork": policy["secondaryNetwork"],
        },
        "rdma_fabric_macvlan_networks": {
            name.partition("/")[2]: {**network, "master": card, "ipam": ipam}
            for name, card, ipam in zip(NETWORKS, CARDS, ranges)
        },
        "rdma_fabric_host_device_networks": {},
        "rdma_fabric_verify_resources": {},
    }


def tell_cabling(lab: Lab, folder: Path) -> None:
    """Have leaves tell who they are, and every guest listen to them."""
    archives = gather_packages(("lldpd",), os.environ, to_standard_error)
    listens = folder / "listens.conf"
    listens.write_text("configure lldp status rx-only\n", encoding="ascii")
    files = {"etc/lldpd.d/listens.conf": listens}
    for leaf, card in zip(LEAVES, CARDS):
        speaks = [f"system hostname {leaf}", "lldp status tx-only", "lldp tx-interval 10"]
        speaks += [f"ports {card} lldp portidsubtype local swp1"]
        path = folder / f"{leaf}.conf"
        path.write_text("".join(f"configure {each}\n" for each in speaks), encoding="ascii")
        files[f"etc/{leaf}.conf"] = path
    install(lab.directory, lab.guests, archives, files)
    for guest in (HUB, LAST):
        for leaf, card in zip(LEAVES, CARDS):
            program = f"lldpd -d -u /run/{leaf}.socket -I {card} -O /etc/{leaf}.conf"
            on_guest(lab, guest, f"systemd-run --unit={leaf} {program}")
    for guest in lab.guests:
        await_cabling(lab, guest, LEAVES)


def await_cabling(lab: Lab, guest: str, leaves: tuple[str, ...]) -> None:
    """Wait until the lldpd of a guest has these leaves at its cards, and no other."""
    wanted = sorted(f"lldp.{card}.chassis.name={leaf}" for card, leaf in zip(CARDS, leaves))

    def told() -> list[str]:
        lines = on_guest(lab, guest, "lldpctl -f keyvalue").splitlines()
        return sorted({line for line in lines if ".chassis.name=" in line})

    until(lambda: told() == wanted, READY_SECONDS, lambda: f"{guest}: {told()}")


@contextmanager
def done_to(lab: Lab, guest: str, fault: str, remedy: str) -> Iterator[None]:
    """Have a guest bad by one shell command and good again by another."""
    on_guest(lab, guest, fault)
    try:
        yield
    finally:
        on_guest(lab, guest, remedy)


@contextmanager
def pulled_wire(lab: Lab, rail: int) -> Iterator[None]:
    """Have a wire of a guest pulled: out of the hub, too, whose QEMU else stands still when the wire is full."""
    ends = ((HUB, f"rail{rail}-{WIRE}-hub"), (MOVED, card_name(rail)))
    for guest, end in ends:
        set_link(lab.directory / monitor_socket(guest), end, up=False)
    try:
        yield
    finally:
        for guest, end in ends:
            set_link(lab.directory / monitor_socket(guest), end, up=True)


@contextmanager
def crossed_cables(lab: Lab) -> Iterator[None]:
    """Have the cables of one guest's cards in the hubs of each other's rails."""
    _plug(lab, (1, 0))
    try:
        await_cabling(lab, MOVED, LEAVES[::-1])
        yield
    finally:
        _plug(lab, (0, 1))
        await_cabling(lab, MOVED, LEAVES)


def _plug(lab: Lab, hubs: tuple[int, int]) -> None:
    """Plug the wires of the guest's cards, by rail, into these hubs, which its neighbour's QEMU has."""
    monitor = lab.directory / monitor_socket(HUB)
    ports = {rail: f"rail{rail}-{WIRE}-hub" for rail in range(len(hubs))}
    for port in ports.values():
        execute(monitor, "netdev_del", {"id": port})
    for rail, port in ports.items():
        plugged = {"type": "hubport", "id": port, "hubid": hubs[rail], "netdev": f"rail{rail}-{WIRE}"}
        execute(monitor, "netdev_add", plugged)


def small_frames_only(card: str) -> tuple[str, str]:
    """Give what lets no large frame reach a card, as a switch with too small an MTU before it, and what ends that."""
    rules = f"chain small {{ type filter hook ingress device {card} priority 0; meta length gt 1600 drop; }}"
    return f"nft 'table netdev hop {{ {rules}; }}'", "nft delete table netdev hop"


def other_kind_of_gids() -> tuple[str, str]:
    """Give what makes GIDs in the next containers be of RoCE v1, which soft RDMA has not, and what ends that.

    A stand-in: a file lies over what the kernel says of each of the first GIDs of the first rail's device.
    """
    change = (
        f'import json; path = "{CONTAINER_SPECIFICATION}"; spec = json.load(open(path)); spec["mounts"] += '
        '[{"type": "bind", "source": "/run/kind", "options": ["bind", "ro"], "destination": '
        f'"{KINDS_OF_GIDS}/%d" % slot}} for slot in range(4)]; json.dump(spec, open(path, "w"))'
    )
    kept, again = f"{CONTAINER_SPECIFICATION}.kept", "systemctl restart containerd"
    begin = f"echo 'IB/RoCE v1' >/run/kind && cp {CONTAINER_SPECIFICATION} {kept} && python3 -c '{change}' && {again}"
    return begin, f"mv {kept} {CONTAINER_SPECIFICATION} && {again}"


def stop_the_pod(lab: Lab, guest: str) -> None:
    """Stop all processes of a guest's test pod, once it tests."""
    _once_it_tests(lab, guest, "kill -STOP $pids")


def evict_the_pod(lab: Lab, guest: str) -> None:
    """Evict a guest's test pod as a drain does, once it tests."""
    _once_it_tests(lab, guest, "true")
    (pod,) = items(lab, "pods", "-A", f"--selector={TEST_PODS}", f"--field-selector=spec.nodeName={guest}")
    about = {key: pod["metadata"][key] for key in ("name", "namespace")}
    body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about})
    path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/eviction"
    kubectl(lab, "create", f"--raw={path}", "--filename=-", stdin=body)


def _once_it_tests(lab: Lab, guest: str, command: str) -> None:
    done = lab.ssh(guest, f"{TESTING} && {command}", timeout=RUN_SECONDS)
    assert done.returncode == 0, done.stderr


class Verifier:
    """Somebody who runs ``verify`` on some of the networks."""

    def __init__(self, lab: Lab, user: User) -> None:
        self.lab, self.user = lab, user

    def run(self, *networks: str) -> tuple[Outcome, Json]:
        """Run the playbook; return how it ended and the document that it wrote."""
        asked = _asked(networks)
        outcome = self.user.run("verify", inventory=self.lab.inventory, variables=asked, seconds=RUN_SECONDS)
        path = self.user.here / "rdma-fabric-run" / "verify.json"
        assert path.exists(), outcome.output
        document: Json = json.loads(path.read_text(encoding="utf-8"))
        return outcome, document

    def run_while(self, disturb: Any, guest: str, *networks: str) -> tuple[Outcome, Json]:
        """Run the playbook while a guest is disturbed."""
        with ThreadPoolExecutor(1) as pool:
            disturbing = pool.submit(disturb, self.lab, guest)
            found = self.run(*networks)
            disturbing.result()
        return found

    def run_until_killed(self, guest: str, *networks: str) -> None:
        """Run the playbook, and kill it once a guest's pod tests."""
        with self.user.start("verify", inventory=self.lab.inventory, variables=_asked(networks)) as process:
            try:
                _once_it_tests(self.lab, guest, "true")
            finally:
                os.killpg(process.pid, signal.SIGKILL)

    def pods(self) -> list[str]:
        """Return the test pods that are in the cluster."""
        return kubectl(self.lab, "get", "pods", "-A", "-l", TEST_PODS, "-o", "name").split()


def _asked(networks: tuple[str, ...]) -> Mapping[str, Any]:
    given = {"networks": list(networks), "cabling": "told", "timeout": 900, "test_timeout": SLOT_SECONDS}
    return {**variables(), **{f"rdma_fabric_verify_{name}": value for name, value in given.items()}}
