# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and look at a lab of booted guests."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ..gobuild import PROGRESS_SECONDS, Report, cache_root
from ..process import tail
from .boot import Verdict, choose_accelerator, judge_console
from .identity import LONGEST_SOCKET, guest_files, longest_control_path, write_access, write_config_disk
from .image import gather_image, require_space
from .keeper import DETACH, end_connections, identity_of, write_json
from .layout import MANAGEMENT_HOST, MANAGEMENT_PREFIX, Guest, InvalidLayout, plan_guests, tap_name
from .qemu import Image, console_log, guest_argv, qemu_environment
from .reach import STATE, LabNotUp, holder, read_state
from .recipe import GIB
from .requirements import look, missing

CHECKOUT = Path(__file__).resolve().parents[3]
LABS = CHECKOUT / "build" / "lab"
DEFAULT_DIRECTORY = LABS / "default"
BYTES_PER_GUEST = GIB  # room for what a guest writes
STOP_SECONDS = 30.0
KILL_SECONDS = 15.0
POLL_SECONDS = 1.0
SSH_SECONDS = 90.0
CONSOLE_LINES = 25


class LabFailed(Exception):
    """The lab cannot be started or stopped; the text says why and what to do."""


class Options(NamedTuple):
    """How a lab is started: its directory, guests, rails, limits in seconds, and the process it must not outlive."""

    directory: Path
    guests: int = 2
    rails: int = 1
    seconds: int = 7200
    boot_seconds: int = 600
    owner: int | None = None


@contextlib.contextmanager
def held(directory: Path, wait: float) -> Iterator[int]:
    """Hold the lab's lock; give its descriptor, which the keeper inherits. Raises ``LabFailed`` when it is taken.

    The lock is held from the beginning of `up` to the end of the keeper, whatever ends that: it tells whether a lab is
    up without looking at processes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + wait
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise LabFailed(f"the lab in {directory} is in use; `make lab-down` stops it") from error
                time.sleep(POLL_SECONDS / 4)
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(directory: Path) -> bool:
    """Tell whether a lab is up in the directory, or being started or stopped."""
    try:
        with (directory / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def up(options: Options, environ: Mapping[str, str], report: Report) -> None:
    """Start a lab and wait until its guests can be used. Raises ``LabFailed`` and its like, nothing left running."""
    flaws = missing(look())
    if flaws:
        raise LabFailed("\n".join(flaws))
    directory = options.directory
    guests = plan_guests(str(directory), options.guests, options.rails)
    started = time.monotonic()
    if len(longest_control_path(directory, guests)) > LONGEST_SOCKET:
        raise InvalidLayout(f"the path {directory} is too long for the lab's sockets; choose a shorter one (--dir)")
    if _usable(directory):
        _require_same(read_state(directory), options)
        report(f"the lab in {directory} is up already")
        return
    # A lab whose starter was killed is still ending: this one waits for it.
    with held(directory, STOP_SECONDS) as lock:
        write_json(directory / STATE, {**identity_of(os.getpid()), "phase": "preparing", "guests": []})
        image = gather_image(environ, report)
        require_space(directory, options.guests * BYTES_PER_GUEST, "the lab", "Free some, or choose another --dir.")
        remembered = cache_root(environ) / "guests" / "kvm.json"
        accelerator = choose_accelerator(image, remembered, report)
        _prepare(options, guests, image, accelerator)
        report(f"booting {options.guests} guests with {accelerator} in {directory}")
        _boot(options, guests, lock, report)
    report(f"ready after {time.monotonic() - started:.0f} s: {', '.join(guest.name for guest in guests)}")


def _usable(directory: Path) -> bool:
    try:
        return read_state(directory).get("phase") == "ready" and holder(directory) > 0
    except LabNotUp:
        return False


def _require_same(state: Mapping[str, Any], options: Options) -> None:
    """Raise ``LabFailed`` unless the lab that is up is the one asked for, with all its guests."""
    running = len(state["guests"]), state["rails"]
    if running != (options.guests, options.rails):
        raise LabFailed(
            f"the lab in {options.directory} is up with {running[0]} guests and {running[1]} rails, not "
            f"{options.guests} and {options.rails}; `make lab-down` stops it, or choose another --dir"
        )
    if _dead(state):
        raise LabFailed(f"{', '.join(_dead(state))} of the lab in {options.directory} ended; `make lab-down` stops it")


def _prepare(options: Options, guests: Sequence[Guest], image: Image, accelerator: str) -> None:
    """Write everything the keeper and the user's programs read."""
    directory = options.directory
    end_connections(directory)  # to a lab that was killed
    for name in ("run", "log"):
        shutil.rmtree(directory / name, ignore_errors=True)
        (directory / name).mkdir(mode=0o700)
    keys = write_access(directory, guests)
    if directory == DEFAULT_DIRECTORY:
        link = LABS / "inventory.yml"
        link.unlink(missing_ok=True)
        link.symlink_to(directory / "inventory.yml")
    programs = []
    for guest in guests:
        scratch, disk = directory / "run" / guest.name, f"run/{guest.name}.img"
        write_config_disk(guest_files(guest, guests, keys), scratch, directory / disk)
        shutil.rmtree(scratch)
        argv = guest_argv(image, guest, len(guests), accelerator, disk)
        programs.append({"name": guest.name, "tap": tap_name(guest), "argv": argv})
    shown = {
        "accelerator": accelerator,
        "rails": options.rails,
        "guests": [{"name": guest.name, "address": guest.address} for guest in guests],
    }
    plan = {
        "address": f"{MANAGEMENT_HOST}/{MANAGEMENT_PREFIX}",
        "seconds": options.seconds,
        "owner": options.owner,
        "environment": qemu_environment(image.qemu, directory / "run"),
        "guests": programs,
        "shown": shown,
    }
    write_json(directory / "plan.json", plan)


def _boot(options: Options, guests: Sequence[Guest], lock: int, report: Report) -> None:
    """Start the keeper, wait for the guests, and leave it alone; otherwise it ends with everything it holds."""
    with (options.directory / "log" / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.guests.keeper", str(options.directory)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a terminal's Ctrl-C ends the starter; the keeper follows in order
            pass_fds=(lock,),
        )
    if keeper.stdin is None:
        raise RuntimeError("the keeper's standard input was asked for")
    ready = False
    try:
        _wait_for_guests(options, guests, keeper, report)
        keeper.stdin.write(DETACH)
        keeper.stdin.flush()
        ready = True
    finally:
        # Its end without a word ends the lab.
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.close()
        if not ready:
            with contextlib.suppress(subprocess.TimeoutExpired):
                keeper.wait(STOP_SECONDS)
            keeper.kill()
    deadline = time.monotonic() + STOP_SECONDS
    while not _usable(options.directory):
        if keeper.poll() is not None or time.monotonic() >= deadline:
            raise LabFailed(f"the lab ended as it became ready:\n{tail(options.directory / 'log' / 'keeper.log')}")
        time.sleep(POLL_SECONDS / 10)


def _wait_for_guests(
    options: Options, guests: Sequence[Guest], keeper: subprocess.Popen[bytes], report: Report
) -> None:
    """Return when every guest has said that it is ready and takes an ssh connection."""
    started = time.monotonic()
    spoken = started
    waiting = list(guests)
    while waiting:
        if keeper.poll() is not None:
            raise LabFailed(f"the lab's keeper ended:\n{tail(options.directory / 'log' / 'keeper.log')}")
        verdicts = {guest.name: _verdict(options.directory, guest) for guest in waiting}
        for name, verdict in verdicts.items():
            if verdict.phase == "failed":
                raise LabFailed(f"{name} did not boot: {verdict.line}\n{_evidence(options.directory, name)}")
        waiting = [guest for guest in waiting if verdicts[guest.name].phase != "ready"]
        now = time.monotonic()
        if waiting and now - started > options.boot_seconds:
            name = waiting[0].name
            evidence = _evidence(options.directory, name)
            raise LabFailed(f"{name} did not boot within {options.boot_seconds} s\n{evidence}")
        if now - spoken >= PROGRESS_SECONDS:
            spoken = now
            said = "; ".join(f"{name}: {verdict.line}" for name, verdict in verdicts.items())
            report(f"booting: {now - started:.0f} s ({said})")
        time.sleep(POLL_SECONDS)
    for guest in guests:
        _try_ssh(options.directory, guest)


def _verdict(directory: Path, guest: Guest) -> Verdict:
    with contextlib.suppress(LabNotUp):
        status = read_state(directory).get("ended", {}).get(guest.name)
        if status is not None:
            return Verdict("failed", f"QEMU ended with status {status}")
    console = directory / console_log(guest)
    return judge_console(console.read_text(encoding="utf-8", errors="replace") if console.exists() else "")


def _evidence(directory: Path, name: str) -> str:
    """Give the ends of a guest's logs."""
    parts = []
    for log in (directory / "log" / f"{name}.console", directory / "log" / f"{name}.qemu.log"):
        text = tail(log, CONSOLE_LINES) if log.exists() else ""
        if text:
            parts.append(f"The end of {log}:\n{text}")
    return "\n".join(parts) or f"There is nothing in {directory / 'log'}."


def ssh_argv(directory: Path, name: str, command: Sequence[str]) -> list[str]:
    """Give the ssh command that runs ``command`` (a shell's words; none: a shell) on a guest."""
    return ["ssh", "-F", str(directory / "ssh_config"), name, *command]


def _try_ssh(directory: Path, guest: Guest) -> None:
    # A connection of its own: ssh hides what a ProxyCommand says when the connection is to be kept.
    argv = ["ssh", "-o", "ControlPath=none", *ssh_argv(directory, guest.name, ["true"])[1:]]
    deadline = time.monotonic() + SSH_SECONDS
    said = "no answer"
    while time.monotonic() < deadline:
        try:
            answer = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=SSH_SECONDS)
        except subprocess.TimeoutExpired:
            break
        if answer.returncode == 0:
            return
        said = answer.stderr.strip()
        time.sleep(POLL_SECONDS)
    raise LabFailed(f"{guest.name} says it is ready but takes no ssh connection in {SSH_SECONDS:.0f} s: {said}")


def down(directory: Path, report: Report) -> None:
    """Stop a lab and everything of it; a lab that is not up is no error."""
    if not is_held(directory):
        if directory.is_dir():
            _sweep(directory)
        report(f"no lab is up in {directory}")
        return
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        with contextlib.suppress(LabNotUp, ProcessLookupError):
            os.kill(holder(directory), number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not is_held(directory):
                _sweep(directory)
                report(f"the lab in {directory} is down")
                return
            time.sleep(POLL_SECONDS / 4)
    raise LabFailed(f"the lab in {directory} is still held by a process (`fuser {directory / 'lock'}` names it)")


def _sweep(directory: Path) -> None:
    """Remove what a lab needs only while it is up; logs and keys stay."""
    end_connections(directory)
    shutil.rmtree(directory / "run", ignore_errors=True)
    if directory == DEFAULT_DIRECTORY:
        (LABS / "inventory.yml").unlink(missing_ok=True)


def status(directory: Path) -> tuple[list[str], bool]:
    """Describe a lab, a line each, and tell whether it can be used."""
    try:
        state = read_state(directory)
    except LabNotUp as error:
        return [str(error)], False
    if not is_held(directory):
        unsaid = "it was not started to the end" if state["phase"] == "preparing" else "it was killed"
        reason = state.get("reason") or unsaid
        return [f"no lab is up in {directory}; the last one ended: {reason}"], False
    return describe(state, directory, time.time()), state["phase"] == "ready" and not _dead(state)


def _dead(state: Mapping[str, Any]) -> list[str]:
    return [name for name, code in state.get("ended", {}).items() if code is not None]


def describe(state: Mapping[str, Any], directory: Path, now: float) -> list[str]:
    """Describe a running lab's state, a line each."""
    lines = [f"lab in {directory}: {state['phase']}"]
    if "ends" in state:
        minutes = max(0.0, state["ends"] - now) / 60
        lines[0] += f", {state['accelerator']}, {state['rails']} rails, ends in {minutes:.0f} min"
    for guest in state["guests"]:
        code = state.get("ended", {}).get(guest["name"])
        condition = "running" if code is None else f"ended with status {code}"
        lines.append(
            f"{guest['name']} {guest['address']} {condition}, console: {directory}/log/{guest['name']}.console"
        )
    return lines
