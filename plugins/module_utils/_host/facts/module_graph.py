# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel modules of an RDMA stack and the modules that use it.

Sources: NVIDIA's driver container (storage, third-party RDMA, auxiliary drivers) and openibd.
"""

from __future__ import annotations

# The modules that a vendor stack replaces, in the order of unloading: users before the modules they use.
REPLACED = (
    "rdma_ucm",
    "ib_ipoib",
    "ib_umad",
    "mlx5_vdpa",
    "mlx5_fwctl",
    "mlx5_dpll",
    "mlx5_ib",
    "ib_uverbs",
    "ib_uverbs_support",
    "rdma_cm",
    "iw_cm",
    "ib_cm",
    "ib_core",
    "mlx5_core",
    "mlxdevm",
    "mlxfw",
    "mlx_compat",
)
# Modules to load after a reload if they were loaded before, in order; the others are their dependencies.
LOADED_AGAIN = (
    "mlx5_core",
    "mlx5_ib",
    "ib_umad",
    "ib_ipoib",
    "rdma_ucm",
    "mlx5_vdpa",
    "mlx5_fwctl",
    "mlx5_dpll",
)
AUXILIARY = ("mlx5_vdpa", "mlx5_fwctl", "mlx5_dpll")
# Required for the network, so they are always loaded.
ALWAYS_LOADED = ("mlx5_core", "mlx5_ib")
# The modules whose identity shows whether the installed stack is running, as NVIDIA's driver container compares it.
IDENTITY = ("mlx5_core", "mlx5_ib", "ib_core")
STORAGE = ("ib_iser", "ib_isert", "ib_srp", "ib_srpt", "nvme_rdma", "nvmet_rdma", "rpcrdma", "xprtrdma", "svcrdma")
# File systems and transports that use ib_core or rdma_cm, like storage does.
STORAGE_CLIENTS = ("ko2iblnd", "mmfs26", "beegfs", "wekafsio", "rds_rdma", "smc")
THIRD_PARTY = (
    "bnxt_re",
    "efa",
    "erdma",
    "hfi1",
    "hns_roce",
    "i40iw",
    "ib_qib",
    "ionic_rdma",
    "irdma",
    "iw_cxgb4",
    "mana_ib",
    "ocrdma",
    "qedr",
    "rdma_rxe",
    "siw",
    "vmw_pvrdma",
)
# They use ib_core or ib_uverbs; they are unloaded just before a reload and loaded again after it.
PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
