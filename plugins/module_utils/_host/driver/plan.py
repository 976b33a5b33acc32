# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the driver stack of the NICs against what an operator policy asks for. Private: it may change."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import NETDEV_DRIVER, Actual
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.driver.version import (
    DriverVersion,
    is_image_digest,
    parse_driver_version,
    parse_installed,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.host_requests import Request, requests_for
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import (
    NOT_EXECUTED_YET,
    NOTHING,
    Step,
    make_step,
    refused_step,
)

KEY = "mlx5"
# Since 25.01 there is no MLNX_OFED release any more, only DOCA-OFED.
_FIRST_DOCA_ONLY = (25, 1)
_DOCA_IMAGE = "doca-driver"
_FLAVOURS = {"inbox": "the inbox mlx5 driver", "mlnx-ofed": "MLNX_OFED", "doca-ofed": "DOCA-OFED"}
_VENDOR_FLAVOURS = ("mlnx-ofed", "doca-ofed")


def plan(context: Context) -> ConcernPlan:
    """Return a step when a policy asks for a driver that is not the loaded one; hosts without NVIDIA NIC get none."""
    requests = requests_for(context, "driver")
    if not requests or not context.actual.nvidia_nics():
        return [], []
    if len(requests) > 1:
        return [_contradiction(context, requests)], []
    request = requests[0]
    section = request["driver"]
    text = str(section.get("version") or "")
    version = parse_driver_version(text)
    if version is None and not is_image_digest(text):
        return [_unreadable(context, request, text)], []
    loaded = _loaded_version(context.actual)
    if version is not None and loaded is not None and loaded.fields == version.fields:
        return [], []
    return [_replacement(context, request, version, loaded)], []


def wanted_flavour(section: Mapping[str, Any], version: DriverVersion | None) -> str:
    """Return the name of the stack that an ``ofedDriver`` section means."""
    newer = version is not None and (version.doca is not None or version.fields[:2] >= _FIRST_DOCA_ONLY)
    return "DOCA-OFED" if newer or section.get("image") == _DOCA_IMAGE else "MLNX_OFED"


def _loaded_version(actual: Actual) -> DriverVersion | None:
    """Return the release of the loaded vendor driver; the inbox driver has the kernel's version, not a release."""
    if actual.stack["flavour"] not in _VENDOR_FLAVOURS:
        return None
    return parse_driver_version(str(actual.stack.get("version") or ""))


def _before(actual: Actual) -> dict[str, Any]:
    return {"flavour": actual.stack["flavour"], "version": actual.stack.get("version")}


def _after(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: section.get(key) for key in ("repository", "image", "version")}


def _contradiction(context: Context, requests: list[Request]) -> Step:
    names = [f"{request['source']} ({request['driver'].get('version')})" for request in requests]
    return refused_step(
        "driver",
        KEY,
        target=NETDEV_DRIVER,
        action="choose between contradicting driver requests",
        before=_before(context.actual),
        after=[_after(request["driver"]) for request in requests],
        reason=f"{' and '.join(names)} all select this host",
        detail="narrow their nodeSelector so that one is left",
    )


def _unreadable(context: Context, request: Request, text: str) -> Step:
    return refused_step(
        "driver",
        KEY,
        target=NETDEV_DRIVER,
        action="read the wanted driver version",
        before=_before(context.actual),
        after=_after(request["driver"]),
        reason=f"{request['source']} asks for an ofedDriver",
        detail=f"its version {text!r} is no driver release such as 24.07-0.6.1.0-0 and no sha256 digest",
    )


def _replacement(
    context: Context, request: Request, version: DriverVersion | None, loaded: DriverVersion | None
) -> Step:
    actual, section = context.actual, request["driver"]
    wanted = _wanted_text(section, version)
    flavour = actual.stack["flavour"]
    wording: dict[str, Any] = {
        "target": NETDEV_DRIVER,
        "action": _action(actual, wanted, version, loaded),
        "before": _before(actual),
        "after": _after(section),
        "reason": f"{request['source']} asks for {wanted}, {_present(actual)}",
    }
    if actual.facts["system"].get("ostree"):
        detail = "this host's system is an ostree image, so drivers are layered by its own tools or run in a container"
        return refused_step("driver", KEY, **wording, detail=detail)
    return make_step(
        "driver",
        KEY,
        **wording,
        interrupts=_interrupted(context),
        undo="return to the inbox driver" if flavour == "inbox" else f"install {_installed(actual)} again",
        status=NOT_EXECUTED_YET,
        detail=_detail(actual, version),
    )


def _wanted_text(section: Mapping[str, Any], version: DriverVersion | None) -> str:
    flavour = wanted_flavour(section, version)
    if version is None:
        return f"{flavour} of image digest {section['version']}"
    return f"{flavour} {version.release}" + (f" (DOCA {version.doca})" if version.doca else "")


def _installed(actual: Actual) -> str:
    name = _FLAVOURS.get(actual.stack["flavour"], "")
    return " ".join(filter(None, (name, actual.stack.get("version") if name != _FLAVOURS["inbox"] else None)))


def _present(actual: Actual) -> str:
    present = _installed(actual)
    return f"this host runs {present}" if present else "this host has no mlx5 driver loaded"


def _action(actual: Actual, wanted: str, version: DriverVersion | None, loaded: DriverVersion | None) -> str:
    present = _installed(actual)
    if _is_installed(actual, version):
        return f"load the installed {wanted}" + (f" in place of {present}" if present else "")
    if not present:
        return f"install {wanted}"
    if version is None or loaded is None:
        return f"replace {present} by {wanted}"
    return f"{'upgrade' if loaded.fields < version.fields else 'downgrade'} {present} to {wanted}"


def _is_installed(actual: Actual, version: DriverVersion | None) -> bool:
    """Return whether the wanted release is on the disk: after an installation without a reload another one runs."""
    installed = parse_installed(str(actual.stack.get("installed") or ""))
    return version is not None and installed is not None and installed.fields == version.fields


def _interrupted(context: Context) -> str:
    """Name every interface that a reload takes away by PCI address, the uplink last and marked, so that it is seen."""
    plain, uplinks = [], []
    for nic in context.actual.nvidia_nics():
        for port in context.actual.ports_of(nic) if nic["driver"] == NETDEV_DRIVER else []:
            reason = context.actual.uplink_reason(None, port)
            if reason:
                uplinks.append(f"{port['name']} (the uplink: {reason})")
            else:
                plain.append(port["name"])
    names = plain + uplinks
    return f"traffic on {', '.join(names)}" if names else NOTHING


def _detail(actual: Actual, version: DriverVersion | None) -> str:
    parts = []
    if version is None:
        parts.append("a digest does not say which release it holds, so it can't be compared with the loaded driver")
    functions = sum(len(actual.vf_addresses(nic)) for nic in actual.nvidia_nics())
    if functions:
        parts.append(f"the reload removes the {functions} virtual functions")
    if actual.facts["system"].get("secure_boot"):
        parts.append("Secure Boot is on: the modules must be signed with an enrolled key")
    return "; ".join(parts)
