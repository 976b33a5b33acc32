# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the values of a card follow it to its new PCI address. Pure.

Otherwise no run would find them there, and they would pass for the values of the card that took its place. Values that
a replaced card itself held are put aside until it comes back.
"""

from __future__ import annotations

from typing import Collection, Iterable, NamedTuple, Sequence

from ..facts.same_card import Changes, Moved
from ..machine.probe import first_pci_address
from ..spec.cards import Cards
from .baseline import Baseline, FormerCard, Kept, is_of_card, with_former


class Followed(NamedTuple):
    """The content of the file once the values of moved cards have followed them.

    ``left`` are the moved cards whose values did not follow. ``notices`` name the values that are dropped.
    """

    kept: Kept
    left: list[Moved]
    notices: list[str]


def followed(
    kept: Baseline,
    cards: Cards,
    changes: Changes,
    asked: Collection[str] = (),
    away: Sequence[tuple[FormerCard, str]] = (),
) -> Followed:
    """Return the content of the file with the values of each moved card under its present address.

    ``asked`` are the addresses of devices that a run changes. There, the values of a card that is no longer found give
    way to those of the card in its slot. ``away`` are replaced cards with their present address, empty if not found.
    """
    lost = {each.address for each in changes.moved if each.is_bridge and not each.now_at}
    of_former = {id_ for id_ in kept if first_pci_address(id_) in changes.replaced and is_of_card(id_)}
    left_out = {id_ for id_ in kept if first_pci_address(id_) in lost or id_ in of_former}
    settings = {id_: value for id_, value in kept.items() if id_ not in left_out}
    moved = [each for each in changes.moved if each.address not in lost]
    addresses = set(map(first_pci_address, settings))
    where = _ways(addresses, moved, asked)
    where.update(_of_functions(addresses - {*where}, cards, where))
    left = [each for each in moved if each.address not in where]
    gone = {each.address for each in left if each.address in asked}
    stays: Baseline = {}
    goes: Baseline = {}
    for step_id, value in settings.items():
        address = first_pci_address(step_id)
        if address in where:
            goes[step_id.replace(address, where[address])] = value
        elif address not in gone:
            stays[step_id] = value
    unknown = {*where, *where.values(), *gone, *lost, *changes.replaced}
    still = {at: card for at, card in cards.items() if at not in unknown}
    aside = {id_: kept[id_] for id_ in kept if id_ in of_former or (first_pci_address(id_) in gone and is_of_card(id_))}
    # The values of a card that is back wait until its address is free of those of another card.
    free = [(each, now_at) for each, now_at in away if now_at and now_at not in {e.address for e in left} - gone]
    back = [each for each, _now_at in free]
    former = _with_cards([each for each, _now_at in away if each not in back], aside, cards)
    of_former.update(id_ for each in former for id_ in each.settings)
    of_gone = {id_ for id_ in kept if first_pci_address(id_) in changes.gone and is_of_card(id_)}
    notices = [*map(_of_bridge, sorted(lost)), *_of_formers(of_former, "was replaced")]
    notices += _of_formers(of_gone, "is gone")
    return Followed(Kept(with_former({**stays, **goes}, _back(free)), still, former), left, notices)


def _back(away: Iterable[tuple[FormerCard, str]]) -> Baseline:
    """Return the values of cards that are back, under their present addresses."""
    return {
        step_id.replace(each.address, now_at): value
        for each, now_at in away
        for step_id, value in each.settings.items()
    }


def _with_cards(former: Iterable[FormerCard], aside: Baseline, cards: Cards) -> list[FormerCard]:
    """Return the replaced cards plus those of the values ``aside``; only a serial number identifies a card later."""
    found = {(each.address, each.card.get("serial")): each for each in former}
    for step_id, value in sorted(aside.items()):
        address = first_pci_address(step_id)
        card = cards.get(address, {})
        if card.get("serial"):
            known = found.get((address, card["serial"]), FormerCard(address, card, {}))
            found[address, card["serial"]] = known._replace(settings=with_former({step_id: value}, known.settings))
    return [found[key] for key in sorted(found, key=str)]


def _of_bridge(address: str) -> str:
    return (
        f"{address}: the bridge at this address is gone, so its original ACS setting is dropped; each boot sets ACS "
        "again"
    )


def _of_formers(step_ids: Iterable[str], what: str) -> list[str]:
    values: dict[str, set[str]] = {}
    for step_id in step_ids:
        values.setdefault(first_pci_address(step_id), set()).add(step_id.split(":", 1)[0])
    return [
        f"{address}: its card {what}, so the former card's values are dropped ({', '.join(sorted(concerns))})"
        for address, concerns in sorted(values.items())
    ]


def _ways(addresses: Collection[str], moved: Sequence[Moved], asked: Collection[str]) -> dict[str, str]:
    """Return the new address of each address whose values follow their card.

    Values follow a card that is identified for sure, if another card has its slot or the run changes the card at its
    new address: some vendors give all cards one serial number, and the card may only be away for a while. They don't
    follow to an address whose values of another card stay. A bridge has its place to itself.
    """
    where = {
        each.address: each.now_at
        for each in moved
        if each.is_sure and (each.is_taken or each.is_bridge or each.now_at in asked)
    }
    for _each in moved:
        kept_of_others = {*addresses} - {*where, *asked}
        where = {address: now_at for address, now_at in where.items() if now_at not in kept_of_others}
    return where


def _of_functions(addresses: Collection[str], cards: Cards, where: dict[str, str]) -> dict[str, str]:
    """Return the new addresses of VFs, which have no serial number and share their port's bus."""
    found = {}
    for address in addresses:
        bus, _colon, place = address.rpartition(":")
        for physical, now_at in where.items():
            if physical.startswith(f"{bus}:") and bus and cards.get(address) == cards.get(physical):
                found[address] = f"{now_at.rpartition(':')[0]}:{place}"
    return found
