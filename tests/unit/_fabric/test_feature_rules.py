# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of Node Feature Discovery: what its master would pass over without a word to their user.

The verdicts are those of its own tests (``expression_test.go``, ``validate_test.go``, ``test/e2e/data``).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES, Fabric, of_text

SAMPLE = (FIXTURES / "neighbours" / "feature-rules.yaml").read_text(encoding="utf-8")
API = "nfd.k8s-sigs.io/v1alpha1"
POLICY = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"}}
DEPLOYED = f"---\n{json.dumps({**POLICY, 'spec': {}})}\n"


def given(kind: str, spec: Any, *, deployed: bool = True, **metadata: Any) -> Fabric:
    body = {"apiVersion": API, "kind": kind, "metadata": {"name": "a", **metadata}, "spec": spec}
    return of_text(json.dumps(body) + "\n" + (DEPLOYED if deployed else ""))


def rule(**fields: Any) -> Any:
    return {"rules": [{"name": "r", **fields}]}


def expression(**fields: Any) -> Any:
    return rule(matchFeatures=[{"feature": "pci.device", "matchExpressions": {"vendor": fields}}])


def refused(fabric: Fabric) -> list[str]:
    return [violation.path for violation in fabric.violations]


def test_what_node_feature_discovery_writes_is_taken_without_a_word() -> None:
    for text in (SAMPLE, SAMPLE + DEPLOYED):
        assert [each.sentence() for each in of_text(text).accepted().notices if "nfd" in each.sentence()] == []


@pytest.mark.parametrize(
    "flawed",
    [
        {"op": "In"},
        {"op": "NotIn", "value": []},
        {"op": "InRegexp", "value": ["("]},
        {"op": "InRegexp", "value": ["*15b3"]},
        {"op": "InRegexp", "value": ["15b3(?!x)"]},
        {"op": "Exists", "value": ["1"]},
        {"op": "DoesNotExist", "value": ["1"]},
        {"op": "IsTrue", "value": ["1"]},
        {"op": "Gt", "value": ["1", "2"]},
        {"op": "Lt", "value": ["a"]},
        {"op": "Lt", "value": ["5.15"]},
        {"op": "Ge", "value": ["x.y"], "type": "version"},
        {"op": "Ge", "value": ["1"], "type": "number"},
        {"op": "GtLt", "value": ["2", "1"]},
        {"op": "GeLe", "value": ["1"]},
    ],
)
def test_an_expression_for_which_a_whole_rule_is_passed_over_is_refused(flawed: Any) -> None:
    path = "matchFeatures[0].matchExpressions.vendor.value"
    for deployed in (True, False):
        found = given("NodeFeatureRule", expression(**flawed), deployed=deployed)
        assert "passes over the whole rule" in found.wrong(f"spec.rules[0].{path}").problem
    group = {"featureGroupRules": expression(**flawed)["rules"]}
    assert refused(given("NodeFeatureGroup", group)) == [f"spec.featureGroupRules[0].{path}"]


@pytest.mark.parametrize(
    "right",
    [
        {"op": "InRegexp", "value": ["^*a", "\\pN", "\\Q(\\E", "(?s)a", "[[:alpha:]]", "\\\\1"]},
        {"op": "Ge", "value": ["v5.15.0-rc1"], "type": "version"},
        {"op": "GtLt", "value": ["10.0", "1.0"], "type": "version"},
        {"op": "Gt", "value": ["-1"], "type": ""},
        {"op": "In", "value": ["1"], "type": "any"},
    ],
)
def test_an_expression_that_it_evaluates_is_taken(right: Any) -> None:
    given("NodeFeatureRule", expression(**right)).accepted()


def test_expressions_are_found_in_every_part_of_a_rule() -> None:
    wrong = {"op": "In"}
    term = {"feature": "pci.device", "matchName": wrong}
    found = given("NodeFeatureRule", rule(matchAny=[{"matchFeatures": [term]}], matchFeatures=[term]))
    where = "matchFeatures[0].matchName.value"
    assert refused(found) == [f"spec.rules[0].matchAny[0].{where}", f"spec.rules[0].{where}"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"labels": {"vendor.io/a": "a b"}}, 'labels["vendor.io/a"]'),
        ({"labels": {"vendor.io/a/b": "x"}}, 'labels["vendor.io/a/b"]'),
        ({"labels": {"a": "@kernel.version"}}, "labels.a"),
        ({"annotations": {"nfd.node.kubernetes.io/xyz": "x"}}, 'annotations["nfd.node.kubernetes.io/xyz"]'),
        ({"annotations": {"a": "x" * 1025}}, "annotations.a"),
        ({"extendedResources": {"bad.kubernetes.io/malo": "1"}}, 'extendedResources["bad.kubernetes.io/malo"]'),
        ({"extendedResources": {"vendor.io/a": "many"}}, 'extendedResources["vendor.io/a"]'),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "taints[0].key"),
        ({"taints": [{"key": "node.kubernetes.io/a", "effect": "NoSchedule"}]}, "taints[0].key"),
        ({"taints": [{"key": "vendor.io/a", "effect": "Evict"}]}, "taints[0].effect"),
    ],
)
def test_an_output_that_is_left_out_is_refused(fields: Any, path: str) -> None:
    for deployed in (True, False):
        assert refused(given("NodeFeatureRule", rule(**fields), deployed=deployed)) == [f"spec.rules[0].{path}"]


def test_labels_of_kubernetes_are_refused_where_the_master_is_ours() -> None:
    spec = rule(labels={"node-role.kubernetes.io/rdma": ""})
    assert "writes no such label" in given("NodeFeatureRule", spec).violations[0].problem
    given("NodeFeatureRule", spec, deployed=False).accepted()
    labels = {"nfd.node.kubernetes.io/node-name": "n"}
    features = {"labels": {"subns.kubernetes.io/denied-label": "true"}}
    found = refused(given("NodeFeature", features, labels=labels))
    assert found == ['spec.labels["subns.kubernetes.io/denied-label"]']


def test_features_without_a_node_are_refused() -> None:
    found = given("NodeFeature", {}, deployed=False)
    assert "gives its features to no node" in found.wrong("metadata.labels").problem


def test_what_the_master_of_ours_is_not_set_up_for_is_named() -> None:
    spec = rule(taints=[{"key": "vendor.io/a", "effect": "NoSchedule"}])
    assert "enableTaints" in given("NodeFeatureRule", spec).accepted().said("spec.rules[0].taints").problem
    group = given("NodeFeatureGroup", {"featureGroupRules": []})
    assert "feature gate NodeFeatureGroupAPI" in group.accepted().said("is not read by").problem
    for kind, body in (("NodeFeatureRule", spec), ("NodeFeatureGroup", {"featureGroupRules": []})):
        assert given(kind, body, deployed=False).accepted().notices == []


def test_a_feature_that_nobody_finds_is_named_with_the_one_that_is_meant() -> None:
    spec = rule(matchFeatures=[{"feature": "pci.devices"}, {"feature": "PCI.Device"}, {"feature": "vendor.nics"}])
    (notice,) = given("NodeFeatureRule", spec, deployed=False).accepted().notices
    assert (notice.path, notice.hint) == ("spec.rules[0].matchFeatures[0].feature", "did you mean pci.device?")


@pytest.mark.parametrize("spec", [None, 7, {"rules": None}, {"rules": [3]}, rule(labels=[1], taints=[None, {}])])
def test_what_has_another_shape_is_left_to_the_definition(spec: Any) -> None:
    assert refused(given("NodeFeatureRule", spec, deployed=False)) == []
