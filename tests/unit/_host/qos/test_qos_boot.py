# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of RoCE QoS the boot unit makes again, and what is made when a soft RDMA device appears."""

from __future__ import annotations

import json
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.qos.settings import RULES_FILE, UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_ID, BOOT_SPEC_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import Outcome, set_devices_up, start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import eui64, ipv4_gid
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Model, Netdev, Port
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import MAC, PF, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel import qos
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.qos.hosts import (
    CONNECTX7,
    DEVICE,
    INBOX,
    LOSSLESS,
    OF_VENDOR,
    PORT,
    TREES,
    host,
    state_of,
    wish,
)

CONCERNS = ("qos", "boot", "leftovers")
APPLY = Run(check=False, diff=True, mode="apply", recorded=False, concerns=CONCERNS)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent", concerns=CONCERNS)
BOND = "/sys/devices/virtual/net/bond0"
TOS = f"{qos.RDMA_CM}/rxe0/ports/1/default_roce_tos"


def applied(kernel: Kernel, desired: HostSpec, run: Run = APPLY) -> Mapping[str, Any]:
    return apply(kernel, desired, run, None, kernel)


def wishes(kernel: Kernel) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kernel.read(BOOT_SPEC_FILE))["interfaces"]
    return found


def guest(device: str = "rxe0") -> Kernel:
    """A guest with an igb port that a soft RDMA device stands on."""
    kernel = igb.booted()
    kernel.tree.add_file(BOOT_ID, "5f2a\n")
    qos.add_soft_device(kernel, device, "enp1s0f0")
    return kernel


def with_tos(kernel: Kernel, tos: int = 106) -> Mapping[str, Any]:
    return applied(kernel, igb.wish({"pci": igb.PF, "qos": {"tos": tos}}))


def rebooted(kernel: Kernel) -> Kernel:
    kernel.revive()
    kernel.tree.discard(qos.RDMA_CM)
    kernel.tree.discard("/stand-in")
    kernel.tree.discard("/sys/class/infiniband/rxe0")
    return kernel


class TestCards:
    @pytest.mark.parametrize("tree", TREES)
    def test_a_start_of_the_host_brings_all_of_it_back(self, tree: str) -> None:
        kernel = host(tree)
        settings = LOSSLESS if tree == INBOX else {**LOSSLESS, **OF_VENDOR}
        outcome = applied(kernel, wish(settings))
        assert not outcome.get("failed"), outcome["msg"]
        configured = state_of(kernel)
        kernel.revive()
        qos.reboot(kernel, PORT, DEVICE)
        assert state_of(kernel) != configured
        result = start(kernel, kernel)
        assert result.problems == ()
        assert state_of(kernel) == configured

    def test_settings_of_the_host_are_kept_for_each_interface(self) -> None:
        kernel = host()
        applied(kernel, wish({"tos": 104}, rdma_fabric_roce_qos={"trust": "dscp", "pfc": [3], "tos": 106}))
        assert wishes(kernel) == [{"pci": PF, "qos": {"trust": "dscp", "pfc": [3], "tos": 104}}]

    def test_what_is_refused_is_not_tried_at_boot_either(self) -> None:
        kernel = host()
        applied(kernel, wish({"traffic_class": 106, "tos": 106}))
        assert wishes(kernel) == [{"pci": PF, "qos": {"tos": 106}}]

    def test_a_card_is_waited_for_until_it_has_its_rdma_device(self) -> None:
        kernel = host()
        applied(kernel, wish({"tos": 106}))
        kernel.revive()
        began = kernel.now()
        place = f"/sys/bus/pci/devices/{PF}/infiniband"
        kernel.tree.discard(place)
        kernel.later(20, lambda: kernel.tree.add_dir(f"{place}/{DEVICE}"))
        assert start(kernel, kernel).problems == ()
        assert kernel.now() - began >= 20

    def test_a_card_without_rdma_is_told_after_its_time(self) -> None:
        kernel = host()
        applied(kernel, wish({"tos": 106}))
        kernel.revive()
        kernel.tree.discard(f"/sys/bus/pci/devices/{PF}/infiniband")
        assert f"{PF}: it has no RDMA device after 90 seconds" in start(kernel, kernel).problems


class TestBonds:
    def bonded(self) -> Kernel:
        """A host whose bond has taken the RDMA device of its port away and brought its own."""
        tree = host_with(CONNECTX7)
        tree.interface(BOND, Netdev("bond0", MAC, extra={"uevent": "DEVTYPE=bond"}))
        port = f"{tree.place(PF)}/net/{PORT}"
        tree.links.update({f"{port}/master": BOND, f"{port}/upper_bond0": BOND, f"{BOND}/lower_{PORT}": port})
        del tree.links[f"/sys/class/infiniband/{DEVICE}"]
        for known in (tree.files, tree.links, tree.errors):
            for path in [path for path in known if path.startswith(f"{tree.place(PF)}/infiniband/")]:
                del known[path]
        gids = ((ipv4_gid("10.1.0.11"), "RoCE v2", "bond0"),)
        model = Model(CONNECTX7.firmware, "", CONNECTX7.hca)
        tree.hca(PF, "mlx5_bond_0", eui64(MAC), model, Port(link_layer="Ethernet", gids=gids))
        kernel = Kernel(tree.document())
        qos.add_dcb(kernel, PORT)
        return kernel

    def test_its_device_is_set_up_whenever_it_appears_because_the_boot_unit_comes_before_it(self) -> None:
        kernel = self.bonded()
        outcome = applied(kernel, wish({"tos": 106}))
        assert not outcome.get("failed"), outcome["msg"]
        tos = f"{qos.RDMA_CM}/mlx5_bond_0/ports/1/default_roce_tos"
        assert kernel.read(tos) == "106\n"
        assert 'SUBSYSTEM=="infiniband", KERNEL=="mlx5_bond_*", TAG+="systemd"' in kernel.read(RULES_FILE)
        kernel.revive()
        qos.reboot(kernel, PORT, "mlx5_bond_0")
        result = set_devices_up(kernel, kernel)
        assert (len(result.executed), result.problems) == (1, ())
        assert kernel.read(tos) == "106\n"

    def test_a_bond_without_settings_of_its_device_needs_no_rule(self) -> None:
        kernel = self.bonded()
        applied(kernel, wish({"trust": "dscp"}))
        assert not kernel.exists(RULES_FILE)


class TestSoftDevices:
    def test_it_is_set_now_and_whenever_the_device_appears(self) -> None:
        kernel = guest()
        outcome = with_tos(kernel)
        assert not outcome.get("failed"), outcome["msg"]
        assert kernel.read(TOS) == "106\n"
        assert (
            'ACTION=="add", SUBSYSTEM=="infiniband", KERNEL=="rxe0", TAG+="systemd", '
            'ENV{SYSTEMD_WANTS}+="rdma-fabric-devices.service"\n' in kernel.read(RULES_FILE)
        )
        assert f"{program_path()} devices\n" in kernel.read(UNIT_FILE)

    def test_a_name_with_a_meaning_for_udev_stays_a_pattern(self) -> None:
        kernel = guest('x", RUN+="sh -c id|*')
        outcome = with_tos(kernel)
        assert not outcome.get("failed"), outcome["msg"]
        (rule,) = kernel.read(RULES_FILE).splitlines()[1:]
        assert rule == (
            'ACTION=="add", SUBSYSTEM=="infiniband", KERNEL=="x???RUN???sh?-c?id??", TAG+="systemd", '
            'ENV{SYSTEMD_WANTS}+="rdma-fabric-devices.service"'
        )

    def test_the_start_of_the_host_does_not_wait_for_it(self) -> None:
        kernel = guest()
        with_tos(kernel)
        rebooted(kernel)
        began = kernel.now()
        assert start(kernel, kernel) == Outcome((), ())
        assert kernel.now() == began

    def test_it_is_set_when_the_device_appears_after_a_reboot(self) -> None:
        kernel = guest()
        with_tos(kernel)
        rebooted(kernel)
        start(kernel, kernel)
        qos.add_soft_device(kernel, "rxe0", "enp1s0f0")
        result = set_devices_up(kernel, kernel)
        assert (len(result.executed), result.problems) == (1, ())
        assert kernel.read(TOS) == "106\n"

    def test_a_second_run_writes_nothing(self) -> None:
        kernel = guest()
        with_tos(kernel)
        kernel.revive()
        assert (with_tos(kernel)["changed"], kernel.mutations) == (False, [])

    def test_all_of_it_goes(self) -> None:
        kernel = guest()
        with_tos(kernel)
        outcome = applied(kernel, igb.wish(), REMOVE)
        assert not outcome.get("failed"), outcome["msg"]
        assert not any(map(kernel.exists, (UNIT_FILE, RULES_FILE, BOOT_SPEC_FILE, TOS)))
        assert kernel.read(qos.tos_memory("rxe0")) == "0\n"

    @pytest.mark.slow
    def test_every_disturbance_is_healed_by_the_next_run(self) -> None:
        assert sweep(guest, with_tos, ("EIO",)) >= 10

    def test_a_card_with_rdma_of_its_own_needs_no_rule(self) -> None:
        kernel = host()
        applied(kernel, wish({"tos": 106}))
        assert not kernel.exists(RULES_FILE)
