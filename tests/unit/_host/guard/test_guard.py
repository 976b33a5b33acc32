# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the uplink stays only when it is confirmed: the record, who acts on it, and every way to lose contact."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot import apply as unit
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import (
    Operation,
    PutFile,
    RemoveFile,
    Run,
    SetAttribute,
    WaitFor,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.memory import LOGIN_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard import record as records
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import Guard, obstacle
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import (
    CONFIRMED,
    REVERTED,
    REVERTING,
    UNKNOWN,
    confirm,
    confirm_start,
    confirmation,
    read_record,
    revert,
    revert_if_due,
    unreported,
    watch,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    CONFIRMED_FILE,
    DEVICES_FILES,
    ENABLED_BY,
    GUARD_FILE,
    NETPLAN_FILE,
    PROGRAM_DIRECTORY,
    REVERTED_FILE,
    REVERTING_FILE,
    STAGED_FILE,
    UNIT_FILE,
    BrokenState,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_path
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, assess, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.reached import PATH as REACHED
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run as HowToRun
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed

APPLY = HowToRun(check=False, diff=True, mode="apply", recorded=False)
CHECK = HowToRun(check=True, diff=True, mode="apply", recorded=False)
TOKEN = "0123456789abcdef"
SECONDS = 120
UPLINK, OTHER = "eno1", "0000:37:00.0"
WISH = {
    "interfaces": [{"current_name": UPLINK, "mtu": 9000}, {"pci": OTHER, "mtu": 4200}],
    "consents": {"uplink_change": True},
}


def host() -> Kernel:
    document = FLEET["egx-01"]().document()
    document["files"][BOOT_ID] = "first\n"
    document.setdefault("dirs", []).append("/etc/systemd/system")
    return Kernel(document)


def guard(kernel: Kernel, started: list[str] | None = None) -> Guard:
    return Guard(
        kernel,
        kernel,
        lambda _python, _program, token: (started if started is not None else []).append(token),
        token=TOKEN,
        seconds=SECONDS,
    )


def guarded(kernel: Kernel, wish: dict[str, Any] | None = None, started: list[str] | None = None) -> dict[str, Any]:
    """Apply as the module does, up to the moment in which the controller would confirm."""
    armed = guard(kernel, started)
    outcome = apply(kernel, check_spec(wish or WISH), APPLY, None, kernel, watch=armed)
    return {**outcome, "guard": armed.finish()}


def mtu(kernel: Kernel, name: str) -> str:
    return kernel.read(f"/sys/class/net/{name}/mtu").strip()


class TestRecord:
    RECORD = records.Record(TOKEN, "first", SECONDS, 1000.0)

    def test_it_survives_its_file(self) -> None:
        undo: list[Operation] = [
            PutFile("/etc/x", "text \u20ac\udc80", 0o600),
            RemoveFile("/etc/y"),
            SetAttribute("/sys/z", "1"),
            Run(("ip", "link"), 5.0, (0, 2)),
            Run(("ip", "address"), 5, (0,)),
        ]
        record = records.with_step(self.RECORD, "line", undo, 5.0)
        assert records.parse(records.text_of(record)) == record
        whole_seconds = record._replace(deadline=1000, at_boot=True, problems=("one",))
        assert records.parse(records.text_of(whole_seconds)) == whole_seconds

    def test_the_last_change_is_taken_back_first_and_waits_are_left_out(self) -> None:
        wait = WaitFor("it", lambda _host: True, 1.0)
        record = records.with_step(self.RECORD, "one", [RemoveFile("/1"), wait], 0.0)
        record = records.with_step(record, "two", [RemoveFile("/2a"), RemoveFile("/2b")], 0.0)
        assert record.undo == (RemoveFile("/2a"), RemoveFile("/2b"), RemoveFile("/1"))
        assert record.steps == ("one", "two")

    def test_the_last_change_of_the_next_boot_is_written_down_once_and_what_follows_all_comes_last(self) -> None:
        one, two, rebuild = RemoveFile("/1"), RemoveFile("/2"), Run(("update-initramfs",), 300.0)
        record = records.staged(self.RECORD, "one", [one])
        assert records.staged(record, "one", [one]) == record
        record = records.followed_by(record, [rebuild])
        assert records.followed_by(record, [rebuild]) == record
        record = records.staged(record, "two", [two])
        assert (record.steps, record.undo) == (("one", "two"), (two, one, rebuild))

    @pytest.mark.parametrize(
        ("boot", "now", "due"),
        [("first", 0.0, False), ("first", 999.9, False), ("first", 1000.0, True), ("second", 0.0, True)],
    )
    def test_it_is_due_after_its_time_and_after_a_reboot(self, boot: str, now: float, due: bool) -> None:
        assert records.is_due(self.RECORD, boot, now) is due

    def test_a_run_at_work_has_all_of_the_time_again(self) -> None:
        assert records.extended(self.RECORD, 500.0).deadline == 620.0

    @pytest.mark.parametrize(
        "change",
        [
            {"token": 7},
            {"deadline": "soon"},
            {"undo": {}},
            {"undo": [7]},
            {"undo": [{"do": "Popen", "argv": ["rm"]}]},
            {"undo": [{"do": "RemoveFile"}]},
            {"undo": [{"do": "RemoveFile", "path": 7}]},
            {"undo": [{"do": "RemoveFile", "path": "/x", "mode": 1}]},
            {"undo": [{"do": "Run", "argv": "ip", "timeout": 1, "accepted": [0]}]},
        ],
    )
    def test_what_is_no_record_is_refused(self, change: dict[str, Any]) -> None:
        content = records.FILE.parse(records.text_of(self.RECORD))
        with pytest.raises(BrokenState):
            records.parse(records.FILE.text({**content, **change}))

    @pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"format": 3}'])
    def test_a_damaged_file_is_refused(self, text: str) -> None:
        with pytest.raises(BrokenState):
            records.parse(text)


class TestArming:
    def test_a_change_of_the_uplink_is_under_guard_before_it_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host()
        started: list[str] = []
        seen: list[bool] = []
        kernel_run = kernel.run

        def run(argv: Any, timeout: float) -> Any:
            if UPLINK in argv and "set" in argv:
                seen.append(kernel.exists(GUARD_FILE) and kernel.exists(ENABLED_BY) and started == [TOKEN])
            return kernel_run(argv, timeout)

        monkeypatch.setattr(kernel, "run", run)
        outcome = guarded(kernel, started=started)
        assert not outcome.get("failed"), outcome["msg"]
        assert seen == [True]
        assert outcome["guard"]["token"] == TOKEN
        assert [line for line in outcome["guard"]["steps"] if "eno1" in line]

    def test_changes_elsewhere_are_not(self) -> None:
        kernel = host()
        started: list[str] = []
        outcome = guarded(kernel, {"interfaces": [{"pci": OTHER, "mtu": 9000}]}, started)
        assert (outcome["guard"], started, kernel.exists(GUARD_FILE)) == (None, [], False)

    def test_the_time_starts_when_the_run_is_done(self) -> None:
        kernel = host()
        guarded(kernel)
        record = read_record(kernel, GUARD_FILE)
        assert record is not None
        assert record.deadline == kernel.now() + SECONDS

    def test_a_step_is_not_made_when_it_can_not_be_put_under_guard(self) -> None:
        count = 0
        while True:
            kernel = host()
            kernel.disturb(count, "ENOSPC")
            outcome = guarded(kernel) if count else {"failed": True}
            if not outcome.get("failed"):
                break
            changed = mtu(kernel, UPLINK) == "9000"
            assert not changed or kernel.exists(GUARD_FILE), count
            count += 1
        assert count > 5

    def test_where_the_process_that_waits_does_not_start_nothing_is_changed_and_nothing_waits(self) -> None:
        kernel = host()
        units = {path for path in kernel.state()["files"] if path.startswith("/etc/systemd")}

        def launch(*_given: str) -> None:
            raise HostError("ENOENT", "systemd-run")

        armed = Guard(kernel, kernel, launch, token=TOKEN, seconds=SECONDS)
        outcome = apply(kernel, check_spec(WISH), APPLY, None, kernel, watch=armed)
        assert outcome["failed"] and "systemd-run" in outcome["msg"]
        assert mtu(kernel, UPLINK) == "1500"
        # The controller confirms it as any other, so that the next run need not wait.
        waiting = armed.finish()
        assert waiting is not None and confirm(kernel, kernel, str(waiting["token"])).state == CONFIRMED
        assert obstacle(kernel, kernel) == ""
        assert {path for path in kernel.state()["files"] if path.startswith("/etc/systemd")} == units

    def test_nothing_else_is_changed_while_one_waits(self) -> None:
        kernel = host()
        guarded(kernel)
        kernel.sleep(20)
        assert f" for {SECONDS - 20} seconds at most; nothing was changed; next: " in obstacle(kernel, kernel)
        (notice,) = preview(kernel, check_spec(WISH), CHECK, None)["plan"]["notices"][-1:]
        assert "awaits confirmation" in notice


class TestConfirmation:
    def test_a_confirmed_change_stays(self) -> None:
        kernel = host()
        guarded(kernel)
        assert confirm(kernel, kernel, TOKEN).state == CONFIRMED
        assert not kernel.exists(CONFIRMED_FILE)
        kernel.sleep(1000)
        assert revert_if_due(kernel, kernel) is False
        assert mtu(kernel, UPLINK) == "9000"
        assert obstacle(kernel, kernel) == ""

    def test_a_second_run_has_nothing_to_do(self) -> None:
        kernel = host()
        guarded(kernel)
        confirm(kernel, kernel, TOKEN)
        kernel.revive()
        assert not guarded(kernel)["changed"]
        assert kernel.mutations == []

    def test_a_run_that_reaches_the_host_does_not_confirm_what_another_has_changed(self) -> None:
        kernel = host()
        assert guarded(kernel)["guard"] is not None
        assert confirm_start(kernel, kernel) == ""
        assert kernel.exists(GUARD_FILE)

    def test_only_its_own_token_confirms_it(self) -> None:
        kernel = host()
        guarded(kernel)
        assert confirm(kernel, kernel, "other").state == UNKNOWN
        assert kernel.exists(GUARD_FILE)

    def test_one_that_comes_while_the_change_is_taken_back_is_too_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host()
        guarded(kernel)
        known = kernel.rename

        def late(source: str, target: str) -> None:
            if target == CONFIRMED_FILE:
                known(GUARD_FILE, REVERTING_FILE)
            known(source, target)

        monkeypatch.setattr(kernel, "rename", late)
        assert confirm(kernel, kernel, TOKEN).state == REVERTING
        assert confirm(kernel, kernel, "other").state == UNKNOWN

    def test_nothing_to_confirm_is_said(self) -> None:
        assert confirm(host(), host(), TOKEN).state == UNKNOWN

    def test_a_task_says_which_change_stays(self) -> None:
        kernel = host()
        guarded(kernel)
        told = confirmation(kernel, kernel, TOKEN, check=False)
        assert (told.get("failed"), told["guard"]["state"]) == (None, CONFIRMED)
        assert "set the MTU to 9000" in told["msg"]
        assert told["msg"].endswith("is confirmed and stays")

    def test_a_task_with_a_wrong_token_fails_and_says_what_waits_and_where_its_token_is(self) -> None:
        kernel = host()
        guarded(kernel)
        kernel.sleep(20)
        told = confirmation(kernel, kernel, "other", check=False)
        assert (told["failed"], told["guard"]["state"]) == (True, UNKNOWN)
        assert "set the MTU to 9000" in told["msg"]
        assert f"waits under another one for {SECONDS - 20} seconds at most; next: " in told["msg"]
        assert GUARD_FILE in told["msg"]
        assert confirmation(kernel, kernel, TOKEN, check=False)["guard"]["state"] == CONFIRMED

    def test_a_task_about_a_change_that_was_taken_back_fails_and_says_so(self) -> None:
        kernel = host()
        guarded(kernel)
        kernel.rename(GUARD_FILE, REVERTING_FILE)
        told = confirmation(kernel, kernel, TOKEN, check=False)
        assert (told["failed"], "is reverting this change of the uplink; next: " in told["msg"]) == (True, True)
        revert_if_due(kernel, kernel)
        told = confirmation(kernel, kernel, TOKEN, check=False)
        assert (told["failed"], told["guard"]["state"]) == (True, REVERTED)
        assert "set the MTU to 9000" in told["msg"]
        assert "has reverted this change of the uplink" in told["msg"]

    def test_a_task_in_check_mode_fails_and_writes_nothing(self) -> None:
        kernel = host()
        guarded(kernel)
        kernel.revive()
        assert confirmation(kernel, kernel, TOKEN, check=True)["failed"]
        assert kernel.mutations == []
        assert kernel.exists(GUARD_FILE)

    def test_a_unit_that_was_only_there_for_the_guard_goes(self) -> None:
        kernel = host()
        removed = {"kernel_modules": [], "interfaces": [{"current_name": UPLINK, "mtu": 9000}]}
        armed = guard(kernel)
        plan = preview(kernel, check_spec({**WISH, **removed}), CHECK, None)["plan"]
        assert plan["steps"]
        armed._record = armed._armed(_context(kernel))
        confirm(kernel, kernel, TOKEN)
        assert not kernel.exists(UNIT_FILE)
        assert not kernel.exists(GUARD_FILE)

    def test_such_a_unit_goes_after_a_revert_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """At boot its own program reverts, whose file is gone then."""
        kernel = host()
        armed = guard(kernel)
        armed._record = armed._armed(_context(kernel))
        assert kernel.exists(UNIT_FILE)
        for path in DEVICES_FILES:
            kernel.tree.add_file(path, "")
        kernel.sleep(1000)
        monkeypatch.setattr(unit, "program_path", mock.Mock(side_effect=FileNotFoundError))
        assert revert_if_due(kernel, kernel) is True
        assert not any(map(kernel.exists, (UNIT_FILE, *DEVICES_FILES)))


def _context(kernel: Kernel) -> Any:
    return assess(kernel, check_spec(WISH), CHECK, None).context


def confirm_fails(kernel: Kernel) -> bool:
    try:
        confirm(kernel, kernel, TOKEN)
    except HostError:
        return True
    return False


class TestRevert:
    def test_what_nobody_confirms_is_taken_back_in_time(self) -> None:
        kernel = host()
        files = set(kernel.state()["files"])
        guarded(kernel)
        began = kernel.now()
        watch(kernel, kernel)
        assert kernel.now() - began <= SECONDS + 1
        assert mtu(kernel, UPLINK) == "1500"
        assert confirm(kernel, kernel, TOKEN).state == REVERTED
        left = {path for path in set(kernel.state()["files"]) - files if not path.startswith("/run/")}
        assert left == {"/var/lib/rdma-fabric/baseline.json", REACHED}

    def test_what_leaves_the_uplink_alone_stays(self) -> None:
        kernel = host()
        guarded(kernel, {**WISH, "limits": {"memlock": "unlimited"}})
        watch(kernel, kernel)
        assert (mtu(kernel, UPLINK), mtu(kernel, "ens2f0")) == ("1500", "4200")
        assert "unlimited" in kernel.read(LOGIN_FILE)

    def test_what_kept_the_change_for_the_boot_is_taken_back_too(self) -> None:
        kernel = host()
        guarded(kernel)
        revert(kernel, kernel)
        assert not kernel.exists("/etc/rdma-fabric/host.json")

    @pytest.mark.parametrize("program", [program_path(), f"{PROGRAM_DIRECTORY}/host-0123456789abcdef.pyz"])
    def test_the_unit_that_was_there_before_is_left_with_a_program_that_is_there(self, program: str) -> None:
        kernel = host()
        apply(kernel, check_spec({"interfaces": [{"pci": OTHER, "mtu": 9000}]}), APPLY, None, kernel)
        former = kernel.read(UNIT_FILE).replace(program_path(), program)
        kernel.tree.add_file(UNIT_FILE, former)
        kernel.tree.add_file(program, "program")
        assert "failed" not in guarded(kernel)
        assert revert(kernel, kernel)
        text = kernel.read(UNIT_FILE)
        assert (text == former) == (program == program_path())
        assert kernel.exists(text.partition("-I -S ")[2].partition(" boot")[0])

    def test_after_a_reboot_the_boot_unit_takes_it_back(self) -> None:
        kernel = host()
        guarded(kernel)
        kernel.tree.add_file(BOOT_ID, "second\n")
        start(kernel, kernel)
        assert mtu(kernel, UPLINK) == "1500"
        assert unreported(kernel, kernel) is not None

    def test_a_device_that_a_boot_has_not_made_yet_has_nothing_to_be_taken_back(self) -> None:
        """Soft RDMA comes late, and with it the directory of its ToS."""
        kernel = host()
        directory = "/sys/kernel/config/rdma_cm/{rdma:0000:00:1f.0}"
        undo = (
            SetAttribute(f"{directory}/ports/1/default_roce_tos", "0", 5),
            Run(("rmdir", directory)),
            Run(("no-such-program",)),
        )
        record = records.Record(TOKEN, "first", SECONDS, 0.0, ("one",), undo)
        kernel.replace(GUARD_FILE, records.text_of(record), 0o600)
        kernel.tree.add_file(BOOT_ID, "second\n")
        start(kernel, kernel)
        answer = unreported(kernel, kernel)
        assert answer is not None
        assert [problem.split(":")[0] for problem in answer.problems] == ["could not run no-such-program"]

    def test_what_netplan_has_made_of_the_file_by_then_goes_with_it(self) -> None:
        """Generators run before every unit of a boot."""
        kernel = host()
        kernel.tree.add_file(f"/run/systemd/network/10-netplan-{UPLINK}.network", f"[Match]\nName={UPLINK}\n")
        kernel.tree.add_file("/etc/systemd/system/multi-user.target.wants/systemd-networkd.service", "")
        guarded(kernel)
        assert kernel.exists(NETPLAN_FILE)
        kernel.revive()
        kernel.tree.add_file(BOOT_ID, "second\n")
        start(kernel, kernel)
        done = [what for _kind, what in kernel.mutations]
        assert done.index(NETPLAN_FILE) < done.index("netplan generate")

    def test_a_run_of_another_controller_tells_it_once(self) -> None:
        kernel = host()
        guarded(kernel)
        watch(kernel, kernel)
        (notice,) = preview(kernel, check_spec(WISH), CHECK, None)["plan"]["notices"][-1:]
        assert "the host reverted it" in notice
        told = obstacle(kernel, kernel)
        assert "the host has reverted it" in told
        assert "set the MTU to 9000" in told
        assert obstacle(kernel, kernel) == ""

    def test_one_that_can_not_be_taken_back_does_not_keep_the_others(self) -> None:
        kernel = host()
        record = records.Record(TOKEN, "first", SECONDS, 0.0, ("one", "two"))
        undo = [Run(("no-such-program",)), Run(("ip", "link", "set", "dev", UPLINK, "mtu", "1400"))]
        kernel.replace(GUARD_FILE, records.text_of(record._replace(undo=tuple(undo))), 0o600)
        watch(kernel, kernel)
        told = confirmation(kernel, kernel, TOKEN, check=False)
        assert mtu(kernel, UPLINK) == "1400"
        assert [problem.split(":")[0] for problem in told["guard"]["problems"]] == ["could not run no-such-program"]
        assert "one and two: the host has reverted " in told["msg"]
        assert ", except for this: could not run no-such-program: " in told["msg"]

    @pytest.mark.parametrize(("program", "is_told"), [("no-such-program", True), ("ip", False)])
    def test_a_run_that_learns_of_it_later_says_what_was_left(self, program: str, is_told: bool) -> None:
        kernel = host()
        undo = (Run((program, "link", "set", "dev", UPLINK, "mtu", "1400")),)
        record = records.Record(TOKEN, "first", SECONDS, 0.0, ("one",), undo)
        kernel.replace(GUARD_FILE, records.text_of(record), 0o600)
        told = obstacle(kernel, kernel)
        assert told.startswith("one: this change of the uplink was not confirmed")
        assert (", except for this: could not run no-such-program" in told) == ("except for" in told) == is_told

    @pytest.mark.parametrize("code", ["EROFS", "ENOSPC", "EIO"])
    def test_a_disk_that_takes_no_change_any_more_does_not_keep_the_host_cut_off(
        self, code: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = host()
        guarded(kernel)

        def fail(path: str, *_rest: object) -> None:
            raise HostError(code, path)

        with monkeypatch.context() as broken:
            for change in ("rename", "replace", "remove"):
                broken.setattr(kernel, change, fail)
            with pytest.raises(HostError, match=code):
                watch(kernel, kernel)
            assert mtu(kernel, UPLINK) == "1500"
            assert confirm_fails(kernel)
        assert "set the MTU to 9000" in obstacle(kernel, kernel)
        assert obstacle(kernel, kernel) == "" and not kernel.exists(GUARD_FILE)

    def test_a_revert_that_was_killed_anywhere_is_finished_by_the_next_start(self) -> None:
        number, finished = 0, False
        while not finished:
            kernel = host()
            guarded(kernel)
            kernel.revive()
            kernel.disturb(number, KILL)
            try:
                revert(kernel, kernel)
                finished = True
            except Killed:
                kernel.revive()
                kernel.tree.add_file(BOOT_ID, "second\n")
                start(kernel, kernel)
                assert mtu(kernel, UPLINK) == "1500", number
                assert kernel.exists(REVERTED_FILE), number
                assert not kernel.exists(REVERTING_FILE), number
            number += 1
        assert number > 5

    def test_a_confirmation_and_the_end_of_the_time_never_both_act(self) -> None:
        kernel = host()
        guarded(kernel)
        kernel.rename(GUARD_FILE, REVERTING_FILE)
        assert confirm(kernel, kernel, TOKEN).state == "reverting"
        revert_if_due(kernel, kernel)
        assert confirm(kernel, kernel, TOKEN).state == REVERTED

    @pytest.mark.parametrize("text", ["", "{", "null", '{"format": 3}'])
    def test_a_damaged_record_ends_the_next_run_with_what_to_do(self, text: str) -> None:
        kernel = host()
        kernel.tree.add_file(GUARD_FILE, text)
        watch(kernel, kernel)
        assert obstacle(kernel, kernel) == ""
        with pytest.raises(BrokenState, match=f"{GUARD_FILE} does not hold .*; next: check the uplink"):
            preview(kernel, check_spec(WISH), CHECK, None)

    @pytest.mark.parametrize("path", [STAGED_FILE, REVERTING_FILE, REVERTED_FILE])
    def test_under_each_of_its_names_a_damaged_record_ends_the_next_run(self, path: str) -> None:
        kernel = host()
        kernel.tree.add_file(path, "{")
        with pytest.raises(BrokenState, match=f"{path} does not hold .*; next: check the uplink"):
            preview(kernel, check_spec(WISH), CHECK, None)
