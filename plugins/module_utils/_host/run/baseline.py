# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the values that settings had before the first run, and follows a card to its new PCI address.

Otherwise the values of the card that is in its place now would never be kept, and its own would stay where no run
finds them. What a card itself held goes aside once the card was replaced, and is there again when it comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Collection, Dict, Iterable, Mapping, NamedTuple, Sequence

from ..engine.context import Handler
from ..engine.operations import Work
from ..engine.steps import Step, Value, make_step
from ..facts.same_card import Changes, Moved
from ..machine.access import Host
from ..machine.host_files import Content, StateFile
from ..machine.probe import first_pci_address
from ..spec.cards import Cards
from ..spec.host import HostSpec, check_spec, of_the_run
from .registry import ORDER, handler_of

if TYPE_CHECKING:
    from ..facts.same_card import Moved
    from ..spec.cards import Card, Cards

# Step id -> the value before ("from") of the first step that changed it, which its concern alone understands.
Baseline = Dict[str, Value]

PATH = "/var/lib/rdma-fabric/baseline.json"
FILE = StateFile(
    PATH,
    "the values from before the first run",
    "restore the file from a backup, or remove it to take the present values for the original ones",
)


class FormerCard(NamedTuple):
    """A card that another one has replaced: the address that it had then, and what it held itself before the first run.

    It may come back, as one does that was away for a repair.
    """

    address: str
    card: Card
    settings: Baseline


class Kept(NamedTuple):
    """What the file holds: the first values, the card that each address of theirs meant then, and replaced cards."""

    settings: Baseline
    cards: Cards
    former: list[FormerCard]


_OF_NO_CONCERN = Handler(lambda _context, _step: Work(()))
# Steps of these concerns about "<physical function>:<what>" set up the virtual functions, others the physical one.
_OF_FUNCTIONS = ("vfs", "mtu")


def read_kept(host: Host) -> Kept:
    """Return what is kept, nothing where no run has changed the host yet; raises BrokenState.

    A former release's file has no cards.
    """
    content = FILE.read(host)
    if content is None:
        return Kept({}, {}, [])
    settings, cards = content.get("settings"), content.get("cards") or {}
    if not isinstance(settings, dict):
        raise FILE.broken("it has no settings")
    if not isinstance(cards, dict) or not all(isinstance(card, dict) for card in cards.values()):
        raise FILE.broken("its cards are not a mapping")
    return Kept(settings, cards, _former_in(content))


def _former_in(content: Content) -> list[FormerCard]:
    try:
        former = content.get("former") or []
        return [FormerCard(str(each["address"]), dict(each["card"]), dict(each["settings"])) for each in former]
    except (KeyError, TypeError, ValueError) as error:
        raise FILE.broken("its former cards are none") from error


def without(kept: Baseline, moved: Iterable[Moved]) -> Baseline:
    """Return what is kept of other devices than those whose address means another card now."""
    addresses = {each.address for each in moved}
    return {step_id: value for step_id, value in kept.items() if first_pci_address(step_id) not in addresses}


def refusals(kept: Baseline, moved: Iterable[Moved]) -> list[Step]:
    """Return a refused step for each address with kept values that are another card's."""
    return [
        make_step(
            "naming",
            f"{address}:other-card",
            target=address,
            action="bring the original values back",
            after=sorted(step_id for step_id in kept if first_pci_address(step_id) == address),
            reason="rdma.fabric changed them",
            refusal="they are of the card that was there then, which is "
            f"{f'at {now_at} now' if now_at else 'not found any more'}; next: put the card back where it was, or set "
            f"by hand what it had ({PATH}), remove that file, and run again",
        )
        for address, now_at, *_how in moved
    ]


def with_steps(known: Baseline, steps: Iterable[Step]) -> Baseline:
    """Return what is to be kept once these steps are executed: the first value of every setting stays.

    Where a concern says that such a value has parts, a later step may be about others of them.
    """
    first = {step["id"]: step["from"] for step in steps if _handler(step["id"]).restore is not None}
    kept = {**first, **known}
    for step_id, value in first.items():
        before = kept[step_id]
        if _handler(step_id).parts and isinstance(value, dict) and isinstance(before, dict):
            kept[step_id] = _with_parts(before, value)
    return {step_id: None if _of_own_functions(step_id, kept) else value for step_id, value in kept.items()}


def with_former(settings: Baseline, earlier: Mapping[str, Value]) -> Baseline:
    """Return settings with the values from an earlier time, which stay where both have one."""
    found: Baseline = {**settings, **earlier}
    for step_id, value in settings.items():
        before = found[step_id]
        if isinstance(value, dict) and isinstance(before, dict):
            found[step_id] = _with_parts(before, value)
    return found


def _with_parts(first: Mapping[str, object], later: Mapping[str, object]) -> dict[str, object]:
    """Return the first value with the parts, and their parts, that only a later one has."""
    merged = {**later, **first}
    for key, value in later.items():
        before = merged[key]
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = _with_parts(before, value)
    return merged


def _of_own_functions(step_id: str, kept: Baseline) -> bool:
    """Return whether a setting is one of virtual functions that were not there before the first run."""
    concern, key = step_id.split(":", 1)
    address, colon, _what = key.rpartition(":")
    return bool(colon) and concern in _OF_FUNCTIONS and kept.get(f"vfs:{address}") == 0


def text_of(kept: Kept) -> str:
    """Return the file's text: the same values give the same text."""
    away = {"former": [each._asdict() for each in kept.former]} if kept.former else {}
    return FILE.text({"settings": kept.settings, "cards": kept.cards, **away})


def removal(desired: HostSpec, originals: Baseline) -> HostSpec:
    """Return the wish to be rid of rdma.fabric: the original values, no files of ours, the consents of ``desired``."""
    wish: HostSpec = {**check_spec({}), **of_the_run(desired), "removing": True}
    for concern in ORDER:
        for step_id in sorted(originals):
            restore = _handler(step_id).restore if step_id.startswith(f"{concern}:") else None
            if restore is not None:
                restore(wish, step_id.split(":", 1)[1], originals[step_id])
    return wish


def _handler(step_id: str) -> Handler:
    """Return the handler of a step's concern; of one that this release does not know nothing is kept or restored."""
    return handler_of(step_id.split(":", 1)[0]) or _OF_NO_CONCERN


def is_of_card(step_id: str) -> bool:
    """Return whether a card itself held this value, not the host for whatever card is in that place."""
    return _handler(step_id).of_card


class Followed(NamedTuple):
    """What is kept once values have gone along with their cards, which are those then that still mean their address.

    ``left`` are the moved ones whose values did not follow. ``notices`` say which values are nobody's now.
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
    """Return what is kept with the values of each moved card under the address that it has now.

    A run changes the devices at the ``asked`` addresses. What is kept of a card that is nowhere any more gives way to
    what the one at its address had before that. ``away`` are cards that were replaced, each with the address that it
    has now, empty while it is nowhere.
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
    # A place where values of yet another card are kept has to be free of them first.
    free = [(each, now_at) for each, now_at in away if now_at and now_at not in {e.address for e in left} - gone]
    back = [each for each, _now_at in free]
    former = _with_cards([each for each, _now_at in away if each not in back], aside, cards)
    of_former.update(id_ for each in former for id_ in each.settings)
    said = [*map(_of_bridge, sorted(lost)), *_of_formers(of_former)]
    return Followed(Kept(with_former({**stays, **goes}, _back(free)), still, former), left, said)


def _back(away: Iterable[tuple[FormerCard, str]]) -> Baseline:
    """Return what the cards held that are there again, under the addresses that they have now."""
    return {
        step_id.replace(each.address, now_at): value
        for each, now_at in away
        for step_id, value in each.settings.items()
    }


def _with_cards(former: Iterable[FormerCard], aside: Baseline, cards: Cards) -> list[FormerCard]:
    """Return the replaced cards with those that values were put aside of; only a serial number tells one again."""
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
        f"{address}: the bridge that had this address is gone, so its original ACS setting is left out; each boot sets "
        "ACS again"
    )


def _of_formers(step_ids: Iterable[str]) -> list[str]:
    values: dict[str, set[str]] = {}
    for step_id in step_ids:
        values.setdefault(first_pci_address(step_id), set()).add(step_id.split(":", 1)[0])
    return [
        f"{address}: its card was replaced, so what the former one held is left out ({', '.join(sorted(concerns))})"
        for address, concerns in sorted(values.items())
    ]


def _ways(addresses: Collection[str], moved: Sequence[Moved], asked: Collection[str]) -> dict[str, str]:
    """Return where the values of each address go that can follow their card.

    They follow one that is told for sure, where another card is in its place or the run changes it at its new one: a
    card that is only away for a while may have the serial number that its vendor gives to all. Where values of yet
    another card are kept that stay, they don't, unless those give way. A bridge's place is its own.
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
    """Return where virtual functions go: they are on the bus of their physical one, and have no serial number."""
    found = {}
    for address in addresses:
        bus, _colon, place = address.rpartition(":")
        for physical, now_at in where.items():
            if physical.startswith(f"{bus}:") and bus and cards.get(address) == cards.get(physical):
                found[address] = f"{now_at.rpartition(':')[0]}:{place}"
    return found
