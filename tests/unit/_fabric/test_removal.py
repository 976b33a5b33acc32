# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What objects offer that are to be removed, what they leave on nodes, and what Node Feature Discovery leaves there."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nfd_rules import pruning_patch
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.removal import left_on_nodes, offered_by
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS

NFD = "nfd.node.kubernetes.io"


def test_what_a_whole_spec_offers_is_found_in_its_objects() -> None:
    offered: set[str] = set()
    networks: set[str] = set()
    for make in SPECS.values():
        bodies = objects_of(render(make()))
        found = offered_by(bodies)
        offered |= found.resources
        networks |= found.networks
        attachments = [body for body in bodies if body["kind"] == "NetworkAttachmentDefinition"]
        assert len(found.networks) == len(attachments)
    assert any(name.startswith("rdma/") for name in offered)
    assert any(name.startswith("nvidia.com/") for name in offered)
    assert networks


def test_a_config_map_that_holds_something_else_offers_nothing() -> None:
    bodies = [
        {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"config.json": text}}
        for text in ("{}", "no JSON", '{"configList": 1}')
    ]
    assert offered_by([*bodies, {"kind": "ConfigMap", "metadata": {"name": "b"}}]).resources == frozenset()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("r/multus-cni:v3.9.3", "this release of Multus leaves /etc/cni/net.d/00-multus.conf on every node"),
        ("r/multus-cni:v4.0.2", "this release of Multus leaves /etc/cni/net.d/00-multus.conf on every node"),
        ("r/multus-cni:v4.1.0", "Multus takes /etc/cni/net.d/00-multus.conf off each node as it ends"),
        ("r/multus-cni:network-operator-v26.4.1", "Multus takes /etc/cni/net.d/00-multus.conf off each node"),
    ],
)
def test_a_release_of_multus_that_keeps_its_configuration_is_told(image: str, expected: str) -> None:
    volume = {"name": "cninetwork", "hostPath": {"path": "/etc/cni/net.d"}}
    pod = {"containers": [{"image": image}], "volumes": [volume]}
    body = {"kind": "DaemonSet", "metadata": {"name": "kube-multus-ds"}, "spec": {"template": {"spec": pod}}}
    (notice,) = left_on_nodes([body, {"kind": "ConfigMap", "metadata": {"name": "kube-multus-ds"}}])
    assert notice.startswith(expected)


def test_the_rendered_multus_is_known_and_its_folder_named() -> None:
    found = [notice for make in SPECS.values() for notice in left_on_nodes(objects_of(render(make())))]
    assert found
    assert all("/00-multus.conf" in notice for notice in found)


def node(annotations: dict[str, str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "annotations": annotations, "labels": labels or {}}}


def test_only_labels_that_nfd_lists_are_taken_off_a_node() -> None:
    labels = {"feature.node.kubernetes.io/pci-15b3.present": "true", "nvidia.com/x": "1", "nvidia.com/own": "1"}
    marks = {
        f"{NFD}/feature-labels": "pci-15b3.present,nvidia.com/x,gone",
        f"{NFD}/feature-annotations": "note",
        "feature.node.kubernetes.io/note": "1",
        f"{NFD}/worker.version": "v0.17.0",
        f"{NFD}/extended-resources": "e",
        f"{NFD}/taints": "t",
        "example.com/own": "1",
    }
    assert pruning_patch(node(marks, labels)) == {
        "metadata": {
            "resourceVersion": "7",
            "labels": {"feature.node.kubernetes.io/pci-15b3.present": None, "nvidia.com/x": None},
            "annotations": {
                f"{NFD}/feature-labels": None,
                f"{NFD}/feature-annotations": None,
                "feature.node.kubernetes.io/note": None,
                f"{NFD}/worker.version": None,
            },
        }
    }


@pytest.mark.parametrize(
    "given", [node({}), node({"example.com/own": "1"}), node({f"{NFD}/taints": "t"}), {"metadata": {}}]
)
def test_a_node_without_anything_of_nfd_is_left_alone(given: dict[str, Any]) -> None:
    assert pruning_patch(given) is None
