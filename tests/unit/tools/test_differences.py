# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of differences from the operator's objects is what a comparison finds, and every difference has a reason."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools import differences
from tools.differences import PAGE, SECTIONS, apart, page, reasons, violations
from tools.stored_form import leaves

Object = dict[str, Any]
BODY: Object = {
    "kind": "DaemonSet",
    "metadata": {"name": "a", "labels": {"app": "a"}},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "main", "args": ["--a"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            }
        }
    },
}


def test_the_page_is_what_the_comparison_finds() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(reasons()), "run: python -m tools.differences"


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    none_of(violations(reasons()))


def test_a_difference_without_a_reason_and_a_reason_without_a_difference_are_named() -> None:
    idle = {"objects": "Secret *", "field": "data", "reason": "none"}
    assert [each for each in violations([*reasons(), idle]) if not each.startswith("explains no difference")] == []
    silent = [entry for entry in reasons() if entry["field"] != "rules"]
    assert [each.partition(":")[0] for each in violations(silent)] == ["no reason"]
    with pytest.raises(ValueError, match="says why"):
        page(silent)


def test_a_changed_object_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _title, files, settings = SECTIONS[0]
    made = differences.rendered(dict(settings))
    (multus,) = [body for body in made if differences.identity(body) == "DaemonSet kube-multus-ds"]
    multus["spec"]["template"]["spec"]["hostNetwork"] = False
    (daemon,) = [body for body in made if differences.identity(body) == "DaemonSet nv-ipam-node"]
    monkeypatch.setattr(differences, "rendered", lambda _settings: [each for each in made if each is not daemon])
    found = {(each.object, each.field): each[3:] for each in differences.differences(files, {})}
    assert found["DaemonSet kube-multus-ds", "spec.template.spec.hostNetwork"] == ("`false`", "`true`")
    assert found["DaemonSet nv-ipam-node", ""] == ("none", "made")


def test_what_the_server_fills_in_is_no_difference() -> None:
    pod = {
        **BODY["spec"]["template"]["spec"],
        "dnsPolicy": "ClusterFirst",
        "serviceAccount": "x",
        "serviceAccountName": "x",
        "volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}],
    }
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    stored = {**BODY, "spec": {"template": {"spec": pod}, "updateStrategy": update, "revisionHistoryLimit": 10}}
    account = ("spec.template.spec.serviceAccountName", "x")
    assert sorted(set(map(str, leaves(stored))) - set(map(str, leaves(BODY)))) == [str(account)]


@pytest.mark.parametrize(
    ("kind", "field", "one", "other"),
    [
        ("ClusterRole", "rules", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}], None),
        ("ConfigMap", "data", {"config.json": '{"a": 1, "b": 2}'}, {"config.json": '{ "b":2, "a":1 }'}),
        ("ConfigMap", "data", {"x.ini": "# note\na=1\n"}, {"x.ini": "a=1"}),
    ],
)
def test_what_says_the_same_is_the_same(kind: str, field: str, one: Any, other: Any) -> None:
    if other is None:
        other = [{**rule, "verbs": [verb]} for rule in one for verb in reversed(rule["verbs"])]
    bodies: list[Object] = [{"kind": kind, "metadata": {"name": "a"}, field: value} for value in (one, other)]
    assert dict(leaves(bodies[0])) == dict(leaves(bodies[1]))


def test_of_two_lists_only_what_the_other_lacks_is_shown() -> None:
    assert apart(["a", "b"], ["b", "c"]) == ("`a`", "`c`")
    assert apart(["a"], None) == ("`a`", "none")
    assert apart(["a"], ["a"]) == ("none", "none")
