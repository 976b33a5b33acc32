# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of nodes by which pods of the fabric come to them, as Node Feature Discovery and this collection set them.

That of the NIC follows the rule which the Network Operator installs, that of the GPU the default of NFD's PCI source.
"""

from __future__ import annotations

FEATURES = "feature.node.kubernetes.io/"
"""Prefix of all labels of Node Feature Discovery."""
NIC_PCI, GPU_PCI = "pci-15b3.present", "pci-10de.present"
NIC_LABEL, GPU_LABEL = f"{FEATURES}{NIC_PCI}", f"{FEATURES}{GPU_PCI}"
SRIOV_LABEL = f"{FEATURES}network-sriov.capable"
"""What policies of the SR-IOV operator usually select nodes by; of NFD's network source."""
DEVICE_LABELS = (NIC_LABEL, GPU_LABEL)
"""Labels that say of a node that it has a NIC, or a GPU, of the vendor."""
