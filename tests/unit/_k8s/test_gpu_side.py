# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes tell of the GPU side: who offers GPUs, the container toolkit, and how MIG divides them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.gpu_side import gpu_node_of, say_gpu_side

NFD = {"feature.node.kubernetes.io/pci-10de.present": "true"}
WITH_TOOLKIT = [{"name": ""}, {"name": "runc"}, {"name": "nvidia-cdi"}]


def said(
    labels: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    handlers: list[dict[str, Any]] | None = None,
    names: tuple[str, ...] = ("a",),
) -> list[str]:
    status: dict[str, Any] = {"allocatable": {"cpu": "96", **(allocatable or {})}}
    if handlers is not None:
        status["runtimeHandlers"] = handlers
    nodes = [{"metadata": {"name": name, "labels": {**NFD, **(labels or {})}}, "status": status} for name in names]
    found = [gpu_node_of(node) for node in nodes]
    return say_gpu_side([each for each in found if each is not None])


@pytest.mark.parametrize("resource", ["gpu", "gpu.shared"])
@pytest.mark.parametrize("handlers", [None, [], WITH_TOOLKIT])
def test_there_is_nothing_to_say_where_nothing_lacks(resource: str, handlers: list[dict[str, Any]] | None) -> None:
    assert said({}, {f"nvidia.com/{resource}": "8"}, handlers) == []


@pytest.mark.parametrize(
    ("labels", "has"),
    [
        ({}, False),
        ({"feature.node.kubernetes.io/pci-15b3.present": "true"}, False),
        ({"feature.node.kubernetes.io/pci-10de.present": "false"}, False),
        (NFD, True),
        ({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, True),
        ({"nvidia.com/gpu.present": "true"}, True),
        ({**NFD, "nvidia.com/gpu.workload.config": "vm-passthrough"}, False),
        ({**NFD, "nvidia.com/gpu.workload.config": "container"}, True),
    ],
)
def test_nodes_with_gpus_for_containers_are_told_by_their_labels(labels: dict[str, str], has: bool) -> None:
    assert (gpu_node_of({"metadata": {"name": "a", "labels": labels}, "status": {}}) is not None) is has
    assert gpu_node_of({"metadata": {"name": "a"}}) is None


def test_virtual_functions_of_nics_are_no_gpus() -> None:
    (notice,) = said({}, {"nvidia.com/hostdev": "8", "nvidia.com/sriov_rail0": "4"})
    assert notice.startswith("no device plugin offers the GPUs of the nodes a: ")


def test_each_missing_piece_is_one_notice_for_all_nodes_that_lack_it() -> None:
    names = tuple(f"gpu-{number}" for number in range(10, 50))
    plugin, toolkit = said({}, {}, [{"name": "runc"}], names)
    assert "no device plugin offers the GPUs of the nodes gpu-10, gpu-11, gpu-12 and 37 more: " in plugin
    assert "deploy the GPU Operator or NVIDIA's device plugin" in plugin and "nothing of the GPU side" in plugin
    assert "gpu-12 and 37 more has no handler of the NVIDIA container toolkit" in toolkit
    assert "nvidia-ctk runtime configure" in toolkit


def test_a_plugin_that_finds_no_healthy_gpu_is_told_from_none() -> None:
    (notice,) = said({}, {"nvidia.com/gpu": "0"})
    assert notice.startswith("the device plugin of the nodes a offers no healthy GPU ")


@pytest.mark.parametrize(
    ("product", "allocatable", "words"),
    [
        ("NVIDIA-A100-SXM4-40GB", {"nvidia.com/gpu": "8"}, ""),
        (
            "NVIDIA-A100-SXM4-40GB",
            {"nvidia.com/gpu": "4", "nvidia.com/mig-3g.20gb": "2", "nvidia.com/mig-1c.2g.10gb": "0"},
            "(nvidia.com/mig-3g.20gb 2): GPUDirect RDMA works within an instance",
        ),
        (
            "A100-SXM4-40GB-MIG-1g.5gb",
            {"nvidia.com/gpu": "56"},
            "(A100-SXM4-40GB-MIG-1g.5gb, nvidia.com/gpu 56): GPUDirect RDMA works within an instance",
        ),
    ],
)
def test_the_mode_of_divided_gpus_is_told(product: str, allocatable: dict[str, str], words: str) -> None:
    notices = said({"nvidia.com/gpu.product": product, "nvidia.com/mig.strategy": "single"}, allocatable)
    assert len(notices) == bool(words)
    assert words in "".join(notices)


def test_instances_that_the_strategy_single_can_not_offer_are_told() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID", "nvidia.com/mig.strategy": "single"}
    unhealthy, invalid = said(labels, {"nvidia.com/gpu": "0"})
    assert "offers no healthy GPU" in unhealthy
    assert "which the MIG strategy single does not offer" in invalid


@pytest.mark.parametrize("state", ["pending", "rebooting", "failed"])
def test_a_mig_manager_that_has_not_finished_is_told(state: str) -> None:
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": state}
    (notice,) = said(labels, {"nvidia.com/gpu": "8"})
    assert notice.startswith(f"the MIG manager has not divided the GPUs of the nodes a as all-1g.10gb: {state} ")
    assert said({**labels, "nvidia.com/mig.config.state": "success"}, {"nvidia.com/gpu": "8"}) == []


def test_amounts_that_are_no_numbers_are_none() -> None:
    assert "no device plugin" in said({}, {"nvidia.com/gpu": "8k"})[0]
