# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and does the removal of files of ours that nothing wants any more. Private: it may change."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import key_of, removal_step


def plan(context: Context) -> ConcernPlan:
    """Return a step for each file of ours that no concern wants and that no concern's own step is about."""
    own_steps = {key_of(step) for step in context.earlier}
    return [
        removal_step("leftovers", path)
        for path in sorted(set(context.boot_files) - set(context.wanted_files) - own_steps)
    ], []
