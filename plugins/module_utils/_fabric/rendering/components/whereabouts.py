# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whereabouts, the cluster-wide address management of secondary networks.

What a release needs besides its DaemonSet differs: from 0.5 to 0.6 a CronJob cleans up leftover addresses, from 0.6 the
control loop in the DaemonSet does (since 0.6.3 on the schedule of a ConfigMap), from 0.9.4 a Deployment does. Before
0.5 nothing does, and before 0.5.3 there is no control loop: the pod installs the program and keeps its token fresh.
"""

from __future__ import annotations

from ...checks.versions import has_control_loop, has_node_slices, reconciles_addresses
from ...common.images import older_than, version_numbers
from ...common.objects import (
    Object,
    build,
    cluster_rbac,
    component_labels,
    config_map,
    config_volume,
    digest,
    field_env,
    host_volume,
    mount,
    rule,
)
from ..rollout import Rollout

COMPONENT = "whereabouts"
SECTION = "secondaryNetwork.ipamPlugin"

_FIRST_LOOP_RECONCILER = (0, 6, 0)
_FIRST_RECONCILER_DEPLOYMENT = (0, 9, 4)
_SCHEDULE = "30 4 * * *"
# The programs look for their configuration here whatever the runtime's own folder is.
_CONF = "/etc/cni/net.d"
_REQUESTS = {"cpu": "100m", "memory": "100Mi"}
_LIMITS = {"cpu": "100m", "memory": "200Mi"}

# install-cni.sh writes program, configuration and kubeconfig over those that a pod is being set up with (every release
# up to 0.9.4). So it writes into a folder of its own, and each file takes the place of the node's by a rename; the
# configuration names the kubeconfig by its place.
#
# It writes the pod's token into the kubeconfig once, before 0.9 for good: a token that expires or is rotated would stop
# every new pod. So the two are compared every minute and the file replaced by a rename. Only the shell itself handles
# the token: as an argument of a program every user of the node could read it.
_INSTALL = """\
bin=${CNI_BIN_DIR:-/host/opt/cni/bin}
conf=${CNI_CONF_DIR:-/host/etc/cni/net.d}
new=$(mktemp -d) && mkdir "$new/bin" "$new/conf" || exit 1
SLEEP=false CNI_BIN_DIR="$new/bin" CNI_CONF_DIR="$new/conf" /install-cni.sh || exit 1
put() {
  for file in "$2"/*; do
    [ -f "$file" ] || continue
    cp -p "$file" "$1/.${file##*/}.new" && mv -f "$1/.${file##*/}.new" "$1/${file##*/}" || exit 1
  done
}
mkdir -p "$conf/whereabouts.d" || exit 1
for file in "$new"/conf/whereabouts.d/*.conf; do
  [ ! -f "$file" ] || sed -i "s|$new/conf|${conf#/host}|g" "$file" || exit 1
done
put "$conf/whereabouts.d" "$new/conf/whereabouts.d"
put "$bin" "$new/bin"
rm -rf "$new"
token_file=${TOKEN_FILE:-/var/run/secrets/kubernetes.io/serviceaccount/token}
kubeconfig=$conf/whereabouts.d/whereabouts.kubeconfig
refresh() {
  umask 077
  while sleep "${TOKEN_CHECK_SECONDS:-60}"; do
    token=$(cat "$token_file")
    case "$(cat "$kubeconfig")" in *"$token"*) continue ;; esac
    while IFS= read -r line; do
      case "$line" in
        *token:*) printf '    token: "%s"\\n' "$token" ;;
        *) printf '%s\\n' "$line" ;;
      esac
    done < "$kubeconfig" > "$kubeconfig.new" && mv -f "$kubeconfig.new" "$kubeconfig"
  done
}
"""
START = (
    _INSTALL
    + """\
refresh &
exec "${CONTROL_LOOP:-/ip-control-loop}" -log-level verbose
"""
)
START_WITHOUT_LOOP = _INSTALL + "refresh\n"


def whereabouts(rollout: Rollout, section: Object, node_slices: bool) -> list[Object]:
    """Return the objects of ``secondaryNetwork.ipamPlugin``; ``node_slices``: a network asks for slices per node."""
    version = rollout.version(COMPONENT, section)
    found = cluster_rbac(COMPONENT, rollout.namespace, COMPONENT, _rules(version), role="whereabouts-cni")
    found.append(config_map("whereabouts-config", rollout.namespace, COMPONENT, {"cron-expression": _SCHEDULE}))
    found.append(_daemon_set(rollout, section, START if has_control_loop(version) else START_WITHOUT_LOOP))
    if reconciles_addresses(version) and older_than(version, _FIRST_LOOP_RECONCILER):
        found.append(_cron_job(rollout, section))
    if not older_than(version, _FIRST_RECONCILER_DEPLOYMENT) and version_numbers(version):
        found.append(_controller(rollout, section, "whereabouts-reconciler", "/ip-reconciler"))
    if node_slices and has_node_slices(version):
        found.append(_controller(rollout, section, "whereabouts-controller", "/node-slice-controller"))
    return found


def _rules(version: str) -> list[Object]:
    full = ["create", "delete", "get", "list", "patch", "update", "watch"]
    read = ["get", "list", "watch"]
    pools = ["ippools", "overlappingrangeipreservations"]
    return [
        rule(["whereabouts.cni.cncf.io"], [*pools, "nodeslicepools"] if has_node_slices(version) else pools, full),
        rule(["coordination.k8s.io"], ["leases"], full),
        rule([""], ["pods"], read),
        rule([""], ["nodes"], read if has_node_slices(version) else ["get"]),
        rule(["k8s.cni.cncf.io"], ["network-attachment-definitions"], read),
        rule(["", "events.k8s.io"], ["events"], ["create", "get", "patch", "update"]),
    ]


def _daemon_set(rollout: Rollout, section: Object, start: str) -> Object:
    container = {
        **_container(rollout, section, COMPONENT),
        "command": ["/bin/sh", "-c", start],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("cnibin", "/host/opt/cni/bin"),
            mount("cni-net-dir", "/host/etc/cni/net.d"),
            mount("cron-scheduler-configmap", "/cron-schedule"),
        ],
    }
    pod = rollout.pod(
        section,
        hostNetwork=True,
        serviceAccountName=COMPONENT,
        containers=[container],
        volumes=[
            host_volume("cnibin", rollout.cni_bin_dir),
            host_volume("cni-net-dir", _CONF, "DirectoryOrCreate"),
            config_volume("cron-scheduler-configmap", "whereabouts-config", "cron-expression", "config"),
        ],
    )
    return rollout.workload(
        "DaemonSet",
        COMPONENT,
        COMPONENT,
        selector={"name": COMPONENT},
        labels={"app": COMPONENT, "tier": "node"},
        pod=pod,
        config_hash=digest(_SCHEDULE),
        updateStrategy={"type": "RollingUpdate"},
    )


def _controller(rollout: Rollout, section: Object, name: str, program: str) -> Object:
    container = {
        **_container(rollout, section, name),
        "command": [program],
        "volumeMounts": [mount("cron-scheduler-configmap", "/cron-schedule")],
    }
    pod = {
        **_deployment_placing(rollout, section),
        "containers": [container],
        "serviceAccountName": COMPONENT,
        "volumes": [config_volume("cron-scheduler-configmap", "whereabouts-config", "cron-expression", "config")],
    }
    return rollout.workload(
        "Deployment",
        name,
        COMPONENT,
        selector={"app": name},
        pod=pod,
        config_hash=digest(_SCHEDULE),
        replicas=1,
    )


def _cron_job(rollout: Rollout, section: Object) -> Object:
    container = {
        **_container(rollout, section, COMPONENT),
        "command": ["/ip-reconciler", "-log-level=verbose"],
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
        "volumeMounts": [mount("cni-net-dir", "/host/etc/cni/net.d")],
    }
    pod = {
        **_deployment_placing(rollout, section),
        "containers": [container],
        "restartPolicy": "OnFailure",
        "serviceAccountName": COMPONENT,
        "volumes": [host_volume("cni-net-dir", _CONF)],
    }
    job = {
        "backoffLimit": 0,
        "template": {"metadata": {"labels": component_labels(COMPONENT)}, "spec": pod},
        "ttlSecondsAfterFinished": 300,
    }
    spec = {
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": job},
        "schedule": "*/5 * * * *",
        "successfulJobsHistoryLimit": 0,
    }
    return build("batch/v1", "CronJob", "ip-reconciler", COMPONENT, namespace=rollout.namespace, spec=spec)


def _deployment_placing(rollout: Rollout, section: Object) -> Object:
    affinity = rollout.spec.get("deploymentNodeAffinity")
    return {
        "affinity": {"nodeAffinity": affinity} if affinity else {},
        "imagePullSecrets": rollout.pod(section)["imagePullSecrets"],
        "tolerations": rollout.spec.get("deploymentTolerations") or [],
    }


def _container(rollout: Rollout, section: Object, name: str) -> Object:
    env = [field_env("NODENAME", "spec.nodeName"), field_env("WHEREABOUTS_NAMESPACE", "metadata.namespace")]
    return rollout.container(name, COMPONENT, section, {"limits": _LIMITS, "requests": _REQUESTS}, env=env)
