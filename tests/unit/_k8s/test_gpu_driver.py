# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the GPU Operator's driver waits for a NIC driver that nobody deploys as a container."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import DRIVER
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.gpu_driver import waiting_gpu_drivers
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import daemon_set
from ansible_collections.rdma.fabric.tests.unit._k8s.gpu_operator import gpu_driver


def with_first_container(body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a DaemonSet whose one init container has other fields."""
    (container,) = body["spec"]["template"]["spec"]["initContainers"]
    container.update(fields)
    return body


def nic_driver() -> dict[str, Any]:
    body = daemon_set("mofed-ubuntu24.04-5d9b4b7c5c-ds")
    body["spec"]["template"]["spec"]["containers"][0]["name"] = DRIVER
    return body


def test_a_gpu_driver_that_waits_for_the_nic_drivers_container_is_named_with_the_field_to_set() -> None:
    (notice,) = waiting_gpu_drivers([daemon_set("ours")], [daemon_set("other"), gpu_driver()])
    assert notice.startswith("DaemonSet gpu-operator/nvidia-gpu-driver-ubuntu22.04-7c6d7bd86b waits, on nodes with")
    assert "(next: set useHostMofed: true beside enabled: true of rdma in the GPU Operator's ClusterPolicy" in notice


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(gpu_driver(USE_HOST_MOFED="true"), id="waits for the module alone"),
        pytest.param(gpu_driver(GPU_DIRECT_RDMA_ENABLED="false"), id="without GPUDirect RDMA"),
        pytest.param(with_first_container(gpu_driver(), env=None), id="without variables"),
        pytest.param(with_first_container(gpu_driver(), name="other"), id="another container with the variable"),
        pytest.param(daemon_set("other"), id="no driver of GPUs"),
        pytest.param({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"}}, id="without pods"),
    ],
)
def test_one_that_waits_for_nothing_is_not_named(body: dict[str, Any]) -> None:
    assert waiting_gpu_drivers([], [body]) == []


def test_where_the_nic_driver_is_a_container_it_waits_for_that_one() -> None:
    assert waiting_gpu_drivers([nic_driver()], [gpu_driver()]) == []
    assert waiting_gpu_drivers([], [gpu_driver(), nic_driver()]) == []
    assert len(waiting_gpu_drivers([], [gpu_driver(USE_HOST_MOFED="false")])) == 1
