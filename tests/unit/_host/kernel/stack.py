# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for what a driver stack is made of: packages, modules on the disk, a driver that takes its network along.

Only tests use it. A host whose tree has ``/stand-in/stack.json`` has package managers, ``modinfo``, ``modprobe`` with
builds, and ``ip`` with addresses, routes and VLANs; others are left to the other stand-ins, which this one asks first.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import struct
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.packages import PIN
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError

# The programs of these are asked where this one has no answer, so they are declared first.
from ansible_collections.rdma.fabric.tests.unit._host.kernel import boot, kmods, link, naming, queues, system
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import (
    DONE,
    PROGRAMS,
    failed,
    link_setting,
    program,
)

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

OTHERS = (boot, kmods, link, naming, system)
# None: the program of another stand-in is asked.
Handler = Callable[["Kernel", Sequence[str]], Optional[CommandResult]]

STACK = "/stand-in/stack.json"
NETWORK = "/stand-in/network.json"
AWAY = "/stand-in/away.json"
NET = link.NET
DRIVER = "mlx5_core"
KERNEL_PACKAGES = (
    "mlnx-ofed-kernel-dkms",
    "mlnx-ofa_kernel-dkms",
    "kmod-mlnx-ofa_kernel",
    "mlnx-ofa_kernel-kmp-default",
)
# They have an ndo_add_slave, and only the kernel manages their ports.
TAKES_PORTS = ("bond", "bridge", "vrf")
# What DKMS calls the driver of RPM packages, and of those for Debian and Ubuntu.
DKMS_NAMES = ("mlnx-ofa_kernel", "mlnx-ofed-kernel")
STACK_MODULES = ("mlx5_core", "mlx5_ib", "ib_core")
INFO = b"\0modinfo\0"
# Packages of headers, by distribution; SUSE's have the kernel in their version.
HEADERS = re.compile(r"(?:linux-headers|kernel-devel)-(\d.*)|kernel-default-devel")


def module_file(build: str, **info: Any) -> bytes:
    """The file of a kernel module: an ELF note with the build's id, and what modinfo tells of it."""
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + build.encode().ljust(20, b"\0")[:20]
    return b"\x7fELF" + bytes(60) + note + INFO + json.dumps(info).encode()


def stack_of(kernel: Kernel) -> dict[str, Any] | None:
    return json.loads(kernel.read(STACK)) if kernel.tree.exists(STACK) else None


def keep(kernel: Kernel, path: str, value: Any) -> None:
    kernel.tree.add_file(path, json.dumps(value, sort_keys=True))


def network_of(kernel: Kernel) -> dict[str, Any]:
    empty: dict[str, Any] = {"addresses": {}, "routes": [], "vlans": {}}
    return json.loads(kernel.read(NETWORK)) if kernel.tree.exists(NETWORK) else empty


def release(kernel: Kernel) -> str:
    return kernel.read("/proc/sys/kernel/osrelease").strip()


def only_on_stacks(
    name: str, only_reads: Callable[[Sequence[str]], bool] = lambda argv: False
) -> Callable[[Handler], Handler]:
    """Declare a program for hosts with a stack; any other host has the program it had before, or none."""
    before = PROGRAMS.get(name)

    def declare(handler: Handler) -> Handler:
        def reads(argv: Sequence[str]) -> bool:
            return only_reads(argv) or (before is not None and before.only_reads(argv))

        @program(name, reads)
        def run(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
            if kernel.tree.exists(STACK):
                result = handler(kernel, argv)
                if result is not None:
                    return result
            if before is None:
                raise HostError("ENOENT", argv[0])
            return before.run(kernel, argv)

        return handler

    return declare


# Packages.


@only_on_stacks("env")
def env(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    start = next(i for i, word in enumerate(argv[1:], 1) if "=" not in word)
    return PROGRAMS[argv[start]].run(kernel, argv[start:])


@only_on_stacks("dpkg-query", lambda argv: True)
def dpkg_query(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    return _listed(kernel, "apt")


@only_on_stacks("rpm", lambda argv: "-qa" in argv)
def rpm(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if "-qa" in argv:
        return _listed(kernel, "rpm")
    return DONE if kernel.tree.exists(argv[-1]) else failed(1, f"error: {argv[-1]}: import read failed(2).")


def _listed(kernel: Kernel, family: str) -> CommandResult:
    stack = stack_of(kernel) or {}
    assert (stack["manager"] == "apt") == (family == "apt"), "the package database of another family is asked"
    return CommandResult(0, "".join(f"{n}\t{v}\tinstalled\n" for n, v in sorted(stack["installed"].items())), "")


@only_on_stacks("apt-get")
def apt_get(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    # The options with a value are "-o NAME=VALUE", before and behind the verb.
    words = [word for i, word in enumerate(argv[1:], 1) if not word.startswith("-") and argv[i - 1] != "-o"]
    verb, names = words[0], words[1:]
    if "--download-only" in argv:
        return DONE
    if verb == "purge":
        return _remove(kernel, names)
    back = kernel.tree.exists(PIN)
    return _install(kernel, names, "E: Unable to locate package {}", back) if verb == "install" else DONE


@only_on_stacks("dpkg")
def dpkg(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    return DONE


@only_on_stacks("apt-cache", lambda argv: True)
def apt_cache(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    known = (stack_of(kernel) or {})["offered"].get(argv[-1], "(none)")
    if "madison" in argv:
        return CommandResult(0, "" if known == "(none)" else f" {argv[-1]} | {known} | file:/srv ./ Packages\n", "")
    return CommandResult(0, f"{argv[-1]}:\n  Installed: (none)\n  Candidate: {known}\n", "")


@only_on_stacks("dnf", lambda argv: "repoquery" in argv)
def dnf(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    words = [word for word in argv[1:] if not word.startswith("-")]
    if words[0] == "repoquery":
        known = (stack_of(kernel) or {})["offered"].get(words[1])
        return CommandResult(0, f"{words[1]}-0:{known}.noarch\n" if known else "", "")
    if words[0] == "remove":
        return _remove(kernel, words[1:])
    if words[0] == "makecache" or "--downloadonly" in argv:
        return DONE
    return _install(kernel, words[1:], "Error: Unable to find a match: {}", words[0] == "distro-sync")


@only_on_stacks("zypper", lambda argv: "search" in argv)
def zypper(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    words = [word for word in argv[1:] if not word.startswith("-")]
    none_found = CommandResult(104, "", "")
    if words[0] == "search":
        known = (stack_of(kernel) or {})["offered"].get(words[1])
        return CommandResult(0, f"  | {words[1]} | package | {known} | noarch | o\n", "") if known else none_found
    if words[0] == "remove":
        return _remove(kernel, words[1:])
    if "--download-only" in argv:
        return DONE
    back = "--force" in argv
    return _install(kernel, words[1:], "No provider of '{}' found.", back) if words[0] == "install" else DONE


def _install(kernel: Kernel, words: Sequence[str], missing: str, goes_back: bool) -> CommandResult:
    """Install packages; a name that ends with a minus is removed, and going back only the distribution is asked."""
    stack = stack_of(kernel) or {}
    offered = stack["distribution"] if goes_back else {**stack["installed"], **stack["offered"]}
    # NAME=VERSION asks for one version of a package; SUSE's packages of a kernel provide that of uname as well.
    asked = [word.partition("=")[::2] for word in words if not word.endswith("-")]
    names = [name for name, _version in asked]
    for name in names:
        if name not in offered:
            return failed(100, missing.format(name))
    built: list[str] = []
    for name, version in asked:
        stack["installed"][name] = offered[name]
        headers = HEADERS.fullmatch(name)
        if headers is not None:
            of_kernel = headers[1] or f"{version}-default"
            kernel.tree.add_file(f"/lib/modules/{of_kernel}/build/Makefile", "")
            if stack["manager"] == "apt" and kernel.tree.exists(f"/var/lib/dkms/{_source_of(stack)}"):
                # /etc/kernel/header_postinst.d/dkms
                built.append(of_kernel)
    keep(kernel, STACK, stack)
    for of_kernel in built:
        _build_modules(kernel, stack, of_kernel)
    if set(KERNEL_PACKAGES) & set(names):
        _build_modules(kernel, stack, release(kernel))
        kernel.tree.add_file("/etc/init.d/openibd", "")
    return _remove(kernel, [word[:-1] for word in words if word.endswith("-")])


def _source_of(stack: dict[str, Any]) -> str:
    return f"{DKMS_NAMES[stack['manager'] == 'apt']}/{stack['release']}"


def _build_modules(kernel: Kernel, stack: dict[str, Any], of_kernel: str) -> None:
    for name in STACK_MODULES:
        path = f"/lib/modules/{of_kernel}/updates/dkms/{name}.ko"
        info = {"version": stack["release"], "depends": "", "srcversion": f"V{stack['release']}"}
        kernel.tree.add_file(path, module_file(f"vendor-{stack['release']}", **info))
    age(kernel, of_kernel)
    kernel.tree.add_file(f"/var/lib/dkms/{_source_of(stack)}/{of_kernel}/x86_64/module/mlx5_core.ko", "")


@only_on_stacks("dkms")
def dkms(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    """DKMS 3.0: install SOURCE/VERSION -k KERNEL, or autoinstall -k KERNEL of all sources that it has."""
    stack, of_kernel = stack_of(kernel) or {}, argv[-1]
    known = f"/var/lib/dkms/{_source_of(stack)}"
    if not kernel.tree.exists(known):
        return DONE if argv[1] == "autoinstall" else failed(3, "Error! Could not find module source directory.")
    if kernel.tree.exists(f"/lib/modules/{of_kernel}/updates/dkms"):
        said = "Error! This module/version combo is already installed"
        return DONE if argv[1] == "autoinstall" else failed(5, f"{said} for kernel {of_kernel} (x86_64).")
    if not kernel.tree.exists(f"/lib/modules/{of_kernel}/build/Makefile"):
        return failed(1, f"Error! Your kernel headers for kernel {of_kernel} cannot be found.")
    if argv[1] == "install" and argv[2] != _source_of(stack):
        return failed(3, f"Error! Could not find module source directory of {argv[2]}.")
    _build_modules(kernel, stack, of_kernel)
    return DONE


def _remove(kernel: Kernel, names: Sequence[str]) -> CommandResult:
    stack = stack_of(kernel) or {}
    for name in names:
        stack["installed"].pop(name, None)
    keep(kernel, STACK, stack)
    if set(KERNEL_PACKAGES) & set(names):
        kernels = kernel.tree.list("/lib/modules")
        for path in (
            *(f"/lib/modules/{of_kernel}/updates" for of_kernel in kernels),
            *(f"/var/lib/dkms/{source}" for source in DKMS_NAMES),
            "/etc/init.d/openibd",
        ):
            kernel.tree.discard(path)
        # depmod gives the kernel's own file its place back; its time is that of the removal.
        for of_kernel in kernels:
            age(kernel, of_kernel)
    return DONE


# Modules on the disk.


def _file_of(kernel: Kernel, name: str, of_kernel: str) -> str | None:
    base = f"/lib/modules/{of_kernel}"
    for path in (f"{base}/updates/dkms/{name}.ko", f"{base}/kernel/{name}.ko"):
        if kernel.tree.exists(path):
            return path
    return None


def info_of(kernel: Kernel, name: str, of_kernel: str | None = None) -> dict[str, Any] | None:
    path = _file_of(kernel, name.replace("-", "_"), of_kernel or release(kernel))
    if path is None:
        return None
    note, info = kernel.tree.files[kernel.tree.realpath(path)].split(INFO)
    return {**json.loads(info), "filename": path, "note": note}


@only_on_stacks("modinfo", lambda argv: True)
def modinfo(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    text, missing = "", ""
    for name in argv[3:]:
        info = info_of(kernel, name, argv[2])
        if info is None:
            missing += f"modinfo: ERROR: Module {name} not found.\n"
            continue
        fields = ("filename", "version", "srcversion", "depends", "signer")
        text += "".join(f"{key}: {info[key]}\n" for key in fields if info.get(key) is not None)
    return CommandResult(1 if missing else 0, text, missing)


def age(kernel: Kernel, of_kernel: str) -> None:
    """Let the modules of a kernel be newer than its initial RAM disk."""
    stack = stack_of(kernel) or {}
    stack["images"].setdefault(of_kernel, {"holds": "kernel"})["stale"] = True
    keep(kernel, STACK, stack)


def _make_image(kernel: Kernel, of_kernel: str) -> CommandResult:
    """Make an initial RAM disk of what modprobe would load."""
    stack = stack_of(kernel) or {}
    held = _file_of(kernel, DRIVER, of_kernel) or ""
    stack["images"][of_kernel] = {"stale": False, "holds": "updates/dkms" if "/updates/" in held else "kernel"}
    keep(kernel, STACK, stack)
    return DONE


def _image_of(path: str) -> str:
    name = posixpath.basename(path)
    return re.sub(r"\.img$", "", re.sub(r"^(?:initrd\.img|initramfs|initrd)-", "", name))


@only_on_stacks("stat", lambda argv: True)
def stat(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    image, module = argv[2:4]
    stale = (stack_of(kernel) or {})["images"].get(_image_of(image), {}).get("stale", False)
    return CommandResult(0, f"{100 if stale else 300} {image}\n200 {module}\n", "")


def _content(kernel: Kernel, argv: Sequence[str], line: str) -> CommandResult:
    of_kernel = _image_of(argv[-1])
    holds = (stack_of(kernel) or {})["images"].get(of_kernel, {}).get("holds")
    # One that was made for this host alone may hold no driver of NICs.
    held = f"usr/lib/modules/{of_kernel}/{holds}/mlx5_core.ko" if holds else "usr/lib/modules/ext4.ko"
    return CommandResult(0, line.format(held), "")


@only_on_stacks("lsinitramfs", lambda argv: True)
def lsinitramfs(kernel: Kernel, argv: Sequence[str]) -> CommandResult | None:
    return _content(kernel, argv, "init\n{}\n") if (stack_of(kernel) or {})["manager"] == "apt" else None


@only_on_stacks("lsinitrd", lambda argv: True)
def lsinitrd(kernel: Kernel, argv: Sequence[str]) -> CommandResult | None:
    row = "-rw-r--r--   1 root     root       2015232 Jan  1  1970 {}\n"
    return _content(kernel, argv, f"Image: x\n{row}") if (stack_of(kernel) or {})["manager"] != "apt" else None


@only_on_stacks("df", lambda argv: True)
def df(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    rows = "".join(f"/dev/sda1 90000 1000 80000 2% {path}\n" for path in argv[3:])
    return CommandResult(0, f"Filesystem 1048576-blocks Used Available Capacity Mounted on\n{rows}", "")


@only_on_stacks("grep", lambda argv: True)
def grep(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    lines = kernel.read(argv[-1]).splitlines()
    if "-o" not in argv:
        first = [line for line in lines if re.search(rf"\b{argv[-2]}\b", line)][:1]
        return CommandResult(0 if first else 1, "".join(f"{line}\n" for line in first), "")
    words = {word for line in lines for word in re.findall(r"\w+", line)}
    found = [word for word in (argv[4], argv[6]) if word in words]
    return CommandResult(0 if found else 1, "".join(f"{word}\n" for word in found), "")


@only_on_stacks("depmod")
def depmod(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    return DONE


@only_on_stacks("update-initramfs")
def update_initramfs(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    return _make_image(kernel, argv[-1] if "-k" in argv else release(kernel))


@only_on_stacks("dracut")
def dracut(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    return _make_image(kernel, argv[-1])


# The running kernel.


@only_on_stacks("modprobe")
def modprobe(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    name = argv[-1].replace("-", "_")
    loaded = kernel.tree.exists(f"/sys/module/{name}")
    if "-r" in argv:
        if loaded and name in (stack_of(kernel) or {}).get("busy", []):
            return failed(1, f"modprobe: FATAL: Module {name} is in use.")
        if loaded and name == DRIVER:
            _take_network_away(kernel)
        return kmods.modprobe(kernel, argv)
    info = info_of(kernel, name)
    if not loaded and info is not None and info.get("refuses"):
        return failed(1, f"modprobe: ERROR: could not insert '{name}': {info['refuses']}")
    result = kmods.modprobe(kernel, argv)
    if not loaded and info is not None:
        _identify(kernel, name, info)
        if name == DRIVER:
            _bring_network_back(kernel)
    return result


@only_on_stacks("systemctl")
def systemctl(kernel: Kernel, argv: Sequence[str]) -> CommandResult | None:
    if list(argv[1:]) == ["restart", "openibd"]:
        for name in reversed(STACK_MODULES):
            modprobe(kernel, ["modprobe", "-r", name])
        for name in STACK_MODULES:
            modprobe(kernel, ["modprobe", name])
        return DONE
    return DONE if list(argv[1:]) == ["daemon-reload"] else None


def _identify(kernel: Kernel, name: str, info: dict[str, Any]) -> None:
    base = f"/sys/module/{name}"
    kernel.tree.add_file(f"{base}/notes/.note.gnu.build-id", info["note"][64:])
    for key in ("version", "srcversion"):
        if info.get(key):
            kernel.tree.add_file(f"{base}/{key}", f"{info[key]}\n")
    if "/updates/" in info["filename"]:
        kernel.tree.add_file(f"{base}/taint", "OE\n")


def load_at_first(kernel: Kernel) -> None:
    """Let the host have booted with the modules that are on its disk."""
    for name in STACK_MODULES:
        info = info_of(kernel, name)
        if info is not None:
            _identify(kernel, name, info)


def _ports(kernel: Kernel) -> list[str]:
    places = {name: kernel.tree.realpath(f"{NET}/{name}") for name in kernel.tree.list(NET)}
    drivers = {name: f"{posixpath.dirname(posixpath.dirname(place))}/driver" for name, place in places.items()}
    return [name for name, path in drivers.items() if kernel.tree.links.get(path, "").endswith(f"/{DRIVER}")]


def _take_network_away(kernel: Kernel) -> None:
    tree, network = kernel.tree, network_of(kernel)
    away: dict[str, Any] = {}
    for name in _ports(kernel):
        target = tree.links[f"{NET}/{name}"]
        place = tree.realpath(f"{NET}/{name}")
        for vlan in [vlan for vlan, entry in network["vlans"].items() if entry["link"] == name]:
            _forget(kernel, network, vlan)
        inside = f"{place}/"
        files = {p: base64.b64encode(content).decode() for p, content in tree.files.items() if p.startswith(inside)}
        above = [entry[len("upper_") :] for entry in tree.list(place) if entry.startswith("upper_")]
        for upper in above:
            tree.discard(f"/sys/devices/virtual/net/{upper}/lower_{name}")
        ties = (f"{inside}upper_", f"{inside}master")
        links = {p: to for p, to in tree.links.items() if p.startswith(inside) and not p.startswith(ties)}
        away[name] = {"target": target, "place": place, "files": files, "links": links}
        _forget(kernel, network, name)
        tree.discard(place)
    keep(kernel, AWAY, away)
    keep(kernel, NETWORK, network)


def _bring_network_back(kernel: Kernel) -> None:
    if not kernel.tree.exists(AWAY):
        return
    for name, entry in json.loads(kernel.read(AWAY)).items():
        for path, content in entry["files"].items():
            kernel.tree.add_file(path, base64.b64decode(content))
        for path, target in entry["links"].items():
            kernel.tree.add_link(path, target)
        kernel.tree.add_link(f"{NET}/{name}", entry["target"])
        kernel.tree.add_file(f"{entry['place']}/mtu", "1500\n")
        kernel.tree.add_file(f"{entry['place']}/flags", "0x1002\n")
        # The driver makes the interface anew, with the rings and channels that it begins with.
        queues.reset(kernel, name)
    kernel.tree.discard(AWAY)


def _forget(kernel: Kernel, network: dict[str, Any], name: str) -> None:
    network["addresses"].pop(name, None)
    network["routes"] = [route for route in network["routes"] if route["dev"] != name]
    if network["vlans"].pop(name, None):
        kernel.tree.discard(kernel.tree.realpath(f"{NET}/{name}"))
    kernel.tree.discard(f"{NET}/{name}")


# ip(8).


@only_on_stacks("ip", lambda argv: "show" in argv)
def ip(kernel: Kernel, argv: Sequence[str]) -> CommandResult | None:
    words = list(argv[1:])
    if words[:4] == ["-json", "-details", "address", "show"]:
        return _show_addresses(kernel, words[4:])
    if words[:5] == ["-json", "-details", "link", "show", "dev"]:
        return CommandResult(
            0, json.dumps([{"ifname": words[5], "linkinfo": {"info_kind": kind_of(kernel, words[5])}}]), ""
        )
    if words[0] == "-json" and words[2:6] == ["route", "show", "table", "all"]:
        version = int(words[1][1:])
        known = [route for route in network_of(kernel)["routes"] if route["version"] == version]
        # Asked for one interface, ip leaves its name out.
        shown = [route for route in known if route["dev"] == words[7]]
        found = [{k: v for k, v in route.items() if k not in {"version", "dev"}} for route in shown]
        return CommandResult(0, json.dumps(found), "")
    network = network_of(kernel)
    if words[:2] == ["link", "add"]:
        return _add_vlan(kernel, network, words)
    if words[:2] == ["address", "replace"]:
        return _replace_address(kernel, network, words)
    if words[1:3] == ["route", "replace"]:
        return _replace_route(kernel, network, words)
    return None


@only_on_stacks("bridge", lambda argv: True)
def bridge(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    assert list(argv) == ["bridge", "-json", "fdb", "show"]
    filters = network_of(kernel).get("filters", {})
    shown = [
        {"mac": address, "ifname": name, "flags": ["self"], "state": "permanent"}
        for name in kernel.list(NET)
        for address in ("33:33:00:00:00:01", "01:00:5e:00:00:01", *filters.get(name, []))
    ]
    return CommandResult(0, json.dumps(shown), "")


def _show_addresses(kernel: Kernel, words: list[str]) -> CommandResult:
    network = network_of(kernel)
    names = [words[1]] if words[0] == "dev" else sorted(network["vlans"])
    if any(not kernel.tree.exists(f"{NET}/{name}") for name in names):
        return failed(1, f'Device "{names[0]}" does not exist.')
    return CommandResult(0, json.dumps([_shown(kernel, network, name) for name in names]), "")


def _shown(kernel: Kernel, network: dict[str, Any], name: str) -> dict[str, Any]:
    up = int(kernel.read(f"{NET}/{name}/flags"), 16) & 1
    shown: dict[str, Any] = {
        "ifname": name,
        "mtu": int(kernel.read(f"{NET}/{name}/mtu")),
        "flags": ["BROADCAST", *(["UP"] if up else [])],
        "address": kernel.read(f"{NET}/{name}/address").strip(),
        "addr_info": network["addresses"].get(name, []),
    }
    if kernel.tree.exists(f"{NET}/{name}/master"):
        shown["master"] = posixpath.basename(kernel.link(f"{NET}/{name}/master"))
    vlan = network["vlans"].get(name)
    if vlan is not None:
        data = {"protocol": vlan["protocol"], "id": vlan["id"]}
        shown.update(link=vlan["link"], linkinfo={"info_kind": "vlan", "info_data": data})
    return shown


def _add_vlan(kernel: Kernel, network: dict[str, Any], words: list[str]) -> CommandResult:
    parent, name = words[words.index("link", 1) + 1], words[words.index("name") + 1]
    if kernel.tree.exists(f"{NET}/{name}"):
        return failed(2, naming.EXISTS)
    make_vlan(kernel, network, name, parent, int(words[words.index("id") + 1]))
    keep(kernel, NETWORK, network)
    return DONE


def make_vlan(kernel: Kernel, network: dict[str, Any], name: str, parent: str, number: int) -> None:
    network["vlans"][name] = {"link": parent, "id": number, "protocol": "802.1Q"}
    address = kernel.read(f"{NET}/{parent}/address")
    add_virtual(kernel, name, mtu="1500", flags="0x1002", address=address.strip(), type="1", uevent="DEVTYPE=vlan")
    stand_on(kernel, parent, name)


def stand_on(kernel: Kernel, lower: str, upper: str, *, is_master: bool = False) -> None:
    """Let an interface stand on another one, as sysfs shows it from both sides."""
    kernel.tree.add_link(f"{NET}/{lower}/upper_{upper}", f"{NET}/{upper}")
    kernel.tree.add_link(f"{NET}/{upper}/lower_{lower}", f"{NET}/{lower}")
    if is_master:
        kernel.tree.add_link(f"{NET}/{lower}/master", f"/sys/devices/virtual/net/{upper}")


def kind_of(kernel: Kernel, name: str) -> str:
    """The kind of a virtual interface, which the kernel shows as DEVTYPE for some and over netlink for all."""
    _word, _sign, kind = kernel.read(f"{NET}/{name}/uevent").strip().partition("DEVTYPE=")
    return kind or str(network_of(kernel).get("kinds", {}).get(name, "dummy"))


def add_virtual(kernel: Kernel, name: str, **attributes: str) -> None:
    place = f"/sys/devices/virtual/net/{name}"
    for key, value in attributes.items():
        kernel.tree.add_file(f"{place}/{key}", f"{value}\n")
    kernel.tree.add_link(f"{NET}/{name}", f"../../devices/virtual/net/{name}")


def _replace_address(kernel: Kernel, network: dict[str, Any], words: list[str]) -> CommandResult:
    name = words[words.index("dev") + 1]
    if not kernel.tree.exists(f"{NET}/{name}"):
        return failed(1, f'Cannot find device "{name}"')
    local, length = words[2].split("/")
    known = [entry for entry in network["addresses"].get(name, []) if entry["local"] != local]
    family = "inet6" if ":" in local else "inet"
    new: dict[str, Any] = {"family": family, "local": local, "prefixlen": int(length), "scope": "global"}
    if "broadcast" in words:
        new["broadcast"] = words[words.index("broadcast") + 1]
    network["addresses"][name] = sorted([*known, new], key=lambda entry: str(entry["local"]))
    keep(kernel, NETWORK, network)
    return DONE


def _replace_route(kernel: Kernel, network: dict[str, Any], words: list[str]) -> CommandResult:
    route: dict[str, Any] = {"version": int(words[0][1:]), "dst": words[3]}
    keys = {"via": "gateway", "dev": "dev", "proto": "protocol", "scope": "scope", "metric": "metric"}
    rest = words[4:]
    for word, value in zip(rest[::2], rest[1::2]):
        route[keys[word]] = int(value) if word == "metric" else value
    if not kernel.tree.exists(f"{NET}/{route['dev']}"):
        return failed(1, f'Cannot find device "{route["dev"]}"')
    if not int(kernel.read(f"{NET}/{route['dev']}/flags"), 16) & 1:
        return failed(2, "Error: Nexthop device is not up.")
    same = [entry for entry in network["routes"] if (entry["dst"], entry["dev"]) != (route["dst"], route["dev"])]
    network["routes"] = sorted([*same, route], key=lambda entry: (entry["dst"], entry["dev"]))
    keep(kernel, NETWORK, network)
    return DONE


@link_setting("master")
def set_master(kernel: Kernel, name: str, words: Any) -> CommandResult:
    master = words.popleft()
    if not kernel.tree.exists(f"{NET}/{master}"):
        return failed(1, f'Cannot find device "{master}"')
    if kind_of(kernel, master) not in TAKES_PORTS:
        # do_set_master (net/core/rtnetlink.c): whatever has no ndo_add_slave, as ovs-system.
        return failed(2, "RTNETLINK answers: Operation not supported")
    stand_on(kernel, name, master, is_master=True)
    return DONE
