# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done about a host's driver: the wish against its state, part by part. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.request import Wish
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.snapshot import parse_snapshot
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.status import (
    UNREAD,
    disk_flavour,
    installed_flavour,
    installed_release,
    runs_what_is_installed,
    vendor_builds,
    vendor_packages,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver_shapes import DriverState, Snapshot
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import NETDEV_DRIVER, HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_families import (
    DKMS,
    INBOX,
    VENDOR_FLAVOURS,
    Family,
    family_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_version import (
    DriverVersion,
    parse_driver_version,
    parse_installed,
)

UPGRADE_CONSENT = "driver_upgrade"


class Case(NamedTuple):
    """One host's driver as it is planned and changed: the wish, the facts, the state, the distribution's packages."""

    context: Context
    wish: Wish
    state: DriverState
    family: Family | None

    @property
    def actual(self) -> HostState:
        """Return the host."""
        return self.context.actual


def case_of(context: Context, wish: Wish) -> Case:
    """Return the case of a host; one that was not asked about its driver has an empty state."""
    facts = context.actual.facts
    return Case(context, wish, facts.get("driver") or UNREAD, family_of(facts["system"]["os"]))


def loaded_release(actual: HostState) -> DriverVersion | None:
    """Return the release of the loaded vendor driver; the inbox driver has the kernel's version, not a release."""
    if actual.stack["flavour"] not in VENDOR_FLAVOURS:
        return None
    return parse_driver_version(actual.stack["version"] or "")


def drives_nics(actual: HostState) -> bool:
    """Return whether a driver of NVIDIA's NICs is loaded; the RDMA core alone serves others."""
    return actual.is_loaded(NETDEV_DRIVER)


def runs_wanted(case: Case) -> bool:
    """Return whether the loaded driver is the wanted one, as far as flavour and release tell."""
    flavour, wish = case.actual.stack["flavour"], case.wish
    if not wish.is_vendor:
        return flavour not in VENDOR_FLAVOURS and (wish.returns or drives_nics(case.actual))
    if not drives_nics(case.actual):
        return False
    if wish.version is None:
        return bool(flavour == wish.flavour)
    loaded = loaded_release(case.actual)
    return loaded is not None and loaded.fields == wish.version.fields


def needs_packages(case: Case) -> bool:
    """Return whether packages are to be installed, replaced or removed."""
    wish, state, stack = case.wish, case.state, case.actual.stack
    if not wish.is_vendor:
        if state["packages"] is None:
            return stack["flavour"] in VENDOR_FLAVOURS
        return bool(vendor_packages(state) or vendor_builds(state) or state["built"])
    if state["packages"] is None and runs_wanted(case):
        return False
    if wish.version is None:
        return installed_flavour(state, stack) != wish.flavour
    release = installed_release(state, stack)
    if state["packages"] is None:
        release = parse_installed(stack["installed"] or "")
    return release is None or release.fields != wish.version.fields


def waits_for_consent(case: Case) -> bool:
    """Return whether another release of a vendor's driver would be replaced, which the policy leaves to a person."""
    is_upgrade = needs_packages(case) and installed_flavour(case.state, case.actual.stack) in VENDOR_FLAVOURS
    return case.wish.waits and is_upgrade and not case.context.consents_to(UPGRADE_CONSENT)


def kernels_to_build(case: Case) -> list[str]:
    """Return the kernels, running and next to boot, for which the installed driver is not built and could be."""
    wish, state = case.wish, case.state
    if not wish.is_vendor or wish.settings["build"] != DKMS or needs_packages(case):
        return []
    built = {build["kernel"] for build in state["built"]}
    missing = [kernel for kernel, headers in sorted(state["headers"].items()) if headers and kernel not in built]
    # Without any build of DKMS the driver came as a precompiled one.
    return missing if built or disk_flavour(state) == INBOX else []


def needs_initrd(case: Case) -> bool:
    """Return whether the initial RAM disk holds, or will hold, another driver than the disk."""
    stale = case.state["initrd"] is not None and case.state["initrd"]["stale"]
    return case.family is not None and bool(stale or needs_packages(case) or kernels_to_build(case))


def needs_load(case: Case) -> bool:
    """Return whether the driver that will be on the disk is not the one that runs."""
    if not runs_wanted(case) or runs_what_is_installed(case.state) is False:
        return True
    return bool(kernels_to_build(case) and disk_flavour(case.state) == INBOX)


def replaces_what_runs(case: Case) -> bool:
    """Return whether something has to be unloaded first: a driver of NICs, or modules of another RDMA stack."""
    if drives_nics(case.actual):
        return True
    other = runs_what_is_installed(case.state) is False
    return bool(case.state["loaded"]) and (case.wish.is_vendor or other)


def interrupted_reload(case: Case) -> Snapshot | None:
    """Return what a reload that never ended had taken away."""
    return parse_snapshot(case.state["journal"]) if case.state["journal"] else None
