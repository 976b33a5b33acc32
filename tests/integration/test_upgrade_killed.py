# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play of upgrade is killed before and after each write of its run; the next run ends as an undisturbed one.

It is killed alone, as by a kernel that is out of memory, so that its tasks run on; and with its tasks, as on a machine
that loses power. By default some writes of two nodes are taken; ``RDMA_FABRIC_SWEEPS=whole`` takes all of three.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FaultyProxy, Plan
from ansible_collections.rdma.fabric.tests.integration.killing import kill
from ansible_collections.rdma.fabric.tests.integration.playbooks import LIMIT_SECONDS, REVIEWS
from ansible_collections.rdma.fabric.tests.integration.test_playbooks_faults import kubeconfig_for
from ansible_collections.rdma.fabric.tests.integration.upgrading import NAMES, Fleet
from ansible_collections.rdma.fabric.tests.sweeps import whole

# A slot, the cordon, the eviction, the node uncordoned, and the slot.
WRITES_OF_A_NODE = 5
ALL = [
    [(number, fault, alone)]
    for number in range(1, WRITES_OF_A_NODE * len(NAMES) + 1)
    for fault in ("act", "act after commit")
    for alone in (True, False)
]
HOSTS = NAMES if whole() else NAMES[:2]
# One run after the other, each of which finds what those before it have left.
SAMPLE = [[(2, "act after commit", True), (3, "act after commit", False), (3, "act", True), (5, "act", False)]]


def is_write(method: str, path: str) -> bool:
    return method != "GET" and not any(group in path for group in REVIEWS)


@pytest.mark.hosts(*HOSTS)
@pytest.mark.parametrize("kills", ALL if whole() else SAMPLE)
def test_the_next_run_ends_as_one_that_was_not_disturbed(
    fleet: Fleet, tmp_path: Path, kills: list[tuple[int, str, bool]]
) -> None:
    version = fleet.version()
    with FaultyProxy(fleet.cluster) as proxy:
        kubeconfig = kubeconfig_for(fleet.cluster, tmp_path / "kubeconfig", proxy.url)
        for number, fault, alone in kills:
            plan = proxy.follow(Plan(counts=is_write))
            with fleet.start(kubeconfig) as process:
                plan.act = lambda: kill(process, alone=alone)  # noqa: B023 - the run ends within its turn of the loop
                plan.number, plan.fault = number, fault
                fleet.until(lambda: process.poll() is not None, LIMIT_SECONDS)
            assert process.returncode == -signal.SIGKILL
            assert len(fleet.cordoned()) <= 1
        fleet.run().succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (list(HOSTS), [], [], [])
    assert fleet.pods() == []
    assert fleet.most_at_once(version) == 1
