# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``ofedDriver`` asks of hosts, and what of it means nothing there.

Source of the variables: the configuration of the driver container's entrypoint (``internal/config`` of
doca-driver-build).
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import shown

from ..checks.driver_container import CONTAINER, SAFE_LOAD, TOOLKIT, is_digest, ready_seconds
from ..common.findings import Place
from ..common.images import effective_image
from ..common.names import driver_version

COMPONENT = "doca-driver"
UNLOAD_STORAGE = "UNLOAD_STORAGE_MODULES"

_TRUE = ("1", "t", "T", "true", "True", "TRUE")
_FALSE = ("", "0", "f", "F", "false", "False", "FALSE")
"""What the entrypoint reads as a boolean (Go's ``strconv.ParseBool``); it does not start with anything else."""

_PACKAGES = "the host's package manager has a proxy setting of its own"
_HINTS = {
    "CREATE_IFNAMES_UDEV": "names are kept by rdma_fabric_interfaces (name)",
    "ENABLE_NFSRDMA": "install the driver release's NFS over RDMA package on the hosts",
    "HTTPS_PROXY": _PACKAGES,
    "HTTP_PROXY": _PACKAGES,
    "NO_PROXY": _PACKAGES,
    "RESTORE_DRIVER_ON_POD_TERMINATION": "rdma_fabric_driver: {state: absent} returns to the inbox driver",
    "STORAGE_MODULES": "the modules that use the driver are found on each host",
    "UNLOAD_THIRD_PARTY_RDMA_MODULES": "unload them on the host, where a step says that they hold the driver",
}
_OTHER = "the driver is installed on the host; what its container reads does not reach it"
_VENDOR_REPOSITORIES = (
    "docker.io/mellanox",
    "ghcr.io/mellanox",
    "mellanox",
    "nvcr.io/nvidia/doca",
    "nvcr.io/nvidia/mellanox",
)


def driver_request(section: Mapping[str, Any], global_config: Mapping[str, Any], settings: Any) -> dict[str, Any]:
    """Return what hosts are asked for: the image, whose version names the release, and ``storage_modules`` if given.

    ``auto_upgrade`` is there where it is False: then the policy upgrades no driver by itself.
    """
    request: dict[str, Any] = effective_image(COMPONENT, dict(section), dict(global_config), settings)
    if holds_back(section):
        request["auto_upgrade"] = False
    for variable in section.get("env") or []:
        if variable.get("name") == UNLOAD_STORAGE and not variable.get("valueFrom"):
            request["storage_modules"] = "unload" if variable.get("value") in _TRUE else "stage"
    return request


def container_request(section: Mapping[str, Any], global_config: Mapping[str, Any], settings: Any) -> dict[str, Any]:
    """Return what hosts are told of a driver that a container brings: its image, and that no packages are wanted."""
    return {**effective_image(COMPONENT, dict(section), dict(global_config), settings), "source": CONTAINER}


def remark_container(section: Mapping[str, Any], global_config: Mapping[str, Any], place: Place, top: Place) -> None:
    """Say what of the section a run does not do by itself where the driver is a container."""
    _check_inherited(section, global_config, place)
    place.notice(
        f"each node may take {ready_seconds(section)} s until its driver's container is ready",
        "rdma_fabric_wait_timeout says how long a run waits; its default is 600 s",
    )
    if not section.get("forcePrecompiled") and not is_digest(str(section.get("version") or "")):
        hint = (
            "set precompiled: true for the group in rdma_fabric_driver_nodes, or forcePrecompiled: true, where the "
            "registry has an image for the kernel"
        )
        place.notice("compiles the driver on the nodes: the registry is not asked for a precompiled image", hint)
    for index, entry in enumerate(section.get("containerResources") or []):
        if entry.get("name") == TOOLKIT:
            hint = "it is there on OpenShift alone, where the image is not precompiled"
            place.at("containerResources", index).notice(
                "may have no effect: it is about the toolkit's container", hint
            )


def remark_driver(section: Mapping[str, Any], global_config: Mapping[str, Any], place: Place, top: Place) -> None:
    """Say which parts of the section mean nothing to hosts; ``top`` is the policy's spec."""
    _check_inherited(section, global_config, place)
    owner = place if section.get("repository") else top.at("global")
    repository = section.get("repository") or global_config.get("repository") or _VENDOR_REPOSITORIES[0]
    if repository.rstrip("/") not in _VENDOR_REPOSITORIES:
        hint = "name the packages' source on the hosts: rdma_fabric_driver (source, repository or archive)"
        owner.at("repository").notice("has no effect on the driver: hosts pull no image", hint)
    for index, variable in enumerate(section.get("env") or []):
        if variable.get("name"):
            _remark_variable(variable["name"], variable, place.at("env", index))


def _check_inherited(section: Mapping[str, Any], global_config: Mapping[str, Any], place: Place) -> None:
    inherited = not section.get("version") and global_config.get("version")
    if inherited and list(driver_version(inherited)):
        problem = f"has no version and takes {shown(inherited)} from global, which is not a driver release"
        place.violation(problem, "give ofedDriver a version such as doca3.4.1-26.04-1.1.0.0-1")


def _remark_variable(name: str, variable: Mapping[str, Any], place: Place) -> None:
    value = variable.get("value") or ""
    if variable.get("valueFrom"):
        place.notice(f"`{name}` has no effect here", "the host has no pod to read it from")
    elif name != UNLOAD_STORAGE:
        place.notice(f"`{name}` has no effect here", _HINTS.get(name.upper(), _OTHER))
    elif value not in (*_TRUE, *_FALSE):
        place.at("value").violation(f"is {shown(value)}, neither true nor false", "the driver's container refuses it")
    else:
        policy = "unload" if value in _TRUE else "stage"
        hint = "a host's own rdma_fabric_driver wins"
        place.notice(f"`{name}` is read as storage_modules: {policy} of the driver on each host", hint)


# What ``ofedDriver.upgradePolicy`` asks of those who interrupt nodes, with the defaults of the operator's CRD.
#
# Sources: ``DriverUpgradePolicySpec`` of ``api/v1alpha1`` for the defaults, and ``pkg/upgrade`` of
# NVIDIA/k8s-operator-libs for what the fields mean.
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
