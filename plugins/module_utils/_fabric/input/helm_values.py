# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of the Network Operator's Helm chart, of every release, as field declarations.

Source: ``deployment/network-operator/values.yaml`` of each release tag. The chart made a NicClusterPolicy from its
values until v24.7.1 (``deployCR``); since v24.10.0 it does not, and the sections are unknown to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

from ..common.names import dns_subdomain
from ..common.schema import Field, Model, flag, record, refused, series, text, whole
from .models import NIC_CLUSTER_POLICY, with_container
from .settings import NO_PROXY_READER

LAST_WITH_SECTIONS = "v24.7.1"
_NO_OPERATOR = "there is no operator in the cluster to set up"
_REQUESTOR = (
    "no maintenance operator is asked for nodes: rdma.fabric.upgrade drains, reboots and uncordons them in turn, and "
    "rdma_fabric_max_unavailable says how many are out of service at once"
)
_OWN_CHART = "this collection renders its own configuration of it"
_OWN_IMAGES = "images are those of the bill of materials; give others in nicConfigurationOperator of a NicClusterPolicy"
_NOT_DEPLOYED = "it is not deployed by this collection"
# Documents of the operator have such values.
_READ_BY_NO_CHART = "the templates of no release of the chart read it"

_STRINGS = series("values", text("value"))


def _deployable(field: Field, read_as: str, extra: Mapping[str, Field] | None = None) -> Field:
    """Return the chart's version of a policy's section: with ``deploy``, nothing required, retired with the chart's."""
    fields = {name: replace(child, required=False) for name, child in (field.fields or {}).items()}
    fields.update({"deploy": flag("whether the component is deployed"), **(extra or {})})
    successor = field.successor if field.until else f"it is read as {read_as} of the NicClusterPolicy; move it there"
    return replace(field, fields=fields, until=field.until or LAST_WITH_SECTIONS, successor=successor)


def _resources(**selectors: Field) -> dict[str, Field]:
    item = record("a resource", {"name": text("name of the resource", required=True), **selectors})
    return {"resources": series("the resources the plugin offers", item)}


_POLICY = NIC_CLUSTER_POLICY.root.fields or {}
_SECONDARY = _POLICY["secondaryNetwork"].fields or {}
_RDMA_SELECTORS = dict.fromkeys(("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes"), _STRINGS)
_SRIOV_SELECTORS = dict.fromkeys(
    ("vendors", "devices", "drivers", "pfNames", "pciAddresses", "rootDevices", "linkTypes"), _STRINGS
)
_INIT_IMAGE = "the init container is always there; rdma_fabric_image_overrides names its image (doca-driver-init)"
_INIT_CONTAINER = {"initContainer": Field("anything", "init container", idle="the driver is installed on the host")}
_RDMA_RESOURCES = _resources(rdmaHcaMax=whole("pods that may share the devices", minimum=0), **_RDMA_SELECTORS)

POLICY_SECTIONS = (
    "nodeAffinity",
    "tolerations",
    "ofedDriver",
    "nvPeerDriver",
    "devicePlugin",
    "rdmaSharedDevicePlugin",
    "sriovDevicePlugin",
    "nvIpam",
    "docaTelemetryService",
    "ibKubernetes",
    "nicFeatureDiscovery",
    "secondaryNetwork",
)
"""What the chart made a NicClusterPolicy of, and left unread without ``deployCR``."""


def _operator() -> Field:
    idle = (
        "admissionController",
        "affinity",
        "coverage",
        "fullnameOverride",
        "image",
        "imagePullSecrets",
        "nameOverride",
        "nodeSelector",
        "ofedDriver",
        "preStopSleepSeconds",
        "priorityClassName",
        "repository",
        "resources",
        "tag",
        "terminationGracePeriodSeconds",
        "tolerations",
        "useDTK",
    )
    fields = {name: Field("anything", "about the operator's pod", idle=_NO_OPERATOR) for name in idle}
    fields["maintenanceOperator"] = Field("anything", "whom the operator asks for nodes", idle=_REQUESTOR)
    fields["cniBinDirectory"] = text("directory of CNI programs on the nodes")
    fields["cniNetworkDirectory"] = text("directory of CNI configurations on the nodes")
    return record("the operator", fields)


CHART = Model(
    "the chart's values",
    record(
        "values",
        {
            "nfd": record(
                "Node Feature Discovery",
                {
                    "enabled": flag("whether it is deployed"),
                    "deployNodeFeatureRules": flag(
                        "whether the vendor's rule is deployed", idle="the rule comes and goes with NFD"
                    ),
                },
            ),
            "sriovNetworkOperator": record(
                "the SR-IOV operator",
                {
                    "enabled": flag("whether it is deployed"),
                    "configDaemonNodeSelectorExtra": Field("anything", "node labels", idle=_NOT_DEPLOYED),
                    "resourcePrefix": refused(
                        text("prefix of resources"),
                        _READ_BY_NO_CHART,
                        "write sriov-network-operator.operator.resourcePrefix",
                    ),
                },
            ),
            "nicConfigurationOperator": record(
                "the NIC configuration operator",
                {"enabled": flag("whether it is deployed")},
                until="v25.10.0",
                successor="it is read as nicConfigurationOperator of the NicClusterPolicy; move it there",
            ),
            "sriovOperatorConfig": refused(
                Field("anything", "how the SR-IOV operator is deployed"),
                _READ_BY_NO_CHART,
                "write sriov-network-operator.sriovOperatorConfig",
            ),
            "maintenanceOperator": record("an operator", {"enabled": flag("whether it is deployed")}),
            "node-feature-discovery": Field("anything", "values of a sub-chart", idle=_OWN_CHART),
            "sriov-network-operator": Field("anything", "values of a sub-chart", idle=_NOT_DEPLOYED),
            "maintenance-operator-chart": Field("anything", "values of a sub-chart", idle=_NOT_DEPLOYED),
            "nic-configuration-operator-chart": Field("anything", "values of a sub-chart", idle=_OWN_IMAGES),
            "operator": _operator(),
            "imagePullSecrets": series("pull secrets", text("name of a Secret", check=dns_subdomain)),
            "upgradeCRDs": flag("whether CRDs are upgraded", idle="CRDs are part of every run"),
            "keepNCP": flag("whether the policy outlives the chart", idle=_NO_OPERATOR),
            "global": Field("anything", "values for sub-charts", idle=_NO_OPERATOR),
            "test": Field("anything", "the chart's test", idle="there is no chart to test"),
            "proxy": record(
                "proxy of the workloads",
                {"httpProxy": text("for http"), "httpsProxy": text("for https"), "noProxy": text("reached directly")},
                until="v1.2.0",
                successor="rdma_fabric_proxy takes its place",
                idle=NO_PROXY_READER,
            ),
            "deployCR": flag(
                "whether a NicClusterPolicy is made of the values",
                until=LAST_WITH_SECTIONS,
                successor="it is supported; later charts make no policy at all, give a NicClusterPolicy",
            ),
            "nodeAffinity": _POLICY["nodeAffinity"],
            "tolerations": _POLICY["tolerations"],
            "psp": _POLICY["psp"],
            "ofedDriver": _deployable(_POLICY["ofedDriver"], "ofedDriver", _INIT_CONTAINER),
            "nvPeerDriver": _deployable(_POLICY["nvPeerDriver"], "nvPeerDriver"),
            "devicePlugin": _deployable(_POLICY["devicePlugin"], "rdmaSharedDevicePlugin", _RDMA_RESOURCES),
            "rdmaSharedDevicePlugin": _deployable(
                _POLICY["rdmaSharedDevicePlugin"], "rdmaSharedDevicePlugin", _RDMA_RESOURCES
            ),
            "sriovDevicePlugin": _deployable(
                _POLICY["sriovDevicePlugin"], "sriovDevicePlugin", _resources(**_SRIOV_SELECTORS)
            ),
            "nvIpam": _deployable(_POLICY["nvIpam"], "nvIpam"),
            "docaTelemetryService": _deployable(_POLICY["docaTelemetryService"], "docaTelemetryService"),
            "ibKubernetes": _deployable(_POLICY["ibKubernetes"], "ibKubernetes"),
            "nicFeatureDiscovery": _deployable(_POLICY["nicFeatureDiscovery"], "nicFeatureDiscovery"),
            "secondaryNetwork": record(
                "secondary networks",
                {
                    "deploy": flag("whether any of them is deployed"),
                    **{
                        name: replace(_deployable(field, ""), until="", successor="")
                        for name, field in _SECONDARY.items()
                    },
                },
                until=LAST_WITH_SECTIONS,
                successor="it is read as secondaryNetwork of the NicClusterPolicy; move it there",
            ),
        },
    ),
)
"""Every value of every release of the chart."""


def _of_containers() -> Model:
    model = with_container(CHART)
    fields = dict(model.root.fields or {})
    driver = fields["ofedDriver"]
    kept = {"initContainer": replace(_INIT_CONTAINER["initContainer"], idle=_INIT_IMAGE)}
    fields["ofedDriver"] = replace(driver, fields={**(driver.fields or {}), **kept})
    return replace(model, root=replace(model.root, fields=fields))


CONTAINER_CHART = _of_containers()
"""The same where ``ofedDriver`` asks for the driver's container."""
