# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for SR-IOV: the kernel's drivers/pci/iov.c and drivers of network cards. Only tests use it.

Errors as a kernel 6.12 gave them: EBUSY for another number than 0 over a number, ERANGE above sriov_totalvfs, EINVAL
for no number, ENOENT where no driver is bound. Interfaces of new functions come a moment late. A function's interface
may have gone to another namespace: destroying the function asks nobody.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Match, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import (
    DONE,
    LINKS,
    attribute,
    failed,
    link_setting,
    link_shown,
)

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PCI = "/sys/bus/pci/devices"
DRIVERS = "/sys/bus/pci/drivers"
NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
# Kept beside the device: what only netlink tells, so that states compare with it.
SETTINGS = "settings-of-virtual-functions"
MODE = "mode-of-the-e-switch"  # there in switchdev mode only
NO_GUID = "00:00:00:00:00:00:00:00"
# What ip takes, and what it calls them in JSON.
GUIDS = {"node_guid": "node guid", "port_guid": "port guid"}
NO_OVERRIDE = "(null)"
NO_ADDRESS = "00:00:00:00:00:00"
# Queue pair and subnet prefix, which stand before the port's GUID.
IPOIB_PREFIX = "00:00:10:29:fe:80:00:00:00:00:00:00"
# Groups of the IOMMU are numbered; those of functions are made out of the way of the others.
FIRST_GROUP = 100000
LATE_SECONDS = 0.7
UNSUPPORTED = "RTNETLINK answers: Operation not supported"
INVALID = "RTNETLINK answers: Invalid argument"
# By the driver of the PF: the driver of its virtual ones, what it can't set.
VF_DRIVERS = {"mlx5_core": "mlx5_core", "igb": "igbvf", "bnxt_en": "bnxt_en"}
LACKING = {"igb": {"state"}}


@attribute(r"/sys/devices/(?:.*/)?(?P<pf>[0-9a-f:.]+)/sriov_numvfs")
def set_number(kernel: Kernel, match: Match[str], text: str) -> None:
    path, address = match.group(0), match["pf"]
    if not text.strip().isdecimal():
        raise HostError("EINVAL", path)
    wanted, now = int(text), _number(kernel, address, "sriov_numvfs")
    if wanted > _number(kernel, address, "sriov_totalvfs"):
        raise HostError("ERANGE", path)
    if wanted == now:
        return
    driver = driver_of(kernel, address)
    if driver is None:
        raise HostError("ENOENT", path)
    if driver == "bnxt_en" and not _is_up(kernel, address):
        return
    if wanted and now:
        raise HostError("EBUSY", path)
    if not wanted:
        remove_functions(kernel, address)
        return
    kernel.tree.add_file(f"{PCI}/{address}/sriov_numvfs", f"{wanted}\n")
    _keep_lines(kernel, address, [json.dumps(_new_settings(_is_infiniband(kernel, address)))] * wanted)
    for name in ("drivers_probe", f"drivers/{VF_DRIVERS[driver]}/unbind", f"drivers/{VF_DRIVERS[driver]}/bind"):
        kernel.tree.add_file(f"/sys/bus/pci/{name}", "")
    for number in range(wanted):
        _add_function(kernel, address, number)


@attribute(r"/sys/bus/pci/drivers/(?P<driver>[\w-]+)/unbind")
def unbind(kernel: Kernel, match: Match[str], text: str) -> None:
    address = text.strip()
    if not kernel.exists(f"{PCI}/{address}") or driver_of(kernel, address) != match["driver"]:
        raise HostError("ENODEV", match.group(0))
    if kernel.exists(f"{PCI}/{address}/sriov_numvfs"):
        remove_functions(kernel, address)
    remove_interfaces(kernel, address)
    kernel.tree.discard(f"{PCI}/{address}/driver")
    _write_uevent(kernel, address, None)


@attribute(r"/sys/bus/pci/drivers_probe")
def probe(kernel: Kernel, match: Match[str], text: str) -> None:
    address = text.strip()
    if not kernel.exists(f"{PCI}/{address}"):
        raise HostError("EINVAL", match.group(0))
    if driver_of(kernel, address) is None:
        bind(kernel, address)


@attribute(r"/sys/devices/(?:.*/)?(?P<pf>[0-9a-f:.]+)/sriov/(?P<number>\d+)/(?P<name>node|port|policy)")
def set_by_file(kernel: Kernel, match: Match[str], text: str) -> None:
    """The files of the vendor's mlx5_ib set what ip sets."""
    pf, number = match["pf"], int(match["number"])
    settings = _setting(kernel, pf, number)
    states = {"Follow": "auto", "Up": "enable", "Down": "disable"}
    if match["name"] == "policy":
        settings["link_state"] = states[text.strip()]
    else:
        settings[f"{match['name']} guid"] = text.strip()
    _keep(kernel, pf, number, settings)
    kernel.tree.add_file(match.group(0), f"{text.strip()}\n")


@link_setting("vf")
def set_up(kernel: Kernel, name: str, words: deque[str]) -> CommandResult:
    address = posixpath.basename(kernel.realpath(f"{NET}/{name}/device"))
    number = int(words.popleft())
    if number >= len(_lines(kernel, address)):
        return failed(2, INVALID)
    settings = _setting(kernel, address, number)
    while words:
        key, value = words.popleft(), words.popleft()
        if key in LACKING.get(driver_of(kernel, address) or "", ()) or _of_legacy_mode(kernel, address, key, value):
            return failed(2, UNSUPPORTED)
        problem = INVALID if key == "max_tx_rate" and _lacks_link(kernel, name) else _set(settings, key, value)
        if problem:
            return failed(2, problem)
        _keep(kernel, address, number, settings)
    return DONE


def _of_legacy_mode(kernel: Kernel, address: str, key: str, value: str) -> bool:
    """Say whether mlx5 takes a setting in legacy mode only (mlx5_eswitch_set_vport_vlan, _spoofchk and _trust)."""
    switchdev = kernel.exists(f"{PCI}/{address}/{MODE}")
    return switchdev and (key in ("trust", "spoofchk") or (key == "vlan" and value != "0"))


def _lacks_link(kernel: Kernel, name: str) -> bool:
    """Drivers such as igb refuse a rate without a link; ``LINKS`` makes one of them."""
    return kernel.exists(LINKS) and not kernel.exists(f"{NET}/{name}/carrier")


def _set(settings: dict[str, Any], key: str, value: str) -> str:
    if key == "mac":
        settings["address"] = value
    elif key == "vlan":
        settings["vlan_list"] = [{"vlan": int(value)} if int(value) else {}]
    elif key == "max_tx_rate":
        settings["rate"]["max_tx"] = int(value)
    elif key in ("trust", "spoofchk"):
        settings[key] = value == "on"
    elif key == "state":
        settings["link_state"] = value
    elif key in GUIDS and GUIDS[key] in settings:
        settings[GUIDS[key]] = value
    elif key in GUIDS:
        return UNSUPPORTED
    else:
        return f'Error: argument "{key}" is wrong'
    return ""


@link_shown
def show(kernel: Kernel, name: str) -> dict[str, Any]:
    link = {"ifname": name, "address": kernel.read(f"{NET}/{name}/address").strip()}
    if kernel.exists(f"{NET}/{name}/permaddr"):
        link["permaddr"] = kernel.read(f"{NET}/{name}/permaddr").strip()
    device = f"{NET}/{name}/device"
    address = posixpath.basename(kernel.realpath(device)) if kernel.exists(device) else ""
    functions = settings_of(kernel, address) if address else []
    listed = [{"vf": number, "link_type": "ether", **settings} for number, settings in enumerate(functions)]
    return {**link, "vfinfo_list": listed} if listed else link


def driver_of(kernel: Kernel, address: str) -> str | None:
    """Return the driver that is bound to a PCI function."""
    try:
        return posixpath.basename(kernel.link(f"{PCI}/{address}/driver"))
    except HostError:
        return None


def bind(kernel: Kernel, address: str) -> None:
    """Bind the driver of its kind to a VF, unless the physical one forbids it; the interface is late."""
    physical = posixpath.basename(kernel.link(f"{PCI}/{address}/physfn"))
    driver, override = driver_of(kernel, physical), override_of(kernel, address)
    if override is None and (driver is None or _number(kernel, physical, "sriov_drivers_autoprobe") != 1):
        return
    if override is not None and not kernel.exists(f"/sys/module/{override.replace('-', '_')}"):
        return
    chosen = override or VF_DRIVERS[driver or ""]
    place = kernel.realpath(f"{PCI}/{address}")
    kernel.tree.add_file(f"/sys/bus/pci/drivers/{chosen}/unbind", "")
    kernel.tree.add_link(f"{place}/driver", posixpath.relpath(f"{DRIVERS}/{chosen}", place))
    _write_uevent(kernel, address, chosen)
    if override is None:
        kernel.later(LATE_SECONDS, lambda: _add_interface(kernel, physical, address))


def override_of(kernel: Kernel, address: str) -> str | None:
    """Return the one driver that a function may be bound to, None where any may."""
    text = kernel.read(f"{PCI}/{address}/driver_override").strip()
    return None if text == NO_OVERRIDE else text


@attribute(r"/sys/devices/(?:.*/)?[0-9a-f:.]+/driver_override")
def set_override(kernel: Kernel, match: Match[str], text: str) -> None:
    kernel.tree.add_file(match.group(0), f"{text.strip() or NO_OVERRIDE}\n")


def remove_functions(kernel: Kernel, address: str) -> None:
    """Remove every VF of a physical one, with their interfaces wherever they are."""
    for name in [name for name in kernel.list(f"{PCI}/{address}") if re.fullmatch(r"virtfn\d+", name)]:
        function = posixpath.basename(kernel.link(f"{PCI}/{address}/{name}"))
        remove_interfaces(kernel, function)
        kernel.tree.discard(kernel.realpath(f"{PCI}/{function}"))
        kernel.tree.discard(f"{PCI}/{function}")
        kernel.tree.discard(f"{PCI}/{address}/{name}")
    kernel.tree.add_file(f"{PCI}/{address}/sriov_numvfs", "0\n")
    kernel.tree.discard(f"{PCI}/{address}/{SETTINGS}")


def _add_function(kernel: Kernel, physical: str, number: int) -> None:
    place = kernel.realpath(f"{PCI}/{physical}")
    domain, bus, rest = physical.split(":")
    device, function = rest.split(".")
    first = (int(bus, 16) << 8) + (int(device, 16) << 3) + int(function)
    offset, stride = _number(kernel, physical, "sriov_offset"), _number(kernel, physical, "sriov_stride")
    routing = first + offset + stride * number
    address = f"{domain}:{routing >> 8:02x}:{(routing >> 3) & 0x1F:02x}.{routing & 7}"
    new = posixpath.join(posixpath.dirname(place), address)
    for name in ("vendor", "class", "numa_node", "subsystem_vendor", "subsystem_device"):
        kernel.tree.add_file(f"{new}/{name}", kernel.read(f"{place}/{name}"))
    kernel.tree.add_file(f"{new}/device", f"0x{kernel.read(f'{place}/sriov_vf_device').strip()}\n")
    kernel.tree.add_link(f"{new}/physfn", f"../{physical}")
    kernel.tree.add_file(f"{new}/driver_override", f"{NO_OVERRIDE}\n")
    if kernel.exists(f"{place}/iommu_group"):
        group = f"/sys/kernel/iommu_groups/{FIRST_GROUP + routing}"
        kernel.tree.add_link(f"{new}/iommu_group", posixpath.relpath(group, new))
        kernel.tree.add_file(f"{group}/type", "identity\n")
    kernel.tree.add_link(f"{PCI}/{address}", posixpath.relpath(new, PCI))
    kernel.tree.add_link(f"{place}/virtfn{number}", f"../{address}")
    _write_uevent(kernel, address, None)
    bind(kernel, address)


def _write_uevent(kernel: Kernel, address: str, driver: str | None) -> None:
    base = f"{PCI}/{address}"
    ids = {name: kernel.read(f"{base}/{name}").strip()[2:] for name in ("vendor", "device", "class")}
    subsystem = ":".join(kernel.read(f"{base}/subsystem_{name}").strip()[2:] for name in ("vendor", "device"))
    lines = [f"DRIVER={driver}"] if driver else []
    lines += [
        f"PCI_CLASS={int(ids['class'], 16):X}",
        f"PCI_ID={ids['vendor']}:{ids['device']}".upper(),
        f"PCI_SUBSYS_ID={subsystem}".upper(),
        f"PCI_SLOT_NAME={address}",
    ]
    kernel.tree.add_file(f"{base}/uevent", "".join(f"{line}\n" for line in lines))


def _add_interface(kernel: Kernel, physical: str, address: str) -> None:
    if driver_of(kernel, address) is None or kernel.exists(f"{PCI}/{address}/net"):
        return
    number = next(
        name[6:]
        for name in kernel.list(f"{PCI}/{physical}")
        if name.startswith("virtfn") and kernel.link(f"{PCI}/{physical}/{name}") == f"../{address}"
    )
    _domain, bus, rest = physical.split(":")
    infiniband = _is_infiniband(kernel, address)
    name = f"{'ib' if infiniband else 'en'}p{int(bus, 16)}s{int(rest[:2], 16)}f{rest[3]}v{number}"
    place = f"{kernel.realpath(f'{PCI}/{address}')}/net/{name}"
    settings = _setting(kernel, physical, int(number))
    admin = settings["address"]
    mac = admin if admin != NO_ADDRESS else f"f6:{bus}:{rest[:2]}:00:{rest[3]:0>2}:{int(number):02x}"
    values = {"address": mac, "mtu": 1500, "flags": "0x1002", "type": 1, "dev_port": 0, "operstate": "down"}
    if infiniband:
        values.update(type=32, mtu=2044, address=f"{IPOIB_PREFIX}:00:00:{mac}")
        _add_hca(kernel, address, settings[GUIDS["node_guid"]])
    for key, value in {**values, "name_assign_type": 4, "uevent": f"INTERFACE={name}"}.items():
        kernel.tree.add_file(f"{place}/{key}", f"{value}\n")
    kernel.tree.add_link(f"{place}/device", f"../../../{address}")
    kernel.tree.add_link(f"{NET}/{name}", posixpath.relpath(place, NET))


def _add_hca(kernel: Kernel, address: str, guid: str) -> None:
    """Add the RDMA device of a function: it takes its GUID when it is made, and keeps it."""
    digits = guid.replace(":", "")
    grouped = ":".join(digits[index : index + 4] for index in range(0, 16, 4))
    name = f"ibp{int(address[5:7], 16)}s{int(address[8:10], 16)}f{address[11]}"
    place = f"{kernel.realpath(f'{PCI}/{address}')}/infiniband/{name}"
    up = guid != NO_GUID
    values = {"node_guid": grouped, "sys_image_guid": grouped, "node_type": "1: CA", "ports/1/lid": "0x0"}
    values.update({"ports/1/state": "4: ACTIVE" if up else "1: DOWN", "ports/1/link_layer": "InfiniBand"})
    for key, value in values.items():
        kernel.tree.add_file(f"{place}/{key}", f"{value}\n")
    kernel.tree.add_link(f"{place}/device", f"../../../{address}")
    kernel.tree.add_link(f"{INFINIBAND}/{name}", posixpath.relpath(place, INFINIBAND))


def remove_interfaces(kernel: Kernel, address: str) -> None:
    if kernel.exists(f"{PCI}/{address}/infiniband"):
        for name in kernel.list(f"{PCI}/{address}/infiniband"):
            kernel.tree.discard(f"{INFINIBAND}/{name}")
        kernel.tree.discard(f"{PCI}/{address}/infiniband")
    if kernel.exists(f"{PCI}/{address}/net"):
        for name in kernel.list(f"{PCI}/{address}/net"):
            kernel.tree.discard(f"{NET}/{name}")
            kernel.tree.discard(f"/proc/sys/net/ipv4/conf/{name}")
        kernel.tree.discard(f"{PCI}/{address}/net")


def to_another_namespace(kernel: Kernel, address: str, parts: Sequence[str] = ("net",)) -> str:
    """Let the interface of a function go to another network namespace; return its name. ``parts`` are what goes.

    In the exclusive mode of RDMA namespaces the RDMA device (``infiniband``) is not seen from here either.
    """
    name = kernel.list(f"{PCI}/{address}/net")[0]
    for part in parts:
        for each in kernel.list(f"{PCI}/{address}/{part}"):
            kernel.tree.discard(f"/sys/class/{part}/{each}")
        kernel.tree.discard(f"{PCI}/{address}/{part}")
    return name


def _number(kernel: Kernel, address: str, name: str) -> int:
    return int(kernel.read(f"{PCI}/{address}/{name}"))


def _new_settings(infiniband: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"address": NO_ADDRESS, "vlan_list": [{}], "rate": {"max_tx": 0, "min_tx": 0}}
    settings.update(spoofchk=True, link_state="auto", trust=False)
    if infiniband:
        settings.update(link_state="disable", **dict.fromkeys(GUIDS.values(), NO_GUID))
    return settings


def _is_infiniband(kernel: Kernel, address: str) -> bool:
    return kernel.read(f"{PCI}/{address}/class").startswith("0x0207")


def settings_of(kernel: Kernel, address: str) -> list[dict[str, Any]]:
    """Return what is set for each VF of a port."""
    return [json.loads(line) for line in _lines(kernel, address)]


def _setting(kernel: Kernel, address: str, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_lines(kernel, address)[number])
    return found


def _lines(kernel: Kernel, address: str) -> list[str]:
    """Return what is kept of a port: a line for each function, as they are set one by one."""
    path = f"{PCI}/{address}/{SETTINGS}"
    return kernel.read(path).splitlines() if kernel.exists(path) else []


def _keep(kernel: Kernel, address: str, number: int, settings: dict[str, Any]) -> None:
    lines = _lines(kernel, address)
    lines[number] = json.dumps(settings)
    _keep_lines(kernel, address, lines)


def _keep_lines(kernel: Kernel, address: str, lines: Sequence[str]) -> None:
    kernel.tree.add_file(f"{PCI}/{address}/{SETTINGS}", "\n".join(lines))


def quiet(kernel: Kernel) -> Kernel:
    """Return a host whose processes can be read: none has a VF open."""
    kernel.tree.add_link("/proc/1/fd/0", "/dev/null")
    kernel.tree.add_file("/proc/2/comm", "kthreadd\n")
    return kernel


def _is_up(kernel: Kernel, address: str) -> bool:
    flags = [kernel.read(f"{PCI}/{address}/net/{name}/flags") for name in kernel.list(f"{PCI}/{address}/net")]
    return any(int(text, 16) & 1 for text in flags)
