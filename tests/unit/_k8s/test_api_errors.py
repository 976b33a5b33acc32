# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every refusal of the server says what to do next."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import (
    ApiFault,
    Fault,
    fault_from_response,
    is_hopeless,
    seen_or_told,
)


def answer(message: str = "words", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "message": message, "details": details}


@pytest.mark.parametrize(
    ("code", "fault", "step"),
    [
        (401, Fault.UNAUTHORIZED, "renew the token"),
        (403, Fault.FORBIDDEN, "grant the user this verb"),
        (404, Fault.NOT_FOUND, "CustomResourceDefinition exist"),
        (409, Fault.CONFLICT, "run again"),
        (422, Fault.INVALID, "correct the field"),
        (429, Fault.THROTTLED, "less busy"),
        (500, Fault.SERVER, "API server's log"),
    ],
)
def test_each_status_has_its_fault_and_next_step(code: int, fault: Fault, step: str) -> None:
    found = fault_from_response(code, answer(), "patch Thing a")
    assert found.fault is fault
    assert str(found).startswith("patch Thing a: words (")
    assert step in str(found)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, 'strict decoding error: unknown field "spec.foo"'),
        (500, "failed to create typed patch object (a/b; v1, Kind=C): .data.x: field not declared in schema"),
    ],
)
def test_an_unknown_field_is_told_from_other_faults(code: int, message: str) -> None:
    found = fault_from_response(code, answer(message), "patch Thing a")
    assert (found.fault, found.fatal) == (Fault.UNKNOWN_FIELD, False)
    assert "remove the field" in found.next_step


def test_another_500_with_such_words_stays_a_server_fault() -> None:
    assert fault_from_response(500, answer("etcd: unknown field"), "x").fault is Fault.SERVER


def test_a_conflict_names_the_fields_of_the_other_manager() -> None:
    causes = [{"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"', "field": ".data.a"}]
    found = fault_from_response(409, answer(causes=causes), "patch Thing a")
    assert ".data.a" in found.next_step
    assert "force_conflicts" in found.next_step


def test_a_terminating_namespace_is_named_as_the_reason() -> None:
    found = fault_from_response(403, answer(causes=[{"reason": "NamespaceTerminating"}]), "patch Thing a")
    assert "is being deleted" in found.next_step


@pytest.mark.parametrize(
    "status", [{}, {"details": None}, {"details": {"causes": None}}, {"details": {"causes": ["x"]}}]
)
def test_an_answer_without_the_usual_parts_is_still_a_fault(status: dict[str, Any]) -> None:
    assert str(fault_from_response(418, status, "get x")).startswith("get x: HTTP status 418")


def test_only_faults_that_concern_every_request_end_the_run_at_once() -> None:
    codes = (302, 400, 401, 403, 404, 405, 407, 409, 410, 413, 415, 422, 429, 500, 503)
    faults = {code: fault_from_response(code, {}, "x") for code in codes}
    assert {code for code, fault in faults.items() if fault.fatal} == {302, 401, 407, 429, 500, 503}
    assert {code for code, fault in faults.items() if fault.passing} == {429, 500, 503}


@pytest.mark.parametrize(
    ("code", "text", "hint"),
    [
        (
            403,
            'admission webhook "guard.example.com" denied the request: no',
            "the webhook guard.example.com refuses it",
        ),
        (
            500,
            'Internal error occurred: failed calling webhook "w.example": EOF',
            "the webhook w.example does not answer",
        ),
        (
            422,
            "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            "Policy p refuses it",
        ),
        (403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest": x', "level above restricted"),
        (500, "etcdserver: mvcc: database space exceeded", "etcdctl alarm disarm"),
        (403, 'pods "a" is forbidden: exceeded quota: small, requested: pods=1', "raise the ResourceQuota small"),
        (
            403,
            'pods "a" is forbidden: failed quota: team: must specify limits.cpu for: c',
            "the ResourceQuota team wants them of every pod of its namespace: add a LimitRange",
        ),
        (
            403,
            'pods "a" is forbidden: maximum memory usage per Container is 1Mi',
            "or what refuses it in its namespace",
        ),
        (
            500,
            "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical some]}]",
            "{scopeName: PriorityClass, operator: In, values: [system-node-critical, some]}",
        ),
    ],
)
def test_who_refuses_beside_the_api_server_is_named_in_the_next_step(code: int, text: str, hint: str) -> None:
    found = fault_from_response(code, {"message": text}, "patch Pod ns/a")
    assert hint in found.next_step
    assert "grant" not in found.next_step


def test_a_class_without_a_quota_is_refused_and_no_outage() -> None:
    text = "insufficient quota to match these scopes: [{PriorityClass In [a]}]"
    assert is_hopeless(500, {"message": text})
    assert fault_from_response(500, {"message": text}, "post pods").fault is Fault.FORBIDDEN


def refused(code: int) -> list[str]:
    raise fault_from_response(code, answer(), "list Nodes")


def test_only_who_may_not_look_is_told_that_nobody_did() -> None:
    assert seen_or_told(lambda: ["a"], "nobody looked") == (["a"], [])
    found, told = seen_or_told(lambda: refused(403), "nobody looked")
    assert found is None
    assert told == ["nobody looked: list Nodes: words (grant the user this verb on this resource, then run again)"]
    with pytest.raises(ApiFault, match="list Nodes: words"):
        seen_or_told(lambda: refused(401), "nobody looked")
