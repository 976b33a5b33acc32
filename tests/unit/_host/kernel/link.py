# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for ip(8) and what the kernel does with it: MTU and administrative state. Only tests use it.

Limits as the kernel has them (dev_validate_mtu, net/core/dev.c): below min_mtu and above max_mtu it is EINVAL with one
of two texts. A VF of mlx5 takes no MTU above that of its physical one. A bond sets that of its ports, a
VLAN takes none above what it stands on (vlan_dev_change_mtu) and goes down with it (vlan_device_event), a macvlan
likewise.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.tests.unit._host.kernel import naming, routes
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import (
    DONE,
    LINK_SETTINGS,
    LINK_SHOWN,
    LINKS,
    failed,
    link_setting,
    program,
)

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

NET = "/sys/class/net"
IFF_UP = 0x1
IFF_RUNNING = 0x40
MOST = 9978
# MAX_STD_JUMBO_FRAME_SIZE, drivers/net/ethernet/intel/igb/e1000_defines.h
MOST_OF_IGB = 9216
LEAST = 68


def _only_reads(argv: Sequence[str]) -> bool:
    return not {"set", "add", "del", "change", "replace", "property", "-batch"} & set(argv)


@program("ip", _only_reads)
def ip(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if list(argv[1:5]) == ["-json", "link", "show", "dev"]:
        return _show(kernel, argv[5])
    if list(argv[1:6]) == ["-json", "-details", "link", "show", "dev"]:
        return _show(kernel, argv[6], max_mtu=_most(kernel, argv[6]))
    if argv[1] == "-batch":
        return _batch(kernel, argv[2])
    if list(argv[1:3]) == ["link", "property"]:
        _dev, name, _altname, alternative = argv[4:]
        return naming.set_altname(kernel, argv[3], name, alternative)
    options = [word for word in argv[1:] if word.startswith("-")]
    words = deque(argv[1 + len(options) :])
    if words[0] in routes.OBJECTS and len(words) > 2 - (words[0] != "route"):
        return routes.ip(kernel, options, list(words))
    if words.popleft() != "link" or words.popleft() != "set":
        return failed(255, f'Object "{argv[1]}" is unknown, try "ip help".')
    if words[0] == "dev":
        words.popleft()
    name = words.popleft()
    if not kernel.exists(f"{NET}/{name}"):
        return failed(1, f'Cannot find device "{name}"')
    result = DONE
    while words and result.rc == 0:
        word = words.popleft()
        if word not in LINK_SETTINGS:
            return failed(255, f'Error: either "dev" is duplicate, or "{word}" is a garbage.')
        result = LINK_SETTINGS[word](kernel, name, words)
    return result


def _show(kernel: Kernel, name: str, **details: int) -> CommandResult:
    if not kernel.exists(f"{NET}/{name}"):
        return failed(1, f'Device "{name}" does not exist.')
    link: dict[str, Any] = {**details}
    for shown in LINK_SHOWN:
        link.update(shown(kernel, name))
    return CommandResult(0, json.dumps([link]), "")


def _batch(kernel: Kernel, path: str) -> CommandResult:
    for number, line in enumerate(kernel.read(path).splitlines(), 1):
        if line.startswith("#"):
            continue
        result = ip(kernel, ["ip", *line.split()])
        if result.rc:
            return failed(1, f"{result.stderr.strip()}\nCommand failed {path}:{number}")
    return DONE


@link_setting("mtu")
def set_mtu(kernel: Kernel, name: str, words: deque[str]) -> CommandResult:
    mtu = int(words.popleft())
    changed = [name, *(_linked(kernel, name, "lower_") if _kind(kernel, name) == "bond" else ())]
    for each in changed:
        problem = _mtu_problem(kernel, each, mtu)
        if problem:
            return failed(2, problem)
    for each in changed:
        _keep_mtu(kernel, each, mtu)
    return DONE


def _mtu_problem(kernel: Kernel, name: str, mtu: int) -> str:
    if mtu < LEAST:
        return "Error: mtu less than device minimum."
    if mtu > _most(kernel, name):
        return "Error: mtu greater than device maximum."
    most = _physical_mtu(kernel, name)
    if most is not None and mtu > most:
        return "RTNETLINK answers: Invalid argument"
    problems = {"vlan": "Numerical result out of range", "macvlan": "Invalid argument"}
    kind = _kind(kernel, name)
    if kind in problems and any(mtu > _mtu(kernel, lower) for lower in _linked(kernel, name, "lower_")):
        return f"RTNETLINK answers: {problems[kind]}"
    return ""


def _most(kernel: Kernel, name: str) -> int:
    try:
        driver = kernel.link(f"{kernel.realpath(f'{NET}/{name}/device')}/driver")
    except HostError:
        return MOST
    return MOST_OF_IGB if driver.endswith("/igb") else MOST


def _keep_mtu(kernel: Kernel, name: str, mtu: int) -> None:
    kernel.tree.add_file(f"{NET}/{name}/mtu", f"{mtu}\n")
    for upper in _linked(kernel, name, "upper_"):
        if _kind(kernel, upper) in {"vlan", "macvlan"} and _mtu(kernel, upper) > mtu:
            _keep_mtu(kernel, upper, mtu)


def _mtu(kernel: Kernel, name: str) -> int:
    return int(kernel.read(f"{NET}/{name}/mtu"))


def _kind(kernel: Kernel, name: str) -> str:
    """The kernel's word for a virtual interface, empty for others."""
    path = f"{NET}/{name}/uevent"
    lines = kernel.read(path).splitlines() if kernel.exists(path) else []
    return next((line[len("DEVTYPE=") :] for line in lines if line.startswith("DEVTYPE=")), "")


def _linked(kernel: Kernel, name: str, prefix: str) -> list[str]:
    return [entry[len(prefix) :] for entry in kernel.list(f"{NET}/{name}") if entry.startswith(prefix)]


@link_setting("up")
def set_up(kernel: Kernel, name: str, _words: deque[str]) -> CommandResult:
    if kernel.exists(LINKS):
        place = kernel.realpath(f"{NET}/{name}")
        kernel.later(float(kernel.read(LINKS)), lambda: kernel.tree.add_file(f"{place}/carrier", "1\n"))
    return _set_flags(kernel, name, _flags(kernel, name) | IFF_UP)


@link_setting("down")
def set_down(kernel: Kernel, name: str, _words: deque[str]) -> CommandResult:
    routes.went_down(kernel, name)
    return _set_flags(kernel, name, _flags(kernel, name) & ~(IFF_UP | IFF_RUNNING))


def _physical_mtu(kernel: Kernel, name: str) -> int | None:
    """The MTU of the interface of the PF that ``name`` belongs to; representors do not count."""
    try:
        listed = kernel.list(f"{NET}/{name}/device/physfn/net")
    except HostError:
        return None
    physical = [each for each in listed if not _stands_for(kernel, each).startswith("pf")]
    return _mtu(kernel, physical[0]) if physical else None


def _stands_for(kernel: Kernel, name: str) -> str:
    try:
        return kernel.read(f"{NET}/{name}/phys_port_name").strip()
    except HostError:
        return ""


def _flags(kernel: Kernel, name: str) -> int:
    return int(kernel.read(f"{NET}/{name}/flags").strip(), 16)


def _set_flags(kernel: Kernel, name: str, flags: int) -> CommandResult:
    kernel.tree.add_file(f"{NET}/{name}/flags", f"{flags:#x}\n")
    return DONE
