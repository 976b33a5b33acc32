# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``ofedDriver.upgradePolicy`` asks of those who interrupt nodes, with the defaults of the operator's CRD.

Sources: ``DriverUpgradePolicySpec`` of ``api/v1alpha1`` for the defaults, and ``pkg/upgrade`` of
NVIDIA/k8s-operator-libs for what the fields mean.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..checks.driver_container import SAFE_LOAD
from ..common.findings import Place

_DRAIN_SECONDS = 300


def drains_of(section: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how many nodes at once, and the options of ``node_drain`` that a driver's section asks for; None without.

    ``parallel`` 0 is without limit. With ``safe_load`` no driver is loaded before its node is drained.
    """
    policy = section.get("upgradePolicy")
    if policy is None:
        return None
    drain, jobs = policy.get("drain") or {}, policy.get("waitForCompletion") or {}
    return {
        "parallel": policy.get("maxParallelUpgrades", 1),
        "safe_load": bool(policy.get("safeLoad")),
        "drain": {
            "state": "drained" if drain.get("enable", True) else "cordoned",
            "force": bool(drain.get("force")),
            "delete_empty_dir": bool(drain.get("deleteEmptyDir")),
            "pod_selector": drain.get("podSelector") or "",
            "timeout": drain.get("timeoutSeconds", _DRAIN_SECONDS),
            "wait_for": jobs.get("podSelector") or "",
            "wait_timeout": jobs.get("timeoutSeconds", 0),
        },
    }


def holds_back(section: Mapping[str, Any]) -> bool:
    """Return whether a driver's section has a policy that leaves it to a person when a driver is upgraded."""
    policy = section.get("upgradePolicy")
    return policy is not None and not policy.get("autoUpgrade")


def remark_upgrades(section: Mapping[str, Any], place: Place, *, container: bool) -> None:
    """Say when the upgrade policy of a driver's section counts, and what of it does not.

    ``container``: the driver is a container, whose pods no run of this collection replaces.
    """
    policy = section.get("upgradePolicy")
    if policy is None:
        return
    hint = (
        "rdma.fabric.upgrade does, and rdma.fabric.site with rdma_fabric_drain: true, unless an rdma_fabric_drain_* "
        "variable, rdma_fabric_max_unavailable or rdma_fabric_reboot_parallel says otherwise"
    )
    place.notice("applies when a run drains nodes", hint)
    if container:
        hint = "delete them one by one, each on a drained node: docs/guide-drivers.md has a play for it"
        asking = place.at("autoUpgrade") if policy.get("autoUpgrade") else place
        asking.notice("replaces no pod of the driver: a changed one waits until the old pod is deleted", hint)
        if policy.get("safeLoad") and policy.get("autoUpgrade"):
            problem = "has each driver wait, at every start of its pod, until an annotation is removed from the node"
            hint = f"drain the node, then: kubectl annotate node NODE {SAFE_LOAD}-"
            place.at("safeLoad").notice(problem, hint)
        return
    if policy.get("autoUpgrade"):
        hint = "nodes are upgraded when you start rdma.fabric.upgrade; without it the driver that a host has stays"
        place.at("autoUpgrade").notice("lets a run upgrade drivers, and starts no run", hint)
    if policy.get("safeLoad"):
        hint = "rdma_fabric_drain: false leaves their pods alone; at boot a host has its driver before its pods start"
        problem = "has rdma.fabric.site drain nodes, too, before it reloads or reboots their hosts"
        place.at("safeLoad").notice(problem, hint)
