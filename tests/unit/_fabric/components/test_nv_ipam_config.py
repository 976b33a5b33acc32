# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of nv-ipam before v0.1.0.

The facts are those of ``manifests/state-nv-ipam-cni`` of the Network Operator v23.5.0 (nv-ipam v0.0.2) and v23.7.0
(v0.0.3).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import nv_ipam_config, pool, spec_of

Object = dict[str, Any]
SUBNET: Object = {"subnet": "10.0.0.0/24", "perNodeBlockSize": 10, "gateway": "10.0.0.1"}


def rendered(version: str, *pools: Object, **parts: Any) -> dict[tuple[str, str], Object]:
    policy = {"nvIpam": {"version": version}}
    waves = render(spec_of(policy, settings={"nfd": False, **parts}, pools=list(pools)))
    return {(each["kind"], each["metadata"]["name"]): each for wave in waves for each in wave["objects"]}


def pod_of(body: Object) -> Object:
    found: Object = body["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("version", ["v0.0.2", "v0.0.3"])
def test_pools_are_a_config_map_and_no_objects(version: str) -> None:
    found = rendered(version, pool("IPPool", "a", SUBNET))
    assert set(found) == {
        ("Namespace", "nvidia-network-operator"),
        *(
            (kind, f"nv-ipam-{part}")
            for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
            for part in ("controller", "node")
        ),
        ("ConfigMap", "nvidia-k8s-ipam-config"),
        ("Deployment", "nv-ipam-controller"),
        ("DaemonSet", "nv-ipam-node"),
    }
    config = found["ConfigMap", "nvidia-k8s-ipam-config"]["data"]["config"]
    assert json.loads(config) == {"pools": {"a": SUBNET}}


def test_without_pools_the_controller_waits_for_the_config_map_of_somebody_else() -> None:
    assert ("ConfigMap", "nvidia-k8s-ipam-config") not in rendered("v0.0.3")


def test_the_config_map_is_there_before_the_controller_that_reads_it() -> None:
    waves = render(nv_ipam_config())
    of_kind = {each["kind"]: wave["name"] for wave in waves for each in wave["objects"]}
    order = [wave["name"] for wave in waves]
    assert order.index(of_kind["ConfigMap"]) < order.index(of_kind["Deployment"])


@pytest.mark.parametrize(("version", "replicas"), [("v0.0.2", 1), ("v0.0.3", 2)])
def test_the_controller_runs_twice_only_where_it_can_elect_a_leader(version: str, replicas: int) -> None:
    found = rendered(version)
    controller = found["Deployment", "nv-ipam-controller"]
    arguments = ["--config-name=nvidia-k8s-ipam-config", "--config-namespace=$(POD_NAMESPACE)"]
    election = ["--leader-elect=true", "--leader-elect-namespace=$(POD_NAMESPACE)"]
    assert controller["spec"]["replicas"] == replicas
    assert pod_of(controller)["containers"][0]["args"] == arguments + (election if replicas > 1 else [])
    assert ("podAntiAffinity" in pod_of(controller)["affinity"]) is (replicas > 1)
    named = {name for rule in found["ClusterRole", "nv-ipam-controller"]["rules"] for name in rule["resources"]}
    assert named == {"nodes", "configmaps", *(("leases", "events") if replicas > 1 else ())}


def test_the_pod_of_a_node_installs_the_program_and_host_local_with_the_rights_to_read_its_node() -> None:
    found = rendered("v0.0.3", cni_bin_dir="/usr/libexec/cni", cni_conf_dir="/etc/rke2/cni")
    pod = pod_of(found["DaemonSet", "nv-ipam-node"])
    (container,) = pod["containers"]
    paths = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"]}
    assert {each["mountPath"]: paths[each["name"]] for each in container["volumeMounts"]} == {
        "/host/opt/cni/bin": "/usr/libexec/cni",
        "/host/etc/cni/net.d": "/etc/cni/net.d",
        "/host/var/lib/cni/nv-ipam/bin": "/var/lib/cni/nv-ipam/bin",
        "/host/var/lib/cni/nv-ipam/state/host-local": "/var/lib/cni/nv-ipam/state/host-local",
    }
    assert (pod["hostNetwork"], "args" in container) == (True, False)
    assert container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert [(rule["resources"], rule["verbs"]) for rule in found["ClusterRole", "nv-ipam-node"]["rules"]] == [
        (["nodes"], ["get"])
    ]


def test_what_the_config_map_cannot_hold_is_refused() -> None:
    flawed = [
        resource("IPPool", "a", {"subnet": "10.0.0.0/24", "perNodeBlockSize": 10}),
        resource("IPPool", "b", {**SUBNET, "exclusions": [{"startIP": "10.0.0.5", "endIP": "10.0.0.6"}]}),
        resource("CIDRPool", "c", {"cidr": "10.1.0.0/16", "perNodeNetworkPrefix": 24}),
    ]
    policy = resource("NicClusterPolicy", "nic-cluster-policy", {"nvIpam": {"version": "v0.0.3"}})
    found = Fabric([policy, *flawed], []).violations
    assert {each.path for each in found} == {"spec.exclusions", "spec", "spec.gateway"}
