# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the variables that name task files of the user's, one for each stage of a host's turn, and of their limit."""

from __future__ import annotations

from .variable import HOST, Variable

_REBOOT = ("host/reboot",)


def _hook(stage: str, *meaning: str, readers: tuple[str, ...] = _REBOOT) -> Variable:
    """Return the variable of the task files that are run at a stage of a host's turn."""
    return Variable(f"hooks_{stage}", "list", meaning, readers, HOST, elements="path", on_controller=True)


HOOKS = (
    _hook(
        "before_drain",
        "Task files, by their full paths on the controller, that run for a host before its node is drained. If one "
        "fails, the host fails and nothing is drained.",
    ),
    _hook(
        "after_drain",
        "The same once the node is drained and before the host is changed, reloaded or rebooted. The node stays "
        "cordoned when one fails.",
    ),
    _hook(
        "changed",
        "The same once the host is changed, and rebooted if needed, before its node is uncordoned. If one fails, for "
        "example your own test, the node stays cordoned, and in an upgrade its host is rolled back.",
    ),
    _hook("verified", "The same once the node takes pods again, before its slot is released."),
    _hook(
        "failed",
        "The same for a host whose turn has failed, before it is rolled back.",
        readers=("host/upgrade",),
    ),
    _hook(
        "rolled_back",
        "The same once a host whose turn has failed was rolled back, or could not be.",
        readers=("host/upgrade",),
    ),
)
_LIMIT = Variable(
    "hook_timeout",
    "int",
    (
        "Seconds that each task of a hook may take, V(0) without limit. A task that takes longer is ended and fails "
        "its host. The task's own C(timeout) takes precedence.",
    ),
    ("host/hook",),
    HOST,
    default=600,
    least=0,
    unit="seconds",
)
ROWS = (*HOOKS, _LIMIT)
