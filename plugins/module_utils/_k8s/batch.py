# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch apply: ordered waves of objects in, what became of each out. Private to this collection: it may change.

One LIST per kind shows what is there; only what is not provably as desired is sent. The set's inventory is written
before new objects are and again after pruning, so a run that is cut anywhere loses nothing and the next one converges.
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.apply import apply_waves
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.inventory import (
    UnreadableInventory,
    inventory_key,
    recorded_keys,
    union,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.kinds import CRD_GROUP, CRD_KIND, Kinds
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects import (
    SET_LABEL,
    Item,
    Key,
    key_of,
    read_waves,
    set_name_violations,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.projection import is_managed
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.prune import is_kept_kind, remove
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.session import (
    DELETED,
    BatchError,
    BatchRequest,
    BatchResult,
    Session,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.snapshot import Snapshot, fetch_group, get_object
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.waiting import (
    look_at_readiness,
    wait_until_gone,
    wait_until_ready,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

DEFAULT_NAMESPACE = "default"
_NAMES_SHOWN = 10


def run(connection: Connection, request: BatchRequest) -> BatchResult:
    """Make the server hold what ``request`` asks for.

    Raises :class:`InvalidInput` before anything is sent when the waves are wrong, :class:`BatchError` with the partial
    result when the server refuses, fails, or a workload does not become ready in time.
    """
    kinds = Kinds(lambda path: fetch_group(connection, path))
    session = Session(request, connection, kinds, Snapshot(connection, kinds), _read(request))
    session.last_progress = connection.clock.now()
    kinds.learn(item.body for item in session.items)
    try:
        session.items = _located(session)
        _read_state(session)
        if request.absent:
            _remove_all(session)
        else:
            _apply_all(session)
    except ApiFault as err:
        if not any(fault is err for _key, fault in session.result.failures):
            session.result.failures.append((None, err))
    except UnreadableInventory as err:
        fault = ApiFault(Fault.INVALID, str(err), hint="nothing was changed")
        session.result.failures.append((inventory_key(request.set_name, request.inventory_namespace), fault))
    return _finished(session)


def _read(request: BatchRequest) -> list[Item]:
    violations = set_name_violations(request.set_name) if request.set_name else []
    if request.set_name and not request.inventory_namespace:
        violations.append(
            Violation("inventory_namespace", "", "is empty", "name the namespace that holds the inventory")
        )
    items: list[Item] = []
    try:
        items = read_waves(request.waves)
    except InvalidInput as invalid:
        violations += invalid.violations
    if violations:
        raise InvalidInput(violations)
    return items


def _located(session: Session) -> list[Item]:
    """Return the items with namespace and set label, each known to the server or to the batch."""
    located: list[Item] = []
    violations: list[Violation] = []
    for item in session.items:
        resource = session.kinds.find(item.key)
        if resource is None:
            if not session.request.absent:
                problem = f"neither the server nor a CustomResourceDefinition of the waves knows {item.key.kind} of"
                hint = "add the CustomResourceDefinition, or correct apiVersion and kind"
                violations.append(Violation("waves", str(item.key), f"{problem} {item.key.api_version}", hint))
            continue
        metadata = item.body["metadata"]
        if resource.namespaced:
            metadata.setdefault("namespace", DEFAULT_NAMESPACE)
        elif "namespace" in metadata:
            violations.append(
                Violation("waves", str(item.key), f"{item.key.kind} is cluster-scoped", "leave the namespace out")
            )
        if session.request.set_name:
            metadata["labels"] = {**(metadata.get("labels") or {}), SET_LABEL: session.request.set_name}
        located.append(Item(key_of(item.body), item.wave, item.body, item.position))
    if violations:
        raise InvalidInput(violations)
    return located


def _read_state(session: Session) -> None:
    """Read the inventory and the live objects: ConfigMaps first, because the inventory is one of them."""
    keys = [item.key for item in session.items]
    request = session.request
    if not request.set_name:
        session.snapshot.read_each(keys)
        return
    place = inventory_key(request.set_name, request.inventory_namespace)
    config_maps = [place, *(key for key in keys if _is_config_map(key))]
    session.snapshot.read_kinds(config_maps)
    inventory = session.snapshot.find(place) or get_object(session.connection, session.kinds, place)
    session.recorded = recorded_keys(inventory)
    namespaces = [key for key in union(keys, session.recorded) if _is_namespace(key)]
    if request.remove_kept:
        namespaces.append(Key("v1", "Namespace", "", ""))
    session.snapshot.read_kinds(namespaces)
    session.recorded = union(session.recorded, _left_behind(session, namespaces))
    wanted = union(keys, session.recorded)
    if request.remove_kept:
        wanted.append(Key(f"{CRD_GROUP}/v1", CRD_KIND, "", ""))
    session.snapshot.read_kinds(key for key in wanted if not _is_config_map(key) and not _is_namespace(key))


def _left_behind(session: Session, known: list[Key]) -> list[Key]:
    """Return what inventories of the set in other namespaces record, and these inventories.

    The set had its inventory there before it was given another namespace. Such a namespace still carries the set's
    label and is neither wanted nor recorded any more; looking there costs nothing as long as there is none.
    """
    request = session.request
    names = {key.name for key in known} | {request.inventory_namespace}
    left: list[Key] = []
    for body in session.snapshot.all_of("", "Namespace"):
        metadata = body["metadata"]
        if metadata["name"] in names or metadata["labels"].get(SET_LABEL) != request.set_name:
            continue
        place = inventory_key(request.set_name, metadata["name"])
        live = get_object(session.connection, session.kinds, place)
        if live is not None:
            left += [*recorded_keys(live), place]
    return left


def _is_namespace(key: Key) -> bool:
    return (key.group, key.kind) == ("", "Namespace")


def _is_config_map(key: Key) -> bool:
    return (key.group, key.kind) == ("", "ConfigMap")


def _apply_all(session: Session) -> None:
    request = session.request
    _refuse(session)
    if session.result.failures:
        return
    desired = [item.key for item in session.items]
    everything = union(desired, session.recorded)
    if request.set_name and not request.check:
        record(session, everything)
    apply_waves(session)
    if session.result.failures:
        return
    if request.set_name:
        leftover = everything[len(desired) :]
        if request.prune:
            leftover = list(reversed(remove(session, reversed(leftover))))
        record(session, desired + leftover)
    if request.wait and request.check:
        look_at_readiness(session)
    elif request.wait:
        wait_until_ready(session)


def _refuse(session: Session) -> None:
    """Note what forbids the run before anything is changed.

    That are objects of another set, objects that are being deleted, and a batch without objects that would prune a
    whole set: a forgotten file must not cost a cluster its network.
    """
    request = session.request
    lost = [key for key in session.recorded if not is_kept_kind(key)]
    if lost and request.prune and not session.items:
        message = f"no object is wanted, so pruning would remove all of the set {request.set_name!r}: {_names(lost)}"
        hint = "give the objects that are wanted; to remove the set, ask for it with state: absent"
        session.result.failures.append((None, ApiFault(Fault.INVALID, message, hint=hint)))
    for item in session.items:
        live = session.snapshot.find(item.key)
        if live is None:
            continue
        metadata = live["metadata"]
        owner = (metadata.get("labels") or {}).get(SET_LABEL)
        if owner is not None and owner != session.request.set_name:
            hint = f"leave it out here, or remove it from the set {owner!r} or take the label {SET_LABEL} off it"
            fault = ApiFault(Fault.CONFLICT, f"{item.key} belongs to the set {owner!r}", hint=hint)
            session.result.failures.append((item.key, fault))
        elif metadata.get("deletionTimestamp"):
            holders = ", ".join(metadata.get("finalizers") or ["none"])
            message = f"{item.key} is being deleted; finalizers: {holders}"
            fault = ApiFault(Fault.CONFLICT, message, hint="wait until it is gone, then run again")
            session.result.failures.append((item.key, fault))


def _remove_all(session: Session) -> None:
    """Delete the set in reverse order; the inventory goes last, but before the namespace that may hold it."""
    request = session.request
    wanted = [item.key for item in session.items if session.snapshot.find(item.key)]
    candidates = union(session.recorded, wanted)
    if request.remove_kept:
        candidates = union(_definitions_of_the_set(session), candidates)
    namespaces = [key for key in candidates if _is_namespace(key)]
    others = [key for key in candidates if key not in namespaces]
    remove(session, reversed(others), remove_kept=request.remove_kept)
    if session.result.failures:
        return
    place = inventory_key(request.set_name, request.inventory_namespace)
    if request.set_name and session.snapshot.find(place):
        remove(session, [place])
    remove(session, reversed(namespaces), remove_kept=request.remove_kept)
    if request.wait and not request.check:
        wait_until_gone(session, [change.key for change in session.result.changes if change.action == DELETED])


def _definitions_of_the_set(session: Session) -> list[Key]:
    """Return the Namespaces and CRDs that carry the set's label and were applied by this collection."""
    bodies = [*session.snapshot.all_of("", "Namespace"), *session.snapshot.all_of(CRD_GROUP, CRD_KIND)]
    owned = [body for body in bodies if body["metadata"]["labels"].get(SET_LABEL) == session.request.set_name]
    return [key_of(body) for body in owned if is_managed(body) and is_kept_kind(key_of(body))]


def _finished(session: Session) -> BatchResult:
    """Return the result, or raise it as an error when anything failed."""
    result = session.result
    result.requests = {verb: session.connection.sent[verb] for verb in ("list", "patch", "get", "delete")}
    for reason, keys in session.unvalidated.items():
        result.notices.append(f"not validated by the server: {_names(keys)}: {reason}")
    if not session.request.absent:
        done = {change.key.identity for change in result.changes}
        result.not_applied = [item.key for item in session.items if item.key.identity not in done]
    if result.failures:
        raise BatchError(_message(session), result)
    return result


def _message(session: Session) -> str:
    result = session.result
    noun = "problem" if len(result.failures) == 1 else "problems"
    lines = [f"{len(result.failures)} {noun} with the cluster:"]
    lines += [f"  - {fault}" for _key, fault in result.failures]
    changed = [change.key for change in result.changes if change.action in ("created", "configured", DELETED)]
    verb = "would be changed" if session.request.check else "changed"
    lines.append(f"{verb} before that: {_names(changed)}" if changed else "nothing was changed")
    if result.not_applied:
        lines.append(f"not applied: {_names(result.not_applied)}")
    lines.append("The next run goes on from here.")
    return "\n".join(lines)


def _names(keys: list[Key]) -> str:
    shown = ", ".join(str(key) for key in keys[:_NAMES_SHOWN])
    more = f" and {len(keys) - _NAMES_SHOWN} more" if len(keys) > _NAMES_SHOWN else ""
    return f"{len(keys)} ({shown}{more})"
