# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations on a host as data: concerns return them, execute.py executes them."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence, Union

from ..machine.access import Host


class PutFile(NamedTuple):
    """Write ``text`` to ``path`` atomically: a reader sees the old file or the new one."""

    path: str
    text: str
    mode: int = 0o644


class RemoveFile(NamedTuple):
    """Remove ``path``; an absent file is fine."""

    path: str


class SetAttribute(NamedTuple):
    """Write ``text`` in one call to an existing attribute of sysfs or procfs; ``timeout`` in seconds.

    ``tolerated`` are names of errnos that count as success (ENOENT when a driver is unbound).
    """

    path: str
    text: str
    timeout: float = 30.0
    tolerated: tuple[str, ...] = ()


class SetRegister(NamedTuple):
    """Set the bits of ``mask`` in a register of a PCI function to those of ``value``.

    ``register`` is one of ``pci_config.REGISTERS``; all of them are 16 bits wide.
    """

    address: str
    register: str
    value: int
    mask: int


class Run(NamedTuple):
    """Run a program without a shell; ``accepted`` are the exit statuses that mean success, ``timeout`` in seconds.

    ``{port:0000:18:00.2}`` in an argument is replaced right before execution by the name of the one network interface
    of that PCI function, because names change during a plan. So it is in paths and in the text of ``SetAttribute``.
    """

    argv: tuple[str, ...]
    timeout: float = 60.0
    accepted: tuple[int, ...] = (0,)


# A reload runs all generators and reads every unit, which is slow on a busy host. systemctl waits as long
# (DAEMON_RELOAD_TIMEOUT_SEC in systemd's src/basic/constants.h).
RELOAD_SECONDS = 180.0
RELOAD_UNITS = Run(("systemctl", "daemon-reload"), RELOAD_SECONDS)


def set_link(name: str, *words: str, accepted: tuple[int, ...] = (0,)) -> Run:
    """Return the ip(8) command that changes an interface."""
    return Run(("ip", "link", "set", "dev", name, *words), accepted=accepted)


class WaitFor(NamedTuple):
    """Wait at most ``seconds`` until ``condition`` holds; ``what`` ends the sentence "waited for"."""

    what: str
    condition: Callable[[Host], bool]
    seconds: float


class Each(NamedTuple):
    """Execute each of ``operations`` even if others fail; fail in the end if any did.

    ``what`` ends the sentence "could not", ``advice`` follows "next:".
    """

    what: str
    operations: Sequence[Operation]
    advice: str


class Found(NamedTuple):
    """Execute operations that can only be computed then, because earlier steps change the host (IRQs of a driver).

    ``operations`` returns them in order; the first failure ends them. ``what`` ends the sentence "could not",
    ``seconds`` is the time limit for all of them together.
    """

    what: str
    operations: Callable[[Host], Sequence[Operation]]
    seconds: float = 60.0


Operation = Union[PutFile, RemoveFile, SetAttribute, SetRegister, Run, WaitFor, Each, Found]


def limit_of(operation: Operation) -> float:
    """Return the time limit of an operation in seconds; that of a file is 0."""
    if isinstance(operation, Each):
        return sum(map(limit_of, operation.operations))
    if isinstance(operation, (WaitFor, Found)):
        return operation.seconds
    return operation.timeout if isinstance(operation, (Run, SetAttribute)) else 0.0


def holds(_host: Host) -> str:
    """Verify nothing, as each operation reports its own errors."""
    return ""


class Work(NamedTuple):
    """How a step is executed: operations in order, operations that undo them, and a check of the result.

    ``undo`` runs if ``do`` fails halfway or ``verify`` finds a problem; it must be safe in every state that ``do`` goes
    through. ``verify`` returns the problem, empty if there is none. ``undo_after_boot`` reverts a change that takes
    effect at a boot and could cut the host off, after that boot. ``again``: if ``verify`` finds a problem, ``do`` runs
    once more after a moment, because another program may have reacted to an earlier step meanwhile.
    """

    do: Sequence[Operation]
    undo: Sequence[Operation] = ()
    verify: Callable[[Host], str] = holds
    undo_after_boot: Sequence[Operation] = ()
    again: bool = False


class CommandFailed(Exception):
    """A program that ended with another status than the accepted ones.

    ``stdout`` may have the reason too: apt gives dpkg a terminal of its own, and prints dpkg's errors there.
    """

    def __init__(self, argv: Sequence[str], rc: int, stderr: str, stdout: str = "") -> None:
        self.argv = tuple(argv)
        self.rc = rc
        self.stderr = stderr
        self.stdout = stdout
        super().__init__(f"{' '.join(argv)}: exit status {rc}: {stderr.strip()}")
