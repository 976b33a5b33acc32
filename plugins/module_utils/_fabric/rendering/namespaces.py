# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The namespaces that objects live in, and whether pod security admission lets the components' pods into theirs."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from ..common.objects import Object, build

ENFORCE = "pod-security.kubernetes.io/enforce"
PRIVILEGED = "privileged"


def namespaces(own: str, objects: Sequence[Object], given: Sequence[Object]) -> list[Object]:
    """Return the namespaces that the objects live in; those given as such replace ours.

    The components' pods are privileged, so their own namespace says so to pod security admission, unless it is given
    with a level. Namespaces that every cluster has are left alone.
    """
    found = {each["metadata"]["name"]: admitting(each, own) for each in given}
    for each in objects:
        name = each["metadata"].get("namespace", "")
        if name and name not in found and name != "default" and not name.startswith("kube-"):
            found[name] = admitting(build("v1", "Namespace", name, "namespace"), own)
    return list(found.values())


def admitting(namespace: Object, own: str) -> Object:
    """Return a namespace with the level that the components' pods need, where it is theirs and says none."""
    metadata = namespace["metadata"]
    labels: Mapping[str, Any] = metadata.get("labels") or {}
    if metadata["name"] != own or ENFORCE in labels:
        return namespace
    return {**namespace, "metadata": {**metadata, "labels": {**labels, ENFORCE: PRIVILEGED}}}


def unadmitted(own: str, found: Sequence[Object]) -> list[Violation]:
    """Return what is wrong with the level of the namespace that the components' pods are in."""
    levels = [each["metadata"]["labels"].get(ENFORCE) for each in found if each["metadata"]["name"] == own]
    problem = f"keeps out the components' pods, which need the Pod Security level {PRIVILEGED}"
    hint = f"label it {ENFORCE}: {PRIVILEGED}, or have the components in another namespace (rdma_fabric_namespace)"
    return [
        Violation("all inputs together", f"Namespace {own}", f"{problem}: its level is {level}", hint)
        for level in levels
        if level != PRIVILEGED
    ]
