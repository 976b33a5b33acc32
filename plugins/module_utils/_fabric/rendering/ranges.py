# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address ranges and routes of a FabricSpec, held against what others have."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation

from ..checks import ipam, nad, nv_ipam
from ..checks.cni import plugins_of
from ..checks.ipam import Claim
from ..checks.overlaps import Held, Neighbours, neighbours
from ..common.jsontext import parse_json
from ..common.objects import Object
from .review import attachments_of

# They take routes out of the main table of a pod.
_REROUTING = ("sbr", "route-override")


class _Range(NamedTuple):
    """The addresses of a pool or of one entry of an attachment, and what of them is handed out to nobody."""

    source: str
    path: str
    claim: Claim
    is_kept_back: Callable[[int], bool]


def has_ranges(spec: Object) -> bool:
    """Return whether a valid FabricSpec assigns addresses or routes."""
    return any(True for _each in (*_ranges(spec), *_routes(spec)))


def overlaps(spec: Object, around: Neighbours) -> list[Violation]:
    """Return what the ranges of a valid FabricSpec share with others."""
    held = Held(around)
    return [
        Violation(found.source, f"{found.path}.{each.path}" if each.path else found.path, each.problem, each.hint)
        for found in _ranges(spec)
        for each in held.problems_of(found.claim, found.is_kept_back)
    ]


def diverted(spec: Object, around: Neighbours | None = None) -> list[Notice]:
    """Return a notice for each route of a network by which pods lose what they reach by their first network.

    Those are default routes, and with ``around`` instead the others that share a network inside the cluster. A route
    goes before an equal one (``RouteAddEcmp`` of containernetworking/plugins, ``pkg/ipam/ipam_linux.go``).
    """
    held, found = Held(around or Neighbours()), []
    hint = "route only what lies behind it, or chain sbr or route-override; fine where pods are to leave by it"
    for source, network, route in _routes(spec):
        lost = " and ".join(f"{what} in {names}" for what, names in held.routed(route))
        if route.text.endswith("/0"):
            lost = "" if around is not None else "services, DNS and other pods"
        if lost:
            problem = f"{route.text} takes {lost} from pods of {network} unless their first network has narrower routes"
            found.append(Notice(source, route.path, problem, hint))
    return found


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


def _routes(spec: Object) -> Iterator[tuple[str, str, Claim]]:
    """Yield (source, network, route) of what networks and their pools add to the main table of pods.

    A gateway alone adds nothing. A default route with a metric comes after the one of the first network.
    """
    pools = {nv_ipam.PoolKey(nv_ipam.POOL_KINDS[each["kind"]], each["name"]): each for each in spec.get("pools") or []}
    for source, attachment in attachments_of(spec):
        plugins = nad.placed_plugins(attachment.config)
        if any(plugin.get("type") in _REROUTING for _path, plugin in plugins):
            continue
        owners = [(source, f"{attachment.where} config.{path}ipam", each.get("ipam") or {}) for path, each in plugins]
        named = [pools[key] for _path, key in nad.pools_of(attachment.config, attachment.name) if key in pools]
        owners += [(pool["source"], f"{pool['kind']}/{pool['name']} spec", pool["spec"]) for pool in named]
        for owner, where, given in owners:
            routes = [(f"{where}.{at}", each) for at, each in nv_ipam.entries(given, "routes") if not each.get("table")]
            if given.get("defaultGateway"):
                everything = "::/0" if ":" in str(given.get("gateway") or given.get("cidr")) else "0.0.0.0/0"
                routes.append((f"{where}.defaultGateway", {"dst": everything}))
            for path, each in routes:
                route = ipam.parse_network(each.get("dst"), "", strict=False)[0]
                if route is not None and (route.prefixlen or not each.get("priority")):
                    ends = (int(route.network_address), int(route.broadcast_address))
                    yield owner, attachment.where, Claim(path, str(route), route.version, (ends,), "")
