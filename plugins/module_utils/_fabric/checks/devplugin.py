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

from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest

from ..common.jsontext import Problem, parse_json, pretty
from ..common.names import is_alternative
from ..common.objects import items_of
from ..common.schema import LONGEST_SECONDS, Field, flag, flaws_of, mapping, read_part, record, series, text, whole

Config = Dict[str, Any]
Verdict = Tuple[Config, List[Problem]]

RDMA_SELECTORS = ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes")
_RDMA_NAME = re.compile(r"^[a-zA-Z0-9_]+\Z", re.ASCII)
_SRIOV_NAME = re.compile(r"^[a-zA-Z0-9_-]+\Z", re.ASCII)
_QUALIFIED_NAME = re.compile(r"^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z", re.ASCII)
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PREFIX = re.compile(rf"^{_DNS_LABEL}(?:\.{_DNS_LABEL})*\Z", re.ASCII)
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
    # The plugin compares names alone, so equal names under different prefixes stop it too.
    return _check(given, _SHARED, "configList", lambda _item: "")


def check_sriov(given: Any) -> Verdict:
    """Judge a configuration of the SR-IOV network device plugin, given as JSON text or as a mapping.

    Returns (canonical mapping, problems). With problems the mapping may be empty.
    """
    return _check(given, _SRIOV, "resourceList", lambda item: f"{item.get('resourcePrefix') or 'intel.com'}/")


CHECKS: dict[str, Callable[[Any], Verdict]] = {"rdma_shared": check_rdma_shared, "sriov": check_sriov}
"""The check of each kind of device plugin."""
_KEYS = {"configList": "rdma_shared", "resourceList": "sriov"}
_CONFIG_MAPS = {"rdma-devices": "rdma_shared", "network-operator-sriovdp-config": "sriov", "sriovdp-config": "sriov"}


def kind_of(name: str, text: str) -> str:
    """Return which device plugin a text in a ConfigMap of this name configures, empty for none.

    A name that the operators and the plugins' own manifests use says what even broken text was meant to be.
    """
    kinds = [kind for word, kind in _KEYS.items() if f'"{word}"' in text]
    return kinds[0] if len(kinds) == 1 else _CONFIG_MAPS.get(name, "")


def selector_groups(path: str, given: Any) -> list[tuple[str, Config]]:
    """Return (path, selectors) of each set of selectors of a resource of the SR-IOV plugin that passed its check."""
    return [(path, given)] if isinstance(given, dict) else [(f"{path}[{n}]", each) for n, each in enumerate(given)]


def resource_names(kind: str, config: Config) -> list[str]:
    """Return the extended resources that a valid configuration advertises (``rdma/rdma_shared_device_a``)."""
    items = config["configList" if kind == "rdma_shared" else "resourceList"]
    prefix = "rdma" if kind == "rdma_shared" else "intel.com"
    return [f"{item.get('resourcePrefix') or prefix}/{item['resourceName']}" for item in items]


def plain_resources(config: Config) -> list[str]:
    """Return the resources of a valid configuration of the SR-IOV device plugin that give pods interfaces of NICs of
    this vendor, and no device file of RDMA (``pkg/devices/rdma.go``).
    """
    return [
        name
        for name, item in zip(resource_names("sriov", config), config["resourceList"])
        if (item.get("deviceType") or "netDevice") == "netDevice"
        and all(_is_plain(selectors) for _path, selectors in selector_groups("", item["selectors"]))
    ]


def _is_plain(selectors: Config) -> bool:
    is_for_others = selectors.get("vdpaType") or "vfio-pci" in (selectors.get("drivers") or ())
    return not selectors.get("isRdma") and not is_for_others and "15b3" in (selectors.get("vendors") or ())


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


def _check(given: Any, field: Field, key: str, prefix_of: Callable[[Mapping[str, Any]], str]) -> Verdict:
    value, problems = parse_json(given) if isinstance(given, str) else (given, [])
    if problems:
        return {}, problems
    config, problems = read_part(field, field.description, value)
    names: dict[str, int] = {}
    for index, item in items_of(value, key):
        name = f"{prefix_of(item)}{item.get('resourceName')}"
        first = names.setdefault(name, index) if item.get("resourceName") else index
        if first != index:
            problem = f"{name!r} is already the name of entry {first}: the plugin stops"
            problems.append(Problem(f"{key}[{index}].resourceName", problem, "rename it"))
    return ({} if problems else _ordered(field, config)), problems


def _name(form: re.Pattern[str], allowed: str) -> Field:
    def check(name: str) -> list[Problem]:
        if not form.match(name):
            return [Problem("", f"{name!r} stops the plugin", f"only {allowed}")]
        if not _QUALIFIED_NAME.match(name):
            return [Problem("", f"{name!r} is refused by kubelet", "1 to 63, letter or digit at both ends")]
        return []

    return text(allowed, required=True, check=check)


def _check_prefix(prefix: str) -> list[Problem]:
    if prefix and (not _PREFIX.match(prefix) or len(prefix) > 253):
        return [Problem("", f"{prefix!r} is refused by kubelet", "a lower-case DNS name")]
    if f".{prefix}".endswith(".kubernetes.io"):
        return [Problem("", f"{prefix!r} belongs to Kubernetes itself", "use your own domain")]
    return []


def _check_rdma_item(item: Config) -> list[Problem]:
    selecting = any((item.get("selectors") or {}).values())
    if selecting and item.get("devices"):
        problem = "is given together with selectors: the plugin accepts one of the two"
        return [Problem("devices", problem, "drop it")]
    if not selecting and not item.get("devices"):
        known = ", ".join(RDMA_SELECTORS)
        return [Problem("selectors", "selects nothing: the plugin does not start", f"one of {known}")]
    return []


def _check_sriov_item(item: Config) -> list[Problem]:
    kind = item.get("deviceType") or "netDevice"
    if kind not in _SELECTORS:
        hint = nearest(kind, _SELECTORS) or f"one of {', '.join(_SELECTORS)}"
        return [Problem("deviceType", f"{kind!r} is not a device type", hint)]
    selectors = item.get("selectors")
    if not isinstance(selectors, (dict, list)) or selectors == []:
        hint = "the plugin crashes without selectors; {} selects every device of the type"
        return [Problem("selectors", "must be an object or a list of objects", hint)]
    reader = f"selectors of {kind}"
    return [
        problem
        for where, each in selector_groups("selectors", selectors)
        for problem in flaws_of(_SELECTORS[kind], reader, each, where)
    ]


def _check_sriov_selectors(selectors: Config) -> list[Problem]:
    problems = []
    if selectors.get("vdpaType") and selectors.get("isRdma"):
        problems.append(Problem("vdpaType", "excludes isRdma: the plugin refuses both", "drop one"))
    if selectors.get("pKeys") and not {"infiniband", "IB", "ib"} & set(selectors.get("linkTypes") or []):
        problems.append(Problem("pKeys", "counts only for InfiniBand", 'add "linkTypes": ["infiniband"]'))
    return problems


def _check_types(selectors: Config) -> list[Problem]:
    types = selectors.get("auxTypes")
    if types and set(types) == {"sf"}:
        return []
    return [Problem("auxTypes", "must name the auxiliary type", 'only "sf" is supported')]


def _check_ranged(name: str) -> list[Problem]:
    return [] if _RANGED.match(name) else [Problem("", f"{name!r} is not a device or range of VFs", "name#0-3,5")]


_NO_RESOURCE = "the plugin does not start without a resource"
_NAMES = series("names", text("a name", required=True))
_RANGES = series("devices or ranges of VFs", text("name#0-3,5", required=True, check=_check_ranged))
_PREFIX_FIELD = text("your own domain", check=_check_prefix)
_SHARED = record(
    "the configuration of the RDMA shared device plugin",
    {
        # More turn negative as a time.Duration, and the plugin does not start (ValidateConfigs, resources_manager.go).
        "periodicUpdateInterval": whole("seconds, 0 turns it off", minimum=0, maximum=LONGEST_SECONDS),
        "configList": series(
            _NO_RESOURCE,
            record(
                "a resource",
                {
                    "resourceName": _name(_RDMA_NAME, "letters, digits and _"),
                    "resourcePrefix": _PREFIX_FIELD,
                    "rdmaHcaMax": whole("how many pods may share the devices of a node", minimum=0),
                    "selectors": record("selectors", dict.fromkeys(RDMA_SELECTORS, _NAMES)),
                    "devices": _NAMES,
                },
                check=_check_rdma_item,
            ),
            fewest=1,
            required=True,
        ),
    },
)
_GENERIC = dict.fromkeys(("vendors", "devices", "drivers"), _NAMES)
_NET = {"pfNames": _RANGES, "rootDevices": _RANGES, "linkTypes": _NAMES, "acpiIndexes": _NAMES}
_FLAGS = dict.fromkeys(("isRdma", "needVhostNet"), flag(""))
_OF_NET_DEVICES = {
    **_GENERIC,
    "pciAddresses": _NAMES,
    **_NET,
    "ddpProfiles": _NAMES,
    "pKeys": _NAMES,
    **_FLAGS,
    "vdpaType": text("virtio or vhost", choices=("", "virtio", "vhost")),
}
_OF_SUB_FUNCTIONS = {**_GENERIC, **_NET, "auxTypes": _NAMES, **_FLAGS}
_SELECTORS = {
    "netDevice": record("selectors", _OF_NET_DEVICES, check=_check_sriov_selectors),
    "accelerator": record("selectors", {**_GENERIC, "pciAddresses": _NAMES}),
    "auxNetDevice": record("selectors", _OF_SUB_FUNCTIONS, check=_check_types),
}
_SRIOV = record(
    "the configuration of the SR-IOV network device plugin",
    {
        "resourceList": series(
            _NO_RESOURCE,
            record(
                "a resource",
                {
                    "resourceName": _name(_SRIOV_NAME, "letters, digits, _ and -"),
                    "resourcePrefix": _PREFIX_FIELD,
                    "deviceType": text("a type of device"),
                    "excludeTopology": flag(""),
                    # An object or a list of objects, whose fields are those of the type.
                    "selectors": Field("anything", "selectors", fields={**_OF_NET_DEVICES, **_OF_SUB_FUNCTIONS}),
                    "additionalInfo": mapping("variables of each device", mapping("variables", text(""))),
                },
                check=_check_sriov_item,
            ),
            fewest=1,
            required=True,
        ),
    },
)


def _ordered(field: Field, value: Any) -> Any:
    """Return a value with its keys in the plugin's documented order; empty values of items are dropped."""
    if isinstance(value, list):
        return [_ordered(field.items or field, each) for each in value]
    if field.fields is None or not isinstance(value, dict):
        return value
    return {
        key: _ordered(child, value[key])
        for key, child in field.fields.items()
        if key in value and value[key] not in ("", []) and (child.type != "record" or any(value[key].values()))
    }


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
