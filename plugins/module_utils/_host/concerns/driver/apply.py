# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Executes the steps of the driver: packages, builds, initial RAM disk, reload."""

from __future__ import annotations

from typing import Callable

from ...engine.context import Context, Handler
from ...engine.failures import Fault
from ...engine.operations import RELOAD_UNITS, Operation, RemoveFile, Run, Work
from ...engine.steps import Step, key_of
from ...facts import module_graph
from ...facts.driver.modules import holds_another
from ...facts.driver.read import read_on_disk
from ...facts.driver.snapshot import empty_snapshot
from ...facts.driver.status import UNREAD, builds_to_replace, installed_flavour, vendor_packages
from ...facts.driver_shapes import DriverState
from ...facts.host_state import NETDEV_DRIVER
from ...facts.kernel import CONTAINER_BLACKLIST
from ...machine.access import Host
from ...machine.probe import Probe
from ...spec.driver import ARCHIVE, DISTRIBUTION, INSTALLERS
from ...spec.driver_families import (
    DKMS,
    DOCA_OFED,
    FIRST_WITHOUT_SCRIPTS,
    Family,
    headers_of,
    initrd_command,
    wanted_packages,
)
from . import packages
from .files import ORDER_FILE, ordering_files, repository_files
from .needs import (
    OF_LINE,
    Case,
    DriverRequest,
    build_command,
    case_of,
    clients_packages,
    goes_back,
    interrupted_reload,
    kernels_to_build,
    other_kernel,
    replaces_what_runs,
    request_of,
    sources,
    unfit,
)
from .packages import before_removal
from .reload import reload_of_stack, reload_work, restore_work

_BUILD_SECONDS = 3600.0
_INITRD_SECONDS = 900.0
_LOAD_SECONDS = 300.0
# Of mlnxofedinstall, which installs the others by default (MLNX_OFED, user manual, Additional Installation Procedures).
_OPTIONS = {"mlnx-nvme": "--with-nvmf", "mlnx-nfsrdma": "--with-nfsrdma"}
_ARCHIVE_DIRECTORY = "/var/lib/rdma-fabric/driver-archive"
Verify = Callable[[Host], str]


def work(context: Context, step: Step) -> Work:
    """Return how a step of the driver is executed."""
    if key_of(step) == "restore":
        return _restore(context.actual.facts.get("driver") or UNREAD)
    request = request_of(context)
    if not isinstance(request, DriverRequest):
        return Work(())
    case = case_of(context, request)
    key = key_of(step)
    if key == "blacklist":
        return Work([RemoveFile(CONTAINER_BLACKLIST)])
    if key.startswith("/"):
        return context.work_of_removal(key, [RELOAD_UNITS] if key == ORDER_FILE else [])
    kind, colon, kernel = key.partition(":")
    if colon:
        return _build(case, kernel) if kind == "build" else _initrd(case, kernel)
    return {
        "repository": _repository,
        "order": _order,
        "packages": _packages,
        "initrd": lambda case: _initrd(case, case.state["kernel"]),
        "load": _load,
    }[key](case)


def _repository(case: Case) -> Work:
    files = repository_files(case)
    refresh: list[Operation] = []
    if case.family is not None and case.request.repository is not None:
        refresh = packages.refresh_repository(case.family, case.request.repository)
    return Work([*case.context.boot_operations(files), *refresh], case.context.boot_undo(files))


def _order(case: Case) -> Work:
    files = ordering_files(case)
    return case.context.work_of_files(files, [RELOAD_UNITS] if ORDER_FILE in files else [])


def _packages(case: Case) -> Work:
    family = case.family
    if family is None:
        return Work(())
    running = case.state["kernel"]
    if not case.request.is_vendor:
        return Work(_removal(case, family), verify=_on_disk(case, running))
    former = installed_flavour(case.state, case.actual.stack)
    do: list[Operation] = packages.finish_interrupted() if case.state["dpkg_interrupted"] else []
    if case.request.repository is not None and case.context.planned("driver:repository") is None:
        # The repository may have changed since its index was read.
        do += packages.refresh_repository(family, case.request.repository)
    if case.state["unfinished"] and not goes_back(case):
        do += packages.complete()
    removes = vendor_packages(case.state) and (goes_back(case) or former not in {None, case.request.flavour})
    if case.request.settings["source"] != ARCHIVE:
        if removes:
            kernel_package = family.kernel_packages[case.request.settings["build"]][0]
            do.append(before_removal(family, kernel_package, case.request.version))
        do += [before_removal(family, name, case.request.version, OF_LINE) for name in clients_packages(case)]
    if goes_back(case):
        do += packages.replace_by_distribution(family, builds_to_replace(case.state), vendor_packages(case.state))
    elif former not in {None, case.request.flavour}:
        # Two vendors' stacks own the same files; the older one goes first (DOCA-Host installation guide).
        do += packages.remove(family, vendor_packages(case.state))
    return Work([*do, *_installation(case, family)], verify=_on_disk(case, running))


def _installation(case: Case, family: Family) -> list[Operation]:
    settings = case.request.settings
    kernels = [case.state["kernel"], *kernels_to_build(case)]
    clients = clients_packages(case)
    # Any release of DOCA-OFED may be one without; which flavour is installed shows without it, too.
    any_release = FIRST_WITHOUT_SCRIPTS if case.request.flavour == DOCA_OFED else ()
    release = case.request.version.fields if case.request.version is not None else any_release
    names = (*wanted_packages(family, settings["build"], kernels, settings["with_firmware_update"], release), *clients)
    archive = settings["archive"] or ""
    if settings["source"] != ARCHIVE:
        return packages.install(family, names, refresh=settings["source"] == DISTRIBUTION)
    if not archive.endswith(INSTALLERS):
        # The package contains a repository, which its installation adds.
        return [*packages.install(family, [archive], refresh=False), *packages.install(family, names, refresh=True)]
    return _installer(case, archive)


def _installer(case: Case, archive: str) -> list[Operation]:
    """Return how an MLNX_OFED archive is installed by its own program; the directory is emptied before and after."""
    settings, directory = case.request.settings, _ARCHIVE_DIRECTORY
    # The archive for Debian and Ubuntu rejects --quiet with 22 (EINVAL) (MLNX_OFED, mlnxofedinstall).
    words = ["--force", "-q"]
    words += [] if settings["with_firmware_update"] else ["--without-fw-update"]
    words += ["--dkms"] if settings["build"] == DKMS else []
    words += [option for client, option in _OPTIONS.items() if any(client in name for name in clients_packages(case))]
    # 1 and 32: nothing was mounted there.
    leave = Run(("umount", directory), accepted=(0, 1, 32))
    clear = Run(("rm", "-rf", "--one-file-system", directory), 600.0)
    if archive.endswith(".iso"):
        opened: list[Operation] = [Run(("mount", "-o", "loop,ro", archive, directory))]
    else:
        opened = [Run(("tar", "-xf", archive, "-C", directory, "--strip-components=1"), 900.0)]
    run = Run((f"{directory}/mlnxofedinstall", *words), _BUILD_SECONDS)
    return [leave, clear, Run(("mkdir", "-p", directory)), *opened, run, leave, clear]


def _removal(case: Case, family: Family) -> list[Operation]:
    """Return the way back to the inbox driver: remove the vendor's packages and replace its builds of shared names."""
    gone: list[Operation] = [RemoveFile(path) for path in packages.OWNED if path in case.context.boot_files]
    gone += packages.finish_interrupted() if case.state["dpkg_interrupted"] else []
    if case.state["built"] and not vendor_packages(case.state):
        # 3: DKMS no longer knows it.
        for source in sources(case):
            gone.append(Run(("dkms", "remove", source, "--all"), _BUILD_SECONDS, (0, 3)))
    gone += packages.replace_by_distribution(family, builds_to_replace(case.state), vendor_packages(case.state))
    return [*gone, Run(("depmod", "-a", case.state["kernel"]), 300.0)]


def _build(case: Case, kernel: str) -> Work:
    """Return how the driver is built for a kernel; packages that an earlier step installs bring its headers."""
    do: list[Operation] = []
    installs = _installs(case)
    if case.family is not None and not case.state["headers"].get(kernel) and not installs:
        do += packages.install(case.family, headers_of(case.family, kernel), refresh=False)
    # 5: it is installed; packages of headers have DKMS build for their kernel (dkms, do_install).
    do.append(Run(build_command(case, kernel, fresh=installs), _BUILD_SECONDS, (0, 5)))
    return Work(do, verify=_on_disk(case, kernel))


def _initrd(case: Case, kernel: str) -> Work:
    if case.family is None:
        return Work(())
    image = case.family.initrd.format(kernel=kernel)

    def verify(host: Host) -> str:
        core = (read_on_disk(Probe(host), kernel, (NETDEV_DRIVER,), identify=False) or {}).get(NETDEV_DRIVER)
        if kernel != other_kernel(case) or core is None or not holds_another(Probe(host), image, kernel, core["path"]):
            return ""
        return f"{image} was rebuilt and still has another {NETDEV_DRIVER} than {core['path']}"

    return Work([Run(initrd_command(case.family, kernel), _INITRD_SECONDS)], verify=verify)


def _load(case: Case) -> Work:
    if not replaces_what_runs(case):
        return Work(
            [Run(("modprobe", name), _LOAD_SECONDS) for name in module_graph.ALWAYS_LOADED],
            [Run(("modprobe", "-r", name), _LOAD_SECONDS) for name in reversed(module_graph.ALWAYS_LOADED)],
        )
    interrupted = interrupted_reload(case.state)
    snapshot = interrupted or case.state["snapshot"]
    if snapshot is None:
        raise Fault("the network of the host was not read, so it could not be restored after a reload")
    by_service = case.request.is_vendor and (case.state["openibd"] or _installs(case))
    return reload_work(reload_of_stack(case.state, by_service, interrupted), snapshot, module_graph.IDENTITY)


def _restore(state: DriverState) -> Work:
    snapshot = interrupted_reload(state) or empty_snapshot(NETDEV_DRIVER)
    return restore_work(reload_of_stack(state, by_service=False, interrupted=snapshot), snapshot)


def _installs(case: Case) -> bool:
    """Return whether the vendor's service comes with the packages that an earlier step of this plan installs."""
    return case.context.planned("driver:packages") is not None


def _on_disk(case: Case, kernel: str) -> Verify:
    """Check that modprobe would load the wanted driver, before anything is unloaded for it."""

    def verify(host: Host) -> str:
        found = read_on_disk(Probe(host), kernel, (NETDEV_DRIVER,), identify=False) or {}
        return unfit(case.request, found.get(NETDEV_DRIVER), kernel)

    return verify


HANDLER = Handler(work, packages.ERRORS)
