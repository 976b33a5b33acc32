# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that say the same are the same, whatever the API server fills in."""

from __future__ import annotations

from typing import Any

import pytest

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
