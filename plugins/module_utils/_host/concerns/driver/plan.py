# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the driver stack of the NICs: packages, builds, initial RAM disk, reload.

Loading is the last step and the only one that interrupts. If something prevents it, it is left to the next
reboot, and the step names the cause.
"""

from __future__ import annotations

from ...engine.context import ConcernPlan, Context
from ...engine.steps import (
    BOOT,
    NEEDS_CONSENT,
    NEEDS_REBOOT,
    NOTHING,
    NOW,
    NOW_AND_BOOT,
    PLANNED,
    Step,
    Wording,
    is_executable,
    make_step,
)
from ...facts import openib
from ...facts.driver import blockers
from ...facts.driver.status import (
    UNREAD,
    builds_to_replace,
    container_owns,
    installed_flavour,
    installed_release,
    stack_blockers,
    stale_blacklist,
    vendor_packages,
)
from ...facts.driver_shapes import DriverState
from ...facts.host_state import NETDEV_DRIVER, HostState
from ...facts.kernel import CONTAINER_BLACKLIST
from ...spec.driver import ARCHIVE, CONTAINER, INSTALLERS, NEVER, REQUIRED, UNLOAD
from ...spec.driver_families import FLAVOUR_TITLES, INBOX, VENDOR_FLAVOURS
from ...spec.host import CONSENTS
from . import needs, next_boot
from .files import ordering_files, repository_files, staying_notices, unwanted_files
from .needs import VARIABLE, Case, DriverRequest, Unclear, case_of, request_of
from .preflight import losses, refusals

CONSENT = "driver_reload"


def plan(context: Context) -> ConcernPlan:
    """Return the steps from the host's driver to that of the spec, none if the spec has none."""
    request = request_of(context)
    unfinished = _unfinished(context.actual.facts.get("driver") or UNREAD)
    if request is None or context.removing:
        return unfinished, staying_notices(context)
    if isinstance(request, Unclear):
        return ([*unfinished, _unclear(context, request)], []) if context.actual.nvidia_nics() else ([], [])
    if request.is_vendor and not context.actual.nvidia_nics():
        noticed = request.asked_by == VARIABLE
        return [], [f"{request.asked_by}: {request.title} is left out: this host has no NVIDIA NIC"] if noticed else []
    return _plan_case(case_of(context, request))


def _plan_case(case: Case) -> ConcernPlan:
    """Return the steps to an unambiguous driver on a host that can use it."""
    request = case.request
    if request.settings["source"] == CONTAINER:
        return _container(case)
    if needs.waits_for_consent(case):
        return [_packages(case, waits=True), *_unfinished(case.state)], []
    changes = needs.needs_packages(case) or bool(needs.kernels_to_build(case)) or needs.runs_without_headers(case)
    changes = changes or case.state["database_fails"]
    refused, lost = losses(case)
    if changes or (container_owns(case.state) and not needs.runs_wanted(case)):
        refused += refusals(request, case.state, case.actual.facts["system"], case.family)
    if refused:
        return [*_unfinished(case.state), *(_refused(case, *refusal) for refusal in refused)], lost
    steps = [*_files(case), *_disk(case), *_load(case)]
    done = {step["id"] for step in steps if is_executable(step)}
    return steps, [*lost, *_remarks(case), *map(next_boot.noticed, next_boot.problems(case.context, done))]


def _remarks(case: Case) -> list[str]:
    """Return notices about builds that may fail, and settings of the host that a vendor's driver conflicts with."""
    kernels = [*([case.state["kernel"]] if needs.needs_packages(case) else []), *needs.kernels_to_build(case)]
    limits = [needs.too_new(case.request, kernel)[1] for kernel in kernels]
    remarks = [f"{case.request.title} {limit}" for limit in limits if limit]
    if case.request.is_vendor and case.state["openib"]["onboot"] is False:
        remarks.append(
            f"{openib.FILE} has no ONBOOT=yes: at boot openibd loads nothing, and only what udev loads for the cards "
            "is there (no ib_umad, rdma_ucm or ib_ipoib); next: set ONBOOT=yes there, or name these modules in "
            "rdma_fabric_kernel_modules"
        )
    return remarks


def _unclear(context: Context, unclear: Unclear) -> Step:
    asked = [request["driver"] for request in context.desired["requests"] if request["driver"]]
    return make_step(
        "driver",
        "request",
        target=NETDEV_DRIVER,
        action=unclear.action,
        before=_running(context.actual),
        after=[{key: section.get(key) for key in ("repository", "image", "version")} for section in asked],
        reason=unclear.reason,
        refusal=unclear.detail,
    )


def _container(case: Case) -> ConcernPlan:
    """Return the plan of a host whose driver is in a container, with notices about what that has not done yet."""
    title = case.request.title
    installed = _installed(case)["flavour"]
    if case.state["packages"] is not None and installed in VENDOR_FLAVOURS and case.request.asked_by != VARIABLE:
        detail = (
            f"packages of {FLAVOUR_TITLES[installed]} are installed, and the host loads their driver at boot: remove "
            "them with rdma_fabric_driver: {state: absent} and rdma_fabric_driver_source: packages, then run again"
        )
        return [_refused(case, "container", "have a container bring the driver", detail)], []
    if needs.runs_wanted(case):
        return [], []
    if container_owns(case.state):
        return [], [f"{title} is requested, {_present(case.actual)}: the driver container is to bring it"]
    return [], [f"{title} is requested from a driver container, and none has run on this host yet"]


def _refused(case: Case, key: str, action: str, detail: str) -> Step:
    return make_step("driver", key, **_wording(case, action), refusal=detail)


def _wording(case: Case, action: str) -> Wording:
    return {
        "target": NETDEV_DRIVER,
        "action": action,
        "before": _running(case.actual),
        "after": _wanted(case.request),
        "reason": _reason(case),
    }


def _files(case: Case) -> list[Step]:
    """Plan files: remove a stale blacklist, add the repository and the order at boot, remove unneeded files."""
    steps = []
    if stale_blacklist(case.state):
        steps.append(
            make_step(
                "driver",
                "blacklist",
                target=CONTAINER_BLACKLIST,
                action="remove the blacklist of a driver container that is gone",
                before="present",
                after="absent",
                reason="with it the next boot would load no driver for the NICs",
                when=BOOT,
                undo="nothing: the container writes it again when it needs it",
            )
        )
    for key, files, action in (
        ("repository", repository_files(case), "make the repository known to the package manager"),
        ("order", ordering_files(case), "load the driver at boot before anything that needs it"),
    ):
        if files and case.context.boot_differs(files):
            steps.append(
                make_step(
                    "driver",
                    key,
                    target=", ".join(files),
                    action=action,
                    before=[path for path in files if path in case.context.boot_files],
                    after=list(files),
                    reason=f"{case.request.asked_by} asks for {case.request.title}",
                    when=BOOT if key == "order" else NOW_AND_BOOT,
                    undo="bring the former files back",
                )
            )
    for path in unwanted_files(case.context, case.request):
        steps.append(
            make_step(
                "driver",
                path,
                action="remove a file of rdma.fabric that the driver no longer needs",
                before="present",
                after="absent",
                reason=f"{case.request.asked_by} asks for {case.request.title}",
                when=BOOT,
                undo="bring the file back",
            )
        )
    return steps


def _disk(case: Case) -> list[Step]:
    """Plan changes of the disk: packages, builds for kernels, the initial RAM disk."""
    reason = _reason(case)
    steps = [_packages(case)] if needs.needs_packages(case) else []
    for kernel in needs.kernels_to_build(case):
        steps.append(
            make_step(
                "driver",
                f"build:{kernel}",
                target=NETDEV_DRIVER,
                action=f"build the installed driver for kernel {kernel}",
                before="not built",
                after="built",
                reason=reason,
                when=BOOT,
                undo=f"dkms remove it for {kernel}",
            )
        )
    for kernel in needs.initrds_to_make(case):
        following = kernel == needs.other_kernel(case)
        steps.append(
            make_step(
                "driver",
                f"initrd:{kernel}" if following else "initrd",
                target=NETDEV_DRIVER,
                action="rebuild the initial RAM disk" + (f" of kernel {kernel}" if following else ""),
                before="holds another driver than the disk",
                after="holds the driver of the disk",
                reason=reason,
                when=BOOT,
                undo="it is rebuilt with whatever driver is on the disk",
                detail="the kernel would otherwise start with the former driver",
            )
        )
    return steps


def _packages(case: Case, *, waits: bool = False) -> Step:
    """Plan packages; for a policy that ``waits``, return only a step that names the consent it needs."""
    of_policy = f"autoUpgrade of {case.request.asked_by} is not true, so the driver stays as it is; "
    return make_step(
        "driver",
        "packages",
        target=NETDEV_DRIVER,
        action=_packages_action(case),
        before=_installed(case),
        after=_wanted(case.request),
        reason=_reason(case),
        when=BOOT,
        undo=_packages_undo(case),
        status=NEEDS_CONSENT if waits else PLANNED,
        consent=CONSENTS[needs.UPGRADE_CONSENT] if waits else None,
        detail=f"{of_policy if waits else ''}{_packages_detail(case)}",
    )


def _load(case: Case) -> list[Step]:
    """Plan the reload, or report what prevents it now; an interrupted one is finished first."""
    first = _unfinished(case.state)
    if not needs.needs_load(case):
        return first
    swaps = needs.replaces_what_runs(case)
    action = f"load {case.request.title}" + (f" in place of {_name(case.actual)}" if swaps else "")
    wording, lacking = _wording(case, action), needs.lacking(case)
    if lacking:
        return [*(first if swaps else []), _refused(case, "load", action, lacking)]
    if not swaps:
        # A reload that was killed after it had unloaded the driver still has to restore the network.
        return [make_step("driver", "load", **wording, when=NOW, undo="modprobe -r it"), *first]
    settings = case.request.settings
    found = stack_blockers(case.actual, case.state, settings["storage_modules"] == UNLOAD)
    if first:
        # The reload also restores what was removed; only the uplink must not be interrupted.
        found = [blocker for blocker in found if blocker.kind == blockers.UPLINK]
    if found and settings["reload"] == REQUIRED:
        detail = f"{blockers.sentence(found)}: end or detach them, or take reload: if_idle, which leaves it to a reboot"
        return [*first, _refused(case, "load", action, detail)]
    if found or settings["reload"] == NEVER:
        ways = "reboot, or end or detach what can be and run again" if found else "reboot"
        detail = f"it is loaded at the next boot, not now: {blockers.sentence(found) or 'reload: never'}; next: {ways}"
        return [*first, make_step("driver", "load", **wording, when=BOOT, status=NEEDS_REBOOT, detail=detail)]
    return [
        *([] if case.context.consents_to(CONSENT) else first),
        make_step(
            "driver",
            "load",
            **wording,
            interrupts=_interrupted(case.context),
            undo="load the driver that is on the disk again and bring the network back",
            when=NOW,
            **case.context.consent(CONSENT),
            detail=_load_detail(case),
        ),
    ]


def _unfinished(state: DriverState) -> list[Step]:
    """Plan the rest of a reload that was interrupted, if one was."""
    if needs.interrupted_reload(state) is None:
        return []
    step = make_step(
        "driver",
        "restore",
        target=NETDEV_DRIVER,
        action="finish a reload that was interrupted",
        before="interrupted",
        after="finished",
        reason="an earlier run ended while the driver was being reloaded; what it took away was written down",
        when=NOW,
        undo="nothing is taken away",
    )
    return [step]


def _running(actual: HostState) -> dict[str, str | None]:
    return {"flavour": actual.stack["flavour"], "version": actual.stack["version"]}


def _installed(case: Case) -> dict[str, str | None]:
    release = installed_release(case.state, case.actual.stack)
    flavour = installed_flavour(case.state, case.actual.stack)
    return {"flavour": flavour, "version": release.release if release else None}


def _wanted(request: DriverRequest) -> dict[str, str | None]:
    return {"flavour": request.flavour, "version": request.version.release if request.version else None}


def _name(actual: HostState) -> str:
    """Return the running driver in words; without a driver of NVIDIA's NICs just the RDMA stack."""
    flavour = actual.stack["flavour"]
    if flavour not in FLAVOUR_TITLES:
        return "the loaded RDMA stack"
    version = actual.stack["version"] if flavour != INBOX else None
    return " ".join(filter(None, (FLAVOUR_TITLES[flavour], version)))


def _present(actual: HostState) -> str:
    if not needs.drives_nics(actual):
        return "this host has no mlx5 driver loaded"
    return f"this host runs {_name(actual)}"


def _reason(case: Case) -> str:
    return f"{case.request.asked_by} asks for {case.request.title}, {_present(case.actual)}"


def _packages_action(case: Case) -> str:
    request, present = case.request, _installed(case)
    title = FLAVOUR_TITLES.get(present["flavour"] or "", "")
    if not request.is_vendor:
        return (
            f"remove {title if present['flavour'] != INBOX else 'the packages of the vendor'} and keep the inbox driver"
        )
    if not title or present["flavour"] == INBOX:
        return f"install {request.title}"
    release = installed_release(case.state, case.actual.stack)
    is_release = request.version is None or (release is not None and release.fields == request.version.fields)
    if is_release and present["flavour"] == request.flavour:
        return f"finish the installation of {request.title}"
    if is_release or release is None:
        return f"replace {title} by {request.title}"
    verb = "downgrade" if needs.goes_back(case) else "upgrade"
    return f"{verb} {title} {release.release} to {request.title}"


def _packages_undo(case: Case) -> str:
    present = _installed(case)
    if present["flavour"] in {None, INBOX}:
        return "state: absent removes the packages again"
    return f"ask for {FLAVOUR_TITLES[present['flavour']]} {present['version'] or ''} again".replace("  ", " ")


def _packages_detail(case: Case) -> str:
    parts, settings = [], case.request.settings
    if settings["with_firmware_update"] and case.request.is_vendor:
        parts.append("firmware of the NICs is burned if it is older than the release's")
    is_installer = settings["source"] == ARCHIVE and (settings["archive"] or "").endswith(INSTALLERS)
    if case.request.is_vendor and is_installer:
        # What it says itself: all other Mellanox, OEM, OFED, RDMA or Distribution IB packages will be removed.
        parts.append("its installer removes the distribution's RDMA and InfiniBand packages, and what depends on them")
    if not case.request.is_vendor:
        removed = vendor_packages(case.state)
        replaced = builds_to_replace(case.state)
        if removed:
            parts.append(f"removes {', '.join(removed)}")
        if replaced:
            parts.append(f"replaces {', '.join(replaced)} by the distribution's")
    elif needs.goes_back(case):
        parts.append("the newer release is removed first, and its builds of the distribution's packages are replaced")
    clients = needs.clients_packages(case)
    if clients:
        parts.append(f"{', '.join(clients)} in the same release")
    if case.state["unfinished"]:
        parts.append(f"{', '.join(sorted(case.state['unfinished']))} half installed")
    if case.request.is_vendor and case.actual.is_loaded("nvidia_peermem"):
        # Its symbols have the versions of the stack that it was built against (NVIDIA/gpu-operator, issue 2868).
        parts.append(
            "nvidia-peermem was built against what runs now, and may not load with the new stack: have DKMS build "
            "the GPU driver again after this step (dkms remove and dkms install of nvidia)"
        )
    parts.append("what is loaded stays loaded")
    return "; ".join(parts)


def _interrupted(context: Context) -> str:
    """Return every interface that a reload interrupts, in words; the uplink is never among them."""
    nics = [nic for nic in context.actual.nvidia_nics() if nic["driver"] == NETDEV_DRIVER]
    names = [port["name"] for nic in nics for port in context.actual.ports_of(nic)]
    return f"traffic on {', '.join(names)}" if names else NOTHING


def _load_detail(case: Case) -> str:
    parts = ["links, addresses, routes, bonds, VLANs and VFs are restored"]
    functions = sum(len(case.actual.vf_addresses(nic)) for nic in case.actual.nvidia_nics())
    if functions:
        parts.append(f"the {functions} VFs are removed and created again")
    if case.context.interfaces:
        parts.append("what the driver forgets of this host's settings (queues, RoCE QoS, interrupts) is set again last")
    if needs.interrupted_reload(case.state) is not None:
        parts.append("an interrupted reload is taken up")
    return "; ".join(parts)
