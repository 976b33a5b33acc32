# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every field of every kind: a slip in its name or type is reported at its path, with the next step."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import (
    Document,
    Findings,
    Place,
    path_text,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.schema import (
    Field,
    Model,
    mapping,
    record,
    refused,
    text,
    walk,
    whole,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.helm_values import CHART
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import MODELS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

ALL = {**MODELS, "values": CHART}


class Member(NamedTuple):
    """One field of one kind, where the record that holds it stands."""

    model: Model
    owner: str
    name: str
    field: Field


EVERY_FIELD = {
    ".".join(part for part in (kind, owner, name) if part): Member(model, owner, name, field)
    for kind, model in ALL.items()
    for owner, name, field in walk(model.root)
}
SIBLINGS = {(id(member.model), member.owner, member.name) for member in EVERY_FIELD.values()}
WRONG = {
    "text": [5, True, ["a"], {"a": 1}],
    "whole": ["5", 1.5, True, [5], {}],
    "flag": ["true", 1, [], {}],
    "record": ["text", 1, [], True],
    "mapping": ["text", 1, [], True],
    "series": ["text", 1, {}, True],
    "quantity": ["much", True, [], {}],
}


def nested(owner: str, leaf: dict[str, Any]) -> Any:
    """Return a value that holds ``leaf`` at the path ``owner`` (``a.b[].c``)."""
    value: Any = leaf
    for part in reversed(owner.split(".") if owner else []):
        name = part.rstrip("[]")
        for _level in range(part.count("[]")):
            value = [value]
        value = {name: value} if name else value
    return value


def findings_of(model: Model, value: Any) -> Findings:
    findings = Findings()
    model.read(value, Place(findings, Document("policy.yaml", value), ("spec",)))
    return findings


def at(findings: Findings, path: str) -> list[Violation]:
    return [violation for violation in findings.violations if violation.path == path]


def full_path(owner: str, name: str) -> str:
    return ".".join(part for part in ("spec", owner.replace("[]", "[0]"), name) if part)


def quoted(owner: str, name: str) -> str:
    """Return the path of a member whose name may need quotes."""
    return full_path(owner, "") + path_text(("x", name))[1:]


def judge(rule: Callable[[Member], Iterator[str]]) -> None:
    """Hold every field against one rule; fail with all that break it, each with its name and what is wrong."""
    none_of(f"{place}: {complaint}" for place, member in EVERY_FIELD.items() for complaint in complaints(rule, member))


def complaints(rule: Callable[[Member], Iterator[str]], member: Member) -> list[str]:
    """Return what ``rule`` says of one field; an exception is a complaint too, so that the others are still judged."""
    try:
        return list(rule(member))
    except Exception as error:
        return [f"raises {error!r}"]


def read_as(member: Member, leaf: dict[str, Any]) -> Findings:
    """Return the findings about a document that has ``leaf`` where the field belongs."""
    return findings_of(member.model, nested(member.owner, leaf))


def test_there_are_fields_to_judge() -> None:
    assert len(EVERY_FIELD) > 500


def test_a_misspelt_field_is_reported_with_its_path_and_the_right_name() -> None:
    def rule(member: Member) -> Iterator[str]:
        name = member.name
        for typo in (name[:-1], f"{name}x", name.upper() if name.upper() != name else name.lower()):
            # One letter is near to no name.
            if (id(member.model), member.owner, typo) in SIBLINGS or len(typo) == 1:
                continue
            found = at(read_as(member, {typo: None}), quoted(member.owner, typo))
            if [violation.hint for violation in found] != [f"did you mean {name}?"]:
                yield f"{typo}: {found}"

    judge(rule)


def test_a_value_of_the_wrong_type_is_reported_at_its_path() -> None:
    def rule(member: Member) -> Iterator[str]:
        for value in WRONG.get(member.field.type, []) if not member.field.refused else []:
            found = at(read_as(member, {member.name: value}), quoted(member.owner, member.name))
            if not found or "not" not in found[0].problem:
                yield f"{value!r}: {found}"

    judge(rule)


def test_a_required_field_is_missed() -> None:
    def rule(member: Member) -> Iterator[str]:
        lacking = [violation.problem for violation in at(read_as(member, {}), full_path(member.owner, ""))]
        if (f"lacks `{member.name}`" in lacking) is not member.field.required:
            yield f"required: {member.field.required}, told as lacking: {lacking}"

    judge(rule)


@pytest.mark.parametrize(
    ("bounds", "hint"),
    [({"minimum": 0}, "0 or more"), ({"maximum": 9}, "9 or less"), ({"minimum": 3, "maximum": 9}, "3 to 9")],
)
def test_a_number_out_of_range_is_told_the_bounds_that_there_are(bounds: dict[str, int], hint: str) -> None:
    findings = Findings()
    model = Model("Kind", record("a kind", {"amount": whole("an amount", **bounds)}))
    model.read({"amount": bounds.get("minimum", 11) - 1}, Place(findings, Document("a", {})))
    (found,) = findings.violations
    assert (found.problem.endswith("out of range"), found.hint) == (True, hint)


def test_null_is_the_same_as_absent() -> None:
    def rule(member: Member) -> Iterator[str]:
        found = at(read_as(member, {member.name: None}), quoted(member.owner, member.name))
        if found:
            yield str(found)

    judge(rule)


def test_refused_fields_are_never_silent() -> None:
    def rule(member: Member) -> Iterator[str]:
        found = at(with_a_value(member), quoted(member.owner, member.name))
        if member.field.refused and not (
            found and found[0].problem == f"is refused: {member.field.refused}" and found[0].hint == member.field.step
        ):
            yield str(found)

    judge(rule)


def test_retired_and_idle_fields_are_never_silent_and_others_are() -> None:
    def rule(member: Member) -> Iterator[str]:
        field, path = member.field, quoted(member.owner, member.name)
        said = [notice for notice in with_a_value(member).notices if notice.path == path]
        if field.until and not any(field.until in notice.problem and notice.hint for notice in said):
            yield f"the release that retires it, {field.until}, is not told: {said}"
        if field.until and not field.successor:
            yield "has no successor"
        if field.idle and not any("no effect" in notice.problem and notice.hint for notice in said):
            yield f"that it has no effect is not told: {said}"
        if said and not (field.refused or field.until or field.idle):
            yield f"works, and has notices: {said}"

    judge(rule)


def with_a_value(member: Member) -> Findings:
    """Return the findings about a document with a plausible value in the field."""
    values: dict[str, Any] = {"text": "x", "whole": 1, "flag": True, "record": {}, "mapping": {}, "series": []}
    return read_as(member, {member.name: values.get(member.field.type, "1")})


def test_a_field_at_the_wrong_depth_is_sent_home() -> None:
    findings = findings_of(MODELS["NicClusterPolicy"], {"ofedDriver": {"image": "doca-driver"}, "autoUpgrade": True})
    assert "ofedDriver.upgradePolicy.autoUpgrade" in findings.violations[0].hint
    assert "indentation" in findings.violations[0].hint


def test_a_field_nobody_knows_is_answered_with_the_known_ones() -> None:
    found = findings_of(MODELS["MacvlanNetwork"], {"zzz": 1}).violations[0]
    assert found.path == "spec.zzz"
    assert "master" in found.hint


def test_what_is_right_is_returned_and_the_rest_left_out() -> None:
    model = Model("thing", record("a thing", {"name": text("name"), "size": whole("size", maximum=3)}))
    findings = Findings()
    read = model.read({"name": "a", "size": 4, "other": 1, "gone": None}, Place(findings, Document("x", None)))
    assert read == {"name": "a"}
    assert sorted(violation.path for violation in findings.violations) == ["gone", "other", "size"]


def test_a_number_where_text_belongs_is_quoted_as_its_author_wrote_it() -> None:
    document = Document("p.yaml", None, {("version",): 4}, {("version",): "24.10"})
    findings = Findings()
    Model("thing", record("a thing", {"version": text("version")})).read({"version": 24.1}, Place(findings, document))
    assert findings.violations[0].line == 4
    assert findings.violations[0].hint == 'quote it: "24.10"'


@pytest.mark.parametrize(
    ("written", "choices", "right"),
    [(True, ("on", "off"), "on"), (False, ("on", "off"), "off"), (True, (), "true"), (False, ("a", "b"), "false")],
)
def test_a_boolean_where_text_belongs_is_quoted_as_yaml_has_it(
    written: bool, choices: tuple[str, ...], right: str
) -> None:
    findings = Findings()
    model = Model("thing", record("a thing", {"trust": text("trust", choices=choices)}))
    model.read({"trust": written}, Place(findings, Document("rdma_fabric_thing", None)))
    assert findings.violations[0].hint == f'quote it: "{right}"'


def test_an_empty_field_that_is_refused_asks_for_nothing() -> None:
    findings = Findings()
    model = Model("thing", record("a thing", {"bridge": refused(mapping("a bridge", text("x")), "no", "leave it out")}))
    assert model.read({"bridge": {}}, Place(findings, Document("a", {}))) == {}
    assert not findings.violations


def test_a_number_as_text_is_told_of_templates_where_one_may_have_given_it() -> None:
    model = Model("thing", record("a thing", {"size": whole("size")}))
    of_a_file, of_a_variable = Document("p.yaml", None, {("size",): 4}), Document("rdma_fabric_thing", None)
    findings = Findings()
    for document in (of_a_file, of_a_variable):
        model.read({"size": "9000"}, Place(findings, document))
    in_file, in_variable = [violation.hint for violation in findings.violations]
    assert in_file == "without quotes: 9000"
    assert in_variable.startswith(f"{in_file}; a template")


@pytest.mark.parametrize("value", [[], "x", 5, {1: 2}, {None: {}}, {True: 1}])
def test_no_shape_breaks_the_reader(value: Any) -> None:
    for model in ALL.values():
        assert findings_of(model, value).violations


def test_hostile_text_stays_on_one_line_of_the_report() -> None:
    findings = findings_of(MODELS["MacvlanNetwork"], {"a\nb\x1b[31m" * 40: 1, "mode": "x\ny"})
    for violation in findings.violations:
        assert "\n" not in violation.sentence()
        assert "\x1b" not in violation.sentence()
        assert len(violation.sentence()) < 400
