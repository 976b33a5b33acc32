# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every field of every kind: a slip in its name or type is reported at its path, with the next step."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.findings import (
    Document,
    Findings,
    Place,
    path_text,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.schema import (
    Field,
    Model,
    record,
    text,
    walk,
    whole,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.intake.helm_values import CHART
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.intake.models import MODELS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

ALL = {**MODELS, "values": CHART}
EVERY_FIELD = [
    pytest.param(model, owner, name, field, id=f"{kind}.{owner}.{name}")
    for kind, model in ALL.items()
    for owner, name, field in walk(model.root)
]
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


@pytest.mark.parametrize(("model", "owner", "name", "field"), EVERY_FIELD)
def test_a_misspelt_field_is_reported_with_its_path_and_the_right_name(
    model: Model, owner: str, name: str, field: Field
) -> None:
    for typo in (name[:-1], f"{name}x", name.upper() if name.upper() != name else name.lower()):
        if any(owner == other and typo == sibling for other, sibling, _field in walk(model.root)):
            continue
        found = at(findings_of(model, nested(owner, {typo: None})), quoted(owner, typo))
        assert len(found) == 1, typo
        assert found[0].hint == f'did you mean "{name}"?'


@pytest.mark.parametrize(("model", "owner", "name", "field"), EVERY_FIELD)
def test_a_value_of_the_wrong_type_is_reported_at_its_path(model: Model, owner: str, name: str, field: Field) -> None:
    for value in WRONG.get(field.type, []) if not field.refused else []:
        found = at(findings_of(model, nested(owner, {name: value})), quoted(owner, name))
        assert found, value
        assert "not" in found[0].problem


@pytest.mark.parametrize(("model", "owner", "name", "field"), EVERY_FIELD)
def test_a_required_field_is_missed(model: Model, owner: str, name: str, field: Field) -> None:
    lacking = [violation.problem for violation in at(findings_of(model, nested(owner, {})), full_path(owner, ""))]
    assert (f"lacks `{name}`" in lacking) is field.required


@pytest.mark.parametrize(("model", "owner", "name", "field"), EVERY_FIELD)
def test_null_is_the_same_as_absent(model: Model, owner: str, name: str, field: Field) -> None:
    findings = findings_of(model, nested(owner, {name: None}))
    assert not at(findings, quoted(owner, name))


@pytest.mark.parametrize(("model", "owner", "name", "field"), EVERY_FIELD)
def test_retired_idle_and_refused_fields_are_never_silent(model: Model, owner: str, name: str, field: Field) -> None:
    values: dict[str, Any] = {"text": "x", "whole": 1, "flag": True, "record": {}, "mapping": {}, "series": []}
    findings = findings_of(model, nested(owner, {name: values.get(field.type, "1")}))
    path = quoted(owner, name)
    said = [notice for notice in findings.notices if notice.path == path]
    if field.refused:
        assert at(findings, path)[0].problem == f"`{name}` is not supported yet"
        assert at(findings, path)[0].hint
    if field.until:
        assert any(field.until in notice.problem and notice.hint for notice in said)
        assert field.successor
    if field.idle:
        assert any("no effect" in notice.problem and notice.hint for notice in said)
    if not (field.refused or field.until or field.idle):
        assert said == []


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
