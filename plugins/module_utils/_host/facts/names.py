# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a rename of an interface affects: udev, the initramfs, and configuration that refers to interfaces by name.

The initramfs may name interfaces before the root file system is mounted. Text that only looks like a name is ignored:
comments, the free text of profiles (``id`` in nm-settings-keyfile(5), ``NAME`` of an ifcfg file, ``Description`` in
systemd.network(5)), and the id of a netplan definition whose ``match`` selects the interface by something else
(netplan-yaml(5): the id is opaque then).
"""

from __future__ import annotations

import re
import shlex
from typing import Iterable, Mapping, NamedTuple

from ..machine.host_files import MARKER
from ..machine.probe import Probe, texts_of
from ..spec.host import HostSpec
from .managers import ini, netplan
from .shapes import Initramfs, Naming, Nic, OtherName, ReadNetdev, ReplacedLink, System

NETPLAN = "/etc/netplan/"
IFUPDOWN = "/etc/network/"
NETWORK_MANAGER = "/etc/NetworkManager/"
NETWORKD = "/etc/systemd/network/"
IFCFG = "/etc/sysconfig/"
# The files of each manager, by their common directory, and their suffixes ("" is any).
_FILES: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    NETPLAN: ((NETPLAN, (".yaml",)),),
    IFUPDOWN: (("/etc/network/interfaces", ("",)), ("/etc/network/interfaces.d/", ("",))),
    NETWORK_MANAGER: (("/etc/NetworkManager/system-connections/", ("",)),),
    NETWORKD: ((NETWORKD, (".network", ".netdev")),),
    IFCFG: (("/etc/sysconfig/network-scripts/", ("",)), ("/etc/sysconfig/network/", ("",))),
}
_PLAIN_NAME = r"(?<![\w.-]){}(?![\w-]|\.\w)"
_FREE_TEXTS = ("id", "uuid", "permissions", "Description")
_GENERATED = (
    ("/run/systemd/network/10-netplan-{}.network", "Match", "Name"),
    ("/run/NetworkManager/system-connections/netplan-{}.nmconnection", "connection", "interface-name"),
)
UDEVADM = ("/usr/bin/udevadm", "/bin/udevadm", "/sbin/udevadm")
# iproute2's files, by the path that stays valid when a distribution merges its directories.
RDMA = ("/usr/sbin/rdma", "/usr/bin/rdma", "/sbin/rdma", "/bin/rdma")
UPDATE_INITRAMFS = "/usr/sbin/update-initramfs"
DRACUT = ("/usr/bin/dracut", "/usr/sbin/dracut", "/sbin/dracut")
# Debian's family, Red Hat's family, SUSE.
IMAGES = ("/boot/initrd.img-{}", "/boot/initramfs-{}.img", "/boot/initrd-{}")
OSTREE_IMAGES = "/boot/ostree"
INITRAMFS_CONFIGURATION = ("/etc/initramfs-tools/initramfs.conf", "/etc/initramfs-tools/conf.d/")
INITRAMFS_MODULES = "/etc/initramfs-tools/modules"
DRACUT_CONFIGURATION = ("/usr/lib/dracut/dracut.conf.d/", "/etc/dracut.conf", "/etc/dracut.conf.d/")
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?(\w+)\+?=\s*(.*)$")
_NETWORK_MODULES = {"network", "network-manager", "network-legacy", "systemd-networkd", "kernel-network-modules"}
_NETWORK_MODULES |= {"nfs", "iscsi", "nbd", "fcoe", "nvmf", "livenet", "kernel-modules-extra"}
_NETWORK_PARAMETERS = re.compile(r"(?:^|\s)(?:ip=|netroot=|rd\.neednet|nfsroot=|root=/dev/nfs|root=nfs|root=iscsi)")


class _Text(NamedTuple):
    """A file: the texts in which a name counts, and the interface that its own name refers to, None for other files."""

    path: str
    texts: list[str]
    about: str | None


def read_references(probe: Probe, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the files, other than ours, that refer to each interface by name, without names that have none."""
    files = [
        _read(path, text)
        for places in _FILES.values()
        for place, endings in places
        for path, text in texts_of(probe, [place], endings)
        if MARKER not in text
    ]
    found: dict[str, list[str]] = {}
    for name in names:
        paths = {file.path for file in files if file.about == name or _is_in(name, file.texts)}
        if any(path.startswith(NETPLAN) for path in paths) and _is_found_otherwise(probe, name):
            paths = {path for path in paths if not path.startswith(NETPLAN)}
        if paths:
            found[name] = sorted(paths)
    return found


def without_new_name(references: Mapping[str, list[str]], current: str, wanted: str) -> list[str]:
    """Return the files that only refer to an interface's current name: their manager has no file with the new one."""
    known = tuple({manager for manager in _FILES for path in references.get(wanted, ()) if path.startswith(manager)})
    return [path for path in references.get(current, ()) if not path.startswith(known)]


def _read(path: str, text: str) -> _Text:
    if path.startswith((NETWORK_MANAGER, NETWORKD)):
        return _Text(path, [each.value for each in ini.settings(text) if each.key not in _FREE_TEXTS], None)
    if not path.startswith(IFCFG):
        return _Text(path, _lines(text), None)
    file = path.rsplit("/", 1)[-1]
    has_device = re.search(r"^\s*DEVICE=[\"']?([^\"'\s]+)", text, re.MULTILINE) is not None
    about = file[len("ifcfg-") :] if file.startswith("ifcfg-") and not has_device else None
    return _Text(path, [line for line in _lines(text) if not line.lstrip().startswith("NAME=")], about)


def _is_in(name: str, texts: Iterable[str]) -> bool:
    """Return whether one of the texts contains the name; rarely true, as a host has a name per function."""
    having = [text for text in texts if name in text]
    if not having:
        return False
    pattern = re.compile(_PLAIN_NAME.format(re.escape(name)))
    return any(pattern.search(text) for text in having)


def _lines(text: str) -> list[str]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return [re.split(r"\s#", line, maxsplit=1)[0] for line in lines]


def _is_found_otherwise(probe: Probe, definition: str) -> bool:
    """Return whether netplan's definition of this id, as last generated, does not match its interface by name."""
    for place, section, key in _GENERATED:
        path = place.format(definition)
        text = probe.content(path)
        if text is not None and netplan.definition_of(path) == definition:
            found = ini.settings(text)
            return not (ini.last(found, section, key) or ini.last(found, "match", "interface-name"))
    return False


def read_naming(
    probe: Probe,
    system: System,
    netdevs: Iterable[ReadNetdev],
    nics: Iterable[Nic],
    desired: HostSpec,
) -> Naming:
    """Return ``udev`` (whether it is installed), ``rdma`` (the program's path), ``initramfs`` and ``references``.

    ``system``, ``netdevs`` and ``nics`` are facts; only hardware interfaces are renamed. ``others`` and ``link_files``,
    as ``read_others`` returns them, are only read if the spec has a name.
    """
    read = list(netdevs)
    names = {netdev["name"] for netdev in read if netdev["kind"] == "physical"}
    asks_for_names = not desired.get("removing") and wanted_names(desired)
    others, link_files = _read_others(probe, read, nics) if asks_for_names else ({}, {})
    return {
        "udev": probe.first(UDEVADM) is not None,
        "rdma": probe.first(RDMA),
        "initramfs": _initramfs(probe, system),
        "references": read_references(probe, sorted(names | wanted_names(desired))),
        "others": others,
        "link_files": link_files,
    }


def _read_others(
    probe: Probe, netdevs: list[ReadNetdev], nics: Iterable[Nic]
) -> tuple[dict[str, list[OtherName]], dict[str, ReplacedLink]]:
    from .competing_rules import read_others

    return read_others(probe, netdevs, nics)


def wanted_names(desired: HostSpec) -> set[str]:
    """Return the interface names in the spec."""
    return {entry["name"] for entry in desired["interfaces"] if entry["name"]}


def _initramfs(probe: Probe, system: System) -> Initramfs | None:
    """Return the running kernel's image, its build program, and whether it has network drivers; None without one.

    That of an ostree is made for every machine (``--no-hostonly`` in rust/src/initramfs.rs of rpm-ostree), and only
    rpm-ostree may change it.
    """
    if system["ostree"]:
        return {"image": OSTREE_IMAGES, "update": None, "network": True}
    kernel, cmdline = system["kernel"], system["cmdline"]
    image = probe.first(path.format(kernel) for path in IMAGES) if kernel else None
    if image is None:
        return None
    dracut = probe.first(DRACUT)
    updater = UPDATE_INITRAMFS if probe.host.exists(UPDATE_INITRAMFS) else None
    if image.startswith("/boot/initrd.img-") and updater:
        # If dracut builds Debian's images, it also provides a program of this name.
        holds = _dracut_holds_drivers(probe, cmdline) if dracut else _initramfs_tools_hold_drivers(probe)
        return {"image": image, "update": [updater, "-u"], "network": holds}
    if dracut:
        update = None if "transactional" in system else [dracut, "--force", image, kernel]
        return {"image": image, "update": update, "network": _dracut_holds_drivers(probe, cmdline)}
    return {"image": image, "update": None, "network": True}


def _initramfs_tools_hold_drivers(probe: Probe) -> bool:
    """Return whether initramfs-tools includes network drivers: ``most`` (default) does, ``dep`` and ``list`` do not."""
    chosen = "most"
    for _path, text in texts_of(probe, INITRAMFS_CONFIGURATION):
        for name, value in _assignments(text):
            chosen = value.strip() if name == "MODULES" else chosen
    if chosen not in ("dep", "list"):
        return True
    lines = (probe.content(INITRAMFS_MODULES) or "").splitlines()
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def _dracut_holds_drivers(probe: Probe, cmdline: str) -> bool:
    """Return whether dracut's image may have network drivers: a host-only one that mounts a local disk has none."""
    if _NETWORK_PARAMETERS.search(cmdline):
        return True
    for _path, text in texts_of(probe, DRACUT_CONFIGURATION, (".conf",)):
        for name, value in _assignments(text):
            generic = name == "hostonly" and value == "no"
            drivers = name in ("drivers", "add_drivers", "force_drivers") and value.strip()
            modules = name in ("dracutmodules", "add_dracutmodules") and _NETWORK_MODULES & set(value.split())
            if generic or drivers or modules:
                return True
    return False


def _assignments(text: str) -> list[tuple[str, str]]:
    """Return the assignments in a file of shell syntax; other lines are ignored."""
    found = []
    for line in text.splitlines():
        match = _ASSIGNMENT.match(line)
        if match:
            try:
                words = shlex.split(match.group(2), comments=True)
            except ValueError:
                continue
            found.append((match.group(1), " ".join(words)))
    return found
