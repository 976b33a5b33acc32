# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever uses an RDMA device is named before any step that takes it away, and asked about: every concern, so that a
new one has to be entered here."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import Any, Callable, Mapping, NamedTuple

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import users
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import MOUNTS, CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import SAME, judge, seal
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS, check_spec
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import roce
from ansible_collections.rdma.fabric.tests.unit._host import mlx5
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import RELEASE, driver_host
from ansible_collections.rdma.fabric.tests.unit._host.families import INFINIBAND, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.test_facts_variants import RAIL0, bonded, joined

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
RELOAD = CONSENTS["driver_reload"]
JOB = "python3 (pid 7777)"
UNTOLD = "(it can't be told on which RDMA device)"
RESOURCES = "rdma -j resource show"
# The RDMA device of the port, and that of its first InfiniBand function.
DEVICE, OF_FUNCTION = "rocep24s0f0", "ibp24s0f2"
PORTS = ("0000:aa:00.0", "0000:aa:00.1")


def job(kernel: Kernel, device: str | None, entry: str = "uverbs0") -> None:
    """Let a program have an RDMA device open, by default one that nothing in sysfs tells."""
    if device is not None:
        kernel.tree.add_file(f"/sys/class/infiniband_verbs/{entry}/ibdev", f"{device}\n")
    kernel.tree.add_file("/proc/7777/comm", "python3\n")
    kernel.tree.add_link("/proc/7777/fd/12", f"/dev/infiniband/{entry}")
    kernel.tree.add_link("/proc/7777/fd/13", "/dev/infiniband/rdma_cm")


def mount(kernel: Kernel, own: str) -> None:
    """Mount a disk of NVMe over RDMA, as the class of controllers and mountinfo show it."""
    kernel.tree.add_file("/sys/class/nvme/nvme9/transport", "rdma\n")
    kernel.tree.add_file("/sys/class/nvme/nvme9/address", f"traddr=10.1.2.200,trsvcid=4420,src_addr={own}\n")
    kernel.tree.add_file(MOUNTS, "60 24 259:9 / /data rw,relatime - xfs /dev/nvme9n1 rw\n")


def wish(consents: tuple[str, ...] = (), **entry: Any) -> Any:
    return check_spec({"interfaces": [{"pci": PF, **entry}], "consents": dict.fromkeys(consents, True)})


def steps(kernel: Kernel, desired: Any) -> dict[str, Any]:
    return {step["id"]: step for step in preview(kernel, desired, CHECK, None)["plan"]["steps"]}


class TestSwitchingUnderAJob:
    """The mode of an e-switch under a running job and a mounted NVMe over RDMA (ydb-platform/nbs, issue 5195)."""

    def step(self, kernel: Kernel, *consents: str) -> Any:
        return steps(kernel, wish(consents, eswitch_mode="switchdev"))[f"eswitch:{PF}"]

    def test_who_has_the_device_is_named_and_asked_about(self) -> None:
        kernel = mlx5.booted()
        assert self.step(kernel)["status"] == "planned"
        job(kernel, DEVICE)
        step = self.step(kernel)
        assert (step["status"], step["consent"]) == ("needs_consent", RELOAD)
        assert step["interrupts"] == (
            f"traffic on enp24s0f0np0 for a moment and RDMA over {DEVICE}, which is made anew, used by {JOB}"
        )
        step = self.step(kernel, "driver_reload")
        assert (step["status"], step["consent"]) == ("planned", RELOAD) and JOB in describe(step)

    def test_the_boot_unit_waits_with_it(self) -> None:
        kernel = mlx5.booted()
        job(kernel, DEVICE)
        assert list(steps(kernel, wish(eswitch_mode="switchdev"))) == [f"eswitch:{PF}"]
        assert f"boot:{UNIT_FILE}" in steps(kernel, wish(("driver_reload",), eswitch_mode="switchdev"))
        assert f"boot:{UNIT_FILE}" in steps(kernel, wish(eswitch_mode="switchdev", vfs=2)), "for the VFs"

    def test_a_job_on_another_device_is_not_asked_about(self) -> None:
        kernel = mlx5.booted()
        job(kernel, "mlx5_9")
        assert self.step(kernel)["status"] == "planned"

    def test_users_whose_device_can_not_be_told_count_as_users_of_each(self) -> None:
        kernel = mlx5.booted()
        job(kernel, None)
        mount(kernel, "10.1.2.11")
        step = self.step(kernel)
        assert step["status"] == "needs_consent"
        assert step["interrupts"].endswith(f"used by {JOB}, nvme_rdma to 10.1.2.200 with /data on it {UNTOLD}")

    def test_storage_is_on_the_device_of_its_own_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        owners = {"enp24s0f0np0": "10.1.0.11", "eno1": "10.0.0.11"}
        shown = [{"ifname": name, "addr_info": [{"local": address}]} for name, address in owners.items()]
        self.answer(monkeypatch, "ip -json address show", shown)
        for own, status in (("10.1.0.11", "needs_consent"), ("10.0.0.11", "needs_consent")):
            kernel = mlx5.booted()
            mount(kernel, own)
            step = self.step(kernel)
            assert (step["status"], UNTOLD in step["interrupts"]) == (status, own == "10.0.0.11")

    @pytest.mark.parametrize("kind", ["qp", "cm_id"])
    def test_modules_of_storage_are_on_the_devices_that_they_use(
        self, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        for device, status in ((DEVICE, "needs_consent"), ("mlx5_9", "planned")):
            used = [{"ifname": device, "comm": "ko2iblnd"}]
            of_all = [{"ifname": DEVICE, "comm": module} for module in ("ib_core", "rdma_cm")]
            self.answer(monkeypatch, f"{RESOURCES} {kind}", [*used, *of_all])
            step = self.step(mlx5.booted())
            assert (step["status"], "ko2iblnd" in step["interrupts"]) == (status, status == "needs_consent")

    def test_without_rdma_a_module_in_use_counts(self) -> None:
        kernel = mlx5.booted()
        kernel.absent.add("rdma")
        kernel.tree.add_file("/proc/modules", f"{kernel.read('/proc/modules')}ko2iblnd 4096 3 - Live 0x0\n")
        assert self.step(kernel)["interrupts"].endswith(f"used by the kernel module ko2iblnd {UNTOLD}")

    def test_a_pod_is_named_with_its_program(self) -> None:
        kernel = mlx5.booted()
        job(kernel, DEVICE)
        uid = "0c1d2e3f-1111-2222-3333-444455556666"
        kernel.tree.add_file("/proc/7777/cgroup", f"0::/kubepods/pod{uid}/ab\n")
        kernel.tree.add_dir(f"/var/log/pods/training_worker-0_{uid}")
        assert self.step(kernel)["interrupts"].endswith(f"used by {JOB} of pod training/worker-0")

    def test_a_running_pod_that_a_device_plugin_gave_the_device_is_named(self) -> None:
        """The answer is that of a plugin (v1beta1, ContainerAllocateResponse): device files by their paths."""
        kernel = mlx5.booted()
        kernel.tree.add_file("/sys/class/infiniband_verbs/uverbs0/ibdev", f"{DEVICE}\n")
        uids = [f"0c1d2e3f-1111-2222-3333-44445555666{number}" for number in range(3)]
        paths = ("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs7")
        answers = [b"\x1a\x38\n\x17%b\x12\x17%b\x1a\x02rw" % (path.encode(), path.encode()) for path in paths]
        entries: list[dict[str, Any]] = [
            {"PodUID": uid, "ResourceName": "rdma/hca", "AllocResp": base64.b64encode(answer).decode()}
            for uid, answer in zip(uids, answers)
        ]
        checkpoint = {"Data": {"PodDeviceEntries": [*entries, {"PodUID": uids[2], "AllocResp": None}]}, "Checksum": 1}
        kernel.tree.add_file("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", json.dumps(checkpoint))
        for number in (0, 2):
            kernel.tree.add_file(f"/proc/{4711 + number}/cgroup", f"0::/kubepods/pod{uids[number]}/ab\n")
        for number, uid in enumerate(uids):
            kernel.tree.add_dir(f"/var/log/pods/training_worker-{number}_{uid}")
        assert self.step(kernel)["interrupts"].endswith("which is made anew, used by pod training/worker-0")

    def test_what_follows_on_the_port_waits(self) -> None:
        kernel = mlx5.booted()
        mlx5.done(kernel, mlx5.wish(vfs=1, eswitch_mode="switchdev"))
        job(kernel, DEVICE)
        desired = wish(("vf_reset",), vfs=1, eswitch_mode="legacy", vf_settings={"trust": True})
        of_port = [
            step for name, step in steps(kernel, desired).items() if name.partition(":")[0] in ("eswitch", "vfs")
        ]
        assert [(step["concern"], step["status"]) for step in of_port] == [
            ("eswitch", "needs_consent"),
            ("vfs", "needs_consent"),
        ]
        assert apply(kernel, desired, mlx5.APPLY, None, kernel)["changed"] is False

    def test_with_consent_it_waits_for_the_turn_of_the_host(self) -> None:
        kernel = mlx5.booted()
        job(kernel, DEVICE)
        desired = wish(("driver_reload",), eswitch_mode="switchdev")
        outcome = apply(kernel, desired, replace(APPLY, defers_reload=True), None, kernel)
        assert (outcome["executed"], outcome["reload_due"]) == ([], True)
        outcome = apply(kernel, desired, APPLY, None, kernel)
        assert outcome["executed"][0]["id"] == f"eswitch:{PF}"

    def test_an_approved_plan_stays_the_same_when_its_users_have_gone(self) -> None:
        kernel = mlx5.booted()
        desired = wish(("driver_reload",), eswitch_mode="switchdev")
        before = preview(kernel, desired, CHECK, None)
        job(kernel, DEVICE)
        during = preview(kernel, desired, CHECK, None)
        assert judge(seal(during["plan"], during["facts"]), before["plan"], before["facts"]).state == SAME

    def answer(self, monkeypatch: pytest.MonkeyPatch, command: str, shown: list[dict[str, Any]]) -> None:
        real, given = Kernel.run, CommandResult(0, json.dumps(shown), "")
        monkeypatch.setattr(Kernel, "run", lambda *call: given if " ".join(call[1]) == command else real(*call))


class Case(NamedTuple):
    """A host, what is asked of it, and the step that then takes an RDMA device away.

    ``kept``: whoever uses the device keeps it, with every consent.
    """

    host: Callable[[], Kernel]
    wish: Mapping[str, Any]
    step: str
    device: str
    kept: bool = False


def with_function() -> Kernel:
    kernel = mlx5.booted(link_layer=INFINIBAND)
    mlx5.done(kernel, mlx5.wish(vfs=1))
    return kernel


def in_a_bond() -> Kernel:
    tree = roce("node", 1, "composed for a test")
    bonded(tree)
    return Kernel(tree.document())


def asked(pci: str = PF, **entry: Any) -> dict[str, Any]:
    return {"interfaces": [{"pci": pci, **entry}]}


VENDOR = {"driver": {"flavour": "doca-ofed", "version": f"{RELEASE}.0"}}
# By the concern of the step, with words.
CASES = {
    "eswitch": Case(mlx5.booted, asked(eswitch_mode="switchdev"), f"eswitch:{PF}", DEVICE),
    "naming": Case(mlx5.booted, asked(rdma_name="mlx5_rail0"), f"naming:{PF}:rdma", DEVICE),
    "vfs of a bond": Case(in_a_bond, asked(RAIL0, vfs=4), f"vfs:{RAIL0}", "mlx5_bond_0"),
    "vfs": Case(with_function, asked(vfs=0), f"vfs:{PF}", OF_FUNCTION, kept=True),
    "guids": Case(with_function, asked(vfs=1, vf_guids="deterministic"), f"guids:{PF}", OF_FUNCTION, kept=True),
    "driver": Case(driver_host, VENDOR, "driver:load", "mlx5_0", kept=True),
}
# What they do now takes no RDMA device away: firmware, kernel arguments and the mode of RDMA's namespaces act at boot.
OF_NO_RDMA_DEVICE = {*ORDER} - {what.partition(" ")[0] for what in CASES}
NAMED = """
kernel_arguments firmware_image firmware modules peer_memory pcie unmanaged_vfs mtu link queues qos irqbalance
irq_affinity sysctl routing limits hugepages boot leftovers
"""


def with_consents(given: Mapping[str, Any], *consents: str) -> Any:
    return check_spec({**given, "consents": dict.fromkeys(consents, True)})


@pytest.mark.parametrize("what", CASES)
def test_whoever_uses_the_device_is_named_and_asked_about(what: str) -> None:
    case = CASES[what]
    kernel = case.host()
    others = {*CONSENTS} - {"driver_reload"}
    assert steps(kernel, with_consents(case.wish, *CONSENTS))[case.step]["status"] == "planned"
    job(kernel, case.device)
    for consents in (others, {*CONSENTS}):
        step = steps(kernel, with_consents(case.wish, *consents))[case.step]
        assert JOB in describe(step), describe(step)
        if case.kept:
            assert step["status"] in ("refused", "needs_reboot")
        else:
            assert step["consent"] == RELOAD
            assert step["status"] == ("planned" if "driver_reload" in consents else "needs_consent")
    outcome = apply(kernel, with_consents(case.wish, *others), APPLY, None, kernel)
    assert case.step not in [entry["id"] for entry in outcome["executed"]]


@pytest.mark.parametrize("what", CASES)
def test_a_job_that_begins_after_the_plan_keeps_its_device(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[what]
    kernel, real = case.host(), users.read_rdma_users

    def reading(probe: Probe, facts: Facts) -> dict[str, list[str]]:
        found = real(probe, facts)
        job(kernel, case.device)
        return found

    monkeypatch.setattr(users, "read_rdma_users", reading)
    consents = {*CONSENTS} - ({"driver_reload"} if not case.kept else set())
    outcome = apply(kernel, with_consents(case.wish, *consents), APPLY, None, kernel)
    assert outcome["failed_step"]["id"] == case.step
    assert re.search(rf"{re.escape(JOB)} came to use .*\b{case.device}\b.* since this was planned", outcome["msg"])


def test_every_concern_is_known_here() -> None:
    assert {*NAMED.split()} == OF_NO_RDMA_DEVICE


class TestVfLag:
    """A bond of the ports of one card: mlx5 offloads it only if no function is bound while it is made (LP 1988018)."""

    def host(self) -> Kernel:
        tree = roce("node", 1, "composed for a test")
        joined(tree, {"enp170s0f0np0": PORTS[0], "enp170s0f1np1": PORTS[1]})
        for port, offset in zip(PORTS, (2, 9)):
            tree.attributes(tree.place(port), {"sriov_offset": offset, "sriov_stride": 1})
        return Kernel(tree.document())

    def lines(self, kernel: Kernel, *entries: dict[str, Any], **more: Any) -> list[tuple[str, str, str]]:
        desired = check_spec({"interfaces": list(entries), "consents": dict.fromkeys(CONSENTS, True), **more})
        shown = preview(kernel, desired, CHECK, None)["plan"]["steps"]
        return [(step["id"], step["status"], step["detail"]) for step in shown]

    def test_functions_in_switchdev_mode_are_refused_and_the_way_is_told(self) -> None:
        entries = [{"pci": port, "vfs": 4, "eswitch_mode": "switchdev"} for port in PORTS]
        found = self.lines(self.host(), *entries)
        assert [each[:2] for each in found] == [
            (f"{concern}:{port}", "refused") for concern in ("vfs", "eswitch") for port in PORTS
        ]
        for _name, _status, detail in found:
            assert "enp170s0f0np0 and enp170s0f1np1 are ports of bond0 on one card" in detail
            assert "delay-virtual-functions-rebind: true" in remedy_of(detail, {})

    def test_the_mode_is_asked_of_both_ports(self) -> None:
        kernel = self.host()
        ((_name, status, detail),) = self.lines(kernel, {"pci": PORTS[0], "eswitch_mode": "switchdev"})
        assert status == "refused" and "give each of them eswitch_mode: switchdev" in detail
        found = self.lines(kernel, *({"pci": port, "eswitch_mode": "switchdev"} for port in PORTS))
        assert {status for _name, status, _detail in found} == {"planned"}

    def test_what_is_so_now_is_refused_for_the_next_boot_and_not_kept(self) -> None:
        kernel = self.host()
        for port in PORTS:
            kernel.set_attribute(f"/sys/bus/pci/devices/{port}/sriov_numvfs", "4", 1.0)
            for number in range(4):
                function = kernel.link(f"/sys/bus/pci/devices/{port}/virtfn{number}")[3:]
                kernel.set_attribute(f"/sys/bus/pci/devices/{function}/driver/unbind", function, 1.0)
            kernel.run(("devlink", "dev", "eswitch", "set", f"pci/{port}", "mode", "switchdev"), 1.0)
        found = self.lines(kernel, *({"pci": port, "vfs": 4, "eswitch_mode": "switchdev"} for port in PORTS))
        assert [each[:2] for each in found] == [(f"eswitch:{port}", "refused") for port in PORTS]

    def test_ports_of_two_cards_are_no_vf_lag(self) -> None:
        found = self.lines(in_a_bond(), {"pci": RAIL0, "vfs": 4, "eswitch_mode": "switchdev"})
        assert "refused" not in {status for _name, status, _detail in found}
