# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What looks like an object and is none that an API server stores is refused with what to give in its place."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric


def given(api_version: str, kind: str) -> Fabric:
    content = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
    return Fabric([Document("p.yaml", content)], [])


@pytest.mark.parametrize(
    ("api_version", "kind", "problem", "hint"),
    [
        ("kustomize.config.k8s.io/v1beta1", "Kustomization", "a file of kustomize", "kubectl kustomize"),
        ("kubeadm.k8s.io/v1beta4", "ClusterConfiguration", "a file of kubeadm", "take it out"),
        ("kind.x-k8s.io/v1alpha4", "Cluster", "a file of kind", "take it out"),
        ("mirror.openshift.io/v2alpha1", "ImageSetConfiguration", "a file of oc-mirror", "take it out"),
        ("v1", "Config", "a kubeconfig", "rdma_fabric_kubeconfig"),
    ],
)
def test_what_no_server_stores_is_refused(api_version: str, kind: str, problem: str, hint: str) -> None:
    found = given(api_version, kind).wrong("apiVersion")
    assert problem in found.problem
    assert hint in found.hint


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("own.io/v1", "Config"),
    ],
)
def test_what_a_server_may_store_passes(api_version: str, kind: str) -> None:
    assert given(api_version, kind).accepted().spec["objects"][0]["kind"] == kind
