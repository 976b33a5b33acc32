# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks now and then whether nodes that are not Ready are all that a wait waits for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Dict

from ..api.errors import ApiFault, Fault
from ..api.transport import Connection
from ..objects.dead_nodes import dead_nodes, held_up
from ..objects.objects import Json, Key
from ..objects.readiness import Readiness, is_ready
from .diagnosis import selector_of
from .nodes import all_nodes
from .pods import list_pods

States = Dict[Key, Readiness]

_SETTLED = 10.0
_INTERVAL = 30.0
_LOOK_TIMEOUT = 5.0


@dataclass
class Outlook:
    """Judges DaemonSets ready that lack nothing but pods on nodes that are not Ready.

    It looks when nothing has changed for ten seconds, every half a minute from then on, and when the time is over: one
    LIST of the nodes for all, and one of the pods of each where a node is not Ready. ``find`` returns what is waited
    for as it was last read.
    """

    connection: Connection
    find: Callable[[Key], Json | None]
    _since: dict[Key, tuple[Readiness, float]] = field(default_factory=dict)
    _moved: set[Key] = field(default_factory=set)
    _next: float = float("-inf")
    _refused: bool = False

    def judged(self, states: States, *, last: bool = False) -> States:
        """Return the states, those ready that only wait for nodes that are not; ``last`` when the time is over."""
        now = self.connection.clock.now()
        for key, state in states.items():
            if key not in self._since or self._since[key][0] != state:
                self._moved.update({key} & self._since.keys())
                self._since[key] = state, now
        settled = [
            key
            for key, state in states.items()
            if key.kind == "DaemonSet" and state.desired and not state.ready
            if last or now - self._since[key][1] >= _SETTLED
        ]
        if self._refused or not settled or (now < self._next and not last):
            return states
        self._next = now + _INTERVAL
        return {**states, **self._looked(settled, states, last)}

    def only_for_dead_nodes(self, key: Key, state: Readiness) -> bool:
        """Tell whether nothing but nodes that are not Ready was waited for, from the beginning of the wait."""
        return bool(state.lacking) and key not in self._moved

    def _looked(self, keys: list[Key], states: States, last: bool) -> States:
        """Return the new states of those that are ready after all, and in the end of those that dead nodes may hold up.

        There are none where nodes or pods can't be read.
        """
        found: States = {}
        try:
            with self.connection.until(self.connection.clock.now() + _LOOK_TIMEOUT):
                ready = {str(node["metadata"]["name"]): is_ready(node) for node in all_nodes(self.connection)}
                for key in keys if not all(ready.values()) else ():
                    live = self.find(key) or {"metadata": {}}
                    pods = list_pods(self.connection, key.namespace, selector_of(live))
                    dead = dead_nodes(live, pods, ready)
                    if dead.alone:
                        found[key] = replace(states[key], ready=True, reason="", lacking=dead.names)
                    elif dead.names and dead.rolling and last:
                        found[key] = replace(states[key], reason=held_up(states[key].reason, dead.names))
        except ApiFault as fault:
            self._refused = fault.fault is Fault.FORBIDDEN
        return found
