# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nv-ipam, the vendor's address management of secondary networks.

A controller gives each node its part of every pool; a daemon on each node assigns addresses of these parts to the CNI
program, which it installs. Facts: ``manifests/state-nv-ipam-cni`` of the Network Operator, whose arguments for nv-ipam
are the same since v24.1.0. The webhook's certificate is cert-manager's work, or OpenShift's own, as it is upstream.
Releases before v0.1.0 are :mod:`nv_ipam_config`'s.
"""

from __future__ import annotations

from typing import Sequence

from ...checks.nv_ipam import API_VERSION, POOL_KINDS, config_of
from ...checks.versions import elects_leader
from ...common.jsontext import pretty
from ...common.objects import Object, build, cluster_rbac, config_map, field_env, host_volume, mount, rule
from ..rollout import CONTROL_PLANE_TOLERATIONS, GPU_TOLERATION, Rollout, merge_tolerations, probe

COMPONENT = "nv-ipam"
SECTION = "nvIpam"

CONTROLLER = "nv-ipam-controller"
NODE = "nv-ipam-node"
_GROUP = "nv-ipam.nvidia.com"
_POOLS = ["ippools", "cidrpools"]
_SERVICE = "nv-ipam-webhook-service"
_ISSUER = "nv-ipam-selfsigned-issuer"
_CERTIFICATE = "nv-ipam-serving-cert"
_SERVING_CERT = "nv-ipam-webhook-server-cert"
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108  # in the pod, where the program looks for them
_STATE = "/var/lib/cni/nv-ipam"
_SOCKET = f"unix://{_STATE}/daemon.sock"


def nv_ipam(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``nvIpam``."""
    webhook = bool(section.get("enableWebhook"))
    return [
        *cluster_rbac(NODE, rollout.namespace, COMPONENT, _node_rules()),
        *cluster_rbac(CONTROLLER, rollout.namespace, COMPONENT, _controller_rules()),
        *(_webhook(rollout.namespace, openshift=rollout.openshift) if webhook else []),
        controller(rollout, section, _controller_arguments(webhook=webhook), certificate=webhook),
        _daemon(rollout, section),
    ]


def pool(given: Object, namespace: str) -> Object:
    """Return an IPPool or CIDRPool ``{"kind", "name", "namespace", "labels", "annotations", "spec"}`` as an object.

    A pool without a namespace goes where nv-ipam looks for pools: into its own.
    """
    return build(
        API_VERSION,
        given["kind"],
        given["name"],
        "pool",
        namespace=given.get("namespace") or namespace,
        labels=given.get("labels"),
        annotations=given.get("annotations"),
        spec=given["spec"],
    )


def _node_rules() -> list[Object]:
    read = ["get", "list", "watch"]
    return [rule([""], ["pods"], read), rule([_GROUP], _POOLS, read)]


def _controller_rules() -> list[Object]:
    read = ["get", "list", "watch"]
    return [
        rule([""], ["nodes"], ["get", "list", "patch", "update", "watch"]),
        rule([""], ["configmaps"], [*read, "delete"]),
        rule([_GROUP], _POOLS, [*read, "create"]),
        rule([_GROUP], [f"{each}/status" for each in _POOLS], ["get", "update", "patch"]),
        rule(["coordination.k8s.io"], ["leases"], [*read, "create", "update", "patch", "delete"]),
        rule([""], ["events"], ["create", "patch"]),
    ]


def labels_of(name: str) -> dict[str, str]:
    """Return the labels of a program of nv-ipam."""
    return {"app": COMPONENT, "component": name, "name": name}


def _controller_arguments(*, webhook: bool) -> list[str]:
    return [
        "--leader-elect=true",
        "--leader-elect-namespace=$(POD_NAMESPACE)",
        "--ippools-namespace=$(POD_NAMESPACE)",
        *(["--webhook=true"] if webhook else []),
    ]


def controller(
    rollout: Rollout, section: Object, arguments: list[str], *, certificate: bool = False, replicas: int = 2
) -> Object:
    """Return the Deployment of the controller, which gets the webhook's ``certificate`` where it serves one."""
    container = rollout.container(
        CONTROLLER,
        COMPONENT,
        section,
        {"requests": {"cpu": "100m", "memory": "300Mi"}},
        command=["/ipam-controller"],
        args=arguments,
        env=[field_env("POD_NAMESPACE", "metadata.namespace")],
        livenessProbe=probe("/healthz", 15, 20),
        readinessProbe=probe("/readyz", 5, 10),
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        volumeMounts=[mount("cert", _CERTIFICATES, read_only=True)] if certificate else [],
    )
    pod = {
        "affinity": {
            "nodeAffinity": rollout.near_the_control_plane(),
            "podAntiAffinity": _apart() if replicas > 1 else {},
        },
        "containers": [container],
        "imagePullSecrets": rollout.pod(section)["imagePullSecrets"],
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": CONTROLLER,
        "tolerations": merge_tolerations(
            [GPU_TOLERATION],
            CONTROL_PLANE_TOLERATIONS,
            rollout.spec.get("deploymentTolerations") or [],
        ),
        "volumes": (
            [{"name": "cert", "secret": {"defaultMode": 420, "secretName": _SERVING_CERT}}] if certificate else []
        ),
    }
    return rollout.workload(
        "Deployment",
        CONTROLLER,
        COMPONENT,
        selector={"name": CONTROLLER},
        labels=labels_of(CONTROLLER),
        pod=pod,
        replicas=replicas,
        strategy={"type": "RollingUpdate"},
    )


def _apart() -> Object:
    """Return an affinity that prefers two nodes for the two controllers; one node is enough."""
    same = {"matchExpressions": [{"key": "name", "operator": "In", "values": [CONTROLLER]}]}
    term = {"podAffinityTerm": {"labelSelector": same, "topologyKey": "kubernetes.io/hostname"}, "weight": 100}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def _daemon(rollout: Rollout, section: Object) -> Object:
    container = rollout.container(
        NODE,
        COMPONENT,
        section,
        {"limits": {"cpu": "300m", "memory": "300Mi"}, "requests": {"cpu": "100m", "memory": "50Mi"}},
        command=["/ipam-node"],
        args=[
            "--node-name=$(NODE_NAME)",
            "--v=1",
            "--logging-format=json",
            f"--bind-address={_SOCKET}",
            f"--store-file={_STATE}/store",
            f"--cni-daemon-socket={_SOCKET}",
            "--cni-daemon-call-timeout=5",
            "--cni-bin-dir=/opt/cni/bin",
            "--cni-conf-dir=/etc/cni/net.d/nv-ipam.d",
            "--cni-log-file=/var/log/nv-ipam-cni.log",
            "--cni-log-level=info",
            "--ippools-namespace=$(IPPOOLS_NAMESPACE)",
        ],
        env=[field_env("NODE_NAME", "spec.nodeName"), field_env("IPPOOLS_NAMESPACE", "metadata.namespace")],
        securityContext={"privileged": True, "runAsUser": 0},
        volumeMounts=[
            mount("cnibin", "/opt/cni/bin"),
            mount("cniconf", "/etc/cni/net.d/nv-ipam.d"),
            mount("daemonstate", f"{_STATE}/"),
        ],
    )
    pod = rollout.pod(
        section,
        serviceAccountName=NODE,
        terminationGracePeriodSeconds=10,
        containers=[container],
        volumes=[
            host_volume("cnibin", rollout.cni_bin_dir, "DirectoryOrCreate"),
            host_volume("cniconf", f"{rollout.cni_conf_dir}/nv-ipam.d", "DirectoryOrCreate"),
            host_volume("daemonstate", f"{_STATE}/", "DirectoryOrCreate"),
        ],
    )
    return daemon_set(rollout, pod)


def daemon_set(rollout: Rollout, pod: Object) -> Object:
    """Return the DaemonSet of what runs on each node."""
    return rollout.workload(
        "DaemonSet",
        NODE,
        COMPONENT,
        selector={"name": NODE},
        labels=labels_of(NODE),
        pod=pod,
        updateStrategy={"type": "RollingUpdate"},
    )


def _certificate(namespace: str) -> list[Object]:
    """Return what has cert-manager issue the webhook's certificate."""
    issuer = build("cert-manager.io/v1", "Issuer", _ISSUER, COMPONENT, namespace=namespace)
    # An empty map means something here, so it is set after the canonical form has dropped empty ones.
    issuer["spec"] = {"selfSigned": {}}
    host = f"{_SERVICE}.{namespace}.svc"
    certificate = {
        "dnsNames": [host, f"{host}.cluster.local"],
        "issuerRef": {"kind": "Issuer", "name": _ISSUER},
        "secretName": _SERVING_CERT,
    }
    return [
        issuer,
        build("cert-manager.io/v1", "Certificate", _CERTIFICATE, COMPONENT, namespace=namespace, spec=certificate),
    ]


def _webhook(namespace: str, *, openshift: bool) -> list[Object]:
    """Return what makes the API server ask the controller about pools, with a certificate for it."""
    served = {"service.alpha.openshift.io/serving-cert-secret-name": _SERVING_CERT} if openshift else {}
    injected = {"cert-manager.io/inject-ca-from": f"{namespace}/{_CERTIFICATE}"}
    if openshift:
        injected = {"service.beta.openshift.io/inject-cabundle": "true"}
    service = {
        "ports": [{"port": 443, "protocol": "TCP", "targetPort": 9443}],
        "selector": {"name": CONTROLLER},
    }
    return [
        *([] if openshift else _certificate(namespace)),
        build("v1", "Service", _SERVICE, COMPONENT, namespace=namespace, annotations=served, spec=service),
        build(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "nv-ipam-validating-webhook-configuration",
            COMPONENT,
            annotations=injected,
            webhooks=[_judge(kind, namespace) for kind in POOL_KINDS],
        ),
    ]


def _judge(kind: str, namespace: str) -> Object:
    path = f"/validate-nv-ipam-nvidia-com-v1alpha1-{kind.lower()}"
    asked = {
        "apiGroups": [_GROUP],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{kind.lower()}s"],
        # The server's default, written out: it compares rules as a whole.
        "scope": "*",
    }
    return {
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": _SERVICE, "namespace": namespace, "path": path}},
        "failurePolicy": "Fail",
        "name": f"validate-{kind.lower()}.nv-ipam.nvidia.com",
        "rules": [asked],
        "sideEffects": "None",
    }


# nv-ipam before v0.1.0, which reads its pools from a ConfigMap.
#
# Its controller notes each node's part of every pool in an annotation of the node; a pod on each node installs the CNI
# program, which reads that annotation, and ends in host-local. Facts: ``manifests/state-nv-ipam-cni`` of the Network
# Operator v23.5.0 and v23.7.0, ``cmd/ipam-node`` and ``pkg/cni/types`` of nvidia-k8s-ipam v0.0.2 and v0.0.3.
_CONFIG_MAP = "nvidia-k8s-ipam-config"
# The program looks for its configuration here whatever the runtime's own folder is.
_CONF = "/etc/cni/net.d"
_AMOUNTS = {"cpu": "100m", "memory": "50Mi"}


def nv_ipam_config(rollout: Rollout, section: Object, pools: Sequence[Object]) -> list[Object]:
    """Return the objects of ``nvIpam`` with an old release; ``pools`` are the IPPools of a FabricSpec.

    Without pools there is no ConfigMap: the controller waits for one.
    """
    has_leader = elects_leader(rollout.version(COMPONENT, section))
    arguments = [f"--config-name={_CONFIG_MAP}", "--config-namespace=$(POD_NAMESPACE)"]
    if has_leader:
        arguments += ["--leader-elect=true", "--leader-elect-namespace=$(POD_NAMESPACE)"]
    found = [
        *cluster_rbac(NODE, rollout.namespace, COMPONENT, [rule([""], ["nodes"], ["get"])]),
        *cluster_rbac(CONTROLLER, rollout.namespace, COMPONENT, _rules_of_old_controller(has_leader)),
        controller(rollout, section, arguments, replicas=2 if has_leader else 1),
        _old_daemon(rollout, section),
    ]
    if pools:
        config = pretty(config_of({pool["name"]: pool["spec"] for pool in pools}))
        found.append(config_map(_CONFIG_MAP, rollout.namespace, COMPONENT, {"config": config}))
    return found


def _rules_of_old_controller(has_leader: bool) -> list[Object]:
    read = ["get", "list", "watch"]
    found = [
        rule([""], ["nodes"], ["get", "list", "patch", "update", "watch"]),
        rule([""], ["configmaps"], read),
    ]
    if has_leader:
        found.append(rule(["coordination.k8s.io"], ["leases"], [*read, "create", "update", "patch", "delete"]))
        found.append(rule([""], ["events"], ["create", "patch"]))
    return found


def _old_daemon(rollout: Rollout, section: Object) -> Object:
    container = rollout.container(
        NODE,
        COMPONENT,
        section,
        {"limits": _AMOUNTS, "requests": _AMOUNTS},
        command=["/ipam-node"],
        env=[field_env("NODE_NAME", "spec.nodeName")],
        securityContext={"privileged": True},
        volumeMounts=[
            mount("cnibin", "/host/opt/cni/bin"),
            mount("cni", "/host/etc/cni/net.d"),
            mount("hostlocalcnibin", f"/host{_STATE}/bin"),
            mount("hostlocalcnistate", f"/host{_STATE}/state/host-local"),
        ],
    )
    pod = rollout.pod(
        section,
        hostNetwork=True,
        serviceAccountName=NODE,
        terminationGracePeriodSeconds=10,
        containers=[container],
        volumes=[
            host_volume("cnibin", rollout.cni_bin_dir, "DirectoryOrCreate"),
            host_volume("cni", _CONF, "DirectoryOrCreate"),
            host_volume("hostlocalcnibin", f"{_STATE}/bin", "DirectoryOrCreate"),
            host_volume("hostlocalcnistate", f"{_STATE}/state/host-local", "DirectoryOrCreate"),
        ],
    )
    return daemon_set(rollout, pod)
