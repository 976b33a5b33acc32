# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that are applied as given, where they do this collection's work: operators and device plugins.

Sources: the API of OLM (``Subscription``, ``ClusterExtension``), Flux (``HelmRelease``), Argo CD (``Application``,
``ApplicationSet``) and k3s (``HelmChart``); the programs' rules for their configuration are in ``checks.devplugin``.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Tuple

from ..checks import devplugin
from ..checks.devplugin_remarks import remarks
from ..common.findings import Place
from ..common.images import split_reference
from ..common.objects import pod_of
from .resources import Resource

Path = Tuple[str, ...]

_OPERATORS = {
    "network-operator": "the NVIDIA Network Operator",
    "nvidia-network-operator": "the NVIDIA Network Operator",
    "sriov-network-operator": "the SR-IOV Network Operator",
}
_EACH = "*"
_ARGO_SOURCES: tuple[Path, ...] = (("source", "chart"), ("sources", _EACH, "chart"))
_INSTALLERS: Mapping[tuple[str, str], tuple[Path, ...]] = {
    ("operators.coreos.com", "Subscription"): (("spec", "name"),),
    ("olm.operatorframework.io", "ClusterExtension"): (("spec", "source", "catalog", "packageName"),),
    ("helm.toolkit.fluxcd.io", "HelmRelease"): (("spec", "chart", "spec", "chart"), ("spec", "chartRef", "name")),
    ("argoproj.io", "Application"): tuple(("spec", *source) for source in _ARGO_SOURCES),
    ("argoproj.io", "ApplicationSet"): tuple(("spec", "template", "spec", *source) for source in _ARGO_SOURCES),
    ("helm.cattle.io", "HelmChart"): (("spec", "chart"),),
}
"""Where objects that install others name what they install, by group and kind; ``_EACH`` is any item of a list."""

_PLUGIN_KEYS = {"configList": "rdma_shared", "resourceList": "sriov"}
_PLUGIN_NAMES = {
    "rdma-devices": "rdma_shared",
    "network-operator-sriovdp-config": "sriov",
    "sriovdp-config": "sriov",
}


def check_given(resource: Resource) -> list[str]:
    """Judge one object that is applied as given; return the device resources that its configuration offers."""
    _remark_owners(resource)
    for place, name in _installed(resource):
        operator = _OPERATORS.get(name.rstrip("/").rpartition("/")[2])
        if operator:
            problem = f"installs {operator}, which would do this collection's work a second time"
            place.violation(problem, "take it out, or leave the cluster to the operator")
    return [name for place, kind, text in _configurations(resource) for name in _judged(place, kind, text)]


def _remark_owners(resource: Resource) -> None:
    """Say of an owner what becomes of its object, which exported ones have of the controller that made them.

    Source: Kubernetes' documentation of garbage collection: owners count by their uid, and an object none of whose
    owners is there is deleted.
    """
    metadata = resource.content.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("ownerReferences"):
        problem = "names an owner by its uid: Kubernetes deletes this object as soon as that owner is gone"
        hint = "take it out, unless the owner outlives the fabric"
        resource.place.at("metadata", "ownerReferences").notice(problem, hint)


def _installed(resource: Resource) -> Iterator[tuple[Place, str]]:
    group = str(resource.content.get("apiVersion")).rpartition("/")[0]
    for path in _INSTALLERS.get((group, resource.kind), ()):
        for place, value in _found(resource.content, path, resource.place):
            if isinstance(value, str):
                yield place, value
    if resource.kind == "Deployment":
        containers = (pod_of(dict(resource.content)) or {}).get("containers")
        for index, container in enumerate(containers if isinstance(containers, list) else []):
            image = container.get("image") if isinstance(container, Mapping) else None
            if isinstance(image, str):
                place = resource.place.at("spec", "template", "spec", "containers", index, "image")
                yield place, split_reference(image)["image"]


def _found(value: Any, path: Path, place: Place) -> Iterator[tuple[Place, Any]]:
    """Yield (place, value) of what stands at a path."""
    if not path:
        yield place, value
    elif path[0] == _EACH:
        for index, item in enumerate(value if isinstance(value, list) else []):
            yield from _found(item, path[1:], place.at(index))
    elif isinstance(value, Mapping):
        yield from _found(value.get(path[0]), path[1:], place.at(path[0]))


def _configurations(resource: Resource) -> Iterator[tuple[Place, str, str]]:
    """Yield (place, kind of plugin, text) of each device plugin configuration in a ConfigMap."""
    data = resource.content.get("data")
    if resource.kind != "ConfigMap" or not isinstance(data, Mapping):
        return
    for key, text in data.items():
        if isinstance(key, str) and isinstance(text, str):
            # A name that the operators and the plugins' own manifests use says what even broken text was meant to be.
            kinds = [kind for word, kind in _PLUGIN_KEYS.items() if f'"{word}"' in text]
            kind = kinds[0] if len(kinds) == 1 else _PLUGIN_NAMES.get(resource.name, "")
            if kind:
                yield resource.place.at("data", key), kind, text


def _judged(place: Place, kind: str, text: str) -> list[str]:
    config, problems = devplugin.CHECKS[kind](text)
    place.violations(problems)
    if problems:
        return []
    for remark in remarks(kind, config):
        place.inside(remark.path).remark(remark)
    return devplugin.resource_names(kind, config)
