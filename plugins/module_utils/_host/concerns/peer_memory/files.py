# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of ours about peer memory."""

from __future__ import annotations

from ...engine.context import Context
from ...machine.paths import MARKER
from ...spec.peer_memory import MODULE_OF
from .request import Wish, wish_of
from .status import loaded_mechanisms

# The first loads the module at boot (modules-load.d(5)), the second has it loaded after what it needs, and again
# whenever the GPU driver is (modprobe.d(5), softdep).
LOAD_FILE = "/etc/modules-load.d/rdma-fabric-peer-memory.conf"
ORDER_FILE = "/etc/modprobe.d/rdma-fabric-peer-memory.conf"
OWN = (LOAD_FILE, ORDER_FILE)


def files_of(mechanism: str) -> dict[str, str]:
    """Return the files that keep a mechanism over a reboot; one without a module needs none."""
    if mechanism not in MODULE_OF:
        return {}
    return {
        ORDER_FILE: (f"# {MARKER}\nsoftdep {mechanism} pre: ib_core nvidia\nsoftdep nvidia post: {mechanism}\n"),
        LOAD_FILE: f"# {MARKER}\n{mechanism}\n",
    }


def wanted_files(context: Context, wish: Wish) -> dict[str, str]:
    """Return the files that this host needs of ours: none where the module is loaded at boot by somebody else's."""
    mechanism = wish.decision.mechanism
    state = context.actual.facts.get("peer_memory")
    at_boot = state["loaded_at_boot"] if state is not None else {}
    others = [path for path in at_boot.get(MODULE_OF.get(mechanism, ""), []) if path not in OWN]
    ours = any(path in context.boot_files for path in OWN)
    is_kept = mechanism in loaded_mechanisms(context.actual) and (bool(others) or state is None)
    return {} if is_kept and not ours else files_of(mechanism)


def boot_files(context: Context) -> dict[str, str]:
    """Return every file that peer memory wants; what it wrote stays while nobody asks for anything else."""
    wish = wish_of(context)
    if wish is not None and not wish.left_alone:
        return {} if wish.decision.obstacle else wanted_files(context, wish)
    return {path: text for path, text in context.boot_files.items() if path in OWN and isinstance(text, str)}
