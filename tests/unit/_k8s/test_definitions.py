# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A definition that others brought is used where it serves what is desired, and never replaced by one that loses."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering import crds
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.ownership import lacking
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.tests.recorded_operator import FOLDER, rendered
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import actions, apply, recorded, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, config_map

Json = dict[str, Any]

ATTACHMENTS = crds.network_attachment_definition()
RULES, NEWER_RULES = (crds.node_feature_discovery(of_0_18=newer)[2] for newer in (False, True))
# rancher/rke2-charts#72: the definition is a template of the chart, so it has the chart's marks.
HELM = {"annotations": {"meta.helm.sh/release-name": "rke2-multus"}}
FIELDS = "spec", "rules"


def brought(definition: Json, **metadata: Any) -> Json:
    """Return a definition as somebody else has applied it."""
    body = copy.deepcopy(definition)
    entry = {"manager": "somebody", "operation": "Update", "fieldsV1": {"f:spec": {"f:versions": {}}}}
    body["metadata"] = {"name": body["metadata"]["name"], "managedFields": [entry], **metadata}
    return body


def establishing() -> FakeServer:
    """Return a server that serves the kind of a definition as soon as it has it."""
    server = FakeServer()
    status = {"conditions": [{"type": "Established", "status": "True"}]}
    server.plurals["nodefeaturerules"] = "NodeFeatureRule"
    server.after_apply = lambda body: body.update(status=status) if "versions" in body.get("spec", {}) else None
    return server


def without(definition: Json, *path: str) -> Json:
    """Return a definition whose objects do not have one field; ``*`` are the items of a list or map."""
    body = copy.deepcopy(definition)
    below = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in path[:-1]:
        below = below.get("items") or below["additionalProperties"] if step == "*" else below["properties"][step]
    del below["properties"][path[-1]]
    return body


@pytest.mark.parametrize(
    ("wanted", "other", "lacks"),
    [
        (RULES, NEWER_RULES, []),
        (
            NEWER_RULES,
            RULES,
            [
                f"spec.rules.*.{term}.*.{place}{what}"
                for term in ("matchAny.*.matchFeatures", "matchFeatures")
                for place in ("matchExpressions.*", "matchName")
                for what in (".op (Ge, Le, GeLe)", ".type")
            ],
        ),
        # kubernetes-sigs/node-feature-discovery-operator#236: its definitions are older than those of the chart.
        (RULES, without(RULES, *FIELDS, "*", "annotations"), ["spec.rules.*.annotations"]),
    ],
)
def test_what_objects_may_have_by_one_definition_alone_is_named(wanted: Json, other: Json, lacks: list[str]) -> None:
    assert lacking(wanted, other) == lacks


def test_the_operators_own_definitions_serve_and_lose_nothing() -> None:
    """As recorded: whoever has them from its chart keeps them, and whoever has them from here gets them alike."""
    wanted = {body["metadata"]["name"]: body for body in rendered({}) if body["kind"] == ATTACHMENTS["kind"]}
    theirs = json.loads((FOLDER / "definitions.json").read_text(encoding="utf-8"))
    pairs = [(wanted[body["metadata"]["name"]], body) for body in theirs if body["metadata"]["name"] in wanted]
    assert len(pairs) == len(theirs)
    assert [lacking(one, other) + lacking(other, one) for one, other in pairs] == [[]] * len(pairs)


def test_versions_scope_and_the_subresource_of_the_status_count_and_what_preserves_all_lacks_nothing() -> None:
    pool = crds.nv_ipam()[0]
    other = copy.deepcopy(pool)
    other["spec"]["scope"] = "Cluster"
    del other["spec"]["versions"][0]["subresources"]
    assert lacking(pool, other) == ["the scope Namespaced", "the subresource status"]
    other["spec"]["versions"][0]["served"] = False
    assert lacking(pool, other) == ["the scope Namespaced", "the version v1alpha1"]
    preserving = copy.deepcopy(pool)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    preserving["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    assert lacking(pool, preserving) == []
    assert lacking(preserving, pool) == ["*"]


@pytest.mark.parametrize(
    ("definition", "metadata", "owner"),
    [
        (ATTACHMENTS, HELM, "Helm (meta.helm.sh/release-name: rke2-multus)"),
        (ATTACHMENTS, {"annotations": {"argocd.argoproj.io/tracking-id": "multus"}}, "Argo CD"),
        (NEWER_RULES, {}, "others (somebody)"),
        (ATTACHMENTS, {"labels": {"rdma.fabric/set": "other"}}, "the set 'other'"),
    ],
)
def test_a_definition_of_others_that_serves_is_used_and_left_byte_for_byte(
    definition: Json, metadata: Json, owner: str
) -> None:
    server = FakeServer()
    live = server.put("customresourcedefinitions", brought(definition, **metadata))
    before = copy.deepcopy(live)
    wanted = RULES if definition is NEWER_RULES else definition
    key = f"CustomResourceDefinition {wanted['metadata']['name']}"
    for check in (True, False, False):
        before_it = len(server.requests)
        result = apply(server, wave(wanted), wave(config_map("a")), check=check)
        assert actions(result)[key] == "unchanged"
        assert any(notice.startswith(f"used as it is, of {owner}") and key in notice for notice in result.notices)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{wanted['metadata']['name']}"
        # One that has the label of a set is in the list of definitions already.
        assert [asked for _method, asked, _query in server.requests[before_it:]].count(path) <= 1
    assert not result.changed
    assert recorded(server) == ["a"]
    apply(server, absent=True, remove_kept=True)
    assert live == before


def test_a_definition_that_lacks_and_would_lose_is_refused_with_the_component_to_leave_out() -> None:
    server = FakeServer()
    server.put("customresourcedefinitions", brought(without(NEWER_RULES, *FIELDS, "*", "vars")))
    with pytest.raises(BatchError) as refused:
        apply(server, wave(RULES), wave(config_map("a")))
    assert "of others (somebody) lacks spec.rules.*.vars; by the one of this run, objects would lose" in str(
        refused.value
    )
    assert "matchExpressions.*.op (Ge, Le, GeLe)" in str(refused.value)
    assert "(set rdma_fabric_nfd: false, or update the definition where it comes from)" in str(refused.value)
    assert server.written() == []


def test_one_that_a_chart_manages_and_that_lacks_is_refused_though_no_object_would_lose() -> None:
    server = FakeServer()
    server.put("customresourcedefinitions", brought(without(ATTACHMENTS, "spec", "config"), **HELM))
    with pytest.raises(BatchError, match=r"Helm .* lacks spec.config \(leave all networks out, or update"):
        apply(server, wave(ATTACHMENTS))


def test_an_older_one_that_nobody_manages_is_replaced_as_no_object_loses_anything() -> None:
    server = establishing()
    server.put("customresourcedefinitions", brought(RULES))
    result = apply(server, wave(NEWER_RULES))
    assert actions(result)[f"CustomResourceDefinition {RULES['metadata']['name']}"] == "configured"


def test_our_own_is_ours_until_somebody_replaces_it() -> None:
    server = establishing()
    apply(server, wave(NEWER_RULES))
    key = f"CustomResourceDefinition {RULES['metadata']['name']}"
    assert actions(apply(server, wave(RULES)))[key] == "configured"
    live = server.objects[("customresourcedefinitions", "", RULES["metadata"]["name"])]
    live["spec"] = copy.deepcopy(NEWER_RULES["spec"])
    del live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    result = apply(server, wave(RULES))
    assert actions(result)[key] == "unchanged"
    assert result.notices == [f"used as it is, of nobody: 1 ({key})"]


def test_nobodys_becomes_a_part_of_the_set_again() -> None:
    server = establishing()
    server.put("customresourcedefinitions", {**RULES, "metadata": {"name": RULES["metadata"]["name"]}})
    key = f"CustomResourceDefinition {RULES['metadata']['name']}"
    assert actions(apply(server, wave(RULES)))[key] == "configured"
