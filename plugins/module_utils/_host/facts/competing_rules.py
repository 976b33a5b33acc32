# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the udev rules and ``.link`` files of others that name interfaces, and the ``.link`` files that ours replace.

udev(7): rules are applied in the order of their file names, and the last NAME wins; 80-net-setup-link.rules uses the
name of a ``.link`` file only if no rule has set one. systemd.link(5): only the first matching file is used, with its
drop-ins (``NAME.link.d/*.conf``). Of files with the same name, the one in the first directory is used.

Only definite matches are reported: a rule with a match that can't be evaluated here may never apply. What a program
prints is known to udev alone, so a rule whose name depends on it is reported as such.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from typing import Iterable, Iterator, NamedTuple

from ..machine.probe import NET, Probe, files_by_name, printable, texts_of
from . import cloud_init
from .managers import ini, networkd
from .netdev import UDEV_DATA
from .shapes import Nic, OtherName, ReadNetdev, ReplacedLink

_ROOTS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
_OURS = "rdma-fabric-"
# The kernel's first name is known except for its number: patterns can be matched, full names can't.
_FIRST_NAMES = {"ether": "eth9999", "infiniband": "ib9999"}
_GIVES_NAME = re.compile(r'(?<![A-Z_])NAME\s*:?=\s*"[^"]')
_TOKEN = re.compile(r'\s*([A-Z]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*(i?)"([^"\\]*)"\s*,?')
# udev(7): these run programs, with any operator. Its values with one of the characters are substituted.
_PROGRAMS = ("PROGRAM", "IMPORT")
_ASSIGNS = ("=", ":=")
# What a rule of a network interface writes to make VFs.
_VFS = "device/sriov_numvfs"
_SUBSTITUTED = re.compile("[$%]")
PROGRAM, CLOUD_INIT = "program", "cloud-init"
_MOST_FILES = 512
# The ``.link`` file of an interface that we name. udev then uses no other.
OUR_LINK = "/etc/systemd/network/05-rdma-fabric-{}.link"
# Precedes, in a file of ours, the path of the file whose settings it copies.
SETTINGS_OF = "# Other settings are those of "
# The line in udev's database that names the ``.link`` file it used.
_USED = "E:ID_NET_LINK_FILE="
_NAMES = ("Name", "NamePolicy")
_MOST_LINES = 64
# Masters that keep the addresses of their members (torvalds/linux, net/bridge/br_if.c, drivers/net/vrf.c). Bonds and
# teams change them.
_KEEP_ADDRESSES = ("bridge", "vrf")


class Device(NamedTuple):
    """What rules can match on a new interface; ``mac`` is None where a master may have changed the address."""

    name: str
    mac: str | None
    link_type: str
    pci: str
    driver: str
    syspath: str
    properties: dict[str, str]


class Token(NamedTuple):
    """One ``KEY{attribute}operator"value"`` of a rule."""

    key: str
    attribute: str
    operator: str
    value: str


def read_others(
    probe: Probe, netdevs: Iterable[ReadNetdev], nics: Iterable[Nic]
) -> tuple[dict[str, list[OtherName]], dict[str, ReplacedLink]]:
    """Return the rules and ``.link`` files that name ports of PCI functions at boot, by current interface name.

    They are in the order of file names; cloud-init's, which renames after udev, is the last. Each has ``file``,
    ``kind`` (rule, program, link or cloud-init), ``name`` (None if a policy or a program makes it) and ``final`` (later
    rules can't change it). Our own files are left out. The second mapping has the ``.link`` file that one of ours
    replaces: ``file``, ``lines`` (its settings other than names) and ``unjudged`` (files that may match or not).
    """
    devices = _ports(probe, netdevs, nics)
    rules = [
        (path, tuple(_lines(text)))
        for path, text in _files(probe, "udev/rules.d", ".rules")
        if _GIVES_NAME.search(text)
    ]
    texts = _links(probe)
    links = [(path, ini.settings(text)) for path, text in texts]
    by_mac = cloud_init.read_names(probe)
    names: dict[str, list[OtherName]] = {}
    replaced: dict[str, ReplacedLink] = {}
    for device in devices:
        competing = [other for path, lines in rules for other in _names_by_rules(probe, device, path, lines)]
        competing += [
            _name_by_link(path, settings) for path, settings in links if _definitely_matches(device, settings)
        ]
        if device.mac in by_mac:
            competing.append({"file": cloud_init.FILE, "kind": CLOUD_INIT, "name": by_mac[device.mac], "final": True})
        if competing:
            names[device.name] = competing
        former = _replaced_link(probe, device, texts)
        if former["lines"] or former["unjudged"]:
            replaced[device.name] = former
    return names, replaced


def link_files(probe: Probe, netdevs: Iterable[ReadNetdev], nics: Iterable[Nic]) -> Iterator[tuple[str, str, str]]:
    """Yield for each port its name, and the path and text of the first ``.link`` file that definitely matches it."""
    texts = _links(probe)
    for device in _ports(probe, netdevs, nics):
        first = next((entry for entry in texts if _definitely_matches(device, ini.settings(entry[1]))), None)
        if first is not None:
            yield device.name, first[0], first[1]


def vfs_by_rules(probe: Probe, netdevs: Iterable[ReadNetdev], nics: Iterable[Nic]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each port for which a udev rule definitely makes VFs, the rule's file and their number."""
    texts = texts_of(probe, ["/etc/udev/rules.d/"], (".rules",))
    rules = [(path, list(_lines(text))) for path, text in texts if _VFS in text]
    for device in _ports(probe, netdevs, nics) if rules else ():
        for path, lines in rules:
            numbers = [each.value for tokens in _met(probe, device, lines) for each in tokens if each.attribute == _VFS]
            yield from ((device.name, path, number) for number in numbers[-1:])


def overruling(others: Iterable[OtherName], path: str, wanted: str) -> OtherName | None:
    """Return the rule or ``.link`` file that overrides the name in our file ``path``; None if there is none."""
    ours = posixpath.basename(path)
    by_rule = path.endswith(".rules")
    winner: OtherName | None = None
    for other in others:
        theirs = posixpath.basename(other["file"])
        if other["kind"] == "link":
            # Our file is a rule, which takes precedence over all ``.link`` files.
            wins = not by_rule and winner is None and theirs < ours
        else:
            wins = not (winner and winner["final"]) and (not by_rule or theirs > ours or other["final"])
        winner = other if wins else winner
    return None if winner is None or winner["name"] == wanted else winner


def _ports(probe: Probe, netdevs: Iterable[ReadNetdev], nics: Iterable[Nic]) -> list[Device]:
    """Return the ports of PCI functions among all interfaces."""
    read = list(netdevs)
    kinds, by_address = {netdev["name"]: netdev["kind"] for netdev in read}, {nic["address"]: nic for nic in nics}
    return [
        _device(probe, netdev, by_address.get(netdev["pci"]), kinds.get(netdev["master"] or ""))
        for netdev in read
        if netdev["pci"] and netdev["kind"] == "physical"
    ]


def _device(probe: Probe, netdev: ReadNetdev, nic: Nic | None, master_kind: str | None) -> Device:
    mac = netdev.get("permanent_mac")
    if not mac and not (netdev["master"] and master_kind not in _KEEP_ADDRESSES):
        mac = netdev["mac"]
    target = (probe.target(f"{NET}/{netdev['name']}") or "").replace("../../devices", "/devices")
    driver = (nic["driver"] if nic is not None else None) or ""
    ids = {"ID_VENDOR_ID": f"0x{nic['vendor']}", "ID_MODEL_ID": f"0x{nic['device']}"} if nic is not None else {}
    return Device(
        name=netdev["name"],
        mac=mac.lower() if mac else None,
        link_type=netdev["link_type"],
        pci=netdev["pci"] or "",
        driver=driver,
        syspath=posixpath.dirname(target),
        properties={"ID_NET_DRIVER": driver, **ids},
    )


def _files(probe: Probe, directory: str, ending: str) -> Iterator[tuple[str, str]]:
    """Yield the effective files with their texts, in the order of their names, without our own."""
    paths = files_by_name(probe, [f"{place}/{directory}" for place in _ROOTS], ending)
    for path in [path for path in paths if _OURS not in posixpath.basename(path)][:_MOST_FILES]:
        text = probe.content(path)
        if text:
            yield path, text


def _links(probe: Probe) -> list[tuple[str, str]]:
    """Return the ``.link`` files with their texts, drop-ins included."""
    return [(path, f"{text}\n{_drop_ins(probe, path)}") for path, text in _files(probe, "systemd/network", ".link")]


def _drop_ins(probe: Probe, path: str) -> str:
    """Return the text of all drop-ins of a ``.link`` file, in the order of their names."""
    directories = [f"{place}/systemd/network/{posixpath.basename(path)}.d" for place in _ROOTS]
    return "\n".join(probe.content(drop_in) or "" for drop_in in files_by_name(probe, directories, ".conf"))


def _replaced_link(probe: Probe, device: Device, texts: Iterable[tuple[str, str]]) -> ReplacedLink:
    """Return the ``.link`` file that udev would use for the interface without ours."""
    ours = OUR_LINK.format(device.pci.replace(":", "-"))
    index = probe.text(f"{NET}/{device.name}/ifindex", limit=16)
    database = (probe.content(f"{UDEV_DATA}{index}") or "") if index else ""
    used = next((line[len(_USED) :] for line in database.splitlines() if line.startswith(_USED)), "")
    our_text = probe.content(ours) or ""
    unjudged: list[str] = []
    for path, text in texts:
        matches = _matches(device, ini.settings(text))
        lines = _settings_beside_names(text)
        if matches is None and (our_text or (used and used != ours)):
            # udev has already decided: its database says so, or our file did when it was written.
            matches = path == used or f"{SETTINGS_OF}{path}" in our_text.splitlines()
        if matches is None and lines and posixpath.basename(path) > posixpath.basename(ours):
            unjudged.append(printable(path))
        if matches:
            is_replaced = posixpath.basename(path) > posixpath.basename(ours)
            return {"file": printable(path), "lines": lines if is_replaced else [], "unjudged": unjudged}
    return {"file": None, "lines": [], "unjudged": unjudged}


def _settings_beside_names(text: str) -> list[str]:
    """Return the sections of a ``.link`` file as lines, without [Match] and without the keys that set the name."""
    lines: list[str] = []
    for section, settings in ini.sections(text):
        kept = [s for s in settings if section != "Link" or s.key not in _NAMES]
        if section not in ("", "Match") and kept:
            lines += [f"[{printable(section)}]", *(printable(f"{setting.key}={setting.value}") for setting in kept)]
    return lines[:_MOST_LINES]


def _lines(text: str) -> Iterator[list[Token] | None]:
    """Yield each rule of a file as tokens; None for a rule that can't be parsed."""
    joined = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#") or not (line or joined):
            continue
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        tokens, position = [], 0
        line, joined = joined + line, ""
        while position < len(line):
            match = _TOKEN.match(line, position)
            if match is None:
                break
            key, attribute, operator, folded, value = match.groups()
            # Case-insensitive matches can't be evaluated here.
            tokens.append(Token("" if folded else key, attribute or "", operator, value))
            position = match.end()
        yield tokens if position == len(line) else None


def _names_by_rules(
    probe: Probe, device: Device, path: str, lines: Iterable[list[Token] | None]
) -> Iterator[OtherName]:
    for tokens in _met(probe, device, lines):
        for given in (each for each in tokens if each.key == "NAME" and each.operator in _ASSIGNS and each.value):
            made = _SUBSTITUTED.search(given.value) is not None
            kind = PROGRAM if made or any(each.key in _PROGRAMS for each in tokens) else "rule"
            known = None if made else printable(given.value, 64)
            yield {"file": printable(path), "kind": kind, "name": known, "final": given.operator == ":="}


def _met(probe: Probe, device: Device, lines: Iterable[list[Token] | None]) -> Iterator[list[Token]]:
    """Yield the rules of a file that definitely apply to a device."""
    label = ""
    for tokens in lines:
        if tokens is None:
            continue
        assignments = {token.key: token for token in tokens if token.operator in _ASSIGNS}
        if label:
            label = "" if "LABEL" in assignments and assignments["LABEL"].value == label else label
            continue
        matches = [each for each in tokens if each.operator in ("==", "!=") and each.key not in _PROGRAMS]
        results = [_token_matches(probe, device, token) for token in matches]
        if False in results:
            continue
        if "GOTO" in assignments:
            # If it is unknown whether the GOTO is taken, rules that it would skip are not reported.
            label = assignments["GOTO"].value
        elif None not in results:
            yield tokens


def _token_matches(probe: Probe, device: Device, token: Token) -> bool | None:
    """Return whether a match holds for the interface when it appears; None if unknown."""
    known: dict[str, str | None] = {"SUBSYSTEM": "net", "ACTION": "add"}
    # Another parent, or the name at that time, may match too.
    likely = {
        "SUBSYSTEMS": "pci",
        "DRIVERS": device.driver,
        "KERNELS": device.pci,
        "KERNEL": _FIRST_NAMES.get(device.link_type, ""),
        "DEVPATH": f"{device.syspath}/{_FIRST_NAMES.get(device.link_type, '')}",
    }
    if token.key == "ATTR" and token.attribute == "address":
        known["ATTR"] = device.mac
    elif token.key == "ATTR" and re.fullmatch(r"type|dev_id|dev_port|phys_port_name|phys_switch_id", token.attribute):
        states = ("EOPNOTSUPP", "EINVAL")
        known["ATTR"] = probe.text(f"{NET}/{device.name}/{token.attribute}", states, 64)
        if not known["ATTR"]:
            return False
    elif token.key == "ENV" and token.attribute in device.properties:
        known["ENV"] = device.properties[token.attribute]
    elif token.key == "ENV" and token.attribute == "ID_PATH":
        likely["ENV"] = f"pci-{device.pci}"
    text = known.get(token.key)
    if text is not None:
        return _globs(text, token.value) == (token.operator == "==")
    return True if token.operator == "==" and _globs(likely.get(token.key, ""), token.value) else None


def _globs(text: str, patterns: str) -> bool:
    return bool(text) and any(fnmatchcase(text, pattern) for pattern in patterns.split("|"))


def _definitely_matches(device: Device, settings: list[ini.Setting]) -> bool:
    """Return whether a ``.link`` file definitely matches the interface."""
    return _matches(device, settings) is True


def _matches(device: Device, settings: list[ini.Setting]) -> bool | None:
    """Return whether a ``.link`` file matches the interface; None if unknown.

    A file without matches is not used. A name is compared with the kernel's first one, of which the number is unknown.
    """
    link = networkd.Link(
        name=device.name,
        current_name=device.name,
        mac=device.mac or "",
        permanent_mac=device.mac or "",
        path=f"pci-{device.pci}",
        # An IPoIB interface has another driver than its function.
        driver=device.driver if device.link_type == "ether" else "",
        type=device.link_type,
        kind="",
        file=None,
    )

    def is_met(key: str, words: list[str]) -> bool | None:
        if key == "OriginalName":
            first = _FIRST_NAMES.get(device.link_type, "")
            return True if "*" in words or any(fnmatchcase(first, word) for word in words) else None
        if key == "Driver" and not link.driver:
            return None
        return networkd.fits(key, words, link)

    conditions = ini.lists(settings, "Match")
    results = [is_met(key, words) for key, words in conditions.items()]
    if False in results or not conditions:
        return False
    return None if None in results else True


def _name_by_link(path: str, settings: list[ini.Setting]) -> OtherName:
    name = None if ini.last(settings, "Link", "NamePolicy") else ini.last(settings, "Link", "Name")
    return {"file": printable(path), "kind": "link", "name": printable(name, 64) if name else None, "final": True}
