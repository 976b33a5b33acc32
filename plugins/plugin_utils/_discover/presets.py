# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose ports are published: which are the rails, and which carry storage. Without a source, no machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Mapping, NamedTuple


@dataclass(frozen=True)
class Preset:
    """A published layout. ``machines`` has its names with the GPU of each; its rails are of ``fabric`` (ib or roce).

    ``rails`` are the PCI addresses of its compute ports in the order of the GPUs, by which it is recognized;
    ``storage`` those of the ports that its vendor means for storage and in-band management.
    """

    machines: Mapping[str, str]
    title: str
    source: str
    fabric: str
    card: str
    rails: tuple[str, ...]
    storage: tuple[str, ...] = ()
    gpus: int = 8
    function: str = "pf"

    def group(self, gpu: str) -> str:
        """Return the inventory group of its hosts with this GPU: that of its first machine for one it does not name."""
        names = [name for name, model in self.machines.items() if model in gpu]
        return (names or [*self.machines])[0].replace("-", "_")


class Row(NamedTuple):
    """A machine as lists of them show it."""

    machine: str
    hardware: str
    source: str


def _on(buses: str, functions: int = 1) -> tuple[str, ...]:
    """Return the addresses of these buses of PCI domain 0, each with its functions."""
    return tuple(f"0000:{bus}:00.{port}" for bus in buses.split() for port in range(functions))


_LAUNCH_KIT = "NVIDIA k8s-launch-kit (github.com/NVIDIA/k8s-launch-kit), presets/{}/topology.yaml"
_OCI_HPC = "Oracle's oci-hpc (github.com/oracle-quickstart/oci-hpc), {}"
_OCI_SHAPES = "OCI DR HPC v2 (github.com/ai2-compute-gpu/oci-dr-hpc-v2), internal/shapes/shapes.json"
_AZURE = (
    "Azure's HPC images (github.com/Azure/azhpc-images), topology/{}-topo.xml; cards: Azure's page of the series and "
    "dranet.sigs.k8s.io, Azure AKS with DRANET"
)
_GB200 = tuple(f"{domain}:03:00.0" for domain in ("0000", "0002", "0010", "0012"))

PRESETS = (
    Preset(
        {"dgx-h100": "H100", "dgx-h200": "H200"},
        "a DGX H100 or H200",
        "NVIDIA DGX H100/H200 User Guide, Network Modules: ibp24s0 to ibp220s0 and the GPU of each",
        "ib",
        "ConnectX-7",
        _on("18 40 4f 5e 9a c0 ce dc"),
        _on("29 aa", functions=2),
    ),
    Preset(
        {"dgx-gb200": "GB200"},
        "a compute tray of a DGX GB200 or GB300",
        "NVIDIA Mission Control, North-South Network Deployment Guide for GB200, Compute Tray Network Ports",
        "ib",
        "ConnectX-7",
        _GB200,
        tuple(f"{domain}:03:00.{port}" for domain in ("0006", "0016") for port in (0, 1)),
        gpus=4,
    ),
    Preset(
        {"dgx-a100": "A100"},
        "a DGX A100",
        "RAPIDS (github.com/rapidsai/gpu-bdb), tpcx_bb/cluster_configuration/cluster-startup-selene.sh: ibp12s0 to "
        "ibp204s0 and the GPU of each; cards: NVIDIA DGX BasePOD Deployment Guide for DGX A100",
        "ib",
        "ConnectX-6",
        _on("0c 12 4b 54 8d 94 ba cc"),
    ),
    Preset(
        {"poweredge-xe9680-h200": "H200"},
        "a Dell PowerEdge XE9680 with HGX H200",
        _LAUNCH_KIT.format("PowerEdge-XE9680"),
        "roce",
        "BlueField-3",
        _on("1a 3c 4d 5e 9c bc cc dc"),
    ),
    Preset(
        {"thinksystem-sr680a-v3-h200": "H200"},
        "a Lenovo ThinkSystem SR680a V3 with HGX H200",
        _LAUNCH_KIT.format("ThinkSystem-SR680a-V3"),
        "roce",
        "BlueField-3",
        _on("19 2a 3b 4c 9b ab c1 cb"),
    ),
    Preset(
        {"ucsc-885a-m8-h200": "H200"},
        "a Cisco UCS C885A M8 with HGX H200",
        _LAUNCH_KIT.format("UCSC-885A-M8-H22"),
        "roce",
        "BlueField-3",
        _on("09 23 53 69 8f 9c cd f1"),
    ),
    Preset(
        {"bm-gpu4-8": "A100"},
        "OCI's shape BM.GPU4.8",
        _OCI_HPC.format("playbooks/roles/rdma-interface/vars/main.yml") + f"; GPUs: {_OCI_SHAPES}",
        "roce",
        "ConnectX-5 Ex",
        _on("0c 16 48 4c 8a 94 c3 d1", functions=2),
    ),
    Preset(
        {"bm-gpu-a100-v2-8": "A100", "bm-gpu-b4-8": "A100"},
        "OCI's shape BM.GPU.A100-v2.8 or BM.GPU.B4.8",
        _OCI_HPC.format("playbooks/roles/rdma-interface/vars/main.yml") + f"; GPUs: {_OCI_SHAPES}",
        "roce",
        "ConnectX-5 Ex",
        _on("0c 16 47 4b 89 93 c3 d1", functions=2),
    ),
    Preset(
        {"bm-gpu-h100-8": "H100"},
        "OCI's shape BM.GPU.H100.8",
        _OCI_HPC.format("samples/gpu/H100-topology.xml") + f"; functions: {_OCI_SHAPES}",
        "roce",
        "ConnectX-7",
        _on("0c 2a 41 58 86 a5 bd d5", functions=2),
    ),
    Preset(
        {"bm-gpu-h200-8": "H200", "bm-gpu-b200-8": "B200"},
        "OCI's shape BM.GPU.H200.8 or BM.GPU.B200.8",
        _OCI_SHAPES,
        "roce",
        "ConnectX-7",
        _on("0c 2a 41 58 86 a5 bd d5"),
    ),
    Preset(
        {"bm-gpu-gb200-4": "GB200"}, "OCI's shape BM.GPU.GB200.4", _OCI_SHAPES, "roce", "ConnectX-7", _GB200, gpus=4
    ),
    Preset(
        {"nd-h100-v5": "H100"},
        "Azure's series ND H100 v5",
        _AZURE.format("ndv5"),
        "ib",
        "ConnectX-7",
        tuple(f"010{number}:00:00.0" for number in range(1, 9)),
        function="vf",
    ),
    Preset(
        {"nd-a100-v4": "A100"},
        "Azure's series ND A100 v4",
        _AZURE.format("ndv4"),
        "ib",
        "ConnectX",
        tuple(f"010{number}:00:00.0" for number in range(1, 9)),
        function="vf",
    ),
)

MACHINES = {machine: preset for preset in PRESETS for machine in preset.machines}


def machine_named(asked: str) -> str:
    """Return how a machine is written here: ``dgx-h100`` for DGX H100, ``bm-gpu-h100-8`` for BM.GPU.H100.8."""
    return re.sub(r"[^a-z0-9]+", "-", asked.strip().lower())


def rows() -> list[Row]:
    """Return the machines that can be planned, in the order of the table."""
    return [
        Row(
            machine,
            f"{preset.gpus} x {preset.machines[machine]}, {len(preset.rails)} x {preset.card}"
            f"{' VF' if preset.function == 'vf' else ''} {'InfiniBand' if preset.fabric == 'ib' else 'RoCE'}",
            preset.source,
        )
        for machine, preset in MACHINES.items()
    ]
