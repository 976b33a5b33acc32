# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of nodes that rendered objects mount, held against the nodes."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import selects
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..common.distributions import USUAL, distribution_of
from ..common.objects import Object
from ..common.openshift import SETTING
from ..common.pods import pods_of
from .render import Wave, render

_WHAT = {"cni_bin_dir": "CNI programs", "cni_conf_dir": "CNI configurations"}
_CHART = {"cni_bin_dir": "operator.cniBinDirectory", "cni_conf_dir": "operator.cniNetworkDirectory"}


def folders_used(spec: Object, waves: list[Wave]) -> list[str]:
    """Return the settings of folders that the waves of a FabricSpec depend on.

    There are none on OpenShift, told by its kinds, and with a chart, whose operator has its own.
    """
    settings = spec.get("settings") or {}
    if settings.get(SETTING) or spec.get("chart"):
        return []
    return [name for name in USUAL if render({**spec, "settings": {**settings, name: "/other"}}) != waves]


def misplaced(
    settings: Mapping[str, object], used: Iterable[str], nodes: Iterable[Mapping[str, Any]]
) -> tuple[list[str], list[str]]:
    """Return what is wrong with folders that are ``used`` and not given, and what is to be said of given ones."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        distribution = distribution_of(node)
        if distribution is None:
            continue
        for name in used:
            if distribution.folders[name] != (settings.get(name) or USUAL[name]):
                where = found.setdefault((distribution.name, name, distribution.folders[name]), [])
                where.append(node["metadata"]["name"])
    problems, notices = [], []
    for (distribution_name, name, folder), names in sorted(found.items()):
        given = settings.get(name)
        has = f"{distribution_name} (of the nodes {named(names)}) has its {_WHAT[name]} in {folder}"
        if given:
            hint = f"check rdma_fabric_{name} or the chart's {_CHART[name]} unless its data directory is another one"
            notices.append(f"{has}, and the input says {given} (next: {hint})")
        else:
            hint = f"rdma_fabric_{name}: {folder}"
            problems.append(f"{has}, not in {USUAL[name]}: pods would not get their networks (next: {hint})")
    return problems, notices


def useless_mounts(objects: list[Object], nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield which folders pods mount without any use, as the distribution of nodes has others."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    volumes = list(_host_folders(objects))
    for node in nodes:
        distribution = distribution_of(node)
        if distribution is None or distribution.unusable is None:
            continue
        for pod, name, host in volumes:
            if distribution.unusable.match(f"{host.get('type', '')} {host['path']}") and selects(pod, node):
                row = found.setdefault((distribution.name, host["path"], distribution.why), [])
                row.append((node["metadata"]["name"], name))
    for (who, path, why), pairs in found.items():
        where, names = (named(list(dict.fromkeys(part))) for part in zip(*pairs))
        yield f"{who} (of the nodes {where}): pods of {names} mount {path}, {why}"


def _host_folders(objects: Iterable[Object]) -> Iterator[tuple[Object, str, Object]]:
    for body in objects:
        for pod in pods_of(body):
            for volume in pod.get("volumes") or []:
                if "hostPath" in volume:
                    yield pod, body["metadata"]["name"], volume["hostPath"]
