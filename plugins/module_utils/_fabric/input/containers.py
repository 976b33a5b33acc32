# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's container held against the rest of the input: files it shows, hosts that install packages as well."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line

from ..checks import driver_container
from ..common import openshift
from ..common.findings import Document, Findings, Place
from .policy import Policy, restricts_nodes
from .pools import note
from .resources import Resource
from .settings import VARIABLES

_OF_THE_CONTAINER = (driver_container.NODES, "proxy")


def check(
    policies: Sequence[Policy],
    objects: Sequence[Resource],
    settings: Mapping[str, Any],
    namespace: str,
    findings: Findings,
) -> None:
    """Judge the sections of the driver where it is a container, and name the settings that nothing reads.

    ``settings`` are those that were given as variables.
    """
    asking = [policy for policy in policies if driver_container.SECTION in policy.spec]
    if not driver_container.in_container(settings):
        _variable_has_no_effect(settings, (driver_container.NODES,), findings, "rdma_fabric_driver_source is packages")
        return
    if not asking:
        names = (driver_container.SOURCE, *_OF_THE_CONTAINER)
        _variable_has_no_effect(settings, names, findings, "no policy has an ofedDriver")
    _remark_groups(asking, settings, findings)
    given = driver_container.data_of([each.content for each in objects], namespace)
    for policy in asking:
        note(driver_container.check(policy.spec[driver_container.SECTION], given), policy.at(driver_container.SECTION))


def _remark_groups(asking: Sequence[Policy], settings: Mapping[str, Any], findings: Findings) -> None:
    """Name what is said of a group of nodes and makes no difference to it."""
    groups = settings.get(driver_container.NODES) or []
    place = Place(findings, Document(f"{VARIABLES}{driver_container.NODES}", groups))
    sections = [policy.spec[driver_container.SECTION] for policy in asking]
    for index, group in enumerate(groups):
        if group.get("runtime") and group.get("os") != "rhel":
            place.at(index, "runtime").notice("has no effect here", "only nodes with the os rhel look at it")
        compiled = any(driver_container.compiles(group, each, str(each.get("version") or "")) for each in sections)
        for name in ("ostree_version", "toolkit_image"):
            if group.get(name) and not (compiled and settings.get(openshift.SETTING)):
                hint = "it is for images that are compiled on nodes of OpenShift"
                place.at(index, name).notice("has no effect here", hint)


def _variable_has_no_effect(settings: Mapping[str, Any], names: Sequence[str], findings: Findings, why: str) -> None:
    for name in names:
        if settings.get(name):
            Place(findings, Document(f"{VARIABLES}{name}", settings[name])).notice("has no effect here", why)


def remark_proxy(policies: Sequence[Policy], proxy: Mapping[str, Any], place: Place) -> None:
    """Name the parts of the proxy, which stands at ``place``, that every section has variables of its own for."""
    sections = [each.spec[driver_container.SECTION] for each in policies if driver_container.SECTION in each.spec]
    names = [{variable.get("name") for variable in section.get("env") or []} for section in sections]
    for variable, part in driver_container.PROXY_VARIABLES:
        if proxy.get(part) and names and all({variable, variable.lower()} & each for each in names):
            place.at(part).notice("has no effect here", f"ofedDriver has {variable} among its env, which counts")


def contested(
    policies: Sequence[Policy], settings: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]
) -> list[Violation]:
    """Return the hosts that change packages of the driver where every node has its container.

    ``hosts`` are the desired states. Where a policy says which nodes it is about, each host refuses both by itself, as
    only its labels tell.
    """
    if not driver_container.in_container(settings):
        return []
    asking = [each for each in policies if driver_container.SECTION in each.spec and not restricts_nodes(each)]
    if not asking:
        return []
    owner = f"{asking[0].kind} {asking[0].name}".rstrip()
    problem = f"is about packages, and the driver's container of {owner} loads a driver on the same nodes"
    hint = "leave it out, or give rdma_fabric_driver_source: packages; to remove packages, run that first"
    return [
        Violation(f"host {one_line(host)}: rdma_fabric_driver", "", problem, hint)
        for host, desired in hosts.items()
        if desired.get("driver") and desired["driver"]["source"] != driver_container.CONTAINER
    ]
