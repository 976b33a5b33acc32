# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the lab's guests.

``python -m tests.lab.guests up [--guests N] [--rails N] [--topology switched] [--no-cluster] [--minutes N]
[--owner PID] [--dir DIR]`` boots hosts with SR-IOV and soft RDMA and makes nodes of a Kubernetes cluster of them,
``down`` stops them, ``status`` describes them (status 0: all can be used), ``ssh NODE [COMMAND]`` opens one.
Emulated guests are kept as they are when all is ready; with RDMA_FABRIC_LAB_RESTORE=no in the environment `up` boots
them, and otherwise the next lab of the same making goes on from there.
``build/lab/inventory.yml`` is the default lab's Ansible inventory, ``DIR/inventory.yml`` that of another;
``kubeconfig`` is beside it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Sequence

from ..__main__ import Interrupted, interruptible
from ..gobuild import ProgramsUnavailable
from ..programs import to_standard_error
from ..supervise import EXIT_SIGNAL_BASE
from .image import NoSpace
from .lab import DEFAULT_DIRECTORY, Options, down, status, up
from .layout import InvalidLayout
from .reach import LabNotUp, holder
from .topology import FLAT, TOPOLOGIES
from .waiting import LabFailed, ssh_argv

EXPECTED_FAILURES = (InvalidLayout, LabFailed, LabNotUp, NoSpace, OSError, ProgramsUnavailable)


def run_ssh(directory: Path, name: str, command: Sequence[str]) -> int:
    """Open a guest; give ssh's status."""
    holder(directory)
    return subprocess.run(ssh_argv(directory, name, command), check=False).returncode


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.guests", description="Booted hosts with soft RDMA.")
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help="the lab's directory: one lab in each")
    commands = parser.add_subparsers(dest="action", required=True)
    start = commands.add_parser("up", parents=[place], help="boot the guests and wait for them")
    start.add_argument("--guests", type=int, default=2)
    start.add_argument("--rails", type=int, default=1, help="RDMA cards in each guest, each on a wire of its own")
    start.add_argument(
        "--topology",
        choices=TOPOLOGIES,
        default=FLAT,
        help="switched: two NUMA nodes, cards behind PCIe switches; guarded: an IOMMU; nested: cards without SR-IOV",
    )
    start.add_argument("--no-cluster", dest="cluster", action="store_false", help="hosts only, no Kubernetes")
    start.add_argument("--minutes", type=int, default=120, help="the lab stops by itself after this time")
    of_start = "how long the start may take on an idle machine, from power-on to Ready nodes (default: 300 a guest)"
    start.add_argument("--start-seconds", type=int, help=of_start)
    start.add_argument("--owner", type=int, metavar="PID", help="the lab stops when this process ends")
    commands.add_parser("down", parents=[place], help="stop the guests")
    commands.add_parser("status", parents=[place], help="describe the lab; status 1 when it cannot be used")
    enter = commands.add_parser("ssh", parents=[place], help="open a guest")
    enter.add_argument("node", metavar="NODE")
    enter.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser.parse_args(argv)


def run(arguments: argparse.Namespace) -> int:
    """Run one command; give the exit status."""
    directory: Path = arguments.dir.resolve()
    if arguments.action == "up":
        seconds = arguments.minutes * 60
        limits = (seconds, arguments.start_seconds, arguments.owner)
        options = Options(directory, arguments.guests, arguments.rails, *limits, arguments.cluster, arguments.topology)
        up(options, os.environ, to_standard_error)
    elif arguments.action == "down":
        down(directory, to_standard_error)
    elif arguments.action == "ssh":
        return run_ssh(directory, arguments.node, arguments.argv)
    else:
        lines, usable = status(directory)
        print("\n".join(lines))
        return 0 if usable else 1
    return 0


def main(argv: Sequence[str]) -> int:
    """Run the command line; give the exit status."""
    arguments = parse_arguments(argv)
    try:
        with interruptible():
            return run(arguments)
    except Interrupted as interruption:
        return EXIT_SIGNAL_BASE + interruption.number
    except EXPECTED_FAILURES as error:
        to_standard_error(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
