# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until objects are ready, or gone, by one LIST per kind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Callable, Dict, Iterable, Mapping

from ..api.errors import ApiFault, Fault, seen_or_told, step_of
from ..api.transport import Connection
from ..cluster.diagnosis import diagnose, selector_of
from ..cluster.nodes import all_nodes
from ..cluster.pods import list_pods
from ..objects.dead_nodes import dead_node_notices, dead_nodes, held_up
from ..objects.objects import Json, Key
from ..objects.placement import kept_off
from ..objects.readiness import Readiness, is_ready, is_workload, readiness, what_holds
from .session import CONFIGURED, CREATED, Change, Session

_DEFINITION_KINDS = ("CustomResourceDefinition", "Namespace")
_DEFINITION_TIMEOUT = 60.0
_LABEL_RULE = "NodeFeatureRule"
_LABELS_TIMEOUT = 30.0
_DIAGNOSIS_TIMEOUT = 5.0
_FIRST_INTERVAL = 0.2
_GROWTH = 1.5
_LONGEST_INTERVAL = 5.0

Judge = Callable[[Session, Key], Readiness]


def wait_for_definitions(session: Session, changes: Iterable[Change]) -> None:
    """Wait until the CRDs and Namespaces among ``changes`` can be used by the next wave."""
    keys = [
        change.key
        for change in changes
        if change.key.kind in _DEFINITION_KINDS and change.action in (CREATED, CONFIGURED)
    ]
    for key, state in _poll(session, keys, _DEFINITION_TIMEOUT):
        if not state.ready:
            fault = ApiFault(Fault.TIMEOUT, f"{key} is not usable after {_DEFINITION_TIMEOUT:g} s: {state.reason}")
            session.result.failures.append((key, fault))
            raise fault


def wait_until_ready(session: Session) -> None:
    """Wait for the pods of all desired workloads; leave a row for each, and a failure for each slow one."""
    keys = [item.key for item in session.items if is_workload(item.key.kind)]
    clock = session.connection.clock
    started = clock.now()
    found: dict[Key, tuple[Readiness, float]] = {}
    outlook = Outlook(session.connection, session.snapshot.find)
    for key, state in _poll(session, keys, session.request.wait_timeout, outlook=outlook):
        found[key] = state, round(clock.now() - started, 1)
    unlabelled = _without_nodes(session, found, outlook)
    timeout = session.request.wait_timeout
    # The others may have made progress for longer than that.
    deadline = max(started + timeout, clock.now() + min(_LABELS_TIMEOUT, timeout))
    for _each in _poll(session, unlabelled, min(_LABELS_TIMEOUT, deadline - clock.now()), _with_nodes):
        pass
    for key, state in _poll(session, unlabelled, deadline - clock.now(), outlook=outlook):
        found[key] = state, round(clock.now() - started, 1)
    kept = _kept_off(session, [key for key, (state, _seconds) in found.items() if state.notice])
    rows: dict[Key, Json] = {}
    for key, (judged, seconds) in found.items():
        state = replace(judged, notice="runs on no node") if kept and judged.notice else judged
        reason = state.reason
        if not state.ready:
            reason = "; ".join([reason, *_reasons(session, key)])
            message = f"{key} is not ready after {seconds:g} s: {reason}"
            hint = step_of(reason) or "fix what keeps its pods from running, or raise wait_timeout, then run again"
            session.result.failures.append((key, ApiFault(Fault.TIMEOUT, message, hint=hint)))
        rows[key] = _row(session, key, state, reason, seconds)
    session.result.waits += [rows[key] for key in keys]
    session.result.notices += [*kept, *dead_node_notices({key: found[key][0].lacking for key in keys})]


def _kept_off(session: Session, keys: list[Key]) -> list[str]:
    """Return why DaemonSets have no node, where nodes that they select have taints; their selector is told else."""
    bodies = [body for body in map(session.snapshot.find, keys) if body is not None]
    nodes = seen_or_told(lambda: all_nodes(session.connection), "taints were not looked at")[0] if bodies else []
    return kept_off(bodies, nodes or [], ())


def _without_nodes(session: Session, found: Mapping[Key, tuple[Readiness, float]], outlook: Outlook) -> list[Key]:
    """Return the DaemonSets without a node that may have one as soon as Node Feature Discovery has labelled the nodes.

    That can only be when the batch holds a rule of it, and when something had to be waited for: else it has done so.
    A node that is not Ready gets no label, however long it is waited for.
    """
    waited = any(seconds > 0 and not outlook.only_for_dead_nodes(key, state) for key, (state, seconds) in found.items())
    if not waited or not any(item.key.kind == _LABEL_RULE for item in session.items):
        return []
    return [key for key, (state, _seconds) in found.items() if key.kind == "DaemonSet" and not state.desired]


def _with_nodes(session: Session, key: Key) -> Readiness:
    """Judge a DaemonSet ready when it has a node, whatever its pods do there."""
    desired = _state(session, key).desired
    return Readiness(desired > 0, reason="no node has the labels it asks for yet")


def look_at_readiness(session: Session) -> None:
    """Leave a row for each desired workload that is there, as it was read: check mode waits for nothing."""
    new = {change.key for change in session.result.changes if change.action == CREATED}
    for key in [item.key for item in session.items if is_workload(item.key.kind)]:
        if key not in new and session.snapshot.find(key) is not None:
            state = _state(session, key)
            session.result.waits.append(_row(session, key, state, state.reason, 0.0))


def _row(session: Session, key: Key, state: Readiness, reason: str, seconds: float) -> Json:
    """Return the row of one workload; what is odd about it goes to the notices."""
    if state.notice:
        session.result.notices.append(f"{key} {state.notice}")
    return {
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "ready": state.ready,
        "reason": reason,
        "desired": state.desired,
        "available": state.available,
        "seconds": seconds,
    }


def wait_until_gone(session: Session, keys: list[Key]) -> None:
    """Wait until deleted objects have left the server; leave a failure for each that stays, with its finalizers."""
    clock = session.connection.clock
    deadline = clock.now() + session.request.wait_timeout
    interval = _FIRST_INTERVAL
    pending, trouble = keys, ""
    while pending:
        trouble = _look_again(session, pending, deadline)
        pending = [key for key in pending if session.snapshot.find(key) is not None]
        if not pending or clock.now() + interval > deadline:
            break
        if session.progress_due():
            text = f"{len(pending)} of {len(keys)} objects are still being deleted, first: {pending[0]}"
            session.request.progress(text)
        clock.sleep(interval)
        interval = min(interval * _GROWTH, _LONGEST_INTERVAL)
    for key in pending:
        holders, hint = what_holds(session.snapshot.find(key) or {}), "look at what should remove the finalizers"
        held = f"finalizers: {', '.join(holders or ['none'])}"
        if not holders and key.kind == "Pod":
            held, hint = "its kubelet has not reported its end", "look at its node (kubectl get pod --output=wide)"
        message = f"{key} is still there after {session.request.wait_timeout:g} s; {held}{trouble}"
        session.result.failures.append((key, ApiFault(Fault.TIMEOUT, message, hint=f"{hint}, then run again")))


def _poll(
    session: Session, keys: list[Key], timeout: float, judge: Judge | None = None, *, outlook: Outlook | None = None
) -> Iterable[tuple[Key, Readiness]]:
    """Yield each key with its state as soon as it is ready, and those that are not when the time is over.

    The time begins anew with each pod of a DaemonSet that is replaced or becomes available: pods that hold devices are
    replaced one after the other, which takes hours on many nodes. ``outlook`` judges those ready that would time out.
    """
    judge = judge or _state
    clock = session.connection.clock
    deadline = clock.now() + timeout
    done: dict[Key, int] = {}
    interval = _FIRST_INTERVAL
    pending, trouble = list(keys), ""
    while True:
        states = {key: judge(session, key) for key in pending}
        further = {key: state.done for key, state in states.items() if state.done > done.setdefault(key, state.done)}
        done.update(further)
        if further:
            deadline = clock.now() + timeout
        if outlook and not trouble:
            states = outlook.judged(states, last=clock.now() + interval > deadline)
        yield from ((key, state) for key, state in states.items() if state.ready)
        slow = [(key, state) for key, state in states.items() if not state.ready]
        pending = [key for key, _state_of_key in slow]
        if not pending:
            return
        if clock.now() + interval > deadline:
            yield from ((key, replace(state, reason=state.reason + trouble)) for key, state in slow)
            return
        if session.progress_due():
            session.request.progress(_progress(session, len(keys), slow))
        clock.sleep(interval)
        interval = min(interval * _GROWTH, _LONGEST_INTERVAL)
        trouble = _look_again(session, pending, deadline)


def _look_again(session: Session, keys: list[Key], deadline: float) -> str:
    """Read the objects again; return what is to be said of a server that gives no answer, mostly an empty string.

    A wait ends when its own time is over, not when the server is away for a while: the next look may find it again.
    """
    try:
        with session.connection.until(deadline):
            session.refresh(keys)
    except ApiFault as fault:
        if not fault.passing:
            raise
        return f"; it could no longer be read: {fault.message}"
    return ""


def _state(session: Session, key: Key) -> Readiness:
    live = session.snapshot.find(key)
    if live is None:
        return Readiness(False, reason="it is gone")
    return readiness(live) or Readiness(True)


def _progress(session: Session, total: int, slow: list[tuple[Key, Readiness]]) -> str:
    key, state = min(slow, key=lambda entry: entry[1].available / max(entry[1].desired, 1))
    why = (_reasons(session, key) or [state.reason])[0]
    counts = f" {state.available}/{state.desired}" if state.desired else ""
    return f"{total - len(slow)}/{total} ready, slowest: {key}{counts}: {why}"


def _reasons(session: Session, key: Key) -> list[str]:
    live = session.snapshot.find(key)
    if live is None or not is_workload(key.kind):
        return []
    with session.connection.until(session.connection.clock.now() + _DIAGNOSIS_TIMEOUT):
        return diagnose(session.connection, live)


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
