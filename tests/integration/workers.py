# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests may run beside each other, as a plugin of pytest: a worker takes whole files, one all about this machine.

Each worker has a control plane of its own, on free ports and in a folder of its own. What is left is the machine: while
a run of the collection brings a host it refuses another one there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

# How tests run modules on this machine, with its own files; hosts in folders, of own_files.py, have theirs.
_ON_THIS_MACHINE = re.compile(r'"ansible_connection": "local"|"-c", "local"|\bintegration import guides\b')
# They do that with recorded hosts, or with none at all: the rest is half of all that there is for two workers.
OF_RECORDED_HOSTS = ("test_cluster_examples.py", "test_k8s_batch_action.py", "test_status.py")


def unit_of(root: Path, test: str) -> str:
    """Return what a test is run together with: its file, or all files about this machine.

    ``test`` is its node ID, whose file is relative to ``root``.
    """
    file = test.partition("::")[0]
    apart = file.endswith(OF_RECORDED_HOSTS) or not _ON_THIS_MACHINE.search((root / file).read_text(encoding="utf-8"))
    return file if apart else "this machine"


class InUnits(LoadFileScheduling):
    """Gives a worker the tests of a unit, and the next unit when it is done with that."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(self.config.rootpath, nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> InUnits:
    """Have workers take units."""
    return InUnits(config, log)
