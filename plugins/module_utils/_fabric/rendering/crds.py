# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The custom resource definitions of the programs this collection deploys, written from their published API types.

Every schema is structural and closed: the API server drops or (with strict validation) refuses what the program would
not read.
"""

from __future__ import annotations

from typing import Any, Dict

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.objects import Object, build

Schema = Dict[str, Any]

_STRING: Schema = {"type": "string"}
_INT32: Schema = {"format": "int32", "type": "integer"}
_OPERATORS = ["In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Lt", "GtLt", "IsTrue", "IsFalse"]


def network_attachment_definition() -> Object:
    """Return the CRD of the Network Plumbing Working Group's NetworkAttachmentDefinition."""
    return _crd(
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
        "multus",
        {"spec": _object({"config": _STRING})},
        singular="network-attachment-definition",
        short_names=["nad", "net-attach-def"],
    )


def whereabouts(with_node_slices: bool) -> list[Object]:
    """Return the CRDs of whereabouts; NodeSlicePool exists since 0.9.0.

    Required fields are those that every release since 0.5 writes: 0.8 began to demand more than older ones set.
    """
    allocation = _object({"id": _STRING, "ifname": _STRING, "podref": _STRING}, ["id"])
    pool = _object({"allocations": _map_of(allocation), "range": _STRING}, ["allocations", "range"])
    reservation = _object({"containerid": _STRING, "ifname": _STRING, "podref": _STRING})
    found = [
        _whereabouts_crd("IPPool", {"spec": pool}),
        _whereabouts_crd("OverlappingRangeIPReservation", {"spec": reservation}, required=["spec"]),
    ]
    if with_node_slices:
        node_slice = _object({"nodeName": _STRING, "sliceRange": _STRING}, ["nodeName", "sliceRange"])
        spec = _object({"range": _STRING, "sliceSize": _STRING}, ["range", "sliceSize"])
        status = _object({"allocations": _list_of(node_slice)}, ["allocations"])
        found.append(_whereabouts_crd("NodeSlicePool", {"spec": spec, "status": status}))
    return found


def nv_ipam() -> list[Object]:
    """Return the CRDs of nv-ipam's pools (API ``nv-ipam.nvidia.com/v1alpha1`` of release 26.4)."""
    addresses = _object({"endIP": _STRING, "startIP": _STRING}, ["endIP", "startIP"])
    index = {**_INT32, "minimum": 0}
    indexes = _object({"endIndex": index, "startIndex": index}, ["endIndex", "startIndex"])
    ordered = "endIndex must be greater than or equal to startIndex"
    indexes["x-kubernetes-validations"] = [{"message": ordered, "rule": "self.endIndex >= self.startIndex"}]
    common = {
        "defaultGateway": {"type": "boolean"},
        "exclusions": _list_of(addresses),
        "nodeSelector": _node_selector(),
        "perNodeExclusions": _list_of(indexes),
        "routes": _list_of(_object({"dst": _STRING}, ["dst"])),
    }
    ip_pool = {**common, "gateway": _STRING, "perNodeBlockSize": {"type": "integer"}, "subnet": _STRING}
    part = {"gateway": _STRING, "nodeName": _STRING, "prefix": _STRING}
    cidr_pool = {
        **common,
        "cidr": _STRING,
        "gatewayIndex": _INT32,
        "perNodeNetworkPrefix": _INT32,
        "staticAllocations": _list_of(_object(part, ["prefix"])),
    }
    block = dict.fromkeys(("endIP", "nodeName", "startIP"), _STRING)
    return [
        _nv_ipam_crd(
            "IPPool",
            _object(ip_pool, ["perNodeBlockSize", "subnet"]),
            _object(block, ["endIP", "nodeName", "startIP"]),
            [("Subnet", "subnet"), ("Gateway", "gateway"), ("Block Size", "perNodeBlockSize")],
        ),
        _nv_ipam_crd(
            "CIDRPool",
            _object(cidr_pool, ["cidr", "perNodeNetworkPrefix"]),
            _object(part, ["nodeName", "prefix"]),
            [("CIDR", "cidr"), ("Gateway index", "gatewayIndex"), ("Per Node Network Prefix", "perNodeNetworkPrefix")],
        ),
    ]


def _nv_ipam_crd(kind: str, spec: Schema, allocation: Schema, columns: list[tuple[str, str]]) -> Object:
    status = _object({"allocations": _list_of(allocation)}, ["allocations"])
    fields = {"spec": spec, "status": status}
    found = _crd("nv-ipam.nvidia.com/v1alpha1", kind, f"{kind.lower()}s", "nv-ipam", fields, required=["spec"])
    served = found["spec"]["versions"][0]
    served["additionalPrinterColumns"] = [
        {"jsonPath": f".spec.{field}", "name": name, "type": "integer" if "perNode" in field else "string"}
        for name, field in columns
    ]
    # The controller writes allocations through the status subresource alone; the canonical form drops the empty map.
    served["subresources"] = {"status": {}}
    return found


def _node_selector() -> Schema:
    """Return the schema of core/v1 NodeSelector, whose lists are replaced as a whole."""
    requirement = _object({"key": _STRING, "operator": _STRING, "values": _atomic(_STRING)}, ["key", "operator"])
    term = _object({"matchExpressions": _atomic(requirement), "matchFields": _atomic(requirement)})
    term["x-kubernetes-map-type"] = "atomic"
    found = _object({"nodeSelectorTerms": _atomic(term)}, ["nodeSelectorTerms"])
    return {**found, "x-kubernetes-map-type": "atomic"}


def node_feature_discovery() -> list[Object]:
    """Return the CRDs of node-feature-discovery (API ``nfd.k8s-sigs.io/v1alpha1`` of release 0.17)."""
    group_status = _list_of(_object({"name": _STRING}, ["name"]))
    group_status.update({"x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map"})
    group_rule = _object({"name": _STRING, **_matchers()}, ["name"])
    group = _nfd_crd(
        "NodeFeatureGroup",
        {
            "spec": _object({"featureGroupRules": _list_of(group_rule)}, ["featureGroupRules"]),
            "status": _object({"nodes": group_status}),
        },
        short_names=["nfg"],
    )
    # An empty map means something here, so it is set after the canonical form has dropped empty ones.
    group["spec"]["versions"][0]["subresources"] = {"status": {}}
    return [
        _nfd_crd("NodeFeature", {"spec": _node_feature()}),
        group,
        _nfd_crd(
            "NodeFeatureRule",
            {"spec": _object({"rules": _list_of(_node_rule())}, ["rules"])},
            scope="Cluster",
            short_names=["nfr"],
        ),
    ]


def _node_feature() -> Schema:
    instance = _object({"attributes": _map_of(_STRING)}, ["attributes"])
    features = {
        "attributes": _map_of(_object({"elements": _map_of(_STRING)}, ["elements"])),
        "flags": _map_of(_object({"elements": _map_of({"type": "object"})}, ["elements"])),
        "instances": _map_of(_object({"elements": _list_of(instance)}, ["elements"])),
    }
    return _object({"features": _object(features), "labels": _map_of(_STRING)})


def _node_rule() -> Schema:
    taint = {
        "effect": _STRING,
        "key": _STRING,
        "timeAdded": {"format": "date-time", "type": "string"},
        "value": _STRING,
    }
    maps = {key: _map_of(_STRING) for key in ("annotations", "extendedResources", "labels", "vars")}
    texts = dict.fromkeys(("labelsTemplate", "name", "varsTemplate"), _STRING)
    taints = {"taints": _list_of(_object(taint, ["effect", "key"]))}
    return _object({**maps, **texts, **taints, **_matchers()}, ["name"])


def _matchers() -> dict[str, Schema]:
    operator = {"enum": _OPERATORS, "type": "string"}
    expression = _object({"op": operator, "value": _list_of(_STRING)}, ["op"])
    term = {"feature": _STRING, "matchExpressions": _map_of(expression), "matchName": expression}
    terms = _list_of(_object(term, ["feature"]))
    return {"matchAny": _list_of(_object({"matchFeatures": terms}, ["matchFeatures"])), "matchFeatures": terms}


def _whereabouts_crd(kind: str, schema: dict[str, Schema], required: list[str] | None = None) -> Object:
    return _crd("whereabouts.cni.cncf.io/v1alpha1", kind, f"{kind.lower()}s", "whereabouts", schema, required=required)


def _nfd_crd(
    kind: str, schema: dict[str, Schema], scope: str = "Namespaced", short_names: list[str] | None = None
) -> Object:
    return _crd(
        "nfd.k8s-sigs.io/v1alpha1",
        kind,
        f"{kind.lower()}s",
        "nfd",
        schema,
        required=["spec"],
        scope=scope,
        short_names=short_names,
    )


def _crd(
    api_version: str,
    kind: str,
    plural: str,
    component: str,
    schema: dict[str, Schema],
    *,
    singular: str = "",
    scope: str = "Namespaced",
    short_names: list[str] | None = None,
    required: list[str] | None = None,
) -> Object:
    group, _slash, version = api_version.partition("/")
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "shortNames": short_names or [],
        "singular": singular or kind.lower(),
    }
    fields = {"apiVersion": _STRING, "kind": _STRING, "metadata": {"type": "object"}, **schema}
    served = {
        "name": version,
        "schema": {"openAPIV3Schema": _object(fields, required)},
        "served": True,
        "storage": True,
    }
    return build(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.{group}",
        component,
        spec={"group": group, "names": names, "scope": scope, "versions": [served]},
    )


def _object(properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    return {"properties": properties, "required": required or [], "type": "object"}


def _map_of(items: Schema) -> Schema:
    return {"additionalProperties": items, "type": "object"}


def _list_of(items: Schema) -> Schema:
    return {"items": items, "type": "array"}


def _atomic(items: Schema) -> Schema:
    return {**_list_of(items), "x-kubernetes-list-type": "atomic"}
