# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for what renames: the kernel, udev, rdma(8) and the programs that make an initramfs. Only tests use it.

Errors as a kernel 6.12 gave them: a name in use is EEXIST, one above 15 characters is refused by ip(8) itself; before
6.2 an interface that is up is EBUSY. A new name shows wherever the old one did.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import (
    DONE,
    failed,
    link_setting,
    link_shown,
    program,
)

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

NET = "/sys/class/net"
# Each alternative name with the device whose interface has it: it keeps them, whatever its name.
ALTNAMES = "/stand-in/altnames"
# What the driver of a port knows of it: the port keeps it, whatever its name.
DCB = "/stand-in/dcb"
# What RDMA-CM knows of a device; the device keeps it as well (cma_device of the kernel's cma.c).
TOS = "/stand-in/tos"
OF_INTERFACES = (DCB, *(f"/proc/sys/net/{family}/{kind}" for family in ("ipv4", "ipv6") for kind in ("conf", "neigh")))
INFINIBAND = "/sys/class/infiniband"
VERBS = "/sys/class/infiniband_verbs"
IFNAMSIZ = 16
IFF_UP = 0x1
NET_NAME_RENAMED = 4
EXISTS = "RTNETLINK answers: File exists"
BUSY = "RTNETLINK answers: Device or resource busy"
# What an image holds of udev's configuration.
IN_IMAGES = ("/etc/systemd/network", "/etc/udev/rules.d")


@link_setting("name")
def rename(kernel: Kernel, name: str, words: deque[str]) -> CommandResult:
    wanted = words.popleft()
    if len(wanted) >= IFNAMSIZ or "/" in wanted:
        return failed(255, f'Error: argument "{wanted}" is wrong: "name" not a valid ifname')
    if wanted == name:
        return DONE
    if kernel.exists(f"{NET}/{wanted}") or f"{ALTNAMES}/{wanted}" in kernel.tree.files:
        return failed(2, EXISTS)
    is_up = int(kernel.read(f"{NET}/{name}/flags").strip(), 16) & IFF_UP
    if is_up and not _renames_live(kernel):
        return failed(2, BUSY)
    give_name(kernel, name, wanted)
    return DONE


def set_altname(kernel: Kernel, verb: str, name: str, alternative: str) -> CommandResult:
    """Do what ``ip link property VERB dev NAME altname ALTERNATIVE`` does; a name is in use by one device only."""
    path, device = f"{ALTNAMES}/{alternative}", _device(kernel, name)
    holder = kernel.read(path) if kernel.exists(path) else None
    if verb == "del":
        if holder != device:
            return failed(2, "RTNETLINK answers: No such file or directory")
        kernel.tree.discard(path)
        return DONE
    if holder is not None or kernel.exists(f"{NET}/{alternative}"):
        return failed(2, EXISTS)
    kernel.tree.add_file(path, device)
    return DONE


@link_shown
def altnames(kernel: Kernel, name: str) -> dict[str, Any]:
    there, device = kernel.list(ALTNAMES) if kernel.exists(ALTNAMES) else [], _device(kernel, name)
    found = [alternative for alternative in there if kernel.read(f"{ALTNAMES}/{alternative}") == device]
    return {"altnames": found} if found else {}


def _device(kernel: Kernel, name: str) -> str:
    return posixpath.dirname(kernel.realpath(f"{NET}/{name}"))


def named_by_udev(kernel: Kernel, name: str) -> None:
    """Do with an interface that appears what rules of udev say, in that part of their language that ours need."""
    for path in sorted(path for path in kernel.tree.files if path.startswith("/etc/udev/rules.d/")):
        for line in kernel.read(path).splitlines():
            keys = re.findall(r'([A-Z]+)(?:\{(\w+)\})?(==|=)"([^"]*)"', line)
            if line.startswith("#") or not all(_fits(kernel, name, key) for key in keys):
                continue
            given = {key: value for key, _attribute, _operator, value in keys}
            if "GOTO" in given:
                break
            if "NAME" in given:
                wanted = given["NAME"].replace("%c", _printed(kernel, name, given.get("PROGRAM", "")))
                if not kernel.exists(f"{NET}/{wanted}"):
                    give_name(kernel, name, wanted)
                return


def _fits(kernel: Kernel, name: str, part: Sequence[str]) -> bool:
    key, attribute, operator, value = part
    if operator != "==":
        return True
    place = kernel.realpath(f"{NET}/{name}")
    known = {"SUBSYSTEM": "net", "ACTION": "add", "DEVPATH": place[len("/sys") :]}
    if key == "ATTR":
        path = f"{place}/{attribute}"
        known["ATTR"] = kernel.read(path).strip() if path in kernel.tree.files else ""
    return any(fnmatch.fnmatchcase(known.get(key, ""), pattern) for pattern in value.split("|"))


def _printed(kernel: Kernel, name: str, command: str) -> str:
    """What ``cut -d CHARACTER -f NUMBER FILE`` prints."""
    if not command:
        return ""
    program, _d, character, _f, number, path = command.split()
    assert program == "/usr/bin/cut"
    place = kernel.realpath(f"{NET}/{name}")
    text = kernel.read(path.replace("$sys$devpath", place)).strip()
    return text.split(character)[int(number) - 1]


def give_name(kernel: Kernel, name: str, wanted: str) -> None:
    """Rename an interface, with every link and table that calls it by its name."""
    tree = kernel.tree
    _move(kernel, f"{NET}/{name}", wanted)
    links = {}
    for place, target in tree.links.items():
        new_place = re.sub(rf"(?<=/(?:upper|lower)_){re.escape(name)}$", lambda _match: wanted, place)
        # An RDMA device may have the same name, as on InfiniBand, and keeps it.
        links[new_place] = re.sub(rf"(?<=/net/){re.escape(name)}$", lambda _match: wanted, target)
    tree.relink(links)
    word = re.compile(rf"(?<!\S){re.escape(name)}(?!\S)")
    for path, content in tree.files.items():
        if "/gid_attrs/ndevs/" in path or path.startswith("/proc/net/"):
            tree.files[path] = word.sub(lambda _match: wanted, content.decode()).encode()
    for directory in OF_INTERFACES:
        if tree.exists(f"{directory}/{name}"):
            tree.move(f"{directory}/{name}", f"{directory}/{wanted}")
    tree.add_file(f"{NET}/{wanted}/name_assign_type", f"{NET_NAME_RENAMED}\n")
    tree.add_file(f"{NET}/{wanted}/uevent", f"INTERFACE={wanted}\n")


def _move(kernel: Kernel, class_link: str, wanted: str) -> None:
    """Move the directory that a link of a class leads to, and the link."""
    tree = kernel.tree
    place, target = tree.realpath(class_link), tree.link(class_link)
    new = posixpath.join(posixpath.dirname(place), wanted)
    tree.discard(class_link)
    tree.move(place, new)
    tree.add_link(
        posixpath.join(posixpath.dirname(class_link), wanted), posixpath.join(posixpath.dirname(target), wanted)
    )


def _renames_live(kernel: Kernel) -> bool:
    major, minor = kernel.read("/proc/sys/kernel/osrelease").split(".")[:2]
    return (int(major), int(minor)) >= (6, 2)


@program("udevadm")
def udevadm(_kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    known = argv[1] == "settle" or list(argv[1:]) == ["control", "--reload"]
    return DONE if known else failed(1, f"Unknown command verb {argv[1]}.")


@program("rdma", lambda argv: "show" in argv)
def rdma(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    words = list(argv[1:])
    if "show" in words:
        return CommandResult(0, "[ ]\n", "") if words[0] == "-j" else failed(1, "Unknown option.")
    if words[:2] != ["dev", "set"] or words[3:4] != ["name"] or len(words) != 5:
        return failed(1, "Usage: rdma dev set [ DEV ] name NEWNAME")
    name, wanted = words[2], words[4]
    if not kernel.exists(f"{INFINIBAND}/{name}"):
        return failed(1, f"Wrong device name: {name}: No such device")
    if name == wanted:
        return DONE
    if kernel.exists(f"{INFINIBAND}/{wanted}"):
        return failed(1, "kernel answers: File exists")
    _move(kernel, f"{INFINIBAND}/{name}", wanted)
    if kernel.tree.exists(f"{TOS}/{name}"):
        kernel.tree.move(f"{TOS}/{name}", f"{TOS}/{wanted}")
    for entry in kernel.list(VERBS) if kernel.exists(VERBS) else []:
        if kernel.read(f"{VERBS}/{entry}/ibdev").strip() == name:
            kernel.tree.add_file(f"{VERBS}/{entry}/ibdev", f"{wanted}\n")
    return DONE


@program("update-initramfs")
def update_initramfs(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if list(argv[1:]) != ["-u"]:
        return failed(1, "Usage: update-initramfs {-c|-d|-u} [-k version] [-v] [-b directory]")
    return _make_image(kernel, f"/boot/initrd.img-{kernel.read('/proc/sys/kernel/osrelease').strip()}")


@program("dracut")
def dracut(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if argv[1] not in ("-f", "--force"):
        return failed(1, "dracut: Will not override existing initramfs without --force")
    return _make_image(kernel, argv[2])


def _make_image(kernel: Kernel, image: str) -> CommandResult:
    held = sorted(path for path in kernel.tree.files if path.startswith(IN_IMAGES))
    kernel.tree.add_file(image, "".join(f"{path}\n{kernel.read(path)}\n" for path in held))
    return DONE
