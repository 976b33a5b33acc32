# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module and its action plugin as ansible runs them, on this machine and on a small recorded host."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, ClassVar
from unittest import mock

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rdma.fabric.plugins.action import rdma_host as rdma_host_action
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import UNIT_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost, load_recording
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import seal
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.modules import rdma_host
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import base
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import boot_of_controller
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import nic_templates
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.sweeps import first_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.on_disk import contents, lay_out, run_apart
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import Fragments

PF = "0000:18:00.0"
SYS = f"/sys/devices/pci0000:17/{PF}"
RECORDING: dict[str, Any] = {
    "format": "rdma.fabric/recorded-host/v1",
    "hostname": "egx-01",
    "recorded_by": "rdma.fabric 0.1.0",
    "stand_in": "composed for a test",
    "files": {
        f"{SYS}/uevent": "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1017\nPCI_SUBSYS_ID=15B3:0020\n",
        f"{SYS}/sriov_totalvfs": "8\n",
        f"{SYS}/sriov_numvfs": "0\n",
        f"{SYS}/net/ens2f0/address": "98:03:9b:00:00:01\n",
        f"{SYS}/net/ens2f0/mtu": "1500\n",
        f"{SYS}/net/ens2f0/flags": "0x1003\n",
        f"{SYS}/net/ens2f0/type": "1\n",
        f"{SYS}/net/ens2f0/operstate": "up\n",
        "/proc/modules": "mlx5_core 1 0 - Live 0x0\n",
        "/proc/sys/kernel/osrelease": "5.15.0-generic\n",
    },
    "links": {
        f"/sys/bus/pci/devices/{PF}": f"../../../devices/pci0000:17/{PF}",
        "/sys/class/net/ens2f0": f"../../devices/pci0000:17/{PF}/net/ens2f0",
        f"{SYS}/net/ens2f0/device": "../..",
    },
    "commands": {},
}
DESIRED = {"interfaces": [{"pci": PF, "name": "rail0", "mtu": 9000, "vfs": 2}]}
_READ = sample_fleet.document("egx-01", sample_fleet.plain_facts("egx-01"), [])
# What a module answers whose host was read, whatever became of it.
ANSWER: dict[str, Any] = {"facts": _READ["facts"], "plan": _READ["plan"], "summary": {"labels": {}}}

Plan = Callable[..., dict[str, Any]]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "egx-01.json.gz"
    path.write_bytes(gzip.compress(json.dumps(RECORDING).encode()))
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Run the action in this process; a live host is whatever the given function returns for its module."""

    def start(
        *,
        live: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        check: bool = False,
        diff: bool = True,
        connection: SimpleNamespace | None = None,
        variables: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        given = {key: value for key, value in {"desired": DESIRED, **arguments}.items() if value is not None}
        task = SimpleNamespace(args=given, check_mode=check, diff=diff, async_val=0, action="rdma_host")
        connection = connection or SimpleNamespace()
        connection._shell = SimpleNamespace(tmpdir="/nowhere")
        loader = SimpleNamespace(path_dwim=lambda name: str(tmp_path / name))
        templar = SimpleNamespace(template=lambda value: value)
        action = rdma_host_action.ActionModule(task, connection, SimpleNamespace(), loader, templar, None)

        def execute_module(module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
            assert live is not None, "a module was started"
            return {"invocation": {"module_args": module_args}, **live(module_args)}

        action._execute_module = execute_module
        with mock.patch.object(base, "fragment_loader", Fragments()):
            result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "egx-01", **(variables or {})})
        return result

    return start


def disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the disk of the controller take no more files."""

    def full(*_arguments: Any, **_keywords: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the task prints."""
    lines: list[str] = []
    monkeypatch.setattr(rdma_host_action, "display", SimpleNamespace(display=lines.append))
    return lines


class TestWhatWasValidated:
    VALIDATED: ClassVar[dict[str, Any]] = {"spec": {"hosts": {"egx-01": DESIRED, "egx-02": {"mtu": "of another"}}}}

    @pytest.mark.parametrize("registered", [True, False])
    def test_it_is_what_is_asked_of_the_host(self, plan: Plan, recording: Path, *, registered: bool) -> None:
        kept = {"rdma_fabric_preflight_result": self.VALIDATED}
        variables = kept if registered else {"hostvars": {"localhost": kept}}
        result = plan(desired=None, validated=True, recording=str(recording), variables=variables)
        assert result["msg"] == "4 steps: 4 planned"

    def test_what_is_given_counts_before_it(self, plan: Plan, recording: Path) -> None:
        variables = {"rdma_fabric_preflight_result": self.VALIDATED}
        result = plan(desired={}, validated=True, recording=str(recording), variables=variables)
        assert result["plan"]["steps"] == []

    def test_localhost_is_skipped_and_a_host_that_nobody_validated_fails(self, plan: Plan) -> None:
        result = plan(desired=None, validated=True, variables={"hostvars": {"localhost": {}}})
        assert "nothing was validated" in result["msg"]
        others: dict[str, Any] = {"rdma_fabric_preflight_result": {"spec": {"hosts": {}}}}
        result = plan(desired=None, validated=True, variables=others)
        assert "egx-01 is not a host of the fabric" in result["msg"]
        result = plan(desired=None, validated=True, variables={**others, "inventory_hostname": "localhost"})
        assert result["skipped"]
        assert not result.get("failed")


class TestRecordedHost:
    def test_it_is_planned_without_any_module(self, plan: Plan, recording: Path, printed: list[str]) -> None:
        result = plan(recording=str(recording))
        assert not result.get("failed")
        assert (result["changed"], result["recorded"], result["is_controller"]) == (False, True, False)
        planned = [f"naming:{PF}", f"vfs:{PF}", f"mtu:{PF}", f"boot:{UNIT_FILE}"]
        assert [step["id"] for step in result["plan"]["steps"]] == planned
        assert result["facts"]["nics"][0]["address"] == PF
        assert result["msg"] == "4 steps: 4 planned"
        assert printed == [f"[egx-01] {describe(step)}" for step in result["plan"]["steps"]]
        assert "diff" not in result

    def test_without_differences_nothing_is_printed(self, plan: Plan, recording: Path, printed: list[str]) -> None:
        plan(recording=str(recording), diff=False)
        assert printed == []

    def test_without_differences_the_notices_are_printed(self, plan: Plan, recording: Path, printed: list[str]) -> None:
        plan(recording=str(recording), desired={"protected_interfaces": ["no-such"]}, diff=False)
        (line,) = printed
        assert line == "[egx-01] notice: rdma_fabric_protected_interfaces: no-such: unknown interface; entry ignored"

    @pytest.mark.parametrize(
        ("diff", "outcome", "shown"),
        [
            (True, {"changed": True}, False),
            (False, {"changed": True}, True),
            (True, {"changed": False, "failed": True}, True),
            (False, {"changed": False, "failed": True}, True),
        ],
    )
    def test_notices_are_printed_once(
        self, plan: Plan, printed: list[str], diff: bool, outcome: dict[str, Any], shown: bool
    ) -> None:
        told = {"msg": "", "facts": {}, "plan": {"steps": [], "notices": ["one\ntwo"]}, **outcome}
        plan(live=lambda _arguments: dict(told), diff=diff)
        assert printed == (["[egx-01] notice: one\\ntwo"] if shown else [])

    def test_a_relative_path_is_found_beside_the_playbook(self, plan: Plan, recording: Path) -> None:
        assert plan(recording=recording.name)["recorded"]

    def test_facts_and_plan_go_to_the_output_file(self, plan: Plan, recording: Path, tmp_path: Path) -> None:
        output = tmp_path / "run" / "hosts" / "egx-01.json"
        result = plan(recording=str(recording), output_file=str(output))
        assert "facts" not in result and "plan" not in result
        assert result["summary"]["planned"] == 4
        document = json.loads(output.read_text())
        assert sorted(document) == ["desired", "facts", "host", "plan", "recorded"]
        assert (document["host"], document["recorded"]) == ("egx-01", True)
        assert document["desired"] == check_spec(DESIRED)
        assert document["plan"]["digest"] == result["summary"]["digest"]

    def test_an_equal_output_file_is_not_written_again(self, plan: Plan, recording: Path, tmp_path: Path) -> None:
        output = tmp_path / "egx-01.json"
        plan(recording=str(recording), output_file=str(output))
        os.utime(output, (0, 0))
        plan(recording=str(recording), output_file=str(output))
        assert output.stat().st_mtime == 0
        plan(recording=str(recording), output_file=str(output), desired={})
        assert output.stat().st_mtime > 0

    def test_the_output_file_is_written_in_check_mode(self, plan: Plan, recording: Path, tmp_path: Path) -> None:
        output = tmp_path / "egx-01.json"
        assert not plan(recording=str(recording), output_file=str(output), check=True)["changed"]
        assert output.exists()

    @pytest.mark.parametrize("content", [b"", b"\x1f\x8bgarbage", b"[]", b'{"format": "other"}', b"\x00\xff"])
    def test_a_file_that_is_no_recording_is_one_clear_error(self, plan: Plan, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "bad.json.gz"
        path.write_bytes(content)
        result = plan(recording=str(path))
        assert result["failed"]
        assert str(path) in result["msg"]

    def test_a_refusal_on_a_recording_is_told_to_be_about_what_the_recording_holds(
        self, plan: Plan, recording: Path
    ) -> None:
        wish = {"interfaces": [{"pci": PF, "mtu": 9000, "queues": {"rx_ring": 8192}}]}
        result = plan(recording=str(recording), desired=wish)
        assert "refused" in [step["status"] for step in result["plan"]["steps"]]
        (notice,) = [each for each in result["plan"]["notices"] if "the recording does not hold" in each]
        assert "ethtool" in notice
        assert "next: record the host again" in notice
        assert not any("the recording" in each for each in plan(recording=str(recording))["plan"]["notices"])

    def test_a_missing_recording_is_one_clear_error(self, plan: Plan, tmp_path: Path) -> None:
        result = plan(recording=str(tmp_path / "none.json"))
        assert result["failed"]
        assert f"{tmp_path / 'none.json'}: can't be read (No such file or directory)" in result["msg"]
        assert "next: name a file that rdma.fabric.record wrote" in result["msg"]

    def test_names_of_a_hostile_host_stay_text_on_their_line(
        self, plan: Plan, tmp_path: Path, printed: list[str]
    ) -> None:
        text = json.dumps(RECORDING).replace("ens2f0", "{{1+1}}\\u001b[2J\\nplanned")
        path = tmp_path / "hostile.json"
        path.write_text(text)
        result = plan(recording=str(path))
        assert len(printed) == len(result["plan"]["steps"]) == 4
        assert all(line.isprintable() for line in printed)
        assert "{{1+1}}" in printed[0]


class TestLiveHost:
    def test_the_module_gets_the_checked_desired_state(self, plan: Plan) -> None:
        seen: dict[str, Any] = {}

        def live(arguments: dict[str, Any]) -> dict[str, Any]:
            seen.update(arguments)
            return {"changed": False, "msg": "nothing to do"}

        result = plan(live=live, mode="preview", guard_token="0123")
        given = {
            "mode": "preview",
            "state": "present",
            "strict": True,
            "defer_reload": False,
            "allow_reboot": False,
            "counters": False,
            "links": [],
        }
        given["link_timeout"] = 120
        given["guard_token"] = "0123"
        assert seen == {"desired": check_spec(DESIRED), **given}
        assert "invocation" not in result

    @pytest.mark.parametrize(
        ("own", "told", "is_it"), [("5f2a", "5f2a", True), ("5f2a", "77", False), ("", "", False), ("5f2a", "", False)]
    )
    def test_it_is_the_machine_of_the_controller_by_the_boot_of_its_kernel(
        self, own: str, told: str, is_it: bool, plan: Plan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rdma_host_action, "boot_of_controller", lambda: own)
        result = plan(live=lambda _arguments: {"changed": False, "msg": "nothing to do", "boot_id": told})
        assert (result["is_controller"], "boot_id" in result) == (is_it, False)

    @pytest.mark.parametrize(
        "answer", [{"cabling": {"ens2": [{"switch": "leaf-1", "port": "swp3"}]}}, {"failed": True}]
    )
    def test_cabling_is_asked_of_the_other_module_and_is_among_the_facts(
        self, answer: dict[str, Any], plan: Plan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []

        def module(_self: Any, name: str, arguments: dict[str, Any], _variables: Any) -> dict[str, Any]:
            asked.append((name, arguments.get("cabling")))
            return {"changed": False, "facts": {"format": 1}} if name == "rdma_host" else answer

        monkeypatch.setattr(rdma_host_action, "check_result", lambda *_given, **_more: None)
        monkeypatch.setattr(rdma_host_action.ActionModule, "run_module", module)
        facts = plan(live=dict, mode="preview", cabling="told")["facts"]
        assert asked == [("rdma_host", None), ("rdma_info", "told")]
        assert facts == {"format": 1, **{key: value for key, value in answer.items() if key == "cabling"}}

    def test_the_module_gets_the_sealed_plan_and_a_broken_one_runs_nothing(self, plan: Plan) -> None:
        seen: dict[str, Any] = {}

        def live(arguments: dict[str, Any]) -> dict[str, Any]:
            seen.update(arguments)
            return {"changed": False, "msg": "nothing to do"}

        sealed = {"facts": {}, "machine": "", "steps": [], "rest": True}
        plan(live=live, sealed=sealed)
        assert seen["sealed"] == sealed
        broken = plan(sealed={"facts": {}})
        assert broken["failed"] and "sealed: steps: is not a list" in broken["msg"]

    def test_a_difference_that_ansible_shows_is_not_printed_twice(self, plan: Plan, printed: list[str]) -> None:
        diff = {"prepared": "planned: x\n"}
        assert plan(live=lambda _arguments: {"changed": True, "diff": diff})["diff"] == diff
        assert printed == []
        assert "diff" not in plan(live=lambda _arguments: {"changed": False, "diff": diff})
        assert printed == ["[egx-01] planned: x"]

    @pytest.mark.parametrize("callback", ["ansible.posix.json", "ansible.posix.jsonl"])
    def test_where_a_program_reads_the_output_the_plan_stays_in_the_result(
        self, plan: Plan, printed: list[str], monkeypatch: pytest.MonkeyPatch, callback: str
    ) -> None:
        monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", callback)
        diff = {"prepared": "planned: x\n"}
        for grouped in (False, True):
            result = plan(live=lambda _arguments: {"changed": False, "diff": diff}, grouped=grouped)
            assert (result["diff"], result.get("shown_later")) == (diff, None)
        assert printed == []

    @pytest.mark.parametrize("end", [{"changed": False}, {"changed": True}, {"changed": True, "failed": True}])
    def test_what_is_printed_with_that_of_other_hosts_is_kept_and_not_printed(
        self, plan: Plan, printed: list[str], end: dict[str, Any]
    ) -> None:
        told = {
            "diff": {"prepared": "planned: x\nnotice: slow slot\n"},
            "facts": {},
            "plan": {"steps": [], "notices": ["slow slot", "no\nlink"]},
            **end,
        }
        result = plan(live=lambda _arguments: dict(told), grouped=True)
        assert result["shown_later"] == {"steps": ["planned: x"], "notices": ["slow slot", "no\\nlink"]}
        assert "diff" not in result
        assert printed == []

    def test_without_differences_only_the_notices_are_kept(
        self, plan: Plan, recording: Path, printed: list[str]
    ) -> None:
        result = plan(recording=str(recording), diff=False, grouped=True)
        assert result["shown_later"] == {"notices": []}
        assert printed == []

    def test_a_host_with_nothing_to_do_is_kept_as_one(self, plan: Plan) -> None:
        told = {"changed": False, "facts": {}, "plan": {"steps": [], "notices": []}}
        assert plan(live=lambda _arguments: dict(told), grouped=True)["shown_later"] == {"steps": [], "notices": []}
        unread = {"failed": True, "msg": "the host has no such Python"}
        assert plan(live=lambda _arguments: dict(unread), grouped=True)["shown_later"] == {"notices": []}

    def test_a_failed_run_still_leaves_the_output_file(self, plan: Plan, tmp_path: Path) -> None:
        output = tmp_path / "egx-01.json"
        run = {"executed": [{"id": "mtu:x", "line": "planned: x", "seconds": 0.1}], "not_reached": ["planned: y"]}
        answer = {"failed": True, "msg": "no", **ANSWER, **run}
        result = plan(live=lambda _arguments: dict(answer), output_file=str(output))
        assert result["failed"]
        document = json.loads(output.read_text())
        assert (document["recorded"], document["run"]) == (False, run)

    @pytest.mark.parametrize("came_to", [{"changed": True}, {"failed": True, "msg": "no"}])
    def test_what_became_of_a_host_is_told_where_the_disk_of_the_controller_is_full_by_then(
        self, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, came_to: dict[str, Any]
    ) -> None:
        output, warnings = tmp_path / "egx-01.json", list[str]()
        monkeypatch.setattr(rdma_host_action.display, "warning", warnings.append)
        answer = {**ANSWER, **came_to}

        def live(_arguments: Any) -> dict[str, Any]:
            disk_is_full(monkeypatch)
            return dict(answer)

        result = plan(live=live, output_file=str(output))
        assert {key: result.get(key) for key in came_to} == came_to
        assert warnings == [f"facts and plan of egx-01 are not kept: {output}: No space left on device"]
        planned = plan(
            live=lambda _arguments: {**answer, "changed": True, "failed": False}, output_file=str(output), check=True
        )
        assert (planned["failed"], planned["msg"]) == (True, f"{output}: No space left on device")

    def test_a_place_that_can_not_hold_the_output_is_told_before_the_host_is_changed(
        self, plan: Plan, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        # No module is started: that would fail the test.
        result = plan(output_file=str(tmp_path / "file" / "hosts" / "egx-01.json"))
        assert result["failed"]
        assert str(tmp_path / "file") in result["msg"]

    def test_a_host_that_does_not_answer_in_its_time_has_failed(self, plan: Plan) -> None:
        result = plan(live=lambda _arguments: {"changed": threading.Event().wait(60)}, timeout=1)
        assert result["failed"] is True
        assert result["msg"].startswith("egx-01 has not answered for 1 s (rdma_fabric_host_timeout)")

    @pytest.mark.parametrize(
        ("told", "options", "is_due"),
        [
            ({}, {"allow_reboot": True}, True),
            ({}, {"allow_reboot": False}, False),
            ({}, {}, False),
            ({"reboot_required": False}, {"allow_reboot": True}, False),
            ({}, {"allow_reboot": True, "check": True}, False),
            ({}, {"allow_reboot": True, "mode": "preview"}, False),
            ({"failed": True, "msg": "no disk"}, {"allow_reboot": True}, False),
        ],
    )
    def test_a_reboot_is_due_where_one_is_needed_and_allowed(
        self, plan: Plan, told: dict[str, Any], options: dict[str, Any], is_due: bool
    ) -> None:
        answer = {**ANSWER, "changed": False, "msg": "waits", "reboot_required": True, **told}
        assert plan(live=lambda _arguments: dict(answer), **options)["reboot_due"] is is_due

    def test_a_time_below_0_is_refused_before_anything_runs(self, plan: Plan) -> None:
        assert plan(timeout=-1)["msg"] == "timeout: -1 is negative; 0 means no limit"

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            ({"changed": False}, "facts is missing, and 2 more"),
            ({"changed": "no"}, 'changed is the text "no", not true or false'),
            ({**ANSWER, "changed": False, "plan": ["x"]}, "plan is a list, not a mapping"),
            (
                {**ANSWER, "changed": True, "facts": {**ANSWER["facts"], "nics": {}}},
                "facts.nics is a mapping, not a list",
            ),
            ({**ANSWER, "failed": True, "msg": "no disk", "plan": {}}, "plan.format is missing, and 3 more"),
            (
                {**ANSWER, "changed": False, "summary": {"labels": {"a": 1}}},
                "summary.labels.a is the number 1, not text",
            ),
            ({**ANSWER, "changed": True, "executed": [7]}, "executed[0] is the number 7, not a mapping"),
        ],
    )
    def test_an_answer_that_nothing_could_read_fails_its_host_and_leaves_no_document(
        self, plan: Plan, tmp_path: Path, answer: dict[str, Any], why: str
    ) -> None:
        output = tmp_path / "egx-01.json"
        output.write_text("of an earlier run")
        result = plan(live=lambda _arguments: dict(answer), output_file=str(output), grouped=True)
        assert (result["failed"], output.read_text()) == (True, "of an earlier run")
        assert f"the answer of egx-01 can't be read: {why}. It is discarded" in result["msg"]
        assert ("It says: no disk" in result["msg"]) == ("msg" in answer)

    def test_a_failure_without_plan_is_passed_on(self, plan: Plan, tmp_path: Path) -> None:
        output = tmp_path / "egx-01.json"
        result = plan(live=lambda _arguments: {"failed": True, "msg": "unreachable"}, output_file=str(output))
        assert (result["msg"], output.exists()) == ("unreachable", False)


@pytest.mark.parametrize("desired", [{"interfaces": 7}, {"interfaces": [{"pci": 7}]}, {"x": {}}])
def test_a_wrong_desired_state_is_refused_before_anything_runs(plan: Plan, desired: Any) -> None:
    result = plan(desired=desired)
    assert result["failed"]
    assert "problem in the input" in result["msg"]
    assert result["violations"]


class TestVariablesOfATask:
    """Variables of hosts that a role or a play adds: the desired state is made with them."""

    def variables(self, spec: dict[str, Any], **of_task: Any) -> dict[str, Any]:
        return {
            "hostvars": {"egx-01": {"ansible_host": "a"}},
            "rdma_fabric_preflight_result": {"spec": spec},
            **of_task,
        }

    def test_they_count_and_what_policies_request_is_kept(self, plan: Plan) -> None:
        sent: list[dict[str, Any]] = []

        def live(arguments: dict[str, Any]) -> dict[str, Any]:
            sent.append(arguments["desired"])
            return {"changed": False, "msg": "nothing to do"}

        request = {"source": "a policy", "node_selector": {}}
        spec = {"hosts": {"egx-01": {"requests": [request]}}}
        given = self.variables(spec, rdma_fabric_kernel_modules=["rdma_ucm"])
        assert not plan(live=live, variables=given, check_variables=True).get("failed")
        assert not plan(live=live, variables=given).get("failed")
        assert [each["kernel_modules"] for each in sent] == [["rdma_ucm"], []]
        assert sent[0]["requests"][0]["source"] == "a policy"

    def test_what_is_wrong_with_them_is_refused_before_anything_runs(self, plan: Plan) -> None:
        wrong = {"rdma_fabric_mtu": 9000, "rdma_fabric_netns_mode": "exclusive", "rdma_fabric_interfaces": 7}
        spec = {"hosts": {"egx-01": {}}, "cluster_policy": {"spec": {"rdmaSharedDevicePlugin": {"config": "{}"}}}}
        result = plan(variables=self.variables(spec, **wrong), check_variables=True)
        sources = [found["source"] for found in result["violations"]]
        assert sources == ["host egx-01: rdma_fabric_interfaces", "host egx-01: rdma_fabric_netns_mode"]

    def test_an_approved_plan_takes_none(self, plan: Plan) -> None:
        given = self.variables({}, rdma_fabric_kernel_modules=["rdma_ucm"])
        (found,) = plan(variables=given, check_variables=True, sealed={})["violations"]
        assert "the plan that was approved is of the inventory's" in found["problem"]


class TestModule:
    """The module as it runs on a target: in a process of its own, with nothing but its arguments."""

    def run(self, desired: Any) -> dict[str, Any]:
        wrapper = (
            "import sys; sys.path[:0] = {path!r}\n"
            "from ansible_collections.rdma.fabric.plugins.modules import rdma_host\n"
            "from ansible_collections.rdma.fabric.tests.unit.module_arguments import given\n"
            "with given({arguments!r}):\n"
            "    rdma_host.main()\n"
        )
        given = {"desired": desired, "_ansible_check_mode": True, "_ansible_diff": True}
        code = wrapper.format(path=[path for path in sys.path if path], arguments=given)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        assert "Traceback" not in done.stderr, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def test_this_machine_is_read_and_planned(self) -> None:
        result = self.run({"interfaces": [{"pci": "0000:ff:1f.7", "mtu": 9000}]})
        assert result["facts"]["system"]["hostname"]
        assert result["boot_id"] == boot_of_controller()
        assert [step["status"] for step in result["plan"]["steps"]] == ["refused"]
        assert result["diff"]["prepared"].startswith("refused: naming 0000:ff:1f.7: find the interface")

    @pytest.mark.parametrize(
        "desired", first_of([{"interfaces": 7}, {"consents": {"vf_reset": "yes"}}, {"requests": [[]]}])
    )
    def test_a_wrong_desired_state_is_refused(self, desired: Any) -> None:
        result = self.run(desired)
        assert (result["failed"], len(result["violations"])) == (True, 1)

    @pytest.mark.parametrize("desired", first_of([[1], 7, "text", None]))
    def test_a_desired_state_that_is_no_mapping_is_refused(self, desired: Any) -> None:
        assert self.run(desired)["failed"]


class TestTree:
    """The module as it runs on a target that it changes: the files of a recorded host stand for the machine's own."""

    WISH: ClassVar = {
        "kernel_modules": ["rdma_ucm"],
        "interfaces": [{"pci": "0000:37:00.0", "mtu": 9000}, {"pci": "0000:37:00.1", "state": "up"}],
    }

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "root"
        root.mkdir()
        lay_out(FLEET["egx-01"]().document(), root)
        return root

    def run(self, root: Path, desired: Any = None, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        given = {"_ansible_check_mode": check, "_ansible_diff": True, **arguments}
        if desired is not None:
            given["desired"] = desired
        told, complaints = run_apart(root, given)
        assert "Traceback" not in complaints, complaints
        result: dict[str, Any] = json.loads(told)
        return result

    def test_what_check_mode_shows_is_what_the_run_after_it_does_and_a_second_run_does_nothing(
        self, root: Path
    ) -> None:
        before = contents(root)
        shown = self.run(root, self.WISH, check=True)
        assert contents(root) == before
        done = self.run(root, self.WISH)
        assert (shown["changed"], done["changed"], done.get("failed")) == (True, True, None)
        assert shown["diff"] == done["diff"]
        assert [step["line"] for step in done["executed"]] == shown["diff"]["prepared"].splitlines()
        assert (root / "sys/class/net/ens2f0").resolve().joinpath("mtu").read_text() == "9000\n"
        after = contents(root)
        again = self.run(root, self.WISH)
        assert (again["changed"], again["executed"], again["plan"]["steps"]) == (False, [], [])
        assert contents(root) == after

    def test_a_preview_changes_nothing_and_is_no_change(self, root: Path) -> None:
        before = contents(root)
        shown = self.run(root, self.WISH, mode="preview")
        assert (shown.get("failed"), shown["changed"], bool(shown["plan"]["steps"])) == (None, False, True)
        assert contents(root) == before

    def test_a_sealed_plan_is_done_and_another_one_changes_nothing(self, root: Path) -> None:
        shown = self.run(root, self.WISH, check=True)
        sealed = seal(shown["plan"], shown["facts"])
        before = contents(root)
        other = {**sealed, "steps": sealed["steps"][1:]}
        for check in (True, False):
            refused = self.run(root, self.WISH, check=check, sealed=other)
            assert (refused["failed"], refused["changed"], refused["sealed"]["state"]) == (True, False, "other")
            assert f"+ {sealed['steps'][0]['line']}" in refused["msg"]
        assert contents(root) == before
        done = self.run(root, self.WISH, sealed=sealed)
        assert [step["line"] for step in done["executed"]] == [step["line"] for step in sealed["steps"]]
        after = contents(root)
        assert self.run(root, self.WISH, sealed=sealed)["sealed"]["state"] == "done"
        assert contents(root) == after

    def test_everything_is_taken_back(self, root: Path) -> None:
        before = contents(root)
        self.run(root, self.WISH)
        assert self.run(root, {}, state="absent")["changed"]
        assert contents(root) == before
        assert not (root / "var/lib/rdma-fabric").exists()

    def test_a_token_that_nothing_has_is_no_confirmation(self, root: Path) -> None:
        before = contents(root)
        answer = self.run(root, confirm="abc")
        assert (answer["failed"], answer["guard"]["state"]) == (True, "unknown")
        assert answer["msg"].startswith("not confirmed: no change of the uplink waits on this host")
        assert contents(root) == before

    @pytest.mark.parametrize("leads", ["../rdma-fabric-join.service", "/nowhere"])
    def test_the_unit_of_a_node_that_has_joined_goes_and_nothing_else(self, root: Path, leads: str) -> None:
        before = contents(root)
        folder = root / "etc/systemd/system"
        wants = folder / "multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (folder / "rdma-fabric-join.service").write_text("[Unit]\n")
        (wants / "rdma-fabric-join.service").symlink_to(leads)
        there = contents(root)
        assert self.run(root, check=True, joined=True)["changed"]
        assert contents(root) == there
        assert self.run(root, joined=True)["changed"]
        assert (contents(root), self.run(root, joined=True)["changed"]) == (before, False)

    def test_a_refused_step_fails_unless_that_is_wanted(self, root: Path) -> None:
        wish = {"interfaces": [{"current_name": "eno1", "state": "down"}]}
        assert "it carries the uplink" in self.run(root, wish)["msg"]
        assert self.run(root, wish)["failed"]
        assert not self.run(root, wish, strict=False).get("failed")

    def test_damaged_original_values_are_told_before_anything_changes(self, root: Path) -> None:
        (root / "var/lib/rdma-fabric").mkdir(parents=True)
        (root / "var/lib/rdma-fabric/baseline.json").write_text("{")
        before = contents(root)
        assert "baseline.json does not hold" in self.run(root, self.WISH)["msg"]
        assert contents(root) == before


class TestWhatAnEarlierRunHasKept:
    """A run with ``mode: kept`` takes the document of a host for the host, where that tells it finished."""

    def document(self, *steps: dict[str, Any]) -> dict[str, Any]:
        document = sample_fleet.document("egx-01", _READ["facts"], [*steps])
        return {**document, "desired": check_spec(DESIRED), "recorded": False}

    def kept(self, plan: Plan, output: Path, document: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
        if document is not None:
            output.write_text(json.dumps(document), encoding="utf-8")
        before = output.read_bytes() if output.exists() else b""
        result = plan(mode="kept", output_file=str(output), **given)
        assert (output.read_bytes() if output.exists() else b"") == before
        return result

    def test_a_recorded_host_is_as_it_was_planned(self, plan: Plan, recording: Path, tmp_path: Path) -> None:
        output = tmp_path / "egx-01.json"
        first = plan(recording=str(recording), output_file=str(output))
        result = self.kept(plan, output)
        assert {"facts", "plan", "diff", "failed"}.isdisjoint(result)
        assert (result["summary"], result["recorded"], result["changed"]) == (first["summary"], True, False)

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"desired": {}}, "was made from another input"),
            ({"run": {"executed": [], "failed_step": {"line": "mtu rail0", "error": "EBUSY"}}}, "failed: mtu rail0"),
            ({"plan": {"steps": []}}, "plan.format: "),
        ],
    )
    def test_what_does_not_tell_the_host_finished_fails(
        self, plan: Plan, tmp_path: Path, changes: dict[str, Any], why: str
    ) -> None:
        result = self.kept(plan, tmp_path / "egx-01.json", {**self.document(), **changes})
        assert result["failed"]
        assert f"egx-01.json: {why}" in result["msg"]

    def test_a_host_of_which_nothing_is_kept_fails(self, plan: Plan, tmp_path: Path) -> None:
        assert "egx-01.json: cannot be read" in self.kept(plan, tmp_path / "egx-01.json")["msg"]
        assert "needs output_file" in plan(mode="kept")["msg"]

    def test_nothing_kept_tells_that_a_host_was_taken_back(self, plan: Plan, tmp_path: Path) -> None:
        result = self.kept(plan, tmp_path / "egx-01.json", self.document(), state="absent")
        assert result["msg"].startswith("mode: kept is for state: present")

    def test_steps_that_were_only_planned_fail_outside_check_mode(self, plan: Plan, tmp_path: Path) -> None:
        step = sample_fleet.step("mtu:rail0", "set it")
        document = self.document(step)
        assert "its plan was not executed: 1 step: 1 planned" in self.kept(plan, tmp_path / "a.json", document)["msg"]
        shown = self.kept(plan, tmp_path / "a.json", check=True)
        assert (shown.get("failed"), shown["summary"]["planned"]) == (None, 1)

    def test_a_refused_step_fails_unless_that_is_wanted(self, plan: Plan, tmp_path: Path) -> None:
        step = sample_fleet.step("mtu:rail0", "set it", status="refused", detail="it carries the uplink")
        document = self.document(step)
        assert "refused, so the host would not" in self.kept(plan, tmp_path / "a.json", document)["msg"]
        assert not self.kept(plan, tmp_path / "a.json", strict=False).get("failed")


def test_the_examples_run(plan: Plan, recording: Path, tmp_path: Path) -> None:
    *live, recorded = (task["rdma.fabric.rdma_host"] for task in yaml.safe_load(rdma_host.EXAMPLES))
    for arguments in live:
        assert not plan(live=lambda _arguments: {"changed": False}, **arguments).get("failed")
    recorded["recording"] = str(recording)
    recorded["output_file"] = str(tmp_path / recorded["output_file"])
    result = plan(**recorded)
    assert (result["recorded"], result["summary"]["planned"]) == (True, 2)


class TestGuard:
    """What the controller does about a change of the uplink: confirm it over a new connection, or learn its end."""

    GUARD: ClassVar = {"token": "0123", "seconds": 120, "steps": ["planned: mtu eno1: set the MTU to 9000"]}

    @pytest.fixture
    def host(self, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, Any], list[str]]]:
        """Run with a module that made such a change, whose host answers the confirmations as given."""
        passed = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: passed[0])
        monkeypatch.setattr(time, "sleep", lambda seconds: passed.__setitem__(0, passed[0] + seconds))

        def start(*answers: Any, **outcome: Any) -> tuple[dict[str, Any], list[str]]:
            calls: list[str] = []
            waiting = list(answers)

            def module(arguments: dict[str, Any]) -> dict[str, Any]:
                if "confirm" not in arguments:
                    return {"changed": True, "msg": "done", "guard": self.GUARD, **outcome}
                calls.append(arguments["confirm"])
                answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                if isinstance(answer, Exception):
                    raise answer
                # As the module does: whatever does not stay is a failure that says what became of it.
                unconfirmed = {} if answer["state"] == "confirmed" else {"failed": True, "msg": "not confirmed: ..."}
                return {"changed": False, "guard": answer, **unconfirmed}

            connection = SimpleNamespace(transport="ssh", reset=lambda: calls.append("reset"))
            return plan(live=module, connection=connection, guard_token=self.GUARD["token"]), calls

        return start

    def test_it_is_confirmed_over_a_new_connection(self, host: Any) -> None:
        result, calls = host({"state": "confirmed"})
        assert calls == ["reset", "0123"]
        assert (result["changed"], result.get("failed"), result["guard"]["state"]) == (True, None, "confirmed")

    def test_a_host_that_comes_back_in_time_is_confirmed(self, host: Any) -> None:
        lost = AnsibleConnectionFailure("no route to host")
        result, calls = host(lost, lost, {"state": "confirmed"})
        assert calls == ["reset", "0123"] * 3
        assert not result.get("failed")

    def test_a_change_that_the_host_took_back_fails_the_task(self, host: Any) -> None:
        lost = AnsibleConnectionFailure("no route to host")
        taken_back = {"state": "reverted", "steps": self.GUARD["steps"], "problems": ["could not run ip"]}
        result, _calls = host(lost, {"state": "reverting", "steps": []}, taken_back)
        assert result["failed"]
        assert "set the MTU to 9000" in result["msg"]
        assert "the host has reverted it, except for this: could not run ip; next: " in result["msg"]

    def test_a_host_that_stays_away_ends_the_wait(self, host: Any) -> None:
        result, calls = host(AnsibleConnectionFailure("no route to host"))
        assert (result["failed"], result["guard"]) == (True, {**self.GUARD, "state": "unreachable"})
        assert "no route to host" in result["msg"]
        assert 120 / 3 < len(calls) / 2 < 240

    def test_a_host_that_still_takes_back_in_the_end_was_asked_and_says_so(self, host: Any) -> None:
        result, _calls = host({"state": "reverting", "steps": []})
        assert (result["failed"], result["guard"]) == (True, {**self.GUARD, "state": "reverting"})
        assert "could not be asked" not in result["msg"]
        assert "set the MTU to 9000: the host could not be reached in time over a new connection" in result["msg"]
        assert "is still reverting it; next: run again in a minute" in result["msg"]

    def test_a_failed_step_and_its_reason_stay_in_the_message(self, host: Any) -> None:
        result, _calls = host({"state": "confirmed"}, failed=True, msg="step two failed")
        assert (result["failed"], result["msg"]) == (True, "step two failed")
        result, _calls = host({"state": "reverted", "steps": ["x"], "problems": []}, failed=True, msg="step two failed")
        assert result["msg"].startswith("step two failed; x: the host could not be reached")

    def test_a_local_connection_has_nothing_to_drop(self, plan: Plan) -> None:
        answers = [{"guard": self.GUARD, "msg": ""}, {"guard": {"state": "confirmed"}}]
        connection = SimpleNamespace(transport="local")
        assert not plan(live=lambda _arguments: answers.pop(0), connection=connection).get("failed")

    def test_a_token_alone_is_confirmed_and_nothing_else_done(self, plan: Plan) -> None:
        result = plan(live=lambda arguments: {"given": arguments}, desired=None, confirm="0123")
        assert result["given"] == {"confirm": "0123"}
        assert plan(confirm="0123")["failed"]
        assert plan(desired=None)["failed"]


class TestTemplatesOfCards:
    """What templates ask of cards is resolved by facts before the host is planned."""

    @staticmethod
    def desired(**selector: Any) -> dict[str, Any]:
        cards = {"kind": "NicInterfaceNameTemplate", "rails": [[PF]], "ports_per_card": 1, "name": "net%rail_id%"}
        if selector:
            of_card = {"device": "1017", "pci": [], "serials": [], "parts": [], **selector}
            settings = {"link_layer": None, "firmware": {}, "ports": {"queues": {"rx_ring": 512}}}
            cards = {"kind": "NicConfigurationTemplate", **of_card, **settings, "max_read_request": None}
        request = {"source": f"{cards['kind']}/x", "node_selector": {}, "cards": {"rdma_name": None, **cards}}
        return {"requests": [request, {"source": "a", "node_selector": {"no": "host"}}]}

    def test_a_recorded_host_is_planned_with_it_and_its_document_has_what_was_asked(
        self, plan: Plan, recording: Path, tmp_path: Path
    ) -> None:
        output = tmp_path / "egx-01.json"
        plan(recording=str(recording), desired=self.desired(), output_file=str(output), check=True)
        document = json.loads(output.read_text())
        assert [step["action"] for step in document["plan"]["steps"]] == ["rename ens2f0 to net0"]
        requests = document["desired"]["requests"]
        assert [each.get("cards", {}).get("name") for each in requests] == [None, "net%rail_id%"]
        kept = {"mode": "kept", "output_file": str(output), "check": True}
        assert not plan(**kept, desired=self.desired()).get("failed")
        assert "was made from another input" in plan(**kept, desired=self.desired(serials=["MT1"]))["msg"]
        absent = plan(recording=str(recording), desired=self.desired(), state="absent", check=True)
        assert not absent.get("failed")

    def test_a_live_host_is_read_first_and_the_module_gets_entries(
        self, plan: Plan, recording: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        facts = as_returned(gather(RecordedHost(load_recording(recording.read_bytes()))))
        calls: list[Any] = []

        def live(arguments: dict[str, Any]) -> dict[str, Any]:
            calls.append(arguments)
            return ANSWER if "desired" in arguments else {"facts": facts}

        def low_level(_action: Any, command: str) -> dict[str, Any]:
            calls.append(command)
            # PCI local bus specification: VPD-R with the field SN.
            data = base64.b64encode(b"\x90\x06\x00SN\x03MT1\x78").decode()
            return {"stdout": f"{PF} {data}\n"}

        monkeypatch.setattr(rdma_host_action.ActionModule, "_low_level_execute_command", low_level)
        plan(live=live, desired=self.desired(serials=["MT1"]))
        assert calls[:2] == [{}, nic_templates.READ_IDENTITIES]
        (entry,) = calls[2]["desired"]["interfaces"]
        assert (entry["pci"], entry["queues"]) == (PF, {"rx_ring": 512})
        assert [each["source"] for each in calls[2]["desired"]["requests"]] == ["a"]
        calls.clear()
        plan(live=live, desired=self.desired())
        assert calls[0] == {}
        assert calls[1]["desired"]["interfaces"][0]["name"] == "net0"

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            ({"failed": True, "msg": "no Python"}, "are not known: no Python"),
            ({}, "are not known: facts is nothing"),
            ({"facts": {"nics": 1}}, "are not known: facts"),
        ],
    )
    def test_a_host_whose_facts_are_not_known_is_not_planned(self, plan: Plan, answer: Any, why: str) -> None:
        result = plan(live=lambda _arguments: dict(answer), desired=self.desired())
        assert result["failed"]
        assert why in result["msg"]


class TestWriting:
    def test_a_file_is_for_its_owner_only(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b.json"
        assert write_if_different(path, "x")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not write_if_different(path, "x")

    def test_a_failed_write_leaves_the_old_content_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "b.json"
        write_if_different(path, "old")
        disk_is_full(monkeypatch)
        with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
            write_if_different(path, "new")
        assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("b.json", "old")]
