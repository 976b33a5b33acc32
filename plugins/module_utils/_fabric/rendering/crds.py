# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The custom resource definitions of the programs this collection deploys, written from their published API types.

Every schema is structural and closed: the API server drops or (with strict validation) refuses what the program would
not read.
"""

from __future__ import annotations

from ..checks.crds_controllers import INT32, STRING, Schema, atomic, definition, list_of, map_of, object_of
from ..common.objects import Object

_OPERATORS = ["In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Lt", "GtLt", "IsTrue", "IsFalse"]
_OPERATORS_OF_0_18 = ["Ge", "Le", "GeLe"]


def network_attachment_definition() -> Object:
    """Return the CRD of the Network Plumbing Working Group's NetworkAttachmentDefinition."""
    return definition(
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
        "multus",
        {"spec": object_of({"config": STRING})},
        singular="network-attachment-definition",
        short_names=["nad", "net-attach-def"],
    )


def whereabouts(with_node_slices: bool) -> list[Object]:
    """Return the CRDs of whereabouts; NodeSlicePool exists since 0.9.0.

    Required fields are those that every release since 0.5 writes: 0.8 began to demand more than older ones set.
    """
    allocation = object_of({"id": STRING, "ifname": STRING, "podref": STRING}, ["id"])
    pool = object_of({"allocations": map_of(allocation), "range": STRING}, ["allocations", "range"])
    reservation = object_of({"containerid": STRING, "ifname": STRING, "podref": STRING})
    found = [
        _whereabouts_crd("IPPool", {"spec": pool}),
        _whereabouts_crd("OverlappingRangeIPReservation", {"spec": reservation}, required=["spec"]),
    ]
    if with_node_slices:
        node_slice = object_of({"nodeName": STRING, "sliceRange": STRING}, ["nodeName", "sliceRange"])
        spec = object_of({"range": STRING, "sliceSize": STRING}, ["range", "sliceSize"])
        status = object_of({"allocations": list_of(node_slice)}, ["allocations"])
        found.append(_whereabouts_crd("NodeSlicePool", {"spec": spec, "status": status}))
    return found


def nv_ipam() -> list[Object]:
    """Return the CRDs of nv-ipam's pools (API ``nv-ipam.nvidia.com/v1alpha1`` of release 26.4)."""
    addresses = object_of({"endIP": STRING, "startIP": STRING}, ["endIP", "startIP"])
    index = {**INT32, "minimum": 0}
    indexes = object_of({"endIndex": index, "startIndex": index}, ["endIndex", "startIndex"])
    ordered = "endIndex must be greater than or equal to startIndex"
    indexes["x-kubernetes-validations"] = [{"message": ordered, "rule": "self.endIndex >= self.startIndex"}]
    common = {
        "defaultGateway": {"type": "boolean"},
        "exclusions": list_of(addresses),
        "nodeSelector": _node_selector(),
        "perNodeExclusions": list_of(indexes),
        "routes": list_of(object_of({"dst": STRING}, ["dst"])),
    }
    ip_pool = {**common, "gateway": STRING, "perNodeBlockSize": {"type": "integer"}, "subnet": STRING}
    part = {"gateway": STRING, "nodeName": STRING, "prefix": STRING}
    cidr_pool = {
        **common,
        "cidr": STRING,
        "gatewayIndex": INT32,
        "perNodeNetworkPrefix": INT32,
        "staticAllocations": list_of(object_of(part, ["prefix"])),
    }
    block = dict.fromkeys(("endIP", "nodeName", "startIP"), STRING)
    return [
        _nv_ipam_crd(
            "IPPool",
            object_of(ip_pool, ["perNodeBlockSize", "subnet"]),
            object_of(block, ["endIP", "nodeName", "startIP"]),
            [("Subnet", "subnet"), ("Gateway", "gateway"), ("Block Size", "perNodeBlockSize")],
        ),
        _nv_ipam_crd(
            "CIDRPool",
            object_of(cidr_pool, ["cidr", "perNodeNetworkPrefix"]),
            object_of(part, ["nodeName", "prefix"]),
            [("CIDR", "cidr"), ("Gateway index", "gatewayIndex"), ("Per Node Network Prefix", "perNodeNetworkPrefix")],
        ),
    ]


def _nv_ipam_crd(kind: str, spec: Schema, allocation: Schema, columns: list[tuple[str, str]]) -> Object:
    status = object_of({"allocations": list_of(allocation)}, ["allocations"])
    fields = {"spec": spec, "status": status}
    # The controller writes allocations through the status subresource alone.
    found = definition(
        "nv-ipam.nvidia.com/v1alpha1",
        kind,
        f"{kind.lower()}s",
        "nv-ipam",
        fields,
        required=["spec"],
        has_status=True,
    )
    found["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"jsonPath": f".spec.{field}", "name": name, "type": "integer" if "perNode" in field else "string"}
        for name, field in columns
    ]
    return found


def _node_selector() -> Schema:
    """Return the schema of core/v1 NodeSelector, whose lists are replaced as a whole."""
    requirement = object_of({"key": STRING, "operator": STRING, "values": atomic(STRING)}, ["key", "operator"])
    term = object_of({"matchExpressions": atomic(requirement), "matchFields": atomic(requirement)})
    term["x-kubernetes-map-type"] = "atomic"
    found = object_of({"nodeSelectorTerms": atomic(term)}, ["nodeSelectorTerms"])
    return {**found, "x-kubernetes-map-type": "atomic"}


def node_feature_discovery(*, of_0_18: bool = False) -> list[Object]:
    """Return the CRDs of node-feature-discovery (API ``nfd.k8s-sigs.io/v1alpha1`` of release 0.17, or of 0.18)."""
    matchers = _matchers(of_0_18)
    group_status = list_of(object_of({"name": STRING}, ["name"]))
    group_status.update({"x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map"})
    variables = {"vars": map_of(STRING), "varsTemplate": STRING} if of_0_18 else {}
    group_rule = object_of({"name": STRING, **variables, **matchers}, ["name"])
    group = _nfd_crd(
        "NodeFeatureGroup",
        {
            "spec": object_of({"featureGroupRules": list_of(group_rule)}, ["featureGroupRules"]),
            "status": object_of({"nodes": group_status}),
        },
        short_names=["nfg"],
        has_status=True,
    )
    return [
        _nfd_crd("NodeFeature", {"spec": _node_feature()}),
        group,
        _nfd_crd(
            "NodeFeatureRule",
            {"spec": object_of({"rules": list_of(_node_rule(matchers))}, ["rules"])},
            scope="Cluster",
            short_names=["nfr"],
        ),
    ]


def _node_feature() -> Schema:
    instance = object_of({"attributes": map_of(STRING)}, ["attributes"])
    features = {
        "attributes": map_of(object_of({"elements": map_of(STRING)}, ["elements"])),
        "flags": map_of(object_of({"elements": map_of({"type": "object"})}, ["elements"])),
        "instances": map_of(object_of({"elements": list_of(instance)}, ["elements"])),
    }
    return object_of({"features": object_of(features), "labels": map_of(STRING)})


def _node_rule(matchers: dict[str, Schema]) -> Schema:
    taint = {
        "effect": STRING,
        "key": STRING,
        "timeAdded": {"format": "date-time", "type": "string"},
        "value": STRING,
    }
    maps = {key: map_of(STRING) for key in ("annotations", "extendedResources", "labels", "vars")}
    texts = dict.fromkeys(("labelsTemplate", "name", "varsTemplate"), STRING)
    taints = {"taints": list_of(object_of(taint, ["effect", "key"]))}
    return object_of({**maps, **texts, **taints, **matchers}, ["name"])


def _matchers(of_0_18: bool) -> dict[str, Schema]:
    operator = {"enum": [*_OPERATORS, *(_OPERATORS_OF_0_18 if of_0_18 else ())], "type": "string"}
    kind_of_value = {"type": STRING} if of_0_18 else {}
    expression = object_of({"op": operator, **kind_of_value, "value": list_of(STRING)}, ["op"])
    term = {"feature": STRING, "matchExpressions": map_of(expression), "matchName": expression}
    terms = list_of(object_of(term, ["feature"]))
    return {"matchAny": list_of(object_of({"matchFeatures": terms}, ["matchFeatures"])), "matchFeatures": terms}


def _whereabouts_crd(kind: str, schema: dict[str, Schema], required: list[str] | None = None) -> Object:
    return definition(
        "whereabouts.cni.cncf.io/v1alpha1", kind, f"{kind.lower()}s", "whereabouts", schema, required=required
    )


def _nfd_crd(
    kind: str,
    schema: dict[str, Schema],
    scope: str = "Namespaced",
    short_names: list[str] | None = None,
    has_status: bool = False,
) -> Object:
    return definition(
        "nfd.k8s-sigs.io/v1alpha1",
        kind,
        f"{kind.lower()}s",
        "nfd",
        schema,
        required=["spec"],
        scope=scope,
        short_names=short_names,
        has_status=has_status,
    )
