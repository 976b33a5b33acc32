# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration files of the two device plugins, judged by the rules of the programs that read them.

Sources: k8s-rdma-shared-dev-plugin ``pkg/resources/resources_manager.go`` (ValidateConfigs),
sriov-network-device-plugin ``cmd/sriovdp/manager.go`` (validConfigs) and its device providers (ValidConfig). Where the
vendor's admission webhook disagrees with a plugin, the plugin is right: it is the one that starts or crashes. A name
must also make a resource name that kubelet accepts.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import UNKNOWN_FIELD, mismatch, nearest

from ..common.jsontext import Problem, parse_json, pretty
from ..common.names import is_alternative
from ..common.schema import INT64, LONGEST_SECONDS

Config = Dict[str, Any]
Verdict = Tuple[Config, List[Problem]]

RDMA_SELECTORS = ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes")
_RDMA_FIELDS = ("resourceName", "resourcePrefix", "rdmaHcaMax", "selectors", "devices")
_RDMA_NAME = re.compile(r"^[a-zA-Z0-9_]+\Z", re.ASCII)
_SRIOV_NAME = re.compile(r"^[a-zA-Z0-9_-]+\Z", re.ASCII)
_QUALIFIED_NAME = re.compile(r"^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z", re.ASCII)
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PREFIX = re.compile(rf"^{_DNS_LABEL}(?:\.{_DNS_LABEL})*\Z", re.ASCII)
_SRIOV_FIELDS = ("resourceName", "resourcePrefix", "deviceType", "excludeTopology", "selectors", "additionalInfo")
_GENERIC = ("vendors", "devices", "drivers")
_NET = ("pfNames", "rootDevices", "linkTypes", "acpiIndexes")
_SRIOV_LISTS = {
    "netDevice": (*_GENERIC, "pciAddresses", *_NET, "ddpProfiles", "pKeys"),
    "accelerator": (*_GENERIC, "pciAddresses"),
    "auxNetDevice": (*_GENERIC, *_NET, "auxTypes"),
}
_SRIOV_FLAGS = {"netDevice": ("isRdma", "needVhostNet"), "accelerator": (), "auxNetDevice": ("isRdma", "needVhostNet")}
_RANGED = re.compile(r"^[^#\s]+(?:#\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)?\Z", re.ASCII)


def default_rdma_shared() -> Config:
    """Return the configuration the vendor's Helm chart made of ``rdmaSharedDevicePlugin.deploy: true`` (until 24.7)."""
    item = {"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}
    return {"configList": [item]}


def default_sriov() -> Config:
    """Return the configuration the vendor's Helm chart made of ``sriovDevicePlugin.deploy: true`` (until 24.7)."""
    item = {
        "resourceName": "hostdev",
        "resourcePrefix": "nvidia.com",
        "selectors": {"vendors": ["15b3"], "isRdma": True},
    }
    return {"resourceList": [item]}


def check_rdma_shared(given: Any) -> Verdict:
    """Judge a configuration of the RDMA shared device plugin, given as JSON text or as a mapping.

    Returns (canonical mapping, problems). With problems the mapping may be empty. The deprecated ``devices`` stays as
    it is: releases before 1.1.0 know nothing else, all later ones read it as ``selectors.ifNames``.
    """
    config, problems = _mapping(given)
    if problems:
        return {}, problems
    problems += _unknown("", config, ("periodicUpdateInterval", "configList"))
    interval = config.get("periodicUpdateInterval")
    if "periodicUpdateInterval" in config and not _whole(interval, LONGEST_SECONDS):
        # More turn negative as a time.Duration, and the plugin does not start (ValidateConfigs, resources_manager.go).
        found = mismatch(interval, f"0 to {LONGEST_SECONDS} seconds")
        problems.append(Problem("periodicUpdateInterval", found, "0 turns it off"))
    items = _items(config, "configList", problems)
    names: dict[str, int] = {}
    for index, item in enumerate(items):
        path = f"configList[{index}]"
        problems += _rdma_item(path, item)
        # The plugin compares names alone, so equal names under different prefixes stop it too.
        problems += _repeated(path, item.get("resourceName"), names, index)
    return _ordered(config, ("periodicUpdateInterval", "configList"), _RDMA_FIELDS, RDMA_SELECTORS), problems


def check_sriov(given: Any) -> Verdict:
    """Judge a configuration of the SR-IOV network device plugin, given as JSON text or as a mapping.

    Returns (canonical mapping, problems). With problems the mapping may be empty.
    """
    config, problems = _mapping(given)
    if problems:
        return {}, problems
    problems += _unknown("", config, ("resourceList",))
    names: dict[str, int] = {}
    for index, item in enumerate(_items(config, "resourceList", problems)):
        path = f"resourceList[{index}]"
        problems += _sriov_item(path, item)
        name = item.get("resourceName")
        if isinstance(name, str):
            full = f"{item.get('resourcePrefix') or 'intel.com'}/{name}"
            problems += _repeated(path, full, names, index)
    lists = tuple(dict.fromkeys([*_SRIOV_LISTS["netDevice"], *_SRIOV_LISTS["auxNetDevice"]]))
    return _ordered(config, ("resourceList",), _SRIOV_FIELDS, (*lists, "isRdma", "needVhostNet", "vdpaType")), problems


CHECKS: dict[str, Callable[[Any], Verdict]] = {"rdma_shared": check_rdma_shared, "sriov": check_sriov}
"""The check of each kind of device plugin."""


def selector_groups(path: str, given: Any) -> list[tuple[str, Config]]:
    """Return (path, selectors) of each set of selectors of a resource of the SR-IOV plugin that passed its check."""
    return [(path, given)] if isinstance(given, dict) else [(f"{path}[{n}]", each) for n, each in enumerate(given)]


def resource_names(kind: str, config: Config) -> list[str]:
    """Return the extended resources that a valid configuration advertises (``rdma/rdma_shared_device_a``)."""
    items = config["configList" if kind == "rdma_shared" else "resourceList"]
    prefix = "rdma" if kind == "rdma_shared" else "intel.com"
    return [f"{item.get('resourcePrefix') or prefix}/{item['resourceName']}" for item in items]


def rdma_resources(config: Config) -> list[str]:
    """Return the resources of a valid configuration of the SR-IOV device plugin whose pods get RDMA devices."""
    return [
        name
        for name, item in zip(resource_names("sriov", config), config["resourceList"])
        if any(selectors.get("isRdma") for _path, selectors in selector_groups("", item["selectors"]))
    ]


def config_text(config: Config) -> str:
    """Return the JSON text that is stored for a plugin: fixed key order, two spaces, final newline."""
    return pretty(config)


def _mapping(given: Any) -> tuple[Config, list[Problem]]:
    value, problems = parse_json(given) if isinstance(given, str) else (given, [])
    if not problems and not isinstance(value, dict):
        problems = [Problem("", mismatch(value, "a JSON object"))]
    return (value if not problems else {}), problems


def _items(config: Config, key: str, problems: list[Problem]) -> list[Config]:
    items = config.get(key)
    if not isinstance(items, list) or not items:
        problem = "is missing" if key not in config else "must be a list with at least one resource"
        problems.append(Problem(key, problem, "the plugin does not start without a resource"))
        return []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            problems.append(Problem(f"{key}[{index}]", mismatch(item, "an object")))
    return [item if isinstance(item, dict) else {} for item in items]


def _rdma_item(path: str, item: Config) -> list[Problem]:
    if not item:
        return [Problem(path, "describes no resource", "resourceName, rdmaHcaMax and selectors are needed")]
    problems = _unknown(path, item, _RDMA_FIELDS)
    problems += _resource_name(path, item, _RDMA_NAME, "letters, digits and _")
    problems += _prefix(path, item)
    amount = item.get("rdmaHcaMax", 0)
    if not _whole(amount):
        problems.append(Problem(f"{path}.rdmaHcaMax", mismatch(amount, "a whole number of 0 or more")))
    problems += _strings(f"{path}.devices", item.get("devices", []))
    selectors = item.get("selectors", {})
    if not isinstance(selectors, dict):
        return [*problems, Problem(f"{path}.selectors", mismatch(selectors, "an object"))]
    problems += _unknown(f"{path}.selectors", selectors, RDMA_SELECTORS)
    for key in RDMA_SELECTORS:
        problems += _strings(f"{path}.selectors.{key}", selectors.get(key, []))
    selecting = any(selectors.get(key) for key in RDMA_SELECTORS)
    if selecting and item.get("devices"):
        problems.append(
            Problem(f"{path}.devices", "is given together with selectors: the plugin accepts one of the two", "drop it")
        )
    if not selecting and not item.get("devices"):
        known = ", ".join(RDMA_SELECTORS)
        problems.append(Problem(f"{path}.selectors", "selects nothing: the plugin does not start", f"one of {known}"))
    return problems


def _sriov_item(path: str, item: Config) -> list[Problem]:
    if not item:
        return [Problem(path, "describes no resource", "resourceName and selectors are needed")]
    problems = _unknown(path, item, _SRIOV_FIELDS)
    problems += _resource_name(path, item, _SRIOV_NAME, "letters, digits, _ and -")
    problems += _prefix(path, item)
    problems += _boolean(f"{path}.excludeTopology", item.get("excludeTopology", False))
    problems += _additional_info(f"{path}.additionalInfo", item.get("additionalInfo", {}))
    kind = item.get("deviceType", "netDevice") or "netDevice"
    if kind not in _SRIOV_LISTS:
        hint = nearest(str(kind), _SRIOV_LISTS) or f"one of {', '.join(_SRIOV_LISTS)}"
        return [*problems, Problem(f"{path}.deviceType", f"{kind!r} is not a device type", hint)]
    selectors = item.get("selectors")
    if isinstance(selectors, dict):
        return problems + _sriov_selectors(f"{path}.selectors", kind, selectors)
    if not isinstance(selectors, list) or not selectors:
        hint = "the plugin crashes without selectors; {} selects every device of the type"
        return [*problems, Problem(f"{path}.selectors", "must be an object or a list of objects", hint)]
    for index, each in enumerate(selectors):
        where = f"{path}.selectors[{index}]"
        if isinstance(each, dict):
            problems += _sriov_selectors(where, kind, each)
        else:
            problems.append(Problem(where, mismatch(each, "an object")))
    return problems


def _sriov_selectors(path: str, kind: str, selectors: Config) -> list[Problem]:
    words = ("vdpaType",) if kind == "netDevice" else ()
    problems = _unknown(path, selectors, (*_SRIOV_LISTS[kind], *_SRIOV_FLAGS[kind], *words))
    for key in _SRIOV_LISTS[kind]:
        problems += _strings(f"{path}.{key}", selectors.get(key, []))
    for key in _SRIOV_FLAGS[kind]:
        problems += _boolean(f"{path}.{key}", selectors.get(key, False))
    for key in ("pfNames", "rootDevices"):
        for index, entry in enumerate(_list(selectors.get(key))):
            if isinstance(entry, str) and entry and not _RANGED.match(entry):
                problems.append(
                    Problem(f"{path}.{key}[{index}]", f"{entry!r} is not a device or range of VFs", "name#0-3,5")
                )
    vdpa = selectors.get("vdpaType", "")
    if words and vdpa not in ("", "virtio", "vhost"):
        problems.append(Problem(f"{path}.vdpaType", f"{vdpa!r} is unknown", "virtio or vhost"))
    if vdpa and selectors.get("isRdma") is True:
        problems.append(Problem(f"{path}.vdpaType", "excludes isRdma: the plugin refuses both", "drop one"))
    links = _list(selectors.get("linkTypes"))
    if selectors.get("pKeys") and not any(link in ("infiniband", "IB", "ib") for link in links):
        problems.append(Problem(f"{path}.pKeys", "counts only for InfiniBand", 'add "linkTypes": ["infiniband"]'))
    types = _list(selectors.get("auxTypes"))
    if kind == "auxNetDevice" and (not types or any(each != "sf" for each in types)):
        problems.append(Problem(f"{path}.auxTypes", "must name the auxiliary type", 'only "sf" is supported'))
    return problems


def _resource_name(path: str, item: Config, form: re.Pattern[str], allowed: str) -> list[Problem]:
    name = item.get("resourceName")
    if not isinstance(name, str) or not name:
        return [Problem(f"{path}.resourceName", "must be a non-empty string")]
    if not form.match(name):
        return [Problem(f"{path}.resourceName", f"{name!r} stops the plugin", f"only {allowed}")]
    if not _QUALIFIED_NAME.match(name):
        return [
            Problem(f"{path}.resourceName", f"{name!r} is refused by kubelet", "1 to 63, letter or digit at both ends")
        ]
    return []


def _prefix(path: str, item: Config) -> list[Problem]:
    prefix = item.get("resourcePrefix", "")
    if not isinstance(prefix, str):
        return [Problem(f"{path}.resourcePrefix", mismatch(prefix, "a string"))]
    if prefix and (not _PREFIX.match(prefix) or len(prefix) > 253):
        return [Problem(f"{path}.resourcePrefix", f"{prefix!r} is refused by kubelet", "a lower-case DNS name")]
    if f".{prefix}".endswith(".kubernetes.io"):
        return [Problem(f"{path}.resourcePrefix", f"{prefix!r} belongs to Kubernetes itself", "use your own domain")]
    return []


def _repeated(path: str, name: Any, names: dict[str, int], index: int) -> list[Problem]:
    if not isinstance(name, str) or not name:
        return []
    first = names.setdefault(name, index)
    if first == index:
        return []
    return [
        Problem(f"{path}.resourceName", f"{name!r} is already the name of entry {first}: the plugin stops", "rename it")
    ]


def _unknown(path: str, found: Config, known: tuple[str, ...]) -> list[Problem]:
    lead = f"{path}." if path else ""
    return [
        Problem(
            f"{lead}{key}",
            UNKNOWN_FIELD,
            nearest(key, known) or f"known: {', '.join(known)}",
        )
        for key in found
        if key not in known
    ]


def _strings(path: str, value: Any) -> list[Problem]:
    if not isinstance(value, list):
        return [Problem(path, mismatch(value, "a list of strings"))]
    return [
        Problem(f"{path}[{index}]", "must be a non-empty string")
        for index, entry in enumerate(value)
        if not isinstance(entry, str) or not entry
    ]


def _boolean(path: str, value: Any) -> list[Problem]:
    return [] if isinstance(value, bool) else [Problem(path, mismatch(value, "true or false"))]


def _additional_info(path: str, value: Any) -> list[Problem]:
    if not isinstance(value, dict):
        return [Problem(path, mismatch(value, "an object"))]
    problems = []
    for device, variables in value.items():
        if not isinstance(variables, dict) or not all(isinstance(each, str) for each in variables.values()):
            problems.append(Problem(f"{path}.{device}", "must map names of variables to strings"))
    return problems


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any, most: int = INT64) -> bool:
    # Both are an int of Go.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _ordered(config: Config, top: tuple[str, ...], item: tuple[str, ...], selectors: tuple[str, ...]) -> Config:
    """Return the configuration with its keys in the plugins' documented order; empty values are dropped."""
    found = {key: config[key] for key in top if key in config}
    for key, value in found.items():
        if isinstance(value, list):
            found[key] = [_ordered_item(each, item, selectors) for each in value if isinstance(each, dict)]
    return found


def _ordered_item(entry: Config, fields: tuple[str, ...], selectors: tuple[str, ...]) -> Config:
    found = {key: entry[key] for key in fields if key in entry and entry[key] not in ("", [])}
    inner = found.get("selectors")
    if isinstance(inner, dict):
        found["selectors"] = _ordered_keys(inner, selectors)
    elif isinstance(inner, list):
        found["selectors"] = [_ordered_keys(each, selectors) for each in inner if isinstance(each, dict)]
    if fields is _RDMA_FIELDS and not found.get("selectors"):
        found.pop("selectors", None)
    return found


def _ordered_keys(given: Config, keys: tuple[str, ...]) -> Config:
    return {key: given[key] for key in keys if key in given and given[key] not in ("", [])}


def remarks(kind: str, config: Config) -> list[Problem]:
    """Return what is legal but deserves a look in a configuration that passed its check."""
    found: list[Problem] = []
    if kind == "rdma_shared":
        for index, item in enumerate(config["configList"]):
            if item.get("devices"):
                hint = "use selectors.ifNames with plugin 1.1.0 or newer"
                found.append(Problem(f"configList[{index}].devices", "is deprecated by the plugin", hint))
            if not item.get("rdmaHcaMax"):
                hint = "set how many pods may share the devices of a node"
                found.append(Problem(f"configList[{index}].rdmaHcaMax", "is 0: no pod gets this resource", hint))
            found += unreadable(f"configList[{index}].rdmaHcaMax", item.get("rdmaHcaMax") or 0)
            found += meets_none(f"configList[{index}].selectors", item.get("selectors") or {})
            names = [("devices", item.get("devices"))]
            names += [("selectors.ifNames", (item.get("selectors") or {}).get("ifNames"))]
            for key, given in names:
                found += _alternatives(f"configList[{index}].{key}", given)
        return found
    for index, item in enumerate(config["resourceList"]):
        if not item.get("resourcePrefix"):
            problem = f"is not set: pods must ask for intel.com/{item['resourceName']}"
            found.append(Problem(f"resourceList[{index}].resourcePrefix", problem, "set nvidia.com to match networks"))
        groups = selector_groups(f"resourceList[{index}].selectors", item["selectors"])
        found += _unselective(groups, item)
        for where, selectors in groups:
            found += meets_none(where, selectors)
            found += _alternatives(f"{where}.pfNames", selectors.get("pfNames"))
            for key in ("pfNames", "rootDevices"):
                found += unread_functions(f"{where}.{key}", selectors.get(key) or [])
    return found + _without_devices(config["resourceList"])


def _without_devices(items: list[Config]) -> list[Problem]:
    """Return a remark for each resource of which those before it take every device."""
    found: list[Problem] = []
    earlier: list[tuple[str, str, Config]] = []
    for index, item in enumerate(items):
        kind = item.get("deviceType") or "netDevice"
        groups = [selectors for _where, selectors in selector_groups("", item["selectors"])]
        takers = [[name for type_, name, taken in earlier if type_ == kind and takes_all(taken, one)] for one in groups]
        if groups and all(takers):
            problem = f"selects no device that {takers[0][0]} leaves: the resource that comes first gets a device"
            hint = "put the narrower selectors first, or keep the two apart"
            found.append(Problem(f"resourceList[{index}].selectors", problem, hint))
        earlier += [(kind, item["resourceName"], selectors) for selectors in groups]
    return found


def _alternatives(path: str, given: Any) -> list[Problem]:
    """Return a remark for each name that only an alternative name of an interface can be.

    Both plugins compare with what is in sysfs (``GetPfName`` of the SR-IOV plugin, v3.11.0 and its main branch).
    """
    problem = "can't be an interface's own name, which has at most 15 bytes: the plugin ignores alternative names"
    hint = "write the name that comes first in ip link show"
    return [
        Problem(f"{path}[{index}]", problem, hint)
        for index, name in enumerate(given if isinstance(given, list) else [])
        if is_alternative(str(name).partition("#")[0])
    ]


def _unselective(groups: list[tuple[str, Config]], item: Config) -> list[Problem]:
    """Return a remark for each set of selectors that lets every device of the type through."""
    kind = item.get("deviceType") or "netDevice"
    problem = f"selects every {kind} of a node, of any vendor"
    hint = "name the vendors, drivers or pfNames meant"
    return [
        Problem(where, problem, hint)
        for where, selectors in groups
        if not any(value for key, value in selectors.items() if key != "needVhostNet")
    ]


# What a device plugin takes and no pod will ever get: selectors that meet no device, more shares than kubelet reads.
#
# Sources: both plugins compare text as it stands (``pkg/resources/device_selectors.go`` of k8s-rdma-shared-dev-plugin,
# ``deviceSelectors.go`` of sriov-network-device-plugin) with what the library ghw reads of sysfs, in lower case, and
# with the link's encapsulation of netlink.
MOST_SHARES = 226_600
"""The most devices of a resource that kubelet learns of.

The RDMA shared device plugin names each share a device, by its number (``server.go``), and sends all of them in one
message; kubelet's client has gRPC's default limit of 4 MiB for it (``devicemanager/plugin/v1beta1/client.go``).
"""

_ID = re.compile(r"[0-9a-f]{4}\Z", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.ASCII)
_LINK = re.compile(r"(?:ether|infiniband)\Z", re.ASCII)
_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "vendors": (_ID, "four hexadecimal digits in lower case, such as 15b3"),
    "devices": (_ID, "four hexadecimal digits in lower case, such as 101e"),
    "deviceIDs": (_ID, "four hexadecimal digits in lower case, such as 101d"),
    "pciAddresses": (_ADDRESS, "the whole address in lower case, such as 0000:18:00.1"),
    "linkTypes": (_LINK, "ether or infiniband"),
}


def meets_none(path: str, selectors: Mapping[str, Any]) -> list[Problem]:
    """Return a remark for each entry of selectors, right by themselves, that is equal to nothing a device has."""
    return [
        Problem(f"{path}.{key}[{index}]", f"{entry!r} meets no device: the plugin compares it as text", hint)
        for key, (form, hint) in _FORMS.items()
        for index, entry in enumerate(selectors.get(key) or [])
        if not form.match(entry)
    ]


def unreadable(path: str, shares: int) -> list[Problem]:
    """Return a remark where a resource has more shares than kubelet reads."""
    if shares <= MOST_SHARES:
        return []
    problem = f"is {shares}: kubelet reads no list of devices of more than 4 MiB, and no pod gets this resource"
    return [Problem(path, problem, f"at most {MOST_SHARES}; a node runs a few hundred pods at most")]


def unread_functions(path: str, given: Sequence[str]) -> list[Problem]:
    """Return a remark for each item of ``pfNames`` or ``rootDevices`` that adds no function.

    Of a port the plugin reads the first item alone, whatever its case (``getItem``), and of a range the numbers from
    the first on (``isSelected``).
    """
    found: list[Problem] = []
    firsts: dict[str, str] = {}
    for index, item in enumerate(given):
        port, _mark, functions = item.partition("#")
        first = firsts.setdefault(port.lower(), item)
        if first != item:
            hint = f"write all of its VFs in one item, such as {port}#0-3,5"
            found.append(Problem(f"{path}[{index}]", f"{item!r} is not read: of a port only {first!r} is", hint))
        ends = [part.split("-") for part in functions.split(",") if "-" in part]
        if any(int(first_) > int(last) for first_, last in ends):
            hint = "the first VF, then the last"
            found.append(Problem(f"{path}[{index}]", f"{item!r} has a range that ends before it begins", hint))
    return found


def takes_all(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether selectors let every device through that others of the same type do.

    A device belongs to the resource that comes first (``excludeAllocatedDevices`` of ``cmd/sriovdp/manager.go``).
    """
    for key, wanted in one.items():
        if key == "needVhostNet" or not wanted:
            continue
        theirs = other.get(key)
        if not isinstance(wanted, list):
            if theirs != wanted:
                return False
        elif not theirs or not all(_is_among(item, wanted) for item in theirs):
            return False
    return True


def _is_among(item: str, wanted: Sequence[str]) -> bool:
    """Return whether an entry is one of those wanted, or a part of the port that one of them names."""
    return item in wanted or item.partition("#")[0] in wanted
