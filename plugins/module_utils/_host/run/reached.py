# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the last states that the host reached, to go back to one when a newer spec has failed. Pure, but for reading.

A state is kept once nothing of it is left to do, after the reboot that it may need. Settings that both states have
are set back; those that only the later one has stay, as in every run.
"""

from __future__ import annotations

import json
from typing import Dict, NamedTuple, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

from ..facts.shapes import Facts
from ..machine.access import Host
from ..machine.host_files import StateFile
from ..spec.host import HostRequest, HostSpec, check_spec, of_the_run

# A spec as JSON, maybe of another release, so it is unchecked.
State = Dict[str, object]

PATH = "/var/lib/rdma-fabric/reached.json"
FILE = StateFile(
    PATH,
    "what the host was brought to",
    "restore the file from a backup, or remove it; the host can't be rolled back then until it has reached two states",
)
NOTHING_BEFORE = "no earlier state of this host is kept, so it stays as it is; to revert everything use state: absent"
_MOST_KEPT = 2


class Reached(NamedTuple):
    """A state that the host has reached.

    ``inbox``: whether the inbox NIC driver was installed when the next run began to change the host; None before that
    and if no run needed to know.
    """

    state: State
    inbox: bool | None = None


# The last state is at the end.
History = Tuple[Reached, ...]


def read_history(host: Host) -> History:
    """Return the states in the file, none if no state was reached yet; raises BrokenState."""
    content = FILE.read(host)
    entries = [] if content is None else content.get("reached")
    try:
        return tuple(Reached(dict(entry["state"]), entry["inbox"]) for entry in entries or ())
    except (KeyError, TypeError, ValueError) as error:
        raise FILE.broken("it has no states") from error


def text_of(history: History) -> str:
    """Return the file's text: the same states give the same text."""
    return FILE.text({"reached": [reached._asdict() for reached in history]})


def previous(history: History, desired: HostSpec) -> HostSpec | None:
    """Return the last reached state other than ``desired``, with the consents and uplinks of ``desired``.

    None if there is none. Raises BrokenState for a state that this release can't read.
    """
    others = having_gone_back(history, desired)
    if not others:
        return None
    last = others[-1]
    asked = _checked(last.state, desired)
    if last.inbox and not asks_for_driver(asked):
        from ..spec.driver import ABSENT

        return _checked({**last.state, "driver": {"state": ABSENT}}, desired)
    return asked


def _checked(state: State, desired: HostSpec) -> HostSpec:
    try:
        return check_spec({**state, **of_the_run(desired)})
    except InvalidInput as invalid:
        wrong = "; ".join(f"{each.path} {each.problem}" for each in invalid.violations)
        raise FILE.broken(f"this release can't read a state in it: {wrong}") from invalid


def having_reached(history: History, desired: HostSpec) -> History:
    """Return the history once the host has reached ``desired``."""
    state = _state_of(desired)
    if history and history[-1].state == state:
        return history
    return (*having_gone_back(history, desired), Reached(state))[-_MOST_KEPT:]


def having_gone_back(history: History, desired: HostSpec) -> History:
    """Return the history once the host has gone back from ``desired``, which is then no longer in it."""
    unwanted = _state_of(desired)
    return tuple(reached for reached in history if reached.state != unwanted)


def having_looked(history: History, facts: Facts) -> History:
    """Return the history before the host is changed, with whether its NIC driver is the inbox driver."""
    if not history or "driver" not in facts or history[-1].inbox is not None:
        return history
    from ..facts.driver.status import installed_flavour
    from ..spec.driver_families import INBOX

    inbox = installed_flavour(facts["driver"], facts["stack"]) == INBOX
    return (*history[:-1], history[-1]._replace(inbox=inbox))


def asks_for_driver(asked: HostSpec) -> bool:
    """Return whether a spec, itself or by a policy, has a NIC driver."""
    return bool(asked["driver"]) or any(request["driver"] for request in asked["requests"])


def _state_of(desired: HostSpec) -> State:
    """Return the part of a spec that is kept, as it is read back."""
    kept = check_spec({}).keys() - of_the_run(desired).keys()
    asked = {key: value for key, value in desired.items() if key in kept}
    plain: State = json.loads(json.dumps({**asked, "requests": [_kept(request) for request in desired["requests"]]}))
    return plain


def _kept(request: HostRequest) -> HostRequest:
    """Return a request without its automatic upgrade of drivers, which must not prevent going back."""
    driver = request["driver"]
    if driver is None:
        return request
    return {**request, "driver": {key: value for key, value in driver.items() if key != "auto_upgrade"}}
