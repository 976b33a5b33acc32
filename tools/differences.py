# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/differences.md, where the rendered objects differ from the operator's, from a recording and a table.

The recording is that of ``tests/fixtures/operator``: what the NVIDIA Network Operator made of a policy. The same policy
is rendered, the two are compared field by field, and docs/differences.yml says why each difference is there.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import yaml

from tools.checkout import CHECKOUT, COLLECTIONS, LINK, link_checkout
from tools.stored_form import leaves

TABLE = CHECKOUT / "docs" / "differences.yml"
PAGE = CHECKOUT / "docs" / "differences.md"
RECORDED = CHECKOUT / "tests" / "fixtures" / "operator"
NODES = ({"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-31-generic", "arch": "amd64"},)
SECTIONS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("Kubernetes", ("objects.json", "definitions.json"), {}),
    ("The driver's container", ("objects.json",), {"driver_source": "container", "driver_nodes": list(NODES)}),
    ("OpenShift", ("openshift.json",), {"openshift": True}),
)
"""Where the operator ran, the files with what it made there, and the settings that mean the same here."""

EVERY = "every object"
_FEW = 2
_COLLECTION = "ansible_collections.rdma.fabric.plugins"
_STATE = "nvidia.network-operator.state"
_COMPONENT = "app.kubernetes.io/component"
HEAD = """# Differences from the operator's objects

The NVIDIA Network Operator v26.4.1 was given its own example of a policy with every section, its three networks and a
pool, and for OpenShift the same without the driver and with nv-ipam's webhook. Its objects were recorded on an
API server, and are compared here with those that this collection renders from the same policy. Every difference is
listed with its reason, and a test fails if there is another one. Values set by the API server and the order of verbs in
rules are not differences; configurations are compared by content. With the driver's container
(`rdma_fabric_driver_source: container`), and for OpenShift, only objects that differ from those before are
compared. Written by `python -m tools.differences` from `differences.yml`.
"""

Object = dict[str, Any]
Reason = dict[str, str]


class Difference(NamedTuple):
    """A field that is not the same in an object of ours and of the operator; no field for an object that one lacks."""

    component: str
    object: str
    field: str
    ours: str
    theirs: str


def reasons() -> list[Reason]:
    """Return the table ``[{"objects", "field", "reason"}]``; the first two are shell patterns."""
    found: list[Reason] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found


def reason_of(difference: Difference, table: Iterable[Reason]) -> Reason | None:
    """Return the entry of the table that explains a difference, None where there is none."""
    for entry in table:
        if fnmatchcase(difference.object, entry["objects"]) and fnmatchcase(difference.field, entry["field"]):
            return entry
    return None


def differences(files: Sequence[str], settings: Object) -> list[Difference]:
    """Return the differences between what was recorded in ``files`` and what is rendered with ``settings``.

    On OpenShift only those objects were recorded that differ from the ones elsewhere, so no other is compared. Where
    the driver is a container, only those are that it changes.
    """
    theirs = {identity(body): body for name in files for body in json.loads((RECORDED / name).read_text("utf-8"))}
    ours = {identity(body): body for body in rendered(settings)}
    if "driver_source" in settings:
        plain = {identity(body): body for body in rendered({})}
        changed = {name for name in {*ours, *plain} if ours.get(name) != plain.get(name)}
        ours, theirs = ({name: side[name] for name in changed & set(side)} for side in (ours, theirs))
    found = []
    for name in sorted({*theirs, *(() if "openshift" in settings else ours)}):
        component = component_of(ours.get(name), theirs.get(name))
        if name not in ours or name not in theirs:
            found.append(
                Difference(component, name, "", *("made" if name in side else "none" for side in (ours, theirs)))
            )
            continue
        fields = [dict(leaves(body)) for body in (ours[name], theirs[name])]
        for field in sorted({*fields[0], *fields[1]}):
            shown = apart(fields[0].get(field), fields[1].get(field))
            if shown[0] != shown[1]:
                found.append(Difference(component, name, field, *shown))
    return found


def rendered(settings: Object) -> list[Object]:
    """Return what is rendered of the recorded policy."""
    documents = importlib.import_module(f"{_COLLECTION}.plugin_utils._documents.documents")
    load = importlib.import_module(f"{_COLLECTION}.module_utils._fabric.input.load")
    rendering = importlib.import_module(f"{_COLLECTION}.module_utils._fabric.rendering.render")
    given = documents.read_text("policy.yaml", (RECORDED / "policy.yaml").read_text(encoding="utf-8"))
    for document in given:
        if "openshift" in settings and document.content["kind"] == "NicClusterPolicy":
            document.content["spec"]["nvIpam"]["enableWebhook"] = True
    spec, _notices = load.build_spec(given, {}, {"nfd": False, **settings}, {})
    found: list[Object] = rendering.objects_of(rendering.render(spec))
    return found


def identity(body: Object) -> str:
    """Return what the page calls an object."""
    return f"{body['kind']} {body['metadata']['name']}"


def component_of(ours: Object | None, theirs: Object | None) -> str:
    """Return the component that an object belongs to, by our label or else by the operator's."""
    if ours is not None:
        return str(ours["metadata"]["labels"][_COMPONENT])
    state = str((theirs or {})["metadata"]["labels"][_STATE])
    return state[len("state-") :]


def apart(ours: Any, theirs: Any) -> tuple[str, str]:
    """Return two values as the page shows them; of two lists only what the other has not."""
    if isinstance(ours, list) or isinstance(theirs, list):
        lists = [value if isinstance(value, list) else [] for value in (ours, theirs)]
        ours, theirs = ([item for item in lists[n] if item not in lists[1 - n]] or None for n in (0, 1))
    return shown(ours), shown(theirs)


def shown(value: Any) -> str:
    """Return a value as a cell shows it."""
    if value in (None, "set"):
        return value or "none"
    items = value if isinstance(value, list) else [value]
    texts = [item if isinstance(item, str) else json.dumps(item, sort_keys=True) for item in items]
    return ", ".join(f"`{text}`" for text in texts)


def page(table: Sequence[Reason]) -> str:
    """Return the text of the page. Raises ValueError where a difference has no reason."""
    parts = [HEAD]
    for title, files, settings in SECTIONS:
        found = differences(files, dict(settings))
        compared = sorted({each.object for each in found if each.field})
        parts += [f"## {title}", "", f"{len(compared)} objects are compared.", ""]
        parts += ["| Component | Object | Field | Here | The operator | Why |", "|---|---|---|---|---|---|"]
        parts += [*rows(found, table, compared), ""]
    return "\n".join(parts)


def rows(found: Iterable[Difference], table: Sequence[Reason], compared: Sequence[str]) -> Iterator[str]:
    """Yield the rows of a section: one for the fields that differ alike, for one reason, in the same objects."""
    members: dict[tuple[str, ...], list[Difference]] = defaultdict(list)
    for each in found:
        entry = reason_of(each, table)
        if entry is None:
            raise ValueError(f"no entry of {TABLE.name} says why: {each}")
        members[each.field, each.ours, each.theirs, entry["reason"]].append(each)
    fields: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for (field, ours, theirs, reason), group in sorted(members.items(), key=lambda each: each[0][0]):
        names = [each.object for each in group]
        rest = [name for name in compared if name not in names] if field else [*compared]
        whose = ", ".join(sorted({each.component for each in group})), written(names)
        if len(rest) <= _FEW:
            whose = "all", " but ".join([EVERY, *([written(rest)] if rest else [])])
        fields[(*whose, ours, theirs, reason)].append(f"`{field}`" if field else "the object itself")
    for (components, objects, ours, theirs, reason), paths in fields.items():
        cells = [components, objects, ", ".join(paths), ours, theirs, reason]
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def written(names: Iterable[str]) -> str:
    """Return the names of objects as a cell shows them."""
    return ", ".join(f"`{name}`" for name in names)


def violations(table: Sequence[Reason]) -> list[str]:
    """Return the differences without a reason, and the reasons of no difference."""
    found = [each for _title, files, settings in SECTIONS for each in differences(files, dict(settings))]
    used = [reason_of(each, table) for each in found]
    missing = [f"no reason: {each}" for each, entry in zip(found, used) if entry is None or not entry.get("reason")]
    return missing + [f"explains no difference: {entry}" for entry in table if entry not in used]


def main() -> None:
    """Write the page."""
    link_checkout(LINK, CHECKOUT)
    sys.path.insert(0, str(COLLECTIONS))
    PAGE.write_text(page(reasons()), encoding="utf-8")


if __name__ == "__main__":
    main()
