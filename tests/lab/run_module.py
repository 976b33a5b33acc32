# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module of the collection on this host, as a program: its name is the argument, its arguments come as JSON.

``python3 -m ansible_collections.rdma.fabric.tests.lab.run_module mofed_driver < ARGUMENTS``. The standard library and
ansible-core's ``module_utils`` are all that is needed. The list of loaded modules is a file of the test: a kernel that
loads no modules has none that a file could be mounted over.
"""

from __future__ import annotations

import importlib
import json
import sys
from unittest import mock

BYTECODE = "/opt/rdma-fabric/bytecode"
if __name__ == "__main__":
    # The programs that it runs go on to write none: some would lie where packages of the host look for theirs.
    sys.pycache_prefix, sys.dont_write_bytecode = BYTECODE, False

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.kernel import MODULES  # noqa: E402 - after that
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveHost  # noqa: E402
from ansible_collections.rdma.fabric.tests.unit.module_arguments import given  # noqa: E402

LOADED = "/opt/rdma-fabric/modules"
_place_of = LiveHost._local


def _local(host: LiveHost, path: str) -> str:
    return _place_of(host, LOADED if path == MODULES else path)


if __name__ == "__main__":
    with given(json.load(sys.stdin)), mock.patch.object(LiveHost, "_local", _local):
        importlib.import_module(f"ansible_collections.rdma.fabric.plugins.modules.{sys.argv[1]}").main()
