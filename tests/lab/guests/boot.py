# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether guests boot: their consoles, and a trial of KVM."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from pathlib import Path
from typing import Callable, NamedTuple

from ..gobuild import Report
from .budget import load
from .qemu import Image, qemu_environment, trial_argv
from .remembered import recall, remember

READY = "rdma-lab: ready"
FAILURES = re.compile(
    r"rdma-lab: failed: .*|Failed to start lab-.*|Kernel panic.*|You are in emergency mode.*|Gave up waiting for root.*"
)
# Control sequences and operating system commands of a terminal (ECMA-48), and carriage returns.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)|\r")
USER_SPACE = b"Loading, please wait"  # what the initial RAM disk's first program says
TRIAL_SECONDS = 25.0
KVM = Path("/dev/kvm")
Trial = Callable[[list[str], dict[str, str], float], bool]


class Verdict(NamedTuple):
    """What a console says of its guest: "booting", "ready" or "failed", and its telling line."""

    phase: str
    line: str


def readable(text: str) -> str:
    """Return a console's text as a person reads it, without what is meant for a terminal."""
    return "".join(each for each in ESCAPES.sub("", text) if each.isprintable() or each == "\n")


def judge_console(text: str) -> Verdict:
    """Judge a serial console's text."""
    clean = readable(text)
    failure = FAILURES.search(clean)
    if failure:
        return Verdict("failed", failure.group().strip())
    lines = [line.strip() for line in clean.splitlines() if line.strip()]
    if READY in clean:
        return Verdict("ready", READY)
    return Verdict("booting", lines[-1][:100] if lines else "nothing on the console yet")


def boots(argv: list[str], env: dict[str, str], seconds: float) -> bool:
    """Tell whether QEMU with its console on standard output reaches user space in time; QEMU is ended either way."""
    deadline = time.monotonic() + seconds
    output = b""
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env
    ) as qemu:
        if qemu.stdout is None:
            raise RuntimeError("standard output was asked for")
        try:
            while USER_SPACE not in output and time.monotonic() < deadline:
                if select.select([qemu.stdout], [], [], deadline - time.monotonic())[0]:
                    part = os.read(qemu.stdout.fileno(), 65536)
                    if not part:
                        return False
                    output += part
        finally:
            qemu.kill()
    return USER_SPACE in output


def choose_accelerator(image: Image, remembered: Path, report: Report, trial: Trial = boots) -> str:
    """Give "kvm" where /dev/kvm really boots this image, else "tcg"; the answer is kept until the machine restarts.

    A device that opens proves nothing: nested virtualization may end in early boot.
    """
    if not os.access(KVM, os.R_OK | os.W_OK):
        report("no /dev/kvm to use: the guests are emulated, which is slow")
        return "tcg"
    asked, known = {"image": image.guest.name, "qemu": image.qemu.name}, recall(remembered)
    if {name: known.get(name) for name in asked} != asked:
        seconds = TRIAL_SECONDS * load()
        report(f"trying whether KVM boots here (up to {seconds:.0f} s)")
        works = trial(trial_argv(image, "kvm"), {**os.environ, **qemu_environment(image.qemu)}, seconds)
        known = remember(remembered, **asked, kvm=works)
    if not known["kvm"]:
        report("/dev/kvm is there but boots no guest: the guests are emulated, which is slow")
    return "kvm" if known["kvm"] else "tcg"
