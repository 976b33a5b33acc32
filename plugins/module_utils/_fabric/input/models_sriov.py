# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of the SR-IOV network operator as models.

Source: the API types ``sriovnetwork.openshift.io/v1`` with their validation.
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch

from ..checks.sriov_policies import check_port
from ..common.jsontext import Problem
from ..common.names import dns_label, label_key, label_value, or_empty
from ..common.schema import Field, Model, flag, label_map, mapping, record, refused, series, text, whole

API_VERSION = "sriovnetwork.openshift.io/v1"

_SWITCH = ("on", "off")
_LOG_LEVELS = ("panic", "error", "warning", "info", "debug", "")


def _network(description: str, capabilities: str, fields: dict[str, Field]) -> Field:
    common = {
        "networkNamespace": text("namespace of the network attachment", check=or_empty(dns_label)),
        "resourceName": text("resource of a SriovNetworkNodePolicy, without nvidia.com/", required=True),
        "capabilities": text(f"what pods may set, as JSON text: {capabilities}"),
        "ipam": text("address management, as JSON text"),
        "metaPlugins": text("further CNI plugins, as JSON objects joined by commas"),
    }
    return record(description, {**common, **fields})


def _check_trunk(value: dict[str, int]) -> list[Problem]:
    ends = [value.get("minID"), value.get("maxID")]
    if value.get("id") is not None and ends == [None, None]:
        return []
    if None in ends or value.get("id") is not None:
        return [Problem("", "is neither one VLAN nor a range", "give id, or minID and maxID")]
    return [Problem("", "has its minID above its maxID", "swap them")] if value["minID"] > value["maxID"] else []


def _vlan(description: str) -> Field:
    return whole(description, minimum=0, maximum=4095)


_LINK_STATE = text("link state of the VF", choices=("auto", "enable", "disable"))
_TRUNK = record(
    "one VLAN or a range",
    {"minID": _vlan("first VLAN"), "maxID": _vlan("last VLAN"), "id": _vlan("the VLAN")},
    check=_check_trunk,
)
_RATE = "in Mbit/s, 0 for no limit"

SRIOV_NETWORK_MODELS = {
    "SriovNetwork": Model(
        "SriovNetwork",
        _network(
            "a network of VFs of Ethernet ports",
            "mac, ips",
            {
                "vlan": whole("VLAN, 0 for none", minimum=0, maximum=4094),
                "vlanQoS": whole("priority in the VLAN tag", minimum=0, maximum=7),
                "vlanProto": text("protocol of the VLAN tag", choices=("802.1q", "802.1Q", "802.1ad", "802.1AD")),
                "spoofChk": text("whether foreign source addresses are dropped", choices=_SWITCH),
                "trust": text("whether the VF is trusted", choices=_SWITCH),
                "linkState": _LINK_STATE,
                "minTxRate": whole(f"least rate of sending, {_RATE}", minimum=0),
                "maxTxRate": whole(f"highest rate of sending, {_RATE}", minimum=0),
                "logLevel": text("what the plugin logs; info unless given", choices=_LOG_LEVELS),
                "logFile": text("file on the node that the plugin logs to"),
            },
        ),
    ),
    "SriovIBNetwork": Model(
        "SriovIBNetwork",
        _network("a network of VFs of InfiniBand ports", "infinibandGUID", {"linkState": _LINK_STATE}),
    ),
    "OVSNetwork": Model(
        "OVSNetwork",
        _network(
            "a network of VFs on Open vSwitch",
            "mac, ips",
            {
                "bridge": text("bridge, found by the VF where it is not given"),
                "vlan": _vlan("VLAN of the port, 0 for none"),
                "mtu": whole("MTU of the port in bytes, 0 for the bridge's", minimum=0, maximum=65535),
                "trunk": series("VLANs of a trunk", _TRUNK),
                "interfaceType": text("type of the interface in Open vSwitch"),
            },
        ),
    ),
}
"""The models of the network kinds, by kind."""

_PERCENTAGE = re.compile(r"^(?:[1-9]\d?|100)%\Z", re.ASCII)
_HEX_ID = re.compile(r"^[0-9a-f]{4}\Z", re.ASCII)
_ADDRESS = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z", re.ASCII)


def _check_id(value: str) -> list[Problem]:
    hint = "four hexadecimal digits in lower case, as lspci -n prints them"
    return [] if not value or _HEX_ID.match(value) else [Problem("", f"{value!r} is not a PCI ID", hint)]


def _check_address(value: str) -> list[Problem]:
    return [] if _ADDRESS.match(value) else [Problem("", f"{value!r} is not a PCI address", "for example 0000:3b:00.0")]


_SELECTOR = record(
    "the ports",
    {
        "vendor": text("PCI id of the vendor", check=_check_id),
        "deviceID": text("PCI id of the card's ports", check=_check_id),
        "rootDevices": series("PCI addresses of ports", text("address", check=_check_address)),
        "pfNames": series("interfaces of ports, each with a range of VFs", text("ens1f0#0-3", check=check_port)),
        "netFilter": refused(
            text("network of OpenStack or AWS that the ports of a virtual machine are on"),
            "a host does not tell which network of its platform a port is on",
            "select the ports by pciAddresses in sriovDevicePlugin.config; by rootDevices it finds VFs alone",
        ),
    },
    required=True,
)

NODE_POLICY = Model(
    "SriovNetworkNodePolicy",
    record(
        "VFs of a group of nodes, offered as a resource",
        {
            "resourceName": text("resource, without nvidia.com/", required=True),
            "nodeSelector": label_map("labels of the nodes", required=True),
            "priority": whole(
                "0 counts most, and 99 is what the webhook writes where none is given", minimum=0, maximum=99
            ),
            "mtu": whole("MTU of the VFs in bytes", minimum=1, maximum=65535),
            "numVfs": whole("VFs of each port; 0 offers the ports themselves", required=True, minimum=0),
            "nicSelector": _SELECTOR,
            "deviceType": text("driver of the VFs", choices=("netdevice", "vfio-pci")),
            "isRdma": flag("whether pods get the RDMA device of the VF"),
            "needVhostNet": flag("whether pods get /dev/vhost-net"),
            "linkType": text("link of the ports", choices=("eth", "ETH", "ib", "IB")),
            "eSwitchMode": text("mode of the e-switch", choices=("legacy", "switchdev")),
            "vdpaType": text("driver of the vDPA devices that pods get", choices=("virtio", "vhost")),
            "excludeTopology": flag("whether the NUMA node is kept from kubelet"),
            "externallyManaged": flag("whether the VFs are made by others, and only offered"),
            "bridge": refused(
                Field("anything", "bridge of Open vSwitch for each port"),
                "no bridge of Open vSwitch is made on hosts",
                "leave it out and make it there: ovs-vsctl --may-exist add-br BRIDGE -- --may-exist add-port BRIDGE "
                "PORT; an OVSNetwork finds it by the VF, or names it",
            ),
            "devlinkParams": refused(
                Field("anything", "devlink parameters"),
                "no parameter of devlink is set on hosts",
                "leave it out and have the host set it at boot, after the driver is loaded: devlink dev param set "
                "pci/ADDRESS name NAME value VALUE cmode runtime",
            ),
        },
    ),
)


def _check_amount(value: Any) -> list[Problem]:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if is_number or (isinstance(value, str) and _PERCENTAGE.match(value)):
        return []
    return [Problem("", mismatch(value, "a number of nodes"), "a whole number, or a percentage such as 50%")]


def _check_expression(value: dict[str, Any]) -> list[Problem]:
    needs_values = value.get("operator") in ("In", "NotIn")
    if needs_values == bool(value.get("values")):
        return []
    hint = "list at least one value" if needs_values else "drop the values"
    return [Problem("", f"has the operator {value.get('operator')} and {'no ' if needs_values else ''}values", hint)]


_EXPRESSION = record(
    "a requirement on the labels",
    {
        "key": text("label key", required=True, check=label_key),
        "operator": text("how it is compared", required=True, choices=("In", "NotIn", "Exists", "DoesNotExist")),
        "values": series("values to compare with", text("value", check=label_value)),
    },
    check=_check_expression,
)
POOL_CONFIG = Model(
    "SriovNetworkPoolConfig",
    record(
        "settings of a group of nodes",
        {
            "nodeSelector": record(
                "the nodes, all where it is not given",
                {
                    "matchLabels": label_map("labels of the nodes"),
                    "matchExpressions": series("requirements on the nodes' labels", _EXPRESSION),
                },
            ),
            "maxUnavailable": Field(
                "anything",
                "nodes that change at once, as a number or a percentage",
                check=_check_amount,
                idle=(
                    "rdma_fabric_max_unavailable says how many nodes are out of service at once while "
                    "rdma.fabric.upgrade changes them"
                ),
            ),
            "rdmaMode": text("mode of the RDMA subsystem", choices=("shared", "exclusive")),
            "ovsHardwareOffloadConfig": record(
                "hardware offload of Open vSwitch",
                {
                    "name": text("name of the configuration"),
                    "otherConfig": mapping("settings of Open vSwitch by name", text("value")),
                },
                idle=(
                    "no service of Open vSwitch is changed; the ports of a policy with eSwitchMode: switchdev take its "
                    "rules into the hardware"
                ),
            ),
        },
    ),
)

_NO_DAEMON = "no daemon of the operator runs here"
_NO_INJECTOR = "nothing changes pods here: they ask for the resource of each network themselves"
_FEATURES = {
    "parallelNicConfig": flag("whether ports are set up side by side", idle="a host does its steps in their order"),
    "resourceInjectorMatchCondition": flag(
        "whether the injector is asked about pods with networks alone", idle=_NO_INJECTOR
    ),
    "metricsExporter": flag("whether VFs are counted for Prometheus", idle="no exporter of VFs is deployed"),
    "manageSoftwareBridges": flag(
        "whether bridges of policies are made", idle="no bridge of Open vSwitch is made on hosts"
    ),
    "mellanoxFirmwareReset": flag(
        "whether cards are reset for new firmware parameters",
        idle="firmware parameters count from the next boot of a host (rdma_fabric_allow_reboot)",
    ),
    "blockDevicePluginUntilConfigured": flag(
        "whether device plugins wait for the VFs of their node",
        idle="hosts are changed before device plugins are deployed",
    ),
    "dynamicResourceAllocation": flag(
        "whether VFs are offered through resource claims",
        idle="VFs are offered by a device plugin: have pods ask for nvidia.com/NAME of their network, in place of a "
        "ResourceClaim",
    ),
}
OPERATOR_CONFIG = Model(
    "SriovOperatorConfig",
    record(
        "the operator's own configuration",
        {
            "configDaemonNodeSelector": label_map("labels of the nodes that policies are about, beside their own"),
            "useCDI": flag("whether devices of policies are announced through the Container Device Interface"),
            "enableInjector": flag(
                "whether pods get the resources of their networks by themselves",
                idle=_NO_INJECTOR,
            ),
            "enableOperatorWebhook": flag(
                "whether the rules and defaults of the operator's webhook count; true by default"
            ),
            "logLevel": whole("what the operator logs", minimum=0, maximum=2, idle=_NO_DAEMON),
            "disableDrain": flag(
                "whether nodes are changed without a drain",
                idle="rdma.fabric.upgrade drains every node that it interrupts, rdma.fabric.site none",
            ),
            "enableOvsOffload": flag(
                "hardware offload of Open vSwitch",
                idle=(
                    "no service of Open vSwitch is changed; the ports of a policy with eSwitchMode: switchdev take its "
                    "rules into the hardware"
                ),
            ),
            "configurationMode": text(
                "who makes VFs at boot",
                choices=("daemon", "systemd"),
                idle="the boot unit makes them, before kubelet starts",
            ),
            "disablePlugins": series(
                "vendors whose cards are left alone",
                text("vendor", choices=("mellanox",)),
                idle="firmware is set where rdma_fabric_interfaces asks for it (firmware), and nowhere else",
            ),
            "featureGates": record("features by name", _FEATURES),
            "configDaemonEnvVars": mapping("environment of the daemon", text("value"), idle=_NO_DAEMON),
        },
    ),
)

SRIOV_POLICY_MODELS = {model.name: model for model in (NODE_POLICY, POOL_CONFIG, OPERATOR_CONFIG)}
"""The models of what is asked of nodes, by kind."""

SRIOV_MODELS = {**SRIOV_NETWORK_MODELS, **SRIOV_POLICY_MODELS}
"""Every model, by kind."""
