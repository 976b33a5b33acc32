# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the settings that the boot unit applies."""

from __future__ import annotations

import json
from typing import Any, Dict, Final, Iterable, Mapping, NamedTuple

from ..machine.host_files import MARKER
from ..machine.probe import parsed
from .cards import Cards, kept_cards
from .host import HostSpec, check_spec

FORMAT = 1
# The PF whose entry creates this virtual one.
MAKER: Final = "pf"
# The keys that select the interface of an entry; all others are settings.
SELECTING = ("pci", "current_name", MAKER)
# The settings that the boot unit applies to an interface (``interface_keys.KEPT``) with its selector, as in
# ``interfaces`` of the spec, or those of PCIe.
BootEntry = Dict[str, Any]


def device_of(entry: BootEntry) -> str:
    """Return the selector of an entry."""
    return str(entry.get("pci") or entry.get("current_name"))


def only(entry: Mapping[str, object], keys: Iterable[str]) -> BootEntry:
    """Return those of an entry's values that have these keys, in order."""
    return {key: entry[key] for key in keys if key in entry}


def boot_spec_text(
    entries: list[BootEntry], pcie: Mapping[str, object] | None = None, cards: Cards | None = None
) -> str:
    """Return the text of the boot unit's file."""
    document = {"managed_by": MARKER, "format": FORMAT, "interfaces": entries, **({"pcie": dict(pcie)} if pcie else {})}
    if cards:
        document["cards"] = {address: cards[address] for address in sorted(cards)}
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


class BootSpec(NamedTuple):
    """The content of the boot unit's file: the spec, and the cards that it applies to.

    ``made`` are the functions that the entries create themselves, each with its physical one, by address.
    """

    desired: HostSpec
    made: dict[str, str]
    cards: Cards


def boot_spec_of(text: str) -> BootSpec:
    """Return the content of the boot unit's file.

    Raises ``ValueError`` for another format, and ``InvalidInput`` with all violations.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"this program only reads files of format {FORMAT}")
    entries = document.get("interfaces")
    made = {}
    if isinstance(entries, list):
        of_others = [entry for entry in entries if isinstance(entry, dict) and MAKER in entry]
        made = {str(entry.get("pci")): str(entry[MAKER]) for entry in of_others}
        entries = [
            {key: value for key, value in entry.items() if key != MAKER} if isinstance(entry, dict) else entry
            for entry in entries
        ]
    # The run that wrote the file had consent for its content.
    consents = {"acs_change": True, "takeover": True, "uplink_change": True}
    desired = check_spec({"interfaces": entries, "pcie": document.get("pcie"), "consents": consents})
    return BootSpec(desired, made, kept_cards(document))


def cards_in(content: str | None) -> Cards:
    """Return the cards of a boot unit's file, in the form of the facts."""
    document = parsed(content) if isinstance(content, str) else {}
    return kept_cards(document) if isinstance(document, dict) else {}


def boot_entries_in(content: str | None) -> list[BootEntry] | None:
    """Return the entries of a boot unit's file from the facts, one per interface and one for PCIe (``{"pcie": ...}``).

    None if it can't be parsed.
    """
    document = parsed(content) if isinstance(content, str) else {}
    entries = document.get("interfaces") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        return None
    pcie = document.get("pcie")
    return [*entries, {"pcie": pcie}] if isinstance(pcie, dict) else entries
