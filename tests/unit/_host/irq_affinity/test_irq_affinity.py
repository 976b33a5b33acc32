# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts of NICs on CPUs: placed, kept over a boot and from irqbalance, refused, disturbed, brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._cpu_lists import list_of_cpus
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import orphaned
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import PutFile
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.queues import DROP_IN
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import IRQBALANCE_SCRIPT
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, NETDEVS, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import irq, queues
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import booted, the_step, wish

OURS = ("naming", "queues", "irqbalance", "irq_affinity", "leftovers")
APPLY: Run = replace(igb.APPLY, concerns=OURS)
REMOVE: Run = replace(igb.REMOVE, concerns=OURS)
EVERY: Run = replace(APPLY, concerns=ORDER)
STEP = f"irq_affinity:{PF}"
NEAR = ["0", "1", "2", "3", "8"]
BEFORE = [irq.ALL] * 5


def host(*, irqbalance: bool = False) -> Kernel:
    kernel = booted()
    irq.install(kernel, PF)
    queues.install(kernel, NETDEVS[ETHERNET])
    if irqbalance:
        irq.install_irqbalance(kernel)
    return kernel


def done(kernel: Kernel, desired: Any, run: Run = APPLY) -> Any:
    return mlx5.done(kernel, desired, run)


def applied(kernel: Kernel, desired: Any) -> Any:
    return mlx5.applied(kernel, desired, APPLY)


def near(**entry: Any) -> Any:
    return wish(irq_affinity="local_node", **entry)


def planned(kernel: Kernel, desired: Any, step_id: str) -> Any:
    return the_step(preview(kernel, desired, replace(igb.CHECK, concerns=ORDER), None), step_id)


class TestPlacing:
    def test_interrupts_take_the_cpus_of_the_node_in_turn_once(self) -> None:
        kernel = host()
        step = planned(kernel, near(), STEP)
        done(kernel, near())
        assert (step["action"], step["interrupts"]) == ("put its interrupts in turn on CPUs 0-3,8-11", "nothing")
        assert irq.placed(kernel, PF) == NEAR
        assert (applied(kernel, near())["plan"]["steps"], kernel.mutations) == ([], [])

    def test_a_vector_that_the_driver_does_not_use_is_left_alone(self) -> None:
        kernel = host()
        done(kernel, near())
        assert kernel.read("/proc/irq/41/smp_affinity_list") == f"{irq.ALL}\n"

    def test_a_list_of_cpus_starts_again_when_it_ends(self) -> None:
        kernel = host()
        done(kernel, wish(irq_affinity="4-5, 12"))
        assert irq.placed(kernel, PF) == ["4", "5", "12", "4", "5"]

    def test_isolated_cpus_are_kept_free_unless_they_are_listed(self) -> None:
        kernel = host()
        kernel.tree.add_file(f"{irq.CPU}/isolated", "1-3\n")
        done(kernel, near())
        assert irq.placed(kernel, PF) == ["0", "8", "9", "10", "11"]
        done(kernel, wish(irq_affinity="2"))
        assert irq.placed(kernel, PF) == ["2"] * 5

    def test_interrupts_that_the_same_run_renews_are_placed_too(self) -> None:
        kernel = host()
        done(kernel, near())
        done(kernel, near(queues={"channels": 8}))
        assert "42" in kernel.list(f"{irq.PCI}/{PF}/msi_irqs")
        assert irq.placed(kernel, PF) == NEAR
        assert applied(kernel, near(queues={"channels": 8}))["plan"]["steps"] == []

    def test_interrupts_that_a_link_gets_when_it_comes_up_are_placed_in_the_same_run(self) -> None:
        kernel = booted()
        irq.install(kernel, PF, count=0)
        queues.install(kernel, NETDEVS[ETHERNET])
        assert planned(kernel, near(queues={"channels": 8}), STEP)["status"] == "planned"

    def test_a_managed_interrupt_is_told_and_what_was_done_is_taken_back(self) -> None:
        kernel = host()
        kernel.tree.add_file(irq.MANAGED, "38\n")
        outcome = applied(kernel, near())
        assert (
            outcome["failed"] and "a managed interrupt" in outcome["msg"] and "leave irq_affinity out" in outcome["msg"]
        )
        assert irq.placed(kernel, PF) == BEFORE

    def test_a_cpu_that_still_serves_an_interrupt_is_told_and_fails_nothing(self) -> None:
        kernel = host()
        done(kernel, near())
        kernel.tree.add_file("/proc/irq/37/effective_affinity_list", "7\n")
        outcome = done(kernel, near())
        assert not outcome["changed"]
        assert any("serve the interrupts 37 (CPU 7)" in notice for notice in outcome["plan"]["notices"])

    def test_removal_brings_the_former_cpus_back(self) -> None:
        kernel = host()
        kernel.tree.add_file("/proc/irq/38/smp_affinity_list", "7\n")
        for asked in ("local_node", "4-5"):
            done(kernel, wish(irq_affinity=asked))
        done(kernel, wish(), REMOVE)
        assert irq.placed(kernel, PF) == [irq.ALL, irq.ALL, "7", irq.ALL, irq.ALL]


class TestRefusals:
    def refusal(self, kernel: Kernel, desired: Any) -> str:
        step = the_step(applied(kernel, desired), STEP)
        assert (step["status"], kernel.mutations) == ("refused", [])
        return str(step["detail"])

    def test_cpus_that_are_not_online(self) -> None:
        assert "CPUs 16-17 are not online here (0-15)" in self.refusal(host(), wish(irq_affinity="15-17"))

    def test_no_node(self) -> None:
        kernel = host()
        kernel.tree.add_file(f"{irq.PCI}/{PF}/numa_node", "-1\n")
        kernel.tree.add_dir("/sys/devices/system/node/node0")
        kernel.tree.add_dir("/sys/devices/system/node/node1")
        for node in (0, 1):
            kernel.tree.add_file(f"/sys/devices/system/node/node{node}/cpulist", f"{node * 8}-{node * 8 + 7}\n")
        assert "the firmware does not tell its NUMA node" in self.refusal(kernel, near())

    def test_a_node_without_a_free_cpu(self) -> None:
        kernel = host()
        kernel.tree.add_file(f"{irq.CPU}/isolated", f"{irq.NEAR}\n")
        assert "not isolated (isolcpus)" in self.refusal(kernel, near())

    def test_a_driver_without_interrupts(self) -> None:
        assert "uses no interrupts" in self.refusal(booted(), near())


class TestIrqbalance:
    def command(self, kernel: Kernel) -> list[str]:
        return kernel.read(irq.PROCESS).rstrip("\0").split("\0")

    def test_it_asks_a_script_of_ours_and_keeps_its_own_arguments(self) -> None:
        kernel = host(irqbalance=True)
        done(kernel, near())
        option = self.command(kernel)[-1]
        script = option.partition("=")[2]
        assert (option[:15], script[: len(IRQBALANCE_SCRIPT)]) == ("--policyscript=", IRQBALANCE_SCRIPT)
        assert f'case "$1" in\n*/{PF}) echo ban=true ;;\nesac\n' in kernel.read(script)
        assert f"ExecStart=/usr/sbin/irqbalance $IRQBALANCE_ARGS {option}\n" in kernel.read(DROP_IN)
        assert applied(kernel, near())["plan"]["steps"] == []

    def test_one_that_does_not_run_is_not_started(self) -> None:
        kernel = host(irqbalance=True)
        kernel.tree.discard(irq.PROCESS)
        done(kernel, near())
        assert kernel.exists(DROP_IN) and not kernel.exists(irq.PROCESS)

    def test_a_run_that_was_killed_before_it_read_its_files_is_made_up_for(self) -> None:
        kernel = host(irqbalance=True)
        former = kernel.read(irq.PROCESS)
        done(kernel, near())
        kernel.tree.add_file(irq.PROCESS, former)
        done(kernel, near())
        assert IRQBALANCE_SCRIPT in kernel.read(irq.PROCESS)

    def test_a_script_of_its_own_is_left_alone(self) -> None:
        kernel = booted()
        irq.install(kernel, PF)
        irq.install_irqbalance(kernel, "--policyscript=/etc/irq-policy.sh")
        outcome = applied(kernel, near())
        assert "a policy script already (/etc/irq-policy.sh)" in outcome["msg"]
        assert not kernel.exists(DROP_IN)

    def test_where_selinux_lets_it_run_no_script_it_must_not_run(self) -> None:
        """fedora-selinux/selinux-policy, issue 1582: irqbalance then takes no policy, and moves the interrupts."""
        kernel = host(irqbalance=True)
        kernel.tree.add_file("/sys/fs/selinux/enforce", "1")
        wants = f"{irq.UNIT.replace('/usr/lib', '/etc').rpartition('/')[0]}/multi-user.target.wants/irqbalance.service"
        kernel.tree.add_file(wants, "")
        outcome = applied(kernel, near())
        assert "SELinux lets it run no policy script" in outcome["msg"] and not kernel.exists(DROP_IN)
        kernel.tree.discard(irq.PROCESS)
        assert "systemctl disable --now irqbalance" in applied(kernel, near())["msg"]
        kernel.tree.discard(wants)
        done(kernel, near())

    def test_it_gets_its_interrupts_back(self) -> None:
        kernel = host(irqbalance=True)
        before = kernel.read(irq.PROCESS)
        done(kernel, near())
        done(kernel, wish())
        assert kernel.read(irq.PROCESS) == before
        assert not kernel.exists(DROP_IN) and not kernel.exists("/etc/rdma-fabric")

    def test_a_leftover_script_comes_back_as_one_that_can_be_executed(self) -> None:
        kernel = host(irqbalance=True)
        done(kernel, near())
        found = Context(wish(), HostState(gather(kernel, desired=wish())))
        (step,) = (one for one in orphaned.plan(found)[0] if one["target"].startswith(IRQBALANCE_SCRIPT))
        script = step["target"]
        assert orphaned.work(found, step).undo == [PutFile(script, kernel.read(script), 0o755)]

    def test_without_it_no_file_is_written(self) -> None:
        kernel = host()
        done(kernel, near())
        assert not kernel.exists(DROP_IN) and not kernel.exists("/etc/rdma-fabric")


class TestBoot:
    def test_the_boot_unit_places_them_again_and_leaves_irqbalance_alone(self) -> None:
        kernel = host(irqbalance=True)
        done(kernel, near(), EVERY)
        irq.renew(kernel, PF)
        kernel.mutations.clear()
        start(kernel, kernel)
        assert irq.placed(kernel, PF) == NEAR
        assert not [mutation for mutation in kernel.mutations if "systemctl" in mutation.what]

    def test_what_nothing_asks_for_any_more_goes_with_the_next_boot(self) -> None:
        kernel = host()
        done(kernel, near(), EVERY)
        step = planned(kernel, wish(), f"boot:{PF}:irq_affinity")
        assert "the CPUs of the interrupts" in step["action"]


class TestReading:
    def test_only_what_is_asked_for_is_read(self) -> None:
        assert gather(host(irqbalance=True), desired=wish(mtu=9000))["interrupts"] == {}

    def test_a_recorded_host_tells_them(self) -> None:
        kernel = host(irqbalance=True)
        live = gather(kernel, desired=near())["interrupts"]
        recorded = gather(RecordedHost(record(kernel, "recorded")), desired=near())["interrupts"]
        # What processes run with may be secret.
        assert live["irqbalance"] and recorded == {**live, "irqbalance": {**live["irqbalance"], "running": None}}

    def test_lists_are_written_as_the_kernel_does(self) -> None:
        assert [list_of_cpus(cpus) for cpus in ([], [3], [1, 0, 2, 8, 10, 9])] == ["", "3", "0-2,8-10"]


class TestInput:
    @pytest.mark.parametrize("given", ["local", "4-2", "0-8192", "1,,2", "-1", -1, True, [1], "0x3", ""])
    def test_what_is_no_list_of_cpus_is_refused(self, given: Any) -> None:
        found = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [{"pci": PF, "irq_affinity": given}]})[1]
        assert [violation.path for violation in found] == ["[0].irq_affinity"]

    def test_one_cpu_may_be_a_number(self) -> None:
        assert wish(irq_affinity=4)["interfaces"][0]["irq_affinity"] == "4"


def test_whatever_disturbs_a_run_the_next_one_gets_there() -> None:
    assert sweep(lambda: host(irqbalance=True), lambda kernel: applied(kernel, near()), ("EIO", "EINVAL", "EPERM")) >= 5


@pytest.mark.parametrize(
    ("section", "is_told"),
    [("[scheduler]\nisolated_cores=${isolated_cores}\n", True), ("[scheduler]\ngroup.ksoftirqd=0:f:2:*\n", False)],
)
def test_a_profile_of_tuned_that_moves_interrupts_is_told(section: str, is_told: bool) -> None:
    """profiles/cpu-partitioning and realtime of redhat-performance/tuned."""
    kernel, path = host(), "/usr/lib/tuned/cpu-partitioning/tuned.conf"
    kernel.tree.add_file(path, section)
    kernel.tree.add_file("/etc/tuned/active_profile", "cpu-partitioning\n")
    kernel.tree.add_file("/etc/systemd/system/multi-user.target.wants/tuned.service", "")
    run = replace(igb.CHECK, concerns=ORDER)
    notices = preview(kernel, near(), run, None)["plan"]["notices"]
    assert any(f"({path}): keep one" in each for each in notices) == is_told
