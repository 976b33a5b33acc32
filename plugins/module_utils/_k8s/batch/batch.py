# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch apply: ordered waves of objects in, what became of each out.

One LIST per kind shows what is there; only what is not provably as desired is sent. The set's inventory is written
before new objects are and again after pruning, so a run that is cut anywhere loses nothing and the next one converges.
"""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from ..api.errors import ApiFault, Fault, seen_or_told
from ..api.kinds import CRD_GROUP, CRD_KIND, Kinds
from ..api.snapshot import Snapshot, fetch_group, get_object, list_objects
from ..api.transport import Connection
from ..objects.inventory import (
    UnreadableInventory,
    engine_of,
    inventory_body,
    inventory_key,
    recorded_keys,
    size_problem,
    union,
)
from ..objects.objects import (
    DEFAULT_NAMESPACE,
    MANAGED_BY,
    MANAGER,
    SET_LABEL,
    Item,
    Json,
    Key,
    key_of,
    read_waves,
    set_name_violations,
)
from ..objects.projection import is_managed, is_ours
from ..objects.readiness import is_workload
from .adoption import adopt_all, find_adoptable
from .apply import apply_waves, merge
from .lease import Lease
from .ownership import refuse_others, unlabelled, use_definitions
from .prune import is_kept_kind, remove, say_what_is_going
from .record import make_namespace, record
from .session import (
    DELETED,
    MOST_NAMED,
    RELEASED,
    BatchError,
    BatchRequest,
    BatchResult,
    Change,
    Session,
    failure_text,
    names_of,
)
from .waiting import look_at_readiness, wait_until_gone, wait_until_ready


def run(connection: Connection, request: BatchRequest) -> BatchResult:
    """Make the server hold what ``request`` asks for.

    ``awaited.run`` waits for kinds that come with a program, too. Raises :class:`InvalidInput` before anything is sent
    when the waves are wrong, :class:`BatchError` with the partial result when the server refuses, fails, or a workload
    does not become ready in time.
    """
    kinds = Kinds(lambda path: fetch_group(connection, path))
    session = Session(request, connection, kinds, Snapshot(connection, kinds), _read(request))
    session.last_progress = connection.clock.now()
    kinds.learn(item.body for item in session.items)
    try:
        session.items = _located(session)
        _read_state(session)
        _refuse_all(session)
        if not session.result.failures:
            _take_turn(session)
        if not session.result.failures:
            _do(session)
    except ApiFault as err:
        if not any(fault is err for _key, fault in session.result.failures):
            session.result.failures.append((None, err))
    except UnreadableInventory as err:
        fault = ApiFault(Fault.INVALID, str(err), hint="nothing was changed")
        session.result.failures.append((inventory_key(request.set_name, request.inventory_namespace), fault))
    finally:
        end_turn(session)
    return _finished(session)


def _do(session: Session) -> None:
    if session.request.absent:
        _remove_all(session)
    elif session.request.adopted:
        adopt_all(session)
    elif session.request.released:
        release_all(session)
    else:
        _apply_all(session)


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
    session.engine = engine_of(inventory)
    namespaces = [key for key in union(keys, session.recorded) if _is_namespace(key)]
    if request.remove_kept:
        namespaces.append(Key("v1", "Namespace", "", ""))
    session.snapshot.read_kinds(namespaces)
    elsewhere = _left_behind(session, namespaces)
    if inventory is None and not elsewhere:
        elsewhere = _left_unlabelled(session)
    # A set that comes back to a namespace finds its own inventory recorded as that of the former one.
    session.recorded = union(session.recorded, [key for key in elsewhere if key != place])
    wanted = union(keys, session.recorded)
    if request.remove_kept:
        wanted.append(Key(f"{CRD_GROUP}/v1", CRD_KIND, "", ""))
    session.snapshot.read_kinds(key for key in wanted if not _is_config_map(key) and not _is_namespace(key))
    session.recorded = union(session.recorded, _orphans(session, {*(key.identity for key in wanted), place.identity}))


def _orphans(session: Session, known: set[Key]) -> list[Key]:
    """Return, and name, objects of the set that no inventory records: a run that was cut or overtaken left them."""
    found: list[Key] = []
    for body in session.snapshot.everything():
        key = key_of(body)
        ours = body["metadata"].get("labels", {}).get(SET_LABEL) == session.request.set_name and is_managed(body)
        if ours and key.identity not in known and not is_kept_kind(key):
            found.append(key)
    if found:
        session.result.notices.append(f"of the set, but recorded nowhere until now: {names_of(found)}")
    return found


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


def _left_unlabelled(session: Session) -> list[Key]:
    """Return the same of namespaces that this collection leaves alone, kube-system and default among them.

    They carry no label of the set. One LIST tells, for which there is reason only where the set has no inventory.
    """
    request = session.request
    place = inventory_key(request.set_name, "")
    resource = session.kinds.find(place)
    if resource is None:
        return []

    def look() -> list[Json]:
        selectors = {"labelSelector": f"{SET_LABEL}={request.set_name}"}
        return list_objects(session.connection, place, resource, selectors)

    untold = f"it was not checked whether the set {request.set_name!r} was in another namespace before"
    bodies, notices = seen_or_told(look, untold)
    session.result.notices += notices
    left: list[Key] = []
    for body in bodies or []:
        key = key_of(body)
        if key.name == place.name and key.namespace != request.inventory_namespace and is_managed(body):
            left += [*recorded_keys(body), key]
    return left


def _is_namespace(key: Key) -> bool:
    return (key.group, key.kind) == ("", "Namespace")


def _is_config_map(key: Key) -> bool:
    return (key.group, key.kind) == ("", "ConfigMap")


def _apply_all(session: Session) -> None:
    request = session.request
    desired = [item.key for item in session.items]
    everything = union(desired, session.recorded)
    if request.set_name and not request.check:
        record(session, everything)
        if request.prune:
            # All that it records is recorded here now: who goes back there must not find it and look no further.
            remove(session, _former_inventories(session))
    if not session.result.failures:
        apply_waves(session)
    if session.result.failures:
        return
    if request.set_name:
        leftover = everything[len(desired) :]
        if request.prune:
            leftover = list(reversed(remove(session, reversed(leftover))))
        record(session, desired + leftover)
        say_what_is_going(session)
    end_turn(session)
    if request.wait and request.check:
        look_at_readiness(session)
    elif request.wait:
        wait_until_ready(session)
    else:
        session.result.unwaited = sum(is_workload(item.key.kind) for item in session.items)


def _former_inventories(session: Session) -> list[Key]:
    place = inventory_key(session.request.set_name, session.request.inventory_namespace)
    return [key for key in session.recorded if key != place and replace(key, namespace=place.namespace) == place]


def _take_turn(session: Session) -> None:
    """Keep other runs of the set away where anything is to be written, and read again what one of them changed."""
    place = inventory_key(session.request.set_name, session.request.inventory_namespace)
    if not (session.request.set_name and not session.request.check and _will_write(session, place)):
        return
    before = _version_of(session.snapshot.find(place))
    lease = take_turn(session)
    if not lease.waited and before == _version_of(get_object(session.connection, session.kinds, place)):
        return
    session.recorded = []
    session.result.notices = []
    session.told = {}
    _read_state(session)
    _refuse_all(session)


def _version_of(live: Json | None) -> str:
    return "" if live is None else str(live["metadata"].get("resourceVersion"))


def _will_write(session: Session, place: Key) -> bool:
    """Tell whether the run has anything to write to the server."""
    request, find = session.request, session.snapshot.find
    if request.released:
        return find(place) is not None
    if request.adopted:
        return bool(session.adopting)
    if request.absent:
        left = [*session.recorded, *(item.key for item in session.items if find(item.key))]
        kept = request.remove_kept and [*left, *_definitions_of_the_set(session)]
        return bool(find(place) or kept or not all(is_kept_kind(key) for key in left))
    everything = union((item.key for item in session.items), session.recorded)
    engine = request.engine or session.engine
    inventory = inventory_body(request.set_name, request.inventory_namespace, everything, engine)
    bodies = [(place, inventory), *((item.key, item.body) for item in session.items)]
    if not all(session.is_as_desired(key, body) for key, body in bodies):
        return True
    dropped = everything[len(session.items) :]
    return request.prune and not all(is_kept_kind(key) for key in dropped)


def _refuse_all(session: Session) -> None:
    """Note everything that forbids the run before anything is changed."""
    request = session.request
    _refuse_other_engine(session)
    if request.absent or request.released:
        return
    session.strangers = unlabelled(session)
    if not request.adopted:
        use_definitions(session)
    _refuse(session)
    find_adoptable(session) if request.adopted else refuse_others(session)


def _refuse_other_engine(session: Session) -> None:
    """Note that the set in the cluster was made by another engine: neither knows what the other one's is for."""
    request, made = session.request, session.engine
    if made and request.engine and made != request.engine:
        message = f"the set {request.set_name!r} in the cluster was made by the engine {made}, not {request.engine}"
        hint = f"take it back with rdma.fabric.teardown and rdma_fabric_engine: {made}, then run again"
        session.result.failures.append((None, ApiFault(Fault.CONFLICT, message, hint=hint)))


def _refuse(session: Session) -> None:
    """Note what forbids the run before anything is changed.

    That are objects of another set, objects that are being deleted, more objects than an inventory holds, and a batch
    without objects that would prune a whole set: a forgotten file must not cost a cluster its network.
    """
    request = session.request
    lost = [key for key in session.recorded if not is_kept_kind(key)]
    if lost and request.prune and not session.items:
        emptied = f"pruning would remove all of the set {request.set_name!r}: {names_of(lost)}"
        message = f"the input has no objects, so {emptied}"
        hint = "give the desired objects; to remove the set, use state: absent"
        session.result.failures.append((None, ApiFault(Fault.INVALID, message, hint=hint)))
    problem = size_problem(request.set_name, union((item.key for item in session.items), session.recorded))
    if request.set_name and problem:
        hint = "spread the objects over several sets; nothing was changed"
        session.result.failures.append((None, ApiFault(Fault.INVALID, problem, hint=hint)))
    for item in session.items:
        live = session.find(item.key)
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
    remaining: list[Key] = []
    for keys in _parts_of_removal(list(reversed(others))):
        if request.wait and session.going:
            # A workload may be what removes the finalizers of objects that were applied after it.
            remaining += keys
            continue
        remaining += remove(session, keys, remove_kept=request.remove_kept)
        if session.result.failures and not request.check:
            return
        # The inventory goes only when nothing is left that it is needed for.
        _wait_for_going(session)
    if session.result.failures and request.check:
        return
    place = inventory_key(request.set_name, request.inventory_namespace)
    if request.set_name and session.snapshot.find(place):
        if session.going:
            record(session, list(reversed(remaining)) + namespaces)
        else:
            remove(session, [place])
    if not session.result.failures:
        remove(session, reversed(namespaces), remove_kept=request.remove_kept)
    if request.wait and not request.check and not session.result.failures:
        wait_until_gone(session, [change.key for change in session.result.changes if change.action == DELETED])
    elif session.going:
        say_what_is_going(session)


def _parts_of_removal(keys: list[Key]) -> list[list[Key]]:
    """Return the keys in their order, a new list for each row of workloads."""
    parts: list[list[Key]] = [[]]
    for before, key in zip([None, *keys], keys):
        if is_workload(key.kind) and before is not None and not is_workload(before.kind):
            parts.append([])
        parts[-1].append(key)
    return parts


def _wait_for_going(session: Session) -> None:
    if session.request.wait and session.going:
        wait_until_gone(session, list(session.going))
        session.going = [key for key in session.going if session.snapshot.find(key)]


def _definitions_of_the_set(session: Session) -> list[Key]:
    """Return the Namespaces and CRDs that carry the set's label and were applied by this collection."""
    bodies = [*session.snapshot.all_of("", "Namespace"), *session.snapshot.all_of(CRD_GROUP, CRD_KIND)]
    owned = [body for body in bodies if body["metadata"]["labels"].get(SET_LABEL) == session.request.set_name]
    return [key_of(body) for body in owned if is_managed(body) and is_kept_kind(key_of(body))]


def _finished(session: Session) -> BatchResult:
    """Return the result, or raise it as an error when anything failed."""
    result = session.result
    result.requests = {verb: session.connection.sent[verb] for verb in ("list", "patch", "get", "delete")}
    if session.lease is not None:
        result.requests["lease"] = session.lease.requests
    for key, owner in session.used.items():
        session.tell(f"used as it is, of {owner}", key)
    result.notices += [f"{what}: {names_of(keys)}" for what, keys in session.told.items()]
    for reason, keys in session.unvalidated.items():
        result.notices.append(f"not validated by the server: {names_of(keys)}: {reason}")
    if session.restored:
        shown = [f"{key} ({', '.join(fields) or 'its record of fields'})" for key, fields in session.restored]
        more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
        result.notices.append(
            f"sent in every run though nothing changes: {'; '.join(shown[:MOST_NAMED])}{more}: the server stores"
            " something other than what was sent, as a mutating webhook changes it"
        )
    if not (session.request.absent or session.request.adopted):
        done = {change.key.identity for change in result.changes}
        result.not_applied = [item.key for item in session.items if item.key.identity not in done]
    if result.failures:
        raise BatchError(failure_text(result, check=session.request.check), result)
    return result


def take_turn(session: Session) -> Lease:
    """Take the Lease of the set; its namespace is made first where it is not there yet. Raises ApiFault.

    What somebody has left of a set whose namespace he deleted is removed without: no other run has a Lease there.
    """
    request = session.request
    lease = Lease(session.connection, request.set_name, request.inventory_namespace, request.progress)
    session.lease = lease
    try:
        lease.acquire()
    except ApiFault as fault:
        missing = fault.fault is Fault.NOT_FOUND and fault.details.get("kind") == "namespaces"
        if not missing:
            raise
        if request.absent:
            return lease
        make_namespace(session)
        lease.acquire()
    session.connection.guard = lease.keep
    return lease


def end_turn(session: Session) -> None:
    """Let the next run write to the set."""
    notice = "" if session.lease is None else session.lease.release()
    if notice:
        session.result.notices.append(notice)


WAVE = "release"
# k8s.io/apimachinery: an empty list is taken for none given, a list with an empty entry takes all records away.
_NO_RECORDS: list[Json] = [{}]


def release_all(session: Session) -> None:
    """Take label and record of the set off every object, and delete the set's inventory once all are released.

    Failures are left in the session's result. A later run goes on with what the inventory still records.
    """
    set_name = session.request.set_name

    def change_of(live: Json) -> Json:
        return without_set_label(live, set_name)

    def is_done(live: Json) -> bool:
        return not (is_managed(live) and (live["metadata"].get("labels") or {}).get(SET_LABEL) == set_name)

    for key in session.recorded:
        live = session.snapshot.find(key) or get_object(session.connection, session.kinds, key)
        if live is not None and not is_done(live):
            try:
                after = merge(session, key, live, change_of, is_done)
            except ApiFault as fault:
                session.result.failures.append((key, fault))
                if fault.fatal:
                    return
                continue
            session.result.changes.append(Change(key, WAVE, RELEASED, live, after))
    place = inventory_key(set_name, session.request.inventory_namespace)
    if not session.result.failures and session.snapshot.find(place) is not None:
        remove(session, [place])


def without_set_label(live: Json, set_name: str) -> Json:
    """Return the JSON merge patch that leaves this version of an object to nobody. Pure."""
    metadata = live["metadata"]
    labels = metadata.get("labels") or {}
    ours = {MANAGED_BY: MANAGER, SET_LABEL: set_name}
    records = [record for record in metadata.get("managedFields") or [] if not is_ours(record)]
    return {
        "metadata": {
            "resourceVersion": metadata.get("resourceVersion"),
            "labels": {name: None for name, value in ours.items() if labels.get(name) == value},
            "managedFields": records or _NO_RECORDS,
        }
    }
