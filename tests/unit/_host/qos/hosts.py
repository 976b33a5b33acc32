# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with one card, to be changed in memory: on the kernel's own driver, or on the vendor's."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._host.families import (
    ETHERNET,
    FAMILIES,
    HCAS,
    NETDEVS,
    PF,
    Family,
    host_with,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel import qos
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PORT, DEVICE = NETDEVS[ETHERNET], HCAS[ETHERNET]
CONNECTX7 = next(family for family in FAMILIES if family.name == "ConnectX-7")
INBOX, VENDOR, OLD_VENDOR = "inbox", "vendor", "old vendor"
TREES = (INBOX, VENDOR, OLD_VENDOR)
CONCERNS = ("qos",)
APPLY = Run(check=False, diff=True, mode="apply", recorded=False, concerns=CONCERNS)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False, concerns=CONCERNS)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent", concerns=CONCERNS)
# What lossless RoCE needs of a port in every tree, with the values that are usual.
LOSSLESS: dict[str, Any] = {
    "dcbx": "os",
    "trust": "dscp",
    "dscp_priority": {26: 3, 46: 6},
    "cable_length": 20,
    "ets": {0: 40, 3: 60, 6: "strict"},
    "pfc": [3],
    "tos": 106,
}
OF_VENDOR: dict[str, Any] = {
    "ecn": {3: True},
    "cnp_dscp": 48,
    "cnp_priority": 6,
    "traffic_class": 106,
}


def host(tree: str = INBOX, *, family: Family = CONNECTX7, **dcb: Any) -> Kernel:
    """A host on one of the trees; ``dcb`` are other values that its port has from the start."""
    kernel = Kernel(host_with(family).document())
    qos.add_dcb(kernel, PORT, **dcb)
    if tree != INBOX:
        qos.add_vendor_files(kernel, PORT, DEVICE, old=tree == OLD_VENDOR)
    kernel.tree.add_file(f"/sys/class/net/{PORT}/carrier", "1\n")
    kernel.tree.add_file("/usr/bin/mlnx_qos", "")
    return kernel


def wish(settings: Any, **variables: Any) -> HostSpec:
    """What a user asks for of the port, checked as a user's variables are."""
    entry = {"pci": PF} if settings is None else {"pci": PF, "qos": settings}
    desired, violations, _notices = parse_host_variables("gpu01", {"rdma_fabric_interfaces": [entry], **variables})
    assert violations == [], [violation.sentence() for violation in violations]
    return desired


def applied(kernel: Kernel, settings: Any, run: Run = APPLY, **variables: Any) -> Mapping[str, Any]:
    return apply(kernel, wish(settings, **variables), run, None, kernel)


def previewed(kernel: Kernel, settings: Any, **variables: Any) -> Mapping[str, Any]:
    return preview(kernel, wish(settings, **variables), CHECK, None)


def refusals(outcome: Mapping[str, Any]) -> dict[str, str]:
    """Why settings are refused, by their names."""
    steps = outcome["plan"]["steps"]
    return {step["id"].split(":")[1]: step["detail"] for step in steps if step["status"] == "refused"}


def state_of(kernel: Kernel) -> dict[str, Any]:
    """What the port and the device are set to, whichever tree tells it."""

    def file(path: str) -> str | None:
        return kernel.read(path).strip() if kernel.exists(path) else None

    base, dcb = f"/sys/class/net/{PORT}", qos.state_of(kernel, PORT)
    table = file(f"{base}/qos/dscp2prio")
    lines = (line.split("\t") for line in (table or "").splitlines()[1:])
    by_file = {dscp: int(priority) for dscp, priority in lines}
    pfc = file(f"{base}/qos/pfc")
    return {
        "dcbx": "os" if "host" in dcb["dcbx"] else "firmware",
        "trust": file(f"{base}/qos/trust") or ("dscp" if dcb["app"] else "pcp"),
        "table": by_file or dcb["app"],
        "cable": int(file(f"{base}/qos/cable_len") or dcb["delay"]),
        "ets": dcb["ets"]["tc_tsa"],
        "pfc": dcb["pfc"] if pfc is None else [n for n, bit in enumerate(pfc.split(",")) if bit == "1"],
        "pause": dcb["pause"],
        "ecn": [
            f"{point}{priority}"
            for point in ("rp", "np")
            for priority in range(8)
            if file(f"{base}/ecn/roce_{point}/enable/{priority}") == "1"
        ],
        "cnp": (file(f"{base}/ecn/roce_np/cnp_dscp"), file(f"{base}/ecn/roce_np/cnp_802p_prio")),
        "traffic_class": file(f"/sys/class/infiniband/{DEVICE}/tc/1/traffic_class"),
        "tos": file(f"{qos.RDMA_CM}/{DEVICE}/ports/1/default_roce_tos"),
    }
