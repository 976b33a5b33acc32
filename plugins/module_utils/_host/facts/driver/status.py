# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the driver that is installed, on disk, loaded, and at the next boot. Pure."""

from __future__ import annotations

import re
from typing import Mapping

from ...spec.driver_families import DOCA_OFED, INBOX, MLNX_OFED, is_vendor_build, is_vendor_package
from ...spec.driver_version import (
    FIRST_DOCA,
    FIRST_DOCA_ONLY,
    DriverVersion,
    parse_driver_version,
    parse_installed,
    parse_packaged,
)
from .. import module_graph, openib
from ..driver_shapes import DriverState, Identity, Loaded, OnDisk
from ..host_state import NETDEV_DRIVER, HostState
from ..shapes import Stack
from . import blockers

# The state of a host whose driver was not read, such as a recorded one: everything is unknown.
UNREAD: DriverState = {
    "kernel": "",
    "next_kernel": "",
    "family": None,
    "packages": None,
    "database_fails": False,
    "unfinished": {},
    "dpkg_interrupted": False,
    "on_disk": None,
    "next_on_disk": None,
    "loaded": {},
    "mounts": {},
    "built": [],
    "headers": {},
    "headers_offered": {},
    "initrds": {},
    "users": [],
    "locks": [],
    "container": {"ready": False, "lock": False, "blacklist": False},
    "key": None,
    "free_mib": {},
    "openibd": False,
    "openib": openib.UNREAD,
    "archive": None,
    "journal": None,
    "snapshot": None,
    "stacked": [],
}
_KERNEL_PACKAGES = re.compile(r"mlnx-ofed-kernel-(?:dkms|modules).*|(?:kmod-)?mlnx-ofa_kernel(?:-dkms|-kmp-default)?")
# The package with ofed_info.
_INFO_PACKAGE = "ofed-scripts"
# modprobe searches the kernel's own directory last; a module anywhere else replaces it.
_KERNELS_OWN = re.compile(r"(?:/[^/]+)*/lib/modules/[^/]+/kernel/")


def same_build(loaded: Loaded | Identity | None, on_disk: OnDisk | None) -> bool | None:
    """Return whether a loaded module is the one that modprobe would load; None if unknown.

    Build ids decide, then srcversions. Equal versions prove nothing, different ones do; two missing values never count
    as equal: some distributions' kernels have no srcversion at all.
    """
    if loaded is None or on_disk is None:
        return None
    pairs = [(loaded.get("build_id"), on_disk["build_id"]), (loaded.get("srcversion"), on_disk["srcversion"])]
    for running, installed in pairs:
        if running and installed:
            return running == installed
    running, installed = loaded.get("version"), on_disk["version"]
    return False if running and installed and running != installed else None


def runs_what_is_installed(state: DriverState) -> bool | None:
    """Return whether all modules that identify the stack run as they are on disk; None if unknown."""
    on_disk = state["on_disk"] or {}
    known = [name for name in module_graph.IDENTITY if name in state["loaded"] and name in on_disk]
    answers = [same_build(state["loaded"][name], on_disk[name]) for name in known]
    if False in answers:
        return False
    return True if answers and None not in answers else None


def disk_flavour(on_disk: Mapping[str, OnDisk] | None) -> str | None:
    """Return whether the driver on disk is the kernel's own (``inbox``) or a vendor's (``vendor``); None if unknown."""
    core = (on_disk or {}).get(NETDEV_DRIVER)
    if core is None:
        return None
    return INBOX if is_inbox_path(core["path"]) else "vendor"


def is_inbox_path(path: str) -> bool:
    """Return whether the file of a module is the kernel's own, or the module is built in."""
    return path == "(builtin)" or _KERNELS_OWN.match(path) is not None


def present_packages(state: DriverState) -> dict[str, str]:
    """Return the packages of the stack with their versions, including half-installed ones."""
    return {**(state["packages"] or {}), **state["unfinished"]}


def vendor_packages(state: DriverState) -> list[str]:
    """Return the present packages that only the vendor has; they are removed for the inbox driver."""
    return sorted(name for name, version in present_packages(state).items() if is_vendor_package(name, version))


def vendor_builds(state: DriverState) -> list[str]:
    """Return the packages that the distribution has too, but the vendor built; they are replaced, not removed."""
    return sorted(
        name
        for name, version in present_packages(state).items()
        if not is_vendor_package(name, version) and is_vendor_build(version)
    )


def builds_to_replace(state: DriverState) -> list[str]:
    """Return the packages that a return to the inbox driver replaces by the distribution's.

    These are the vendor's builds, and half-installed packages of the distribution.
    """
    half = {name for name, version in state["unfinished"].items() if not is_vendor_package(name, version)}
    return sorted({*vendor_builds(state), *half})


def installed_release(state: DriverState, stack: Stack) -> DriverVersion | None:
    """Return the release that is installed, from the kernel package, the module on disk, or ``ofed_info``."""
    for name, version in sorted(present_packages(state).items()):
        if _KERNEL_PACKAGES.fullmatch(name):
            found = parse_packaged(version)
            if found is not None:
                return found
    if disk_flavour(state["on_disk"]) == "vendor":
        found = parse_driver_version((state["on_disk"] or {})[NETDEV_DRIVER]["version"] or "")
        if found is not None:
            return found
    if state["packages"] is not None and not vendor_packages(state):
        return None
    return parse_installed(stack["installed"] or "")


def installed_flavour(state: DriverState, stack: Stack) -> str | None:
    """Return the flavour that is installed, ``inbox`` without vendor packages; None if unknown.

    Packages without ``ofed_info`` were not installed by the installer of MLNX_OFED, which always includes it.
    """
    if state["packages"] is None:
        installed = stack["installed"] or ""
        return None if not installed else DOCA_OFED if installed.startswith("OFED-internal") else MLNX_OFED
    if not vendor_packages(state):
        return INBOX
    release = installed_release(state, stack)
    present = present_packages(state)
    if any(name.startswith("doca-") for name in present):
        return DOCA_OFED
    first = FIRST_DOCA_ONLY if _INFO_PACKAGE in present or stack["installed"] else FIRST_DOCA
    newer = release is not None and release.fields[:2] >= first
    if newer or (stack["installed"] or "").startswith("OFED-internal"):
        return DOCA_OFED
    return DOCA_OFED if stack["flavour"] == DOCA_OFED else MLNX_OFED


def container_owns(state: DriverState) -> bool:
    """Return whether NVIDIA's driver container owns the modules: it is ready, or in the middle of a swap."""
    container = state["container"]
    return container["ready"] or (container["lock"] and container["blacklist"])


def stale_blacklist(state: DriverState) -> bool:
    """Return whether a driver container left its blacklist behind: after the next boot there would be no NIC driver."""
    return state["container"]["blacklist"] and not container_owns(state)


def stack_blockers(actual: HostState, state: DriverState, unload_storage: bool = False) -> list[blockers.Blocker]:
    """Return everything that prevents a reload of the stack, including the uplink."""
    nics = [nic for nic in actual.nvidia_nics() if nic["driver"] == NETDEV_DRIVER or nic["function"] == "vf"]
    found = blockers.module_blockers(state["loaded"], unload_storage, state["mounts"])
    found += blockers.user_blockers(state["loaded"], state["users"])
    found += blockers.function_blockers(nics, actual.netdevs, state["loaded"], actual.facts["eswitch"])
    found += blockers.stacked_blockers(state["stacked"])
    if state["openib"]["may_stop"] is False:
        found.append(blockers.Blocker(blockers.SETTING, openib.FILE, f"{openib.FILE} forbids it (ALLOW_STOP)"))
    names = [port["name"] for nic in nics for port in actual.ports_of(nic)]
    names += [entry["name"] for entry in state["stacked"] if entry["kind"] == blockers.VLAN]
    for name in names:
        reason = actual.uplink_of(name)
        if reason:
            found.append(blockers.Blocker(blockers.UPLINK, name, f"{name} carries the uplink ({reason})"))
    return found


def summarize(actual: HostState, state: DriverState) -> dict[str, object]:
    """Return a summary of the state: installed, on disk, running, next boot, owner, and what blocks a reload."""
    stack = actual.stack
    release = installed_release(state, stack)
    return {
        "running": {"flavour": stack["flavour"], "version": stack["version"]},
        "installed": {"flavour": installed_flavour(state, stack), "version": release.release if release else None},
        "on_disk": disk_flavour(state["on_disk"]),
        "runs_what_is_installed": runs_what_is_installed(state),
        "initial_ram_disk_is_stale": _is_stale(state, state["kernel"]),
        "next_boot": {
            "kernel": state["next_kernel"],
            "on_disk": disk_flavour(state["next_on_disk"]),
            "initial_ram_disk_is_stale": _is_stale(state, state["next_kernel"]),
        },
        "owner": "driver container" if container_owns(state) else "host",
        "stale_blacklist": stale_blacklist(state),
        "supported": state["family"] is not None,
        "reload_blockers": [blocker.as_dict() for blocker in stack_blockers(actual, state)],
    }


def _is_stale(state: DriverState, kernel: str) -> bool | None:
    initrd = state["initrds"].get(kernel)
    return initrd["stale"] if initrd is not None else None
