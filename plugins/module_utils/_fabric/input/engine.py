# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who makes the cluster objects of the input: this collection (``direct``), or the operator of a chart (``helm``).

With the operator, custom resources are its input: what they ask of hosts is its work, and their fields are judged by
the definitions of its chart as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line

from ..checks import driver_container
from ..common.findings import Document, Findings, Place
from ..common.images import chosen_release
from ..common.schema import REFUSED, RETIRED
from .functions import FunctionPolicy, PoolConfig
from .models_sriov import SRIOV_MODELS
from .policy import Policy
from .resources import Resource
from .settings import CHART_SETTINGS, DIRECT, ENGINE, HELM, VARIABLES

CHART = "network-operator"
REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"
_OF_DRIVERS = (driver_container.SOURCE, driver_container.NODES)
_OF_RENDERING = (
    "nfd",
    "openshift",
    "cni_bin_dir",
    "cni_conf_dir",
    "kubelet_dir",
    "registry_mirrors",
    "image_overrides",
    "image_pull_secrets",
    *_OF_DRIVERS,
)
"""Settings of what this collection renders itself, which is nothing beside the operator."""


def chart_of(settings: Mapping[str, Any], values: Mapping[str, Any], namespace: str) -> dict[str, Any] | None:
    """Return the release that is to be installed, None where this collection renders the cluster objects itself.

    ``settings`` are those of the role that are right, ``values`` the merged values of the chart. A chart on the
    controller has an absolute path.
    """
    if settings.get(ENGINE) != HELM:
        return None
    reference = settings.get("helm_chart") or CHART
    is_vendors = not reference.startswith("/") and reference.rpartition("/")[2] == CHART
    return {
        "reference": reference,
        "repository": (settings.get("helm_chart_repository") or REPOSITORY) if "/" not in reference else "",
        "version": settings.get("helm_chart_version") or (chosen_release(settings) if is_vendors else ""),
        "release": settings.get("helm_release") or CHART,
        "namespace": namespace,
        "values": dict(values),
    }


def effective(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the role, without those of drivers where an operator deploys these."""
    with_operator = settings.get(ENGINE) == HELM
    return {name: value for name, value in settings.items() if not (with_operator and name in _OF_DRIVERS)}


def remark_settings(settings: Mapping[str, Any], chart: Mapping[str, Any] | None, findings: Findings) -> None:
    """Say which settings mean nothing with the engine that was chosen."""

    def notice(name: str, problem: str, hint: str) -> None:
        Place(findings, Document(f"{VARIABLES}{name}", settings[name])).notice(problem, hint)

    if chart is None:
        for name in CHART_SETTINGS:
            if settings.get(name):
                notice(
                    name, f"has no effect with the engine {DIRECT}", f"set {VARIABLES}{ENGINE}: {HELM}, or remove it"
                )
        return
    hint = f"say it in {VARIABLES}helm_values or in the NicClusterPolicy: the operator makes the cluster objects"
    for name in _OF_RENDERING:
        if settings.get(name) not in (None, {}, []):
            notice(name, f"has no effect with the engine {HELM}", hint)
    if settings.get("helm_chart_repository") and not chart["repository"]:
        notice("helm_chart_repository", f"has no effect beside the chart {chart['reference']}", "remove it")
    if settings.get("helm_chart_version") and chart["reference"].startswith("/"):
        notice("helm_chart_version", "has no effect: a chart on the controller has a release of its own", "remove it")


def leave_to_chart(findings: Findings, values: Findings) -> None:
    """Keep of the findings about resources what holds for an operator too, and of those about ``values`` no refusal.

    A chart leaves values unread that it does not know, and may be newer than this collection.
    """
    findings.violations = [each for each in findings.violations if not each.problem.startswith(REFUSED)]
    retired = [each for each in findings.notices if each.problem.startswith(RETIRED)]
    hint = "a chart of a later release has a definition without it, and the API server refuses it then"
    findings.notices = [replace(each, hint=hint) for each in retired]
    for wrong in values.violations:
        place = Place(findings, Document(wrong.source, None))
        problem = f"{wrong.path}: {wrong.problem}" if wrong.path else wrong.problem
        place.notice(problem, f"it is given to the chart as it is; {wrong.hint}" if wrong.hint else "")


def remark_functions(resources: Iterable[Resource], values: Mapping[str, Any], findings: Findings) -> None:
    """Say that kinds of the SR-IOV operator wait for an operator that the chart leaves out unless told otherwise."""
    switch = values.get("sriovNetworkOperator")
    given = [each for each in resources if each.kind in SRIOV_MODELS]
    if given and not (isinstance(switch, Mapping) and switch.get("enabled")):
        problem = "is of the SR-IOV operator, which the values do not switch on"
        hint = "set sriovNetworkOperator.enabled: true, unless the cluster has that operator from elsewhere"
        given[0].place.at("kind").notice(problem, hint)


def contested(
    policies: Sequence[Policy],
    function_policies: Iterable[FunctionPolicy],
    configs: Iterable[PoolConfig],
    hosts: Mapping[str, Mapping[str, Any]],
) -> list[Violation]:
    """Return what variables of hosts ask for that the operator would do to the same hosts.

    ``hosts`` are the desired states by inventory name. Which nodes a selector means is known in the cluster only, so
    one resource that asks for something is enough.
    """
    functions = [one for one in function_policies if one.valid and _makes_functions(one)]
    found = [
        *_asked(hosts, "driver", [one.source for one in policies if "ofedDriver" in one.spec], "ofedDriver"),
        *_asked(hosts, "peer_memory", [one.source for one in policies if one.peer_memory is not None], "nvPeerDriver"),
        *_asked(
            hosts, "netns_mode", [one.place.document.source for one in configs if one.request["netns_mode"]], "rdmaMode"
        ),
    ]
    problem = "makes VFs, and so would the SR-IOV operator"
    for host, desired in hosts.items() if functions else ():
        if any(entry.get("vfs") is not None for entry in desired.get("interfaces") or ()):
            first = functions[0]
            hint = (
                f"leave vfs out, or set externallyManaged: true in the SriovNetworkNodePolicy {first.name} "
                f"({first.entry['source']})"
            )
            found.append(Violation(f"host {one_line(host)}: {VARIABLES}interfaces", "vfs", problem, hint))
    return found


def _asked(hosts: Mapping[str, Mapping[str, Any]], key: str, sources: Sequence[str], field: str) -> Iterable[Violation]:
    for host, desired in hosts.items() if sources else ():
        if desired.get(key) is not None:
            problem = f"is work on a host that the operator would also do: {sources[0]} has {field}"
            yield Violation(f"host {one_line(host)}: {VARIABLES}{key}", "", problem, f"leave it out, or {field}")


def _makes_functions(policy: FunctionPolicy) -> bool:
    spec = policy.spec
    return bool(spec.get("numVfs")) and not spec.get("externallyManaged")
