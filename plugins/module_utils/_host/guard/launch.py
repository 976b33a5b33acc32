# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the process that takes changes back, so that nothing but a reboot ends it."""

from __future__ import annotations

import subprocess

from ..machine.access import HostError, Machine
from ..machine.host_files import PYTHON_OPTIONS

_SECONDS = 20.0
_TOKEN_LETTERS = 12


def launch(machine: Machine, python: str, program: str, token: str, root: str = "/", *, at_boot: bool = False) -> None:
    """Start ``program guard`` as a unit of its own, outside of the session that this code runs in.

    systemd ends the processes of a session with it where KillUserProcesses= says so (logind.conf(5)); without systemd a
    session of its own is enough. Raises HostError when neither can be started.

    ``at_boot``: while the host starts nothing may wait for it, and it must not wait for the network.
    """
    command = [python, *PYTHON_OPTIONS, program, "guard"]
    name = f"--unit=rdma-fabric-guard-{token[:_TOKEN_LETTERS]}"
    description = "--description=Takes a change of the uplink back unless it is confirmed (rdma.fabric)"
    early = ["--no-block", "--property=DefaultDependencies=no"] if at_boot else []
    try:
        if machine.run(["systemd-run", "--quiet", "--collect", *early, name, description, *command], _SECONDS).rc == 0:
            return
    except HostError:
        # No systemd here: the plain way is left.
        pass
    _detached(command if root == "/" else [python, *PYTHON_OPTIONS, root + program, "--root", root, "guard"])


def _detached(command: list[str]) -> None:
    nowhere = subprocess.DEVNULL
    try:
        # The process outlives this one on purpose, so nobody waits for it, as run_command would.
        subprocess.Popen(  # pylint: disable=ansible-bad-function
            command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd="/", start_new_session=True, close_fds=True
        )
    except OSError as error:
        raise HostError("ENOENT", command[0]) from error
