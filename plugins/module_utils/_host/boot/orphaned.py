# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and does the removal of files of ours that nothing wants any more."""

from __future__ import annotations

import posixpath

from ..engine.context import ConcernPlan, Context, Handler
from ..engine.operations import RemoveFile, Run, Work
from ..engine.steps import Step, key_of, removal_step
from ..machine.access import Host
from ..machine.host_files import JOIN_ENABLED_BY, JOIN_UNIT_FILE
from .kept_by_files import lost_with

_ENABLE_JOIN = Run(("systemctl", "enable", posixpath.basename(JOIN_UNIT_FILE)))


def plan(context: Context) -> ConcernPlan:
    """Return a step for each file of ours that no concern wants and that no concern's own step is about."""
    own_steps = {key_of(step) for step in context.earlier}
    # Until the node has joined, the unit that lets it join has to start with every boot.
    kept = set() if context.removing else {JOIN_UNIT_FILE}
    return [
        removal_step("leftovers", path, interrupts=lost_with(path, context.boot_files[path]))
        for path in sorted(set(context.boot_files) - set(context.wanted_files) - own_steps - kept)
    ], []


def work(context: Context, step: Step) -> Work:
    """Return how the file of a step is removed."""
    path = step["target"]

    def verify(host: Host) -> str:
        return f"{path} is still there" if host.exists(path) else ""

    removal = context.work_of_removal(path)
    if path == JOIN_UNIT_FILE:
        return Work([RemoveFile(JOIN_ENABLED_BY), *removal.do], [*removal.undo, _ENABLE_JOIN], verify)
    return removal._replace(verify=verify)


HANDLER = Handler(work)
