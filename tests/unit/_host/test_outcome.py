# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import (
    Plan,
    Step,
    describe,
    digest,
    make_step,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.connection import client_address, server_address
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import (
    Run,
    as_it_would_end,
    host_result,
    plan_lines,
    sentence,
)
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import desired, interface, two_ports, vf

PF = "0000:18:00.0"
WANTED = desired(interface(pci=PF, name="rail0", vfs=17), node_labels={"rack": "r1"})


def outcome(wanted: Any = None, **changes: Any) -> Any:
    wanted, state = WANTED if wanted is None else wanted, two_ports()
    run = Run(**{"check": True, "diff": True, "mode": "apply", "recorded": False, **changes})
    return host_result(wanted, state, make_plan(wanted, state), run)


NOTHING: Plan = {"format": 1, "steps": [], "notices": [], "digest": ""}


class TestOutcome:
    @pytest.mark.parametrize(
        ("changes", "changed", "failed"),
        [
            ({}, True, False),
            ({"mode": "preview"}, False, False),
            ({"mode": "preview", "check": False}, False, False),
            ({"recorded": True}, False, False),
            ({"recorded": True, "check": False}, False, False),
        ],
    )
    def test_only_a_live_host_that_is_to_be_applied_would_change(
        self, changes: Any, changed: bool, failed: bool
    ) -> None:
        result = outcome(**changes)
        assert (result["changed"], result.get("failed", False)) == (changed, failed)

    @pytest.mark.parametrize("check", [True, False])
    def test_a_plan_without_executable_steps_is_no_change(self, check: bool) -> None:
        result = outcome(desired(interface(pci=PF, vfs=17)), check=check)
        assert (result["changed"], result.get("failed", False), result["msg"]) == (False, False, "1 step: 1 refused")

    def test_the_difference_is_the_printed_plan(self) -> None:
        result = outcome()
        lines = result["diff"]["prepared"].splitlines()
        assert lines == [describe(step) for step in result["plan"]["steps"]]
        assert "diff" not in outcome(diff=False)
        assert outcome(diff=False, mode="preview")["diff"] == result["diff"], "which is what a preview is for"
        assert "diff" not in outcome(desired())

    def test_notices_are_part_of_the_printed_plan(self) -> None:
        lines = plan_lines({**NOTHING, "notices": ["first\nsecond"]})
        assert lines == ["notice: first\\nsecond"]

    def test_the_summary_counts(self) -> None:
        state = two_ports()
        state["nics"].append(vf("0000:18:00.1", PF))
        plan = make_plan(WANTED, state)
        run = Run(check=True, diff=False, mode="apply", recorded=False)
        summary = host_result(WANTED, state, plan, run)["summary"]
        assert summary == {
            "steps": 2,
            "planned": 1,
            "needs_consent": 0,
            "refused": 1,
            "needs_reboot": 0,
            "nics": 3,
            "gpus": 0,
            "rails": 0,
            "labels": {**state["labels"], "rack": "r1"},
            "digest": plan["digest"],
        }

    def test_nothing_to_do_is_said(self) -> None:
        assert sentence(NOTHING) == "nothing to do"


class TestCheckMode:
    CHECK = Run(check=True, diff=False, mode="apply", recorded=False)

    def ended(self, *, root: bool = True, **changes: Any) -> Any:
        run = replace(self.CHECK, **changes)
        return as_it_would_end(outcome(**changes), run, root=root)

    def test_what_a_run_would_fail_for_is_told_at_once(self) -> None:
        ended = self.ended(root=False)
        assert ended["failed"]
        assert ended["msg"].startswith("2 steps: 1 planned, 1 refused; a run would fail: it would change the host, and")
        assert "ansible_become: true" in ended["msg"]
        assert "\n  - refused: vfs 0000:18:00.0" in ended["msg"]
        assert "rdma_fabric_host_strict: false" in ended["msg"]

    def test_pending_steps_of_root_and_refused_ones_that_are_allowed_are_no_failure(self) -> None:
        assert "failed" not in self.ended(strict=False)
        assert "a run would fail" in self.ended(strict=False, root=False)["msg"]

    @pytest.mark.parametrize("changes", [{"check": False}, {"mode": "preview"}, {"recorded": True}])
    def test_only_check_mode_of_a_run_that_applies_tells_it(self, changes: Any) -> None:
        assert "failed" not in self.ended(root=False, **changes)


class TestSteps:
    STEP = make_step(
        "naming", PF, target=PF, action="rename", before="a", after="b", reason="why", interrupts="traffic", undo="back"
    )

    @pytest.mark.parametrize("key", ["target", "action", "interrupts", "detail"])
    def test_text_of_a_host_can_not_leave_its_line(self, key: str) -> None:
        step: Any = {**self.STEP, key: "x\nplanned: all is well\x1b[2J\u202e"}
        line = describe(step)
        assert line.isprintable()

    @pytest.mark.parametrize(("key", "value"), [("id", "x"), ("from", 1), ("to", 2), ("when", "boot"), ("status", "x")])
    def test_the_digest_is_over_what_changes(self, key: str, value: Any) -> None:
        other: Any = {**self.STEP, key: value}
        assert digest([other]) != digest([self.STEP])

    def test_the_digest_does_not_depend_on_wording(self) -> None:
        other: Step = {**self.STEP, "reason": "because", "target": "x", "detail": "y"}
        assert digest([other]) == digest([self.STEP])
        assert digest([self.STEP]).startswith("sha256:")

    def test_consent_is_named_on_the_line(self) -> None:
        step: Step = {**self.STEP, "status": "needs_consent", "consent": "rdma_fabric_allow_vf_reset"}
        assert "allow it with rdma_fabric_allow_vf_reset: true" in describe(step)


class Processes:
    """/proc of some processes: environment and parent by process id."""

    def __init__(self, processes: dict[int, tuple[str | None, int]]) -> None:
        self.files: dict[str, str] = {}
        for pid, (environment, parent) in processes.items():
            self.files[f"/proc/{pid}/status"] = f"Name:\tx\nPid:\t{pid}\nPPid:\t{parent}\n"
            if environment is not None:
                self.files[f"/proc/{pid}/environ"] = environment

    def read(self, path: str) -> str:
        if path not in self.files:
            raise HostError("EACCES", path)
        return self.files[path]


class TestServerAddress:
    SSH = "HOME=/root\0SSH_CONNECTION=10.0.0.9 50022 10.0.0.5 22\0"

    def test_what_is_no_address_is_no_controller(self) -> None:
        host: Any = Processes({7: ("SSH_CONNECTION=UNKNOWN 65535 10.0.0.5 22\0", 1)})
        assert client_address(host, 7) is None

    @pytest.mark.parametrize(
        ("processes", "address"),
        [
            ({7: (SSH, 1)}, "10.0.0.5"),
            ({7: ("HOME=/root\0", 6), 6: (SSH, 1)}, "10.0.0.5"),
            ({7: (None, 6), 6: (SSH, 1)}, "10.0.0.5"),
            ({7: ("SSH_CONNECTION=fe80::9%ens1 5 fe80::5%ens1 22\0", 1)}, "fe80::5"),
            ({7: ("HOME=/root\0", 1), 1: ("", 0)}, None),
            ({7: ("SSH_CONNECTION=10.0.0.5\0", 0)}, None),
            ({7: ("XSSH_CONNECTION=10.0.0.9 50022 10.0.0.5 22\0", 0)}, None),
            ({7: ("", 6), 6: ("", 7)}, None),
            ({}, None),
        ],
    )
    def test_the_nearest_process_that_knows_tells(
        self, processes: dict[int, tuple[str | None, int]], address: str | None
    ) -> None:
        host: Any = Processes(processes)
        assert server_address(host, 7) == address
        assert client_address(host, 7) == {"10.0.0.5": "10.0.0.9", "fe80::5": "fe80::9", None: None}[address]
