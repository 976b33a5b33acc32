# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings that belong to no custom resource: directories, mirrors, pull secrets, proxy."""

from __future__ import annotations

import re
from typing import Any, Mapping

from ..checks import driver_container
from ..common import openshift
from ..common.findings import Document, Findings, Place
from ..common.images import COMPONENTS, RELEASE_SETTING, RELEASES
from ..common.jsontext import Problem, half_characters
from ..common.names import dns_label, dns_subdomain, image, or_empty, repository, version
from ..common.schema import Model, flag, in_effect, mapping, record, series, text
from ..common.taints import taint

DEFAULT_NAMESPACE = "nvidia-network-operator"
DEFAULTS = {"nfd": True}
VARIABLES = "rdma_fabric_"
ENGINE, DIRECT, HELM = "engine", "direct", "helm"
CHART_SETTINGS = ("helm_chart", "helm_chart_repository", "helm_chart_version", "helm_release")
NO_PROXY_READER = (
    "nothing that is deployed downloads through a proxy; the hosts' package managers have their own setting"
)


_WORD = re.compile(r"[\w./:@%+=,~?&-]+", re.ASCII)
_CHART_VERSION = re.compile(r"v?\d[\w.+-]*", re.ASCII)
_LONGEST_RELEASE = 53


def _absolute(path: str) -> list[Problem]:
    if path.startswith("/") and not {"..", "."} & set(path.split("/")) and "\n" not in path:
        return []
    return [Problem("", "is not an absolute path", "start with / and leave out . and ..")]


def _of_command_line(text: str) -> list[Problem]:
    """Judge what goes into a command line of kubernetes.core, which splits it and fills in variables."""
    if _WORD.fullmatch(text):
        return []
    return [Problem("", "has characters that the command line of helm does not take", "leave out blanks, quotes and $")]


def _web_address(text: str) -> list[Problem]:
    if text.startswith(("http://", "https://")):
        return _of_command_line(text)
    return [
        Problem("", "is not a URL of a chart repository", "https://..., or give rdma_fabric_helm_chart as oci://...")
    ]


def _chart_version(text: str) -> list[Problem]:
    if _CHART_VERSION.fullmatch(text):
        return []
    return [Problem("", "is not a chart release", "one release such as 26.7.0: ranges would change it unasked")]


def _release_name(text: str) -> list[Problem]:
    if len(text) > _LONGEST_RELEASE:
        return [Problem("", f"is longer than {_LONGEST_RELEASE} characters", "Helm takes no longer name of a release")]
    return dns_label(text)


_OVERRIDE = record(
    "what replaces the bill of materials",
    {
        "repository": text("registry and path", check=repository),
        "image": text("name", check=image),
        "version": text("tag or digest", check=version),
    },
)
_GROUP = record(
    "a group of nodes",
    {
        "os": text("what os-release of the nodes has as ID: ubuntu, rhel, rhcos, sles", required=True),
        "os_version": text("what it has as VERSION_ID", required=True),
        "kernel": text("the release of their kernel, as uname -r has it", required=True),
        "arch": text("their architecture", choices=driver_container.ARCHITECTURES, required=True),
        "precompiled": flag("whether the registry has an image for this kernel"),
        "runtime": text("what runs their containers", choices=driver_container.RUNTIMES),
        "ostree_version": text("what os-release of OpenShift's nodes has as OSTREE_VERSION"),
        "toolkit_image": text("image of OpenShift's driver toolkit for them"),
    },
)
_DRIVER_OVERRIDE = record(
    "what replaces the release of the driver",
    {
        **(_OVERRIDE.fields or {}),
        "repository": text("registry and path", check=repository, idle="hosts pull no image of the driver"),
    },
)
SETTINGS = Model(
    "the settings",
    record(
        "settings",
        {
            "namespace": text("namespace of the fabric's objects", check=or_empty(dns_label)),
            ENGINE: text("who makes the cluster objects", choices=(DIRECT, HELM)),
            "helm_chart": text("name, path or address of the chart", check=_of_command_line),
            "helm_chart_repository": text("URL of the chart's repository", check=_web_address),
            "helm_chart_version": text("release of the chart", check=_chart_version),
            "helm_release": text("name of Helm's release", check=_release_name),
            RELEASE_SETTING: text("release of the operator whose images are the defaults", choices=tuple(RELEASES)),
            "nfd": flag("whether Node Feature Discovery is deployed"),
            "label_nodes": flag("whether nodes are labelled by what was read of their hosts"),
            openshift.SETTING: flag("whether the cluster is OpenShift"),
            driver_container.SOURCE: text("what ofedDriver asks for", choices=driver_container.SOURCES),
            driver_container.NODES: series(
                "nodes of the driver's container", _GROUP, check=driver_container.check_groups
            ),
            "cni_bin_dir": text("directory of CNI programs on the nodes", check=_absolute),
            "cni_conf_dir": text("directory of CNI configurations on the nodes", check=_absolute),
            "kubelet_dir": text("the kubelet's own directory on the nodes", check=_absolute),
            "join_taint": text("taint of nodes that are yet to be verified", check=or_empty(taint)),
            "registry_mirrors": mapping("registry to mirror", text("mirror", check=repository), keys=repository),
            "image_overrides": record(
                "images by component", {**dict.fromkeys(COMPONENTS, _OVERRIDE), "doca-driver": _DRIVER_OVERRIDE}
            ),
            "image_pull_secrets": series("pull secrets", text("name of a Secret", check=dns_subdomain)),
            "proxy": record(
                "proxy of the workloads",
                {
                    "httpProxy": text("proxy for http"),
                    "httpsProxy": text("proxy for https"),
                    "noProxy": text("hosts reached directly"),
                },
                idle=NO_PROXY_READER,
            ),
        },
    ),
)


_OF_CONTAINERS = Model(SETTINGS.name, in_effect(SETTINGS.root))


def read_settings(given: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Check the settings of role variables and return those that are right.

    ``None`` counts as not given, and so does an empty mapping that would have no effect anyway: it is a default.
    """
    read: dict[str, Any] = {}
    model = _OF_CONTAINERS if driver_container.in_container(given) else SETTINGS
    for name, value in given.items():
        # Every setting is a variable of its own: that is the name its user knows.
        place = Place(findings, Document(f"{VARIABLES}{name}", value))
        is_default = value is None or (value == {} and bool((SETTINGS.root.fields or {})[name].idle))
        halves = half_characters(value)
        place.violations(halves)
        found = None if is_default or halves else model.read_field(name, value, place)
        if found is not None:
            read[name] = found
    return read


def complete(role: Mapping[str, Any], helm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a FabricSpec: role variables win over Helm values, which win over the defaults."""
    platform = openshift.DEFAULTS if role.get(openshift.SETTING) else {}
    elsewhere = ("namespace", ENGINE, *CHART_SETTINGS)
    merged = {**DEFAULTS, **platform, **helm, **{key: value for key, value in role.items() if key not in elsewhere}}
    for key in ("registry_mirrors", "image_overrides", "proxy"):
        merged[key] = {**(helm.get(key) or {}), **(role.get(key) or {})}
    merged["image_pull_secrets"] = list(role.get("image_pull_secrets") or helm.get("image_pull_secrets") or [])
    return merged
