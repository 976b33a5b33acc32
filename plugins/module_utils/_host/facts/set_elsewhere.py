# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which settings of ports the host's own configuration makes, too: whatever sets them last wins at each boot.

netplan: ``virtual-function-count``, or the number of ethernet definitions with a ``link`` to the port,
``embedded-switch-mode`` (netplan-yaml(5), src/sriov.c), and ``mtu`` in files after ours. systemd.link(5):
``SR-IOVVirtualFunctions=``, or one more than the highest ``VirtualFunction=`` of its [SR-IOV] sections, ``MTUBytes=``,
and sizes of rings and numbers of channels. NetworkManager: ``total-vfs`` and ``eswitch-mode`` of [sriov], and rings of
[ethtool] (nm-settings-keyfile(5)), ``sriov-num-vfs`` of [device] (NetworkManager.conf(5)). udev(7): ``sriov_numvfs``.
sysfs.conf(5), ifupdown (interfaces(5), pre-up and up), rc.local, scripts of network managers, and enabled units of
systemd with the scripts that they run: commands that write a number to a port's ``sriov_numvfs``, or set its e-switch
(devlink), its MTU (ip), its rings and channels (ethtool) or its QoS. TuneD: ``ring``, ``channels`` and ``mtu`` of
[net], for the devices that its section names (tuned/plugins/plugin_net.py). Other MTUs of network managers are read
with the rest of theirs (managers).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Iterable, Iterator, Mapping, NamedTuple, Sequence

from ..machine.host_files import NETPLAN_FILE
from ..machine.probe import Probe, files_by_name, parse_int, printable, texts_of
from .competing_rules import link_files, vfs_by_rules
from .managers import ifupdown, ini, network_manager
from .netdev import permanent_mac
from .shapes import Nic, RdmaDevice, ReadNetdev, SetElsewhere
from .tuned import read_tuned

# Keys of entries of the spec, and of their queues.
VFS = "vfs"
ESWITCH = "eswitch_mode"
MTU = "mtu"
QOS = "qos"
_PROFILES = ("/etc/NetworkManager/system-connections/",)
_NETPLAN = ("/etc/netplan/",)
_GENERATED = "/run/systemd/network/10-netplan-"
_STANZAS = (ifupdown.MAIN_FILE, f"{ifupdown.DIRECTORY}/")
_UNITS = "/etc/systemd/system"
_SCRIPTS = (
    "/etc/rc.local",
    "/etc/rc.d/rc.local",
    "/etc/network/if-up.d/",
    "/etc/NetworkManager/dispatcher.d/",
)
_SYSFS = ("/etc/sysfs.conf", "/etc/sysfs.d/")
_WRITTEN = re.compile(r"\becho (\d+) ?> ?/sys/(?:class/net|bus/pci/devices)/([^/\s]+)/(?:device/)?sriov_numvfs\b")
_SWITCHED = re.compile(r"\bdevlink dev eswitch set pci/([0-9a-f:.]+) .*?\bmode (legacy|switchdev)\b")
_GIVEN_MTU = re.compile(r"\bip (?:-\S+ )*link set (?:dev )?(\S+) .*?\bmtu (\d+)")
_SIZED = re.compile(r"\bethtool (?:-[GL]|--set-(?:ring|channels)) (\S+)((?: (?:rx|tx|combined) \d+)+)")
_SIZE = re.compile(r" (rx|tx|combined) (\d+)")
# mlnx_qos, cma_roce_tos and the files of mlnx-tools; dcb(8), lldptool(8), ethtool(8).
_QOS = re.compile(
    r"\b(?:(?:mlnx_qos|cma_roce_tos|lldptool|dcb)(?= )[^;&|]*? (?:-[id] ?|--interface[ =]|dev )|ethtool (?:-A|--pause) "
    r"|echo \d+ ?> ?/sys/class/infiniband/(?=[^/\s]+/tc/))([^/\s]+)[^;&|]*"
)
_ASSIGNED = re.compile(r"(?m)^\s*(\S+?)\s*=\s*(\d+)")
_VARIABLE = re.compile(r"(?m)^\s*(\w+)=[\"']?([\w.:-]+)[\"']?\s*$")
_USED = re.compile(r"\$\{?(\w+)\}?")
# A program of a unit that may be a script, after its prefixes and a shell.
_RUN = re.compile(r"Exec\w+=[-@:+!|]*(?:\S*/(?:ba|da)?sh )?(/\S+)")
_SIZES = {"rx": "rx_ring", "tx": "tx_ring", "combined": "channels"}
_OF_LINKS = {
    MTU: "MTUBytes",
    "rx_ring": "RxBufferSize",
    "tx_ring": "TxBufferSize",
    "channels": "CombinedChannels",
}
_OF_PROFILES = (
    (VFS, "sriov", "total-vfs"),
    (ESWITCH, "sriov", "eswitch-mode"),
    ("rx_ring", "ethtool", "ring-rx"),
    ("tx_ring", "ethtool", "ring-tx"),
    ("channels", "ethtool", "channels-combined"),
)
# NetworkManager's numbers of modes (nm-settings-keyfile(5)).
_MODES = {"0": "legacy", "1": "switchdev"}
_THIS_INTERFACE = ("$IFACE", "${IFACE}", "$1", "${1}")
# A condition on it, in an if or test or as the label of a case; what ends its effect.
_TESTED = re.compile(r"\$\{?(?:IFACE|1)\}? ==? (\S+)|^\(?([^\s()]+)\)")
_END = (";;", "fi", "esac")
_KEY = re.compile(r"^(\s*)[\"']?([\w.:-]+)[\"']?\s*:\s*(.*?)\s*$")
_INLINE = re.compile(r"[\"']?([\w-]+)[\"']?\s*:\s*[\"']?([\w.:*-]+)")
_MOST = 32


class _Setting(NamedTuple):
    """A setting of the port that has one of ``names``: an interface's name, MAC or PCI address."""

    names: set[str]
    file: str
    key: str
    value: str


def read_set_elsewhere(
    probe: Probe,
    netdevs: Iterable[ReadNetdev],
    nics: Sequence[Nic],
    rdma: Sequence[RdmaDevice],
) -> dict[str, list[SetElsewhere]]:
    """Return ``file``, ``key`` and ``value`` of everything that sets up ports at boot, by the port's interface name."""
    read = list(netdevs)
    ports = [netdev for netdev in read if netdev["pci"] and netdev["kind"] == "physical"]
    given = [*_of_netplan(probe), *_of_profiles(probe), *_of_stanzas(probe), *_of_scripts(probe)]
    given += [_Setting({name}, printable(path), key, value) for name, path, key, value in _of_links(probe, read, nics)]
    given += [_Setting({name}, printable(path), VFS, value) for name, path, value in vfs_by_rules(probe, read, nics)]
    by_address = {nic["address"]: nic for nic in nics}
    given += [*_of_devices(probe, ports, by_address), *_of_tuned(probe, ports, by_address)]
    found: dict[str, list[SetElsewhere]] = {}
    for port in ports:
        keys = {port["name"], str(permanent_mac(port)).lower(), str(port["pci"])}
        keys |= {device["name"] for device in rdma if device["pci"] == port["pci"]}
        settings: list[SetElsewhere] = [
            {"file": each.file, "key": each.key, "value": each.value} for each in given if keys & each.names
        ]
        if settings:
            found[port["name"]] = settings[:_MOST]
    return found


def _of_links(probe: Probe, netdevs: Iterable[ReadNetdev], nics: Iterable[Nic]) -> Iterator[tuple[str, str, str, str]]:
    for name, path, text in link_files(probe, netdevs, nics):
        # What netplan generates of its definitions, which are read themselves.
        if _GENERATED in path:
            continue
        settings = ini.settings(text)
        count = _count_of_link(settings)
        yield from ((name, path, VFS, str(number)) for number in ([] if count is None else [count]))
        for key, written in _OF_LINKS.items():
            value = ini.last(settings, "Link", written)
            if value:
                yield name, path, key, value


def _of_profiles(probe: Probe) -> Iterator[_Setting]:
    for path, text in texts_of(probe, _PROFILES, (".nmconnection",)):
        settings = ini.settings(text)
        names = {ini.last(settings, "connection", "interface-name"), ini.last(settings, "ethernet", "mac-address")}
        known = {name.lower() if ":" in name else name for name in names if name}
        for key, section, written in _OF_PROFILES:
            value = ini.last(settings, section, written)
            if value and (key != ESWITCH or value in _MODES):
                yield _Setting(known, printable(path), key, _MODES[value] if key == ESWITCH else value)


def _of_devices(probe: Probe, ports: Iterable[ReadNetdev], nics: Mapping[str, Nic]) -> Iterator[_Setting]:
    """Yield how many VFs NetworkManager makes without a profile (nm-device.c, device_init_static_sriov_num_vfs)."""
    for path, text in texts_of(probe, files_by_name(probe, network_manager.DIRECTORIES, ".conf")):
        for section, settings in ini.sections(text):
            value = ini.last(settings, section, "sriov-num-vfs") if section.startswith("device") else None
            specs = re.split(r"[,;\s]+", ini.last(settings, section, "match-device") or "*")
            for port in ports if value else ():
                nic = nics.get(str(port["pci"]))
                driver = (nic["driver"] if nic is not None else None) or ""
                if network_manager.fits(port["name"], str(permanent_mac(port)).lower(), driver, specs):
                    yield _Setting({port["name"]}, printable(path), VFS, str(value))


def _of_stanzas(probe: Probe) -> Iterator[_Setting]:
    for path, text in texts_of(probe, _STANZAS):
        found: dict[tuple[str, str], str] = {}
        current = ""
        for first, *rest in ifupdown.lines(text):
            current = rest[0] if first == "iface" and rest else current
            if first in ("pre-up", *ifupdown.WHEN_UP):
                found.update(_of_command(" ".join(rest), current))
        yield from _settings_of(path, found)


def _of_scripts(probe: Probe) -> Iterator[_Setting]:
    """Yield what files of sysfsutils, scripts and commands of enabled units set, and the scripts that these units run.

    Our own unit runs a program.
    """
    wanted = [name for name in probe.names(_UNITS) if name.endswith((".wants", ".requires"))]
    enabled = sorted({name for each in wanted for name in probe.names(f"{_UNITS}/{each}") if name.endswith(".service")})
    units = texts_of(probe, [f"{_UNITS}/{name}" for name in enabled])
    run = sorted({path for _unit, text in units for path in _RUN.findall(text) if probe.data(path, 2) == b"#!"})
    sysfs = [(path, _ASSIGNED.sub(r"echo \2 > /sys/\1", text)) for path, text in texts_of(probe, _SYSFS)]
    for path, text in [*sysfs, *units, *texts_of(probe, [*_SCRIPTS, *run])]:
        yield from _settings_of(path, _of_lines(text.replace("\\\n", " ")))


def _of_lines(text: str) -> Mapping[tuple[str, str], str]:
    """Return the settings that commands of a script or unit make, with the variables that have plain values.

    What a script does to the interface that it is called for counts for those that its conditions name.
    """
    values = dict(_VARIABLE.findall(text))
    found: dict[tuple[str, str], str] = {}
    tested: list[str] = []
    for raw in _USED.sub(lambda used: values.get(used[1], used[0]), text).splitlines():
        line = " ".join(raw.replace('"', "").replace("'", "").split())
        if not line.startswith(("#", ";", "ExecStop")):
            tested = [] if line.startswith("el") else tested
            tested += [name for words in _TESTED.findall(line) for name in "".join(words).split("|")]
            for interface in tested or [""]:
                found.update(_of_command(line, interface))
        if line.endswith(_END) or (" && " in line and not line.startswith("if ")):
            tested = []
    return found


def _of_tuned(probe: Probe, ports: Iterable[ReadNetdev], nics: Mapping[str, Nic]) -> Iterator[_Setting]:
    for path, given in read_tuned(probe, "net"):
        combined = "".join(given.get("channels", "").partition("combined")[1:])
        sizes = dict(_SIZE.findall(f" {given.get('ring', '')} {combined}"))
        values = {**{_SIZES[word]: size for word, size in sizes.items()}, MTU: given.get("mtu", "")}
        names = {port["name"] for port in ports if _is_of_section(given, port, nics.get(str(port["pci"])))}
        yield from (_Setting(names, printable(path), key, value) for key, value in values.items() if value)


def _is_of_section(given: Mapping[str, str], port: ReadNetdev, nic: Nic | None) -> bool:
    """Return whether a section of TuneD is about a port: by patterns, each with ! before an exception, or a regex."""
    ids = [f"ID_MODEL_ID=0x{nic['device']}", f"ID_VENDOR_ID=0x{nic['vendor']}"] if nic is not None else []
    try:
        if not re.search(given.get("devices_udev_regex", ""), "\n".join([*ids, f"INTERFACE={port['name']}"]), re.M):
            return False
    except re.error:
        return False
    patterns = given.get("devices", "*").replace(",", " ").split()
    met = [each for each in patterns if fnmatchcase(port["name"], each.lstrip("!"))]
    return bool(met) and not any(each.startswith("!") for each in met)


def _of_command(command: str, interface: str = "") -> Mapping[tuple[str, str], str]:
    """Return the settings that a command makes, by the port as it names it and the key; the last one is the result.

    ``interface`` is that of the stanza. A 0 is written to ``sriov_numvfs`` before any other number.
    """
    plain = command.replace('"', "").replace("'", "")
    found = {(port, VFS): count for count, port in _WRITTEN.findall(plain)}
    found.update({(port, ESWITCH): mode for port, mode in _SWITCHED.findall(plain)})
    found.update({(port, MTU): size for port, size in _GIVEN_MTU.findall(plain)})
    for port, sizes in _SIZED.findall(plain):
        found.update({(port, _SIZES[word]): size for word, size in _SIZE.findall(sizes)})
    found.update({(each[1], QOS): printable(each[0].strip()) for each in _QOS.finditer(plain)})
    return {(interface if port in _THIS_INTERFACE else port, key): value for (port, key), value in found.items()}


def _settings_of(path: str, found: Mapping[tuple[str, str], str]) -> list[_Setting]:
    return [_Setting({port}, printable(path), key, value) for (port, key), value in found.items()]


def _of_netplan(probe: Probe) -> list[_Setting]:
    """Return the settings of ethernet definitions; files are merged by definition id."""
    names: dict[str, set[str]] = {}
    given: dict[tuple[str, str], tuple[str, str]] = {}
    linked: dict[str, tuple[str, int]] = {}
    for path, text in texts_of(probe, _NETPLAN, (".yaml",)):
        for section, definition, key, value in _netplan_values(text):
            if section != "ethernets":
                continue
            known = names.setdefault(definition, {definition})
            if key in ("set-name", "name", "macaddress"):
                known.add(value.lower() if ":" in value else value)
            elif key == "virtual-function-count" and parse_int(value) is not None:
                given[definition, VFS] = (printable(path), value)
            elif key == "mtu" and path > NETPLAN_FILE:
                given[definition, MTU] = (printable(path), value)
            elif key == "embedded-switch-mode":
                given[definition, ESWITCH] = (printable(path), value)
            elif key == "link":
                linked[value] = (printable(path), linked.get(value, ("", 0))[1] + 1)
    counted = {(definition, VFS): (path, str(count)) for definition, (path, count) in linked.items()}
    return [
        _Setting(names.get(definition, {definition}), path, key, value)
        for (definition, key), (path, value) in {**counted, **given}.items()
    ]


def _netplan_values(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield section, definition, key and value of definitions, in block style or on one line."""
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        found = _KEY.match(re.split(r"(?:^|\s)#", line, maxsplit=1)[0])
        if found is None:
            continue
        indent, key, value = len(found.group(1)), found.group(2), found.group(3)
        above = [(at, name) for at, name in above if at < indent]
        path = [name for _at, name in above if name != "network"]
        above.append((indent, key))
        if value.startswith("{") and path:
            definition = key if len(path) == 1 else path[1]
            for inner, given in _INLINE.findall(value):
                yield path[0], definition, inner, given
        elif value and len(path) >= 2:
            yield path[0], path[1], key, value.strip("\"'")


def _count_of_link(settings: list[ini.Setting]) -> int | None:
    count = parse_int(ini.last(settings, "Link", "SR-IOVVirtualFunctions") or "")
    if count is not None:
        return count
    numbers = [parse_int(s.value) for s in settings if (s.section, s.key) == ("SR-IOV", "VirtualFunction")]
    return max((number + 1 for number in numbers if number is not None), default=None)
