# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records a host: what the facts read, and a little more, scrubbed.

Files of managers are reduced to what plans need, without keys and users, and the tables of mounts and swap
to what identifies the same uplinks.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import posixpath
from typing import Callable, Sequence, TypeVar

from ansible_collections.rdma.fabric.plugins.module_utils._version import VERSION

from ..facts import openib, qos_paths, uplink
from ..facts.cloud_init import public_names as public_cloud_names
from ..facts.cloud_init import public_settings
from ..facts.devices import MELLANOX
from ..facts.eswitch import SHOW_DEVICES, features_command, steering_command
from ..facts.eswitch import show_command as show_eswitch
from ..facts.firmware import BLUEFIELD, QUERY_SECONDS, RIGHTS_TOOLS, TOOLS, card_of, query_command, rights_command
from ..facts.firmware_image import FLINT, device_query
from ..facts.functions import show_command as show_port
from ..facts.gather import read_host
from ..facts.gpus import SIGN_OF_MANAGERS, read_modes
from ..facts.host_state import seen_functions
from ..facts.managers import ifupdown, ini
from ..facts.max_mtu import details_command
from ..facts.netdev import UDEV_DATA
from ..facts.owners import (
    NIC_NAMES,
    POD_LOGS,
    PORT_STATES,
    daemons_among,
    public_machine_config,
    public_names,
    public_port_state,
)
from ..facts.queues import show_command as show_queues
from ..facts.remote_storage import SWAPS, public_mounts, public_swaps
from ..facts.routing import commands as routing_commands
from ..facts.shapes import Facts
from ..facts.spectrum_x import TOOLS as REGISTER_TOOLS
from ..facts.spectrum_x import acceleration_command, gap_command
from ..facts.uplink import DEFAULT_ROUTES, IP_ADDRESSES, IPV6_ADDRESSES
from ..machine.access import MACHINE_CONFIG, MOUNTS, READ_LIMIT, CommandResult, Host, HostError, Names, follow
from ..machine.host_files import MARKER
from ..machine.pci_config import without_identity
from ..machine.probe import INFINIBAND, NET, PCI, Probe, names_at, text_at
from .recorded import FORMAT, Document
from .scrub_document import Pseudonyms, scrubbed

# What is there without its content; reading it from a recording gives this error.
NOT_RECORDED = "ENODATA"
_T = TypeVar("_T")
_RECORDER = f"rdma.fabric {VERSION}"
# Who owns the network's configuration is told by the names of the files; what they say may hold secrets. Files of ours
# (they carry the marker) do not.
_NAMES_ONLY = (
    "/etc/netplan",
    "/etc/systemd/network",
    "/run/systemd/network",
    "/etc/NetworkManager/conf.d",
    "/etc/NetworkManager/system-connections",
    "/etc/network/interfaces.d",
    "/etc/sysconfig/network-scripts",
    "/etc/sysconfig/network",
    "/etc/udev/rules.d",
    "/etc/modules-load.d",
    "/etc/modprobe.d",
)
_WITHOUT_CONTENT = (*_NAMES_ONLY, "/etc/network/interfaces")
_MODULES_WITH_PARAMETERS = ("mlx5_core", "mlx5_ib", "ib_core", "nvidia", "nvidia_peermem", "nv_peer_mem")
# QoS as the vendor's driver shows it; the kernel's own driver has no such files.
_NETDEV_EXTRAS = ("mode", "pkey", *qos_paths.ALL)
_HCA_EXTRAS = ("node_type", "ports/1/cap_mask", "ports/1/lid_mask_count", "ports/1/pkeys/0", "tc/1/traffic_class")
_PCI_EXTRAS = ("sriov_offset", "sriov_stride", "sriov_vf_total_msix", "local_cpulist", "revision")
_PROFILE: dict[str, set[str]] = {
    "connection": {"interface-name"},
    "ethernet": {"mac-address", "mtu"},
    "infiniband": {"mac-address", "mtu"},
    "ipv4": {"route[0-9]*", "routing-rule[0-9]*"},
    "ipv6": {"route[0-9]*", "routing-rule[0-9]*"},
}
_NM_SPECS = {"keyfile": {"unmanaged-devices*"}, "main": {"no-auto-default*"}}
_NETWORK: dict[str, set[str]] = {"Match": {"*"}, "Link": {"MTUBytes", "ActivationPolicy", "Unmanaged"}}
_STANZA_WORDS = ("auto", "allow-auto", "allow-hotplug", "source", "source-directory", "mtu")


class Recorder:
    """A host that records everything read through it, including links on the way."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._files: dict[str, str] = {}
        self._binary: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._directories: dict[str, None] = {}
        self._listed: dict[str, Names] = {}
        self._commands: dict[str, dict[str, int | str]] = {}
        self._plain: set[str] = set()

    def read(self, path: str) -> str:
        """Read a file's text and record it, unless it may hold secrets."""
        place = self._place(path)
        text = self._remembering_errors(self._host.read, place)
        part = text if MARKER in text else _public_part(path, place, text)
        if part is None and place.startswith(_WITHOUT_CONTENT):
            self._errors[place] = NOT_RECORDED
        else:
            self._files[place] = text if part is None else part
            # It may have been looked for before it was read.
            self._errors.pop(place, None)
        return text

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Read and record a file's bytes."""
        place = self._place(path)
        data: bytes = self._remembering_errors(self._host.read_bytes, place)[:limit]
        if place.startswith("/sys/") and place.endswith("/config"):
            data = without_identity(data)
        elif place.endswith("/vpd"):
            # Serial numbers stand there, too.
            data = SIGN_OF_MANAGERS if SIGN_OF_MANAGERS in data else b""
        self._binary[place] = base64.b64encode(data).decode("ascii")
        return data

    def exists(self, path: str) -> bool:
        """Record that a path exists."""
        if not self._host.exists(path):
            return False
        self._stand_for(self._place(path))
        return True

    def list(self, path: str) -> Names:
        """List a directory and record the names."""
        place = self._place(path)
        names: Names = self._remembering_errors(self._host.list, place)
        # Other pods of the node are not recorded.
        self._listed[place] = daemons_among(names) if place == POD_LOGS else names
        return names

    def link(self, path: str) -> str:
        """Read and record a link."""
        parent, name = posixpath.split(path)
        place = posixpath.join(self._place(parent), name)
        try:
            target = self._links[place] = self._host.link(place)
        except HostError as error:
            if error.code not in {"ENOENT", "ENOTDIR", "EINVAL"}:
                self._errors[place] = error.code
            raise
        return target

    def realpath(self, path: str) -> str:
        """Resolve a path and record the links on the way."""
        self.exists(path)
        return self._host.realpath(path)

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a program and record its result or error; one that the host lacks is absent from the recording."""
        try:
            result = self._host.run(argv, timeout)
        except HostError as error:
            if error.code not in {"ENOENT", "ENOSYS"}:
                self._commands[" ".join(argv)] = {"error": error.code}
            raise
        self._commands[" ".join(argv)] = {"rc": result.rc, "stdout": result.stdout, "stderr": ""}
        return result

    def document(self) -> Document:
        """Return the recording, in a fixed order.

        Links and directories that were only listed are kept, and files of configuration; attributes of sysfs are not.
        """
        for directory, names in list(self._listed.items()):
            self._directories[directory] = None
            for name in names:
                self._stand_for(posixpath.join(directory, name), listed=True)
        return {
            "files": dict(sorted(self._files.items())),
            "binary": dict(sorted(self._binary.items())),
            "links": dict(sorted(self._links.items())),
            "dirs": sorted(self._directories),
            "errors": dict(sorted(self._errors.items())),
            "commands": dict(sorted(self._commands.items())),
        }

    def _place(self, path: str) -> str:
        return follow(path, self._target)

    def _target(self, path: str) -> str | None:
        # Links of procfs lead to the reading process (/proc/net is self/net): they belong to it, not to the host.
        if path in self._plain or path.startswith("/proc/"):
            return None
        if path not in self._links:
            try:
                self._links[path] = self._host.link(path)
            except HostError:
                self._plain.add(path)
                return None
        return self._links[path]

    def _remembering_errors(self, read: Callable[[str], _T], place: str) -> _T:
        try:
            return read(place)
        except HostError as error:
            if error.code not in {"ENOENT", "ENOTDIR"}:
                self._errors[place] = error.code
            raise

    def _stand_for(self, place: str, listed: bool = False) -> None:
        """Record a link with its target, a directory as such, and anything else as existing."""
        known = (self._files, self._binary, self._errors, self._links)
        if any(place in section for section in known) or (listed and self._target(place) is not None):
            return
        try:
            self._host.list(place)
            self._directories[place] = None
        except HostError as error:
            attribute = listed and place.startswith("/sys/")
            if error.code != "ENOENT" and not attribute:
                self._errors[place] = NOT_RECORDED if error.code == "ENOTDIR" else error.code


def _public_part(path: str, place: str, text: str) -> str | None:
    """Return the public part of a file that may hold secrets or the identity of a device, None for any other file.

    The kubelet's files are recognised by the path that is read, a manager's file by its resolved path.
    """
    if path.startswith(UDEV_DATA):
        return "".join(f"{line}\n" for line in text.splitlines() if line.startswith("E:ID_NET_"))
    return uplink.public_part(text) if uplink.is_source(path) else public_part(place, text)


def record(host: Host, hostname: str) -> Document:
    """Read a host and return its recording; two recordings of an unchanged host have the same bytes.

    ``hostname`` replaces the host's own name.
    """
    recorder = Recorder(host)
    facts = read_host(recorder, everything=True).facts
    _read_extras(recorder, facts)
    document = scrubbed(recorder.document(), Pseudonyms(_key(host, facts)), facts["system"]["hostname"], hostname)
    return {"format": FORMAT, "hostname": hostname, "recorded_by": _RECORDER, "stand_in": None, **document}


def _key(host: Host, facts: Facts) -> bytes:
    """Return the key of the pseudonyms: stable on this host, unknown to recipients of the recording.

    It is the machine's id, which is random and not recorded, or else the hardware addresses.
    """
    addresses = [netdev["mac"] or "" for netdev in facts["netdevs"]]
    identity = [text_at(host, "/etc/machine-id"), *addresses, facts["system"]["hostname"]]
    return hashlib.sha256("\0".join(identity).encode("utf-8", "replace")).digest()


def _read_extras(recorder: Recorder, facts: Facts) -> None:
    """Read what facts don't need but later concerns plan with: addresses, SR-IOV, QoS, parameters, owners of files."""
    probe = Probe(recorder)
    paths = [f"{NET}/{netdev['name']}/{name}" for netdev in facts["netdevs"] for name in _NETDEV_EXTRAS]
    paths += [f"{INFINIBAND}/{device['name']}/{name}" for device in facts["rdma"] for name in _HCA_EXTRAS]
    paths += [f"{PCI}/{nic['address']}/{name}" for nic in facts["nics"] for name in _PCI_EXTRAS]
    paths.append(IPV6_ADDRESSES)
    for module in _MODULES_WITH_PARAMETERS:
        base = f"/sys/module/{module}/parameters"
        paths += [f"{base}/{name}" for name in names_at(recorder, base)]
    for path in paths:
        probe.content(path)
    for directory in _NAMES_ONLY:
        names_at(recorder, directory)
    _read_cards(recorder, facts)
    read_modes(probe, facts["gpus"])
    names = [netdev["name"] for netdev in facts["netdevs"]]
    limits = map(details_command, names)
    for command in (IP_ADDRESSES, *DEFAULT_ROUTES.values(), *routing_commands(names), *limits):
        probe.command(*command)


def _read_cards(recorder: Recorder, facts: Facts) -> None:
    """Read e-switch, GUIDs of functions and firmware of NVIDIA cards, as plans need them."""
    probe = Probe(recorder)
    ports = [nic for nic in facts["nics"] if nic["vendor"] == MELLANOX and nic["function"] == "pf"]
    tool = probe.first(TOOLS)
    rights_tool = probe.first(RIGHTS_TOOLS)
    devices: dict[str, str] = {}
    if ports:
        probe.command(*SHOW_DEVICES)
    for nic in ports:
        probe.command(*show_eswitch(nic["address"]))
        probe.command(*steering_command(nic["address"]))
        for name in nic["netdevs"]:
            for command in (features_command(name), *(show_queues(key, name) for key in ("rx_ring", "channels"))):
                probe.command(*command)
        first = devices.setdefault(card_of(nic["address"]), nic["address"]) == nic["address"]
        if first and rights_tool and (nic["family"] or "").startswith(BLUEFIELD):
            probe.command(*rights_command(rights_tool, nic["address"]), seconds=QUERY_SECONDS)
        if nic["link_layer"] == "InfiniBand" and seen_functions(nic):
            for name in nic["netdevs"]:
                probe.command(*show_port(name))
    for device in devices.values() if tool else ():
        probe.command(*query_command(str(tool), device), seconds=QUERY_SECONDS)
    reg = probe.first(REGISTER_TOOLS)
    for nic in ports if reg else ():
        for command in (acceleration_command(str(reg), nic["address"]), gap_command(str(reg), nic["address"])):
            probe.command(*command, seconds=QUERY_SECONDS)
    flint = probe.first(FLINT)
    for nic in ports if flint else ():
        probe.command(*device_query(str(flint), nic["address"]), seconds=QUERY_SECONDS)


def public_part(path: str, text: str) -> str | None:
    """Return the public part of a manager's or an operator's file, None for any other file.

    The result names the same owners as the file.
    """
    for pattern, reduce in _REDUCERS.items():
        if fnmatch.fnmatchcase(path, pattern):
            return reduce(text)
    return None


def _sections(kept: dict[str, set[str]]) -> Callable[[str], str]:
    def reduce(text: str) -> str:
        lines = []
        section = ""
        for setting in ini.settings(text):
            if not any(fnmatch.fnmatchcase(setting.key, pattern) for pattern in kept.get(setting.section, ())):
                continue
            if setting.section != section:
                section = setting.section
                lines.append(f"[{section}]")
            lines.append(f"{setting.key}={setting.value}")
        return "".join(f"{line}\n" for line in lines)

    return reduce


def _variables(*kept: str) -> Callable[[str], str]:
    def reduce(text: str) -> str:
        lines = [line for line in text.splitlines() if line.partition("=")[0].strip() in kept]
        return "".join(f"{line}\n" for line in lines)

    return reduce


def _stanzas(text: str) -> str:
    lines = []
    for words in ifupdown.lines(text):
        if words[0] == "iface":
            lines.append(" ".join(words[:4]))
        elif words[0] in _STANZA_WORDS or (words[0] in ifupdown.WHEN_UP and words[1:2] == ["ip"]):
            lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)


_REDUCERS: dict[str, Callable[[str], str]] = {
    "*.nmconnection": _sections(_PROFILE),
    "/etc/sysconfig/network-scripts/ifcfg-*": _variables("DEVICE", "HWADDR", "MTU"),
    "*/NetworkManager/NetworkManager.conf": _sections(_NM_SPECS),
    "*/NetworkManager/conf.d/*": _sections(_NM_SPECS),
    "/run/NetworkManager/devices/*": _sections({"device": {"managed"}}),
    "*/systemd/network/*.network*": _sections(_NETWORK),
    "/run/systemd/netif/links/*": _variables("NETWORK_FILE"),
    **dict.fromkeys(NIC_NAMES, public_names),
    f"{PORT_STATES}/*": public_port_state,
    MACHINE_CONFIG: public_machine_config,
    "/var/lib/cloud/*/network-config.json": public_cloud_names,
    "/etc/cloud/*": public_settings,
    openib.FILE: openib.public_part,
    MOUNTS: public_mounts,
    SWAPS: public_swaps,
    "/etc/network/interfaces": _stanzas,
    "/etc/network/interfaces.d/*": _stanzas,
}
