# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which udev gives interfaces and RDMA devices their names at boot. Pure.

Rules of systemd.link(5) and udev(7). A ``.link`` file is chosen as a whole, the first that fits; a rule that sets NAME
goes before every ``.link`` file.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Collection, Dict, Iterable, Mapping

from ...engine.context import Context
from ...facts.competing_rules import SETTINGS_OF
from ...facts.host_state import Interface
from ...facts.own_files import naming_line_ends, part_of_name
from ...facts.shapes import ReplacedLink
from ...machine.host_files import MARKER
from ...spec.interfaces import DIGITS, SUBFUNCTION

if TYPE_CHECKING:
    from ...spec.interfaces import InterfaceSpec

LINKS = "/etc/systemd/network/05-rdma-fabric-"
# Before 80-net-setup-link.rules, which applies .link files.
RULES = "/etc/udev/rules.d/70-rdma-fabric-"
# Before rdma-core's 60-rdma-persistent-naming.rules: that one finds the device under another name then, and leaves it.
RDMA_RULES = "/etc/udev/rules.d/60-rdma-fabric-"
REPRESENTOR_RULES = "/etc/udev/rules.d/71-rdma-fabric-"
# Of coreutils, in the same place on every distribution.
CUT = "/usr/bin/cut"
# Says which files of ours the initramfs was last made with.
STAMP = "/etc/rdma-fabric/initramfs"

_POLICY = "AlternativeNamesPolicy="

Files = Dict[str, str]


def name_path(interface: Interface) -> str:
    """Return the file that gives the interface its name at boot.

    In switchdev mode representors share the PCI path, so there a udev rule that looks at ``phys_port_name`` is
    needed; a ``.link`` file could give a representor the name.
    """
    mode = interface.wanted["eswitch_mode"]
    if mode == "switchdev" or (mode is None and interface.has_switch):
        return f"{RULES}{part_of_name(interface.key)}.rules"
    return f"{LINKS}{part_of_name(interface.key)}.link"


def rdma_path(address: str) -> str:
    """Return the file that gives the function's RDMA device its name at boot."""
    return f"{RDMA_RULES}{part_of_name(address)}.rules"


def representors_path(address: str) -> str:
    """Return the file that gives representors of the port's functions their names."""
    return f"{REPRESENTOR_RULES}{part_of_name(address)}.rules"


def is_naming_file(path: str) -> bool:
    """Return whether a file of ours gives names."""
    return path.startswith((LINKS, RULES, RDMA_RULES, REPRESENTOR_RULES))


def replaced_by(context: Context, interface: Interface) -> ReplacedLink | None:
    """Return the ``.link`` file that ours replaces, from ``competing_rules.read_others``."""
    return context.actual.facts["naming"]["link_files"].get(interface.name)


def name_file(interface: Interface, name: str, replaced: ReplacedLink | None = None) -> Files:
    """Return the file, with its text, that gives the interface ``name`` at boot.

    It has all other settings of the ``.link`` file that udev used in its place: one file is used alone.
    """
    path = name_path(interface)
    if path.endswith(".rules"):
        # A representor's port name is pf0vf3 or pf0sf88. The port's own is p0; older drivers do not tell it in legacy
        # mode, in which a port starts.
        matches = _added_at(interface.key)
        text = (
            f"# {MARKER}\n"
            f'{matches}, ATTR{{phys_port_name}}=="*pf*", GOTO="rdma_fabric_end"\n'
            f'{matches}, NAME="{name}"\n'
            'LABEL="rdma_fabric_end"\n'
        )
        return {path: text}
    kind = interface.netdev["link_type"] if interface.netdev is not None else "ether"
    # Some machines write the way to the PCI bus before the function's address. The alternative names are those that
    # systemd gives by default and that a file of one's own would drop.
    lines = list(replaced["lines"]) if replaced is not None else []
    source = [f"{SETTINGS_OF}{replaced['file']}"] if replaced and lines else []
    policy = [] if any(line.startswith(_POLICY) for line in lines) else [f"{_POLICY}database onboard slot path"]
    content = [f"# {MARKER}", *source, "[Match]", f"Path=pci-{interface.key} *-pci-{interface.key}", f"Type={kind}", ""]
    content += ["[Link]", f"Name={name}", *policy, *(lines[1:] if lines[:1] == ["[Link]"] else lines), ""]
    return {path: "\n".join(content)}


def rdma_file(address: str, name: str, program: str) -> Files:
    """Return the rule, with its path, that renames the function's RDMA device at boot.

    ``program`` is the path of iproute2's rdma. The device's own place is matched: sub-functions hang on the same PCI
    function, one level below.
    """
    text = (
        f"# {MARKER}\n"
        f'ACTION=="add", SUBSYSTEM=="infiniband", DEVPATH=="*/{address}/infiniband/*", KERNEL!="{name}", '
        f'PROGRAM="{program} dev set %k name {name}"\n'
    )
    return {rdma_path(address): text}


def representors_file(address: str, prefix: str) -> Files:
    """Return the rule, with its path, that names representors when they are made: ``<prefix>3``, ``<prefix>sf88``.

    Representors have the switch id of their port. It is not known before, so the port is told by its place. A rule
    can't take a name apart: of ``pf0vf3`` and ``pf0sf88``, cut at each f, the third part is the number.
    """
    lines = [
        f'{_added_at(address)}, ATTR{{phys_switch_id}}=="?*", ATTR{{phys_port_name}}=="{_port_names(kind)}", '
        f'PROGRAM="{CUT} -d f -f 3 $sys$devpath/phys_port_name", NAME="{prefix}{infix}%c"\n'
        for kind, infix in (("vf", ""), (SUBFUNCTION, SUBFUNCTION))
    ]
    return {representors_path(address): f"# {MARKER}\n{''.join(lines)}"}


def _added_at(address: str) -> str:
    """Return what a rule matches when an interface appears at a PCI function; sub-functions are one level below it."""
    return f'SUBSYSTEM=="net", ACTION=="add", DEVPATH=="*/{address}/net/*"'


def _port_names(kind: str) -> str:
    return "|".join(f"pf[0-9]{kind}{'[0-9]' * digits}" for digits in range(1, DIGITS + 1))


def stamp_text(files: Mapping[str, str]) -> str:
    """Return what ``STAMP`` says once the initramfs holds these naming files (content by path)."""
    return stamp_of_digest(digest(files))


def stamp_of_digest(value: str) -> str:
    """Return what ``STAMP`` says about naming files of this digest."""
    return f"# {MARKER}\n{value}\n"


def digest(files: Mapping[str, str]) -> str:
    """Return ``sha256:...`` over naming files."""
    text = json.dumps(sorted(files.items()), separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode('utf-8')).hexdigest()}"


def representors_refusal(interface: Interface) -> str:
    """Return why a port has no representors; empty when it has some in switchdev mode."""
    nic = interface.nic
    if nic is None or nic["function"] != "pf":
        return "it is not a PF, and only those have representors"
    if nic["link_layer"] == "InfiniBand":
        return "it is an InfiniBand port, and those have no representors"
    return ""


def wanted_files(context: Context) -> Files:
    """Return the naming files for the names of the spec; those of an absent device stay as they are."""
    program = context.actual.facts["naming"]["rdma"]
    files: Files = {}
    matched = set()
    for interface in context.interfaces:
        if interface.nic is None:
            continue
        matched.add(interface.key)
        name, rdma_name = interface.wanted["name"], interface.wanted["rdma_name"]
        if name is not None:
            here = interface.netdev is not None
            found = name_file(interface, name, replaced_by(context, interface)) if here else {}
            files.update(found if here else _as_they_are(context, _name_paths(interface.key)))
        if rdma_name is not None:
            rule = rdma_file(interface.key, rdma_name, program) if program else None
            files.update(rule or _as_they_are(context, [rdma_path(interface.key)]))
        prefix = interface.wanted["representor_prefix"]
        if prefix is not None and not representors_refusal(interface):
            files.update(representors_file(interface.key, prefix))
    for entry in context.desired["interfaces"]:
        address = entry.get("pci")
        if address is not None and address not in matched:
            paths = _name_paths(address) if entry["name"] else []
            paths += [rdma_path(address)] if entry["rdma_name"] else []
            paths += [representors_path(address)] if entry["representor_prefix"] else []
            files.update(_as_they_are(context, paths))
    files.update(_of_entries_without_device(context, matched))
    return files


def boot_files(context: Context) -> Files:
    """Return every naming file that the host needs."""
    files = wanted_files(context)
    early = in_initramfs(files)
    if early and rebuilds_initramfs(context):
        files[STAMP] = stamp_text(early)
    return files


def undo_of_file(context: Context, path: str) -> str:
    """Return how a naming file is restored, in words; in a removal it may not exist."""
    if context.removing:
        return f"write {path}" if path in context.boot_files else f"leave {path} away"
    return context.boot_undo_said(path)


def fate_of_file(context: Context, path: str) -> str:
    """Return what happens to a naming file, for the detail of a step."""
    return f"{path} is removed" if context.removing else f"{path} names it at boot"


def reason_of_file(context: Context, path: str, wanted: str) -> str:
    """Return why a naming file is written or removed although the name is right."""
    return f"{path} is there" if context.removing else f"it is {wanted} now, and {path} does not say so"


def in_initramfs(files: Mapping[str, str]) -> Files:
    """Return those naming files (content by path) that act there: representors are made when the host runs."""
    return {path: content for path, content in files.items() if not path.startswith(REPRESENTOR_RULES)}


def rebuilds_initramfs(context: Context) -> bool:
    """Return whether the host's initramfs may name network interfaces and the host has a program that rebuilds it."""
    initramfs = context.actual.facts["naming"]["initramfs"]
    return bool(initramfs and initramfs["network"] and initramfs["update"])


def _name_paths(address: str) -> list[str]:
    part = part_of_name(address)
    return [f"{LINKS}{part}.link", f"{RULES}{part}.rules"]


def _as_they_are(context: Context, paths: Iterable[str]) -> Files:
    return {path: context.boot_files[path] for path in paths if path in context.boot_files}


def _of_entries_without_device(context: Context, matched: Collection[str]) -> Files:
    """Return the files with the names of entries that match no device of the host now.

    An entry with ``mac`` or ``current_name`` does not say where its device is, but the file with its name does: that
    of no other device, of those ``matched`` by their address.
    """
    entries = [entry for entry in context.entries_without_device if entry.get("pci") is None]
    ends = tuple(end for entry in entries for end in _line_ends(entry))
    others = tuple(part_of_name(address) for address in matched)
    return {
        path: text
        for path, text in context.boot_files.items()
        if is_naming_file(path)
        and not (others and path.rsplit(".", 1)[0].endswith(others))
        and any(line.endswith(ends) for line in text.splitlines())
    }


def _line_ends(entry: InterfaceSpec) -> list[str]:
    """Return the ends of the lines that give the names of an entry."""
    name, rdma_name, prefix = entry["name"], entry["rdma_name"], entry["representor_prefix"]
    ends = [*naming_line_ends(name)] if name else []
    ends += [f'dev set %k name {rdma_name}"'] if rdma_name else []
    return ends + ([f', NAME="{prefix}%c"'] if prefix else [])
