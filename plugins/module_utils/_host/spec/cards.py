# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cards to which files of ours apply."""

from __future__ import annotations

from typing import Dict, Mapping

# "model" is "0x15b3 0x1021"; "serial" is a digest, as in recordings of hosts, and empty if it can't be read; a bridge
# has a "place" (facts/same_card.py).
Card = Dict[str, str]
# The card that each PCI address belonged to when the file was written.
Cards = Dict[str, Card]


def kept_cards(document: Mapping[str, object], key: str = "cards") -> Cards:
    """Return the cards under a key of a file of ours; none if it is of a former release or broken."""
    cards = document.get(key)
    if not isinstance(cards, dict) or not all(isinstance(card, dict) for card in cards.values()):
        return {}
    return {str(address): {str(k): str(v) for k, v in card.items()} for address, card in cards.items()}
