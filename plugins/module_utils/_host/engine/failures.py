# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explains errors: their meaning and the next step, unless a concern has its own explanation."""

from __future__ import annotations

import contextlib
import errno
import locale
import os
import re
from typing import Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line

from ..machine.access import HostError
from ..machine.probe import in_one_line
from .operations import CommandFailed, Each, Found, Operation, PutFile, RemoveFile, Run, SetAttribute, SetRegister
from .ports import NoPort

NEXT = "next: "
_LONGEST_STDERR = 400
_BEFORE = 160
_AGAIN = "fix the cause and rerun; completed steps are kept"
# Cloud images leave securityfs unmounted, and only it shows the state of lockdown.
MOUNT_SECURITYFS = "mount -t securityfs securityfs /sys/kernel/security"
LOCKDOWN = f"the kernel's lockdown (cat /sys/kernel/security/lockdown; where it is not there, {MOUNT_SECURITYFS})"
_GENERAL = {
    "EPERM": (
        f"the kernel forbids it; next: run as root (become: true) and check {LOCKDOWN} and the rights of a container"
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
# Explanations that several concerns share.
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
    """A failure without an error of the host: a wait that timed out, or a failed verification."""


def in_words(operation: Operation) -> str:
    """Return what the operation does, for a sentence after "could not"."""
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


def problem_of(operation: Operation, error: Exception) -> str:
    """Return one line about an operation that failed, as ``explain`` does where no concern knows its errors."""
    return f"could not {in_words(operation)}: {explain(error, operation, {})}"


def explain(error: Exception, operation: Operation | None, known: Mapping[str, str]) -> str:
    """Return one line: what went wrong, why, and after ``next:`` what to do.

    ``known`` are the concern's explanations, by the errno's name or by a text that a program prints. They take
    precedence over the general ones.
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
        text, output = _known_output(error, known)
        excerpt = _excerpt(output.replace("\r", "").strip(), text)
        reason = in_one_line(excerpt) or "no output"
        return text or errno_in(excerpt), f"{_program(error.argv)} ended with {error.rc}: {reason}"
    if isinstance(error, (Fault, NoPort)):
        return "", str(error)
    return "", f"{type(error).__name__}: {error}"


def _program(argv: Sequence[str]) -> str:
    """Return the program of a command, without env(1) and its variables."""
    words = iter(argv)
    return next((word for word in words if word != "env" and "=" not in word), argv[0])


def _known_output(error: CommandFailed, known: Mapping[str, str]) -> tuple[str, str]:
    """Return the first text of ``known`` that the program printed, empty if none, and the output to quote."""
    for output in (error.stderr, error.stdout):
        for text in known:
            if text in output:
                return text, output
    return "", error.stderr.strip() or error.stdout


def _excerpt(output: str, text: str) -> str:
    """Return the part of a program's output to quote.

    With ``text`` that is its line and the ones before, where scripts and compilers explain it; without, the end, where
    a program says why it ended.
    """
    if len(output) <= _LONGEST_STDERR:
        return output
    if not text:
        return output[-_LONGEST_STDERR:].strip()
    line = output.rfind("\n", 0, output.index(text)) + 1
    start = output.find("\n", max(0, line - _BEFORE)) + 1 if line > _BEFORE else 0
    return output[min(start, line) :][:_LONGEST_STDERR].strip()


def errno_in(text: str) -> str:
    """Return the name of the errno whose English description (LC_ALL=C) is in ``text``, empty if none is.

    The longest description counts: "No such device or address" contains "No such device".
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
    """Have strerror(3) answer in English, as the programs do: AnsibleModule sets the locale of the user."""
    former = locale.setlocale(locale.LC_MESSAGES)
    locale.setlocale(locale.LC_MESSAGES, "C")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_MESSAGES, former)
