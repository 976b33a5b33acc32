# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What executing a step means, as data: concerns return it, execute.py does it."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence, Union

from ..machine.access import Host


class PutFile(NamedTuple):
    """Make ``path`` hold exactly ``text``, atomically: a reader sees the old file or the new one."""

    path: str
    text: str
    mode: int = 0o644


class RemoveFile(NamedTuple):
    """Remove ``path``; an absent file is fine."""

    path: str


class SetAttribute(NamedTuple):
    """Write ``text`` in one call to an existing attribute of sysfs or procfs; ``timeout`` in seconds.

    ``tolerated`` are names of errnos that mean as much as success (ENOENT for a driver that is to be unbound).
    """

    path: str
    text: str
    timeout: float = 30.0
    tolerated: tuple[str, ...] = ()


class SetRegister(NamedTuple):
    """Set the bits of ``mask`` in a register of a PCI function to those of ``value``, the other bits stay.

    ``register`` is one of ``pci_config.REGISTERS``; all of them are 16 bits wide.
    """

    address: str
    register: str
    value: int
    mask: int


class Run(NamedTuple):
    """Run a program without a shell; ``accepted`` are the exit statuses that mean success, ``timeout`` in seconds.

    ``{port:0000:18:00.2}`` in an argument (and in the path of every other operation, and in what ``SetAttribute``
    writes) is replaced right before execution by the name of the one network interface of that PCI function, because
    names change during a plan.
    """

    argv: tuple[str, ...]
    timeout: float = 60.0
    accepted: tuple[int, ...] = (0,)


# Generators are run again and every unit is read, which takes its time on a busy host. systemctl itself waits as long
# (DAEMON_RELOAD_TIMEOUT_SEC in systemd's src/basic/constants.h).
RELOAD_SECONDS = 180.0
RELOAD_UNITS = Run(("systemctl", "daemon-reload"), RELOAD_SECONDS)


def set_link(name: str, *words: str, accepted: tuple[int, ...] = (0,)) -> Run:
    """Return how ip(8) changes an interface."""
    return Run(("ip", "link", "set", "dev", name, *words), accepted=accepted)


class WaitFor(NamedTuple):
    """Wait at most ``seconds`` until ``condition`` holds; ``what`` ends the sentence "waited for"."""

    what: str
    condition: Callable[[Host], bool]
    seconds: float


class Each(NamedTuple):
    """Do every one of ``operations``, whatever became of those before, and fail in the end if any of them did.

    ``what`` ends the sentence "could not", ``advice`` follows "next:".
    """

    what: str
    operations: Sequence[Operation]
    advice: str


class Found(NamedTuple):
    """Do what only the host can tell at that moment, because earlier steps renew it (interrupts of a driver).

    ``operations`` returns what is to be done, in order; the first failure ends it. ``what`` ends the sentence "could
    not", ``seconds`` is how long all of them may take together.
    """

    what: str
    operations: Callable[[Host], Sequence[Operation]]
    seconds: float = 60.0


Operation = Union[PutFile, RemoveFile, SetAttribute, SetRegister, Run, WaitFor, Each, Found]


def limit_of(operation: Operation) -> float:
    """Return how many seconds an operation may take at most; a file takes none that counts."""
    if isinstance(operation, Each):
        return sum(map(limit_of, operation.operations))
    if isinstance(operation, (WaitFor, Found)):
        return operation.seconds
    return operation.timeout if isinstance(operation, (Run, SetAttribute)) else 0.0


def holds(_host: Host) -> str:
    """Verify nothing: each operation has told whether it was done."""
    return ""


class Work(NamedTuple):
    """How a step is done: operations in order, those that take them back, and a check of the result.

    ``undo`` is executed when ``do`` fails half way or ``verify`` finds fault; it must be safe from every state that
    ``do`` goes through. ``verify`` returns what is wrong, empty when nothing is. ``undo_after_boot`` takes back what
    acts at a boot, and could cut the host off, once the host has started with it. ``again``: where ``verify`` finds
    fault, ``do`` is executed once more after a moment, as another program may have answered an earlier step meanwhile.
    """

    do: Sequence[Operation]
    undo: Sequence[Operation] = ()
    verify: Callable[[Host], str] = holds
    undo_after_boot: Sequence[Operation] = ()
    again: bool = False


class CommandFailed(Exception):
    """A program that ended with a status which does not mean success.

    ``stdout`` counts as well: apt gives dpkg a terminal of its own, and passes on there what dpkg complains about.
    """

    def __init__(self, argv: Sequence[str], rc: int, stderr: str, stdout: str = "") -> None:
        self.argv = tuple(argv)
        self.rc = rc
        self.stderr = stderr
        self.stdout = stdout
        super().__init__(f"{' '.join(argv)}: exit status {rc}: {stderr.strip()}")
