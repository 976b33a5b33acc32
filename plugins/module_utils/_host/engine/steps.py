# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a host's plan: their shape, their order, their one printed line."""

from __future__ import annotations

import hashlib
import json
from typing import Iterable, Mapping, Sequence, TypedDict, TypeVar, Union

from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line

from ..facts.returned import shortened
from ..machine.probe import first_pci_address

T = TypeVar("T")
Value = Union[None, bool, int, float, str, Sequence[object], Mapping[str, object]]
"""A JSON value."""
Step = TypedDict(
    "Step",
    {
        "id": str,
        "concern": str,
        "target": str,
        "action": str,
        "from": Value,
        "to": Value,
        "when": str,
        "reason": str,
        "interrupts": str,
        "undo": str,
        "status": str,
        "consent": "str | None",
        "detail": str,
    },
)
"""One step; only its concern can interpret ``from`` and ``to``."""


class Wording(TypedDict):
    """The part of a step that is the same whether it is planned or refused."""

    target: str
    action: str
    before: Value
    after: Value
    reason: str


class Consent(TypedDict):
    """The status of a step, and the variable of the consent that it needs, None if it needs none."""

    status: str
    consent: str | None


class Plan(TypedDict):
    """The steps of a host in the order of execution, notices, and the digest of the steps."""

    format: int
    steps: list[Step]
    notices: list[str]
    digest: str


PLANNED = "planned"
NEEDS_CONSENT = "needs_consent"
REFUSED = "refused"
# Nothing is left to do but to reboot.
NEEDS_REBOOT = "needs_reboot"
STATUSES = (PLANNED, NEEDS_CONSENT, REFUSED, NEEDS_REBOOT)

NOW = "now"
BOOT = "boot"
NOW_AND_BOOT = "now+boot"

NOTHING = "nothing"
# Between what a step interrupts and who uses it.
USED_BY = ", used by "
_BEFORE_BOOT = "ask for the former state, and run again before the next boot"

_DIGESTED = ("id", "from", "to", "when", "status")


def make_step(
    concern: str,
    key: str,
    *,
    target: str = "",
    action: str,
    before: Value = None,
    after: Value,
    reason: str,
    interrupts: str = NOTHING,
    undo: str = "",
    when: str = NOW_AND_BOOT,
    status: str = PLANNED,
    consent: str | None = None,
    detail: str = "",
    refusal: str = "",
) -> Step:
    """Return one step, which is refused if there is a ``refusal``: the reason, and what to do about it.

    ``key`` identifies the subject of the step within its concern (a PCI address, a module) and must be stable from run
    to run; ``target`` is its name in messages, by default the key. ``before`` is None if nothing was there or nothing
    is known of it. ``consent`` is the variable that allows the step.
    """
    if refusal:
        interrupts, undo, when, detail = NOTHING, "nothing is changed", NOW_AND_BOOT, refusal
        status, consent = REFUSED, None
    return {
        "id": f"{concern}:{key}",
        "concern": concern,
        "target": target or key,
        "action": action,
        "from": before,
        "to": after,
        "when": when,
        "reason": reason,
        "interrupts": interrupts,
        "undo": undo or (_BEFORE_BOOT if status == NEEDS_REBOOT else ""),
        "status": status,
        "consent": consent,
        "detail": detail,
    }


def numbered(numbers: Sequence[int]) -> str:
    """Return ``VF 3``, ``VFs 0 to 7`` or ``VFs 0, 2``."""
    if len(numbers) == 1:
        return f"VF {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"VFs {numbers[0]} to {numbers[-1]}"
    return f"VFs {', '.join(map(str, numbers))}"


def refused(step: Step, detail: str) -> Step:
    """Return a planned step as a refused one; ``detail`` replaces its own."""
    return {**step, "status": REFUSED, "undo": "nothing is changed", "detail": detail}


def with_reason(step: Step, reason: str) -> str:
    """Return the detail of a step with a further reason after it."""
    return f"{step['detail']}; {reason}" if step["detail"] else reason


def moment(now_differs: bool, boot_differs: bool) -> str:
    """Return when a step takes effect: on the running host, at the next boot, or both; at least one must differ."""
    if now_differs and boot_differs:
        return NOW_AND_BOOT
    return NOW if now_differs else BOOT


def removal_step(
    concern: str,
    path: str,
    *,
    reason: str = "rdma.fabric wrote it, and nothing in the input needs it any longer",
    interrupts: str = NOTHING,
    when: str = BOOT,
    detail: str = "",
) -> Step:
    """Return a step that removes a file of ours."""
    return make_step(
        concern,
        path,
        action=f"remove {path}",
        before="there",
        after="removed",
        reason=reason,
        interrupts=interrupts,
        when=when,
        undo=f"write {path} again",
        detail=detail,
    )


def as_planned(value: Value, kind: type[T]) -> T:
    """Return the value of a step as the type that its concern gave it; raises TypeError for any other."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def returned(step: Step) -> Step:
    """Return the step as it leaves the host: a long text, such as that of a file, is replaced by its digest."""
    return {**step, "from": _returned(step["from"]), "to": _returned(step["to"])}


def _returned(value: Value) -> Value:
    return shortened(value) if isinstance(value, str) else value


def key_of(step: Step) -> str:
    """Return the key of a step, as given to ``make_step``."""
    return step["id"].split(":", 1)[1]


def address_of(step: Step) -> str:
    """Return the PCI address in the key of a step, empty if it has none."""
    return first_pci_address(key_of(step))


def is_executable(step: Step) -> bool:
    """Return whether a run that applies the plan would execute the step."""
    return step["status"] == PLANNED


def describe(step: Step) -> str:
    """Return the line of the step in every printed plan: console, diff, report.

    Text from a host can't break out of the line.
    """
    line = f"{step['status'].replace('_', ' ')}: {step['concern']} {step['target']}: {step['action']}"
    if step["status"] != REFUSED:
        line += f" [{step['when']}; interrupts {step['interrupts']}]"
    if step["status"] == NEEDS_CONSENT:
        line += f" allow it with {step['consent']}: true"
    if step["detail"]:
        line += f" - {step['detail']}"
    return one_line(line)


def digest(steps: Iterable[Step]) -> str:
    """Return ``sha256:...`` over what the steps change, when, and their status; wording does not count."""
    essence = [{key: value for key, value in step.items() if key in _DIGESTED} for step in steps]
    text = json.dumps(essence, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"
