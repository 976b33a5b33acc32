# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until a lab that is being started can be used, and say in time when it cannot."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ..api import Api, ApiError
from ..gobuild import PROGRESS_SECONDS, Report
from ..process import tail
from .boot import Verdict, judge_console, readable
from .budget import Budget, load
from .cluster import ready_nodes
from .layout import Guest, monitor_socket
from .monitor import MonitorRefused, execute
from .qemu import console_log
from .reach import LabNotUp, read_state

POLL_SECONDS = 1.0
SSH_SECONDS = 10.0  # for one try, on an idle machine
EVIDENCE_SECONDS = 60.0
LOG_LINES = 25
NEXT = "next: run it again, as everything that it needs is in the cache; --start-seconds gives it more time"
NODE_EVIDENCE = f"journalctl --no-pager --output cat --lines {LOG_LINES} --unit kubelet --unit containerd"
# What a guest that stood still is told. The clock of its board went on, as QEMU's machine has it; and a kubelet
# registers its node when it starts, which it did with another control plane.
SET_CLOCK = "date -s @$(cat /sys/class/rtc/rtc0/since_epoch)"
RESTART_KUBELET = "test ! -e /etc/rdma-lab/node || systemctl restart kubelet"

Keeper = subprocess.Popen[bytes]


class LabFailed(Exception):
    """The lab cannot be started or stopped; the text says why and what to do."""


class KeeperEnded(LabFailed):
    """The lab's keeper ended before all was ready: it was stopped, or outlived whom or the time that it was for."""


class Watch(NamedTuple):
    """A lab that is being started: its directory, whom progress is told to, and the time that it has.

    ``restored``: its guests do not boot, but go on from what was kept of others.
    """

    directory: Path
    report: Report
    budget: Budget
    restored: bool = False


def ended_programs(state: Mapping[str, Any]) -> list[str]:
    """Give the programs of a lab that have ended although it is up."""
    return [name for name, code in state.get("ended", {}).items() if code is not None]


def wait_for_guests(guests: Sequence[Guest], keeper: Keeper, watch: Watch) -> None:
    """Return when every guest has said that it is ready and takes an ssh connection. Raises ``LabFailed``.

    One that was restored has said so before it was kept; it is told what it could not know.
    """
    directory = watch.directory
    verdicts: dict[str, Verdict] = {}
    judge = _restored if watch.restored else _booted

    def look() -> str | None:
        verdicts.update({guest.name: _ended(directory, guest) or judge(directory, guest) for guest in guests})
        for name, verdict in verdicts.items():
            if verdict.phase == "failed":
                raise LabFailed(f"{name} did not boot: {verdict.line}\n{_guest_evidence(directory, name)}")
        waiting = [f"{name}: {verdict.line}" for name, verdict in verdicts.items() if verdict.phase != "ready"]
        return "; ".join(waiting) or None

    def give_up() -> LabFailed:
        name = next(name for name, verdict in verdicts.items() if verdict.phase != "ready")
        said = _guest_evidence(directory, name)
        return LabFailed(f"{name} did not boot within {watch.budget.spent():.0f} s\n{said}\n{NEXT}")

    _wait(keeper, watch, "booting", look, give_up)
    on_guests(guests, f"{SET_CLOCK}; {RESTART_KUBELET}" if watch.restored else "true", watch)


def on_guests(guests: Sequence[Guest], command: str, watch: Watch) -> None:
    """Run a command on every guest, on all at once, until each has; raise ``LabFailed`` when the time is over."""
    with ThreadPoolExecutor(len(guests)) as pool:
        list(pool.map(lambda guest: _try_ssh(guest, command, watch), guests))


def wait_for_nodes(guests: Sequence[Guest], api: Api, keeper: Keeper, watch: Watch) -> None:
    """Return when every guest is a Ready node of the cluster. Raises ``LabFailed``."""
    waiting: list[str] = []

    def look() -> str | None:
        try:
            nodes = ready_nodes(api)
        except (OSError, ApiError, http.client.HTTPException) as error:
            nodes, said = {}, f"the API server does not answer yet: {error}"
        else:
            said = f"nodes that are Ready: {', '.join(name for name, ready in nodes.items() if ready) or 'none'}"
        waiting[:] = [guest.name for guest in guests if not nodes.get(guest.name)]
        return said if waiting else None

    def give_up() -> LabFailed:
        said = _on_guest(watch.directory, waiting[0], NODE_EVIDENCE)
        seconds = f"{watch.budget.spent():.0f} s"
        return LabFailed(f"{', '.join(waiting)} not Ready within {seconds}. {waiting[0]} says:\n{said}\n{NEXT}")

    _wait(keeper, watch, "joining", look, give_up)


def _wait(
    keeper: Keeper, watch: Watch, what: str, look: Callable[[], str | None], give_up: Callable[[], LabFailed]
) -> None:
    """Look every second until there is nothing to wait for, and see to the lab's programs meanwhile."""
    spoken = time.monotonic()
    while True:
        _ensure_running(watch.directory, keeper)
        said = look()
        now = time.monotonic()
        if said is None:
            return
        if watch.budget.left() == 0:
            raise give_up()
        if now - spoken >= PROGRESS_SECONDS:
            spoken = now
            watch.report(f"{what}: {watch.budget.spent():.0f} s ({said})")
        time.sleep(POLL_SECONDS)


def _ensure_running(directory: Path, keeper: Keeper) -> None:
    """Raise ``LabFailed`` when the keeper or a program beside the guests has ended."""
    logs = directory / "log"
    if keeper.poll() is not None:
        raise KeeperEnded(f"the lab's keeper ended:\n{tail(logs / 'keeper.log')}")
    with contextlib.suppress(LabNotUp):
        state = read_state(directory)
        guests = {guest["name"] for guest in state["guests"]}
        for name in ended_programs(state):
            if name not in guests:
                raise LabFailed(f"the lab's {name} ended. The end of its log:\n{tail(logs / f'{name}.log', LOG_LINES)}")


def _ended(directory: Path, guest: Guest) -> Verdict | None:
    with contextlib.suppress(LabNotUp):
        status = read_state(directory).get("ended", {}).get(guest.name)
        if status is not None:
            return Verdict("failed", f"QEMU ended with status {status}")
    return None


def _booted(directory: Path, guest: Guest) -> Verdict:
    console = directory / console_log(guest)
    return judge_console(console.read_text(encoding="utf-8", errors="replace") if console.exists() else "")


def _restored(directory: Path, guest: Guest) -> Verdict:
    monitor = directory / monitor_socket(guest.name)
    try:
        status = execute(monitor, "query-status", {})["status"]
        if status == "paused":  # as it was when it was kept
            execute(monitor, "cont", {})
    except (OSError, MonitorRefused) as reason:
        return Verdict("booting", f"QEMU does not answer yet: {reason}")
    return Verdict("ready" if status == "running" else "booting", status)


def _guest_evidence(directory: Path, name: str) -> str:
    """Give the ends of a guest's logs."""
    parts = []
    for log in (directory / "log" / f"{name}.console", directory / "log" / f"{name}.qemu.log"):
        text = readable(tail(log, LOG_LINES)) if log.exists() else ""
        if text:
            parts.append(f"The end of {log}:\n{text}")
    return "\n".join(parts) or f"There is nothing in {directory / 'log'}."


def ssh_argv(directory: Path, name: str, command: Sequence[str]) -> list[str]:
    """Give the ssh command that runs ``command`` (a shell's words; none: a shell) on a guest."""
    return ["ssh", "-F", str(directory / "ssh_config"), name, *command]


def _on_guest(directory: Path, name: str, command: str) -> str:
    """Give what a command says on a guest; or that it says nothing."""
    argv = ssh_argv(directory, name, [command])
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=EVIDENCE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"nothing within {EVIDENCE_SECONDS:.0f} s"
    return (done.stdout + done.stderr).strip() or "nothing"


def _try_ssh(guest: Guest, command: str, watch: Watch) -> None:
    # A connection of its own: ssh hides what a ProxyCommand says when the connection is to be kept.
    argv = ["ssh", "-o", "ControlPath=none", *ssh_argv(watch.directory, guest.name, [command])[1:]]
    said = "no answer"
    while left := watch.budget.left():
        with contextlib.suppress(subprocess.TimeoutExpired):
            # A guest that is busy answers late; one that was lost, never.
            limit = min(left, SSH_SECONDS * load())
            answer = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=limit)
            if answer.returncode == 0:
                return
            said = answer.stderr.strip()
        time.sleep(POLL_SECONDS)
    seconds = f"{watch.budget.spent():.0f} s"
    raise LabFailed(f"{guest.name} says it is ready but takes no ssh connection within {seconds}: {said}\n{NEXT}")
