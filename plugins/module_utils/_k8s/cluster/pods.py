# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test pods in the cluster: are they ready, why not, which were left behind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Callable, Iterable, Mapping, Sequence

from ..api.errors import ApiFault
from ..api.kinds import EVENTS, PODS
from ..api.snapshot import list_objects
from ..api.transport import Connection
from ..objects.objects import Json, Key
from ..objects.readiness import is_ready
from .diagnosis import ENDED, event_reasons, pod_reasons

NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
_FIRST_INTERVAL = 0.2
_GROWTH = 1.5
_LONGEST_INTERVAL = 3.0
_PROGRESS_INTERVAL = 10.0
_MOST_REASONS = 5
# Nothing that happens later makes such a pod ready.
_HOPELESS = ("ErrImageNeverPull", "InvalidImageName")
_LEFTOVER_MARGIN = 60.0


@dataclass(frozen=True)
class PodView:
    """One pod as its last LIST showed it; ``reasons`` say why it is not ready, the most telling first."""

    name: str
    ready: bool = False
    gone: bool = False
    phase: str = ""
    network_status: str = ""
    reasons: list[str] = field(default_factory=list)
    uid: str = ""


def pod_view(pod: Mapping[str, Any]) -> PodView:
    """Return what a live Pod says of itself."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    phase = str(status.get("phase") or "")
    ready = is_ready(pod) and not metadata.get("deletionTimestamp")
    return PodView(
        name=str(metadata["name"]),
        ready=ready and phase not in ENDED,
        phase=phase,
        network_status=str((metadata.get("annotations") or {}).get(NETWORK_STATUS) or ""),
        reasons=pod_reasons(pod),
        uid=str(metadata.get("uid") or ""),
    )


def list_pods(connection: Connection, namespace: str, selector: str) -> list[Json]:
    """Return the pods of a namespace that a label selector matches. Raises ApiFault."""
    return list_objects(connection, Key("v1", "Pod", namespace, ""), PODS, {"labelSelector": selector})


def wait_for_pods(
    connection: Connection,
    namespace: str,
    names: Iterable[str],
    *,
    selector: str,
    timeout: float,
    progress: Callable[[str], None],
) -> dict[str, PodView]:
    """Wait until every named pod is ready or can't become so, ``timeout`` seconds at most; one LIST per look.

    Pods that are not ready come back with their reasons, events included. Raises ApiFault.
    """
    wanted, clock = list(names), connection.clock
    deadline, interval, said = clock.now() + timeout, _FIRST_INTERVAL, clock.now()
    seen: set[str] = set()
    found: dict[str, PodView] = {}
    while True:
        asked = clock.now()
        try:
            with connection.until(deadline):
                found = {view.name: view for view in map(pod_view, list_pods(connection, namespace, selector))}
        except ApiFault as fault:
            # The last look counts until the server answers again or the time is over.
            if not fault.passing or clock.now() + interval > deadline:
                raise
        seen |= set(found)
        views = {name: found.get(name, PodView(name, gone=name in seen)) for name in wanted}
        waiting = [view for view in views.values() if not view.ready and not _is_hopeless(view)]
        if not waiting or clock.now() + interval > deadline:
            return {**views, **_explained(connection, namespace, [each for each in views.values() if not each.ready])}
        if clock.now() - said >= _PROGRESS_INTERVAL:
            said = clock.now()
            why = (waiting[0].reasons or [waiting[0].phase or "not there yet"])[0]
            progress(f"{len(wanted) - len(waiting)}/{len(wanted)} test pods ready, {waiting[0].name}: {why}")
        # No more than half of the time goes into asking: the list of thousands of pods is long.
        clock.sleep(max(interval, clock.now() - asked))
        interval = min(interval * _GROWTH, _LONGEST_INTERVAL)


def leftovers(pods: Iterable[Json], now: datetime) -> list[Json]:
    """Return pods of earlier runs that nothing needs any more: ended, or alive longer than they may be.

    Their own deadline counts from the moment kubelet starts them, so one that no node takes never meets it.
    """
    found = []
    for pod in pods:
        deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
        age = _age(pod, now)
        expired = age is not None and deadline is not None and age > float(deadline) + _LEFTOVER_MARGIN
        if expired or (pod.get("status") or {}).get("phase") in ENDED:
            found.append(pod)
    return found


def _age(pod: Json, now: datetime) -> float | None:
    text = str(pod["metadata"].get("creationTimestamp") or "")
    try:
        created = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return (now - created).total_seconds()


def _is_hopeless(view: PodView) -> bool:
    return view.gone or view.phase in ENDED or any(reason.startswith(_HOPELESS) for reason in view.reasons)


def _explained(connection: Connection, namespace: str, views: Sequence[PodView]) -> dict[str, PodView]:
    """Return these views with what events say; what can't be read is said instead.

    One LIST serves all of them: where an image can't be pulled, thousands of pods are not ready.
    """
    seen = [view.uid for view in views if view.uid and not view.gone]
    about = f"involvedObject.uid={seen[0]}" if len(seen) == 1 else "involvedObject.kind=Pod"
    events: dict[str, list[Json]] = {}
    unread = []
    try:
        scope, selector = Key("v1", "Event", namespace, ""), {"fieldSelector": about}
        for event in list_objects(connection, scope, EVENTS, selector) if seen else ():
            events.setdefault(str((event.get("involvedObject") or {}).get("uid") or ""), []).append(event)
    except ApiFault as fault:
        unread = [f"its events can't be read: {fault.message}"]
    return {view.name: _with_reasons(view, unread or event_reasons(events.get(view.uid, []))) for view in views}


def _with_reasons(view: PodView, events: Sequence[str]) -> PodView:
    if view.gone:
        return PodView(view.name, gone=True, reasons=["the pod was deleted"])
    if not view.uid:
        return PodView(view.name, reasons=["the pod was never listed by the API server"])
    reasons = list(dict.fromkeys([*view.reasons, *events]))[:_MOST_REASONS]
    return replace(view, ready=False, reasons=reasons or [f"its phase is {view.phase}"])
