# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network attachments: the kinds of networks rendered, and any CNI configuration judged.

The rendered configuration has the vendor's keys in the vendor's order, but comes from a JSON encoder, so no text of a
user can break it. Two things differ on purpose: an empty ``networkNamespace`` of a HostDeviceNetwork means ``default``
as for MacvlanNetwork and IPoIBNetwork, and an IPoIBNetwork without ``master`` is refused, since the plugin needs one.
Blanks inside ``ipam`` strings are kept. Attachments of the SR-IOV operator's kinds carry no annotation with an owner.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._needs import ISOLATE
from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch

from ..common.jsontext import Problem, compact, parse_json
from ..common.names import interface, is_alternative
from ..common.objects import Object, build, mapping_of
from ..common.pods import NETWORKS, Path, pod_templates
from . import node_slices, nv_ipam, sriov_networks
from .cni import CNI_VERSION, RESOURCE_NAME, check_configuration, configuration_remarks, plugins_of, wire_of
from .ipam import (
    Claim,
    claims,
    conflict,
    earlier_sharing,
    fixed_claim,
    ignored_by_nv_ipam,
    parse_address,
    parse_network,
    shared_addresses,
    uses_node_slices,
)
from .ipam import room_of as ipam_room
from .nv_ipam import PoolKey

API_VERSION = "k8s.cni.cncf.io/v1"
KIND = "NetworkAttachmentDefinition"
COMPONENT = "network"
NETWORK_KINDS = ("MacvlanNetwork", "HostDeviceNetwork", "IPoIBNetwork", *sriov_networks.PROGRAMS)

# Those that give a pod what it asks for and keep no record of it. Multus has it in CNI_ARGS, whatever the capabilities
# of a network are (its ``DelegateAdd``, ``LoadIPAMConfig`` of static, ``handleEnvArgs`` of whereabouts).
_BY_HAND = ("static", "whereabouts")
_TAKEN = ("eth0", "lo")
# net.ParseMAC: 6, 8 or 20 bytes.
_MAC = re.compile(
    r"(?:[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}(?:[:-][0-9a-f]{2}){0,14}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4})\Z", re.I | re.A
)
_RESOURCE = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z", re.ASCII)


class Attachment(NamedTuple):
    """One attachment as the checks between networks see it: its name for people, its CNI name, text and annotations.

    ``key`` is its ``namespace/name``, by which pods ask for it.
    """

    where: str
    name: str
    config: str
    annotations: dict[str, str]
    key: str = ""


def network_attachment(network: Object) -> Object:
    """Return the NetworkAttachmentDefinition of a network ``{"kind", "name", "spec"}`` that passed its check.

    Networks of the SR-IOV operator's kinds have a ``namespace`` of their own too, which counts where the spec has none.
    """
    spec, annotations = network["spec"], {}
    if network["kind"] == "HostDeviceNetwork":
        annotations[RESOURCE_NAME] = full_resource_name(spec["resourceName"])
    elif network["kind"] in sriov_networks.PROGRAMS:
        annotations[RESOURCE_NAME] = f"{sriov_networks.RESOURCE_PREFIX}/{spec['resourceName']}"
    return build(
        API_VERSION,
        KIND,
        network["name"],
        COMPONENT,
        namespace=namespace_of(network),
        annotations=annotations,
        spec={"config": compact(_configuration(network)[0])},
    )


def namespace_of(network: Object) -> str:
    """Return the namespace of a network's attachment."""
    return network["spec"].get("networkNamespace") or network.get("namespace") or "default"


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
        return [Problem("kind", f"{kind!r} is not a network", f"one of {', '.join(NETWORK_KINDS)}")]
    problems = _check_resource_name(spec.get("resourceName")) if kind == "HostDeviceNetwork" else []
    if kind in sriov_networks.PROGRAMS:
        problems = sriov_networks.check_resource_name(spec.get("resourceName"))
    config, wrong = _configuration(network)
    if wrong:
        return problems + wrong
    return problems + [each._replace(path=field_of(each.path)) for each in check_configuration(config)]


def network_remarks(network: Object) -> list[Problem]:
    """Return what is legal in a network that passed its check but will surprise; paths are fields of its spec."""
    metadata = network_attachment(network)["metadata"]
    found = configuration_remarks(_configuration(network)[0], metadata.get("annotations") or {})
    return [each._replace(path=field_of(each.path)) for each in found]


def check_attachment(config: Any) -> list[Problem]:
    """Return what is wrong with the ``config`` of an attachment, as text; paths are keys inside the text.

    Empty text is right: Multus then reads the configuration of that name from the node.
    """
    if not isinstance(config, str):
        return [Problem("", mismatch(config, "JSON in a string"), "quote it, or use a block: config: |")]
    if not config.strip():
        return []
    value, problems = parse_json(config)
    return problems or check_configuration(value)


def attachment_remarks(config: str, annotations: dict[str, str] | None = None) -> list[Problem]:
    """Return what is legal in an attachment that passed its check but will surprise, or fail when a pod starts."""
    value, problems = parse_json(config or "{}")
    if problems or not isinstance(value, dict) or not value:
        return []
    return configuration_remarks(value, annotations or {})


def check_between(
    attachments: Sequence[Attachment],
    pools: Mapping[PoolKey, Claim] | None = None,
    asked: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> list[tuple[str, Problem]]:
    """Return (where, problem) for each address range that collides with one of another attachment on the same wire.

    Attachments share a wire when they share their parent interface or device resource and VLAN. The same range under
    the same ``network_name`` is one pool to whereabouts, which keeps its addresses apart: that is right. ``pools`` are
    those of nv-ipam that are known. Addresses that are given by hand collide with ranges, which do not know of them:
    ``asked`` are those of pods, (pod, address) by the ``namespace/name`` of the network.
    """
    wires: dict[tuple[str, ...], list[Claim]] = {}
    for attachment in attachments:
        for wire, held in claims_by_wire(attachment, pools or {}, (asked or {}).get(attachment.key, ())):
            wires.setdefault(wire, []).extend(
                claim._replace(path=f"{attachment.where}\0{claim.path}") for claim in held
            )
    return [found for held in wires.values() for found in _between(held)]


def rivals(attachments: Iterable[Attachment]) -> Iterator[tuple[str, Problem]]:
    """Yield (where, problem) for each child of a port that may not be there beside that of an earlier attachment.

    A port has the children of macvlan or those of ipvlan, and ipvlan's have one mode: a new one changes it for all
    (Linux, ``macvlan_port_create``, ``ipvlan_port_create``, ``ipvlan_set_port_mode``). k8snetworkplumbingwg/multus-cni
    #1339 is a user of both.
    """
    first: dict[str, tuple[str, str]] = {}
    for attachment in attachments:
        for path, plugin in placed_plugins(attachment.config):
            kind, port = str(plugin.get("type")), plugin.get("master")
            if kind not in ("macvlan", "ipvlan") or not port or plugin.get("linkInContainer"):
                continue
            child = kind if kind == "macvlan" else f"ipvlan {plugin.get('mode') or 'l2'}"
            other, where = first.setdefault(port, (child, attachment.where))
            if child != other:
                outcome = "a node that has one of them on the port refuses the other (device or resource busy)"
                if "macvlan" not in (child, other):
                    outcome = "the mode of the pod that came last counts for all on the port"
                problem = f"{child} is on {port} beside {other} of {where}: {outcome}"
                hint = "make both alike, or name another port; it is right if their pods are never on one node"
                yield attachment.where, Problem(f"{path}master", problem, hint)


def claims_by_wire(
    attachment: Attachment, pools: Mapping[PoolKey, Claim], asked: Sequence[tuple[str, str]] = ()
) -> Iterator[tuple[tuple[str, ...], list[Claim]]]:
    """Yield each wire of an attachment with the addresses that are assigned there; none of an invalid one."""
    value, problems = parse_json(attachment.config or "{}")
    if problems or not isinstance(value, dict) or check_configuration(value):
        return
    name = str(value.get("name") or attachment.name)
    for path, plugin in plugins_of(value):
        given, where = plugin.get("ipam"), f"{path}ipam"
        if given:
            held = [
                *claims(given, name, where),
                *nv_ipam.claims(given, name, where, pools),
            ]
            # Of the IPAM programs that leave addresses to pods, the others keep them apart from their own.
            pods = asked if given.get("type") in _BY_HAND else ()
            found = ((pod, parse_address(address.partition("/")[0], where)[0]) for pod, address in pods)
            held += [fixed_claim(address, f"{where}, of {pod}") for pod, address in found if address is not None]
            yield wire_of(plugin, attachment.annotations), held


def asked_addresses(objects: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Return which addresses pods ask Multus for, (object, address) by the ``namespace/name`` of the network."""
    found: dict[str, list[tuple[str, str]]] = {}
    for body in objects:
        for _path, network, asked in asked_networks(body):
            ips = asked.get("ips")
            for address in ips if isinstance(ips, list) else []:
                found.setdefault(network, []).append((f"{body['kind']} {body['metadata']['name']}", str(address)))
    return found


def asked_networks(body: Mapping[str, Any]) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """Yield (path of the pod, ``namespace/name``, what is asked of it) for each network that pods ask Multus for."""
    home = mapping_of(body.get("metadata")).get("namespace") or "default"
    for path, template in pod_templates(body):
        text = mapping_of(mapping_of(mapping_of(template).get("metadata")).get("annotations")).get(NETWORKS)
        value, problems = parse_json(text if isinstance(text, str) else "null")
        for each in value if isinstance(value, list) else []:
            if isinstance(each, Mapping):
                yield path, f"{each.get('namespace') or home}/{each.get('name')}", each
        for part in str(text).split(",") if problems else ():
            name, _at, wanted = (word.strip() for word in part.partition("@"))
            yield path, name if "/" in name else f"{home}/{name}", {"interface": wanted} if wanted else {}


def refused_names(pod: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return what is wrong with the names that a pod asks for its interfaces, by network: the pod does not start.

    Sources: Multus, ``parsePodNetworkObjectName`` and ``validateIfName``; ``ValidateInterfaceName`` of the CNI library.
    """
    names = [asked.get("interface") or asked.get("interfaceRequest") for asked in pod]
    problems = []
    for index, name in enumerate(names):
        if name and (not isinstance(name, str) or interface(name) or is_alternative(name)):
            problem = f"{name!r} is not a name of an interface: the pod does not start"
            problems.append(Problem("interface", problem, "1 to 15 bytes without slash, colon or space"))
        elif name in _TAKEN or (name and name in names[:index]):
            whose = "the cluster's network" if name in _TAKEN else "another network of the pod"
            problems.append(Problem("interface", f"{name} is the name that {whose} has: the pod does not start"))
    return problems


def given_by_hand(config: str, asked: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return which addresses of a pod on an attachment nobody keeps apart: those it asks for, or the attachment's.

    With each goes the range from which the attachment assigns it as well, or an empty text.
    """
    ips, found = asked.get("ips"), []
    for ipam in (mapping_of(plugin.get("ipam")) for plugin in plugins_in(config)):
        if ipam.get("type") in _BY_HAND:
            texts = ips if isinstance(ips, list) else [entry["address"] for entry in ipam.get("addresses") or []]
            addresses = (parse_address(str(text).partition("/")[0], "")[0] for text in texts)
            held = [fixed_claim(address, "") for address in addresses if address is not None]
            ranges = [claim for claim in claims(ipam, "") if claim.pool]
            found += [
                (one.text, next((each.text for each in ranges if shared_addresses(one, each)), "")) for one in held
            ]
    return found


def room_of(config: str) -> dict[str, int]:
    """Return how many addresses whereabouts has for pods on an attachment, by the range."""
    return {range_: room for plugin in plugins_in(config) for range_, room in ipam_room(plugin.get("ipam")).items()}


def refused_of_pod(asked: Mapping[str, Any]) -> list[Problem]:
    """Return what Multus or the kernel refuses of what a pod asks of a network, so that the pod does not start.

    ``parsePodNetworkAnnotation`` parses each address, and ``ips`` and ``default-route`` are lists to it. The address of
    a group is for no interface (``is_valid_ether_addr``, EADDRNOTAVAIL): multus-cni#1378.
    """
    mac, problems = asked.get("mac"), []
    for key, value in ((key, asked.get(key)) for key in ("ips", "default-route")):
        if not isinstance(value, (list, type(None))):
            problems.append(Problem(key, f"{mismatch(value, 'a list')}: Multus refuses it", f'write ["{value}"]'))
        for text in value if isinstance(value, list) else ():
            is_network = key == "ips" and "/" in str(text)
            problems += (parse_network(text, key, strict=False) if is_network else parse_address(text, key))[1]
    if mac and not (isinstance(mac, str) and _MAC.match(mac)):
        problems.append(Problem("mac", f"{mac!r} is not a MAC address: Multus refuses it", "02:00:00:00:00:01"))
    if isinstance(mac, str) and re.match(r"[0-9a-f][13579bdf]", mac, re.ASCII | re.IGNORECASE):
        problem = f"{mac} is the address of a group: no interface takes it (cannot assign requested address)"
        problems.append(Problem("mac", problem, "make its first byte even, such as 02"))
    return problems


def placed_plugins(config: str) -> list[tuple[str, dict[str, Any]]]:
    """Return (path, plugin) of every plugin of an attachment's valid configuration."""
    value, problems = parse_json(config or "{}")
    return plugins_of(value) if not problems and isinstance(value, dict) else []


def cni_version_of(config: str) -> str:
    """Return the version of the CNI specification that an attachment's valid configuration is written for."""
    value, _problems = parse_json(config or "{}")
    return str(value.get("cniVersion", "")) if isinstance(value, dict) else ""


def programs_of(config: str) -> list[tuple[str, str]]:
    """Return (path, program) of every CNI and IPAM program that an attachment's valid configuration names."""
    found = []
    for path, plugin in placed_plugins(config):
        ipam = plugin.get("ipam")
        named = [(f"{path}type", plugin.get("type")), (f"{path}ipam.type", (ipam or {}).get("type"))]
        found += [(where, program) for where, program in named if isinstance(program, str) and program]
    return found


def calls_of(configs: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return (type, configuration) of every CNI plugin that attachments with these configurations call."""
    return [(str(plugin.get("type")), plugin) for config in configs for plugin in plugins_in(config)]


def components_of(configs: Iterable[str]) -> list[str]:
    """Return the components that bring programs of attachments with these configurations to the nodes."""
    named = {program for config in configs for _path, program in programs_of(config)}
    brought = (component for program, component in sriov_networks.COMPONENTS.items() if program in named)
    return list(dict.fromkeys(brought))


def pools_of(config: str, name: str) -> list[tuple[str, PoolKey]]:
    """Return (path, pool) of every pool of nv-ipam that an attachment named ``name`` takes addresses from."""
    value, problems = parse_json(config or "{}")
    if problems or not isinstance(value, dict):
        return []
    network = str(value.get("name") or name)
    return [
        (f"{path}ipam.poolName", key)
        for path, plugin in plugins_of(value)
        for key in nv_ipam.pools_named(plugin.get("ipam"), network)
    ]


def ignored_by_release(config: str, *, has_daemon: bool) -> list[str]:
    """Return the paths in an attachment's configuration of what a release of nv-ipam ignores; see the check of ipam."""
    return [
        f"{path}ipam.{key}"
        for path, plugin in placed_plugins(config)
        for key in ignored_by_nv_ipam(plugin.get("ipam"), has_daemon=has_daemon)
    ]


def waits_for_guid(config: str) -> list[str]:
    """Return the paths in an attachment's valid configuration that make its pods wait for a GUID of ib-kubernetes."""
    waiting = "ibKubernetesEnabled"
    plugins = [(path, plugin) for path, plugin in placed_plugins(config) if plugin.get("type") == "ib-sriov"]
    return [f"{path}{waiting}" for path, plugin in plugins if plugin.get(waiting) is True]


def step_to_move_rdma_device(plugins: Sequence[Object]) -> str:
    """Return what has the plugins of an attachment move the RDMA device to where the pod is; empty where they do.

    ib-sriov does that itself where it is told to, and the rdma plugin can't behind it (ib-sriov-cni: README).
    """
    isolates = [bool(each.get("rdmaIsolation")) for each in plugins if each.get("type") == "ib-sriov"]
    if isolates:
        return "" if all(isolates) else ISOLATE
    if any(each.get("type") == sriov_networks.MOVER for each in plugins):
        return ""
    return 'chain the rdma plugin: metaPlugins with {"type": "rdma"}, which brings it to the nodes'


def plugins_in(config: str) -> list[dict[str, Any]]:
    """Return the plugins of an attachment's valid configuration."""
    return [plugin for _path, plugin in placed_plugins(config)]


def mtus_over_masters(config: str) -> list[tuple[str, str, int]]:
    """Return (path, master, MTU) of what an attachment's valid configuration makes on a master by an MTU of its own.

    macvlan refuses one that is larger than its master's when a pod starts: ``invalid MTU 9000, must be [0, master
    MTU(1500)]`` (containernetworking/plugins, main/macvlan and main/vlan).
    """
    stacked = [(path, plugin) for path, plugin in placed_plugins(config) if plugin.get("type") in ("macvlan", "vlan")]
    wanted = [(f"{path}mtu", plugin.get("master"), plugin.get("mtu")) for path, plugin in stacked]
    return [
        (path, master, mtu)
        for path, master, mtu in wanted
        if isinstance(master, str) and master and isinstance(mtu, int) and mtu > 0
    ]


def wants_node_slices(config: str) -> bool:
    """Return whether an attachment's configuration asks whereabouts for node slices."""
    return any(uses_node_slices(plugin.get("ipam")) for plugin in plugins_in(config))


def slices_of(config: str) -> node_slices.Slices | None:
    """Return what an attachment's configuration asks of the controller of node slices, which reads the first plugin.

    None is for one without ranges of whereabouts.
    """
    plugins = plugins_in(config)
    return node_slices.slices_of(plugins[0].get("ipam")) if plugins else None


def _between(held: list[Claim]) -> list[tuple[str, Problem]]:
    # What collides inside one attachment was already said about that attachment alone.
    owners = [claim.path.partition("\0")[0] for claim in held]
    found = []
    for claim, owner, other in zip(held, owners, earlier_sharing(held, owners)):
        if other is not None:
            problem = conflict(claim, held[other])
            path = claim.path.partition("\0")[2]
            found.append((owner, problem._replace(path=path, hint=problem.hint.replace("\0", ": "))))
    return found


def _configuration(network: Object) -> tuple[dict[str, Any], list[Problem]]:
    """Return the CNI configuration of a network and what is wrong with its embedded JSON."""
    kind, spec = network["kind"], network["spec"]
    ipam, problems = _embedded(spec.get("ipam"), "ipam", {}, listed=False)
    meta: Any = []
    if kind != "IPoIBNetwork":
        meta, wrong = _embedded(spec.get("metaPlugins"), "metaPlugins", [], listed=True)
        problems += wrong
    version = CNI_VERSION
    if kind in sriov_networks.PROGRAMS:
        version = sriov_networks.CNI_VERSION
        capabilities, wrong = _embedded(spec.get("capabilities"), "capabilities", None, listed=False)
        problems += wrong
        plugin = sriov_networks.plugin_of(kind, spec, capabilities, ipam)
    else:
        plugin = _plugin_of(kind, spec, ipam)
    if problems:
        return {}, problems
    head = {"cniVersion": version, "name": network["name"]}
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
        return None, [Problem(path, mismatch(given, "JSON in a string"))]
    if not given or not given.strip():
        return empty, []
    value, problems = parse_json(given, listed=listed)
    if listed and not problems and any(isinstance(item, list) for item in value):
        return None, [
            Problem(path, "holds a list in brackets", "write its objects joined by commas, without the brackets")
        ]
    return value, [problem._replace(path=path) for problem in problems]


def field_of(path: str) -> str:
    """Return the field of a network's spec that a path of its rendered configuration came from."""
    path = path.replace("min_tx_rate", "minTxRate")
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
        return [Problem("resourceName", f"{name!r} is not a valid resource name", hint)]
    return []
