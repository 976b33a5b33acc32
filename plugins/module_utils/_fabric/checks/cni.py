# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CNI configurations: what the CNI library and the plugins of RDMA networks refuse, and what will surprise.

Sources: the CNI specification, libcni (names of networks and programs), the configurations of macvlan, ipvlan, ipoib,
host-device, sriov and ib-sriov.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, nearest

from ..common.jsontext import Problem
from ..common.names import interface
from .ipam import check_ipam, ipam_remarks
from .sriov_networks import check_capabilities

CNI_VERSION = "0.3.1"
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"

_CNI_VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_NAME = re.compile(r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*\Z", re.ASCII)
_PKEY = re.compile(r"^0[xX][0-9a-fA-F]{1,8}\Z", re.ASCII)
_LARGEST_PKEY = 0x7FFF
_MODES = {"macvlan": ("bridge", "private", "vepa", "passthru"), "ipvlan": ("l2", "l3", "l3s")}
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
    if not isinstance(config, dict):
        return [Problem("", mismatch(config, "a JSON object"))]
    problems = []
    version = config.get("cniVersion", CNI_VERSION)
    if version not in _CNI_VERSIONS:
        problems.append(
            Problem("cniVersion", f"{version!r} is not a valid CNI version", f"one of {', '.join(_CNI_VERSIONS)}")
        )
    name = config.get("name", "")
    if name != "" and (not isinstance(name, str) or not _NAME.match(name)):
        problems.append(Problem("name", f"{name!r} is not a valid CNI network name", "letters, digits, _ . and -"))
    problems += _check_order(plugins_of(config))
    if "plugins" not in config:
        return problems + _check_plugin("", config)
    problems += check_list(config)
    plugins = config["plugins"]
    if not isinstance(plugins, list) or not plugins:
        return [*problems, Problem("plugins", "must be a list with at least one plugin")]
    if "type" in config:
        problems.append(Problem("type", "is given together with plugins: a list names its types inside", "drop it"))
    for index, plugin in enumerate(plugins):
        if isinstance(plugin, dict):
            problems += _check_plugin(f"plugins[{index}].", plugin)
        else:
            problems.append(Problem(f"plugins[{index}]", mismatch(plugin, "an object")))
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
    if kind in ("macvlan", "ipvlan", "ipoib"):
        problems += _check_child(path, kind, plugin)
    problems += _check_ignored_tag(path, kind, plugin)
    if kind in ("ib-sriov", "sriov"):
        problems += _check_virtual_function(path, plugin)
    if kind == "ib-sriov":
        problems += _check_partition(path, plugin.get("pkey"))
    if "ipam" in plugin:
        problems += check_ipam(plugin["ipam"], f"{path}ipam")
    read = check_plugin(plugin, in_list=bool(path))
    return problems + [each._replace(path=f"{path}{each.path}") for each in read]


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


def _check_child(path: str, kind: str, plugin: dict[str, Any]) -> list[Problem]:
    problems = []
    master = plugin.get("master", "")
    if not isinstance(master, str) or (master and interface(master)):
        problems.append(
            Problem(
                f"{path}master", f"{master!r} is not a valid interface name", "1 to 127 bytes, no blank, colon or /"
            )
        )
    elif kind == "ipoib" and not master:
        problems.append(
            Problem(f"{path}master", "is empty: the ipoib plugin needs the parent interface", "for example ibs1f0")
        )
    mode = plugin.get("mode", "")
    if kind in _MODES and mode not in ("", *_MODES[kind]):
        hint = nearest(str(mode), _MODES[kind]) or f"one of {', '.join(_MODES[kind])}"
        problems.append(Problem(f"{path}mode", f"{mode!r} is not a mode of {kind}", hint))
    mtu = plugin.get("mtu", 0)
    if not isinstance(mtu, int) or isinstance(mtu, bool) or mtu < 0:
        problems.append(Problem(f"{path}mtu", mismatch(mtu, "a whole number of 0 or more"), "0 takes the parent's"))
    ipam = plugin.get("ipam")
    if kind == "ipoib" and isinstance(ipam, dict) and ipam.get("type") == "dhcp":
        problems.append(Problem(f"{path}ipam.type", "dhcp does not work with the ipoib plugin", "use whereabouts"))
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


def _check_virtual_function(path: str, plugin: dict[str, Any]) -> list[Problem]:
    problems = []
    vlan = 0 if plugin.get("vlan") is None else plugin["vlan"]
    if not isinstance(vlan, int) or isinstance(vlan, bool) or not 0 <= vlan <= 4094:
        problems.append(Problem(f"{path}vlan", mismatch(vlan, "0 to 4094")))
    return problems


def _check_partition(path: str, pkey: Any) -> list[Problem]:
    """Judge the partition as ib-kubernetes does, its only reader: what it refuses leaves pods waiting for a GUID.

    Sources: ``ParsePKey`` of its ``pkg/utils``, ``IsPKeyValid`` of its ``pkg/ib-utils``: 15 bits, as UFM is asked for
    full members in a field of its own. To Go nothing, null and an empty text are the same.
    """
    if pkey in (None, ""):
        return []
    where, example = f"{path}pkey", 'a text such as "0x0001"'
    if not isinstance(pkey, str) or not _PKEY.match(pkey):
        return [Problem(where, f"{pkey!r} is not a partition key: ib-kubernetes reads 0x and digits", example)]
    if 1 <= int(pkey, 16) <= _LARGEST_PKEY:
        return []
    hint = f'write it without the bit of full members: "0x{int(pkey, 16) & _LARGEST_PKEY:04x}"'
    if not int(pkey, 16) & _LARGEST_PKEY or int(pkey, 16) > 0xFFFF:
        hint = example
    problem = f"{pkey} is none of 0x0001 to 0x{_LARGEST_PKEY:04x}: ib-kubernetes refuses it, and pods wait for a GUID"
    return [Problem(where, problem, hint)]


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


# What the CNI library reads of a configuration whatever its plugins are: of another type it refuses all of it.
#
# Sources: containernetworking/cni at 3f51e880, ``pkg/types`` (``PluginConf``, ``DNS``, ``GCAttachment``) and
# ``libcni/conf.go`` (``NetworkConfFromBytes``); Multus at 95a09323, ``pkg/types/conf.go``
# (``LoadDelegateNetConfList``), which takes no text for ``disableCheck`` and ``disableGC``. To Go null is as good as
# nothing.
_ATTACHMENTS = "cni.dev/valid-attachments"
_OF_DNS = (("nameservers", list), ("domain", str), ("search", list), ("options", list))
_TRUTHS = ("true", "false")
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,2}\Z", re.ASCII)


def check_plugin(plugin: Mapping[str, Any], *, in_list: bool) -> list[Problem]:
    """Judge the fields of one plugin (``types.PluginConf``); paths are keys of it.

    Name and version of one that stands alone are those of its network, which :mod:`.cni` judges.
    """
    capabilities = plugin.get("capabilities")
    problems = [] if capabilities is None else check_capabilities(capabilities)
    problems += [
        Problem(key, mismatch(plugin[key], "a string"))
        for key in ("cniVersion", "name")
        if in_list and not isinstance(plugin.get(key), (str, type(None)))
    ]
    problems += _check_dns(plugin.get("dns"))
    if not isinstance(plugin.get("prevResult"), (dict, type(None))):
        problems.append(Problem("prevResult", mismatch(plugin["prevResult"], "an object"), "drop it"))
    return problems + _check_attachments(plugin.get(_ATTACHMENTS))


def check_list(config: Mapping[str, Any]) -> list[Problem]:
    """Judge the fields of a list of plugins that no plugin has; paths are keys of it."""
    problems = [
        Problem(key, mismatch(config[key], "true or false"))
        for key in ("disableCheck", "disableGC")
        if not isinstance(config.get(key), (bool, type(None)))
    ]
    inlined = config.get("loadOnlyInlinedPlugins", False)
    if not isinstance(inlined, bool) and str(inlined).lower() not in _TRUTHS:
        problems.append(Problem("loadOnlyInlinedPlugins", mismatch(inlined, "true or false")))
    versions = config.get("cniVersions", [])
    if not isinstance(versions, list) or not all(isinstance(each, str) and _VERSION.match(each) for each in versions):
        problems.append(Problem("cniVersions", "must be a list of CNI versions", '["0.3.1", "1.0.0"]'))
    return problems


def _check_dns(dns: Any) -> list[Problem]:
    if not isinstance(dns, dict):
        hint = '{"nameservers": ["192.0.2.1"]}'
        return [] if dns is None else [Problem("dns", mismatch(dns, "an object"), hint)]
    problems = []
    for key, kind in _OF_DNS:
        value = dns.get(key)
        if value is not None and not (isinstance(value, kind) and _are_texts(value)):
            wanted = "a string" if kind is str else "a list of strings"
            problems.append(Problem(f"dns.{key}", mismatch(value, wanted)))
    return problems


def _are_texts(value: Any) -> bool:
    return isinstance(value, str) or all(isinstance(each, (str, type(None))) for each in value)


def _check_attachments(value: Any) -> list[Problem]:
    attachments = [] if value is None else value
    listed = isinstance(attachments, list)
    if listed and all(isinstance(each, dict) and _are_texts(each.values()) for each in attachments):
        return []
    return [Problem(_ATTACHMENTS, "must be a list of attachments", "drop it: runtimes give it to collect garbage")]
