# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a host, laid out as programs of such hosts print them; a reader's columns, not a copy of any output.

Each function names the source of the form. Widths of columns are ours.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Mapping, Sequence

# Bits of the ACS control register from the lowest, by the words of lspci.
_ACS_FLAGS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")


def mstconfig(device: str, columns: Sequence[str], values: Mapping[str, Sequence[str]]) -> str:
    """Return a query, or what a set asks about: Mellanox/mstflint, mlxconfig/mlxcfg_ui.cpp.

    A star marks a parameter whose values differ, where the columns are the three of ``-e``.
    """
    lines = ["", "Device #1:", "-" * 10, "", f"Device type: {device}", "", row("Configurations:", columns)]
    for name, shown in values.items():
        each = list(shown) if len(shown) == len(columns) else [shown[0]] * len(columns)
        mark = "*" if len(columns) == 3 and len(set(each)) > 1 else " "
        lines.append(mark + row(f"        {name}", each))
    return "\n".join([*lines, ""])


def ethtool(name: str, most: Mapping[str, int | None], now: Mapping[str, int | None]) -> str:
    """Return rings (-g) or channels (-l): ethtool, netlink/rings.c, netlink/channels.c and common.c.

    Of a driver that tells only maximums there is no second part.
    """
    kind = "Channel" if "Combined" in most else "Ring"
    lines = [f"{kind} parameters for {name}:", "Pre-set maximums:", *map(counted, most, most.values())]
    if now:
        lines += ["Current hardware settings:", *map(counted, now, now.values())]
    return "\n".join([*lines, ""])


def counted(word: str, number: int | None) -> str:
    return f"{word}:\t\t{'n/a' if number is None else number}"


def dcb_app(entries: Sequence[Sequence[object]]) -> str:
    """Return ``dcb --json app show``: iproute2, dcb/dcb_app.c (dcb_app_print_filtered)."""
    return json.dumps({"dscp_prio": entries}, separators=(",", ":"))


def dcb_ets(classes: Sequence[tuple[Sequence[int], str, int | None]]) -> str:
    """Return ``dcb --json ets show``: iproute2, dcb/dcb_ets.c; mlx5 tells 100 for a class that has no share."""
    priorities = {priority: number for number, (own, _kind, _share) in enumerate(classes) for priority in own}
    shown = {
        "prio_tc": [priorities[priority] for priority in sorted(priorities)],
        "tc_tsa": [kind for _own, kind, _share in classes],
        "tc_bw": [100 if share is None else share for _own, _kind, share in classes],
    }
    return json.dumps(shown)


def ethtool_pause(name: str, lines: Mapping[str, str]) -> str:
    """Return ``ethtool -a``: ethtool, netlink/pause.c."""
    return "\n".join([f"Pause parameters for {name}:", *(f"{word}:\t\t{state}" for word, state in lines.items()), ""])


def ip_link(name: str, functions: Sequence[Mapping[str, Any]]) -> str:
    """Return ``ip -json link show``: iproute2, ip/ipaddress.c (print_vfinfo); a function without a VLAN tells none."""
    shown = [
        {
            "vf": number,
            "link_type": "ether",
            "address": function["mac"],
            "broadcast": "ff:ff:ff:ff:ff:ff",
            **({"vlan_list": [{"vlan": function["vlan"]}]} if function["vlan"] else {}),
            **{key: function[key] for key in ("spoofchk", "link_state", "trust")},
            "query_rss_en": False,
        }
        for number, function in enumerate(functions)
    ]
    return json.dumps([{"ifindex": 4, "ifname": name, "vfinfo_list": shown}])


def devlink_eswitch(address: str, shown: Mapping[str, str]) -> str:
    """Return ``devlink -j dev eswitch show``: iproute2, devlink/devlink.c (pr_out_eswitch)."""
    return json.dumps({"dev": {f"pci/{address}": shown}})


def devlink_param(address: str, name: str, value: str) -> str:
    """Return ``devlink -j dev param show``: iproute2, devlink/devlink.c (pr_out_param)."""
    values = [{"cmode": "runtime", "value": value}]
    return json.dumps({"param": {f"pci/{address}": [{"name": name, "type": "driver-specific", "values": values}]}})


def config_space(facts: Mapping[str, Any]) -> bytes:
    """Return a PCI configuration space with one capability: PCI Express Base Specification, as lspci decodes it."""
    space = bytearray(4096)
    if "device" in facts:
        express, device = facts["express"], facts["device"]
        sizes = {128 << number: number for number in range(6)}
        control = sizes[device["max_payload"]] << 5 | sizes[device["max_read_request"]] << 12
        space[0x06], space[0x34], space[express] = 0x10, express, 0x10
        struct.pack_into("<H", space, express + 8, control | (0x10 if device["relaxed_ordering"] else 0))
    if "flags" in facts:
        start = facts.get("acs", 0x100)
        if start != 0x100:
            struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | start << 20)
        struct.pack_into("<I", space, start, 0x000D | 1 << 16)
        struct.pack_into("<H", space, start + 6, sum(1 << _ACS_FLAGS.index(flag) for flag in facts["flags"]))
    return bytes(space)


def modinfo(fields: Mapping[str, str]) -> str:
    """Return a module's block: kmod-project/kmod, tools/modinfo.c (modinfo_do); other keys stand in between.

    A module that nobody signed may have a signer without a name.
    """
    first, *others = (f"{key + ':':<16}{value}".rstrip() for key, value in fields.items())
    return "\n".join([first, "license:        GPL", *others, "alias:          pci:v*d*", ""])


def loader_entry(title: str, kernel: str, initrds: Sequence[str], line: str = "root=/dev/sda1 ro", **more: str) -> str:
    """Return an entry that is a file of its own: the boot loader specification (uapi-group.org)."""
    fields = {"title": title, "version": kernel, "linux": f"/vmlinuz-{kernel}", **more, "options": line}
    files = [f"initrd {' '.join(initrds)}"] if initrds else []
    return "".join(f"{text}\n" for text in (*(f"{key} {value}" for key, value in fields.items()), *files))


def grub_environment(variables: Mapping[str, str]) -> str:
    """Return grubenv: GRUB, grub-core/lib/envblk.c; it is filled up to 1024 bytes."""
    lines = ["# GRUB Environment Block", *(f"{name}={value}" for name, value in variables.items()), ""]
    return "\n".join(lines).ljust(1024, "#")


def grub_menu(default: str, body: str) -> str:
    """Return a grub.cfg: GRUB, util/grub.d/00_header.in, and ``body`` of 10_linux."""
    return (
        'if [ -s $prefix/grubenv ]; then\n  load_env\nfi\nif [ "${next_entry}" ] ; then\n'
        '   set default="${next_entry}"\n   set next_entry=\n   save_env next_entry\n   set boot_once=true\nelse\n'
        f'   set default="{default}"\nfi\nfunction savedefault {{\n  save_env saved_entry\n}}\n{body}'
    )


def grub_entries(titles: Sequence[str], kernels: Mapping[str, str | None]) -> str:
    """Return the newest kernel and a submenu of all: GRUB, util/grub.d/10_linux.in; ``titles`` as it has them."""
    submenu, title = titles
    each = [
        grub_entry(title.format(kernel), f"gnulinux-{kernel}", kernel, initrd) for kernel, initrd in kernels.items()
    ]
    newest, initrd = next(iter(kernels.items()))
    first = grub_entry("Linux", "gnulinux-simple", newest, initrd)
    return f"{first}submenu '{submenu}' $menuentry_id_option 'gnulinux-advanced' {{\n{''.join(each)}}}\n"


def grub_entry(title: str, identity: str, kernel: str, initrd: str | None) -> str:
    lines = [f"linux\t/boot/vmlinuz-{kernel} root=/dev/sda1 ro", *([f"initrd\t{initrd}"] if initrd else [])]
    body = "".join(f"\t{line}\n" for line in lines)
    return f"menuentry '{title}' --class os $menuentry_id_option '{identity}' {{\n{body}}}\n"


def nvidia_version(version: str, built: str) -> str:
    """Return /proc/driver/nvidia/version of the open modules: NVIDIA/open-gpu-kernel-modules, utils.mk.

    ``built`` is the date as the locale of the machine that built them writes it.
    """
    flavour = "NVIDIA UNIX Open Kernel Module for x86_64"
    return f"NVRM version: {flavour}  {version}  Release Build  (somebody@host)  {built}\nGCC version:  gcc 13.2.0\n"


def ofed_info(release: str) -> str:
    """Return ``ofed_info -s`` of MLNX_OFED and DOCA-OFED."""
    return f"{release}:\n"


def modules(rows: Sequence[tuple[str, int, int, Sequence[str]]]) -> str:
    """Return /proc/modules, of which lsmod prints the first four columns: the kernel's kernel/module/procfs.c."""
    lines = (
        f"{name} {size} {references} {''.join(f'{user},' for user in users) or '-'} Live 0x0000000000000000\n"
        for name, size, references, users in rows
    )
    return "".join(lines)


def row(name: str, values: Sequence[str]) -> str:
    return f"{name:<44} {' '.join(f'{value:<15}' for value in values)}"
