# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares the driver in the spec with the driver of the host, part by part. Pure."""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from ...engine.context import Context, requests_for
from ...facts.driver.snapshot import parse_snapshot
from ...facts.driver.status import (
    UNREAD,
    builds_to_replace,
    disk_flavour,
    installed_flavour,
    installed_release,
    is_inbox_path,
    present_packages,
    runs_what_is_installed,
    vendor_packages,
)
from ...facts.driver_shapes import DriverState, OnDisk, Snapshot
from ...facts.host_state import NETDEV_DRIVER, HostState
from ...facts.module_graph import CLIENTS, Client
from ...machine.probe import natural
from ...spec.driver import ABSENT, CONTAINER, REPOSITORY, DriverSpec, Repository, driver_settings
from ...spec.driver_families import (
    DKMS,
    DOCA_OFED,
    FLAVOUR_TITLES,
    INBOX,
    MLNX_OFED,
    VENDOR_FLAVOURS,
    Family,
    client_package,
    family_of,
    inbox_package,
)
from ...spec.driver_version import (
    FIRST_DOCA_ONLY,
    DriverVersion,
    is_image_digest,
    kernel_limit,
    parse_driver_version,
    parse_installed,
    parse_packaged,
)
from ...spec.host import HostRequest
from ...spec.place import Found, Place

VARIABLE = "rdma_fabric_driver"
UPGRADE_CONSENT = "driver_upgrade"
_DOCA_IMAGE = "doca-driver"
# Of the numbers of a release, those that packages of clients share with the driver's: 24.10 has a driver of
# OFED.24.10.0.7.0 and an isert of OFED.24.10.0.6.7 (microsoft/azurelinux, SPECS/isert/isert.spec).
OF_LINE = 2


class DriverRequest(NamedTuple):
    """The driver of the spec; ``settings`` are the complete settings of ``spec.driver``.

    With ``waits`` it is only installed on hosts without a vendor's driver; on others it needs consent.
    """

    asked_by: str
    flavour: str
    version: DriverVersion | None
    settings: DriverSpec
    waits: bool = False

    @property
    def is_vendor(self) -> bool:
        """Return whether the spec has a vendor's driver."""
        return self.flavour != INBOX

    @property
    def repository(self) -> Repository | None:
        """Return the repository of the packages, None if they have another source."""
        return self.settings["repository"] if self.settings["source"] == REPOSITORY else None

    @property
    def returns(self) -> bool:
        """Return whether the spec has state absent: back to the inbox driver, with nothing of ours left."""
        return self.settings["state"] == ABSENT

    @property
    def title(self) -> str:
        """Return the driver in words: ``DOCA-OFED 24.10-1.1.4.0``."""
        title = FLAVOUR_TITLES[self.flavour]
        return f"{title} {self.version.release}" if self.version else title


class Unclear(NamedTuple):
    """An ambiguous or unreadable driver in the spec: what can't be decided, who asks for it, and what to do."""

    action: str
    reason: str
    detail: str


def request_of(context: Context) -> DriverRequest | Unclear | None:
    """Return the driver of the spec, None if neither the host's variables nor a policy have one."""
    own = context.desired["driver"]
    requests = requests_for(context, "driver")
    if len(requests) > 1:
        names = " and ".join(f"{request['source']} ({_section(request).get('version')})" for request in requests)
        detail = "narrow their nodeSelector so that one is left"
        return Unclear("choose between contradicting driver requests", f"{names} all select this host", detail)
    if own and requests and _in_container(requests[0]) and own["source"] != CONTAINER:
        return Unclear(
            "choose between packages and a container of the driver",
            f"{requests[0]['source']} has its driver in a container, and {VARIABLE} is about packages",
            f"leave {VARIABLE} out for this host, or keep the policy off its node with a nodeSelector",
        )
    if own and (own["state"] == ABSENT or own["flavour"] or own["version"]):
        return _own_request(own, requests[0] if requests else None)
    return _requested_by_policy(requests[0], own) if requests else None


def flavour_of(image: object, version: DriverVersion | None) -> str:
    """Return the flavour of a release: DOCA-OFED since 25.01, or if it is the version of a DOCA image."""
    newer = version is not None and (version.doca is not None or version.fields[:2] >= FIRST_DOCA_ONLY)
    return DOCA_OFED if newer or image == _DOCA_IMAGE else MLNX_OFED


def _in_container(request: HostRequest) -> bool:
    """Return whether a policy runs the driver in a container, so that hosts need no packages."""
    return _section(request).get("source") == CONTAINER


def _section(request: HostRequest | None) -> Mapping[str, object]:
    """Return the driver section of a policy, empty without a policy."""
    return (request["driver"] if request is not None else None) or {}


def _own_request(own: DriverSpec, request: HostRequest | None) -> DriverRequest | Unclear:
    version = parse_driver_version(own["version"] or "")
    flavour = INBOX if own["state"] == ABSENT else own["flavour"] or flavour_of(None, version)
    requested = parse_driver_version(str(_section(request).get("version") or ""))
    if request is not None and requested is not None and (version is None or version.fields != requested.fields):
        return Unclear(
            "choose between contradicting driver requests",
            f"{request['source']} asks for {requested.release}, {VARIABLE} for {own['version'] or flavour}",
            "let them name one release, or leave one of them out",
        )
    return DriverRequest(VARIABLE, flavour, version, own)


def _requested_by_policy(request: HostRequest, own: DriverSpec | None) -> DriverRequest | Unclear:
    section = _section(request)
    text = str(section.get("version") or "")
    version = parse_driver_version(text)
    if version is None and not _in_container(request):
        reason = f"{request['source']} asks for an ofedDriver"
        if is_image_digest(text):
            detail = f"a digest does not say which release it holds; name it in {VARIABLE}: {{version: ...}}"
        else:
            detail = f"its version {text!r} is neither a driver release such as 24.07-0.6.1.0-0 nor a sha256 digest"
        return Unclear("read the wanted driver version", reason, detail)
    asked = {"storage_modules": section["storage_modules"]} if section.get("storage_modules") else {}
    if _in_container(request):
        asked = {"source": CONTAINER}
    settings = own if own is not None else driver_settings(Place(Found(), VARIABLE), asked)
    waits = section.get("auto_upgrade") is False
    return DriverRequest(str(request["source"]), flavour_of(section.get("image"), version), version, settings, waits)


class Case(NamedTuple):
    """One host's driver: the spec, the host's facts and driver state, and its distribution's packages."""

    context: Context
    request: DriverRequest
    state: DriverState
    family: Family | None

    @property
    def actual(self) -> HostState:
        """Return the host."""
        return self.context.actual


def case_of(context: Context, request: DriverRequest) -> Case:
    """Return the case of a host; its state is empty if the driver was not read."""
    facts = context.actual.facts
    return Case(context, request, facts.get("driver") or UNREAD, family_of(facts["system"]["os"]))


def loaded_release(actual: HostState) -> DriverVersion | None:
    """Return the release of the loaded vendor driver; the inbox driver has the kernel's version, not a release."""
    if actual.stack["flavour"] not in VENDOR_FLAVOURS:
        return None
    return parse_driver_version(actual.stack["version"] or "")


def drives_nics(actual: HostState) -> bool:
    """Return whether a driver of NVIDIA's NICs is loaded; other NICs use the RDMA core, too."""
    return actual.is_loaded(NETDEV_DRIVER)


def runs_wanted(case: Case) -> bool:
    """Return whether the loaded driver has the flavour and release of the spec."""
    flavour, request = case.actual.stack["flavour"], case.request
    if not request.is_vendor:
        return flavour not in VENDOR_FLAVOURS and (request.returns or drives_nics(case.actual))
    if not drives_nics(case.actual):
        return False
    if request.version is None:
        return flavour == request.flavour
    loaded = loaded_release(case.actual)
    return loaded is not None and loaded.fields == request.version.fields


def needs_packages(case: Case) -> bool:
    """Return whether packages must be installed, replaced or removed."""
    request, state, stack = case.request, case.state, case.actual.stack
    if not request.is_vendor:
        if state["packages"] is None:
            return stack["flavour"] in VENDOR_FLAVOURS
        return bool(vendor_packages(state) or builds_to_replace(state) or state["built"])
    if state["packages"] is None and runs_wanted(case):
        return False
    if state["unfinished"] or _leaves_clients(case):
        return True
    if request.version is None:
        return installed_flavour(state, stack) != request.flavour
    release = installed_release(state, stack)
    if state["packages"] is None:
        release = parse_installed(stack["installed"] or "")
    return release is None or release.fields != request.version.fields


class Stake(NamedTuple):
    """What stands on the stack of a host: its loaded modules, mount points, and the version of its package."""

    client: Client
    loaded: list[str]
    mounts: list[str]
    package: str | None

    @property
    def comes_along(self) -> bool:
        """Return whether a vendor's driver brings its package: it is installed, or something mounted needs it."""
        return bool(self.client.package) and (self.package is not None or bool(self.mounts))


def stakes(case: Case) -> list[Stake]:
    """Return what stands on the stack: what is loaded, or has a package of the vendor."""
    state, found = case.state, []
    for client in CLIENTS:
        names = dict.fromkeys((*client.modules, *client.mounts.values()))
        loaded = [name for name in names if name in state["loaded"]]
        mounts = [
            point for kind, name in client.mounts.items() if name in loaded for point in state["mounts"].get(kind, ())
        ]
        build = re.compile(rf"(?:kmod-)?{client.package}(?:-(?:dkms|modules|kmp-.*))?")
        versions = [version for name, version in present_packages(state).items() if build.fullmatch(name)]
        if loaded or versions:
            found.append(Stake(client, loaded, mounts, versions[0] if versions else None))
    return found


def clients_packages(case: Case) -> list[str]:
    """Return the vendor's packages that come with its driver: those that are installed, and what mounts need."""
    family, build = case.family, case.request.settings["build"]
    if family is None or not case.request.is_vendor:
        return []
    return [client_package(family, build, stake.client.package) for stake in stakes(case) if stake.comes_along]


def _leaves_clients(case: Case) -> bool:
    """Return whether packages of ``clients_packages`` are of another line of releases, or missing before a load."""
    wanted, loads = case.request.version, not runs_wanted(case) or runs_what_is_installed(case.state) is False
    for stake in stakes(case):
        release = parse_packaged(stake.package or "")
        if wanted is not None and release is not None and release.fields[:OF_LINE] != wanted.fields[:OF_LINE]:
            return True
        if loads and stake.client.package and stake.package is None and stake.mounts:
            return True
    return False


def goes_back(case: Case) -> bool:
    """Return whether the installed release is newer than that of the spec: package managers only upgrade."""
    release = installed_release(case.state, case.actual.stack)
    wanted = case.request.version
    return release is not None and wanted is not None and release.fields > wanted.fields


def waits_for_consent(case: Case) -> bool:
    """Return whether a vendor's driver would be upgraded, but the policy needs consent for that."""
    is_upgrade = needs_packages(case) and installed_flavour(case.state, case.actual.stack) in VENDOR_FLAVOURS
    return case.request.waits and is_upgrade and not case.context.consents_to(UPGRADE_CONSENT)


def other_kernel(case: Case) -> str | None:
    """Return the kernel of the next boot, None if it is the running one."""
    following = case.state["next_kernel"]
    return following if following and following != case.state["kernel"] else None


def unfit(request: DriverRequest, core: OnDisk | None, kernel: str) -> str:
    """Return why the driver on the disk for a kernel is not that of the spec; empty if it is."""
    if core is None:
        return f"there is no {NETDEV_DRIVER} for kernel {kernel} on the disk"
    if is_inbox_path(core["path"]) == request.is_vendor:
        where = "still the kernel's own" if request.is_vendor else "still a vendor's"
        return f"the {NETDEV_DRIVER} that would be loaded is {where} ({core['path']}): it was not built for {kernel}"
    release = parse_driver_version(core["version"] or "")
    if request.version is not None and release is not None and release.fields != request.version.fields:
        return f"kernel {kernel} has {release.release} on the disk, {request.version.release} is requested"
    return ""


def kernels_without(case: Case) -> list[str]:
    """Return the kernels, the running and the next one, for which DKMS still has to build the driver."""
    request, state, following = case.request, case.state, other_kernel(case)
    if not request.is_vendor or request.settings["build"] != DKMS:
        return []
    if needs_packages(case):
        # Installing the packages builds for the running kernel.
        return [following] if following else []
    built = {build["kernel"] for build in state["built"]}
    # Without any build of DKMS the driver is a precompiled one.
    if not built and disk_flavour(state["on_disk"]) != INBOX:
        return []
    # DKMS builds and installs separately, and may have been stopped in between.
    on_disk = {state["kernel"]: state["on_disk"], **({following: state["next_on_disk"]} if following else {})}
    for kernel, modules in on_disk.items():
        if modules is not None:
            fits = not unfit(request, modules.get(NETDEV_DRIVER), kernel)
            built = built | {kernel} if fits else built - {kernel}
    return [kernel for kernel in sorted(state["headers"]) if kernel not in built]


def kernels_to_build(case: Case) -> list[str]:
    """Return those of ``kernels_without`` for which the release compiles, and whose headers are or may be there."""
    request, state = case.request, case.state

    def may_have_headers(kernel: str) -> bool:
        offered = state["headers_offered"].get(kernel) is not False
        return state["headers"].get(kernel, False) or (case.family is not None and offered)

    return [kernel for kernel in kernels_without(case) if may_have_headers(kernel) and not too_new(request, kernel)[0]]


def too_new(request: DriverRequest, kernel: str) -> tuple[bool, str]:
    """Return whether DKMS can't build the requested release for a kernel, and a clause about that or about doubts."""
    if request.version is None or request.settings["build"] != DKMS:
        return False, ""
    return kernel_limit(request.version, kernel)


def runs_without_headers(case: Case) -> bool:
    """Return whether the driver must be built for the running kernel, and can't."""
    kernel = case.state["kernel"]
    return case.family is not None and kernel in kernels_without(case) and kernel not in kernels_to_build(case)


def lacking(case: Case) -> str:
    """Return why the disk lacks the spec's driver and no step of this plan installs it; empty otherwise.

    Without it a reload would interrupt the network only to load the same driver again.
    """
    on_disk, kernel = case.state["on_disk"], case.state["kernel"]
    if on_disk is None or needs_packages(case) or kernel in kernels_to_build(case):
        return ""
    if NETDEV_DRIVER not in on_disk:
        package = f": install {inbox_package(case.family, kernel)}" if case.family is not None else ""
        return f"the kernel {kernel} has no {NETDEV_DRIVER} on this host{package}"
    problem = unfit(case.request, on_disk[NETDEV_DRIVER], kernel)
    if not problem:
        return ""
    if case.request.is_vendor:
        return (
            f"{problem}; nothing is unloaded for it; next: install the vendor's modules that were built for {kernel} "
            f"(on RHEL weak-modules --add-kernel {kernel} links those that fit it), or boot a kernel that has them"
        )
    return f"{problem}, and no package has it; nothing is unloaded for it; next: remove it, and run depmod -a {kernel}"


def sources(case: Case) -> list[str]:
    """Return DKMS's sources of the driver, as DKMS names them: ``mlnx-ofa_kernel/25.10``.

    The spec's release is last, and before it the newest: sources of other releases may be left.
    """
    wanted = case.request.version
    versions = {f"{build['name']}/{build['version']}": build["version"] for build in case.state["built"]}

    def order(source: str) -> tuple[bool, tuple[Any, ...]]:
        release = parse_packaged(versions[source])
        return wanted is not None and release is not None and release.fields == wanted.fields, natural(source)

    return sorted(versions, key=order)


def build_command(case: Case, kernel: str, *, fresh: bool = False) -> tuple[str, ...]:
    """Return the command that builds the driver for a kernel; ``fresh`` packages may have another source."""
    known = [] if fresh else sources(case)
    words = ("install", known[-1]) if known else ("autoinstall",)
    return ("dkms", *words, "-k", kernel)


def initrds_to_make(case: Case) -> list[str]:
    """Return the kernels, running and next, whose initramfs has, or will have, another driver than the disk."""
    state, following = case.state, other_kernel(case)
    changed = {kernel for kernel, initrd in state["initrds"].items() if initrd["stale"]} | {*kernels_to_build(case)}
    if needs_packages(case):
        # The way back to the inbox driver removes the builds for every kernel.
        changed |= {state["kernel"], *([following] if following and not case.request.is_vendor else [])}
    there = [state["kernel"], *([following] if following in state["initrds"] else [])]
    return [kernel for kernel in there if kernel in changed] if case.family is not None else []


def needs_load(case: Case) -> bool:
    """Return whether the running driver is not the one that will be on the disk."""
    if not runs_wanted(case) or runs_what_is_installed(case.state) is False:
        return True
    return case.state["kernel"] in kernels_to_build(case) and disk_flavour(case.state["on_disk"]) == INBOX


def replaces_what_runs(case: Case) -> bool:
    """Return whether a NIC driver or modules of another RDMA stack must be unloaded first."""
    if drives_nics(case.actual):
        return True
    other = runs_what_is_installed(case.state) is False
    return bool(case.state["loaded"]) and (case.request.is_vendor or other)


def interrupted_reload(state: DriverState) -> Snapshot | None:
    """Return what a reload that was interrupted had removed, None if there was none."""
    return parse_snapshot(state["journal"]) if state["journal"] else None
