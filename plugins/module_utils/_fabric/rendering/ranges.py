# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address ranges of a FabricSpec, held against what others have."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from ..checks import ipam, nv_ipam
from ..checks.cni import plugins_of
from ..checks.ipam import Claim
from ..checks.overlaps import Held, Neighbours, neighbours
from ..common.jsontext import parse_json
from ..common.objects import Object
from .review import attachments_of


class _Range(NamedTuple):
    """The addresses of a pool or of one entry of an attachment, and what of them is handed out to nobody."""

    source: str
    path: str
    claim: Claim
    is_kept_back: Callable[[int], bool]


def has_ranges(spec: Object) -> bool:
    """Return whether a valid FabricSpec assigns addresses."""
    return any(True for _range in _ranges(spec))


def overlaps(spec: Object, around: Neighbours) -> list[Violation]:
    """Return what the ranges of a valid FabricSpec share with others."""
    held = Held(around)
    return [
        Violation(found.source, f"{found.path}.{each.path}" if each.path else found.path, each.problem, each.hint)
        for found in _ranges(spec)
        for each in held.problems_of(found.claim, found.is_kept_back)
    ]


def hosts_of(spec: Object) -> Neighbours:
    """Return the addresses by which Ansible reaches the hosts of a FabricSpec, of those that it reaches by one."""
    told = {host: desired.get("connection_address") for host, desired in (spec.get("hosts") or {}).items()}
    return Neighbours(hosts=neighbours((f"host {host}: ansible_host", address) for host, address in told.items()))


def _ranges(spec: Object) -> Iterator[_Range]:
    for pool in spec.get("pools") or []:
        kind, given = pool["kind"], pool["spec"]
        claim = nv_ipam.claim_of(kind, pool["name"], given)
        if claim is not None:
            kept = nv_ipam.keeping_back(kind, given)
            yield _Range(pool["source"], f"{kind}/{pool['name']} spec", claim, kept)
    for source, attachment in attachments_of(spec):
        config, problems = parse_json(attachment.config or "{}")
        if problems or not isinstance(config, dict):
            continue
        name = str(config.get("name") or attachment.name)
        for path, plugin in plugins_of(config):
            given = plugin.get("ipam")
            gateways = ipam.gateways_kept_back(given)
            for claim in ipam.claims(given, name, f"{path}ipam"):
                yield _Range(source, f"{attachment.where} config", claim, gateways.__contains__)
