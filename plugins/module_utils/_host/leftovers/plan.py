# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and does the removal of files of ours that nothing wants any more. Private: it may change."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import BOOT, make_step


def plan(context: Context) -> ConcernPlan:
    """Return a step for each file of ours that no concern wants and that no concern's own step is about."""
    own_steps = {str(step["id"]).split(":", 1)[1] for step in context.earlier}
    return [
        make_step(
            "leftovers",
            path,
            target=path,
            action=f"remove {path}",
            before="there",
            after="removed",
            reason="rdma.fabric wrote it, and nothing that is asked for needs it any more",
            undo=f"write {path} again",
            when=BOOT,
        )
        for path in sorted(set(context.boot_files) - set(context.wanted_files) - own_steps)
    ], []
