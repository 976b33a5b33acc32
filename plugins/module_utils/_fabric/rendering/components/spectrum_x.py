# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Spectrum-X operator: a flow controller on each node with a NIC.

Facts: ``manifests/state-spectrum-x-operator`` of the Network Operator 26.4.1, and for images of 26.7 of its commit
b06827e0, after 26.7.0-rc.2: these read CIDRPools, and leave files of their own and for the service of Open vSwitch.
"""

from __future__ import annotations

from typing import Sequence

from ...checks import crds_controllers
from ...checks.versions import R26_7, Release, controller_release
from ...common.images import pull_secrets, split_reference
from ...common.objects import Object, cluster_rbac, field_env, host_volume, mount, rule
from ..rollout import Rollout

COMPONENT = "spectrum-x-operator"
XPLANE = "xplane"

_NAME = "spectrum-x-flowcontroller"
_OPEN_VSWITCH = "/var/run/openvswitch/"
_OPEN_VSWITCH_SETTINGS = "/etc/default/openvswitch-switch"
# Volume and folder, in the pod as on the host.
_OF_26_7 = (
    ("spectrum-x-lib", "/var/lib/spectrum-x"),
    ("ovs-vswitchd-dropin", "/etc/systemd/system/ovs-vswitchd.service.d"),
)
_READ = ["get", "list", "watch"]
_EVERY_VERB = ["create", "delete", "get", "list", "patch", "update", "watch"]


def spectrum_x(rollout: Rollout, section: Object) -> list[Object]:
    """Return the objects of ``spectrumXOperator``."""
    release = controller_release(rollout.version(COMPONENT, section), rollout.settings)
    return [
        *crds_controllers.spectrum_x(release),
        *cluster_rbac(COMPONENT, rollout.namespace, COMPONENT, _rules(release)),
        _daemon_set(rollout, section, _OF_26_7 if release >= R26_7 else ()),
    ]


def _rules(release: Release) -> list[Object]:
    of_status = ["get", "patch", "update"]
    functions = ["ovsnetworks", "sriovnetworknodepolicies", "sriovnetworkpoolconfigs"]
    return [
        rule([""], ["events"], ["create", "get", "patch", "update"]),
        rule([""], ["nodes"], _READ),
        rule([""], ["pods"], _EVERY_VERB),
        rule([""], ["pods/finalizers"], ["update"]),
        rule([""], ["pods/status"], of_status),
        rule(["coordination.k8s.io"], ["leases"], _EVERY_VERB),
        rule(["spectrumx.nvidia.com"], ["spectrumxrailpoolconfigs"], _READ),
        rule(["spectrumx.nvidia.com"], ["spectrumxrailpoolconfigs/status"], of_status),
        rule(["sriovnetwork.openshift.io"], functions, _EVERY_VERB),
        rule(["sriovnetwork.openshift.io"], ["sriovnetworknodestates"], _READ),
        *([rule(["nv-ipam.nvidia.com"], ["cidrpools"], _READ)] if release >= R26_7 else []),
    ]


def _daemon_set(rollout: Rollout, section: Object, folders: Sequence[tuple[str, str]]) -> Object:
    container = rollout.container(
        _NAME,
        COMPONENT,
        section,
        command=["/flowcontroller"],
        args=["--metrics-bind-address=0", "--health-probe-bind-address=0"],
        env=[
            *_xplane(rollout, section.get("xPlane")),
            field_env("POD_NAMESPACE", "metadata.namespace"),
            field_env("NODE_NAME", "spec.nodeName"),
        ],
        securityContext={"capabilities": {"drop": ["ALL"]}, "privileged": True, "runAsGroup": 0, "runAsUser": 0},
        volumeMounts=[
            mount("proc", "/proc"),
            mount("sys", "/sys"),
            mount("ovs", _OPEN_VSWITCH),
            mount("ovs-systemd-config", _OPEN_VSWITCH_SETTINGS),
            *(mount(volume, folder) for volume, folder in folders),
        ],
    )
    pod = rollout.pod(
        section,
        selective=True,
        hostNetwork=True,
        securityContext={"runAsNonRoot": False},
        serviceAccountName=COMPONENT,
        terminationGracePeriodSeconds=10,
        containers=[container],
        volumes=[
            host_volume("proc", "/proc"),
            host_volume("sys", "/sys"),
            host_volume("ovs", _OPEN_VSWITCH),
            host_volume("ovs-systemd-config", _OPEN_VSWITCH_SETTINGS, "FileOrCreate"),
            *(host_volume(volume, folder, "DirectoryOrCreate") for volume, folder in folders),
            host_volume("host-cni-bin", rollout.cni_bin_dir, "DirectoryOrCreate"),
        ],
    )
    return rollout.workload(
        "DaemonSet",
        _NAME,
        COMPONENT,
        selector={"control-plane": _NAME},
        annotations={"kubectl.kubernetes.io/default-container": _NAME},
        pod=pod,
        updateStrategy={"type": "RollingUpdate"},
    )


def _xplane(rollout: Rollout, section: Object | None) -> list[Object]:
    """Return the variables that name the image of the pods that the flow controller makes itself, if it makes any.

    As for the operator, ``global`` does not count for it, and it makes none without a version.
    """
    if section is None or not rollout.version(XPLANE, section):
        return []
    reference = split_reference(rollout.image(XPLANE, section))
    secrets = ",".join(secret["name"] for secret in pull_secrets(section, {}, rollout.settings))
    return [
        {"name": "XPLANE_REPOSITORY", "value": reference["repository"]},
        {"name": "XPLANE_IMAGE", "value": reference["image"]},
        {"name": "XPLANE_VERSION", "value": reference["digest"] or reference["version"]},
        # The server drops a value that is empty.
        {"name": "IMAGE_PULL_SECRETS", **({"value": secrets} if secrets else {})},
    ]
