# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network attachments: MacvlanNetwork, HostDeviceNetwork and IPoIBNetwork rendered, and any CNI configuration judged.

The rendered configuration has the vendor's keys in the vendor's order, but comes from a JSON encoder, so no text of a
user can break it. Two things differ on purpose: an empty ``networkNamespace`` of a HostDeviceNetwork means ``default``
as for the other two kinds, and an IPoIBNetwork without ``master`` is refused, since the plugin needs one. Blanks inside
``ipam`` strings are kept. Private to this collection: it may change.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.ipam import (
    Claim,
    check_ipam,
    claims,
    conflicts,
    ipam_remarks,
    uses_node_slices,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.jsontext import (
    Problem,
    compact,
    kind_of,
    nearest,
    parse_json,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.objects import Object, build

API_VERSION = "k8s.cni.cncf.io/v1"
KIND = "NetworkAttachmentDefinition"
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
CNI_VERSION = "0.3.1"
COMPONENT = "network"
NETWORK_KINDS = ("MacvlanNetwork", "HostDeviceNetwork", "IPoIBNetwork")

_CNI_VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
_NAME = re.compile(r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*\Z", re.ASCII)
_INTERFACE = re.compile(r"^[^\s/:]{1,15}\Z")
_RESOURCE = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z", re.ASCII)
_PKEY = re.compile(r"^(0[xX])?[0-9a-fA-F]{1,4}\Z", re.ASCII)
_PLUGINS = [
    "bandwidth",
    "bridge",
    "dummy",
    "firewall",
    "host-device",
    "ib-sriov",
    "ipoib",
    "ipvlan",
    "loopback",
    "macvlan",
    "ovs",
    "passthru",
    "portmap",
    "ptp",
    "rdma",
    "route-override",
    "sbr",
    "sriov",
    "static",
    "tap",
    "tuning",
    "vlan",
    "vrf",
]
_MODES = {"macvlan": ("bridge", "private", "vepa", "passthru"), "ipvlan": ("l2", "l3", "l3s")}
_NEEDS_DEVICE = {"host-device": ("device", "hwaddr", "kernelpath", "pciBusID"), "ib-sriov": ("deviceID",)}
_NEEDS_DEVICE["sriov"] = _NEEDS_DEVICE["ib-sriov"]


class Attachment(NamedTuple):
    """One attachment as the checks between networks see it: its name for people, its CNI name, text and annotations."""

    where: str
    name: str
    config: str
    annotations: dict[str, str]


def network_attachment(network: Object) -> Object:
    """Return the NetworkAttachmentDefinition of a network ``{"kind", "name", "spec"}`` that passed its check."""
    spec, annotations = network["spec"], {}
    if network["kind"] == "HostDeviceNetwork":
        annotations[RESOURCE_NAME] = full_resource_name(spec["resourceName"])
    return build(
        API_VERSION,
        KIND,
        network["name"],
        COMPONENT,
        namespace=spec.get("networkNamespace") or "default",
        annotations=annotations,
        spec={"config": compact(_configuration(network)[0])},
    )


def given_attachment(attachment: Object) -> Object:
    """Return the NetworkAttachmentDefinition of a configuration given as such; its text is stored unchanged."""
    return build(
        API_VERSION,
        KIND,
        attachment["name"],
        COMPONENT,
        namespace=attachment.get("namespace") or "default",
        labels=attachment.get("labels"),
        annotations=attachment.get("annotations"),
        spec={"config": attachment.get("config", "")} if attachment.get("config") else {},
    )


def full_resource_name(name: str) -> str:
    """Return the resource a HostDeviceNetwork asks for: ``nvidia.com/`` is put in front unless it is there."""
    return name if name.startswith("nvidia.com/") else f"nvidia.com/{name}"


def check_network(network: Object) -> list[Problem]:
    """Return what is wrong with a network ``{"kind", "name", "spec"}``; paths are fields of its spec."""
    kind, spec = network["kind"], network["spec"]
    if kind not in NETWORK_KINDS:
        return [Problem("kind", f"{kind!r} is no network", f"one of {', '.join(NETWORK_KINDS)}")]
    problems = []
    if kind == "IPoIBNetwork" and not spec.get("master"):
        problems.append(
            Problem("master", "is empty: the ipoib plugin needs the parent interface", "for example ibs1f0")
        )
    if kind == "HostDeviceNetwork":
        problems += _check_resource_name(spec.get("resourceName"))
    config, wrong = _configuration(network)
    if wrong:
        return problems + wrong
    for problem in _check_config(config):
        if problem.path == "master" and problems:
            continue
        problems.append(problem._replace(path=_field_of(problem.path)))
    return problems


def check_attachment(config: Any) -> list[Problem]:
    """Return what is wrong with the ``config`` of an attachment, as text; paths are keys inside the text.

    Empty text is right: Multus then reads the configuration of that name from the node.
    """
    if not isinstance(config, str):
        return [Problem("", f"must be JSON in a string, not {kind_of(config)}", "quote it, or use a block: config: |")]
    if not config.strip():
        return []
    value, problems = parse_json(config)
    return problems or _check_config(value)


def attachment_remarks(config: str, annotations: dict[str, str] | None = None) -> list[Problem]:
    """Return what is legal in an attachment that passed its check but will surprise, or fail when a pod starts."""
    value, problems = parse_json(config or "{}")
    if problems or not isinstance(value, dict) or not value:
        return []
    found = []
    if "cniVersion" not in value:
        found.append(Problem("cniVersion", "is missing and counts as 0.1.0", f'add "cniVersion": "{CNI_VERSION}"'))
    has_resource = bool((annotations or {}).get(RESOURCE_NAME))
    for path, plugin in _plugins(value):
        found += _plugin_remarks(path, plugin, has_resource)
        if "ipam" in plugin:
            found += ipam_remarks(plugin["ipam"], f"{path}ipam")
    return found


def check_between(attachments: Sequence[Attachment]) -> list[tuple[str, Problem]]:
    """Return (where, problem) for each address range that collides with one of another attachment on the same wire.

    Attachments share a wire when they share their parent interface or device resource and VLAN. The same range under
    the same ``network_name`` is one pool to whereabouts, which keeps its addresses apart: that is right.
    """
    wires: dict[tuple[str, ...], list[Claim]] = {}
    for attachment in attachments:
        value, problems = parse_json(attachment.config or "{}")
        if problems or not isinstance(value, dict) or _check_config(value):
            continue
        name = str(value.get("name") or attachment.name)
        for path, plugin in _plugins(value):
            if not plugin.get("ipam"):
                continue
            wire = _wire(plugin, attachment.annotations)
            for claim in claims(plugin["ipam"], name, f"{path}ipam"):
                wires.setdefault(wire, []).append(claim._replace(path=f"{attachment.where}\0{claim.path}"))
    return [found for held in wires.values() for found in _between(held)]


def wants_node_slices(config: str) -> bool:
    """Return whether an attachment's configuration asks whereabouts for node slices."""
    value, problems = parse_json(config or "{}")
    if problems or not isinstance(value, dict):
        return False
    return any(uses_node_slices(plugin.get("ipam")) for _path, plugin in _plugins(value))


def _between(held: list[Claim]) -> list[tuple[str, Problem]]:
    found = []
    for index, claim in enumerate(held):
        where, _mark, path = claim.path.partition("\0")
        # What collides inside one attachment was already said about that attachment alone.
        others = [other for other in held[:index] if not other.path.startswith(f"{where}\0")]
        for problem in conflicts([*others, claim])[-1:]:
            if problem.path == claim.path:
                hint = problem.hint.replace("\0", ": ")
                found.append((where, Problem(path, problem.problem, hint)))
    return found


def _configuration(network: Object) -> tuple[dict[str, Any], list[Problem]]:
    """Return the CNI configuration of a network and what is wrong with its embedded JSON."""
    kind, spec = network["kind"], network["spec"]
    ipam, problems = _embedded(spec.get("ipam"), "ipam", {}, listed=False)
    meta: Any = []
    if kind != "IPoIBNetwork":
        meta, wrong = _embedded(spec.get("metaPlugins"), "metaPlugins", [], listed=True)
        problems += wrong
    if problems:
        return {}, problems
    head = {"cniVersion": CNI_VERSION, "name": network["name"]}
    plugin = _plugin_of(kind, spec, ipam)
    return ({**head, "plugins": [plugin, *meta]} if meta else {**head, **plugin}), []


def _plugin_of(kind: str, spec: Object, ipam: Any) -> dict[str, Any]:
    if kind == "HostDeviceNetwork":
        return {"type": "host-device", "ipam": ipam}
    if kind == "IPoIBNetwork":
        return {"type": "ipoib", "master": spec.get("master", ""), "ipam": ipam}
    chosen = {key: spec[key] for key in ("master", "mode", "mtu") if spec.get(key)}
    return {"type": "macvlan", **chosen, "ipam": ipam}


def _embedded(given: Any, path: str, empty: Any, listed: bool) -> tuple[Any, list[Problem]]:
    """Return the value of a field that holds JSON text (or already the mapping or list it stands for)."""
    if isinstance(given, (dict, list)):
        return given, []
    if given is not None and not isinstance(given, str):
        return None, [Problem(path, f"must be JSON in a string, not {kind_of(given)}")]
    if not given or not given.strip():
        return empty, []
    value, problems = parse_json(given, listed=listed)
    return value, [problem._replace(path=path) for problem in problems]


def _field_of(path: str) -> str:
    """Return the field of a network's spec that a path of its rendered configuration came from."""
    match = re.match(r"^plugins\[(\d+)\]\.?(.*)\Z", path)
    if match is None:
        return path
    if match[1] == "0":
        return match[2]
    return f"metaPlugins[{int(match[1]) - 1}]" + (f".{match[2]}" if match[2] else "")


def _check_resource_name(name: Any) -> list[Problem]:
    if not isinstance(name, str) or not name:
        hint = "the resourceName of the SR-IOV device plugin, for example hostdev"
        return [Problem("resourceName", "is empty: pods would get no device", hint)]
    short = name[len("nvidia.com/") :] if name.startswith("nvidia.com/") else name
    if not _RESOURCE.match(short) or len(short) > 63:
        hint = "letters, digits, - _ and ., a letter or digit at both ends, at most 63"
        return [Problem("resourceName", f"{name!r} is no resource name", hint)]
    return []


def _check_config(config: Any) -> list[Problem]:
    if not isinstance(config, dict):
        return [Problem("", f"must be a JSON object, not {kind_of(config)}")]
    problems = []
    version = config.get("cniVersion", CNI_VERSION)
    if version not in _CNI_VERSIONS:
        problems.append(Problem("cniVersion", f"{version!r} is no CNI version", f"one of {', '.join(_CNI_VERSIONS)}"))
    name = config.get("name", "")
    if name != "" and (not isinstance(name, str) or not _NAME.match(name)):
        problems.append(Problem("name", f"{name!r} is no CNI network name", "letters, digits, _ . and -"))
    if "plugins" not in config:
        return problems + _check_plugin("", config)
    plugins = config["plugins"]
    if not isinstance(plugins, list) or not plugins:
        return [*problems, Problem("plugins", "must be a list with at least one plugin")]
    if "type" in config:
        problems.append(Problem("type", "stands beside plugins: a list names its types inside", "drop it"))
    for index, plugin in enumerate(plugins):
        if isinstance(plugin, dict):
            problems += _check_plugin(f"plugins[{index}].", plugin)
        else:
            problems.append(Problem(f"plugins[{index}]", f"must be an object, not {kind_of(plugin)}"))
    return problems


def _plugins(config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    plugins = config.get("plugins")
    if not isinstance(plugins, list):
        return [("", config)]
    return [(f"plugins[{index}].", each) for index, each in enumerate(plugins) if isinstance(each, dict)]


def _check_plugin(path: str, plugin: dict[str, Any]) -> list[Problem]:
    kind = plugin.get("type")
    if not isinstance(kind, str) or not kind:
        return [Problem(f"{path}type", "must name a CNI plugin", "for example macvlan")]
    problems = []
    meant = "" if kind in _PLUGINS else nearest(kind, _PLUGINS)
    if "/" in kind:
        problems.append(Problem(f"{path}type", f"{kind!r} is no name of a program", "no / is allowed"))
    elif meant:
        # Anybody may install a plugin of their own; only what looks like a slip is refused.
        problems.append(Problem(f"{path}type", f"{kind!r} is not known", meant))
    if kind in ("macvlan", "ipvlan", "ipoib"):
        problems += _check_child(path, kind, plugin)
    if kind in ("ib-sriov", "sriov"):
        problems += _check_virtual_function(path, plugin)
    if "ipam" in plugin:
        problems += check_ipam(plugin["ipam"], f"{path}ipam")
    return problems


def _check_child(path: str, kind: str, plugin: dict[str, Any]) -> list[Problem]:
    problems = []
    master = plugin.get("master", "")
    if not isinstance(master, str) or (master and not _INTERFACE.match(master)):
        problems.append(
            Problem(f"{path}master", f"{master!r} is no interface name", "1 to 15 characters, no blank or /")
        )
    elif kind == "ipoib" and not master:
        problems.append(Problem(f"{path}master", "is empty: the ipoib plugin needs the parent interface"))
    mode = plugin.get("mode", "")
    if kind in _MODES and mode not in ("", *_MODES[kind]):
        hint = nearest(str(mode), _MODES[kind]) or f"one of {', '.join(_MODES[kind])}"
        problems.append(Problem(f"{path}mode", f"{mode!r} is no mode of {kind}", hint))
    mtu = plugin.get("mtu", 0)
    if not isinstance(mtu, int) or isinstance(mtu, bool) or mtu < 0:
        problems.append(
            Problem(f"{path}mtu", f"must be a whole number of 0 or more, not {mtu!r}", "0 takes the parent's")
        )
    ipam = plugin.get("ipam")
    if kind == "ipoib" and isinstance(ipam, dict) and ipam.get("type") == "dhcp":
        problems.append(Problem(f"{path}ipam.type", "dhcp does not work with the ipoib plugin", "use whereabouts"))
    return problems


def _check_virtual_function(path: str, plugin: dict[str, Any]) -> list[Problem]:
    problems = []
    vlan = plugin.get("vlan", 0)
    if not isinstance(vlan, int) or isinstance(vlan, bool) or not 0 <= vlan <= 4094:
        problems.append(Problem(f"{path}vlan", f"must be 0 to 4094, not {vlan!r}"))
    pkey = plugin.get("pkey", "0x7fff")
    if not isinstance(pkey, str) or not _PKEY.match(pkey):
        problems.append(Problem(f"{path}pkey", f"{pkey!r} is no partition key", "four hexadecimal digits: 0x8001"))
    return problems


def _plugin_remarks(path: str, plugin: dict[str, Any], has_resource: bool) -> list[Problem]:
    found = []
    kind = str(plugin.get("type", ""))
    if kind in _NEEDS_DEVICE and not has_resource and not any(plugin.get(key) for key in _NEEDS_DEVICE[kind]):
        hint = f"add the annotation {RESOURCE_NAME} to the attachment"
        found.append(Problem(f"{path}type", f"{kind} gets no device: nothing names the resource", hint))
    if kind == "ib-sriov" and plugin.get("ibKubernetesEnabled") and not plugin.get("pkey"):
        hint = 'add "pkey": "0x8001" (your partition), or switch ibKubernetesEnabled off'
        found.append(Problem(f"{path}pkey", "is missing: ib-kubernetes ignores the network without it", hint))
    if kind == "macvlan" and not plugin.get("master"):
        hint = "name the RDMA interface"
        found.append(Problem(f"{path}master", "is missing: macvlan takes the interface of the default route", hint))
    return found


def _wire(plugin: dict[str, Any], annotations: dict[str, str]) -> tuple[str, ...]:
    parent = plugin.get("master") or annotations.get(RESOURCE_NAME) or plugin.get("bridge") or "default route"
    return (str(parent), str(plugin.get("vlan") or plugin.get("vlanId") or plugin.get("pkey") or ""))
