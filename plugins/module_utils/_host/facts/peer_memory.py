# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what decides how GPUs give NICs access to their memory."""

from __future__ import annotations

from ..machine.probe import Probe, files_by_name, printable
from .driver.read import read_on_disk
from .driver_shapes import PeerState, Symbols, SymbolTables
from .gpus import OPERATOR_FILES
from .shapes import System

# The first is exported by an RDMA stack with peer-memory clients (MLNX_OFED, DOCA-OFED, some vendors' kernels): up
# to MLNX_OFED 23.10 by its ib_core (lsmod in NVIDIA/nccl, issue 1537), later by its ib_uverbs (24.07: Makefile of
# drivers/infiniband/core in wjz304/mlnx-ofed-kernel; lsmod in openshift/openshift-docs, modules/rdma-configuring-the-
# gpu-operator.adoc). The second is exported by an ib_uverbs that registers DMA-BUF regions (kernel 5.12; distributions
# have it in older kernels as well).
PEER_SYMBOL = "ib_register_peer_memory_client"
DMA_BUF_SYMBOL = "ib_umem_dmabuf_get"
CLIENTS = "/sys/kernel/mm/memory_peers"
MODULES = ("nvidia", "nvidia_peermem", "nv_peer_mem")
_LOAD_DIRECTORIES = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
)


def read_peer_memory(probe: Probe, system: System) -> PeerState:
    """Return symbols, modules, clients, owners and persistence of peer memory; what is not told is None.

    ``symbols`` are told twice: of the code that runs, and of the modules on the disk that a reload would bring.
    ``exporter`` is the module that takes clients, by what is on the disk (modules.symbols, written by depmod(8)), or by
    what runs.
    """
    kernel = system["kernel"]
    tables = {"running": "/proc/kallsyms", "on_disk": f"/lib/modules/{kernel}/modules.symbols"}
    symbols: SymbolTables = {
        "running": _symbols(probe, tables["running"]),
        "on_disk": _symbols(probe, tables["on_disk"]),
    }
    told = [tables["on_disk"]] if symbols["on_disk"]["peer_memory"] else []
    told += [tables["running"]] if symbols["running"]["peer_memory"] else []
    return {
        "symbols": symbols,
        "exporter": next(filter(None, (_exporter(probe, table) for table in told)), None),
        "modules": read_on_disk(probe, kernel, MODULES, identify=False),
        "clients": [printable(name, 64) for name in probe.names(CLIENTS)],
        "operator": [path for path in OPERATOR_FILES if probe.host.exists(path)],
        "loaded_at_boot": _loaded_at_boot(probe),
    }


def _symbols(probe: Probe, path: str) -> Symbols:
    """Tell which symbols a table has; it has megabytes, so a program looks for them. Without root none is told."""
    result = None
    if probe.host.exists(path):
        result = probe.command("grep", "-o", "-w", "-e", PEER_SYMBOL, "-e", DMA_BUF_SYMBOL, path)
    if result is None or result.rc not in {0, 1}:
        return {"peer_memory": None, "dma_buf": None}
    found = set(result.stdout.split())
    return {"peer_memory": PEER_SYMBOL in found, "dma_buf": DMA_BUF_SYMBOL in found}


def _exporter(probe: Probe, path: str) -> str | None:
    """Return the module that a table tells to export the symbol.

    A line of modules.symbols is ``alias symbol:ib_register_peer_memory_client ib_uverbs``, one of /proc/kallsyms ends
    with ``ib_register_peer_memory_client	[ib_uverbs]``.
    """
    words = probe.output("grep", "-m", "1", "-w", PEER_SYMBOL, path).split()
    return printable(words[-1].strip("[]"), 64) if len(words) > 2 else None


def _loaded_at_boot(probe: Probe) -> dict[str, list[str]]:
    """Return the files of modules-load.d(5) that name a peer-memory module; one of /etc hides its namesakes."""
    found: dict[str, list[str]] = {}
    for path in files_by_name(probe, _LOAD_DIRECTORIES, ".conf"):
        for line in (probe.content(path) or "").splitlines():
            module = line.strip().replace("-", "_")
            if module in MODULES[1:]:
                found.setdefault(module, []).append(path)
    return found
