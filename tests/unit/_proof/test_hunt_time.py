# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a hunt over 1,000 nodes on 8 networks takes, by every request and slot of it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.blame import blame
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import lead
from ansible_collections.rdma.fabric.tests.unit._proof.faulty_fabric import Fabric, Fault
from ansible_collections.rdma.fabric.tests.unit._proof.test_blame_fabrics import hunted, places_of

SLOT = 10
READY = 30.0
"""Seconds that kubelets take for a pod each, all at once."""
REQUESTS_A_SECOND = 250
"""One controller's: ``tests.bench proof`` has 15 ms of its CPU for the four requests of a pod and the judging of it."""


@pytest.mark.slow
def test_a_hunt_over_a_thousand_nodes_and_eight_networks_takes_six_minutes_at_most() -> None:
    made = Fabric(1000, 8, 32, by_rail=True, twin=False, random=Random(1))  # noqa: S311 - the same in every run
    made.faults = [Fault("end", (f"rail{number % 8}", 6 * number), 0.0 if number % 2 else 0.5) for number in range(160)]
    made.faults += [Fault("leaf", ("rail2-leaf7",), 0.0), Fault("uplinks", ("rail5-leaf3",), 0.4)]
    seen = hunted(made, 1)
    pods = 1000 * 8
    seconds = 2 * pods / REQUESTS_A_SECOND + READY
    for pairs in Counter(each.round for each in seen).values():
        assert 2 * pairs / REQUESTS_A_SECOND < lead(2 * pairs, SLOT), "every pod is told before the first slot"
        seconds += lead(2 * pairs, SLOT) + SLOT + 2 * pairs / REQUESTS_A_SECOND
    assert seconds <= 360
    named = {cause for each in blame(seen, places=places_of(made)) if each.sure for cause in each.causes}
    assert {("leaf", "rail2-leaf7"), ("uplinks", "rail5-leaf3")} <= named
