# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes types that the vendor's custom resources use, as field declarations.

Source: the published API of Kubernetes (core/v1) and its validation. ``metadata`` is that of apimachinery.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ..common.jsontext import Problem
from ..common.names import dns_subdomain, env_name, label_key, or_empty
from ..common.quantities import parse_quantity
from ..common.schema import Field, annotation_map, flag, label_map, mapping, quantity, record, series, text, whole

_TOLERATION_OPERATORS = ("Exists", "Equal", "Lt", "Gt")
_VALUELESS_OPERATORS = ("Exists", "DoesNotExist")
_NODE_OPERATORS = ("In", "NotIn", *_VALUELESS_OPERATORS, "Gt", "Lt")
_NUMERIC_OPERATORS = ("Gt", "Lt")
_RESOURCES = ("cpu", "memory")
_INTEGER = re.compile(r"[-+]?[0-9]+\Z", re.ASCII)


def _check_toleration(value: Mapping[str, Any]) -> list[Problem]:
    problems = []
    if value.get("operator") == "Exists" and value.get("value"):
        problems.append(Problem("", "has a value beside the operator Exists", "drop the value, or use Equal"))
    if not value.get("key") and value.get("operator") != "Exists":
        problems.append(Problem("", "has neither a key nor the operator Exists", "name the taint's key"))
    if value.get("operator") in _NUMERIC_OPERATORS and not _INTEGER.match(value.get("value") or ""):
        problems.append(Problem("", f"has the operator {value['operator']} without a number", "give one, as text"))
    if "tolerationSeconds" in value and value.get("effect") != "NoExecute":
        problems.append(Problem("", "has tolerationSeconds without the effect NoExecute", "drop one of them"))
    return problems


def tolerations(description: str, **rules: Any) -> Field:
    """Declare a list of tolerations."""
    toleration = record(
        "a toleration",
        {
            "key": text("key of the taint; empty matches all", check=or_empty(label_key)),
            "operator": text("how key and value are compared", choices=(*_TOLERATION_OPERATORS, "")),
            "value": text("value of the taint"),
            "effect": text("effect of the taint", choices=("NoSchedule", "PreferNoSchedule", "NoExecute", "")),
            "tolerationSeconds": whole("seconds a NoExecute taint is tolerated"),
        },
        check=_check_toleration,
    )
    return series(description, toleration, **rules)


def _check_requirement(value: Mapping[str, Any]) -> list[Problem]:
    operator, values = value.get("operator"), value.get("values") or []
    if operator in _VALUELESS_OPERATORS and values:
        return [Problem("", f"has values beside the operator {operator}", "drop the values")]
    if operator in ("In", "NotIn") and not values:
        return [Problem("", f"has the operator {operator} without values", "list at least one value")]
    if operator in _NUMERIC_OPERATORS and len(values) != 1:
        return [Problem("", f"has the operator {operator} with {len(values)} values", "give one number, as text")]
    if operator in _NUMERIC_OPERATORS and not _INTEGER.match(values[0]):
        return [Problem("", f"has the operator {operator} and a value that is not a whole number", "give one, as text")]
    return []


def _node_term(description: str, **rules: Any) -> Field:
    requirement = record(
        "a requirement on a node",
        {
            "key": text("label key or field", required=True),
            "operator": text("In, NotIn, Exists, DoesNotExist, Gt or Lt", required=True, choices=_NODE_OPERATORS),
            "values": series("values to compare with", text("value")),
        },
        check=_check_requirement,
    )
    fields = {
        "matchExpressions": series("requirements on the node's labels", requirement),
        "matchFields": series("requirements on the node's fields", requirement),
    }
    return record(description, fields, **rules)


def _check_terms(value: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Refuse terms that are all empty: to Kubernetes an empty term matches no node, and its writer means every node."""
    if not value or any(term.get("matchExpressions") or term.get("matchFields") for term in value):
        return []
    return [Problem("", "match no node: a term without a requirement matches none", "leave it out to mean every node")]


def _required_terms() -> Field:
    return series("terms, one of which must match", _node_term("a term"), fewest=1, required=True, check=_check_terms)


def node_affinity(description: str, **rules: Any) -> Field:
    """Declare a core/v1 NodeAffinity."""
    preferred = record(
        "a preference",
        {
            "weight": whole("weight, 1 to 100", required=True, minimum=1, maximum=100),
            "preference": _node_term("a term", required=True),
        },
    )
    fields = {
        "requiredDuringSchedulingIgnoredDuringExecution": record(
            "what nodes must match", {"nodeSelectorTerms": _required_terms()}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": series("what nodes should match", preferred),
    }
    return record(description, fields, **rules)


def node_selector(description: str, **rules: Any) -> Field:
    """Declare a core/v1 NodeSelector."""
    return record(description, {"nodeSelectorTerms": _required_terms()}, **rules)


def _key_reference(description: str) -> Field:
    fields = {
        "name": text("name of the object", check=or_empty(dns_subdomain)),
        "key": text("key inside the object", required=True),
        "optional": flag("whether the object may be absent"),
    }
    return record(description, fields)


def _check_env(value: Mapping[str, Any]) -> list[Problem]:
    if value.get("value") and value.get("valueFrom"):
        return [Problem("", "has both value and valueFrom", "keep one of them")]
    return []


def env_list(description: str, **rules: Any) -> Field:
    """Declare a list of environment variables."""
    sources = {
        "configMapKeyRef": _key_reference("key of a ConfigMap"),
        "secretKeyRef": _key_reference("key of a Secret"),
        "fieldRef": record(
            "field of the pod",
            {"apiVersion": text("v1"), "fieldPath": text("path of the field", required=True)},
        ),
        "resourceFieldRef": record(
            "resource of the container",
            {
                "containerName": text("name of the container"),
                "resource": text("resource, for example limits.cpu", required=True),
                "divisor": quantity("unit of the result"),
            },
        ),
        "fileKeyRef": record(
            "key in a file of a volume",
            {
                "volumeName": text("name of the volume", required=True),
                "path": text("path inside the volume", required=True),
                "key": text("key inside the file", required=True),
                "optional": flag("whether the key may be absent"),
            },
        ),
    }
    variable = record(
        "an environment variable",
        {
            "name": text("name of the variable", required=True, check=env_name),
            "value": text("value of the variable"),
            "valueFrom": record("where the value comes from", sources),
        },
        check=_check_env,
    )
    return series(description, variable, **rules)


def _resource(name: str) -> list[Problem]:
    if name in _RESOURCES:
        return []
    return [Problem("", f"is none of {', '.join(_RESOURCES)}", "only these two can be set for a component")]


def _check_amounts(value: Mapping[str, Any]) -> list[Problem]:
    """Apply the rules of the vendor's webhook: no amount is zero, no limit is below its request."""
    problems = []
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for group, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if parse_quantity(str(amount)) <= 0:
                problems.append(Problem(f"{group}.{name}", f"is {amount}", "an amount above zero"))
    for name in sorted(set(limits) & set(requests)):
        if parse_quantity(str(limits[name])) < parse_quantity(str(requests[name])):
            text_ = f"the limit {limits[name]} is below the request {requests[name]}"
            problems.append(Problem(f"limits.{name}", text_, "raise the limit or lower the request"))
    return problems


def _check_once(value: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Refuse a container that is named twice: of two entries the operator reads the last one alone."""
    names = [entry.get("name") for entry in value]
    return [
        Problem(f"[{index}].name", f"{name} is given twice", "write limits and requests of a container in one entry")
        for index, name in enumerate(names)
        if name is not None and name in names[:index]
    ]


def container_resources(description: str, containers: tuple[str, ...], **rules: Any) -> Field:
    """Declare the upstream list of per-container resources; ``containers`` are those the component has."""
    amounts = mapping("amounts of cpu and memory", quantity("an amount"), keys=_resource)
    entry = record(
        "the resources of one container",
        {
            "name": text("name of the container", required=True, choices=containers),
            "limits": amounts,
            "requests": amounts,
        },
        check=_check_amounts,
    )
    return series(description, entry, check=_check_once, **rules)


METADATA = record(
    "the object's metadata",
    {
        "name": text("name of the object", required=True),
        "namespace": text("namespace of the object"),
        "labels": label_map("labels"),
        "annotations": annotation_map("annotations"),
        "generateName": text("prefix of a generated name"),
        "finalizers": series("finalizers", text("finalizer")),
        "ownerReferences": series("owners", Field("anything", "an owner")),
        "managedFields": Field("anything", "set by the server"),
        "creationTimestamp": Field("anything", "set by the server"),
        "deletionTimestamp": Field("anything", "set by the server"),
        "deletionGracePeriodSeconds": Field("anything", "set by the server"),
        "resourceVersion": Field("anything", "set by the server"),
        "selfLink": Field("anything", "set by the server"),
        "uid": Field("anything", "set by the server"),
        "generation": Field("anything", "set by the server"),
    },
)
"""The fields of ``metadata``."""
