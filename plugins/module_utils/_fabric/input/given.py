# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that are applied as given: what they install, whom they wait for, and what nobody could read of them.

Sources: the API of OLM (``Subscription``, ``ClusterExtension``), Flux (``HelmRelease``), Argo CD (``Application``,
``ApplicationSet``) and k3s (``HelmChart``); the programs' rules for their configuration are in ``checks.devplugin``.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Iterable, Iterator, Mapping, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import described, shown, type_name

from ..checks import devplugin, nfd_rules
from ..checks.devplugin import remarks
from ..common.findings import Place
from ..common.images import split_reference
from ..common.objects import pod_of, texts_of
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


def check_given(resource: Resource) -> list[str]:
    """Judge one object that is applied as given; return the device resources that its configuration offers."""
    _remark_owners(resource)
    for place, name in _installed(resource):
        operator = _OPERATORS.get(name.rstrip("/").rpartition("/")[2])
        if operator:
            problem = f"installs {operator}, which would do this collection's work a second time"
            place.violation(problem, "take it out, or leave the cluster to the operator")
    return [name for place, kind, text in _configurations(resource) for name in _judged(place, kind, text)]


def plain_of(resource: Resource) -> list[str]:
    """Return the resources that a given configuration of the SR-IOV device plugin offers without RDMA devices."""
    configs = [devplugin.check_sriov(text) for _place, kind, text in _configurations(resource) if kind == "sriov"]
    return [name for config, problems in configs if not problems for name in devplugin.plain_resources(config)]


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
            kind = devplugin.kind_of(resource.name, text)
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


# Objects of the GPU Operator in the input, which are applied as given: what they wait for of the NIC's side.
#
# Sources: the API of NVIDIA/gpu-operator (``GPUDirectRDMASpec`` of ``ClusterPolicy`` and ``NVIDIADriver``); its
# driver's pods wait without limit for the Network Operator's driver container where ``useHostMofed`` is not true
# (NVIDIA/k8s-driver-manager).
_RDMA = {
    ("nvidia.com/v1", "ClusterPolicy"): ("spec", "driver", "rdma"),
    ("nvidia.com/v1alpha1", "NVIDIADriver"): ("spec", "rdma"),
}


def remark_gpu_operator(objects: Iterable[Resource], *, alone: bool) -> None:
    """Name GPU drivers that wait for the container of a NIC driver that nothing of the input deploys.

    ``alone`` says that no resource of a Network Operator is given: a ``ClusterPolicy`` may stand for the other one.
    """
    for each in objects:
        if alone and each.kind == "ClusterPolicy":
            hint = "NicClusterPolicy (mellanox.com/v1alpha1) is the Network Operator's"
            each.place.at("kind").notice("is the policy of the GPU Operator, which is applied as it is", hint)
        path = _RDMA.get((str(each.content.get("apiVersion")), each.kind), ())
        rdma = _at(each.content, path) if path else None
        if isinstance(rdma, Mapping) and rdma.get("enabled") is True and rdma.get("useHostMofed") is not True:
            _say(each.place.at(*path, "enabled"))


def _say(place: Place) -> None:
    problem = (
        "has the GPU driver wait for the Network Operator's driver container, which the input does not deploy: nodes "
        "with NVIDIA's NICs get no GPU driver"
    )
    place.notice(problem, "set useHostMofed: true beside it, unless that container comes from elsewhere")


def _at(value: Any, path: Iterable[str]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


_API = "nfd.k8s-sigs.io/v1alpha1"
_RULES = {"NodeFeatureRule": "rules", "NodeFeatureGroup": "featureGroupRules"}


def check_feature_rules(objects: Iterable[Resource], *, deployed: bool) -> None:
    """Refuse what has no effect on any node; ``deployed``: Node Feature Discovery is, with this collection's settings.

    Those of another one may let it write taints and labels of Kubernetes, and read groups.
    """
    for each in objects:
        if each.content.get("apiVersion") != _API:
            continue
        if each.kind in _RULES:
            _check_rules(each, _RULES[each.kind], deployed=deployed)
        if each.kind == "NodeFeature":
            _check_features(each, reserved=deployed)


def _check_rules(resource: Resource, field: str, *, deployed: bool) -> None:
    place, spec = resource.spec_place, resource.spec
    for path, wrong in nfd_rules.check(spec, field, reserved=deployed):
        place.at(*path).violation(wrong.problem, wrong.hint)
    for path, remark in nfd_rules.remarks(spec, field):
        place.at(*path).remark(remark)
    if deployed and resource.kind == "NodeFeatureGroup":
        problem = "is not read by the Node Feature Discovery that is deployed here (feature gate NodeFeatureGroupAPI)"
        resource.place.at("kind").notice(problem, "use a NodeFeatureRule, or rdma_fabric_nfd: false with one of yours")
    for path in nfd_rules.taints_of(spec, field) if deployed else ():
        problem = "is left out by the Node Feature Discovery that is deployed here (enableTaints)"
        place.at(*path).notice(problem, "set taints elsewhere, or rdma_fabric_nfd: false with one of yours")


def _check_features(resource: Resource, *, reserved: bool) -> None:
    if not resource.metadata("labels").get(nfd_rules.NODE_NAME):
        problem = f"has no label {nfd_rules.NODE_NAME}: Node Feature Discovery gives its features to no node"
        resource.place.at("metadata", "labels").violation(problem, "add it with the name of the node")
    for path, wrong in nfd_rules.check_labels(texts_of(resource.spec, "labels"), reserved=reserved):
        resource.spec_place.at("labels", *path).violation(wrong.problem, wrong.hint)


# What ConfigMaps and Secrets hold, and certificates in webhooks: text, or base64, or the API server refuses them.
#
# Its refusal would print what a Secret holds, so no value of one is in a message here. A certificate that is no base64
# it takes for a fault of its own (500), which a push would try again until its time is over.
_TEXTS = {"ConfigMap": "data", "Secret": "stringData"}
_ENCODED = {"ConfigMap": "binaryData", "Secret": "data"}
# Where a kind has certificates.
_CERTIFICATES = {
    "ValidatingWebhookConfiguration": ("webhooks", _EACH, "clientConfig", "caBundle"),
    "MutatingWebhookConfiguration": ("webhooks", _EACH, "clientConfig", "caBundle"),
    "CustomResourceDefinition": ("spec", "conversion", "webhook", "clientConfig", "caBundle"),
    "APIService": ("spec", "caBundle"),
}


def check_certificates(resource: Resource) -> None:
    """Note certificates of a webhook, a definition or an extension of the API that the API server can't read."""
    steps = _CERTIFICATES.get(resource.kind, ())
    if not steps or ".k8s.io/" not in str(resource.content.get("apiVersion")):
        return
    for place, value in _found(resource.content, steps, resource.place):
        if value is not None and (not isinstance(value, str) or not _is_base64(value)):
            place.violation("is not valid base64", "give the certificate (PEM) as base64, in one line or several")


def check_data(resource: Resource) -> None:
    """Note what the API server refuses of what a ConfigMap or a Secret holds."""
    if resource.content.get("apiVersion") != "v1" or resource.kind not in _TEXTS:
        return
    is_secret = resource.kind == "Secret"
    for field in (_TEXTS[resource.kind], _ENCODED[resource.kind]):
        value, place = resource.content.get(field), resource.place.at(field)
        if value is not None and not isinstance(value, Mapping):
            place.violation(f"is {type_name(value)}, not a mapping")
            continue
        for key, item in (value or {}).items():
            if item is not None and not isinstance(item, str):
                _refuse_type(item, place.at(str(key)), is_secret=is_secret)
            elif field == _ENCODED[resource.kind] and not _is_base64(item or ""):
                hint = f"encode it, or give it as text in {_TEXTS[resource.kind]}"
                place.at(str(key)).violation("is not valid base64", hint)


def _refuse_type(value: Any, place: Place, *, is_secret: bool) -> None:
    what = type_name(value) if is_secret else described(value)
    scalar = not isinstance(value, (Mapping, list))
    hint = "quote it" + ("" if is_secret else f': "{place.written or shown(value)}"') if scalar else "put a | before it"
    place.violation(f"is {what}; the API server takes text only", hint)


def _is_base64(text: str) -> bool:
    """Tell whether Go's decoder takes it, which passes over line ends."""
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
