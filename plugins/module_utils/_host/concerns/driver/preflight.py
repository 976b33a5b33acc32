# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks for everything that prevents a change of the driver before anything is changed, and what is lost. Pure.

The kernel's own storage modules depend on the kernel's own ``ib_core`` (NVIDIA Network Operator 25.10, driver
container), so the vendor has packages of its own for them, on which none of its driver's depends.
"""

from __future__ import annotations

from typing import NamedTuple

from ...facts.driver.read import CONTAINER_READY
from ...facts.driver.status import container_owns
from ...facts.driver_shapes import DriverState, SigningKey
from ...facts.shapes import System
from ...spec.driver import ARCHIVE
from ...spec.driver_families import DKMS, FLAVOUR_TITLES, SUPPORTED, Family, client_package, headers_of
from . import needs
from .needs import Case, DriverRequest

# What an installation with a DKMS build needs at most (measured by NVIDIA for doca-ofed; an initial RAM disk is 150).
_NEEDED_MIB = {"/boot": 150, "/usr": 2048, "/var": 2048}
_MACHINES = ("x86_64", "aarch64")


class Refusal(NamedTuple):
    """A reason against the change: a short name for the step's id, the check, the reason, and what to do."""

    key: str
    action: str
    detail: str


def refusals(request: DriverRequest, state: DriverState, system: System, family: Family | None) -> list[Refusal]:
    """Return every reason why the driver's packages can't be changed on this host now."""
    if container_owns(state):
        return [
            Refusal(
                "owner",
                "find out who manages the driver",
                f"the Network Operator's driver container owns the modules ({CONTAINER_READY}): remove ofedDriver "
                "from its policy and wait for the container to end, or set source: container",
            )
        ]
    if system["ostree"]:
        detail = (
            "this host's system is an ostree image, whose /usr is read-only: set source: container, with ofedDriver in "
            "the policy, or layer the packages (rpm-ostree install) and drop the variable"
        )
        return [Refusal("system", "check the system", detail)]
    if "transactional" in system:
        detail = (
            "this host's root is a read-only snapshot: set source: container, with ofedDriver in the policy, or "
            "install the packages into the next one (transactional-update pkg install), reboot, and drop the variable"
        )
        return [Refusal("system", "check the system", detail)]
    if family is None:
        return [_unknown_system(request, system)]
    if state["database_fails"]:
        return [_no_database(family)]
    found = _environment(state)
    if request.is_vendor:
        found = [*_platform(request, state, system, family), *_build(request, state, system, family), *found]
    return found


def _unknown_system(request: DriverRequest, system: System) -> Refusal:
    name = system["os"]["name"] or system["os"]["id"] or "an unknown distribution"
    return Refusal(
        "system",
        "check the system",
        f"packages of {FLAVOUR_TITLES[request.flavour]} are not known for {name}; known: {', '.join(SUPPORTED)}; its "
        "own inbox driver is left as it is",
    )


def _no_database(family: Family) -> Refusal:
    program = "dpkg-query --show" if family.manager == "apt" else "rpm -qa"
    repair = "dpkg --audit" if family.manager == "apt" else "rpm --rebuilddb"
    detail = (
        f"the package database does not answer ({program} fails), so it can't be told which driver is installed: see "
        f"what {program} says, repair it ({repair}) and run again"
    )
    return Refusal("database", "read the package database", detail)


def _platform(request: DriverRequest, state: DriverState, system: System, family: Family) -> list[Refusal]:
    found = []
    machine = system["machine"]
    if machine and machine not in _MACHINES:
        found.append(Refusal("machine", "check the machine", f"there are no packages for {machine}"))
    if request.settings["build"] not in family.kernel_packages:
        detail = f"there are no precompiled modules for {family.name}: build: dkms"
        found.append(Refusal("packages", "check the packages", detail))
    elif request.settings["build"] != DKMS and family.manager == "zypper" and not state["kernel"].endswith("-default"):
        # They would install kernel-default, for which they are built.
        detail = f"there are precompiled modules for kernel-default alone, {state['kernel']} runs: build: dkms"
        found.append(Refusal("packages", "check the packages", detail))
    return found


def _build(request: DriverRequest, state: DriverState, system: System, family: Family) -> list[Refusal]:
    """Check the needs of building and loading before anything is unloaded: headers, and a trusted key."""
    kernel = state["kernel"]
    builds = request.settings["build"] == DKMS
    fails, limit = needs.too_new(request, kernel)
    found = [Refusal("kernel", "check the kernel", f"{request.title} {limit}")] if fails else []
    if builds and state["headers"].get(kernel) is False and state["headers_offered"].get(kernel) is False:
        hidden = ", or dnf hides them (exclude=kernel*, versionlock)" if family.manager == "dnf" else ""
        detail = (
            f"headers of the running kernel {kernel} are neither installed nor in any repository of this host "
            f"({headers_of(family, kernel)[0]}){hidden}: add the repository that has them, or update the kernel and "
            "reboot first"
        )
        found.append(Refusal("headers", "check the kernel headers", detail))
    if system["secure_boot"] and state["key"] is not None:
        found.extend(_secure_boot(state["key"], request.settings["signing_key"], builds))
    if request.settings["source"] == ARCHIVE and state["archive"] is False:
        detail = f"{request.settings['archive']} is not on this host: copy it there first"
        found.append(Refusal("archive", "check the archive", detail))
    return found


def _secure_boot(key: SigningKey, signing_key: str | None, builds: bool) -> list[Refusal]:
    action = "check Secure Boot"
    if not builds and not signing_key:
        detail = (
            "Secure Boot is on: give the certificate that signed the precompiled modules (signing_key), so that it "
            "can be looked up before the driver is replaced"
        )
        return [Refusal("secure_boot", action, detail)]
    if key["path"] is None:
        detail = (
            "Secure Boot is on and this host has no key to sign modules with: create and enrol one "
            "(update-secureboot-policy --new-key or dkms generate_mok, then mokutil --import), or give it with "
            "signing_key"
        )
        return [Refusal("secure_boot", action, detail)]
    if key["enrolled"]:
        return []
    problem = "is not enrolled" if key["enrolled"] is False else "can't be looked up (mokutil is not installed)"
    detail = (
        f"Secure Boot is on and the key {key['path']} {problem}: the new modules would not load and the NICs would "
        f"be gone; run mokutil --import {key['path']}, confirm at the console during a reboot, and run again"
    )
    return [Refusal("secure_boot", action, detail)]


def _environment(state: DriverState) -> list[Refusal]:
    found = []
    if state["locks"]:
        who = ", ".join(sorted({f"{lock['program']} (pid {lock['pid']})" for lock in state["locks"]}))
        detail = f"the package manager's lock is held by {who}: wait for it to end and run again"
        found.append(Refusal("lock", "check the package manager", detail))
    short = [
        f"{path} has {state['free_mib'][path]} MiB free, {needed} MiB are needed"
        for path, needed in _NEEDED_MIB.items()
        if state["free_mib"].get(path, needed) < needed
    ]
    if short:
        found.append(Refusal("space", "check the disk space", f"{'; '.join(short)}: free space and run again"))
    return found


def losses(case: Case) -> tuple[list[Refusal], list[str]]:
    """Return what a change of the driver takes away: a refusal of what is mounted, a notice of what is only loaded.

    What the vendor packages comes with its driver. Modules of the kernel itself load again on the kernel's own stack,
    and all that is loaded does on the driver that already runs.
    """
    if case.state["packages"] is None or not needs.needs_load(case):
        return [], []
    mounted, notices = [], []
    facts, title = case.actual.facts["modules"], case.request.title
    for stake in needs.stakes(case):
        client, loaded, mounts, _package = stake
        names = ", ".join(loaded)
        comes = stake.comes_along
        if not case.request.is_vendor:
            comes = bool(client.package) or not any(name in facts and facts[name]["out_of_tree"] for name in loaded)
        if comes:
            continue
        if mounts:
            mounted.append(f"{', '.join(mounts)} ({client.title}: {names})")
            continue
        lack, way = "the vendor has no package for that", f"build it again once {title} is installed"
        if client.package and case.family is not None:
            name = client_package(case.family, case.request.settings["build"], client.package)
            lack = f"the vendor's package for that ({name}) is not installed"
            way = "install that package in the driver's release"
        notices.append(
            f"{names} {'is' if len(loaded) == 1 else 'are'} loaded, and {lack}: modules for another ib_core do not "
            f"load on that of {title}, so {client.title} is gone after the reload or reboot; next: {way}, or keep the "
            "driver of this host"
        )
    if not mounted:
        return [], notices
    detail = (
        f"{'; '.join(mounted)} would be gone after the reload or reboot: modules for another ib_core do not load on "
        f"that of {title}, and the vendor has no package for them; next: unmount that, run again, and build the "
        f"modules again once {title} is installed, or keep the driver of this host"
    )
    return [Refusal("mounts", "check what is mounted", detail)], notices
