# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of CPUs as the kernel writes them, such as ``0-3,8`` (Documentation/admin-guide/cputopology.rst). Pure."""

from __future__ import annotations

from typing import Iterable


def cpus_of(text: str) -> list[int]:
    """Parse a list of CPUs as the kernel writes it (``0-3,8``), in its order."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, _dash, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def list_of_cpus(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel writes a list of them."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
