# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connect to an address inside a lab's network namespace and hand the connection to ssh.

``python reach.py LAB_DIRECTORY ADDRESS PORT`` is the ProxyCommand of the lab's ssh configuration. With
ProxyUseFdpass, ssh takes the connected socket from its standard output, so nothing stands between the two afterwards.
Standard library only: it runs as a plain script, isolated from the caller's environment. Needs root, as entering a
network namespace does.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

CLONE_NEWNET = 0x40000000  # <linux/sched.h>
CONNECT_SECONDS = 30.0
START_TIME_FIELD = 22  # of /proc/PID/stat, counted from 1 (proc(5)): clock ticks after boot
STATE = "state.json"


class LabNotUp(Exception):
    """No lab runs in the directory."""


def start_time(pid: int) -> int | None:
    """Give when the process began, in clock ticks after boot; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the program's name in parentheses, may hold anything.
    return int(stat.rpartition(")")[2].split()[START_TIME_FIELD - 3])


def read_state(directory: Path) -> dict[str, Any]:
    """Read the lab's state. Raises ``LabNotUp`` when there is none."""
    try:
        state = json.loads((directory / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LabNotUp(f"no lab is up in {directory}; `make lab` starts one") from error
    if not isinstance(state, dict):
        raise LabNotUp(f"{directory / STATE} is not a lab's state")
    return state


def holder(directory: Path) -> int:
    """Give the process that holds the lab's network namespace. Raises ``LabNotUp``.

    Its start time tells it from a later process of the same number.
    """
    state = read_state(directory)
    pid, started = state.get("holder"), state.get("holder_start")
    if not isinstance(pid, int) or start_time(pid) != started:
        raise LabNotUp(f"the lab in {directory} has ended; `make lab` starts it again")
    return pid


def enter_network(pid: int) -> None:
    """Move this process into the network namespace of another."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to the network namespace of process {pid}")
    finally:
        os.close(descriptor)


def main(directory: Path, address: str, port: int) -> int:
    """Connect and pass the socket on; give the exit status."""
    try:
        enter_network(holder(directory))
        with socket.create_connection((address, port), timeout=CONNECT_SECONDS) as connection:
            connection.setblocking(True)
            with socket.socket(fileno=os.dup(1)) as ssh:
                descriptors = array.array("i", [connection.fileno()])
                ssh.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    except (LabNotUp, OSError) as error:
        sys.stderr.write(f"lab: {address} port {port}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
