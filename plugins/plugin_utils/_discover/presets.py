# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose ports are published: which are the rails, and which carry storage. Without a source, no machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Mapping


@dataclass(frozen=True)
class Preset:
    """A published layout. ``machines`` has its names with the GPU of each, ``also`` GPUs of others that it fits.

    ``rails`` are the PCI addresses of its compute ports in the order of the GPUs, by which it is recognized, and of
    ``fabric`` (ib or roce); ``storage`` those of ports that its vendor means for storage and in-band management.
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
    also: tuple[str, ...] = ()

    def fits(self, gpu: str) -> bool:
        """Tell whether a host with this GPU may be one; the model is not always known."""
        return gpu in ("", "GPU") or any(model in gpu for model in (*self.machines.values(), *self.also))

    def group(self, gpu: str) -> str:
        """Return the inventory group of its hosts with this GPU: that of its first machine for one it does not name."""
        names = [name for name, model in self.machines.items() if model in gpu]
        return (names or [*self.machines])[0].replace("-", "_")


def machine_named(asked: str) -> str:
    """Return how a machine is written here: ``dgx-h100`` for DGX H100, ``bm-gpu-h100-8`` for BM.GPU.H100.8."""
    return re.sub(r"[^a-z0-9]+", "-", asked.strip().lower())


def _on(buses: str, functions: int = 1) -> tuple[str, ...]:
    """Return the addresses of these buses of PCI domain 0, each with its functions."""
    return tuple(f"0000:{bus}:00.{port}" for bus in buses.split() for port in range(functions))


def _hgx_h200(server: str, maker: str, buses: str) -> Preset:
    source = f"NVIDIA k8s-launch-kit (github.com/NVIDIA/k8s-launch-kit), presets/{server}/topology.yaml"
    machine = machine_named(f"{server} H200")
    return Preset({machine: "H200"}, f"{maker} {server} with HGX H200", source, "roce", "BlueField-3", _on(buses))


def _oci(shapes: Mapping[str, str], source: str, card: str, rails: tuple[str, ...]) -> Preset:
    machines = {machine_named(shape): gpu for shape, gpu in shapes.items()}
    return Preset(machines, f"OCI's shape {' or '.join(shapes)}", source, "roce", card, rails)


def _azure(series: str, gpu: str, topology: str, card: str) -> Preset:
    source = (
        f"Azure's HPC images (github.com/Azure/azhpc-images), topology/{topology}-topo.xml; cards: Azure's page of the "
        "series and dranet.sigs.k8s.io, Azure AKS with DRANET"
    )
    rails = tuple(f"010{number}:00:00.0" for number in range(1, 9))
    return Preset({machine_named(series): gpu}, f"Azure's series {series}", source, "ib", card, rails, function="vf")


_OCI_SHAPES = "OCI DR HPC v2 (github.com/ai2-compute-gpu/oci-dr-hpc-v2), internal/shapes/shapes.json"
_OCI_HPC = f"Oracle's oci-hpc (github.com/oracle-quickstart/oci-hpc), {{}}; GPUs and functions: {_OCI_SHAPES}"
_OCI_A100 = _OCI_HPC.format("playbooks/roles/rdma-interface/vars/main.yml")
_OCI_H100 = _OCI_HPC.format("samples/gpu/H100-topology.xml")
_OCI_HOPPER = "0c 2a 41 58 86 a5 bd d5"

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
        tuple(f"{domain}:03:00.0" for domain in ("0000", "0002", "0010", "0012")),
        tuple(f"{domain}:03:00.{port}" for domain in ("0006", "0016") for port in (0, 1)),
        gpus=4,
        also=("GB300",),
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
    _hgx_h200("PowerEdge-XE9680", "a Dell", "1a 3c 4d 5e 9c bc cc dc"),
    _hgx_h200("ThinkSystem-SR680a-V3", "a Lenovo", "19 2a 3b 4c 9b ab c1 cb"),
    _hgx_h200("UCSC-885A-M8-H22", "a Cisco", "09 23 53 69 8f 9c cd f1"),
    _oci({"BM.GPU4.8": "A100"}, _OCI_A100, "ConnectX-5 Ex", _on("0c 16 48 4c 8a 94 c3 d1", 2)),
    _oci(
        {"BM.GPU.A100-v2.8": "A100", "BM.GPU.B4.8": "A100"},
        _OCI_A100,
        "ConnectX-5 Ex",
        _on("0c 16 47 4b 89 93 c3 d1", 2),
    ),
    _oci({"BM.GPU.H100.8": "H100"}, _OCI_H100, "ConnectX-7", _on(_OCI_HOPPER, 2)),
    _oci({"BM.GPU.H200.8": "H200", "BM.GPU.B200.8": "B200"}, _OCI_SHAPES, "ConnectX-7", _on(_OCI_HOPPER)),
    _azure("ND H100 v5", "H100", "ndv5", "ConnectX-7"),
    _azure("ND A100 v4", "A100", "ndv4", "ConnectX"),
)

MACHINES = {machine: preset for preset in PRESETS for machine in preset.machines}


def rows() -> list[tuple[str, str, str]]:
    """Return the machines that can be planned, each with its hardware and its source, in the order of the table."""
    return [
        (
            machine,
            f"{preset.gpus} x {preset.machines[machine]}, {len(preset.rails)} x {preset.card}"
            f"{' VF' if preset.function == 'vf' else ''} {'InfiniBand' if preset.fabric == 'ib' else 'RoCE'}",
            preset.source,
        )
        for machine, preset in MACHINES.items()
    ]
