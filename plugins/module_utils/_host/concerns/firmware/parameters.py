# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of cards' firmware: those set for the next boot, and those that wait for it.

A value takes effect when the card is reset, which a reboot does for most cards. One that a reboot did not bring is not
waited for again: such cards need a reset of their own or a power cycle, and a host is never rebooted twice for it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.operations import PutFile, Run, Work
from ...engine.steps import BOOT, NEEDS_REBOOT, NOTHING, Step, Value, Wording, as_planned, key_of, make_step
from ...facts.firmware import (
    QUERY_SECONDS,
    arm_side_refusal,
    card_of,
    flash_of,
    number_of,
    parse,
    query_command,
    remark,
    restriction,
)
from ...facts.host_state import Interface
from ...facts.own_files import SET_SINCE_BOOT, record_text
from ...facts.qos import asked
from ...facts.shapes import FirmwareCard, RoceRegisters
from ...facts.spectrum_x import is_asked
from ...machine.access import Host
from ...spec.firmware import ACCELERATION, GAPS, LOSSLESS, TRUST, meanings
from ...spec.host import HostSpec, wanted_interface
from .effects import ADVANCED, HIDDEN, WARNED_OF, cutting, of_the_card, unknown, wording
from .refusals import CLOSED, NO_CARD, reset_by_hand, unreadable, uplink_refusal

CONCERN = "firmware"
PENDING = ":reboot"
ALLOW = "rdma_fabric_firmware_allow"
_OF_THE_MODE = "INTERNAL_CPU_"
CURRENT, NEXT = 1, 2
_SECONDS = 120.0
_OF_THE_FIRMWARE = (
    "the firmware does not take the value; next: compare it with what mstconfig -d DEVICE show_confs shows, and with "
    "the limits of the card"
)
ERRORS = MappingProxyType(
    {
        "doesn't support": (
            "this card or its firmware version has no such parameter; next: update the firmware, or leave it out"
        ),
        "out of range": _OF_THE_FIRMWARE,
        "Failed to set configuration": _OF_THE_FIRMWARE,
        "Failed to open": CLOSED,
        "EPERM": CLOSED,
        "EACCES": CLOSED,
    }
)


class Card(NamedTuple):
    """A card with firmware values in the spec: the device to name, its entries, their values and contradictions."""

    device: str
    interfaces: tuple[Interface, ...]
    wanted: Mapping[str, str]
    contradictions: tuple[str, ...]
    read: FirmwareCard

    def value(self, name: str, column: int) -> str | None:
        """Return the value of a parameter as the tool prints it, None if the card lacks the parameter."""
        values = self.read["parameters"].get(name)
        return None if values is None else values[column]


def plan(context: Context) -> ConcernPlan:
    """Return a step for each card whose values for the next boot differ from the spec, or wait for that boot."""
    steps: list[Step] = []
    notices = _remarks(context)
    for card in cards_of(context):
        skipped = _skipped(context, card)
        if skipped:
            target = context.target_of(card.interfaces[0])
            notices.append(f"{target}: its firmware has no {', '.join(skipped)}: skipped, as a template asks for it")
        steps += _steps(context, card._replace(wanted={k: v for k, v in card.wanted.items() if k not in skipped}))
    return steps, [*notices, *remarks(context)]


def _skipped(context: Context, card: Card) -> list[str]:
    """Return the parameters of templates that the card lacks: the NIC configuration operator skips these, too."""
    if card.read["problem"]:
        return []
    of_templates = context.desired.get("template_parameters", ())
    lacking = [name for name in card.wanted if name in of_templates and card.value(name, NEXT) is None]
    return lacking if ADVANCED in lacking else [name for name in lacking if name not in _hidden(card)]


def _remarks(context: Context) -> list[str]:
    """Return a notice for each BlueField whose mode matters, and each card that starts otherwise for somebody else."""
    said: dict[str, list[str]] = {}
    for interface in context.interfaces:
        if interface.nic is not None and card_of(interface.key) not in said:
            sentences = filter(None, (remark(context.actual, interface.nic), _set_by_others(context, interface)))
            said[card_of(interface.key)] = [f"{context.target_of(interface)}: {sentence}" for sentence in sentences]
    return [sentence for sentences in said.values() for sentence in sentences]


def _set_by_others(context: Context, interface: Interface) -> str:
    """Return what the next start of a card that was read changes of its ports unasked; empty if nothing is known."""
    read = context.actual.facts["firmware"]["cards"].get(card_of(interface.key))
    if read is None or context.removing:
        return ""
    of_card = [each for each in context.interfaces if card_of(each.key) == card_of(interface.key)]
    given = {name for each in of_card for name in each.wanted["firmware"] or ()}
    found = read["parameters"]
    changing = [name for name, values in found.items() if name not in given and not same(values[NEXT], values[CURRENT])]
    names = [name for name in cutting(changing) if name not in unknown(changing)]
    if not names:
        return ""
    told = ", ".join(f"{name} {found[name][NEXT]} (now {found[name][CURRENT]})" for name in names)
    former = " ".join(f"{name}={number_of(found[name][CURRENT])}" for name in names)
    return (
        f"the card starts next with {told}, which nothing here asks for and which may change {wording(names)}; next: "
        f"ask for it in firmware of this entry, or take it back: mstconfig -d {read['device']} set {former}"
    )


def _steps(context: Context, card: Card) -> list[Step]:
    problem = _problem(context, card)
    if problem:
        return [_refused(context, card, list(card.wanted), problem)]
    hidden = _hidden(card)
    shown = {name: value for name, value in card.wanted.items() if name not in hidden}
    changes = [name for name, value in shown.items() if not same(str(card.value(name, NEXT)), value)]
    waiting = [
        name for name, value in shown.items() if name not in changes and not same(str(card.value(name, CURRENT)), value)
    ]
    steps = []
    if changes:
        refusal = _refusal(context, card, changes)
        steps.append(_refused(context, card, changes, refusal) if refusal else _change(context, card, changes))
    if waiting:
        refusal = _uplink_refusal(context, card, waiting)
        steps.append(_held_back(context, card, waiting, refusal) if refusal else _waiting(context, card, waiting))
    return steps


def _problem(context: Context, card: Card) -> str:
    """Return why the card's parameters can't be compared; empty if they can."""
    if card.read["problem"]:
        pairs = " ".join(f"{name}={value}" for name, value in card.wanted.items())
        command = f"mstconfig -y -d {card.device} set {pairs}"
        return unreadable(context, card.interfaces[0].nic, card.read["problem"], command)
    if card.contradictions:
        return f"its ports share one configuration, and their entries disagree: {', '.join(card.contradictions)}"
    missing = [name for name in card.wanted if card.value(name, NEXT) is None and name not in _hidden(card)]
    if missing:
        hidden = [name for name in missing if name in HIDDEN]
        advice = f"; {', '.join(hidden)} may be hidden: ask for {ADVANCED}: true as well" if hidden else ""
        return f"it has no {', '.join(f'{name}{_near(card, name)}' for name in missing)}{advice}"
    return ""


def _hidden(card: Card) -> list[str]:
    """Return the parameters that the card only shows once it has started with its advanced settings on."""
    if same(str(card.value(ADVANCED, CURRENT)), "True") or not same(card.wanted.get(ADVANCED, "False"), "True"):
        return []
    return [name for name in card.wanted if name in HIDDEN and card.value(name, NEXT) is None]


def _near(card: Card, name: str) -> str:
    near = card.read["near"].get(name) or []
    return f" (nearest: {', '.join(near)})" if near else ""


def _refusal(context: Context, card: Card, changes: list[str]) -> str:
    """Return every reason against setting these values; empty if there is none."""
    nic = card.interfaces[0].nic
    restricted = restriction(context.actual, nic)
    if restricted:
        return restricted
    reasons = [_warned(card, changes), _unknown(context, changes)]
    if not all(name.startswith(_OF_THE_MODE) for name in changes):
        reasons.append(arm_side_refusal(context.actual, nic))
    reasons.append(_uplink_refusal(context, card, changes))
    return "; ".join(filter(None, reasons))


def _warned(card: Card, changes: list[str]) -> str:
    warned = [name for name in changes if name in WARNED_OF]
    if not warned:
        return ""
    commands = (f"mstconfig -d {card.device} set {name}={card.wanted[name]}" for name in warned)
    return (
        f"mstconfig warns of damage and lost warranty before it sets {' and '.join(warned)}, and no run answers that "
        f"for you: read it yourself ({' && '.join(commands)}), or leave it out"
    )


def _unknown(context: Context, changes: list[str]) -> str:
    names = [name for name in unknown(changes) if name not in context.desired["firmware_allow"]]
    if not names:
        return ""
    return (
        f"what {', '.join(names)} does to the card is not known here: look it up (mstconfig -d DEVICE show_confs), and "
        f"name it in {ALLOW} of this host to have it set nevertheless"
    )


def _uplink_refusal(context: Context, card: Card, names: list[str]) -> str:
    """Return why the card must not start with these values for the sake of an uplink; empty if it may."""
    names = cutting(names)
    if not names:
        return ""
    return uplink_refusal(context, card.device, f"{', '.join(names)} may change {wording(names)}")


def _wording(context: Context, card: Card, names: list[str], action: str, column: int = NEXT) -> Wording:
    return {
        "target": context.target_of(card.interfaces[0]),
        "action": action,
        "before": {name: card.value(name, column) for name in names},
        "after": {name: card.wanted[name] for name in names},
        "reason": "firmware of rdma_fabric_interfaces asks for it",
    }


def _told(card: Card, names: list[str], column: int) -> str:
    """Return the wanted values with the present ones, if known, in words."""
    now = {name: card.value(name, column) for name in names}
    return ", ".join(f"{name}={card.wanted[name]}{f' (now {told})' if told else ''}" for name, told in now.items())


def _refused(context: Context, card: Card, names: list[str], detail: str) -> Step:
    wording = _wording(context, card, names, f"set {_told(card, names, NEXT)} in its firmware")
    return make_step(CONCERN, card.device, **wording, refusal=detail)


def _change(context: Context, card: Card, names: list[str]) -> Step:
    hidden = ", ".join(_hidden(card))
    later = f"; {hidden} can be set after that, when the card shows it" if hidden else ""
    return make_step(
        CONCERN,
        card.device,
        **_wording(context, card, names, f"set {_told(card, names, NEXT)} in its firmware for the next boot"),
        interrupts=_interrupts(names),
        undo="set the former values",
        when=BOOT,
        **context.consent(CONCERN),
        detail=f"takes effect when the card is reset, with a reboot or a power cycle; all of its ports share it{later}",
    )


def _interrupts(names: list[str]) -> str:
    changed = wording(names)
    return f"{NOTHING} before the card starts with it, which may change {changed}" if changed else NOTHING


def _held_back(context: Context, card: Card, names: list[str], refusal: str) -> Step:
    """Return the step about values that wait for the next boot, which no run may cause."""
    wording = _wording(context, card, names, f"start the card with {_told(card, names, CURRENT)}", CURRENT)
    former = " ".join(f"{name}={number_of(str(card.value(name, CURRENT)))}" for name in names)
    detail = f"the next boot has it already; {refusal}, mstconfig -d {card.device} set {former} takes it back"
    return make_step(CONCERN, f"{card.device}{PENDING}", **wording, refusal=detail)


def _waiting(context: Context, card: Card, names: list[str]) -> Step:
    """Return the step that needs a reset of the card; it is refused once a reboot has not done it."""
    action = f"reset the card: {_told(card, names, CURRENT)} for the next boot"
    since = context.actual.facts["firmware"]["set_since_boot"]
    refusal = ""
    if not set(names) <= set(since.get(card.device) or ()):
        refusal = (
            "it was set before this host started, or by somebody else since, and a reboot alone may not bring it: "
            f"{reset_by_hand(card.device)}, and run again"
        )
    return make_step(
        CONCERN,
        f"{card.device}{PENDING}",
        **_wording(context, card, names, action, CURRENT),
        interrupts="everything on this node",
        when=BOOT,
        status=NEEDS_REBOOT,
        undo=f"set {', '.join(f'{name}={card.value(name, CURRENT)}' for name in names)} before the next boot",
        refusal=refusal,
    )


def cards_of(context: Context) -> list[Card]:
    """Return the cards with firmware values in the spec, each once for all its ports."""
    cards = context.actual.facts["firmware"]["cards"]
    by_card: dict[str, list[Interface]] = {}
    for interface in context.interfaces:
        if interface.nic is not None and interface.wanted["firmware"]:
            by_card.setdefault(card_of(interface.key), []).append(interface)
    found = []
    for card, interfaces in sorted(by_card.items()):
        read = cards[card] if card in cards else _unread(interfaces[0].key)
        wanted: dict[str, str] = {}
        contradictions = []
        for interface in interfaces:
            for name, value in (interface.wanted["firmware"] or {}).items():
                if name in wanted and not same(wanted[name], value):
                    contradictions.append(f"{name} is {wanted[name]} and {value}")
                wanted[name] = value
        found.append(Card(read["device"], tuple(interfaces), wanted, tuple(contradictions), read))
    return _held_together(context, found)


def _held_together(context: Context, cards: list[Card]) -> list[Card]:
    """Return the cards with contradictions between the PCI slots of one card (Socket Direct), if known.

    A removal takes what the first slot had: the entry of one half may have become that of the other between two runs,
    and then the later one was kept with what the earlier one had set.
    """
    of_flash: dict[str, list[Card]] = {}
    for card in cards:
        of_flash.setdefault(flash_of(context.actual, card.interfaces[0].key), []).append(card)
    found = []
    for card in cards:
        slots = of_flash[flash_of(context.actual, card.interfaces[0].key)]
        contradicted = _contradicted(card, slots[: slots.index(card)] if context.removing else slots)
        if context.removing:
            found.append(card._replace(wanted={k: v for k, v in card.wanted.items() if k not in contradicted}))
        else:
            found.append(card._replace(contradictions=(*card.contradictions, *contradicted.values())))
    return found


def _contradicted(card: Card, others: Iterable[Card]) -> dict[str, str]:
    """Return the problems of parameters of the whole card for which its other slots have another value."""
    return {
        name: f"{name} is {card.wanted[name]}, and {other.wanted[name]} for its other PCI slot {other.device}"
        for other in others
        for name in of_the_card(card.wanted)
        if name in other.wanted and not same(other.wanted[name], card.wanted[name])
    }


def _unread(device: str) -> FirmwareCard:
    return {"device": device, "problem": NO_CARD, "parameters": {}, "near": {}, "restricted": None}


def same(shown: str, wanted: str) -> bool:
    """Return whether a value as a tool prints it (``ETH(2)``) is the wanted one (``eth``, ``2``, ``ETH(2)``)."""
    return bool(meanings(shown) & meanings(wanted))


def work(context: Context, step: Step) -> Work:
    """Return how values are set for the next boot; those set since the last boot are recorded until then."""
    device = key_of(step)
    facts = context.actual.facts["firmware"]
    tool, since = str(facts["tool"]), facts["set_since_boot"]
    wanted: dict[str, str] = as_planned(step["to"], dict)
    record = {**since, device: {**(since.get(device) or {}), **wanted}}
    former = {name: number_of(str(value)) for name, value in as_planned(step["from"], dict).items()}
    return Work(
        [PutFile(SET_SINCE_BOOT, record_text(record)), _set(tool, device, wanted)],
        [_set(tool, device, former)],
        lambda host: _unset(host, tool, device, wanted),
    )


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original values for the next boot to the spec."""
    if isinstance(original, dict) and not key.endswith(PENDING) and all(original.values()):
        values = {name: number_of(str(value)) for name, value in original.items()}
        wanted_interface(desired, key)["firmware"] = values


def _set(tool: str, device: str, values: Mapping[str, str]) -> Run:
    return Run((tool, "-y", "-d", device, "set", *(f"{name}={value}" for name, value in values.items())), _SECONDS)


def _unset(host: Host, tool: str, device: str, wanted: Mapping[str, str]) -> str:
    found = parse(host.run(query_command(tool, device), QUERY_SECONDS).stdout)
    wrong = [name for name, value in wanted.items() if name not in found or not same(found[name][NEXT], value)]
    return ", ".join(f"{name} of the next boot is {found.get(name, ['', '', 'not told'])[NEXT]}" for name in wrong)


HANDLER = Handler(work, ERRORS, restore, parts=True, of_card=True)


_MOST_NAMED = 4
_NEXT = "no run sets these registers, and each start of the card loses them"


def remarks(context: Context) -> list[str]:
    """Return a sentence for each difference from Spectrum-X's reference architecture, with the ports that have it."""
    if context.removing or context.has_nic_operator:
        return []
    ports = [port for port in context.interfaces if port.nic is not None and is_asked(port)]
    known = context.actual.facts.get("roce_registers", {})
    found: dict[str, list[str]] = {}
    for port in ports:
        for sentence in _of(known.get(port.key)):
            found.setdefault(sentence, []).append(context.target_of(port))
    sentences = [f"Spectrum-X: {named(targets, _MOST_NAMED)}: {sentence}" for sentence, targets in found.items()]
    return [*sentences, *_of_qos(context, ports)]


def _of(registers: RoceRegisters | None) -> list[str]:
    if registers is None:
        return []
    if registers["problem"]:
        return [f"whether adaptive routing is on can't be read ({registers['problem']}); {_NEXT}"]
    now = registers["acceleration"]
    fields = [
        f"{name} is {now[name]}, not {wanted}"
        for name, wanted in ACCELERATION.items()
        if now.get(name, wanted) != wanted
    ]
    gap = registers["gap"]
    if gap is not None and gap not in GAPS:
        fields.append(f"the gap between packets is {gap} bytes, not {GAPS[0]}, or {GAPS[1]} with an overlay")
    if not fields:
        return []
    return [f"{'; '.join(fields)}: its firmware lets the card do adaptive routing, this keeps it off or slow; {_NEXT}"]


def _of_qos(context: Context, ports: Sequence[Interface]) -> list[str]:
    lacking = []
    for port in ports:
        settings = asked(context.desired, port)
        if settings.get("trust") != TRUST or LOSSLESS not in (settings.get("pfc") or ()):
            lacking.append(context.target_of(port))
    if not lacking:
        return []
    qos = f"{{trust: {TRUST}, pfc: [{LOSSLESS}]}}"
    return [
        f"Spectrum-X: {named(lacking, _MOST_NAMED)}: its reference architecture trusts DSCP and has priority "
        f"{LOSSLESS} lossless, which nothing asks for here; next: rdma_fabric_roce_qos: {qos}, unless others set it"
    ]
