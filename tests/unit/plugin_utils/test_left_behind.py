# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator that is gone has left on nodes is told with the step that takes it off."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.teardown import left_on_nodes

UPGRADE, WAIT = "nvidia.com/ofed-driver-upgrade-state", "network.nvidia.com/operator.mofed.wait"
FIRMWARE, DRAIN = "network.nvidia.com/operator.nic-configuration.wait", "sriovnetwork.openshift.io/state"


def node(name: str, part: str, key: str, value: str, *, unschedulable: bool = False) -> dict[str, Any]:
    return {"metadata": {"name": name, part: {key: value}}, "spec": {"unschedulable": unschedulable}}


def test_an_upgrade_that_nobody_ends_keeps_a_slot_and_its_cordon_is_named() -> None:
    nodes = [
        node("a", "labels", UPGRADE, "pod-restart-required", unschedulable=True),
        node("b", "labels", UPGRADE, "pod-restart-required"),
        node("c", "labels", UPGRADE, "upgrade-done"),
    ]
    assert left_on_nodes(nodes, [], drivers=False) == (
        [
            f"a, b: {UPGRADE} is pod-restart-required, of the network-operator, which does not run: each counts as a"
            f" taken slot (next: kubectl label nodes --all {UPGRADE}-, and where the cordon is its own kubectl uncordon"
            " a)"
        ],
        [],
    )


@pytest.mark.parametrize(
    ("mark", "programs", "told"),
    [
        (f"labels {UPGRADE}=drain-required", ["network-operator"], ""),
        ("labels nvidia.com/gpu-driver-upgrade-state=drain-required", ["network-operator"], "label"),
        (f"labels {WAIT}=true", [], "label"),
        (f"labels {WAIT}=false", [], ""),
        (f"labels {FIRMWARE}=true", [], "label"),
        (f"labels {FIRMWARE}=true", ["nic-configuration-operator"], ""),
        (f"annotations {DRAIN}=Draining", [], "annotate"),
        (f"annotations {DRAIN}=Idle", [], ""),
        (f"annotations {DRAIN}=Draining", ["sriov-network-operator"], ""),
    ],
)
def test_what_is_told_is_what_nobody_takes_off(mark: str, programs: list[str], told: str) -> None:
    part, _space, pair = mark.partition(" ")
    key, _equals, value = pair.partition("=")
    slots, others = left_on_nodes([node("a", part, key, value)], programs, drivers=False)
    found = [*slots, *others]
    assert [f"kubectl {told} nodes --all {key}-" in each for each in found] == ([True] if told else [])


def test_where_the_driver_is_a_container_its_label_is_set_here() -> None:
    assert left_on_nodes([node("a", "labels", WAIT, "true")], [], drivers=True) == ([], [])
