# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of nv-ipam in the input: checked one by one, against each other, and against who would read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..checks import nv_ipam
from ..checks.ipam import earlier_sharing
from ..checks.nv_ipam import POOL_KINDS, PoolKey, config_problems, read_config
from ..checks.nv_ipam_parts import parts_of
from ..checks.versions import pool_problems, pool_remarks, reads_pool_objects
from ..common.findings import Place
from ..common.jsontext import Problem
from .models import POOL_MODELS
from .resources import Resource

_PART = re.compile(r"[A-Za-z]+|\d+", re.ASCII)


@dataclass(frozen=True)
class Pool:
    """One pool. ``entry`` is what a FabricSpec holds of it, ``place`` where its spec stands.

    ``namespace`` is empty when none was given; nv-ipam's own is meant then.
    """

    kind: str
    name: str
    namespace: str
    entry: dict[str, Any]
    place: Place
    valid: bool

    @property
    def key(self) -> PoolKey:
        """What networks name the pool by."""
        return PoolKey(POOL_KINDS[self.kind], self.name)


def read_pool(resource: Resource) -> Pool:
    """Check an IPPool or CIDRPool on its own."""
    place, known = resource.spec_place, len(resource.place.findings.violations)
    spec = POOL_MODELS[resource.kind].read(resource.spec, place)
    if len(place.findings.violations) == known:
        note(nv_ipam.check_pool(resource.kind, spec), place)
    entry = {
        "kind": resource.kind,
        "name": resource.name,
        "namespace": resource.namespace,
        "labels": resource.metadata("labels"),
        "annotations": resource.metadata("annotations"),
        "spec": spec,
        "source": resource.source,
    }
    valid = bool(resource.name) and len(place.findings.violations) == known
    return Pool(resource.kind, resource.name, resource.namespace, entry, place, valid)


def pools_of_config(text: str, place: Place, source: str) -> list[Pool]:
    """Return the pools that the retired ``nvIpam.config`` describes; ``place`` is where it stands."""
    specs, problems = read_config(text)
    place.violations(problems)
    found = []
    for name, spec in specs.items():
        entry = {"kind": "IPPool", "name": name, "namespace": "", "labels": {}, "annotations": {}, "spec": spec}
        where = place.inside(f"pools.{name}")
        found.append(Pool("IPPool", name, "", {**entry, "source": source}, where, not problems))
    return found


def check_between(pools: Sequence[Pool]) -> None:
    """Refuse a pool that is given twice, and name pools that share addresses.

    Sharing is right where their networks never meet. Where they do, the networks are refused.
    """
    first: dict[PoolKey, Pool] = {}
    for pool in pools:
        other = first.setdefault(pool.key, pool)
        # nv-ipam reads one namespace, so the name alone tells pools apart.
        if other is not pool and pool.name:
            hint = f"{other.entry['source']} has it already"
            pool.place.violation(f"the {pool.kind} {pool.name} is given twice", hint)
    held = nv_ipam.claims_of([pool.entry for pool in pools if pool.valid])
    keys = list(held)
    for key, index in zip(keys, earlier_sharing(list(held.values()), [f"{key.type}/{key.name}" for key in keys])):
        if index is not None:
            earlier = keys[index]
            field = "subnet" if first[key].kind == "IPPool" else "cidr"
            hint = f"the {first[earlier].kind} {earlier.name} has them too; right where their networks never meet"
            _field(first[key].place, field).notice(f"{held[key].text} shares addresses with another pool", hint)


def check_room(pools: Sequence[Pool], hosts: Mapping[str, Any]) -> None:
    """Say when a pool has no address for a pod, and when one for every node has no part for every host."""
    for pool in pools:
        if not pool.valid:
            continue
        parts = parts_of(pool.kind, pool.entry["spec"])
        if not parts.serve:
            hint = "a pod that asks for one does not start: leave out less"
            pool.place.notice("assigns no address by itself: exclusions and the gateway are all that it has", hint)
        elif parts.empty:
            problem = f"has no address for a pod in {named(parts.empty)}, which nv-ipam gives to nodes anyway"
            pool.place.notice(problem, "have exclusions hold all of such a part, then nv-ipam passes it over")
        if parts.refused:
            problem = f"has exclusions that nv-ipam takes for faulty in {named(parts.refused)}: no pod gets an address"
            hint = "end them beside perNodeExclusions, and not at the first or last address of a part"
            pool.place.notice(problem, hint)
        if pool.entry["spec"].get("nodeSelector"):
            continue
        nodes = parts.given - len(parts.empty) - len(parts.refused)
        if nodes < len(hosts):
            problem = f"has addresses for {nodes} nodes; the inventory has {len(hosts)} hosts"
            pool.place.notice(problem, "a pod on a node without a part of the pool does not start: give each less")


def check_readers(pools: Sequence[Pool], namespace: str, version: str | None) -> None:
    """Say what of the pools nv-ipam would not read.

    ``namespace`` is that of the fabric; ``version`` that of nv-ipam, None when the input does not deploy it.
    """
    for pool in pools:
        if version is None:
            hint = "add nvIpam to the NicClusterPolicy, or make sure that nv-ipam runs in the cluster"
            pool.place.notice(f"is for nv-ipam, which the input does not deploy: {pool.kind} {pool.name}", hint)
            continue
        if pool.namespace not in ("", namespace):
            problem = f"is in the namespace {pool.namespace}, where nv-ipam does not look: it runs in {namespace}"
            hint = "leave the namespace out, or set rdma_fabric_namespace"
            pool.place.violation(problem, hint)
        note(pool_problems(pool.kind, pool.entry["spec"], version), pool.place)
        for odd in pool_remarks(pool.kind, pool.entry["spec"], version) if pool.valid else ():
            _field(pool.place, odd.path).remark(odd)
    if version is not None and not reads_pool_objects(version):
        _check_config(pools, version)


def _check_config(pools: Sequence[Pool], version: str) -> None:
    """Refuse what the ConfigMap of a release without pool objects cannot hold, and name what it has no place for."""
    valid = [pool for pool in pools if pool.kind == "IPPool" and pool.valid]
    for index, problem in config_problems([pool.entry["spec"] for pool in valid], version):
        note([problem], valid[index].place)
    for pool in valid:
        if pool.entry["labels"] or pool.entry["annotations"]:
            text = f"becomes an entry of a ConfigMap for nv-ipam {version}: labels and annotations have no effect"
            pool.place.notice(text, "drop them, or use v0.1.1 or newer")


def note(problems: Sequence[Problem], place: Place) -> None:
    """Note problems with fields of a spec at the places of these fields."""
    for problem in problems:
        _field(place, problem.path).violation(problem.problem, problem.hint)


def _field(place: Place, path: str) -> Place:
    """Return where the field ``path`` of a spec stands, which may itself stand inside a text."""
    if place.within:
        return place.inside(f"{place.within}.{path}")
    return place.at(*(int(part) if part.isdigit() else part for part in _PART.findall(path)))
