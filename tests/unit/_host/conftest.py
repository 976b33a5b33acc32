# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds every plan that these tests make to the registry: a host has nothing of a concern that is not about it."""

from __future__ import annotations

from typing import Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import CONCERNS, Entry


@pytest.fixture(autouse=True)
def _nothing_of_other_concerns() -> Iterator[None]:
    checked = {name: entry._replace(is_about=_checked(name, entry)) for name, entry in CONCERNS.items()}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan, "CONCERNS", checked)
        yield


def _checked(name: str, entry: Entry) -> Callable[[Context], bool]:
    def is_about(context: Context) -> bool:
        if entry.is_about(context):
            return True
        concern = entry.load()
        of_files = concern.staying if context.removing else concern.boot_files
        files = [] if of_files is None else list(of_files(context))
        found = (name, concern.plan(context), files)
        assert found == (name, ([], []), []), found
        return False

    return is_about
