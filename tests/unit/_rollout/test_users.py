# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods use what is to be removed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.teardown import networks_of, users_of


def pod(networks: str = "", node: str = "n", phase: str = "Running", **amounts: str) -> dict[str, Any]:
    resources = {name.replace("_", "/"): amount for name, amount in amounts.items()}
    return {
        "metadata": {"name": "p", "namespace": "ai", "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": resources}}]},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("rail0", {"ai/rail0"}),
        ("rail0@net1, default/rail1@net2", {"ai/rail0", "default/rail1"}),
        ('[{"name": "rail0"}, {"name": "rail1", "namespace": "default"}]', {"ai/rail0", "default/rail1"}),
        ('\n  [{"name": "rail0"}]\n', {"ai/rail0"}),
        ('[{"namespace": "default"}, {"name": "rail0"}]', {"ai/rail0"}),
        ("[{", set()),
        pytest.param("[" * 100_000, set(), id="too-deep"),
        ('["rail0"]', set()),
        (" , ", set()),
    ],
)
def test_both_forms_of_the_annotation_are_read(text: str, expected: set[str]) -> None:
    assert networks_of(pod(text)) == expected


def test_the_default_network_of_a_pod_counts() -> None:
    given = pod()
    given["metadata"]["annotations"] = {"v1.multus-cni.io/default-network": "kube-system/rail0"}
    assert networks_of(given) == {"kube-system/rail0"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pod("rail0"), ["ai/p (network ai/rail0)"]),
        (pod("default/rail0"), []),
        (pod(rdma_torn="1"), ["ai/p (resource rdma/torn)"]),
        (pod(rdma_torn="0"), []),
        (pod(rdma_other="1"), []),
        (pod("rail0", node=""), []),
        (pod("rail0", phase="Succeeded"), []),
        (pod("rail0", phase="Failed", rdma_torn="1"), []),
    ],
)
def test_a_pod_on_a_node_that_has_not_finished_uses_what_it_names(given: dict[str, Any], expected: list[str]) -> None:
    assert users_of([given], {"ai/rail0"}, {"rdma/torn"}) == expected
