# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd never ends the boot unit before its own waits are over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.unit import start_seconds
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import SetAttribute, WaitFor
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.paths import WISHES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import own_part
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.registry import handler_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.persisted import wished_of
from ansible_collections.rdma.fabric.tests.unit._host import full_hosts, large_host
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
# For each host: as it boots, and what is asked of it.
HOSTS: dict[str, Any] = {name: (full.host, full.wish) for name, full in full_hosts.HOSTS.items()}
HOSTS["large"] = (lambda: large_host.booted(2), large_host.wish(2, 4))


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_the_limit_of_the_unit_is_more_than_its_waits(name: str) -> None:
    start, wish = HOSTS[name]
    kernel: Kernel = start()
    outcome = apply(kernel, check_spec(wish), APPLY, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    text = kernel.read(WISHES_FILE)
    fresh: Kernel = start()
    plan, context = plan_with_context(wished_of(text).desired, gather(fresh, desired=wished_of(text).desired))
    waits = 0.0
    for step in own_part(plan)["steps"]:
        handler = handler_of(step["concern"])
        assert handler is not None
        operations = handler.work(context, step).do
        waits += sum(each.seconds for each in operations if isinstance(each, WaitFor))
        # The kernel returns from a write of their number when the functions are there.
        waits += sum(
            each.timeout for each in operations if isinstance(each, SetAttribute) and each.path.endswith("sriov_numvfs")
        )
    fixed = start_seconds([])
    assert fixed > 30 + 70 + 90 + 30
    assert waits <= start_seconds(json.loads(text)["interfaces"]) - fixed
