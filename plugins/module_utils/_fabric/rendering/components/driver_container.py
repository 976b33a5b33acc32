# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver's container: a DaemonSet for each group of nodes of one system and kernel.

Facts: ``manifests/state-ofed-driver`` and ``pkg/state/state_ofed.go`` of the Network Operator 26.4.1. The operator asks
the registry whether it has a precompiled image; here the group of nodes says so, or ``forcePrecompiled``.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ...checks import driver_container as driver
from ...checks.driver_container import Group
from ...common.images import image_reference
from ...common.jsontext import pretty
from ...common.objects import (
    Object,
    canonical_env,
    cluster_rbac,
    config_map,
    field_env,
    host_volume,
    mount,
    rule,
)
from ..rollout import CRITICAL, Rollout, name_hash, resources_of

COMPONENT = "doca-driver"
INIT_COMPONENT = "doca-driver-init"
POD_LABEL = "nvidia.com/ofed-driver"

_ACCOUNT = "ofed-driver"
_INIT_CONFIG, _INIT_KEY = "ofed-init-container-config", "config.json"
_READY = "ls /run/mellanox/drivers/.driver-ready"
_LOADED = "lsmod | grep mlx5_core"
_INVENTORY = "/mnt/drivers-inventory"
_TOOLKIT_FOLDER = "/mnt/shared-doca-driver-toolkit"
_TOOLKIT_VOLUME = "shared-doca-driver-toolkit"
# Far more than a build takes; a volume without any setting would be an empty mapping, which is left out.
_TOOLKIT_SIZE = "16Gi"
_MODULES = (
    "mlx5_core",
    "mlx5_ib",
    "ib_umad",
    "ib_uverbs",
    "ib_ipoib",
    "rdma_cm",
    "rdma_ucm",
    "ib_core",
    "ib_cm",
)
_DEFAULT_ENV = {"CREATE_IFNAMES_UDEV": "true", "NVIDIA_NIC_DRIVERS_INVENTORY_PATH": _INVENTORY}
_GRACE_SECONDS = 300
# Volume, path on the host, path in the container, type of the volume.
_VOLUMES = (
    ("run-mlnx-ofed", "/run/mellanox/drivers", "/run/mellanox/drivers", ""),
    ("etc-network", "/etc/network", "/etc/network", ""),
    ("host-etc", "/etc", "/host/etc", ""),
    ("host-usr", "/usr", "/host/usr", ""),
    ("host-udev", "/lib/udev", "/host/lib/udev", ""),
    ("host-run-udev", "/run/udev", "/run/udev", ""),
    ("host-lib-modules", "/lib/modules", "/host/lib/modules", ""),
    ("drivers-inventory", "/var/opt/mofed-container/inventory", _INVENTORY, "DirectoryOrCreate"),
    ("host-ib-core", "/etc/modprobe.d/ib_core.conf", "/etc/modprobe.d/ib_core.conf", "FileOrCreate"),
    ("dev-infiniband", "/dev/infiniband", "/dev/infiniband", "DirectoryOrCreate"),
)
_INIT_VOLUMES = (("host-proc", "/proc", "/host/proc", "Directory"), ("host-sys", "/sys", "/host/sys", "Directory"))
# What a node's subscription to its distribution is read from: path in the container, path on the host, type.
_SUBSCRIPTIONS = {
    "rhel": (
        ("/run/secrets/etc-pki-entitlement", "/etc/pki/entitlement", "Directory"),
        ("/run/secrets/redhat.repo", "/etc/yum.repos.d/redhat.repo", "File"),
        ("/run/secrets/rhsm", "/etc/rhsm", "Directory"),
    ),
    "sles": (
        ("/etc/SUSEConnect", "/etc/SUSEConnect", "FileOrCreate"),
        ("/etc/zypp/credentials.d", "/etc/zypp/credentials.d", "Directory"),
    ),
}


def driver_container(
    rollout: Rollout, groups: Sequence[Group], config_maps: Mapping[str, Mapping[str, Any]]
) -> list[Object]:
    """Return the objects of ``ofedDriver``, none where it asks for packages on the hosts.

    ``config_maps`` are the data of those that the section may name. Two groups that differ in the architecture alone
    would have one name: theirs says the architecture too.
    """
    section = rollout.section(driver.SECTION)
    if section is None or not driver.in_container(rollout.settings):
        return []
    rules = [
        rule([""], ["nodes"], ["get", "list", "patch", "watch", "update"]),
        rule([""], ["configmaps"], ["get", "list"]),
    ]
    found = cluster_rbac(_ACCOUNT, rollout.namespace, COMPONENT, rules)
    data = {_INIT_KEY: pretty(_init_config(section))}
    found.append(config_map(rollout.named(_INIT_CONFIG), rollout.namespace, COMPONENT, data))
    names = [_name(group) for group in groups]
    for group, name in zip(groups, names):
        found.append(_daemon_set(rollout, section, group, config_maps, by_arch=names.count(name) > 1))
    return found


def _name(group: Group) -> str:
    return f"mofed-{group['os']}{group['os_version']}-{name_hash(group['kernel'])}"


def _init_config(section: Object) -> Object:
    policy = section.get("upgradePolicy") or {}
    return {
        "safeDriverLoad": {
            "enable": bool(policy.get("autoUpgrade") and policy.get("safeLoad")),
            "annotation": driver.SAFE_LOAD,
        },
        "moduleDependencyCheck": {
            "modules": list(_MODULES),
            "hostProcPath": "/host/proc",
            "hostSysPath": "/host/sys",
        },
    }


def _daemon_set(
    rollout: Rollout,
    section: Object,
    group: Group,
    config_maps: Mapping[str, Mapping[str, Any]],
    *,
    by_arch: bool,
) -> Object:
    version = rollout.version(COMPONENT, section)
    name = rollout.workload_name(_name(group), f"-{group['arch']}" if by_arch else "")
    toolkit = rollout.openshift and driver.compiles(group, section, version)
    mounts, volumes = _extras(section, group, config_maps)
    env = _environment(rollout, section)
    selector = {driver.LABELS[key]: group[key] for key in ("os", "os_version", "kernel")}
    if by_arch:
        selector[driver.LABELS["arch"]] = group["arch"]
    if toolkit:
        selector[driver.OSTREE_LABEL] = group["ostree_version"]
    pod = rollout.pod(
        section,
        selective=True,
        containers=[
            _container(rollout, section, group, [*mounts, *_toolkit_mounts(toolkit)], env, toolkit=toolkit),
            *([_toolkit(section, group, mounts, env)] if toolkit else []),
        ],
        hostNetwork=True,
        initContainers=[_init_container(rollout, section, env)],
        priorityClassName=CRITICAL,
        serviceAccountName=_ACCOUNT,
        terminationGracePeriodSeconds=section.get("terminationGracePeriodSeconds", _GRACE_SECONDS),
        volumes=[
            *(host_volume(volume, path, kind) for volume, path, _inside, kind in (*_VOLUMES, *_INIT_VOLUMES)),
            *volumes,
            *([{"name": _TOOLKIT_VOLUME, "emptyDir": {"sizeLimit": _TOOLKIT_SIZE}}] if toolkit else []),
        ],
    )
    pod["affinity"]["podAntiAffinity"] = _alone_on_its_node()
    pod["nodeSelector"] = {**pod["nodeSelector"], **selector}
    return rollout.workload(
        "DaemonSet",
        f"{name}-ds",
        COMPONENT,
        selector={"app": name},
        labels={"kernel": group["kernel"], POD_LABEL: ""},
        pod=pod,
        updateStrategy={"type": "OnDelete"},
    )


def _alone_on_its_node() -> Object:
    term = {
        "labelSelector": {"matchExpressions": [{"key": POD_LABEL, "operator": "Exists"}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _container(
    rollout: Rollout, section: Object, group: Group, mounts: list[Object], env: list[Object], *, toolkit: bool
) -> Object:
    own = [mount(name, path, read_only=name == "host-run-udev") for name, _path, path, _kind in _VOLUMES]
    own[0] = mount(_VOLUMES[0][0], _VOLUMES[0][2], propagation="Bidirectional")
    built = [{"name": "DTK_OCP_DRIVER_BUILD", "value": "true"}, _toolkit_variable()] if toolkit else []
    return rollout.container(
        driver.DRIVER,
        COMPONENT,
        section,
        image=_image(rollout, section, group),
        env=[*built, *env],
        livenessProbe=_probe(section, "livenessProbe", _LOADED),
        readinessProbe=_probe(section, "readinessProbe", _LOADED),
        securityContext={"privileged": True, "seLinuxOptions": {"level": "s0"}},
        startupProbe=_probe(section, "startupProbe", _READY),
        volumeMounts=[*own, *mounts],
    )


def _image(rollout: Rollout, section: Object, group: Group) -> str:
    """Return the image of a group: a release has one for each system, and for some kernels a precompiled one."""
    version, reference = rollout.version(COMPONENT, section), rollout.image(COMPONENT, section)
    if driver.is_digest(version):
        return reference
    kernel = [] if driver.compiles(group, section, version) else [group["kernel"]]
    tag = "-".join([version, *kernel, f"{group['os']}{group['os_version']}", group["arch"]])
    return f"{reference[: -len(version)]}{tag}"


def _init_container(rollout: Rollout, section: Object, env: list[Object]) -> Object:
    arguments = (
        ("node-name", "$(NODE_NAME)"),
        ("configmap-name", rollout.named(_INIT_CONFIG)),
        ("configmap-namespace", rollout.namespace),
        ("configmap-key", _INIT_KEY),
    )
    return {
        "name": driver.INIT,
        # As the operator's own, it is none of the images that the policy's global is about.
        "image": image_reference(INIT_COMPONENT, {}, {}, rollout.settings),
        "imagePullPolicy": "IfNotPresent",
        "args": [word for option, value in arguments for word in (f"--{option}", value)],
        "env": [field_env("NODE_NAME", "spec.nodeName"), *env],
        "resources": resources_of(section, driver.INIT),
        "volumeMounts": [mount(name, path, read_only=True) for name, _path, path, _kind in _INIT_VOLUMES],
    }


def _toolkit(section: Object, group: Group, mounts: list[Object], env: list[Object]) -> Object:
    """Return the container in which OpenShift's toolkit compiles the driver for the kernel of the group."""
    folder = f"{_TOOLKIT_FOLDER}/{group['kernel']}"
    script = (
        "trap 'exit 0' TERM INT\n"
        f"until [ -f {folder}/dtk_start_compile ]; do\n"
        "  sleep 3 &\n"
        "  wait $! || true\n"
        "done\n"
        f"exec {folder}/dtk_nic_driver_build.sh\n"
    )
    return {
        "name": driver.TOOLKIT,
        "image": group["toolkit_image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["bash", "-xc"],
        "args": [script],
        "env": [_toolkit_variable(), *env],
        "resources": resources_of(section, driver.TOOLKIT),
        "volumeMounts": [*mounts, *_toolkit_mounts(True)],
    }


def _toolkit_variable() -> Object:
    return {"name": "DTK_OCP_NIC_SHARED_DIR", "value": _TOOLKIT_FOLDER}


def _toolkit_mounts(toolkit: bool) -> list[Object]:
    return [mount(_TOOLKIT_VOLUME, _TOOLKIT_FOLDER)] if toolkit else []


def _environment(rollout: Rollout, section: Object) -> list[Object]:
    """Return the variables of the section, then the proxy's and the operator's own where it has none of them."""
    env = [canonical_env(variable) for variable in section.get("env") or []]
    given = {variable["name"] for variable in env}
    proxy = rollout.settings.get("proxy") or {}
    for name, key in driver.PROXY_VARIABLES:
        if proxy.get(key) and not {name, name.lower()} & given:
            env += [{"name": each, "value": proxy[key]} for each in (name, name.lower())]
    return [*env, *({"name": name, "value": value} for name, value in _DEFAULT_ENV.items() if name not in given)]


def _probe(section: Object, name: str, command: str) -> Object:
    return {"exec": {"command": ["sh", "-c", command]}, "successThreshold": 1, **driver.probe(section, name)}


def _extras(
    section: Object, group: Group, config_maps: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Object], list[Object]]:
    """Return the mounts and volumes of certificates, of repositories and of the node's subscription."""
    mounts: list[Object] = []
    volumes: list[Object] = []
    for field in ("certConfig", "repoConfig"):
        name = (section.get(field) or {}).get("name")
        if name:
            folder, keys = driver.FOLDERS[group["os"]][field], sorted(config_maps[name])
            mounts += [{**mount(name, f"{folder}/{key}", read_only=True), "subPath": key} for key in keys]
            items = [{"key": key, "path": key} for key in keys]
            volumes.append({"name": name, "configMap": {"name": name, "items": items}})
    if group["os"] == "sles" or (group["os"] == "rhel" and group.get("runtime") != "cri-o"):
        for index, (inside, path, kind) in enumerate(_SUBSCRIPTIONS[group["os"]]):
            mounts.append(mount(f"subscription-config-{index}", inside, read_only=True))
            volumes.append(host_volume(f"subscription-config-{index}", path, kind))
    return mounts, volumes
