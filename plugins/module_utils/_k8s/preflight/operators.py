# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which operators run beside a push, and what keeps deletions and requests from their end when one is gone.

Uninstalling leaves custom resources with finalizers (openshift/openshift-docs#40634, k8snetworkplumbingwg/
sriov-network-operator#564) and configurations of webhooks whose service is gone (sriov-network-operator#779).
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..api.errors import seen_or_told
from ..api.kinds import Kinds, Resource, group_path, plural_of
from ..api.snapshot import fetch_group, get_object, list_objects
from ..api.transport import Connection
from ..objects.objects import Json, Key
from ..objects.operators import KINDS_OF_OPERATORS, RESOURCES_OF_OPERATORS, programs_of, running

DEPLOYMENTS, AS_DEPLOYMENTS = Key("apps/v1", "Deployment", "", ""), Resource("deployments", True)
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_ADMISSION = "admissionregistration.k8s.io/v1"
# What a run writes beside the objects and pods of its dry run, or others write when it is on.
_GROUPS = frozenset(("", "*", "k8s.cni.cncf.io"))
_WRITTEN = frozenset(("*", "*/*", "network-attachment-definitions", "nodes", "pods", "pods/*", "pods/eviction"))


def look_for_operators(connection: Connection) -> tuple[frozenset[str] | None, list[str]]:
    """Return what operators run, by the last part of their images' names, and notices; raises ApiFault.

    None where the user may not look. Objects that an operator has made are refused where they are compared; nothing
    tells what it will be asked for next.
    """
    untold = "not checked whether an operator runs"
    found, notices = seen_or_told(lambda: list_objects(connection, DEPLOYMENTS, AS_DEPLOYMENTS, {}), untold)
    if found is None:
        return None, notices
    notices = [
        f"the operator {name} runs, and does what its custom resources ask for: keep out of them what is given "
        "here or hand it over (docs/guide-adopt.md)"
        for name in running(found)
    ]
    return frozenset().union(*map(programs_of, found)), notices


def say_left(connection: Connection, programs: frozenset[str]) -> list[str]:
    """Name what operators that are not among the ``programs`` have left, as notices; raises ApiFault."""

    def look() -> list[str]:
        return [*_held(connection, programs), *_dead_webhooks(connection)]

    found, untold = seen_or_told(look, "not checked what operators that are gone have left")
    return [*(found or []), *untold]


def _held(connection: Connection, programs: frozenset[str]) -> Iterator[str]:
    """Yield which custom resources have finalizers that nobody takes off."""
    for version, operator in KINDS_OF_OPERATORS.items():
        listed = {} if operator in programs else fetch_group(connection, group_path(version)) or {}
        for entry in listed.get("resources") or []:
            plural = entry["name"]
            if plural not in RESOURCES_OF_OPERATORS[version]:
                continue
            scope, resource = Key(version, entry["kind"], "", ""), Resource(plural, entry["namespaced"])
            bodies = [body["metadata"] for body in list_objects(connection, scope, resource, {})]
            held = [metadata for metadata in bodies if metadata.get("finalizers")]
            if held:
                yield _say_held(f"{plural}.{scope.group}", operator, held)


def _say_held(what: str, operator: str, held: list[Json]) -> str:
    going = sum(bool(metadata.get("deletionTimestamp")) for metadata in held)
    names = [f"{each.get('namespace') or ''}/{each['name']}".lstrip("/") for each in held]
    since = f" ({going} being deleted)" if going else ""
    return (
        f"{named(names)} of {what}{since} have finalizers of the {operator}, which does not run: they, their "
        f"namespaces and their definition are never deleted (next: kubectl patch {what} NAME --namespace=NAMESPACE "
        '--type=merge --patch \'{"metadata": {"finalizers": null}}\', unless it is to run again)'
    )


def _dead_webhooks(connection: Connection) -> Iterator[str]:
    """Yield which webhooks refuse everything that they judge, as their service is gone."""
    kinds = Kinds(lambda path: fetch_group(connection, path))
    there: dict[Key, bool] = {}
    for kind in _WEBHOOKS:
        plural = plural_of(kind)
        for body in list_objects(connection, Key(_ADMISSION, kind, "", ""), Resource(plural, False), {}):
            for key, judged in _services_of(body):
                if key not in there:
                    there[key] = get_object(connection, kinds, key) is not None
                if not there[key]:
                    name = body["metadata"]["name"]
                    yield (
                        f"{kind} {name} has the server refuse {judged}: its {key} is gone (next: kubectl delete "
                        f"{plural} {name}, or bring back what it is of)"
                    )
                    break


def _services_of(configuration: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """Yield the service of each webhook that must answer, with what it judges; of other things than ours none."""
    for webhook in configuration.get("webhooks") or []:
        service = (webhook.get("clientConfig") or {}).get("service")
        judged = sorted({name for rule in webhook.get("rules") or [] for name in _judged(rule)})
        if service and judged and webhook.get("failurePolicy") != "Ignore":
            yield Key("v1", "Service", str(service.get("namespace")), str(service.get("name"))), ", ".join(judged)


def _judged(rule: Mapping[str, Any]) -> set[str]:
    groups, resources = set(rule.get("apiGroups") or []), set(rule.get("resources") or [])
    if groups & {version.partition("/")[0] for version in KINDS_OF_OPERATORS}:
        return resources
    return resources & _WRITTEN if groups & _GROUPS else set()
