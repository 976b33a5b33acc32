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
