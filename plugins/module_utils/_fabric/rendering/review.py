# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a FabricSpec can't be rendered, as only all of it shows: the loader has judged each input, with lines."""

from __future__ import annotations

from typing import Iterable

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from ..checks import driver_container, nad
from ..checks.nv_ipam import claims_of
from ..common.images import effective_version
from ..common.jsontext import Problem
from ..common.objects import Object


def review(spec: Object) -> list[Violation]:
    """Return what is wrong with the cluster objects of a FabricSpec; with violations nothing is rendered."""
    return [*_of_driver_container(spec), *_of_attachments(spec)]


def attachments_of(spec: Object) -> list[tuple[str, nad.Attachment]]:
    """Return (source, attachment) of every network and given attachment of a valid spec."""
    found = []
    for network in spec.get("networks") or []:
        rendered = nad.network_attachment(network)
        found.append((network["source"], _attachment(f"{network['kind']}/{network['name']}", rendered)))
    for given in spec.get("attachments") or []:
        rendered = nad.given_attachment(given)
        name = f"{nad.KIND} {rendered['metadata']['namespace']}/{given['name']}"
        found.append((given["source"], _attachment(name, rendered)))
    return found


def _attachment(where: str, rendered: Object) -> nad.Attachment:
    metadata = rendered["metadata"]
    config = (rendered.get("spec") or {}).get("config", "")
    key = f"{metadata['namespace']}/{metadata['name']}"
    return nad.Attachment(where, metadata["name"], config, metadata.get("annotations") or {}, key)


def _of_driver_container(spec: Object) -> list[Violation]:
    """Return what the driver's container can't be made of on the nodes that there are."""
    settings = spec.get("settings") or {}
    if not driver_container.in_container(settings):
        return []
    groups, found = driver_container.nodes_of(spec), []
    for policy in filter(None, [spec.get("cluster_policy"), *(spec.get("node_policies") or [])]):
        section = policy["spec"].get(driver_container.SECTION)
        if section is not None:
            version = effective_version("doca-driver", section, policy["spec"].get("global") or {}, settings)
            wrong = driver_container.check_on(section, version, groups, settings)
            found += _violations(policy["source"], f"spec.{driver_container.SECTION}", wrong)
    return found


def _of_attachments(spec: Object) -> list[Violation]:
    """Return which addresses that pods ask for others may get, too."""
    pairs = attachments_of(spec)
    sources = {attachment.where: source for source, attachment in pairs}
    asked = nad.asked_addresses(spec.get("objects") or [])
    wrong = nad.check_between([attachment for _source, attachment in pairs], claims_of(spec.get("pools") or []), asked)
    return [each for where, problem in wrong for each in _violations(sources[where], f"{where} config", [problem])]


def _violations(source: str, path: str, problems: Iterable[Problem]) -> list[Violation]:
    return [
        Violation(source, f"{path}.{each.path}" if each.path else path, each.problem, each.hint) for each in problems
    ]
