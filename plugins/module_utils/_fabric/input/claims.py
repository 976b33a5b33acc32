# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of Dynamic Resource Allocation in the input, which are applied as given: functions that nobody offers so.

The SR-IOV Network Operator deploys k8snetworkplumbingwg/dra-driver-sriov in place of the SR-IOV device plugin, by its
feature gate ``dynamicResourceAllocation`` since the chart of 26.4. Sources: the API of that driver
(``SriovResourcePolicy``, ``DeviceAttributes``), its ``DeviceClass``, and ``resource.k8s.io`` v1beta1 to v1, where a
request has its class below ``exactly`` or ``firstAvailable``, or of its own. NVIDIA/k8s-dra-driver-gpu has the classes
of GPUs and of the domains of their NVLinks (``ComputeDomain``, whose controller makes a template of claims).
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence, Tuple, Union

from ..common.images import split_reference
from ..common.objects import containers_of, items_of, mapping_of, pod_of
from .resources import Resource

Path = Tuple[Union[str, int], ...]

DRIVER = "sriovnetwork.k8snetworkplumbingwg.io"
"""The name of the driver, of its API group and of its class of devices."""

# The classes of NVIDIA's DRA driver for GPUs.
_OF_GPUS = (
    "compute-domain-daemon.nvidia.com",
    "compute-domain-default-channel.nvidia.com",
    "gpu.nvidia.com",
    "mig.nvidia.com",
    "vfio.gpu.nvidia.com",
)
_PROGRAM = "dra-driver-sriov"
_SPECS: Mapping[str, tuple[str, ...]] = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}


def remark(objects: Sequence[Resource], *, has_plugins: bool) -> None:
    """Name what waits for the driver, where its own objects are none of the given ones.

    ``has_plugins``: a device plugin offers functions on the same nodes.
    """
    if any(map(_is_driver, objects)):
        return
    defined = {mapping_of(mapping_of(each.spec).get("names")).get("kind") for each in objects if _is_definition(each)}
    for each in objects:
        group = str(each.content.get("apiVersion")).rpartition("/")[0]
        if group == DRIVER:
            _remark_policy(each, is_defined=each.kind in defined)
        elif group == "resource.k8s.io":
            for path in _waiting(each):
                _remark_claim(each, path, has_plugins=has_plugins)


def without_functions(objects: Sequence[Resource]) -> frozenset[tuple[str, str, str]]:
    """Return the kind, namespace and name of each claim, or template of claims, that brings a pod no function."""
    found = set()
    for each in objects:
        namespace = each.namespace or "default"
        classes = [asked for _path, asked in _classes(each)]
        if each.kind == "ComputeDomain":
            channel = mapping_of(mapping_of(each.spec).get("channel"))
            template = mapping_of(channel.get("resourceClaimTemplate"))
            found.add(("ResourceClaimTemplate", namespace, str(template.get("name"))))
        elif classes and all(asked in _OF_GPUS for asked in classes):
            found.add((each.kind, namespace, each.name))
    return frozenset(found)


def _is_driver(resource: Resource) -> bool:
    """Tell whether an object runs the driver: its program has the same name in the images of all who build it."""
    pod = pod_of(dict(resource.content)) if resource.kind == "DaemonSet" else None
    images = [each.get("image") for each in containers_of(pod)] if pod else []
    return any(isinstance(image, str) and split_reference(image)["image"] == _PROGRAM for image in images)


def _is_definition(resource: Resource) -> bool:
    return resource.kind == "CustomResourceDefinition" and mapping_of(resource.spec).get("group") == DRIVER


def _remark_policy(resource: Resource, *, is_defined: bool) -> None:
    problem = "is read by the DRA driver for SR-IOV, which is not deployed here"
    if not is_defined:
        problem += ", nor is the definition of its kind"
    hint = (
        "install the driver before this run (the SR-IOV Network Operator does with its feature gate "
        "dynamicResourceAllocation); without it, sriovDevicePlugin or a SriovNetworkNodePolicy offers VFs to pods"
    )
    resource.place.at("kind").notice(problem, hint)


def _remark_claim(resource: Resource, path: Path, *, has_plugins: bool) -> None:
    problem = "asks for VFs of the DRA driver for SR-IOV, which is not deployed here: pods stay Pending without it"
    hint = "have pods ask for nvidia.com/NAME of their network, in place of the claim"
    if not has_plugins:
        hint = "install the driver, or offer VFs to pods by a SriovNetworkNodePolicy"
    resource.place.at(*path).notice(problem, hint)


def _waiting(resource: Resource) -> Iterator[Path]:
    """Yield where an object names the driver's devices."""
    if resource.kind == "DeviceClass":
        for index, selector in items_of(resource.spec, "selectors"):
            expression = mapping_of(selector.get("cel")).get("expression")
            if resource.name != DRIVER and isinstance(expression, str) and DRIVER in expression:
                yield ("spec", "selectors", index, "cel", "expression")
        return
    yield from (path for path, asked in _classes(resource) if asked == DRIVER)


def _classes(resource: Resource) -> Iterator[tuple[Path, Any]]:
    """Yield each class of devices that a claim or a template asks for, and where."""
    path, value = _SPECS.get(resource.kind, ()), resource.content
    for step in path:
        value = mapping_of(value.get(step))
    for index, request in items_of(mapping_of(value.get("devices")), "requests") if path else ():
        where: Path = (*path, "devices", "requests", index)
        parts: list[tuple[Path, Mapping[str, Any]]] = [(where, request)]
        parts.append(((*where, "exactly"), mapping_of(request.get("exactly"))))
        parts += [((*where, "firstAvailable", number), each) for number, each in items_of(request, "firstAvailable")]
        named = ((place, each.get("deviceClassName")) for place, each in parts)
        yield from (((*place, "deviceClassName"), asked) for place, asked in named if asked is not None)
