# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DOCA telemetry service: where it finds its configuration, what it sees of a node, whose image it runs.

The facts are those of ``manifests/state-doca-telemetry-service`` of the Network Operator.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import services, spec_of

Object = dict[str, Any]
NAME = "doca-telemetry-service"
NAMESPACE = "nvidia-network-operator"
KEY = "dts_config_map.ini"
OWN: Object = {"config": {"fromConfigMap": "own"}}


def rendered(section: Object, **policy: Any) -> dict[str, Object]:
    waves = render(spec_of({**policy, "docaTelemetryService": section}, settings={"nfd": False}))
    return {each["kind"]: each for wave in waves for each in wave["objects"]}


def pod_of(found: Object) -> Object:
    return dict(found["spec"]["template"]["spec"])


def main_of(found: Object) -> Object:
    containers = pod_of(found)["containers"]
    assert len(containers) == 1
    return dict(containers[0])


def configured(data: Object, namespace: str = NAMESPACE) -> Fabric:
    config = resource("ConfigMap", "own", None, "config.yaml", namespace=namespace)
    config.content.pop("spec")
    config.content.update(apiVersion="v1", data=data)
    policy = resource("NicClusterPolicy", "nic-cluster-policy", {"docaTelemetryService": OWN})
    return Fabric([policy, config], [])


def test_the_section_alone_brings_the_service_and_the_operators_configuration() -> None:
    found = rendered({})
    assert set(found) == {"Namespace", "ServiceAccount", "ConfigMap", "DaemonSet"}
    lines = found["ConfigMap"]["data"][KEY].splitlines()
    assert "prometheus=http://0.0.0.0:9189" in lines
    assert [line.partition("=")[2] for line in lines if line.startswith("enable-provider=")] == [
        "sysfs",
        "pod_resources",
        "ethtool",
        "ifconfig",
    ]
    assert not [line for line in lines if line.startswith("prometheus-fset-indexes")]
    pod = pod_of(found["DaemonSet"])
    assert pod["volumes"][0]["configMap"] == {"name": found["ConfigMap"]["metadata"]["name"]}
    assert pod["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"] == NAME


def test_the_service_sees_the_nodes_network_and_the_devices_of_pods() -> None:
    found = rendered({})["DaemonSet"]
    pod, main = pod_of(found), main_of(found)
    assert main["image"] == "nvcr.io/nvidia/doca/doca_telemetry:1.26.5-doca3.5.0-host"
    assert pod["hostNetwork"] is True
    assert pod["nodeSelector"] == {"feature.node.kubernetes.io/pci-15b3.present": "true"}
    assert main["securityContext"] == {"privileged": True}
    assert {each["name"]: each["mountPath"] for each in main["volumeMounts"]} == {
        "doca-telemetry-service-configmap": "/configmap",
        "pod-device-resources": "/var/lib/kubelet/pod-resources",
        "cni": "/var/run/k8s.cni.cncf.io/devinfo/cni",
    }
    assert main["command"][:2] == ["/bin/bash", "-c"]
    assert [each["name"] for each in main["env"]] == [
        "MY_POD_UID",
        "PROMETHEUS_XCSET_JOIN_FIELDS",
        "PROMETHEUS_XCSET_MANDATORY_TYPES",
    ]
    assert "resources" not in main


def test_a_change_of_a_configuration_that_is_given_makes_new_pods_which_read_it() -> None:
    hashes = set()
    for text in ("update=1000", "update=2000"):
        waves = {wave["name"]: wave["objects"] for wave in render(configured({KEY: text}).accepted().spec)}
        assert "own" in {each["metadata"]["name"] for each in waves["configs"]}
        assert "objects" not in waves
        (found,) = (each for each in waves["workloads"] if each["metadata"]["name"] == NAME)
        hashes.add(found["spec"]["template"]["metadata"]["annotations"]["rdma.fabric/config-hash"])
    assert len(hashes) == 2
    elsewhere = rendered(OWN)["DaemonSet"]
    assert "annotations" not in elsewhere["spec"]["template"]["metadata"]


def test_a_configuration_of_ones_own_replaces_the_operators() -> None:
    found = rendered(OWN)
    assert "ConfigMap" not in found
    assert pod_of(found["DaemonSet"])["volumes"][0]["configMap"] == {"name": "own"}


def test_placing_secrets_and_resources_of_the_policy_reach_the_pod() -> None:
    objects = [each for wave in render(services()) for each in wave["objects"]]
    daemons = {each["metadata"]["name"]: each for each in objects if each["kind"] == "DaemonSet"}
    pod, main = pod_of(daemons[NAME]), main_of(daemons[NAME])
    assert pod["imagePullSecrets"] == [{"name": "ngc"}]
    assert [each["key"] for each in pod["tolerations"]] == ["dedicated", "nvidia.com/gpu"]
    assert main["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}}


def test_global_counts_as_with_the_operator_and_a_tag_that_the_service_has_not_is_named() -> None:
    defaults = {"repository": "registry.local/nvidia", "version": "network-operator-v26.4.1"}
    policy: Object = {"global": defaults, "docaTelemetryService": {}}
    fabric = of_policy(policy).accepted()
    assert fabric.said("releases of its own").path == "spec.docaTelemetryService"
    image = main_of(rendered({}, **{"global": defaults})["DaemonSet"])["image"]
    assert image == "registry.local/nvidia/doca_telemetry:network-operator-v26.4.1"
    policy["docaTelemetryService"] = {"version": "1.25.5-doca3.4.0-host"}
    assert not [each for each in of_policy(policy).accepted().notices if "of its own" in each.problem]


@pytest.mark.parametrize("config", [{}, {"fromConfigMap": ""}])
def test_a_configuration_that_names_nothing_is_refused(config: Object) -> None:
    section: Object = {"config": config}
    assert of_policy({"docaTelemetryService": section}).violations


def test_a_configuration_is_named_where_it_is_not_given_and_judged_where_it_is() -> None:
    notice = of_policy({"docaTelemetryService": OWN}).accepted().said("names the ConfigMap own")
    assert notice.path == "spec.docaTelemetryService.config.fromConfigMap"
    assert KEY in notice.hint and NAMESPACE in notice.hint
    assert not [each for each in configured({KEY: "update=1000"}).accepted().notices if "ConfigMap" in each.problem]
    assert configured({"dts.ini": "update=1000"}).wrong("data").problem.startswith(f"lacks {KEY}")
    assert configured({KEY: ""}, "elsewhere").accepted().said("names the ConfigMap own")
