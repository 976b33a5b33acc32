# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose is a live object?

What a controller, a chart or a GitOps tool manages is neither changed nor deleted here: it would change it back, or
lose what it needs. Only a definition of a kind is used with others, whoever brought it.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..api.errors import ApiFault, Fault
from ..api.kinds import CRD_GROUP, CRD_KIND
from ..api.snapshot import get_object, list_objects
from ..objects.duplicates import leaving_out
from ..objects.field_owners import owners_of, owners_of_record
from ..objects.objects import MANAGED_BY, MANAGER, SET_LABEL, Item, Json, Key
from ..objects.operators import NETWORK, STATE_LABEL, is_custom_resource, is_of_operator, without_operator
from ..objects.projection import applied_fields, is_ours
from .session import MOST_NAMED, UNCHANGED, Change, Session

# Labels and annotations that a tool puts on each object it manages, and the tool.
_MARKS = {
    STATE_LABEL: "the NVIDIA Network Operator",
    NETWORK: "the SR-IOV Network Operator",
    "olm.owner": "the Operator Lifecycle Manager",
    "olm.managed": "the Operator Lifecycle Manager",
    "olm.operatorframework.io/owner-name": "the Operator Lifecycle Manager",
    "meta.helm.sh/release-name": "Helm",
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
    "kapp.k14s.io/app": "kapp",
    "objectset.rio.cattle.io/hash": "k3s, RKE2 or Fleet",
}
# Of others it says which release an object is of, and Argo CD tracks by it, as it did by default before 3.0.
_INSTANCE = "app.kubernetes.io/instance"
_NAME_LABEL = "f:kubernetes.io/metadata.name"
# Up to so many new objects of a kind in a namespace are read one by one, more by one LIST.
_MOST_READS = 10
_HINT = "remove it there, or leave it out here; what nothing manages any longer is taken over"
_HINT_OF_OPERATORS = "leave it out here, or stop the operator and run rdma.fabric.adopt, which takes it over as it is"


def other_owner(live: Mapping[str, Any], desired: Mapping[str, Any] | None = None) -> str:
    """Return who else manages a live object, an empty string for nobody.

    What ``desired`` says itself (an owner reference, a label) is no other owner, nor is a label that we applied.
    """
    metadata = live["metadata"]
    wanted = (desired or {}).get("metadata") or {}
    ours = {str(entry.get("uid")) for entry in wanted.get("ownerReferences") or [] if isinstance(entry, dict)}
    for entry in metadata.get("ownerReferences") or []:
        if not isinstance(entry, dict) or str(entry.get("uid")) in ours:
            continue
        if entry.get("controller") is True or is_custom_resource(entry):
            return f"the controller of {entry.get('kind')} {entry.get('name')}"
    marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    own = {**(wanted.get("labels") or {}), **(wanted.get("annotations") or {})}
    for mark in _applied_marks(live):
        own.setdefault(mark, marks.get(mark))
    for mark, owner in _MARKS.items():
        if marks.get(mark) and own.get(mark) != marks[mark]:
            return f"{owner} ({mark}: {marks[mark]})"
    if marks.get(_INSTANCE) and own.get(_INSTANCE) != marks[_INSTANCE]:
        setters = owners_of_record(live, ("f:metadata", "f:labels", f"f:{_INSTANCE}"))
        if any(each.manager.startswith("argocd-") for each in setters):
            return f"Argo CD ({_INSTANCE}: {marks[_INSTANCE]})"
    manager = marks.get(MANAGED_BY)
    if manager and manager not in (MANAGER, own.get(MANAGED_BY)):
        return f"{manager} ({MANAGED_BY})"
    return ""


def _applied_marks(live: Mapping[str, Any]) -> set[str]:
    """Return the labels and annotations that this collection put on a live object."""
    found: set[str] = set()
    for entry in live["metadata"].get("managedFields") or []:
        fields = entry.get("fieldsV1") if isinstance(entry, dict) and is_ours(entry) else None
        metadata = fields.get("f:metadata") if isinstance(fields, dict) else None
        for part in ("f:labels", "f:annotations"):
            recorded = metadata.get(part) if isinstance(metadata, dict) else None
            found |= {name[2:] for name in recorded} if isinstance(recorded, dict) else set()
    return found


def made_by_others(live: Mapping[str, Any]) -> bool:
    """Tell whether others have made a Namespace, or apply it too, by what the server has recorded.

    The server sets the label of its name when it is made, and records that for who sends a POST, never for an apply.
    """
    for entry in live["metadata"].get("managedFields") or []:
        if isinstance(entry, dict) and not is_ours(entry) and not entry.get("subresource"):
            fields = entry.get("fieldsV1")
            metadata = fields.get("f:metadata") if isinstance(fields, dict) else None
            labels = metadata.get("f:labels") if isinstance(metadata, dict) else None
            if entry.get("operation") == "Apply" or _NAME_LABEL in (labels or {}):
                return True
    return False


def refuse_others(session: Session) -> None:
    """Note, before anything is changed, each desired object that somebody else manages.

    A Namespace is shared by what is in it: who made it keeps it, and this run only adds its labels.
    """
    for item, live, owner in objects_of_others(session):
        if (item.key.group, item.key.kind) == ("", "Namespace"):
            session.result.notices.append(f"{item.key} is managed by {owner}; labels of it are added beside its own")
        else:
            hint = _HINT_OF_OPERATORS if is_adoptable(live, item.body) else _HINT
            fault = ApiFault(Fault.CONFLICT, f"{item.key} is managed by {owner}", hint=hint)
            session.result.failures.append((item.key, fault))


def use_definitions(session: Session) -> None:
    """Leave each definition that others brought as it is where it serves what is desired, as no part of the set.

    One that does not is replaced where nobody manages it and no object would lose anything, else the run is refused.
    Nobody's, as a release leaves it, becomes a part of the set in the same way.
    """
    for item in session.items if session.request.set_name else []:
        live = session.find(item.key) if (item.key.group, item.key.kind) == (CRD_GROUP, CRD_KIND) else None
        if live is None or live["metadata"].get("deletionTimestamp") or is_of_operator(live):
            continue
        manager = other_owner(live, item.body)
        if not manager and _is_of_set(live, session.request.set_name):
            continue
        owner = manager or _brought_by(live, session.request.set_name)
        lacks, lost = lacking(item.body, live), lacking(live, item.body)
        if not lacks and (owner or lost):
            session.used[item.key.identity] = owner or "nobody"
            session.result.changes.append(Change(item.key, item.wave, UNCHANGED, live, live))
        elif lacks and (manager or lost):
            message = f"{item.key} of {owner or 'nobody'} lacks {named(lacks, MOST_NAMED)}"
            if lost:
                message += f"; by the one of this run, objects would lose {named(lost, MOST_NAMED)}"
            hint = f"{leaving_out(item.body)}, or update the definition where it comes from"
            session.result.failures.append((item.key, ApiFault(Fault.CONFLICT, message, hint=hint)))
    failed = {key.identity for key, _fault in session.result.failures if key is not None}
    session.items = [item for item in session.items if item.key.identity not in {*session.used, *failed}]
    session.recorded = [key for key in session.recorded if key.identity not in session.used]


def _is_of_set(live: Json, set_name: str) -> bool:
    """Tell whether a definition is as a run of the set made it: nobody has replaced it since."""
    fields = (applied_fields(live, str(live.get("apiVersion"))) or {}).get("f:spec")
    return isinstance(fields, dict) and "f:versions" in fields and _label_of(live) in ("", set_name)


def _label_of(live: Json) -> str:
    return str((live["metadata"].get("labels") or {}).get(SET_LABEL) or "")


def _brought_by(live: Json, set_name: str) -> str:
    """Return who a definition is of that nobody marks as managed, an empty string where nobody is known."""
    if _label_of(live) not in ("", set_name):
        return f"the set {_label_of(live)!r}"
    managers = {owner.manager: None for owner in owners_of(live, ["spec", "versions"])}
    return f"others ({', '.join(managers)})" if managers else ""


def objects_of_others(session: Session) -> list[tuple[Item, Json, str]]:
    """Return each desired object that somebody else manages, as it is, and who that is."""
    live = [(item, session.find(item.key)) for item in session.items]
    owned = [(item, body, other_owner(body, item.body)) for item, body in live if body is not None]
    return [each for each in owned if each[2]]


def is_adoptable(live: Json, desired: Json) -> bool:
    """Tell whether an operator that this collection replaces manages a live object, and nobody else."""
    return is_of_operator(live) and not other_owner(without_operator(live), desired)


def unlabelled(session: Session) -> dict[Key, Json]:
    """Return the desired objects that exist without a set's label; nothing is asked where none is missing."""
    if not session.request.set_name:
        return {}
    places: dict[tuple[str, str, str], list[Item]] = {}
    for item in session.items:
        known = session.snapshot.find(item.key) is not None or not session.snapshot.is_served(item.key)
        if not known:
            places.setdefault((item.key.api_version, item.key.kind, item.key.namespace), []).append(item)
    absent = _absent_namespaces(session, places)
    found: dict[Key, Json] = {}
    for (api_version, kind, namespace), items in places.items():
        keys = [item.key for item in items]
        resource = session.kinds.find(keys[0])
        if resource is None or namespace in absent:
            continue
        if len(keys) > _MOST_READS:
            bodies = list_objects(session.connection, Key(api_version, kind, namespace, ""), resource, {})
            names = {body["metadata"]["name"]: body for body in bodies}
            found.update({key: names[key.name] for key in keys if key.name in names})
        else:
            read = {key: get_object(session.connection, session.kinds, key) for key in keys}
            found.update({key: body for key, body in read.items() if body is not None})
    return found


def _absent_namespaces(session: Session, places: Mapping[tuple[str, str, str], list[Item]]) -> set[str]:
    """Return the namespaces that do not exist yet: nothing can be in them."""
    wanted = {namespace for _version, _kind, namespace in places if namespace}
    absent: set[str] = set()
    for name in sorted(wanted):
        key = Key("v1", "Namespace", "", name)
        try:
            if session.snapshot.find(key) is None and get_object(session.connection, session.kinds, key) is None:
                absent.add(name)
        except ApiFault as fault:
            # Who works inside a namespace need not be allowed to read it.
            if fault.fault is not Fault.FORBIDDEN:
                raise
    return absent


# What objects may hold by one CustomResourceDefinition, and not by another one of the same kind. Pure.
#
# Several charts bring the same definitions, each of the release that it was made for. The API server drops what a
# definition does not know, also from objects that it stores already, once they are written again.
# Every object has these, whether its definition names them or not.
_OF_EVERY_OBJECT = frozenset(("apiVersion", "kind", "metadata"))
_PRESERVES = "x-kubernetes-preserve-unknown-fields"


def lacking(wanted: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return what objects of the definition ``wanted`` may have and ``other`` does not serve, without repetition.

    Those are versions, fields and values. Patterns, limits and required fields are left to the server, which judges
    each object by them.
    """
    return list(dict.fromkeys(_lacking(wanted.get("spec") or {}, other.get("spec") or {})))


def _lacking(wanted: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    if wanted.get("scope") != other.get("scope"):
        yield f"the scope {wanted.get('scope')}"
    served = {version.get("name"): version for version in other.get("versions") or [] if version.get("served")}
    for version in wanted.get("versions") or []:
        found = served.get(version.get("name"))
        if version.get("served") and found is None:
            yield f"the version {version.get('name')}"
        elif found is not None:
            if "status" in (version.get("subresources") or {}) and "status" not in (found.get("subresources") or {}):
                yield "the subresource status"
            yield from _unknown(_schema(version), _schema(found), "")


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {_PRESERVES: True}
    fields = {name: below for name, below in (schema.get("properties") or {}).items() if name not in _OF_EVERY_OBJECT}
    return {**schema, "properties": fields}


def _unknown(wanted: Any, other: Any, path: str) -> Iterator[str]:
    """Yield the paths of what fits one schema and not another; of a map and of a list, ``*`` is any item."""
    if not isinstance(other, Mapping) or other.get(_PRESERVES):
        # A schema that is ``true`` takes anything.
        return
    if not isinstance(wanted, Mapping) or wanted.get(_PRESERVES):
        yield f"{path}.*".lstrip(".")
        return
    kinds = wanted.get("type"), other.get("type")
    if all(kinds) and kinds[0] != kinds[1] and kinds != ("integer", "number"):
        yield f"{path} ({kinds[0]})"
        return
    values = [str(value) for value in wanted.get("enum") or [] if value not in (other.get("enum") or [value])]
    if values:
        yield f"{path} ({', '.join(values)})"
    fields, anything = other.get("properties") or {}, other.get("additionalProperties")
    for name, below in (wanted.get("properties") or {}).items():
        place = f"{path}.{name}" if path else name
        if name in fields or anything:
            yield from _unknown(below, fields.get(name, anything), place)
        else:
            yield place
    for key in ("additionalProperties", "items"):
        if wanted.get(key):
            if other.get(key):
                yield from _unknown(wanted[key], other[key], f"{path}.*")
            else:
                yield f"{path}.*".lstrip(".")
