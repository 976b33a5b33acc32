# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who am I, and may I? Asked of the API server before anything is changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping

from ..api.errors import ApiFault, Fault
from ..api.transport import Connection
from .rights import Need, Needs, Rule, is_granted

_IDENTITY = "/apis/authentication.k8s.io"
_ACCESS = "authorization.k8s.io/v1"
# SelfSubjectReview is there since 1.28; 1.27 has it in beta, where that is switched on.
_IDENTITY_VERSIONS = ("v1", "v1beta1")
_ANONYMOUS = "system:anonymous"
_UNAUTHENTICATED = "system:unauthenticated"
_USER = re.compile(r'User "([^"]*)"')
_NO_CREDENTIALS = (
    "give the kubeconfig's user a token, a client certificate or a credential plugin, or choose another context"
    " (rdma_fabric_context for the roles)"
)
# A name with a dot is no namespace: no RoleBinding is in it, so that only rights to the whole cluster are listed.
_NO_NAMESPACE = "rdma.fabric"
# Where the server can't list the rules (a webhook decides), each right is asked for by itself, up to so many.
MOST_REVIEWS = 100


@dataclass(frozen=True)
class Missing:
    """Rights that a user lacks, and those that nobody could judge."""

    needs: frozenset[Need] = frozenset()
    unknown: frozenset[Need] = frozenset()


def who_am_i(connection: Connection) -> str:
    """Return the name under which the server knows the user, an empty string where a server older than 1.28 tells none.

    Raises :class:`ApiFault` for who shows no credentials, or shows some that are not accepted.
    """
    for version in _IDENTITY_VERSIONS:
        body = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "SelfSubjectReview"}
        try:
            status = _review(connection, f"{_IDENTITY}/{version}/selfsubjectreviews", body, "the name of the user")
        except ApiFault as fault:
            if fault.fault is Fault.NOT_FOUND:
                continue
            named = _USER.search(fault.message)
            if fault.fault is not Fault.FORBIDDEN or named is None:
                raise
            # Someone took the right to ask this away, but the refusal says who was refused.
            return _known(named[1], [])
        user = status.get("userInfo")
        user = user if isinstance(user, Mapping) else {}
        return _known(str(user.get("username") or ""), user.get("groups"))
    return ""


def _known(name: str, groups: Any) -> str:
    """Return the name. Raises :class:`ApiFault` for nobody's."""
    if name == _ANONYMOUS or (isinstance(groups, list) and _UNAUTHENTICATED in groups):
        problem = f"the server treats the user as {_ANONYMOUS}: it got no credentials"
        raise ApiFault(Fault.UNAUTHORIZED, problem, hint=_NO_CREDENTIALS)
    return name


def missing_rights(connection: Connection, needs: Needs) -> Missing:
    """Return which of the needs the user lacks.

    One review lists what is granted in the whole cluster, and one more for each namespace where that is not enough
    lists what is granted there. Only what such lists do not show is asked for by itself: by one review of everything,
    for who is granted it by something that has no rules to list, and by single ones where the lists are not complete.
    Raises :class:`ApiFault`.
    """
    left, complete = dict(needs), True
    for namespace in ["", *sorted({need.namespace for need in needs if need.namespace})]:
        here = [need for need in left if namespace in ("", need.namespace)]
        if not here:
            continue
        rules, whole = _rules(connection, namespace or _NO_NAMESPACE)
        complete = complete and whole
        for need in here:
            if is_granted(need, left[need], rules):
                del left[need]
    if not left or _allowed(connection, Need("*", "*", "", "*")):
        return Missing()
    if complete:
        return Missing(frozenset(left))
    asked = sorted(left, key=lambda need: (need.verb, need.group, need.resource, need.namespace))
    answers = {need: _allowed(connection, need) for need in asked[:MOST_REVIEWS]}
    return Missing(
        frozenset(need for need, answer in answers.items() if answer is False),
        frozenset(need for need in asked if answers.get(need) is None),
    )


def _rules(connection: Connection, namespace: str) -> tuple[list[Rule], bool]:
    """Return the rules that hold in a namespace, and whether the server could list all of them."""
    body = {"apiVersion": _ACCESS, "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    path = f"/apis/{_ACCESS}/selfsubjectrulesreviews"
    status = _permitted_review(connection, path, body, f"the rights in {namespace}")
    rules = None if status is None else status.get("resourceRules")
    if status is None or not isinstance(rules, list):
        return [], False
    return [rule for rule in rules if isinstance(rule, dict)], not status.get("incomplete")


def _allowed(connection: Connection, need: Need) -> bool | None:
    """Return whether the user has a right; None where even that may not be asked."""
    resource, _slash, subresource = need.resource.partition("/")
    attributes = {"group": need.group, "resource": resource, "verb": need.verb}
    attributes.update({"namespace": need.namespace} if need.namespace else {})
    attributes.update({"subresource": subresource} if subresource else {})
    body = {"apiVersion": _ACCESS, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    path = f"/apis/{_ACCESS}/selfsubjectaccessreviews"
    status = _permitted_review(connection, path, body, f"the right to {need.verb} {need.what}")
    return None if status is None else status.get("allowed") is True


def _permitted_review(
    connection: Connection, path: str, body: Mapping[str, Any], what: str
) -> Mapping[str, Any] | None:
    """Return the status of a review, None where even that may not be asked. Raises :class:`ApiFault`."""
    try:
        return _review(connection, path, body, what)
    except ApiFault as fault:
        if fault.fault not in (Fault.NOT_FOUND, Fault.FORBIDDEN):
            raise
        return None


def _review(connection: Connection, path: str, body: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return the status of a review. Raises :class:`ApiFault`."""
    answer = connection.request("post", path, what=what, body=body, content_type="application/json")[1]
    status = answer.get("status")
    if answer.get("kind") != body["kind"] or not isinstance(status, Mapping):
        hint = "check what answers at the server's address: the API server itself, or a proxy before it"
        problem = f"post {what}: the answer is not the API server's: its kind is {answer.get('kind')!r}"
        raise ApiFault(Fault.SERVER, problem, hint=hint)
    return status
