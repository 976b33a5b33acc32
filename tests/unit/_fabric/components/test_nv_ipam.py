# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of nv-ipam: what its programs need to start, and where pools go.

The facts are those of ``manifests/state-nv-ipam-cni`` of the Network Operator 26.4.1.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import nv_ipam, pool, spec_of

Object = dict[str, Any]
NAMESPACE = "nvidia-network-operator"
CONTROL_PLANE = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")


def rendered(policy: Object, **parts: Any) -> dict[tuple[str, str], Object]:
    waves = render(spec_of({"nvIpam": policy}, settings={"nfd": False}, **parts))
    return {(each["kind"], each["metadata"]["name"]): each for wave in waves for each in wave["objects"]}


def container(found: Object) -> Object:
    (only,) = found["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_the_section_alone_brings_everything_but_the_webhook() -> None:
    assert set(rendered({})) == {
        ("Namespace", NAMESPACE),
        ("CustomResourceDefinition", "ippools.nv-ipam.nvidia.com"),
        ("CustomResourceDefinition", "cidrpools.nv-ipam.nvidia.com"),
        *(
            (kind, f"nv-ipam-{part}")
            for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
            for part in ("controller", "node")
        ),
        ("Deployment", "nv-ipam-controller"),
        ("DaemonSet", "nv-ipam-node"),
    }


def test_the_daemon_installs_the_program_and_serves_it_on_one_socket() -> None:
    daemon = rendered({}, namespace="fabric")[("DaemonSet", "nv-ipam-node")]
    pod = daemon["spec"]["template"]["spec"]
    main = container(daemon)
    assert main["image"] == "nvcr.io/nvidia/mellanox/nvidia-k8s-ipam:network-operator-v26.7.0"
    assert "--bind-address=unix:///var/lib/cni/nv-ipam/daemon.sock" in main["args"]
    assert "--cni-daemon-socket=unix:///var/lib/cni/nv-ipam/daemon.sock" in main["args"]
    assert "--ippools-namespace=$(IPPOOLS_NAMESPACE)" in main["args"]
    assert main["securityContext"] == {"privileged": True, "runAsUser": 0}
    assert main["resources"] == {
        "limits": {"cpu": "300m", "memory": "300Mi"},
        "requests": {"cpu": "100m", "memory": "50Mi"},
    }
    assert {each["name"]: each["hostPath"]["path"] for each in pod["volumes"]} == {
        "cnibin": "/opt/cni/bin",
        "cniconf": "/etc/cni/net.d/nv-ipam.d",
        "daemonstate": "/var/lib/cni/nv-ipam/",
    }
    assert "hostNetwork" not in pod and "nodeSelector" not in pod


def test_the_folders_of_the_distribution_are_the_daemons() -> None:
    settings = {"nfd": False, "cni_bin_dir": "/usr/libexec/cni", "cni_conf_dir": "/etc/rke2/cni"}
    waves = render(spec_of({"nvIpam": {}}, settings=settings))
    (daemon,) = [each for wave in waves for each in wave["objects"] if each["kind"] == "DaemonSet"]
    paths = [each["hostPath"]["path"] for each in daemon["spec"]["template"]["spec"]["volumes"]]
    assert paths[:2] == ["/usr/libexec/cni", "/etc/rke2/cni/nv-ipam.d"]


def test_the_controller_runs_twice_apart_and_near_the_control_plane() -> None:
    controller = rendered({})[("Deployment", "nv-ipam-controller")]
    pod = controller["spec"]["template"]["spec"]
    assert controller["spec"]["replicas"] == 2
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    nodes = pod["affinity"]["nodeAffinity"][preferred]
    assert [each["preference"]["matchExpressions"][0]["key"] for each in nodes] == list(CONTROL_PLANE)
    assert (
        pod["affinity"]["podAntiAffinity"][preferred][0]["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    )
    assert [each["key"] for each in pod["tolerations"]] == ["nvidia.com/gpu", *CONTROL_PLANE]
    assert "--webhook=true" not in container(controller)["args"]


def test_placing_secrets_and_resources_of_the_policy_reach_the_pods() -> None:
    waves = render(nv_ipam())
    found = {each["metadata"]["name"]: each for wave in waves for each in wave["objects"]}
    controller, daemon = (found[name]["spec"]["template"]["spec"] for name in ("nv-ipam-controller", "nv-ipam-node"))
    assert controller["imagePullSecrets"] == daemon["imagePullSecrets"] == [{"name": "ngc"}]
    assert controller["tolerations"][-1] == {"key": "dedicated", "operator": "Exists"}
    assert "requiredDuringSchedulingIgnoredDuringExecution" in controller["affinity"]["nodeAffinity"]
    assert "affinity" not in daemon
    assert daemon["containers"][0]["resources"] == {"limits": {"cpu": "500m", "memory": "1Gi"}}


def test_the_webhook_brings_its_certificate_and_asks_about_both_kinds() -> None:
    found = rendered({"enableWebhook": True}, namespace="fabric")
    webhook = found[("ValidatingWebhookConfiguration", "nv-ipam-validating-webhook-configuration")]
    certificate = found[("Certificate", "nv-ipam-serving-cert")]
    controller = found[("Deployment", "nv-ipam-controller")]
    assert webhook["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "fabric/nv-ipam-serving-cert"}
    assert [each["rules"][0]["resources"] for each in webhook["webhooks"]] == [["ippools"], ["cidrpools"]]
    services = {each["clientConfig"]["service"]["name"] for each in webhook["webhooks"]}
    assert services == {found[("Service", "nv-ipam-webhook-service")]["metadata"]["name"]}
    assert certificate["spec"]["dnsNames"][0] == "nv-ipam-webhook-service.fabric.svc"
    assert found[("Issuer", certificate["spec"]["issuerRef"]["name"])]["spec"] == {"selfSigned": {}}
    (volume,) = controller["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert "--webhook=true" in container(controller)["args"]


def test_pools_come_after_what_judges_and_serves_them() -> None:
    waves = render(nv_ipam())
    order = [wave["name"] for wave in waves]
    of_kind = {each["kind"]: wave["name"] for wave in waves for each in wave["objects"]}
    assert of_kind["IPPool"] == of_kind["CIDRPool"] == "networks"
    assert order.index(of_kind["Deployment"]) < order.index("networks")


def test_a_pool_without_a_namespace_goes_where_nv_ipam_looks() -> None:
    spec = {"subnet": "10.0.0.0/24", "perNodeBlockSize": 10}
    found = rendered({}, namespace="fabric", pools=[pool("IPPool", "a", spec)])[("IPPool", "a")]
    assert found["metadata"]["namespace"] == "fabric"
    assert (found["apiVersion"], found["spec"]) == ("nv-ipam.nvidia.com/v1alpha1", spec)
