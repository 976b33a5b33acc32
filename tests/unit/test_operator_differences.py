# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every difference from the operator's recorded objects is a row of docs/differences.md, and every row is one."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any, Iterator, NamedTuple, Sequence

import pytest

from ansible_collections.rdma.fabric.tests import recorded_operator
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

Object = dict[str, Any]
PAGE = (CHECKOUT / "docs" / "differences.md").read_text(encoding="utf-8")
NODES = [{"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-31-generic", "arch": "amd64"}]
RUNS: dict[str, tuple[tuple[str, ...], Object]] = {
    "Kubernetes": (("objects.json", "definitions.json"), {}),
    "The driver's container": (("objects.json",), {"driver_source": "container", "driver_nodes": NODES}),
    "OpenShift": (("openshift.json",), {"openshift": True}),
}
"""By heading of the page: the files with what the operator made, and the settings that mean the same here."""

ALWAYS = "Everywhere"
THE_OBJECT = "the object"
ANY = "..."


class Row(NamedTuple):
    """A row of the page."""

    section: str
    object: str
    field: str
    ours: str
    theirs: str
    reason: str


class Difference(NamedTuple):
    """A field that is not the same in an object of ours and of the operator, or an object that one lacks."""

    run: str
    object: str
    field: str
    ours: str
    theirs: str


def rows() -> list[Row]:
    """Return the rows of the page."""
    found = []
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        for line in text.splitlines():
            if line.startswith("| ") and not line.startswith("| Object |"):
                name, field, *rest = (cell.strip() for cell in line.strip("|").split("|"))
                found.append(Row(title, name.strip("`"), field.strip("`"), *rest))
    return found


def row_of(difference: Difference, table: Sequence[Row]) -> Row | None:
    """Return the first row that matches a difference."""
    for row in table:
        here = row.section in (ALWAYS, difference.run)
        if here and fnmatchcase(difference.object, row.object) and fnmatchcase(difference.field, row.field):
            return row
    return None


def identity(body: Object) -> str:
    """Return what the page calls an object."""
    return f"{body['kind']} {body['metadata']['name']}"


def differences(run: str) -> Iterator[Difference]:
    """Yield the differences between what was recorded and what is rendered.

    On OpenShift only those objects were recorded that differ from the ones elsewhere, so no other is compared. Where
    the driver is a container, only those are that it changes.
    """
    files, settings = RUNS[run]
    theirs = {
        identity(body): body
        for name in files
        for body in json.loads((recorded_operator.FOLDER / name).read_text(encoding="utf-8"))
    }
    ours = {identity(body): body for body in recorded_operator.rendered(settings)}
    if "driver_source" in settings:
        plain = {identity(body): body for body in recorded_operator.rendered({})}
        changed = {name for name in {*ours, *plain} if ours.get(name) != plain.get(name)}
        ours, theirs = ({name: side[name] for name in changed & set(side)} for side in (ours, theirs))
    for name in sorted({*theirs, *(() if "openshift" in settings else ours)}):
        if name not in ours or name not in theirs:
            yield Difference(run, name, THE_OBJECT, *("made" if name in side else "none" for side in (ours, theirs)))
            continue
        one, other = (dict(recorded_operator.leaves(body)) for body in (ours[name], theirs[name]))
        for field in sorted({*one, *other}):
            shown = apart(one.get(field), other.get(field))
            if shown[0] != shown[1]:
                yield Difference(run, name, field, *shown)


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
    return ", ".join(f"`{item if isinstance(item, str) else json.dumps(item, sort_keys=True)}`" for item in items)


def violations(table: Sequence[Row]) -> list[str]:
    """Return the differences that no row explains or that are shown wrongly, and the rows that explain none."""
    found, used = [], set()
    for difference in (each for run in RUNS for each in differences(run)):
        row = row_of(difference, table)
        used.add(row)
        if row is None or not row.reason:
            found.append(f"no reason: {difference}")
        elif not all(cell in (ANY, value) for cell, value in zip(row[3:5], difference[3:])):
            found.append(f"shown otherwise: {difference}")
    return found + [f"explains no difference: {row}" for row in table if row not in used]


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    none_of(violations(rows()))


def test_what_the_page_lacks_has_too_much_or_shows_otherwise_is_named() -> None:
    idle = Row(ALWAYS, "Secret *", "data", "set", "none", "because")
    changed = [row._replace(theirs="none") if row.field.endswith("args") else row for row in rows()]
    found = violations([*(row for row in changed if row.field != "rules"), idle])
    assert sorted(each.partition(":")[0] for each in found) == [
        "explains no difference",
        "no reason",
        "shown otherwise",
    ]


def test_a_changed_object_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorded_operator.rendered({})
    (multus,) = [body for body in made if identity(body) == "DaemonSet kube-multus-ds"]
    multus["spec"]["template"]["spec"]["hostNetwork"] = False
    kept = [body for body in made if identity(body) != "DaemonSet nv-ipam-node"]
    monkeypatch.setattr(recorded_operator, "rendered", lambda _settings: kept)
    found = {each[1:3]: each[3:] for each in differences("Kubernetes")}
    assert found["DaemonSet kube-multus-ds", "spec.template.spec.hostNetwork"] == ("`false`", "`true`")
    assert found["DaemonSet nv-ipam-node", THE_OBJECT] == ("none", "made")


def test_of_two_lists_only_what_the_other_lacks_is_shown() -> None:
    assert apart(["a", "b"], ["b", "c"]) == ("`a`", "`c`")
    assert apart(["a"], None) == ("`a`", "none")
    assert apart(["a"], ["a"]) == ("none", "none")
