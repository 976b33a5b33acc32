# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Going back to what a host was brought to before: what is kept for that, and what it comes to."""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.memory import LOGIN_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BrokenState
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import reached
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.driver.hosts import RELEASE, driver_host
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_apply import CONSENTS, WANTED, runs_vendor
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import request
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import settled, sweep

PORT = "0000:37:00.0"
APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
BACK = Run(check=False, diff=True, mode="apply", recorded=False, state="previous")
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")


def state(mtu: int, **others: Any) -> dict[str, Any]:
    return {"interfaces": [{"pci": PORT, "mtu": mtu}], "limits": {"memlock": "unlimited"}, **others}


def host() -> Kernel:
    return Kernel(FLEET["egx-01"]().document())


def brought(kernel: Kernel, wish: dict[str, Any], run: Run = APPLY) -> Mapping[str, Any]:
    kernel.revive()
    return apply(kernel, check_spec(wish), run, None, kernel)


def mtu(kernel: Kernel) -> int:
    port = next(name for name in kernel.list("/sys/class/net") if PORT in kernel.realpath(f"/sys/class/net/{name}"))
    return int(kernel.read(f"/sys/class/net/{port}/mtu"))


def test_a_host_goes_back_to_what_it_was_brought_to_before_and_a_second_run_changes_nothing() -> None:
    kernel = host()
    brought(kernel, state(9000))
    files = settled(kernel)
    brought(kernel, state(4200))
    assert mtu(kernel) == 4200
    outcome = brought(kernel, state(4200), BACK)
    assert (outcome["changed"], outcome.get("failed"), mtu(kernel)) == (True, None, 9000)
    assert settled(kernel) == files
    again = brought(kernel, state(4200), BACK)
    assert (again["changed"], kernel.mutations, mtu(kernel)) == (False, [], 9000)


def test_a_state_that_was_never_reached_is_no_state_to_come_back_to() -> None:
    kernel = host()
    brought(kernel, state(9000))
    kernel.revive()
    kernel.disturb(2, "EIO")
    failed = apply(kernel, check_spec(state(4200, kernel_modules=["rdma_ucm"])), APPLY, None, kernel)
    assert failed["failed"]
    assert not brought(kernel, state(4200, kernel_modules=["rdma_ucm"]), BACK).get("failed")
    assert mtu(kernel) == 9000
    (kept,) = reached.read_history(kernel)
    assert check_spec(kept.state)["interfaces"][0]["mtu"] == 9000


def test_of_what_is_asked_for_now_consents_and_uplinks_count() -> None:
    kernel = host()
    brought(kernel, state(9000))
    brought(kernel, state(4200, consents={"vf_reset": True}, node_labels={"rack": "r1"}))
    outcome = preview(
        kernel, check_spec(state(4200, consents={"acs_change": True}, protected_interfaces=["ens2f0"])), BACK, None
    )
    (step,) = outcome["plan"]["steps"]
    assert (step["id"], step["status"]) == (f"mtu:{PORT}", "refused"), "the uplink of now is not protected"
    assert outcome["summary"]["labels"].get("rack") is None


def test_what_consents_and_labels_say_is_no_other_state() -> None:
    kernel = host()
    brought(kernel, state(9000))
    outcome = brought(kernel, state(9000, consents={"vf_reset": True}, node_labels={"rack": "r1"}))
    assert (outcome["changed"], kernel.mutations) == (False, [])


@pytest.mark.parametrize("states", [[], [state(4200)]])
def test_a_host_without_another_state_stays_as_it_is_and_says_so(states: list[dict[str, Any]]) -> None:
    kernel = host()
    for wish in states:
        brought(kernel, wish)
    before = kernel.state()
    outcome = brought(kernel, state(4200), BACK)
    assert (outcome["changed"], outcome["plan"]["steps"], kernel.state()) == (False, [], before)
    assert outcome["plan"]["notices"][0] == reached.NOTHING_BEFORE


def test_the_last_two_states_are_kept_and_none_twice() -> None:
    kernel = host()
    for size in (9000, 4200, 1500, 4200, 4200):
        brought(kernel, state(size))
    kept = [check_spec(entry.state)["interfaces"][0]["mtu"] for entry in reached.read_history(kernel)]
    assert kept == [1500, 4200]


def test_a_host_that_needs_nothing_is_not_written_to() -> None:
    kernel = host()
    brought(kernel, {})
    assert (kernel.mutations, kernel.exists(reached.PATH)) == ([], False)


def test_a_removal_takes_what_is_kept_away() -> None:
    kernel = host()
    before = settled(kernel)
    brought(kernel, state(9000))
    brought(kernel, state(4200))
    assert not brought(kernel, {}, REMOVE).get("failed")
    assert settled(kernel) == before


def test_the_kernels_own_driver_comes_back_where_it_was_there_before() -> None:
    kernel = driver_host()
    limits = {"limits": {"memlock": "unlimited"}, "consents": CONSENTS}
    brought(kernel, limits)
    later = {"limits": {"memlock": 65536}, "consents": CONSENTS, "driver": WANTED}
    outcome = brought(kernel, later)
    assert (outcome.get("failed"), runs_vendor(kernel)) == (None, True)
    back = brought(kernel, later, BACK)
    assert (back.get("failed"), runs_vendor(kernel), back["plan"]["steps"]) == (None, False, [])
    assert "unlimited" in kernel.read(LOGIN_FILE)


def test_a_vendors_driver_that_was_there_before_stays() -> None:
    kernel = driver_host()
    limits = {"limits": {"memlock": "unlimited"}, "consents": CONSENTS}
    brought(kernel, {**limits, "driver": WANTED})
    brought(kernel, limits)
    brought(kernel, {"limits": {"memlock": 65536}, "consents": CONSENTS, "driver": WANTED})
    back = brought(kernel, {"limits": {"memlock": 65536}, "consents": CONSENTS, "driver": WANTED}, BACK)
    assert (back.get("failed"), runs_vendor(kernel)) == (None, True)


def of_policy(release: str, memlock: int, **how: bool) -> dict[str, Any]:
    """Return what a policy asks for of the driver, beside a limit."""
    section = {"repository": "nvcr.io/nvidia/mellanox", "image": "doca-driver", "version": f"{release}.0-0", **how}
    return {"limits": {"memlock": memlock}, "consents": CONSENTS, "requests": [request(driver=section)]}


@pytest.mark.parametrize("wish", [{"driver": WANTED}, of_policy(RELEASE, 65536)], ids=["variable", "policy"])
def test_a_state_that_asks_for_a_driver_comes_back_with_it_whatever_was_installed_meanwhile(
    wish: dict[str, Any],
) -> None:
    (kept,) = reached.having_reached((), check_spec(wish))
    before = reached.previous((kept._replace(inbox=True),), check_spec({}))
    assert before is not None
    asked = check_spec(wish)
    assert (before["driver"], len(before["requests"])) == (asked["driver"], len(asked["requests"]))


def test_a_driver_that_waits_for_consent_was_not_reached_so_nothing_comes_back_to_it() -> None:
    kernel = driver_host()
    brought(kernel, of_policy(RELEASE, 65536, auto_upgrade=False))
    assert runs_vendor(kernel)
    held = brought(kernel, of_policy("25.07-0.9.7", 131072, auto_upgrade=False))
    assert (held.get("failed"), [step["status"] for step in held["plan"]["steps"]]) == (None, ["needs_consent"])
    (kept,) = reached.read_history(kernel)
    assert check_spec(kept.state)["limits"]["memlock"] == 65536
    back = brought(kernel, of_policy("25.07-0.9.7", 131072, auto_upgrade=False), BACK)
    assert (back.get("failed"), back["plan"]["steps"], runs_vendor(kernel)) == (None, [], True)


def test_whether_a_policy_upgrades_by_itself_is_no_other_state() -> None:
    kernel = driver_host()
    brought(kernel, of_policy(RELEASE, 65536, auto_upgrade=False))
    brought(kernel, of_policy(RELEASE, 65536))
    assert len(reached.read_history(kernel)) == 1


def test_a_state_that_can_not_be_read_is_told_before_anything_is_changed() -> None:
    kernel = host()
    brought(kernel, state(9000))
    kernel.revive()
    kernel.tree.add_file(reached.PATH, reached.FILE.text({"reached": [{"state": {"colour": "red"}, "inbox": None}]}))
    with pytest.raises(BrokenState, match=f"{reached.PATH} does not hold .*colour unknown field.*; next: ") as raised:
        apply(kernel, check_spec(state(4200)), BACK, None, kernel)
    assert kernel.mutations == []
    assert "nothing was changed" in str(raised.value)


@pytest.mark.parametrize("content", [{"reached": "all"}, {"reached": [1]}, {"reached": [{"state": {}}]}])
def test_a_file_that_holds_no_states_is_told(content: dict[str, Any]) -> None:
    kernel = host()
    kernel.tree.add_file(reached.PATH, reached.FILE.text(content))
    with pytest.raises(BrokenState, match="it has no states"):
        brought(kernel, state(4200))


@pytest.mark.slow
def test_whatever_disturbs_going_back_the_next_run_gets_there() -> None:
    def start() -> Kernel:
        kernel = host()
        brought(kernel, state(9000))
        brought(kernel, state(4200, kernel_modules=["rdma_ucm"]))
        kernel.revive()
        return kernel

    def back(kernel: Kernel) -> Mapping[str, Any]:
        return apply(kernel, check_spec(state(4200, kernel_modules=["rdma_ucm"])), BACK, None, kernel)

    assert sweep(start, back) > 4


def test_a_run_that_is_killed_with_its_driver_half_changed_knows_what_was_there_before() -> None:
    limits = {"limits": {"memlock": "unlimited"}, "consents": CONSENTS}
    kernel = driver_host()
    brought(kernel, limits)
    kernel.revive()
    kernel.disturb(8, KILL)
    with pytest.raises(Killed):
        apply(kernel, check_spec({**limits, "driver": WANTED}), APPLY, None, kernel)
    brought(kernel, {**limits, "driver": WANTED})
    assert runs_vendor(kernel)
    brought(kernel, {**limits, "driver": WANTED}, BACK)
    assert not runs_vendor(kernel)
