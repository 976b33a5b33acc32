# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the GPU Operator in the input: drivers that would wait for a container that nobody deploys."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES, Fabric, of_text

TEXT = (FIXTURES / "neighbours" / "gpu-policies.yaml").read_text(encoding="utf-8")
POLICY = "---\napiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: nic-cluster-policy}\n"
GROUP = {"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-60-generic", "arch": "amd64"}
CONTAINER = {"driver_source": "container", "driver_nodes": [GROUP]}


def waiting(fabric: Fabric) -> list[str]:
    return [each.path for each in fabric.accepted().notices if "has the GPU driver wait" in each.sentence()]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="no driver is asked for"),
        pytest.param({"spec": "{ofedDriver: {}}"}, id="packages on the hosts"),
        pytest.param({"settings": CONTAINER}, id="a container is, and no driver"),
    ],
)
def test_gpu_drivers_that_wait_for_the_driver_container_are_named_where_none_is_deployed(given: Any) -> None:
    policy = POLICY + f"spec: {given['spec']}\n" if "spec" in given else ""
    fabric = of_text(TEXT + policy, settings=given.get("settings", {}))
    assert waiting(fabric) == ["spec.driver.rdma.enabled", "spec.rdma.enabled"]


def test_where_the_driver_is_a_container_they_wait_for_that_one() -> None:
    policy = POLICY + "spec: {ofedDriver: {version: doca3.3.0-26.01-1.0.0.0-0}}\n"
    assert waiting(of_text(TEXT + policy, settings=CONTAINER)) == []
    assert waiting(of_text(TEXT + policy, settings={"engine": "helm", "helm_chart_version": "26.4.1"})) == []


@pytest.mark.parametrize(
    "change", [("enabled: true, use", "enabled: false, use"), ("Mofed: false", "Mofed: true"), ("nvidia.com/", "x/")]
)
def test_other_objects_are_not_named(change: tuple[str, str]) -> None:
    driver = TEXT.split("---\n")[2].replace(*change)
    assert waiting(of_text(driver)) == []
    assert len(waiting(of_text(TEXT.split("---\n")[2]))) == 1
