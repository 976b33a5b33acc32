# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks that are in the cluster beside what a run makes of them: addresses that would be assigned twice.

Every IPAM plugin remembers what it has assigned by a name: whereabouts by ``network_name`` (``IPPoolName`` and
``NormalizeIP`` of its pkg/storage/kubernetes), nv-ipam by the pool, host-local by the network. By another name it
assigns the same addresses once more, while the pods that run keep theirs.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from . import nad, nv_ipam
from .ipam import Claim, shared_addresses
from .nad import Attachment

Body = Mapping[str, Any]


def assigned_twice(changes: Iterable[tuple[Body | None, Body | None]]) -> list[str]:
    """Return a notice for each network that would assign addresses that pods of one before have.

    ``changes`` are live objects with what becomes of them, None where there is nothing.
    """
    pairs = list(changes)
    known, coming = (nv_ipam.claims_of(list(_pools(pair[side] for pair in pairs))) for side in (0, 1))
    held = [(_held(one, known), _held(other, coming)) for one, other in pairs if one is not other]
    before = [each for old, _new in held for each in old]
    found: dict[str, str] = {}
    for wire, network, claim in (each for _old, new in held for each in new):
        for former_wire, former, other in before:
            kept = (claim.memory or claim.pool) == (other.memory or other.pool)
            if wire == former_wire and not kept and shared_addresses(claim, other):
                said = (
                    f"{network} would assign addresses of {claim.text} once more that pods have of {other.text}, by "
                    f"{'what it is now' if former == network else former}: the new name that they are assigned by has "
                    "no record of those (next: keep network_name, pool or name and the range, take another range, or "
                    "end the pods on it first)"
                )
                found.setdefault(network, said)
    return list(found.values())


def _held(body: Body | None, pools: Mapping[nv_ipam.PoolKey, Claim]) -> list[tuple[tuple[str, ...], str, Claim]]:
    """Return (wire, network, claim) of what an attachment assigns."""
    if body is None or body.get("kind") != nad.KIND:
        return []
    metadata = body["metadata"]
    name = f"{nad.KIND} {metadata.get('namespace')}/{metadata['name']}"
    config = (body.get("spec") or {}).get("config") or ""
    attachment = Attachment(name, metadata["name"], str(config), metadata.get("annotations") or {})
    return [(wire, name, claim) for wire, held in nad.claims_by_wire(attachment, pools) for claim in held]


def _pools(bodies: Iterable[Body | None]) -> Iterator[Body]:
    for body in bodies:
        if (
            body is not None
            and body.get("kind") in nv_ipam.POOL_KINDS
            and body.get("apiVersion") == nv_ipam.API_VERSION
        ):
            yield {"kind": body["kind"], "name": body["metadata"]["name"], "spec": body.get("spec") or {}}
