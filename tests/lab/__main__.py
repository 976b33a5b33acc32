# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the lab.

``python -m tests.lab programs`` finds or builds the control plane's programs and lists them; with ``--api`` no others
than an API server needs, with ``--tests`` also what tests run beside it, as Helm, and packages that they unpack; with
``--nodes`` also what runs on the nodes of the lab's cluster.
``python -m tests.lab up --dir DIR [--api-only] [-- COMMAND ARGUMENT...]`` starts a control plane, runs the command on
it (``KUBECONFIG``, ``K8S_AUTH_KUBECONFIG`` and ``RDMA_FABRIC_LAB_AUDIT_LOG`` are set) and exits with its status;
without a command it stays until it is interrupted. ``--api-only``: no controllers and no KWOK.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator, Mapping, NoReturn, Sequence

from tools.browser import BrowserError, find_browser

from .api import ApiError
from .control_plane import ControlPlane, ControlPlaneFailed
from .driver_root import gather_driver_root, lacking
from .gobuild import ProgramsUnavailable
from .guests.image import NoSpace
from .helm import HELM
from .node_programs import NODE_RECIPES, NODE_RECIPES_OF_TESTS
from .nodes import NodesNotReady
from .programs import built, gather, gather_api, to_standard_error
from .readers import gather_readers, gather_subnet
from .servers import ServerFailed
from .supervise import EXIT_NOT_STARTED, EXIT_SIGNAL_BASE, kill_with_parent

CHECK_SECONDS = 1.0
EXIT_LACKING = 77  # nothing is wrong, but this machine can't
API, TESTS, NODES = "api", "tests", "nodes"
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
COMMAND_GRACE_SECONDS = 10.0
EXPECTED_FAILURES = (ApiError, ControlPlaneFailed, NodesNotReady, OSError, ProgramsUnavailable, ServerFailed)


def driver_root_here(environ: Mapping[str, str]) -> Path:
    """Give the root that drivers are installed in, where this machine can have it."""
    flaws = lacking()
    if flaws:
        raise ProgramsUnavailable("; ".join(flaws))
    return gather_driver_root(environ, to_standard_error)


UNPACKED: Mapping[str, Callable[[Mapping[str, str]], Any]] = {
    "browser": lambda environ: find_browser(environ).path,
    "readers": lambda environ: gather_readers(environ).root,
    "subnet": lambda environ: gather_subnet(environ).root,
    "driver-root": driver_root_here,
}


class Interrupted(Exception):
    """Somebody asked this program to end, by the signal ``number``."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into ``Interrupted``, once: the cleaning up that follows is not cut short."""

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        for each in INTERRUPTIONS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in INTERRUPTIONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_command(argv: Sequence[str], environ: dict[str, str]) -> int:
    """Run a command in the foreground and give its shell status; an interruption ends it and is waited for."""
    owner = os.getpid()

    def before_program() -> None:
        kill_with_parent(owner)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)

    # The command may be at work before Popen returns: an interruption waits until there is a command to end.
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        # preexec_fn is unsafe beside other threads only; this program has none. A new process group, as the
        # supervisor would make, is no way here: the command may read from the terminal.
        command = subprocess.Popen(argv, env=environ, preexec_fn=before_program)  # noqa: PLW1509
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
        to_standard_error(f"cannot start {argv[0]}: {error.strerror}")
        return EXIT_NOT_STARTED
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)
        status = command.wait()
    except Interrupted as interruption:
        end_command(command, interruption.number)
        raise
    return status if status >= 0 else EXIT_SIGNAL_BASE - status


def end_command(command: subprocess.Popen[bytes], number: int) -> None:
    """Pass a signal on to the command, then insist: SIGTERM after 10 s, SIGKILL after 20 s."""
    for each in (number, signal.SIGTERM, signal.SIGKILL):
        # A terminal has sent Ctrl-C to the command as well; a second one makes programs give up cleaning up.
        if each != signal.SIGINT or not sys.stdin.isatty():
            command.send_signal(each)
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(COMMAND_GRACE_SECONDS)
            return


def up(directory: Path, argv: Sequence[str], *, api_only: bool) -> int:
    """Run a control plane around a command, or until interrupted; give the exit status."""
    started = time.monotonic()
    to_standard_error(f"starting {'an API server' if api_only else 'a control plane'} in {directory}")
    with ControlPlane(directory, programs=gather_api() if api_only else None) as control_plane:
        seconds = time.monotonic() - started
        to_standard_error(f"ready after {seconds:.1f} s: {control_plane.server}")
        if argv:
            return run_command(argv, control_plane.command_environment(os.environ))
        print(control_plane.kubeconfig, flush=True)
        while True:
            control_plane.check()
            time.sleep(CHECK_SECONDS)


def list_programs(which: str) -> None:
    """Find or build the programs and print a line "NAME PATH" for each."""
    found = gather_api() if which == API else gather()
    for name, path in found._asdict().items():
        print(f"{name.replace('_', '-')} {path}", flush=True)
    recipes = {NODES: NODE_RECIPES, TESTS: (HELM, *NODE_RECIPES_OF_TESTS)}.get(which, ())
    for directory in (built(recipe, os.environ, to_standard_error) for recipe in recipes):
        for path in sorted(directory.iterdir()):
            print(f"{path.name} {path}", flush=True)
    for name, unpack in UNPACKED.items() if which == TESTS else ():
        try:
            print(f"{name} {unpack(os.environ)}", flush=True)
        except (BrowserError, NoSpace, ProgramsUnavailable) as reason:  # their tests do without, and say so
            to_standard_error(f"no {name}: {reason}")


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="A real control plane on loopback.")
    commands = parser.add_subparsers(dest="action", required=True)
    programs = commands.add_parser("programs", help="find or build the control plane's programs and list them")
    for option, text in ((API, "only etcd and the API server"), (TESTS, "also what tests run"), (NODES, "also nodes")):
        programs.add_argument(f"--{option}", dest="which", action="store_const", const=option, help=text)
    start = commands.add_parser("up", help="start a control plane, run a command on it, stop it")
    start.add_argument("--dir", type=Path, required=True, help="where it keeps its files; logs and audit log stay")
    start.add_argument("--api-only", action="store_true", help="etcd and the API server, without what acts on objects")
    start.add_argument("argv", nargs="*", metavar="COMMAND", help="what to run; without it, stay until interrupted")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run the command line; give the exit status."""
    arguments = parse_arguments(argv)
    try:
        with interruptible():
            if arguments.action == "programs":
                if not (os.environ.get("KUBEBUILDER_ASSETS") or shutil.which("go") or shutil.which("kube-apiserver")):
                    to_standard_error("no Go to build with, no kube-apiserver on PATH and no KUBEBUILDER_ASSETS")
                    return EXIT_LACKING
                list_programs(arguments.which)
                return 0
            return up(arguments.dir, arguments.argv, api_only=arguments.api_only)
    except Interrupted as interruption:
        return EXIT_SIGNAL_BASE + interruption.number
    except EXPECTED_FAILURES as error:
        to_standard_error(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
