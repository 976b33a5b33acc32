# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's container: where it is asked for, on which groups of nodes it runs, and what of it can't be made.

Sources: ``pkg/state/state_ofed.go`` and ``pkg/nodeinfo`` of the Network Operator. A group of nodes is a mapping:
``os``, ``os_version``, ``kernel`` and ``arch`` as labels of nodes hold them, and beside them what is known of it:
``precompiled`` (whether the registry has an image for its kernel), ``runtime`` (of containers), ``ostree_version`` and
``toolkit_image`` (of OpenShift).
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Sequence

from ..common import openshift
from ..common.features import FEATURES, NIC_LABEL
from ..common.jsontext import Problem
from ..common.names import label_value

Group = Dict[str, Any]
Policies = Sequence[Mapping[str, Any]]

SECTION = "ofedDriver"
SOURCE, NODES = "driver_source", "driver_nodes"
"""The settings: where the driver comes from, and the groups of nodes."""
PACKAGES, CONTAINER = "packages", "container"
SOURCES = (PACKAGES, CONTAINER)
RUNTIMES = ("containerd", "cri-o", "docker")
ARCHITECTURES = ("amd64", "arm64")
IDENTITY = ("os", "os_version", "kernel", "arch")
"""What makes two nodes one group."""
DRIVER, INIT, TOOLKIT = "mofed-container", "network-operator-init-container", "openshift-driver-toolkit-ctr"
CONTAINERS = (DRIVER, INIT, TOOLKIT)
WAIT_LABEL = "network.nvidia.com/operator.mofed.wait"
"""Label of nodes: "false" once the driver's container is ready, or where there is none."""
SAFE_LOAD = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load"
"""Annotation of a node whose driver waits: the init container sets it, and goes on once somebody has taken it off."""

PROXY_VARIABLES = (("HTTPS_PROXY", "httpsProxy"), ("HTTP_PROXY", "httpProxy"), ("NO_PROXY", "noProxy"))
"""Variables of the container, with the parts of the proxy's setting that they have by default."""

LABELS = {
    "os": f"{FEATURES}system-os_release.ID",
    "os_version": f"{FEATURES}system-os_release.VERSION_ID",
    "kernel": f"{FEATURES}kernel-version.full",
    "arch": "kubernetes.io/arch",
}
OSTREE_LABEL = f"{FEATURES}system-os_release.OSTREE_VERSION"
_RED_HAT = {"certConfig": "/etc/pki/ca-trust/extracted/pem", "repoConfig": "/etc/yum.repos.d"}
FOLDERS: dict[str, dict[str, str]] = {
    "rhcos": _RED_HAT,
    "rhel": _RED_HAT,
    "sles": {"certConfig": "/etc/ssl", "repoConfig": "/etc/zypp/repos.d"},
    "ubuntu": {"certConfig": "/usr/local/share/ca-certificates", "repoConfig": "/etc/apt/sources.list.d"},
}
"""Folders of the container in which the files of each ConfigMap are shown, by the node's system."""

_OF_A_LOADED_DRIVER = {"initialDelaySeconds": 10, "periodSeconds": 30, "failureThreshold": 1, "timeoutSeconds": 10}
_PROBES = {
    "startupProbe": {"initialDelaySeconds": 30, "periodSeconds": 10, "failureThreshold": 120, "timeoutSeconds": 10},
    "livenessProbe": _OF_A_LOADED_DRIVER,
    "readinessProbe": _OF_A_LOADED_DRIVER,
}


def in_container(settings: Mapping[str, Any]) -> bool:
    """Tell whether ``ofedDriver`` asks for the driver's container, not for packages on the hosts."""
    return settings.get(SOURCE) == CONTAINER


def wants_container(spec: Mapping[str, Any]) -> bool:
    """Tell whether any of the policies of a FabricSpec asks for the driver's container."""
    asked = any(isinstance(each.get(SECTION), Mapping) for each in policies_of(spec))
    return in_container(spec.get("settings") or {}) and asked


def policies_of(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the specs of all policies of a FabricSpec."""
    found = [spec["cluster_policy"]] if spec.get("cluster_policy") else []
    return [each["spec"] for each in [*found, *(spec.get("node_policies") or [])]]


def lacks_nodes(spec: Mapping[str, Any]) -> bool:
    """Tell whether a FabricSpec asks for the container, and only hosts can tell on which groups of nodes."""
    return wants_container(spec) and not spec["settings"].get(NODES)


def groups_of(labels: Iterable[Mapping[str, str]]) -> list[Group]:
    """Return the groups of the nodes with these labels, each once and in order.

    As for the operator, a node without a NIC of the vendor, or without one of the labels of a group, is in none.
    """
    found = {
        tuple(each[LABELS[name]] for name in IDENTITY)
        for each in labels
        if each.get(NIC_LABEL) == "true" and all(each.get(label) for label in LABELS.values())
    }
    return [dict(zip(IDENTITY, values)) for values in sorted(found)]


def nodes_of(spec: Mapping[str, Any]) -> list[Group]:
    """Return the groups of nodes of a FabricSpec: those given as such, or else what was read of hosts.

    Before hosts were read none is known, and no DaemonSet of the driver is rendered.
    """
    return list((spec.get("settings") or {}).get(NODES) or spec.get(NODES) or [])


def is_digest(version: str) -> bool:
    """Tell whether the version of the image is a digest, which stands for every group of nodes."""
    return version.startswith("sha256")


def compiles(group: Group, section: Mapping[str, Any], version: str) -> bool:
    """Tell whether the container of a group of nodes compiles the driver on them."""
    return not (is_digest(version) or section.get("forcePrecompiled") or group.get("precompiled"))


def probe(section: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return the numbers of a probe, in seconds and failures; as for the operator, one below 1 is not given."""
    given = section.get(name) or {}
    return {field: default if given.get(field, 0) < 1 else given[field] for field, default in _PROBES[name].items()}


def ready_seconds(section: Mapping[str, Any]) -> int:
    """Return how long the container of a node may take until it is ready, by its startup probe."""
    numbers = probe(section, "startupProbe")
    return numbers["initialDelaySeconds"] + numbers["periodSeconds"] * numbers["failureThreshold"]


def check_groups(groups: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return what is wrong with groups of nodes that were given as such."""
    found, seen = [], set()
    for index, group in enumerate(groups):
        for name in (*IDENTITY, "ostree_version"):
            found += [
                Problem(f"[{index}].{name}", each.problem, each.hint or "write it as the label of the node has it")
                for each in label_value(str(group.get(name) or ""))
            ]
        identity = tuple(group.get(name) for name in IDENTITY)
        if identity in seen:
            found.append(Problem(f"[{index}]", "is given twice", "keep one of them"))
        seen.add(identity)
    return found


def check(section: Mapping[str, Any], config_maps: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the section, wherever it runs.

    ``config_maps`` are those of the input in the namespace of the fabric, by name.
    """
    found, seen = [], {"NODE_NAME"}
    for index, variable in enumerate(section.get("env") or []):
        name = variable.get("name")
        if name in seen:
            hint = "the init container has it already" if name == "NODE_NAME" else "keep one of them"
            found.append(Problem(f"env[{index}].name", f"{name} is set twice", hint))
        seen.add(name)
    names = {field: (section.get(field) or {}).get("name") or "" for field in ("certConfig", "repoConfig")}
    for field, name in names.items():
        if name and name not in config_maps:
            problem = f"is {name!r}, and the input has no ConfigMap of this name: its files are not known"
            hint = "add the ConfigMap to rdma_fabric_manifests, in the namespace of the fabric"
            found.append(Problem(f"{field}.name", problem, hint))
        elif name and not config_maps[name]:
            found.append(
                Problem(f"{field}.name", f"is {name!r}, a ConfigMap without data", "give it its files in data")
            )
    if names["certConfig"] and names["certConfig"] == names["repoConfig"]:
        hint = "each file would be shown in both folders: make a ConfigMap of certificates and one of repositories"
        found.append(Problem("repoConfig.name", "is the ConfigMap of certConfig too", hint))
    return found


def check_on(
    section: Mapping[str, Any], version: str, groups: Sequence[Group], settings: Mapping[str, Any]
) -> list[Problem]:
    """Return what is wrong with the section on these groups of nodes."""
    found = []
    for group in groups:
        system = f"{group['os']} {group['os_version']}, kernel {group['kernel']}"
        for field in ("certConfig", "repoConfig"):
            if (section.get(field) or {}).get("name") and group["os"] not in FOLDERS:
                problem = f"has no folder on {system}"
                found.append(Problem(field, problem, f"known: {', '.join(FOLDERS)}; leave it out for other systems"))
        if section.get("forcePrecompiled") and group.get("precompiled") is False and not is_digest(version):
            problem = f"is true, and rdma_fabric_driver_nodes says that there is no precompiled image for {system}"
            found.append(Problem("forcePrecompiled", problem, "choose a version that has one, or set it to false"))
        elif settings.get(openshift.SETTING) and compiles(group, section, version):
            lacking = [name for name in ("ostree_version", "toolkit_image") if not group.get(name)]
            if lacking:
                problem = (
                    f"is compiled in OpenShift's driver toolkit, and {' and '.join(lacking)} of {system} is not known"
                )
                hint = (
                    "give both in rdma_fabric_driver_nodes (oc get imagestream driver-toolkit -n openshift -o yaml has "
                    "the image of each version), or use a precompiled image"
                )
                found.append(Problem("version", problem, hint))
    return found


def data_of(objects: Iterable[Mapping[str, Any]], namespace: str) -> dict[str, Mapping[str, Any]]:
    """Return the data of each ConfigMap among given objects that pods in the namespace can read."""
    found = {}
    for each in objects:
        metadata, data = each.get("metadata"), each.get("data")
        if each.get("kind") == "ConfigMap" and isinstance(metadata, Mapping) and metadata.get("namespace") == namespace:
            found[str(metadata.get("name"))] = data if isinstance(data, Mapping) else {}
    return found
