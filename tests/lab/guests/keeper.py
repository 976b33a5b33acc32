# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold a lab: its network namespace, its guests and the programs beside them, and the reasons for which it ends.

``python -m tests.lab.guests.keeper LAB_DIRECTORY`` reads ``plan.json``, moves into a network namespace without a name,
builds the management network there, starts the programs of the plan and stays. It ends them all on SIGTERM, when the
process that started it ends before it has written "detach" to the keeper's standard input, when the owner named in the
plan ends, and at the time limit. When the keeper itself is killed the programs' supervisors end them, and with the last
process the kernel takes the namespace, bridge and taps away: nothing is left to be cleaned up.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ..process import Process, stop_all
from .reach import CLONE_NEWNET, STATE, start_time

BRIDGE = "management"
DETACH = b"detach"
POLL_SECONDS = 0.5
GRACE_SECONDS = 5.0
STOP_GRACE_SECONDS = 12.0  # the API server takes its time
ENDING = {signal.SIGTERM, signal.SIGINT}


class Program(NamedTuple):
    """One program of a lab: its name, command, log (in ``log``), working directory and what its environment gains.

    ``pass_fds``: descriptors of the keeper that it inherits, and that the keeper gives up for it.
    """

    name: str
    argv: list[str]
    log: str
    cwd: Path
    environment: dict[str, str]
    pass_fds: Sequence[int] = ()


class Inputs(NamedTuple):
    """What the keeper sees at one moment; ``starter`` is what its standard input gave: None for nothing new."""

    signalled: bool
    starter: bytes | None
    owner_alive: bool
    seconds_left: float


def ending_reason(inputs: Inputs, detached: bool) -> str | None:
    """Say why the lab has to end now; None while it goes on."""
    if inputs.signalled:
        return "stopped"
    if inputs.starter == b"" and not detached:
        return "the process that started the lab ended before all of it was ready"
    if not inputs.owner_alive:
        return "the process for which the lab was started has ended"
    if inputs.seconds_left <= 0:
        return "its time limit has passed"
    return None


def network_commands(address: str, taps: list[str], routes: Mapping[str, str]) -> list[list[str]]:
    """Give the commands that build the management network in an empty namespace; ``routes``: subnet -> gateway."""
    commands = [
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"address add {address} dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]
    for tap in taps:
        commands += [f"tuntap add dev {tap} mode tap", f"link set {tap} master {BRIDGE} up"]
    commands += [f"route add {subnet} via {gateway}" for subnet, gateway in routes.items()]
    return [["ip", *command.split()] for command in commands]


def leave_network() -> None:
    """Move this process into a new, empty network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file at once: readers see the old or the new one."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)


def identity_of(pid: int) -> dict[str, int | None]:
    """Give what the state says of the process that holds the lab."""
    return {"holder": pid, "holder_start": start_time(pid)}


class Keeper:
    """A running lab, seen from inside."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plan: dict[str, Any] = json.loads((directory / "plan.json").read_text(encoding="utf-8"))
        self.deadline = time.monotonic() + self.plan["seconds"]
        self.programs: list[Process] = []
        self.detached = False
        self.owner_alive = self._owner_watch()

    def _owner_watch(self) -> Callable[[], bool]:
        owner = self.plan["owner"]
        if owner is None:
            return lambda: True
        began = start_time(owner)
        return lambda: began is not None and start_time(owner) == began

    def start(self) -> None:
        """Build the network and start the programs."""
        leave_network()
        for command in network_commands(self.plan["address"], self.plan["taps"], self.plan["routes"]):
            subprocess.run(command, check=True)
        for program in (Program(**entry) for entry in self.plan["programs"]):
            log = self.directory / "log" / program.log
            env = {**os.environ, **program.environment}
            process = Process(program.name, program.argv, log, env=env, cwd=program.cwd, pass_fds=program.pass_fds)
            self.programs.append(process)
            for descriptor in program.pass_fds:
                os.close(descriptor)

    def run(self) -> str:
        """Stay until there is a reason to end; give it."""
        os.set_blocking(0, False)
        told = None
        while True:
            now = {program.name: program.status() for program in self.programs}, self.detached
            if now != told:
                self.tell("ready" if self.detached else "booting", None)
                told = now
            signalled = signal.sigtimedwait(ENDING, POLL_SECONDS) is not None
            starter = self._starter()
            self.detached = self.detached or starter == DETACH
            left = self.deadline - time.monotonic()
            reason = ending_reason(Inputs(signalled, starter, self.owner_alive(), left), self.detached)
            if reason is not None:
                return reason

    @staticmethod
    def _starter() -> bytes | None:
        try:
            return os.read(0, len(DETACH))
        except BlockingIOError:
            return None

    def tell(self, phase: str, reason: str | None) -> None:
        """Write the lab's state for the commands."""
        state = {
            **identity_of(os.getpid()),
            **self.plan["shown"],
            "phase": phase,
            "reason": reason,
            "ends": time.time() + self.deadline - time.monotonic(),
            "ended": {program.name: program.status() for program in self.programs},
        }
        write_json(self.directory / STATE, state)

    def end(self, reason: str) -> None:
        """End the programs and the ssh connections to the guests."""
        stop_all(self.programs, STOP_GRACE_SECONDS)
        end_connections(self.directory)
        self.tell("ended", reason)


def end_connections(directory: Path) -> None:
    """End the ssh connections that wait to be used again; their sockets would keep the network namespace."""
    for control in sorted((directory / "run").glob("ssh-*")):
        address = control.name.partition("-")[2]
        argv = ["ssh", "-F", str(directory / "ssh_config"), "-O", "exit", address]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(argv, check=False, capture_output=True, timeout=GRACE_SECONDS)
        control.unlink(missing_ok=True)


def main(directory: Path) -> int:
    """Hold the lab until it ends; give the exit status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    keeper = Keeper(directory)
    reason = "it could not be started"
    try:
        keeper.start()
        reason = keeper.run()
    finally:
        keeper.end(reason)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
