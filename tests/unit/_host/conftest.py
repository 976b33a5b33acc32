# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds every plan that these tests make to the registry: a host has nothing of a concern that is not about it."""

from __future__ import annotations

from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import CONCERNS, Concern
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import planner_of


@pytest.fixture(autouse=True)
def _nothing_of_other_concerns() -> Iterator[None]:
    is_about = Concern.is_about

    def checked(concern: Concern, context: Context) -> bool:
        if is_about(concern, context):
            return True
        name = next(name for name, each in CONCERNS.items() if each is concern)
        planner = planner_of(name)
        of_files = planner.staying if context.removing else planner.boot_files
        files = [] if of_files is None else list(of_files(context))
        found = (name, planner.plan(context), files)
        assert found == (name, ([], []), []), found
        return False

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Concern, "is_about", checked)
        yield
