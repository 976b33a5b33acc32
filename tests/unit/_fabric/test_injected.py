# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that count on the Network Resources Injector: their networks have devices that no container asks for."""

from __future__ import annotations

from typing import Any, Sequence

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES, of_text

DEMO = list(yaml.safe_load_all((FIXTURES / "neighbours" / "injected-pod.yaml").read_text(encoding="utf-8")))
NETWORKS = "k8s.v1.cni.cncf.io/networks"
DEFAULT_NETWORK = "v1.multus-cni.io/default-network"


def said(
    *limits: Any, networks: str = "foo-network, foo-network", owner: str = "", beside: Sequence[Any] = (), **spec: Any
) -> list[str]:
    attachment, pod = DEMO
    containers = [
        {"name": f"c{index}", "image": "x", "resources": {"limits": each}} for index, each in enumerate(limits)
    ]
    whole = {"metadata": {"annotations": {NETWORKS: networks}}, "spec": {"containers": containers, **spec}}
    body = {**pod, **whole, "metadata": {"name": "a", **whole["metadata"]}}
    if owner:
        body = {"apiVersion": "apps/v1", "kind": owner, "metadata": {"name": "a"}, "spec": {"template": whole}}
    notices = of_text(yaml.safe_dump_all([attachment, body, *beside])).accepted().notices
    return [each.problem for each in notices if "gets no device" in each.problem]


def test_the_injectors_example_is_told_what_to_add() -> None:
    text = yaml.safe_dump_all(DEMO)
    notice = of_text(text).accepted().said("what is beyond gets no device")
    assert notice.path == f'metadata.annotations["{NETWORKS}"]'
    assert notice.problem.startswith("asks for networks with 2 of example.com/foo, and for 0 of it")
    assert notice.hint.startswith("add example.com/foo: 2 to the limits of a container")


@pytest.mark.parametrize(
    ("limits", "given"),
    [
        ([{}], 0),
        ([None], 0),
        ([{"example.com/foo": "1"}], 1),
        ([{"example.com/foo": 1}, {"example.com/foo": 1}], None),
        ([{"example.com/foo": "2"}], None),
        ([{"example.com/foo": 3}], None),
    ],
)
def test_devices_are_counted_over_networks_and_containers(limits: list[Any], given: int | None) -> None:
    for owner in ("", "Deployment"):
        found = said(*limits, owner=owner)
        assert [f"for {given} of it" in each for each in found] == ([] if given is None else [True])


@pytest.mark.parametrize(
    ("networks", "limit", "wanted"), [(None, 0, 1), ("foo-network", 1, 2), ("foo-network", 2, None)]
)
def test_the_network_in_the_place_of_the_cluster_s_needs_its_device_too(
    networks: str | None, limit: int, wanted: int | None
) -> None:
    """k8snetworkplumbingwg/multus-cni, docs/configuration.md: v1.multus-cni.io/default-network."""
    attachment, pod = DEMO
    default = f"{attachment['metadata'].get('namespace', 'default')}/foo-network"
    annotations = {DEFAULT_NETWORK: default, **({NETWORKS: networks} if networks else {})}
    containers = [{"name": "c", "image": "x", "resources": {"limits": {"example.com/foo": limit}}}]
    body = {**pod, "metadata": {"name": "a", "annotations": annotations}, "spec": {"containers": containers}}
    notices = [each.problem for each in of_text(yaml.safe_dump_all([attachment, body])).accepted().notices]
    found = [each for each in notices if "gets no device" in each]
    assert [f"networks with {wanted} of" in each for each in found] == ([] if wanted is None else [True])
    annotations[DEFAULT_NETWORK] = "foo-network"
    (elsewhere,) = [
        each.problem
        for each in of_text(yaml.safe_dump_all([attachment, body])).accepted().notices
        if "kube-" in each.problem
    ]
    assert "kube-system/foo-network, which is not part of the input" in elsewhere


def claim(*classes: str, name: str = "gpus", kind: str = "ResourceClaimTemplate") -> dict[str, Any]:
    requests = [{"name": f"r{at}", "exactly": {"deviceClassName": each}} for at, each in enumerate(classes)]
    spec: Any = {"devices": {"requests": requests}}
    spec = {"spec": spec} if kind.endswith("Template") else spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


DOMAIN = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "ComputeDomain",
    "metadata": {"name": "imex"},
    "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "imex-channel-0"}}},
}
CHANNEL = {"name": "channel", "resourceClaimTemplateName": "imex-channel-0"}
GPUS = {"name": "gpus", "resourceClaimTemplateName": "gpus"}


@pytest.mark.parametrize(
    ("claims", "beside"),
    [
        ([CHANNEL], [DOMAIN]),
        ([GPUS], [claim("gpu.nvidia.com")]),
        ([CHANNEL, GPUS], [DOMAIN, claim("gpu.nvidia.com", "mig.nvidia.com")]),
        ([{"name": "g", "resourceClaimName": "gpus"}], [claim("gpu.nvidia.com", kind="ResourceClaim")]),
    ],
)
def test_claims_of_gpus_and_their_domains_bring_no_device_of_a_network(claims: list[Any], beside: list[Any]) -> None:
    assert len(said({}, resourceClaims=claims, beside=beside)) == 1


@pytest.mark.parametrize(
    ("claims", "beside"),
    [
        ([GPUS], [claim("gpu.nvidia.com", "sriovnetwork.k8snetworkplumbingwg.io")]),
        ([GPUS], [claim()]),
        ([GPUS, CHANNEL], [claim("gpu.nvidia.com")]),
        ([{"name": "g", "resourceClaimName": "gpus"}], [claim("gpu.nvidia.com")]),
        ([CHANNEL], [{**DOMAIN, "metadata": {"name": "imex", "namespace": "elsewhere"}}]),
    ],
)
def test_a_claim_that_may_bring_functions_is_taken_to(claims: list[Any], beside: list[Any]) -> None:
    assert said({}, resourceClaims=claims, beside=beside) == []


def test_a_pod_with_unknown_claims_or_networks_without_devices_is_left_alone() -> None:
    assert said({}, resourceClaims=[{"name": "vf", "resourceClaimTemplateName": "vf"}]) == []
    assert said({}, networks="elsewhere/foo-network") == []
    init = [{"name": "i", "image": "x", "resources": {"limits": {"example.com/foo": 2}}}]
    assert len(said({}, initContainers=init)) == 1
