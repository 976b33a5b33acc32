# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as they are on OpenShift: nothing that it brings itself, and privileged pods that it admits.

Facts: ``manifests`` of the Network Operator 26.4.1, where ``.RuntimeSpec.IsOpenshift`` is true. Each program whose pods
are privileged, on the host's network or with its folders has an account that may use the SecurityContextConstraints
``privileged``, by a Role of the same name.
"""

from __future__ import annotations

from ..common.objects import Object, canonical, namespaced_rbac, rule, service_account
from ..common.openshift import BROUGHT, OWNER

_WORKLOADS = ("DaemonSet", "Deployment")
_COMPONENT = "app.kubernetes.io/component"
_ACCOUNTS = {"rdma-shared-device-plugin": "rdma-shared"}
"""Accounts of programs that have none elsewhere; those of others are called as their component."""

_USE_PRIVILEGED = rule(["security.openshift.io"], ["securitycontextconstraints"], ["use"], ["privileged"])


def remaining(policy: Object) -> Object:
    """Return a policy without the sections that OpenShift brings itself."""
    secondary = policy.get(OWNER)
    if not isinstance(secondary, dict):
        return policy
    return {**policy, OWNER: {name: part for name, part in secondary.items() if name not in BROUGHT}}


def admitted(objects: list[Object], namespace: str) -> list[Object]:
    """Return the objects with the accounts and Roles without which OpenShift does not admit their privileged pods."""
    found = [_with_account(each) if _is_privileged(each) else each for each in objects]
    accounts = {_pod(each)["serviceAccountName"]: _component(each) for each in found if _is_privileged(each)}
    known = {each["metadata"]["name"] for each in found if each["kind"] == "ServiceAccount"}
    roles = {each["metadata"]["name"] for each in found if each["kind"] == "Role"}
    added = []
    for account, component in sorted(accounts.items()):
        if account not in known:
            added.append(service_account(account, namespace, component))
        if account not in roles:
            added += namespaced_rbac(account, namespace, component, [_USE_PRIVILEGED])[1:]
    return [_with_rule(each) if each["kind"] == "Role" and _name(each) in accounts else each for each in found] + added


def _with_account(workload: Object) -> Object:
    component = _component(workload)
    template = workload["spec"]["template"]
    pod = {"serviceAccountName": _ACCOUNTS.get(component, component), **template["spec"]}
    return {**workload, "spec": {**workload["spec"], "template": {**template, "spec": pod}}}


def _with_rule(role: Object) -> Object:
    return {**role, "rules": [*role["rules"], canonical(_USE_PRIVILEGED)]}


def _is_privileged(body: Object) -> bool:
    """Tell whether a workload's pods ask for more than OpenShift gives to every account."""
    if body["kind"] not in _WORKLOADS:
        return False
    pod = _pod(body)
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    return (
        bool(pod.get("hostNetwork"))
        or any("hostPath" in volume for volume in pod.get("volumes") or [])
        or any((each.get("securityContext") or {}).get("privileged") for each in containers)
    )


def _pod(body: Object) -> Object:
    found: Object = body["spec"]["template"]["spec"]
    return found


def _component(body: Object) -> str:
    return str(body["metadata"]["labels"][_COMPONENT])


def _name(body: Object) -> str:
    return str(body["metadata"]["name"])
