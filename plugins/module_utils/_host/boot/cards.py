# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ties the boot unit's wishes to cards, so that a card which has come to the PCI address of another gets nothing of it.

This reads the vital product data of cards: it is for the boot unit, and for a run that writes its file anyway.
"""

from __future__ import annotations

import json

from ..facts.same_card import Moved, cards_of, moved_cards
from ..machine.access import Host
from ..machine.probe import PCI
from ..spec.persisted import MAKER, Wished, cards_in, wishes_text


def with_cards(host: Host, text: str) -> str:
    """Return a file of wishes with the card that is at each of its addresses now, or the known one where there is none.

    Virtual functions have none of their own: those that the wishes make go with their physical one, and others are not
    there yet when the boot unit runs.
    """
    document = json.loads(text)
    addresses = [wish["pci"] for wish in document["interfaces"] if "pci" in wish and MAKER not in wish]
    physical = [address for address in addresses if not host.exists(f"{PCI}/{address}/physfn")]
    cards = {**cards_in(text), **cards_of(host, physical, {})}
    return wishes_text(document["interfaces"], document.get("pcie"), cards)


def of_present_cards(host: Host, wished: Wished) -> tuple[Wished, dict[str, str]]:
    """Return the wishes without those whose address means another card now, and a line for each such address.

    An address with nothing there is among them where the card is found elsewhere: its functions may be other devices.
    """
    left_out = {each.address: _said(each) for each in moved_cards(host, wished.cards)}
    kept = []
    for entry in wished.desired["interfaces"]:
        address = entry.get("pci") or ""
        if address not in left_out and wished.made.get(address) not in left_out:
            kept.append(entry)
    return wished._replace(desired={**wished.desired, "interfaces": kept}), left_out


def _said(moved: Moved) -> str:
    where = f"is at {moved.now_at} now" if moved.now_at else "is gone, and another one is there"
    return (
        f"{moved.address}: the card that settings are kept for {where}, so nothing was set here and for its virtual "
        "functions; next: give the card's present address in rdma_fabric_interfaces, and run again"
    )
