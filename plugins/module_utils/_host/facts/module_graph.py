# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel modules of an RDMA stack and the modules that use it.

Sources: NVIDIA's driver container (storage, third-party RDMA, auxiliary drivers) and openibd.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, NamedTuple

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


class Client(NamedTuple):
    """Modules that stand on the stack: a module that was built for one ib_core does not load on another.

    ``package`` is the vendor's without the suffix of a build; where it is empty, whoever built the modules builds them
    again. ``mounts`` has the kinds of mounts that remote_storage.py finds, and the module that each needs.
    docs/guide-drivers.md has the sources.
    """

    modules: tuple[str, ...]
    title: str
    package: str = ""
    mounts: Mapping[str, str] = MappingProxyType({})


CLIENTS = (
    # Disks of this host too, where nvme_core itself is the vendor's.
    Client(("nvme_rdma", "nvmet_rdma"), "NVMe over RDMA", "mlnx-nvme", {"NVMe/RDMA": "nvme_rdma", "nvme": "nvme_core"}),
    Client(("rpcrdma", "xprtrdma", "svcrdma"), "NFS over RDMA", "mlnx-nfsrdma", {"NFS over RDMA": "rpcrdma"}),
    Client(("ib_iser",), "iSCSI over RDMA (iSER)", "iser", {"iSER": "ib_iser"}),
    Client(("ib_isert",), "the target of iSCSI over RDMA (iSER)", "isert"),
    Client(("ib_srp", "ib_srpt"), "SCSI over RDMA (SRP)", "srp", {"ib_srp": "ib_srp"}),
    Client(("ko2iblnd",), "Lustre", mounts={"lustre": "ko2iblnd"}),
    Client(("mmfs26",), "IBM Storage Scale", mounts={"gpfs": "mmfs26"}),
    Client(("beegfs",), "BeeGFS", mounts={"beegfs": "beegfs"}),
    Client(("wekafsio",), "WekaFS", mounts={"wekafs": "wekafsio"}),
    Client(("drbd_transport_rdma",), "DRBD over RDMA", mounts={"drbd": "drbd_transport_rdma"}),
    Client(("ksmbd",), "the SMB server"),
    Client(("cifs",), "SMB", mounts={"cifs": "cifs", "smb3": "cifs"}),
    Client(("rds_rdma",), "RDS"),
    Client(("smc",), "SMC-R"),
)
# The kernel has them too, so they may be unloaded and loaded again.
STORAGE = tuple(name for client in CLIENTS if client.package for name in client.modules)
MODULES_OF_MOUNTS = {kind: name for client in CLIENTS for kind, name in client.mounts.items()}
CLIENT_MODULES = tuple(name for client in CLIENTS for name in client.modules)
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
