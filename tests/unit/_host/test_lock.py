# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock between two runs over one host: who has it is named, a dead holder is none, and nobody waits forever."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator, cast

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils import _module
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine import lock
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.lock import Locked, NoLock, exclusive, patient
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.record import Record, text_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import watch
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_SPEC_FILE,
    GUARD_FILE,
    RESULT_FILE,
    REVERTED_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import set_devices_up, start
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._module import converge_concern, end_with
from ansible_collections.rdma.fabric.plugins.modules import rdma_host
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from tools.checkout import COLLECTIONS

HOLDER = """
import sys, time
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.lock import exclusive
with exclusive(SystemClock(), "rdma_host", root=sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


class Watch:
    """A clock whose time passes in sleeps only; ``at`` are events by their time."""

    def __init__(self, **at: Any) -> None:
        self.time = 0.0
        self.events: dict[float, Callable[[], None]] = at.get("events", {})

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        for moment in [moment for moment in self.events if moment <= self.time]:
            self.events.pop(moment)()


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "run").mkdir()
    return str(tmp_path)


def refusing() -> contextlib.AbstractContextManager[None]:
    raise Locked("rdma_host (process 7) still changes this host")


def take(clock: Watch, root: str, seconds: float = 0.0) -> None:
    """Take the lock as another run would, and give it back."""
    with exclusive(clock, "another", seconds, root):
        pass


def file_of(root: str) -> Path:
    return Path(root) / "run" / "rdma-fabric.lock"


def failing(monkeypatch: pytest.MonkeyPatch, call: str, code: str) -> None:
    """Have the kernel refuse a call with this errno."""
    number: int = getattr(errno, code)

    def refuse(*_arguments: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(call, refuse)


def end_of(run: Callable[[Any], Any]) -> str:
    """Return the message that a module fails with."""
    failures: list[str] = []

    def fail_json(msg: str, **_others: Any) -> None:
        failures.append(msg)
        raise SystemExit

    with pytest.raises(SystemExit):
        end_with(cast(AnsibleModule, SimpleNamespace(fail_json=fail_json)), run)
    return failures[0]


def test_the_second_run_fails_at_once_and_names_the_first(root: str) -> None:
    clock = Watch()
    with exclusive(clock, "rdma_host", root=root):
        with pytest.raises(Locked) as refused:
            take(clock, root)
        assert clock.time == 0
    text = str(refused.value)
    assert text.startswith(f"rdma_host (process {os.getpid()}, since 20") and " UTC) still changes this host" in text
    assert "nothing was changed; next: wait for its end" in text
    with exclusive(clock, "rdma_host", root=root):
        assert json.loads(file_of(root).read_text(encoding="utf-8"))["pid"] == os.getpid()
    assert file_of(root).read_text(encoding="utf-8") == ""


def test_who_changes_nothing_writes_nothing_and_holds_the_lock_all_the_same(root: str) -> None:
    with exclusive(Watch(), "rdma_host", root=root):
        pass
    os.utime(file_of(root), (0, 0))  # so that any write shows as a newer time of change
    with exclusive(Watch(), "rdma_host", root=root, signed=False) as signature:
        with pytest.raises(Locked, match=r"^another run still changes"):
            take(Watch(), root)
        assert (file_of(root).stat().st_mtime, file_of(root).read_text(encoding="utf-8")) == (0, "")
        signature.sign()
        with pytest.raises(Locked, match=r"^rdma_host \(process"):
            take(Watch(), root)
    assert file_of(root).read_text(encoding="utf-8") == ""


def test_an_error_in_a_run_gives_the_lock_back(root: str) -> None:
    with pytest.raises(RuntimeError), exclusive(Watch(), "rdma_host", root=root):
        raise RuntimeError
    with exclusive(Watch(), "rdma_host", root=root):
        pass


def test_the_boot_unit_waits_until_the_lock_is_free(root: str) -> None:
    stack = contextlib.ExitStack()
    stack.enter_context(exclusive(Watch(), "rdma_host", root=root))
    clock = Watch(events={10.0: stack.close})
    with exclusive(clock, "the boot unit", 30.0, root):
        assert 10 <= clock.time < 11


def test_nobody_waits_longer_than_told(root: str) -> None:
    clock = Watch()
    with exclusive(Watch(), "rdma_host", root=root), pytest.raises(Locked, match="after 30 seconds rdma_host"):
        take(clock, root, 30.0)
    assert 30 <= clock.time < 31


def test_a_revert_goes_on_without_the_lock_after_its_time(root: str) -> None:
    clock = Watch()
    with exclusive(Watch(), "rdma_host", root=root), patient(clock, "the revert", 30.0, root):
        assert 30 <= clock.time < 31
    with patient(Watch(), "the revert", 30.0, root), pytest.raises(Locked, match="the revert"):
        take(Watch(), root)


def test_a_killed_run_is_no_obstacle(root: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, root], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        with pytest.raises(Locked, match=f"rdma_host \\(process {process.pid}"):
            take(Watch(), root)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert file_of(root).read_text(encoding="utf-8"), "what it had written is still there"
    with exclusive(Watch(), "rdma_host", root=root):
        pass


def test_a_child_that_hangs_does_not_keep_the_lock(root: str) -> None:
    reader, writer = os.pipe()
    with exclusive(Watch(), "rdma_host", root=root):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
    try:
        with exclusive(Watch(), "rdma_host", root=root):
            pass
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "since": 1e99, "who": "y"}', "\0" * 600]
)
def test_a_holder_that_is_not_told_is_another_run(root: str, content: str) -> None:
    with exclusive(Watch(), "rdma_host", root=root):
        file_of(root).write_text(content, encoding="utf-8")
        with pytest.raises(Locked, match=r"^another run still changes"):
            take(Watch(), root)


def test_where_no_lock_can_be_made_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with exclusive(Watch(), "rdma_host", root=str(tmp_path / "nowhere")):
        pass

    def denied(*_arguments: Any) -> int:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(os, "open", denied)
    with exclusive(Watch(), "rdma_host", root=str(tmp_path)):
        pass


def test_a_link_in_the_place_of_the_lock_is_not_followed(root: str, tmp_path: Path) -> None:
    file_of(root).symlink_to(tmp_path / "precious")
    with pytest.raises(HostError) as refused:
        take(Watch(), root)
    assert refused.value.code == "ELOOP" and not (tmp_path / "precious").exists()
    assert "it is a symbolic link, which is not followed; next: " in str(refused.value)


class TestALockThatCannotBeUsed:
    """The file system of /run is full, its disk fails: nobody knows if another run is at work."""

    @pytest.mark.parametrize(
        ("code", "cause"),
        [
            ("ENOSPC", "the file system is full; next: free some space on it"),
            ("EIO", "the device or the disk reports an error; next: read the kernel's log"),
            ("EISDIR", "it is a directory; next: find out who made it"),
            ("ENFILE", "the host has too many files open; next: end what keeps them open"),
            ("EUCLEAN", "next: fix the cause and rerun"),
        ],
    )
    def test_what_where_why_and_the_next_step_are_told(
        self, root: str, monkeypatch: pytest.MonkeyPatch, code: str, cause: str
    ) -> None:
        failing(monkeypatch, "os.open", code)
        with pytest.raises(NoLock) as refused:
            take(Watch(), root)
        text = str(refused.value)
        assert text.startswith("nothing was changed, as the lock that keeps two runs apart can't be used: ")
        assert f"{file_of(root)}: {os.strerror(getattr(errno, code))} ({code}); {cause}" in text
        assert "\n" not in text

    def test_a_kernel_that_gives_no_lock_is_told_like_a_file_that_cannot_be_opened(
        self, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing(monkeypatch, "fcntl.flock", "ENOLCK")
        with pytest.raises(NoLock, match=r"the kernel has no memory left for locks; next: "):
            take(Watch(), root)

    @pytest.mark.parametrize("call", ["os.open", "fcntl.flock"])
    def test_a_revert_goes_on_without_it(self, root: str, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
        failing(monkeypatch, call, "EIO")
        with patient(Watch(), "the revert", 30.0, root):
            pass

    def test_a_module_ends_with_it(self, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
        failing(monkeypatch, "os.open", "ENOSPC")
        assert end_of(lambda _module: take(Watch(), root)).startswith("nothing was changed, as the lock that")

    def test_the_boot_unit_leaves_it_as_its_result(self, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = igb.booted()
        kernel.tree.add_file(BOOT_SPEC_FILE, json.dumps({"format": 1, "interfaces": [{"pci": igb.PF, "vfs": 2}]}))
        failing(monkeypatch, "os.open", "EIO")
        outcome = start(kernel, kernel, lambda: exclusive(Watch(), "the boot unit", root=root))
        (problem,) = outcome.problems
        assert problem.startswith("nothing was changed, as the lock that") and "; next: " in problem
        assert kernel.read(f"/sys/bus/pci/devices/{igb.PF}/sriov_numvfs") == "0\n"


def test_an_error_of_the_guard_is_told_with_its_cause_and_the_next_step() -> None:
    def confirming(_module: Any) -> Any:
        raise HostError("ENOSPC", GUARD_FILE)

    assert end_of(confirming) == (
        f"no step was executed, as the guard of the uplink met an error: {GUARD_FILE}: No space left on device "
        "(ENOSPC); the file system is full; next: free some space on it and run again"
    )


def on_kernel(root: str, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Have modules about one concern run on a kernel in memory."""
    kernel = igb.booted()
    monkeypatch.setattr(lock, "LOCK", f"{root}/run/rdma-fabric.lock")
    monkeypatch.setattr(_module, "LiveMachine", lambda: kernel)
    monkeypatch.setattr(_module, "SystemClock", lambda: kernel)
    return kernel


def concern_of(wish: Any, concern: str) -> Any:
    """Run a module about one concern."""
    module = SimpleNamespace(check_mode=False, _diff=False)
    return converge_concern(cast(AnsibleModule, module), check_spec(wish), concern)[0]


class TestModules:
    def test_a_run_that_applies_is_refused_and_ends_with_the_reason(
        self, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lock, "LOCK", f"{root}/run/rdma-fabric.lock")
        runs = (
            lambda _module: concern_of({}, "peer_memory"),
            lambda _module: rdma_host.apply_here(check_spec({}), igb.APPLY, None, "token"),
        )
        with exclusive(Watch(), "rdma_host"):
            failures = [end_of(run) for run in runs]
        assert all(failure.startswith("rdma_host (process") for failure in failures)

    def test_a_task_about_one_concern_leaves_a_host_alone_whose_uplink_change_waits(
        self, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kernel = on_kernel(root, monkeypatch)
        kernel.tree.add_file(GUARD_FILE, text_of(Record("token", "", 60, kernel.now() + 30, ("mtu of eth0",))))
        told = end_of(lambda _module: concern_of({}, "peer_memory"))
        assert told.startswith("mtu of eth0: this change of the uplink awaits confirmation by the run that made")

    def test_a_task_about_one_concern_writes_nothing_where_nothing_is_to_do(
        self, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_kernel(root, monkeypatch)
        monkeypatch.setattr(lock, "_write", lambda *_arguments: pytest.fail("the lock was signed"))
        assert not concern_of({}, "peer_memory")["changed"]

    def test_check_mode_needs_no_lock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*_arguments: Any) -> None:
            raise AssertionError

        monkeypatch.setattr(_module, "exclusive", never)
        nothing = {"changed": False, "plan": {"steps": []}}
        shown = {**nothing, "facts": {}, "summary": {}, "recorded": False}
        monkeypatch.setattr(_module, "preview", lambda *_arguments: shown)
        module = SimpleNamespace(check_mode=True, _diff=False)
        outcome: Any = converge_concern(cast(AnsibleModule, module), check_spec({}), "peer_memory")
        assert outcome == (nothing, {})


class TestAtBoot:
    def test_a_host_that_another_run_changes_is_left_alone_and_told(self) -> None:
        kernel = igb.booted()
        kernel.tree.add_file(BOOT_SPEC_FILE, json.dumps({"format": 1, "interfaces": [{"pci": igb.PF, "vfs": 2}]}))
        start(kernel, kernel, refusing)
        result = json.loads(kernel.read(RESULT_FILE))
        assert (result["ok"], result["problems"]) == (False, ["rdma_host (process 7) still changes this host"])
        assert kernel.read(f"/sys/bus/pci/devices/{igb.PF}/sriov_numvfs") == "0\n"
        assert set_devices_up(kernel, kernel, refusing).problems == ("rdma_host (process 7) still changes this host",)

    def test_a_revert_that_is_due_waits_for_nobody(self) -> None:
        kernel = igb.booted()
        kernel.tree.add_file(GUARD_FILE, text_of(Record("token", "another-boot", 60, 0.0, ("a step",))))
        start(kernel, kernel, refusing)
        assert not kernel.exists(GUARD_FILE) and kernel.exists(REVERTED_FILE)

    def test_the_guard_keeps_others_away_while_it_takes_back(self) -> None:
        kernel = igb.booted()
        kernel.tree.add_file(GUARD_FILE, text_of(Record("token", "", 60, 5.0, ("a step",))))
        seen: list[bool] = []

        @contextlib.contextmanager
        def alone() -> Iterator[None]:
            seen.append(kernel.exists(GUARD_FILE))
            yield
            seen.append(kernel.exists(REVERTED_FILE))

        watch(kernel, kernel, alone)
        assert seen == [True, True]
