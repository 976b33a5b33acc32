# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report reads is checked first: every flaw is named by file and path."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import (
    cluster_violations,
    host_document_violations,
    rendered_violations,
    spec_violations,
)
from ansible_collections.rdma.fabric.tests.unit._report import sample_fleet


def flaws(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    document = sample_fleet.fleet()[2]
    change(document)
    return [violation.sentence() for violation in host_document_violations("hosts/a.json", document)]


@pytest.mark.parametrize("document", sample_fleet.fleet(), ids=lambda document: str(document["host"]))
def test_documents_of_all_kinds_of_hosts_are_accepted(document: dict[str, Any]) -> None:
    assert host_document_violations("hosts/a.json", document) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d.pop("facts"), "hosts/a.json: facts: is missing"),
        (lambda d: d["facts"].pop("gpus"), "hosts/a.json: facts.gpus: is missing"),
        (lambda d: d.update(host=None), "hosts/a.json: host: is nothing, not text"),
        (lambda d: d["facts"].update(nics={}), "hosts/a.json: facts.nics: is a mapping, not a list"),
        (
            lambda d: d["facts"]["nics"][2].update(path="x"),
            'hosts/a.json: facts.nics[2].path: is the text "x", not a list',
        ),
        (
            lambda d: d["facts"]["rails"][0].update(rail=True),
            "rails[0].rail: is true, not a whole number",
        ),
        (lambda d: d["facts"]["labels"].update(a=1), "hosts/a.json: facts.labels.a: is the number 1, not text"),
        (lambda d: d["plan"]["steps"][1].pop("undo"), "hosts/a.json: plan.steps[1].undo: is missing"),
        (lambda d: d["plan"].update(format=2), "plan.format: is 2; this release reads format 1"),
    ],
)
def test_a_flaw_is_named_by_its_path(change: Callable[[dict[str, Any]], Any], expected: str) -> None:
    found = flaws(change)
    assert len(found) == 1
    assert expected in found[0]
    assert "run rdma.fabric.site or rdma.fabric.preview again" in found[0]


def test_all_flaws_are_said_at_once() -> None:
    def two(document: dict[str, Any]) -> None:
        document["facts"]["gpus"][0].pop("address")
        document["plan"]["digest"] = 7

    assert len(flaws(two)) == 2


@pytest.mark.parametrize("document", [None, [], "text", 7, True])
def test_something_else_than_a_mapping_is_refused(document: Any) -> None:
    assert "not a mapping" in host_document_violations("hosts/a.json", document)[0].sentence()


def test_results_and_waves_of_the_tasks_before_are_accepted() -> None:
    assert cluster_violations(sample_fleet.batch_result()) == []
    assert cluster_violations(None) == []
    assert cluster_violations({"skipped": "reason"}) == []
    assert rendered_violations(sample_fleet.waves()) == []
    assert spec_violations(sample_fleet.spec(["a"])) == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (cluster_violations([]), "cluster: is a list, not a mapping"),
        (cluster_violations({"results": [{"kind": "Pod"}]}), "cluster: results[0].name: is missing"),
        (rendered_violations([{"name": "rbac", "objects": [{}]}]), "rendered: [0].objects[0].metadata: is missing"),
        (spec_violations({"hosts": []}), "spec: hosts: is a list, not a mapping"),
    ],
)
def test_wrong_inputs_of_the_task_are_named(found: list[Any], expected: str) -> None:
    assert any(violation.sentence().startswith(expected) for violation in found)
