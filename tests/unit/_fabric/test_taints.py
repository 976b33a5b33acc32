# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The taint of new nodes: read as kubectl reads it, and tolerated by all that a new node needs and by that only."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.taints import taint, taint_of, toleration_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS

TEXT = "fabric.example.com/joining=yes:NoSchedule"
TOLERATION = {"key": "fabric.example.com/joining", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize("text", [TEXT, "joining:NoExecute", "joining=:NoSchedule", "a.b/c_d=x.y-z:NoSchedule"])
def test_a_taint_as_kubectl_writes_it_is_right(text: str) -> None:
    assert taint(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("joining", "is not a valid taint"),
        ("joining=a=b:NoSchedule", "is not a valid taint"),
        ("a:b:NoSchedule", "is not a valid taint"),
        ("joining:PreferNoSchedule", "has the effect 'PreferNoSchedule'"),
        ("joining:", "has the effect ''"),
        ("joining:noschedule", "has the effect 'noschedule'"),
        (":NoSchedule", "has an empty name"),
        ("join ing:NoSchedule", "is not a valid label name"),
        ("A_B/joining:NoSchedule", "has the prefix 'A_B'"),
        ("joining=a/b:NoSchedule", "is not a valid label name"),
        (f"joining={'x' * 64}:NoSchedule", "is 64 characters long"),
        ("node.kubernetes.io/unschedulable:NoSchedule", "is one of Kubernetes itself"),
        ("kubernetes.io/joining:NoSchedule", "is one of Kubernetes itself"),
    ],
)
def test_what_is_no_taint_or_lets_pods_in_is_refused_with_the_next_step(text: str, problem: str) -> None:
    (found,) = taint(text)
    assert problem in found.problem
    assert found.hint


def test_a_taint_is_taken_apart_as_a_node_has_it() -> None:
    assert taint_of(TEXT) == {"key": "fabric.example.com/joining", "value": "yes", "effect": "NoSchedule"}
    assert taint_of("joining:NoExecute") == {"key": "joining", "effect": "NoExecute"}
    assert toleration_of("joining:NoExecute") == {"key": "joining", "operator": "Equal", "effect": "NoExecute"}


def workloads(spec: dict[str, Any], text: str) -> dict[tuple[str, str], Any]:
    spec["settings"]["join_taint"] = text
    bodies = objects_of(render(spec))
    return {(body["kind"], body["metadata"]["name"]): body for body in bodies if body["kind"] != "Namespace"}


@pytest.mark.parametrize("name", SPECS)
def test_every_workload_tolerates_it_and_nothing_else_is_another(name: str) -> None:
    plain, joining = workloads(SPECS[name](), ""), workloads(SPECS[name](), TEXT)
    assert list(plain) == list(joining)
    for key, body in joining.items():
        if key[0] in ("DaemonSet", "Deployment"):
            pod = body["spec"]["template"]["spec"]
            assert pod["tolerations"][-1] == TOLERATION, key
            del pod["tolerations"][-1]
            if not pod["tolerations"]:
                del pod["tolerations"]
        assert body == plain[key]


def test_without_one_nothing_is_said_of_it() -> None:
    for make in SPECS.values():
        spec = make()
        assert render(spec) == render({**spec, "settings": {**spec["settings"], "join_taint": ""}})
