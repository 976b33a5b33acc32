# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a host, laid out as programs of such hosts print them; a reader's columns, not a copy of any output.

Each function names the source of the form. Widths of columns are ours.
"""

from __future__ import annotations

from typing import Mapping, Sequence


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


def row(name: str, values: Sequence[str]) -> str:
    return f"{name:<44} {' '.join(f'{value:<15}' for value in values)}"
