# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new name of the uplink acts at the next boot, and stays only when a run reaches the host after it."""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.apply import RESTART_MANAGERS
from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.naming.files import STAMP
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import Guard, obstacle
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import (
    confirm_start,
    launch,
    read_record,
    revert_if_due,
    watch,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    ENABLED_BY,
    GUARD_FILE,
    REVERTED_FILE,
    STAGED_FILE,
    UNIT_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import LEAST_AFTER_BOOT, HostSpec
from ansible_collections.rdma.fabric.tests.unit._host.igb import KERNEL, PF, UPLINK, booted, guest, wish
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import KILL, Kernel, Killed
from ansible_collections.rdma.fabric.tests.unit._host.kernel.naming import give_name
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import sweep

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
TOKEN = "0123456789abcdef"
OTHER_TOKEN = "fedcba9876543210"
OLD, NEW = "enp2s0", "mgmt0"
LINK = "/etc/systemd/network/05-rdma-fabric-0000-02-00.0.link"
IMAGE = f"/boot/initrd.img-{KERNEL}"
NETWORKD = {"/etc/systemd/system/multi-user.target.wants/systemd-networkd.service": ""}
NETPLAN = "/etc/netplan/50-cloud-init.yaml"
BOTH = f"network:\n  ethernets:\n    {OLD}: {{dhcp4: true}}\n    {NEW}: {{dhcp4: true}}\n"
ALLOWED = {"rdma_fabric_allow_uplink_change": True}
WISH = wish({"pci": UPLINK, "name": NEW}, **ALLOWED)
NOTHING = wish(**ALLOWED)


def host(**files: str) -> Kernel:
    tree = guest()
    tree.files.update({BOOT_ID: "first\n", "/usr/sbin/update-initramfs": "", IMAGE: "", **files})
    kernel = booted(tree)
    kernel.tree.add_dir("/etc/systemd/system")
    return kernel


def run(kernel: Kernel, desired: HostSpec | None = None, how: Run = APPLY) -> Mapping[str, Any]:
    """Run as the module does, from the check for what waits to the end of the guard."""
    confirm_start(kernel, kernel)
    assert obstacle(kernel, kernel) == ""
    guard = Guard(kernel, kernel, lambda *_words: None, token=TOKEN, seconds=120)
    outcome = apply(kernel, desired or WISH, how, None, kernel, watch=guard)
    assert guard.finish() is None, "nothing changes while the host runs"
    return outcome


def staged(**files: str) -> Kernel:
    kernel = host(**files)
    outcome = run(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    kernel.revive()
    return kernel


def reboot(kernel: Kernel, number: str = "second") -> list[str]:
    """Start the host anew, up to the end of the boot unit; return the tokens of the processes that it started."""
    kernel.tree.add_file(BOOT_ID, f"{number}\n")
    wanted = NEW if kernel.exists(LINK) else OLD
    if not kernel.exists(f"/sys/class/net/{wanted}"):
        give_name(kernel, OLD if wanted == NEW else NEW, wanted)
    tokens: list[str] = []
    if kernel.exists(ENABLED_BY):
        start(kernel, kernel, launch=lambda _machine, token: tokens.append(token))
    return tokens


def name(kernel: Kernel) -> str:
    (found,) = [entry for entry in (OLD, NEW) if kernel.exists(f"/sys/class/net/{entry}")]
    return found


def notices(kernel: Kernel, desired: HostSpec | None = None) -> list[str]:
    found: list[str] = preview(kernel, desired or WISH, CHECK, None)["plan"]["notices"]
    return found


class TestUntilTheBoot:
    def test_what_takes_it_back_stands_before_it_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host()
        seen: list[bool] = []
        replace = kernel.replace

        def put(path: str, text: str, mode: int) -> None:
            if path == LINK:
                seen.append(kernel.exists(STAGED_FILE) and kernel.exists(ENABLED_BY))
            replace(path, text, mode)

        monkeypatch.setattr(kernel, "replace", put)
        run(kernel)
        assert (seen, name(kernel)) == ([True], OLD)

    def test_nothing_waits_and_other_runs_go_on(self) -> None:
        kernel = staged()
        assert [line for line in notices(kernel) if "acts at the next boot; the first run after it" in line]
        outcome = run(kernel)
        assert (outcome["changed"], kernel.mutations) == (False, [])
        assert not run(kernel, wish({"pci": UPLINK, "name": NEW}, {"pci": PF, "mtu": 9000}, **ALLOWED)).get("failed")
        assert kernel.exists(STAGED_FILE) and kernel.exists(UNIT_FILE)
        assert revert_if_due(kernel, kernel) is False

    def test_the_unit_started_again_in_the_same_boot_changes_nothing(self) -> None:
        kernel = staged()
        assert (reboot(kernel, "first"), kernel.exists(GUARD_FILE)) == ([], False)

    def test_an_uplink_that_has_its_name_already_has_nothing_to_be_taken_back(self) -> None:
        kernel = host()
        outcome = run(kernel, wish({"current_name": OLD, "name": OLD}, **ALLOWED))
        assert f"Name={OLD}" in kernel.read(LINK)
        assert (outcome.get("failed"), kernel.exists(STAGED_FILE)) == (None, False)

    def test_a_live_change_that_nobody_confirms_leaves_it_and_what_takes_it_back(self) -> None:
        """Both wait at once; the end of the one must not leave the other without its boot unit."""
        kernel = staged()
        guard = Guard(kernel, kernel, lambda *_words: None, token=OTHER_TOKEN, seconds=120)
        both = wish({"pci": UPLINK, "name": NEW, "mtu": 1400}, **ALLOWED)
        assert not apply(kernel, both, APPLY, None, kernel, watch=guard).get("failed")
        assert guard.finish() is not None
        kernel.sleep(200)
        assert revert_if_due(kernel, kernel) is True
        assert kernel.exists(REVERTED_FILE) and kernel.exists(STAGED_FILE)
        assert reboot(kernel) == [TOKEN]
        assert name(kernel) == NEW
        kernel.sleep(LEAST_AFTER_BOOT + 60)
        watch(kernel, kernel)
        assert not kernel.exists(LINK)

    def test_the_boot_unit_stays_when_nothing_else_needs_it_any_more(self) -> None:
        kernel = host()
        assert not run(kernel, wish({"pci": PF, "vfs": 2})).get("failed")
        assert kernel.exists(ENABLED_BY)
        assert not run(kernel, wish({"pci": PF, "vfs": 2}, {"pci": UPLINK, "name": NEW}, **ALLOWED)).get("failed")
        assert not run(kernel).get("failed")
        assert kernel.exists(ENABLED_BY) and kernel.exists(STAGED_FILE)
        assert reboot(kernel) == [TOKEN]

    def test_a_name_that_is_not_wanted_any_more_is_forgotten(self) -> None:
        kernel = staged()
        assert not run(kernel, NOTHING).get("failed")
        assert not any(map(kernel.exists, (STAGED_FILE, UNIT_FILE, LINK)))

    def test_a_removal_leaves_nothing(self) -> None:
        kernel = host()
        before = set(kernel.state()["files"])
        run(kernel)
        assert not run(kernel, NOTHING, REMOVE).get("failed")
        left = {path for path in set(kernel.state()["files"]) - before if not path.startswith("/run/")}
        assert left == set()

    def test_names_of_rails_need_no_guard(self) -> None:
        kernel = host()
        assert not run(kernel, wish({"pci": PF, "name": "rail0"})).get("failed")
        assert not kernel.exists(STAGED_FILE)


class TestAfterTheBoot:
    def test_the_first_run_confirms_it_and_says_so(self) -> None:
        kernel = staged(**{NETPLAN: BOTH})
        assert reboot(kernel) == [TOKEN]
        kernel.sleep(LEAST_AFTER_BOOT - 1)
        assert "awaits confirmation" in notices(kernel)[-1]
        said = confirm_start(kernel, kernel)
        assert f"rename {OLD} to {NEW} at the next boot" in said and said.endswith("reached the host after its boot")
        assert run(kernel)["plan"]["steps"] == []
        kernel.sleep(10 * LEAST_AFTER_BOOT)
        watch(kernel, kernel)
        assert name(kernel) == NEW
        assert not any(map(kernel.exists, (GUARD_FILE, STAGED_FILE, UNIT_FILE)))

    def test_without_a_run_the_host_takes_it_back(self) -> None:
        kernel = staged(**{NETPLAN: BOTH})
        reboot(kernel)
        began = kernel.now()
        watch(kernel, kernel)
        assert LEAST_AFTER_BOOT <= kernel.now() - began <= LEAST_AFTER_BOOT + 1
        assert (name(kernel), kernel.exists(LINK)) == (OLD, False)
        assert int(kernel.read(f"/sys/class/net/{OLD}/flags"), 16) & 1, "it is up"
        assert " ".join(RESTART_MANAGERS.argv) in [what for _kind, what in kernel.mutations]
        assert LINK not in kernel.read(IMAGE) and not kernel.exists(STAMP)
        record = read_record(kernel, REVERTED_FILE)
        assert record is not None and record.problems == ()
        assert "has reverted it" in obstacle(kernel, kernel)
        assert reboot(kernel, "third") == []
        assert name(kernel) == OLD

    def test_another_boot_in_between_takes_it_back_before_the_network_starts(self) -> None:
        kernel = staged(**{NETPLAN: BOTH})
        reboot(kernel)
        assert reboot(kernel, "third") == []
        assert name(kernel) == OLD
        assert read_record(kernel, REVERTED_FILE) is not None

    def test_a_process_that_can_not_be_started_is_told_and_the_next_boot_takes_it_back(self) -> None:
        kernel = staged()
        kernel.tree.add_file(BOOT_ID, "second\n")
        give_name(kernel, OLD, NEW)

        def fail(_machine: Any, _token: str) -> None:
            raise HostError("ENOENT", "systemd-run")

        assert "is not guarded until the next start" in start(kernel, kernel, launch=fail).problems[0]
        reboot(kernel, "third")
        assert name(kernel) == OLD

    def test_a_start_that_was_killed_anywhere_ends_in_one_of_both_names(self) -> None:
        number, finished = 0, False
        while not finished:
            kernel = staged(**{NETPLAN: BOTH})
            kernel.disturb(number, KILL)
            try:
                reboot(kernel)
                finished = True
            except Killed:
                kernel.revive()
                reboot(kernel, "third")
                watch(kernel, kernel)
                assert name(kernel) == OLD, number
                assert not kernel.exists(STAGED_FILE), number
            number += 1
        assert number > 2


class TestWhatLeadsBack:
    def test_each_name_may_have_a_file_of_its_own(self) -> None:
        places = {name: f"/etc/systemd/network/{name}.network" for name in (OLD, NEW)}
        files = {path: f"[Match]\nName={name}\n[Network]\nDHCP=yes\n" for name, path in places.items()}
        assert staged(**NETWORKD, **files).exists(STAGED_FILE)

    def test_a_name_that_no_pattern_fits_any_more_is_kept(self) -> None:
        pattern = "[Match]\nName=mgmt*\n[Network]\nDHCP=yes\n"
        kernel = host(**NETWORKD, **{"/etc/systemd/network/20-mgmt.network": pattern})
        outcome = run(kernel)
        assert f"leave {OLD} beside {NEW} there until the host has started" in outcome["diff"]["prepared"]
        assert not kernel.exists(STAGED_FILE)

    def test_an_uplink_whose_former_name_is_taken_by_then_is_up_with_its_new_one(self) -> None:
        kernel = staged()
        reboot(kernel)
        kernel.tree.add_file(f"/sys/devices/virtual/net/{OLD}/flags", "0x1003\n")
        kernel.tree.add_link(f"/sys/class/net/{OLD}", f"../../devices/virtual/net/{OLD}")
        watch(kernel, kernel)
        assert kernel.exists(REVERTED_FILE)
        assert int(kernel.read(f"/sys/class/net/{NEW}/flags"), 16) & 1

    def test_a_name_that_no_configuration_knows_any_more_is_kept_and_that_is_told(self) -> None:
        kernel = host(**{NETPLAN: f"network:\n  ethernets:\n    {NEW}: {{dhcp4: true}}\n"})
        outcome = run(kernel)
        assert f"leave {OLD} beside {NEW} there until the host has started" in outcome["diff"]["prepared"]
        assert not kernel.exists(STAGED_FILE)

    def test_the_plan_says_when_it_is_taken_back(self) -> None:
        slow = wish({"pci": UPLINK, "name": NEW}, rdma_fabric_revert_seconds=1800, **ALLOWED)
        for desired, minutes in ((WISH, 10), (slow, 30)):
            step = preview(host(), desired, CHECK, None)["plan"]["steps"][0]
            assert f"it is reverted {minutes} minutes after that boot unless a run has reached" in step["detail"]


def test_the_process_waits_for_nothing_that_waits_for_the_boot_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """basic.target may come after the network (cloud-init), and the network comes after the boot unit."""
    kernel, ran = host(), []

    def systemd_run(argv: Any, _timeout: float) -> CommandResult:
        ran.append(list(argv))
        return CommandResult(0, "", "")

    monkeypatch.setattr(kernel, "run", systemd_run)
    launch(kernel, "/usr/bin/python3", "/program", TOKEN, at_boot=True)
    ((name_of_program, *options),) = ran
    assert name_of_program == "systemd-run" and options[-2:] == ["/program", "guard"]
    assert {"--no-block", "--property=DefaultDependencies=no"} <= set(options)


@pytest.mark.slow
def test_whatever_disturbs_a_run_the_next_one_gets_there() -> None:
    assert sweep(host, run, ("EIO", "ENOSPC")) >= 6
