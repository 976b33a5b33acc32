# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accepted means supported: every field of every model changes the output, or a notice names it."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Iterator, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document, path_text
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.schema import Field, Model, walk
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.attachments import ATTACHMENT_MODEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.helm_values import CHART
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import (
    MODELS,
    NETWORK_MODELS,
    POLICY_NAME,
    POOL_MODELS,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models_sriov import (
    NODE_POLICY,
    POOL_CONFIG,
    SRIOV_NETWORK_MODELS,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.settings import SETTINGS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.preflight import preflight
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice
from ansible_collections.rdma.fabric.tests.sweeps import whole
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import (
    MULTUS_CONFIG,
    RDMA_CONFIG,
    SRIOV_CONFIG,
    WHEREABOUTS,
)

Path = tuple[Any, ...]


def _renamed(config: dict[str, Any], items: str) -> str:
    other = copy.deepcopy(config)
    other[items][0]["resourceName"] = "other"
    return json.dumps(other)


RDMA = (json.dumps(RDMA_CONFIG), _renamed(RDMA_CONFIG, "configList"))
SRIOV = (json.dumps(SRIOV_CONFIG), _renamed(SRIOV_CONFIG, "resourceList"))
FUNCTION_POLICY = {"resourceName": "x", "numVfs": 4, "nodeSelector": {}, "nicSelector": {"vendor": "15b3"}}
POOLS = '{"pools": {"a": {"subnet": "10.9.0.0/16", "perNodeBlockSize": 9}}}'
VALUES: dict[str, tuple[Any, Any]] = {
    "image": ("plugin", "other"),
    "repository": ("nvcr.io/nvidia/mellanox", "mirror.local/x"),
    "version": ("v9.9.9", "v9.9.8"),
    "imagePullSecrets[]": ("secret", "other"),
    "containerResources[].limits{}": ("2", "3"),
    "containerResources[].requests{}": ("1", "500m"),
    "ofedDriver.image": ("doca-driver", "mofed"),
    "ofedDriver.version": ("24.07-0.6.1.0-0", "24.10-0.7.0.0-0"),
    "ipamPlugin.version": ("v0.9.4", "v0.8.0"),
    "initialDelaySeconds": (10, 11),
    "mtu": (9000, 1500),
    "podSelector": ("app=x", "app=y"),
    "env[].name": ("HTTP_PROXY", "NO_PROXY"),
    "env[].value": ("x", "y"),
    "safeLoad": (False, True),
    "olerations[].key": ("dedicated", "other"),
    "olerations[].operator": ("Equal", "Gt"),
    "olerations[].value": ("1", "2"),
    "olerations[].effect": ("NoExecute", "NoSchedule"),
    "matchExpressions[].operator": ("In", "NotIn"),
    "matchFields[].operator": ("In", "NotIn"),
    "weight": (1, 2),
    "rdmaSharedDevicePlugin.config": RDMA,
    "devicePlugin.config": RDMA,
    "sriovDevicePlugin.config": SRIOV,
    "multus.config": (json.dumps(MULTUS_CONFIG), json.dumps({**MULTUS_CONFIG, "name": "n"})),
    "ipam": (json.dumps(WHEREABOUTS), json.dumps({**WHEREABOUTS, "range": "10.0.0.0/24"})),
    "metaPlugins": ('{"type": "tuning"}', '{"type": "sbr"}'),
    "networkNamespace": ("hpc", "ai"),
    "master": ("rail0", "rail1"),
    "mode": ("bridge", "vepa"),
    "resourceName": ("hostdev", "other"),
    "doca-driver.version": ("24.07-0.6.1.0-0", "24.10-0.7.0.0-0"),
    "doca-driver.image": ("doca-driver", "mofed"),
    "certConfig.name": ("certificates", "other-certificates"),
    "repoConfig.name": ("repositories", "other-repositories"),
    "driver_source": ("container", "packages"),
    "driver_nodes[].os": ("rhcos", "rhel"),
    "driver_nodes[].runtime": ("containerd", "cri-o"),
    "helm_chart_repository": ("https://a.example", "https://b.example"),
    "helm_chart_version": ("26.1.0", "26.4.0"),
    "cni_bin_dir": ("/opt/a", "/opt/b"),
    "join_taint": ("joining:NoSchedule", "joining:NoExecute"),
    "cni_conf_dir": ("/etc/a", "/etc/b"),
    "kubelet_dir": ("/var/lib/kubelet", "/data/kubelet"),
    "cniBinDirectory": ("/opt/a", "/opt/b"),
    "cniNetworkDirectory": ("/etc/a", "/etc/b"),
    "pKeyGUIDPoolRangeStart": ("02:00:00:00:00:00:00:00", "02:00:00:00:00:00:00:01"),
    "pKeyGUIDPoolRangeEnd": ("02:00:00:00:00:00:00:0f", "02:00:00:00:00:00:00:1F"),
    "nvIpam.config": (POOLS, POOLS.replace("10.9.0.0", "10.8.0.0")),
    "nodeSelectorTerms[].matchFields[].key": ("metadata.name", None),
    "startIndex": (0, 1),
    "endIndex": (6, 5),
    "subnet": ("10.0.0.0/16", "10.0.0.0/15"),
    "cidr": ("10.0.0.0/16", "10.0.0.0/15"),
    "perNodeNetworkPrefix": (24, 25),
    "gateway": ("10.0.0.1", "10.0.0.2"),
    "startIP": ("10.0.0.3", "10.0.0.4"),
    "endIP": ("10.0.0.5", "10.0.0.6"),
    "dst": ("10.2.0.0/16", "10.3.0.0/16"),
    "prefix": ("10.0.0.0/24", "10.0.1.0/24"),
    "config": ('{"type": "macvlan"}', '{"type": "ipvlan"}'),
    "capabilities": ('{"mac": true}', '{"ips": true}'),
    "maxTxRate": (100, 200),
    "vendor": ("15b3", "8086"),
    "deviceID": ("1017", "101b"),
    "rootDevices[]": ("0000:3b:00.0", "0000:3b:00.1"),
    "pfNames[]": ("ens1f0", "ens1f0#0-3"),
    "linkType": ("eth", "ib"),
    "numVfs": (4, 0),
    "eSwitchMode": ("switchdev", "legacy"),
    "externallyManaged": (False, True),
    "maxUnavailable": (1, "50%"),
    "vlanQoS": (6, 7),
    "availableStorageSize": ("1Gi", "2Gi"),
    "configDaemonNodeSelector{}": ("gpu", "cpu"),
}
"""A value and another one, by the end of the path; the longest end counts. Without another one, the item goes."""


def values_of(field: Field, path: str) -> tuple[Any, Any]:
    """Return two values that a scalar may have."""
    ends = [end for end in VALUES if path.endswith(end)]
    if ends:
        return VALUES[max(ends, key=len)]
    plain: dict[str, tuple[Any, Any]] = {
        "flag": (True, False),
        "whole": (7, 8) if field.maximum >= 8 else (field.minimum, field.maximum),
        "quantity": ("1", "2"),
        "text": ("a", "b"),
        "anything": ({"x": 1}, {"x": 2}),
    }
    return (field.choices[0], [*field.choices, None][1]) if field.choices else plain[field.type]


def sample(field: Field, path: str) -> Any:
    """Return a value in which every declared field is set."""
    if field.type == "record":
        fields = {name: child for name, child in (field.fields or {}).items() if not child.refused}
        return {name: sample(child, f"{path}.{name}".lstrip(".")) for name, child in fields.items()}
    if field.type == "series":
        return [sample(field.items, f"{path}[]")] if field.items else [1]
    if field.type == "mapping":
        key = "cpu" if path.endswith(("limits", "requests")) else "nvcr.io"
        return {key: sample(field.items, f"{path}{{}}")} if field.items else {}
    return values_of(field, path)[0]


def leaves(field: Field, value: Any, path: Path = (), pattern: str = "") -> Iterator[tuple[Path, str, Field]]:
    """Yield (path, the same with [] and {} for keys, field) of every scalar of a sample."""
    if field.type == "record":
        for name, item in value.items():
            yield from leaves((field.fields or {})[name], item, (*path, name), f"{pattern}.{name}".lstrip("."))
    elif field.type == "series" and field.items:
        for index, item in enumerate(value):
            yield from leaves(field.items, item, (*path, index), f"{pattern}[]")
    elif field.type == "mapping" and field.items:
        for key, item in value.items():
            yield from leaves(field.items, item, (*path, key), f"{pattern}{{}}")
    else:
        yield path, pattern, field


def replaced(value: Any, path: Path, leaf: Any) -> Any:
    """Return a copy with another value at a path, or without the list item that holds it when there is none."""
    result = copy.deepcopy(value)
    if leaf is None:
        path = path[: max(index for index, key in enumerate(path) if isinstance(key, int))]
    owner = result
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = [] if leaf is None else leaf
    return result


@dataclass(frozen=True)
class Case:
    """One model: ``base`` is a value with every field, ``load`` makes a fabric of it, ``where`` names a path in it.

    ``about`` names the sections that another case of the model does not have, or not in this way: those that a sweep
    which is not whole changes here. None: all.
    """

    name: str
    model: Model
    base: Any
    load: Callable[[Any], Fabric]
    where: Callable[[Path], str]
    about: Sequence[str] | None = None

    def leaves(self) -> Iterator[tuple[Path, str, Field]]:
        """Yield what a sweep changes."""
        for path, pattern, field in leaves(self.model.root, self.base):
            if self.about is None or path[0] in self.about or whole():
                yield path, pattern, field


class Outcome:
    """What becomes of an input: objects, what hosts and those who drain their nodes read of it, and what is said."""

    def __init__(self, fabric: Fabric) -> None:
        spec = fabric.accepted().spec
        requests = [
            {
                **request,
                "driver": {key: value for key, value in (request["driver"] or {}).items() if key != "repository"},
                "peer_memory": request["peer_memory"] is not None,
            }
            for request in spec["host_requests"]
        ]
        rollouts = [{**rollout, "source": ""} for rollout in spec["rollouts"]]
        self.output = (render(spec), requests, rollouts)
        self._fabric = fabric

    @cached_property
    def notices(self) -> list[Notice]:
        """What is said before a host is changed."""
        return [*self._fabric.notices, *preflight(self._fabric.spec)]

    def names(self, case: Case, path: Path) -> bool:
        """Tell whether a notice is about a value, or says that a part of the input that holds it has no effect."""
        holders = [case.where(path[:length]) for length in range(1, len(path))]
        said = [(f"{notice.source.split(':')[0]}: {notice.path}", notice.sentence()) for notice in self.notices]
        return any(
            place == case.where(path) or (place in holders and "no effect" in sentence) for place, sentence in said
        )


CONTAINER: dict[str, Any] = {
    "driver_source": "container",
    "driver_nodes": [{"os": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-41-generic", "arch": "amd64"}],
}
"""Settings with which ``ofedDriver`` asks for the driver's container."""

FILES = [
    Document(
        f"{name}.yaml",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "nvidia-network-operator"},
            "data": {"a": "b"},
        },
    )
    for name in ("certificates", "other-certificates", "repositories", "other-repositories")
]
"""ConfigMaps that the container shows."""


def of_kind(kind: str, *only: str, container: bool = False) -> Case:
    """Return the case of a custom resource; ``only``: with these of its sections alone.

    ``container``: its driver is a container.
    """
    model = MODELS[kind]
    base = sample(model.root, "")
    base = {name: base[name] for name in only or base if name not in ("devicePlugin", "global") or only}
    if "global" in base:
        base["secondaryNetwork"] = {"multus": {}}
    base.pop("vdpaType", None)  # it excludes isRdma
    complete(base)
    return Case(
        f"{kind} {' '.join(only)}{' container' if container else ''}".strip(),
        model,
        base,
        lambda spec: Fabric(
            [resource(kind, POLICY_NAME if kind == "NicClusterPolicy" else "x", spec), *FILES],
            [],
            settings=CONTAINER if container else {},
        ),
        lambda path: f"p.yaml: spec.{path_text(path)}",
    )


def of_vdpa() -> Case:
    """Return the case of a policy about vDPA devices, which takes less than one about other functions."""
    model = MODELS[NODE_POLICY.name]
    base = {
        **FUNCTION_POLICY,
        "nicSelector": {"deviceID": "1017"},
        "vdpaType": "virtio",
        "eSwitchMode": "switchdev",
        "externallyManaged": True,
    }
    return Case(
        f"{model.name} vdpaType",
        model,
        base,
        lambda spec: Fabric([resource(model.name, "x", spec)], []),
        lambda path: f"p.yaml: spec.{path_text(path)}",
    )


def of_operator_config() -> Case:
    """Return the case of the SR-IOV operator's configuration, beside a policy that it is about."""
    kind = "SriovOperatorConfig"
    policy = resource("SriovNetworkNodePolicy", "gpus", FUNCTION_POLICY, "functions.yaml")
    return Case(
        kind,
        MODELS[kind],
        sample(MODELS[kind].root, ""),
        lambda spec: Fabric([resource(kind, "default", spec), policy], []),
        lambda path: f"p.yaml: spec.{path_text(path)}",
    )


def complete(base: Any) -> None:
    """Add what one item of a list can't hold at once: a variable's source of a value, a toleration without an end."""
    sections = [base.get(name) or {} for name in ("ofedDriver", "nicConfigurationOperator")]
    for variables in [section["env"] for section in sections if "env" in section]:
        variables.append({"name": "A", "valueFrom": variables[0].pop("valueFrom")})
    for trunk in [base["trunk"]] if "trunk" in base else []:
        trunk.append({"id": trunk[0].pop("id")})
        trunk[0]["maxID"] = 100
    for name in {"tolerations", "deploymentTolerations"} & set(base):
        base[name].append({"key": "more", "operator": "Exists", "effect": "PreferNoSchedule"})


def of_chart(
    plugin: str, about: Sequence[str] | None = None, *, without_config: bool = False, container: bool = False
) -> Case:
    """Return the case of the chart's values, with everything switched on and one name of the RDMA plugin.

    Without ``config``, as in the charts, the plugins' configuration is made of ``resources``.
    """
    base = sample(CHART.root, "")
    base.pop({"devicePlugin": "rdmaSharedDevicePlugin"}.get(plugin, "devicePlugin"), None)
    for name in (plugin, "sriovDevicePlugin") if without_config else ():
        base[name].pop("config")
    complete(base)
    return Case(
        f"values with {plugin}{' alone' if without_config else ''}{' container' if container else ''}",
        CHART,
        base,
        lambda values: Fabric([*FILES], [], values=values, settings=CONTAINER if container else {}),
        lambda path: f"values.yaml: {path_text(path)}",
        about,
    )


def of_settings(driver_source: str) -> Case:
    """Return the case of the role's variables, beside a policy with every section."""
    secondary: dict[str, Any] = {"multus": {}, "cniPlugins": {}, "ipoib": {}, "ipamPlugin": {}}
    plugins = {"rdmaSharedDevicePlugin": {"config": RDMA[0]}, "sriovDevicePlugin": {"config": SRIOV[0]}, "nvIpam": {}}
    policy = resource("NicClusterPolicy", POLICY_NAME, {"ofedDriver": {}, "secondaryNetwork": secondary, **plugins})
    base = sample(SETTINGS.root, "")
    # Overrides of every image leave nothing to a release.
    del base["image_overrides"]["nv-ipam" if driver_source == "packages" else "rdma-shared-device-plugin"]
    if driver_source == "packages":
        # The default: with the other value it is the other case.
        base.pop("driver_source")
    return Case(
        f"settings {driver_source}",
        SETTINGS,
        base,
        lambda settings: Fabric([policy], [], settings=settings),
        lambda path: f"rdma_fabric_{path[0]}: {path_text(path[1:])}",
    )


def of_attachment() -> Case:
    """Return the case of an attachment given as a variable."""
    return Case(
        "attachment",
        ATTACHMENT_MODEL,
        sample(ATTACHMENT_MODEL.root, ""),
        lambda value: Fabric([], [], variables={"network_attachments": {"ai/net": value}}),
        lambda path: f"rdma_fabric_network_attachments: {path_text(('ai/net', *path))}",
    )


CASES = [
    of_kind("NicClusterPolicy"),
    of_kind("NicClusterPolicy", "devicePlugin"),
    of_kind("NicClusterPolicy", "global"),
    of_kind("NicClusterPolicy", "ofedDriver", "nodeAffinity", "tolerations", "global", container=True),
    of_kind("NicNodePolicy"),
    of_kind("NicNodePolicy", "ofedDriver", "nodeSelector", "tolerations", container=True),
    *(of_kind(kind) for kind in (*NETWORK_MODELS, *POOL_MODELS, NODE_POLICY.name)),
    of_kind(POOL_CONFIG.name, "nodeSelector", "maxUnavailable", "rdmaMode"),
    of_kind(POOL_CONFIG.name, "ovsHardwareOffloadConfig", "rdmaMode"),
    of_vdpa(),
    of_operator_config(),
    of_chart("rdmaSharedDevicePlugin"),
    of_chart("rdmaSharedDevicePlugin", ["ofedDriver", "nodeAffinity", "tolerations"], container=True),
    of_chart("rdmaSharedDevicePlugin", ["rdmaSharedDevicePlugin", "sriovDevicePlugin"], without_config=True),
    of_chart("devicePlugin", ["devicePlugin"]),
    of_settings("packages"),
    of_settings("container"),
    of_attachment(),
]


def is_beside(case: Case, path: Path, place: str) -> bool:
    """Tell whether a place is the owner of a value or another part of it, where the value is held against others."""
    return place != case.where(path) and place.startswith(case.where(path[:-1]).rstrip("."))


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=() if case.name in NETWORK_MODELS else pytest.mark.slow) for case in CASES],
)
def test_every_leaf_has_an_effect_or_is_named(case: Case) -> None:
    silent = []
    before = Outcome(case.load(case.base))
    for path, pattern, field in case.leaves():
        other = values_of(field, pattern)[1]
        changed = case.load(replaced(case.base, path, other))
        if any(is_beside(case, path, found.place()) for found in changed.violations):
            continue
        after = Outcome(changed)
        if before.output == after.output and not before.names(case, path) and not after.names(case, path):
            silent.append(pattern)
    assert silent == []


def test_the_samples_hold_every_field() -> None:
    assert set(MODELS) <= {case.model.name for case in CASES}
    for model in {case.model.name: case.model for case in CASES}.values():
        declared = {f"{owner}.{name}".lstrip(".") for owner, name, field in walk(model.root) if not field.refused}
        shown = set()
        for case in CASES:
            for path, _pattern, _field in leaves(case.model.root, case.base) if case.model is model else ():
                for length in range(1, len(path) + 1):
                    text = path_text(tuple(0 if isinstance(key, int) else key for key in path[:length]))
                    shown.add(text.replace("[0]", "[]"))
        assert declared - shown == set()


@pytest.mark.parametrize("kind", [*MODELS, "NetworkAttachmentDefinition"])
def test_metadata_has_an_effect_or_is_named(kind: str) -> None:
    metadata = {
        "namespace": ("a", "b"),
        "labels": ({"a": "b"}, {"a": "c"}),
        "annotations": ({"a": "b"}, {"a": "c"}),
        "generateName": ("a", "b"),
        "finalizers": (["a/b"], ["a/c"]),
        "ownerReferences": ([{"name": "a"}], [{"name": "b"}]),
    }
    spec: dict[str, Any] = {
        "MacvlanNetwork": {},
        "IPoIBNetwork": {"master": "ib0"},
        "HostDeviceNetwork": {"resourceName": "x"},
        "IPPool": {"subnet": "10.0.0.0/24", "perNodeBlockSize": 8},
        "CIDRPool": {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 24},
        **{network: {"resourceName": "x"} for network in SRIOV_NETWORK_MODELS},
        "SriovNetworkNodePolicy": FUNCTION_POLICY,
        "SriovNetworkPoolConfig": {"rdmaMode": "shared"},
        "SriovOperatorConfig": {"useCDI": True},
    }
    given = spec.get(
        kind, {"config": '{"type": "macvlan"}'} if kind not in MODELS else {"tolerations": [{"operator": "Exists"}]}
    )

    def outcome(**fields: Any) -> Outcome:
        document = resource(kind, "x", given, **fields)
        if kind not in MODELS:
            document.content["apiVersion"] = "k8s.cni.cncf.io/v1"
        return Outcome(Fabric([document], []))

    for name, (one, other) in metadata.items():
        before, after = outcome(**{name: one}), outcome(**{name: other})
        named = [
            notice for notice in after.notices if notice.path == f"metadata.{name}" and "no effect" in notice.problem
        ]
        assert bool(named) is (before.output == after.output), name


def test_placing_of_deployments_is_named_where_there_is_none() -> None:
    policy = {"deploymentTolerations": [{"operator": "Exists"}], "secondaryNetwork": {"multus": {}}}

    def named(nfd: bool) -> list[str]:
        fabric = Fabric([resource("NicClusterPolicy", POLICY_NAME, policy)], [], settings={"nfd": nfd}).accepted()
        return [notice.path for notice in preflight(fabric.spec)]

    assert named(nfd=True) == []
    assert named(nfd=False) == ["spec.deploymentTolerations"]
