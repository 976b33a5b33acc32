# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a sealed plan: done as it was sealed, or refused with the difference before anything is written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Plan, Step, make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import Sealed, check_sealed, judge, seal
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
WISH: dict[str, Any] = {
    "kernel_modules": ["rdma_ucm"],
    "interfaces": [{"pci": "0000:37:00.0", "mtu": 9000}, {"pci": "0000:37:00.1", "mtu": 4200}],
}


def host(name: str = "egx-01") -> Kernel:
    return Kernel(FLEET[name]().document())


def plan_of(*steps: Step) -> Plan:
    return {"format": 1, "steps": list(steps), "notices": [], "digest": ""}


def sealed_of(kernel: Kernel, wish: dict[str, Any]) -> Sealed:
    """Return what a file holds of the host: what check mode returned, after JSON."""
    shown = preview(kernel, check_spec(wish), CHECK, None)
    found: Sealed = json.loads(json.dumps(seal(shown["plan"], shown["facts"])))
    return found


def applied(kernel: Kernel, wish: dict[str, Any], sealed: Sealed) -> Mapping[str, Any]:
    return apply(kernel, check_spec(wish), replace(APPLY, sealed=sealed), None, kernel)


def differences(outcome: Mapping[str, Any]) -> list[str]:
    assert (outcome["failed"], outcome["changed"], outcome["sealed"]["state"]) == (True, False, "other")
    assert all(f"\n  {line}" in outcome["msg"] for line in outcome["sealed"]["difference"])
    found: list[str] = outcome["sealed"]["difference"]
    return found


def test_an_unchanged_host_does_the_sealed_steps_line_for_line_and_nothing_again() -> None:
    kernel = host()
    sealed = sealed_of(kernel, WISH)
    outcome = applied(kernel, WISH, sealed)
    assert outcome.get("failed") is None, outcome["msg"]
    assert [step["line"] for step in outcome["executed"]] == [step["line"] for step in sealed["steps"]]
    assert outcome["sealed"] == {"state": "same", "difference": []}
    kernel.revive()
    again = applied(kernel, WISH, sealed)
    assert (again["changed"], again["sealed"]["state"], kernel.mutations) == (False, "done", [])
    assert again["msg"] == "nothing to do; nothing is left to do of the sealed plan"


def test_a_changed_fact_of_a_step_is_refused_with_both_lines_and_nothing_is_written() -> None:
    kernel = host()
    sealed = sealed_of(kernel, WISH)
    kernel.tree.add_file("/sys/class/net/ens2f0/mtu", "1400\n")
    gone, come = differences(applied(kernel, WISH, sealed))
    assert gone.startswith("- planned: mtu 0000:37:00.0") and "(now 1500)" in gone
    assert come.startswith("+ planned: mtu 0000:37:00.0") and "(now 1400)" in come
    assert kernel.mutations == []


def test_another_kernel_is_refused_by_name_although_the_steps_read_the_same() -> None:
    kernel = host()
    sealed = sealed_of(kernel, WISH)
    kernel.tree.add_file("/proc/sys/kernel/osrelease", "6.8.0-1\n")
    gone, come = differences(applied(kernel, WISH, sealed))
    assert gone == f"- fact kernel: {sealed['facts']['kernel']}"
    assert come == "+ fact kernel: 6.8.0-1"
    assert kernel.mutations == []


def test_a_host_that_a_killed_run_has_begun_is_refused_with_the_step_that_is_done() -> None:
    kernel = host()
    sealed = sealed_of(kernel, WISH)
    kernel.tree.add_file("/sys/class/net/ens2f0/mtu", "9000\n")
    (gone, *_rest) = differences(applied(kernel, WISH, sealed))
    assert gone.startswith("- planned: mtu 0000:37:00.0")
    assert kernel.mutations == []


@pytest.mark.parametrize("other", [{"before": "c"}, {"after": "c"}])
def test_a_step_that_reads_the_same_and_is_about_other_values_is_another_one(other: dict[str, Any]) -> None:
    facts = preview(host(), check_spec({}), CHECK, None)["facts"]
    words: dict[str, Any] = {"target": "/etc/x", "action": "write it", "before": "a", "after": "b", "reason": "asked"}
    sealed = seal(plan_of(make_step("limits", "/etc/x", **words)), facts)
    now = plan_of(make_step("limits", "/etc/x", **{**words, **other}))
    line = sealed["steps"][0]["line"]
    assert judge(sealed, now, facts) == (
        "other",
        (f"- {line}", f"+ {line} (reads the same and is about other values)"),
    )


def test_check_mode_and_a_preview_refuse_as_a_run_does() -> None:
    kernel = host()
    sealed = sealed_of(kernel, WISH)
    kernel.tree.add_file("/sys/class/net/ens2f0/mtu", "1400\n")
    for run in (CHECK, Run(check=False, diff=False, mode="preview", recorded=False)):
        assert len(differences(preview(kernel, check_spec(WISH), replace(run, sealed=sealed), None))) == 2


def test_other_cards_in_the_same_slots_are_another_machine() -> None:
    kernel = host()
    sealed: Sealed = {**sealed_of(kernel, WISH), "machine": "0" * 32}
    (line,) = differences(applied(kernel, WISH, sealed))
    assert "another machine" in line


@pytest.mark.parametrize("name", FLEET)
def test_what_is_sealed_of_a_host_fits_it_and_holds_none_of_its_addresses(name: str) -> None:
    kernel = host(name)
    sealed = sealed_of(kernel, {"kernel_modules": ["ib_umad"]})
    shown = preview(kernel, check_spec({"kernel_modules": ["ib_umad"]}), CHECK, None)
    assert judge(check_sealed(sealed), shown["plan"], shown["facts"]).difference == ()
    text = json.dumps(sealed)
    assert [nd["mac"] for nd in shown["facts"]["netdevs"] if nd["mac"] and nd["mac"] in text] == []
    assert [each["node_guid"] for each in shown["facts"]["rdma"] if str(each["node_guid"]) in text] == []


class TestAfterAReboot:
    """In the run that has rebooted the host, what is left may be a part of the sealed steps, and nothing else."""

    def test_a_part_of_the_sealed_steps_is_done_on_another_kernel(self) -> None:
        kernel = host()
        sealed: Sealed = {**sealed_of(kernel, WISH), "rest": True}
        kernel.tree.add_file("/proc/sys/kernel/osrelease", "6.8.0-1\n")
        kernel.tree.add_file("/sys/class/net/ens2f0/mtu", "9000\n")
        outcome = applied(kernel, WISH, sealed)
        assert outcome.get("failed") is None, outcome["msg"]
        assert kernel.read("/sys/class/net/ens2f1/mtu") == "4200\n"

    def test_a_step_that_was_not_sealed_is_refused(self) -> None:
        kernel = host()
        sealed: Sealed = {**sealed_of(kernel, WISH), "rest": True}
        more = {**WISH, "kernel_modules": ["rdma_ucm", "ib_umad"]}
        lines = differences(applied(kernel, more, sealed))
        assert any("ib_umad" in line for line in lines) and all(line.startswith("+ ") for line in lines)
        assert kernel.mutations == []

    def test_what_waits_for_the_reboot_is_no_other_plan(self) -> None:
        kernel = host()
        shown = preview(kernel, check_spec({}), CHECK, None)
        wording: dict[str, Any] = {"target": "kernel command line", "action": "set", "reason": "asked", "when": "boot"}
        wanted = make_step("kernel_arguments", "/etc/default/grub.d/x", before=[], after=["iommu=pt"], **wording)
        waits = make_step(
            "kernel_arguments", "pending", before=[], after=["iommu=pt"], status="needs_reboot", **wording
        )
        sealed = seal(plan_of(wanted), shown["facts"])
        assert judge(sealed, plan_of(waits), shown["facts"]).state == "done"
        nothing = seal(plan_of(), shown["facts"])
        assert judge(nothing, plan_of(waits), shown["facts"]).state == "other"


@pytest.mark.parametrize(
    "document",
    [[], {}, {"facts": {}, "machine": "", "steps": [{"id": "a"}]}, {"facts": [], "machine": 1, "steps": {}}],
)
def test_what_is_no_sealed_plan_is_refused(document: Any) -> None:
    with pytest.raises(InvalidInput, match="sealed"):
        check_sealed(document)
