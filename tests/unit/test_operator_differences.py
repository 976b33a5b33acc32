# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every difference from the operator's recorded objects is a row of docs/differences.md, and every row is one."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests import recorded_operator
from ansible_collections.rdma.fabric.tests.recorded_operator import Case
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

Object = dict[str, Any]
PAGE = (CHECKOUT / "docs" / "differences.md").read_text(encoding="utf-8")
ALWAYS, ON_HOSTS, IN_CONTAINER, OPENSHIFT = (
    "Everywhere",
    "The driver on the hosts",
    "The driver's container",
    "OpenShift",
)
EDGES, INPUTS = "Unusual values", "Inputs"
"""Headings of the page."""

RUNS: list[tuple[tuple[str, ...], Object, tuple[str, ...]]] = [
    (("objects.json", "definitions.json"), {}, (ALWAYS, ON_HOSTS)),
    (("openshift.json",), {"openshift": True}, (ALWAYS, OPENSHIFT)),
]
"""Files with what the operator made of one policy, the settings that mean the same here, and headings that apply."""

THE_OBJECT = "the object"
ACCEPTED = "accepted"
ANY = "..."


class Row(NamedTuple):
    """A row of the page about objects."""

    section: str
    object: str
    field: str
    ours: str
    theirs: str
    reason: str


class InputRow(NamedTuple):
    """A row of the page about inputs that one side refuses."""

    field: str
    ours: str
    theirs: str
    reason: str


class Difference(NamedTuple):
    """A field that is not the same in an object of ours and of the operator, or an object that one lacks."""

    where: str
    sections: tuple[str, ...]
    object: str
    field: str
    ours: str
    theirs: str


def cells() -> Iterator[tuple[str, list[str]]]:
    """Yield (heading, cells) of every row of the page."""
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        for line in text.splitlines():
            if line.startswith("| ") and not line.startswith(("| Object |", "| Field |")):
                yield title, [cell.strip() for cell in line.strip("|").split("|")]


def rows() -> list[Row]:
    """Return the rows of the page about objects."""
    return [
        Row(title, name.strip("`"), field.strip("`"), *rest)
        for title, (name, field, *rest) in cells()
        if title != INPUTS
    ]


def input_rows() -> list[InputRow]:
    """Return the rows of the page about inputs."""
    return [InputRow(*(cell.strip("`") for cell in found)) for title, found in cells() if title == INPUTS]


def row_of(difference: Difference, table: Sequence[Row]) -> Row | None:
    """Return the first row that matches a difference, in the order of its headings."""
    name, field = difference.object, difference.field
    for section in difference.sections:
        for row in table:
            if row.section == section and fnmatchcase(name, row.object) and fnmatchcase(field, row.field):
                return row
    return None


def identity(body: Object) -> str:
    """Return what the page calls an object."""
    return f"{body['kind']} {body['metadata']['name']}"


def between(
    where: str, sections: tuple[str, ...], ours: Iterable[Object], theirs: Iterable[Object], *, all_of_ours: bool = True
) -> Iterator[Difference]:
    """Yield the differences between what is rendered and what was recorded."""
    mine, other = ({identity(body): body for body in side} for side in (ours, theirs))
    for name in sorted({*other, *(mine if all_of_ours else ())}):
        if name not in mine or name not in other:
            made = ("made" if name in side else "none" for side in (mine, other))
            yield Difference(where, sections, name, THE_OBJECT, *made)
            continue
        one, two = (dict(recorded_operator.leaves(side[name])) for side in (mine, other))
        for field in sorted({*one, *two}):
            shown = apart(one.get(field), two.get(field))
            if shown[0] != shown[1]:
                yield Difference(where, sections, name, field, *shown)


def of_one_policy() -> Iterator[Difference]:
    """Yield the differences of the policy with every section.

    On OpenShift only those objects were recorded that differ from the ones elsewhere, so no other is compared.
    """
    for files, settings, sections in RUNS:
        theirs = [
            body for name in files for body in json.loads((recorded_operator.FOLDER / name).read_text(encoding="utf-8"))
        ]
        ours = recorded_operator.rendered(settings)
        yield from between(files[0], sections, ours, theirs, all_of_ours="openshift" not in settings)


def of_case(case: Case) -> Iterator[Difference | InputRow]:
    """Yield the differences of an input of the corpus; as an incomplete row, why one side alone refuses it."""
    container = "driver_source" in case.settings
    sections = (EDGES, ALWAYS, IN_CONTAINER if container else ON_HOSTS)
    try:
        ours = recorded_operator.rendered_of(case)
    except InvalidInput as refused:
        if not case.refused:
            for each in refused.violations:
                yield InputRow(each.path, each.problem, ACCEPTED, case.name)
        return
    if case.refused:
        yield InputRow(case.refused, ACCEPTED, case.refused, case.name)
        return
    openshift = (OPENSHIFT,) if "openshift" in case.settings else ()
    yield from between(case.name, (*openshift, *sections), ours, case.objects)


@lru_cache(maxsize=None)
def of_corpus() -> list[Difference | InputRow]:
    """Return what :func:`of_case` yields of every input."""
    return [each for case in recorded_operator.corpus() for each in of_case(case)]


def explains(row: InputRow, found: InputRow) -> bool:
    """Tell whether a row is about an input that one side refuses."""
    return all(said in text for said, text in zip(row[:3], found[:3]))


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


def violations(table: Sequence[Row], inputs: Sequence[InputRow]) -> list[str]:
    """Return the differences that no row explains or that are shown wrongly, and the rows that explain none."""
    found: list[str] = []
    used: set[Row | InputRow | None] = set()
    for difference in (*of_one_policy(), *of_corpus()):
        if isinstance(difference, InputRow):
            rows_of_it = [row for row in inputs if explains(row, difference)]
            used.update(rows_of_it)
            found += [] if rows_of_it else [f"no reason: {difference}"]
            continue
        row = row_of(difference, table)
        used.add(row)
        if row is None or not row.reason:
            found.append(f"no reason: {difference}")
        elif not all(cell in (ANY, value) for cell, value in zip(row[3:5], difference[4:])):
            found.append(f"shown otherwise: {difference}")
    return found + [f"explains no difference: {row}" for row in (*table, *inputs) if row not in used]


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    none_of(violations(rows(), input_rows()))


def test_what_the_page_lacks_has_too_much_or_shows_otherwise_is_named() -> None:
    idle = Row(ALWAYS, "Secret *", "data", "set", "none", "because")
    refused = InputRow("spec.mtu", "odd", ACCEPTED, "because")
    changed = [row._replace(theirs="none") if row.field.endswith("args") else row for row in rows()]
    found = violations([*(row for row in changed if row.field != "rules"), idle], [*input_rows()[1:], refused])
    assert {each.partition(":")[0] for each in found} == {"explains no difference", "no reason", "shown otherwise"}
    assert {each.partition("(")[2].partition(",")[0] for each in found if each.startswith("explains")} == {
        "section='Everywhere'",
        "field='spec.mtu'",
    }
    assert any(input_rows()[0].field in each for each in found if each.startswith("no reason"))


def test_a_changed_object_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorded_operator.rendered({})
    (multus,) = [body for body in made if identity(body) == "DaemonSet kube-multus-ds"]
    multus["spec"]["template"]["spec"]["hostNetwork"] = False
    kept = [body for body in made if identity(body) != "DaemonSet nv-ipam-node"]
    monkeypatch.setattr(recorded_operator, "rendered", lambda _settings: kept)
    found = {each[2:4]: each[4:] for each in of_one_policy()}
    assert found["DaemonSet kube-multus-ds", "spec.template.spec.hostNetwork"] == ("`false`", "`true`")
    assert found["DaemonSet nv-ipam-node", THE_OBJECT] == ("none", "made")


def test_of_two_lists_only_what_the_other_lacks_is_shown() -> None:
    assert apart(["a", "b"], ["b", "c"]) == ("`a`", "`c`")
    assert apart(["a"], None) == ("`a`", "none")
    assert apart(["a"], ["a"]) == ("none", "none")
