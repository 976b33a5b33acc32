# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one program so that it ends with the process that asked for it, even when that one is killed by SIGKILL.

``python supervise.py OWNER_PID PROGRAM [ARGUMENT...]`` starts PROGRAM in a process group of its own and exits with
its status. Three things end the program: the death of OWNER_PID (seen through a pidfd, so that, unlike a parent-death
signal, it does not depend on which thread of the owner asked), SIGTERM or SIGINT to this process (passed on), and the
death of this process (a parent-death signal; the supervisor has one thread). Standard library only: it runs as a
plain script, isolated from the caller's environment. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
EXIT_NOT_STARTED = 127  # the shell's status for a program that could not be started
EXIT_SIGNAL_BASE = 128  # the shell's status for a program ended by signal N is 128 + N


def kill_with_parent(parent: int) -> None:
    """Have the kernel send SIGKILL to this process when its parent (process ID ``parent``) ends; for use after fork.

    The parent may be gone before the request is made, so it is looked at once more afterwards.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def shell_status(wait_status: int) -> int:
    """Give the status a shell would report for a status of waitpid(2)."""
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else EXIT_SIGNAL_BASE - code


def become(argv: list[str], supervisor: int) -> NoReturn:
    """Turn this freshly forked process into the program ``argv``, in a process group of its own."""
    try:
        os.setpgid(0, 0)
        kill_with_parent(supervisor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is what is wanted here
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error}\n".encode())
    os._exit(EXIT_NOT_STARTED)


def supervise(owner: int, argv: list[str]) -> int:
    """Run ``argv`` until it ends or the process ``owner``, this one's parent, does; give its shell status."""
    owner_fd = os.pidfd_open(owner)
    if os.getppid() != owner:
        raise ProcessLookupError(f"the owner, process {owner}, has ended")
    # A signal that came before the handler stands would end the supervisor only.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    supervisor = os.getpid()
    program = os.fork()
    if program == 0:
        become(argv, supervisor)

    def signal_group(number: int, _frame: FrameType | None = None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program, number)

    with contextlib.suppress(OSError):  # done by the child as well: whoever comes first
        os.setpgid(program, program)
    for number in ENDING:
        signal.signal(number, signal_group)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    program_fd = os.pidfd_open(program)
    ready = select.select([owner_fd, program_fd], [], [])[0]
    if program_fd not in ready:
        signal_group(signal.SIGKILL)
    return shell_status(os.waitpid(program, 0)[1])


if __name__ == "__main__":
    sys.exit(supervise(int(sys.argv[1]), sys.argv[2:]))
