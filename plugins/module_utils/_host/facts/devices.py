# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Map PCI ids and firmware versions to device families and names.

Sources: the public PCI id list, and the device tables of NVIDIA's network and GPU operators.
"""

from __future__ import annotations

from typing import NamedTuple

MELLANOX = "15b3"
NVIDIA = "10de"
CLASS_ETHERNET = "0200"
CLASS_INFINIBAND = "0207"
GPU_CLASSES = ("0300", "0302")
# NVSwitches of Ampere and Hopper baseboards are bridges of this class (1af1, 22a3).
CLASS_NVSWITCH = "0680"
# Drivers that pass a function through to a virtual machine.
VFIO_DRIVERS = ("vfio-pci", "mlx5_vfio_pci", "nvgrace_gpu_vfio_pci")

_FAMILIES: dict[str, str] = {
    "1013": "ConnectX-4",
    "1015": "ConnectX-4 Lx",
    "1017": "ConnectX-5",
    "1019": "ConnectX-5 Ex",
    "101b": "ConnectX-6",
    "101d": "ConnectX-6 Dx",
    "101f": "ConnectX-6 Lx",
    "1021": "ConnectX-7",
    "1023": "ConnectX-8",
    "1025": "ConnectX-9",
    "a2d2": "BlueField",
    "a2d6": "BlueField-2",
    "a2d9": "BlueField-3 Lx",
    "a2dc": "BlueField-3",
    "a2df": "BlueField-4",
}
_FAMILIES_OF_OWN_VFS: dict[str, str] = {
    "1014": "ConnectX-4",
    "1016": "ConnectX-4 Lx",
    "1018": "ConnectX-5",
    "101a": "ConnectX-5 Ex",
    "101c": "ConnectX-6",
    "a2d3": "BlueField",
}
# All families since ConnectX-6 Dx give their VFs this id, so it does not identify the family.
SHARED_VF = "101e"
# The first number of a firmware version is the generation; 12 to 40 as released so far.
_FIRMWARE_GENERATIONS: dict[str, str] = {
    "12": "ConnectX-4",
    "14": "ConnectX-4 Lx",
    "16": "ConnectX-5",
    "18": "BlueField",
    "20": "ConnectX-6",
    "22": "ConnectX-6 Dx",
    "24": "BlueField-2",
    "26": "ConnectX-6 Lx",
    "28": "ConnectX-7",
    "32": "BlueField-3",
    "40": "ConnectX-8",
}
_GPUS: dict[str, str] = {
    "1db5": "V100 SXM2 32GB",
    "1eb8": "T4",
    "20b0": "A100 SXM4 40GB",
    "20b1": "A100 PCIe 40GB",
    "20b2": "A100 SXM4 80GB",
    "20b5": "A100 PCIe 80GB",
    "20b7": "A30",
    "20f1": "A100 PCIe 40GB",
    "20f3": "A800 SXM4 80GB",
    "2235": "A40",
    "2236": "A10",
    "2321": "H100 NVL",
    "2329": "H20",
    "2330": "H100 SXM5 80GB",
    "2331": "H100 PCIe",
    "2335": "H200 SXM 141GB",
    "2338": "H100 SXM5 96GB",
    "2339": "H100 SXM5 94GB",
    "233b": "H200 NVL",
    "2342": "GH200",
    "2348": "GH200 144GB",
    "26b5": "L40",
    "26b9": "L40S",
    "27b8": "L4",
    "29bc": "B100",
    "2901": "B200",
    "2909": "B200 HGX",
    "2920": "B200 HGX",
    "2941": "GB200",
    "31c2": "GB300",
    "31c3": "GB300",
    "2bb5": "RTX PRO 6000 Blackwell Server Edition",
    "2e12": "GB10",
}
# Their memory is connected to the processor by NVLink-C2C: NCCL on GH200 and GB200 (NVIDIA/nccl issue 1579), its
# topology of a GB300 (attribute c2c). GB10 has this link as well, but no GPUDirect RDMA (gdr 0 in NVIDIA/nccl pull
# request 2202), so it is not listed.
_ON_C2C = frozenset({"2342", "2348", "2941", "31c2", "31c3"})
# On a DGX Spark, devices can't read memory from cudaMalloc: neither nvidia-peermem nor DMA-BUF works (NVIDIA,
# forums.developer.nvidia.com/t/dgx-spark-gpudirect-rdma/348787).
_WITHOUT_GPUDIRECT = frozenset({"2e12"})
# Trays of a rack (NVL72), whose NVSwitches are in separate trays.
_OF_A_RACK = frozenset({"2941", "31c2", "31c3"})
# B100, B200 and B300 are on baseboards with NVSwitches that are not PCI devices: ports of ConnectX-7 manage them
# (siderolabs/extensions pull request 717; bottlerocket-os/bottlerocket-kernel-kit pull request 142).
_ON_HIDDEN_SWITCHES = frozenset({"29bc", "2901", "2909", "2920", "3182"})


class PciId(NamedTuple):
    """Ids of a PCI function, lower-case hex without 0x; ``subsystem`` is ``vendor:device`` (empty when unknown)."""

    vendor: str
    device: str
    subsystem: str
    pci_class: str

    @property
    def is_network(self) -> bool:
        """Return whether the base class is network controller."""
        return self.pci_class.startswith("02")

    @property
    def is_gpu(self) -> bool:
        """Return whether this is an NVIDIA display or 3D controller."""
        return self.vendor == NVIDIA and self.pci_class[:4] in GPU_CLASSES

    @property
    def is_nvswitch(self) -> bool:
        """Return whether this is an NVSwitch that is a PCI device."""
        return self.vendor == NVIDIA and self.pci_class[:4] == CLASS_NVSWITCH

    @property
    def is_vf_by_id(self) -> bool:
        """Return whether the id is one of VFs; a guest has no physfn link that would show it."""
        return self.vendor == MELLANOX and (self.device == SHARED_VF or self.device in _FAMILIES_OF_OWN_VFS)


def nic_family(pci_id: PciId, parent: PciId | None, firmware: str | None) -> str | None:
    """Return the family: by the PF's id, else by the own id, else by the firmware's major version."""
    if pci_id.vendor != MELLANOX:
        return None
    if parent is not None and parent.device in _FAMILIES:
        return _FAMILIES[parent.device]
    own = _FAMILIES.get(pci_id.device) or _FAMILIES_OF_OWN_VFS.get(pci_id.device)
    if own is None and firmware:
        return _FIRMWARE_GENERATIONS.get(firmware.split(".")[0])
    return own


def gpu_name(device: str) -> str | None:
    """Return the marketing name for an NVIDIA GPU's device id, None if it is not in the table."""
    return _GPUS.get(device)


def is_on_c2c(vendor: str, device: str) -> bool:
    """Return whether a device is a GPU that NVLink-C2C, not PCIe, connects to its processor (Grace)."""
    return vendor == NVIDIA and device in _ON_C2C


def has_gpudirect(device: str) -> bool:
    """Return whether NICs can access the memory of an NVIDIA GPU, given the right modules."""
    return device not in _WITHOUT_GPUDIRECT


def is_of_a_rack(vendor: str, device: str) -> bool:
    """Return whether a GPU is part of a rack whose NVSwitches are outside the host."""
    return vendor == NVIDIA and device in _OF_A_RACK


def has_hidden_switches(vendor: str, device: str) -> bool:
    """Return whether a GPU is on a baseboard with NVSwitches that are not PCI devices."""
    return vendor == NVIDIA and device in _ON_HIDDEN_SWITCHES
