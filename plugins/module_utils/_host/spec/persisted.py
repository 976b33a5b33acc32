# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that tells the boot unit what to bring about."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.paths import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, check_spec

FORMAT = 1
# The physical function whose wish makes this virtual one.
MAKER = "pf"
# What tells which interface a wish is about; the rest of its keys are settings.
SELECTING = ("pci", "current_name", MAKER)


def wishes_text(found: list[dict[str, Any]], pcie: Mapping[str, Any] | None = None) -> str:
    """Return the file that the boot unit reads."""
    document = {"managed_by": MARKER, "format": FORMAT, "interfaces": found, **({"pcie": dict(pcie)} if pcie else {})}
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


class Wished(NamedTuple):
    """A file of wishes: the desired state, and the addresses of the functions that these wishes make themselves."""

    desired: HostSpec
    made: frozenset[str]


def wished_of(text: str) -> Wished:
    """Return what a file of wishes means.

    Raises ``ValueError`` for a file that is none, and ``InvalidInput`` with every violation.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"this program reads wishes of format {FORMAT}")
    entries = document.get("interfaces")
    made = set()
    if isinstance(entries, list):
        made = {str(entry.get("pci")) for entry in entries if isinstance(entry, dict) and MAKER in entry}
        entries = [
            {key: value for key, value in entry.items() if key != MAKER} if isinstance(entry, dict) else entry
            for entry in entries
        ]
    # What stands there was consented to by the run that wrote it.
    consents = {"acs_change": True, "takeover": True, "uplink_change": True}
    desired = check_spec({"interfaces": entries, "pcie": document.get("pcie"), "consents": consents})
    return Wished(desired, frozenset(made))


def wished_in(content: Any) -> list[dict[str, Any]] | None:
    """Return the wishes in a file as the facts hold it, one for each interface and one for PCIe (``{"pcie": ...}``).

    None when they can't be told.
    """
    try:
        document = json.loads(content) if isinstance(content, str) else {}
    except ValueError:
        return None
    found = document.get("interfaces") if isinstance(document, dict) else None
    if not isinstance(found, list):
        return None
    pcie = document.get("pcie")
    return [*found, {"pcie": pcie}] if isinstance(pcie, dict) else found
