# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps irqbalance from moving the interrupts that ``irq_affinity`` assigns. It reads files of ours when it starts."""

from __future__ import annotations

import hashlib
from typing import Mapping

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.operations import RELOAD_UNITS, Operation, RemoveFile, Run, Work
from ...engine.steps import Step, make_step
from ...facts.queues import DROP_IN, running_irqbalance
from ...facts.shapes import Irqbalance
from ...machine.access import Host
from ...machine.host_files import IRQBALANCE_SCRIPT, MARKER
from ...machine.probe import Probe

CONCERN = "irqbalance"


def plan(context: Context) -> ConcernPlan:
    """Return a step that has irqbalance leave these interrupts alone, or manage them again."""
    facts = context.actual.facts["interrupts"].get("irqbalance")
    wanted = boot_files(context)
    if facts is not None and _functions(context) and (facts["policy"] or facts["confined"]):
        return [_refused_policy(context, facts)], []
    if facts is None or (facts["policy"] and not wanted):
        return [], []
    ours = [path for path in context.boot_files if path == DROP_IN or path.startswith(IRQBALANCE_SCRIPT)]
    running = facts["running"]
    script = _script_of(wanted)
    if _asks(running, script) and (not context.boot_differs(wanted) if wanted else DROP_IN not in ours):
        return [], []
    functions = ", ".join(_functions(context))
    return [
        make_step(
            CONCERN,
            DROP_IN,
            target=CONCERN,
            action=f"leave the interrupts of {functions} alone" if wanted else "balance all interrupts again",
            before=sorted(ours),
            after=sorted(wanted),
            reason="it would move them" if wanted else "the input no longer asks for irq_affinity",
            undo="bring its former files back and start it again",
            detail="it is started again where it runs" if facts["systemd"] else "",
        )
    ], []


def _refused_policy(context: Context, facts: Irqbalance) -> Step:
    refusal = (
        f"it has a policy script already ({facts['policy']}); let that print ban=true for these VFs and "
        "leave irq_affinity to it, or remove it"
    )
    if facts["confined"]:
        refusal = (
            "SELinux lets it run no policy script, so it would move these interrupts within seconds; next: systemctl "
            "disable --now irqbalance, or leave irq_affinity out"
        )
    return make_step(
        CONCERN,
        DROP_IN,
        target=CONCERN,
        action=f"leave the interrupts of {', '.join(_functions(context))} alone",
        before=[facts["policy"]],
        after=[],
        reason="it would move them",
        refusal=refusal,
    )


def _functions(context: Context) -> list[str]:
    """Return the addresses of the functions whose interrupts are assigned."""
    if context.removing:
        return []
    return [one.key for one in context.interfaces if one.nic is not None and one.wanted["irq_affinity"]]


def boot_files(context: Context) -> dict[str, str]:
    """Return irqbalance's drop-in and policy script, none if no interrupts are assigned.

    irqbalance runs the script for each interrupt with the function's directory in /sys/bus/pci/devices; ``ban=true``
    makes it leave the interrupt alone (irqbalance(1), --policyscript). The script's name contains a digest of its text,
    so that the arguments of the running process show which version it uses.
    """
    facts = context.actual.facts["interrupts"].get("irqbalance")
    functions = _functions(context)
    if not functions or facts is None or not facts["start"] or facts["policy"] or facts["confined"]:
        return {}
    text = (
        f'#!/bin/sh\n# {MARKER}\ncase "$1" in\n{" | ".join(f"*/{one}" for one in functions)}) echo ban=true ;;\nesac\n'
    )
    script = f"{IRQBALANCE_SCRIPT}{hashlib.sha256(text.encode('ascii')).hexdigest()[:16]}"
    start = f"{facts['start']} --policyscript={script}"
    return {script: text, DROP_IN: f"# {MARKER}\n[Service]\nExecStart=\nExecStart={start}\n"}


def _script_of(files: Mapping[str, str]) -> str:
    """Return the argument that names our script, empty without one."""
    return next((f"--policyscript={path}" for path in files if path.startswith(IRQBALANCE_SCRIPT)), "")


def _asks(running: str | None, script: str) -> bool:
    """Return whether a running irqbalance uses this script, or none of ours if there should be none."""
    return running is None or (script in running.split() if script else IRQBALANCE_SCRIPT not in running)


def work(context: Context, step: Step) -> Work:
    """Return how irqbalance's files are written and read; an old script is removed with other orphaned files."""
    facts = context.actual.facts["interrupts"].get("irqbalance")
    systemd = facts is not None and facts["systemd"]
    reload: list[Operation] = [
        RELOAD_UNITS,
        Run(("systemctl", "try-restart", "irqbalance.service"), 90.0),
    ]
    after = reload if systemd else []
    files = boot_files(context)
    script = _script_of(files)

    def verify(host: Host) -> str:
        running = running_irqbalance(Probe(host)) if systemd else None
        if _asks(running, script):
            return ""
        return f"irqbalance runs as {running}; next: look for a later drop-in that sets ExecStart (systemctl cat)"

    do = context.boot_operations(files) or [RemoveFile(DROP_IN)]
    return Work([*do, *after], [*context.boot_undo(files or {DROP_IN: ""}), *after], verify)


HANDLER = Handler(work)
