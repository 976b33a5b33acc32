# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes a file of ours."""

from __future__ import annotations

import posixpath

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.manager_files import mode_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import (
    Operation,
    PutFile,
    RemoveFile,
    Run,
    Work,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.paths import JOIN_ENABLED_BY, JOIN_UNIT_FILE

_ENABLE_JOIN = Run(("systemctl", "enable", posixpath.basename(JOIN_UNIT_FILE)))


def work(context: Context, step: Step) -> Work:
    """Return how the file of a step is removed."""
    path = str(step["target"])

    def verify(host: Host) -> str:
        return f"{path} is still there" if host.exists(path) else ""

    if path == JOIN_UNIT_FILE:
        undo: list[Operation] = [PutFile(path, context.boot_files[path], mode_of(path)), _ENABLE_JOIN]
        return Work([RemoveFile(JOIN_ENABLED_BY), RemoveFile(path)], undo, verify)
    return Work([RemoveFile(path)], [PutFile(path, context.boot_files[path], mode_of(path))], verify)
