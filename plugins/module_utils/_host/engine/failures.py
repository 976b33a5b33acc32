# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an error means and what to do about it, where no concern knows better."""

from __future__ import annotations

import contextlib
import errno
import locale
import os
import re
from typing import Iterator, Mapping, Sequence

from ..machine.access import HostError
from ..machine.probe import in_one_line
from ..spec.syntax import one_line
from .operations import CommandFailed, Each, Found, Operation, PutFile, RemoveFile, Run, SetAttribute, SetRegister
from .ports import NoPort

NEXT = "next: "
_LONGEST_STDERR = 400
_BEFORE = 160
_AGAIN = "fix the cause and rerun; completed steps are kept"
# Machines of clouds leave it unmounted, and only it tells the state of lockdown.
MOUNT_SECURITYFS = "mount -t securityfs securityfs /sys/kernel/security"
LOCKDOWN = f"the kernel's lockdown (cat /sys/kernel/security/lockdown; where it is not there, {MOUNT_SECURITYFS})"
_GENERAL = {
    "EPERM": (
        f"the kernel forbids it; next: run as root (become: true) and look at {LOCKDOWN} and at a container's rights"
    ),
    "EACCES": "it needs root; next: run as root (become: true), and look at SELinux or AppArmor",
    "ENOSPC": "the file system is full; next: free some space on it and run again",
    "EFBIG": "it is longer than any file of ours; next: look at what wrote it, restore or remove it, and run again",
    "EDQUOT": "the quota is used up; next: free some space and run again",
    "EROFS": (
        "the file system is mounted read only; next: mount it writable, or find out in the kernel's log why it is not, "
        "and run again"
    ),
    "EIO": "the device or the disk reports an error; next: read the kernel's log (dmesg), repair it and run again",
    "EBUSY": "it is in use; next: find out who uses it, end that, and run again",
    "ETIMEDOUT": "no answer in time; next: look in the kernel's log (dmesg) for what hangs, and run again",
    "ENODEV": "the device went away; next: find out why in the kernel's log (dmesg) and run again",
    "ENXIO": "the device went away; next: find out why in the kernel's log (dmesg) and run again",
    "ENOMEM": "there is no memory left; next: free some and run again",
    "ENOENT": "it does not exist (any longer); next: run again, which plans from the current state",
    "EOPNOTSUPP": "the driver does not support it; next: leave the setting out, or use a driver that has it",
}
# What several concerns know of their errors.
INTERFACE_GONE = "the interface is gone or was renamed; next: run again, which plans from the current state"
FIRMWARE_FAILED = (
    "a command of the firmware failed; next: read the kernel's log (dmesg: mlx5_cmd_out_err, syndrome), update the "
    "firmware, and run again"
)
KEY_REJECTED = (
    "Secure Boot is on and the firmware does not trust the key that signed the module; next: enrol it (mokutil "
    "--import, then confirm at the console during a reboot)"
)
_NO_PROGRAM = "the program is not installed or not on PATH; next: install the package that has it and run again"


class Fault(Exception):
    """An operation that came back without an error of the host: a wait without end, a result that does not hold."""


def told(operation: Operation) -> str:
    """Return what the operation does, for a sentence."""
    if isinstance(operation, PutFile):
        return f"write {operation.path}"
    if isinstance(operation, RemoveFile):
        return f"remove {operation.path}"
    if isinstance(operation, SetAttribute):
        return f"write {operation.text.strip()} to {operation.path}"
    if isinstance(operation, SetRegister):
        bits = f"{operation.value & operation.mask:#06x} in {operation.mask:#06x}"
        return f"set {bits} of {operation.register} of {operation.address}"
    if isinstance(operation, Run):
        return f"run {' '.join(operation.argv)}"
    return operation.what if isinstance(operation, (Each, Found)) else f"wait for {operation.what}"


def explain(error: Exception, operation: Operation | None, known: Mapping[str, str]) -> str:
    """Return one line that says what went wrong, why, and after ``next:`` what to do.

    ``known`` are the meanings that the concern gives, by the errno's name or by a text that a program prints; they go
    before the general ones.
    """
    code, what = _code_and_text(error, known)
    if isinstance(error, (HostError, CommandFailed)):
        is_program = isinstance(operation, Run) and isinstance(error, HostError)
        general = _NO_PROGRAM if is_program and code == "ENOENT" else _GENERAL.get(code, "")
        meaning = (not is_program and known.get(code)) or general or known.get(code, "")
    elif isinstance(error, (Fault, NoPort)):
        meaning = known.get(code, "")
    else:
        meaning = f"internal error; {NEXT}report it with this line"
    text = f"{what}; {meaning}" if meaning else what
    return one_line(text if NEXT in text else f"{text}; {NEXT}{_AGAIN}")


def _code_and_text(error: Exception, known: Mapping[str, str]) -> tuple[str, str]:
    if isinstance(error, HostError):
        number = getattr(errno, error.code, None)
        with _in_english():
            return error.code, f"{error.path}: {os.strerror(number)} ({error.code})" if number else str(error)
    if isinstance(error, CommandFailed):
        text, said = _known_complaint(error, known)
        told = _telling(said.replace("\r", "").strip(), text)
        reason = in_one_line(told) or "it said nothing"
        return text or errno_in(told), f"{_program(error.argv)} ended with {error.rc}: {reason}"
    if isinstance(error, (Fault, NoPort)):
        return "", str(error)
    return "", f"{type(error).__name__}: {error}"


def _program(argv: Sequence[str]) -> str:
    """Return the program that is run, which env(1) may stand before."""
    words = iter(argv)
    return next((word for word in words if word != "env" and "=" not in word), argv[0])


def _known_complaint(error: CommandFailed, known: Mapping[str, str]) -> tuple[str, str]:
    """Return the first text of ``known`` that the program printed, and the output that has it; empty without any."""
    for said in (error.stderr, error.stdout):
        for text in known:
            if text in said:
                return text, said
    return "", error.stderr.strip() or error.stdout


def _telling(said: str, text: str) -> str:
    """Return the part of a program's output that is told: the lines around the one with ``text``, as what a script or
    a compiler says stands before it; without any the end, as a program says last why it ended."""
    if len(said) <= _LONGEST_STDERR:
        return said
    if not text:
        return said[-_LONGEST_STDERR:].strip()
    line = said.rfind("\n", 0, said.index(text)) + 1
    start = said.find("\n", max(0, line - _BEFORE)) + 1 if line > _BEFORE else 0
    return said[min(start, line) :][:_LONGEST_STDERR].strip()


def errno_in(text: str) -> str:
    """Return the name of the errno whose description (in English, LC_ALL=C) stands in ``text``, empty without one.

    Of several the longest is meant: "No such device or address" holds "No such device".
    """
    found = ""
    longest = 0
    with _in_english():
        described = [(os.strerror(number), number, name) for number, name in errno.errorcode.items()]
    for description, number, name in described:
        if len(description) > longest and re.search(rf"\b{re.escape(description)}", text):
            found, longest = "EOPNOTSUPP" if number == errno.EOPNOTSUPP else name, len(description)
    return found


@contextlib.contextmanager
def _in_english() -> Iterator[None]:
    """Have strerror(3) answer as programs do that are run here: AnsibleModule takes over the language of the user."""
    former = locale.setlocale(locale.LC_MESSAGES)
    locale.setlocale(locale.LC_MESSAGES, "C")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_MESSAGES, former)
