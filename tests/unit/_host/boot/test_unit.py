# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot unit: rates of VFs wait for the link, nothing else waits for them, and what is lost is told.

systemd never ends the unit before its own waits are over.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.files import LINK_SECONDS, start_seconds
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import SetAttribute, WaitFor
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.functions import parse_port_settings, show_command
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_SPEC_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import own_part, start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import handler_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.persisted import boot_spec_of
from ansible_collections.rdma.fabric.tests.unit._host import full_hosts, large_host
from ansible_collections.rdma.fabric.tests.unit._host.boot.test_boot_functions import EVERYTHING, net, rebooted, started
from ansible_collections.rdma.fabric.tests.unit._host.igb import OTHER, OTHER_VF0, PF, VF0, applied, booted, wish
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import LINKS

MACS = {"0": "02:00:00:00:00:10", "1": "02:00:00:00:00:11"}
LIMITED = {"pci": PF, "vfs": 2, "vf_settings": {"mac": MACS, "spoofchk": False, "max_tx_rate": 200}}
PLAIN = {"pci": OTHER, "vfs": 2, "mtu": 4200}
SET = [(MACS["0"], 200), (MACS["1"], 200)]
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
# For each host: as it boots, and what is asked of it.
HOSTS: dict[str, Any] = {name: (full.host, full.wish) for name, full in full_hosts.HOSTS.items()}
HOSTS["large"] = (lambda: large_host.booted(2), large_host.wish(2, 4))


def prepared(seconds: float, *entries: dict[str, Any]) -> Kernel:
    """The guest after a reboot: its ports are down, and a link needs so long once its port is up."""
    before = booted()
    assert not applied(before, wish(*entries), EVERYTHING).get("failed")
    kernel = rebooted(before)
    kernel.tree.add_file(LINKS, f"{seconds}\n")
    for address in (PF, OTHER):
        place = kernel.realpath(net(kernel, address))
        kernel.tree.add_file(f"{place}/flags", "0x1002\n")
        kernel.tree.discard(f"{place}/carrier")
    return kernel


def rates(kernel: Kernel, address: str = PF) -> list[Any]:
    name = net(kernel, address).rsplit("/", 1)[1]
    found = parse_port_settings(kernel.run(show_command(name), 1.0).stdout).functions or []
    return [(entry["mac"], entry["max_tx_rate"]) for entry in found]


@pytest.mark.parametrize("seconds", [0.0, 5.0, LINK_SECONDS - 5.0])
def test_a_rate_is_set_once_the_link_is_up(seconds: float) -> None:
    kernel = prepared(seconds, LIMITED, PLAIN)
    result = started(kernel)
    assert result["problems"] == []
    assert rates(kernel) == SET
    kernel.revive()
    assert (applied(kernel, wish(LIMITED, PLAIN), EVERYTHING)["changed"], kernel.mutations) == (False, [])


def test_a_link_that_never_comes_costs_the_rate_alone_and_is_told_with_its_port() -> None:
    kernel = prepared(10000.0, LIMITED, PLAIN)
    result = started(kernel)
    assert kernel.read(f"{net(kernel, OTHER)}/mtu") == "4200\n"
    assert kernel.exists(f"/sys/bus/pci/devices/{OTHER_VF0}")
    assert rates(kernel) == [(MACS["0"], 0), (MACS["1"], 0)]
    assert result["problems"][0] == f"{PF}: its link is not up after {LINK_SECONDS} seconds"
    assert PF in result["problems"][1] and "set max_tx_rate of VFs 0 to 1" in result["problems"][1]
    assert LINK_SECONDS <= result["seconds"] < start_seconds(json.loads(kernel.read(BOOT_SPEC_FILE))["interfaces"])


def test_other_ports_are_served_before_a_link_is_waited_for() -> None:
    kernel = prepared(10000.0, LIMITED, PLAIN)
    seen: list[str] = []
    asleep = kernel.sleep

    def sleep(seconds: float) -> None:
        if kernel.now() > LINK_SECONDS / 2 and not seen:
            seen.append(kernel.read(f"{net(kernel, OTHER)}/mtu"))
        asleep(seconds)

    kernel.sleep = sleep  # type: ignore[method-assign]
    start(kernel, kernel)
    assert seen == ["4200\n"]


def test_a_driver_that_takes_rates_without_a_link_is_not_waited_for() -> None:
    kernel = prepared(10000.0, LIMITED)
    kernel.tree.discard(LINKS)
    result = started(kernel)
    assert (result["problems"], rates(kernel)) == ([], SET)
    assert result["seconds"] < 10.0


def test_a_rate_that_is_refused_with_the_link_up_is_not_put_down_to_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = prepared(5.0, LIMITED)
    ran = kernel.run

    def refuses(argv: Any, timeout: float) -> Any:
        return (
            CommandResult(2, "", "RTNETLINK answers: Invalid argument\n")
            if "max_tx_rate" in argv
            else ran(argv, timeout)
        )

    monkeypatch.setattr(kernel, "run", refuses)
    problems = started(kernel)["problems"]
    assert any("ip ended with 2" in line for line in problems)
    assert not any("link is not up" in line for line in problems)


def test_an_address_that_reads_back_as_another_is_told_with_port_and_function(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = prepared(0.0, LIMITED)
    ran = kernel.run

    def forgetful(argv: Any, timeout: float) -> Any:
        words = tuple("02:00:00:00:00:99" if word == MACS["1"] else word for word in argv)
        return ran(words, timeout)

    monkeypatch.setattr(kernel, "run", forgetful)
    problems = started(kernel)["problems"]
    assert any(PF in line and f"VF 1: mac is 02:00:00:00:00:99, not {MACS['1']}" in line for line in problems)


@pytest.mark.slow
def test_whatever_disturbs_the_start_is_told_and_the_next_run_gets_there() -> None:
    calm = prepared(5.0, LIMITED, PLAIN)
    start(calm, calm)
    wanted = wish(LIMITED, PLAIN, rdma_fabric_allow_vf_reset=True)
    for number in range(len(calm.mutations)):
        for fault in ("EIO", KILL):
            kernel = prepared(5.0, LIMITED, PLAIN)
            kernel.disturb(number, fault)
            try:
                outcome = start(kernel, kernel)
            except Killed:
                assert fault == KILL
            else:
                assert rates(kernel) == SET or any("next:" in problem for problem in outcome.problems), number
            kernel.revive()
            # As the manager of the interfaces does, which starts after the boot unit.
            assert kernel.run(("ip", "link", "set", "dev", net(kernel, PF).rsplit("/", 1)[1], "up"), 1.0).rc == 0
            kernel.revive()
            for _run in range(2):
                last = applied(kernel, wanted, EVERYTHING)
            assert (last["msg"], rates(kernel)) == ("nothing to do", SET), (number, fault)
            assert kernel.exists(f"/sys/bus/pci/devices/{VF0}")


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_the_limit_of_the_unit_is_more_than_its_waits(name: str) -> None:
    start, wish = HOSTS[name]
    kernel: Kernel = start()
    outcome = apply(kernel, check_spec(wish), APPLY, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    text = kernel.read(BOOT_SPEC_FILE)
    fresh: Kernel = start()
    plan, context = plan_with_context(boot_spec_of(text).desired, gather(fresh, desired=boot_spec_of(text).desired))
    waits = 0.0
    for step in own_part(plan)["steps"]:
        handler = handler_of(step["concern"])
        assert handler is not None
        operations = handler.work(context, step).do
        waits += sum(each.seconds for each in operations if isinstance(each, WaitFor))
        # The kernel returns from a write of their number when the functions are there.
        waits += sum(
            each.timeout for each in operations if isinstance(each, SetAttribute) and each.path.endswith("sriov_numvfs")
        )
    fixed = start_seconds([])
    assert fixed > 30 + 70 + 90 + 30
    assert waits <= start_seconds(json.loads(text)["interfaces"]) - fixed
