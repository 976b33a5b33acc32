# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the GPU Operator's driver wait for a NIC driver that comes in no container? Pure.

Sources: NVIDIA/gpu-operator, ``transformDriverManagerInitContainer`` of ``controllers/object_controls.go``:
``rdma.enabled`` and ``rdma.useHostMofed`` become variables of the init container. NVIDIA/k8s-driver-manager: with the
first one that container waits, on a node with a NIC of vendor 15b3 and without limit, for the file ``.driver-ready`` of
the Network Operator's driver container, with both for the module ``mlx5_core``. Before that it has unloaded the GPU
driver.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from .objects import key_of
from .operators import containers_of, first_containers_of

_NIC_DRIVER = "mofed-container"
_MANAGER = "k8s-driver-manager"
_WAITS, _FOR_HOSTS = "GPU_DIRECT_RDMA_ENABLED", "USE_HOST_MOFED"


def waiting_gpu_drivers(objects: Iterable[Mapping[str, Any]], live: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a notice for each live DaemonSet of a GPU driver that waits for the NIC driver's container.

    ``objects`` are those of a push. There is none where these or the live ones deploy that container.
    """
    there = list(live)
    if any(each.get("name") == _NIC_DRIVER for body in [*objects, *there] for each in containers_of(body)):
        return []
    return sorted(
        f"{key_of(body)} waits, on nodes with NVIDIA's NICs and before it loads the GPU driver, for the Network "
        f"Operator's driver container, which nothing deploys ({_WAITS} without {_FOR_HOSTS}): from the next start of "
        "its pods on they have no GPU (next: set useHostMofed: true beside enabled: true of rdma in the GPU Operator's "
        "ClusterPolicy or NVIDIADriver)"
        for body in there
        if any(_is_set(each, _WAITS) and not _is_set(each, _FOR_HOSTS) for each in _managers(body))
    )


def _managers(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (each for each in first_containers_of(body) if each.get("name") == _MANAGER)


def _is_set(container: Mapping[str, Any], variable: str) -> bool:
    return any(each.get("name") == variable and each.get("value") == "true" for each in container.get("env") or [])
