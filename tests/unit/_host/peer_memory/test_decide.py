# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrix of mechanisms: GPU driver, its flavour, the GPU's generation, the kernel, and the symbols."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory.decide import (
    Situation,
    decide,
    generation,
)

H100, A100, V100, T4, B200, GB10 = "2330", "20b2", "1db5", "1eb8", "2901", "2e12"
INBOX = {"peer_memory": False, "dma_buf": True}
OFED = {"peer_memory": True, "dma_buf": True}
OLD = {"peer_memory": True, "dma_buf": False}
UNTOLD: Any = {"peer_memory": None, "dma_buf": None}


def built(*depends: str) -> Any:
    return {"path": "/lib/modules/6.8.0/updates/dkms/nvidia-peermem.ko", "depends": list(depends)}


WITH_SYMBOLS = {"nvidia_peermem": built("nvidia", "ib_core"), "nv_peer_mem": built("nvidia", "ib_core")}


def situation(**changes: Any) -> Situation:
    base: Any = {
        "gpu_devices": [H100],
        "gpu_driver": "570.86.15",
        "gpu_flavour": "open",
        "kernel": "6.8.0-45-generic",
        "stack": "inbox",
        "running": INBOX,
        "on_disk": INBOX,
        "modules": WITH_SYMBOLS,
    }
    return Situation(**{**base, **changes})


@pytest.mark.parametrize(
    ("changes", "mechanism"),
    [
        ({}, "dma-buf"),
        ({"running": OFED, "on_disk": OFED, "stack": "doca-ofed"}, "dma-buf"),
        ({"gpu_devices": [B200]}, "dma-buf"),
        ({"gpu_devices": [T4]}, "dma-buf"),
        # RHEL's kernel 5.14 and 4.18 have it backported: the symbol counts, not the version.
        ({"kernel": "4.18.0-553.el8_10.x86_64"}, "dma-buf"),
        # ib_uverbs is not loaded yet.
        ({"running": {"peer_memory": False, "dma_buf": False}}, "dma-buf"),
        ({"running": UNTOLD, "on_disk": UNTOLD, "kernel": "5.12.0"}, "dma-buf"),
        ({"running": OFED, "gpu_flavour": "proprietary"}, "nvidia-peermem"),
        ({"running": OLD, "on_disk": OLD}, "nvidia-peermem"),
        ({"running": OFED, "gpu_driver": "510.47.03"}, "nvidia-peermem"),
        ({"running": OFED, "gpu_devices": [A100, V100]}, "nvidia-peermem"),
        ({"running": OFED, "gpu_driver": "470.57.02", "gpu_flavour": "proprietary"}, "nvidia-peermem"),
        ({"running": OFED, "gpu_driver": "460.32.03", "gpu_flavour": "proprietary"}, "nv_peer_mem"),
        # An Ubuntu or DGX kernel with the peer-memory patch.
        ({"running": OFED, "stack": "inbox", "gpu_flavour": "proprietary"}, "nvidia-peermem"),
        (
            {"running": UNTOLD, "on_disk": UNTOLD, "kernel": "5.11.0", "stack": "mlnx-ofed"},
            "nvidia-peermem",
        ),
    ],
)
def test_the_choice(changes: Any, mechanism: str) -> None:
    decision = decide("auto", situation(**changes))
    assert (decision.mechanism, decision.obstacle) == (mechanism, "")
    assert decision.cause


@pytest.mark.parametrize(
    ("depends", "exporter"),
    [
        # lsmod, MLNX_OFED 23.10 (NVIDIA/nccl#1537, leptonai/gpud#39): ib_core ... nvidia_peermem.
        ("ib_core", "ib_core"),
        # lsmod, "ib_uverbs 217088 3 nvidia_peermem,rdma_ucm,mlx5_ib": openshift/openshift-docs,
        # modules/rdma-configuring-the-gpu-operator.adoc (GPU driver 550.90.07, November 2024).
        ("ib_uverbs", "ib_uverbs"),
        ("ib_uverbs", None),
        ("ib_core", None),
        # Whatever module a later release puts it into.
        ("ib_peer", "ib_peer"),
    ],
)
def test_a_module_that_needs_whichever_module_takes_clients_has_its_symbols(depends: str, exporter: str | None) -> None:
    modules = {"nvidia_peermem": built("nvidia", depends)}
    state = situation(running=OFED, gpu_flavour="proprietary", modules=modules, exporter=exporter)
    for wanted in ("auto", "nvidia-peermem"):
        assert decide(wanted, state).obstacle == ""
    unrelated = state._replace(modules={"nvidia_peermem": built("nvidia", "ib_other")})
    assert f"does not depend on {exporter or 'ib_core or ib_uverbs'}" in decide("auto", unrelated).obstacle


@pytest.mark.parametrize(
    ("wanted", "changes", "why"),
    [
        ("auto", {"gpu_driver": None}, "GPU driver is not loaded"),
        ("dma-buf", {"gpu_driver": None}, "GPU driver is not loaded"),
        ("auto", {"gpu_flavour": "proprietary"}, "inbox drivers lack"),
        ("nvidia-peermem", {}, "inbox drivers lack"),
        ("nvidia-peermem", {"running": OFED, "gpu_driver": "460.32.03"}, "R470"),
        ("nvidia-peermem", {"running": INBOX, "on_disk": OFED}, "after the driver was reloaded"),
        ("nvidia-peermem", {"running": OFED, "modules": {}}, "not on the disk"),
        ("nvidia-peermem", {"running": OFED, "modules": {"nvidia_peermem": built()}}, "empty kernel log"),
        ("nvidia-peermem", {"running": OFED, "modules": {"nvidia_peermem": built("nvidia")}}, "Invalid argument"),
        ("nv_peer_mem", {"running": OFED, "modules": {"nvidia_peermem": built("ib_core")}}, "not on the disk"),
        ("dma-buf", {"gpu_flavour": "proprietary"}, "proprietary"),
        ("dma-buf", {"gpu_driver": "510.47.03"}, "R515"),
        ("dma-buf", {"gpu_devices": [V100]}, "Volta"),
        ("dma-buf", {"running": OLD, "on_disk": OLD}, "registers no DMA-BUF"),
        ("auto", {"gpu_devices": [GB10]}, "GB10 has no GPUDirect RDMA"),
        ("nvidia-peermem", {"gpu_devices": [GB10], "running": OFED, "on_disk": OFED}, "GB10 has no GPUDirect RDMA"),
        ("dma-buf", {"running": UNTOLD, "on_disk": UNTOLD, "kernel": "5.11.9"}, "registers no DMA-BUF"),
    ],
)
def test_what_stands_in_the_way_is_said(wanted: str, changes: Any, why: str) -> None:
    assert why in decide(wanted, situation(**changes)).obstacle


def test_a_stack_that_is_about_to_be_installed_clears_the_way() -> None:
    state = situation(gpu_flavour="proprietary", modules=None)
    assert decide("auto", state).obstacle
    assert decide("auto", state._replace(stack_replaced=True)).obstacle == ""


def test_none_needs_nothing() -> None:
    assert decide("none", situation(gpu_driver=None)).obstacle == ""


@pytest.mark.parametrize("kernel", ["", "next", "6", "9" * 5000])
def test_a_kernel_without_a_readable_version_counts_as_old(kernel: str) -> None:
    assert decide("dma-buf", situation(running=UNTOLD, on_disk=UNTOLD, kernel=kernel)).obstacle


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (H100, "Hopper"),
        (A100, "Ampere"),
        (V100, "Volta"),
        (T4, "Turing"),
        (B200, "Blackwell"),
        ("26B9", "Ada"),
        ("", None),
    ],
)
def test_generations(device: str, name: str) -> None:
    assert generation(device) == name


def test_an_unknown_gpu_has_no_generation() -> None:
    assert generation("") is None
