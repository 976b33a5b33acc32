# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the baseline: the values that settings had before the first run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Iterable, Mapping, NamedTuple

from ..engine.concerns import ORDER
from ..engine.context import Handler
from ..engine.operations import Work
from ..engine.steps import Step, Value, make_step
from ..machine.access import Host
from ..machine.host_files import Content, StateFile
from ..machine.probe import first_pci_address
from ..spec.host import HostSpec, check_spec, of_the_run
from ..spec.interface_keys import KEYS
from .registry import handler_of

if TYPE_CHECKING:
    from ..facts.same_card import Moved
    from ..facts.shapes import Queue
    from ..spec.cards import Card, Cards

# Step id -> "from" of the first step that changed the setting; only its concern can interpret it.
Baseline = Dict[str, Value]
PATH = "/var/lib/rdma-fabric/baseline.json"
FILE = StateFile(
    PATH,
    "the values from before the first run",
    "restore the file from a backup, or remove it to accept the present values as the original ones",
)
_OF_NO_CONCERN = Handler(lambda _context, _step: Work(()))


class FormerCard(NamedTuple):
    """A replaced card, which may come back: its former address, and the values that it held before the first run."""

    address: str
    card: Card
    settings: Baseline


class Kept(NamedTuple):
    """The content of the file: the first values, the cards at their addresses, and replaced cards."""

    settings: Baseline
    cards: Cards
    former: list[FormerCard]


def read_kept(host: Host) -> Kept:
    """Return the content of the file, empty if no run has changed the host yet; raises BrokenState.

    The file of an older release has no cards.
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


def text_of(kept: Kept) -> str:
    """Return the file's text: the same values give the same text."""
    away = {"former": [each._asdict() for each in kept.former]} if kept.former else {}
    return FILE.text({"settings": kept.settings, "cards": kept.cards, **away})


def without(kept: Baseline, moved: Iterable[Moved]) -> Baseline:
    """Return the baseline without the values of cards that moved."""
    addresses = {each.address for each in moved}
    return {step_id: value for step_id, value in kept.items() if first_pci_address(step_id) not in addresses}


def refusals(kept: Baseline, moved: Iterable[Moved]) -> list[Step]:
    """Return a refused step for each address whose values belong to a card that moved."""
    return [
        make_step(
            "naming",
            f"{address}:other-card",
            target=address,
            action="bring the original values back",
            after=sorted(step_id for step_id in kept if first_pci_address(step_id) == address),
            reason="rdma.fabric changed them",
            refusal="they belong to the card that was there then, which is "
            f"{f'at {now_at} now' if now_at else 'no longer found'}; next: put the card back into its slot, or restore "
            f"its values ({PATH}) by hand, remove that file, and run again",
        )
        for address, now_at, *_how in moved
    ]


def with_steps(known: Baseline, steps: Iterable[Step], queues: Mapping[str, Mapping[str, Queue]]) -> Baseline:
    """Return the baseline to keep once these steps are executed: the first value of every setting stays.

    If a concern's values have parts, a later step may add the first values of other parts. ``queues`` are those of the
    facts: a port begins with others in another mode of its e-switch, so its first ones are kept before that.
    """
    first = {step["id"]: step["from"] for step in steps if _handler(step["id"]).restore is not None}
    for address in [address for address in queues if f"eswitch:{address}" in first]:
        first[f"queues:{address}"] = {key: told["now"] for key, told in queues[address].items()}
    kept = {**first, **known}
    for step_id, value in first.items():
        before = kept[step_id]
        if _handler(step_id).parts and isinstance(value, dict) and isinstance(before, dict):
            kept[step_id] = _with_parts(before, value)
    return {step_id: None if _of_own_functions(step_id, kept) else value for step_id, value in kept.items()}


def with_former(settings: Baseline, earlier: Mapping[str, Value]) -> Baseline:
    """Return settings merged with the values from an earlier time, which take precedence."""
    merged: Baseline = {**settings, **earlier}
    for step_id, value in settings.items():
        before = merged[step_id]
        if isinstance(value, dict) and isinstance(before, dict):
            merged[step_id] = _with_parts(before, value)
    return merged


def removal(desired: HostSpec, originals: Baseline) -> HostSpec:
    """Return the spec of a removal: the original values, no files of ours, the consents of ``desired``."""
    spec: HostSpec = {**check_spec({}), **of_the_run(desired), "removing": True}
    for concern in ORDER:
        for step_id in sorted(originals):
            restore = _handler(step_id).restore if step_id.startswith(f"{concern}:") else None
            if restore is not None:
                restore(spec, step_id.split(":", 1)[1], originals[step_id])
    return spec


def is_of_card(step_id: str) -> bool:
    """Return whether the card itself holds this value, not the host for whatever card is in that slot."""
    return _handler(step_id).of_card


def _former_in(content: Content) -> list[FormerCard]:
    try:
        former = content.get("former") or []
        return [FormerCard(str(each["address"]), dict(each["card"]), dict(each["settings"])) for each in former]
    except (KeyError, TypeError, ValueError) as error:
        raise FILE.broken("its former cards are none") from error


def _with_parts(first: Mapping[str, object], later: Mapping[str, object]) -> dict[str, object]:
    """Return the first value, plus the parts, at any depth, that only the later one has."""
    merged = {**later, **first}
    for key, value in later.items():
        before = merged[key]
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = _with_parts(before, value)
    return merged


def _of_own_functions(step_id: str, kept: Baseline) -> bool:
    """Return whether a setting belongs to VFs that did not exist before the first run."""
    concern, key = step_id.split(":", 1)
    address, colon, _what = key.rpartition(":")
    # The key "<PF>:<what>".
    sets_up = any(key.concern == concern and key.of_vfs and key.suffix for key in KEYS.values())
    return bool(colon) and sets_up and kept.get(f"vfs:{address}") == 0


def _handler(step_id: str) -> Handler:
    """Return the handler of a step's concern; one that this release lacks keeps and restores nothing."""
    return handler_of(step_id.split(":", 1)[0]) or _OF_NO_CONCERN
