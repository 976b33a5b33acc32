# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reload of the driver that is left to the turn of the host: nothing is cut before, and nothing is left after."""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import PORTS, RELEASE, driver_host
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_apply import network, ran, runs_vendor
from ansible_collections.rdma.fabric.tests.unit._host.kernel import queues
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

WANTED: dict[str, Any] = {
    "driver": {"flavour": "doca-ofed", "version": f"{RELEASE}.0"},
    "interfaces": [{"current_name": PORTS[0], "mtu": 4200}],
    "consents": {"driver_reload": True},
}
TURN = "one host after the other"


def run(kernel: Kernel, *, check: bool = False, defers: bool = True, **changes: Any) -> Mapping[str, Any]:
    how = Run(
        check=check, diff=True, mode="apply", recorded=False, concerns=("driver", "naming", "mtu"), defers_reload=defers
    )
    desired = check_spec({**WANTED, **changes})
    if check:
        return preview(kernel, desired, how, None)
    return apply(kernel, desired, how, None, kernel)


TAKEN = "where that takes it away"


def run_with_queues(kernel: Kernel, *, check: bool = False, **changes: Any) -> Mapping[str, Any]:
    """All in one run, of a host whose rings are asked for as well."""
    entry = {"current_name": PORTS[0], "queues": {"rx_ring": 8192}}
    desired = check_spec({**WANTED, "interfaces": [entry], **changes})
    how = Run(check=check, diff=True, mode="apply", recorded=False, concerns=("driver", "naming", "mtu", "queues"))
    return preview(kernel, desired, how, None) if check else apply(kernel, desired, how, None, kernel)


def with_queues() -> Kernel:
    """A host on its inbox driver whose rings are as they are asked for."""
    kernel = driver_host()
    queues.install(kernel, PORTS[0])
    assert not run_with_queues(kernel, driver=None).get("failed")
    kernel.revive()
    return kernel


def both_turns(kernel: Kernel) -> Mapping[str, Any]:
    """As ``site`` does it: all hosts at once up to the reload, and each host by itself from there on."""
    first = run(kernel)
    return run(kernel, defers=False) if first["reload_due"] else first


def test_everything_before_the_reload_is_done_and_nothing_is_cut() -> None:
    kernel = driver_host()
    before = network(kernel)
    outcome = run(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert outcome["reload_due"] is True
    assert [step["id"] for step in outcome["plan"]["steps"]] == ["driver:load", "mtu:0000:37:00.0"]
    assert "waits for the turn of this host" in outcome["msg"]
    assert not [line for line in ran(kernel) if "openibd" in line or "modprobe -r" in line]
    assert (runs_vendor(kernel), network(kernel)) == (False, before)
    kernel.revive()
    again = run(kernel)
    assert (again["changed"], again["reload_due"], kernel.mutations) == (False, True, [])


def test_its_turn_does_the_rest() -> None:
    kernel = driver_host()
    run(kernel)
    outcome = run(kernel, defers=False)
    assert (outcome["plan"]["steps"], outcome["reload_due"]) == ([], False)
    assert runs_vendor(kernel)
    assert kernel.read(f"/sys/class/net/{PORTS[0]}/mtu") == "4200\n"
    assert run(kernel)["reload_due"] is False


def test_what_the_driver_forgets_is_set_again_by_the_run_that_reloads_it() -> None:
    """It held before, so that nothing of it is planned: a host would be uncordoned without it."""
    kernel = with_queues()
    assert queues.numbers(kernel, PORTS[0]) == {**queues.USUAL, "rx": 8192}
    shown = run_with_queues(kernel, check=True)
    (load,) = [step for step in shown["plan"]["steps"] if step["id"] == "driver:load"]
    assert "the driver forgets" in load["detail"]
    assert not [step for step in shown["plan"]["steps"] if step["concern"] == "queues"]
    (line,) = [each for each in shown["diff"]["prepared"].splitlines() if "set again after the reload" in each]
    assert line.endswith(f"({PORTS[0]}): set again after the reload of its driver, {TAKEN}: the receive ring to 8192")
    outcome = run_with_queues(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert (runs_vendor(kernel), outcome["plan"]["steps"]) == (True, [])
    assert queues.numbers(kernel, PORTS[0]) == {**queues.USUAL, "rx": 8192}
    assert outcome["executed"][-1]["id"] == "queues:0000:37:00.0"
    kernel.revive()
    again = run_with_queues(kernel)
    assert (again["changed"], kernel.mutations) == (False, [])
    assert "set again after the reload" not in str(again["plan"]["notices"])


def test_what_can_not_be_set_again_fails_the_run_by_name() -> None:
    kernel = with_queues()
    calm = with_queues()
    run_with_queues(calm)
    (last,) = [i for i, each in enumerate(calm.mutations) if each.what.startswith("ethtool -G")]
    kernel.disturb(last, "EBUSY")
    outcome = run_with_queues(kernel)
    assert outcome["failed"] and outcome["failed_step"]["id"] == "queues:0000:37:00.0"
    assert "driver:load" in [each["id"] for each in outcome["executed"]]
    kernel.revive()
    assert not run_with_queues(kernel).get("failed")
    assert queues.numbers(kernel, PORTS[0])["rx"] == 8192


@pytest.mark.slow
def test_whatever_disturbs_what_is_set_again_the_next_run_gets_there() -> None:
    assert sweep(with_queues, run_with_queues) > 30


def test_the_plan_says_when_the_reload_happens_where_it_is_left_to_a_turn() -> None:
    kernel = driver_host()
    shown = run(kernel, check=True)
    (load,) = [step for step in shown["plan"]["steps"] if step["id"] == "driver:load"]
    assert TURN in load["detail"] and TURN in shown["diff"]["prepared"]
    assert (shown["changed"], shown["reload_due"]) == (True, False)
    assert TURN not in run(kernel, check=True, defers=False)["diff"]["prepared"]
    assert TURN not in run(kernel, check=True, consents={})["diff"]["prepared"]


def test_a_host_without_a_reload_is_brought_to_its_end_at_once() -> None:
    without: list[dict[str, Any]] = [{"driver": None}, {"consents": {}}]
    for changes in without:
        kernel = driver_host()
        outcome = run(kernel, **changes)
        assert (outcome.get("failed"), outcome["reload_due"]) == (None, False), outcome["msg"]
        assert kernel.read(f"/sys/class/net/{PORTS[0]}/mtu") == "4200\n"


def test_a_host_that_failed_has_no_turn() -> None:
    kernel = driver_host()
    missing = [*WANTED["interfaces"], {"current_name": "nowhere", "mtu": 9000}]
    outcome = run(kernel, interfaces=missing)
    assert (outcome["failed"], outcome["reload_due"], runs_vendor(kernel)) == (True, False, False)


@pytest.mark.slow
def test_whatever_disturbs_either_turn_the_next_run_gets_there() -> None:
    assert sweep(driver_host, both_turns) > 30
