# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CNI configurations: what the CNI library and the plugins of RDMA networks refuse, and what will surprise.

Sources: the CNI specification, libcni (names of networks and programs), the configurations of macvlan, ipvlan, ipoib,
host-device, sriov and ib-sriov.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch

from ..common.jsontext import Problem
from ..common.names import interface, or_empty
from ..common.objects import mapping_of
from ..common.schema import Field, flag, flaws_of, mapping, record, series, text, whole
from .ipam import check_ipam, ipam_remarks

CNI_VERSION = "0.3.1"
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"

_NAME = re.compile(r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*\Z", re.ASCII)
_PKEY = re.compile(r"^0[xX][0-9a-fA-F]{1,8}\Z", re.ASCII)
_LARGEST_PKEY = 0x7FFF
_NEEDS_DEVICE = {"host-device": ("device", "hwaddr", "kernelpath", "pciBusID"), "ib-sriov": ("deviceID",)}
_NEEDS_DEVICE["sriov"] = _NEEDS_DEVICE["ib-sriov"]
_OF_THE_PROJECT = ("bridge", "dummy", "host-device", "ipvlan", "macvlan", "ptp", "tap", "vlan")
_MAKING = (*_OF_THE_PROJECT, "ib-sriov", "ipoib", "ovs", "sriov")
"""Plugins that make the interface of a pod, or move it there, under the name that the whole network is called with."""
_CHAINED = ("bandwidth", "firewall", "portmap", "rdma", "sbr", "tuning", "vrf")
"""Plugins that end without the result of one before them (``prevResult``, their ``cmdAdd``)."""
_IGNORED_TAGS = {"macvlan": ("vlan", "vlanId"), "ipvlan": ("vlan", "vlanId"), "vlan": ("vlan",)}


def check_configuration(config: Any) -> list[Problem]:
    """Return what is wrong with a CNI configuration (one plugin or a list of plugins); paths are keys inside it."""
    problems = flaws_of(_LIST if isinstance(config, dict) and "plugins" in config else _HEAD, _READER, config)
    if not isinstance(config, dict):
        return problems
    problems += _check_order(plugins_of(config))
    if "plugins" not in config:
        return problems + _check_plugin("", config)
    if "type" in config:
        problems.append(Problem("type", "is given together with plugins: a list names its types inside", "drop it"))
    for path, plugin in plugins_of(config) if isinstance(config["plugins"], list) else ():
        problems += flaws_of(_NAMED, _READER, plugin, path[:-1]) + _check_plugin(path, plugin)
    return problems


def configuration_remarks(config: dict[str, Any], annotations: dict[str, str]) -> list[Problem]:
    """Return what is legal in a configuration that passed its check but will surprise, or fail when a pod starts.

    ``annotations`` are those of the attachment that holds it.
    """
    found = []
    if "cniVersion" not in config:
        found.append(Problem("cniVersion", "is missing and counts as 0.1.0", f'add "cniVersion": "{CNI_VERSION}"'))
    for path, plugin in plugins_of(config):
        found += _plugin_remarks(path, plugin, has_resource=bool(annotations.get(RESOURCE_NAME)))
        if "ipam" in plugin:
            found += ipam_remarks(plugin["ipam"], f"{path}ipam")
    return found


def plugins_of(config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return (path prefix, plugin) of every plugin of a configuration."""
    plugins = config.get("plugins")
    if not isinstance(plugins, list):
        return [("", config)]
    return [(f"plugins[{index}].", each) for index, each in enumerate(plugins) if isinstance(each, dict)]


def wire_of(plugin: dict[str, Any], annotations: dict[str, str]) -> tuple[str, ...]:
    """Return what a plugin attaches to: attachments with the same parent interface or device and VLAN share a wire."""
    parent = plugin.get("master") or annotations.get(RESOURCE_NAME) or plugin.get("bridge") or "default route"
    return (str(parent), str(plugin.get("vlan") or plugin.get("vlanId") or plugin.get("pkey") or ""))


def _check_plugin(path: str, plugin: dict[str, Any]) -> list[Problem]:
    kind = plugin.get("type")
    if not isinstance(kind, str) or not kind:
        return [Problem(f"{path}type", "must name a CNI plugin", "for example macvlan")]
    problems = []
    if "/" in kind:
        problems.append(Problem(f"{path}type", f"{kind!r} is not a valid program name", "no / is allowed"))
    problems += flaws_of(_PLUGINS.get(kind, PLUGIN), _READER, plugin, path[:-1])
    problems += _check_ignored_tag(path, kind, plugin)
    if "ipam" in plugin:
        problems += check_ipam(plugin["ipam"], f"{path}ipam")
    return problems


def _check_order(plugins: list[tuple[str, dict[str, Any]]]) -> list[Problem]:
    """Refuse plugins that have nothing to work on, or a name that is taken (containernetworking/plugins#721)."""
    kinds = [(f"{path}type", plugin.get("type")) for path, plugin in plugins]
    problems = []
    if kinds and kinds[0][1] in _CHAINED:
        problem = f"{kinds[0][1]} works on the interface of a plugin before it, and there is none: no pod starts"
        problems.append(Problem(kinds[0][0], problem, "put it behind that plugin, in one list of plugins"))
    made = [each for each in kinds if each[1] in _MAKING]
    for where, kind in made[1:]:
        problem = f"{kind} makes a second interface of the name that {made[0][1]}'s has: no pod starts"
        problems.append(Problem(where, problem, "give each interface a network of its own; pods ask for all of them"))
    return problems


def _check_ignored_tag(path: str, kind: str, plugin: dict[str, Any]) -> list[Problem]:
    """Refuse a VLAN where the plugin reads none (``NetConf`` of the CNI project's macvlan, ipvlan and vlan).

    Its pods would run untagged, each network of a port on the same wire: gpillon/k4all#11.
    """
    problems = []
    for key in _IGNORED_TAGS.get(kind, ()):
        if plugin.get(key):
            own = f"{plugin.get('master') or 'PORT'}.{plugin[key]}"
            hint = f"name the host's interface of that VLAN as the master ({own}), or use the type vlan with vlanId"
            problem = f"{kind} ignores it: pods would not be in VLAN {plugin[key]}"
            problems.append(Problem(f"{path}{key}", problem, "write vlanId" if kind == "vlan" else hint))
    return problems


def _check_partition(pkey: str) -> list[Problem]:
    """Judge the partition as ib-kubernetes does, its only reader: what it refuses leaves pods waiting for a GUID.

    Sources: ``ParsePKey`` of its ``pkg/utils``, ``IsPKeyValid`` of its ``pkg/ib-utils``: 15 bits, as UFM is asked for
    full members in a field of its own.
    """
    example = 'a text such as "0x0001"'
    if not _PKEY.match(pkey):
        return [Problem("", f"{pkey!r} is not a partition key: ib-kubernetes reads 0x and digits", example)]
    if 1 <= int(pkey, 16) <= _LARGEST_PKEY:
        return []
    hint = f'write it without the bit of full members: "0x{int(pkey, 16) & _LARGEST_PKEY:04x}"'
    if not int(pkey, 16) & _LARGEST_PKEY or int(pkey, 16) > 0xFFFF:
        hint = example
    problem = f"{pkey} is none of 0x0001 to 0x{_LARGEST_PKEY:04x}: ib-kubernetes refuses it, and pods wait for a GUID"
    return [Problem("", problem, hint)]


def _plugin_remarks(path: str, plugin: dict[str, Any], has_resource: bool) -> list[Problem]:
    found = []
    kind = str(plugin.get("type", ""))
    if kind in _NEEDS_DEVICE and not has_resource and not any(plugin.get(key) for key in _NEEDS_DEVICE[kind]):
        hint = f"add the annotation {RESOURCE_NAME} to the attachment"
        found.append(Problem(f"{path}type", f"{kind} gets no device: nothing names the resource", hint, unmet=True))
    if kind == "ib-sriov" and plugin.get("ibKubernetesEnabled") and not plugin.get("pkey"):
        hint = 'add "pkey": "0x0001" (your partition), or switch ibKubernetesEnabled off'
        problem = "is missing: ib-kubernetes gives pods GUIDs, and has UFM put them into no partition"
        found.append(Problem(f"{path}pkey", problem, hint))
    if kind == "macvlan" and not plugin.get("master"):
        hint = "name the RDMA interface"
        found.append(Problem(f"{path}master", "is missing: macvlan takes the interface of the default route", hint))
    return found


def _check_leases(plugin: Mapping[str, Any]) -> list[Problem]:
    if mapping_of(plugin.get("ipam")).get("type") != "dhcp":
        return []
    return [Problem("ipam.type", "dhcp does not work with the ipoib plugin", "use whereabouts")]


def _check_vf(plugin: Mapping[str, Any]) -> list[Problem]:
    """Refuse what sriov refuses of fields together (``LoadConf`` of its ``pkg/config``, ``ApplyVFConfig``)."""
    vlan, protocol = plugin.get("vlan"), str(plugin.get("vlanProto", "802.1q")).lower()
    problems = []
    if protocol not in ("802.1q", "802.1ad"):
        problems.append(Problem("vlanProto", f"{protocol!r} is not a VLAN protocol", "802.1q or 802.1ad"))
    for name, needs_tag in (("vlanQoS", plugin.get("vlanQoS")), ("vlanProto", protocol == "802.1ad")):
        if name in plugin and vlan is None:
            problems.append(Problem(name, "needs a vlan: the plugin refuses it alone", "give vlan, or leave it out"))
        elif vlan == 0 and needs_tag:
            problems.append(Problem(name, "needs a vlan other than 0: the plugin refuses it", "give vlan"))
    least, most = plugin.get("min_tx_rate", 0), plugin.get("max_tx_rate", 0)
    if most and least > most:
        problems.append(Problem("min_tx_rate", f"is {least}, above the highest rate {most}", "lower it"))
    return problems


def _check_name(name: str) -> list[Problem]:
    hint = "letters, digits, _ . and -"
    return [] if _NAME.match(name) else [Problem("", f"{name!r} is not a valid CNI network name", hint)]


def _check_version(version: str) -> list[Problem]:
    hint = '["0.3.1", "1.0.0"]'
    return [] if _VERSION.match(version) else [Problem("", f"{version!r} is not a CNI version", hint)]


def _check_inlined(value: Any) -> list[Problem]:
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        return []
    return [Problem("", mismatch(value, "true or false"))]


# What the CNI library reads of a configuration whatever its plugins are, and what plugins of RDMA networks do.
#
# Sources: containernetworking/cni at 3f51e880, ``pkg/types`` (``PluginConf``, ``DNS``, ``GCAttachment``) and
# ``libcni/conf.go`` (``NetworkConfFromBytes``); Multus at 95a09323, ``pkg/types/conf.go``
# (``LoadDelegateNetConfList``), which takes no text for ``disableCheck`` and ``disableGC``; sriov-cni and ib-sriov-cni,
# ``LoadConf`` of ``pkg/config`` and ``NetConf`` of ``pkg/types``. To Go null is as good as nothing.
_READER = "a CNI configuration"
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,2}\Z", re.ASCII)
_TEXTS = series("texts", text(""))
_SWITCH = text("on or off", choices=("", "on", "off"))
_MASTER = text("the parent interface", check=or_empty(interface))
_MTU = whole("0 takes the parent's", minimum=0)
_VF = {
    "vlan": whole("the VLAN", minimum=0, maximum=4094),
    "link_state": text("the link of the VF", choices=("", "auto", "enable", "disable")),
}
_RATE = whole("in Mbit/s, 0 for no limit", minimum=0)
PLUGIN = record(
    _READER,
    {
        "capabilities": mapping('for example {"mac": true}', flag("")),
        "dns": record(
            '{"nameservers": ["192.0.2.1"]}',
            {"nameservers": _TEXTS, "domain": text("a domain"), "search": _TEXTS, "options": _TEXTS},
            open=True,
        ),
        "prevResult": mapping("drop it", Field("anything", "")),
        "cni.dev/valid-attachments": series(
            "drop it: runtimes give it to collect garbage", mapping("an attachment", text(""))
        ),
    },
    open=True,
)
"""What the CNI library reads of one plugin (``types.PluginConf``)."""


def _plugin(check: Any = None, **fields: Field) -> Field:
    return replace(PLUGIN, fields={**(PLUGIN.fields or {}), **fields}, check=check)


_PLUGINS = {
    "macvlan": _plugin(master=_MASTER, mtu=_MTU, mode=text("", choices=("", "bridge", "private", "vepa", "passthru"))),
    "ipvlan": _plugin(master=_MASTER, mtu=_MTU, mode=text("", choices=("", "l2", "l3", "l3s"))),
    "ipoib": _plugin(
        _check_leases,
        master=text("the parent interface, such as ibs1f0", required=True, check=interface),
        mtu=_MTU,
        ipam=Field("anything", "addresses"),
    ),
    "sriov": _plugin(
        _check_vf,
        **_VF,
        vlanQoS=whole("the priority", minimum=0, maximum=7),
        vlanProto=text("the protocol"),
        spoofchk=_SWITCH,
        trust=_SWITCH,
        min_tx_rate=_RATE,
        max_tx_rate=_RATE,
    ),
    "ib-sriov": _plugin(
        **_VF,
        pkey=text('such as "0x0001"', check=or_empty(_check_partition)),
        **dict.fromkeys(("rdmaIsolation", "ibKubernetesEnabled", "vfioPciMode"), flag("")),
    ),
}
_VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_OF_HEAD = {
    "cniVersion": text("", choices=_VERSIONS),
    "name": text("a name", check=or_empty(_check_name)),
}
_HEAD = record(_READER, _OF_HEAD, open=True)
_NAMED = record(_READER, dict.fromkeys(_OF_HEAD, text("")), open=True)
_LIST = record(
    _READER,
    {
        **_OF_HEAD,
        **dict.fromkeys(("disableCheck", "disableGC"), flag("")),
        "loadOnlyInlinedPlugins": Field("anything", "", check=_check_inlined),
        "cniVersions": series('["0.3.1", "1.0.0"]', text("", check=_check_version)),
        "plugins": series("at least one plugin", record("a plugin", {}, open=True), fewest=1, required=True),
    },
    open=True,
)
