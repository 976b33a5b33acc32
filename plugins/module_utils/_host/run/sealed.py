# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The approved plan of a host, and its comparison with the present plan. Pure.

Sealed are the steps as printed but for who uses an RDMA device just then, digests of their values before and after, and
the facts that decide what such a step does: system, NIC driver, cards, uplinks. A digest of the cards' GUIDs identifies
the machine.
"""

from __future__ import annotations

import hashlib
import json
from typing import Mapping, NamedTuple, Sequence, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from ..engine.steps import NEEDS_REBOOT, USED_BY, Plan, Step, describe, is_executable, returned
from ..facts.shapes import Facts

SAME = "same"
DONE = "done"
OTHER = "other"

_DIGITS = 32
_STEP = ("id", "line", "from", "to")
_OTHER_VALUES = " (reads the same and is about other values)"


SealedStep = TypedDict("SealedStep", {"id": str, "line": str, "from": str, "to": str})
"""A step as printed, with digests of its values before and after."""


class SealedFacts(TypedDict):
    """The facts that decide what a step does on a host."""

    kernel: str | None
    os: str | None
    driver: str
    nics: dict[str, str]
    uplinks: list[str]


class _Rest(TypedDict, total=False):
    rest: bool


class Sealed(_Rest):
    """The approved plan of a host; ``rest``: a run has rebooted the host on the way."""

    facts: SealedFacts
    machine: str
    steps: list[SealedStep]


class Verdict(NamedTuple):
    """Whether a host has its sealed plan, has nothing left to do, or has another plan, and the differences."""

    state: str
    difference: tuple[str, ...] = ()


def seal(plan: Plan, facts: Facts) -> Sealed:
    """Return the sealed form of a host's plan; ``plan`` may be as a task returns it."""
    return {"facts": _facts(facts), "machine": _machine(facts), "steps": [_sealed(step) for step in plan["steps"]]}


def digest_of(value: object) -> str:
    """Return a short digest of a JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_DIGITS]


def check_sealed(document: object, source: str = "sealed") -> Sealed:
    """Return a checked document as the sealed plan of a host; raises ``InvalidInput``."""
    found: list[Violation] = []
    if not isinstance(document, Mapping):
        raise InvalidInput([Violation(source, "", "is not a mapping", _HINT)])
    for key, kind, name in (("facts", Mapping, "a mapping"), ("machine", str, "text"), ("steps", list, "a list")):
        if not isinstance(document.get(key), kind):
            found.append(Violation(source, key, f"is not {name}", _HINT))
    for number, step in enumerate(document["steps"] if not found else ()):
        if not isinstance(step, Mapping) or not all(isinstance(step.get(key), str) for key in _STEP):
            found.append(Violation(source, f"steps[{number}]", f"lacks one of {', '.join(_STEP)}", _HINT))
    if found:
        raise InvalidInput(found)
    return cast(Sealed, dict(document))


_HINT = "write the plan again with rdma_fabric_plan_file"


def judge(sealed: Sealed, plan: Plan, facts: Facts) -> Verdict:
    """Compare the plan of a host with the one that was sealed.

    A host without executable steps is done, whatever its facts are by now. With ``rest`` in
    ``sealed`` a run has rebooted the host on the way: then a part of the sealed steps may be left, on the
    system that came up.
    """
    known = sealed["steps"]
    if not any(map(is_executable, plan["steps"])) and not _unknown(known, plan["steps"]):
        kept: Sealed = {"facts": sealed["facts"], "machine": sealed["machine"], "steps": known}
        return Verdict(SAME if seal(plan, facts) == kept else DONE)
    if sealed.get("rest"):
        lines = tuple(f"+ {describe(step)}" for step in _unknown(known, plan["steps"]))
        return Verdict(OTHER, lines) if lines else Verdict(SAME)
    now = seal(plan, facts)
    lines = (*_other_facts(sealed, now), *_other_steps(known, now["steps"]))
    return Verdict(OTHER, lines) if lines else Verdict(SAME)


def sentence(verdict: Verdict) -> str:
    """Return why a host is refused, and the next step."""
    lines = "\n".join(f"  {line}" for line in verdict.difference)
    return (
        "refused, as this is not the sealed plan of this host any more; nothing was changed on it. Sealed (-) and now "
        f"(+):\n{lines}\nnext: undo what made the difference, or run site --check with rdma_fabric_plan_file and have "
        "that plan approved"
    )


def _facts(facts: Facts) -> SealedFacts:
    system, stack = facts["system"], facts["stack"]
    firmware = {str(each["pci"]): each["firmware"] for each in facts["rdma"] if each.get("pci")}
    nics = {}
    for nic in facts["nics"]:
        if nic["function"] == "pf":
            parts = (f"{nic['vendor']}:{nic['device']}", nic["driver"] or "no driver", firmware.get(nic["address"]))
            nics[nic["address"]] = " ".join(filter(None, parts))
    return {
        "kernel": system["kernel"],
        "os": (system.get("os") or {}).get("name"),
        "driver": " ".join(str(stack[key]) for key in ("flavour", "version") if stack.get(key)),
        "nics": nics,
        "uplinks": sorted(uplink["netdev"] for uplink in facts["uplinks"]),
    }


def _machine(facts: Facts) -> str:
    """Return a digest of the GUIDs of the host's cards, empty if none can be read."""
    physical = {nic["address"] for nic in facts["nics"] if nic["function"] == "pf"}
    guids = sorted((str(each["pci"]), str(each["node_guid"])) for each in facts["rdma"] if each.get("pci") in physical)
    return digest_of(guids) if guids else ""


def _sealed(step: Step) -> SealedStep:
    left = returned(step)
    line = describe({**step, "interrupts": step["interrupts"].partition(USED_BY)[0]})
    return {"id": step["id"], "line": line, "from": digest_of(left["from"]), "to": digest_of(left["to"])}


def _unknown(known: Sequence[SealedStep], steps: Sequence[Step]) -> list[Step]:
    """Return the steps whose result is not that of a sealed step.

    A step that needs a reboot follows from another one, so only its concern must be sealed.
    """
    leads_to = {(each["id"], each["to"]) for each in known}
    concerns = {each["id"].split(":", 1)[0] for each in known}
    return [
        step
        for step in steps
        if (step["id"], _sealed(step)["to"]) not in leads_to
        and not (step["status"] == NEEDS_REBOOT and step["concern"] in concerns)
    ]


def _other_facts(sealed: Sealed, now: Sealed) -> list[str]:
    lines = _other_values("fact ", sealed["facts"], now["facts"])
    if sealed["machine"] != now["machine"]:
        lines.append("+ the GUIDs of its cards are others, so this is another machine, or its cards were replaced")
    return lines


def _other_values(place: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    lines: list[str] = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += _other_values(f"{place}{key} ", old, new)
        elif old != new:
            lines += [f"- {place}{key}: {_shown(old)}", f"+ {place}{key}: {_shown(new)}"]
    return lines


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


def _other_steps(sealed: Sequence[SealedStep], now: Sequence[SealedStep]) -> list[str]:
    """Return the lines of removed and added steps, in order."""
    one, other = ([(step["id"], step["line"], step["from"], step["to"]) for step in steps] for steps in (sealed, now))
    import difflib

    lines: list[str] = []
    for what, start, end, from_, to in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        gone, come = [step[1] for step in one[start:end]], [step[1] for step in other[from_:to]]
        lines += [f"- {line}" for line in gone]
        lines += [f"+ {line}{_OTHER_VALUES if line in gone else ''}" for line in come]
    return lines
