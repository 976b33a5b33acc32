# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What reserves huge pages at boot: our file, and arguments of the kernel. Pure.

tmpfiles.d(5) is early enough for all but the largest pages. Of those there may not be enough unbroken memory by then,
so the kernel reserves them before anything else runs. Neither goes by the kernel's default size, as ``vm.nr_hugepages``
does: the next boot's ``default_hugepagesz`` may be another one.
"""

from __future__ import annotations

from ...engine.context import Context
from ...facts.hugepages import LARGEST, pool, supports
from ...facts.settings_shapes import Hugepages
from ...machine.paths import MARKER

TMPFILES_FILE = "/etc/tmpfiles.d/90-rdma-fabric-hugepages.conf"
_UNTOLD: Hugepages = {"sizes": [], "memory": None, "pages": {}}


def found(context: Context) -> Hugepages:
    """Return what the facts tell of huge pages, nothing for a host that was not asked."""
    return context.actual.facts["settings"].get("hugepages", _UNTOLD)


def boot_files(context: Context) -> dict[str, str]:
    """Return our file, none when it has nothing to say."""
    lines: list[str] = []
    for size, wanted in context.desired["hugepages"].items():
        if not supports(context.actual.facts, size):
            continue
        if isinstance(wanted, dict):
            lines += [_line(pool(size, node), pages) for node, pages in wanted.items()]
        elif size not in LARGEST:
            lines.append(_line(pool(size), wanted))
    return {TMPFILES_FILE: "".join(f"{line}\n" for line in (f"# {MARKER}", *lines))} if lines else {}


def _line(directory: str, pages: int) -> str:
    return f"w {directory}/nr_hugepages - - - - {pages}"
